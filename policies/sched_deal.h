/* Virtual dispatch: ready tasks are dealt out in order to workers as they become free, and nothing
 * is bound.  Used by the policies' pop; the mutex is held throughout. */
#ifndef MOT_SCHED_DEAL_H
#define MOT_SCHED_DEAL_H
#include "sched_core.h"

/* Of one task: per class, the time it counts with, and what it costs others there. */
struct mot_deal {
    double us[MOT_SCHED_CLASSES_MAX];       /* INFINITY: not there */
    double price_us[MOT_SCHED_CLASSES_MAX]; /* 0 unless the policy says otherwise */
    const char *veto;                       /* why a class is left out; NULL: none is */
};
/* Risk and gate: on devices more than RHO times slower than the best a kind whose durations vary
 * counts with its 90th percentile, and does not go there when that is more than GAMMA of the time
 * the fast devices need for what is ready of the kind. A class without samples, where others have
 * some, gets one task at a time. */
struct mot_deal mot_deal_lengths(struct mot_sched *s, struct mot_sched_task *t,
                                 const double *free_us, double now);
/* The worker where t would end first, prices added, the asking one among equals; -1: none for now.
 * free_us (n_workers): when each is free.  *end_us: the end there, without the price. */
int mot_deal_first_to_end(struct mot_sched *s, struct mot_sched_task *t, const struct mot_deal *l,
                          const double *free_us, int asking, double now, double *end_us);
/* Tells the trace. */
void mot_deal_explain(const struct mot_sched *s, const struct mot_sched_task *t,
                      const struct mot_deal *l, const double *free_us, int worker, double now);
#endif
