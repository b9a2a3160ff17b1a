/* A row's bits depend on its own inputs alone: not on how many rows the call has, where the row
 * stands, how many threads run, or how a sequence was cut into calls.  Every kernel that yields
 * rows is compared with itself bit for bit; attention as one prefill, as prefill and single steps,
 * and in chunks of 4 and 64, its prompt in a prefix cache or in its own; sums over rows (weight
 * gradients) with 1, 2 and 3 threads.                                           (peers row 28)
 * Run it alone: ./test_kernel_bits        exit 0 pass, 1 fail */
#include "kernel_expect.h"

static struct mot_exec e;
static const int teams[] = {1, 2, 3};
enum { TEAMS = 3, ROWS = 150 };

/* y = kernel of rows first .. first + count - 1; `width` numbers of y per row. */
typedef void (*row_kernel)(int first, int count, float *y);

/* Each row of a few cuttings against the whole. */
static void expect_rows(const char *what, row_kernel kernel, size_t width)
{
    static const int counts[] = {1, 2, 7, 32, 33, 64, 100, ROWS};
    float *whole = nans(ROWS * width), *part = nans(ROWS * width);
    int before = failures;
    use_threads(2);
    kernel(0, ROWS, whole);
    for (int t = 0; t < TEAMS; t++) {
        use_threads(teams[t]);
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            const int first = (int)((11 * i + 5) % (size_t)(ROWS - counts[i] + 1));
            for (size_t k = 0; k < (size_t)counts[i] * width; k++) { part[k] = NAN; }
            kernel(first, counts[i], part);
            expect_equal(what, part, whole + (size_t)first * width, (size_t)counts[i] * width);
        }
    }
    printf("%-24s %s\n", what, failures > before ? "FAIL" : "ok");
    free(whole), free(part);
}

/* The sizes of the linear layer under test, and its inputs. */
static int N, K;
static float *x, *w, *bias, *packed;

static void linear_rows(int first, int count, float *y)
{
    e.kernels->linear(&e, count, N, K, x + (size_t)first * K, w, bias, y);
}

static void packed_rows(int first, int count, float *y)
{
    e.kernels->linear_packed(&e, count, N, K, x + (size_t)first * K, packed, bias, y);
}

static void grad_input_rows(int first, int count, float *dx)
{
    e.kernels->linear_grad_input(&e, count, N, K, x + (size_t)first * N, w, dx, 0);
}

static void grad_input_added_rows(int first, int count, float *dx)
{
    memcpy(dx, w, (size_t)count * K * sizeof(float));
    for (int r = 0; r < count; r++) { memcpy(dx + (size_t)r * K, w, (size_t)K * sizeof(float)); }
    e.kernels->linear_grad_input(&e, count, N, K, x + (size_t)first * N, w, dx, 1);
}

/* Packed weights give the bits of plain ones, for every cutting; they may be missing altogether. */
static void test_packed(void)
{
    const size_t bytes = e.kernels->linear_pack_bytes(N, K), n = (size_t)ROWS * N;
    if (bytes == 0) { return; }
    float *plain = nans(n), *y = nans(n);
    packed = aligned_alloc(64, bytes);
    memset(packed, 0xff, bytes);
    e.kernels->linear_pack(&e, N, K, w, packed);
    expect_rows("  packed", packed_rows, N);
    linear_rows(0, ROWS, plain);
    packed_rows(0, ROWS, y);
    expect_equal("packed and plain", y, plain, n);
    free(plain), free(y), free(packed);
}

static void test_linear(int outputs, int inputs)
{
    char name[64];
    N = outputs, K = inputs;
    x = numbers((size_t)ROWS * (N > K ? N : K), 1);
    w = numbers((size_t)N * K + (size_t)ROWS * K, 2);
    bias = N % 2 ? NULL : numbers(N, 3);
    snprintf(name, sizeof(name), "linear %dx%d", N, K);
    expect_rows(name, linear_rows, N);
    test_packed();
    snprintf(name, sizeof(name), "  input gradient");
    expect_rows(name, grad_input_rows, K);
    expect_rows("  input gradient, added", grad_input_added_rows, K);
    free(x), free(w), free(bias);
}

/* Sums over rows, alike for any team; more rows than one product takes. */
static void test_linear_sums(int M, int outputs, int inputs)
{
    const size_t n = (size_t)outputs * inputs;
    float *dy = numbers((size_t)M * outputs, 4), *rows = numbers((size_t)M * inputs, 5);
    float *first = NULL, *first_bias = NULL;
    for (int t = 0; t < TEAMS; t++) {
        use_threads(teams[t]);
        float *dw = numbers(n, 6), *dbias = numbers(outputs, 7);
        e.kernels->linear_grad_weight(&e, M, outputs, inputs, dy, rows, dw, dbias);
        if (!first) {
            first = dw, first_bias = dbias;
            continue;
        }
        expect_equal("weight gradient", dw, first, n);
        expect_equal("bias gradient", dbias, first_bias, outputs);
        free(dw), free(dbias);
    }
    free(dy), free(rows), free(first), free(first_bias);
}

enum { C = 600, I = 700, V = 1500 };
static float *row_input;

static void rmsnorm_rows(int first, int count, float *y)
{
    e.kernels->rmsnorm(&e, count, C, C, row_input + (size_t)first * C, row_input, 1e-5f, y, NULL);
}

static void rmsnorm_grad_rows(int first, int count, float *y)
{
    float dw[C], rstd[ROWS];
    for (int r = 0; r < count; r++) { rstd[r] = 0.5f + 0.01f * (float)(first + r); }
    e.kernels->rmsnorm_grad(&e, count, C, C, row_input + (size_t)first * C, row_input, rstd,
                            row_input + (size_t)first * C + 5, y, 0, dw);
}

static void swiglu_rows(int first, int count, float *y)
{
    e.kernels->swiglu(&e, count, I, row_input + (size_t)first * 2 * I, y);
}

static void swiglu_grad_rows(int first, int count, float *y)
{
    const float *from = row_input + (size_t)first * 2 * I;
    e.kernels->swiglu_grad(&e, count, I, from, row_input + (size_t)first * I, y);
}

/* Log-prob and entropy by logprob(), of ids that sample() drew. */
static void logprob_rows(int first, int count, float *y)
{
    static const struct mot_sampling sampling = {0.7f, 0, 1.0f, 0.0f};
    struct mot_sampled drawn[ROWS];
    float uniform[ROWS] = {0}, logprob[ROWS], entropy[ROWS];
    int32_t target[ROWS];
    const float *logits = row_input + (size_t)first * V;
    for (int r = 0; r < count; r++) {
        uniform[r] = mot_uniform(3, MOT_RNG_TEST, (uint32_t)(first + r), 0, 0);
    }
    e.kernels->sample(&e, count, V, logits, &sampling, uniform, drawn);
    for (int r = 0; r < count; r++) { target[r] = drawn[r].id; }
    e.kernels->logprob(&e, count, V, logits, target, 1.0f / 0.7f, logprob, entropy, NULL);
    for (int r = 0; r < count; r++) {
        expect_equal("sampler's and trainer's log-prob", &logprob[r], &drawn[r].logprob, 1);
        expect_equal("log-prob of all kept", &logprob[r], &drawn[r].logprob_kept, 1);
        expect_equal("entropy", &entropy[r], &drawn[r].entropy, 1);
        y[3 * r] = logprob[r];
        y[3 * r + 1] = entropy[r];
        y[3 * r + 2] = (float)drawn[r].id;
    }
}

static void logprob_grad_rows(int first, int count, float *y)
{
    int32_t target[ROWS];
    float lse[ROWS], coef[ROWS];
    for (int r = 0; r < count; r++) {
        target[r] = (first + r) * 7;
        lse[r] = 8.0f;
        coef[r] = 0.25f * (float)(first + r);
    }
    memcpy(y, row_input + (size_t)first * V, (size_t)count * V * sizeof(float));
    e.kernels->logprob_grad(&e, count, V, y, target, 0.7f, lse, coef);
}

/* The sequence of the attention test. */
enum { H = 6, KV = 2, D = 20, T = 200, PROMPT = 75, S = (H + 2 * KV) * D };
static const struct mot_model_shape shape = {
    .n_layers = 1, .n_heads = H, .n_kv_heads = KV, .head_dim = D};

static struct mot_kv cache_create(int first, int capacity)
{
    return (struct mot_kv){nans((size_t)2 * KV * capacity * D), capacity, first};
}

/* The sequence in calls: its first `start` rows at once, then `step` rows each.  shared 1: the
 * first PROMPT rows live in a prefix cache.  Next to it in each call runs a stranger. */
static void attention_in_steps(const float *qkv, int start, int step, int shared, float *out,
                               float *lse)
{
    struct mot_kv prompt = cache_create(0, T), own = cache_create(shared ? PROMPT : 0, T + 9);
    struct mot_kv stranger = cache_create(0, 3);
    float *rows = malloc((size_t)(T + 3) * S * sizeof(float));
    float *to = nans((size_t)(T + 3) * H * D), *to_lse = nans((size_t)(T + 3) * H);
    for (int at = 0, n; at < T; at += n) {
        n = at == 0 ? start : step;
        n = at + n > T ? T - at : n;
        const int in_prompt = shared && at < PROMPT;
        struct mot_segment segments[2] = {
            {.first = 0, .count = 3, .own = stranger},
            {.first = 3, .count = n, .position = at, .own = in_prompt ? prompt : own}};
        if (shared && !in_prompt) { segments[1].prefix = prompt; }
        memcpy(rows, qkv + 5 * S, (size_t)3 * S * sizeof(float));
        memcpy(rows + (size_t)3 * S, qkv + (size_t)at * S, (size_t)n * S * sizeof(float));
        e.kernels->attention(&e, &shape, 0, segments, 2, rows, to, to_lse);
        memcpy(out + (size_t)at * H * D, to + (size_t)3 * H * D, (size_t)n * H * D * sizeof(float));
        memcpy(lse + (size_t)at * H, to_lse + (size_t)3 * H, (size_t)n * H * sizeof(float));
    }
    free(prompt.data), free(own.data), free(stranger.data), free(rows), free(to), free(to_lse);
}

static void test_attention(void)
{
    static const int cuts[][3] = {{T, T, 0},      {PROMPT, 1, 0}, {PROMPT, 1, 1},
                                  {1, 1, 0},      {4, 4, 0},      {PROMPT, 64, 1},
                                  {PROMPT, 4, 1}, {64, 64, 0},    {PROMPT, T, 1}};
    float *qkv = numbers((size_t)T * S, 8), *whole = nans((size_t)T * H * D);
    float *whole_lse = nans((size_t)T * H);
    int before = failures;
    use_threads(2);
    attention_in_steps(qkv, T, T, 0, whole, whole_lse);
    for (int t = 0; t < TEAMS; t++) {
        use_threads(teams[t]);
        for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
            float *out = nans((size_t)T * H * D), *lse = nans((size_t)T * H);
            attention_in_steps(qkv, cuts[i][0], cuts[i][1], cuts[i][2], out, lse);
            expect_equal("attention", out, whole, (size_t)T * H * D);
            expect_equal("attention's lse", lse, whole_lse, (size_t)T * H);
            free(out), free(lse);
        }
    }
    printf("%-24s %s\n", "attention in steps", failures > before ? "FAIL" : "ok");
    free(qkv), free(whole), free(whole_lse);
}

/* Gradient of a prompt and two answers that share it, for each team. */
static void test_attention_grad(void)
{
    const int count[3] = {PROMPT, 70, 30};
    const size_t rows = (size_t)count[0] + count[1] + count[2], n = rows * H * D;
    float *qkv = numbers(rows * S, 9), *dout = numbers(n, 10), *first = NULL;
    for (int t = 0; t < TEAMS; t++) {
        struct mot_segment s[3];
        float *out = nans(n), *lse = nans(rows * H), *dqkv = nans(rows * S);
        use_threads(teams[t]);
        for (int i = 0, row = 0; i < 3; row += count[i++]) {
            const int start = i ? PROMPT : 0;
            s[i] = (struct mot_segment){.first = row,
                                        .count = count[i],
                                        .position = start,
                                        .own = cache_create(start, count[i]),
                                        .own_grad = calloc((size_t)2 * KV * count[i] * D, 4)};
            if (i) { s[i].prefix = s[0].own, s[i].prefix_grad = s[0].own_grad; }
        }
        e.kernels->attention(&e, &shape, 0, s, 3, qkv, out, lse);
        e.kernels->attention_grad(&e, &shape, 0, s, 3, qkv, out, lse, dout, dqkv);
        if (first) { expect_equal("attention's gradient", dqkv, first, rows * S); }
        for (int i = 0; i < 3; i++) { free(s[i].own.data), free(s[i].own_grad); }
        free(out), free(lse);
        if (first) {
            free(dqkv);
        } else {
            first = dqkv;
        }
    }
    free(qkv), free(dout), free(first);
}

static void test_sums(void)
{
    enum { BIG = 300000 };
    float *big = numbers(BIG, 11);
    double sum = 0.0;
    for (int t = 0; t < TEAMS; t++) {
        use_threads(teams[t]);
        const double got = e.kernels->sum_of_squares(&e, BIG, big);
        expect_true("sum of squares", t == 0 || got == sum);
        sum = got;
    }
    free(big);
}

int main(void)
{
    e = exec_create();
    test_linear(96, 48);
    test_linear(48, 96);
    test_linear(320, 48);
    test_linear(259, 128);
    test_linear(64, 4864);
    test_linear(77, 31);
    test_linear_sums(40, 96, 48);
    test_linear_sums(2100, 96, 48);
    test_linear_sums(1300, 259, 30);
    row_input = numbers((size_t)ROWS * V + 8, 12);
    expect_rows("rmsnorm", rmsnorm_rows, C);
    expect_rows("rmsnorm gradient", rmsnorm_grad_rows, C);
    expect_rows("swiglu", swiglu_rows, I);
    expect_rows("swiglu gradient", swiglu_grad_rows, 2 * I);
    expect_rows("sample and logprob", logprob_rows, 3);
    expect_rows("logprob gradient", logprob_grad_rows, V);
    free(row_input);
    test_attention();
    test_attention_grad();
    test_sums();
    mot_arena_destroy(e.arena);
    printf(failures ? "%d FAILED\n" : "all right\n", failures);
    return failures != 0;
}
