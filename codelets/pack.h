/* A micro-batch laid out for one packed forward: prompts, each followed by its answers.
 *
 * The prompt's rows are forwarded once and shared by its answers (prefix), and only rows that
 * predict an answer token reach the vocabulary head: the prompt's last row predicts every answer's
 * first token, an answer's row i predicts its token i + 1.  An answer's last token predicts nothing
 * and is not forwarded. */
#ifndef MOT_PACK_H
#define MOT_PACK_H
#include "transformer.h"
#include <stdint.h>

/* One answer: n tokens under a prompt of the pack. */
struct mot_pack_answer {
    int prompt;           /* index of its prompt in the pack */
    int n;                /* tokens, >= 1 */
    const int32_t *ids;   /* (n) copied by mot_pack_create */
    const float *old;     /* (n) log-probs when sampled; NULL: zeros */
    float weight;         /* of each of its tokens in the loss; 0: masked out */
    int advantage_buffer; /* which advantage handle of the task, and which entry of it */
    int advantage_index;
};
struct mot_pack_prompt {
    int n;              /* tokens, >= 1 */
    const int32_t *ids; /* (n) */
};

struct mot_pack {
    int T, n_segments, n_targets, n_prompts, n_answers;
    int prompt_tokens;            /* token rows of prompts: each group's prompt once */
    int32_t *ids, *position;      /* (T) */
    struct mot_segment *segments; /* caches unset: mot_pack_bind gives them memory */
    int *prefix_of;        /* (n_segments) segment whose keys it reads before its own, or -1 */
    int32_t *row, *target; /* (n_targets): targets in answer order, tokens ascending */
    int *answer_of;        /* (n_targets) */
    float *old, *weight;   /* (n_targets) */
    struct mot_pack_answer *answers; /* (n_answers), ids and old NULL */
};

struct mot_pack *mot_pack_create(const struct mot_pack_prompt *prompts, int n_prompts,
                                 const struct mot_pack_answer *answers, int n_answers);
void mot_pack_destroy(struct mot_pack *pack);
/* A copy of the pack's segments with key and value caches in the arena; valid until its reset. */
struct mot_segment *mot_pack_bind(const struct mot_pack *pack, const struct mot_model_shape *shape,
                                  struct mot_arena *arena);
/* Forward operations of the pack, head included (2 per multiply-add). */
double mot_pack_forward_flop(const struct mot_pack *pack, const struct mot_model_shape *shape);
#endif
