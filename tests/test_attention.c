/* Attention and its gradient against plain double-precision code: prompts that two answers share as
 * prefix, a lone sequence, grouped heads, head sizes that are no multiple of the vector, more keys
 * than a block.  The gradient is compared with central differences of the double-precision forward,
 * through the prefix too.
 * Run it alone: ./test_attention        exit 0 pass, 1 fail */
#include "kernel_expect.h"

static struct mot_exec e;

enum { SEGMENTS = 4, LAYERS = 2, LAYER = 1, SPARE = 3 };

/* Segment 0 is the prompt of segments 1 and 3; segment 2 stands alone. */
struct batch {
    struct mot_model_shape shape;
    int T, S;
    int count[SEGMENTS], first[SEGMENTS];
    struct mot_segment segments[SEGMENTS];
    const double *coefficient; /* of the loss, (T, H D) */
};

static int has_prefix(int segment)
{
    return segment == 1 || segment == 3;
}

static void batch_create(struct batch *b, int H, int K, int D, const int *count)
{
    *b = (struct batch){.shape = {.n_layers = LAYERS, .n_heads = H, .n_kv_heads = K, .head_dim = D},
                        .S = (H + 2 * K) * D};
    for (int i = 0; i < SEGMENTS; i++) {
        b->count[i] = count[i];
        b->first[i] = b->T;
        b->T += count[i];
        const int start = has_prefix(i) ? count[0] : 0, capacity = count[i] + SPARE;
        const size_t floats = (size_t)LAYERS * 2 * K * capacity * D;
        b->segments[i] = (struct mot_segment){.first = b->first[i],
                                              .count = count[i],
                                              .position = start,
                                              .own = {nans(floats), capacity, start},
                                              .own_grad = calloc(floats, sizeof(float))};
        if (has_prefix(i)) {
            b->segments[i].prefix = b->segments[0].own;
            b->segments[i].prefix_grad = b->segments[0].own_grad;
        }
    }
}

static void batch_destroy(struct batch *b)
{
    for (int i = 0; i < SEGMENTS; i++) {
        free(b->segments[i].own.data);
        free(b->segments[i].own_grad);
    }
}

/* The batch row of key j as a row of segment i sees it. */
static int key_row(const struct batch *b, int i, int j)
{
    if (!has_prefix(i)) { return b->first[i] + j; }
    return j < b->count[0] ? b->first[0] + j : b->first[i] + j - b->count[0];
}

/* One query head of row `row` of segment i: D numbers out, and log-sum-exp. */
static double attend(const struct batch *b, const double *x, int i, int row, int head, double *out)
{
    const struct mot_model_shape *s = &b->shape;
    const int D = s->head_dim, keys = b->segments[i].position + row + 1;
    const int key_head = head / (s->n_heads / s->n_kv_heads);
    const double *q = x + (size_t)(b->first[i] + row) * b->S + head * D;
    double max = -INFINITY, sum = 0.0, *score = doubles(keys);
    for (int j = 0; j < keys; j++) {
        const double *k = x + (size_t)key_row(b, i, j) * b->S + (s->n_heads + key_head) * D;
        for (int d = 0; d < D; d++) { score[j] += q[d] * k[d] / sqrt(D); }
        max = fmax(max, score[j]);
    }
    for (int j = 0; j < keys; j++) { sum += exp(score[j] - max); }
    for (int d = 0; d < D; d++) { out[d] = 0.0; }
    for (int j = 0; j < keys; j++) {
        const double p = exp(score[j] - max) / sum;
        const double *v =
            x + (size_t)key_row(b, i, j) * b->S + (s->n_heads + s->n_kv_heads + key_head) * D;
        for (int d = 0; d < D; d++) { out[d] += p * v[d]; }
    }
    free(score);
    return max + log(sum);
}

static void forward(const struct batch *b, const double *x, double *out, double *lse)
{
    const int H = b->shape.n_heads, D = b->shape.head_dim;
    for (int i = 0; i < SEGMENTS; i++) {
        for (int row = 0; row < b->count[i]; row++) {
            for (int h = 0; h < H; h++) {
                const size_t at = (size_t)(b->first[i] + row) * H + h;
                lse[at] = attend(b, x, i, row, h, out + at * D);
            }
        }
    }
}

static double loss(const struct batch *b, const double *x)
{
    const size_t rows = (size_t)b->T * b->shape.n_heads, n = rows * b->shape.head_dim;
    double *out = doubles(n), *lse = doubles(rows), sum = 0.0;
    forward(b, x, out, lse);
    for (size_t i = 0; i < n; i++) { sum += out[i] * b->coefficient[i]; }
    free(out), free(lse);
    return sum;
}

static void test_shape(int H, int K, int D, const int *count, int step)
{
    struct batch b;
    batch_create(&b, H, K, D, count);
    const size_t rows = (size_t)b.T * H, n = rows * D, width = (size_t)b.T * b.S;
    float *qkv = numbers(width, 1), *dout = numbers(n, 2), *out = nans(n), *lse = nans(rows);
    float *dqkv = nans(width);
    double *x = widened(qkv, width), *want = doubles(n), *want_lse = doubles(rows);
    char name[64];
    snprintf(name, sizeof(name), "attention H %d K %d D %d", H, K, D);
    forward(&b, x, want, want_lse);
    e.kernels->attention(&e, &b.shape, LAYER, b.segments, SEGMENTS, qkv, out, lse);
    expect(name, out, want, n, 2e-6);
    expect("  lse", lse, want_lse, rows, 1e-6);
    free(want), free(want_lse);

    double *coefficient = widened(dout, n);
    b.coefficient = coefficient;
    e.kernels->attention_grad(&e, &b.shape, LAYER, b.segments, SEGMENTS, qkv, out, lse, dout, dqkv);
    /* Every step-th number: the double-precision forward is slow. */
    float *got = nans(width / step + 1);
    double *gradient = doubles(width / step + 1);
    size_t taken = 0;
    for (size_t i = 0; i < width; i += step, taken++) {
        const double at = x[i], h = 1e-5;
        x[i] = at + h;
        const double above = loss(&b, x);
        x[i] = at - h;
        gradient[taken] = (above - loss(&b, x)) / (2 * h);
        x[i] = at;
        got[taken] = dqkv[i];
    }
    expect("  gradient", got, gradient, taken, 5e-6);
    for (size_t i = 0; i < width; i++) {
        if (!isfinite(dqkv[i])) { expect_true("every number of dqkv is written", 0); }
    }
    batch_destroy(&b);
    free(qkv), free(dout), free(out), free(lse), free(dqkv), free(x), free(coefficient);
    free(got), free(gradient);
}

int main(void)
{
    static const int tiny[SEGMENTS] = {3, 1, 2, 4}, prefix[SEGMENTS] = {70, 9, 2, 3};
    static const int lone[SEGMENTS] = {1, 66, 130, 1};
    e = exec_create();
    test_shape(2, 1, 2, tiny, 1);
    test_shape(4, 2, 6, tiny, 1);
    test_shape(3, 1, 20, tiny, 1);
    test_shape(2, 2, 16, tiny, 1);
    test_shape(2, 1, 6, prefix, 5);
    test_shape(3, 3, 4, lone, 7);
    test_shape(6, 2, 64, prefix, 499);
    test_shape(2, 1, 80, prefix, 293);
    mot_arena_destroy(e.arena);
    printf(failures ? "%d FAILED\n" : "all right\n", failures);
    return failures != 0;
}
