/* importance: what makes up for tokens drawn by other weights than those the update starts from.
 *
 *   w_t = exp(proximal_t - behaviour_t)       token modes
 *   w_t = exp(sum over the answer of the same) sequence modes: one w for all of its tokens
 *
 * proximal: log-prob under the policy at the start of the update, behaviour: when sampled.  The
 * factor of token t's policy loss is w_t bounded (truncate: clamp(w, min, max)) or dropped (mask: w
 * inside [min, max], else 0).  It has no gradient, and leaves weights and denominators as they are.
 *
 *   token_truncate     truncated importance sampling (TIS)
 *   token_mask         with max 5 and no min the decoupled loss as AReaL has it; IcePop
 *   sequence_truncate, sequence_mask   (TRL's default with max 3)
 *
 * The exponent is clamped to [-20, 20]; NaN stays NaN.  Sources: Fu et al. 2025, arXiv:2505.24298
 * (decoupled loss); Hilton et al. 2021, arXiv:2110.00641; Yao et al. 2025, "Your efficient RL
 * framework secretly brings you off-policy RL training" (TIS); TRL's GRPOTrainer
 * (vllm_importance_sampling_*). */
#ifndef MOT_IMPORTANCE_H
#define MOT_IMPORTANCE_H

enum mot_importance_mode {
    MOT_IMPORTANCE_SEQUENCE_MASK,
    MOT_IMPORTANCE_SEQUENCE_TRUNCATE,
    MOT_IMPORTANCE_TOKEN_MASK,
    MOT_IMPORTANCE_TOKEN_TRUNCATE
};
struct mot_importance_options {
    enum mot_importance_mode mode;
    double min, max; /* NaN: no bound */
};

/* Of the factors: one number a token, or one an answer in the sequence modes; masked-out answers
 * left out.  All 0 is the empty sum. */
struct mot_importance_sums {
    double n, sum, min, max;
};
void mot_importance_sums_add(struct mot_importance_sums *to,
                             const struct mot_importance_sums *from);

/* Fills factor (n) for n targets that lie answer by answer (answer_of), and adds to sums.  Targets
 * of weight 0 get 0 and are not looked at; an answer's targets have one weight. */
void mot_importance(const struct mot_importance_options *options, int n, const int *answer_of,
                    const float *proximal, const float *behaviour, const float *weight,
                    float *factor, struct mot_importance_sums *sums);
#endif
