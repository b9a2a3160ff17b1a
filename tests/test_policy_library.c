/* libmotley-policies.so in a program that knows nothing of Motley: with MOTLEY_TRACE every task is
 * recorded under several policies of StarPU and one of ours, with names and the versions of its
 * data, and the graph of the recording is the program's; without, StarPU's policies are as ever; a
 * file that cannot be written does not stop the program.  A program that starts with mot_start() is
 * recorded once.
 * Run it alone: ./test_policy_library */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "child.h"
#include "error.h"
#include "graph.h"
#include "trace_read.h"
#include <cmocka.h>
#include <math.h>

static const char trace[] = MOT_BINARY_DIR "/test_policy_library.json.gz";
enum { ROUNDS = 10, SUMS = 8, TASKS = ROUNDS * (1 + 2 * SUMS) };
static const char *program;

static int run_program(void)
{
    dup2(2, 1);
    execl(program, program, (char *)NULL);
    return 99;
}

/* Runs it under a policy; what it prints must have the words. */
static void run(const char *name, const char *policy, const char *path, const char *words)
{
    char text[4096];
    program = name;
    setenv("STARPU_SCHED", policy, 1);
    if (path) {
        setenv("MOTLEY_TRACE", path, 1);
    } else {
        unsetenv("MOTLEY_TRACE");
    }
    const int code = child_run(run_program, text, sizeof(text));
    if (code != 0 || !strstr(text, words)) { print_error("%s: exit %d: %s\n", policy, code, text); }
    assert_int_equal(code, 0);
    assert_non_null(strstr(text, words));
}

static int count_name(const struct mot_recording *r, const char *name)
{
    int n = 0;
    for (int i = 0; i < r->n_tasks; i++) { n += strcmp(r->tasks[i].name, name) == 0; }
    return n;
}

static double kind_is(const struct mot_graph *graph, int task, const char *kind)
{
    return strcmp(graph->tasks[task].kind, kind) == 0;
}

/* fill -> sum -> add, with bytes, and add -> add in a row. */
static void check_graph(void)
{
    struct mot_graphs graphs;
    assert_int_equal(mot_graphs_read(trace, 0, &graphs), 0);
    assert_int_equal(graphs.n, 1);
    const struct mot_graph *graph = &graphs.graph[0];
    assert_int_equal(graph->n_tasks, TASKS);
    assert_int_equal(graph->n_classes, 1);
    assert_int_equal(graph->classes[0].workers, 2);
    int fill_sum = 0, sum_add = 0, add_add = 0, others = 0;
    for (int e = 0; e < graph->n_edges; e++) {
        const struct mot_graph_edge *edge = &graph->edges[e];
        if (kind_is(graph, edge->before, "fill") && kind_is(graph, edge->after, "sum")) {
            fill_sum += edge->bytes == 4000.0;
        } else if (kind_is(graph, edge->before, "sum") && kind_is(graph, edge->after, "add")) {
            sum_add += edge->bytes == 4.0;
        } else if (kind_is(graph, edge->before, "add") && kind_is(graph, edge->after, "add")) {
            add_add += edge->bytes == 4.0;
        } else {
            others++;
        }
    }
    assert_int_equal(fill_sum, ROUNDS * SUMS);
    assert_int_equal(sum_add, ROUNDS * SUMS);
    assert_int_equal(add_add, ROUNDS * SUMS - 1);
    assert_int_equal(others, 0);
    mot_graphs_free(&graphs);
}

static void test_recorded(void **state)
{
    (void)state;
    static const char *const policies[] = {"lws",  "eager",      "dmda",         "dmdas",
                                           "prio", "heteroprio", "modular-heft", "motley-eft"};
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        char *words = mot_format("%s 39960000", policies[i]);
        run(MOT_BINARY_DIR "/foreign_graph", policies[i], trace, words);
        free(words);
        struct mot_recording *r;
        assert_int_equal(mot_recording_read(trace, &r), 0);
        assert_false(r->ends_early);
        assert_string_equal(r->policy, policies[i]);
        assert_int_equal(r->n_tasks, TASKS);
        assert_int_equal(count_name(r, "fill"), ROUNDS);
        assert_int_equal(count_name(r, "sum"), ROUNDS * SUMS);
        assert_int_equal(count_name(r, "add"), ROUNDS * SUMS);
        for (int k = 0; k < r->n_tasks; k++) {
            const struct mot_recorded_task *t = &r->tasks[k];
            assert_true(t->submit_us <= t->ready_us && t->ready_us <= t->popped_us
                        && t->popped_us <= t->start_us && t->start_us <= t->end_us);
        }
        mot_recording_free(r);
        check_graph();
        unlink(trace);
    }
}

static void test_not_recorded(void **state)
{
    (void)state;
    run(MOT_BINARY_DIR "/foreign_graph", "dmda", NULL, "dmda 39960000");
    run(MOT_BINARY_DIR "/foreign_graph", "motley-eft", NULL, "motley-eft 39960000");
    assert_int_not_equal(access(trace, F_OK), 0);
    run(MOT_BINARY_DIR "/foreign_graph", "dmda", "/nonexistent/t.json.gz",
        "/nonexistent/t.json.gz: cannot write");
    run(MOT_BINARY_DIR "/foreign_graph", "dmda", "/nonexistent/t.json.gz", "dmda 39960000");
}

static void test_own_program(void **state)
{
    (void)state;
    run(MOT_BINARY_DIR "/hello_graph", "eager", trace, "policy eager");
    struct mot_recording *r;
    assert_int_equal(mot_recording_read(trace, &r), 0);
    assert_int_equal(r->n_tasks, 9);
    assert_string_equal(r->tasks[0].stage, "fill"); /* by the program itself, with its hints */
    mot_recording_free(r);
    unlink(trace);
}

int main(void)
{
    setenv("STARPU_SCHED_LIB", MOT_BINARY_DIR "/libmotley-policies.so", 1);
    setenv("STARPU_NCPU", "2", 1);
    setenv("STARPU_WORKERS_NOBIND", "1", 1);
    setenv("STARPU_SILENT", "1", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded),
                                       cmocka_unit_test(test_not_recorded),
                                       cmocka_unit_test(test_own_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
