/* plan_exact: on random graphs the optimum is that of brute force, on the 30 recorded graphs it is
 * the recorded one, proven; schedules keep all edges and worker counts; no time and no memory do
 * not make it wrong.  MOTLEY_TEST_FULL=1: all 30 under a sanitizer too.
 * Run it alone: ./test_plan_exact (prints the time of each graph) */
#include "graphs.h"
#include "plan_exact.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
enum { SLOW = 1 };
#else
enum { SLOW = 0 };
#endif

/* ---- Brute force ----------------------------------------------------------------------------- */

/* Every order that edges allow, every class: each task as early as its predecessors and the workers
 * allow after those placed before it.  Some such order gives the optimum. */
struct brute {
    const struct mot_graph *graph;
    double end[8], free_ms[3][3], best;
    int done[8];
};

static void brute_place(struct brute *b, int placed, double makespan)
{
    const struct mot_graph *g = b->graph;
    if (placed == g->n_tasks) { b->best = fmin(b->best, makespan); }
    for (int t = 0; t < g->n_tasks; t++) {
        double ready = 0.0;
        int may = !b->done[t];
        for (int e = 0; e < g->n_edges && may; e++) {
            if (g->edges[e].after != t) { continue; }
            may = b->done[g->edges[e].before];
            ready = fmax(ready, b->end[g->edges[e].before]);
        }
        for (int c = 0; c < g->n_classes && may; c++) {
            if (!mot_graph_can_run(g, t, c)) { continue; }
            int worker = 0;
            for (int w = 1; w < g->classes[c].workers; w++) {
                if (b->free_ms[c][w] < b->free_ms[c][worker]) { worker = w; }
            }
            const double was = b->free_ms[c][worker];
            b->done[t] = 1;
            b->end[t] = b->free_ms[c][worker] = fmax(ready, was) + g->tasks[t].ms[c];
            brute_place(b, placed + 1, fmax(makespan, b->end[t]));
            b->free_ms[c][worker] = was;
            b->done[t] = 0;
        }
    }
}

static double brute_optimum(const struct mot_graph *graph)
{
    struct brute b = {.graph = graph, .best = INFINITY};
    brute_place(&b, 0, 0.0);
    return b.best;
}

static void test_brute_force(void **state)
{
    (void)state;
    int longer_than_list = 0;
    for (uint32_t i = 0; i < (SLOW ? 100 : 400); i++) {
        struct mot_graph graph;
        struct mot_exact exact;
        graph_random(&graph, 1000 + i, 1, 6);
        if (i % 3 == 0) { /* durations that are no whole milliseconds */
            for (int t = 0; t < graph.n_tasks; t++) {
                for (int c = 0; c < graph.n_classes; c++) {
                    graph.tasks[t].ms[c] *= 0.1 + 0.01 * (t % 2);
                }
            }
        }
        const double optimum = brute_optimum(&graph);
        /* Mostly cold: good list schedules would hide a search that misses the best. */
        const struct mot_exact_options options = {.memory_bytes = i % 5 == 0 ? 1024 : 0,
                                                  .cold = i % 4 != 0};
        assert_int_equal(mot_plan_exact(&graph, &options, &exact), 0);
        assert_true(exact.proven);
        if (!(fabs(exact.schedule.makespan_ms - optimum) <= 1e-8 * optimum)) {
            fail_msg("graph %u: %.9g found, %.9g is the optimum", i, exact.schedule.makespan_ms,
                     optimum);
        }
        assert_true(mot_schedule_verify(&graph, &exact.schedule) == exact.schedule.makespan_ms);
        assert_true(exact.bound_ms == exact.schedule.makespan_ms);
        struct mot_schedule list;
        mot_plan_list(&graph, 0, &list);
        assert_true(mot_schedule_verify(&graph, &list) == list.makespan_ms);
        longer_than_list += list.makespan_ms > optimum * (1.0 + 1e-9);
        mot_schedule_free(&list);
        mot_exact_free(&exact);
        mot_graph_free(&graph);
    }
    printf("a list schedule is longer than the optimum in %d\n", longer_than_list);
    assert_true(longer_than_list >= (SLOW ? 1 : 10)); /* else nothing was searched for */
}

/* Larger graphs than brute force can do: what is remembered must not change the optimum. */
static void test_memory_changes_nothing(void **state)
{
    (void)state;
    int64_t nodes[2] = {0, 0};
    for (uint32_t i = 0; i < (SLOW ? 50 : 400); i++) {
        struct mot_graph graph;
        struct mot_exact exact[2];
        graph_random(&graph, 9000 + i, 6, 9);
        for (int j = 0; j < 2; j++) {
            const struct mot_exact_options options = {.memory_bytes = j ? 8 : 1 << 20, .cold = 1};
            assert_int_equal(mot_plan_exact(&graph, &options, &exact[j]), 0);
            assert_true(exact[j].proven);
            nodes[j] += exact[j].nodes;
        }
        if (exact[0].schedule.makespan_ms != exact[1].schedule.makespan_ms) {
            fail_msg("graph %u: %g with memory, %g without", i, exact[0].schedule.makespan_ms,
                     exact[1].schedule.makespan_ms);
        }
        mot_exact_free(&exact[0]);
        mot_exact_free(&exact[1]);
        mot_graph_free(&graph);
    }
    printf("%lld nodes with memory, %lld without\n", (long long)nodes[0], (long long)nodes[1]);
    assert_true(nodes[0] < nodes[1]);
}

/* ---- The recorded graphs --------------------------------------------------------------------- */

static void test_recorded(void **state)
{
    (void)state;
    struct mot_graphs graphs;
    assert_int_equal(mot_graphs_read(MOT_TEST_DATA "/small-dags.json", 0, &graphs), 0);
    double seconds = 0.0;
    for (int g = 0; g < graphs.n; g++) {
        const struct mot_graph *graph = &graphs.graph[g];
        struct mot_exact exact;
        if (SLOW && graph->n_tasks > 18 && !getenv("MOTLEY_TEST_FULL")) { continue; }
        assert_int_equal(mot_plan_exact(graph, NULL, &exact), 0);
        printf("%-20s %2d tasks  optimum %6g  found %6g  %8lld nodes  %7.3f s\n", graph->name,
               graph->n_tasks, graph->optimum_ms, exact.schedule.makespan_ms,
               (long long)exact.nodes, exact.seconds);
        assert_true(exact.proven);
        assert_true(exact.schedule.makespan_ms == graph->optimum_ms);
        assert_true(mot_schedule_verify(graph, &exact.schedule) == graph->optimum_ms);
        assert_true(exact.seconds < 120.0);
        seconds += exact.seconds;
        mot_exact_free(&exact);
    }
    printf("all: %.3f s\n", seconds);
    mot_graphs_free(&graphs);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void test_limits(void **state)
{
    (void)state;
    struct mot_graphs graphs;
    assert_int_equal(mot_graphs_read(MOT_TEST_DATA "/small-dags.json", 0, &graphs), 0);
    const struct mot_graph *hard = &graphs.graph[26]; /* layered-20-0 */
    struct mot_exact exact;
    const struct mot_exact_options hurry = {.seconds = 1e-6};
    assert_int_equal(mot_plan_exact(hard, &hurry, &exact), 0);
    assert_false(exact.proven);
    assert_true(exact.bound_ms > 0.0 && exact.bound_ms <= hard->optimum_ms);
    assert_true(exact.schedule.makespan_ms >= hard->optimum_ms);
    assert_true(mot_schedule_verify(hard, &exact.schedule) == exact.schedule.makespan_ms);
    mot_exact_free(&exact);
    mot_graphs_free(&graphs);

    struct mot_graph graph;
    mot_graph_begin(&graph, "large", "large", 1, MOT_EXACT_TASKS_MAX + 1);
    graph.classes[0].workers = 2;
    assert_int_equal(mot_plan_exact(&graph, NULL, &exact), -EFBIG);
    assert_non_null(strstr(mot_last_message(), "65 tasks"));
    graph.n_tasks = MOT_EXACT_TASKS_MAX; /* all of no time */
    assert_int_equal(mot_plan_exact(&graph, NULL, &exact), 0);
    assert_true(exact.proven && exact.schedule.makespan_ms == 0.0);
    mot_exact_free(&exact);
    for (int t = 0; t < graph.n_tasks; t++) { graph.tasks[t].ms[0] = 5.0; } /* equal tasks */
    assert_int_equal(mot_plan_exact(&graph, NULL, &exact), 0);
    assert_true(exact.proven && exact.schedule.makespan_ms == 160.0);
    mot_exact_free(&exact);
    mot_graph_free(&graph);
}

/* What mot_schedule_verify must not let through. */
static void test_verify(void **state)
{
    (void)state;
    struct mot_graph graph;
    int class[3] = {0, 0, 0}, capacity = 0;
    double start[3] = {0.0, 0.0, 2.0};
    const struct mot_schedule s = {class, start, 0.0};
    mot_graph_begin(&graph, "g", "g", 2, 3);
    graph.classes[0].workers = 2;
    graph.classes[1].workers = 1;
    for (int t = 0; t < 3; t++) {
        graph.tasks[t].ms[0] = 2.0;
        graph.tasks[t].ms[1] = INFINITY;
    }
    mot_graph_add_edge(&graph, &capacity, 0, 2, 0.0, 0);
    assert_true(mot_schedule_verify(&graph, &s) == 4.0);
    start[2] = 1.0; /* before its predecessor ends, and a third on two workers */
    assert_true(isnan(mot_schedule_verify(&graph, &s)));
    graph.n_edges = 0;
    assert_true(isnan(mot_schedule_verify(&graph, &s)));
    start[2] = 2.0;
    class[2] = 1; /* cannot run it */
    assert_true(isnan(mot_schedule_verify(&graph, &s)));
    mot_graph_free(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_brute_force),
        cmocka_unit_test(test_memory_changes_nothing),
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
