/* plan_bound: the area programs, and all bounds of a graph in turn.  See plan_bound.h. */
#include "plan_bound.h"
#include "error.h"
#include "plan_bound_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name, *help;
} texts[MOT_BOUNDS] = {
    [MOT_BOUND_AREA] = {"area", "all work shared out over all workers"},
    [MOT_BOUND_LONGEST] = {"longest", "area, and no task is longer than the makespan"},
    [MOT_BOUND_PATH] = {"path",
                        "the longest way through the graph, with transfers it cannot avoid"},
    [MOT_BOUND_SETS] = {"sets", "work that can only run between a head and a tail"},
    [MOT_BOUND_MIXED] = {"mixed", "area, edges and sets in one program"},
    [MOT_BOUND_LINKS] = {"links", "mixed, with bytes over links and in memory"},
};

const char *mot_bound_name(enum mot_bound bound)
{
    return texts[bound].name;
}

const char *mot_bound_help(enum mot_bound bound)
{
    return texts[bound].help;
}

/* ---- Groups of equal tasks ------------------------------------------------------------------- */

struct sorted {
    const double *ms; /* (C) */
    int task, C;
};

static int compare_sorted(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    for (int c = 0; c < x->C; c++) {
        if (x->ms[c] != y->ms[c]) { return x->ms[c] < y->ms[c] ? -1 : 1; }
    }
    return 0;
}

void bound_groups(struct bound_problem *p)
{
    p->n_groups = 0;
    struct sorted *sorted = mot_alloc((size_t)p->n * sizeof(*sorted));
    for (int t = 0; t < p->n; t++) {
        sorted[t] = (struct sorted){p->ms + (size_t)t * (size_t)p->C, t, p->C};
    }
    qsort(sorted, (size_t)p->n, sizeof(*sorted), compare_sorted);
    for (int i = 0; i < p->n; i++) {
        p->n_groups += i == 0 || compare_sorted(&sorted[i - 1], &sorted[i]) != 0;
        p->group[sorted[i].task] = p->n_groups - 1;
    }
    free(sorted);
}

/* ---- Area ------------------------------------------------------------------------------------ */

double bound_area(const struct bound_problem *p, const char *set, int longest, double *price)
{
    /* count: tasks of the set in each group; member: one of them, for its durations. */
    int *count = mot_alloc_zeroed((size_t)p->n_groups, sizeof(*count));
    int *member = mot_alloc_zeroed((size_t)p->n_groups, sizeof(*member));
    int *column = mot_alloc((size_t)p->n_groups * (size_t)p->C * sizeof(*column));
    for (int t = 0; t < p->n; t++) {
        if (set && !set[t]) { continue; }
        count[p->group[t]]++;
        member[p->group[t]] = t;
    }
    struct mot_lp *lp = mot_lp_create();
    const int makespan = mot_lp_column(lp, 0.0, INFINITY, 1.0, 0);
    for (int g = 0; g < p->n_groups; g++) {
        const double *ms = p->ms + (size_t)member[g] * (size_t)p->C;
        for (int c = 0; c < p->C; c++) {
            column[g * p->C + c] =
                count[g] > 0 && isfinite(ms[c]) ? mot_lp_column(lp, 0.0, count[g], 0.0, 0) : -1;
        }
        if (count[g] == 0) { continue; }
        mot_lp_row(lp, count[g], count[g]);
        for (int c = 0; c < p->C; c++) {
            if (column[g * p->C + c] >= 0) { mot_lp_term(lp, column[g * p->C + c], 1.0); }
        }
        if (!longest) { continue; }
        mot_lp_row(lp, 0.0, INFINITY);
        mot_lp_term(lp, makespan, count[g]);
        for (int c = 0; c < p->C; c++) {
            if (column[g * p->C + c] >= 0) {
                mot_lp_term(lp, column[g * p->C + c], -ms[c] * p->scale);
            }
        }
    }
    const int row = mot_lp_rows(lp);
    for (int c = 0; c < p->C; c++) {
        mot_lp_row(lp, 0.0, INFINITY);
        mot_lp_term(lp, makespan, p->graph->classes[c].workers);
        for (int g = 0; g < p->n_groups; g++) {
            if (column[g * p->C + c] < 0) { continue; }
            mot_lp_term(lp, column[g * p->C + c],
                        -p->ms[(size_t)member[g] * (size_t)p->C + (size_t)c] * p->scale);
        }
    }
    double ms = NAN;
    if (mot_lp_solve(lp, p->seconds) == 0) {
        ms = mot_lp_objective(lp) / p->scale;
        for (int c = 0; c < p->C && price; c++) { price[c] = fmax(0.0, mot_lp_price(lp, row + c)); }
    }
    mot_lp_destroy(lp);
    free(count);
    free(member);
    free(column);
    return ms;
}

/* ---- All ------------------------------------------------------------------------------------- */

static void begin(struct bound_problem *p, const struct mot_graph *graph, double seconds)
{
    const size_t n = (size_t)graph->n_tasks;
    memset(p, 0, sizeof(*p));
    p->graph = graph;
    p->n = graph->n_tasks;
    p->C = graph->n_classes;
    p->seconds = seconds > 0.0 ? seconds : 60.0;
    p->order = mot_alloc(n * sizeof(int));
    p->ms = mot_alloc(n * (size_t)p->C * sizeof(double));
    p->fastest = mot_alloc(n * sizeof(double));
    p->group = mot_alloc(n * sizeof(int));
    p->head = mot_alloc_zeroed(n, sizeof(double));
    p->tail = mot_alloc_zeroed(n, sizeof(double));
    p->path_tail = mot_alloc_zeroed(n, sizeof(double));
    MOT_ASSERT(mot_graph_order(graph, p->order, NULL) == 0);
    mot_graph_links(graph, 0, &p->out);
    mot_graph_links(graph, 1, &p->in);
    double longest = 0.0;
    for (int t = 0; t < p->n; t++) {
        p->fastest[t] = mot_graph_fastest_ms(graph, t);
        longest = fmax(longest, p->fastest[t]);
        for (int c = 0; c < p->C; c++) {
            p->ms[(size_t)t * (size_t)p->C + (size_t)c] =
                mot_graph_can_run(graph, t, c) ? graph->tasks[t].ms[c] : INFINITY;
        }
    }
    p->scale = longest > 0.0 ? 100.0 / longest : 1.0;
    bound_groups(p);
}

static void end(struct bound_problem *p)
{
    for (int i = 0; i < p->n_sets; i++) { free(p->set[i].in); }
    mot_graph_links_free(&p->out);
    mot_graph_links_free(&p->in);
    free(p->order);
    free(p->ms);
    free(p->fastest);
    free(p->group);
    free(p->head);
    free(p->tail);
    free(p->path_tail);
    free(p->above);
    free(p->price);
    free(p->work);
}

static double seconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int mot_plan_bound(const struct mot_graph *graph, double seconds, struct mot_bounds *bounds)
{
    struct bound_problem p;
    const int status = mot_graph_check(graph);
    if (status) { return status; }
    begin(&p, graph, seconds);
    for (int b = 0; b < MOT_BOUNDS; b++) {
        const double from = seconds_now();
        double ms = NAN;
        switch ((enum mot_bound)b) {
        case MOT_BOUND_AREA:
            ms = bound_area(&p, NULL, 0, NULL);
            break;
        case MOT_BOUND_LONGEST:
            ms = bound_area(&p, NULL, 1, NULL);
            break;
        case MOT_BOUND_PATH:
            ms = bound_path(&p);
            break;
        case MOT_BOUND_SETS:
            ms = bound_sets(&p);
            break;
        case MOT_BOUND_MIXED:
            ms = bound_mixed(&p, 0);
            break;
        case MOT_BOUND_LINKS:
            ms = bound_has_links(&p) ? bound_mixed(&p, 1) : NAN;
            break;
        case MOT_BOUNDS:
            break;
        }
        bounds->ms[b] = ms;
        bounds->seconds[b] = seconds_now() - from;
    }
    bounds->best = MOT_BOUND_PATH;
    for (int b = 0; b < MOT_BOUNDS; b++) {
        if (bounds->ms[b] > bounds->ms[bounds->best]) { bounds->best = (enum mot_bound)b; }
    }
    bounds->best_ms = bounds->ms[bounds->best];
    for (int b = MOT_BOUNDS - 1; b >= 0; b--) {
        if (bounds->ms[b] >= bounds->best_ms * (1.0 - 1e-6)) { bounds->best = (enum mot_bound)b; }
    }
    bound_cycle(&p, bounds->ms[MOT_BOUND_AREA], &bounds->cycle);
    end(&p);
    return 0;
}
