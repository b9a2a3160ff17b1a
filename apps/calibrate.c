/* calibrate: small runs of GRPO in several shapes, recorded, and what is fitted to them.  See
 * calibrate.h. */
#include "calibrate.h"
#include "file.h"
#include "grpo_shape.h"
#include "kernels.h"
#include "motley.h"
#include "parallel.h"
#include "progress.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Memory and matrix products -------------------------------------------------------------- */

enum { BLOCK_FLOATS = 8 << 20, ROUNDS = 4 }; /* 32 MB read and 32 MB written a round */

struct rates {
    double bytes_per_s, flop_per_s; /* sums over workers */
};

static void measure_rates(void *buffers[], void *argument)
{
    (void)buffers;
    struct rates *rates = *(struct rates **)argument;
    float *a = mot_alloc_zeroed(BLOCK_FLOATS, sizeof(float));
    float *b = mot_alloc_zeroed(BLOCK_FLOATS, sizeof(float));
    double start_us = 0.0;
    for (int round = 0; round <= ROUNDS; round++) { /* the first one touches the pages */
        if (round == 1) { start_us = starpu_timing_now(); }
        MOT_PARALLEL_FOR(1)
        for (int i = 0; i < BLOCK_FLOATS; i++) { b[i] = a[i] + (float)round; }
    }
    const double s = 1e-6 * (starpu_timing_now() - start_us);
    rates->bytes_per_s = ROUNDS * 2.0 * BLOCK_FLOATS * sizeof(float) / s;
    free(a);
    free(b);
    rates->flop_per_s = mot_matmul_peak_flop_per_s();
}

/* One task for each worker, at the same time; means. */
static int find_rates(struct mot_calibration *c)
{
    static struct starpu_codelet codelet = {.name = "rates", .cpu_funcs = {measure_rates}};
    const int n = mot_cpu_workers();
    struct rates *rates = mot_alloc_zeroed((size_t)n, sizeof(*rates));
    int error = 0;
    for (int i = 0; i < n && !error; i++) {
        const struct rates *one = &rates[i];
        error = mot_task_insert(&(struct mot_task){.codelet = &codelet,
                                                   .name = "devices.rates",
                                                   .hint = {.stage = -1},
                                                   .argument = &one,
                                                   .argument_bytes = sizeof(one)});
    }
    mot_wait_all();
    for (int i = 0; i < n; i++) {
        c->bytes_per_s += rates[i].bytes_per_s / n;
        c->peak_flop_per_s += rates[i].flop_per_s / n;
    }
    free(rates);
    return error;
}

/* ---- Stages ---------------------------------------------------------------------------------- */

/* Shapes whose tasks differ in rows, tokens and context, so that what depends on each shows. */
static const struct mot_grpo_shape shapes[] = {
    {.prompts = 2,
     .generations = 4,
     .answers_per_micro_batch = 4,
     .sampling = {.max_completion_length = 8, .chunk = 4}},
    {.prompts = 4,
     .generations = 4,
     .answers_per_micro_batch = 8,
     .sampling = {.max_completion_length = 32, .chunk = 16}},
    {.prompts = 2,
     .generations = 8,
     .answers_per_micro_batch = 16,
     .sampling = {.max_completion_length = 16, .chunk = 0}},
    {.prompts = 4,
     .generations = 8,
     .answers_per_micro_batch = 8,
     .sampling = {.max_completion_length = 12, .chunk = 8, .rows_per_task = 8}},
};
enum {
    SHAPES = sizeof(shapes) / sizeof(shapes[0]),
    /* Models below so many parameters run each shape several times, and again with so many times
     * the prompts: their tasks are short, and people give them large batches. */
    SMALL_PARAMETERS = 20000000,
    SMALL_STEPS = 4,
    SMALL_FACTOR = 8
};

static int is_small(const struct mot_app_model *model)
{
    return model->actor.transformer.layout.parameters < SMALL_PARAMETERS;
}

/* One shape, recorded; *recording NULL where it is only run. */
static int run_shape(struct mot_app_model *model, const struct mot_dataset *data, int shape,
                     const char *path, struct mot_recording **recording)
{
    struct mot_grpo_shape s = shapes[shape % SHAPES];
    s.steps = is_small(model) ? SMALL_STEPS : 1;
    if (shape >= SHAPES) {
        s.steps /= 2;
        s.prompts *= SMALL_FACTOR;
        s.answers_per_micro_batch *= SMALL_FACTOR;
        s.sampling.rows_per_task *= SMALL_FACTOR;
    }
    s.lanes = model->actor.options.lanes;
    s.sampling.temperature = s.sampling.top_p = 1.0;
    s.sampling.ignore_eos = 1; /* a task then does what it is said to do */
    s.sampling.seed = shape + 1;
    s.sampling.pack_weights = MOT_PACK_NEVER; /* as simulated runs do */
    struct mot_grpo_shape_run run;
    int error = recording ? mot_trace_open(path) : 0;
    if (error) { return error; }
    error = mot_grpo_shape_measure(model, data, &s, &run);
    mot_grpo_shape_run_free(&run);
    mot_wait_all();
    if (!recording) { return error; }
    const int closed = mot_trace_close();
    error = error ? error : closed;
    return error ? error : mot_recording_read(path, recording);
}

static int run_shapes(struct mot_app_model *model, const struct mot_dataset *data, int n_data,
                      const char *path, struct mot_calibration *calibration)
{
    struct mot_recording *recordings[4 * SHAPES] = {0};
    const int n_shapes = is_small(model) ? 2 * SHAPES : SHAPES, n = n_data * n_shapes;
    struct mot_progress *progress = mot_progress_create(n + 1, "calibrating");
    int error = run_shape(model, data, 0, path, NULL); /* allocations, page faults */
    for (int i = 0; i < n && !error; i++) {
        mot_progress_update(progress, i + 1, NULL);
        error = run_shape(model, &data[i / n_shapes], i % n_shapes, path, &recordings[i]);
    }
    mot_progress_finish(progress);
    if (!error) {
        mot_stage_fit((const struct mot_recording *const *)recordings, n, &calibration->stages);
    }
    for (int i = 0; i < n; i++) {
        if (recordings[i]) { mot_recording_free(recordings[i]); }
    }
    return error;
}

int mot_calibrate(struct mot_app_model *model, const struct mot_model_config *config,
                  const char *data, struct mot_calibration *calibration)
{
    *calibration = (struct mot_calibration){0};
    if (mot_trace_is_on()) {
        return mot_fail(EINVAL,
                        "calibration records for itself: not under MOTLEY_TRACE or --trace");
    }
    const char *specs[2] = {data ? data : "sums:10-99", "questions:0-99"};
    const int has_chat = mot_chat_template_end(model->chat) != NULL;
    const int n_data = data == NULL && has_chat ? 2 : 1;
    const struct mot_app_data how = {.max_tokens = model->actor.info.shape.max_position - 1};
    struct mot_dataset sets[2] = {0};
    int error = 0;
    for (int i = 0; i < n_data && !error; i++) {
        error = mot_app_dataset_load(specs[i], model, config, &how, &sets[i]);
    }
    char path[] = "/tmp/motley-calibrate-XXXXXX";
    const int fd = error ? -1 : mkstemp(path);
    if (!error && fd < 0) { error = mot_fail(errno, "%s: %s", path, strerror(errno)); }
    if (!error) {
        close(fd);
        error = find_rates(calibration);
        if (!error) { error = run_shapes(model, sets, n_data, path, calibration); }
        unlink(path);
    }
    for (int i = 0; i < n_data; i++) { mot_dataset_destroy(&sets[i]); }
    return error;
}

void mot_calibration_free(struct mot_calibration *calibration)
{
    mot_stage_fits_free(&calibration->stages);
}

int mot_calibration_write(const struct mot_calibration *c, const char *model, const char *path)
{
    char *text = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&text, &n);
    MOT_ASSERT(memory != NULL);
    const double memory_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    fprintf(memory,
            "# Measured by motley devices --calibrate with %s: %d workers of %d cores at once.\n"
            "name: this machine\nclasses:\n  - name: cpu\n    kind: cpu\n    count: %d\n"
            "    tflop_s: {float32: %.6g}\n    memory_gib: %.6g\n    memory_gb_s: %.6g\n"
            "    stages:\n",
            model, mot_cpu_workers(), mot_cores_per_worker(), mot_cpu_workers(),
            1e-12 * c->peak_flop_per_s, memory_bytes / 1073741824.0, 1e-9 * c->bytes_per_s);
    mot_stage_fits_write(&c->stages, 6, memory);
    fclose(memory);
    const int error = mot_file_write(path, text, n);
    free(text);
    return error;
}
