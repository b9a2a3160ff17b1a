/* What the matrix products in plain C share: panels of columns of b, and tiles of rows of a that
 * meet them with their sums in registers (Goto & van de Geijn 2008, "Anatomy of high-performance
 * matrix multiplication", without packing a).  An element is one chain of fused multiply-adds over
 * ascending k, whatever the tile's size or place. */
#ifndef MOT_MATMUL_TILE_H
#define MOT_MATMUL_TILE_H
#include "matmul.h"
#include "parallel.h"
#include "vec16.h"

enum {
#if defined(__AVX512F__)
    VECTORS = 3,
    ROWS = 8,
#else
    VECTORS = 1, /* half the registers, each half as wide */
    ROWS = 6,
#endif
    PANEL = 16 * VECTORS
};

/* Rows k .. k + depth - 1 of columns j .. j + n - 1 of b as (depth, PANEL), padded with zeros. */
static inline void panel_pack(const struct mot_product *p, const float *b, int k, int depth, int j,
                              int n, float *panel)
{
    const float *from = b + (size_t)k * (size_t)p->b_row + (size_t)j * (size_t)p->b_col;
    if (n < PANEL) { memset(panel, 0, (size_t)depth * PANEL * sizeof(float)); }
    if (p->b_col == 1) {
        for (int d = 0; d < depth; d++) {
            memcpy(panel + (size_t)d * PANEL, from + (size_t)d * (size_t)p->b_row,
                   (size_t)n * sizeof(float));
        }
        return;
    }
    for (int c = 0; c < n; c += 16) {
        for (int d = 0; d < depth; d += 16) {
            v16_transpose(from + (size_t)c * (size_t)p->b_col + d, (size_t)p->b_col,
                          mot_min(16, n - c), mot_min(16, depth - d), panel + (size_t)d * PANEL + c,
                          PANEL);
        }
    }
}

/* What a tile reads: rows of a, a panel, and memory to ask for meanwhile, `lines` lines of 64 bytes
 * per step of k (0: none). */
struct tile {
    const float *a;
    size_t a_row, a_col;
    const float *panel; /* (depth, PANEL) */
    int depth;
    const float *ahead;
    int lines;
};

/* sum[r][..] += a[r][d] panel[d][..] over ascending d. */
V16_INLINE void tile_n(int R, const struct tile *t, float (*sum)[PANEL])
{
    v16 s[ROWS][VECTORS];
    const float *ahead = t->ahead, *a = t->a;
    for (int r = 0; r < R; r++) {
        for (int v = 0; v < VECTORS; v++) { s[r][v] = v16_load(sum[r] + 16 * v); }
    }
    for (int d = 0; d < t->depth; d++, a += t->a_col) {
        v16 b[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
            b[v] = v16_load(t->panel + (size_t)d * PANEL + 16 * v);
        }
#pragma GCC unroll 1
        for (int l = 0; l < t->lines; l++, ahead += 16) { __builtin_prefetch(ahead, 0, 2); }
        for (int r = 0; r < R; r++) {
            const v16 x = v16_all(a[(size_t)r * t->a_row]);
            for (int v = 0; v < VECTORS; v++) { s[r][v] = v16_fma(x, b[v], s[r][v]); }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int v = 0; v < VECTORS; v++) { v16_store(sum[r] + 16 * v, s[r][v]); }
    }
}

/* Compiled apart for each number of rows R (1 .. ROWS), so that the sums stay in registers. */
static inline void tile_add(int R, const struct tile *t, float (*sum)[PANEL])
{
    switch (R) {
    case 1:
        tile_n(1, t, sum);
        break;
    case 2:
        tile_n(2, t, sum);
        break;
    case 3:
        tile_n(3, t, sum);
        break;
    case 4:
        tile_n(4, t, sum);
        break;
    case 5:
        tile_n(5, t, sum);
        break;
#if defined(__AVX512F__)
    case 6:
        tile_n(6, t, sum);
        break;
    case 7:
        tile_n(7, t, sum);
        break;
#endif
    default:
        tile_n(ROWS, t, sum);
        break;
    }
}
#endif
