/* Sums, copies and roundings of whole buffers; see kernels.h.  Blocks of 4096 numbers, each the
 * work of one thread. */
#include "cpu_kernels.h"
#include "dtype.h"
#include "parallel.h"
#include <string.h>

enum { BLOCK = 4096 };

static inline size_t block_end(size_t start, size_t n)
{
    return start + BLOCK < n ? start + BLOCK : n;
}

void mot_cpu_accumulate(struct mot_exec *e, size_t n, const float *x, float *y)
{
    (void)e;
    MOT_PARALLEL_FOR(n > MOT_WORTH_A_TEAM)
    for (size_t b = 0; b < n; b += BLOCK) {
        for (size_t i = b; i < block_end(b, n); i++) { y[i] += x[i]; }
    }
}

void mot_cpu_add(struct mot_exec *e, size_t n, const float *x, const float *z, float *y)
{
    (void)e;
    MOT_PARALLEL_FOR(n > MOT_WORTH_A_TEAM)
    for (size_t b = 0; b < n; b += BLOCK) {
        for (size_t i = b; i < block_end(b, n); i++) { y[i] = x[i] + z[i]; }
    }
}

void mot_cpu_zero(struct mot_exec *e, size_t n, float *y)
{
    (void)e;
    MOT_PARALLEL_FOR(n > MOT_WORTH_A_TEAM)
    for (size_t b = 0; b < n; b += BLOCK) {
        memset(y + b, 0, (block_end(b, n) - b) * sizeof(float));
    }
}

void mot_cpu_round_bf16(struct mot_exec *e, size_t n, const float *from, float *to)
{
    (void)e;
    MOT_PARALLEL_FOR(n > MOT_WORTH_A_TEAM)
    for (size_t b = 0; b < n; b += BLOCK) {
        for (size_t i = b; i < block_end(b, n); i++) {
            to[i] = mot_f32_from_bf16(mot_bf16_from_f32(from[i]));
        }
    }
}

/* Sum of squares of one block: eight double lanes, joined pairwise. */
static double block_squares(const float *x, size_t n)
{
    double lane[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int l = 0; l < 8; l++) { lane[l] += (double)x[i + l] * (double)x[i + l]; }
    }
    for (int l = 0; i < n; i++, l++) { lane[l] += (double)x[i] * (double)x[i]; }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6]))
           + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

double mot_cpu_sum_of_squares(struct mot_exec *e, size_t n, const float *x)
{
    const size_t blocks = MOT_CEIL_DIV(n, BLOCK), mark = mot_arena_mark(e->arena);
    double *partial = mot_arena_take(e->arena, blocks * sizeof(double));
    MOT_PARALLEL_FOR(n > MOT_WORTH_A_TEAM)
    for (size_t b = 0; b < blocks; b++) {
        partial[b] = block_squares(x + b * BLOCK, block_end(b * BLOCK, n) - b * BLOCK);
    }
    double sum = 0.0;
    for (size_t b = 0; b < blocks; b++) { sum += partial[b]; }
    mot_arena_reset(e->arena, mark);
    return sum;
}
