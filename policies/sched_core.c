/* The life of a task under a policy of ours.  See sched_core.h.
 *
 * A worker that pop_task sends away sleeps until it is woken: by a task that becomes ready, by one
 * that ends, or by the timer, which pop sets to when its answer may be another one. */
#include "sched_core.h"
#include "error.h"
#include "hash.h"
#include "motley.h"
#include "sched_models.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Absent in the library for foreign programs. */
#pragma weak mot_task_hint

struct mot_sched *mot_sched_of(unsigned context)
{
    return starpu_sched_ctx_get_policy_data(context);
}

void mot_sched_lock(struct mot_sched *s)
{
    starpu_worker_relax_on();
    STARPU_PTHREAD_MUTEX_LOCK(&s->mutex);
    starpu_worker_relax_off();
}

void mot_sched_unlock(struct mot_sched *s)
{
    STARPU_PTHREAD_MUTEX_UNLOCK(&s->mutex);
}

/* ---- Waking ---------------------------------------------------------------------------------- */

struct workers {
    uint32_t bits[(STARPU_NMAXWORKERS + 31) / 32];
};

/* Those without a task, or with one at most that will end; t: that can run it; NULL: any. */
static struct workers idle_workers(const struct mot_sched *s, const struct mot_sched_task *t)
{
    struct workers idle = {{0}};
    for (int w = 0; w < s->n_workers; w++) {
        const struct mot_sched_worker *worker = &s->worker[w];
        if (worker->is_used && !worker->running && (!t || mot_sched_can_run(t, w))) {
            idle.bits[w / 32] |= UINT32_C(1) << (w % 32);
        }
    }
    return idle;
}

/* Without the lock: a worker being woken may be waiting for it. */
static void wake(const struct workers *workers)
{
    for (int w = 0; w < STARPU_NMAXWORKERS; w++) {
        if (workers->bits[w / 32] >> (w % 32) & 1) { starpu_wake_worker_relax_light(w); }
    }
}

struct mot_sched_timer {
    starpu_pthread_t thread;
    starpu_pthread_cond_t changed;
    double at_us; /* INFINITY: not set */
    int ends;
};

/* Waits for a change or until then, or less. */
static void timer_wait(struct mot_sched *s, double us)
{
    struct mot_sched_timer *timer = s->timer;
    if (isinf(us)) {
        STARPU_PTHREAD_COND_WAIT(&timer->changed, &s->mutex);
        return;
    }
#ifdef STARPU_SIMGRID
    /* Simulated time: an eighth of the way at a time notices an earlier call soon enough. */
    STARPU_PTHREAD_MUTEX_UNLOCK(&s->mutex);
    starpu_sleep((float)(fmax(us < 100.0 ? us : us / 8.0, 1.0) * 1e-6));
    STARPU_PTHREAD_MUTEX_LOCK(&s->mutex);
#else
    const double longest_us = 1e6;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    const long ns = end.tv_nsec + (long)(fmin(us, longest_us) * 1e3);
    end.tv_sec += ns / 1000000000;
    end.tv_nsec = ns % 1000000000;
    starpu_pthread_cond_timedwait(&timer->changed, &s->mutex, &end);
#endif
}

static void *timer_run(void *argument)
{
    struct mot_sched *s = argument;
    STARPU_PTHREAD_MUTEX_LOCK(&s->mutex);
    while (!s->timer->ends) {
        if (s->plan && s->plan_wanted) {
            s->plan_wanted = 0;
            s->plan(s);
            continue;
        }
        const double left_us = s->timer->at_us - starpu_timing_now();
        if (left_us > 0.0) {
            timer_wait(s, left_us);
            continue;
        }
        s->timer->at_us = INFINITY;
        struct workers all = {{0}};
        for (int w = 0; w < s->n_workers; w++) {
            if (s->worker[w].is_used) { all.bits[w / 32] |= UINT32_C(1) << (w % 32); }
        }
        STARPU_PTHREAD_MUTEX_UNLOCK(&s->mutex);
        wake(&all);
        STARPU_PTHREAD_MUTEX_LOCK(&s->mutex);
    }
    STARPU_PTHREAD_MUTEX_UNLOCK(&s->mutex);
    return NULL;
}

void mot_sched_look_again(struct mot_sched *s, double at_us)
{
    if (at_us >= s->timer->at_us) { return; }
    s->timer->at_us = at_us;
    STARPU_PTHREAD_COND_SIGNAL(&s->timer->changed);
}

void mot_sched_plan_soon(struct mot_sched *s)
{
    if (s->plan_wanted) { return; }
    s->plan_wanted = 1;
    STARPU_PTHREAD_COND_SIGNAL(&s->timer->changed);
}

void mot_sched_release(struct mot_sched *s, struct mot_sched_task *const *held, int n)
{
    mot_sched_lock(s);
    for (int i = 0; i < n; i++) { held[i]->is_held = 0; }
    const struct workers idle = idle_workers(s, NULL);
    mot_sched_unlock(s);
    wake(&idle);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

void mot_sched_init_own(unsigned context, size_t bytes)
{
    struct mot_sched *s = mot_alloc_zeroed(1, sizeof(*s));
    s->own = bytes > 0 ? mot_alloc_zeroed(1, bytes) : NULL;
    s->context = context;
    STARPU_PTHREAD_MUTEX_INIT(&s->mutex, NULL);
    mot_ready_init(&s->ready);
    mot_sched_graph_init(s);
    mot_models_load(s);
    s->timer = mot_alloc_zeroed(1, sizeof(*s->timer));
    s->timer->at_us = INFINITY;
    STARPU_PTHREAD_COND_INIT(&s->timer->changed, NULL);
    starpu_sched_ctx_set_policy_data(context, s);
    starpu_sched_ctx_set_min_priority(context, INT_MIN);
    starpu_sched_ctx_set_max_priority(context, INT_MAX);
    STARPU_PTHREAD_CREATE(&s->timer->thread, NULL, timer_run, s);
}

void mot_sched_init(unsigned context)
{
    mot_sched_init_own(context, 0);
}

void mot_sched_deinit(unsigned context)
{
    struct mot_sched *s = mot_sched_of(context);
    STARPU_PTHREAD_MUTEX_LOCK(&s->mutex);
    s->timer->ends = 1;
    STARPU_PTHREAD_COND_SIGNAL(&s->timer->changed);
    STARPU_PTHREAD_MUTEX_UNLOCK(&s->mutex);
    starpu_pthread_join(s->timer->thread, NULL);
    MOT_ASSERT(atomic_load(&s->ready.n) == 0);
    STARPU_PTHREAD_COND_DESTROY(&s->timer->changed);
    free(s->timer);
    mot_sched_graph_free(s);
    mot_models_save(s);
    mot_models_free(s);
    mot_sched_cells_free(s);
    for (int k = 0; k < s->n_kinds; k++) { free(s->kind_name[k]); }
    mot_ready_free(&s->ready);
    free(s->own);
    STARPU_PTHREAD_MUTEX_DESTROY(&s->mutex);
    free(s);
}

void mot_sched_add_workers(unsigned context, int *workers, unsigned n)
{
    struct mot_sched *s = mot_sched_of(context);
    for (unsigned i = 0; i < n; i++) {
        starpu_sched_ctx_worker_shares_tasks_lists(workers[i], (int)context);
    }
    mot_sched_lock(s);
    for (unsigned i = 0; i < n; i++) { mot_sched_class_add(s, workers[i]); }
    mot_sched_unlock(s);
}

void mot_sched_remove_workers(unsigned context, int *workers, unsigned n)
{
    struct mot_sched *s = mot_sched_of(context);
    mot_sched_lock(s);
    for (unsigned i = 0; i < n; i++) { mot_sched_class_remove(s, workers[i]); }
    mot_sched_unlock(s);
}

/* ---- A task ---------------------------------------------------------------------------------- */

/* What is alike: the task's name where it has one (tasks of mot_task_insert() have), else the
 * codelet's or its model's.  Beyond MOT_SCHED_KINDS_MAX kinds share numbers. */
static int kind_of(struct mot_sched *s, const struct starpu_task *task)
{
    const char *name = task->name                                   ? task->name
                       : task->cl->name                             ? task->cl->name
                       : task->cl->model && task->cl->model->symbol ? task->cl->model->symbol
                                                                    : NULL;
    const uint64_t key =
        name ? mot_hash(MOT_HASH_START, name, strlen(name)) : (uint64_t)(uintptr_t)task->cl;
    for (int k = 0; k < s->n_kinds; k++) {
        if (s->kind_key[k] == key) { return k; }
    }
    if (s->n_kinds == MOT_SCHED_KINDS_MAX) { return (int)(key % MOT_SCHED_KINDS_MAX); }
    s->kind_key[s->n_kinds] = key;
    s->kind_name[s->n_kinds] = name ? mot_strdup(name) : NULL;
    return s->n_kinds++;
}

static void measure(struct mot_sched_task *t)
{
    const struct mot_hint *hint = mot_task_hint ? mot_task_hint(t->task) : NULL;
    for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(t->task); i++) {
        t->bytes += (double)starpu_data_get_size(STARPU_TASK_GET_HANDLE(t->task, i));
    }
    t->flop = t->task->flops;
    const double size = t->flop > 0.0 ? t->flop : t->bytes;
    t->size = size >= 1.0 ? (unsigned)ilogb(size) + 1 : 0;
    if (hint && hint->bytes > 0.0) { t->bytes = hint->bytes; }
}

static struct mot_sched_task *create(struct mot_sched *s, struct starpu_task *task)
{
    struct mot_sched_task *t = mot_alloc_zeroed(1, sizeof(*t));
    t->task = task;
    t->id = s->n_tasks++;
    t->kind = kind_of(s, task);
    measure(t);
    t->worker = t->ready.place = t->reserved = t->home = -1;
    t->references = 1;
    task->sched_data = t;
    mot_sched_guess(s, t);
    mot_sched_class_check(s, t);
    double sum = 0.0;
    int n = 0;
    for (int c = 0; c < s->n_classes; c++) {
        const struct mot_estimate e = mot_sched_estimate(s, t, c);
        if (!isfinite(e.mean_us) || s->class[c].workers == 0) { continue; }
        sum += e.mean_us;
        n++;
    }
    t->own_us = n ? sum / n : 0.0;
    mot_sched_graph_add(s, t);
    return t;
}

void mot_sched_submit(struct starpu_task *task)
{
    struct mot_sched *s = mot_sched_of(task->sched_ctx);
    task->sched_data = NULL;
    if (!task->cl || task->cl->where == STARPU_NOWHERE || task->where == STARPU_NOWHERE) { return; }
    mot_sched_lock(s);
    create(s, task);
    mot_sched_unlock(s);
}

/* Which workers can run it may depend on its data, so this is asked now. */
static struct mot_sched_task *make_ready(struct mot_sched *s, struct starpu_task *task)
{
    struct mot_sched_task *t = task->sched_data ? task->sched_data : create(s, task);
    memset(t->able, 0, sizeof(t->able));
    for (int w = 0; w < s->n_workers; w++) {
        unsigned mask;
        if (s->worker[w].is_used && starpu_worker_can_execute_task_impl((unsigned)w, task, &mask)) {
            t->able[w / 32] |= UINT32_C(1) << (w % 32);
        }
    }
    mot_sched_graph_ready(t);
    return t;
}

int mot_sched_push(struct starpu_task *task)
{
    struct mot_sched *s = mot_sched_of(task->sched_ctx);
    mot_sched_lock(s);
    struct mot_sched_task *t = make_ready(s, task);
    mot_ready_insert(&s->ready, t);
    const struct workers idle = idle_workers(s, t);
    starpu_push_task_end(task);
    mot_sched_unlock(s);
    wake(&idle);
    return 0;
}

static void run_at(struct mot_sched *s, struct mot_sched_task *t, int worker)
{
    struct mot_sched_task **at = &s->worker[worker].running;
    while (*at) { at = &(*at)->next_running; }
    const struct mot_estimate e = mot_sched_estimate(s, t, s->worker[worker].class);
    *at = t;
    t->worker = worker;
    t->taken_us = starpu_timing_now();
    t->start_us = 0.0;
    t->implementation = mot_sched_implementation(t, worker, s->worker[worker].class);
    t->slow = s->worker[worker].slow;
    t->expected_us = isfinite(e.p50_us) ? e.p50_us * t->slow : 0.0;
    t->wait_us = mot_sched_transfer_us(t, s->worker[worker].node, t->taken_us);
    struct mot_sched_cell *cell =
        t->guess[s->worker[worker].class * STARPU_MAXIMPLEMENTATIONS + t->implementation].cell;
    if (cell) { cell->outstanding++; }
}

struct starpu_task *mot_sched_take(struct mot_sched *s, struct mot_sched_task *t, int worker)
{
    mot_ready_remove(&s->ready, t);
    if (t->reserved >= 0) { s->worker[t->reserved].next = NULL; }
    run_at(s, t, worker);
    starpu_task_set_implementation(t->task, (unsigned)t->implementation);
    return t->task;
}

/* Takes it off its worker. */
static void leave(struct mot_sched *s, struct mot_sched_task *t)
{
    struct mot_sched_task **at = &s->worker[t->worker].running;
    while (*at && *at != t) { at = &(*at)->next_running; }
    if (*at) { *at = t->next_running; }
    t->next_running = NULL;
    struct mot_sched_cell *cell =
        t->guess[s->worker[t->worker].class * STARPU_MAXIMPLEMENTATIONS + t->implementation].cell;
    if (cell && cell->outstanding > 0) { cell->outstanding--; }
}

void mot_sched_push_notify(struct starpu_task *task, int worker, int perf_worker, unsigned context)
{
    (void)perf_worker;
    struct mot_sched *s = mot_sched_of(context);
    mot_sched_lock(s);
    run_at(s, make_ready(s, task), worker);
    mot_sched_unlock(s);
}

void mot_sched_pre_exec(struct starpu_task *task, unsigned context)
{
    struct mot_sched *s = mot_sched_of(context);
    mot_sched_lock(s);
    struct mot_sched_task *t = task->sched_data;
    if (t && t->worker >= 0) {
        struct mot_sched_worker *worker = &s->worker[t->worker];
        t->start_us = starpu_timing_now();
        if (worker->running == t) { /* it waited for nothing else */
            worker->lead_us += 0.25 * (t->wait_us - worker->lead_us);
        }
    }
    mot_sched_unlock(s);
}

void mot_sched_post_exec(struct starpu_task *task, unsigned context)
{
    struct mot_sched *s = mot_sched_of(context);
    const double now = starpu_timing_now();
    mot_sched_lock(s);
    struct mot_sched_task *t = task->sched_data;
    if (t) {
        if (t->worker >= 0) { leave(s, t); }
        if (s->ended && t->worker >= 0 && t->start_us > 0.0) { s->ended(s, t, now - t->start_us); }
        if (t->start_us > 0.0) { mot_sched_learn(s, t, now - t->start_us); }
        task->sched_data = NULL;
        mot_sched_graph_end(s, t);
    }
    const int some = atomic_load(&s->ready.n) > 0;
    const struct workers idle = idle_workers(s, NULL);
    mot_sched_unlock(s);
    if (some) { wake(&idle); }
}

/* ---- For pop --------------------------------------------------------------------------------- */

int mot_sched_wants(struct mot_sched *s, int worker, double now_us)
{
    struct mot_sched_worker *me = &s->worker[worker];
    /* StarPU's own copy tasks tell no end, but a processor that asks has ended what it ran. */
    while (me->running && starpu_worker_get_type(worker) == STARPU_CPU_WORKER
           && me->running->start_us > 0.0) {
        struct mot_sched_task *t = me->running;
        leave(s, t);
        t->worker = -1;
    }
    if (!me->running) { return 1; }
    double left = 0.0;
    for (const struct mot_sched_task *t = me->running; t; t = t->next_running) {
        left += mot_sched_left_us(t, now_us);
    }
    if (me->running->start_us > 0.0 && left <= me->lead_us) { return 1; }
    if (me->lead_us > 0.0) { mot_sched_look_again(s, now_us + fmax(left - me->lead_us, 1.0)); }
    return 0;
}

struct starpu_task *mot_sched_pop(unsigned context,
                                  struct mot_sched_task *(*choose)(struct mot_sched *s, int asking,
                                                                   double now_us))
{
    struct mot_sched *s = mot_sched_of(context);
    if (atomic_load(&s->ready.n) == 0) { return NULL; }
    const int worker = starpu_worker_get_id_check();
    struct starpu_task *task = NULL;
    mot_sched_lock(s);
    const double now = starpu_timing_now();
    if (mot_sched_wants(s, worker, now)) {
        mot_sched_graph_update(s);
        struct mot_sched_task *t = choose(s, worker, now);
        if (t) { task = mot_sched_take(s, t, worker); }
    }
    mot_sched_unlock(s);
    return task;
}

void mot_sched_available(const struct mot_sched *s, double now_us, double *available_us)
{
    for (int w = 0; w < s->n_workers; w++) {
        available_us[w] = now_us;
        for (const struct mot_sched_task *t = s->worker[w].running; t; t = t->next_running) {
            available_us[w] += mot_sched_left_us(t, now_us);
        }
    }
}
