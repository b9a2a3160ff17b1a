/* The linear program behind prices.  See sched_prices.h. */
#include "sched_prices.h"
#include "error.h"
#include "motley.h"
#include "plan_lp.h"
#include "stages.h"
#include <math.h>
#include <string.h>

/* Absent in the library for foreign programs, whose tasks have no stages. */
#pragma weak mot_task_hint
#pragma weak mot_plan_remaining

static const double MANY = 8.0; /* tasks for each worker: fewer are no fluid */

/* Work to be done: per kind, and per kind and class. */
struct backlog {
    int n, tasks[MOT_SCHED_KINDS_MAX];
    int stage[MOT_SCHED_KINDS_MAX];                             /* -1: not a stage of ours */
    double work_us[MOT_SCHED_KINDS_MAX][MOT_SCHED_CLASSES_MAX]; /* INFINITY: cannot run there */
    double longest_us;
};

static void add_task(struct mot_sched *s, struct mot_sched_task *t, void *own)
{
    struct backlog *b = own;
    if (t->worker >= 0 || !t->task) { return; }
    for (int c = 0; c < s->n_classes; c++) {
        b->work_us[t->kind][c] += mot_sched_estimate(s, t, c).mean_us;
    }
    const struct mot_hint *hint = mot_task_hint ? mot_task_hint(t->task) : NULL;
    b->stage[t->kind] = hint ? hint->stage : -1;
    b->longest_us = fmax(b->longest_us, t->remaining_us);
    b->tasks[t->kind]++;
    b->n++;
}

/* Tasks that are declared are as long as those of the first kind of their stage that is here. */
static void add_declared(const struct mot_sched *s, struct backlog *b)
{
    for (int stage = 0; stage < MOT_STAGES && mot_plan_remaining; stage++) {
        int k = 0;
        while (k < s->n_kinds && (b->tasks[k] == 0 || b->stage[k] != stage)) { k++; }
        if (k == s->n_kinds) { continue; }
        const int more = mot_plan_remaining((enum mot_stage)stage).tasks;
        const double factor = 1.0 + (double)more / b->tasks[k];
        for (int c = 0; c < s->n_classes; c++) { b->work_us[k][c] *= factor; }
        b->tasks[k] += more;
    }
}

/* 0, and worth and the least time T. */
static int solve(const struct backlog *b, int n_kinds, int n_classes, const int *workers,
                 double *worth, double *area_us)
{
    struct mot_lp *lp = mot_lp_create();
    const int time = mot_lp_column(lp, 0.0, INFINITY, 1.0, 0);
    int x[MOT_SCHED_KINDS_MAX][MOT_SCHED_CLASSES_MAX], row[MOT_SCHED_CLASSES_MAX], sum = 0;
    for (int k = 0; k < n_kinds; k++) {
        if (b->tasks[k] == 0) { continue; }
        int row_begun = 0;
        for (int c = 0; c < n_classes; c++) {
            x[k][c] = -1;
            if (!isfinite(b->work_us[k][c]) || workers[c] == 0) { continue; }
            x[k][c] = mot_lp_column(lp, 0.0, INFINITY, 0.0, 0);
            if (!row_begun) { mot_lp_row(lp, 1.0, 1.0); }
            row_begun = 1;
            mot_lp_term(lp, x[k][c], 1.0);
        }
    }
    for (int c = 0; c < n_classes; c++) {
        sum += workers[c];
        row[c] = mot_lp_row(lp, 0.0, INFINITY);
        mot_lp_term(lp, time, workers[c]);
        for (int k = 0; k < n_kinds; k++) {
            if (b->tasks[k] == 0 || x[k][c] < 0) { continue; }
            mot_lp_term(lp, x[k][c], -1e-6 * b->work_us[k][c]); /* in seconds */
        }
    }
    const int error = mot_lp_solve(lp, 1.0);
    *area_us = 1e6 * mot_lp_objective(lp);
    for (int c = 0; c < n_classes && !error; c++) {
        worth[c] = fmax(0.0, mot_lp_price(lp, row[c])) * sum;
    }
    mot_lp_destroy(lp);
    return error;
}

static double clamp(double x)
{
    return fmin(fmax(x, 0.0), 1.0);
}

void mot_prices_plan(struct mot_sched *s)
{
    struct mot_prices *prices = s->own;
    struct backlog *b = mot_alloc_zeroed(1, sizeof(*b));
    int workers[MOT_SCHED_CLASSES_MAX];
    double worth[MOT_SCHED_CLASSES_MAX] = {0.0}, area_us;
    mot_sched_graph_each(s, add_task, b);
    add_declared(s, b);
    const int n_kinds = s->n_kinds, n_classes = s->n_classes;
    const unsigned epoch = s->epoch;
    double n_workers = 0.0;
    for (int c = 0; c < n_classes; c++) { n_workers += workers[c] = s->class[c].workers; }
    STARPU_PTHREAD_MUTEX_UNLOCK(&s->mutex);
    const int error = b->n > 0 ? solve(b, n_kinds, n_classes, workers, worth, &area_us) : -EDOM;
    STARPU_PTHREAD_MUTEX_LOCK(&s->mutex);
    if (!error && epoch == s->epoch) {
        memcpy(prices->worth, worth, sizeof(worth));
        prices->kappa = clamp(0.5 * area_us / fmax(b->longest_us, 1.0) - 1.0)
                        * clamp(b->n / (MANY * n_workers) - 1.0);
    }
    prices->backlog = b->n;
    free(b);
}

void mot_prices_refresh(struct mot_sched *s, uint64_t events)
{
    struct mot_prices *prices = s->own;
    const uint64_t enough = 16 + (uint64_t)prices->backlog / 8;
    if (s->n_classes < 2 || events < prices->at + enough) { return; }
    prices->at = events;
    mot_sched_plan_soon(s);
}
