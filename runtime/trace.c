/* The recorder: opening, the writer's thread, closing; values and decisions.  See trace.h.
 *
 * The writer's thread takes messages out of the rings every few hundredths of a second, in the
 * order of their times, and leaves the newest for its next round: by then a consumer's message has
 * its producer's before it.  Under SimGrid a thread that sleeps would stop the simulation, so rings
 * are emptied where they are filled. */
#include "trace.h"
#include "trace_write.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUND_MS = 20, FLUSH_LIMIT_MS = 2000, PULSE_MS = 500, ROOM_WAIT_NS = 50 * 1000 };
#if defined(STARPU_SIMGRID)
enum { SIMULATED = 1 };
#else
enum { SIMULATED = 0 };
#endif

atomic_int mot_trace_on_flag;
static atomic_uint session;
static const char *(*name_stage)(int stage);

static struct mot_trace_writer *writer; /* the writer's thread's; SIMULATED: anybody's */
static pthread_t thread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed;
static int stopping;
static unsigned flushes_wanted, flushes_done;
static struct mot_trace_stats stats;

static long long clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint32_t mot_trace_session(void)
{
    return atomic_load_explicit(&session, memory_order_relaxed);
}

void mot_trace_name_stages(const char *(*stage_name)(int stage))
{
    name_stage = stage_name;
}

/* Writes the messages of all rings up to that time, by time. */
static void drain(double until_us)
{
    for (;;) {
        struct mot_trace_ring *first = NULL;
        double first_us = INFINITY;
        for (struct mot_trace_ring *r = mot_trace_rings(); r; r = r->next) {
            const struct mot_trace_header *m = mot_trace_ring_next(r);
            if (m && m->time_us <= until_us && m->time_us < first_us) {
                first = r;
                first_us = m->time_us;
            }
        }
        if (!first) { return; }
        mot_trace_writer_message(writer, first);
        mot_trace_ring_drop(first);
    }
}

/* ---- The writer's thread -------------------------------------------------------------------- */

static void timed_wait(int ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&changed, &mutex, &t);
}

static void *write_rounds(void *unused)
{
    (void)unused;
    const long long begin_ns = clock_ns(CLOCK_MONOTONIC);
    double last_us = 0.0;
    pthread_mutex_lock(&mutex);
    while (!stopping) {
        const unsigned flushes = flushes_wanted;
        const int all = flushes != flushes_done;
        pthread_mutex_unlock(&mutex);
        const double now_us = starpu_timing_now();
        const int is_full = mot_trace_rings_fullest() > MOT_TRACE_RING_BYTES / 4;
        drain(all || is_full ? now_us : last_us);
        last_us = now_us;
        mot_trace_writer_round(writer, all);
        pthread_mutex_lock(&mutex);
        if (all) {
            flushes_done = flushes;
            pthread_cond_broadcast(&changed);
        } else if (!stopping && !is_full) {
            timed_wait(ROUND_MS);
        }
    }
    pthread_mutex_unlock(&mutex);
    drain(INFINITY);
    stats.writer_cpu_s = (double)clock_ns(CLOCK_THREAD_CPUTIME_ID) * 1e-9;
    stats.seconds = (double)(clock_ns(CLOCK_MONOTONIC) - begin_ns) * 1e-9;
    return NULL;
}

static void make_room(void)
{
    if (SIMULATED) {
        drain(INFINITY);
    } else {
        nanosleep(&(struct timespec){.tv_nsec = ROOM_WAIT_NS}, NULL);
    }
}

void mot_trace_pulse(void)
{
    static long long last_ns;
    static int calls;
    if (!SIMULATED || ++calls % 64 != 0) { return; }
    const long long now_ns = clock_ns(CLOCK_MONOTONIC);
    if (now_ns - last_ns < PULSE_MS * 1000000LL) { return; }
    last_ns = now_ns;
    drain(INFINITY);
    mot_trace_writer_round(writer, 1);
}

void mot_trace_flush(void)
{
    if (!mot_trace_on()) { return; }
    if (SIMULATED) {
        drain(INFINITY);
        mot_trace_writer_round(writer, 1);
        return;
    }
    pthread_mutex_lock(&mutex);
    const unsigned flush = ++flushes_wanted;
    pthread_cond_broadcast(&changed);
    const long long begin_ns = clock_ns(CLOCK_MONOTONIC);
    while ((int)(flushes_done - flush) < 0
           && clock_ns(CLOCK_MONOTONIC) - begin_ns < FLUSH_LIMIT_MS * 1000000LL) {
        timed_wait(ROUND_MS);
    }
    pthread_mutex_unlock(&mutex);
}

static void start_thread(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    pthread_condattr_destroy(&attributes);
    stopping = 0;
    flushes_wanted = flushes_done = 0;
    MOT_ASSERT(pthread_create(&thread, NULL, write_rounds, NULL) == 0);
}

static void stop_thread(void)
{
    pthread_mutex_lock(&mutex);
    stopping = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    pthread_cond_destroy(&changed);
}

/* ---- Open and close ------------------------------------------------------------------------- */

int mot_trace_open(const char *path)
{
    MOT_ASSERT(!mot_trace_on());
    const int error = mot_trace_writer_open(path, name_stage, &writer);
    if (error) { return error; }
    stats = (struct mot_trace_stats){0};
    mot_trace_make_room = make_room;
    for (struct mot_trace_ring *r = mot_trace_rings(); r; r = r->next) {
        atomic_store(&r->waits, 0);
        atomic_store(&r->waited_us, 0.0);
    }
    atomic_fetch_add(&session, 1);
    if (!SIMULATED) { start_thread(); }
    atomic_store(&mot_trace_on_flag, 1);
    return 0;
}

int mot_trace_close(void)
{
    if (!mot_trace_on()) { return 0; }
    mot_trace_tasks_reset(); /* tells the last ends */
    atomic_store(&mot_trace_on_flag, 0);
    if (SIMULATED) {
        drain(INFINITY);
    } else {
        stop_thread();
    }
    for (struct mot_trace_ring *r = mot_trace_rings(); r; r = r->next) {
        stats.waits += atomic_load(&r->waits);
        stats.waited_us += atomic_load(&r->waited_us);
    }
    const int error = mot_trace_writer_close(writer, &stats);
    writer = NULL;
    return error;
}

int mot_trace_is_on(void)
{
    return mot_trace_on();
}

struct mot_trace_stats mot_trace_last_stats(void)
{
    return stats;
}

/* ---- Values and decisions ------------------------------------------------------------------- */

void mot_trace_value(const char *name, double value)
{
    if (!mot_trace_on()) { return; }
    const struct mot_trace_value_message m = {
        .header = {MOT_TRACE_VALUE, mot_trace_slots(sizeof(m)), starpu_timing_now()},
        .name = name,
        .value = value};
    struct mot_trace_ring *ring = mot_trace_ring_reserve(m.header.slots);
    mot_trace_ring_put(ring, 0, &m, sizeof(m));
    mot_trace_ring_commit(ring, m.header.slots);
}

void mot_trace_decision(const struct starpu_task *task,
                        const struct mot_trace_candidate *candidates, int n, int worker,
                        const char *veto)
{
    if (!mot_trace_on()) { return; }
    MOT_ASSERT(n >= 0 && n <= STARPU_NMAXWORKERS);
    const size_t bytes = (size_t)n * sizeof(*candidates);
    const struct mot_trace_decision_message m = {
        .header = {MOT_TRACE_DECISION, mot_trace_slots(sizeof(m) + bytes), starpu_timing_now()},
        .veto = veto,
        .task = task ? mot_trace_task_number(task) : 0,
        .worker = worker,
        .n_candidates = n};
    struct mot_trace_ring *ring = mot_trace_ring_reserve(m.header.slots);
    mot_trace_ring_put(ring, 0, &m, sizeof(m));
    if (n > 0) { mot_trace_ring_put(ring, sizeof(m), candidates, bytes); }
    mot_trace_ring_commit(ring, m.header.slots);
}
