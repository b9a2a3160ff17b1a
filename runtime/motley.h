/* Motley's runtime, for programs that write their own task graph: start StarPU with the policy the
 * user asked for, insert tasks that say which stage they belong to, see what ran where.
 * apps/hello_graph.c uses all of it in under 100 lines. */
#ifndef MOT_MOTLEY_H
#define MOT_MOTLEY_H
#include "error.h"
#include <starpu.h>
#include <stdint.h>

/* What mot_start() may be told; all zero is a good start. */
struct mot_start_options {
    int workers;          /* CPU workers; 0: STARPU_NCPU, else one */
    int cores_per_worker; /* OpenMP threads inside each; 0: the allowed cores shared out evenly */
    const char *policy;   /* NULL: STARPU_SCHED, else "lws" */
    int grows;            /* callbacks submit tasks: refuse a policy that would never see those */
    int watchdog_s;       /* no task finishes for so long: name what runs, exit(1); 0: never */
    /* Policies beyond StarPU's own and those of STARPU_SCHED_LIB; ended by NULL; may be NULL.
     * Borrowed until mot_stop(). */
    struct starpu_sched_policy *const *policies;
    /* Names mot_hint.stage in recordings and messages; NULL: the number. */
    const char *(*stage_name)(int stage);
};

/* To be called first in main(): keeps the numbers of closed standard streams from other files, and
 * makes waiting OpenMP threads sleep after a moment instead of spinning for milliseconds, unless
 * OMP_WAIT_POLICY or GOMP_SPINCOUNT say otherwise.  The program starts itself again once for that
 * (execv, same process).  Without it all works, slower on a busy box. */
void mot_program_begin(char **argv);

/* Starts StarPU.  0, or a negative errno with a message: -EINVAL for an unknown policy (the message
 * lists the known ones; StarPU itself falls back silently) or an impossible worker shape, -ENODEV
 * without any worker.  GPU and OpenCL workers start only where STARPU_NCUDA, STARPU_NHIP or
 * STARPU_NOPENCL ask for them. */
int mot_start(const struct mot_start_options *options);
/* Waits for all tasks and stops StarPU.  A recording is closed; the result is mot_trace_close's.
 * May be started again. */
int mot_stop(void);
/* Waits until every task submitted has ended, those submitted by callbacks included. */
void mot_wait_all(void);

int mot_cpu_workers(void);
int mot_cores_per_worker(void);
/* The running policy's name. */
const char *mot_policy_name(void);

/* Tells the watchdog that all is well: for waits that have a time limit of their own, such as an
 * external program's answer.  Counts as a finished task.  Any thread. */
void mot_watchdog_touch(void);

/* Binds the calling CPU worker's OpenMP team to its own cores and sets its size, once per worker
 * thread.  Tasks from mot_task_insert() have it done; tasks submitted to StarPU directly may call
 * it first in their codelet. */
void mot_worker_enter(void);

/* What a policy may know of a task, beyond what StarPU tells it. */
struct mot_hint {
    int stage;    /* an enumeration of the program's own; tasks/stages.h for ours */
    int step;     /* iteration */
    int group;    /* prompt group, micro-batch, layer group...; -1: none */
    int version;  /* weight version read; -1: none */
    double flop;  /* floating-point operations */
    double bytes; /* memory traffic */
    int rows;     /* sequences worked on; 0: does not apply */
    int tokens;   /* token rows forwarded through the model; 0: does not apply */
};

/* What a simulated run (simulate.h) is told besides; all zero where that is nothing. */
struct mot_task_simulated {
    const struct mot_hint *truth; /* what the task really does; copied; NULL: as the hint says */
    const double *expected_s; /* (classes) instead of what the machine says; INFINITY: cannot run
                                 there; borrowed until the task has ended */
    const double *true_s; /* (classes) with expected_s: what it takes; NULL: that; borrowed too */
    void (*effect)(void *argument); /* in the worker's thread, of cl_arg, when the task begins: what
                                       of the codelet's work must not be left out */
};

/* Describes one task.  The codelet's cpu_funcs get (buffers, argument) as ever.  A codelet for any
 * number of buffers says .nbuffers = STARPU_VARIABLE_NBUFFERS; one with a fixed number may leave
 * modes NULL here: they are the codelet's. */
struct mot_task {
    struct starpu_codelet *codelet; /* borrowed until the task has ended */
    const char *name;               /* "<stage>.<codelet>"; static storage */
    struct mot_hint hint;
    int n_buffers;
    const starpu_data_handle_t *handles;       /* (n_buffers), none NULL; the array is copied */
    const enum starpu_data_access_mode *modes; /* (n_buffers); copied */
    void *argument;                            /* cl_arg */
    size_t argument_bytes;             /* > 0: copied now and freed with the task; 0: borrowed */
    void (*done)(void *argument_done); /* in the worker's thread, after the task; may submit */
    void *argument_done;               /* borrowed until done has run */
    int priority;                      /* clamped to what the policy accepts */
    struct mot_task_simulated simulated;
};
/* Submits; from any thread, callbacks included.  0, or a negative errno with a message naming the
 * task, and then nothing is submitted and done never runs: -EINVAL for a wrong description, -ENODEV
 * when no worker can run it or its buffers are larger than the memory of each worker that could
 * (StarPU would hang). */
int mot_task_insert(const struct mot_task *task);
/* The hint of a task inserted by mot_task_insert, else NULL.  For policies. */
const struct mot_hint *mot_task_hint(const struct starpu_task *task);

/* Recording: which task ran where and when and on what data, each transfer, memory in use, queues,
 * what the policy decided.  The file is gzipped Chrome trace JSON, for Perfetto, chrome://tracing
 * or trace_read.h; a killed program's file opens and says that it ends early.  A task costs its
 * worker about a microsecond; a worker that records faster than the file is written waits, and the
 * file says how long; one without any task leaves no file.  mot_start() opens the file that
 * MOTLEY_TRACE names, and a program may do so itself.  StarPU runs, and no task at closing.  0, or
 * a negative errno with a message. */
int mot_trace_open(const char *path);
int mot_trace_close(void); /* -errno when any write failed; 0 without a recording */
int mot_trace_is_on(void);
/* A counter of the program's own, such as "staleness".  name: static storage. */
void mot_trace_value(const char *name, double value);
/* What a datum is called in the recording, its first 31 bytes.  Costs nothing without one. */
void mot_data_name(starpu_data_handle_t handle, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For policies: why a task goes where it goes.  candidates (n): workers and their estimates, in the
 * policy's own measure of time; worker: the one chosen, -1: none yet; veto: what forbade the best
 * one (static storage; NULL: nothing).  To be called before the task begins. */
struct mot_trace_candidate {
    int worker;
    float estimate_us;
};
void mot_trace_decision(const struct starpu_task *task,
                        const struct mot_trace_candidate *candidates, int n, int worker,
                        const char *veto);

/* Totals of the last recording, after mot_trace_close() or mot_stop(). */
struct mot_trace_stats {
    uint64_t tasks, transfers, messages, file_bytes;
    uint64_t waits;               /* times a thread found its buffer full, and how long that */
    double waited_us;             /* took, all threads together */
    double writer_cpu_s, seconds; /* the writer's CPU time, in so much time */
};
struct mot_trace_stats mot_trace_last_stats(void);
#endif
