/* A decoder-only transformer (Llama, Qwen2, Qwen3) over the kernel table: packed forward with KV
 * caches, backward, and the vocabulary head.  Knows nothing of StarPU: stage codelets call it with
 * plain pointers.  Generation, log-probs and training all run mot_transformer_forward; on the CPU
 * they therefore compute equal bits for equal tokens (see kernels.h). */
#ifndef MOT_TRANSFORMER_H
#define MOT_TRANSFORMER_H
#include "kernels.h"
#include <stdint.h>

/* Where the packed matrices (kernels.h) of a layer lie in its packed group, in floats; qkv is
 * first. The packed head is a group of its own. */
struct mot_packing {
    size_t o, gate_up, down, layer_floats;
    size_t head_floats; /* 0: this device or machine has no packed weights */
};

/* What does not change during a run. */
struct mot_transformer {
    struct mot_layout layout;
    struct mot_packing packing; /* zeros until mot_transformer_find_packing */
    float *rope_table;          /* (max_position, D/2, 2) */
};
int mot_transformer_create(struct mot_transformer *t, const struct mot_model_shape *shape);
void mot_transformer_destroy(struct mot_transformer *t);

/* Asks the device for the sizes of packed matrices; after mot_matmul_self_test. */
void mot_transformer_find_packing(struct mot_transformer *t, const struct mot_kernels *kernels);
/* The matrices of a layer's group, and the head's of its group, into their packed groups. */
void mot_transformer_pack_layer(struct mot_exec *e, const struct mot_transformer *t,
                                const float *group, float *packed);
void mot_head_pack(struct mot_exec *e, const struct mot_transformer *t, const float *group,
                   float *packed);

/* Bytes of a struct mot_kv's data with that many slots, all layers. */
size_t mot_kv_bytes(const struct mot_model_shape *shape, int capacity);

/* T token rows, packed: segments cover rows 0 .. T-1 in ascending order, each row once. */
struct mot_batch {
    int T, n_segments;
    const int32_t *ids;      /* (T) */
    const int32_t *position; /* (T) */
    const struct mot_segment *segments;
};

/* What the forward keeps for the backward; memory from the arena, valid until its reset. */
struct mot_activations;

/* hidden (T, C) = final-norm output of every row.  weights[g] is group g of the layout.  keep NULL:
 * nothing is kept; else *keep is what mot_transformer_backward needs. */
void mot_transformer_forward(struct mot_exec *e, const struct mot_transformer *t,
                             const float *const *weights, const struct mot_batch *batch,
                             float *hidden, struct mot_activations **keep);
/* The same bits with packed[l] for the matrices of layer l; packed NULL: without.  Keeps
 * nothing. */
void mot_transformer_forward_packed(struct mot_exec *e, const struct mot_transformer *t,
                                    const float *const *weights, const float *const *packed,
                                    const struct mot_batch *batch, float *hidden);

/* grads[g] += gradient of a loss whose gradient with respect to hidden is dhidden (T, C; lost).
 * batch is the forward's; here segments share prefixes only with segments of the same batch (the
 * prompt that owns them comes first in the batch), and their *_grad pointers are set up inside. */
void mot_transformer_backward(struct mot_exec *e, const struct mot_transformer *t,
                              const float *const *weights, const struct mot_batch *batch,
                              struct mot_activations *kept, float *dhidden, float *const *grads);

/* Log-probs of targets under chosen rows of hidden: logits = head(hidden[row[i]]).  Works through
 * `chunk` rows of logits at a time, so memory is chunk * V floats whatever n is. */
struct mot_head_targets {
    int n;
    const int32_t *row;    /* (n) row of hidden */
    const int32_t *target; /* (n) id */
    float inv_temperature;
    int chunk;
};
void mot_head_logprob(struct mot_exec *e, const struct mot_transformer *t,
                      const float *const *weights, const float *hidden,
                      const struct mot_head_targets *targets, float *logprob, float *entropy);

/* The loss seen from the head: coef[i] = d loss / d logprob[first + i] for n tokens whose log-probs
 * and entropies are known.  Called in ascending order, each token once. */
typedef void (*mot_loss_coef)(void *context, int first, int n, const float *logprob,
                              const float *entropy, float *coef);
/* Log-probs, then dhidden (T, C) += and grads += of that loss, one chunk after the other. */
void mot_head_loss(struct mot_exec *e, const struct mot_transformer *t, const float *const *weights,
                   const float *hidden, const struct mot_head_targets *targets, mot_loss_coef loss,
                   void *context, float *logprob, float *entropy, float *dhidden,
                   float *const *grads);

/* Draws one id per row of hidden (n, C); logits of all n rows at once.  packed: the head's, which
 * then replaces its weights; or NULL. */
void mot_head_sample(struct mot_exec *e, const struct mot_transformer *t,
                     const float *const *weights, const float *packed, const float *hidden, int n,
                     const struct mot_sampling *sampling, const float *uniform,
                     struct mot_sampled *out);
/* logits (n, V) of rows of hidden (n, C). */
void mot_head_logits(struct mot_exec *e, const struct mot_transformer *t,
                     const float *const *weights, const float *hidden, int n, float *logits);
#endif
