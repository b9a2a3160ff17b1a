/* motley bench record: what recording costs.  A queue of empty tasks is filled while the workers
 * are held, then worked off: microseconds per task of the thread that submits and of each worker,
 * with and without a recording, in turn; what the writer's thread took; and whether anybody had to
 * wait for it. */
#include "app.h"
#include "bench.h"
#include "json.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct record_config {
    struct mot_machine_config machine;
    int repeats, tasks;
};

static const char usage[] =
    "usage: motley bench record [options]\n\n"
    "What recording (--trace, MOTLEY_TRACE) costs, with empty tasks.  Prints a JSON line per\n"
    "measurement: bench, recording, tasks, workers, policy, submit_us_per_task,\n"
    "worker_us_per_task, and of a recording writer_us_per_task, writer_cpu_share, waits,\n"
    "waited_us, file_bytes_per_task; and as the last, with \"median\": true, the medians and\n"
    "their difference: cost_us_per_task.\n";

#define AT(member) offsetof(struct record_config, member)
static const struct mot_option options[] = {
    {"repeats", MOT_OPTION_INT, AT(repeats), "5", NULL, 1, 1000, NULL,
     "Measurements with and without a recording; the medians are reported last.", "Benchmark"},
    {"tasks", MOT_OPTION_INT, AT(tasks), "20000", NULL, 1, 10000000, "tasks",
     "In a measurement; more than some 20000 a worker can fill the buffers.", NULL},
    MOT_ROWS(AT(machine), mot_machine_rows),
    {0},
};
#undef AT

static atomic_int held, open_gate;

static void hold_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
    atomic_fetch_add(&held, 1);
    while (!atomic_load(&open_gate)) {}
}
static void nothing_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
}
static struct starpu_codelet hold = {.name = "hold", .cpu_funcs = {hold_cpu}};
static struct starpu_codelet nothing = {.name = "nothing", .cpu_funcs = {nothing_cpu}};

struct cost {
    double submit_us, worker_us; /* per task */
};

/* StarPU runs; the workers' time is from the opening of the gate to the last task's end. */
static int measure(int tasks, struct cost *cost)
{
    const int workers = mot_cpu_workers();
    const struct mot_task gate = {
        .codelet = &hold, .name = "bench.hold", .hint = {.stage = -1, .version = -1}};
    const struct mot_task empty = {
        .codelet = &nothing, .name = "bench.empty", .hint = {.stage = -1, .version = -1}};
    int error = 0;
    atomic_store(&held, 0);
    atomic_store(&open_gate, 0);
    for (int w = 0; w < workers && error == 0; w++) { error = mot_task_insert(&gate); }
    while (error == 0 && atomic_load(&held) < workers) { usleep(100); }
    const double begin_us = starpu_timing_now();
    for (int i = 0; i < tasks && error == 0; i++) { error = mot_task_insert(&empty); }
    const double submitted_us = starpu_timing_now();
    usleep(100000); /* the writer comes to rest */
    const double open_us = starpu_timing_now();
    atomic_store(&open_gate, 1);
    mot_wait_all();
    *cost = (struct cost){(submitted_us - begin_us) / tasks,
                          (starpu_timing_now() - open_us) * workers / tasks};
    return error;
}

static void print_line(json_t *o)
{
    char *text = mot_json_text(o);
    printf("%s\n", text);
    fflush(stdout);
    free(text);
    json_decref(o);
}

static json_t *line(const struct record_config *c, const char *policy, int workers)
{
    return json_pack("{s:s, s:i, s:i, s:s}", "bench", "record", "tasks", c->tasks, "workers",
                     workers, "policy", policy);
}

static void print_cost(const struct record_config *c, const char *policy, int workers,
                       const struct cost *cost, const struct mot_trace_stats *stats)
{
    json_t *o = line(c, policy, workers);
    json_object_set_new(o, "recording", json_boolean(stats != NULL));
    json_object_set_new(o, "submit_us_per_task", mot_json_number(cost->submit_us));
    json_object_set_new(o, "worker_us_per_task", mot_json_number(cost->worker_us));
    if (stats) {
        const double tasks = (double)stats->tasks;
        json_object_set_new(o, "writer_us_per_task",
                            mot_json_number(1e6 * stats->writer_cpu_s / tasks));
        json_object_set_new(o, "writer_cpu_share",
                            mot_json_number(stats->writer_cpu_s / stats->seconds));
        json_object_set_new(o, "waits", json_integer((json_int_t)stats->waits));
        json_object_set_new(o, "waited_us", mot_json_number(stats->waited_us));
        json_object_set_new(o, "file_bytes_per_task",
                            mot_json_number((double)stats->file_bytes / tasks));
    }
    print_line(o);
}

/* One start of StarPU, recorded into path or not (NULL).  quiet: nothing is printed.  An exit
 * code. */
static int run_once(const struct record_config *c, const char *path, int quiet, struct cost *cost)
{
    int code = mot_app_start(&c->machine);
    if (code != MOT_EXIT_OK) { return code; }
    int error = path ? mot_trace_open(path) : 0;
    if (error == 0) { error = measure(c->tasks, cost); }
    char *policy = mot_strdup(mot_policy_name());
    const int workers = mot_cpu_workers();
    code = mot_app_stop(mot_app_exit_code(error));
    if (code == MOT_EXIT_OK && !quiet) {
        const struct mot_trace_stats stats = mot_trace_last_stats();
        print_cost(c, policy, workers, cost, path ? &stats : NULL);
    }
    free(policy);
    return code;
}

static int by_worker_us(const void *a, const void *b)
{
    const double x = ((const struct cost *)a)->worker_us, y = ((const struct cost *)b)->worker_us;
    return (x > y) - (x < y);
}

static int by_submit_us(const void *a, const void *b)
{
    const double x = ((const struct cost *)a)->submit_us, y = ((const struct cost *)b)->submit_us;
    return (x > y) - (x < y);
}

static struct cost median(struct cost *costs, int n)
{
    struct cost m;
    qsort(costs, (size_t)n, sizeof(*costs), by_worker_us);
    m.worker_us = costs[n / 2].worker_us;
    qsort(costs, (size_t)n, sizeof(*costs), by_submit_us);
    m.submit_us = costs[n / 2].submit_us;
    return m;
}

static int run_all(const struct record_config *c, const char *path)
{
    struct cost *costs[2] = {mot_alloc((size_t)c->repeats * sizeof(struct cost)),
                             mot_alloc((size_t)c->repeats * sizeof(struct cost))},
                warm_up;
    int code = run_once(c, NULL, 1, &warm_up);
    for (int i = 0; i < 2 * c->repeats && code == MOT_EXIT_OK; i++) {
        code = run_once(c, i % 2 ? path : NULL, 0, &costs[i % 2][i / 2]);
    }
    if (code == MOT_EXIT_OK) {
        const struct cost without = median(costs[0], c->repeats);
        const struct cost with = median(costs[1], c->repeats);
        json_t *o = json_pack("{s:s, s:b}", "bench", "record", "median", 1);
        json_object_set_new(o, "tasks", json_integer(c->tasks));
        json_object_set_new(o, "without_worker_us", mot_json_number(without.worker_us));
        json_object_set_new(o, "with_worker_us", mot_json_number(with.worker_us));
        json_object_set_new(o, "cost_us_per_task",
                            mot_json_number(with.worker_us - without.worker_us));
        json_object_set_new(o, "cost_submit_us_per_task",
                            mot_json_number(with.submit_us - without.submit_us));
        print_line(o);
    }
    free(costs[0]);
    free(costs[1]);
    return code;
}

int mot_bench_record(int argc, char **argv)
{
    struct record_config c;
    const int parsed = mot_options_parse(options, &c, argc, argv, 1, NULL, usage);
    if (parsed) { return parsed > 0 ? MOT_EXIT_OK : MOT_EXIT_USAGE; }
    if (getenv("MOTLEY_TRACE")) { /* it would record what is to be measured without */
        mot_options_free(options, &c);
        mot_fail(EINVAL, "bench record makes recordings of its own: unset MOTLEY_TRACE");
        return MOT_EXIT_USAGE;
    }
    const char *folder = getenv("TMPDIR");
    char *path = mot_format("%s/motley-record-XXXXXX", folder && *folder ? folder : "/tmp");
    const int fd = mkstemp(path);
    int code = MOT_EXIT_INPUT;
    if (fd < 0) {
        mot_fail(errno, "%s: cannot write: %s", path, strerror(errno));
    } else {
        close(fd);
        code = run_all(&c, path);
        unlink(path);
    }
    free(path);
    mot_options_free(options, &c);
    return code;
}
