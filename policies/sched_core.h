/* What policies of ours share: what is known of a task, of the workers, of what runs on them; the
 * ready queue.  A policy is then little more than its pop (sched_eft.c).
 *
 *   submit_hook    mot_sched_submit       a task is known: how long, before what (sched_graph.c)
 *   push_task      mot_sched_push         it is in the ready queue (sched_ready.c)
 *   pop_task       the policy's own: lock, look, mot_sched_take, unlock
 *   pre_exec_hook, post_exec_hook   measured, learned from (sched_estimate.c); idle workers wake
 *
 * One mutex guards all of it.  Times are microseconds of starpu_timing_now(), simulated ones in a
 * simulation.  Nothing here needs tasks of Motley's: any StarPU program will do. */
#ifndef MOT_SCHED_CORE_H
#define MOT_SCHED_CORE_H
#include "sched_ready.h"
#include <starpu.h>
#include <starpu_scheduler.h>
#include <stdint.h>

enum {
    MOT_SCHED_CLASSES_MAX = 16,
    MOT_SCHED_KINDS_MAX = MOT_READY_KINDS,
    MOT_SCHED_SAMPLES = 32,
    MOT_SCHED_LATEST = 8
};

/* Measured durations of one kind, size, class of devices and implementation: each divided by what
 * StarPU's model said, or as they are where it says nothing.  A reservoir, so that a heavy tail
 * stays in it, and late samples replace old ones. */
struct mot_sched_cell {
    uint64_t key;
    int kind, class, is_relative; /* what the key is made of; relative: to StarPU's model */
    unsigned size, implementation;
    double sample[MOT_SCHED_SAMPLES]; /* ascending */
    int n, seen;                      /* in it; ever in this run */
    int outstanding;                  /* tasks taken and not ended */
    double p50, p90, mean;            /* of the samples; 1 without any */
    struct mot_sched_cell *next;      /* of all */

    int n_loaded, n_latest;          /* of earlier runs (sched_models.h); of this one */
    double loaded_p50, loaded_p90;   /* of those */
    double latest[MOT_SCHED_LATEST]; /* the first of this run */
};

/* A task by one class of devices and one implementation. */
struct mot_sched_guess {
    double model_us; /* StarPU's estimate; NAN: none that makes sense; INFINITY: cannot run */
    struct mot_sched_cell *cell; /* NULL: cannot run */
};

/* What StarPU's task->sched_data points at. */
struct mot_sched_task {
    struct starpu_task *task; /* NULL: ended */
    uint64_t id;              /* in order of submission */
    int kind;
    unsigned size;       /* doubles from one to the next */
    double flop, bytes;  /* what it computes and moves; 0: nothing is known */
    double own_us;       /* expected, over the classes */
    double remaining_us; /* the longest way to the end that is known, its own length included */
    unsigned references;

    unsigned epoch;                                /* of the classes the guesses are for */
    struct mot_sched_guess *guess;                 /* (classes, STARPU_MAXIMPLEMENTATIONS) */
    uint32_t able[(STARPU_NMAXWORKERS + 31) / 32]; /* workers, once it is ready */
    double transfer_us[STARPU_MAXNODES], transfer_at_us[STARPU_MAXNODES]; /* cached */

    int worker, implementation;  /* worker -1: none */
    double taken_us, start_us;   /* start_us 0: not begun */
    double expected_us, wait_us; /* there, and for its data, when it was taken */
    double slow;                 /* the worker's, then */
    struct mot_sched_task *next_running;

    struct mot_ready_item ready;
    int is_held, is_fetched; /* its data are being asked for: not to be taken now; have been */
    int reserved;            /* the worker whose next task it is; -1: none */
    int home;                /* a worker, for policies with queues; -1: none yet */

    struct mot_sched_task **before; /* submitted earlier, to end before it; each a reference */
    int n_before;
    struct mot_sched_task *older, *newer; /* of those alive */
    double tail_us;                       /* remaining_us without its own */
};

struct mot_sched_worker {
    int is_used, class;
    unsigned node;
    struct mot_sched_task *running; /* taken, in order */
    struct mot_sched_task *next;    /* ready, its data on the way: reserved, not bound */
    double lead_us;                 /* how long data of tasks before took to come */
    double late[MOT_SCHED_LATEST];  /* logarithms of measured over expected, the latest */
    int n_late;                     /* ever */
    double slow; /* times slower than its class; 1 until that is beyond what its tasks vary by */
};

/* Identical devices. */
struct mot_sched_class {
    int first;   /* worker */
    int workers; /* how many */
    char name[64];
    double log_speed;                 /* mean logarithm of its durations over the median class's */
    int speeds;                       /* tasks in that mean */
    double flop_per_us, bytes_per_us; /* the most that a task has reached; 0: none has */
};

struct mot_models;
struct mot_sched_graph;
struct mot_sched_timer;
struct mot_sched {
    unsigned context;
    starpu_pthread_mutex_t mutex;
    struct mot_ready ready;
    int n_workers; /* worker numbers are below it */
    struct mot_sched_worker worker[STARPU_NMAXWORKERS];
    int n_classes;
    struct mot_sched_class class[MOT_SCHED_CLASSES_MAX];
    unsigned epoch; /* counts changes of the classes */
    uint64_t kind_key[MOT_SCHED_KINDS_MAX];
    char *kind_name[MOT_SCHED_KINDS_MAX]; /* NULL: a codelet without a name */
    int n_kinds, kind_checks[MOT_SCHED_KINDS_MAX];
    struct mot_sched_cell kind_error[MOT_SCHED_KINDS_MAX]; /* measured over expected, everywhere */
    struct mot_sched_cell **cells, *all_cells;             /* hashed */
    size_t n_cells, cell_room;
    struct mot_models *models; /* of earlier runs (sched_models.h) */
    struct mot_sched_graph *graph;
    struct mot_sched_timer *timer;
    uint64_t n_tasks, random;
    void (*plan)(struct mot_sched *s); /* by the timer's thread, locked, when it is wanted; may
                                          unlock meanwhile; NULL: none */
    int plan_wanted;
    /* A task has run for so long where it was; NULL: none.  Locked. */
    void (*ended)(struct mot_sched *s, const struct mot_sched_task *t, double us);
    void *own; /* the policy's */
};

/* ---- sched_core.c: the methods of a struct starpu_sched_policy, and what its pop calls ----- */

void mot_sched_init(unsigned context);
/* The same, and s->own: so many zeroed bytes of the policy's own. */
void mot_sched_init_own(unsigned context, size_t bytes);
void mot_sched_deinit(unsigned context); /* frees s->own */
void mot_sched_add_workers(unsigned context, int *workers, unsigned n);
void mot_sched_remove_workers(unsigned context, int *workers, unsigned n);
void mot_sched_submit(struct starpu_task *task);
int mot_sched_push(struct starpu_task *task);
void mot_sched_push_notify(struct starpu_task *task, int worker, int perf_worker, unsigned context);
void mot_sched_pre_exec(struct starpu_task *task, unsigned context);
void mot_sched_post_exec(struct starpu_task *task, unsigned context);
#define MOT_SCHED_METHODS_BUT_INIT                                                             \
    .add_workers = mot_sched_add_workers, .remove_workers = mot_sched_remove_workers,          \
    .submit_hook = mot_sched_submit, .push_task = mot_sched_push,                              \
    .push_task_notify = mot_sched_push_notify, .pre_exec_hook = mot_sched_pre_exec,            \
    .post_exec_hook = mot_sched_post_exec, .worker_type = STARPU_WORKER_LIST, .prefetches = 1, \
    .deinit_sched = mot_sched_deinit
#define MOT_SCHED_METHODS .init_sched = mot_sched_init, MOT_SCHED_METHODS_BUT_INIT

struct mot_sched *mot_sched_of(unsigned context);
/* Lets other workers look at this one's state while it waits for the mutex, as StarPU wants it. */
void mot_sched_lock(struct mot_sched *s);
void mot_sched_unlock(struct mot_sched *s);
/* For the start of pop: 1 when the worker should look for a task, having none or one whose end is
 * so near that the next one's data may come; otherwise it is woken in time.  Locked. */
int mot_sched_wants(struct mot_sched *s, int worker, double now_us);
/* A whole pop_task but for the choice: which of the ready tasks the asking worker is to run, NULL:
 * none for now, and then the policy has seen to it that the worker is woken in time.  Locked. */
struct starpu_task *mot_sched_pop(unsigned context,
                                  struct mot_sched_task *(*choose)(struct mot_sched *s, int asking,
                                                                   double now_us));
/* The task leaves the queue for the worker, by its best implementation.  Locked. */
struct starpu_task *mot_sched_take(struct mot_sched *s, struct mot_sched_task *t, int worker);
/* When each worker is free, from now on: (n_workers).  Locked. */
void mot_sched_available(const struct mot_sched *s, double now_us, double *available_us);
static inline int mot_sched_can_run(const struct mot_sched_task *t, int worker)
{
    return t->able[worker / 32] >> (worker % 32) & 1;
}
/* Idle workers look again at that time, whatever happens until then.  Locked. */
void mot_sched_look_again(struct mot_sched *s, double at_us);
/* s->plan is called soon, in another thread.  Locked. */
void mot_sched_plan_soon(struct mot_sched *s);
/* Of held tasks (is_held), once their data have been asked for.  Not locked; idle workers, which
 * may have passed over them, look again. */
void mot_sched_release(struct mot_sched *s, struct mot_sched_task *const *held, int n);

/* ---- sched_class.c: which devices are alike ------------------------------------------------ */

void mot_sched_class_add(struct mot_sched *s, int worker);
void mot_sched_class_remove(struct mot_sched *s, int worker);
/* Parts devices whose estimates for this task differ. */
void mot_sched_class_check(struct mot_sched *s, struct mot_sched_task *t);

/* ---- sched_estimate.c: how long ------------------------------------------------------------ */

struct mot_estimate {
    double p50_us, p90_us, mean_us; /* INFINITY: no device of the class can run it */
    int is_known;                   /* 0: from other classes, or from nothing */
    int outstanding;                /* tasks like it that run there */
    int implementation;             /* the one that is for */
};
/* The cell's samples (n, at most MOT_SCHED_SAMPLES) are these. */
void mot_sched_cell_set(struct mot_sched_cell *cell, const double *samples, int n);
/* Whatever StarPU's models say, positive and finite where the class can run the task. */
struct mot_estimate mot_sched_estimate(struct mot_sched *s, struct mot_sched_task *t, int class);
/* The best one that this worker may use: devices of a class may differ in that. */
int mot_sched_implementation(const struct mot_sched_task *t, int worker, int class);
/* What is left of a task that has been taken: E[length - e | length > e], e being its age. */
double mot_sched_left_us(const struct mot_sched_task *t, double now_us);
/* How far the 90th percentile of what was measured of its kind lies above the median, against what
 * was expected: 1 where estimates are right.  Not measured, it is the greater the more an error
 * costs: on a device `slower` times slower than the best, up to 3, as answers' lengths vary. */
double mot_sched_spread(const struct mot_sched *s, const struct mot_sched_task *t, double slower);
void mot_sched_learn(struct mot_sched *s, struct mot_sched_task *t, double us);
void mot_sched_guess(struct mot_sched *s, struct mot_sched_task *t);
void mot_sched_cells_free(struct mot_sched *s);
/* Until its data are in the memory node, by latency and bandwidth; 0 where nothing is known. */
double mot_sched_transfer_us(struct mot_sched_task *t, unsigned node, double now_us);

/* ---- sched_graph.c: what comes after ------------------------------------------------------- */

void mot_sched_graph_init(struct mot_sched *s);
void mot_sched_graph_free(struct mot_sched *s);
/* A new task, from its declared accesses; a task that is ready; one that has ended, for good. */
void mot_sched_graph_add(struct mot_sched *s, struct mot_sched_task *t);
void mot_sched_graph_ready(struct mot_sched_task *t);
void mot_sched_graph_end(struct mot_sched *s, struct mot_sched_task *t);
/* Brings remaining_us up to date when enough has been submitted since; to be called in pop. */
void mot_sched_graph_update(struct mot_sched *s);
/* Calls visit for each task submitted and not ended, the oldest first. */
void mot_sched_graph_each(struct mot_sched *s,
                          void (*visit)(struct mot_sched *s, struct mot_sched_task *t, void *own),
                          void *own);
#endif
