/* JSON lines to prompts (and, for sft, completions) as token ids.  Everything that can be wrong
 * with a row is said with file and line before any work begins.
 *
 * The completion of a chat is what the template renders with the answer beyond what it renders
 * without, so that training sees what generation will meet: prompt ids, answer, end of turn.
 * Prompt and completion are encoded apart, since sampled ids follow the prompt's in the same
 * way. */
#include "dataset.h"
#include "error.h"
#include "file.h"
#include "json.h"
#include "line_reader.h"
#include "rng.h"
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 1 << 28 };

/* The row being read. */
struct row {
    const struct mot_dataset_options *options;
    const char *path;
    int line;
    struct mot_example *example;
};

#define ROW_FAIL(row, ...) row_fail(row, mot_format(__VA_ARGS__))

/* Takes message. */
static int row_fail(const struct row *row, char *message)
{
    const int status = mot_fail(EINVAL, "%s:%d: %s", row->path, row->line, message);
    free(message);
    return status;
}

static int has(const struct row *row, const char *key)
{
    return mot_json_has(row->example->columns, key);
}

static json_t *get(const struct row *row, const char *key)
{
    return json_object_get(row->example->columns, key);
}

static int is_chat(const struct row *row)
{
    return mot_chat_template_end(row->options->chat) != NULL;
}

/* A string as it is, a number as a person would write it; NULL for anything else. */
static char *text_of(const json_t *value)
{
    if (json_is_string(value)) { return mot_strdup(json_string_value(value)); }
    if (json_is_integer(value)) { return mot_format("%lld", (long long)json_integer_value(value)); }
    if (!json_is_real(value)) { return NULL; }
    for (int digits = 15;; digits++) { /* the shortest that reads back the same */
        char *text = mot_format("%.*g", digits, json_real_value(value));
        if (digits == 17 || strtod(text, NULL) == json_real_value(value)) { return text; }
        free(text);
    }
}

/* Encodes; a BOS that the text spells itself is not put in front again. */
static int encode(const struct row *row, const char *text, int add_bos, struct mot_ids *ids)
{
    const struct mot_tokenizer *tokenizer = row->options->tokenizer;
    const int status = mot_tokenizer_encode(tokenizer, text, strlen(text), add_bos, ids);
    if (status) { return status; }
    if (add_bos && ids->n >= 2 && ids->id[0] == ids->id[1]
        && ids->id[0] == mot_tokenizer_bos(tokenizer)) {
        memmove(ids->id, ids->id + 1, --ids->n * sizeof(*ids->id));
    }
    return 0;
}

/* The messages of the prompt, new; NULL with a message printed. */
static json_t *prompt_messages(const struct row *row, json_t *prompt)
{
    json_t *messages = json_is_array(prompt)
                           ? json_copy(prompt)
                           : json_pack("[{s:s, s:O}]", "role", "user", "content", prompt);
    const char *first = json_string_value(json_object_get(json_array_get(messages, 0), "role"));
    if (row->options->system_prompt && !(first && strcmp(first, "system") == 0)) {
        json_array_insert_new(
            messages, 0,
            json_pack("{s:s, s:s}", "role", "system", "content", row->options->system_prompt));
    }
    char why[256];
    if (mot_chat_template_problem(row->options->chat, messages, why, sizeof(why))) {
        ROW_FAIL(row, "%s", why);
        json_decref(messages);
        return NULL;
    }
    return messages;
}

/* The text of the completion, new; NULL with a message printed. */
static char *completion_text(const struct row *row)
{
    static const char *const keys[] = {"completion", "answer", "ground_truth"};
    for (int i = 0; i < 3; i++) {
        const json_t *value = get(row, keys[i]);
        if (!has(row, keys[i])) { continue; }
        const json_t *only = json_array_get(value, 0), *content = json_object_get(only, "content");
        const char *role = json_string_value(json_object_get(only, "role"));
        if (json_array_size(value) == 1 && role && strcmp(role, "assistant") == 0) {
            value = content;
        }
        char *text = text_of(value);
        if (!text) {
            ROW_FAIL(row, "\"%s\" is no string (nor a list of one assistant message)", keys[i]);
        }
        return text;
    }
    ROW_FAIL(row, "\"completion\" (or \"answer\") is missing");
    return NULL;
}

/* answer rendered by the template behind messages, without the newline after its end.  New; NULL
 * with a message printed. */
static char *render_answer(const struct row *row, json_t *messages, const char *answer)
{
    json_array_append_new(messages,
                          json_pack("{s:s, s:s}", "role", "assistant", "content", answer));
    char *whole = NULL;
    if (mot_chat_template_render(row->options->chat, messages, 0, &whole)) { return NULL; }
    const size_t n = strlen(row->example->prompt_text);
    char *rest = NULL;
    if (strncmp(whole, row->example->prompt_text, n) == 0) {
        rest = mot_strdup(whole + n);
        const size_t length = strlen(rest);
        if (length > 0 && rest[length - 1] == '\n') { rest[length - 1] = 0; }
    } else {
        ROW_FAIL(row, "chat template %s renders the answer away from its prompt",
                 mot_chat_template_name(row->options->chat));
    }
    free(whole);
    return rest;
}

static int read_chat(const struct row *row, json_t *prompt)
{
    struct mot_example *example = row->example;
    json_t *messages = prompt_messages(row, prompt);
    if (!messages) { return -EINVAL; }
    int status = mot_chat_template_render(row->options->chat, messages, 1, &example->prompt_text);
    if (!status) { status = encode(row, example->prompt_text, 0, &example->prompt); }
    if (!status && row->options->with_completion) {
        char *answer = completion_text(row);
        char *rendered = answer ? render_answer(row, messages, answer) : NULL;
        status = rendered ? encode(row, rendered, 0, &example->completion) : -EINVAL;
        free(answer);
        free(rendered);
    }
    json_decref(messages);
    return status;
}

static int read_plain(const struct row *row, const json_t *prompt)
{
    struct mot_example *example = row->example;
    if (!json_is_string(prompt)) {
        return ROW_FAIL(row, "messages need a chat template; choose one with --chat_template");
    }
    example->prompt_text = mot_strdup(json_string_value(prompt));
    int status = encode(row, example->prompt_text, 1, &example->prompt);
    if (status || !row->options->with_completion) { return status; }
    char *answer = completion_text(row);
    if (!answer) { return -EINVAL; }
    status = encode(row, answer, 0, &example->completion);
    free(answer);
    const int32_t eos = mot_tokenizer_eos(row->options->tokenizer);
    if (!status && eos >= 0) {
        struct mot_ids *ids = &example->completion;
        ids->id = mot_realloc(ids->id, (ids->n + 1) * sizeof(*ids->id));
        ids->id[ids->n++] = eos;
    }
    return status;
}

static int read_input_ids(const struct row *row)
{
    const json_t *list = get(row, "input_ids");
    const int32_t vocab_size = mot_tokenizer_vocab_size(row->options->tokenizer);
    const size_t n = json_array_size(list);
    if (n < 2) { return ROW_FAIL(row, "\"input_ids\" is no list of at least two ids"); }
    int32_t *ids = mot_alloc(n * sizeof(*ids));
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        const json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        if (id < 0 || id >= vocab_size) {
            free(ids);
            return ROW_FAIL(row, "input_ids[%zu] is no id from 0 to %d", i, (int)vocab_size - 1);
        }
        ids[i] = (int32_t)id;
    }
    struct mot_example *example = row->example;
    example->prompt = (struct mot_ids){mot_alloc(sizeof(*ids)), 1};
    example->prompt.id[0] = ids[0];
    memmove(ids, ids + 1, (n - 1) * sizeof(*ids));
    example->completion = (struct mot_ids){ids, n - 1};
    example->prompt_text =
        mot_tokenizer_decode(row->options->tokenizer, example->prompt.id, 1, 0, NULL);
    return 0;
}

static int check_lengths(const struct row *row)
{
    const struct mot_example *example = row->example;
    const size_t limit = (size_t)row->options->max_tokens;
    if (example->prompt.n == 0) { return ROW_FAIL(row, "the prompt is empty"); }
    if (row->options->with_completion && example->completion.n == 0) {
        return ROW_FAIL(row, "the completion is empty");
    }
    if (row->options->max_tokens <= 0 || example->prompt.n + example->completion.n <= limit) {
        return 0;
    }
    if (row->options->with_completion) {
        return ROW_FAIL(row, "prompt and completion have %zu + %zu tokens, the limit is %zu",
                        example->prompt.n, example->completion.n, limit);
    }
    return ROW_FAIL(row, "the prompt has %zu tokens, the limit is %zu", example->prompt.n, limit);
}

/* One line into row->example, which is zero before; what it holds is the caller's to free. */
static int read_row(const struct row *row, const char *line, size_t n)
{
    struct mot_example *example = row->example;
    int status = mot_json_parse(line, n, row->path, row->line, &example->columns);
    if (status) { return status; }
    if (!json_is_object(example->columns)) { return ROW_FAIL(row, "not a JSON object"); }
    example->answer = text_of(get(row, has(row, "ground_truth") ? "ground_truth" : "answer"));
    const char *key = has(row, "prompt") ? "prompt" : "question";
    json_t *prompt = get(row, key);
    if (row->options->with_completion && has(row, "input_ids")) {
        status = read_input_ids(row);
    } else if (!has(row, key)) {
        return ROW_FAIL(row, "\"prompt\" or \"question\" is missing");
    } else if (!json_is_string(prompt) && !json_is_array(prompt)) {
        return ROW_FAIL(row, "\"%s\" is neither a string nor a list of messages", key);
    } else {
        status = is_chat(row) ? read_chat(row, prompt) : read_plain(row, prompt);
    }
    return status ? status : check_lengths(row);
}

static void free_example(struct mot_example *example)
{
    mot_ids_free(&example->prompt);
    mot_ids_free(&example->completion);
    free(example->prompt_text);
    free(example->answer);
    json_decref(example->columns);
}

/* Spaces only, or nothing. */
static int is_blank(const char *line, size_t n)
{
    return strspn(line, " \t\r") == n;
}

static int read_rows(struct mot_line_reader *reader, const struct mot_dataset_options *options,
                     struct mot_dataset *dataset)
{
    int capacity = 0, found;
    while ((found = mot_line_reader_next(reader)) > 0) {
        const char *line = reader->line;
        size_t n = reader->n;
        if (reader->number == 1 && n >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
            line += 3; /* a byte order mark */
            n -= 3;
        }
        if (is_blank(line, n)) { continue; }
        if (options->limit > 0 && dataset->n == options->limit) { return 0; }
        if (dataset->n == capacity) {
            if (capacity >= ROWS_MAX) { return mot_fail(EFBIG, "%s: too many rows", reader->path); }
            capacity = 2 * capacity + 256;
            dataset->examples =
                mot_realloc(dataset->examples, (size_t)capacity * sizeof(*dataset->examples));
        }
        struct mot_example *example = &dataset->examples[dataset->n++];
        memset(example, 0, sizeof(*example));
        const char *name = options->called ? options->called : reader->path;
        const struct row row = {options, name, reader->number, example};
        const int status = read_row(&row, line, n);
        if (status) { return status; }
        dataset->crc32 = mot_crc32(dataset->crc32, line, n);
    }
    return found;
}

int mot_dataset_load(const char *path, const struct mot_dataset_options *options,
                     struct mot_dataset *dataset)
{
    struct mot_dataset loaded = {.path = NULL};
    struct mot_line_reader reader;
    if (options->system_prompt && !mot_chat_template_end(options->chat)) {
        return mot_fail(EINVAL, "a system prompt needs a chat template; choose one with "
                                "--chat_template");
    }
    int status = mot_line_reader_open(&reader, path, MOT_LINE_BYTES_MAX);
    if (status) { return status; }
    loaded.path = mot_strdup(path);
    status = read_rows(&reader, options, &loaded);
    if (!status && loaded.n == 0) { status = mot_fail(EINVAL, "%s: no rows", path); }
    mot_line_reader_close(&reader);
    if (status) {
        mot_dataset_destroy(&loaded);
        return status;
    }
    *dataset = loaded;
    return 0;
}

void mot_dataset_destroy(struct mot_dataset *dataset)
{
    for (int i = 0; i < dataset->n; i++) { free_example(&dataset->examples[i]); }
    free(dataset->examples);
    free(dataset->path);
    *dataset = (struct mot_dataset){.path = NULL};
}

/* A permutation of 0..4^half_bits-1 as a Feistel network whose round function is Philox: any
 * element of it without the others, so that a run can resume at any position. */
static uint32_t permute(uint64_t seed, uint32_t epoch, int half_bits, uint32_t x)
{
    const uint32_t mask = (1u << half_bits) - 1;
    uint32_t left = x >> half_bits, right = x & mask;
    for (uint32_t round = 0; round < 8; round++) {
        uint32_t out[4];
        mot_philox(seed, (uint32_t[4]){MOT_RNG_SHUFFLE, epoch, round, right}, out);
        const uint32_t next = left ^ (out[0] & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

int mot_dataset_at(const struct mot_dataset *dataset, uint64_t seed, int shuffle, int64_t position)
{
    MOT_ASSERT(position >= 0 && dataset->n > 0);
    const uint32_t n = (uint32_t)dataset->n, epoch = (uint32_t)(position / n);
    uint32_t at = (uint32_t)(position % n);
    if (!shuffle) { return (int)at; }
    int half_bits = 1;
    while ((uint64_t)1 << 2 * half_bits < n) { half_bits++; } /* 16 at most, for 2^31 - 1 */
    do {
        at = permute(seed, epoch, half_bits, at);
    } while (at >= n); /* stays within 0..n-1 */
    return (int)at;
}
