/* motley-multiprio: a score for each task and class of devices, and a test before a class takes
 * what is better elsewhere.
 *
 *   gain(t, c)   (the shortest time in another class - the time in c) / the longest such difference
 *                seen, from -1 to 1; 1 where no other class can run it
 *   pop(w)       of the ready tasks whose score, gain + CRITICAL x the share of the longest way to
 *                the end that is left, is within NEAR of the best: the one whose data come soonest
 *   test         a class that is not the task's best takes it only if the best one has more work
 *                of its own, for each of its workers, than the task takes here; otherwise the best
 *                class is free for it before this one would be through
 *
 * MultiPrio (Hayfa Tayeb, Bramas, Faverge, Guermouche: "Dynamic Tasks Scheduling with Multiple
 * Priorities on Heterogeneous Computing Systems", HCW 2024, hal-04498634): affinity, criticality,
 * locality, balance; its criticality is the normalised out-degree, ours the way to the end, which
 * the core knows.  A decision costs window x classes. */
#include "sched_deal.h"
#include "trace.h"
#include <math.h>

static const double CRITICAL = 0.25, NEAR = 0.05;

struct own {
    double longest_us[MOT_SCHED_CLASSES_MAX]; /* the longest difference seen */
};

static double gain(const struct mot_sched *s, const struct mot_deal *l, int c)
{
    struct own *own = s->own;
    double other = INFINITY;
    for (int k = 0; k < s->n_classes; k++) {
        if (k != c && s->class[k].workers > 0) { other = fmin(other, l->us[k]); }
    }
    if (!isfinite(other)) { return 1.0; }
    const double difference = other - l->us[c];
    own->longest_us[c] = fmax(own->longest_us[c], fabs(difference));
    return own->longest_us[c] > 0.0 ? difference / own->longest_us[c] : 0.0;
}

/* The class with workers that is fastest by these lengths; -1: none can run it. */
static int best_class(const struct mot_sched *s, const double *us)
{
    int best = -1;
    for (int c = 0; c < s->n_classes; c++) {
        if (s->class[c].workers > 0 && isfinite(us[c]) && (best < 0 || us[c] < us[best])) {
            best = c;
        }
    }
    return best;
}

/* Per class: what runs there, and what is ready and best there, for each of its workers.  Kinds by
 * their first task. */
static void remaining(struct mot_sched *s, const double *free_us, double now, double *work_us)
{
    for (int c = 0; c < s->n_classes; c++) { work_us[c] = 0.0; }
    for (int w = 0; w < s->n_workers; w++) {
        const int c = s->worker[w].class;
        if (s->worker[w].is_used) { work_us[c] += (free_us[w] - now) / s->class[c].workers; }
    }
    for (int k = 0; k < s->n_kinds; k++) {
        if (s->ready.kind[k].n == 0) { continue; }
        double us[MOT_SCHED_CLASSES_MAX];
        for (int c = 0; c < s->n_classes; c++) {
            us[c] = mot_sched_estimate(s, s->ready.kind[k].task[0], c).p50_us;
        }
        const int best = best_class(s, us);
        if (best >= 0) { work_us[best] += s->ready.kind[k].n * us[best] / s->class[best].workers; }
    }
}

/* Whether the class c, which is not its best, may take it. */
static int may_take(const struct mot_sched *s, const struct mot_sched_task *t,
                    const struct mot_deal *l, const double *work_us, int c)
{
    const int best = best_class(s, l->us);
    if (best < 0 || l->us[c] <= l->us[best] || work_us[best] > l->us[c]) { return 1; }
    for (int w = 0; w < s->n_workers; w++) { /* what a task is pinned to decides, not its class */
        if (s->worker[w].is_used && s->worker[w].class == best && mot_sched_can_run(t, w)) {
            return 0;
        }
    }
    return 1;
}

static struct mot_sched_task *choose(struct mot_sched *s, int asking, double now)
{
    const int c = s->worker[asking].class;
    double free_us[STARPU_NMAXWORKERS], work_us[MOT_SCHED_CLASSES_MAX];
    double most = -INFINITY, longest_us = 0.0, soonest_us = INFINITY;
    struct mot_sched_task *pick = NULL;
    struct mot_deal of_pick = {.veto = NULL};
    struct mot_ready_walk walk;
    int refused = 0;
    mot_sched_available(s, now, free_us);
    remaining(s, free_us, now, work_us);
    mot_ready_walk(&s->ready, &walk);
    for (struct mot_sched_task *t; (t = mot_ready_next(&walk)) != NULL;) {
        longest_us = fmax(longest_us, t->remaining_us); /* the first has it but for priorities */
        if (!mot_sched_can_run(t, asking)) { continue; }
        const struct mot_deal l = mot_deal_lengths(s, t, free_us, now);
        if (!isfinite(l.us[c]) || !may_take(s, t, &l, work_us, c)) {
            refused = 1;
            continue;
        }
        const double score = gain(s, &l, c) + CRITICAL * t->remaining_us / fmax(longest_us, 1e-9);
        const double data_us = mot_sched_transfer_us(t, s->worker[asking].node, now);
        if (pick && (t->task->priority < pick->task->priority || score < most - NEAR)) { continue; }
        if (pick && score < most + NEAR && data_us >= soonest_us) { continue; }
        pick = t;
        of_pick = l;
        most = score;
        soonest_us = data_us;
    }
    if (pick && mot_trace_is_on()) { mot_deal_explain(s, pick, &of_pick, free_us, asking, now); }
    if (!pick && refused) { mot_sched_look_again(s, now + 200.0); }
    return pick;
}

static struct starpu_task *pop(unsigned context)
{
    return mot_sched_pop(context, choose);
}

static void init(unsigned context)
{
    mot_sched_init_own(context, sizeof(struct own));
}

struct starpu_sched_policy mot_sched_multiprio = {
    MOT_SCHED_METHODS_BUT_INIT,
    .init_sched = init,
    .pop_task = pop,
    .policy_name = "motley-multiprio",
    .policy_description = "a score per task and class: gain, way to the end, data (Motley)",
};
