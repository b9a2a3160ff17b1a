/* Blocks of keys and values laid out for attention's tiles; see attention_keys.h. */
#include "attention_keys.h"
#include <math.h>

struct heads heads_of(const struct mot_model_shape *shape, int layer)
{
    const int D = shape->head_dim;
    return (struct heads){
        .layer = layer,
        .H = shape->n_heads,
        .K = shape->n_kv_heads,
        .G = shape->n_heads / shape->n_kv_heads,
        .D = D,
        .Dp = MOT_CEIL_DIV(D, 16) * 16,
        .S = (size_t)(shape->n_heads + 2 * shape->n_kv_heads) * (size_t)D,
        .scale = 1.0f / sqrtf((float)D),
    };
}

void keys_to_columns(const struct heads *h, const struct mot_kv *kv, int which, int head, int start,
                     int first, int n, float *columns)
{
    const float *row = kv_row(h, kv->data, kv, which, head, start);
    for (int j = 0; j < n; j += 16, row += 16 * (size_t)h->D) {
        for (int d = 0; d < h->D; d += 16) {
            v16_transpose(row + d, (size_t)h->D, mot_min(16, n - j), mot_min(16, h->D - d),
                          columns + d * MOT_KEYS + first + j, MOT_KEYS);
        }
    }
}

void keys_to_rows(const struct heads *h, const struct mot_kv *kv, int which, int head, int start,
                  int first, int n, float *rows)
{
    const float *row = kv_row(h, kv->data, kv, which, head, start);
    for (int j = first; j < first + n; j++, row += h->D) {
        float *to = rows + (size_t)j * h->Dp;
        memcpy(to, row, (size_t)h->D * sizeof(float));
        memset(to + h->D, 0, (size_t)(h->Dp - h->D) * sizeof(float));
    }
}

void columns_add_to_rows(int D, int n, const float *columns, float *rows)
{
    float tile[16 * 16] __attribute__((aligned(64)));
    for (int j = 0; j < n; j += 16) {
        for (int d = 0; d < D; d += 16) {
            const int keys = mot_min(16, n - j), numbers = mot_min(16, D - d);
            v16_transpose(columns + d * MOT_KEYS + j, MOT_KEYS, numbers, keys, tile, 16);
            for (int r = 0; r < keys; r++) {
                float *to = rows + (size_t)(j + r) * (size_t)D + d;
                for (int i = 0; i < numbers; i++) { to[i] += tile[16 * r + i]; }
            }
        }
    }
}
