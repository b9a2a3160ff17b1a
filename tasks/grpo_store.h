/* Answers that were generated ahead of a checkpoint, in its answers.jsonl: with staleness, steps
 * under way read versions that the checkpoint does not have.  So the checkpoint of step k keeps the
 * answers of steps k .. k + eta - 1, whole, and a run that resumes trains on them.  Their rewards
 * are computed again.
 *
 *   {"prompts_per_step", "num_generations", "max_completion_length", "seed", "steps": [{"step",
 *    "prompt_tokens", "generated_tokens"}, ...]}
 *   {"step", "group", "sample", "example", "version_step", "version", "end", "ids", "logprob",
 *    "logprob_kept", "entropy", "device"}     one line an answer, in order
 */
#ifndef MOT_GRPO_STORE_H
#define MOT_GRPO_STORE_H
#include "grpo_step.h"

/* Writes directory/answers.jsonl: the answers of steps first .. first + n - 1, complete. */
int mot_grpo_store_save(const char *directory, const struct mot_grpo *grpo, int first,
                        const struct mot_rollout *const *rollouts, int n);

struct mot_grpo_store;
/* Reads what the checkpoint of step `first` has.  *store is NULL when there is nothing that this
 * run can use: no staleness, no file, or answers to other prompts or in other numbers (a warning
 * says so).  0, or a negative errno with a message naming file and line. */
int mot_grpo_store_load(const char *directory, const struct mot_grpo *grpo, int first,
                        struct mot_grpo_store **store);
/* Fills a rollout that mot_rollout_create made with the answers of a step; 0 when the store (NULL:
 * empty) does not have them, or they are older than max_staleness allows. */
int mot_grpo_store_fill(const struct mot_grpo_store *store, const struct mot_grpo *grpo, int step,
                        struct mot_rollout *rollout);
void mot_grpo_store_destroy(struct mot_grpo_store *store);
#endif
