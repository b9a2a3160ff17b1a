/* plan_bound_mixed: one program with a part x_tc of each task in each class, a start s_t of each
 * task and the makespan T.  Rows, for tasks t, edges a -> b, classes c with m_c workers:
 *
 *   sum_c x_tc = 1                                       sum_t p_tc x_tc <= m_c T
 *   s_a + sum_c p_ac x_ac <= s_b                         s_t + sum_c p_tc x_tc + tail_t <= T
 *   sets S:       sum_{t in S} p_tc x_tc <= m_c (T - head_S - tail_S)
 *   barriers u:   sum_{t above u} p_tc x_tc <= m_c s_u,  and likewise below u
 *   and between barriers u, v:   sum_{t below u, above v} p_tc x_tc <= m_c (s_v - s_u - its length)
 *
 * Barriers are tasks that most others must come before or after: the updates of a training run.
 * The rows for bytes have, for each class behind links of its own, i_ec >= x_bc - x_ac: the part of
 * edge e that has to come in (o_ec: go out, x_ac - x_bc).
 *
 *   s_a + p_a + sum_c (link_ms + bytes / speed) i_ec <= s_b, and the same with o_ec
 *   sum_a z_ac <= m_c speed T,  z_ac >= bytes_e i_ec for every edge e of a   (a datum comes in
 * once)
 *   sum_t p_tc x_tc (bytes only t holds) <= memory_c T                      (classes in main
 * memory)
 */
#include "error.h"
#include "plan_bound_internal.h"
#include <math.h>
#include <stdlib.h>

enum { BARRIERS_MAX = 24, TASKS_MAX = 100000 };
static const double BARRIER_TERMS = 3e5; /* terms of barriers' rows, in all */

struct mixed {
    const struct bound_problem *p;
    struct mot_lp *lp;
    int makespan;
    int *part;  /* (n, C) column, or -1 where it cannot run */
    int *start; /* (n) column */
};

/* Adds by x the task's length to the row begun last. */
static void add_length(const struct mixed *m, int t, double by)
{
    for (int c = 0; c < m->p->C; c++) {
        const size_t at = (size_t)t * (size_t)m->p->C + (size_t)c;
        if (m->part[at] >= 0) { mot_lp_term(m->lp, m->part[at], by * m->p->ms[at] * m->p->scale); }
    }
}

static void add_columns(struct mixed *m)
{
    const struct bound_problem *p = m->p;
    m->makespan = mot_lp_column(m->lp, 0.0, INFINITY, 1.0, 0);
    for (int t = 0; t < p->n; t++) {
        m->start[t] = mot_lp_column(m->lp, p->head[t] * p->scale, INFINITY, 0.0, 0);
        for (int c = 0; c < p->C; c++) {
            const size_t at = (size_t)t * (size_t)p->C + (size_t)c;
            m->part[at] = isfinite(p->ms[at]) ? mot_lp_column(m->lp, 0.0, 1.0, 0.0, 0) : -1;
        }
    }
}

static void add_task_rows(struct mixed *m)
{
    const struct bound_problem *p = m->p;
    for (int t = 0; t < p->n; t++) {
        mot_lp_row(m->lp, 1.0, 1.0);
        for (int c = 0; c < p->C; c++) {
            const int column = m->part[(size_t)t * (size_t)p->C + (size_t)c];
            if (column >= 0) { mot_lp_term(m->lp, column, 1.0); }
        }
        /* Where the tail is no more than the successors' rows say, those rows suffice. */
        double said = 0.0;
        for (int j = p->out.start[t]; j < p->out.start[t + 1]; j++) {
            const int b = p->graph->edges[p->out.edge[j]].after;
            said = fmax(said, p->fastest[b] + p->tail[b]);
        }
        if (p->out.start[t] == p->out.start[t + 1] || p->tail[t] > said * (1.0 + 1e-9)) {
            mot_lp_row(m->lp, p->tail[t] * p->scale, INFINITY);
            mot_lp_term(m->lp, m->makespan, 1.0);
            mot_lp_term(m->lp, m->start[t], -1.0);
            add_length(m, t, -1.0);
        }
    }
    for (int e = 0; e < p->graph->n_edges; e++) {
        const struct mot_graph_edge *edge = &p->graph->edges[e];
        mot_lp_row(m->lp, 0.0, INFINITY);
        mot_lp_term(m->lp, m->start[edge->after], 1.0);
        mot_lp_term(m->lp, m->start[edge->before], -1.0);
        add_length(m, edge->before, -1.0);
    }
}

/* For each class: the work of the tasks for which in[t] is 1, taken from the row begun last, whose
 * lower side is low x m_c.  from, until: columns of the time in which it runs, -1: none; after: a
 * task that from starts, whose length passes first, or -1. */
static void add_work_rows(struct mixed *m, const char *in, double low, int from, int until,
                          int after)
{
    const struct bound_problem *p = m->p;
    for (int c = 0; c < p->C; c++) {
        const double workers = p->graph->classes[c].workers;
        mot_lp_row(m->lp, low * workers * p->scale, INFINITY);
        mot_lp_term(m->lp, until, workers);
        if (from >= 0) { mot_lp_term(m->lp, from, -workers); }
        if (after >= 0) { add_length(m, after, -workers); }
        for (int t = 0; t < p->n; t++) {
            const size_t at = (size_t)t * (size_t)p->C + (size_t)c;
            if ((!in || in[t]) && m->part[at] >= 0) {
                mot_lp_term(m->lp, m->part[at], -p->ms[at] * p->scale);
            }
        }
    }
}

/* ---- Barriers -------------------------------------------------------------------------------- */

struct barrier {
    int task, place; /* place: in topological order */
    int related;     /* tasks above and below */
};

static int compare_related(const void *a, const void *b)
{
    const struct barrier *x = a, *y = b;
    return x->related != y->related ? y->related - x->related : x->place - y->place;
}

static int compare_place(const void *a, const void *b)
{
    return ((const struct barrier *)a)->place - ((const struct barrier *)b)->place;
}

/* The tasks related to most others, in topological order; their number. */
static int find_barriers(const struct bound_problem *p, struct barrier *barrier)
{
    int *related = mot_alloc_zeroed((size_t)p->n, sizeof(*related));
    struct barrier *all = mot_alloc((size_t)p->n * sizeof(*all));
    for (int t = 0; t < p->n; t++) {
        for (int a = 0; a < p->n; a++) {
            if (bound_is_above(p, a, t)) {
                related[a]++;
                related[t]++;
            }
        }
    }
    for (int i = 0; i < p->n; i++) {
        const int t = p->order[i];
        all[i] = (struct barrier){t, i, related[t]};
        /* A chain of barriers: one of them says it all. */
        const int one =
            p->out.start[t + 1] - p->out.start[t] == 1 && p->in.start[t + 1] - p->in.start[t] == 1;
        if (one) { all[i].related = 0; }
    }
    qsort(all, (size_t)p->n, sizeof(*all), compare_related);
    double terms = 0.0;
    int n = 0;
    while (n < BARRIERS_MAX && n < p->n && all[n].related >= 4) {
        terms += 2.0 * all[n].related * p->C;
        if (terms > BARRIER_TERMS) { break; }
        barrier[n] = all[n];
        n++;
    }
    qsort(barrier, (size_t)n, sizeof(*barrier), compare_place);
    free(related);
    free(all);
    return n;
}

/* in: the tasks below from (-1: any) and above until (-1: any); the least head and tail of them. */
static int between(const struct bound_problem *p, int from, int until, char *in, double *head,
                   double *tail)
{
    int count = 0;
    *head = *tail = INFINITY;
    for (int t = 0; t < p->n; t++) {
        in[t] = (char)((from < 0 || bound_is_above(p, from, t))
                       && (until < 0 || bound_is_above(p, t, until)));
        if (in[t]) {
            count++;
            *head = fmin(*head, p->head[t]);
            *tail = fmin(*tail, p->tail[t]);
        }
    }
    return count;
}

static void add_barrier_rows(struct mixed *m)
{
    const struct bound_problem *p = m->p;
    struct barrier barrier[BARRIERS_MAX];
    const int n = p->words > 0 ? find_barriers(p, barrier) : 0;
    char *in = mot_alloc((size_t)p->n);
    double head, tail;
    for (int i = 0; i < n; i++) {
        const int u = barrier[i].task;
        if (between(p, -1, u, in, &head, &tail) > 1) {
            add_work_rows(m, in, head, -1, m->start[u], -1);
        }
        if (between(p, u, -1, in, &head, &tail) > 1) {
            add_work_rows(m, in, tail, m->start[u], m->makespan, u);
        }
        int pairs = 0; /* the nearest barriers below u */
        for (int j = i + 1; j < n && pairs < 2; j++) {
            const int v = barrier[j].task;
            if (bound_is_above(p, u, v) && between(p, u, v, in, &head, &tail) > 1) {
                add_work_rows(m, in, 0.0, m->start[u], m->start[v], u);
                pairs++;
            }
        }
    }
    free(in);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static int has_link(const struct bound_problem *p, int c)
{
    return p->graph->classes[c].link_bytes_per_s > 0.0;
}

/* Bytes that are held for t alone while it runs: what it leaves, or what only it reads. */
static double own_bytes(const struct bound_problem *p, int t)
{
    double in = 0.0;
    for (int j = p->in.start[t]; j < p->in.start[t + 1]; j++) {
        const struct mot_graph_edge *edge = &p->graph->edges[p->in.edge[j]];
        if (p->out.start[edge->before + 1] - p->out.start[edge->before] == 1) { in += edge->bytes; }
    }
    return fmax(in, p->graph->tasks[t].output_bytes);
}

int bound_has_links(const struct bound_problem *p)
{
    int link = 0, bytes = 0;
    for (int c = 0; c < p->C; c++) {
        if (has_link(p, c)) { link = 1; }
        if (!has_link(p, c) && p->graph->classes[c].memory_bytes > 0.0) { return 1; }
    }
    for (int e = 0; e < p->graph->n_edges; e++) { bytes |= p->graph->edges[e].bytes > 0.0; }
    return link && bytes;
}

/* i_ec or o_ec: the part of edge e that crosses class c's links. */
static int add_crossing(struct mixed *m, const struct mot_graph_edge *edge, int c, int in)
{
    const struct bound_problem *p = m->p;
    const int there = m->part[(size_t)(in ? edge->after : edge->before) * (size_t)p->C + (size_t)c];
    const int here = m->part[(size_t)(in ? edge->before : edge->after) * (size_t)p->C + (size_t)c];
    if (there < 0) { return -1; }
    const int column = mot_lp_column(m->lp, 0.0, 1.0, 0.0, 0);
    mot_lp_row(m->lp, 0.0, INFINITY);
    mot_lp_term(m->lp, column, 1.0);
    mot_lp_term(m->lp, there, -1.0);
    if (here >= 0) { mot_lp_term(m->lp, here, 1.0); }
    return column;
}

/* Rows of one direction: in 1, out 0.  moved (n, C): the columns z_ac, -1 where there is none
 * yet. */
static void add_edge_bytes(struct mixed *m, const struct mot_graph_edge *edge, int in, int *moved)
{
    const struct bound_problem *p = m->p;
    const double unit = 1e-6; /* z counts megabytes */
    int *crossing = mot_alloc((size_t)p->C * sizeof(*crossing)), any = 0;
    for (int c = 0; c < p->C; c++) {
        crossing[c] = has_link(p, c) ? add_crossing(m, edge, c, in) : -1;
        if (crossing[c] < 0) { continue; }
        any = 1;
        int *z = &moved[(size_t)edge->before * (size_t)p->C + (size_t)c];
        if (*z < 0) { *z = mot_lp_column(m->lp, 0.0, INFINITY, 0.0, 0); }
        mot_lp_row(m->lp, 0.0, INFINITY);
        mot_lp_term(m->lp, *z, 1.0);
        mot_lp_term(m->lp, crossing[c], -edge->bytes * unit);
    }
    if (any) {
        mot_lp_row(m->lp, 0.0, INFINITY);
        mot_lp_term(m->lp, m->start[edge->after], 1.0);
        mot_lp_term(m->lp, m->start[edge->before], -1.0);
        add_length(m, edge->before, -1.0);
        for (int c = 0; c < p->C; c++) {
            const struct mot_graph_class *class = &p->graph->classes[c];
            if (crossing[c] < 0) { continue; }
            mot_lp_term(m->lp, crossing[c],
                        -(class->link_ms + 1e3 * edge->bytes / class->link_bytes_per_s) * p->scale);
        }
    }
    free(crossing);
}

static void add_link_rows(struct mixed *m, int in)
{
    const struct bound_problem *p = m->p;
    const size_t cells = (size_t)p->n * (size_t)p->C;
    int *moved = mot_alloc(cells * sizeof(*moved));
    for (size_t i = 0; i < cells; i++) { moved[i] = -1; }
    for (int e = 0; e < p->graph->n_edges; e++) {
        if (p->graph->edges[e].bytes > 0.0) { add_edge_bytes(m, &p->graph->edges[e], in, moved); }
    }
    for (int c = 0; c < p->C; c++) {
        const struct mot_graph_class *class = &p->graph->classes[c];
        if (!has_link(p, c)) { continue; }
        mot_lp_row(m->lp, 0.0, INFINITY);
        mot_lp_term(m->lp, m->makespan, class->workers);
        for (int t = 0; t < p->n; t++) {
            const int z = moved[(size_t)t * (size_t)p->C + (size_t)c];
            if (z >= 0) { mot_lp_term(m->lp, z, -1e9 / class->link_bytes_per_s * p->scale); }
        }
    }
    free(moved);
}

/* Megabyte milliseconds of the classes in main memory; a worker behind a link runs one task at a
 * time, whose data fit. */
static void add_memory_rows(struct mixed *m)
{
    const struct bound_problem *p = m->p;
    for (int c = 0; c < p->C; c++) {
        const double memory = p->graph->classes[c].memory_bytes;
        if (has_link(p, c) || !(memory > 0.0)) { continue; }
        mot_lp_row(m->lp, 0.0, INFINITY);
        mot_lp_term(m->lp, m->makespan, 1.0);
        for (int t = 0; t < p->n; t++) {
            const size_t at = (size_t)t * (size_t)p->C + (size_t)c;
            if (m->part[at] < 0) { continue; }
            mot_lp_term(m->lp, m->part[at], -p->ms[at] * p->scale * own_bytes(p, t) / memory);
        }
    }
}

/* ---- The program ----------------------------------------------------------------------------- */

double bound_mixed(const struct bound_problem *p, int links)
{
    if (p->n > TASKS_MAX) { return NAN; }
    struct mixed m = {.p = p, .lp = mot_lp_create()};
    m.part = mot_alloc((size_t)p->n * (size_t)p->C * sizeof(*m.part));
    m.start = mot_alloc((size_t)p->n * sizeof(*m.start));
    add_columns(&m);
    add_task_rows(&m);
    add_work_rows(&m, NULL, 0.0, -1, m.makespan, -1);
    for (int i = 0; i < p->n_sets; i++) {
        add_work_rows(&m, p->set[i].in, p->set[i].head + p->set[i].tail, -1, m.makespan, -1);
    }
    add_barrier_rows(&m);
    if (links) {
        add_link_rows(&m, 1);
        add_link_rows(&m, 0);
        add_memory_rows(&m);
    }
    const double ms = mot_lp_solve(m.lp, p->seconds) == 0 ? mot_lp_objective(m.lp) / p->scale : NAN;
    mot_lp_destroy(m.lp);
    free(m.part);
    free(m.start);
    return ms;
}
