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
#include "sched_deal.h"
#include "trace.h"
#include <math.h>

static struct mot_sched_task *choose(struct mot_sched *s, int asking, double now)
{
    double free_us[STARPU_NMAXWORKERS], end_us, again = INFINITY;
    mot_sched_available(s, now, free_us);
    for (int w = 0; w < s->n_workers; w++) {
        if (free_us[w] > now) { again = fmin(again, free_us[w]); }
    }
    const double free_at = free_us[asking];
    struct mot_ready_walk walk;
    mot_ready_walk(&s->ready, &walk);
    for (struct mot_sched_task *t; (t = mot_ready_next(&walk)) != NULL;) {
        const struct mot_deal l = mot_deal_lengths(s, t, free_us, now);
        const int worker = mot_deal_first_to_end(s, t, &l, free_us, asking, now, &end_us);
        if (worker == asking && free_us[asking] <= free_at) {
            if (mot_trace_is_on()) { mot_deal_explain(s, t, &l, free_us, asking, now); }
            return t;
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
    return mot_sched_pop(context, choose);
}

struct starpu_sched_policy mot_sched_eft = {
    MOT_SCHED_METHODS,
    .pop_task = pop,
    .policy_name = "motley-eft",
    .policy_description = "earliest finish time, bound late (Motley)",
};
