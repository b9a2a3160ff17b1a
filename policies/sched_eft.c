/* motley-eft: earliest finish time, bound late.
 *
 * A worker that asks for work sees the ready tasks dealt out in order (priority, then the longest
 * way to the end), each to the worker where it would end first given when each is free; it gets
 * the first one that falls to it, and nothing when none does.  Nothing is bound before it begins,
 * so a wrong estimate costs one task and not a queue of them.  On devices more than RHO times
 * slower than the best, a kind whose durations vary counts with its 90th percentile, and does not
 * go there at all when that is more than GAMMA of the time the fast devices need for what is ready:
 * one such task would end after everything else.
 *
 * HEFT (Topcuoglu, Hariri, Wu 2002) made late; risk and gate are ours.  A decision costs at most
 * window x workers additions, however many tasks are ready. */
#include "sched_core.h"
#include "trace.h"
#include <math.h>

static const double RHO = 2.0, GAMMA = 0.5, VARIES = 1.5;

/* Of one task: per class, the time it counts with. */
struct lengths {
    double us[MOT_SCHED_CLASSES_MAX]; /* INFINITY: not there */
    const char *veto;
};

/* When the fast devices of a task would have done all that is ready of its kind. */
static double horizon(struct mot_sched *s, const struct mot_sched_task *t, const double *free_us,
                      double now, double best_us, const struct mot_estimate *e)
{
    double wait = 0.0;
    int fast = 0;
    for (int w = 0; w < s->n_workers; w++) {
        if (!mot_sched_can_run(t, w) || e[s->worker[w].class].p50_us > RHO * best_us) { continue; }
        wait += free_us[w] - now;
        fast++;
    }
    return (s->ready.kind[t->kind].n * best_us + wait) / (fast ? fast : 1);
}

static struct lengths lengths_of(struct mot_sched *s, struct mot_sched_task *t,
                                 const double *free_us, double now)
{
    struct lengths l = {.veto = NULL};
    struct mot_estimate e[MOT_SCHED_CLASSES_MAX];
    double best = INFINITY;
    int known = 0;
    for (int c = 0; c < s->n_classes; c++) {
        e[c] = mot_sched_estimate(s, t, c);
        if (!isfinite(e[c].p50_us)) { continue; }
        best = fmin(best, e[c].p50_us);
        known |= e[c].is_known;
    }
    for (int c = 0; c < s->n_classes; c++) {
        l.us[c] = e[c].p50_us;
        if (!e[c].is_known && known && e[c].outstanding > 0) {
            l.us[c] = INFINITY; /* one probe at a time */
            l.veto = "probed already";
            continue;
        }
        if (!isfinite(l.us[c]) || l.us[c] <= RHO * best) { continue; }
        const double spread = mot_sched_spread(s, t, l.us[c] / best);
        l.us[c] *= spread;
        if (spread > VARIES && l.us[c] > GAMMA * horizon(s, t, free_us, now, best, e)) {
            l.us[c] = INFINITY;
            l.veto = "ends after all else";
        }
    }
    return l;
}

/* The worker where t would end first, the asking one among equals; -1: none for now. */
static int first_to_end(struct mot_sched *s, struct mot_sched_task *t, const struct lengths *l,
                        const double *free_us, int asking, double now, double *end_us)
{
    int best = -1;
    *end_us = INFINITY;
    for (int i = 0; i < s->n_workers; i++) {
        const int w = i == 0 ? asking : i == asking ? 0 : i;
        const struct mot_sched_worker *worker = &s->worker[w];
        if (!worker->is_used || !mot_sched_can_run(t, w)) { continue; }
        const double data = now + mot_sched_transfer_us(t, worker->node, now);
        const double end = fmax(free_us[w], data) + l->us[worker->class];
        if (end < *end_us * (1.0 - 1e-12)) {
            *end_us = end;
            best = w;
        }
    }
    return best;
}

static void explain(const struct mot_sched *s, const struct mot_sched_task *t,
                    const struct lengths *l, const double *free_us, int worker, double now)
{
    struct mot_trace_candidate candidate[STARPU_NMAXWORKERS];
    int n = 0;
    for (int w = 0; w < s->n_workers; w++) {
        const double us = free_us[w] - now + l->us[s->worker[w].class];
        if (!mot_sched_can_run(t, w) || !isfinite(us)) { continue; }
        candidate[n++] = (struct mot_trace_candidate){.worker = w, .estimate_us = (float)us};
    }
    mot_trace_decision(t->task, candidate, n, worker, l->veto);
}

static struct starpu_task *choose(struct mot_sched *s, int asking, double now)
{
    double free_us[STARPU_NMAXWORKERS], end_us, again = INFINITY;
    mot_sched_graph_update(s);
    mot_sched_available(s, now, free_us);
    for (int w = 0; w < s->n_workers; w++) {
        if (free_us[w] > now) { again = fmin(again, free_us[w]); }
    }
    const double free_at = free_us[asking];
    struct mot_ready_walk walk;
    mot_ready_walk(&s->ready, &walk);
    for (struct mot_sched_task *t; (t = mot_ready_next(&walk)) != NULL;) {
        const struct lengths l = lengths_of(s, t, free_us, now);
        const int worker = first_to_end(s, t, &l, free_us, asking, now, &end_us);
        if (worker == asking && free_us[asking] <= free_at) {
            if (mot_trace_is_on()) { explain(s, t, &l, free_us, asking, now); }
            return mot_sched_take(s, t, asking);
        }
        if (worker < 0) { continue; }
        if (free_us[worker] <= now) { again = now + 200.0; } /* it is about to ask, or has slept */
        free_us[worker] = end_us;
    }
    if (isfinite(again)) { mot_sched_look_again(s, fmax(again, now + 50.0)); }
    return NULL;
}

static struct starpu_task *pop(unsigned context)
{
    struct mot_sched *s = mot_sched_of(context);
    if (atomic_load(&s->ready.n) == 0) { return NULL; }
    const int worker = starpu_worker_get_id_check();
    mot_sched_lock(s);
    const double now = starpu_timing_now();
    struct starpu_task *task = mot_sched_wants(s, worker, now) ? choose(s, worker, now) : NULL;
    mot_sched_unlock(s);
    return task;
}

struct starpu_sched_policy mot_sched_eft = {
    MOT_SCHED_METHODS,
    .pop_task = pop,
    .policy_name = "motley-eft",
    .policy_description = "earliest finish time, bound late (Motley)",
};
