/* The matrix product in plain C, for machines where oneDNN's rows depend on the batch; see matmul.h
 * and mot_matmul_self_test.  An element is one chain of fused multiply-adds over ascending k (from
 * c itself with accumulate), so nothing else of the call can change it.
 *
 * Columns of b are packed into panels of PANEL columns and DEPTH rows that stay in the second-level
 * cache; rows of a are taken ROWS at a time, whose sums fill the registers (Goto & van de Geijn
 * 2008, "Anatomy of high-performance matrix multiplication", without packing a). */
#include "matmul.h"
#include "parallel.h"
#include "vec16.h"

enum {
#if defined(__AVX512F__)
    VECTORS = 4,
#else
    VECTORS = 1, /* half the registers, each half as wide */
#endif
    PANEL = 16 * VECTORS,
    ROWS = 6,
    DEPTH = 1024
};

/* Rows k .. k + depth - 1 of columns j .. j + n - 1 of b as (depth, PANEL), padded with zeros. */
static void panel_pack(const struct mot_product *p, const float *b, int k, int depth, int j, int n,
                       float *panel)
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

/* sum[r][..] += a[r][d] panel[d][..] over ascending d. */
V16_INLINE void tile_n(int R, int depth, const float *a, size_t a_row, size_t a_col,
                       const float *panel, float (*sum)[PANEL])
{
    v16 s[ROWS][VECTORS];
    for (int r = 0; r < R; r++) {
        for (int v = 0; v < VECTORS; v++) { s[r][v] = v16_load(sum[r] + 16 * v); }
    }
    for (int d = 0; d < depth; d++) {
        v16 b[VECTORS];
        for (int v = 0; v < VECTORS; v++) { b[v] = v16_load(panel + (size_t)d * PANEL + 16 * v); }
        for (int r = 0; r < R; r++) {
            const v16 x = v16_all(a[(size_t)r * a_row + (size_t)d * a_col]);
            for (int v = 0; v < VECTORS; v++) { s[r][v] = v16_fma(x, b[v], s[r][v]); }
        }
    }
    for (int r = 0; r < R; r++) {
        for (int v = 0; v < VECTORS; v++) { v16_store(sum[r] + 16 * v, s[r][v]); }
    }
}

/* Rows i .. i + R - 1 of c, columns j .. j + n - 1, take what one panel gives them. */
static void tile_run(const struct mot_product *p, const float *a, int i, int R, int k, int depth,
                     const float *panel, float *c, int j, int n)
{
    float sum[ROWS][PANEL] __attribute__((aligned(64)));
    const int fresh = k == 0 && !p->accumulate;
    float *to = c + (size_t)i * (size_t)p->c_row + j;
    memset(sum, 0, sizeof(sum));
    for (int r = 0; r < R && !fresh; r++) {
        memcpy(sum[r], to + (size_t)r * (size_t)p->c_row, (size_t)n * sizeof(float));
    }
    const size_t a_row = (size_t)p->a_row, a_col = (size_t)p->a_col;
    const float *from = a + (size_t)i * a_row + (size_t)k * a_col;
    switch (R) {
    case 1:
        tile_n(1, depth, from, a_row, a_col, panel, sum);
        break;
    case 2:
        tile_n(2, depth, from, a_row, a_col, panel, sum);
        break;
    case 3:
        tile_n(3, depth, from, a_row, a_col, panel, sum);
        break;
    case 4:
        tile_n(4, depth, from, a_row, a_col, panel, sum);
        break;
    case 5:
        tile_n(5, depth, from, a_row, a_col, panel, sum);
        break;
    default:
        tile_n(ROWS, depth, from, a_row, a_col, panel, sum);
        break;
    }
    for (int r = 0; r < R; r++) {
        memcpy(to + (size_t)r * (size_t)p->c_row, sum[r], (size_t)n * sizeof(float));
    }
}

static void panel_run(const struct mot_product *p, const float *a, const float *b, float *c, int j,
                      float *panel)
{
    const int n = mot_min(PANEL, p->n - j);
    for (int k = 0; k < p->k; k += DEPTH) {
        const int depth = mot_min(DEPTH, p->k - k);
        panel_pack(p, b, k, depth, j, n, panel);
        for (int i = 0; i < p->m; i += ROWS) {
            tile_run(p, a, i, mot_min(ROWS, p->m - i), k, depth, panel, c, j, n);
        }
    }
}

void mot_matmul_own(struct mot_arena *arena, const struct mot_product *p, const float *a,
                    const float *b, float *c)
{
    const size_t mark = mot_arena_mark(arena), panel_floats = (size_t)DEPTH * PANEL;
    float *panels = mot_arena_take(arena, (size_t)mot_team_size() * panel_floats * sizeof(float));
    MOT_PARALLEL_TASKS((size_t)p->m * (size_t)p->n * (size_t)p->k > 8 * MOT_WORTH_A_TEAM)
    for (int j = 0; j < p->n; j += PANEL) {
        panel_run(p, a, b, c, j, panels + (size_t)mot_team_rank() * panel_floats);
    }
    mot_arena_reset(arena, mark);
}
