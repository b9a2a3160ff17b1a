/* The line that rollouts under way together stand in: tasks are given to the oldest that has rows
 * waiting, so younger ones only take what the older leave idle; and prompts are begun while the
 * capacity rule admits them.
 *
 * Rule (AReaL's StalenessManager, Fu et al. 2025, arXiv:2505.24298, section 5):
 *
 *   capacity = min(concurrency - running, (eta + version + 1) batch - (accepted + running))
 *
 * in prompts: batch of them a step, `version` steps behind the newest weights, `accepted` have been
 * generated since step 0, `running` have been begun.  With it no answer that is used in step s is
 * older than version s - eta.  After a restart at version v, accepted is v batch. */
#ifndef MOT_ROLLOUT_LINE_H
#define MOT_ROLLOUT_LINE_H
#include "actor.h"
#include <stdint.h>

struct mot_admission {
    int concurrency; /* prompts under way at most; 0: no limit */
    int eta, batch;
    int64_t version, accepted, running;
};
/* How many prompts may be begun now; below 1: none. */
int64_t mot_admission_capacity(const struct mot_admission *admission);

struct mot_rollout_line;
/* max_tasks: generate tasks of all rollouts under way; 0: one per CPU worker.  admission: copied;
 * NULL: everything is admitted. */
struct mot_rollout_line *mot_rollout_line_create(int max_tasks,
                                                 const struct mot_admission *admission);
/* The newest version, which rollouts without one of their own begin prompts with: takes the
 * reference.  step: optimised steps behind it, the admission's version.  From any thread; may
 * submit. */
void mot_rollout_line_publish(struct mot_rollout_line *line, struct mot_version *version,
                              int64_t step);
/* Prompts of restored rollouts count as accepted. */
void mot_rollout_line_accept(struct mot_rollout_line *line, int64_t prompts);
/* Nothing more is submitted: each rollout in the line ends when its tasks under way have, without a
 * word to its listener; rows that have not ended by then are dropped. */
void mot_rollout_line_cancel(struct mot_rollout_line *line);
void mot_rollout_line_destroy(struct mot_rollout_line *line); /* no rollout stands in it */
#endif
