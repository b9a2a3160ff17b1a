/* Scores of a rollout's answers: where they lie, and the task that makes them.  Training and
 * evaluation both use it. */
#ifndef MOT_SCORING_H
#define MOT_SCORING_H
#include "dataset.h"
#include "group_advantage.h"
#include "rollout.h"

/* A group's rewards; the arrays are in the order of its rows. */
struct mot_scored_group {
    struct mot_reward_input *inputs;     /* (G) */
    float *scores;                       /* (G, 2, functions): see codelets/score.h */
    float *rewards;                      /* (G) weighted sums; NaN: all functions abstained */
    float *advantages;                   /* (G) */
    starpu_data_handle_t *score_handles; /* (G) over scores */
    starpu_data_handle_t advantage_handle;
    struct mot_advantage_sums sums; /* of the group; with scale batch all of it in group 0 */
};

/* (n_groups) groups of n_rows; rewards of neighbours are neighbours in memory, so that one task can
 * fill those of all groups. */
struct mot_scored_group *mot_scoring_create(int n_groups, int n_rows, int n_functions);
/* Waits for the tasks that use them. */
void mot_scoring_destroy(struct mot_scored_group *groups, int n_groups, int n_rows);

/* Submits the task that scores a row which has ended.  0 or a negative errno with a message. */
int mot_scoring_submit(struct mot_scored_group *group, const struct mot_row *row,
                       const struct mot_example *example,
                       const struct mot_reward_function *functions, int n_functions, int step);

/* --reward_funcs and --reward_weights (n_weights 0: all 1) to opened functions; 0 or -EINVAL with a
 * message, and then nothing is left open. */
int mot_reward_functions_open(char *const *names, int n, const double *weights, int n_weights,
                              struct mot_reward_function **functions);
void mot_reward_functions_close(struct mot_reward_function *functions, int n);
#endif
