/* reduce: the gradient lanes of one layer group added up, lane 0 += lane 1 += ... in index order,
 * and the sum of squares of the result, for the norm.
 *
 *   lanes    RW (the first), R (the others)   (group_floats) float32 vectors
 *   squares  W   one double
 *
 * Cost: one pass over n_lanes + 1 vectors.  Variants: CPU. */
#ifndef MOT_REDUCE_H
#define MOT_REDUCE_H
#include "stage.h"

struct mot_reduce_task {
    const starpu_data_handle_t *lanes; /* (n_lanes >= 1) this group's vector of each lane */
    int n_lanes;
    size_t n; /* numbers in each */
    starpu_data_handle_t squares;
    struct mot_hint hint; /* stage, step, group, version by the caller; the rest is filled in */
    void (*done)(void *argument);
    void *argument;
};
/* Submits.  0, or a negative errno with a message. */
int mot_insert_reduce(const struct mot_reduce_task *task);
#endif
