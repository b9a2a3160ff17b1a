/* The decoder's forward pass over the kernel table: embedding, then per layer
 *
 *   middle = x + o(attention(rope(norms(qkv(rmsnorm(x))))))
 *   x      = middle + down(swiglu(gate_up(rmsnorm(middle))))
 *
 * and the final norm.  Sources: Touvron et al. 2023, arXiv:2302.13971 (Llama); Qwen team 2024 and
 * 2025, arXiv:2407.10671 (biases), 2505.09388 (norms of the heads of q and k).  With and without
 * keeping activations the kernels see the same numbers, so both give the same bits. */
#include "error.h"
#include "transformer_activations.h"
#include <stdlib.h>

int mot_transformer_create(struct mot_transformer *t, const struct mot_model_shape *shape)
{
    const int error = mot_layout_create(&t->layout, shape);
    if (error) { return error; }
    const size_t *at = t->layout.layer_offset;
    const size_t C = (size_t)shape->hidden_size, D = (size_t)shape->head_dim;
    const size_t q = (size_t)shape->n_heads * D, kv = (size_t)shape->n_kv_heads * D;
    MOT_ASSERT(at[MOT_K] == at[MOT_Q] + q * C && at[MOT_V] == at[MOT_K] + kv * C);
    MOT_ASSERT(!shape->qkv_bias
               || (at[MOT_K_BIAS] == at[MOT_Q_BIAS] + q && at[MOT_V_BIAS] == at[MOT_K_BIAS] + kv));
    MOT_ASSERT(at[MOT_UP] == at[MOT_GATE] + (size_t)shape->intermediate_size * C);

    t->rope_table = mot_alloc((size_t)shape->max_position * D * sizeof(float));
    mot_rope_table_fill(t->rope_table, shape->max_position, shape->head_dim, shape->rope_theta);
    return 0;
}

void mot_transformer_destroy(struct mot_transformer *t)
{
    free(t->rope_table);
    t->rope_table = NULL;
    mot_layout_destroy(&t->layout);
}

void mot_transformer_find_packing(struct mot_transformer *t, const struct mot_kernels *kernels)
{
    const struct mot_model_shape *s = &t->layout.shape;
    const int C = s->hidden_size, I = s->intermediate_size, HD = s->n_heads * s->head_dim;
    const int sizes[5][2] = {
        {mot_qkv_width(s), C}, {C, HD}, {2 * I, C}, {C, I}, {s->vocab_size, C}};
    size_t floats[5];
    t->packing = (struct mot_packing){0};
    for (int i = 0; i < 5; i++) {
        const size_t bytes = kernels->linear_pack_bytes(sizes[i][0], sizes[i][1]);
        if (bytes == 0) { return; }
        floats[i] = bytes / sizeof(float);
    }
    t->packing.o = floats[0];
    t->packing.gate_up = t->packing.o + floats[1];
    t->packing.down = t->packing.gate_up + floats[2];
    t->packing.layer_floats = t->packing.down + floats[3];
    t->packing.head_floats = floats[4];
}

void mot_transformer_pack_layer(struct mot_exec *e, const struct mot_transformer *t,
                                const float *group, float *packed)
{
    const struct mot_model_shape *s = &t->layout.shape;
    const struct mot_packing *at = &t->packing;
    const struct mot_layer_weights w = mot_layer_weights(&t->layout, group);
    const int C = s->hidden_size, I = s->intermediate_size;
    e->kernels->linear_pack(e, mot_qkv_width(s), C, w.qkv, packed);
    e->kernels->linear_pack(e, C, s->n_heads * s->head_dim, w.o, packed + at->o);
    e->kernels->linear_pack(e, 2 * I, C, w.gate_up, packed + at->gate_up);
    e->kernels->linear_pack(e, C, I, w.down, packed + at->down);
}

size_t mot_kv_bytes(const struct mot_model_shape *s, int capacity)
{
    return (size_t)s->n_layers * 2 * (size_t)s->n_kv_heads * (size_t)capacity * (size_t)s->head_dim
           * sizeof(float);
}

struct mot_layer_weights mot_layer_weights(const struct mot_layout *layout, const float *group)
{
    float *base = (float *)group; /* gradients are written through the result, weights never */
    const size_t *at = layout->layer_offset;
    const struct mot_model_shape *s = &layout->shape;
    return (struct mot_layer_weights){
        .input_norm = base + at[MOT_INPUT_NORM],
        .qkv = base + at[MOT_Q],
        .qkv_bias = s->qkv_bias ? base + at[MOT_Q_BIAS] : NULL,
        .q_norm = s->qk_norm ? base + at[MOT_Q_NORM] : NULL,
        .k_norm = s->qk_norm ? base + at[MOT_K_NORM] : NULL,
        .o = base + at[MOT_O],
        .post_norm = base + at[MOT_POST_NORM],
        .gate_up = base + at[MOT_GATE],
        .down = base + at[MOT_DOWN],
    };
}

float *mot_take_floats(struct mot_exec *e, size_t rows, size_t columns)
{
    return mot_arena_take(e->arena, rows * columns * sizeof(float));
}

void mot_qkv_finish(struct mot_exec *e, const struct mot_transformer *t,
                    const struct mot_layer_weights *w, const struct mot_batch *batch, float *raw,
                    float *qkv, float *rstd)
{
    const struct mot_kernels *k = e->kernels;
    const struct mot_model_shape *s = &t->layout.shape;
    const int S = mot_qkv_width(s), D = s->head_dim, T = batch->T;

    if (s->qk_norm) {
        MOT_ASSERT(raw != qkv);
        k->zero(e, (size_t)T * (size_t)S, qkv); /* the v columns pass unchanged */
        k->accumulate(e, (size_t)T * (size_t)S, raw, qkv);
        for (int h = 0; h < s->n_heads + s->n_kv_heads; h++) {
            k->rmsnorm(e, T, D, S, raw + h * D, h < s->n_heads ? w->q_norm : w->k_norm, s->norm_eps,
                       qkv + h * D, rstd ? rstd + (size_t)h * (size_t)T : NULL);
        }
    } else {
        MOT_ASSERT(raw == qkv);
    }
    k->rope(e, T, s, batch->position, t->rope_table, qkv, 0);
}

/* The buffers one layer writes. */
struct layer_scratch {
    float *normed; /* (T, C); also the outputs of o and down */
    float *qkv;    /* (T, S), qk_norm only */
    float *swiglu; /* (T, I) */
};

/* y = x w^T + bias, with the matrix at `offset` of the layer's packed group where there is one. */
static void multiply(struct mot_exec *e, int T, int N, int K, const float *x, const float *w,
                     const float *packed, size_t offset, const float *bias, float *y)
{
    if (packed) {
        e->kernels->linear_packed(e, T, N, K, x, packed + offset, bias, y);
    } else {
        e->kernels->linear(e, T, N, K, x, w, bias, y);
    }
}

/* next (T, C) = the layer's output; may be a->x.  packed: the layer's packed group, or NULL. */
static void layer_forward(struct mot_exec *e, const struct mot_transformer *t, int layer,
                          const struct mot_layer_weights *w, const float *packed,
                          const struct mot_batch *batch, const struct mot_layer_activations *a,
                          const struct layer_scratch *tmp, float *next)
{
    const struct mot_kernels *k = e->kernels;
    const struct mot_model_shape *s = &t->layout.shape;
    const int T = batch->T, C = s->hidden_size, I = s->intermediate_size;
    const int HD = s->n_heads * s->head_dim;
    const struct mot_packing *at = &t->packing;
    const size_t TC = (size_t)T * (size_t)C;
    float *qkv = s->qk_norm ? tmp->qkv : a->qkv;

    k->rmsnorm(e, T, C, C, a->x, w->input_norm, s->norm_eps, tmp->normed, NULL);
    multiply(e, T, mot_qkv_width(s), C, tmp->normed, w->qkv, packed, 0, w->qkv_bias, a->qkv);
    mot_qkv_finish(e, t, w, batch, a->qkv, qkv, NULL);
    k->attention(e, s, layer, batch->segments, batch->n_segments, qkv, a->attention, a->lse);
    multiply(e, T, C, HD, a->attention, w->o, packed, at->o, NULL, tmp->normed);
    k->add(e, TC, a->x, tmp->normed, a->middle);

    k->rmsnorm(e, T, C, C, a->middle, w->post_norm, s->norm_eps, tmp->normed, NULL);
    multiply(e, T, 2 * I, C, tmp->normed, w->gate_up, packed, at->gate_up, NULL, a->gate_up);
    k->swiglu(e, T, I, a->gate_up, tmp->swiglu);
    multiply(e, T, C, I, tmp->swiglu, w->down, packed, at->down, NULL, tmp->normed);
    k->add(e, TC, a->middle, tmp->normed, next);
}

static struct mot_layer_activations take_layer(struct mot_exec *e, const struct mot_model_shape *s,
                                               int T)
{
    const size_t rows = (size_t)T, C = (size_t)s->hidden_size, H = (size_t)s->n_heads;
    return (struct mot_layer_activations){
        .x = mot_take_floats(e, rows, C),
        .qkv = mot_take_floats(e, rows, (size_t)mot_qkv_width(s)),
        .attention = mot_take_floats(e, rows, H * (size_t)s->head_dim),
        .lse = mot_take_floats(e, rows, H),
        .middle = mot_take_floats(e, rows, C),
        .gate_up = mot_take_floats(e, rows, 2 * (size_t)s->intermediate_size),
    };
}

static struct mot_activations *take_activations(struct mot_exec *e, const struct mot_model_shape *s,
                                                int T)
{
    struct mot_activations *kept = mot_arena_take(e->arena, sizeof(*kept));
    kept->T = T;
    kept->layers = mot_arena_take(e->arena, (size_t)s->n_layers * sizeof(*kept->layers));
    for (int l = 0; l < s->n_layers; l++) { kept->layers[l] = take_layer(e, s, T); }
    kept->x = mot_take_floats(e, (size_t)T, (size_t)s->hidden_size);
    return kept;
}

/* Segments must cover the rows in order, stay inside their caches and inside the context. */
static void check_batch(const struct mot_model_shape *s, const struct mot_batch *batch)
{
    int row = 0;
    for (int i = 0; i < batch->n_segments; i++) {
        const struct mot_segment *g = &batch->segments[i];
        const int end = g->position + g->count; /* one past the last absolute position */
        MOT_ASSERT(g->first == row && g->count > 0);
        MOT_ASSERT(g->position >= g->own.first_position && end <= s->max_position);
        MOT_ASSERT(g->own.data && end - g->own.first_position <= g->own.capacity);
        MOT_ASSERT(g->prefix.data ? g->prefix.first_position == 0
                                        && g->own.first_position <= g->prefix.capacity
                                  : g->own.first_position == 0);
        row += g->count;
    }
    MOT_ASSERT(row == batch->T);
}

static void forward(struct mot_exec *e, const struct mot_transformer *t,
                    const float *const *weights, const float *const *packed,
                    const struct mot_batch *batch, float *hidden, struct mot_activations **keep)
{
    const struct mot_kernels *k = e->kernels;
    const struct mot_model_shape *s = &t->layout.shape;
    const int T = batch->T, C = s->hidden_size;
    const size_t rows = (size_t)T;
    check_batch(s, batch);

    struct mot_activations *kept = keep ? take_activations(e, s, T) : NULL;
    const size_t mark = mot_arena_mark(e->arena);
    struct mot_layer_activations one; /* nothing kept: every layer works in the same buffers */
    if (!kept) {
        one = take_layer(e, s, T);
        one.lse = NULL;
    }
    struct layer_scratch tmp = {
        .normed = mot_take_floats(e, rows, (size_t)C),
        .qkv = s->qk_norm ? mot_take_floats(e, rows, (size_t)mot_qkv_width(s)) : NULL,
        .swiglu = mot_take_floats(e, rows, (size_t)s->intermediate_size),
    };

    float *x = kept ? kept->layers[0].x : one.x;
    k->embed(e, T, C, batch->ids, weights[0] + t->layout.tensors[0].offset, x);
    for (int l = 0; l < s->n_layers; l++) {
        const struct mot_layer_weights w = mot_layer_weights(&t->layout, weights[l + 1]);
        if (kept) { x = l + 1 < s->n_layers ? kept->layers[l + 1].x : kept->x; }
        layer_forward(e, t, l, &w, packed ? packed[l] : NULL, batch, kept ? &kept->layers[l] : &one,
                      &tmp, x);
    }
    const float *final_norm = weights[t->layout.n_groups - 1] + t->layout.final_norm_offset;
    k->rmsnorm(e, T, C, C, x, final_norm, s->norm_eps, hidden, NULL);

    mot_arena_reset(e->arena, mark);
    if (keep) { *keep = kept; }
}

void mot_transformer_forward(struct mot_exec *e, const struct mot_transformer *t,
                             const float *const *weights, const struct mot_batch *batch,
                             float *hidden, struct mot_activations **keep)
{
    forward(e, t, weights, NULL, batch, hidden, keep);
}

void mot_transformer_forward_packed(struct mot_exec *e, const struct mot_transformer *t,
                                    const float *const *weights, const float *const *packed,
                                    const struct mot_batch *batch, float *hidden)
{
    forward(e, t, weights, packed, batch, hidden, NULL);
}
