/* For tests of the transformer: a network with random or loaded weights, its gradients, and packed
 * batches of whole sequences. */
#ifndef MOT_TEST_NETWORK_H
#define MOT_TEST_NETWORK_H
#include "error.h"
#include "rng.h"
#include "transformer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct network {
    struct mot_transformer t;
    struct mot_exec e;
    float **weights, **grads; /* (groups) */
};

static inline float **network_groups(const struct mot_layout *layout)
{
    float **groups = mot_alloc_zeroed((size_t)layout->n_groups, sizeof(*groups));
    for (int g = 0; g < layout->n_groups; g++) {
        const size_t bytes = (layout->group_floats[g] * sizeof(float) + 63) / 64 * 64;
        groups[g] = aligned_alloc(64, bytes);
        MOT_ASSERT(groups[g]);
        memset(groups[g], 0, bytes);
    }
    return groups;
}

static inline void network_free_groups(const struct mot_layout *layout, float **groups)
{
    for (int g = 0; groups && g < layout->n_groups; g++) { free(groups[g]); }
    free(groups);
}

/* Takes weights; NULL: random ones, large enough that attention is far from uniform. */
static inline struct network network_create(const struct mot_model_shape *shape, float **weights,
                                            uint64_t seed)
{
    struct network net = {.e = {.kernels = &mot_kernels_cpu, .arena = mot_arena_create()}};
    MOT_ASSERT(mot_matmul_self_test(shape) == 0);
    MOT_ASSERT(mot_transformer_create(&net.t, shape) == 0);
    const struct mot_layout *layout = &net.t.layout;
    net.grads = network_groups(layout);
    net.weights = weights ? weights : network_groups(layout);
    for (int i = 0; !weights && i < layout->n_tensors; i++) {
        const struct mot_tensor *tensor = &layout->tensors[i];
        float *w = net.weights[tensor->group] + tensor->offset;
        const int is_norm = strstr(tensor->name, "norm") != NULL;
        const float scale = tensor->dimensions == 1 ? 0.2f : 0.15f;
        for (int k = 0; k < tensor->rows * tensor->cols; k++) {
            w[k] = (is_norm ? 1.0f : 0.0f)
                   + scale * mot_normal(seed, MOT_RNG_TEST, (uint32_t)i, (uint32_t)k, 0);
        }
    }
    return net;
}

static inline void network_destroy(struct network *net)
{
    network_free_groups(&net->t.layout, net->weights);
    network_free_groups(&net->t.layout, net->grads);
    mot_transformer_destroy(&net->t);
    mot_arena_destroy(net->e.arena);
}

static inline const float *const *network_weights(const struct network *net)
{
    return (const float *const *)net->weights;
}

static inline void network_zero_grads(struct network *net)
{
    const struct mot_layout *layout = &net->t.layout;
    for (int g = 0; g < layout->n_groups; g++) {
        memset(net->grads[g], 0, layout->group_floats[g] * sizeof(float));
    }
}

static inline double network_norm(const float *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) { sum += (double)x[i] * x[i]; }
    return sqrt(sum);
}

/* A cache for positions first_position .. first_position + capacity - 1, in the arena. */
static inline struct mot_kv network_kv(struct network *net, int first_position, int capacity)
{
    const size_t bytes = mot_kv_bytes(&net->t.layout.shape, capacity);
    struct mot_kv kv = {mot_arena_take(net->e.arena, bytes), capacity, first_position};
    memset(kv.data, 0xff, bytes); /* NaN: what was not written must not be read */
    return kv;
}

/* One run of tokens; the segment's first row and the caches are filled in by network_batch. */
struct run {
    const int32_t *ids;
    int n, position;
    struct mot_kv prefix, own; /* own.data NULL: a fresh cache of exactly this run */
};

/* Packs the runs, in the arena. */
static inline struct mot_batch network_batch(struct network *net, const struct run *runs, int n)
{
    int T = 0;
    for (int i = 0; i < n; i++) { T += runs[i].n; }
    struct mot_arena *arena = net->e.arena;
    int32_t *ids = mot_arena_take(arena, sizeof(int32_t) * (size_t)T);
    int32_t *position = mot_arena_take(arena, sizeof(int32_t) * (size_t)T);
    struct mot_segment *segments = mot_arena_take(arena, sizeof(*segments) * (size_t)n);
    int row = 0;
    for (int i = 0; i < n; i++) {
        segments[i] = (struct mot_segment){.first = row,
                                           .count = runs[i].n,
                                           .position = runs[i].position,
                                           .prefix = runs[i].prefix,
                                           .own = runs[i].own};
        if (!runs[i].own.data) { segments[i].own = network_kv(net, runs[i].position, runs[i].n); }
        for (int k = 0; k < runs[i].n; k++, row++) {
            ids[row] = runs[i].ids[k];
            position[row] = runs[i].position + k;
        }
    }
    return (struct mot_batch){T, n, ids, position, segments};
}

/* Forward of a batch; hidden (T, C) in the arena. */
static inline float *network_forward(struct network *net, const struct mot_batch *batch,
                                     struct mot_activations **keep)
{
    float *hidden = mot_arena_take(net->e.arena, sizeof(float) * (size_t)batch->T
                                                     * (size_t)net->t.layout.shape.hidden_size);
    mot_transformer_forward(&net->e, &net->t, network_weights(net), batch, hidden, keep);
    return hidden;
}
#endif
