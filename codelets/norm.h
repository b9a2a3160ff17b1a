/* norm: what joins an optimiser step: the gradient's global norm from the groups' sums of squares,
 * the clip factor, whether everything is finite, and the micro-batches' metrics added up in index
 * order.
 *
 *   squares  R  (n_groups) one double each, in group order
 *   metrics  R  (n_metrics) one struct mot_gradient_metrics each, in micro-batch order
 *
 * The result is a handful of numbers that the next submissions need, so it goes to host memory.
 * Runs on a CPU. */
#ifndef MOT_NORM_H
#define MOT_NORM_H
#include "gradient.h"

struct mot_norm {
    struct mot_gradient_metrics sum;
    double grad_norm;  /* of the gradient divided by the denominator, before clipping */
    double grad_scale; /* what each gradient is multiplied by: clip factor / denominator */
    int finite;        /* norm and loss are */
};

struct mot_norm_task {
    const starpu_data_handle_t *squares, *metrics; /* (n_groups), (n_metrics) */
    int n_groups, n_metrics;
    double denominator, max_grad_norm; /* max_grad_norm 0: no clipping */
    struct mot_norm *result;           /* borrowed until done, which may read it */
    struct mot_hint hint;              /* stage, step, group, version by the caller */
    void (*done)(void *argument);
    void *argument;
};
/* Submits.  0, or a negative errno with a message. */
int mot_insert_norm(const struct mot_norm_task *task);
#endif
