/* One step of GRPO as a task graph that grows by callbacks.
 *
 *   prompts ─► rollout ─► score (per answer) ─► advantage (per group) ─┐
 *                └─► logprob (reference, per micro-batch, beta > 0) ───┴─► gradient ─┐
 *                                                           update ◄─ norm ◄─ reduce ◄┘
 *
 * Every arrow is submitted by the callback that completes its last input: a row that ends early is
 * scored while others are generated, and the gradient of a micro-batch starts when its own groups
 * are scored, whatever the rest of the rollout is doing.  The update waits for the end of the
 * rollout, which reads the weights that it changes.  It ends the step; with several iterations or
 * mini-batches the next optimiser step follows.
 *
 * Algorithm: Shao et al. 2024, arXiv:2402.03300, section 4.1, with the variants of
 * codelets/policy_loss.h.  The log-probs stored by the sampler are those of the policy at the start
 * of the update (old), bit for bit on the CPU, so none are recomputed. */
#ifndef MOT_GRPO_STEP_H
#define MOT_GRPO_STEP_H
#include "dataset.h"
#include "policy_loss.h"
#include "scoring.h"
#include "train.h"

/* What stays the same over the steps of a run; filled by the program, borrowed by every step. */
struct mot_grpo {
    struct mot_actor *actor;
    struct mot_actor *reference; /* frozen; NULL with beta 0 */
    const struct mot_dataset *dataset;
    const struct mot_tokenizer *tokenizer;
    struct mot_rollout_options rollout; /* step is set per step */
    struct mot_policy_loss_options loss;
    struct mot_optimizer_options optimizer;
    int prompts_per_step, num_generations;
    int answers_per_micro_batch;  /* divides num_generations or is a multiple of it */
    int micro_batches_per_update; /* mini-batch = that many micro-batches */
    int num_iterations;
    int mask_truncated_completions;
    enum mot_scale_rewards scale_rewards;
    int n_functions;
    const struct mot_reward_function *functions;
    uint64_t seed;
    int shuffle;
};
/* Optimiser steps in one GRPO step. */
int mot_grpo_updates_per_step(const struct mot_grpo *grpo);

/* What a step leaves behind when it has ended. */
struct mot_grpo_result {
    struct mot_rollout *rollout;
    struct mot_scored_group *groups; /* (rollout->n_groups) */
    int n_updates;
    struct mot_train_metrics *updates; /* (n_updates) */
    double seconds;                    /* from start to the last update */
    double generate_seconds;           /* from start to the end of the rollout */
};

struct mot_grpo_step;
/* Starts step `step` (0, 1, ...) on the prompts that stand at its place in the training order.  0
 * or a negative errno with a message. */
int mot_grpo_step_start(const struct mot_grpo *grpo, int step, struct mot_grpo_step **started);
/* Waits for the end; the result is valid until the step is destroyed.  Not from a callback. */
const struct mot_grpo_result *mot_grpo_step_wait(struct mot_grpo_step *step);
void mot_grpo_step_destroy(struct mot_grpo_step *step);
#endif
