/* The recorder, as the rest of the runtime and the policies library see it; what programs call is
 * in motley.h.
 *
 *   hooks in task.c and round the scheduling policy (trace_task.c), in the data interfaces' copy
 *   methods (trace_transfer.c)  ->  a ring per thread (trace_ring.c)  ->  the writer's thread
 *   (trace.c)  ->  gzipped Chrome trace JSON (trace_write.c)  ->  trace_read.c, any trace viewer
 *
 * Under SimGrid, where all threads are one and time is the simulated one, there is no writer
 * thread: rings are emptied by the thread that fills them. */
#ifndef MOT_TRACE_H
#define MOT_TRACE_H
#include "motley.h"
#include "trace_record.h"
#include <starpu_scheduler.h>

/* How a task accesses a datum.  Scratch buffers are not recorded. */
enum mot_trace_mode {
    MOT_TRACE_R,       /* reads `version` */
    MOT_TRACE_W,       /* overwrites: makes `version`, depends on no content */
    MOT_TRACE_RW,      /* reads version - 1, makes `version` */
    MOT_TRACE_COMMUTE, /* as RW, in an order that does not matter */
    MOT_TRACE_REDUX    /* adds to `version`, beside others */
};

/* What the hooks keep of a task between its submission and its end. */
struct mot_trace_task {
    const struct mot_hint *hint; /* NULL: not a task of mot_task_insert() */
    const char *name;
    const struct starpu_task *task; /* from its start on */
    uint32_t number, by;            /* number 0: not recorded */
    double submit_us, ready_us, popped_us, start_us;
    int n_accesses;
    struct mot_trace_access_message *accesses; /* room for one per buffer */
};

/* ---- trace.c -------------------------------------------------------------------------------- */

extern atomic_int mot_trace_on_flag; /* for mot_trace_on() alone */
static inline int mot_trace_on(void)
{
    return atomic_load_explicit(&mot_trace_on_flag, memory_order_relaxed);
}
/* Names stages in the file; to be called before mot_trace_open(). */
void mot_trace_name_stages(const char *(*stage_name)(int stage));
/* For the watchdog: what is recorded so far reaches the file, or two seconds pass. */
void mot_trace_flush(void);
/* To be called where messages are made, now and then: empties the rings under SimGrid. */
void mot_trace_pulse(void);
/* Counts recordings, from 1. */
uint32_t mot_trace_session(void);

/* ---- trace_task.c --------------------------------------------------------------------------- */

/* policy with the recorder's hooks round its own; static storage, one at a time.  own: finds what
 * is kept of a task of mot_task_insert(), NULL for others; NULL: there are none. */
struct starpu_sched_policy *
mot_trace_policy(const struct starpu_sched_policy *policy,
                 struct mot_trace_task *(*own)(const struct starpu_task *task));
/* A task of mot_task_insert() is submitted; is refused after all. */
void mot_trace_submitted(struct mot_trace_task *t);
void mot_trace_refused(struct mot_trace_task *t);
/* Counts tasks and data from 1 again; no task is left. */
void mot_trace_tasks_reset(void);
/* Frees what handles point at; StarPU has been shut down. */
void mot_trace_data_free(void);
/* The number of a datum, given when it is first seen. */
uint32_t mot_trace_data_number(starpu_data_handle_t handle);
/* That of a recorded task; 0: none. */
uint32_t mot_trace_task_number(const struct starpu_task *task);

/* ---- trace_transfer.c ----------------------------------------------------------------------- */

/* Wraps the copy methods of StarPU's data interfaces, once per process, before starpu_init(). */
void mot_trace_transfers_watch(void);
#endif
