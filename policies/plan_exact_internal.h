/* What the files of the exact solver share; see plan_exact.c.  Letters: n tasks, C classes, W
 * workers, K price vectors. */
#ifndef MOT_PLAN_EXACT_INTERNAL_H
#define MOT_PLAN_EXACT_INTERNAL_H
#include "plan_exact.h"

enum { EXACT_PRICES = 32 };

/* A graph made ready for the search: dense arrays, tasks in their own numbers. */
struct exact_problem {
    const struct mot_graph *graph;
    int n, C, W, K;
    int whole; /* all durations are whole milliseconds: so is the optimum */
    int order[MOT_EXACT_TASKS_MAX];
    int by_tail[MOT_EXACT_TASKS_MAX];     /* tasks, longest tail first */
    uint64_t before[MOT_EXACT_TASKS_MAX]; /* direct predecessors, as a set */
    uint64_t after[MOT_EXACT_TASKS_MAX];
    int twin[MOT_EXACT_TASKS_MAX]; /* an equal task that is to start first, or -1 */
    double *ms;                    /* (n, C), INFINITY: cannot */
    double fastest[MOT_EXACT_TASKS_MAX];
    double tail[MOT_EXACT_TASKS_MAX]; /* at least this much passes after the task has ended */
    int *first;                       /* (C + 1) where the class's workers begin among W */
    double *price; /* (C, PRICES) >= 0, sum over c of workers x price = 1; 0 from K on */
    double *work;  /* (n, PRICES): least priced duration */
};

/* A partial schedule, tasks placed by non-decreasing start. */
struct exact_state {
    uint64_t done;
    double now;                        /* the last start */
    double *free;                      /* (W) when each worker is free, ascending in a class */
    double ready[MOT_EXACT_TASKS_MAX]; /* (n) the latest end of predecessors that are done */
    double est[MOT_EXACT_TASKS_MAX];   /* (n) earliest start, of tasks not done */
};

void exact_problem_begin(struct exact_problem *problem, const struct mot_graph *graph);
void exact_problem_end(struct exact_problem *problem);
/* Fills state->est.  1 when no completion of the state is as short as limit. */
int exact_hopeless(const struct exact_problem *problem, struct exact_state *state, double limit);

/* States remembered by their set of done tasks (plan_exact_memo.c). */
struct exact_memo;
struct exact_memo *exact_memo_create(double bytes, int items);
void exact_memo_destroy(struct exact_memo *memo);
/* 1 when a remembered state of the same set has low <= high item by item.  Otherwise remembers low,
 * where there is room, in the place of states that it makes needless. */
int exact_memo_covers(struct exact_memo *memo, uint64_t set, int items, const double *low,
                      const double *high);
#endif
