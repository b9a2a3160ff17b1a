/* motley: virtual dispatch with prices; the policy to begin with.
 *
 *   pop(w)   ready tasks, by priority and the longest way to the end, are dealt out in order, each
 *            to the worker v for which
 *                max(free(v), data there) + length + kappa reduced cost + LINK data
 *            is least; w gets the first that falls to it, nothing when none does
 *   length   by StarPU's models and what was measured, of this class, then of this worker when it
 *            has become slower; on slow devices a kind that varies counts with its 90th percentile,
 *            behind a gate at half the time the fast ones need (sched_deal.h)
 *   price    of the linear program over all that is submitted or declared (sched_prices.h): a
 *            device that others need more is dear while work decides how long it takes (kappa 1),
 *            and is not where the longest way to the end does (kappa 0)
 *   tail     fewer tasks of a kind that varies than fast devices for it: slow ones wait
 *   next     the first task that falls to a busy device and whose data take long is reserved for
 *            it, and they are fetched meanwhile.  Another takes it when it would be idle else and
 *            the task would end sooner there: reserved is not bound
 *   age      how stale answers may be is decided where they are submitted (tasks/rollout_line.h):
 *            a rollout over its capacity is not ready
 *
 * A decision costs at most window x workers additions; where all workers are alike and share a
 * memory it is the first task that the worker can run. */
#include "error.h"
#include "sched_deal.h"
#include "sched_prices.h"
#include "trace.h"
#include <math.h>

enum { FETCHES = 4, LOOK_AHEAD = 12 };
static const double RHO = 2.0, VARIES = 1.5;
static const double WORTH = 0.02, PATIENCE = 2.0; /* of a task's length: data, wait */

/* Data to be fetched ahead, asked for without the mutex. */
struct fetches {
    int n;
    struct mot_sched_task *task[FETCHES];
    unsigned node[FETCHES];
};

static void add_prices(const struct mot_sched *s, struct mot_deal *l)
{
    const struct mot_prices *prices = s->own;
    double least = INFINITY;
    for (int c = 0; c < s->n_classes; c++) {
        if (isfinite(l->us[c])) { least = fmin(least, prices->worth[c] * l->us[c]); }
    }
    for (int c = 0; c < s->n_classes; c++) {
        if (!isfinite(l->us[c])) { continue; }
        l->price_us[c] = prices->kappa * (prices->worth[c] * l->us[c] - least);
    }
}

/* No slow devices for the last tasks of a kind that varies. */
static void keep_tail(struct mot_sched *s, const struct mot_sched_task *t, struct mot_deal *l)
{
    double best = INFINITY, worst = 0.0;
    int fast = 0;
    for (int c = 0; c < s->n_classes; c++) {
        best = fmin(best, l->us[c]);
        if (isfinite(l->us[c])) { worst = fmax(worst, l->us[c]); }
    }
    if (worst <= RHO * best || mot_sched_spread(s, t, worst / best) <= VARIES) { return; }
    for (int w = 0; w < s->n_workers; w++) {
        fast += mot_sched_can_run(t, w) && l->us[s->worker[w].class] <= RHO * best;
    }
    for (int c = 0; c < s->n_classes && s->ready.kind[t->kind].n < fast; c++) {
        if (l->us[c] <= RHO * best) { continue; }
        l->us[c] = INFINITY;
        l->veto = "tail";
    }
}

/* Worth it where data take long beside the task, and the worker is free before long. */
static void reserve(struct mot_sched *s, struct mot_sched_task *t, int worker, double length_us,
                    double wait_us, double now, struct fetches *f)
{
    const double data_us = mot_sched_transfer_us(t, s->worker[worker].node, now);
    if (f->n == FETCHES || t->reserved >= 0 || t->is_fetched || s->worker[worker].next
        || data_us < WORTH * length_us || wait_us > PATIENCE * length_us) {
        return;
    }
    t->is_fetched = t->is_held = 1; /* once: StarPU keeps the copies for it */
    t->reserved = worker;
    s->worker[worker].next = t;
    f->task[f->n] = t;
    f->node[f->n++] = s->worker[worker].node;
}

static void unreserve(struct mot_sched *s, struct mot_sched_task *t)
{
    s->worker[t->reserved].next = NULL;
    t->reserved = -1;
}

/* All workers alike, one memory: the first task in order that it can run. */
static struct mot_sched_task *first_of_all(struct mot_sched *s, int asking)
{
    struct mot_ready_walk walk;
    mot_ready_walk(&s->ready, &walk);
    struct mot_sched_task *t;
    do {
        t = mot_ready_next(&walk);
    } while (t && !mot_sched_can_run(t, asking));
    return t;
}

/* A pass over the ready tasks: what falls to the asking worker. */
struct dealing {
    int asking, fetches; /* fetches: there are memories to fetch into */
    int any;             /* reserved tasks are dealt out as all others */
    int has_pick;        /* the asking worker has one, and what comes next is looked for */
    double now, again_us, free_us[STARPU_NMAXWORKERS];
    struct fetches *later;
};

static struct mot_sched_task *deal(struct mot_sched *s, struct dealing *d)
{
    const double free_at = d->free_us[d->asking];
    double end_us;
    struct mot_sched_task *pick = NULL;
    struct mot_ready_walk walk;
    mot_ready_walk(&s->ready, &walk);
    for (struct mot_sched_task *t; (t = mot_ready_next(&walk)) != NULL;) {
        if (t->is_held) { continue; }
        struct mot_deal l = mot_deal_lengths(s, t, d->free_us, d->now);
        keep_tail(s, t, &l);
        add_prices(s, &l);
        int worker = t->reserved;
        const double length = worker < 0 ? 0.0 : l.us[s->worker[worker].class];
        if (worker >= 0 && !d->any && d->free_us[worker] - d->now <= PATIENCE * length) {
            d->free_us[worker] += length;
            continue;
        }
        worker = mot_deal_first_to_end(s, t, &l, d->free_us, d->asking, d->now, &end_us);
        if (worker < 0) { continue; }
        if (t->reserved >= 0 && t->reserved != worker) { unreserve(s, t); }
        if (!d->has_pick && worker == d->asking && d->free_us[worker] <= free_at) {
            if (mot_trace_is_on()) { mot_deal_explain(s, t, &l, d->free_us, worker, d->now); }
            pick = t;
            d->has_pick = 1;
        } else if (d->free_us[worker] <= d->now) { /* it is about to ask, or has slept */
            d->again_us = d->now + 200.0;
        } else if (d->fetches) {
            reserve(s, t, worker, l.us[s->worker[worker].class], d->free_us[worker] - d->now,
                    d->now, d->later);
        }
        d->free_us[worker] = end_us;
        if (d->has_pick && (!d->fetches || walk.given >= LOOK_AHEAD)) { break; }
    }
    return pick;
}

static struct mot_sched_task *choose(struct mot_sched *s, int asking, double now,
                                     struct fetches *later)
{
    struct dealing d = {.asking = asking, .now = now, .later = later, .again_us = INFINITY};
    d.fetches = starpu_memory_nodes_get_count() > 1;
    if (!d.fetches && s->n_classes == 1) { return first_of_all(s, asking); }
    mot_sched_available(s, now, d.free_us);
    for (int w = 0; w < s->n_workers; w++) {
        if (d.free_us[w] > now) { d.again_us = fmin(d.again_us, d.free_us[w]); }
    }
    struct mot_sched_task *next = s->worker[asking].next;
    if (next && !next->is_held && d.free_us[asking] <= now) {
        struct mot_deal l = mot_deal_lengths(s, next, d.free_us, now);
        if (mot_trace_is_on()) { mot_deal_explain(s, next, &l, d.free_us, asking, now); }
        unreserve(s, next);
        d.free_us[asking] += l.us[s->worker[asking].class];
        d.has_pick = next->is_held = 1; /* while the next but one is looked for */
        (void)deal(s, &d);
        next->is_held = 0;
        return next;
    }
    struct mot_sched_task *pick = deal(s, &d);
    if (!pick) {
        mot_sched_available(s, now, d.free_us);
        d.any = 1;
        pick = deal(s, &d);
    }
    if (!pick && isfinite(d.again_us)) { mot_sched_look_again(s, fmax(d.again_us, now + 50.0)); }
    return pick;
}

static struct starpu_task *pop(unsigned context)
{
    struct mot_sched *s = mot_sched_of(context);
    if (atomic_load(&s->ready.n) == 0) { return NULL; }
    const int worker = starpu_worker_get_id_check();
    struct fetches f = {.n = 0};
    struct starpu_task *task = NULL;
    mot_sched_lock(s);
    const double now = starpu_timing_now();
    if (mot_sched_wants(s, worker, now)) {
        mot_sched_graph_update(s);
        struct mot_sched_task *t = choose(s, worker, now, &f);
        if (t) { task = mot_sched_take(s, t, worker); }
        mot_prices_refresh(s, 2 * s->n_tasks - (uint64_t)atomic_load(&s->ready.n));
    }
    mot_sched_unlock(s);
    if (f.n > 0) {
        for (int i = 0; i < f.n; i++) {
            starpu_prefetch_task_input_on_node(f.task[i]->task, f.node[i]);
        }
        mot_sched_release(s, f.task, f.n);
    }
    return task;
}

static void init(unsigned context)
{
    mot_sched_init_own(context, sizeof(struct mot_prices));
    struct mot_sched *s = mot_sched_of(context);
    STARPU_PTHREAD_MUTEX_LOCK(&s->mutex);
    s->plan = mot_prices_plan;
    STARPU_PTHREAD_MUTEX_UNLOCK(&s->mutex);
}

struct starpu_sched_policy mot_sched_motley = {
    MOT_SCHED_METHODS_BUT_INIT,
    .init_sched = init,
    .pop_task = pop,
    .policy_name = "motley",
    .policy_description = "virtual dispatch with prices: nothing bound early (Motley)",
};
