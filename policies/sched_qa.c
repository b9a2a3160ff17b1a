/* motley-qa: a rule with a guarantee, and earliest finish time as long as that does no worse.
 *
 *   QA(t)    the class c with the least  time(t, c) / sqrt(workers of c): whether the work a task
 *            saves on the better devices is worth one of the scarcer ones, by t alone
 *   EFT(t)   where it would end first, as in motley-eft
 *   mode     EFT, as long as the busiest class by what has been given out is at most LAMBDA times
 *            as busy as the busiest were by QA's choices; else QA, until it is so again
 *   pop(w)   EFT: the first ready task that falls to w; QA: the first whose class is w's
 *
 * QA: quick allocation (Canon, Marchal, Simon, Vivien: "Online Scheduling of Task Graphs on
 * Heterogeneous Platforms", TPDS 2020): at most 2 sqrt(m/k) + 1 times the optimum with m processors
 * and k accelerators, whatever the graph, and none that decides without knowing the future is
 * below sqrt(m/k).  For two classes the rule is theirs, time(t, m) / time(t, k) > sqrt(m/k); so
 * written it holds for any number.  The mix is theirs too, on loads in place of two schedules. */
#include "sched_deal.h"
#include "trace.h"
#include <math.h>

static const double LAMBDA = 1.5;

struct own {
    /* What has been given out for each of a class's workers, and would have been by QA alone. */
    double load_us[MOT_SCHED_CLASSES_MAX], qa_us[MOT_SCHED_CLASSES_MAX];
};

/* Of the classes with a worker that can run it; -1: none now. */
static int quick_allocation(const struct mot_sched *s, const struct mot_sched_task *t,
                            const struct mot_deal *l)
{
    int best = -1;
    double least = INFINITY;
    for (int w = 0; w < s->n_workers; w++) {
        const int c = s->worker[w].class;
        if (!s->worker[w].is_used || !mot_sched_can_run(t, w)) { continue; }
        const double cost = l->us[c] / sqrt(s->class[c].workers);
        if (cost < least) {
            least = cost;
            best = c;
        }
    }
    return best;
}

static double busiest(const struct mot_sched *s, const double *load_us)
{
    double most = 0.0;
    for (int c = 0; c < s->n_classes; c++) { most = fmax(most, load_us[c]); }
    return most;
}

static void count(struct mot_sched *s, const struct mot_deal *l, int class, int by_qa)
{
    struct own *own = s->own;
    own->load_us[class] += l->us[class] / s->class[class].workers;
    own->qa_us[by_qa] += l->us[by_qa] / s->class[by_qa].workers;
}

static struct mot_sched_task *choose(struct mot_sched *s, int asking, double now)
{
    const struct own *own = s->own;
    const int mine = s->worker[asking].class;
    const int is_eft = busiest(s, own->load_us) <= LAMBDA * busiest(s, own->qa_us);
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
        const int by_qa = quick_allocation(s, t, &l);
        if (by_qa < 0) { continue; }
        int worker = mot_sched_can_run(t, asking) && by_qa == mine ? asking : -1;
        if (is_eft) { worker = mot_deal_first_to_end(s, t, &l, free_us, asking, now, &end_us); }
        if (worker == asking && free_us[asking] <= free_at) {
            if (mot_trace_is_on()) { mot_deal_explain(s, t, &l, free_us, asking, now); }
            count(s, &l, mine, by_qa);
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

static void init(unsigned context)
{
    mot_sched_init_own(context, sizeof(struct own));
}

struct starpu_sched_policy mot_sched_qa = {
    MOT_SCHED_METHODS_BUT_INIT,
    .init_sched = init,
    .pop_task = pop,
    .policy_name = "motley-qa",
    .policy_description = "quick allocation mixed with earliest finish time (Motley)",
};
