/* The vocabulary head over the kernel table: log-probs, loss gradient and sampling.  Rows of hidden
 * are gathered and their logits made, used and dropped `chunk` rows at a time, since T x V logits
 * are what exhausts memory elsewhere.  Rows do not see each other, so log-probs have the same bits
 * for every chunk; the head's weight gradient differs by rounding (its sum over rows is cut). */
#include "error.h"
#include "transformer_activations.h"

static size_t head_offset(const struct mot_layout *layout)
{
    return layout->shape.tied ? layout->tensors[0].offset : layout->head_offset;
}

static int head_group(const struct mot_layout *layout)
{
    return layout->shape.tied ? 0 : layout->n_groups - 1;
}

void mot_head_pack(struct mot_exec *e, const struct mot_transformer *t, const float *group,
                   float *packed)
{
    const struct mot_layout *layout = &t->layout;
    e->kernels->linear_pack(e, layout->shape.vocab_size, layout->shape.hidden_size,
                            group + head_offset(layout), packed);
}

void mot_head_logits(struct mot_exec *e, const struct mot_transformer *t,
                     const float *const *weights, const float *hidden, int n, float *logits)
{
    const struct mot_layout *layout = &t->layout;
    e->kernels->linear(e, n, layout->shape.vocab_size, layout->shape.hidden_size, hidden,
                       weights[head_group(layout)] + head_offset(layout), NULL, logits);
}

/* The chunk in work. */
struct chunk {
    float *rows;   /* (n, C) of hidden */
    float *logits; /* (n, V) */
    float *lse;    /* (n) */
    float *coef;   /* (n) */
    float *drows;  /* (n, C) */
};

static struct chunk take_chunk(struct mot_exec *e, const struct mot_model_shape *s,
                               const struct mot_head_targets *targets, int with_gradient)
{
    MOT_ASSERT(targets->n >= 0 && targets->chunk >= 1);
    const size_t n = (size_t)(targets->chunk < targets->n ? targets->chunk : targets->n);
    const size_t C = (size_t)s->hidden_size;
    return (struct chunk){
        .rows = mot_take_floats(e, n, C),
        .logits = mot_take_floats(e, n, (size_t)s->vocab_size),
        .lse = mot_take_floats(e, n, 1),
        .coef = with_gradient ? mot_take_floats(e, n, 1) : NULL,
        .drows = with_gradient ? mot_take_floats(e, n, C) : NULL,
    };
}

/* Log-probs and entropies of n targets from `first` on; leaves their logits and lse in c. */
static void chunk_forward(struct mot_exec *e, const struct mot_transformer *t,
                          const float *const *weights, const float *hidden,
                          const struct mot_head_targets *targets, int first, int n,
                          const struct chunk *c, float *logprob, float *entropy)
{
    const struct mot_model_shape *s = &t->layout.shape;
    e->kernels->gather_rows(e, n, s->hidden_size, targets->row + first, hidden, c->rows);
    mot_head_logits(e, t, weights, c->rows, n, c->logits);
    e->kernels->logprob(e, n, s->vocab_size, c->logits, targets->target + first,
                        targets->inv_temperature, logprob + first, entropy ? entropy + first : NULL,
                        c->lse);
}

void mot_head_logprob(struct mot_exec *e, const struct mot_transformer *t,
                      const float *const *weights, const float *hidden,
                      const struct mot_head_targets *targets, float *logprob, float *entropy)
{
    const size_t mark = mot_arena_mark(e->arena);
    const struct chunk c = take_chunk(e, &t->layout.shape, targets, 0);
    for (int first = 0; first < targets->n; first += targets->chunk) {
        const int left = targets->n - first;
        const int n = left < targets->chunk ? left : targets->chunk;
        chunk_forward(e, t, weights, hidden, targets, first, n, &c, logprob, entropy);
    }
    mot_arena_reset(e->arena, mark);
}

void mot_head_loss(struct mot_exec *e, const struct mot_transformer *t, const float *const *weights,
                   const float *hidden, const struct mot_head_targets *targets, mot_loss_coef loss,
                   void *context, float *logprob, float *entropy, float *dhidden,
                   float *const *grads)
{
    const struct mot_kernels *k = e->kernels;
    const struct mot_layout *layout = &t->layout;
    const int V = layout->shape.vocab_size, C = layout->shape.hidden_size;
    const float *w = weights[head_group(layout)] + head_offset(layout);
    float *dw = grads[head_group(layout)] + head_offset(layout);

    const size_t mark = mot_arena_mark(e->arena);
    const struct chunk c = take_chunk(e, &layout->shape, targets, 1);
    for (int first = 0; first < targets->n; first += targets->chunk) {
        const int left = targets->n - first;
        const int n = left < targets->chunk ? left : targets->chunk;
        chunk_forward(e, t, weights, hidden, targets, first, n, &c, logprob, entropy);
        loss(context, first, n, logprob + first, entropy ? entropy + first : NULL, c.coef);
        k->logprob_grad(e, n, V, c.logits, targets->target + first, targets->inv_temperature, c.lse,
                        c.coef);
        k->linear_grad_input(e, n, V, C, c.logits, w, c.drows, 0);
        k->scatter_add_rows(e, n, C, targets->row + first, c.drows, dhidden);
        k->linear_grad_weight(e, n, V, C, c.logits, c.rows, dw, NULL);
    }
    mot_arena_reset(e->arena, mark);
}

void mot_head_sample(struct mot_exec *e, const struct mot_transformer *t,
                     const float *const *weights, const float *packed, const float *hidden, int n,
                     const struct mot_sampling *sampling, const float *uniform,
                     struct mot_sampled *out)
{
    const int V = t->layout.shape.vocab_size, C = t->layout.shape.hidden_size;
    const size_t mark = mot_arena_mark(e->arena);
    float *logits = mot_take_floats(e, (size_t)n, (size_t)V);
    if (packed) {
        e->kernels->linear_packed(e, n, V, C, hidden, packed, NULL, logits);
    } else {
        mot_head_logits(e, t, weights, hidden, n, logits);
    }
    e->kernels->sample(e, n, V, logits, sampling, uniform, out);
    mot_arena_reset(e->arena, mark);
}
