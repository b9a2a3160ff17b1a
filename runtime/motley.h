/* Motley's runtime, for programs that write their own task graph: start StarPU with the policy the
 * user asked for, insert tasks that say which stage they belong to, see what ran where.
 * apps/hello_graph.c uses all of it in under 100 lines. */
#ifndef MOT_MOTLEY_H
#define MOT_MOTLEY_H
#include "error.h"
#include <starpu.h>

/* What mot_start() may be told; all zero is a good start. */
struct mot_start_options {
    int workers;          /* CPU workers; 0: STARPU_NCPU, else one */
    int cores_per_worker; /* OpenMP threads inside each; 0: the allowed cores shared out evenly */
    const char *policy;   /* NULL: STARPU_SCHED, else "lws" */
    int watchdog_s;       /* no task finishes for so long: name what runs, exit(1); 0: never */
    /* Policies beyond StarPU's own and those of STARPU_SCHED_LIB; ended by NULL; may be NULL.
     * Borrowed until mot_stop(). */
    struct starpu_sched_policy *const *policies;
    /* Names mot_hint.stage in records and messages; NULL: the number. */
    const char *(*stage_name)(int stage);
};

/* To be called first in main(): makes waiting OpenMP threads sleep after a moment instead of
 * spinning for milliseconds, unless OMP_WAIT_POLICY or GOMP_SPINCOUNT say otherwise.  The program
 * starts itself again once for that (execv, same process).  Without it all works, slower on a busy
 * box. */
void mot_program_begin(char **argv);

/* Starts StarPU.  0, or a negative errno with a message: -EINVAL for an unknown policy (the message
 * lists the known ones; StarPU itself falls back silently) or an impossible worker shape, -ENODEV
 * without any worker.  GPU and OpenCL workers start only where STARPU_NCUDA, STARPU_NHIP or
 * STARPU_NOPENCL ask for them. */
int mot_start(const struct mot_start_options *options);
/* Waits for all tasks and stops StarPU.  Records are closed.  May be started again. */
void mot_stop(void);
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
};
/* Submits; from any thread, callbacks included.  0, or a negative errno with a message naming the
 * task, and then nothing is submitted and done never runs: -EINVAL for a wrong description, -ENODEV
 * when no worker can run it or its buffers are larger than the memory of each worker that could
 * (StarPU would hang). */
int mot_task_insert(const struct mot_task *task);
/* The hint of a task inserted by mot_task_insert, else NULL.  For policies and records. */
const struct mot_hint *mot_task_hint(const struct starpu_task *task);

/* Task records: one per finished task of mot_task_insert(), while a file is open.  JSON lines:
 * {"name","stage","step","group","version","worker","submit_us","start_us","end_us","rows",
 * "tokens"}, with times in microseconds of one clock.  Opened before or after mot_start().
 * 0 or a negative errno with a message. */
int mot_record_open(const char *path);
/* Writes out what is buffered.  0, or a negative errno with a message when any write failed. */
int mot_record_close(void);
#endif
