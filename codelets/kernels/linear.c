/* Linear layers and their gradients over matmul.h; see kernels.h. */
#include "cpu_kernels.h"
#include "matmul.h"
#include "parallel.h"
#include "vec16.h"

struct mot_product mot_product_forward(int M, int N, int K)
{
    return (struct mot_product){.use = MOT_MATMUL_FORWARD,
                                .m = M,
                                .n = N,
                                .k = K,
                                .a_row = K,
                                .a_col = 1,
                                .b_row = 1,
                                .b_col = K,
                                .c_row = N};
}

struct mot_product mot_product_grad_input(int M, int N, int K, int accumulate)
{
    return (struct mot_product){.use = MOT_MATMUL_GRAD_INPUT,
                                .m = M,
                                .n = K,
                                .k = N,
                                .a_row = N,
                                .a_col = 1,
                                .b_row = K,
                                .b_col = 1,
                                .c_row = K,
                                .accumulate = accumulate != 0};
}

struct mot_product mot_product_grad_weight(int M, int N, int K)
{
    return (struct mot_product){.use = MOT_MATMUL_GRAD_WEIGHT,
                                .m = N,
                                .n = K,
                                .k = M,
                                .a_row = 1,
                                .a_col = N,
                                .b_row = K,
                                .b_col = 1,
                                .c_row = K,
                                .accumulate = 1};
}

/* bias is added after the whole sum. */
static void add_bias(int M, int N, const float *bias, float *y)
{
    if (!bias) { return; }
    MOT_PARALLEL_FOR((size_t)M * N > MOT_WORTH_A_TEAM)
    for (int i = 0; i < M; i++) {
        float *row = y + (size_t)i * N;
        for (int j = 0; j < N; j++) { row[j] += bias[j]; }
    }
}

void mot_cpu_linear(struct mot_exec *e, int M, int N, int K, const float *x, const float *w,
                    const float *bias, float *y)
{
    const struct mot_product p = mot_product_forward(M, N, K);
    mot_matmul(e->arena, &p, x, w, y);
    add_bias(M, N, bias, y);
}

/* Any number of rows will do for these two. */
size_t mot_cpu_linear_pack_bytes(int N, int K)
{
    const struct mot_product p = mot_product_forward(1, N, K);
    return mot_matmul_pack_bytes(&p);
}

void mot_cpu_linear_pack(struct mot_exec *e, int N, int K, const float *w, float *packed)
{
    (void)e;
    const struct mot_product p = mot_product_forward(1, N, K);
    mot_matmul_pack(&p, w, packed);
}

void mot_cpu_linear_packed(struct mot_exec *e, int M, int N, int K, const float *x,
                           const float *packed, const float *bias, float *y)
{
    (void)e;
    const struct mot_product p = mot_product_forward(M, N, K);
    mot_matmul_packed(&p, x, packed, y);
    add_bias(M, N, bias, y);
}

void mot_cpu_linear_grad_input(struct mot_exec *e, int M, int N, int K, const float *dy,
                               const float *w, float *dx, int accumulate)
{
    const struct mot_product p = mot_product_grad_input(M, N, K, accumulate);
    mot_matmul(e->arena, &p, dy, w, dx);
}

/* Column sums of 16 or fewer columns from j on, rows in ascending order. */
static void bias_columns(int M, int N, int j, const float *dy, float *dbias)
{
    const int n = mot_min(16, N - j);
    v16 sum = v16_all(0.0f);
    for (int i = 0; i < M; i++) { sum += v16_load_n(dy + (size_t)i * N + j, n); }
    v16_store_n(dbias + j, v16_load_n(dbias + j, n) + sum, n);
}

void mot_cpu_linear_grad_weight(struct mot_exec *e, int M, int N, int K, const float *dy,
                                const float *x, float *dw, float *dbias)
{
    for (int i = 0; i < M; i += MOT_MATMUL_SUM_ROWS) {
        const struct mot_product p =
            mot_product_grad_weight(mot_min(MOT_MATMUL_SUM_ROWS, M - i), N, K);
        mot_matmul(e->arena, &p, dy + (size_t)i * N, x + (size_t)i * K, dw);
    }
    if (!dbias) { return; }
    MOT_PARALLEL_FOR((size_t)M * N > MOT_WORTH_A_TEAM)
    for (int j = 0; j < N; j += 16) { bias_columns(M, N, j, dy, dbias); }
}
