/* RMSNorm and its gradient (Zhang & Sennrich 2019, arXiv:1910.07467), see kernels.h.
 *
 *   xhat = x rstd,  y = xhat w
 *   dx = rstd (g - xhat mean(g xhat)) with g = dy w;  dw = sum over rows of dy xhat
 *
 * A row's sums run in 16 lanes over ascending columns, whatever the other rows are. */
#include "cpu_kernels.h"
#include "parallel.h"
#include "vec16.h"
#include <math.h>

static inline v16 load_tail(const float *p, int left)
{
    return left >= 16 ? v16_load(p) : v16_load_n(p, left);
}

static inline void store_tail(float *p, v16 x, int left)
{
    if (left >= 16) {
        v16_store(p, x);
    } else {
        v16_store_n(p, x, left);
    }
}

/* One row: x, w, y of C numbers.  Returns rstd. */
static float norm_row(int C, const float *x, const float *w, float eps, float *y)
{
    v16 square = v16_all(0.0f);
    for (int c = 0; c < C; c += 16) {
        const v16 a = load_tail(x + c, C - c);
        square = v16_fma(a, a, square);
    }
    const float rstd = 1.0f / sqrtf(v16_sum(square) / (float)C + eps);
    for (int c = 0; c < C; c += 16) {
        const v16 a = load_tail(x + c, C - c), b = load_tail(w + c, C - c);
        store_tail(y + c, a * v16_all(rstd) * b, C - c);
    }
    return rstd;
}

void mot_cpu_rmsnorm(struct mot_exec *e, int rows, int C, int stride, const float *x,
                     const float *w, float eps, float *y, float *rstd)
{
    (void)e;
    MOT_PARALLEL_FOR((size_t)rows * C > MOT_WORTH_A_TEAM)
    for (int r = 0; r < rows; r++) {
        const size_t at = (size_t)r * stride;
        const float scale = norm_row(C, x + at, w, eps, y + at);
        if (rstd) { rstd[r] = scale; }
    }
}

/* dw of the up to 16 columns from c on: rows in ascending order. */
static void grad_columns(int rows, int c, int C, int stride, const float *x, const float *rstd,
                         const float *dy, float *dw)
{
    v16 sum = v16_all(0.0f);
    for (int r = 0; r < rows; r++) {
        const size_t at = (size_t)r * stride + c;
        const v16 xhat = load_tail(x + at, C - c) * v16_all(rstd[r]);
        sum = v16_fma(load_tail(dy + at, C - c), xhat, sum);
    }
    store_tail(dw + c, load_tail(dw + c, C - c) + sum, C - c);
}

static void grad_row(int C, const float *x, const float *w, float rstd, const float *dy, float *dx,
                     int accumulate)
{
    v16 dot = v16_all(0.0f);
    for (int c = 0; c < C; c += 16) {
        const v16 g = load_tail(dy + c, C - c) * load_tail(w + c, C - c);
        dot = v16_fma(g, load_tail(x + c, C - c) * v16_all(rstd), dot);
    }
    const v16 mean = v16_all(v16_sum(dot) / (float)C);
    for (int c = 0; c < C; c += 16) {
        const v16 g = load_tail(dy + c, C - c) * load_tail(w + c, C - c);
        const v16 xhat = load_tail(x + c, C - c) * v16_all(rstd);
        v16 d = v16_all(rstd) * v16_fma(-xhat, mean, g);
        if (accumulate) { d = load_tail(dx + c, C - c) + d; }
        store_tail(dx + c, d, C - c);
    }
}

void mot_cpu_rmsnorm_grad(struct mot_exec *e, int rows, int C, int stride, const float *x,
                          const float *w, const float *rstd, const float *dy, float *dx,
                          int accumulate, float *dw)
{
    (void)e;
    const int worth = (size_t)rows * C > MOT_WORTH_A_TEAM;
    MOT_PARALLEL_FOR(worth) /* first: dx may overwrite dy */
    for (int c = 0; c < C; c += 16) { grad_columns(rows, c, C, stride, x, rstd, dy, dw); }
    MOT_PARALLEL_FOR(worth)
    for (int r = 0; r < rows; r++) {
        const size_t at = (size_t)r * stride;
        grad_row(C, x + at, w, rstd[r], dy + at, dx + at, accumulate);
    }
}
