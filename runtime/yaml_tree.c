/* yaml_tree: libyaml's events into a tree.  See yaml_tree.h. */
#include "yaml_tree.h"
#include "error.h"
#include "nearest_name.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 32 };

struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    char *file;
};

static int fail_at(const struct reader *r, const char *what)
{
    return mot_fail(EINVAL, "%s:%zu: %s", r->file, r->event.start_mark.line + 1, what);
}

/* The next event, checked for what is not read. */
static int next(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event)) {
        const size_t line =
            r->parser.problem_mark.line ? r->parser.problem_mark.line : r->parser.context_mark.line;
        memset(&r->event, 0, sizeof(r->event));
        return mot_fail(EINVAL, "%s:%zu: %s", r->file, line + 1,
                        r->parser.problem ? r->parser.problem : "this is not YAML");
    }
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (r->event.type) {
    case YAML_ALIAS_EVENT:
        return fail_at(r, "aliases (*name) are not read");
    case YAML_SCALAR_EVENT:
        anchor = r->event.data.scalar.anchor;
        tag = r->event.data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = r->event.data.sequence_start.anchor;
        tag = r->event.data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = r->event.data.mapping_start.anchor;
        tag = r->event.data.mapping_start.tag;
        break;
    default:
        break;
    }
    if (anchor) { return fail_at(r, "anchors (&name) are not read"); }
    return tag ? fail_at(r, "tags (!name) are not read") : 0;
}

static struct mot_yaml *node_here(const struct reader *r, enum mot_yaml_kind kind)
{
    struct mot_yaml *node = mot_alloc_zeroed(1, sizeof(*node));
    node->kind = kind;
    node->file = r->file;
    node->line = (int)r->event.start_mark.line + 1;
    return node;
}

static void append(struct mot_yaml *parent, struct mot_yaml *child)
{
    const size_t n = (size_t)parent->n + 1;
    parent->items = mot_realloc(parent->items, n * sizeof(struct mot_yaml *));
    parent->items[parent->n++] = child;
}

static void free_node(struct mot_yaml *node)
{
    if (node == NULL) { return; }
    for (int i = 0; i < node->n; i++) { free_node(node->items[i]); }
    free(node->items);
    free((char *)node->key);
    free(node->text);
    free(node);
}

static int read_node(struct reader *r, int depth, struct mot_yaml **node);

static int read_list(struct reader *r, int depth, struct mot_yaml *list)
{
    for (;;) {
        int error = next(r);
        if (error || r->event.type == YAML_SEQUENCE_END_EVENT) { return error; }
        struct mot_yaml *item = NULL;
        error = read_node(r, depth, &item);
        if (error) { return error; }
        append(list, item);
    }
}

static int read_map(struct reader *r, int depth, struct mot_yaml *map)
{
    for (;;) {
        int error = next(r);
        if (error || r->event.type == YAML_MAPPING_END_EVENT) { return error; }
        if (r->event.type != YAML_SCALAR_EVENT || r->event.data.scalar.length == 0) {
            return fail_at(r, "a name was expected here");
        }
        const char *key = (const char *)r->event.data.scalar.value;
        for (int i = 0; i < map->n; i++) {
            if (strcmp(map->items[i]->key, key) == 0) {
                return mot_fail(EINVAL, "%s:%zu: '%s' is there twice, first in line %d", r->file,
                                r->event.start_mark.line + 1, key, map->items[i]->line);
            }
        }
        char *kept = mot_strdup(key);
        struct mot_yaml *value = NULL;
        error = next(r);
        if (!error) { error = read_node(r, depth, &value); }
        if (error) {
            free(kept);
            return error;
        }
        value->key = kept;
        append(map, value);
    }
}

/* The node whose first event is the current one. */
static int read_node(struct reader *r, int depth, struct mot_yaml **node)
{
    if (depth == DEPTH_MAX) { return fail_at(r, "too many levels"); }
    struct mot_yaml *made = NULL;
    int error = 0;
    switch (r->event.type) {
    case YAML_SCALAR_EVENT: {
        const size_t length = r->event.data.scalar.length;
        const char *text = (const char *)r->event.data.scalar.value;
        if (strlen(text) != length) { return fail_at(r, "a text holds a zero byte"); }
        made = node_here(r, MOT_YAML_SCALAR);
        made->text = mot_strdup(text);
        made->is_quoted = r->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        break;
    }
    case YAML_SEQUENCE_START_EVENT:
        made = node_here(r, MOT_YAML_LIST);
        error = read_list(r, depth + 1, made);
        break;
    case YAML_MAPPING_START_EVENT:
        made = node_here(r, MOT_YAML_MAP);
        error = read_map(r, depth + 1, made);
        break;
    default:
        return fail_at(r, "a value was expected here");
    }
    if (error) {
        free_node(made);
        return error;
    }
    *node = made;
    return 0;
}

static int expect(struct reader *r, yaml_event_type_t type, const char *what)
{
    const int error = next(r);
    if (error) { return error; }
    return r->event.type == type ? 0 : fail_at(r, what);
}

static int read_document(struct reader *r, struct mot_yaml **root)
{
    int error = expect(r, YAML_STREAM_START_EVENT, "this is not YAML");
    if (!error) { error = expect(r, YAML_DOCUMENT_START_EVENT, "the file is empty"); }
    if (!error) { error = expect(r, YAML_MAPPING_START_EVENT, "'name: value' was expected here"); }
    struct mot_yaml *made = NULL;
    if (!error) { error = read_node(r, 0, &made); }
    if (!error) { error = expect(r, YAML_DOCUMENT_END_EVENT, "the document should end here"); }
    if (!error) { error = expect(r, YAML_STREAM_END_EVENT, "one document was expected"); }
    if (error) {
        free_node(made);
        return error;
    }
    *root = made;
    return 0;
}

int mot_yaml_load(const char *path, struct mot_yaml **root)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) { return mot_fail(errno, "%s: %s", path, strerror(errno)); }
    struct reader r = {.file = mot_strdup(path)};
    MOT_ASSERT(yaml_parser_initialize(&r.parser));
    yaml_parser_set_input_file(&r.parser, file);
    const int error = read_document(&r, root);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    fclose(file);
    if (error) { free(r.file); }
    return error;
}

void mot_yaml_free(struct mot_yaml *root)
{
    if (root == NULL) { return; }
    free((char *)root->file);
    free_node(root);
}

/* ---- Reading the tree ------------------------------------------------------------------------ */

int mot_yaml_fail(const struct mot_yaml *node, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return mot_fail(EINVAL, "%s:%d: %s", node->file, node->line, text);
}

struct mot_yaml *mot_yaml_find(struct mot_yaml *map, const char *key)
{
    MOT_ASSERT(map->kind == MOT_YAML_MAP);
    for (int i = 0; i < map->n; i++) {
        if (strcmp(map->items[i]->key, key) != 0) { continue; }
        map->items[i]->is_read = 1;
        return map->items[i];
    }
    return NULL;
}

static const char *const kind_names[] = {"a value", "a list", "a mapping"};

int mot_yaml_get(struct mot_yaml *map, const char *key, enum mot_yaml_kind kind, int required,
                 struct mot_yaml **value)
{
    struct mot_yaml *found = mot_yaml_find(map, key);
    if (found == NULL && required) { return mot_yaml_fail(map, "'%s' is missing", key); }
    if (found != NULL && found->kind != kind) {
        return mot_yaml_fail(found, "%s: %s was expected", key, kind_names[kind]);
    }
    *value = found;
    return 0;
}

static const char *name_of(const struct mot_yaml *scalar)
{
    return scalar->key ? scalar->key : "value";
}

int mot_yaml_value(struct mot_yaml *scalar, double min, double max, double *value)
{
    if (scalar->kind != MOT_YAML_SCALAR) {
        return mot_yaml_fail(scalar, "%s: a number was expected", name_of(scalar));
    }
    char *end;
    errno = 0;
    const double number = strtod(scalar->text, &end);
    if (scalar->is_quoted || end == scalar->text || *end || !isfinite(number)
        || strpbrk(scalar->text, "xXpP ")) {
        return mot_yaml_fail(scalar, "%s: '%s' is no number", name_of(scalar), scalar->text);
    }
    if (!(number >= min && number <= max)) {
        return mot_yaml_fail(scalar, "%s: %s is not in %g .. %g", name_of(scalar), scalar->text,
                             min, max);
    }
    *value = number;
    return 0;
}

int mot_yaml_number(struct mot_yaml *map, const char *key, double min, double max,
                    const double *fallback, double *value)
{
    struct mot_yaml *found = NULL;
    const int error = mot_yaml_get(map, key, MOT_YAML_SCALAR, fallback == NULL, &found);
    if (error) { return error; }
    if (found != NULL) { return mot_yaml_value(found, min, max, value); }
    *value = *fallback;
    return 0;
}

int mot_yaml_int(struct mot_yaml *map, const char *key, int min, int max, const int *fallback,
                 int *value)
{
    struct mot_yaml *found = NULL;
    int error = mot_yaml_get(map, key, MOT_YAML_SCALAR, fallback == NULL, &found);
    if (error) { return error; }
    if (found == NULL) {
        *value = *fallback;
        return 0;
    }
    double number;
    error = mot_yaml_value(found, min, max, &number);
    if (error) { return error; }
    if (number != floor(number)) {
        return mot_yaml_fail(found, "%s: '%s' is no whole number", key, found->text);
    }
    *value = (int)number;
    return 0;
}

int mot_yaml_bool(struct mot_yaml *map, const char *key, int fallback, int *value)
{
    struct mot_yaml *found = NULL;
    const int error = mot_yaml_get(map, key, MOT_YAML_SCALAR, 0, &found);
    if (error) { return error; }
    if (found == NULL) {
        *value = fallback;
    } else if (strcmp(found->text, "true") == 0) {
        *value = 1;
    } else if (strcmp(found->text, "false") == 0) {
        *value = 0;
    } else {
        return mot_yaml_fail(found, "%s: '%s' is neither true nor false", key, found->text);
    }
    return 0;
}

int mot_yaml_text(struct mot_yaml *map, const char *key, int required, const char **value)
{
    struct mot_yaml *found = NULL;
    const int error = mot_yaml_get(map, key, MOT_YAML_SCALAR, required, &found);
    if (error) { return error; }
    if (found != NULL && found->text[0] == '\0') {
        return mot_yaml_fail(found, "%s: a text was expected", key);
    }
    *value = found ? found->text : NULL;
    return 0;
}

int mot_yaml_finish(const struct mot_yaml *map, const char *const *known)
{
    for (int i = 0; i < map->n; i++) {
        const struct mot_yaml *value = map->items[i];
        if (value->is_read) { continue; }
        const char *near = mot_nearest_name(value->key, known);
        return mot_yaml_fail(value, "unknown name '%s'%s%s%s", value->key,
                             near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return 0;
}
