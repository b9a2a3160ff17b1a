/* What an optimiser step needs besides the adamw kernel: the learning rate and the clip factor. */
#ifndef MOT_OPTIMISER_H
#define MOT_OPTIMISER_H

/* A learning-rate schedule by name: "linear", "cosine", "constant", "constant_with_warmup". */
struct mot_schedule;
/* 0 and *schedule, or -EINVAL with a message that lists the names. */
int mot_schedule_find(const char *name, const struct mot_schedule **schedule);

/* Factor of the learning rate at optimiser step `step` (0 for the first), as the lambdas of
 * transformers' get_scheduler compute it: the first of warmup_steps steps has factor 0, and
 * "constant" has no warm-up. */
double mot_schedule_factor(const struct mot_schedule *schedule, int step, int warmup_steps,
                           int total_steps);
/* Warm-up steps as transformers takes them: warmup_steps where > 0, else ceil(ratio * total). */
int mot_warmup_steps(int warmup_steps, double warmup_ratio, int total_steps);

/* min(1, max_norm / (norm + 1e-6)), torch's clip_grad_norm_; max_norm <= 0: 1, no clipping. */
double mot_clip_factor(double norm, double max_norm);
#endif
