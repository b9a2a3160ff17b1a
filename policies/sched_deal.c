/* Dealing ready tasks out to workers that are not free yet: how long each counts with in each class
 * of devices, and where it would end first.  See sched_deal.h. */
#include "sched_deal.h"
#include "trace.h"
#include <math.h>

static const double RHO = 2.0, GAMMA = 0.5, VARIES = 1.5;
/* Data on their way hold back those of others: a link is shared. */
static const double LINK = 3.0;

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

struct mot_deal mot_deal_lengths(struct mot_sched *s, struct mot_sched_task *t,
                                 const double *free_us, double now)
{
    struct mot_deal l = {.veto = NULL};
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

int mot_deal_first_to_end(struct mot_sched *s, struct mot_sched_task *t, const struct mot_deal *l,
                          const double *free_us, int asking, double now, double *end_us)
{
    int best = -1;
    double least = INFINITY;
    *end_us = INFINITY;
    for (int i = 0; i < s->n_workers; i++) {
        const int w = i == 0 ? asking : i == asking ? 0 : i;
        const struct mot_sched_worker *worker = &s->worker[w];
        if (!worker->is_used || !mot_sched_can_run(t, w)) { continue; }
        const double data = now + mot_sched_transfer_us(t, worker->node, now);
        const double end = fmax(free_us[w], data) + l->us[worker->class] * worker->slow;
        const double cost = end + l->price_us[worker->class] + LINK * (data - now);
        if (cost < least * (1.0 - 1e-12)) {
            least = cost;
            *end_us = end;
            best = w;
        }
    }
    return best;
}

void mot_deal_explain(const struct mot_sched *s, const struct mot_sched_task *t,
                      const struct mot_deal *l, const double *free_us, int worker, double now)
{
    struct mot_trace_candidate candidate[STARPU_NMAXWORKERS];
    int n = 0;
    for (int w = 0; w < s->n_workers; w++) {
        const int c = s->worker[w].class;
        const double us = free_us[w] - now + l->us[c] * s->worker[w].slow + l->price_us[c];
        if (!mot_sched_can_run(t, w) || !isfinite(us)) { continue; }
        candidate[n++] = (struct mot_trace_candidate){.worker = w, .estimate_us = (float)us};
    }
    mot_trace_decision(t->task, candidate, n, worker, l->veto);
}
