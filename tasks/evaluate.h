/* Evaluation: answers to a whole data set, scored; the same rollout and score tasks as in
 * training. */
#ifndef MOT_EVALUATE_H
#define MOT_EVALUATE_H
#include "scoring.h"

struct mot_evaluate_options {
    struct mot_rollout_options rollout; /* sampling, lengths, seed; temperature 0: greedy */
    int samples;                        /* answers per prompt */
    int limit;                          /* first so many examples; 0: all */
    const struct mot_reward_function *functions;
    int n_functions;
    /* (optional) one finished answer after the other in data set order, after the last: score is
     * the weighted sum, NaN where all abstain. */
    void (*answer)(void *context, const struct mot_row *row, double score);
    void *context;
};

/* An answer is right when its weighted score is above 0.5 times the sum of positive weights. */
struct mot_evaluation {
    int n, samples;   /* examples, answers each */
    double score;     /* mean weighted score */
    double accuracy;  /* share of right answers */
    double low, high; /* 95 % interval of accuracy: normal, over examples */
    double pass_at_k; /* share of examples with a right answer among their samples (k = samples) */
    double mean_length; /* tokens */
    double truncated;   /* share cut off at max_completion_length */
    double seconds;
};

/* Blocks until done; not from a callback.  0 or a negative errno with a message. */
int mot_evaluate(struct mot_actor *actor, const struct mot_dataset *dataset,
                 const struct mot_evaluate_options *options, struct mot_evaluation *result);
#endif
