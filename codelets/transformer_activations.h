/* What a forward keeps for its backward, shared by transformer.c and transformer_backward.c only.
 *
 * Kept per layer and token row: 2 C + S + H D + H + 2 I floats (C, S, H, D, I as in model_layout.h;
 * the residual stream twice, q,k,v, the attention's output and log-sum-exp, gate and up).  What is
 * cheap is computed again: the outputs of the norms, of swiglu and of the head norms with the
 * rotation after them.  For SmolLM2-135M that is 23 KB a layer, 692 KB in all, per token. */
#ifndef MOT_TRANSFORMER_ACTIVATIONS_H
#define MOT_TRANSFORMER_ACTIVATIONS_H
#include "transformer.h"

struct mot_layer_activations {
    float *x;         /* (T, C) residual stream before the layer */
    float *qkv;       /* (T, S) rotated; with qk_norm as the projection left it, not rotated */
    float *attention; /* (T, H D) */
    float *lse;       /* (T, H) */
    float *middle;    /* (T, C) residual stream between attention and MLP */
    float *gate_up;   /* (T, 2 I) */
};

struct mot_activations {
    int T;
    struct mot_layer_activations *layers; /* (L) */
    float *x;                             /* (T, C) before the final norm */
};

/* Pointers to the tensors of one layer in a buffer of its group: weights or gradients. */
struct mot_layer_weights {
    float *input_norm, *qkv, *qkv_bias /* NULL: none */, *q_norm, *k_norm /* NULL: none */;
    float *o, *post_norm, *gate_up, *down;
};
struct mot_layer_weights mot_layer_weights(const struct mot_layout *layout, const float *group);

static inline int mot_qkv_width(const struct mot_model_shape *s)
{
    return (s->n_heads + 2 * s->n_kv_heads) * s->head_dim;
}

/* qkv = raw with the norms of q's and k's heads (qk_norm models), then rotated.  raw (T, S) may be
 * qkv only without qk_norm.  rstd (H + K, T) or NULL: for the gradient of the head norms. */
void mot_qkv_finish(struct mot_exec *e, const struct mot_transformer *t,
                    const struct mot_layer_weights *w, const struct mot_batch *batch, float *raw,
                    float *qkv, float *rstd);

float *mot_take_floats(struct mot_exec *e, size_t rows, size_t columns);
#endif
