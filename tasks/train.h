/* One optimiser step as tasks: gradients of micro-batches into lanes, reduce, norm, update.
 *
 *   micro-batch i ─► gradient ─► lane i mod L ─► reduce (per layer group) ─► norm ─► update
 *
 * Gradients are un-normalised sums: a micro-batch may start as soon as its answers are there,
 * before anybody knows how many tokens the step will have; the denominator comes with
 * mot_train_close. The bits of the result depend on which micro-batch holds what, on L and on
 * nothing else: a lane adds its micro-batches in index order, lanes are added in index order. */
#ifndef MOT_TRAIN_H
#define MOT_TRAIN_H
#include "actor.h"
#include "gradient.h"
#include "optimiser.h"
#include "pack.h"

struct mot_optimizer_options {
    double learning_rate, adam_beta1, adam_beta2, adam_epsilon, weight_decay, max_grad_norm;
    const struct mot_schedule *lr_scheduler_type; /* optimiser.h */
    int warmup_steps, total_steps;                /* optimiser steps */
    int decay_all; /* 0: weight decay skips vectors (norms, biases), as TRL and transformers do */
    int deterministic; /* lanes take their tasks in index order */
};

/* What the gradient tasks of one optimiser step measured, added up in index order. */
struct mot_train_metrics {
    double loss;      /* the normalised loss */
    double grad_norm; /* before clipping */
    double learning_rate;
    double tokens;      /* targets with weight > 0 */
    double entropy_sum; /* nats, over those */
    double kl_sum;
    double clip_low, clip_high, clip_region; /* counts */
    double answers;                          /* with such targets */
    double clip_low_min, clip_high_max;      /* shares by answer, see policy_loss.h */
    double ratio_sum, ratio_sq_sum, ratio_min, ratio_max;
    /* |old - new|, in the first pass sampler against trainer; with proximal log-probs that
     * always */
    double logprob_difference_sum, logprob_difference_max;
    struct mot_importance_sums importance; /* n is 0 without proximal log-probs */
    double prompt_tokens, forward_tokens;  /* token rows forwarded */
    /* 0; else weights and moments stayed: 1 a gradient was not finite, 2 nothing to learn from */
    int skipped;
};

struct mot_train; /* one optimiser step under way */

/* One optimiser step of an actor at a time: begin the next after the last one's done (or in it).
 * Begins optimiser step `step` (0, 1, ...: position in the schedule) with n_micro_batches to come.
 * loss: borrowed until the end; NULL for MOT_LOSS_NLL.  iteration: "step" of the tasks' hints. */
struct mot_train *mot_train_begin(struct mot_actor *actor,
                                  const struct mot_optimizer_options *optimizer,
                                  enum mot_loss_kind kind,
                                  const struct mot_policy_loss_options *loss, int step,
                                  int iteration, int n_micro_batches);
/* What the gradient of a policy loss reads besides its pack (codelets/gradient.h). */
struct mot_train_inputs {
    const starpu_data_handle_t *advantages; /* (n_advantages) float vectors */
    int n_advantages;
    starpu_data_handle_t reference, proximal; /* float vectors (n_targets) or NULL */
};
/* Hands over micro-batch `index`; from any thread, in any order, each once.  Takes pack; inputs are
 * NULL for NLL, and their handles must stay registered until unregister_submit, which the caller
 * may call right after.  A NULL pack is an empty micro-batch. */
void mot_train_add(struct mot_train *train, int index, struct mot_pack *pack,
                   const struct mot_train_inputs *inputs);
/* Everything has been added or will be; gradients are divided by denominator (clamped to >= 1).
 * When the last update has run, done(argument, metrics) is called in a worker's thread, and train
 * is freed after it. */
void mot_train_close(struct mot_train *train, double denominator,
                     void (*done)(void *argument, const struct mot_train_metrics *metrics),
                     void *argument);

/* Gives up an optimiser step that has not been closed and whose tasks have all ended: weights and
 * moments stay.  Not from a callback. */
void mot_train_drop(struct mot_train *train);

double mot_learning_rate(const struct mot_optimizer_options *options, int step);
#endif
