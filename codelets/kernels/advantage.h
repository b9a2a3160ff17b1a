/* advantage: rewards to group-relative advantages.
 *
 *   adv[p][g] = (reward[p][g] - mean_p) / (std + 1e-4)     scale group: std of group p
 *                                                          scale batch: std of all rewards
 *   adv[p][g] =  reward[p][g] - mean_p                     scale none
 *
 * Means and standard deviations are over what is not NaN (a NaN reward abstains: its advantage is
 * 0), deviations divide by count - 1, as TRL's GRPOTrainer does; a group with fewer than two
 * rewards has advantage 0.  Everything is relative to a group's first reward, so that equal rewards
 * give exactly 0, which 1e-4 in the denominator would not do by itself.
 *
 * Sources: Shao et al. 2024, arXiv:2402.03300, section 4.1; scale none: Liu et al. 2025,
 * arXiv:2503.20783; scale batch: Liu et al. 2025, arXiv:2508.08221.
 *
 * CPU only: a few numbers per prompt, beside the model nothing. */
#ifndef MOT_ADVANTAGE_H
#define MOT_ADVANTAGE_H

enum mot_scale_rewards { MOT_SCALE_GROUP, MOT_SCALE_BATCH, MOT_SCALE_NONE };
/* "group", "batch", "none" ("True" and "False" as TRL reads them); 0, or -EINVAL with a message. */
int mot_scale_rewards_find(const char *name, enum mot_scale_rewards *scale);

/* Sums behind the metrics reward, reward_std and frac_reward_zero_std; zeroed by the caller. */
struct mot_advantage_sums {
    double rewards;    /* how many are not NaN */
    double reward_sum; /* of those */
    double abstained;  /* NaN rewards */
    double groups;
    double groups_zero_std; /* whose rewards are all equal, or fewer than two: no gradient */
    double group_std_sum;   /* standard deviations of the groups with two rewards or more */
    double groups_with_std; /* how many those are */
};

/* reward (n) = sum over functions f of weight[f] * value[f][i], leaving out NaN; NaN where all are.
 * value (functions, n) row-major. */
void mot_reward_combine(int n, int functions, const float *value, const double *weight,
                        float *reward);

/* adv (groups, size) of reward (groups, size), size >= 1; sums += unless NULL. */
void mot_advantage(int groups, int size, const float *reward, enum mot_scale_rewards scale,
                   float *adv, struct mot_advantage_sums *sums);
#endif
