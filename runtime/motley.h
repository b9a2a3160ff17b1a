/* Motley's runtime, for programs that write their own task graph: start StarPU with the policy the
 * user asked for, insert tasks that say which stage they belong to, see what ran where.
 * apps/hello_graph.c uses all of it in under 100 lines. */
#ifndef MOT_MOTLEY_H
#define MOT_MOTLEY_H
#include "error.h"
#include <starpu.h>

/* How the CPU is cut into StarPU workers. 0 = choose: one worker over all cores. */
struct mot_start_options {
    int workers;          /* CPU workers */
    int cores_per_worker; /* OpenMP threads inside each */
    const char *policy;   /* NULL: STARPU_SCHED, else "lws" */
    int watchdog_s;       /* no task finishes for so long: name what runs, stop; 0: never */
};

/* Starts StarPU.  0, or a negative errno with a message: -EINVAL for an unknown policy (the message
 * lists the known ones, StarPU falls back silently), -ENODEV without any worker. */
int mot_start(const struct mot_start_options *options);
/* Waits for all tasks and stops StarPU. */
void mot_stop(void);

int mot_cpu_workers(void);
int mot_cores_per_worker(void);

/* To be called first in each CPU codelet: binds the worker's OpenMP team to its own cores and sets
 * its size, once per worker thread.  Inserting through mot_task_insert does it. */
void mot_worker_enter(void);

/* What a policy may know of a task, beyond what StarPU tells it. */
struct mot_hint {
    int stage;    /* an enumeration of the program's own; tasks/stages.h for ours */
    int step;     /* iteration */
    int group;    /* prompt group, micro-batch, layer group...; -1: none */
    int version;  /* weight version read; -1: none */
    double flop;  /* floating-point operations */
    double bytes; /* memory traffic */
};

/* Describes one task.  The codelet's cpu_funcs get (buffers, argument) as ever. */
struct mot_task {
    struct starpu_codelet *codelet;
    const char *name; /* "<stage>.<codelet>"; static storage */
    struct mot_hint hint;
    int n_buffers;
    const starpu_data_handle_t *handles; /* (n_buffers), none NULL */
    const enum starpu_data_access_mode *modes;
    void *argument;                    /* cl_arg */
    size_t argument_bytes;             /* > 0: copied now and freed with the task; 0: borrowed */
    void (*done)(void *argument_done); /* in the worker's thread, after the task; may submit */
    void *argument_done;
    int priority;
};
/* Submits.  0 or a negative errno with a message naming the task: -ENODEV when no worker can run it
 * or a buffer is larger than every memory node that could hold it. */
int mot_task_insert(const struct mot_task *task);
/* The hint of a task inserted by mot_task_insert, else NULL.  For policies and records. */
const struct mot_hint *mot_task_hint(const struct starpu_task *task);

/* Task records: one per finished task of mot_task_insert, kept when a file is named.  JSON lines:
 * {"name","stage","step","group","version","worker","start_us","end_us","submit_us","tokens"?}. */
int mot_record_open(const char *path);
void mot_record_close(void);
#endif
