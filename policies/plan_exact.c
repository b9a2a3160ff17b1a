/* plan_exact: depth-first branch and bound over schedules built task by task in the order of their
 * starts, identical workers counted, not named.
 *
 * A state is the set of tasks done, when each worker is free, when the predecessors of tasks not
 * done have ended, and the last start.  A child places one more task in one class, at the first
 * moment that its predecessors, a worker and the last start allow.  A state is left when the bounds
 * say that nothing shorter than the best schedule follows (plan_exact_problem.c), or when a state
 * with the same tasks done has been there that is no worse in any of those times: whatever follows
 * the new one could follow the old one (plan_exact_memo.c).  The start is the best list schedule.
 *
 * Source: serial schedule generation and dominance of partial schedules, as in resource-constrained
 * project scheduling (Demeulemeester and Herroelen 1992); ours are the priced areas for unlike
 * workers. */
#include "plan_exact.h"
#include "error.h"
#include "plan_exact_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIST_TRIES = 300, NODES_PER_CLOCK = 1024 };

struct child {
    int task, class;
    double start, end, rest; /* rest: from the start to the end of all, at least */
};

struct search {
    struct exact_problem problem;
    struct exact_state state[MOT_EXACT_TASKS_MAX + 1]; /* by number of tasks done */
    struct exact_memo *memo;
    struct mot_exact *result;
    double limit; /* only makespans up to this one are of use */
    double deadline;
    int stopped;
    int class[MOT_EXACT_TASKS_MAX]; /* of the path in hand */
    double start[MOT_EXACT_TASKS_MAX];
    struct child *child; /* (n, n x C) by number of tasks done */
    double *low, *high;  /* scratch for exact_memo_covers */
};

static double seconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The longest makespan that improves on the best. */
static void tighten(struct search *s)
{
    const double best = s->result->schedule.makespan_ms;
    s->limit = s->problem.whole ? best - 1.0 : best * (1.0 - 1e-9);
}

static int goes_before(const struct child *a, const struct child *b)
{
    if (a->start != b->start) { return a->start < b->start; }
    if (a->rest != b->rest) { return a->rest > b->rest; }
    return a->end < b->end;
}

/* What can come next, most promising first. */
static int find_children(const struct search *s, const struct exact_state *state,
                         struct child *child)
{
    const struct exact_problem *p = &s->problem;
    int n = 0;
    for (int t = 0; t < p->n; t++) {
        if (state->done >> t & 1 || p->before[t] & ~state->done) { continue; }
        if (p->twin[t] >= 0 && !(state->done >> p->twin[t] & 1)) { continue; }
        for (int c = 0; c < p->C; c++) {
            const double start = fmax(state->est[t], state->free[p->first[c]]);
            const double end = start + p->ms[t * p->C + c];
            if (end + p->tail[t] > s->limit) { continue; } /* and where it cannot run */
            const struct child new = {t, c, start, end, p->fastest[t] + p->tail[t]};
            int at = n++;
            while (at > 0 && goes_before(&new, &child[at - 1])) {
                child[at] = child[at - 1];
                at--;
            }
            child[at] = new;
        }
    }
    return n;
}

static void place(const struct exact_problem *p, const struct exact_state *from,
                  const struct child *child, struct exact_state *to)
{
    to->done = from->done | (uint64_t)1 << child->task;
    to->now = child->start;
    memcpy(to->free, from->free, (size_t)p->W * sizeof(double));
    int w = p->first[child->class]; /* its first worker is taken; keep the class ascending */
    for (; w + 1 < p->first[child->class + 1] && to->free[w + 1] < child->end; w++) {
        to->free[w] = to->free[w + 1];
    }
    to->free[w] = child->end;
    memcpy(to->ready, from->ready, (size_t)p->n * sizeof(double));
    for (uint64_t set = p->after[child->task]; set; set &= set - 1) {
        const int after = __builtin_ctzll(set);
        to->ready[after] = fmax(to->ready[after], child->end);
    }
}

/* A state seen before, or one no better, has been there: see exact_memo_covers.  high is when
 * things can matter at the earliest: a worker not before the first task that it can run may
 * start. */
static int seen(struct search *s, const struct exact_state *state)
{
    const struct exact_problem *p = &s->problem;
    int items = 0;
    double first = INFINITY;
    for (int c = 0; c < p->C; c++) {
        double earliest = INFINITY;
        for (int t = 0; t < p->n; t++) {
            if (!(state->done >> t & 1) && isfinite(p->ms[t * p->C + c])) {
                earliest = fmin(earliest, state->est[t]);
            }
        }
        first = fmin(first, earliest);
        for (int w = p->first[c]; w < p->first[c + 1]; w++) {
            s->low[items] = state->free[w];
            s->high[items++] = fmax(state->free[w], earliest);
        }
    }
    for (int t = 0; t < p->n; t++) {
        if (!(state->done >> t & 1) && p->before[t] & state->done) {
            s->low[items] = state->ready[t];
            s->high[items++] = state->est[t];
        }
    }
    s->low[items] = state->now;
    s->high[items++] = first;
    return exact_memo_covers(s->memo, state->done, items, s->low, s->high);
}

static void keep(struct search *s)
{
    const struct exact_problem *p = &s->problem;
    struct mot_schedule *best = &s->result->schedule;
    best->makespan_ms = 0.0;
    for (int t = 0; t < p->n; t++) {
        best->class[t] = s->class[t];
        best->start[t] = s->start[t];
        best->makespan_ms = fmax(best->makespan_ms, s->start[t] + p->ms[t * p->C + s->class[t]]);
    }
    tighten(s);
}

static void search(struct search *s, int depth)
{
    const struct exact_problem *p = &s->problem;
    struct exact_state *state = &s->state[depth];
    if (++s->result->nodes % NODES_PER_CLOCK == 0 && seconds_now() > s->deadline) {
        s->stopped = 1;
    }
    if (s->stopped) { return; }
    if (depth == p->n) {
        keep(s);
        return;
    }
    if (exact_hopeless(p, state, s->limit) || seen(s, state)) { return; }
    struct child *child = s->child + (size_t)depth * (size_t)(p->n * p->C);
    const int n = find_children(s, state, child);
    for (int i = 0; i < n && !s->stopped; i++) {
        if (child[i].end + p->tail[child[i].task] > s->limit) { continue; } /* it has tightened */
        s->class[child[i].task] = child[i].class;
        s->start[child[i].task] = child[i].start;
        place(p, state, &child[i], &s->state[depth + 1]);
        search(s, depth + 1);
    }
}

/* A schedule to improve on. */
static void start_from(struct search *s, int cold)
{
    const struct exact_problem *p = &s->problem;
    mot_plan_list(p->graph, cold ? 0 : LIST_TRIES, &s->result->schedule);
    double end = 0.0;
    for (int i = 0; i < p->n && cold; i++) {
        const int t = p->order[i];
        int c = 0;
        while (p->ms[t * p->C + c] != p->fastest[t]) { c++; }
        s->result->schedule.class[t] = c;
        s->result->schedule.start[t] = end;
        s->result->schedule.makespan_ms = end += p->fastest[t];
    }
    tighten(s);
}

/* The least limit that the root's bounds do not refute, by halving; what is below is proven. */
static double root_bound(struct search *s, double above)
{
    double low = 0.0;
    while (above - low > (s->problem.whole ? 0.5 : 1e-9 * above)) {
        const double middle = s->problem.whole ? floor(0.5 * (low + above)) : 0.5 * (low + above);
        if (exact_hopeless(&s->problem, &s->state[0], middle)) {
            if (s->problem.whole && middle + 1.0 >= above) { return above; }
            low = s->problem.whole ? middle + 1.0 : middle;
        } else {
            above = middle;
        }
    }
    return s->problem.whole ? above : low;
}

int mot_plan_exact(const struct mot_graph *graph, const struct mot_exact_options *options,
                   struct mot_exact *result)
{
    if (graph->n_tasks > MOT_EXACT_TASKS_MAX) {
        return mot_fail(EFBIG,
                        "%s:%d: graph '%.120s' has %d tasks; the exact optimum is sought for "
                        "at most %d",
                        graph->file, graph->line, graph->name, graph->n_tasks,
                        (int)MOT_EXACT_TASKS_MAX);
    }
    const double begin = seconds_now();
    struct search *s = mot_alloc_zeroed(1, sizeof(*s));
    memset(result, 0, sizeof(*result));
    s->result = result;
    exact_problem_begin(&s->problem, graph);
    const struct exact_problem *p = &s->problem;
    double *free_times = mot_alloc_zeroed((size_t)(p->n + 1) * (size_t)p->W, sizeof(double));
    for (int i = 0; i <= p->n; i++) { s->state[i].free = free_times + i * p->W; }
    s->child = mot_alloc((size_t)p->n * (size_t)(p->n * p->C) * sizeof(*s->child));
    const int items = p->W + p->n + 1;
    s->low = mot_alloc(2 * (size_t)items * sizeof(double));
    s->high = s->low + items;
    start_from(s, options && options->cold);
    const double bytes = options && options->memory_bytes > 0.0 ? options->memory_bytes : 268435456;
    s->memo = exact_memo_create(bytes, items);
    s->deadline = begin + (options && options->seconds > 0.0 ? options->seconds : 120.0);
    const double bound = root_bound(s, result->schedule.makespan_ms);
    search(s, 0);
    result->proven = !s->stopped;
    result->bound_ms = result->proven ? result->schedule.makespan_ms : bound;
    result->seconds = seconds_now() - begin;
    exact_memo_destroy(s->memo);
    exact_problem_end(&s->problem);
    free(free_times);
    free(s->child);
    free(s->low);
    free(s);
    return 0;
}

void mot_exact_free(struct mot_exact *result)
{
    mot_schedule_free(&result->schedule);
}
