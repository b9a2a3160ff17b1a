/* A reward: completion text in, number out.  One file per reward, one line in rewards_table.h. */
#ifndef MOT_REWARD_H
#define MOT_REWARD_H
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct mot_reward_input {
    const char *prompt;     /* text, zero-terminated */
    const char *completion; /* text without special tokens, zero-terminated */
    size_t completion_bytes;
    const char *answer;    /* ground truth or NULL */
    const json_t *columns; /* the data row; read only, may be shared between threads: no incref */
    const int32_t *ids;    /* the completion's ids */
    int n_ids;
    int ended; /* with EOS or a stop string, not cut off */
};

struct mot_score {
    double value;
    int abstains; /* "none": left out of sum and statistics */
    int error;    /* the verifier failed; counted in reward/errors, value is the configured one */
};

/* One reward function with its settings. */
struct mot_reward {
    const char *name; /* as in --reward_funcs: "gsm8k" */
    const char *help; /* settings and meaning, one line */
    /* settings: what follows "name:" in the option, or NULL.  0 and *state, or -EINVAL with a
     * message.  (optional) defaults to no state and no settings allowed. */
    int (*open)(const char *settings, void **state);
    void (*close)(void *state); /* (optional) */
    /* Thread-safe.  Exactly one of score and begin is set. */
    void (*score)(void *state, const struct mot_reward_input *input, struct mot_score *score);
    /* External work: returns at once; finished is called later, once, from any thread. */
    void (*begin)(void *state, const struct mot_reward_input *input,
                  void (*finished)(void *context, const struct mot_score *score), void *context);
};

/* "name" or "name:settings".  The reward and its settings' start (or NULL), or -EINVAL with a
 * message that lists the names and the nearest. */
int mot_reward_find(const char *option, const struct mot_reward **reward, const char **settings);
int mot_reward_count(void);
const struct mot_reward *mot_reward_at(int index);
#endif
