/* score: all reward functions on one finished answer.
 *
 *   scores  W  (2, functions) float32: row 0 the values, NaN where a function abstains; row 1 is 1
 *              where the verifier failed, else 0
 *
 * Functions that compute do so in the task.  Functions that ask an external program only send: the
 * worker is free at once, and the task ends when the last reply has come (StarPU's end
 * dependencies, released by a task of no length, reward.reply), so a slow program delays nobody but
 * those who read its score.  CPU workers only. */
#ifndef MOT_SCORE_H
#define MOT_SCORE_H
#include "reward.h"
#include "stage.h"

/* One of --reward_funcs, opened. */
struct mot_reward_function {
    const struct mot_reward *reward;
    void *state;
    double weight;
    char label[48]; /* in metrics: the name, with _2, _3... where it comes again */
};

struct mot_score_insert {
    const struct mot_reward_function *functions; /* (n_functions) borrowed until the task ends */
    int n_functions;
    const struct mot_reward_input *input; /* borrowed until the task ends */
    starpu_data_handle_t scores;
    struct mot_hint hint;
    int priority;
};
int mot_insert_score(const struct mot_score_insert *score);
#endif
