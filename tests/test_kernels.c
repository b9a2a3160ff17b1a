/* Every kernel of the CPU table against plain double-precision code, on odd and even sizes, single
 * rows, strides and more rows than a block; every gradient against central differences of that
 * double-precision forward, so that a wrong sign, factor or index in a backward fails.
 * Run it alone: ./test_kernels        exit 0 pass, 1 fail */
#include "fast_math.h"
#include "kernel_expect.h"
#include "matmul.h"

static struct mot_exec e;

/* Central differences of a scalar function of n numbers. */
static double *differences(double (*loss)(const double *x, const void *context), double *x,
                           size_t n, const void *context)
{
    double *gradient = doubles(n);
    for (size_t i = 0; i < n; i++) {
        const double at = x[i], h = 1e-5;
        x[i] = at + h;
        const double above = loss(x, context);
        x[i] = at - h;
        gradient[i] = (above - loss(x, context)) / (2 * h);
        x[i] = at;
    }
    return gradient;
}

/* The largest distance of exp and log from double, in units of the float's last place. */
static double ulps(float got, double want)
{
    const float rounded = (float)want;
    const double unit = (double)nextafterf(fabsf(rounded), INFINITY) - fabs((double)rounded);
    return fabs((double)got - want) / unit;
}

static void test_exp_log(void)
{
    double worst_exp = 0.0, worst_log = 0.0;
    for (float x = -103.0f; x < 88.7f; x += 0.00137f) {
        worst_exp = fmax(worst_exp, ulps(mot_exp(x), exp((double)x)));
    }
    for (float x = 1e-37f; x < 1e38f; x *= 1.00037f) {
        worst_log = fmax(worst_log, ulps(mot_log(x), log((double)x)));
    }
    for (float x = 0.6f; x < 1.6f; x += 1.3e-5f) {
        worst_log = fmax(worst_log, ulps(mot_log(x), log((double)x)));
    }
    printf("exp within %.2f ulp, log within %.2f ulp\n", worst_exp, worst_log);
    expect_true("exp within 1.5 ulp", worst_exp <= 1.5);
    expect_true("log within 2 ulp", worst_log <= 2.0);
    expect_true("exp(0)", mot_exp(0.0f) == 1.0f);
    expect_true("exp of the far ends", mot_exp(-INFINITY) == 0.0f && mot_exp(-1e30f) == 0.0f
                                           && mot_exp(INFINITY) == INFINITY
                                           && mot_exp(1e30f) == INFINITY);
    expect_true("exp about its smallest", mot_exp(-103.9f) == 0x1p-149f && mot_exp(-104.0f) == 0.0f
                                              && mot_exp(nextafterf(-104.0f, -200.0f)) == 0.0f);
    expect_true("exp(NaN), log(NaN), log(-1)",
                isnan(mot_exp(NAN)) && isnan(mot_log(NAN)) && isnan(mot_log(-1.0f)));
    expect_true("log of the ends", mot_log(0.0f) == -INFINITY && mot_log(INFINITY) == INFINITY
                                       && mot_log(1.0f) == 0.0f);
    expect_true("log of a subnormal", ulps(mot_log(1e-42f), log((double)1e-42f)) <= 2.0);
}

/* c (m, n) = or += a (m, k) b (k, n) in double, strides as in matmul.h. */
static double *product_expected(const struct mot_product *p, const float *a, const float *b,
                                const float *c)
{
    double *want = doubles((size_t)p->m * p->n);
    for (int i = 0; i < p->m; i++) {
        for (int j = 0; j < p->n; j++) {
            double sum = c ? c[(size_t)i * p->n + j] : 0.0;
            for (int k = 0; k < p->k; k++) {
                sum += (double)a[(size_t)i * p->a_row + (size_t)k * p->a_col]
                       * b[(size_t)k * p->b_row + (size_t)j * p->b_col];
            }
            want[(size_t)i * p->n + j] = sum;
        }
    }
    return want;
}

static void test_linear(int M, int N, int K)
{
    char name[64];
    snprintf(name, sizeof(name), "linear %dx%dx%d", M, N, K);
    float *x = numbers((size_t)M * K, 1), *w = numbers((size_t)N * K, 2), *bias = numbers(N, 3);
    float *dy = numbers((size_t)M * N, 4), *dx = numbers((size_t)M * K, 5);
    float *dw = numbers((size_t)N * K, 6), *dbias = numbers(N, 7), *y = nans((size_t)M * N);
    struct mot_product p = mot_product_forward(M, N, K);
    double *want = product_expected(&p, x, w, NULL);
    e.kernels->linear(&e, M, N, K, x, w, NULL, y);
    expect(name, y, want, (size_t)M * N, 2e-6);
    for (int i = 0; i < M * N; i++) { want[i] += bias[i % N]; }
    e.kernels->linear(&e, M, N, K, x, w, bias, y);
    expect("  with bias", y, want, (size_t)M * N, 2e-6);
    free(want);

    p = mot_product_grad_input(M, N, K, 1);
    want = product_expected(&p, dy, w, dx);
    e.kernels->linear_grad_input(&e, M, N, K, dy, w, dx, 1);
    expect("  input gradient, added", dx, want, (size_t)M * K, 2e-6);
    free(want);
    want = product_expected(&p, dy, w, NULL);
    for (int i = 0; i < M * K; i++) { dx[i] = NAN; }
    e.kernels->linear_grad_input(&e, M, N, K, dy, w, dx, 0);
    expect("  input gradient", dx, want, (size_t)M * K, 2e-6);
    free(want);

    p = mot_product_grad_weight(M, N, K);
    want = product_expected(&p, dy, x, dw);
    double *want_bias = widened(dbias, N);
    for (int i = 0; i < M * N; i++) { want_bias[i % N] += dy[i]; }
    e.kernels->linear_grad_weight(&e, M, N, K, dy, x, dw, dbias);
    expect("  weight gradient", dw, want, (size_t)N * K, 4e-6);
    expect("  bias gradient", dbias, want_bias, N, 4e-6);
    free(want), free(want_bias), free(x), free(w), free(bias), free(dy), free(dx), free(dw);
    free(dbias), free(y);
}

/* The three uses through our own code, which only machines without oneDNN's kernels run. */
static void test_own_product(int M, int N, int K)
{
    const struct mot_product products[] = {
        mot_product_forward(M, N, K), mot_product_grad_input(M, N, K, 1),
        mot_product_grad_input(M, N, K, 0), mot_product_grad_weight(M, N, K)};
    const size_t largest = (size_t)(M + N) * (size_t)(K + N + M);
    for (int i = 0; i < 4; i++) {
        for (int path = 0; path < MOT_MATMUL_PATHS; path++) {
            char name[64];
            snprintf(name, sizeof(name), "product %d %dx%dx%d path %d", i, M, N, K, path);
            const struct mot_product *p = &products[i];
            const size_t n = (size_t)p->m * p->n;
            float *a = numbers(largest, 8), *b = numbers(largest, 9);
            float *c = p->accumulate ? numbers(n, 10) : nans(n);
            double *want = product_expected(p, a, b, p->accumulate ? c : NULL);
            mot_matmul_by((enum mot_matmul_path)path, e.arena, p, a, b, c);
            expect(name, c, want, n, 3e-6);
            free(a), free(b), free(c), free(want);
        }
    }
}

/* Sizes of one rmsnorm and the coefficients of its loss. */
struct norm {
    int rows, C, stride;
    double eps;
    const double *coefficient;
};

/* x holds the rows (stride apart), then the weights. */
static void norm_forward(const struct norm *n, const double *x, double *y)
{
    const double *w = x + (size_t)n->rows * n->stride;
    for (int r = 0; r < n->rows; r++) {
        double square = 0.0;
        for (int c = 0; c < n->C; c++) { square += pow(x[r * n->stride + c], 2) / n->C; }
        for (int c = 0; c < n->C; c++) {
            y[r * n->stride + c] = x[r * n->stride + c] / sqrt(square + n->eps) * w[c];
        }
    }
}

static double norm_loss(const double *x, const void *context)
{
    const struct norm *n = context;
    double *y = doubles((size_t)n->rows * n->stride), sum = 0.0;
    norm_forward(n, x, y);
    for (int i = 0; i < n->rows * n->stride; i++) { sum += y[i] * n->coefficient[i]; }
    free(y);
    return sum;
}

static void test_rmsnorm(int rows, int C, int stride)
{
    char name[64];
    snprintf(name, sizeof(name), "rmsnorm %d rows of %d in %d", rows, C, stride);
    const size_t size = (size_t)rows * stride;
    float *x = numbers(size + C, 11), *dy = numbers(size, 12), *y = nans(size), *rstd = nans(rows);
    float *dx = nans(size), *dx_added = numbers(size, 13), *dw = numbers(C, 14);
    for (size_t i = 0; i < size; i++) {
        const int outside = (int)(i % stride) >= C;
        if (outside) { dy[i] = 0.0f; }
        if (outside) { y[i] = dx[i] = 5.0f; } /* must stay */
    }
    double *wide = widened(x, size + C), *coefficient = widened(dy, size), *want = doubles(size);
    const struct norm n = {rows, C, stride, 1e-5, coefficient};
    norm_forward(&n, wide, want);
    for (size_t i = 0; i < size; i++) { want[i] = (int)(i % stride) >= C ? 5.0 : want[i]; }
    e.kernels->rmsnorm(&e, rows, C, stride, x, x + size, 1e-5f, y, rstd);
    expect(name, y, want, size, 1e-6);
    expect_true("rstd", fabs(rstd[0] * x[0] * x[size] - want[0]) <= 1e-5);

    double *gradient = differences(norm_loss, wide, size + C, &n);
    double *sums = widened(dw, C), *added = widened(dx_added, size);
    for (int c = 0; c < C; c++) { sums[c] += gradient[size + c]; }
    for (size_t i = 0; i < size; i++) {
        added[i] += gradient[i];
        if ((int)(i % stride) >= C) { gradient[i] = 5.0; }
    }
    e.kernels->rmsnorm_grad(&e, rows, C, stride, x, x + size, rstd, dy, dx, 0, dw);
    expect("  dx", dx, gradient, size, 3e-6);
    expect("  dw", dw, sums, C, 3e-6);
    e.kernels->rmsnorm_grad(&e, rows, C, stride, x, x + size, rstd, dy, dx_added, 1, dw);
    expect("  dx, added", dx_added, added, size, 3e-6);
    for (size_t i = 0; i < size; i++) { gradient[i] = (int)(i % stride) >= C ? 0 : gradient[i]; }
    e.kernels->rmsnorm_grad(&e, rows, C, stride, x, x + size, rstd, dy, dy, 0, dw);
    expect("  dx over dy", dy, gradient, size, 3e-6);
    e.kernels->rmsnorm(&e, rows, C, stride, x, x + size, 1e-5f, x, NULL);
    for (int r = 0; r < rows; r++) { expect_equal("in place", x + r * stride, y + r * stride, C); }
    free(x), free(dy), free(y), free(rstd), free(dx), free(dx_added), free(dw), free(wide);
    free(coefficient), free(want), free(gradient), free(sums), free(added);
}

static void test_rope(void)
{
    enum { T = 5, D = 6, H = 3, K = 1, POSITIONS = 40, S = (H + 2 * K) * D };
    const struct mot_model_shape shape = {.n_heads = H, .n_kv_heads = K, .head_dim = D};
    const int32_t position[T] = {0, 1, 39, 7, 7};
    float *table = nans(POSITIONS * D), *qkv = numbers(T * S, 15), *kept = numbers(T * S, 15);
    double *want = widened(qkv, T * S), *back = widened(qkv, T * S);
    mot_rope_table_fill(table, POSITIONS, D, 10000.0);
    for (int t = 0; t < T; t++) {
        for (int h = 0; h < H + K; h++) {
            for (int i = 0; i < D / 2; i++) {
                const double angle = position[t] * pow(10000.0, -2.0 * i / D);
                const double a = kept[t * S + h * D + i], b = kept[t * S + h * D + D / 2 + i];
                want[t * S + h * D + i] = a * cos(angle) - b * sin(angle);
                want[t * S + h * D + D / 2 + i] = b * cos(angle) + a * sin(angle);
            }
        }
    }
    e.kernels->rope(&e, T, &shape, position, table, qkv, 0);
    expect("rope", qkv, want, T * S, 2e-6);
    e.kernels->rope(&e, T, &shape, position, table, qkv, 1);
    expect("  and back", qkv, back, T * S, 2e-6);
    free(table), free(qkv), free(kept), free(want), free(back);
}

struct swiglu {
    int T, I;
    const double *coefficient;
};

static void swiglu_forward(const struct swiglu *s, const double *x, double *y)
{
    for (int i = 0; i < s->T * s->I; i++) {
        const double *row = x + (size_t)(i / s->I) * 2 * s->I;
        const double gate = row[i % s->I], up = row[s->I + i % s->I];
        y[i] = gate / (1.0 + exp(-gate)) * up;
    }
}

static double swiglu_loss(const double *x, const void *context)
{
    const struct swiglu *s = context;
    double *y = doubles((size_t)s->T * s->I), sum = 0.0;
    swiglu_forward(s, x, y);
    for (int i = 0; i < s->T * s->I; i++) { sum += y[i] * s->coefficient[i]; }
    free(y);
    return sum;
}

static void test_swiglu(int T, int I)
{
    const size_t n = (size_t)T * I;
    float *x = numbers(2 * n, 16), *dy = numbers(n, 17), *y = nans(n), *dx = nans(2 * n);
    x[0] = 200.0f, x[1] = -200.0f;
    double *wide = widened(x, 2 * n), *coefficient = widened(dy, n), *want = doubles(n);
    const struct swiglu s = {T, I, coefficient};
    swiglu_forward(&s, wide, want);
    e.kernels->swiglu(&e, T, I, x, y);
    expect("swiglu", y, want, n, 1e-6);
    double *gradient = differences(swiglu_loss, wide, 2 * n, &s);
    e.kernels->swiglu_grad(&e, T, I, x, dy, dx);
    expect("  gradient", dx, gradient, 2 * n, 2e-6);
    e.kernels->swiglu_grad(&e, T, I, x, dy, x);
    expect_equal("  gradient in place", x, dx, 2 * n);
    free(x), free(dy), free(y), free(dx), free(wide), free(coefficient), free(want);
    free(gradient);
}

static void test_rows(void)
{
    enum { ROWS = 9, C = 70, V = 5 };
    const int32_t index[ROWS] = {4, 0, 4, 1, 1, 1, 3, 0, 4};
    float *table = numbers(V * C, 18), *x = nans(ROWS * C), *dx = numbers(ROWS * C, 19);
    float *sums = numbers(V * C, 20);
    double *want = doubles(ROWS * C), *want_sums = widened(sums, V * C);
    for (int i = 0; i < ROWS * C; i++) {
        want[i] = table[index[i / C] * C + i % C];
        want_sums[index[i / C] * C + i % C] += dx[i];
    }
    e.kernels->embed(&e, ROWS, C, index, table, x);
    expect("embed", x, want, ROWS * C, 0.0);
    e.kernels->embed_grad(&e, ROWS, C, index, dx, sums);
    expect("embed gradient", sums, want_sums, V * C, 1e-6);
    for (int i = 0; i < ROWS * C; i++) {
        x[i] = NAN;
        want_sums[index[i / C] * C + i % C] += dx[i];
    }
    e.kernels->gather_rows(&e, ROWS, C, index, table, x);
    expect("gather_rows", x, want, ROWS * C, 0.0);
    e.kernels->scatter_add_rows(&e, ROWS, C, index, dx, sums);
    expect("scatter_add_rows", sums, want_sums, V * C, 1e-6);
    free(table), free(x), free(dx), free(sums), free(want), free(want_sums);
}

struct rows {
    int R, V;
    const int32_t *target;
    const float *coef;
    double inv_temperature;
};

/* Log-prob of one row's target; the entropy too. */
static double row_logprob(const double *x, int V, int target, double inv_temperature,
                          double *entropy)
{
    double max = -INFINITY, sum = 0.0;
    for (int i = 0; i < V; i++) { max = fmax(max, x[i] * inv_temperature); }
    for (int i = 0; i < V; i++) { sum += exp(x[i] * inv_temperature - max); }
    *entropy = 0.0;
    for (int i = 0; i < V; i++) {
        const double logprob = x[i] * inv_temperature - max - log(sum);
        *entropy -= exp(logprob) * logprob;
    }
    return x[target] * inv_temperature - max - log(sum);
}

static double logprob_loss(const double *x, const void *context)
{
    const struct rows *o = context;
    double sum = 0.0, entropy;
    for (int r = 0; r < o->R; r++) {
        sum += o->coef[r]
               * row_logprob(x + r * o->V, o->V, o->target[r], o->inv_temperature, &entropy);
    }
    return sum;
}

static void test_logprob(int R, int V, float inv_temperature)
{
    const size_t n = (size_t)R * V;
    float *x = numbers(n, 21), *coef = numbers(R, 22);
    float *logprob = nans(R), *entropy = nans(R), *lse = nans(R), *again = nans(R);
    int32_t *target = malloc(R * sizeof(*target));
    for (size_t i = 0; i < n; i++) { x[i] = x[i] * 3.0f + 11.0f; }
    for (int r = 0; r < R; r++) { target[r] = r % 2 ? V - 1 - r : r; }
    double *wide = widened(x, n), *want = doubles(R), *want_entropy = doubles(R);
    double *want_lse = doubles(R);
    for (int r = 0; r < R; r++) {
        want[r] = row_logprob(wide + r * V, V, target[r], inv_temperature, &want_entropy[r]);
        want_lse[r] = wide[r * V + target[r]] * inv_temperature - want[r];
    }
    e.kernels->logprob(&e, R, V, x, target, inv_temperature, logprob, entropy, lse);
    expect("logprob", logprob, want, R, 1e-6);
    expect("  entropy", entropy, want_entropy, R, 2e-6);
    expect("  lse", lse, want_lse, R, 1e-6);
    e.kernels->logprob(&e, R, V, x, target, inv_temperature, again, NULL, NULL);
    expect_equal("logprob without entropy", again, logprob, R);
    const struct rows o = {R, V, target, coef, inv_temperature};
    double *gradient = differences(logprob_loss, wide, n, &o);
    e.kernels->logprob_grad(&e, R, V, x, target, inv_temperature, lse, coef);
    expect("  gradient", x, gradient, n, 5e-6);
    free(x), free(coef), free(logprob), free(entropy), free(lse), free(again), free(target);
    free(wide), free(want), free(want_entropy), free(want_lse), free(gradient);
}

static void test_elementwise(size_t n)
{
    float *x = numbers(n, 23), *z = numbers(n, 24), *y = nans(n);
    double *want = widened(x, n), sum = 0.0;
    for (size_t i = 0; i < n; i++) { want[i] += z[i]; }
    e.kernels->add(&e, n, x, z, y);
    expect("add", y, want, n, 1e-7);
    for (size_t i = 0; i < n; i++) { want[i] += x[i]; }
    e.kernels->accumulate(&e, n, x, y);
    expect("accumulate", y, want, n, 2e-7);
    for (size_t i = 0; i < n; i++) { sum += (double)x[i] * x[i]; }
    expect_true("sum_of_squares",
                fabs(e.kernels->sum_of_squares(&e, n, x) - sum) <= 1e-13 * (sum + 1.0));
    for (size_t i = 0; i < n; i++) { want[i] = x[i]; }
    e.kernels->round_bf16(&e, n, x, y);
    expect("round_bf16", y, want, n, 1.0 / 256);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &y[i], sizeof(bits));
        if (bits & 0xffffu) { expect_true("round_bf16 leaves 16 bits", 0); }
        want[i] = 0.0;
    }
    e.kernels->zero(&e, n, y);
    expect("zero", y, want, n, 0.0);
    free(x), free(z), free(y), free(want);
}

static void test_adamw(size_t n)
{
    struct mot_adamw o = {.learning_rate = 1e-2,
                          .beta1 = 0.9,
                          .beta2 = 0.999,
                          .eps = 1e-8,
                          .weight_decay = 0.1,
                          .grad_scale = 0.25f};
    float *p = numbers(n, 25), *m = calloc(n, sizeof(float)), *v = calloc(n, sizeof(float));
    double *want = widened(p, n), *first = doubles(n), *second = doubles(n);
    for (o.step = 1; o.step <= 4; o.step++) {
        float *grad = numbers(n, 25 + (uint32_t)o.step);
        for (size_t i = 0; i < n; i++) {
            const double g = 0.25 * grad[i];
            want[i] *= 1.0 - 1e-2 * 0.1;
            first[i] = 0.9 * first[i] + 0.1 * g;
            second[i] = 0.999 * second[i] + 0.001 * g * g;
            want[i] -= 1e-2 * (first[i] / (1.0 - pow(0.9, o.step)))
                       / (sqrt(second[i] / (1.0 - pow(0.999, o.step))) + 1e-8);
        }
        e.kernels->adamw(&e, n, &o, grad, p, m, v);
        free(grad);
    }
    expect("adamw", p, want, n, 2e-7);
    expect("  first moment", m, first, n, 3e-7);
    expect("  second moment", v, second, n, 3e-7);
    free(p), free(m), free(v), free(want), free(first), free(second);
}

int main(void)
{
    e = exec_create();
    test_exp_log();
    test_linear(1, 7, 33);
    test_linear(13, 50, 40);
    test_linear(40, 96, 48);
    test_linear(1100, 17, 24);
    test_own_product(1, 70, 30);
    test_own_product(7, 65, 1100);
    test_own_product(20, 9, 5);
    test_rmsnorm(1, 3, 3);
    test_rmsnorm(3, 48, 48);
    test_rmsnorm(5, 10, 37);
    test_rope();
    test_swiglu(1, 5);
    test_swiglu(3, 48);
    test_rows();
    test_logprob(1, 5, 1.0f);
    test_logprob(3, 77, 0.7f);
    test_logprob(2, 2500, 1.5f);
    test_elementwise(1);
    test_elementwise(9001);
    test_elementwise(70001);
    test_adamw(5);
    test_adamw(40001);
    mot_arena_destroy(e.arena);
    printf(failures ? "%d FAILED\n" : "all right\n", failures);
    return failures != 0;
}
