/* plan_bound_cycle: what one step costs when steps follow each other without end.  The dependencies
 * of a cyclic graph bound its period: a cycle of length C that spans d steps is passed once every d
 * periods, so that no period is shorter than C / d (cf. the maximum cycle ratio of marked
 * graphs). */
#include "error.h"
#include "plan_bound_internal.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps renumbered from 0, and the update of each. */
struct steps {
    int n, first; /* first: the least step of the graph */
    int *pivot;   /* (n) its update */
};

/* 1 when t's kind appears once in its step and a later step waits for t. */
static int *find_leaving(const struct bound_problem *p)
{
    int *leaves = mot_alloc_zeroed((size_t)p->n, sizeof(*leaves));
    for (int e = 0; e < p->graph->n_edges; e++) {
        const struct mot_graph_edge *edge = &p->graph->edges[e];
        if (p->graph->tasks[edge->after].step > p->graph->tasks[edge->before].step) {
            leaves[edge->before] = 1;
        }
    }
    return leaves;
}

static const char *kind_of(const struct bound_problem *p, int t)
{
    return p->graph->tasks[t].kind ? p->graph->tasks[t].kind : "";
}

/* 1 when every step has exactly one task of t's kind; then pivot (n steps) are those. */
static int one_a_step(const struct bound_problem *p, int t, struct steps *s)
{
    for (int i = 0; i < s->n; i++) { s->pivot[i] = -1; }
    for (int u = 0; u < p->n; u++) {
        if (strcmp(kind_of(p, u), kind_of(p, t)) != 0) { continue; }
        int *pivot = &s->pivot[p->graph->tasks[u].step - s->first];
        if (*pivot >= 0) { return 0; }
        *pivot = u;
    }
    for (int i = 0; i < s->n; i++) {
        if (s->pivot[i] < 0) { return 0; }
    }
    return 1;
}

/* 0 when the graph has fewer than two steps, or no update. */
static int find_steps(const struct bound_problem *p, struct steps *s)
{
    int last = INT_MIN;
    s->first = INT_MAX;
    for (int t = 0; t < p->n; t++) {
        const int step = p->graph->tasks[t].step;
        s->first = step < s->first ? step : s->first;
        last = step > last ? step : last;
    }
    if (last == s->first || (long long)last - s->first >= p->n) { return 0; }
    s->n = last - s->first + 1;
    s->pivot = mot_alloc((size_t)s->n * sizeof(*s->pivot));
    int *leaves = find_leaving(p), found = 0;
    for (int t = 0; t < p->n && !found; t++) {
        /* Of the first step, so that a kind is tried once. */
        if (leaves[t] && p->graph->tasks[t].step == s->first) { found = one_a_step(p, t, s); }
    }
    free(leaves);
    if (!found) { free(s->pivot); }
    return found;
}

/* way (n): the longest way within the step, all in their best class, to the end of each task, of
 * ways that begin with a task which waits for the update of d steps before; -INFINITY where there
 * is none. d < 0: of all ways. */
static void longest_ways(const struct bound_problem *p, const struct steps *s, int d, double *way)
{
    for (int i = 0; i < p->n; i++) {
        const int t = p->order[i], step = p->graph->tasks[t].step;
        double from = d < 0 ? 0.0 : -INFINITY;
        for (int j = p->in.start[t]; j < p->in.start[t + 1]; j++) {
            const int before = p->graph->edges[p->in.edge[j]].before;
            const int other = p->graph->tasks[before].step;
            if (other == step) { from = fmax(from, way[before]); }
            if (d > 0 && step - other == d && s->pivot[other - s->first] == before) {
                from = fmax(from, 0.0);
            }
        }
        way[t] = from + p->fastest[t];
    }
}

/* The mean over the steps that have such a way to their update; 0 where none has. */
static double mean_way(const struct bound_problem *p, const struct steps *s, int d, double *way)
{
    double sum = 0.0;
    int count = 0;
    longest_ways(p, s, d, way);
    for (int i = 0; i < s->n; i++) {
        if (way[s->pivot[i]] > 0.0) {
            sum += way[s->pivot[i]];
            count++;
        }
    }
    return count ? sum / count : 0.0;
}

/* How many steps lie between an update and the tasks that begin a step (no task of their own step
 * comes before them) and wait for it, at most, less one; -1 where none waits for an update. */
static int rollout_age(const struct bound_problem *p, const struct steps *s)
{
    int age = -1;
    for (int t = 0; t < p->n; t++) {
        int begins = 1, oldest = 0;
        for (int j = p->in.start[t]; j < p->in.start[t + 1]; j++) {
            const int before = p->graph->edges[p->in.edge[j]].before;
            const int ago = p->graph->tasks[t].step - p->graph->tasks[before].step;
            begins = begins && ago != 0;
            if (ago > oldest && s->pivot[p->graph->tasks[before].step - s->first] == before) {
                oldest = ago;
            }
        }
        if (begins && oldest - 1 > age) { age = oldest - 1; }
    }
    return age;
}

void bound_cycle(const struct bound_problem *p, double area_ms, struct mot_bound_cycle *cycle)
{
    struct steps s;
    memset(cycle, 0, sizeof(*cycle));
    cycle->eta = cycle->eta_star = -1;
    if (!(area_ms > 0.0) || !find_steps(p, &s)) { return; }
    double *way = mot_alloc((size_t)p->n * sizeof(*way));
    cycle->steps = s.n;
    cycle->area_ms = area_ms / s.n;
    cycle->cycle_ms = mean_way(p, &s, -1, way);
    cycle->period_ms = cycle->area_ms;
    cycle->eta = rollout_age(p, &s);
    for (int d = 1; d < s.n; d++) {
        cycle->period_ms = fmax(cycle->period_ms, mean_way(p, &s, d, way) / d);
    }
    cycle->eta_star = (int)ceil(cycle->cycle_ms / cycle->area_ms * (1.0 - 1e-12)) - 1;
    if (cycle->eta_star < 0) { cycle->eta_star = 0; }
    free(way);
    free(s.pivot);
}
