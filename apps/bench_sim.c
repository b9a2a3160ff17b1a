/* motley bench sim: how near simulated training is to the real thing.  Each repeat calibrates
 * (calibrate.h), runs steps of GRPO, and lets the simulator's program run the same steps on the
 * machine file that the calibration wrote, with answers as long as the real ones.  Calibration
 * never sees the steps that it is held against. */
#include "bench.h"
#include "calibrate.h"
#include "file.h"
#include "grpo_shape.h"
#include "jobs.h"
#include "json.h"
#include "motley.h"
#include "sim.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_sim_config {
    struct mot_machine_config machine;
    struct mot_model_config model;
    struct mot_sampling_config sampling;
    int repeats, steps, prompts, generations, micro_batch, lanes;
    char *data;
};

static const char usage[] =
    "usage: motley bench sim --model M [--train_file F] [options]\n\n"
    "The time of a GRPO step, real and simulated.  Prints a JSON line per repeat: bench, model,\n"
    "workers, threads, policy, real_step_s and simulated_step_s (medians over steps), ratio\n"
    "(simulated over real); and last, with \"median\": true, their medians and worst_ratio, the\n"
    "one farthest from 1.  Needs the simulator's build (tools/setup --sim).\n";

#define AT(member) offsetof(struct bench_sim_config, member)
static const struct mot_option options[] = {
    MOT_ROWS(AT(model), mot_model_rows),
    {"train_file", MOT_OPTION_STRING, AT(data), "sums:10-99", NULL, 0, 0, NULL,
     "Prompts of the steps, as in grpo.", "Benchmark"},
    {"repeats", MOT_OPTION_INT, AT(repeats), "10", NULL, 1, 1000, NULL,
     "Calibrations, each with steps real and simulated.", NULL},
    {"steps", MOT_OPTION_INT, AT(steps), "5", NULL, 2, 100000, "steps",
     "Steps in a repeat; the first, which warms up, does not count.", NULL},
    {"prompts", MOT_OPTION_INT, AT(prompts), "4", NULL, 1, 65535, NULL, "Prompts per step.", NULL},
    {"num_generations", MOT_OPTION_INT, AT(generations), "4", NULL, 2, 65535, "answers",
     "Answers per prompt.", NULL},
    {"per_device_train_batch_size", MOT_OPTION_INT, AT(micro_batch), "8", NULL, 1, 1 << 20,
     "answers", "Answers per micro-batch; all of a step make one optimiser step.", NULL},
    {"lanes", MOT_OPTION_INT, AT(lanes), "2", NULL, 1, 64, NULL, "Gradient accumulators.", NULL},
    MOT_ROWS(AT(sampling), mot_sampling_rows),
    MOT_DEFAULT("temperature", "1.0"),
    MOT_DEFAULT("max_completion_length", "64"),
    MOT_ROWS(AT(machine), mot_machine_rows),
    {0},
};
#undef AT

struct repeat {
    double real_s, simulated_s;
};

static double ratio(const struct repeat *r)
{
    return r->simulated_s / r->real_s;
}

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int n)
{
    double *sorted = mot_alloc((size_t)n * sizeof(double));
    memcpy(sorted, values, (size_t)n * sizeof(double));
    qsort(sorted, (size_t)n, sizeof(double), by_number);
    const double m = 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]);
    free(sorted);
    return m;
}

/* ---- The simulated side ---------------------------------------------------------------------- */

/* The lengths as motley sim reads them: rows like those of completions.jsonl. */
static int write_lengths(const struct mot_grpo_shape_run *run, const char *path)
{
    char *text = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&text, &n);
    MOT_ASSERT(memory != NULL);
    for (int i = 0; i < run->n_lengths; i++) {
        fputs("{\"completion_ids\":[", memory);
        for (int k = 0; k < run->lengths[i]; k++) { fputs(k ? ",0" : "0", memory); }
        fputs("]}\n", memory);
    }
    fclose(memory);
    const int error = mot_file_write(path, text, n);
    free(text);
    return error;
}

static int write_workload(const struct mot_model_shape *m, const struct mot_grpo_shape *shape,
                          const struct mot_grpo_shape_run *run, const char *path)
{
    const int prompt = (int)lround(run->prompt_tokens);
    const int rows = shape->prompts * shape->generations;
    char *text = mot_format(
        "name: the same steps\n"
        "model: {n_layers: %d, hidden_size: %d, intermediate_size: %d, n_heads: %d,\n"
        "        n_kv_heads: %d, head_dim: %d, vocab_size: %d, tied: %s}\n"
        "steps: %d\nprompts_per_step: %d\ngroup_size: %d\n"
        "prompt_tokens: {mean: %d, max: %d}\n"
        "answer_tokens: {file: lengths.jsonl, max: %d}\n"
        "micro_batch: %d\nlanes: %d\nrows_per_task: %d\nchunk: %d\nmax_tasks: %d\n",
        m->n_layers, m->hidden_size, m->intermediate_size, m->n_heads, m->n_kv_heads, m->head_dim,
        m->vocab_size, m->tied ? "true" : "false", shape->steps, shape->prompts, shape->generations,
        prompt, prompt, shape->sampling.max_completion_length, shape->answers_per_micro_batch,
        shape->lanes, mot_app_rows_per_task(&shape->sampling, rows), shape->sampling.chunk,
        mot_cpu_workers());
    const int error = mot_file_write(path, text, strlen(text));
    free(text);
    return error;
}

/* Step times out of what motley sim --json printed. */
static int read_steps(const char *path, int steps, double *simulated_s)
{
    json_t *result = NULL;
    const int error = mot_json_load(path, 64 << 20, &result);
    if (error) { return error; }
    const json_t *list = json_object_get(result, "steps");
    double *step_s = mot_alloc((size_t)steps * sizeof(double)), before = 0.0;
    const int whole = (int)json_array_size(list) == steps;
    for (int i = 0; whole && i < steps; i++) {
        const double end =
            json_number_value(json_object_get(json_array_get(list, (size_t)i), "end_s"));
        step_s[i] = end - before;
        before = end;
    }
    if (whole) { *simulated_s = median(step_s + 1, steps - 1); }
    free(step_s);
    json_decref(result);
    return whole ? 0 : mot_fail(EIO, "the simulator printed no result");
}

static void say_failure(void *context, int i)
{
    (void)i;
    struct mot_job *job = context;
    char *failure = mot_job_failure(job);
    if (failure && !job->error) { job->error = mot_fail(EIO, "%s: %s", job->argv[0], failure); }
    free(failure);
}

static int simulate(const char *directory, const struct mot_grpo_shape *shape, double *simulated_s)
{
    static const volatile int never;
    char *program = mot_sim_program();
    if (program == NULL) { return -ENOENT; }
    char **argv = mot_alloc_zeroed(10, sizeof(*argv));
    argv[0] = program;
    argv[1] = mot_strdup("sim");
    argv[2] = mot_strdup("--machine");
    argv[3] = mot_format("%s/machine.yaml", directory);
    argv[4] = mot_strdup("--workload");
    argv[5] = mot_format("%s/workload.yaml", directory);
    argv[6] = mot_strdup("--policy");
    argv[7] = mot_strdup(mot_policy_name());
    argv[8] = mot_strdup("--json");
    struct mot_job job = {.argv = argv,
                          .out = mot_format("%s/result.json", directory),
                          .err = mot_format("%s/messages", directory)};
    (void)mot_jobs_run(&job, 1, 1, &never, say_failure, &job);
    const int error = job.error ? job.error : read_steps(job.out, shape->steps, simulated_s);
    mot_job_free(&job);
    return error;
}

/* ---- Repeats --------------------------------------------------------------------------------- */

static int measure(const struct bench_sim_config *c, struct mot_app_model *model,
                   const struct mot_dataset *data, const char *directory, int seed,
                   struct repeat *r)
{
    struct mot_calibration calibration;
    struct mot_grpo_shape shape = {.steps = c->steps,
                                   .prompts = c->prompts,
                                   .generations = c->generations,
                                   .answers_per_micro_batch = c->micro_batch,
                                   .lanes = c->lanes,
                                   .sampling = c->sampling};
    shape.sampling.seed += seed;
    shape.sampling.pack_weights = MOT_PACK_NEVER; /* the simulator knows no packing */
    char *machine = mot_format("%s/machine.yaml", directory);
    char *workload = mot_format("%s/workload.yaml", directory);
    char *lengths = mot_format("%s/lengths.jsonl", directory);
    int error = mot_calibrate(model, &c->model, NULL, &calibration);
    if (!error) { error = mot_calibration_write(&calibration, c->model.model, machine); }
    mot_calibration_free(&calibration);
    struct mot_grpo_shape_run run = {0};
    if (!error) { error = mot_grpo_shape_measure(model, data, &shape, &run); }
    if (!error) { error = write_lengths(&run, lengths); }
    if (!error) { error = write_workload(&model->actor.info.shape, &shape, &run, workload); }
    if (!error) {
        r->real_s = median(run.step_s + 1, c->steps - 1);
        starpu_pause();
        error = simulate(directory, &shape, &r->simulated_s);
        starpu_resume();
    }
    mot_grpo_shape_run_free(&run);
    free(machine);
    free(workload);
    free(lengths);
    return error;
}

static void print(const struct bench_sim_config *c, const struct repeat *r, const double *worst)
{
    json_t *o = json_object();
    json_object_set_new(o, "bench", json_string("sim"));
    json_object_set_new(o, "model", json_string(c->model.model));
    json_object_set_new(o, "workers", json_integer(mot_cpu_workers()));
    json_object_set_new(o, "threads", json_integer(mot_cpu_workers() * mot_cores_per_worker()));
    json_object_set_new(o, "policy", json_string(mot_policy_name()));
    json_object_set_new(o, "real_step_s", mot_json_number(r->real_s));
    json_object_set_new(o, "simulated_step_s", mot_json_number(r->simulated_s));
    json_object_set_new(o, "ratio", mot_json_number(worst ? worst[0] : ratio(r)));
    if (worst) {
        json_object_set_new(o, "worst_ratio", mot_json_number(worst[1]));
        json_object_set_new(o, "median", json_true());
    }
    char *text = mot_json_text(o);
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(o);
}

static void print_median(const struct bench_sim_config *c, const struct repeat *repeats)
{
    const int n = c->repeats;
    double *real = mot_alloc((size_t)n * sizeof(double)),
           *ratios = mot_alloc((size_t)n * sizeof(double));
    double *simulated = mot_alloc((size_t)n * sizeof(double)), worst = 1.0;
    for (int i = 0; i < n; i++) {
        real[i] = repeats[i].real_s;
        simulated[i] = repeats[i].simulated_s;
        ratios[i] = ratio(&repeats[i]);
        if (fabs(log(ratios[i])) > fabs(log(worst))) { worst = ratios[i]; }
    }
    const struct repeat middle = {median(real, n), median(simulated, n)};
    print(c, &middle, (const double[]){median(ratios, n), worst});
    free(real);
    free(simulated);
    free(ratios);
}

static int run(const struct bench_sim_config *c, struct mot_app_model *model)
{
    struct mot_dataset data = {0};
    const struct mot_app_data how = {.max_tokens = model->actor.info.shape.max_position - 1};
    int error = mot_app_dataset_load(c->data, model, &c->model, &how, &data);
    char directory[] = "/tmp/motley-bench-sim-XXXXXX";
    if (!error && mkdtemp(directory) == NULL) {
        error = mot_fail(errno, "%s: %s", directory, strerror(errno));
    }
    struct repeat *repeats = mot_alloc_zeroed((size_t)c->repeats, sizeof(*repeats));
    for (int i = 0; i < c->repeats && !error; i++) {
        error = measure(c, model, &data, directory, i, &repeats[i]);
        if (!error) { print(c, &repeats[i], NULL); }
    }
    if (!error) { print_median(c, repeats); }
    free(repeats);
    (void)mot_remove_tree(directory);
    mot_dataset_destroy(&data);
    return error;
}

static int check(const struct bench_sim_config *c)
{
    const int answers = c->prompts * c->generations;
    if (c->generations % c->micro_batch != 0 && c->micro_batch % c->generations != 0) {
        return mot_fail(EINVAL,
                        "per_device_train_batch_size %d neither divides num_generations %d nor is "
                        "a multiple of it",
                        c->micro_batch, c->generations);
    }
    if (answers % c->micro_batch != 0) {
        return mot_fail(EINVAL, "%d answers are not a multiple of per_device_train_batch_size %d",
                        answers, c->micro_batch);
    }
    char *program = mot_sim_program(); /* before any work */
    free(program);
    return program ? 0 : -ENOENT;
}

int mot_bench_sim(int argc, char **argv)
{
    struct bench_sim_config c;
    const int parsed = mot_options_parse(options, &c, argc, argv, 1, NULL, usage);
    if (parsed) { return parsed > 0 ? MOT_EXIT_OK : MOT_EXIT_USAGE; }
    int error = check(&c), code = mot_app_exit_code(error);
    if (!error) { code = mot_app_start(&c.machine); }
    if (!error && code == MOT_EXIT_OK) {
        struct mot_app_model model;
        const struct mot_app_model_options how = {.lanes = c.lanes};
        error = mot_app_model_load(&model, &c.model, &how);
        if (!error) {
            error = run(&c, &model);
            mot_app_model_free(&model);
        }
        code = mot_app_stop(mot_app_exit_code(error));
    }
    mot_options_free(options, &c);
    return code;
}
