/* The three products of attention on tiles of up to 4 queries and one block of 64 keys, shared by
 * the forward and the backward.  In each, an element is one chain of fused multiply-adds in the
 * order written below, so it does not depend on the tile's size or place.
 *
 * A head's D numbers are padded to Dp, a multiple of 16, with zeros; a block of keys holds rows
 * (64, Dp) or columns (D, 64); keys that are not there are zero. */
#ifndef MOT_ATTENTION_TILES_H
#define MOT_ATTENTION_TILES_H
#include "parallel.h"
#include "vec16.h"

enum { MOT_KEYS = 64, MOT_TILE = 4 };

/* s[r][j] = sum over ascending d of q[r][d] columns[d][j]. */
V16_INLINE void tile_scores_n(int R, int D, const float *const *q, const float *columns,
                              float (*s)[MOT_KEYS])
{
    v16 sum[MOT_TILE][4];
    for (int r = 0; r < R; r++) {
        for (int v = 0; v < 4; v++) { sum[r][v] = v16_all(0.0f); }
    }
    for (int d = 0; d < D; d++) {
        v16 key[4];
        for (int v = 0; v < 4; v++) { key[v] = v16_load(columns + d * MOT_KEYS + 16 * v); }
        for (int r = 0; r < R; r++) {
            const v16 a = v16_all(q[r][d]);
            for (int v = 0; v < 4; v++) { sum[r][v] = v16_fma(a, key[v], sum[r][v]); }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int v = 0; v < 4; v++) { v16_store(s[r] + 16 * v, sum[r][v]); }
    }
}

/* out[r][d] += sum over ascending j < keys of p[r][j] rows[j][d], for `vectors` times 16 d. */
V16_INLINE void tile_mix_columns(int R, int vectors, int keys, float (*p)[MOT_KEYS],
                                 const float *rows, int Dp, float *const *out)
{
    v16 sum[MOT_TILE][4];
    for (int r = 0; r < R; r++) {
        for (int v = 0; v < vectors; v++) { sum[r][v] = v16_load(out[r] + 16 * v); }
    }
    for (int j = 0; j < keys; j++) {
        for (int r = 0; r < R; r++) {
            const v16 a = v16_all(p[r][j]);
            for (int v = 0; v < vectors; v++) {
                sum[r][v] = v16_fma(a, v16_load(rows + (size_t)j * Dp + 16 * v), sum[r][v]);
            }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int v = 0; v < vectors; v++) { v16_store(out[r] + 16 * v, sum[r][v]); }
    }
}

V16_INLINE void tile_mix_n(int R, int keys, float (*p)[MOT_KEYS], const float *rows, int Dp,
                           float *const *out)
{
    int d = 0;
    float *at[MOT_TILE];
    for (; d + 64 <= Dp; d += 64) {
        for (int r = 0; r < R; r++) { at[r] = out[r] + d; }
        tile_mix_columns(R, 4, keys, p, rows + d, Dp, at);
    }
    for (; d < Dp; d += 16) {
        for (int r = 0; r < R; r++) { at[r] = out[r] + d; }
        tile_mix_columns(R, 1, keys, p, rows + d, Dp, at);
    }
}

/* columns[d][j] += sum over ascending r of a[r][d] p[r][j]. */
V16_INLINE void tile_outer_n(int R, int D, const float *const *a, float (*p)[MOT_KEYS],
                             float *columns)
{
    for (int d = 0; d < D; d++) {
        v16 sum[4];
        for (int v = 0; v < 4; v++) { sum[v] = v16_load(columns + d * MOT_KEYS + 16 * v); }
        for (int r = 0; r < R; r++) {
            const v16 x = v16_all(a[r][d]);
            for (int v = 0; v < 4; v++) { sum[v] = v16_fma(x, v16_load(p[r] + 16 * v), sum[v]); }
        }
        for (int v = 0; v < 4; v++) { v16_store(columns + d * MOT_KEYS + 16 * v, sum[v]); }
    }
}

/* Compiled apart for each R, so that the sums stay in registers. */
#define MOT_FOR_TILE(R, call) \
    switch (R) {              \
    case 1:                   \
        call(1);              \
        break;                \
    case 2:                   \
        call(2);              \
        break;                \
    case 3:                   \
        call(3);              \
        break;                \
    default:                  \
        call(4);              \
        break;                \
    }

static inline void tile_scores(int R, int D, const float *const *q, const float *columns,
                               float (*s)[MOT_KEYS])
{
#define CALL(n) tile_scores_n(n, D, q, columns, s)
    MOT_FOR_TILE(R, CALL)
#undef CALL
}

static inline void tile_mix(int R, int keys, float (*p)[MOT_KEYS], const float *rows, int Dp,
                            float *const *out)
{
#define CALL(n) tile_mix_n(n, keys, p, rows, Dp, out)
    MOT_FOR_TILE(R, CALL)
#undef CALL
}

static inline void tile_outer(int R, int D, const float *const *a, float (*p)[MOT_KEYS],
                              float *columns)
{
#define CALL(n) tile_outer_n(n, D, a, p, columns)
    MOT_FOR_TILE(R, CALL)
#undef CALL
}
#endif
