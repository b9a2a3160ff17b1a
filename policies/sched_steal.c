/* motley-steal: work stealing that needs no model: what a kind of task takes in a class of devices
 * is the mean of what it took there in this run.
 *
 *   home(t)   the worker, of those that can run it, with the least in its queue; among equals the
 *             one whose memory has the data
 *   pop(w)    the first of its own queue; when that is empty it steals, of all queues, the task
 *             that would end soonest here before it would there:
 *                 there: what runs, and what is before it in the queue
 *                 here:  now
 *   gate      a task that would end later here is left where it is, so a slow device does not take
 *             the last long ones; a class that has not run a kind gets one task of it to see
 *   running   what has run longer than its mean is taken to run as long again
 *
 * Work stealing (Blumofe, Leiserson 1999) with the gate of unlike devices; StarPU's lws steals
 * whatever it finds.  A queue's order is the core's: priority, the longest way to the end, age.
 * A decision costs window x workers. */
#include "sched_core.h"
#include "trace.h"
#include <math.h>

struct own {
    double mean_us[MOT_SCHED_KINDS_MAX][MOT_SCHED_CLASSES_MAX];
    int n[MOT_SCHED_KINDS_MAX][MOT_SCHED_CLASSES_MAX];
};

static void ended(struct mot_sched *s, const struct mot_sched_task *t, double us)
{
    enum { REMEMBERED = 32 };
    struct own *own = s->own;
    const int c = s->worker[t->worker].class;
    int *n = &own->n[t->kind][c];
    double *mean = &own->mean_us[t->kind][c];
    *n += *n < REMEMBERED;
    *mean += (us - *mean) / *n;
}

/* NAN: the class has run none. */
static double length(const struct mot_sched *s, const struct mot_sched_task *t, int worker)
{
    const struct own *own = s->own;
    const int c = s->worker[worker].class;
    return own->n[t->kind][c] > 0 ? own->mean_us[t->kind][c] : NAN;
}

/* What it took in any class, the shortest; 1 when nowhere yet. */
static double some_length(const struct mot_sched *s, const struct mot_sched_task *t)
{
    const struct own *own = s->own;
    double least = INFINITY;
    for (int c = 0; c < s->n_classes; c++) {
        if (own->n[t->kind][c] > 0) { least = fmin(least, own->mean_us[t->kind][c]); }
    }
    return isfinite(least) ? least : 1.0;
}

static double length_or_some(const struct mot_sched *s, const struct mot_sched_task *t, int worker)
{
    const double us = length(s, t, worker);
    return isnan(us) ? some_length(s, t) : us;
}

/* Of what runs there. */
static double left(const struct mot_sched *s, int worker, double now)
{
    double us = 0.0;
    for (const struct mot_sched_task *t = s->worker[worker].running; t; t = t->next_running) {
        const double age = t->start_us > 0.0 ? now - t->start_us : 0.0;
        const double rest = length_or_some(s, t, worker) - age;
        us += rest > 0.0 ? rest : age;
    }
    return us;
}

/* One of the kind is being looked at there. */
static int is_probed(const struct mot_sched *s, const struct mot_sched_task *t, int class)
{
    for (int w = 0; w < s->n_workers; w++) {
        const struct mot_sched_task *r = s->worker[w].class == class ? s->worker[w].running : NULL;
        for (; r; r = r->next_running) {
            if (r->kind == t->kind) { return 1; }
        }
    }
    return 0;
}

/* queue_us: of each worker, what runs and what is in its queue so far. */
static int find_home(struct mot_sched *s, struct mot_sched_task *t, const double *queue_us,
                     double now)
{
    int home = -1;
    double least = INFINITY, data_us = INFINITY;
    for (int w = 0; w < s->n_workers; w++) {
        if (!s->worker[w].is_used || !mot_sched_can_run(t, w)) { continue; }
        const double us = queue_us[w] + length_or_some(s, t, w);
        const double data = mot_sched_transfer_us(t, s->worker[w].node, now);
        if (us > least || (us == least && data >= data_us)) { continue; }
        least = us;
        data_us = data;
        home = w;
    }
    return home;
}

static void explain(struct mot_sched *s, const struct mot_sched_task *t, int worker)
{
    const double us = length_or_some(s, t, worker);
    const struct mot_trace_candidate candidate = {.worker = worker, .estimate_us = (float)us};
    mot_trace_decision(t->task, &candidate, 1, worker, t->home == worker ? NULL : "stolen");
}

static struct mot_sched_task *choose(struct mot_sched *s, int asking, double now)
{
    double queue_us[STARPU_NMAXWORKERS], most = 0.0;
    for (int w = 0; w < s->n_workers; w++) { queue_us[w] = left(s, w, now); }
    struct mot_sched_task *pick = NULL;
    struct mot_ready_walk walk;
    int refused = 0;
    mot_ready_walk(&s->ready, &walk);
    for (struct mot_sched_task *t; (t = mot_ready_next(&walk)) != NULL;) {
        if (t->home < 0 || !s->worker[t->home].is_used || !mot_sched_can_run(t, t->home)) {
            t->home = find_home(s, t, queue_us, now);
            if (t->home < 0) { continue; }
        }
        if (t->home == asking) {
            pick = t;
            break;
        }
        const double there_us = queue_us[t->home] += length_or_some(s, t, t->home);
        if (!mot_sched_can_run(t, asking)) { continue; }
        const double here_us = length(s, t, asking);
        const int may =
            isnan(here_us) ? !is_probed(s, t, s->worker[asking].class) : here_us < there_us;
        refused |= !may;
        const double gained = there_us - (isnan(here_us) ? 0.0 : here_us);
        if (!may || (pick && gained <= most)) { continue; }
        pick = t;
        most = gained;
    }
    if (pick && mot_trace_is_on()) { explain(s, pick, asking); }
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
    mot_sched_of(context)->ended = ended;
}

struct starpu_sched_policy mot_sched_steal = {
    MOT_SCHED_METHODS_BUT_INIT,
    .init_sched = init,
    .pop_task = pop,
    .policy_name = "motley-steal",
    .policy_description = "queues of their own, and stealing what ends sooner; no model (Motley)",
};
