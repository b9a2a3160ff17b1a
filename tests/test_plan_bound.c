/* plan_bound and plan_lp: bounds of hand-computed graphs, never above the optimum on the 30
 * recorded graphs and 300 random ones, nor above any schedule with transfers of small ones; the
 * mixed program within 3 % of the best bound everywhere; a step's graph of about 1000 tasks in
 * seconds. Run it alone: ./test_plan_bound */
#include "graphs.h"
#include "plan_bound.h"
#include "plan_exact.h"
#include "plan_lp.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int near_to(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fmax(1.0, fabs(b));
}

/* ---- Programs -------------------------------------------------------------------------------- */

static void test_programs(void **state)
{
    (void)state;
    /* max 3 x + 2 y: x + y <= 4, x + 3 y <= 8, x <= 3: at (3, 1) 11; prices 2, 0. */
    struct mot_lp *lp = mot_lp_create();
    const int x = mot_lp_column(lp, 0.0, 3.0, -3.0, 0);
    const int y = mot_lp_column(lp, 0.0, INFINITY, -2.0, 0);
    mot_lp_row(lp, -INFINITY, 4.0);
    mot_lp_term(lp, x, 1.0);
    mot_lp_term(lp, y, 1.0);
    mot_lp_row(lp, -INFINITY, 8.0);
    mot_lp_term(lp, x, 1.0);
    mot_lp_term(lp, y, 3.0);
    assert_int_equal(mot_lp_solve(lp, INFINITY), 0);
    assert_true(near_to(mot_lp_objective(lp), -11.0) && near_to(mot_lp_bound(lp), -11.0));
    assert_true(near_to(mot_lp_value(lp, x), 3.0) && near_to(mot_lp_value(lp, y), 1.0));
    assert_true(near_to(mot_lp_price(lp, 0), -2.0) && near_to(mot_lp_price(lp, 1), 0.0));
    mot_lp_row(lp, 9.0, INFINITY); /* x + y >= 9: impossible now */
    mot_lp_term(lp, x, 1.0);
    mot_lp_term(lp, y, 1.0);
    assert_int_equal(mot_lp_solve(lp, INFINITY), -EDOM);
    assert_true(isinf(mot_lp_objective(lp)));
    mot_lp_destroy(lp);

    lp = mot_lp_create(); /* unbounded */
    mot_lp_column(lp, 0.0, INFINITY, -1.0, 0);
    assert_int_equal(mot_lp_solve(lp, INFINITY), -EDOM);
    mot_lp_destroy(lp);

    /* A knapsack of whole things, value 8, 11, 6, 4, weight 5, 7, 4, 3, at most 14: 21. */
    lp = mot_lp_create();
    const double value[] = {8.0, 11.0, 6.0, 4.0}, weight[] = {5.0, 7.0, 4.0, 3.0};
    for (int i = 0; i < 4; i++) { mot_lp_column(lp, 0.0, 1.0, -value[i], 1); }
    mot_lp_row(lp, -INFINITY, 14.0);
    for (int i = 0; i < 4; i++) { mot_lp_term(lp, i, weight[i]); }
    const double start[] = {1.0, 0.0, 1.0, 1.0};
    mot_lp_start(lp, start);
    assert_int_equal(mot_lp_solve(lp, 60.0), 0);
    assert_true(near_to(mot_lp_objective(lp), -21.0));
    assert_true(near_to(mot_lp_value(lp, 0), 0.0) && near_to(mot_lp_value(lp, 1), 1.0));
    mot_lp_destroy(lp);
}

/* ---- Graphs computed by hand ----------------------------------------------------------------- */

/* cpu: 2 workers, gpu: 1; n tasks of cpu and gpu milliseconds. */
static void begin(struct mot_graph *graph, int n, double cpu, double gpu)
{
    mot_graph_begin(graph, "hand", "hand", 2, n);
    for (int c = 0; c < 2; c++) {
        graph->classes[c].name = mot_strdup(c ? "gpu" : "cpu");
        graph->classes[c].workers = c ? 1 : 2;
    }
    for (int t = 0; t < n; t++) {
        graph->tasks[t].ms[0] = cpu;
        graph->tasks[t].ms[1] = gpu;
    }
}

static void bound_of(const struct mot_graph *graph, struct mot_bounds *bounds)
{
    assert_int_equal(mot_plan_bound(graph, 0.0, bounds), 0);
}

static void test_by_hand(void **state)
{
    (void)state;
    struct mot_graph graph;
    struct mot_bounds b;
    /* 12 tasks of 6 or 2: rates 2/6 + 1/2 = 5/6 a millisecond. */
    begin(&graph, 12, 6.0, 2.0);
    bound_of(&graph, &b);
    assert_true(near_to(b.ms[MOT_BOUND_AREA], 14.4) && near_to(b.ms[MOT_BOUND_PATH], 2.0));
    assert_true(near_to(b.ms[MOT_BOUND_LONGEST], 14.4) && isnan(b.ms[MOT_BOUND_LINKS]));
    mot_graph_free(&graph);
    /* One task: area shares it out (1 / (2/6 + 1/3) = 1.5), longest does not let it run beside
     * itself: 3. */
    begin(&graph, 1, 6.0, 3.0);
    bound_of(&graph, &b);
    assert_true(near_to(b.ms[MOT_BOUND_AREA], 1.5) && near_to(b.ms[MOT_BOUND_LONGEST], 3.0));
    assert_int_equal(b.best, MOT_BOUND_LONGEST);
    mot_graph_free(&graph);
    /* A task of 5 before and after 10 tasks of 6 or 2, of rate 5/6: 5 + 12 + 5. */
    int capacity = 0;
    begin(&graph, 12, 6.0, 2.0);
    for (int i = 0; i < 2; i++) {
        graph.tasks[i * 11].ms[0] = 5.0;
        graph.tasks[i * 11].ms[1] = INFINITY;
    }
    for (int t = 1; t < 11; t++) {
        mot_graph_add_edge(&graph, &capacity, 0, t, 0.0, 0);
        mot_graph_add_edge(&graph, &capacity, t, 11, 0.0, 0);
    }
    bound_of(&graph, &b);
    assert_true(near_to(b.ms[MOT_BOUND_PATH], 12.0) && near_to(b.ms[MOT_BOUND_SETS], 22.0));
    assert_true(near_to(b.ms[MOT_BOUND_MIXED], 22.0));
    mot_graph_free(&graph);
}

/* a -> b, a only on the CPU, b only on the GPU behind a link. */
static void test_transfers_by_hand(void **state)
{
    (void)state;
    struct mot_graph graph;
    struct mot_bounds b;
    int capacity = 0;
    begin(&graph, 2, 4.0, INFINITY);
    graph.tasks[1].ms[0] = INFINITY;
    graph.tasks[1].ms[1] = 3.0;
    graph.classes[1].link_bytes_per_s = 1e6;
    graph.classes[1].link_ms = 0.5;
    mot_graph_add_edge(&graph, &capacity, 0, 1, 2000.0, 0);
    bound_of(&graph, &b); /* 4 + 0.5 + 2000 / 1000 + 3 */
    assert_true(near_to(b.ms[MOT_BOUND_PATH], 9.5) && near_to(b.ms[MOT_BOUND_LINKS], 9.5));
    graph.tasks[1].ms[0] = 4.5; /* better without the transfer */
    bound_of(&graph, &b);
    assert_true(near_to(b.ms[MOT_BOUND_PATH], 8.5));
    mot_graph_free(&graph);

    /* 6 sources on the CPU at no time, each with its own task on the GPU of 1 ms and 5000 bytes at
     * 1000 a millisecond: the link is busy for 30 ms. */
    capacity = 0;
    begin(&graph, 12, 0.0, INFINITY);
    graph.classes[1].link_bytes_per_s = 1e6;
    for (int t = 6; t < 12; t++) {
        graph.tasks[t].ms[0] = INFINITY;
        graph.tasks[t].ms[1] = 1.0;
        mot_graph_add_edge(&graph, &capacity, t - 6, t, 5000.0, 0);
    }
    bound_of(&graph, &b);
    assert_true(b.ms[MOT_BOUND_PATH] < 7.0 && near_to(b.ms[MOT_BOUND_LINKS], 30.0));
    assert_int_equal(b.best, MOT_BOUND_LINKS);
    for (int e = 0; e < 6; e++) { graph.edges[e].before = 0; } /* one datum for all: comes once */
    bound_of(&graph, &b);
    assert_true(b.ms[MOT_BOUND_LINKS] < 12.0);
    mot_graph_free(&graph);

    /* 10 tasks of 1 ms on 2 CPUs, each leaving 8 of 10 bytes of main memory: one at a time. */
    begin(&graph, 10, 1.0, INFINITY);
    graph.classes[0].memory_bytes = 10.0;
    for (int t = 0; t < 10; t++) { graph.tasks[t].output_bytes = 8.0; }
    bound_of(&graph, &b);
    assert_true(near_to(b.ms[MOT_BOUND_MIXED], 5.0) && near_to(b.ms[MOT_BOUND_LINKS], 8.0));
    mot_graph_free(&graph);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* steps of n generations and an update, on one class of m workers; generation s waits for the
 * update of s - eta - 1. */
static void steps_graph(struct mot_graph *graph, int steps, int n, int m, int eta, double long_ms)
{
    int capacity = 0;
    mot_graph_begin(graph, "steps", "steps", 1, steps * (n + 1));
    graph->classes[0].name = mot_strdup("gpu");
    graph->classes[0].workers = m;
    for (int s = 0; s < steps; s++) {
        const int update = s * (n + 1) + n;
        for (int i = 0; i <= n; i++) {
            struct mot_graph_task *task = &graph->tasks[s * (n + 1) + i];
            task->kind = mot_strdup(i < n ? "generate" : "update");
            task->step = s + 3;
            task->ms[0] = i == 0 ? long_ms : 1.0;
            if (i == n) { continue; }
            mot_graph_add_edge(graph, &capacity, s * (n + 1) + i, update, 0.0, 0);
            if (s > eta) {
                mot_graph_add_edge(graph, &capacity, (s - eta - 1) * (n + 1) + n, s * (n + 1) + i,
                                   0.0, 0);
            }
        }
    }
}

static void test_cycle(void **state)
{
    (void)state;
    struct mot_graph graph;
    struct mot_bounds b;
    /* A step: 20 + 9 + 1 of work on 3 workers, Z = 10; its way 20 + 1 = 21: eta* = ceil(2.1) -
     * 1. */
    for (int eta = 0; eta < 4; eta++) {
        steps_graph(&graph, 6, 10, 3, eta, 20.0);
        bound_of(&graph, &b);
        assert_int_equal(b.cycle.steps, 6);
        assert_true(near_to(b.cycle.area_ms, 10.0) && near_to(b.cycle.cycle_ms, 21.0));
        assert_int_equal(b.cycle.eta, eta);
        assert_int_equal(b.cycle.eta_star, 2);
        assert_true(near_to(b.cycle.period_ms, fmax(10.0, 21.0 / (eta + 1))));
        mot_graph_free(&graph);
    }
    steps_graph(&graph, 1, 10, 3, 0, 20.0);
    bound_of(&graph, &b);
    assert_int_equal(b.cycle.steps, 0);
    mot_graph_free(&graph);
}

/* ---- Never above the optimum ----------------------------------------------------------------- */

static void check_bounds(const struct mot_graph *graph, double optimum)
{
    struct mot_bounds b;
    bound_of(graph, &b);
    for (int i = 0; i < MOT_BOUNDS; i++) {
        if (i == MOT_BOUND_LINKS) { continue; } /* no bytes in these graphs */
        if (!(b.ms[i] <= optimum * (1.0 + 1e-6))) {
            fail_msg("%s: %s is %.9g, the optimum %.9g", graph->name,
                     mot_bound_name((enum mot_bound)i), b.ms[i], optimum);
        }
    }
    assert_true(b.ms[MOT_BOUND_AREA] <= b.ms[MOT_BOUND_LONGEST] * (1.0 + 1e-6));
    if (!(b.ms[MOT_BOUND_MIXED] >= 0.97 * b.best_ms)) {
        fail_msg("%s: mixed %g, best %g", graph->name, b.ms[MOT_BOUND_MIXED], b.best_ms);
    }
    if (!isnan(graph->longest_path_ms)) {
        assert_true(near_to(b.ms[MOT_BOUND_PATH], graph->longest_path_ms));
    }
}

static void test_recorded_graphs(void **state)
{
    (void)state;
    struct mot_graphs graphs;
    assert_int_equal(mot_graphs_read(MOT_TEST_DATA "/small-dags.json", 0, &graphs), 0);
    for (int g = 0; g < graphs.n; g++) {
        check_bounds(&graphs.graph[g], graphs.graph[g].optimum_ms);
    }
    mot_graphs_free(&graphs);
}

static void test_random_graphs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        struct mot_graph graph;
        struct mot_exact exact;
        graph_random(&graph, i, 2, 12);
        assert_int_equal(mot_plan_exact(&graph, NULL, &exact), 0);
        assert_true(exact.proven);
        check_bounds(&graph, exact.schedule.makespan_ms);
        mot_exact_free(&exact);
        mot_graph_free(&graph);
    }
}

/* ---- Never above a schedule with transfers --------------------------------------------------- */

/* Every order, every worker; a worker behind a link has its own memory; bytes wait for the link,
 * one transfer at a time each way, and come once.  Each such schedule can be carried out. */
struct moves {
    const struct mot_graph *graph;
    double end[6], best;
    double free_ms[9], in_ms[9], out_ms[9]; /* by worker */
    double there[6][10];                    /* when the datum of a task is in a memory; 0: main */
    int done[6], home[6];
};

static int worker_class(const struct mot_graph *g, int worker)
{
    int c = 0;
    while (worker >= g->classes[c].workers) { worker -= g->classes[c++].workers; }
    return c;
}

/* When the bytes of an edge are in the memory of worker w; books the links. */
static double fetch(struct moves *m, const struct mot_graph_edge *edge, int w)
{
    const struct mot_graph *g = m->graph;
    const int a = edge->before, from = worker_class(g, m->home[a]), to = worker_class(g, w);
    const int main_memory = !(g->classes[to].link_bytes_per_s > 0.0);
    double *there = &m->there[a][main_memory ? 0 : w + 1];
    if (edge->bytes <= 0.0 || *there <= m->end[a]) { return m->end[a]; }
    if (isfinite(*there)) { return *there; }
    if (isinf(m->there[a][0])) { /* out to main memory first */
        const double ms =
            g->classes[from].link_ms + 1e3 * edge->bytes / g->classes[from].link_bytes_per_s;
        m->out_ms[m->home[a]] = fmax(m->out_ms[m->home[a]], m->end[a]) + ms;
        m->there[a][0] = m->out_ms[m->home[a]];
    }
    if (!main_memory) {
        const double ms =
            g->classes[to].link_ms + 1e3 * edge->bytes / g->classes[to].link_bytes_per_s;
        m->in_ms[w] = fmax(m->in_ms[w], m->there[a][0]) + ms;
        *there = m->in_ms[w];
    }
    return *there;
}

static void place_all(struct moves *m, int placed, double makespan)
{
    const struct mot_graph *g = m->graph;
    if (placed == g->n_tasks) { m->best = fmin(m->best, makespan); }
    for (int t = 0; t < g->n_tasks; t++) {
        int may = !m->done[t];
        for (int e = 0; e < g->n_edges; e++) {
            may = may && (g->edges[e].after != t || m->done[g->edges[e].before]);
        }
        for (int w = 0; w < mot_graph_workers(g) && may; w++) {
            const int c = worker_class(g, w);
            if (!mot_graph_can_run(g, t, c)) { continue; }
            struct moves next = *m;
            double start = m->free_ms[w];
            for (int e = 0; e < g->n_edges; e++) {
                if (g->edges[e].after == t) { start = fmax(start, fetch(&next, &g->edges[e], w)); }
            }
            next.done[t] = 1;
            next.home[t] = w;
            next.end[t] = next.free_ms[w] = start + g->tasks[t].ms[c];
            for (int i = 0; i < 10; i++) { next.there[t][i] = INFINITY; }
            next.there[t][g->classes[c].link_bytes_per_s > 0.0 ? w + 1 : 0] = next.end[t];
            place_all(&next, placed + 1, fmax(makespan, next.end[t]));
            m->best = next.best;
        }
    }
}

static void test_schedules_with_transfers(void **state)
{
    (void)state;
    int binds = 0;
    for (uint32_t i = 0; i < 150; i++) {
        struct mot_graph graph;
        struct mot_bounds b;
        graph_random(&graph, 5000 + i, 2, 5);
        for (int c = 0; c < graph.n_classes; c++) {
            if (graph.classes[c].workers == 3) { graph.classes[c].workers = 2; }
            if (graph_draw(0, 2) == 0) { continue; }
            graph.classes[c].link_bytes_per_s = graph_draw(1, 5) * 1e3;
            graph.classes[c].link_ms = graph_draw(0, 2);
        }
        for (int e = 0; e < graph.n_edges; e++) {
            /* One datum a task: all its edges move the same bytes. */
            graph.edges[e].bytes = (graph.edges[e].before * 7 + (int)i) % 40 * 5.0;
        }
        struct moves m = {.graph = &graph, .best = INFINITY};
        place_all(&m, 0, 0.0);
        bound_of(&graph, &b);
        for (int k = 0; k < MOT_BOUNDS; k++) {
            if (b.ms[k] > m.best * (1.0 + 1e-6)) {
                fail_msg("graph %u: %s is %.9g, a schedule takes %.9g", i,
                         mot_bound_name((enum mot_bound)k), b.ms[k], m.best);
            }
        }
        binds += b.best == MOT_BOUND_LINKS || b.best == MOT_BOUND_PATH;
        mot_graph_free(&graph);
    }
    printf("the path or the links bind in %d of 150\n", binds);
    assert_true(binds > 20);
}

/* ---- Speed ----------------------------------------------------------------------------------- */

static void test_a_thousand_tasks(void **state)
{
    (void)state;
    struct mot_graph graph;
    struct mot_bounds b;
    steps_graph(&graph, 10, 100, 8, 1, 60.0);
    graph_number = 77;
    graph_draws = 0;
    for (int t = 0; t < graph.n_tasks; t++) {
        graph.tasks[t].ms[0] = graph_draw(1000, 60000) / 1e3;
    }
    bound_of(&graph, &b);
    double seconds = 0.0;
    for (int i = 0; i < MOT_BOUNDS; i++) { seconds += b.seconds[i]; }
    printf("%d tasks, %d edges: mixed %.2f s, all %.2f s\n", graph.n_tasks, graph.n_edges,
           b.seconds[MOT_BOUND_MIXED], seconds);
    assert_true(b.ms[MOT_BOUND_MIXED] >= 0.97 * b.best_ms && b.best_ms > 0.0);
    assert_true(seconds < 60.0);
    mot_graph_free(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_transfers_by_hand),
        cmocka_unit_test(test_cycle),
        cmocka_unit_test(test_recorded_graphs),
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_schedules_with_transfers),
        cmocka_unit_test(test_a_thousand_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
