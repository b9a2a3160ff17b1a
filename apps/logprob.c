/* motley logprob: log-probs and entropies of given tokens, for scripts.
 *
 * In, JSON lines: {"input_ids": [...]} or {"text": "..."}: out are arrays of n - 1 numbers, entry t
 * for token t + 1.  {"prompt_ids": [...], "completion_ids": [...]}, as in completions.jsonl: out
 * are arrays with one number per completion token.  Numbers read back to the same float32. */
#include "logprob.h"
#include "app.h"
#include "json.h"
#include "line_reader.h"
#include "stages.h"
#include <stdlib.h>
#include <string.h>

struct logprob_config {
    struct mot_machine_config machine;
    struct mot_model_config model;
    double temperature;
    int batch_tokens;
};

static const char usage[] =
    "usage: motley logprob --model M FILE.jsonl|- [options]\n\n"
    "For each line {\"input_ids\": [...]}, {\"text\": \"...\"} or {\"prompt_ids\": [...],\n"
    "\"completion_ids\": [...]} prints {\"logprob\": [...], \"entropy\": [...]}: one number for "
    "each\n"
    "token but the first, or for each completion token.  Numbers read back to the same float32.\n";

#define AT(member) offsetof(struct logprob_config, member)
static const struct mot_option options[] = {
    MOT_ROWS(AT(model), mot_model_rows),
    {"temperature", MOT_OPTION_FLOAT, AT(temperature), "1.0", NULL, 1e-6, 100, NULL,
     "Logits are divided by it.", "Log-probs"},
    {"batch_tokens", MOT_OPTION_INT, AT(batch_tokens), "2048", NULL, 1, 1 << 24, "tokens",
     "A task takes lines until it has so many.", NULL},
    MOT_ROWS(AT(machine), mot_machine_rows),
    {0},
};
#undef AT

/* Lines read and not answered yet. */
struct batch {
    int n, capacity, tokens;
    int32_t **ids;        /* (n) prompt and answer of a line, one after the other */
    int *prompt, *answer; /* (n) tokens of each */
};

static void batch_add(struct batch *b, int32_t *ids, int prompt, int answer)
{
    if (b->n == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 16;
        b->ids = mot_realloc(b->ids, (size_t)b->capacity * sizeof(*b->ids));
        b->prompt = mot_realloc(b->prompt, (size_t)b->capacity * sizeof(int));
        b->answer = mot_realloc(b->answer, (size_t)b->capacity * sizeof(int));
    }
    b->ids[b->n] = ids;
    b->prompt[b->n] = prompt;
    b->answer[b->n++] = answer;
    b->tokens += prompt + answer;
}

static void batch_clear(struct batch *b)
{
    for (int i = 0; i < b->n; i++) { free(b->ids[i]); }
    b->n = b->tokens = 0;
}

static void print_line(const float *logprob, const float *entropy, int n)
{
    json_t *o = json_object();
    json_object_set_new(o, "logprob", mot_json_numbers(logprob, (size_t)n));
    json_object_set_new(o, "entropy", mot_json_numbers(entropy, (size_t)n));
    char *text = mot_json_text(o);
    printf("%s\n", text);
    free(text);
    json_decref(o);
}

/* One task over the batch; prints its lines. */
static int answer(struct batch *b, struct mot_app_model *model)
{
    if (b->n == 0) { return 0; }
    struct mot_pack_prompt *prompts = mot_alloc((size_t)b->n * sizeof(*prompts));
    struct mot_pack_answer *answers = mot_alloc((size_t)b->n * sizeof(*answers));
    for (int i = 0; i < b->n; i++) {
        prompts[i] = (struct mot_pack_prompt){.n = b->prompt[i], .ids = b->ids[i]};
        answers[i] = (struct mot_pack_answer){
            .prompt = i, .n = b->answer[i], .ids = b->ids[i] + b->prompt[i], .weight = 1.0f};
    }
    struct mot_pack *pack = mot_pack_create(prompts, b->n, answers, b->n);
    struct mot_version *version = mot_actor_read(&model->actor);
    const struct mot_logprob_task task = {
        .context = &model->actor.context,
        .weights = version->groups,
        .pack = pack,
        .logprob = mot_float_vector((size_t)pack->n_targets),
        .entropy = mot_float_vector((size_t)pack->n_targets),
        .hint = {.stage = MOT_STAGE_LOGPROB, .group = -1, .version = version->number}};
    const int error = mot_insert_logprob(&task);
    mot_version_release(version);
    if (error == 0) {
        starpu_data_acquire(task.logprob, STARPU_R);
        starpu_data_acquire(task.entropy, STARPU_R);
        const float *logprob = starpu_data_get_local_ptr(task.logprob);
        const float *entropy = starpu_data_get_local_ptr(task.entropy);
        for (int i = 0, first = 0; i < b->n; first += b->answer[i++]) {
            print_line(logprob + first, entropy + first, b->answer[i]);
        }
        starpu_data_release(task.logprob);
        starpu_data_release(task.entropy);
    }
    starpu_data_unregister(task.logprob);
    starpu_data_unregister(task.entropy);
    mot_pack_destroy(pack);
    free(prompts);
    free(answers);
    batch_clear(b);
    return error;
}

/* Appends the ids of an array to *ids (n so far). */
static int append_ids(const json_t *row, const char *key, const char *place, int vocab,
                      int32_t **ids, int *n)
{
    json_t *array;
    const int error = mot_json_get_array(row, place, key, &array);
    if (error) { return error; }
    const size_t count = json_array_size(array);
    if (count > (size_t)1 << 24) { return mot_fail(EINVAL, "%s: too many ids", place); }
    *ids = mot_realloc(*ids, ((size_t)*n + count) * sizeof(int32_t));
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(array, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= vocab) {
            return mot_fail(EINVAL, "%s: %s[%zu] is not an id in 0..%d", place, key, i, vocab - 1);
        }
        (*ids)[(*n)++] = (int32_t)json_integer_value(id);
    }
    return 0;
}

/* The tokens of a row: *n of them, the first *prompt of which are only given. */
static int read_row(const json_t *row, const char *place, const struct mot_app_model *model,
                    int32_t **ids, int *n, int *prompt)
{
    const int vocab = model->actor.info.shape.vocab_size;
    *prompt = 1;
    if (mot_json_has(row, "input_ids")) {
        return append_ids(row, "input_ids", place, vocab, ids, n);
    }
    if (mot_json_has(row, "completion_ids")) {
        const int error = append_ids(row, "prompt_ids", place, vocab, ids, n);
        *prompt = *n;
        return error ? error : append_ids(row, "completion_ids", place, vocab, ids, n);
    }
    if (!mot_json_has(row, "text")) {
        return mot_fail(EINVAL, "%s: a row has input_ids, text, or prompt_ids and completion_ids",
                        place);
    }
    const char *text;
    struct mot_ids encoded;
    int error = mot_json_get_string(row, place, "text", &text);
    if (error == 0) {
        error = mot_tokenizer_encode(model->tokenizer, text, strlen(text), 1, &encoded);
    }
    if (error == 0) {
        *ids = encoded.id;
        *n = (int)encoded.n;
    }
    return error;
}

static int take_line(const struct mot_line_reader *reader, struct mot_app_model *model,
                     struct batch *b)
{
    json_t *row = NULL;
    int32_t *ids = NULL;
    int n = 0, prompt = 1;
    char place[512];
    snprintf(place, sizeof(place), "%.480s:%d", reader->path, reader->number);
    int error = mot_json_parse(reader->line, reader->n, reader->path, reader->number, &row);
    if (error == 0 && !json_is_object(row)) {
        error = mot_fail(EINVAL, "%s: not a JSON object", place);
    }
    if (error == 0) { error = read_row(row, place, model, &ids, &n, &prompt); }
    json_decref(row);
    const int context = model->actor.info.shape.max_position;
    if (error == 0 && (prompt < 1 || n <= prompt)) {
        error = mot_fail(EINVAL,
                         "%s: nothing to give a log-prob to: %d tokens, of which %d are "
                         "the prompt",
                         place, n, prompt);
    } else if (error == 0 && n > context) {
        error = mot_fail(EINVAL, "%s: %d tokens are more than the model's context of %d", place, n,
                         context);
    }
    if (error) {
        free(ids);
        return error;
    }
    batch_add(b, ids, prompt, n - prompt);
    return 0;
}

static int run(const struct logprob_config *c, struct mot_app_model *model, const char *path)
{
    struct mot_line_reader reader;
    int status = mot_line_reader_open(&reader, path, MOT_LINE_BYTES_MAX);
    if (status) { return status; }
    struct batch b = {0};
    while ((status = mot_line_reader_next(&reader)) > 0) {
        if (strspn(reader.line, " \t\r") == reader.n) { continue; }
        status = take_line(&reader, model, &b);
        if (status == 0 && b.tokens >= c->batch_tokens) { status = answer(&b, model); }
        if (status) { break; }
    }
    if (status == 0) { status = answer(&b, model); }
    batch_clear(&b);
    free(b.ids);
    free(b.prompt);
    free(b.answer);
    mot_line_reader_close(&reader);
    return status;
}

int mot_app_logprob(int argc, char **argv)
{
    struct logprob_config c;
    struct mot_list files = {0};
    const int parsed = mot_options_parse(options, &c, argc, argv, 1, &files, usage);
    if (parsed) { return parsed > 0 ? MOT_EXIT_OK : MOT_EXIT_USAGE; }
    int code = MOT_EXIT_USAGE;
    if (files.n != 1) {
        mot_fail(EINVAL, "logprob takes one file, or '-'");
    } else {
        code = mot_app_start(&c.machine);
    }
    if (code == MOT_EXIT_OK) {
        struct mot_app_model model;
        const struct mot_app_model_options how = {.temperature = c.temperature};
        int error = mot_app_model_load(&model, &c.model, &how);
        if (error == 0) {
            error = run(&c, &model, files.item[0]);
            mot_app_model_free(&model);
        }
        code = mot_app_stop(mot_app_exit_code(error));
    }
    mot_list_free(&files);
    mot_options_free(options, &c);
    return code;
}
