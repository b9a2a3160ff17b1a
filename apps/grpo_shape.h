/* A few steps of GRPO of a given shape, to be measured: what calibration and the check of the
 * simulator against the real thing run. */
#ifndef MOT_GRPO_SHAPE_H
#define MOT_GRPO_SHAPE_H
#include "app.h"

struct mot_grpo_shape {
    int steps, prompts, generations;
    int answers_per_micro_batch, micro_batches_per_update; /* 0 updates: all of a step in one */
    int lanes;
    double learning_rate; /* 0: weights stay as they are, at the same cost */
    struct mot_sampling_config sampling;
};

/* What happened. */
struct mot_grpo_shape_run {
    double *step_s; /* (steps) from the end of the step before, or the beginning, to its end */
    int n_lengths;
    int *lengths;         /* (n_lengths) tokens of each answer */
    double prompt_tokens; /* mean */
};

/* model has as many lanes.  0 or a negative errno with a message; *run to free in both cases. */
int mot_grpo_shape_measure(struct mot_app_model *model, const struct mot_dataset *data,
                           const struct mot_grpo_shape *shape, struct mot_grpo_shape_run *run);
void mot_grpo_shape_run_free(struct mot_grpo_shape_run *run);
#endif
