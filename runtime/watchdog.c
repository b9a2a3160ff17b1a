/* The watchdog: when tasks are pending and none has finished for the given time, it says which ones
 * run, where and since when, and ends the program.  A StarPU program that lost a wake-up, waits for
 * a datum that never comes or sits in an endless kernel would otherwise hang in silence. */
#include "task.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all but pending and progress */
static pthread_cond_t stop_condition;
static pthread_t thread;
static int limit_s, stopping; /* limit_s 0: no thread */
static const char *(*name_stage)(int stage);
static struct mot_task_state *running[STARPU_NMAXWORKERS]; /* the last task each worker took */

static atomic_long pending;      /* tasks submitted and not finished */
static atomic_llong progress_ms; /* when a task last finished, monotonic clock */

static long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void mot_watchdog_touch(void)
{
    atomic_store(&progress_ms, now_ms());
}

void mot_watchdog_submitted(int tasks)
{
    /* The time without any task does not count. */
    if (atomic_fetch_add(&pending, tasks) == 0) { mot_watchdog_touch(); }
}

static void forget(struct mot_task_state *state)
{
    if (state->worker >= 0 && running[state->worker] == state) { running[state->worker] = NULL; }
}

void mot_watchdog_taken(struct mot_task_state *state, int worker)
{
    pthread_mutex_lock(&mutex);
    forget(state); /* a task that was handed back */
    state->worker = worker;
    state->start_us = starpu_timing_now();
    if (worker >= 0) { running[worker] = state; }
    pthread_mutex_unlock(&mutex);
}

void mot_watchdog_finished(struct mot_task_state *state)
{
    pthread_mutex_lock(&mutex);
    forget(state);
    pthread_mutex_unlock(&mutex);
    mot_watchdog_touch();
    atomic_fetch_sub(&pending, 1);
}

/* One line per running task, one for the rest; then the end. */
static void bark(long tasks) __attribute__((noreturn));
static void bark(long tasks)
{
    int found = 0;
    for (unsigned w = 0; w < STARPU_NMAXWORKERS; w++) {
        const struct mot_task_state *s = running[w];
        if (!s) { continue; }
        char worker[64], stage[32];
        starpu_worker_get_name((int)w, worker, sizeof(worker));
        snprintf(stage, sizeof(stage), "%d", s->hint.stage);
        mot_warn("%s runs since %.0f s on %s: stage %s, step %d, group %d", s->name,
                 (starpu_timing_now() - s->start_us) * 1e-6, worker,
                 name_stage ? name_stage(s->hint.stage) : stage, s->hint.step, s->hint.group);
        found++;
    }
    mot_fail(ETIMEDOUT, "watchdog: no task finished for %d s; %d running, %ld waiting; stopped",
             limit_s, found, tasks > found ? tasks - found : 0);
    mot_trace_flush();
    fflush(NULL);
    _exit(1); /* exit() would wait for workers that do not answer */
}

static void *watch(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mutex);
    while (!stopping) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_sec += 1;
        pthread_cond_timedwait(&stop_condition, &mutex, &t);
        const long tasks = atomic_load(&pending);
        const long long since_ms = now_ms() - atomic_load(&progress_ms);
        if (!stopping && tasks > 0 && since_ms >= 1000LL * limit_s) { bark(tasks); }
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

void mot_watchdog_start(int limit, const char *(*stage_name)(int stage))
{
    name_stage = stage_name;
    limit_s = limit;
    stopping = 0;
    if (limit_s <= 0) { return; }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&stop_condition, &attributes);
    pthread_condattr_destroy(&attributes);
    mot_watchdog_touch();
    MOT_ASSERT(pthread_create(&thread, NULL, watch, NULL) == 0);
}

void mot_watchdog_stop(void)
{
    if (limit_s <= 0) { return; }
    pthread_mutex_lock(&mutex);
    stopping = 1;
    pthread_cond_signal(&stop_condition);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    pthread_cond_destroy(&stop_condition);
    limit_s = 0;
}
