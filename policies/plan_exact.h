/* The shortest possible makespan of a small task graph, proven: no preemption, no transfer times.
 * For graphs of up to some 25 tasks; up to 64 are taken, and where time runs out the gap is
 * said. */
#ifndef MOT_PLAN_EXACT_H
#define MOT_PLAN_EXACT_H
#include "plan_list.h"
#include <stdint.h>

enum { MOT_EXACT_TASKS_MAX = 64 };

struct mot_exact_options {
    double seconds;      /* 0: 120 */
    double memory_bytes; /* of states that are remembered; 0: 256 MiB */
    int cold;            /* 1: start from one task after another, not from list schedules; slower,
                            for tests of the search itself */
};

struct mot_exact {
    int proven;                   /* schedule.makespan_ms is the optimum */
    double bound_ms;              /* no schedule is shorter */
    struct mot_schedule schedule; /* the shortest found */
    int64_t nodes;
    double seconds;
};

/* 0, or -EFBIG with a message for a graph with more tasks. */
int mot_plan_exact(const struct mot_graph *graph, const struct mot_exact_options *options,
                   struct mot_exact *result);
void mot_exact_free(struct mot_exact *result);
#endif
