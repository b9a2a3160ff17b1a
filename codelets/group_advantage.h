/* group_advantage: the scores of whole groups to the advantages of their answers.
 *
 *   scores      R  (n_groups * group_size) handles of score.h, group-major
 *   advantages  W  (n_groups) handles, each (group_size) float32
 *
 * Scores are weighted and summed leaving abstentions out, then made relative to the group
 * (kernels/advantage.h).  One group per task, or all of them with scale batch.  CPU only. */
#ifndef MOT_GROUP_ADVANTAGE_H
#define MOT_GROUP_ADVANTAGE_H
#include "kernels/advantage.h"
#include "score.h"

struct mot_group_advantage {
    const struct mot_reward_function *functions; /* (n_functions) borrowed until the task ends */
    int n_functions, n_groups, group_size;
    enum mot_scale_rewards scale;
    const starpu_data_handle_t *scores, *advantages;
    float *rewards;                  /* (n_groups, group_size) host memory: the weighted sums */
    struct mot_advantage_sums *sums; /* host memory, +=; of this task alone */
    struct mot_hint hint;
    void (*done)(void *argument);
    void *argument_done;
    int priority;
};
int mot_insert_group_advantage(const struct mot_group_advantage *advantage);
#endif
