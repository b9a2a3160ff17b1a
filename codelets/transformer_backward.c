/* The decoder's backward pass over the kernel table: transformer.c read from its end.  What the
 * forward did not keep is computed again with the same kernels.  Every sum over rows has the order
 * of the batch's rows, and layers add to their gradients in one order, so equal batches give equal
 * bits. */
#include "error.h"
#include "transformer_activations.h"

/* Buffers that all layers use in turn. */
struct backward_scratch {
    float *normed;  /* (T, C) output of a norm, computed again */
    float *dnormed; /* (T, C) */
    float *rstd;    /* (T) */
    float *wide;    /* (T, I) swiglu, then its gradient */
    float *dqkv;    /* (T, S) */
    float *datt;    /* (T, H D) */
    float *qkv;     /* (T, S), qk_norm only: normed and rotated */
    float *rstd_qk; /* (H + K, T), qk_norm only */
    /* The batch's segments as seen by one layer: their caches begin at that layer's part, so that
     * the layer is number 0 and the gradients of keys and values need the room of one layer. */
    struct mot_segment *segments;
    float *dkv;
    size_t dkv_floats;
};

static size_t kv_layer_floats(const struct mot_model_shape *s, const struct mot_kv *kv)
{
    return 2 * (size_t)s->n_kv_heads * (size_t)kv->capacity * (size_t)s->head_dim;
}

/* Room for every segment's own_grad, and prefix_grad = own_grad of the segment that owns it. */
static void take_segments(struct mot_exec *e, const struct mot_model_shape *s,
                          const struct mot_batch *batch, struct backward_scratch *b)
{
    const int n = batch->n_segments;
    b->segments = mot_arena_take(e->arena, (size_t)n * sizeof(*b->segments));
    b->dkv_floats = 0;
    for (int i = 0; i < n; i++) { b->dkv_floats += kv_layer_floats(s, &batch->segments[i].own); }
    b->dkv = mot_take_floats(e, 1, b->dkv_floats);
    float *next = b->dkv;
    for (int i = 0; i < n; i++) {
        struct mot_segment *g = &b->segments[i];
        *g = batch->segments[i];
        MOT_ASSERT(g->own.first_position == g->position); /* all its keys are rows of this batch */
        g->own_grad = next;
        g->prefix_grad = NULL;
        next += kv_layer_floats(s, &g->own);
        for (int owner = 0; g->prefix.data && owner < i; owner++) {
            if (batch->segments[owner].own.data == g->prefix.data) {
                MOT_ASSERT(batch->segments[owner].own.capacity == g->prefix.capacity);
                g->prefix_grad = b->segments[owner].own_grad;
            }
        }
        MOT_ASSERT(!g->prefix.data || g->prefix_grad); /* its owner comes first in the batch */
    }
}

static void aim_segments_at_layer(const struct mot_model_shape *s, const struct mot_batch *batch,
                                  int layer, struct mot_segment *segments)
{
    for (int i = 0; i < batch->n_segments; i++) {
        const struct mot_segment *from = &batch->segments[i];
        segments[i].own.data = from->own.data + (size_t)layer * kv_layer_floats(s, &from->own);
        if (from->prefix.data) {
            segments[i].prefix.data =
                from->prefix.data + (size_t)layer * kv_layer_floats(s, &from->prefix);
        }
    }
}

static struct backward_scratch take_scratch(struct mot_exec *e, const struct mot_model_shape *s,
                                            const struct mot_batch *batch)
{
    const size_t T = (size_t)batch->T, C = (size_t)s->hidden_size;
    const size_t S = (size_t)mot_qkv_width(s), D = (size_t)s->head_dim;
    struct backward_scratch b = {
        .normed = mot_take_floats(e, T, C),
        .dnormed = mot_take_floats(e, T, C),
        .rstd = mot_take_floats(e, T, 1),
        .wide = mot_take_floats(e, T, (size_t)s->intermediate_size),
        .dqkv = mot_take_floats(e, T, S),
        .datt = mot_take_floats(e, T, (size_t)s->n_heads * D),
        .qkv = s->qk_norm ? mot_take_floats(e, T, S) : NULL,
        .rstd_qk = s->qk_norm ? mot_take_floats(e, T, S / D) : NULL,
    };
    take_segments(e, s, batch, &b);
    return b;
}

/* dx (T, C): gradient of the layer's output on entry, of `middle` on return; a->gate_up is lost. */
static void mlp_backward(struct mot_exec *e, const struct mot_model_shape *s, int T,
                         const struct mot_layer_weights *w, const struct mot_layer_weights *dw,
                         const struct mot_layer_activations *a, const struct backward_scratch *b,
                         float *dx)
{
    const struct mot_kernels *k = e->kernels;
    const int C = s->hidden_size, I = s->intermediate_size;

    k->swiglu(e, T, I, a->gate_up, b->wide);
    k->linear_grad_weight(e, T, C, I, dx, b->wide, dw->down, NULL);
    k->linear_grad_input(e, T, C, I, dx, w->down, b->wide, 0);
    k->swiglu_grad(e, T, I, a->gate_up, b->wide, a->gate_up);

    k->rmsnorm(e, T, C, C, a->middle, w->post_norm, s->norm_eps, b->normed, b->rstd);
    k->linear_grad_weight(e, T, 2 * I, C, a->gate_up, b->normed, dw->gate_up, NULL);
    k->linear_grad_input(e, T, 2 * I, C, a->gate_up, w->gate_up, b->dnormed, 0);
    k->rmsnorm_grad(e, T, C, C, a->middle, w->post_norm, b->rstd, b->dnormed, dx, 1, dw->post_norm);
}

/* dqkv: from the gradient of the rotated rows to that of the projection's output, in place. */
static void qkv_unfinish(struct mot_exec *e, const struct mot_transformer *t,
                         const struct mot_layer_weights *w, const struct mot_layer_weights *dw,
                         const struct mot_batch *batch, const struct mot_layer_activations *a,
                         const struct backward_scratch *b)
{
    const struct mot_kernels *k = e->kernels;
    const struct mot_model_shape *s = &t->layout.shape;
    const int T = batch->T, D = s->head_dim, S = mot_qkv_width(s);

    k->rope(e, T, s, batch->position, t->rope_table, b->dqkv, 1);
    if (!s->qk_norm) { return; }
    for (int h = 0; h < s->n_heads + s->n_kv_heads; h++) {
        const int is_q = h < s->n_heads;
        k->rmsnorm_grad(e, T, D, S, a->qkv + h * D, is_q ? w->q_norm : w->k_norm,
                        b->rstd_qk + (size_t)h * (size_t)T, b->dqkv + h * D, b->dqkv + h * D, 0,
                        is_q ? dw->q_norm : dw->k_norm);
    }
}

/* dx (T, C): gradient of `middle` on entry, of the layer's input on return. */
static void attention_backward(struct mot_exec *e, const struct mot_transformer *t,
                               const struct mot_layer_weights *w,
                               const struct mot_layer_weights *dw, const struct mot_batch *batch,
                               const struct mot_layer_activations *a,
                               const struct backward_scratch *b, float *dx)
{
    const struct mot_kernels *k = e->kernels;
    const struct mot_model_shape *s = &t->layout.shape;
    const int T = batch->T, C = s->hidden_size, S = mot_qkv_width(s);
    const int HD = s->n_heads * s->head_dim;

    k->linear_grad_weight(e, T, C, HD, dx, a->attention, dw->o, NULL);
    k->linear_grad_input(e, T, C, HD, dx, w->o, b->datt, 0);
    if (s->qk_norm) { mot_qkv_finish(e, t, w, batch, a->qkv, b->qkv, b->rstd_qk); }
    k->zero(e, b->dkv_floats, b->dkv);
    k->attention_grad(e, s, 0, b->segments, batch->n_segments, s->qk_norm ? b->qkv : a->qkv,
                      a->attention, a->lse, b->datt, b->dqkv);
    qkv_unfinish(e, t, w, dw, batch, a, b);

    k->rmsnorm(e, T, C, C, a->x, w->input_norm, s->norm_eps, b->normed, b->rstd);
    k->linear_grad_weight(e, T, S, C, b->dqkv, b->normed, dw->qkv, dw->qkv_bias);
    k->linear_grad_input(e, T, S, C, b->dqkv, w->qkv, b->dnormed, 0);
    k->rmsnorm_grad(e, T, C, C, a->x, w->input_norm, b->rstd, b->dnormed, dx, 1, dw->input_norm);
}

void mot_transformer_backward(struct mot_exec *e, const struct mot_transformer *t,
                              const float *const *weights, const struct mot_batch *batch,
                              struct mot_activations *kept, float *dhidden, float *const *grads)
{
    const struct mot_kernels *k = e->kernels;
    const struct mot_layout *layout = &t->layout;
    const struct mot_model_shape *s = &layout->shape;
    const int T = batch->T, C = s->hidden_size, last = layout->n_groups - 1;
    MOT_ASSERT(kept && kept->T == T);

    const size_t mark = mot_arena_mark(e->arena);
    struct backward_scratch b = take_scratch(e, s, batch);
    float *dx = dhidden;
    const float *final_norm = weights[last] + layout->final_norm_offset;
    k->rmsnorm(e, T, C, C, kept->x, final_norm, s->norm_eps, b.normed, b.rstd);
    k->rmsnorm_grad(e, T, C, C, kept->x, final_norm, b.rstd, dx, dx, 0,
                    grads[last] + layout->final_norm_offset);

    for (int l = s->n_layers - 1; l >= 0; l--) {
        const struct mot_layer_weights w = mot_layer_weights(layout, weights[l + 1]);
        const struct mot_layer_weights dw = mot_layer_weights(layout, grads[l + 1]);
        const struct mot_layer_activations *a = &kept->layers[l];
        aim_segments_at_layer(s, batch, l, b.segments);
        mlp_backward(e, s, T, &w, &dw, a, &b, dx);
        attention_backward(e, t, &w, &dw, batch, a, &b, dx);
    }
    k->embed_grad(e, T, C, batch->ids, dx, grads[0] + layout->tensors[0].offset);
    mot_arena_reset(e->arena, mark);
}
