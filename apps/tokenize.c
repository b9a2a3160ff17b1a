/* motley tokenize: text to token ids, one JSON array a line, for scripts. */
#include "error.h"
#include "json.h"
#include "line_reader.h"
#include "options.h"
#include "tiny_model.h"
#include "tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tokenize_config {
    char *model;
    int add_bos, json;
};

static const struct mot_option options[] = {
    {.name = "model",
     .type = MOT_OPTION_STRING,
     .offset = offsetof(struct tokenize_config, model),
     .help = "HF directory, tokenizer.json or GGUF file; \"bytes\" or tiny:SEED: the demo's."},
    {.name = "add_bos",
     .type = MOT_OPTION_BOOL,
     .offset = offsetof(struct tokenize_config, add_bos),
     .default_text = "false",
     .help = "Put in front what the model's own post-processor would."},
    {.name = "json",
     .type = MOT_OPTION_BOOL,
     .offset = offsetof(struct tokenize_config, json),
     .default_text = "false",
     .help = "Each line is a JSON string, which may hold newlines, or an object with \"text\"."},
    {.name = NULL},
};

static const char usage[] = "usage: motley tokenize --model M FILE|-\n\n"
                            "Writes one JSON array of token ids for each line of FILE (- is the "
                            "standard input).";

/* The text of the current line; *value owns it when the line is JSON.  0 or a negative errno. */
static int line_text(const struct mot_line_reader *reader, int json, json_t **value,
                     const char **text, size_t *n)
{
    *text = reader->line;
    *n = reader->n;
    if (!json) { return 0; }
    int status = mot_json_parse(reader->line, reader->n, reader->path, reader->number, value);
    if (status) { return status; }
    const json_t *string = json_is_object(*value) ? json_object_get(*value, "text") : *value;
    if (!json_is_string(string)) {
        return mot_fail(EINVAL, "%s:%d: neither a JSON string nor an object with \"text\"",
                        reader->path, reader->number);
    }
    *text = json_string_value(string);
    *n = json_string_length(string);
    return 0;
}

static int tokenize_line(const struct mot_tokenizer *tokenizer,
                         const struct tokenize_config *config, const struct mot_line_reader *reader)
{
    json_t *value = NULL;
    const char *text;
    size_t n;
    struct mot_ids ids = {NULL, 0};
    int status = line_text(reader, config->json, &value, &text, &n);
    if (!status) { status = mot_tokenizer_encode(tokenizer, text, n, config->add_bos, &ids); }
    if (!status) {
        putchar('[');
        for (size_t i = 0; i < ids.n; i++) { printf(i ? ", %d" : "%d", (int)ids.id[i]); }
        fputs("]\n", stdout);
        if (ferror(stdout)) { status = mot_fail(EIO, "standard output: cannot be written"); }
    }
    mot_ids_free(&ids);
    json_decref(value);
    return status;
}

static int tokenize_file(const struct mot_tokenizer *tokenizer,
                         const struct tokenize_config *config, const char *path)
{
    struct mot_line_reader reader;
    int status = mot_line_reader_open(&reader, path, MOT_LINE_BYTES_MAX);
    if (status) { return status; }
    while ((status = mot_line_reader_next(&reader)) > 0) {
        status = tokenize_line(tokenizer, config, &reader);
        if (status) { break; }
    }
    if (fflush(stdout) != 0 && !status) {
        status = mot_fail(EIO, "standard output: cannot be written");
    }
    mot_line_reader_close(&reader);
    return status;
}

/* Those of the embedded model too, as other commands name it. */
static int load_tokenizer(const char *model, struct mot_tokenizer **tokenizer)
{
    uint64_t seed;
    const int tiny = mot_tiny_model_is(model);
    if (!tiny && strcmp(model, "bytes") != 0) { return mot_tokenizer_load(model, tokenizer); }
    const int status = tiny ? mot_tiny_model_seed(model, &seed) : 0;
    if (status == 0) { *tokenizer = mot_tokenizer_bytes(); }
    return status;
}

int mot_app_tokenize(int argc, char **argv)
{
    struct tokenize_config config = {.model = NULL};
    struct mot_list files = {NULL, 0};
    struct mot_tokenizer *tokenizer = NULL;
    int status = mot_options_parse(options, &config, argc, argv, 1, &files, usage);
    int exit_code = status == 1 ? 0 : 2;
    if (status == 0 && files.n != 1) {
        mot_fail(EINVAL, "tokenize: one FILE (or -) is needed, %d are given", files.n);
    } else if (status == 0) {
        exit_code = load_tokenizer(config.model, &tokenizer) ? 1 : 0;
    }
    if (tokenizer) { exit_code = tokenize_file(tokenizer, &config, files.item[0]) ? 1 : 0; }
    mot_tokenizer_destroy(tokenizer);
    if (status == 0) { mot_options_free(options, &config); }
    mot_list_free(&files);
    return exit_code;
}
