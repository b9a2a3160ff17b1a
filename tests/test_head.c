/* The vocabulary head in chunks (peers row 44): log-probs and entropies have the same bits for
 * every chunk from 1 to all rows, gradients agree to rounding, the loss callback sees each token
 * once in order, and scratch memory is bounded by the chunk, forward and backward, whatever the
 * number of targets.  Log-probs and gradient are also compared with the formula in double. */
#include "network.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { T = 40, N = 57, V = 3000, C = 32 };
static const struct mot_model_shape shape = {1, C, 32, 2, 1, 16, V, 64, 1e-5f, 10000.0, 0, 0, 0};
static float hidden[T * C];
static int32_t row[N], target[N]; /* rows in no order, some twice */

struct result {
    float logprob[N], entropy[N], dhidden[T * C];
    size_t peak; /* bytes of scratch */
    int next;    /* token the callback expects */
};

static void set_up(void)
{
    for (int i = 0; i < T * C; i++) { hidden[i] = mot_normal(2, MOT_RNG_TEST, (uint32_t)i, 0, 0); }
    for (int i = 0; i < N; i++) {
        row[i] = (i * 23) % T;
        target[i] = (int32_t)mot_uniform_int(2, MOT_RNG_TEST, (uint32_t)i, 1, 0, V);
    }
}

static void coef_of(void *context, int first, int n, const float *logprob, const float *entropy,
                    float *coef)
{
    struct result *r = context;
    assert_int_equal(first, r->next);
    r->next += n;
    for (int i = 0; i < n; i++) {
        assert_true(logprob[i] < 0.0f && entropy[i] > 0.0f); /* already known */
        coef[i] = (float)((first + i) % 3 - 1) * 0.5f;
    }
}

static struct network run(int n, int chunk, int with_gradient, struct result *r)
{
    memset(r, 0, sizeof(*r));
    struct network net = network_create(&shape, NULL, 21);
    const struct mot_head_targets targets = {n, row, target, 0.9f, chunk};
    if (with_gradient) {
        mot_head_loss(&net.e, &net.t, network_weights(&net), hidden, &targets, coef_of, r,
                      r->logprob, r->entropy, r->dhidden, net.grads);
        assert_int_equal(r->next, n);
    } else {
        mot_head_logprob(&net.e, &net.t, network_weights(&net), hidden, &targets, r->logprob,
                         r->entropy);
    }
    r->peak = mot_arena_peak_bytes(net.e.arena);
    return net;
}

static void near(double got, double expected, double limit, const char *what)
{
    if (!(fabs(got - expected) <= limit)) {
        fail_msg("%s: got %.9g, expected %.9g", what, got, expected);
    }
}

static void test_chunks_agree(void **state)
{
    (void)state;
    static struct result whole, part;
    struct network a = run(N, N, 1, &whole);
    for (int chunk = 1; chunk < N; chunk += chunk < 8 ? 1 : 11) {
        for (int with_gradient = 0; with_gradient <= 1; with_gradient++) {
            struct network b = run(N, chunk, with_gradient, &part);
            assert_memory_equal(part.logprob, whole.logprob, sizeof(whole.logprob));
            assert_memory_equal(part.entropy, whole.entropy, sizeof(whole.entropy));
            for (int i = 0; with_gradient && i < T * C; i++) {
                near(part.dhidden[i], whole.dhidden[i], 1e-5, "dhidden");
            }
            const size_t head = a.t.layout.head_offset;
            for (int i = 0; with_gradient && i < V * C; i++) {
                near(b.grads[2][head + i], a.grads[2][head + i], 1e-5, "gradient of the head");
            }
            network_destroy(&b);
        }
    }
    network_destroy(&a);
}

static void test_formula(void **state)
{
    (void)state;
    static struct result r;
    static double dhidden[T * C], dw[V * C], p[V];
    memset(dhidden, 0, sizeof(dhidden));
    memset(dw, 0, sizeof(dw));
    struct network net = run(N, 10, 1, &r);
    const float *w = net.weights[2] + net.t.layout.head_offset;
    for (int i = 0; i < N; i++) {
        const float *x = hidden + row[i] * C;
        double largest = -INFINITY, sum = 0.0, entropy = 0.0;
        for (int v = 0; v < V; v++) {
            p[v] = 0.0;
            for (int c = 0; c < C; c++) { p[v] += (double)x[c] * w[v * C + c]; }
            p[v] *= (double)0.9f;
            largest = fmax(largest, p[v]);
        }
        for (int v = 0; v < V; v++) { sum += exp(p[v] - largest); }
        const double lse = largest + log(sum);
        near(r.logprob[i], p[target[i]] - lse, 2e-5, "log-prob");
        for (int v = 0; v < V; v++) {
            const double lp = p[v] - lse;
            p[v] = exp(lp);
            entropy -= p[v] * lp;
        }
        near(r.entropy[i], entropy, 2e-5, "entropy");
        const double coef = (i % 3 - 1) * 0.5 * (double)0.9f;
        for (int v = 0; v < V; v++) {
            const double d = coef * ((v == target[i]) - p[v]);
            for (int c = 0; c < C; c++) {
                dhidden[row[i] * C + c] += d * w[v * C + c];
                dw[v * C + c] += d * x[c];
            }
        }
    }
    for (int i = 0; i < T * C; i++) { near(r.dhidden[i], dhidden[i], 1e-5, "dhidden"); }
    for (int i = 0; i < V * C; i++) {
        near(net.grads[2][net.t.layout.head_offset + i], dw[i], 1e-5, "gradient of the head");
    }
    network_destroy(&net);
}

static void test_memory_is_bounded_by_the_chunk(void **state)
{
    (void)state;
    static struct result few, many;
    static const int chunk = 4;
    for (int with_gradient = 0; with_gradient <= 1; with_gradient++) {
        /* the last chunk as large as that of N: oneDNN 3 takes other scratch for few rows */
        struct network a = run(chunk + N % chunk, chunk, with_gradient, &few);
        struct network b = run(N, chunk, with_gradient, &many);
        assert_int_equal(few.peak, many.peak);
        /* the logits of a chunk, and a product's operands once more where they are packed */
        const size_t logits = (size_t)chunk * V * sizeof(float);
        assert_true(many.peak >= logits);
        assert_true(many.peak < 2 * logits + (size_t)V * C * sizeof(float) + 65536);
        network_destroy(&a);
        network_destroy(&b);
        struct network none = run(0, chunk, with_gradient, &few); /* nothing to do */
        network_destroy(&none);
    }
}

int main(void)
{
    set_up();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_agree),
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_memory_is_bounded_by_the_chunk),
    };
    return cmocka_run_group_tests_name("head", tests, NULL, NULL);
}
