/* The matrix product in plain C, for machines where oneDNN's rows depend on the batch; see matmul.h
 * and mot_matmul_self_test.  An element is one chain of fused multiply-adds over ascending k (from
 * c itself with accumulate), so nothing else of the call can change it.
 *
 * Columns of b are packed into panels of DEPTH rows that stay in the second-level cache. */
#include "matmul_tile.h"

enum { DEPTH = 1024 };

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
    const struct tile tile = {.a = a + (size_t)i * a_row + (size_t)k * a_col,
                              .a_row = a_row,
                              .a_col = a_col,
                              .panel = panel,
                              .depth = depth};
    tile_add(R, &tile, sum);
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
