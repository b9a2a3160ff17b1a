/* Supervised fine-tuning: examples to micro-batches, one optimiser step, and the loss on held-out
 * examples.  The loss is the mean NLL over all counted tokens of the optimiser step, whatever the
 * micro-batches.
 *
 * Counted are the completion's tokens (completion_only_loss 1), or all but the first token of
 * prompt and completion.  Each row has its own prompt.  A row without a counted token is left
 * out. */
#ifndef MOT_SUPERVISED_H
#define MOT_SUPERVISED_H
#include "dataset.h"
#include "train.h"

struct mot_supervised {
    struct mot_actor *actor;
    const struct mot_dataset *dataset;
    struct mot_optimizer_options optimizer;
    int rows_per_micro_batch, micro_batches; /* a step's rows are their product, or fewer */
    int completion_only_loss, shuffle;
    uint64_t seed;
};

/* Optimiser step `step` (0, 1, ...) on the n rows that stand at positions first, first + 1, ... of
 * the training order (mot_dataset_at).  Blocks until the update is done; not from a callback. */
void mot_supervised_step(const struct mot_supervised *s, int step, int64_t first, int n,
                         struct mot_train_metrics *metrics);

/* Mean NLL and entropy (nats) over the counted tokens of a whole data set.  Blocks; not from a
 * callback.  step: of the tasks' hints. */
struct mot_supervised_loss {
    double loss, entropy, tokens;
};
int mot_supervised_evaluate(struct mot_actor *actor, const struct mot_dataset *dataset,
                            int rows_per_task, int completion_only_loss, int step,
                            struct mot_supervised_loss *result);
#endif
