/* workload: workload files (YAML) and lengths.  See workload.h. */
#include "workload.h"
#include "json.h"
#include "line_reader.h"
#include "rng.h"
#include "stages.h"
#include "yaml_tree.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 1 << 24 };

const char *const *mot_workload_stages(void)
{
    static const char *names[MOT_STAGES + 1];
    for (int i = 0; i < MOT_STAGES; i++) { names[i] = mot_stage_name(i); }
    return names;
}

void mot_workload_free(struct mot_workload *w)
{
    free(w->path);
    free(w->name);
    free(w->dag);
    free(w->graph);
    free(w->prompts.list);
    free(w->answers.list);
    memset(w, 0, sizeof(*w));
}

/* ---- Lengths --------------------------------------------------------------------------------- */

int mot_lengths_draw(const struct mot_lengths *l, uint64_t seed, int what, int step, int prompt,
                     int sample)
{
    const uint32_t a = (uint32_t)step, b = (uint32_t)prompt << 16 | (uint32_t)sample;
    double tokens;
    if (l->n > 0) {
        tokens =
            l->list[mot_uniform_int(seed, MOT_RNG_SIMULATED, a, b, (uint32_t)what, (uint32_t)l->n)];
    } else {
        const double z =
            l->sigma > 0.0 ? mot_normal(seed, MOT_RNG_SIMULATED, a, b, (uint32_t)what) : 0.0;
        tokens = l->mean * exp(l->sigma * z - 0.5 * l->sigma * l->sigma);
    }
    return tokens >= l->max ? l->max : tokens < 1.0 ? 1 : (int)lround(tokens);
}

/* The length of one line of completions.jsonl; 0: an empty answer. */
static int recorded_length(const struct mot_line_reader *reader, int *length)
{
    json_t *row, *ids = NULL;
    char *place = mot_format("%s:%d", reader->path, reader->number);
    int error = mot_json_parse(reader->line, reader->n, reader->path, reader->number, &row);
    if (!error) {
        error = mot_json_get_array(row, place, "completion_ids", &ids);
        *length = error ? 0 : (int)json_array_size(ids);
        json_decref(row);
    }
    free(place);
    return error;
}

/* The lengths of a run's record of its answers. */
static int read_recorded(const struct mot_yaml *where, const char *path, struct mot_lengths *l)
{
    struct mot_line_reader reader;
    int error = mot_line_reader_open(&reader, path, MOT_LINE_BYTES_MAX);
    if (error) { return error; }
    while ((error = mot_line_reader_next(&reader)) > 0) {
        int length = 0;
        error = recorded_length(&reader, &length);
        if (error) { break; }
        if (length == 0) { continue; }
        l->list = mot_realloc(l->list, ((size_t)l->n + 1) * sizeof(int));
        l->list[l->n++] = length;
    }
    mot_line_reader_close(&reader);
    if (!error && l->n == 0) { error = mot_yaml_fail(where, "%s holds no answers", path); }
    return error;
}

/* ---- The file -------------------------------------------------------------------------------- */

static const double zero = 0.0;
static const int int_zero = 0, int_one = 1;

/* A path in the file is relative to the file. */
static char *beside(const struct mot_yaml *root, const char *path)
{
    const char *slash = strrchr(root->file, '/');
    if (path[0] == '/' || slash == NULL) { return mot_strdup(path); }
    return mot_format("%.*s/%s", (int)(slash - root->file), root->file, path);
}

static int read_lengths(struct mot_yaml *root, const char *key, struct mot_lengths *l,
                        struct mot_yaml **map)
{
    int error = mot_yaml_get(root, key, MOT_YAML_MAP, 1, map);
    if (error) { return error; }
    const char *file = NULL;
    error = mot_yaml_text(*map, "file", 0, &file);
    if (!error) { error = mot_yaml_int(*map, "max", 1, TOKENS_MAX, NULL, &l->max); }
    if (!error && file != NULL) {
        if (mot_yaml_find(*map, "mean") != NULL) {
            return mot_yaml_fail(*map, "%s: either a file or a mean", key);
        }
        char *path = beside(root, file);
        error = read_recorded(*map, path, l);
        free(path);
        return error;
    }
    if (!error) { error = mot_yaml_number(*map, "mean", 1.0, TOKENS_MAX, NULL, &l->mean); }
    if (!error) { error = mot_yaml_number(*map, "sigma", 0.0, 5.0, &zero, &l->sigma); }
    if (!error && l->mean > l->max) {
        error = mot_yaml_fail(mot_yaml_find(*map, "mean"), "%s: the mean is above max", key);
    }
    return error;
}

static int read_prompts(struct mot_yaml *root, struct mot_workload *w)
{
    static const char *const keys[] = {"file", "mean", "sigma", "max", NULL};
    struct mot_yaml *map = NULL;
    const int error = read_lengths(root, "prompt_tokens", &w->prompts, &map);
    return error ? error : mot_yaml_finish(map, keys);
}

static int read_answers(struct mot_yaml *root, struct mot_workload *w)
{
    static const char *const keys[] = {"file",  "mean",          "sigma", "max",
                                       "known", "unknown_sigma", NULL};
    struct mot_yaml *map = NULL;
    int error = read_lengths(root, "answer_tokens", &w->answers, &map);
    if (!error) { error = mot_yaml_bool(map, "known", 0, &w->lengths_known); }
    if (!error) {
        error = mot_yaml_number(map, "unknown_sigma", 0.0, 5.0, &zero, &w->unknown_sigma);
    }
    return error ? error : mot_yaml_finish(map, keys);
}

static int read_model(struct mot_yaml *root, struct mot_model_shape *shape)
{
    static const char *const keys[] = {"n_layers",   "hidden_size", "intermediate_size",
                                       "n_heads",    "n_kv_heads",  "head_dim",
                                       "vocab_size", "tied",        NULL};
    int *const numbers[] = {
        &shape->n_layers,   &shape->hidden_size, &shape->intermediate_size, &shape->n_heads,
        &shape->n_kv_heads, &shape->head_dim,    &shape->vocab_size,        NULL};
    struct mot_yaml *map = NULL;
    int error = mot_yaml_get(root, "model", MOT_YAML_MAP, 1, &map);
    for (int i = 0; !error && numbers[i] != NULL; i++) {
        error = mot_yaml_int(map, keys[i], 1, 1 << 24, NULL, numbers[i]);
    }
    if (!error) { error = mot_yaml_bool(map, "tied", 0, &shape->tied); }
    if (!error) { error = mot_yaml_finish(map, keys); }
    if (error) { return error; }
    shape->norm_eps = 1e-6f;
    shape->rope_theta = 1e4;
    shape->max_position = 1; /* until the lengths are known */
    char *place = mot_format("%s:%d", map->file, map->line);
    error = mot_model_shape_check(shape, place);
    free(place);
    return error;
}

static int read_staleness(struct mot_yaml *root, struct mot_workload *w)
{
    const char *mode = NULL;
    int error = mot_yaml_int(root, "staleness", 0, 1024, &int_zero, &w->staleness);
    if (!error) { error = mot_yaml_text(root, "staleness_mode", 0, &mode); }
    if (error) { return error; }
    w->staleness_mode = MOT_STALENESS_BOUNDED;
    if (mode != NULL && strcmp(mode, "exact") == 0) {
        w->staleness_mode = MOT_STALENESS_EXACT;
    } else if (mode != NULL && strcmp(mode, "bounded") != 0) {
        return mot_yaml_fail(mot_yaml_find(root, "staleness_mode"),
                             "staleness_mode: '%s' is neither bounded nor exact", mode);
    }
    return 0;
}

/* What a step is made of. */
static int read_step(struct mot_yaml *root, struct mot_workload *w)
{
    int error = mot_yaml_int(root, "steps", 1, 1 << 20, NULL, &w->steps);
    if (!error) {
        error = mot_yaml_int(root, "prompts_per_step", 1, 65535, NULL, &w->prompts_per_step);
    }
    if (!error) { error = mot_yaml_int(root, "group_size", 1, 65535, NULL, &w->group_size); }
    if (!error) { error = mot_yaml_int(root, "micro_batch", 1, 1 << 24, NULL, &w->micro_batch); }
    if (!error) {
        error = mot_yaml_int(root, "micro_batches_per_update", 0, 1 << 24, &int_zero,
                             &w->micro_batches_per_update);
    }
    if (!error) { error = mot_yaml_int(root, "lanes", 1, 4096, &int_one, &w->lanes); }
    if (!error) {
        error = mot_yaml_int(root, "rows_per_task", 1, 1 << 20, NULL, &w->rows_per_task);
    }
    if (!error) { error = mot_yaml_int(root, "chunk", 0, TOKENS_MAX, &int_zero, &w->chunk); }
    if (!error) { error = mot_yaml_int(root, "max_tasks", 0, 1 << 20, &int_zero, &w->max_tasks); }
    if (!error) { error = mot_yaml_bool(root, "reference", 0, &w->reference); }
    return error;
}

/* What of the numbers contradicts each other. */
static int check_step(struct mot_yaml *root, struct mot_workload *w)
{
    const int64_t answers = (int64_t)w->prompts_per_step * w->group_size;
    const int G = w->group_size, per = w->micro_batch;
    if (answers > 1 << 24) { return mot_yaml_fail(root, "more than %d answers a step", 1 << 24); }
    if (per % G != 0 && G % per != 0) {
        return mot_yaml_fail(mot_yaml_find(root, "micro_batch"),
                             "micro_batch %d neither divides group_size %d nor is a multiple of it",
                             per, G);
    }
    if (w->micro_batches_per_update == 0 && answers % per == 0) {
        w->micro_batches_per_update = (int)(answers / per);
    }
    const int64_t update = (int64_t)per * w->micro_batches_per_update;
    if (update == 0 || answers % update != 0) {
        return mot_yaml_fail(mot_yaml_find(root, "micro_batch"),
                             "a step's %lld answers are no whole number of micro-batches and "
                             "updates",
                             (long long)answers);
    }
    w->shape.max_position = w->prompts.max + w->answers.max;
    return 0;
}

static int read_training(struct mot_yaml *root, struct mot_workload *w)
{
    static const char *const keys[] = {
        "name",       "model",          "dtype",         "steps",       "prompts_per_step",
        "group_size", "prompt_tokens",  "answer_tokens", "micro_batch", "micro_batches_per_update",
        "lanes",      "rows_per_task",  "chunk",         "max_tasks",   "reference",
        "staleness",  "staleness_mode", "dag",           NULL};
    const char *dtype = NULL;
    int error = read_model(root, &w->shape);
    if (!error) { error = mot_yaml_text(root, "dtype", 0, &dtype); }
    if (error) { return error; }
    w->dtype = MOT_F32;
    if (dtype && (mot_dtype_parse(dtype, &w->dtype) != 0 || w->dtype == MOT_F16)) {
        return mot_yaml_fail(mot_yaml_find(root, "dtype"),
                             "dtype: '%s' is neither float32 nor bfloat16", dtype);
    }
    error = read_step(root, w);
    if (!error) { error = read_prompts(root, w); }
    if (!error) { error = read_answers(root, w); }
    if (!error) { error = read_staleness(root, w); }
    if (!error) { error = mot_yaml_finish(root, keys); }
    return error ? error : check_step(root, w);
}

static int read_stage_graph(struct mot_yaml *root, struct mot_yaml *map, struct mot_workload *w)
{
    static const char *const own[] = {"name", "stages", NULL};
    static const char *const keys[] = {"steps",     "answers",     "micro_batch",
                                       "staleness", "tokens",      "weight_mb",
                                       "answer_mb", "gradient_mb", NULL};
    static const char *const lengths[] = {"mean", "sigma", "unknown_sigma", "by_rand", NULL};
    struct mot_stage_graph *s = &w->stages;
    struct mot_yaml *tokens = NULL;
    int error = mot_yaml_int(map, "steps", 1, 1 << 20, NULL, &s->steps);
    if (!error) { error = mot_yaml_int(map, "answers", 1, 1 << 20, NULL, &s->answers); }
    if (!error) { error = mot_yaml_int(map, "micro_batch", 1, 1 << 20, NULL, &s->micro_batch); }
    if (!error) { error = mot_yaml_int(map, "staleness", 0, 1024, &int_zero, &s->staleness); }
    if (!error) { error = mot_yaml_number(map, "weight_mb", 0, 1e7, &zero, &s->weight_bytes); }
    if (!error) { error = mot_yaml_number(map, "answer_mb", 0, 1e7, &zero, &s->answer_bytes); }
    if (!error) { error = mot_yaml_number(map, "gradient_mb", 0, 1e7, &zero, &s->gradient_bytes); }
    if (!error) { error = mot_yaml_get(map, "tokens", MOT_YAML_MAP, 1, &tokens); }
    if (!error) { error = mot_yaml_number(tokens, "mean", 1e-3, TOKENS_MAX, NULL, &s->mean); }
    if (!error) { error = mot_yaml_number(tokens, "sigma", 0.0, 5.0, &zero, &s->sigma); }
    if (!error) {
        error = mot_yaml_number(tokens, "unknown_sigma", 0.0, 5.0, &zero, &s->unknown_sigma);
    }
    if (!error) { error = mot_yaml_bool(tokens, "by_rand", 0, &s->by_rand); }
    if (!error) { error = mot_yaml_finish(tokens, lengths); }
    if (!error) { error = mot_yaml_finish(map, keys); }
    if (!error) { error = mot_yaml_finish(root, own); }
    if (error) { return error; }
    s->weight_bytes *= 1e6;
    s->answer_bytes *= 1e6;
    s->gradient_bytes *= 1e6;
    if (s->answers % s->micro_batch != 0) {
        return mot_yaml_fail(mot_yaml_find(map, "micro_batch"),
                             "%d answers are no whole number of micro-batches of %d", s->answers,
                             s->micro_batch);
    }
    if ((int64_t)s->steps * (2 * s->answers + s->answers / s->micro_batch + 1) > 1 << 22) {
        return mot_yaml_fail(map, "stages: more than %d tasks", 1 << 22);
    }
    return 0;
}

static int read_workload(struct mot_yaml *root, struct mot_workload *w)
{
    static const char *const keys[] = {"name", "dag", "graph", NULL};
    const char *name = NULL, *dag = NULL, *graph = NULL;
    struct mot_yaml *stages = NULL;
    int error = mot_yaml_text(root, "name", 1, &name);
    if (!error) { error = mot_yaml_text(root, "dag", 0, &dag); }
    if (!error) { error = mot_yaml_get(root, "stages", MOT_YAML_MAP, 0, &stages); }
    if (error) { return error; }
    w->name = mot_strdup(name);
    if (stages != NULL) { return read_stage_graph(root, stages, w); }
    if (dag == NULL) { return read_training(root, w); }
    w->dag = beside(root, dag);
    error = mot_yaml_text(root, "graph", 0, &graph);
    if (graph != NULL) { w->graph = mot_strdup(graph); }
    return error ? error : mot_yaml_finish(root, keys);
}

int mot_workload_load(const char *path, struct mot_workload *workload)
{
    struct mot_yaml *root;
    int error = mot_yaml_load(path, &root);
    if (error) { return error; }
    struct mot_workload made = {.path = mot_strdup(path)};
    error = read_workload(root, &made);
    mot_yaml_free(root);
    if (error) {
        mot_workload_free(&made);
        return error;
    }
    *workload = made;
    return 0;
}
