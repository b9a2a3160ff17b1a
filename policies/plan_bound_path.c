/* plan_bound_path: the longest way, class by class.  A task starts in class c no earlier than each
 * predecessor has ended in the class that is best for this, its bytes come over; what no choice of
 * classes avoids remains. */
#include "error.h"
#include "plan_bound_internal.h"
#include <math.h>
#include <stdlib.h>

/* The least time from the end of a task in class from to the start of one that needs its bytes in
 * class to.  Two workers of a class may be the same one, and the two links of a way may work at the
 * same time. */
static double transfer_ms(const struct mot_graph *graph, double bytes, int from, int to)
{
    double ms = 0.0;
    if (from == to || bytes <= 0.0) { return 0.0; }
    const struct mot_graph_class *end[2] = {&graph->classes[from], &graph->classes[to]};
    for (int i = 0; i < 2; i++) {
        if (end[i]->link_bytes_per_s > 0.0) {
            ms = fmax(ms, end[i]->link_ms + 1e3 * bytes / end[i]->link_bytes_per_s);
        }
    }
    return ms;
}

/* arrive (n, C): the earliest start in each class. */
static void forward(struct bound_problem *p, double *arrive)
{
    const int C = p->C;
    for (int i = 0; i < p->n; i++) {
        const int t = p->order[i];
        double *own = arrive + (size_t)t * (size_t)C;
        for (int c = 0; c < C; c++) { own[c] = 0.0; }
        for (int j = p->in.start[t]; j < p->in.start[t + 1]; j++) {
            const struct mot_graph_edge *edge = &p->graph->edges[p->in.edge[j]];
            const size_t before = (size_t)edge->before * (size_t)C;
            for (int c = 0; c < C; c++) {
                double soonest = INFINITY;
                for (int d = 0; d < C; d++) {
                    soonest = fmin(soonest, arrive[before + (size_t)d] + p->ms[before + (size_t)d]
                                                + transfer_ms(p->graph, edge->bytes, d, c));
                }
                own[c] = fmax(own[c], soonest);
            }
        }
        p->head[t] = INFINITY;
        for (int c = 0; c < C; c++) {
            if (isfinite(p->ms[(size_t)t * (size_t)C + (size_t)c])) {
                p->head[t] = fmin(p->head[t], own[c]);
            }
        }
    }
}

/* rest (n, C): the least time from an end in each class to the end of all. */
static void backward(struct bound_problem *p, double *rest)
{
    const int C = p->C;
    for (int i = p->n - 1; i >= 0; i--) {
        const int t = p->order[i];
        double *own = rest + (size_t)t * (size_t)C;
        for (int c = 0; c < C; c++) { own[c] = 0.0; }
        for (int j = p->out.start[t]; j < p->out.start[t + 1]; j++) {
            const struct mot_graph_edge *edge = &p->graph->edges[p->out.edge[j]];
            const size_t after = (size_t)edge->after * (size_t)C;
            p->path_tail[t] =
                fmax(p->path_tail[t], p->fastest[edge->after] + p->path_tail[edge->after]);
            for (int c = 0; c < C; c++) {
                double soonest = INFINITY;
                for (int d = 0; d < C; d++) {
                    soonest =
                        fmin(soonest, transfer_ms(p->graph, edge->bytes, c, d)
                                          + p->ms[after + (size_t)d] + rest[after + (size_t)d]);
                }
                own[c] = fmax(own[c], soonest);
            }
        }
        p->tail[t] = INFINITY;
        for (int c = 0; c < C; c++) {
            if (isfinite(p->ms[(size_t)t * (size_t)C + (size_t)c])) {
                p->tail[t] = fmin(p->tail[t], own[c]);
            }
        }
    }
}

double bound_path(struct bound_problem *p)
{
    const size_t cells = (size_t)p->n * (size_t)p->C;
    double *arrive = mot_alloc(cells * sizeof(*arrive)), *rest = mot_alloc(cells * sizeof(*rest));
    forward(p, arrive);
    backward(p, rest);
    double longest = 0.0;
    for (int t = 0; t < p->n; t++) {
        double best = INFINITY;
        for (int c = 0; c < p->C; c++) {
            const size_t at = (size_t)t * (size_t)p->C + (size_t)c;
            best = fmin(best, arrive[at] + p->ms[at] + rest[at]);
        }
        longest = fmax(longest, best);
    }
    free(arrive);
    free(rest);
    return longest;
}
