/* The shape of a decoder-only transformer and where each of its tensors lies in memory.
 *
 * Weights, gradients and optimiser moments share one layout: the tensors of one layer group lie in
 * one float32 buffer, and a group is the unit that StarPU moves.  Group 0 is the embedding (and the
 * tied head), groups 1..n_layers one layer each, the last group the final norm (and an untied
 * head).
 *
 * Letters used everywhere: C hidden_size, I intermediate_size, H n_heads, K n_kv_heads, D head_dim,
 * V vocab_size, L n_layers, T token rows, S = (H + 2 K) D width of a fused q,k,v row. */
#ifndef MOT_MODEL_LAYOUT_H
#define MOT_MODEL_LAYOUT_H
#include <stddef.h>

struct mot_model_shape {
    int n_layers, hidden_size, intermediate_size, n_heads, n_kv_heads, head_dim, vocab_size;
    int max_position;  /* context length in tokens */
    float norm_eps;    /* RMSNorm epsilon */
    double rope_theta; /* base of the rotary angles */
    int tied;          /* the head is the embedding */
    int qkv_bias;      /* Qwen2 */
    int qk_norm;       /* Qwen3: RMSNorm over each head's q and k before the rotation */
};

/* The tensors of a layer, in the order in which they lie in its group.  q, k, v are neighbours, so
 * that they form one (S, C) matrix, as do their biases; gate and up form one (2 I, C) matrix. */
enum mot_tensor_role {
    MOT_INPUT_NORM,              /* (C) */
    MOT_Q,                       /* (H D, C) */
    MOT_K,                       /* (K D, C) */
    MOT_V,                       /* (K D, C) */
    MOT_Q_BIAS,                  /* (H D), qkv_bias only; k and v follow */
    MOT_K_BIAS,                  /* (K D) */
    MOT_V_BIAS,                  /* (K D) */
    MOT_Q_NORM,                  /* (D), qk_norm only */
    MOT_K_NORM,                  /* (D) */
    MOT_O,                       /* (C, H D) */
    MOT_POST_NORM,               /* (C) */
    MOT_GATE,                    /* (I, C) */
    MOT_UP,                      /* (I, C) */
    MOT_DOWN,                    /* (C, I) */
    MOT_LAYER_ROLES,             /* how many a layer has at most */
    MOT_EMBED = MOT_LAYER_ROLES, /* (V, C) */
    MOT_FINAL_NORM,              /* (C) */
    MOT_HEAD,                    /* (V, C), untied only */
    MOT_ROLES
};

struct mot_tensor {
    char name[96]; /* as in a HF checkpoint: "model.layers.0.self_attn.q_proj.weight" */
    enum mot_tensor_role role;
    int layer; /* -1 outside the layers */
    int group;
    size_t offset;  /* in floats, from the start of the group's buffer; a multiple of 16 */
    int rows, cols; /* a vector has rows 1 and its length in cols */
    int dimensions; /* 1 or 2, as in the file */
};

struct mot_layout {
    struct mot_model_shape shape;
    int n_groups;         /* n_layers + 2 */
    size_t *group_floats; /* (n_groups) size of each buffer, padding included; padding is zero */
    int n_tensors;
    struct mot_tensor *tensors;            /* in file order: embedding, layers, final norm, head */
    size_t parameters;                     /* numbers in the tensors, padding not counted */
    size_t layer_offset[MOT_LAYER_ROLES];  /* within any layer's group; (size_t)-1: absent */
    size_t final_norm_offset, head_offset; /* in the last group; head_offset -1 when tied */
};

/* 0, or a negative errno with a message beginning with `where` (a file, or "model shape") when the
 * shape makes no sense (a size of 0, H not a multiple of K, odd D, ...). */
int mot_model_shape_check(const struct mot_model_shape *shape, const char *where);
/* Returns as mot_model_shape_check does. */
int mot_layout_create(struct mot_layout *layout, const struct mot_model_shape *shape);
void mot_layout_destroy(struct mot_layout *layout);
/* The tensor of that name, or NULL. */
const struct mot_tensor *mot_layout_find(const struct mot_layout *layout, const char *name);
size_t mot_layout_total_floats(const struct mot_layout *layout);

/* Floating-point operations of the matrix products of one token row through all layers (2 per
 * multiply-add; attention over `keys` keys included), and of one row of the head. */
double mot_layer_flop_per_token(const struct mot_model_shape *shape, double keys);
double mot_head_flop_per_token(const struct mot_model_shape *shape);
#endif
