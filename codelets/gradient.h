/* gradient: forward, loss and backward of one micro-batch, added into an accumulation lane.
 *
 *   weights     R    (n_groups) float32 vectors
 *   lane        RW   (n_groups) float32 vectors, +=; W for the lane's first micro-batch, which
 *                    zeroes them first; RW|COMMUTE where the order of the sum does not matter
 *   metrics     W    one struct mot_gradient_metrics
 *   advantages  R    float32 vectors, as the pack's answers name them; policy loss only
 *   reference   R    (n_targets) float32 log-probs; policy loss with beta > 0 only
 *   proximal    R    (n_targets) float32 log-probs at the start of the update, where the pack's
 *                    (old) are of older weights: the ratio is taken to these, and importance.h
 *                    makes up for the rest
 *
 * Gradients are un-normalised sums over the pack's tokens: nothing here depends on how many tokens
 * the optimiser step has.  Cost: three forward passes.  Variants: CPU. */
#ifndef MOT_GRADIENT_H
#define MOT_GRADIENT_H
#include "pack.h"
#include "policy_loss.h"
#include "stage.h"

enum mot_loss_kind {
    MOT_LOSS_POLICY, /* policy_loss.h */
    MOT_LOSS_NLL     /* sum of -weight * logprob */
};

/* What one gradient task measured; sums over its tokens with weight > 0. */
struct mot_gradient_metrics {
    struct mot_policy_loss_metrics loss;  /* NLL: tokens, loss and entropy_sum only */
    double prompt_tokens, forward_tokens; /* token rows forwarded */
};

enum mot_lane_access { MOT_LANE_FIRST, MOT_LANE_ORDERED, MOT_LANE_ANY_ORDER };

struct mot_gradient_task {
    const struct mot_stage_context *context;    /* borrowed until done */
    const starpu_data_handle_t *weights, *lane; /* (n_groups) */
    enum mot_lane_access access;
    starpu_data_handle_t metrics;
    const starpu_data_handle_t *advantages; /* (n_advantages) */
    int n_advantages;
    starpu_data_handle_t reference; /* NULL: none */
    starpu_data_handle_t proximal;  /* NULL: the pack's */
    const struct mot_pack *pack;    /* borrowed until done */
    enum mot_loss_kind kind;
    const struct mot_policy_loss_options *loss; /* borrowed until done; NULL for NLL */
    struct mot_hint hint; /* stage, step, group, version by the caller; the rest is filled in */
    void (*done)(void *argument);
    void *argument;
};
/* Submits.  0, or a negative errno with a message. */
int mot_insert_gradient(const struct mot_gradient_task *task);
#endif
