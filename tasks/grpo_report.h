/* What a GRPO step leaves in the run directory: a line of metrics.jsonl under TRL's names (and
 * verl's timing_s and perf), and a line of completions.jsonl per answer. */
#ifndef MOT_GRPO_REPORT_H
#define MOT_GRPO_REPORT_H
#include "grpo_step.h"

/* A new object: "step" first, counted from 1. */
json_t *mot_grpo_metrics(const struct mot_grpo *grpo, int step,
                         const struct mot_grpo_result *result);
/* Answer `answer` (group-major) of the step: prompt and completion as text and ids, log-probs that
 * read back to the same bits, weight versions, scores and advantage. */
json_t *mot_grpo_completion(const struct mot_grpo *grpo, int step,
                            const struct mot_grpo_result *result, int answer);
#endif
