/* Pool of external programs behind one poll thread.  See process_pool.h.
 *
 * A slot holds one program and at most one request.  The thread owns the slots; other threads only
 * append to the queue, under the mutex, and wake it by an eventfd.  Callbacks run without the
 * mutex.
 *
 * A program may end after any answer (a script that handles one line): it is started again when the
 * next request comes.  When a request was given to a program that had answered before and then
 * ended without a byte, the request is tried once more on a fresh one, as it may have met the end
 * of the old.  Programs that end without ever answering, so many in a row, are not started again:
 * the command is wrong, and each request then fails at once. */
#include "process_pool.h"
#include "error.h"
#include "subprocess.h"
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    REPLY_BYTES_MAX = 1 << 20,
    DEATHS_MAX = 20 /* in a row, and one more per slot */
};
#define GRACE_S 0.2 /* at the end, for programs to end by themselves */

struct request {
    struct request *next;
    char *line; /* with its newline */
    size_t bytes;
    int is_second_try;
    mot_pool_finished finished;
    void *context;
};

struct slot {
    struct mot_subprocess process;
    int answers;             /* of this process */
    struct request *request; /* NULL: free */
    size_t written;
    double deadline_s;
    char *reply;
    size_t n_reply, capacity;
};

struct mot_pool {
    char *command;
    int n_slots;
    double time_limit_s;
    pthread_t thread;
    int wake_fd;
    struct slot *slots;
    int deaths_in_a_row, given_up; /* the thread's */
    pthread_mutex_t mutex;         /* guards what follows */
    struct request *first, **last; /* waiting */
    struct mot_pool_counts counts;
    int closing;
};

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void count(struct mot_pool *pool, int64_t *counter)
{
    pthread_mutex_lock(&pool->mutex);
    ++*counter;
    pthread_mutex_unlock(&pool->mutex);
}

static void finish(struct request *request, int status, const char *reply)
{
    request->finished(request->context, status, reply);
    free(request->line);
    free(request);
}

/* The slot's request ended; the slot is free. */
static void finish_slot(struct mot_pool *pool, struct slot *slot, int status, const char *reply)
{
    struct request *request = slot->request;
    slot->request = NULL;
    if (status == -ETIMEDOUT) { count(pool, &pool->counts.timeouts); }
    if (status == -EPIPE) { count(pool, &pool->counts.deaths); }
    if (status == -EMSGSIZE) { count(pool, &pool->counts.overlong); }
    finish(request, status, reply);
}

static void start(struct mot_pool *pool, struct slot *slot)
{
    slot->answers = 0;
    slot->n_reply = 0;
    if (mot_subprocess_start(pool->command, &slot->process) == 0) {
        count(pool, &pool->counts.starts);
    } else {
        pool->given_up = 1;
    }
}

static void begin_request(const struct mot_pool *pool, struct slot *slot)
{
    slot->written = 0;
    slot->n_reply = 0;
    slot->deadline_s = now_s() + pool->time_limit_s;
}

/* Says why a program is not started again. */
static void give_up(struct mot_pool *pool, int status)
{
    pool->given_up = 1;
    char how[64] = "closed its output";
    if (WIFEXITED(status)) {
        snprintf(how, sizeof(how), "exit status %d", WEXITSTATUS(status));
    } else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
        snprintf(how, sizeof(how), "signal %d", WTERMSIG(status));
    }
    mot_warn("the program '%s' ended %d times in a row without an answer (%s); it is not started "
             "again",
             pool->command, pool->deaths_in_a_row, how);
}

/* The program closed its output: its last line without newline counts, else the request failed. */
static void ended(struct mot_pool *pool, struct slot *slot)
{
    const int answered = slot->request && slot->n_reply > 0;
    if (answered) {
        slot->reply[slot->n_reply] = 0;
        slot->answers++;
        pool->deaths_in_a_row = 0;
        finish_slot(pool, slot, 0, slot->reply);
    }
    const int may_retry = slot->request && slot->answers > 0 && !slot->request->is_second_try;
    const int never_answered = slot->answers == 0;
    const int status = mot_subprocess_stop(&slot->process, 0);
    if (never_answered && ++pool->deaths_in_a_row >= DEATHS_MAX + pool->n_slots
        && !pool->given_up) {
        give_up(pool, status);
    }
    if (may_retry) { start(pool, slot); }
    if (slot->process.pid) {
        slot->request->is_second_try = 1;
        begin_request(pool, slot);
    } else if (slot->request) {
        finish_slot(pool, slot, -EPIPE, NULL);
    }
}

/* A whole line is there, up to `newline`.  What follows it nobody asked for: answers and requests
 * would no longer match, so the program is stopped. */
static void answered(struct mot_pool *pool, struct slot *slot, char *newline)
{
    const int more = newline + 1 < slot->reply + slot->n_reply;
    *newline = 0;
    if (newline > slot->reply && newline[-1] == '\r') { newline[-1] = 0; }
    slot->answers++;
    slot->n_reply = 0;
    pool->deaths_in_a_row = 0;
    if (more) { mot_subprocess_stop(&slot->process, 0); }
    finish_slot(pool, slot, 0, slot->reply);
}

static void receive(struct mot_pool *pool, struct slot *slot)
{
    if (slot->capacity - slot->n_reply < 4096) {
        slot->capacity += slot->capacity / 2 + 8192;
        slot->reply = mot_realloc(slot->reply, slot->capacity + 1);
    }
    char *from = slot->reply + slot->n_reply;
    const ssize_t got = read(slot->process.out, from, slot->capacity - slot->n_reply);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) { return; }
    if (got <= 0) {
        ended(pool, slot);
        return;
    }
    if (!slot->request) { /* words that nobody asked for: see answered() */
        mot_subprocess_stop(&slot->process, 0);
        return;
    }
    slot->n_reply += (size_t)got;
    char *newline = memchr(from, '\n', (size_t)got);
    if (newline) {
        answered(pool, slot, newline);
    } else if (slot->n_reply > REPLY_BYTES_MAX) {
        mot_subprocess_stop(&slot->process, 0);
        finish_slot(pool, slot, -EMSGSIZE, NULL);
    }
}

/* A program that reads no further may still answer: its input is closed and its output awaited. */
static void give_input(struct slot *slot)
{
    const struct request *request = slot->request;
    const ssize_t n =
        write(slot->process.in, request->line + slot->written, request->bytes - slot->written);
    if (n >= 0) {
        slot->written += (size_t)n;
    } else if (errno != EAGAIN && errno != EINTR) {
        close(slot->process.in);
        slot->process.in = -1;
    }
}

static struct request *take(struct mot_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    struct request *request = pool->first;
    if (request) {
        pool->first = request->next;
        if (!pool->first) { pool->last = &pool->first; }
    }
    pthread_mutex_unlock(&pool->mutex);
    return request;
}

/* Programs to slots that have none, so that they are ready when work comes; requests to free slots.
 * Once given up, the requests that no program has end. */
static void hand_out(struct mot_pool *pool)
{
    for (int i = 0; i < pool->n_slots && !pool->given_up; i++) {
        struct slot *slot = &pool->slots[i];
        if (slot->request) { continue; }
        if (slot->process.in < 0) {
            mot_subprocess_stop(&slot->process, 0);
            start(pool, slot);
        }
        slot->request = pool->given_up ? NULL : take(pool);
        if (slot->request) { begin_request(pool, slot); }
    }
    if (!pool->given_up) { return; }
    for (struct request *request; (request = take(pool));) {
        count(pool, &pool->counts.deaths);
        finish(request, -EPIPE, NULL);
    }
}

static void wait_for_events(struct mot_pool *pool, struct pollfd *fds)
{
    double next_s = INFINITY;
    fds[0] = (struct pollfd){pool->wake_fd, POLLIN, 0};
    for (int i = 0; i < pool->n_slots; i++) {
        const struct slot *slot = &pool->slots[i];
        const int pending = slot->request && slot->written < slot->request->bytes;
        fds[1 + 2 * i] = (struct pollfd){slot->process.out, POLLIN, 0}; /* -1 is passed over */
        fds[2 + 2 * i] = (struct pollfd){pending ? slot->process.in : -1, POLLOUT, 0};
        if (slot->request && slot->deadline_s < next_s) { next_s = slot->deadline_s; }
    }
    const double wait_ms = 1e3 * (next_s - now_s());
    const int timeout_ms = !(wait_ms < 1e8) ? -1 : wait_ms <= 0.0 ? 0 : (int)wait_ms + 1;
    if (poll(fds, 1 + 2 * (nfds_t)pool->n_slots, timeout_ms) < 0) { fds[0].revents = 0; }
    if (fds[0].revents) {
        uint64_t wakes;
        const ssize_t n = read(pool->wake_fd, &wakes, sizeof(wakes));
        MOT_ASSERT(n == sizeof(wakes) || errno == EAGAIN || errno == EINTR);
    }
}

static int is_closing(struct mot_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    const int closing = pool->closing;
    pthread_mutex_unlock(&pool->mutex);
    return closing;
}

/* All programs see the end of their input at once, then have a moment to end by themselves. */
static void stop_all(struct mot_pool *pool)
{
    for (int i = 0; i < pool->n_slots; i++) {
        struct slot *slot = &pool->slots[i];
        if (slot->process.in >= 0) { close(slot->process.in); }
        slot->process.in = -1;
    }
    const double end_s = now_s() + GRACE_S;
    for (int i = 0; i < pool->n_slots; i++) {
        struct slot *slot = &pool->slots[i];
        const int left_ms = (int)(1e3 * (end_s - now_s()));
        mot_subprocess_stop(&slot->process, slot->request ? 0 : left_ms);
        if (slot->request) { finish_slot(pool, slot, -ECANCELED, NULL); }
        free(slot->reply);
    }
}

static void *serve(void *argument)
{
    struct mot_pool *pool = argument;
    const size_t n_fds = 1 + 2 * (size_t)pool->n_slots;
    struct pollfd *fds = mot_alloc_zeroed(n_fds, sizeof(*fds));
    while (!is_closing(pool)) {
        hand_out(pool);
        memset(fds, 0, n_fds * sizeof(*fds));
        wait_for_events(pool, fds);
        for (int i = 0; i < pool->n_slots; i++) {
            struct slot *slot = &pool->slots[i];
            if (fds[2 + 2 * i].revents) { give_input(slot); }
            if (fds[1 + 2 * i].revents) { receive(pool, slot); }
            if (slot->request && now_s() >= slot->deadline_s) {
                mot_subprocess_stop(&slot->process, 0);
                finish_slot(pool, slot, -ETIMEDOUT, NULL);
            }
        }
    }
    stop_all(pool);
    for (struct request *request; (request = take(pool));) { finish(request, -ECANCELED, NULL); }
    free(fds);
    return NULL;
}

static void release(struct mot_pool *pool)
{
    if (pool->wake_fd >= 0) { close(pool->wake_fd); }
    pthread_mutex_destroy(&pool->mutex);
    free(pool->slots);
    free(pool->command);
    free(pool);
}

/* The poll thread, with all signals blocked: they are for the program's other threads, and a write
 * to a dead program must not raise SIGPIPE. */
static int start_thread(struct mot_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&pool->thread, NULL, serve, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int mot_pool_create(const char *command, int processes, double time_limit_s, struct mot_pool **pool)
{
    MOT_ASSERT(processes >= 1 && time_limit_s > 0.0);
    struct mot_pool *p = mot_alloc_zeroed(1, sizeof(*p));
    p->command = mot_strdup(command);
    p->n_slots = processes;
    p->time_limit_s = time_limit_s;
    p->slots = mot_alloc_zeroed((size_t)processes, sizeof(*p->slots));
    p->last = &p->first;
    pthread_mutex_init(&p->mutex, NULL);
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = p->wake_fd < 0 ? errno : 0;
    for (int i = 0; i < processes; i++) {
        p->slots[i].process = (struct mot_subprocess){0, -1, -1};
        if (!error && !p->given_up) { start(p, &p->slots[i]); }
    }
    if (!error && !p->given_up) { error = start_thread(p); }
    if (error || p->given_up) {
        for (int i = 0; i < processes; i++) { mot_subprocess_stop(&p->slots[i].process, 0); }
        release(p);
        return error ? mot_fail(error, "cannot start '%s': %s", command, strerror(error)) : -EAGAIN;
    }
    *pool = p;
    return 0;
}

static void wake(const struct mot_pool *pool)
{
    const uint64_t one = 1;
    const ssize_t n = write(pool->wake_fd, &one, sizeof(one));
    MOT_ASSERT(n == sizeof(one) || errno == EAGAIN); /* EAGAIN: it is awake 2^64 times over */
}

void mot_pool_destroy(struct mot_pool *pool)
{
    if (!pool) { return; }
    pthread_mutex_lock(&pool->mutex);
    pool->closing = 1;
    pthread_mutex_unlock(&pool->mutex);
    wake(pool);
    pthread_join(pool->thread, NULL);
    release(pool);
}

void mot_pool_submit(struct mot_pool *pool, const char *line, mot_pool_finished finished,
                     void *context)
{
    struct request *request = mot_alloc_zeroed(1, sizeof(*request));
    request->line = mot_format("%s\n", line);
    request->bytes = strlen(request->line);
    request->finished = finished;
    request->context = context;
    pthread_mutex_lock(&pool->mutex);
    *pool->last = request;
    pool->last = &request->next;
    pool->counts.requests++;
    pthread_mutex_unlock(&pool->mutex);
    wake(pool);
}

struct mot_pool_counts mot_pool_counts(struct mot_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    const struct mot_pool_counts counts = pool->counts;
    pthread_mutex_unlock(&pool->mutex);
    return counts;
}
