/* plan_exact_problem: a graph made ready for exact search, and the bounds that end a branch.
 *
 * A state is hopeless when a task cannot end in time along its longest way, or when a set of tasks
 * that can only run between h and limit - tail is more than the workers have left in that time.
 * Workers are unlike, so the sets are weighed with prices: for any prices a_c >= 0 of the classes'
 * time, sum over tasks of min_c(a_c p_tc) <= sum over c of a_c x (free time of class c).  Good
 * prices are the duals of the area program (plan_bound.h, B1) of the whole graph and of parts. */
#include "error.h"
#include "plan_exact_internal.h"
#include "plan_lp.h"
#include "rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Prices ---------------------------------------------------------------------------------- */

static void add_price(struct exact_problem *p, const double *price)
{
    double sum = 0.0;
    for (int c = 0; c < p->C; c++) { sum += price[c] * (p->first[c + 1] - p->first[c]); }
    if (!(sum > 0.0) || p->K == EXACT_PRICES) { return; }
    for (int k = 0; k < p->K; k++) {
        double difference = 0.0;
        for (int c = 0; c < p->C; c++) {
            difference = fmax(difference, fabs(p->price[c * EXACT_PRICES + k] - price[c] / sum));
        }
        if (difference < 1e-4) { return; }
    }
    for (int c = 0; c < p->C; c++) { p->price[c * EXACT_PRICES + p->K] = price[c] / sum; }
    p->K++;
}

/* The duals of min T, sum over t in set of p_tc x_tc <= m_c T. */
static void add_area_price(struct exact_problem *p, uint64_t set)
{
    struct mot_lp *lp = mot_lp_create();
    const int makespan = mot_lp_column(lp, 0.0, INFINITY, 1.0, 0);
    for (int t = 0; t < p->n; t++) {
        if (!(set >> t & 1)) { continue; }
        mot_lp_row(lp, 1.0, 1.0);
        for (int c = 0; c < p->C; c++) {
            if (!isfinite(p->ms[t * p->C + c])) { continue; }
            mot_lp_term(lp, mot_lp_column(lp, 0.0, 1.0, 0.0, 0), 1.0);
        }
    }
    const int row = mot_lp_rows(lp);
    double *price = mot_alloc_zeroed((size_t)p->C, sizeof(*price));
    for (int c = 0; c < p->C; c++) {
        mot_lp_row(lp, 0.0, INFINITY);
        mot_lp_term(lp, makespan, p->first[c + 1] - p->first[c]);
        int column = makespan + 1;
        for (int t = 0; t < p->n; t++) {
            for (int d = 0; d < p->C && set >> t & 1; d++) {
                if (!isfinite(p->ms[t * p->C + d])) { continue; }
                if (d == c) { mot_lp_term(lp, column, -p->ms[t * p->C + c]); }
                column++;
            }
        }
    }
    if (mot_lp_solve(lp, INFINITY) == 0) {
        for (int c = 0; c < p->C; c++) { price[c] = fmax(0.0, mot_lp_price(lp, row + c)); }
        add_price(p, price);
    }
    free(price);
    mot_lp_destroy(lp);
}

static void make_prices(struct exact_problem *p)
{
    const uint64_t all = p->n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << p->n) - 1;
    p->price = mot_alloc_zeroed((size_t)EXACT_PRICES * (size_t)p->C, sizeof(double));
    add_area_price(p, all);
    double *one = mot_alloc_zeroed((size_t)p->C, sizeof(*one));
    for (int c = 0; c < p->C && p->C > 1; c++) {
        one[c] = 1.0;
        add_price(p, one);
        one[c] = 0.0;
    }
    free(one);
    if (p->C > 1) { /* parts: what remains after each prefix of the order, then random ones */
        uint64_t left = all;
        for (int i = 0; i < p->n - 1; i++) {
            left &= ~((uint64_t)1 << p->order[i]);
            add_area_price(p, left);
        }
        for (uint32_t i = 0; i < 64; i++) {
            uint64_t set = 0;
            for (uint32_t t = 0; t < (uint32_t)p->n; t++) {
                const float some = mot_uniform(1, MOT_RNG_SHUFFLE, i, t, 1);
                set |= (uint64_t)(some < 0.3F + 0.1F * (float)(i % 5)) << t;
            }
            if (set) { add_area_price(p, set); }
        }
    }
    p->work = mot_alloc_zeroed((size_t)p->n * EXACT_PRICES, sizeof(double));
    for (int t = 0; t < p->n; t++) {
        for (int k = 0; k < p->K; k++) {
            double least = INFINITY;
            for (int c = 0; c < p->C; c++) {
                if (!isfinite(p->ms[t * p->C + c])) { continue; } /* 0 x INFINITY is NaN */
                least = fmin(least, p->price[c * EXACT_PRICES + k] * p->ms[t * p->C + c]);
            }
            p->work[t * EXACT_PRICES + k] = least;
        }
    }
}

/* ---- Tails ----------------------------------------------------------------------------------- */

/* The longest way, and the priced work of all that must follow: nothing of it can run before the
 * task has ended, and then all workers share it. */
static void make_tails(struct exact_problem *p)
{
    uint64_t follow[MOT_EXACT_TASKS_MAX];
    for (int i = p->n - 1; i >= 0; i--) {
        const int t = p->order[i];
        follow[t] = p->after[t];
        p->tail[t] = 0.0;
        for (int s = 0; s < p->n; s++) {
            if (!(p->after[t] >> s & 1)) { continue; }
            follow[t] |= follow[s];
            p->tail[t] = fmax(p->tail[t], p->fastest[s] + p->tail[s]);
        }
        for (int s = 0; s < p->n; s++) { /* the followers with at least the tail of s */
            if (!(follow[t] >> s & 1)) { continue; }
            for (int k = 0; k < p->K; k++) {
                double work = 0.0;
                for (int u = 0; u < p->n; u++) {
                    if (follow[t] >> u & 1 && p->tail[u] >= p->tail[s]) {
                        work += p->work[u * EXACT_PRICES + k];
                    }
                }
                p->tail[t] = fmax(p->tail[t], work + p->tail[s]);
            }
        }
        int at = p->n - 1 - i; /* insertion, longest first */
        while (at > 0 && p->tail[p->by_tail[at - 1]] < p->tail[t]) {
            p->by_tail[at] = p->by_tail[at - 1];
            at--;
        }
        p->by_tail[at] = t;
    }
}

/* ---- The problem ----------------------------------------------------------------------------- */

/* Equal tasks are interchangeable: the one with the lower number starts first. */
static void find_twins(struct exact_problem *p)
{
    for (int t = 0; t < p->n; t++) {
        p->twin[t] = -1;
        for (int u = 0; u < t; u++) {
            if (p->before[u] == p->before[t] && p->after[u] == p->after[t]
                && memcmp(p->ms + u * p->C, p->ms + t * p->C, (size_t)p->C * sizeof(double)) == 0) {
                p->twin[t] = u;
            }
        }
    }
}

void exact_problem_begin(struct exact_problem *p, const struct mot_graph *graph)
{
    memset(p, 0, sizeof(*p));
    p->graph = graph;
    p->n = graph->n_tasks;
    p->C = graph->n_classes;
    p->whole = 1;
    p->ms = mot_alloc((size_t)p->n * (size_t)p->C * sizeof(double));
    p->first = mot_alloc_zeroed((size_t)p->C + 1, sizeof(int));
    MOT_ASSERT(mot_graph_order(graph, p->order, NULL) == 0);
    for (int c = 0; c < p->C; c++) { /* more workers than tasks are never busy */
        const int workers = graph->classes[c].workers;
        p->first[c + 1] = p->first[c] + (workers < p->n ? workers : p->n);
    }
    p->W = p->first[p->C];
    for (int t = 0; t < p->n; t++) {
        p->fastest[t] = mot_graph_fastest_ms(graph, t);
        for (int c = 0; c < p->C; c++) {
            const double ms = mot_graph_can_run(graph, t, c) ? graph->tasks[t].ms[c] : INFINITY;
            p->ms[t * p->C + c] = ms;
            if (isfinite(ms) && (ms != floor(ms) || ms > 1e12)) { p->whole = 0; }
        }
    }
    for (int e = 0; e < graph->n_edges; e++) {
        p->before[graph->edges[e].after] |= (uint64_t)1 << graph->edges[e].before;
        p->after[graph->edges[e].before] |= (uint64_t)1 << graph->edges[e].after;
    }
    find_twins(p);
    make_prices(p);
    make_tails(p);
}

void exact_problem_end(struct exact_problem *p)
{
    free(p->ms);
    free(p->first);
    free(p->price);
    free(p->work);
}

/* ---- Bounds of a state ----------------------------------------------------------------------- */

/* 1 when the work of a set exceeds what workers have left from from to until. */
static int overfull(const struct exact_problem *p, const struct exact_state *state,
                    const double *work, double from, double until)
{
    double room[EXACT_PRICES] = {0};
    for (int c = 0; c < p->C; c++) {
        double time = 0.0;
        for (int w = p->first[c]; w < p->first[c + 1]; w++) {
            time += fmax(0.0, until - fmax(from, state->free[w]));
        }
        const double *price = p->price + c * EXACT_PRICES;
        for (int k = 0; k < EXACT_PRICES; k++) { room[k] += price[k] * time; }
    }
    int bad = 0;
    for (int k = 0; k < EXACT_PRICES; k++) { bad |= work[k] > room[k] * (1.0 + 1e-12) + 1e-9; }
    return bad;
}

/* The priced work of a task in the classes where it can still end in time. */
static void add_work(const struct exact_problem *p, const struct exact_state *state, int t,
                     double limit, double *work)
{
    const double *ms = p->ms + t * p->C;
    double least[EXACT_PRICES];
    int all = 1;
    for (int c = 0; c < p->C; c++) {
        all = all
              && !(isfinite(ms[c])
                   && fmax(state->est[t], state->free[p->first[c]]) + ms[c] + p->tail[t] > limit);
    }
    if (all) {
        for (int k = 0; k < EXACT_PRICES; k++) { work[k] += p->work[t * EXACT_PRICES + k]; }
        return;
    }
    for (int k = 0; k < EXACT_PRICES; k++) { least[k] = INFINITY; }
    for (int c = 0; c < p->C; c++) {
        if (fmax(state->est[t], state->free[p->first[c]]) + ms[c] + p->tail[t] > limit) {
            continue;
        }
        const double *price = p->price + c * EXACT_PRICES;
        for (int k = 0; k < EXACT_PRICES; k++) {
            least[k] = price[k] * ms[c] < least[k] ? price[k] * ms[c] : least[k];
        }
    }
    for (int k = 0; k < EXACT_PRICES; k++) { work[k] += least[k]; }
}

/* Sets by falling tail, then by falling earliest start. */
static int sets_overfull(const struct exact_problem *p, const struct exact_state *state,
                         double limit)
{
    double own[MOT_EXACT_TASKS_MAX][EXACT_PRICES]; /* work of each task, in by_est's order */
    int by_est[MOT_EXACT_TASKS_MAX], m = 0;
    double work[EXACT_PRICES] = {0}, from = INFINITY;
    for (int i = 0; i < p->n; i++) {
        const int t = p->by_tail[i];
        if (state->done >> t & 1) { continue; }
        memset(own[t], 0, sizeof(own[t]));
        add_work(p, state, t, limit, own[t]);
        for (int k = 0; k < EXACT_PRICES; k++) { work[k] += own[t][k]; }
        from = fmin(from, state->est[t]);
        if (overfull(p, state, work, from, limit - p->tail[t])) { return 1; }
        int at = m++;
        while (at > 0 && state->est[by_est[at - 1]] < state->est[t]) {
            by_est[at] = by_est[at - 1];
            at--;
        }
        by_est[at] = t;
    }
    double tail = INFINITY;
    memset(work, 0, sizeof(work));
    for (int i = 0; i < m; i++) {
        const int t = by_est[i];
        for (int k = 0; k < EXACT_PRICES; k++) { work[k] += own[t][k]; }
        tail = fmin(tail, p->tail[t]);
        if (overfull(p, state, work, state->est[t], limit - tail)) { return 1; }
    }
    return 0;
}

int exact_hopeless(const struct exact_problem *p, struct exact_state *state, double limit)
{
    double end[MOT_EXACT_TASKS_MAX];
    for (int i = 0; i < p->n; i++) {
        const int t = p->order[i];
        if (state->done >> t & 1) { continue; }
        double est = fmax(state->ready[t], state->now);
        for (uint64_t set = p->before[t] & ~state->done; set; set &= set - 1) {
            est = fmax(est, end[__builtin_ctzll(set)]);
        }
        state->est[t] = est;
        end[t] = INFINITY;
        for (int c = 0; c < p->C; c++) {
            end[t] = fmin(end[t], fmax(est, state->free[p->first[c]]) + p->ms[t * p->C + c]);
        }
        if (end[t] + p->tail[t] > limit) { return 1; }
    }
    return sets_overfull(p, state, limit);
}
