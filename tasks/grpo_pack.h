/* Answers of a rollout as a micro-batch for training. */
#ifndef MOT_GRPO_PACK_H
#define MOT_GRPO_PACK_H
#include "grpo_step.h"
#include "pack.h"

/* Lays answers first .. first + n - 1 (group-major) out, with the weight of every token by the loss
 * type; adds them to counts, which may be NULL.  groups: of the rollout, those of the answers
 * scored; NULL: weights do not matter, as for log-probs. */
struct mot_pack *mot_grpo_pack(const struct mot_grpo *grpo, const struct mot_rollout *rollout,
                               const struct mot_scored_group *groups, int first, int n,
                               struct mot_loss_counts *counts);
#endif
