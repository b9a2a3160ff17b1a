/* plan_list: serial list scheduling.  Tasks are taken in an order that edges allow, by rank; each
 * goes to the class where it ends first.  Source: HEFT (Topcuoglu, Hariri, Wu 2002) without
 * insertion and without transfers, on classes of identical workers. */
#include "plan_list.h"
#include "error.h"
#include "rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void mot_schedule_free(struct mot_schedule *schedule)
{
    free(schedule->class);
    free(schedule->start);
    memset(schedule, 0, sizeof(*schedule));
}

/* ---- Verifying ------------------------------------------------------------------------------- */

struct change {
    double ms;
    int class, by; /* by: +1 a task starts, -1 one ends */
};

/* Ends come before starts at the same time, except that a task of no length needs no worker. */
static int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->class != y->class) { return x->class - y->class; }
    if (x->ms != y->ms) { return x->ms < y->ms ? -1 : 1; }
    return x->by - y->by;
}

static int workers_suffice(const struct mot_graph *graph, const struct mot_schedule *s)
{
    struct change *change = mot_alloc(2 * (size_t)graph->n_tasks * sizeof(*change));
    int n = 0, good = 1;
    for (int t = 0; t < graph->n_tasks; t++) {
        const double ms = graph->tasks[t].ms[s->class[t]];
        if (ms > 0.0) {
            change[n++] = (struct change){s->start[t], s->class[t], 1};
            change[n++] = (struct change){s->start[t] + ms, s->class[t], -1};
        }
    }
    qsort(change, (size_t)n, sizeof(*change), compare_changes);
    int running = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && change[i].class != change[i - 1].class) { running = 0; }
        running += change[i].by;
        good = good && running <= graph->classes[change[i].class].workers;
    }
    free(change);
    return good;
}

double mot_schedule_verify(const struct mot_graph *graph, const struct mot_schedule *s)
{
    double end = 0.0;
    for (int t = 0; t < graph->n_tasks; t++) {
        const int c = s->class[t];
        if (c < 0 || c >= graph->n_classes || !mot_graph_can_run(graph, t, c)) { return NAN; }
        if (!(s->start[t] >= 0.0)) { return NAN; }
        end = fmax(end, s->start[t] + graph->tasks[t].ms[c]);
    }
    for (int e = 0; e < graph->n_edges; e++) {
        const int a = graph->edges[e].before, b = graph->edges[e].after;
        if (!(s->start[b] >= s->start[a] + graph->tasks[a].ms[s->class[a]])) { return NAN; }
    }
    return workers_suffice(graph, s) ? end : NAN;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

enum measure { FASTEST, MEAN, SLOWEST_OF_TWO, MEASURES };

/* A task's length for its rank. */
static double measured(const struct mot_graph *graph, int t, enum measure measure)
{
    double best = INFINITY, second = INFINITY, sum = 0.0;
    int workers = 0;
    for (int c = 0; c < graph->n_classes; c++) {
        if (!mot_graph_can_run(graph, t, c)) { continue; }
        const double ms = graph->tasks[t].ms[c];
        sum += ms * graph->classes[c].workers;
        workers += graph->classes[c].workers;
        second = fmin(second, fmax(best, ms));
        best = fmin(best, ms);
    }
    if (measure == MEAN) { return sum / workers; }
    return measure == SLOWEST_OF_TWO && isfinite(second) ? second : best;
}

/* rank (n): the longest way to the end, the task itself in it. */
static void make_ranks(const struct mot_graph *graph, const int *order,
                       const struct mot_graph_links *out, enum measure measure, double *rank)
{
    for (int i = graph->n_tasks - 1; i >= 0; i--) {
        const int t = order[i];
        double tail = 0.0;
        for (int j = out->start[t]; j < out->start[t + 1]; j++) {
            tail = fmax(tail, rank[graph->edges[out->edge[j]].after]);
        }
        rank[t] = tail + measured(graph, t, measure);
    }
}

/* ---- Scheduling ------------------------------------------------------------------------------ */

/* Heaps of times, the smallest first: one per class, of when each worker is free. */
static void sift_down(double *heap, int n, double value)
{
    int at = 0;
    for (int child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child]) { child++; }
        if (heap[child] >= value) { break; }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
}

struct ready {
    double rank;
    int task;
};

static int goes_before(struct ready a, struct ready b)
{
    return a.rank > b.rank || (a.rank == b.rank && a.task < b.task);
}

static void ready_push(struct ready *heap, int n, struct ready item)
{
    while (n > 0 && goes_before(item, heap[(n - 1) / 2])) {
        heap[n] = heap[(n - 1) / 2];
        n = (n - 1) / 2;
    }
    heap[n] = item;
}

static int ready_pop(struct ready *heap, int n) /* n: with the one that goes */
{
    const int first = heap[0].task;
    const struct ready last = heap[--n];
    int at = 0;
    for (int child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && goes_before(heap[child + 1], heap[child])) { child++; }
        if (!goes_before(heap[child], last)) { break; }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

struct lists {
    const struct mot_graph *graph;
    struct mot_graph_links out;
    int *order, *waits;
    double *rank, *released; /* (n) */
    double **free_ms;        /* per class, a heap of its workers */
    struct ready *ready;
};

/* The class where t, released at ms, ends first; among equals the one that is busy anyway. */
static int best_class(const struct lists *l, int t, double ms, double *start)
{
    int best = -1;
    double best_end = INFINITY;
    for (int c = 0; c < l->graph->n_classes; c++) {
        if (!mot_graph_can_run(l->graph, t, c)) { continue; }
        const double from = fmax(ms, l->free_ms[c][0]), end = from + l->graph->tasks[t].ms[c];
        if (best < 0 || end < best_end) {
            best = c;
            best_end = end;
            *start = from;
        }
    }
    return best;
}

static void schedule_once(struct lists *l, struct mot_schedule *s)
{
    const struct mot_graph *graph = l->graph;
    int n_ready = 0;
    memset(l->waits, 0, (size_t)graph->n_tasks * sizeof(*l->waits));
    for (int e = 0; e < graph->n_edges; e++) { l->waits[graph->edges[e].after]++; }
    for (int c = 0; c < graph->n_classes; c++) {
        memset(l->free_ms[c], 0, (size_t)graph->classes[c].workers * sizeof(double));
    }
    for (int t = 0; t < graph->n_tasks; t++) {
        l->released[t] = 0.0;
        if (l->waits[t] == 0) { ready_push(l->ready, n_ready++, (struct ready){l->rank[t], t}); }
    }
    s->makespan_ms = 0.0;
    while (n_ready > 0) {
        const int t = ready_pop(l->ready, n_ready--);
        const int c = s->class[t] = best_class(l, t, l->released[t], &s->start[t]);
        const double end = s->start[t] + graph->tasks[t].ms[c];
        sift_down(l->free_ms[c], graph->classes[c].workers, end);
        s->makespan_ms = fmax(s->makespan_ms, end);
        for (int j = l->out.start[t]; j < l->out.start[t + 1]; j++) {
            const int after = graph->edges[l->out.edge[j]].after;
            l->released[after] = fmax(l->released[after], end);
            if (--l->waits[after] == 0) {
                ready_push(l->ready, n_ready++, (struct ready){l->rank[after], after});
            }
        }
    }
}

static void schedule_begin(struct mot_schedule *s, int n)
{
    s->class = mot_alloc((size_t)n * sizeof(*s->class));
    s->start = mot_alloc((size_t)n * sizeof(*s->start));
    s->makespan_ms = INFINITY;
}

static void keep_better(struct mot_schedule *best, struct mot_schedule *other)
{
    if (other->makespan_ms < best->makespan_ms) {
        const struct mot_schedule swap = *best;
        *best = *other;
        *other = swap;
    }
}

void mot_plan_list(const struct mot_graph *graph, int tries, struct mot_schedule *schedule)
{
    const size_t n = (size_t)graph->n_tasks;
    struct lists l = {.graph = graph};
    l.order = mot_alloc(n * sizeof(*l.order));
    l.waits = mot_alloc(n * sizeof(*l.waits));
    l.rank = mot_alloc(n * sizeof(*l.rank));
    l.released = mot_alloc(n * sizeof(*l.released));
    l.ready = mot_alloc(n * sizeof(*l.ready));
    l.free_ms = mot_alloc((size_t)graph->n_classes * sizeof(*l.free_ms));
    for (int c = 0; c < graph->n_classes; c++) {
        l.free_ms[c] = mot_alloc((size_t)graph->classes[c].workers * sizeof(double));
    }
    MOT_ASSERT(mot_graph_order(graph, l.order, NULL) == 0);
    mot_graph_links(graph, 0, &l.out);
    struct mot_schedule other;
    schedule_begin(schedule, graph->n_tasks);
    schedule_begin(&other, graph->n_tasks);
    double *base = mot_alloc(n * sizeof(*base));
    for (int i = 0; i < MEASURES + tries; i++) {
        make_ranks(graph, l.order, &l.out, (enum measure)(i % MEASURES), base);
        for (int t = 0; t < graph->n_tasks; t++) {
            const float noise =
                i < MEASURES ? 0.5F : mot_uniform(1, MOT_RNG_SHUFFLE, (uint32_t)i, (uint32_t)t, 0);
            l.rank[t] = base[t] * (0.75 + 0.5 * noise);
        }
        schedule_once(&l, &other);
        keep_better(schedule, &other);
    }
    mot_schedule_free(&other);
    for (int c = 0; c < graph->n_classes; c++) { free(l.free_ms[c]); }
    free(l.free_ms);
    free(l.order);
    free(l.waits);
    free(l.rank);
    free(l.released);
    free(l.ready);
    free(base);
    mot_graph_links_free(&l.out);
}
