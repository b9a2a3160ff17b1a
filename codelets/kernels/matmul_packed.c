/* The matrix product over packed weights; see matmul.h.  Made for the few rows of decoding, where
 * every weight is read from memory once per token: while the tiles compute on a part of a panel,
 * the next part is on its way from memory.  oneDNN's kernels wait for it instead (measured for
 * 32 rows of SmolLM2-135M on 2 cores: 46 ms of products per token, here 34 to 39).
 *
 * The bits are those of the path that unpacked products take.  Our own: one chain of fused
 * multiply-adds over ascending k.  oneDNN's batch-reduce kernels: one chain from 0 per block of 512
 * k (1024 where K is above 1024), the blocks' sums added in ascending order (found by comparison, N
 * from 64 to 49152, K from 64 to 4864; the self-test checks it for the model's shapes). */
#include "matmul_tile.h"

enum {
    GROUP = 32, /* rows that meet a panel at a time */
    PART = 128, /* k of a panel: what the tiles of a group read stays in the first-level cache */
};

static _Atomic int packing_forbidden;

void mot_matmul_forbid_packing(void)
{
    packing_forbidden = 1;
}

size_t mot_matmul_pack_bytes(const struct mot_product *p)
{
    if (packing_forbidden) { return 0; }
    return (size_t)MOT_CEIL_DIV(p->n, PANEL) * PANEL * (size_t)p->k * sizeof(float);
}

/* (panels, K, PANEL) */
void mot_matmul_pack(const struct mot_product *p, const float *b, float *packed)
{
    MOT_PARALLEL_FOR((size_t)p->n * (size_t)p->k > MOT_WORTH_A_TEAM)
    for (int j = 0; j < p->n; j += PANEL) {
        panel_pack(p, b, 0, p->k, j, mot_min(PANEL, p->n - j), packed + (size_t)j * (size_t)p->k);
    }
}

/* The k of one chain. */
static int chain_of(int k)
{
    if (mot_matmul_path_of(MOT_MATMUL_FORWARD) == MOT_MATMUL_OWN) { return k; }
    return k > 1024 ? 1024 : 512;
}

/* sum (rows, PANEL) += a (rows, depth) panel (depth, PANEL).  What follows in memory, the next part
 * or panel, is what is wanted next. */
static void part_run(const struct mot_product *p, const float *a, int rows, const float *panel,
                     int depth, float (*sum)[PANEL])
{
    const int tiles = MOT_CEIL_DIV(rows, ROWS), lines = MOT_CEIL_DIV(VECTORS, tiles);
    struct tile tile = {.a_row = (size_t)p->a_row,
                        .a_col = (size_t)p->a_col,
                        .panel = panel,
                        .depth = depth,
                        .ahead = panel + (size_t)depth * PANEL};
    for (int i = 0, asked = 0; i < rows; i += ROWS, asked += tile.lines) {
        tile.a = a + (size_t)i * tile.a_row;
        tile.lines = mot_min(lines, VECTORS - asked);
        tile_add(mot_min(ROWS, rows - i), &tile, sum + i);
        tile.ahead += (size_t)tile.lines * (size_t)depth * 16;
    }
}

/* c = sum, or += for the chains after the first. */
static void chain_end(const struct mot_product *p, int rows, float (*sum)[PANEL], int first, int n,
                      float *c)
{
    for (int r = 0; r < rows; r++) {
        float *to = c + (size_t)r * (size_t)p->c_row;
        for (int v = 0; v < n; v += 16) {
            const int left = mot_min(16, n - v);
            const v16 s = v16_load(sum[r] + v);
            v16_store_n(to + v, first ? s : v16_load_n(to + v, left) + s, left);
        }
    }
}

/* Rows i .. i + rows - 1 and columns j .. j + n - 1 of c. */
static void group_run(const struct mot_product *p, const float *a, const float *panel, float *c,
                      int i, int rows, int j, int n)
{
    float sum[GROUP][PANEL] __attribute__((aligned(64)));
    const int chain = chain_of(p->k);
    for (int start = 0; start < p->k; start += chain) {
        const int end = mot_min(start + chain, p->k);
        memset(sum, 0, (size_t)rows * sizeof(sum[0]));
        for (int k = start; k < end; k += PART) {
            const float *from = a + (size_t)i * (size_t)p->a_row + (size_t)k * (size_t)p->a_col;
            part_run(p, from, rows, panel + (size_t)k * PANEL, mot_min(PART, end - k), sum);
        }
        chain_end(p, rows, sum, start == 0, n, c + (size_t)i * (size_t)p->c_row + j);
    }
}

void mot_matmul_packed(const struct mot_product *p, const float *a, const float *packed, float *c)
{
    MOT_PARALLEL_FOR((size_t)p->m * (size_t)p->n * (size_t)p->k > 8 * MOT_WORTH_A_TEAM)
    for (int j = 0; j < p->n; j += PANEL) {
        const float *panel = packed + (size_t)j * (size_t)p->k;
        for (int i = 0; i < p->m; i += GROUP) {
            group_run(p, a, panel, c, i, mot_min(GROUP, p->m - i), j, mot_min(PANEL, p->n - j));
        }
    }
}
