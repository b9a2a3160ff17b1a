/* What a GRPO step leaves in the run directory: a line of metrics.jsonl under TRL's names (and
 * verl's timing_s and perf), and a line of completions.jsonl per answer. */
#ifndef MOT_GRPO_REPORT_H
#define MOT_GRPO_REPORT_H
#include "grpo_step.h"

/* A new object: "step" first, counted from 1.  Definitions are those of TRL's GRPOTrainer
 * (trl/trainer/grpo_trainer.py, _generate and _compute_loss), where its micro-batches are ours of a
 * whole optimiser step: entropy, kl, clip_ratio/{low,high,region}_mean over tokens that are not
 * masked; clip_ratio/low_min and high_max over answers (codelets/policy_loss.h);
 * completions/... over all answers; sampling/importance_sampling_ratio/... of the bounded factors
 * (codelets/importance.h), with --max_staleness and a correction. */
json_t *mot_grpo_metrics(const struct mot_grpo *grpo, int step,
                         const struct mot_grpo_result *result);
/* What a step adds to "num_tokens", which TRL sums over a run: tokens of all answers, each with its
 * prompt's (the prompt of G answers counts G times), masked or not. */
double mot_grpo_tokens(const struct mot_grpo_result *result);
/* Answer `answer` (group-major) of the step: prompt and completion as text and ids, log-probs that
 * read back to the same bits, weight versions, scores and advantage. */
json_t *mot_grpo_completion(const struct mot_grpo *grpo, int step,
                            const struct mot_grpo_result *result, int answer);
#endif
