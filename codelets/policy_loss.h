/* The policy losses of the GRPO family, seen from the vocabulary head: per target token from its
 * log-prob lp to d loss / d lp, and the sums behind the metrics.
 *
 *   ratio = exp(clamp(lp - old, -20, 20))
 *   l     = -w min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon_high) A) + beta KL(lp, ref)
 *   loss  = sum over tokens of weight l, divided later by one denominator
 *
 * A is the advantage of the token's answer; w is 1, or the factor of importance.h where answers are
 * older than the policy that the update starts from (old).  KL with d = lp - ref: k1 = d, k2 = d^2
 * / 2, k3 = exp(-d) + d - 1, where -d is clamped to [-20, 20] in k3 so that it stays finite; a
 * clamped quantity has gradient 0.  KL has no advantage factor: it acts on groups of equal rewards
 * too.
 *
 * loss_type   weight of a token          denominator, over the whole optimiser step
 * grpo        1 / tokens of its answer   answers
 * bnpo        1 / tokens of its          micro-batches that have a token
 *             micro-batch
 * dapo        1                          tokens
 * dr_grpo     1                          answers * max_completion_length
 *
 * Gradients are summed un-normalised, in any split; the denominator, never less than 1, divides
 * once.  A masked token (mask_truncated_completions) has weight 0 and is not in any count: counts
 * are of tokens with weight, and of answers and micro-batches that have such a token.  Only bnpo
 * depends on how answers are split into micro-batches; that is its definition.
 *
 * Sources: Shao et al. 2024, arXiv:2402.03300 (grpo, k3); Yu et al. 2025, arXiv:2503.14476 (dapo,
 * whose 1 / sum|o_i| is taken over the batch, as TRL does); Liu et al. 2025, arXiv:2503.20783
 * (dr_grpo); TRL's GRPOTrainer (bnpo); Schulman 2020, joschu.net/blog/kl-approx.html. */
#ifndef MOT_POLICY_LOSS_H
#define MOT_POLICY_LOSS_H
#include "importance.h"

enum mot_kl_estimator { MOT_KL_K1, MOT_KL_K2, MOT_KL_K3 };

/* What an optimiser step has seen, masked tokens left out. */
struct mot_loss_counts {
    double tokens, answers, micro_batches;
    double max_completion_length;
};

struct mot_loss_type;
struct mot_policy_loss_options {
    const struct mot_loss_type *type;
    double epsilon, epsilon_high;
    double beta; /* 0: no KL, and no reference is read */
    enum mot_kl_estimator kl_estimator;
    struct mot_importance_options importance; /* read where tokens have proximal log-probs */
};

/* One token's loss without KL, and its derivative with respect to lp. */
struct mot_surrogate {
    double ratio, loss, gradient;
};

/* A loss type: one line in policy_loss_table.h, one struct mot_loss_NAME in a file. */
struct mot_loss_type {
    const char *name; /* as in --loss_type */
    double (*token_weight)(int answer_tokens, int micro_batch_tokens);
    double (*denominator)(const struct mot_loss_counts *counts);
    void (*surrogate)(const struct mot_policy_loss_options *options, double logprob, double old,
                      double advantage, struct mot_surrogate *out);
};
/* 0 and *type, or -EINVAL with a message that lists the names. */
int mot_loss_type_find(const char *name, const struct mot_loss_type **type);
/* "k1", "k2", "k3"; 0, or -EINVAL with a message. */
int mot_kl_estimator_find(const char *name, enum mot_kl_estimator *estimator);

/* The type's denominator, at least 1 (an optimiser step whose tokens are all masked is 0, not
 * NaN). */
double mot_policy_loss_denominator(const struct mot_policy_loss_options *options,
                                   const struct mot_loss_counts *counts);

/* Sums over tokens with weight > 0; zeroed by the caller (all fields 0 is the empty sum). */
struct mot_policy_loss_metrics {
    double tokens;
    double loss;        /* sum of weight * l */
    double entropy_sum; /* nats */
    double kl_sum;      /* of the chosen estimator; 0 with beta 0 */
    double clip_low;    /* tokens with ratio < 1 - epsilon and A < 0 */
    double clip_high;   /* tokens with ratio > 1 + epsilon_high and A > 0 */
    double clip_region; /* either */
    /* Of the answers with tokens, where answer_of is given: how many, the least share of an
     * answer's tokens that count as clip_low, the greatest as clip_high.  TRL's GRPOTrainer:
     * clip_ratio/low_min and high_max are nanmin and nanmax over sequences of masked means; its are
     * of a micro-batch, ours of all answers of an optimiser step. */
    double answers, clip_low_min, clip_high_max;
    double ratio_sum, ratio_sq_sum, ratio_min, ratio_max; /* min and max 0 without tokens */
    /* |old - behaviour|, the trainer against the sampler; without behaviour |lp - old| */
    double difference_sum, difference_max;
    struct mot_importance_sums importance;
};
void mot_policy_loss_metrics_add(struct mot_policy_loss_metrics *to,
                                 const struct mot_policy_loss_metrics *from);

/* The context of mot_policy_loss_coef: n targets in the order of the head's, all borrowed. */
struct mot_policy_loss {
    const struct mot_policy_loss_options *options;
    const float *advantage; /* (n) of the token's answer */
    const float *old;       /* (n) log-prob under the policy at the start of the update */
    const float *behaviour; /* (n) log-prob when sampled; NULL: old is that */
    const float *factor;    /* (n) of importance.h; NULL without behaviour: all 1 */
    const float *reference; /* (n) log-prob under the reference; NULL with beta 0 */
    const float *weight;    /* (n) 0: masked; whatever else it has is not looked at, NaN neither */
    const int *answer_of;   /* (n) answer by answer; NULL: no shares by answer */
    struct {
        int answer;
        double tokens, low, high;
    } under_way; /* the answer whose tokens come just now; 0 at first */
    struct mot_policy_loss_metrics metrics;
};
/* A mot_loss_coef (transformer.h): coef[i] = weight * d l / d lp of target first + i.  Called for
 * all targets in order, in any pieces, and mot_policy_loss_end after the last. */
void mot_policy_loss_coef(void *context, int first, int n, const float *logprob,
                          const float *entropy, float *coef);
void mot_policy_loss_end(struct mot_policy_loss *loss);
#endif
