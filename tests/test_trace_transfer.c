/* Transfers are recorded: from main memory to a device with a memory of its own and back, each with
 * its datum's name and size, begun before and ended at the latest when the task that needs it
 * begins; nothing is copied twice; waiting for them is counted as such; and a recording's graph
 * has both kinds of worker and their link.  The device is PoCL's.  Skipped (77) without one.
 * Run it alone: ./test_trace_transfer */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "graph.h"
#include "motley.h"
#include "trace_read.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 1 << 20 }; /* bytes */
static const char path[] = MOT_BINARY_DIR "/test_trace_transfer.json.gz";

static void fill_cpu(void *buffers[], void *argument)
{
    (void)argument;
    memset((void *)STARPU_VECTOR_GET_PTR(buffers[0]), 7, LENGTH);
}
static void nothing(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
}
static int sum; /* of what the last task found */
static void sum_cpu(void *buffers[], void *argument)
{
    const char *x = (const char *)STARPU_VECTOR_GET_PTR(buffers[0]);
    (void)argument;
    sum = 0;
    for (int i = 0; i < LENGTH; i++) { sum += x[i]; }
}
static struct starpu_codelet fill = {.cpu_funcs = {fill_cpu}, .nbuffers = 1, .modes = {STARPU_W}};
static struct starpu_codelet there = {
    .where = STARPU_OPENCL, .opencl_funcs = {nothing}, .nbuffers = 1, .modes = {STARPU_RW}};
static struct starpu_codelet look = {
    .where = STARPU_OPENCL, .opencl_funcs = {nothing}, .nbuffers = 1, .modes = {STARPU_R}};
static struct starpu_codelet back = {.cpu_funcs = {sum_cpu}, .nbuffers = 1, .modes = {STARPU_R}};

static void insert(struct starpu_codelet *codelet, const char *name, starpu_data_handle_t handle)
{
    assert_int_equal(mot_task_insert(&(struct mot_task){
                         .codelet = codelet, .name = name, .n_buffers = 1, .handles = &handle}),
                     0);
}

static const struct mot_recorded_task *find(const struct mot_recording *r, const char *name)
{
    for (int i = 0; i < r->n_tasks; i++) {
        if (strcmp(r->tasks[i].name, name) == 0) { return &r->tasks[i]; }
    }
    fail_msg("no task %s", name);
    return NULL;
}

/* The only transfer of the datum to the node of that task. */
static void check_transfer(const struct mot_recording *r, const char *task)
{
    const struct mot_recorded_task *t = find(r, task);
    const int node = r->workers[t->worker].node;
    int found = 0;
    for (int i = 0; i < r->n_transfers; i++) {
        const struct mot_recorded_transfer *x = &r->transfers[i];
        if (x->to != node) { continue; }
        found++;
        assert_int_not_equal(x->from, node);
        assert_string_equal(r->data[x->data].name, "the vector");
        assert_true(x->bytes == LENGTH);
        assert_int_not_equal(x->end, MOT_RECORDED_UNKNOWN);
        assert_true(x->start_us <= x->end_us && x->end_us <= t->start_us);
        print_message("to node %d: %.0f us, %s\n", node, x->end_us - x->start_us,
                      x->end == MOT_RECORDED_EXACT ? "exactly" : "at most");
    }
    assert_int_equal(found, 1);
}

static void check_usage(const struct mot_recording *r)
{
    struct mot_recorded_usage usage[STARPU_NMAXWORKERS];
    const double makespan_us = mot_recording_usage(r, usage);
    for (int w = 0; w < r->n_workers; w++) {
        const double sum_us = usage[w].busy_us + usage[w].transfer_us + usage[w].idle_us;
        assert_true(fabs(sum_us - makespan_us) <= 1e-3 * makespan_us);
    }
    assert_true(usage[find(r, "there")->worker].transfer_us > 0.0);
}

static void check_graph(void)
{
    struct mot_graphs graphs;
    assert_int_equal(mot_graphs_read(path, 0, &graphs), 0);
    const struct mot_graph *graph = &graphs.graph[0];
    assert_true(graph->n_tasks == 4 && graph->n_edges == 3 && graph->n_classes == 2);
    const int device = strncmp(graph->classes[1].name, "OpenCL", 6) == 0;
    assert_true(graph->classes[device].link_bytes_per_s > 1e6);
    assert_true(graph->classes[!device].link_bytes_per_s == 0.0);
    assert_true(isinf(graph->tasks[0].ms[device]) && isfinite(graph->tasks[0].ms[!device]));
    assert_true(isfinite(graph->tasks[1].ms[device]) && isinf(graph->tasks[1].ms[!device]));
    for (int e = 0; e < 3; e++) { assert_true(graph->edges[e].bytes == LENGTH); }
    mot_graphs_free(&graphs);
}

static void test_there_and_back(void **state)
{
    (void)state;
    assert_int_equal(mot_trace_open(path), 0);
    starpu_data_handle_t handle;
    starpu_vector_data_register(&handle, -1, 0, LENGTH, 1);
    mot_data_name(handle, "the %s", "vector");
    insert(&fill, "fill", handle);
    insert(&there, "there", handle);
    insert(&look, "look", handle); /* where it is already */
    insert(&back, "back", handle);
    mot_wait_all();
    starpu_data_unregister(handle);
    mot_stop();
    assert_int_equal(sum, 7 * LENGTH);
    struct mot_recording *r;
    assert_int_equal(mot_recording_read(path, &r), 0);
    assert_int_equal(r->n_tasks, 4);
    assert_int_equal(r->n_transfers, 2);
    check_transfer(r, "there");
    check_transfer(r, "back");
    check_usage(r);
    mot_recording_free(r);
    check_graph();
    unlink(path);
}

int main(void)
{
    unsetenv("MOTLEY_TRACE");
    setenv("STARPU_NOPENCL", "1", 1);
    setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    setenv("POCL_MAX_PTHREAD_COUNT", "1", 1);
    const struct mot_start_options options = {
        .workers = 1, .cores_per_worker = 1, .policy = "lws", .watchdog_s = 60};
    if (mot_start(&options)) { return 1; }
    if (starpu_worker_get_count_by_type(STARPU_OPENCL_WORKER) < 1) {
        printf("skipped: no OpenCL device; Debian's pocl-opencl-icd is one\n");
        mot_stop();
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_there_and_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
