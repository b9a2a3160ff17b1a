/* The YAML file of --config, read event by event straight into the option table, and the config
 * written back.  One mapping of scalars and of sequences of scalars is all we take: nested
 * mappings, anchors, aliases, tags and duplicate keys are errors, each with its line.  See
 * options.h. */
#include "error.h"
#include "file.h"
#include "option_value.h"
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { FILE_BYTES_MAX = 1 << 20 };

struct reader {
    const struct mot_option *table;
    void *config;
    const char *path;
    char *given; /* per row */
    yaml_parser_t parser;
    yaml_event_t event; /* the last one; empty when there is none */
};

static int line_of(const yaml_mark_t *mark)
{
    return (int)mark->line + 1;
}

/* Where the last event began. */
static struct mot_option_place here(const struct reader *reader)
{
    return (struct mot_option_place){reader->path, line_of(&reader->event.start_mark)};
}

static int fail_here(const struct reader *reader, const char *what)
{
    return mot_fail(EINVAL, "%s:%d: %s", reader->path, here(reader).line, what);
}

/* The next event into reader->event.  Refuses what no part of a config may be. */
static int next(struct reader *reader)
{
    yaml_event_delete(&reader->event);
    yaml_parser_t *parser = &reader->parser;
    if (!yaml_parser_parse(parser, &reader->event)) {
        memset(&reader->event, 0, sizeof(reader->event));
        const int read_error = parser->error == YAML_READER_ERROR;
        return mot_fail(EINVAL, "%s:%d: not YAML: %s", reader->path,
                        line_of(read_error ? &parser->mark : &parser->problem_mark),
                        parser->problem ? parser->problem : "cannot be parsed");
    }
    const yaml_event_t *event = &reader->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return fail_here(reader, "aliases (*name) are not read; write the value");
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        if (strlen((char *)event->data.scalar.value) != event->data.scalar.length) {
            return fail_here(reader, "a text holds a zero byte");
        }
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default:
        break;
    }
    if (anchor) { return fail_here(reader, "anchors (&name) are not read"); }
    return tag ? fail_here(reader, "tags (!name) are not read") : 0;
}

static const char *scalar_text(const struct reader *reader)
{
    return (const char *)reader->event.data.scalar.value;
}

/* The items of a sequence whose start was the last event. */
static int read_items(struct reader *reader, struct mot_list *list)
{
    for (;;) {
        const int status = next(reader);
        if (status || reader->event.type == YAML_SEQUENCE_END_EVENT) { return status; }
        if (reader->event.type != YAML_SCALAR_EVENT) {
            return fail_here(reader, "an item of a list must be a number or a text");
        }
        list->item = mot_realloc(list->item, ((size_t)list->n + 1) * sizeof(char *));
        list->item[list->n++] = mot_strdup(scalar_text(reader));
    }
}

/* The value of row; the last event was its key. */
static int read_value(struct reader *reader, const struct mot_option *row)
{
    int status = next(reader);
    if (status) { return status; }
    const struct mot_option_place place = here(reader);
    if (reader->event.type == YAML_SCALAR_EVENT) {
        const int plain = reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        return mot_option_set(row, reader->config, scalar_text(reader), plain, place);
    }
    if (reader->event.type == YAML_MAPPING_START_EVENT) {
        return mot_fail(EINVAL, "%s:%d: %s: a mapping inside a mapping is not read", place.file,
                        place.line, row->name);
    }
    if (row->type != MOT_OPTION_LIST) {
        return mot_fail(EINVAL, "%s:%d: %s: one value is needed, not a list", place.file,
                        place.line, row->name);
    }
    struct mot_list list = {NULL, 0};
    status = read_items(reader, &list);
    if (!status) { status = mot_option_set_items(row, reader->config, list.item, list.n, place); }
    mot_list_free(&list);
    return status;
}

/* The row of the key that was the last event, each at most once; negative: an error. */
static int find_key(struct reader *reader)
{
    if (reader->event.type != YAML_SCALAR_EVENT) {
        return fail_here(reader, "a name is needed here");
    }
    const char *key = scalar_text(reader);
    const int row = mot_option_find(reader->table, key, strlen(key));
    if (row < 0) {
        char *suggestion = mot_option_suggestion(reader->table, key, 0);
        const int status = mot_fail(EINVAL, "%s:%d: unknown option %.80s%s", reader->path,
                                    here(reader).line, key, suggestion);
        free(suggestion);
        return status;
    }
    if (reader->given[row]) {
        return mot_fail(EINVAL, "%s:%d: %s is given twice", reader->path, here(reader).line, key);
    }
    reader->given[row] = 1;
    return row;
}

static int read_mapping(struct reader *reader)
{
    for (;;) {
        int status = next(reader);
        if (status || reader->event.type == YAML_MAPPING_END_EVENT) { return status; }
        const int row = find_key(reader);
        if (row < 0) { return row; }
        status = read_value(reader, &reader->table[row]);
        if (status) { return status; }
    }
}

/* Stream: nothing, an empty document, or one document that is a mapping. */
static int read_stream(struct reader *reader)
{
    int status = next(reader);              /* stream start */
    if (!status) { status = next(reader); } /* document start, or the end */
    if (status || reader->event.type == YAML_STREAM_END_EVENT) { return status; }
    status = next(reader);
    if (status) { return status; }
    if (reader->event.type == YAML_MAPPING_START_EVENT) {
        status = read_mapping(reader);
    } else if (reader->event.type != YAML_SCALAR_EVENT || *scalar_text(reader)) {
        status = fail_here(reader, "lines of the form \"name: value\" are needed");
    }
    if (!status) { status = next(reader); } /* document end */
    if (!status) { status = next(reader); } /* stream end */
    if (status || reader->event.type == YAML_STREAM_END_EVENT) { return status; }
    return fail_here(reader, "a second document is not read");
}

int mot_options_read_yaml(const struct mot_option *table, void *config, const char *path,
                          char *given)
{
    char *bytes;
    size_t n;
    int status = mot_file_read(path, FILE_BYTES_MAX, &bytes, &n);
    if (status) { return status; }
    struct reader reader = {.table = table, .config = config, .path = path, .given = given};
    MOT_ASSERT(yaml_parser_initialize(&reader.parser));
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)bytes, n);
    status = read_stream(&reader);
    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.parser);
    free(bytes);
    return status;
}

/* Texts in double quotes, so that none is taken for a number, a truth value or null. */
static int emit_text(yaml_emitter_t *emitter, const char *text, int quoted)
{
    yaml_event_t event;
    return yaml_scalar_event_initialize(
               &event, NULL, NULL, (const yaml_char_t *)text, (int)strlen(text), 1, 1,
               quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE)
           && yaml_emitter_emit(emitter, &event);
}

static int emit_list(yaml_emitter_t *emitter, const struct mot_list *list)
{
    yaml_event_t event;
    int ok = yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_FLOW_SEQUENCE_STYLE)
             && yaml_emitter_emit(emitter, &event);
    for (int i = 0; ok && i < list->n; i++) { ok = emit_text(emitter, list->item[i], 1); }
    return ok && yaml_sequence_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static int emit_row(yaml_emitter_t *emitter, const struct mot_option *row, const void *config)
{
    if (!emit_text(emitter, row->name, 0)) { return 0; }
    if (row->type == MOT_OPTION_LIST) {
        return emit_list(emitter, (const void *)((const char *)config + row->offset));
    }
    char *text = mot_option_text(row, config);
    const int ok = emit_text(emitter, text, row->type == MOT_OPTION_STRING);
    free(text);
    return ok;
}

static int emit_all(yaml_emitter_t *emitter, const struct mot_option *table, const void *config)
{
    yaml_event_t event;
    int ok = yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING)
             && yaml_emitter_emit(emitter, &event)
             && yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1)
             && yaml_emitter_emit(emitter, &event)
             && yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE)
             && yaml_emitter_emit(emitter, &event);
    for (; ok && table->name; table++) { ok = emit_row(emitter, table, config); }
    return ok && yaml_mapping_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event)
           && yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(emitter, &event)
           && yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

int mot_options_write_yaml(const struct mot_option *table, const void *config, FILE *file)
{
    yaml_emitter_t emitter;
    MOT_ASSERT(yaml_emitter_initialize(&emitter));
    yaml_emitter_set_output_file(&emitter, file);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1);
    errno = 0;
    struct mot_option *flat = mot_options_flatten(table);
    const int ok = emit_all(&emitter, flat, config) && fflush(file) == 0;
    const int error = errno ? errno : EIO;
    free(flat);
    yaml_emitter_delete(&emitter);
    return ok ? 0 : mot_fail(error, "cannot write the config: %s", strerror(error));
}
