/* motley-heteroprio: each class of devices takes what it is best at beside the others.
 *
 *   pop(w)   of the ready tasks that w can run, the one with the greatest affinity for its class c:
 *                affinity(t, c) = the shortest time in another class / the time in c
 *            so the fastest class takes what it speeds up most, and a slow one what it slows down
 *            least; among equals priority, then the longest way to the end
 *   guard    not when a faster class would end the task sooner, once it were through with all that
 *            is ready and is best there: HeteroPrio mends such a choice by spoliation, running the
 *            task again on the faster device; a StarPU task cannot be taken back, so it is not
 *            given in the first place
 *
 * HeteroPrio (Agullo, Bramas, Coulaud, Darve, Messner, Takahashi 2016; 2 + sqrt(2) for independent
 * tasks on m processors and n accelerators with spoliation: Beaumont, Eyraud-Dubois, Kumar 2017)
 * with affinity by class instead of architecture, so for more than two kinds of devices, and
 * without buckets set by hand.  A decision costs window x classes. */
#include "sched_deal.h"
#include "trace.h"
#include <math.h>

static const double EQUAL = 1.05; /* affinities closer than that are the same */

/* Affinity of t for class c by its lengths; alone: no other class can run it. */
static double affinity(const struct mot_sched *s, const struct mot_deal *l, int c)
{
    double other = INFINITY;
    for (int k = 0; k < s->n_classes; k++) {
        if (k != c && s->class[k].workers > 0) { other = fmin(other, l->us[k]); }
    }
    return other / l->us[c];
}

/* Per class: when it would be through with what runs there and what is ready and best there, were
 * that shared out evenly. */
static void through(struct mot_sched *s, double now, double *at_us)
{
    double free_us[STARPU_NMAXWORKERS], work_us[MOT_SCHED_CLASSES_MAX] = {0.0};
    mot_sched_available(s, now, free_us);
    for (int w = 0; w < s->n_workers; w++) {
        if (s->worker[w].is_used) { work_us[s->worker[w].class] += free_us[w] - now; }
    }
    for (int k = 0; k < s->n_kinds; k++) {
        if (s->ready.kind[k].n == 0) { continue; }
        int best = -1;
        double least = INFINITY;
        for (int c = 0; c < s->n_classes; c++) {
            const double us = mot_sched_estimate(s, s->ready.kind[k].task[0], c).p50_us;
            if (s->class[c].workers > 0 && us < least) {
                least = us;
                best = c;
            }
        }
        if (best >= 0) { work_us[best] += s->ready.kind[k].n * least; }
    }
    for (int c = 0; c < s->n_classes; c++) {
        at_us[c] = s->class[c].workers > 0 ? now + work_us[c] / s->class[c].workers : INFINITY;
    }
}

/* A faster class would end it sooner. */
static int is_better_elsewhere(const struct mot_sched *s, const struct mot_sched_task *t,
                               const struct mot_deal *l, const double *through_us, int c,
                               double now)
{
    for (int w = 0; w < s->n_workers; w++) {
        const int k = s->worker[w].class;
        if (k == c || !s->worker[w].is_used || !mot_sched_can_run(t, w)) { continue; }
        if (l->us[k] < l->us[c] && through_us[k] + l->us[k] < now + l->us[c]) { return 1; }
    }
    return 0;
}

static struct mot_sched_task *choose(struct mot_sched *s, int asking, double now)
{
    const int c = s->worker[asking].class;
    double free_us[STARPU_NMAXWORKERS], through_us[MOT_SCHED_CLASSES_MAX], most = 0.0;
    struct mot_sched_task *pick = NULL;
    struct mot_deal of_pick = {.veto = NULL};
    struct mot_ready_walk walk;
    int refused = 0;
    through(s, now, through_us);
    mot_sched_available(s, now, free_us);
    mot_ready_walk(&s->ready, &walk);
    for (struct mot_sched_task *t; (t = mot_ready_next(&walk)) != NULL;) {
        if (!mot_sched_can_run(t, asking)) { continue; }
        const struct mot_deal l = mot_deal_lengths(s, t, free_us, now);
        if (!isfinite(l.us[c]) || is_better_elsewhere(s, t, &l, through_us, c, now)) {
            refused = 1;
            continue;
        }
        const double a = affinity(s, &l, c);
        if (pick && !(a > EQUAL * most)) { continue; }
        pick = t;
        most = a;
        of_pick = l;
    }
    if (pick && mot_trace_is_on()) { mot_deal_explain(s, pick, &of_pick, free_us, asking, now); }
    if (!pick && refused) { mot_sched_look_again(s, now + 200.0); }
    return pick;
}

static struct starpu_task *pop(unsigned context)
{
    return mot_sched_pop(context, choose);
}

struct starpu_sched_policy mot_sched_heteroprio = {
    MOT_SCHED_METHODS,
    .pop_task = pop,
    .policy_name = "motley-heteroprio",
    .policy_description = "each class takes what it is best at beside the others (Motley)",
};
