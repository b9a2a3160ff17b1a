/* What an hour of each class of devices is worth, given all that is still to be done: the prices of
 * the linear program "area" (plan_bound.h) over kinds of tasks and classes of devices.
 *
 *     min T:  sum_c x_kc = 1,   sum_k W_kc x_kc <= m_c T
 *
 * W_kc is the work of kind k in class c: of tasks submitted and not taken, and of those that the
 * plan of the step declares (mot_plan_remaining).  A task costs the others the price of its class
 * times its length; what that is above the cheapest class is its reduced cost there. */
#ifndef MOT_SCHED_PRICES_H
#define MOT_SCHED_PRICES_H
#include "sched_core.h"

struct mot_prices {
    double worth[MOT_SCHED_CLASSES_MAX]; /* mean over workers 1; all 0 before the first plan */
    double kappa; /* 1: work decides how long it takes; 0: the longest way to the end does */
    int backlog;  /* tasks in it */
    uint64_t at;  /* events (tasks submitted and taken) when it was made */
};
/* s->plan: a new linear program; unlocks while it is solved.  s->own: struct mot_prices. */
void mot_prices_plan(struct mot_sched *s);
/* Asks for a plan when the backlog has changed by an eighth.  Locked. */
void mot_prices_refresh(struct mot_sched *s, uint64_t events);
#endif
