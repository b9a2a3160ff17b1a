/* prefill: CPU variant, codelet, submission.  See prefill.h. */
#include "prefill.h"
#include "packed_weights.h"
#include <stdlib.h>
#include <string.h>

size_t mot_prompt_cache_floats(const struct mot_model_shape *shape, int n_tokens)
{
    return mot_kv_bytes(shape, n_tokens) / sizeof(float) + (size_t)shape->hidden_size;
}

struct mot_kv mot_prompt_cache_kv(float *cache, int n_tokens)
{
    return (struct mot_kv){.data = cache, .capacity = n_tokens, .first_position = 0};
}

const float *mot_prompt_cache_hidden(const struct mot_model_shape *shape, const float *cache,
                                     int n_tokens)
{
    return cache + mot_kv_bytes(shape, n_tokens) / sizeof(float);
}

/* The task's argument: one block, copied at submission. */
struct argument {
    const struct mot_stage_context *context;
    int n_groups, n_packed, n_prompts, T;
    int32_t data[]; /* lengths (n_prompts), then ids (T) */
};

static void prefill_cpu(void *buffers[], void *cl_arg)
{
    const struct argument *a = cl_arg;
    const struct mot_transformer *transformer = a->context->transformer;
    const struct mot_model_shape *shape = &transformer->layout.shape;
    struct mot_exec *e = mot_cpu_exec();
    const size_t C = (size_t)shape->hidden_size, T = (size_t)a->T;
    const int n_buffers = a->n_groups + a->n_packed + a->n_prompts;
    float **pointers = mot_arena_take(e->arena, (size_t)n_buffers * sizeof(float *));
    mot_stage_pointers(buffers, n_buffers, pointers);
    float **packed = a->n_packed > 0 ? pointers + a->n_groups : NULL;
    float **caches = pointers + a->n_groups + a->n_packed;

    struct mot_segment *segments =
        mot_arena_take(e->arena, (size_t)a->n_prompts * sizeof(*segments));
    int32_t *position = mot_arena_take(e->arena, T * sizeof(int32_t));
    float *hidden = mot_arena_take(e->arena, T * C * sizeof(float));
    int first = 0;
    for (int p = 0; p < a->n_prompts; p++) {
        const int n = a->data[p];
        segments[p] = (struct mot_segment){.first = first, .count = n};
        segments[p].own = mot_prompt_cache_kv(caches[p], n);
        for (int i = 0; i < n; i++) { position[first + i] = i; }
        first += n;
    }
    const struct mot_batch batch = {.T = a->T,
                                    .n_segments = a->n_prompts,
                                    .ids = a->data + a->n_prompts,
                                    .position = position,
                                    .segments = segments};
    mot_transformer_forward_packed(e, transformer, (const float *const *)pointers,
                                   (const float *const *)packed, &batch, hidden);
    for (int p = 0; p < a->n_prompts; p++) {
        const size_t last = (size_t)(segments[p].first + segments[p].count - 1);
        float *cache = caches[p];
        memcpy(cache + mot_kv_bytes(shape, segments[p].count) / sizeof(float), hidden + last * C,
               C * sizeof(float));
    }
}

static struct starpu_perfmodel prefill_model = MOT_STAGE_MODEL("motley_prefill");

static struct starpu_codelet prefill_codelet = {
    .name = "prefill",
    .cpu_funcs = {prefill_cpu},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &prefill_model,
};

int mot_insert_prefill(const struct mot_prefill *p)
{
    const struct mot_layout *layout = &p->context->transformer->layout;
    int T = 0;
    double flop = 0.0;
    for (int i = 0; i < p->n_prompts; i++) {
        MOT_ASSERT(p->lengths[i] >= 1);
        T += p->lengths[i];
        flop += p->lengths[i] * mot_layer_flop_per_token(&layout->shape, 0.5 * p->lengths[i]);
    }
    const size_t bytes = sizeof(struct argument) + (size_t)(p->n_prompts + T) * sizeof(int32_t);
    struct argument *a = mot_alloc(bytes);
    const int n_packed = p->packed ? mot_packing_groups(layout) : 0;
    *a = (struct argument){.context = p->context,
                           .n_groups = layout->n_groups,
                           .n_packed = n_packed,
                           .n_prompts = p->n_prompts,
                           .T = T};
    int32_t *ids = a->data + p->n_prompts;
    for (int i = 0; i < p->n_prompts; i++) {
        a->data[i] = p->lengths[i];
        memcpy(ids, p->ids[i], (size_t)p->lengths[i] * sizeof(int32_t));
        ids += p->lengths[i];
    }
    struct mot_buffers b = {0};
    mot_buffers_add_all(&b, p->weights, layout->n_groups, STARPU_R);
    mot_buffers_add_all(&b, p->packed, n_packed, STARPU_R);
    mot_buffers_add_all(&b, p->caches, p->n_prompts, STARPU_W);
    struct mot_task task = {.codelet = &prefill_codelet,
                            .name = "rollout.prefill",
                            .hint = p->hint,
                            .priority = p->priority};
    task.hint.flop = flop;
    task.hint.bytes = (double)layout->parameters * p->context->number_bytes;
    task.hint.tokens = T;
    task.hint.rows = p->n_prompts;
    const int error = mot_stage_insert(&task, &b, a, bytes);
    free(a);
    return error;
}
