/* Rotary position embedding (Su et al. 2021, arXiv:2104.09864) in HF's rotate_half order, in place;
 * see kernels.h.  The inverse rotation, by the negative angle, is also the gradient. */
#include "cpu_kernels.h"
#include "dialect.h"
#include "parallel.h"

/* After dialect.h. */
#include "rope_body.h"
#include <math.h>

void mot_rope_table_fill(float *table, int positions, int head_dim, double theta)
{
    const int half = head_dim / 2;
    for (int i = 0; i < half; i++) {
        /* transformers computes the frequency in float32; the angle too. */
        const float frequency = 1.0f / (float)pow(theta, 2.0 * i / head_dim);
        for (int p = 0; p < positions; p++) {
            const float angle = (float)p * frequency;
            float *entry = table + 2 * ((size_t)p * half + i);
            entry[0] = (float)cos(angle);
            entry[1] = (float)sin(angle);
        }
    }
}

void mot_cpu_rope(struct mot_exec *e, int T, const struct mot_model_shape *shape,
                  const int32_t *position, const float *table, float *qkv, int inverse)
{
    (void)e;
    const int D = shape->head_dim, half = D / 2, heads = shape->n_heads + shape->n_kv_heads;
    const size_t S = (size_t)(shape->n_heads + 2 * shape->n_kv_heads) * D;
    const float sign = inverse ? -1.0f : 1.0f;
    MOT_PARALLEL_FOR((size_t)T * S > MOT_WORTH_A_TEAM)
    for (int t = 0; t < T; t++) {
        const float *angle = table + (size_t)position[t] * D;
        for (int h = 0; h < heads; h++) {
            float *head = qkv + (size_t)t * S + (size_t)h * D;
            for (int i = 0; i < half; i++) {
                mot_rope_pair(head + i, head + half + i, angle[2 * i], sign * angle[2 * i + 1]);
            }
        }
    }
}
