/* What the runtime keeps with each task of mot_task_insert(); private to runtime/. */
#ifndef MOT_TASK_H
#define MOT_TASK_H
#include "trace.h"

/* Of a simulated run (simulate.c). */
struct mot_simulated_task {
    uint64_t key; /* tells the task from others, whatever the schedule */
    const double *expected_s, *true_s;
    struct mot_hint truth;
    int has_truth, cpu_only;
    void (*effect)(void *argument);
    double true_us; /* how long it takes where it has begun; 0: not yet, or on a processor */
};

struct mot_task_state {
    struct mot_hint hint;
    const char *name;
    void (*done)(void *argument_done);
    void *argument_done;
    double start_us; /* starpu_timing_now(), when the worker took it */
    int worker;      /* -1: not taken yet */
    struct mot_trace_task trace;
    struct mot_simulated_task simulated;
    uint32_t fits[(STARPU_NMAXWORKERS + 31) / 32]; /* workers with room for it, as a bit set */
};

/* simulate.c; nothing in the ordinary build */
void mot_simulate_started(const char *(*stage_name)(int stage));
void mot_simulate_task(struct mot_task_state *state, const struct mot_task *task);
int mot_simulate_can_run(const struct mot_task_state *state, int worker);
/* "file:line: " of the machine's classes, for messages; "" in the ordinary build. */
const char *mot_simulate_place(char *text, size_t bytes);

/* Once per mot_start(): how much memory each node has. */
void mot_task_setup(void);
/* What the recorder keeps of a task of mot_task_insert(); NULL for others. */
struct mot_trace_task *mot_task_trace(const struct starpu_task *task);

/* watchdog.c */
void mot_watchdog_start(int limit_s, const char *(*stage_name)(int stage));
void mot_watchdog_stop(void);
void mot_watchdog_submitted(int tasks); /* -1: the submission was refused */
void mot_watchdog_taken(struct mot_task_state *state, int worker);
void mot_watchdog_finished(struct mot_task_state *state);
#endif
