/* List schedules of a task graph: what a simple scheduler reaches, an upper value beside the lower
 * bounds and a start for exact search.  Transfers take no time here. */
#ifndef MOT_PLAN_LIST_H
#define MOT_PLAN_LIST_H
#include "graph.h"

/* Who runs each task, and when. */
struct mot_schedule {
    int *class;    /* (n) */
    double *start; /* (n) milliseconds */
    double makespan_ms;
};
void mot_schedule_free(struct mot_schedule *schedule);
/* The longest end, when the schedule keeps all edges and every class its number of workers; NAN
 * otherwise. */
double mot_schedule_verify(const struct mot_graph *graph, const struct mot_schedule *schedule);

/* The best of several list schedules: whenever the next decision is due, of the ready tasks the one
 * with the longest way to the end goes to the class where it ends first.  The variants differ in
 * how that way is measured and in small random changes (tries of them, the same each time). */
void mot_plan_list(const struct mot_graph *graph, int tries, struct mot_schedule *schedule);
#endif
