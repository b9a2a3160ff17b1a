/* One option's value: parsed strictly, limits checked, written back.  See option_value.h.
 * Numbers have a grammar of our own before strtod and strtoll see them: those also read
 * hexadecimal, "inf", leading blanks and a number followed by anything. */
#include "option_value.h"
#include "error.h"
#include "utf8.h"
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* "file:line: name: ..." or "--name: ...". */
static int fail(const struct mot_option *row, struct mot_option_place place, const char *format,
                ...) __attribute__((format(printf, 3, 4), cold));
static int fail(const struct mot_option *row, struct mot_option_place place, const char *format,
                ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (place.file) {
        return mot_fail(EINVAL, "%s:%d: %s: %s", place.file, place.line, row->name, text);
    }
    return mot_fail(EINVAL, "--%s: %s", row->name, text);
}

static char fold(char c)
{
    return c == '-' ? '_' : c;
}

int mot_option_find(const struct mot_option *table, const char *name, size_t length)
{
    for (int i = 0; table[i].name; i++) {
        size_t k = 0;
        while (k < length && table[i].name[k] && fold(table[i].name[k]) == fold(name[k])) { k++; }
        if (k == length && table[i].name[k] == 0) { return i; }
    }
    return -1;
}

char *mot_option_suggestion(const struct mot_option *table, const char *name, int is_flag)
{
    int n = 0;
    while (table[n].name) { n++; }
    const char **names = mot_alloc_zeroed((size_t)n + 3, sizeof(*names));
    for (int i = 0; i < n; i++) { names[i] = table[i].name; }
    if (is_flag) {
        names[n] = "config";
        names[n + 1] = "help";
    }
    const char *near = mot_nearest_name(name, names);
    char *text = near ? mot_format("; did you mean %s?", near) : mot_strdup("");
    free(names);
    return text;
}

/* [+-]digits, without leading zeros (YAML would read those as octal); 0 or -1. */
static int parse_integer(const char *text, int64_t *value)
{
    const char *c = text + (*text == '+' || *text == '-');
    if (!isdigit((unsigned char)*c) || (c[0] == '0' && c[1] != 0)) { return -1; }
    while (isdigit((unsigned char)*c)) { c++; }
    errno = 0;
    const long long number = strtoll(text, NULL, 10);
    if (*c || errno) { return -1; }
    *value = number;
    return 0;
}

/* [+-]digits[.digits][e[+-]digits] with a digit before or after the point; 0 or -1. */
static int parse_number(const char *text, double *value)
{
    const char *c = text + (*text == '+' || *text == '-');
    int digits = 0;
    for (; isdigit((unsigned char)*c); c++) { digits++; }
    if (*c == '.') {
        for (c++; isdigit((unsigned char)*c); c++) { digits++; }
    }
    if (digits == 0) { return -1; }
    if (*c == 'e' || *c == 'E') {
        c += 1 + (c[1] == '+' || c[1] == '-');
        if (!isdigit((unsigned char)*c)) { return -1; }
        while (isdigit((unsigned char)*c)) { c++; }
    }
    const double number = strtod(text, NULL);
    if (*c || !isfinite(number)) { return -1; }
    *value = number;
    return 0;
}

/* 1 true, 0 false, -1 neither.  The words of YAML 1.1, in any case. */
static int bool_of(const char *text)
{
    static const char *const words[2][4] = {{"false", "no", "off", "0"},
                                            {"true", "yes", "on", "1"}};
    for (int value = 0; value < 2; value++) {
        for (int i = 0; i < 4; i++) {
            if (strcasecmp(text, words[value][i]) == 0) { return value; }
        }
    }
    return -1;
}

int mot_option_is_bool_text(const char *text)
{
    return bool_of(text) >= 0;
}

static int is_null(const char *text)
{
    return *text == 0 || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0;
}

static int out_of_limits(const struct mot_option *row, double value)
{
    return (row->min != 0.0 || row->max != 0.0) && !(value >= row->min && value <= row->max);
}

char *mot_option_limits(const struct mot_option *row)
{
    const char *unit = row->unit ? row->unit : "";
    const char *space = row->unit ? " " : "";
    const int limited = row->min != 0.0 || row->max != 0.0;
    const int from = limited && row->min > -0x1p62;
    const int to = limited && row->max < 0x1p30;
    if (from && to) { return mot_format("%.10g to %.10g%s%s", row->min, row->max, space, unit); }
    if (from) { return mot_format("at least %.10g%s%s", row->min, space, unit); }
    if (to) { return mot_format("at most %.10g%s%s", row->max, space, unit); }
    return mot_strdup(unit);
}

/* The words quoted in a message are cut: a hostile file may hold megabytes. */
#define SHOWN      "'%.60s%s'"
#define SHOW(text) (text), strlen(text) > 60 ? "..." : ""

static int fail_number(const struct mot_option *row, const char *text,
                       struct mot_option_place place)
{
    const int whole = row->type != MOT_OPTION_FLOAT;
    char *limits = mot_option_limits(row);
    const int status =
        fail(row, place, SHOWN " is not a %s%s%s%s", SHOW(text), whole ? "whole number" : "number",
             *limits ? " (" : "", limits, *limits ? ")" : "");
    free(limits);
    return status;
}

static int fail_limits(const struct mot_option *row, const char *text,
                       struct mot_option_place place)
{
    char *limits = mot_option_limits(row);
    const int status =
        fail(row, place, SHOWN " is out of range%s%s", SHOW(text), *limits ? ": " : "", limits);
    free(limits);
    return status;
}

static int set_integer(const struct mot_option *row, char *target, const char *text,
                       struct mot_option_place place)
{
    int64_t value;
    if (parse_integer(text, &value)) { return fail_number(row, text, place); }
    const int too_large = row->type == MOT_OPTION_INT && (value < INT_MIN || value > INT_MAX);
    if (too_large || out_of_limits(row, (double)value)) { return fail_limits(row, text, place); }
    if (row->type == MOT_OPTION_INT) {
        *(int *)target = (int)value;
    } else {
        *(int64_t *)target = value;
    }
    return 0;
}

static int set_float(const struct mot_option *row, char *target, const char *text,
                     struct mot_option_place place)
{
    const int may_be_none = row->default_text && strcasecmp(row->default_text, "none") == 0;
    double value = NAN;
    const int none = strcasecmp(text, "none") == 0 || is_null(text);
    if (!(may_be_none && none)) {
        if (parse_number(text, &value)) { return fail_number(row, text, place); }
        if (out_of_limits(row, value)) { return fail_limits(row, text, place); }
    }
    *(double *)target = value;
    return 0;
}

char *mot_option_choice(const char *choices, int i)
{
    while (i-- > 0) {
        choices = strchr(choices, '|');
        if (!choices) { return NULL; }
        choices++;
    }
    return mot_format("%.*s", (int)strcspn(choices, "|="), choices);
}

/* Index of the choice that is spelled so, or -1. */
static int choice_of(const char *choices, const char *text)
{
    const size_t n = strlen(text);
    int index = 0;
    for (const char *c = choices;; c++) {
        const size_t length = strcspn(c, "|=");
        if (length == n && strncasecmp(c, text, n) == 0) { return index; }
        c += length;
        if (*c == 0) { return -1; }
        index += *c == '|';
    }
}

static int set_choice(const struct mot_option *row, char *target, const char *text,
                      struct mot_option_place place)
{
    int index = choice_of(row->domain, text);
    if (index < 0 && is_null(text)) { index = choice_of(row->domain, "none"); }
    if (index >= 0) {
        *(int *)target = index;
        return 0;
    }
    char known[512] = "";
    for (int i = 0;; i++) {
        char *choice = mot_option_choice(row->domain, i);
        if (!choice) { break; }
        const size_t n = strlen(known);
        snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "", choice);
        free(choice);
    }
    return fail(row, place, SHOWN " is not one of: %s", SHOW(text), known);
}

/* The YAML we write must be UTF-8. */
static int is_utf8(const char *text)
{
    return mot_utf8_is_valid(text, strlen(text));
}

static int set_string(const struct mot_option *row, char *target, const char *text, int plain,
                      struct mot_option_place place)
{
    char **string = (char **)target;
    if (!is_utf8(text)) { return fail(row, place, "the text is not UTF-8"); }
    const int empty = *text == 0 || (plain && is_null(text));
    if (empty && !row->default_text) { return fail(row, place, "a text is needed"); }
    free(*string);
    *string = empty ? NULL : mot_strdup(text);
    return 0;
}

int mot_option_set_items(const struct mot_option *row, void *config, char **items, int n,
                         struct mot_option_place place)
{
    MOT_ASSERT(n >= 0);
    for (int i = 0; i < n; i++) {
        if (!is_utf8(items[i])) { return fail(row, place, "the text is not UTF-8"); }
    }
    if (n == 0 && !row->default_text) { return fail(row, place, "at least one item is needed"); }
    struct mot_list *list = (struct mot_list *)((char *)config + row->offset);
    struct mot_list copy = {n ? mot_alloc_zeroed((size_t)n, sizeof(char *)) : NULL, n};
    for (int i = 0; i < n; i++) { copy.item[i] = mot_strdup(items[i]); }
    mot_list_free(list);
    *list = copy;
    return 0;
}

/* The end of the item that starts at text: the next comma outside brackets, after the closing quote
 * where the item is quoted. */
static const char *item_end(const char *text)
{
    text += strspn(text, " ");
    const char *closing = *text == '"' || *text == '\'' ? strchr(text + 1, *text) : NULL;
    int depth = 0;
    for (text = closing ? closing : text; *text; text++) {
        if (strchr("([{", *text)) { depth++; }
        if (strchr(")]}", *text)) { depth--; }
        if (*text == ',' && depth <= 0) { break; }
    }
    return text;
}

/* from..to without blanks around it. */
static char *trimmed(const char *from, const char *to)
{
    while (from < to && isspace((unsigned char)*from)) { from++; }
    while (from < to && isspace((unsigned char)to[-1])) { to--; }
    return mot_format("%.*s", (int)(to - from), from);
}

/* The item without blanks and, where it is quoted as a whole, without its quotes. */
static char *item_text(const char *from, const char *to)
{
    char *text = trimmed(from, to);
    const size_t n = strlen(text);
    if (n >= 2 && (*text == '"' || *text == '\'') && strchr(text + 1, *text) == text + n - 1) {
        text[n - 1] = 0;
        memmove(text, text + 1, n - 1);
    }
    return text;
}

/* "a,b" or "[a, b]"; an empty text or [] is the empty list. */
static int set_list(const struct mot_option *row, void *config, const char *text, int plain,
                    struct mot_option_place place)
{
    char *inside = trimmed(text, text + strlen(text));
    const size_t n = strlen(inside);
    if (n >= 2 && inside[0] == '[' && inside[n - 1] == ']') {
        inside[n - 1] = 0;
        memmove(inside, inside + 1, n - 1);
    }
    struct mot_list list = {NULL, 0};
    const char *from = inside + strspn(inside, " ");
    while (*from && !(plain && is_null(inside))) {
        const char *to = item_end(from);
        list.item = mot_realloc(list.item, ((size_t)list.n + 1) * sizeof(char *));
        list.item[list.n++] = item_text(from, to);
        from = *to ? to + 1 : to;
    }
    const int status = mot_option_set_items(row, config, list.item, list.n, place);
    mot_list_free(&list);
    free(inside);
    return status;
}

int mot_option_set(const struct mot_option *row, void *config, const char *text, int plain,
                   struct mot_option_place place)
{
    char *target = (char *)config + row->offset;
    const int number = row->type == MOT_OPTION_INT || row->type == MOT_OPTION_INT64
                       || row->type == MOT_OPTION_FLOAT;
    if (number && plain && *text && is_null(text) && row->default_text) {
        text = row->default_text;
    }
    switch (row->type) {
    case MOT_OPTION_INT:
    case MOT_OPTION_INT64:
        return set_integer(row, target, text, place);
    case MOT_OPTION_FLOAT:
        return set_float(row, target, text, place);
    case MOT_OPTION_STRING:
        return set_string(row, target, text, plain, place);
    case MOT_OPTION_CHOICE:
        return set_choice(row, target, text, place);
    case MOT_OPTION_LIST:
        return set_list(row, config, text, plain, place);
    default:
        break;
    }
    const int value = bool_of(text);
    if (value < 0) { return fail(row, place, SHOWN " is not true or false", SHOW(text)); }
    *(int *)target = value;
    return 0;
}

/* The shortest decimal text that reads back as the same number; with a point before an exponent, as
 * YAML 1.1 readers want it to be a number. */
static char *number_text(double value)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) { break; }
    }
    const char *e = strchr(text, 'e');
    if (!e || strchr(text, '.')) { return mot_strdup(text); }
    return mot_format("%.*s.0%s", (int)(e - text), text, e);
}

char *mot_option_text(const struct mot_option *row, const void *config)
{
    const char *source = (const char *)config + row->offset;
    switch (row->type) {
    case MOT_OPTION_INT:
        return mot_format("%d", *(const int *)source);
    case MOT_OPTION_INT64:
        return mot_format("%lld", (long long)*(const int64_t *)source);
    case MOT_OPTION_BOOL:
        return mot_strdup(*(const int *)source ? "true" : "false");
    case MOT_OPTION_CHOICE:
        return mot_option_choice(row->domain, *(const int *)source);
    case MOT_OPTION_STRING: {
        const char *text = *(char *const *)source;
        return mot_strdup(text ? text : "");
    }
    case MOT_OPTION_FLOAT: {
        const double value = *(const double *)source;
        return isnan(value) ? mot_strdup("none") : number_text(value);
    }
    default:
        break;
    }
    MOT_ASSERT(!"a list has no single text");
    return NULL;
}
