/* json_lines: walks the parsed values and the text side by side, both in the order of the text
 * (jansson's objects keep it), and remembers for each value the line it began on. */
#include "json_lines.h"
#include "error.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    const json_t *value;
    int line;
};

struct mot_json_lines {
    struct entry *entry; /* by value */
    size_t n, capacity;
    const char *at, *end; /* while walking */
    int line;
};

/* To the next byte that is neither white space nor one of ",:]}". */
static void skip_between(struct mot_json_lines *w)
{
    while (w->at < w->end && *w->at && strchr(" \t\r\n,:]}", *w->at)) {
        w->line += *w->at == '\n';
        w->at++;
    }
}

static void skip_string(struct mot_json_lines *w)
{
    w->at++;
    while (w->at < w->end && *w->at != '"') {
        w->at += *w->at == '\\' && w->at + 1 < w->end ? 2 : 1;
    }
    w->at += w->at < w->end;
}

static void walk(struct mot_json_lines *w, const json_t *value)
{
    skip_between(w);
    if (!(json_is_true(value) || json_is_false(value) || json_is_null(value))) { /* shared */
        if (w->n == w->capacity) {
            w->capacity = 2 * w->capacity + 64;
            w->entry = mot_realloc(w->entry, w->capacity * sizeof(*w->entry));
        }
        w->entry[w->n++] = (struct entry){value, w->line};
    }
    if (json_is_object(value)) {
        w->at++;
        for (void *i = json_object_iter((json_t *)value); i;
             i = json_object_iter_next((json_t *)value, i)) {
            skip_between(w);
            skip_string(w);
            walk(w, json_object_iter_value(i));
        }
    } else if (json_is_array(value)) {
        w->at++;
        for (size_t i = 0; i < json_array_size(value); i++) { walk(w, json_array_get(value, i)); }
    } else if (json_is_string(value)) {
        skip_string(w);
    } else {
        while (w->at < w->end && !strchr(" \t\r\n,:]}", *w->at)) { w->at++; }
    }
}

static int compare_entries(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)((const struct entry *)a)->value;
    const uintptr_t y = (uintptr_t)((const struct entry *)b)->value;
    return (x > y) - (x < y);
}

struct mot_json_lines *mot_json_lines_create(const json_t *root, const char *bytes, size_t n)
{
    struct mot_json_lines *lines = mot_alloc_zeroed(1, sizeof(*lines));
    lines->at = bytes;
    lines->end = bytes + n;
    lines->line = 1;
    walk(lines, root);
    qsort(lines->entry, lines->n, sizeof(*lines->entry), compare_entries);
    return lines;
}

void mot_json_lines_destroy(struct mot_json_lines *lines)
{
    if (lines) { free(lines->entry); }
    free(lines);
}

int mot_json_lines_find(const struct mot_json_lines *lines, const json_t *value)
{
    const struct entry wanted = {value, 0};
    const struct entry *found =
        lines->n ? bsearch(&wanted, lines->entry, lines->n, sizeof(wanted), compare_entries) : NULL;
    return found ? found->line : 0;
}
