/* Options: defaults, then the YAML file, then the command line, into one config.  See options.h. */
#include "options.h"
#include "error.h"
#include "option_value.h"
#include <stdlib.h>
#include <string.h>

/* The command line while it is read. */
struct words {
    const struct mot_option *table;
    void *config;
    int argc;
    char **argv;
    char *given; /* per row: has a value from the file or the command line */
};

static int row_count(const struct mot_option *table)
{
    int n = 0;
    while (table[n].name) { n++; }
    return n;
}

static int row_count_all(const struct mot_option *table)
{
    int n = 0;
    for (; table->name; table++) {
        n += table->type == MOT_OPTION_ROWS ? row_count_all(table->domain) : 1;
    }
    return n;
}

static void append_rows(struct mot_option *flat, const struct mot_option *table, size_t offset)
{
    for (; table->name; table++) {
        if (table->type == MOT_OPTION_ROWS) {
            append_rows(flat, table->domain, offset + table->offset);
        } else if (table->type == MOT_OPTION_DEFAULT) {
            const int at = mot_option_find(flat, table->name, strlen(table->name));
            MOT_ASSERT(at >= 0);
            flat[at].default_text = table->default_text;
        } else {
            struct mot_option *row = &flat[row_count(flat)];
            *row = *table;
            row->offset += offset;
        }
    }
}

struct mot_option *mot_options_flatten(const struct mot_option *table)
{
    struct mot_option *flat = mot_alloc_zeroed((size_t)row_count_all(table) + 1, sizeof(*flat));
    append_rows(flat, table, 0);
    return flat;
}

static const struct mot_option_place command_line = {NULL, 0};

static int is_flag(const char *word)
{
    return strncmp(word, "--", 2) == 0 && word[2] != 0;
}

static int is_named(const char *word, const char *name)
{
    const size_t n = strlen(name);
    return is_flag(word) && strncmp(word + 2, name, n) == 0
           && (word[2 + n] == 0 || word[2 + n] == '=');
}

void mot_list_free(struct mot_list *list)
{
    for (int i = 0; i < list->n; i++) { free(list->item[i]); }
    free(list->item);
    *list = (struct mot_list){NULL, 0};
}

static void list_append(struct mot_list *list, const char *text)
{
    list->item = mot_realloc(list->item, ((size_t)list->n + 1) * sizeof(char *));
    list->item[list->n++] = mot_strdup(text);
}

static void free_values(const struct mot_option *table, void *config)
{
    for (; table->name; table++) {
        void *target = (char *)config + table->offset;
        if (table->type == MOT_OPTION_STRING) {
            free(*(char **)target);
            *(char **)target = NULL;
        } else if (table->type == MOT_OPTION_LIST) {
            mot_list_free(target);
        }
    }
}

void mot_options_free(const struct mot_option *table, void *config)
{
    struct mot_option *flat = mot_options_flatten(table);
    free_values(flat, config);
    free(flat);
}

/* A wrong default is a bug in the table. */
static void set_defaults(const struct mot_option *table, void *config)
{
    static const size_t bytes[] = {[MOT_OPTION_INT] = sizeof(int),
                                   [MOT_OPTION_INT64] = sizeof(long long),
                                   [MOT_OPTION_FLOAT] = sizeof(double),
                                   [MOT_OPTION_BOOL] = sizeof(int),
                                   [MOT_OPTION_STRING] = sizeof(char *),
                                   [MOT_OPTION_CHOICE] = sizeof(int),
                                   [MOT_OPTION_LIST] = sizeof(struct mot_list)};
    for (const struct mot_option *row = table; row->name; row++) {
        memset((char *)config + row->offset, 0, bytes[row->type]);
    }
    for (const struct mot_option *row = table; row->name; row++) {
        if (!row->default_text) { continue; }
        MOT_ASSERT(mot_option_set(row, config, row->default_text, 0, command_line) == 0);
    }
}

/* A value of any type as text, to free. */
static char *value_text(const struct mot_option *row, const void *config)
{
    if (row->type != MOT_OPTION_LIST) { return mot_option_text(row, config); }
    const struct mot_list *list = (const void *)((const char *)config + row->offset);
    char *text = mot_strdup("");
    for (int i = 0; i < list->n; i++) {
        char *longer = mot_format("%s%s%s", text, i > 0 ? " " : "", list->item[i]);
        free(text);
        text = longer;
    }
    return text;
}

static int is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0) { names++; }
    return *names != NULL;
}

char *mot_options_difference(const struct mot_option *table, const void *now, const void *was,
                             const char *const *except)
{
    struct mot_option *flat = mot_options_flatten(table);
    char *sentence = NULL;
    for (const struct mot_option *row = flat; row->name && !sentence; row++) {
        if (is_among(row->name, except)) { continue; }
        char *a = value_text(row, now), *b = value_text(row, was);
        if (strcmp(a, b) != 0) { sentence = mot_format("%s is '%s', was '%s'", row->name, a, b); }
        free(a);
        free(b);
    }
    free(flat);
    return sentence;
}

/* Looks for --help and --config before anything is stored.  1: help is wanted; 0 and *path (NULL:
 * no file); -EINVAL. */
static int find_config(const struct words *words, int first, const char **path)
{
    *path = NULL;
    for (int i = first; i < words->argc && strcmp(words->argv[i], "--") != 0; i++) {
        const char *word = words->argv[i];
        if (is_named(word, "help") || strcmp(word, "-h") == 0) { return 1; }
        if (!is_named(word, "config")) { continue; }
        if (*path) { return mot_fail(EINVAL, "--config: only one file can be given"); }
        *path = strchr(word, '=') ? strchr(word, '=') + 1 : words->argv[i + 1];
        if (!*path || **path == 0 || is_flag(*path)) {
            return mot_fail(EINVAL, "--config: the name of a file is needed");
        }
    }
    return 0;
}

/* The words after a flag without "=": how many are its value.  -EINVAL when none is there. */
static int store_following(struct words *words, const struct mot_option *row, int i)
{
    char **value = words->argv + i + 1;
    int n = 0;
    while (i + 1 + n < words->argc && strncmp(value[n], "--", 2) != 0) { n++; }
    if (row->type == MOT_OPTION_BOOL) {
        const int follows = n > 0 && mot_option_is_bool_text(value[0]);
        return mot_option_set(row, words->config, follows ? value[0] : "true", 0, command_line)
                   ? -EINVAL
                   : follows;
    }
    if (n == 0) {
        return mot_fail(EINVAL, "--%s: a value is needed (one that begins with -- as --%s=VALUE)",
                        row->name, row->name);
    }
    if (row->type == MOT_OPTION_LIST && n > 1) {
        const int status = mot_option_set_items(row, words->config, value, n, command_line);
        return status ? status : n;
    }
    const int status = mot_option_set(row, words->config, value[0], 0, command_line);
    return status ? status : 1;
}

static int unknown_flag(const struct words *words, const char *word)
{
    const int length = (int)strcspn(word, "=");
    char *name = mot_format("%.*s", length - 2, word + 2);
    char *suggestion = mot_option_suggestion(words->table, name, 1);
    const int status =
        mot_fail(EINVAL, "unknown option --%.80s%s (--help lists all)", name, suggestion);
    free(suggestion);
    free(name);
    return status;
}

/* One flag at argv[i]: how many words after it are its value, or -EINVAL. */
static int store_flag(struct words *words, int i)
{
    const char *word = words->argv[i];
    const char *equals = strchr(word, '=');
    const size_t length = equals ? (size_t)(equals - word) - 2 : strlen(word) - 2;
    if (is_named(word, "config")) { return equals ? 0 : 1; }
    const int row = mot_option_find(words->table, word + 2, length);
    if (row >= 0) {
        words->given[row] = 1;
        if (!equals) { return store_following(words, &words->table[row], i); }
        return mot_option_set(&words->table[row], words->config, equals + 1, 0, command_line);
    }
    const int negated =
        !equals && length > 3 && strncmp(word + 2, "no", 2) == 0 && strchr("-_", word[4]);
    const int plain_row = negated ? mot_option_find(words->table, word + 5, length - 3) : -1;
    if (plain_row >= 0 && words->table[plain_row].type == MOT_OPTION_BOOL) {
        words->given[plain_row] = 1;
        return mot_option_set(&words->table[plain_row], words->config, "false", 0, command_line);
    }
    return unknown_flag(words, word);
}

static int store_words(struct words *words, int first, struct mot_list *positional)
{
    int only_positional = 0;
    for (int i = first; i < words->argc; i++) {
        const char *word = words->argv[i];
        if (!only_positional && strcmp(word, "--") == 0) {
            only_positional = 1;
        } else if (!only_positional && is_flag(word)) {
            const int used = store_flag(words, i);
            if (used < 0) { return used; }
            i += used;
        } else if (!only_positional && word[0] == '-' && word[1] != 0) {
            return mot_fail(EINVAL,
                            "unknown option %.80s: options begin with -- (--help lists all)", word);
        } else if (positional) {
            list_append(positional, word);
        } else {
            return mot_fail(EINVAL, "'%.80s' does not belong to an option (--help lists them)",
                            word);
        }
    }
    return 0;
}

static int check_given(const struct words *words)
{
    for (int i = 0; words->table[i].name; i++) {
        if (!words->table[i].default_text && !words->given[i]) {
            return mot_fail(EINVAL, "--%s is needed (--help says what it is)",
                            words->table[i].name);
        }
    }
    return 0;
}

int mot_options_parse(const struct mot_option *table, void *config, int argc, char **argv,
                      int first, struct mot_list *positional, const char *usage)
{
    struct mot_option *flat = mot_options_flatten(table);
    struct words words = {flat, config, argc, argv,
                          mot_alloc_zeroed((size_t)row_count(flat) + 1, 1)};
    if (positional) { *positional = (struct mot_list){NULL, 0}; }
    set_defaults(flat, config);

    const char *path;
    int status = find_config(&words, first, &path);
    if (status == 1) { mot_options_print_help(flat, usage, stdout); }
    if (status == 0 && path) { status = mot_options_read_yaml(flat, config, path, words.given); }
    if (status == 0) { status = store_words(&words, first, positional); }
    if (status == 0) { status = check_given(&words); }
    if (status != 0) {
        free_values(flat, config);
        if (positional) { mot_list_free(positional); }
    }
    free(words.given);
    free(flat);
    return status;
}
