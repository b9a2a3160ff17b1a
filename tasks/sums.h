/* The embedded default's data: all sums of two numbers of a range, as rows {"prompt": "12+30=",
 * "answer": "42"}.  A pair {a, b} is trained on or held out as a whole: where a+b is held out, so
 * is b+a, or the held-out accuracy would measure memory. */
#ifndef MOT_SUMS_H
#define MOT_SUMS_H
#include "dataset.h"

struct mot_sums {
    int low, high;   /* operands, both ends included; 0 <= low <= high, at most 1000 numbers */
    double held_out; /* share of the pairs that is held out, rounded; in (0, 1) */
    uint64_t seed;   /* of the split: the same seed, the same split, whatever the machine */
};

/* Two data sets, each freed by mot_dataset_destroy: prompts and completions (the answer and the
 * tokenizer's end token) encoded as they stand, without template or BOS.  Rows stand in the order
 * of the shuffled pairs, a+b before b+a.  Borrows the tokenizer for the call.
 * 0, or -EINVAL with a message where a limit is broken or a part would be empty. */
int mot_sums_create(const struct mot_sums *sums, const struct mot_tokenizer *tokenizer,
                    struct mot_dataset *train, struct mot_dataset *held_out);

/* The rows as JSON lines, for `motley sft`, `grpo` and `eval`.  0, or a negative errno. */
int mot_sums_write(const struct mot_dataset *dataset, const char *path);
#endif
