/* grpo_store: answers generated ahead, in and out of a checkpoint.  See grpo_store.h. */
#include "grpo_store.h"
#include "file.h"
#include "json.h"
#include "line_reader.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 64 << 20 };
static const char file_name[] = "answers.jsonl";

struct mot_grpo_store {
    int first, n_steps;
    json_t *steps;   /* array (n_steps) of the header */
    json_t *answers; /* array (n_steps, groups, samples), each checked */
};

/* ---- Writing --------------------------------------------------------------------------------- */

static json_t *integers(const int32_t *values, int n)
{
    json_t *array = json_array();
    for (int i = 0; i < n; i++) { json_array_append_new(array, json_integer(values[i])); }
    return array;
}

static json_t *answer_line(int step, const struct mot_row *row)
{
    const struct mot_group *g = row->group;
    const size_t n = (size_t)row->n;
    json_t *o = json_object(), *device = json_array();
    json_object_set_new(o, "step", json_integer(step));
    json_object_set_new(o, "group", json_integer(g->index));
    json_object_set_new(o, "sample", json_integer(row->sample));
    json_object_set_new(o, "example", json_integer(g->example));
    json_object_set_new(o, "version_step", json_integer(g->version_step));
    json_object_set_new(o, "end", json_integer(row->end));
    json_object_set_new(o, "ids", integers(row->ids, row->n));
    json_object_set_new(o, "version", integers(row->version, row->n));
    for (int i = 0; i < row->n; i++) {
        json_array_append_new(device, json_integer(row->device[i]));
    }
    json_object_set_new(o, "device", device);
    json_object_set_new(o, "logprob", mot_json_numbers(row->logprob, n));
    json_object_set_new(o, "logprob_kept", mot_json_numbers(row->logprob_kept, n));
    json_object_set_new(o, "entropy", mot_json_numbers(row->entropy, n));
    return o;
}

static json_t *header_of(const struct mot_grpo *grpo)
{
    json_t *o = json_object();
    json_object_set_new(o, "prompts_per_step", json_integer(grpo->prompts_per_step));
    json_object_set_new(o, "num_generations", json_integer(grpo->num_generations));
    json_object_set_new(o, "max_completion_length",
                        json_integer(grpo->rollout.max_completion_length));
    json_object_set_new(o, "seed", json_integer((json_int_t)grpo->seed));
    return o;
}

static int write_line(FILE *file, json_t *line)
{
    char *text = mot_json_text(line);
    const int good = fputs(text, file) >= 0 && putc('\n', file) != EOF;
    free(text);
    json_decref(line);
    return good;
}

int mot_grpo_store_save(const char *directory, const struct mot_grpo *grpo, int first,
                        const struct mot_rollout *const *rollouts, int n)
{
    char *path = mot_format("%s/%s", directory, file_name);
    FILE *file = fopen(path, "w");
    json_t *header = header_of(grpo), *steps = json_array();
    for (int i = 0; i < n; i++) {
        json_t *step = json_object();
        json_object_set_new(step, "step", json_integer(first + i));
        json_object_set_new(step, "prompt_tokens", json_integer(rollouts[i]->prompt_tokens));
        json_object_set_new(step, "generated_tokens", json_integer(rollouts[i]->generated_tokens));
        json_array_append_new(steps, step);
    }
    json_object_set_new(header, "steps", steps);
    int good = file != NULL;
    if (good) {
        good = write_line(file, header);
    } else {
        json_decref(header);
    }
    for (int i = 0; good && i < n; i++) {
        for (int a = 0; good && a < grpo->prompts_per_step * grpo->num_generations; a++) {
            const struct mot_group *g = &rollouts[i]->groups[a / grpo->num_generations];
            good = write_line(file, answer_line(first + i, &g->rows[a % grpo->num_generations]));
        }
    }
    good = good && fflush(file) == 0 && fsync(fileno(file)) == 0;
    const int number = errno;
    if (file != NULL) { good = fclose(file) == 0 && good; }
    const int status = good ? 0 : mot_fail(number ? number : EIO, "%s: %s", path, strerror(number));
    free(path);
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Array `key` of n numbers, each in low .. high where it must be one (null: NaN, where `nullable`).
 */
static int check_numbers(const json_t *line, const char *place, const char *key, size_t n,
                         double low, double high, int nullable)
{
    json_t *array;
    const int status = mot_json_get_array(line, place, key, &array);
    if (status < 0) { return status; }
    if (json_array_size(array) != n) {
        return mot_fail(EINVAL, "%s: \"%s\" has not as many numbers as \"ids\"", place, key);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(array, i);
        const double x = json_number_value(value);
        const int is_number = nullable ? json_is_number(value) : json_is_integer(value);
        if (nullable && json_is_null(value)) { continue; }
        if (!is_number || !(x >= low && x <= high)) {
            return mot_fail(EINVAL, "%s: number %zu of \"%s\" cannot be", place, i, key);
        }
    }
    return 0;
}

/* The answer that must stand at `index` of the file. */
static int check_answer(const struct mot_grpo_store *store, const struct mot_grpo *grpo, int index,
                        const json_t *line, const char *place)
{
    const int G = grpo->num_generations, per_step = grpo->prompts_per_step * G;
    const int step = store->first + index / per_step, group = index % per_step / G;
    const struct {
        const char *key;
        int64_t low, high;
    } fields[] = {
        {"step", step, step},
        {"group", group, group},
        {"sample", index % G, index % G},
        {"version_step", 0, store->first},
        {"end", MOT_ROW_EOS, MOT_ROW_LENGTH},
    };
    int64_t value;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const int status =
            mot_json_get_int(line, place, fields[i].key, fields[i].low, fields[i].high, &value);
        if (status < 0) { return status; }
    }
    json_t *ids;
    int status = mot_json_get_array(line, place, "ids", &ids);
    if (status < 0) { return status; }
    const size_t n = json_array_size(ids);
    if (n < 1 || n > (size_t)grpo->rollout.max_completion_length) {
        return mot_fail(EINVAL, "%s: an answer of %zu tokens", place, n);
    }
    const double vocabulary = grpo->actor->info.shape.vocab_size;
    status = check_numbers(line, place, "ids", n, 0, vocabulary - 1, 0);
    if (status == 0) { status = check_numbers(line, place, "version", n, 0, INT32_MAX, 0); }
    if (status == 0) { status = check_numbers(line, place, "device", n, 0, UINT8_MAX, 0); }
    if (status == 0) { status = check_numbers(line, place, "logprob", n, -1e30, 1e30, 1); }
    if (status == 0) { status = check_numbers(line, place, "logprob_kept", n, -1e30, 1e30, 1); }
    if (status == 0) { status = check_numbers(line, place, "entropy", n, -1e30, 1e30, 1); }
    return status;
}

/* 1 when the prompts of the stored steps are those of this run. */
static int has_our_prompts(const struct mot_grpo_store *store, const struct mot_grpo *grpo)
{
    const int G = grpo->num_generations, P = grpo->prompts_per_step;
    for (int s = 0; s < store->n_steps; s++) {
        for (int p = 0; p < P; p++) {
            const json_t *line = json_array_get(store->answers, (size_t)((s * P + p) * G));
            const json_t *example = json_object_get(line, "example");
            if (json_integer_value(example) != mot_grpo_example(grpo, store->first + s, p)) {
                return 0;
            }
        }
    }
    return 1;
}

/* The first line; 1 when this run has the same numbers. */
static int read_header(struct mot_grpo_store *store, const struct mot_grpo *grpo,
                       struct mot_line_reader *reader)
{
    json_t *header, *ours, *steps;
    const int more = mot_line_reader_next(reader);
    if (more < 1) { return more < 0 ? more : mot_fail(EINVAL, "%s: empty", reader->path); }
    int status = mot_json_parse(reader->line, reader->n, reader->path, 1, &header);
    if (status < 0) { return status; }
    status = mot_json_get_array(header, reader->path, "steps", &steps);
    for (size_t i = 0; status == 0 && i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        const int64_t number = store->first + (int64_t)i;
        int64_t value;
        status = mot_json_get_int(step, reader->path, "step", number, number, &value);
        if (status == 0) {
            status = mot_json_get_int(step, reader->path, "prompt_tokens", 0, INT64_MAX, &value);
        }
        if (status == 0) {
            status = mot_json_get_int(step, reader->path, "generated_tokens", 0, INT64_MAX, &value);
        }
    }
    if (status == 0) {
        store->steps = json_incref(steps);
        store->n_steps = (int)json_array_size(steps);
        json_object_del(header, "steps");
        ours = header_of(grpo);
        status = json_equal(header, ours);
        json_decref(ours);
    }
    json_decref(header);
    return status;
}

static int read_answers(struct mot_grpo_store *store, const struct mot_grpo *grpo,
                        struct mot_line_reader *reader)
{
    const int n = store->n_steps * grpo->prompts_per_step * grpo->num_generations;
    int status = 0, more = 1;
    store->answers = json_array();
    for (int i = 0; i < n && status == 0 && (more = mot_line_reader_next(reader)) == 1; i++) {
        json_t *line;
        char *place = mot_format("%s:%d", reader->path, reader->number);
        status = mot_json_parse(reader->line, reader->n, reader->path, reader->number, &line);
        if (status == 0) {
            status = check_answer(store, grpo, i, line, place);
            json_array_append_new(store->answers, line);
        }
        free(place);
    }
    if (status == 0 && more < 0) { return more; }
    if (status == 0 && json_array_size(store->answers) < (size_t)n) {
        return mot_fail(EINVAL, "%s: %d answers are missing", reader->path,
                        n - (int)json_array_size(store->answers));
    }
    return status;
}

int mot_grpo_store_load(const char *directory, const struct mot_grpo *grpo, int first,
                        struct mot_grpo_store **store)
{
    *store = NULL;
    char *path = mot_format("%s/%s", directory, file_name);
    if (grpo->max_staleness == 0 || access(path, F_OK) != 0) {
        free(path);
        return 0;
    }
    struct mot_line_reader reader;
    struct mot_grpo_store *read = mot_alloc_zeroed(1, sizeof(*read));
    read->first = first;
    int status = mot_line_reader_open(&reader, path, LINE_BYTES_MAX);
    if (status == 0) {
        status = read_header(read, grpo, &reader);
        int fits = status == 1;
        if (fits) { status = read_answers(read, grpo, &reader); }
        if (status == 0 && fits) { fits = has_our_prompts(read, grpo); }
        if (status == 0 && fits) {
            *store = read;
        } else if (status == 0) {
            mot_warn("%s: answers of a run with other prompts or lengths; they are generated anew",
                     path);
        }
        mot_line_reader_close(&reader);
    }
    if (*store == NULL) { mot_grpo_store_destroy(read); }
    free(path);
    return status;
}

void mot_grpo_store_destroy(struct mot_grpo_store *store)
{
    if (store == NULL) { return; }
    json_decref(store->steps);
    json_decref(store->answers);
    free(store);
}

/* ---- Use ------------------------------------------------------------------------------------- */

static void fill_floats(const json_t *line, const char *key, float *values)
{
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(line, key), i, value)
    {
        values[i] = json_is_null(value) ? NAN : (float)json_number_value(value);
    }
}

static void fill_row(const json_t *line, struct mot_row *row)
{
    const json_t *ids = json_object_get(line, "ids"), *version = json_object_get(line, "version");
    const json_t *device = json_object_get(line, "device");
    row->n = (int)json_array_size(ids);
    MOT_ASSERT(row->n <= row->max_tokens);
    row->end = (enum mot_row_end)json_integer_value(json_object_get(line, "end"));
    for (size_t i = 0; i < (size_t)row->n; i++) {
        row->ids[i] = (int32_t)json_integer_value(json_array_get(ids, i));
        row->version[i] = (int32_t)json_integer_value(json_array_get(version, i));
        row->device[i] = (uint8_t)json_integer_value(json_array_get(device, i));
    }
    fill_floats(line, "logprob", row->logprob);
    fill_floats(line, "logprob_kept", row->logprob_kept);
    fill_floats(line, "entropy", row->entropy);
}

/* Whether an answer is fresh enough, and as long as the context lets it be. */
static int is_usable(const json_t *line, const struct mot_grpo *grpo, int step,
                     const struct mot_row *row)
{
    const int64_t version = json_integer_value(json_object_get(line, "version_step"));
    return step - version <= grpo->max_staleness
           && json_array_size(json_object_get(line, "ids")) <= (size_t)row->max_tokens;
}

int mot_grpo_store_fill(const struct mot_grpo_store *store, const struct mot_grpo *grpo, int step,
                        struct mot_rollout *rollout)
{
    if (store == NULL || step < store->first || step >= store->first + store->n_steps) { return 0; }
    const int G = grpo->num_generations, n = grpo->prompts_per_step * G;
    const size_t at = (size_t)(step - store->first);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n; i++) {
            const json_t *line = json_array_get(store->answers, at * (size_t)n + (size_t)i);
            struct mot_group *g = &rollout->groups[i / G];
            if (pass == 0 && !is_usable(line, grpo, step, &g->rows[i % G])) { return 0; }
            if (pass == 0) { continue; }
            g->version_step = json_integer_value(json_object_get(line, "version_step"));
            fill_row(line, &g->rows[i % G]);
        }
    }
    const json_t *counts = json_array_get(store->steps, at);
    rollout->prompt_tokens = json_integer_value(json_object_get(counts, "prompt_tokens"));
    rollout->generated_tokens = json_integer_value(json_object_get(counts, "generated_tokens"));
    return 1;
}
