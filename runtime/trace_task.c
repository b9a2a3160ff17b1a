/* Recording tasks.  See trace.h.
 *
 * A scheduling policy is the one place that StarPU tells of every task of any program: when it is
 * submitted, ready, taken, begins and has ended.  So the policy that StarPU is given is a copy of
 * the chosen one with hooks of ours round its own.  Tasks of mot_task_insert() carry what is kept
 * of them; for others a table finds it.
 *
 * A datum's version counts its writers.  It is read and counted when a task becomes ready: then its
 * writer has ended and the next one has not begun, so that an access names exactly the content it
 * works on, and the graph can be rebuilt whatever the order of the records.
 *
 * StarPU calls the end hook when a task terminates.  That is not the end of its body where
 * something else has to end first (starpu_task_end_dep_add; then any thread may call it), and its
 * own copy tasks have no such call: a CPU worker's body has ended at the latest when the worker
 * asks for work again. */
#include "trace.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Data ----------------------------------------------------------------------------------- */

/* What a handle's scheduling data points at while a recording knows it. */
struct datum {
    uint32_t number;
    atomic_uint session; /* set last, so that who finds it set finds the rest too */
    atomic_uint version;
    size_t bytes;
    struct datum *next;
};
static pthread_mutex_t data_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards data, n_data, first use */
static struct datum *data;
static uint32_t n_data;

static void tell_datum(uint32_t number, size_t bytes, const char *name)
{
    struct mot_trace_data_message m = {
        .header = {MOT_TRACE_DATA, mot_trace_slots(sizeof(m)), starpu_timing_now()},
        .bytes = bytes,
        .data = number};
    strncpy(m.name, name, sizeof(m.name) - 1);
    struct mot_trace_ring *ring = mot_trace_ring_reserve(m.header.slots);
    mot_trace_ring_put(ring, 0, &m, sizeof(m));
    mot_trace_ring_commit(ring, m.header.slots);
}

/* name: what the writer is told it is called when it is seen for the first time. */
static struct datum *datum_of(starpu_data_handle_t handle, const char *name, int *was_new)
{
    struct datum *d = starpu_data_get_sched_data(handle);
    const uint32_t session = mot_trace_session();
    if (was_new) { *was_new = 0; }
    if (d && atomic_load_explicit(&d->session, memory_order_acquire) == session) { return d; }
    pthread_mutex_lock(&data_mutex);
    d = starpu_data_get_sched_data(handle);
    const int is_new = !d || atomic_load(&d->session) != session;
    if (is_new) {
        d = mot_alloc_zeroed(1, sizeof(*d));
        d->number = ++n_data;
        d->bytes = starpu_data_get_size(handle);
        d->next = data;
        data = d;
        atomic_store_explicit(&d->session, session, memory_order_release);
        starpu_data_set_sched_data(handle, d);
    }
    pthread_mutex_unlock(&data_mutex);
    if (is_new) { tell_datum(d->number, d->bytes, name); }
    if (was_new) { *was_new = is_new; }
    return d;
}

uint32_t mot_trace_data_number(starpu_data_handle_t handle)
{
    return datum_of(handle, "", NULL)->number;
}

void mot_data_name(starpu_data_handle_t handle, const char *format, ...)
{
    if (!mot_trace_on()) { return; }
    char name[MOT_TRACE_NAME_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof(name), format, arguments);
    va_end(arguments);
    int told = 0;
    const struct datum *d = datum_of(handle, name, &told);
    if (!told) { tell_datum(d->number, d->bytes, name); }
}

static void note_access(struct mot_trace_access_message *a, starpu_data_handle_t handle,
                        enum starpu_data_access_mode mode)
{
    struct datum *d = datum_of(handle, "", NULL);
    enum mot_trace_mode kind = MOT_TRACE_R;
    if (mode & STARPU_REDUX) {
        kind = MOT_TRACE_REDUX;
    } else if (mode & STARPU_COMMUTE) {
        kind = MOT_TRACE_COMMUTE;
    } else if ((mode & STARPU_RW) == STARPU_RW) {
        kind = MOT_TRACE_RW;
    } else if (mode & STARPU_W) {
        kind = MOT_TRACE_W;
    }
    const int makes = kind != MOT_TRACE_R && kind != MOT_TRACE_REDUX;
    a->data = d->number;
    a->version = makes ? atomic_fetch_add(&d->version, 1) + 1 : atomic_load(&d->version);
    a->mode_bytes = (uint64_t)kind << 56 | (d->bytes & MOT_TRACE_BYTES_MASK);
}

static void note_accesses(struct mot_trace_task *t, struct starpu_task *task)
{
    enum { ACCESSES_MAX = MOT_TRACE_RING_BYTES / 4 / sizeof(struct mot_trace_access_message) };
    const unsigned n = STARPU_TASK_GET_NBUFFERS(task);
    t->n_accesses = 0;
    for (unsigned i = 0; i < n && i < ACCESSES_MAX; i++) {
        const enum starpu_data_access_mode mode = STARPU_TASK_GET_MODE(task, i);
        if (!(mode & (STARPU_RW | STARPU_REDUX))) { continue; }
        note_access(&t->accesses[t->n_accesses++], STARPU_TASK_GET_HANDLE(task, i), mode);
    }
}

/* ---- The life of a task --------------------------------------------------------------------- */

static struct mot_trace_task *(*own_of)(const struct starpu_task *task);
static atomic_uint n_tasks;
static atomic_int n_waiting, n_ready; /* submitted and not ready; ready and not started */

void mot_trace_submitted(struct mot_trace_task *t)
{
    struct mot_trace_task *parent = own_of ? own_of(starpu_task_get_current()) : NULL;
    t->by = parent ? parent->number : 0;
    t->submit_us = starpu_timing_now();
    atomic_fetch_add_explicit(&n_waiting, 1, memory_order_relaxed);
    t->number = atomic_fetch_add(&n_tasks, 1) + 1;
}

void mot_trace_refused(struct mot_trace_task *t)
{
    if (t->number == 0) { return; }
    t->number = 0;
    atomic_fetch_sub_explicit(&n_waiting, 1, memory_order_relaxed);
}

/* n_waiting and n_ready without the moments in which a task is counted in neither or both. */
static int at_least_0(int n)
{
    return n > 0 ? n : 0;
}

/* The message of a task that ran on this worker until end_us. */
static void tell_task(const struct mot_trace_task *t, int worker, double end_us)
{
    const size_t name_bytes = t->hint ? 0 : strlen(t->name); /* others' names may go */
    const size_t accesses_bytes = (size_t)t->n_accesses * sizeof(t->accesses[0]);
    struct mot_trace_task_message m = {
        .header = {MOT_TRACE_TASK, mot_trace_slots(sizeof(m) + name_bytes + accesses_bytes),
                   end_us},
        .number = t->number,
        .by = t->by,
        .name = t->name,
        .submit_us = t->submit_us,
        .ready_us = t->ready_us,
        .popped_us = t->popped_us,
        .start_us = t->start_us,
        .worker = worker,
        .waiting = at_least_0(atomic_load_explicit(&n_waiting, memory_order_relaxed)),
        .ready = at_least_0(atomic_load_explicit(&n_ready, memory_order_relaxed)),
        .n_accesses = (uint32_t)t->n_accesses,
        .name_bytes = (uint32_t)name_bytes,
        .used_bytes = starpu_memory_get_used(starpu_worker_get_memory_node((unsigned)worker)),
    };
    if (t->hint) {
        m.has_hint = 1;
        m.stage = t->hint->stage;
        m.step = t->hint->step;
        m.group = t->hint->group;
        m.version = t->hint->version;
        m.rows = t->hint->rows;
        m.tokens = t->hint->tokens;
        m.flop = t->hint->flop;
        m.bytes = t->hint->bytes;
    }
    struct mot_trace_ring *ring = mot_trace_ring_reserve(m.header.slots);
    mot_trace_ring_put(ring, 0, &m, sizeof(m));
    if (name_bytes > 0) { mot_trace_ring_put(ring, sizeof(m), t->name, name_bytes); }
    if (accesses_bytes > 0) {
        mot_trace_ring_put(ring, sizeof(m) + name_bytes, t->accesses, accesses_bytes);
    }
    mot_trace_ring_commit(ring, m.header.slots);
    mot_trace_pulse();
}

/* ---- Tasks of others ------------------------------------------------------------------------ */

enum { BUCKETS = 1 << 14, LOCKS = 64 };
struct foreign {
    struct mot_trace_task t; /* first: it is freed by this address */
    struct foreign *next;
    char name[48];
};
static struct foreign *buckets[BUCKETS];
static pthread_mutex_t locks[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};

static size_t bucket_of(const struct starpu_task *task)
{
    return (size_t)(((uintptr_t)task >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 50);
}

static struct foreign **place_of(const struct starpu_task *task, size_t bucket)
{
    struct foreign **f = &buckets[bucket];
    while (*f && (*f)->t.task != task) { f = &(*f)->next; }
    return f;
}

static struct foreign *foreign_of(const struct starpu_task *task)
{
    const size_t bucket = bucket_of(task);
    pthread_mutex_lock(&locks[bucket % LOCKS]);
    struct foreign *f = *place_of(task, bucket);
    pthread_mutex_unlock(&locks[bucket % LOCKS]);
    return f;
}

/* Takes it out of the table; NULL when it is not in it. */
static struct foreign *foreign_take(const struct starpu_task *task)
{
    const size_t bucket = bucket_of(task);
    pthread_mutex_lock(&locks[bucket % LOCKS]);
    struct foreign **place = place_of(task, bucket), *f = *place;
    if (f) { *place = f->next; }
    pthread_mutex_unlock(&locks[bucket % LOCKS]);
    return f;
}

static struct foreign *foreign_add(struct starpu_task *task)
{
    const size_t n = STARPU_TASK_GET_NBUFFERS(task);
    struct foreign *f = mot_alloc_zeroed(1, sizeof(*f) + n * sizeof(f->t.accesses[0]));
    const char *name = starpu_task_get_name(task);
    strncpy(f->name, name ? name : "unnamed", sizeof(f->name) - 1);
    f->t.name = f->name;
    f->t.accesses = (void *)(f + 1);
    f->t.task = task;
    mot_trace_submitted(&f->t);
    const size_t bucket = bucket_of(task);
    pthread_mutex_lock(&locks[bucket % LOCKS]);
    f->next = buckets[bucket];
    buckets[bucket] = f;
    pthread_mutex_unlock(&locks[bucket % LOCKS]);
    return f;
}

/* ---- Round the policy ----------------------------------------------------------------------- */

static struct starpu_sched_policy inner, wrapped;
/* By worker, the task that has begun there and not told its end. */
static struct running {
    pthread_mutex_t mutex; /* held while it is told, after which it may be freed */
    struct mot_trace_task *_Atomic t;
} running[STARPU_NMAXWORKERS] = {
    [0 ... STARPU_NMAXWORKERS - 1] = {.mutex = PTHREAD_MUTEX_INITIALIZER}};

/* Tells the end of what runs there, if it is this task (NULL: any) and anything does; 1 when it
 * did.  end_us 0: now. */
static int tell_end(int worker, const struct starpu_task *task, double end_us)
{
    struct running *r = &running[worker];
    if (!atomic_load_explicit(&r->t, memory_order_acquire)) { return 0; } /* what was told may go */
    pthread_mutex_lock(&r->mutex);
    struct mot_trace_task *t = atomic_load(&r->t);
    const int is_it = t && (!task || t->task == task);
    if (is_it) {
        tell_task(t, worker, end_us > 0.0 ? end_us : starpu_timing_now());
        void *others = t->hint ? NULL : t; /* ours goes with its state, from the next line on */
        atomic_store(&r->t, NULL);
        free(others);
    }
    pthread_mutex_unlock(&r->mutex);
    return is_it;
}

static struct mot_trace_task *own_task(const struct starpu_task *task)
{
    return own_of ? own_of(task) : NULL;
}

static void note_ready(struct starpu_task *task)
{
    if (!mot_trace_on()) { return; }
    struct mot_trace_task *t = own_task(task);
    if (!t) {
        struct foreign *f = foreign_of(task);
        t = f ? &f->t : &foreign_add(task)->t;
    }
    if (t->number == 0 || t->ready_us > 0.0) { return; } /* pushed again, perhaps */
    note_accesses(t, task);
    atomic_fetch_sub_explicit(&n_waiting, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&n_ready, 1, memory_order_relaxed);
    t->ready_us = starpu_timing_now();
}

/* Tasks without a codelet never come to a policy. */
static void at_submit(struct starpu_task *task)
{
    if (mot_trace_on() && task->cl && task->where != STARPU_NOWHERE && !own_task(task)) {
        foreign_add(task);
    }
    if (inner.submit_hook) { inner.submit_hook(task); }
}

static int at_push(struct starpu_task *task)
{
    note_ready(task);
    return inner.push_task(task);
}

static void at_push_notify(struct starpu_task *task, int worker, int perf_worker, unsigned context)
{
    note_ready(task);
    if (inner.push_task_notify) { inner.push_task_notify(task, worker, perf_worker, context); }
}

static struct starpu_task *at_pop(unsigned context)
{
    const int worker = starpu_worker_get_id();
    if (worker >= 0 && starpu_worker_get_type(worker) == STARPU_CPU_WORKER) {
        tell_end(worker, NULL, 0.0);
    }
    struct starpu_task *task = inner.pop_task(context);
    if (task && mot_trace_on() && !own_task(task)) {
        struct foreign *f = foreign_of(task);
        if (f) { f->t.popped_us = starpu_timing_now(); }
    }
    return task;
}

static void at_start(struct starpu_task *task, unsigned context)
{
    if (inner.pre_exec_hook) { inner.pre_exec_hook(task, context); }
    if (!mot_trace_on()) { return; }
    const int worker = starpu_worker_get_id_check();
    tell_end(worker, NULL, 0.0);
    struct mot_trace_task *t = own_task(task);
    if (!t) {
        struct foreign *f = foreign_take(task);
        t = f ? &f->t : NULL;
    }
    if (!t || t->number == 0) { return; }
    atomic_fetch_sub_explicit(&n_ready, 1, memory_order_relaxed);
    t->start_us = starpu_timing_now();
    if (t->popped_us <= 0.0) { t->popped_us = t->start_us; } /* given to the worker, not taken */
    t->task = task;
    atomic_store_explicit(&running[worker].t, t, memory_order_release);
}

static void at_end(struct starpu_task *task, unsigned context)
{
    if (mot_trace_on()) {
        const double end_us = starpu_timing_now();
        const int worker = starpu_worker_get_id(), n = (int)starpu_worker_get_count();
        int told = worker >= 0 && tell_end(worker, task, end_us);
        for (int w = 0; w < n && !told; w++) { told = tell_end(w, task, end_us); }
    }
    if (inner.post_exec_hook) { inner.post_exec_hook(task, context); }
}

struct starpu_sched_policy *
mot_trace_policy(const struct starpu_sched_policy *policy,
                 struct mot_trace_task *(*own)(const struct starpu_task *task))
{
    inner = wrapped = *policy;
    own_of = own;
    wrapped.submit_hook = at_submit;
    wrapped.push_task = at_push;
    wrapped.push_task_notify = at_push_notify;
    if (inner.pop_task) { wrapped.pop_task = at_pop; }
    wrapped.pre_exec_hook = at_start;
    wrapped.post_exec_hook = at_end;
    return &wrapped;
}

uint32_t mot_trace_task_number(const struct starpu_task *task)
{
    const struct mot_trace_task *t = own_task(task);
    if (t) { return t->number; }
    const struct foreign *f = foreign_of(task);
    return f ? f->t.number : 0;
}

void mot_trace_tasks_reset(void)
{
    for (int w = 0; w < STARPU_NMAXWORKERS; w++) { tell_end(w, NULL, 0.0); }
    for (size_t b = 0; b < BUCKETS; b++) {
        while (buckets[b]) {
            struct foreign *f = buckets[b];
            buckets[b] = f->next;
            free(f);
        }
    }
    atomic_store(&n_tasks, 0);
    atomic_store(&n_waiting, 0);
    atomic_store(&n_ready, 0);
    n_data = 0;
}

void mot_trace_data_free(void)
{
    for (struct datum *d = data, *next; d; d = next) {
        next = d->next;
        free(d);
    }
    data = NULL;
}
