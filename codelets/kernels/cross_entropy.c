/* Log-probabilities and entropies of rows of logits, and their gradient; see kernels.h and
 * softmax_row.h.
 *
 *   lse = max inv_temperature + log sum exp(z),  logprob = z_target - log sum
 *   entropy = -sum p log p = log sum - (sum exp(z) z) / sum */
#include "cpu_kernels.h"
#include "fast_math.h"
#include "parallel.h"
#include "softmax_row.h"
#include <math.h>

static float row_max(int V, const float *logits)
{
    v16 max[4];
    for (int k = 0; k < 4; k++) { max[k] = v16_all(-INFINITY); }
    int i = 0;
    for (; i + 64 <= V; i += 64) {
        for (int k = 0; k < 4; k++) { max[k] = v16_larger(v16_load(logits + i + 16 * k), max[k]); }
    }
    for (; i < V; i += 16) {
        const int n = mot_min(16, V - i);
        max[0] = v16_larger(v16_keep_n(v16_load_n(logits + i, n), n, -INFINITY), max[0]);
    }
    return v16_max(v16_larger(v16_larger(max[0], max[1]), v16_larger(max[2], max[3])));
}

struct block {
    v16 sum[4], weighted[4];
};

/* Adds n (1 .. 16) columns to lane group k. */
V16_INLINE void add_lanes(struct block *b, int k, v16 logits, int n, v16 max, v16 scale,
                          int with_entropy)
{
    const v16 z = (logits - max) * scale;
    v16 p = v16_exp(z);
    if (n < 16) { p = v16_keep_n(p, n, 0.0f); }
    b->sum[k] += p;
    /* exp(z) z is 0 where exp(z) is, also for z = -inf. */
    if (with_entropy) { b->weighted[k] += v16_select(p == v16_all(0.0f), v16_all(0.0f), p * z); }
}

V16_INLINE struct block read_block(int n, const float *logits, float max_, float scale_,
                                   int with_entropy)
{
    const v16 max = v16_all(max_), scale = v16_all(scale_);
    struct block b;
    for (int k = 0; k < 4; k++) { b.sum[k] = b.weighted[k] = v16_all(0.0f); }
    int i = 0;
    for (; i + 64 <= n; i += 64) {
        for (int k = 0; k < 4; k++) {
            add_lanes(&b, k, v16_load(logits + i + 16 * k), 16, max, scale, with_entropy);
        }
    }
    for (int k = 0; i < n; i += 16, k++) {
        const int left = mot_min(16, n - i);
        add_lanes(&b, k, v16_load_n(logits + i, left), left, max, scale, with_entropy);
    }
    return b;
}

static inline float join(const v16 lanes[4])
{
    return v16_sum((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
}

struct mot_softmax_row mot_softmax_row_read(int V, const float *logits, float inv_temperature,
                                            int with_entropy, float *block_sums)
{
    struct mot_softmax_row row = {.max = row_max(V, logits), .inv_temperature = inv_temperature};
    for (int i = 0, b = 0; i < V; i += MOT_SOFTMAX_BLOCK, b++) {
        const int n = mot_min(MOT_SOFTMAX_BLOCK, V - i);
        const struct block block = with_entropy
                                       ? read_block(n, logits + i, row.max, inv_temperature, 1)
                                       : read_block(n, logits + i, row.max, inv_temperature, 0);
        const float sum = join(block.sum);
        if (block_sums) { block_sums[b] = sum; }
        row.sum += (double)sum;
        row.weighted += (double)join(block.weighted);
    }
    row.log_sum = mot_log((float)row.sum);
    return row;
}

float mot_softmax_row_logprob(const struct mot_softmax_row *row, float logit)
{
    return (logit - row->max) * row->inv_temperature - row->log_sum;
}

float mot_softmax_row_entropy(const struct mot_softmax_row *row)
{
    return row->log_sum - (float)(row->weighted / row->sum);
}

void mot_cpu_logprob(struct mot_exec *e, int R, int V, const float *logits, const int32_t *target,
                     float inv_temperature, float *logprob, float *entropy, float *lse)
{
    (void)e;
    MOT_PARALLEL_FOR((size_t)R * V > MOT_WORTH_A_TEAM / 4)
    for (int r = 0; r < R; r++) {
        const float *x = logits + (size_t)r * V;
        const struct mot_softmax_row row =
            mot_softmax_row_read(V, x, inv_temperature, entropy != NULL, NULL);
        logprob[r] = mot_softmax_row_logprob(&row, x[target[r]]);
        if (entropy) { entropy[r] = mot_softmax_row_entropy(&row); }
        if (lse) { lse[r] = row.max * inv_temperature + row.log_sum; }
    }
}

void mot_cpu_logprob_grad(struct mot_exec *e, int R, int V, float *logits, const int32_t *target,
                          float inv_temperature, const float *lse, const float *coef)
{
    (void)e;
    MOT_PARALLEL_FOR((size_t)R * V > MOT_WORTH_A_TEAM / 4)
    for (int r = 0; r < R; r++) {
        float *x = logits + (size_t)r * V;
        const float at_target = x[target[r]], weight = coef[r] * inv_temperature;
        const v16 scale = v16_all(inv_temperature), shift = v16_all(-lse[r]);
        for (int i = 0; i < V; i += 16) {
            const int n = mot_min(16, V - i);
            const v16 p = v16_exp(v16_fma(v16_load_n(x + i, n), scale, shift));
            v16_store_n(x + i, v16_all(-weight) * p, n);
        }
        const float p = mot_exp(__builtin_fmaf(at_target, inv_temperature, -lse[r]));
        x[target[r]] = weight * (1.0f - p);
    }
}
