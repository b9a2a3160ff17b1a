/* What the runtime keeps with each task of mot_task_insert(); private to runtime/. */
#ifndef MOT_TASK_H
#define MOT_TASK_H
#include "motley.h"

struct mot_task_state {
    struct mot_hint hint;
    const char *name;
    void (*done)(void *argument_done);
    void *argument_done;
    double submit_us, start_us; /* starpu_timing_now(); start: when the worker took it */
    int worker;                 /* -1: not taken yet */
    uint32_t fits[(STARPU_NMAXWORKERS + 31) / 32]; /* workers with room for it, as a bit set */
};

/* Once per mot_start(): how much memory each node has. */
void mot_task_setup(void);

/* watchdog.c */
void mot_watchdog_start(int limit_s, const char *(*stage_name)(int stage));
void mot_watchdog_stop(void);
void mot_watchdog_submitted(int tasks); /* -1: the submission was refused */
void mot_watchdog_taken(struct mot_task_state *state, int worker);
void mot_watchdog_finished(struct mot_task_state *state);

/* record.c */
void mot_record_started(const char *(*stage_name)(int stage)); /* StarPU runs now */
void mot_record_task(const struct mot_task_state *state, const struct starpu_task *task);
void mot_record_flush(void);
#endif
