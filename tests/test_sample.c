/* Sampling: frequencies follow the probabilities (chi-square), what top_k, top_p and min_p keep is
 * what brute force keeps, temperature 0 is greedy, the same uniform gives the same id, a row with
 * NaN yields a valid id and NaN log-probs.
 * peers row 27: with top_p 0.8 the log-prob of the full softmax and the renormalised one differ by
 * the log of the kept mass: the mean of exp(full - kept) is that mass, not 1.
 * Run it alone: ./test_sample        exit 0 pass, 1 fail */
#include "kernel_expect.h"

static struct mot_exec e;

/* How often each id is drawn in `draws` rows of the same logits, with the last draw's log-probs. */
static void draw(int V, const float *logits, const struct mot_sampling *o, int draws, int *count,
                 double *ratio_sum)
{
    float *rows = malloc((size_t)draws * V * sizeof(float)), *uniform = malloc(draws * 4);
    struct mot_sampled *drawn = malloc(draws * sizeof(*drawn));
    for (int r = 0; r < draws; r++) {
        memcpy(rows + (size_t)r * V, logits, (size_t)V * sizeof(float));
        uniform[r] = mot_uniform(5, MOT_RNG_TEST, (uint32_t)r, 0, 0);
    }
    e.kernels->sample(&e, draws, V, rows, o, uniform, drawn);
    *ratio_sum = 0.0;
    memset(count, 0, (size_t)V * sizeof(int));
    for (int r = 0; r < draws; r++) {
        expect_true("id in range", drawn[r].id >= 0 && drawn[r].id < V);
        count[drawn[r].id]++;
        *ratio_sum += exp((double)drawn[r].logprob - drawn[r].logprob_kept);
    }
    free(rows), free(uniform), free(drawn);
}

/* Probability of each id after the cuts, by sorting everything; returns the kept mass. */
static double expected(int V, const float *logits, const struct mot_sampling *o, double *p)
{
    int *order = malloc(V * sizeof(int));
    double sum = 0.0, max = -INFINITY, mass = 0.0, total = 0.0;
    for (int i = 0; i < V; i++) { max = fmax(max, logits[i]); }
    for (int i = 0; i < V; i++) {
        p[i] = exp((logits[i] - max) / o->temperature);
        sum += p[i];
        int at = i;
        for (; at > 0 && p[order[at - 1]] < p[i]; at--) { order[at] = order[at - 1]; }
        order[at] = i;
    }
    int kept = o->top_k > 0 && o->top_k < V ? o->top_k : V;
    while (kept < V && p[order[kept]] == p[order[kept - 1]]) { kept++; } /* ties stay */
    for (int i = 0; i < kept; i++) { total += p[order[i]]; }
    for (int i = 0; i < V; i++) {
        const double weight = p[order[i]];
        const int keep = i == 0
                         || (i < kept && (o->top_p >= 1.0f || mass < o->top_p * total)
                             && weight >= o->min_p * p[order[0]]);
        if (keep) {
            mass += weight;
        } else {
            kept = i < kept ? i : kept;
        }
        if (!keep) { p[order[i]] = 0.0; }
    }
    for (int i = 0; i < V; i++) { p[i] /= mass; }
    free(order);
    return mass / sum;
}

/* Chi-square of the drawn ids, none of which may lie outside the kept set. */
static void test_frequencies(const char *what, int V, const struct mot_sampling *o, int tie)
{
    enum { DRAWS = 20000 };
    float *logits = numbers(V, 1);
    int *count = malloc(V * sizeof(int)), cells = 0, before = failures;
    double *p = doubles(V), ratio_sum, chi = 0.0;
    for (int i = 0; i < V; i++) { logits[i] = tie ? (float)(i % 4) : 1.5f * logits[i]; }
    const double mass = expected(V, logits, o, p);
    draw(V, logits, o, DRAWS, count, &ratio_sum);
    for (int i = 0; i < V; i++) {
        if (p[i] == 0.0) {
            expect_true("nothing outside the kept set", count[i] == 0);
        } else if (DRAWS * p[i] >= 5.0) {
            chi += pow(count[i] - DRAWS * p[i], 2) / (DRAWS * p[i]);
            cells++;
        }
    }
    /* Mean cells - 1, variance twice that: six standard deviations above. */
    expect_true("chi-square", chi <= cells + 6.0 * sqrt(2.0 * cells));
    expect_true("mean exp(full - kept) is the kept mass", fabs(ratio_sum / DRAWS - mass) <= 1e-5);
    printf("%-16s chi-square %.1f in %d cells, kept mass %.4f (%.6f): %s\n", what, chi, cells, mass,
           ratio_sum / DRAWS, failures > before ? "FAIL" : "ok");
    free(logits), free(count), free(p);
}

/* A step through the quantiles of a large vocabulary: each uniform's id is where the running sum in
 * double says, up to rounding at the edges. */
static void test_large(const struct mot_sampling *o)
{
    enum { V = 49152, DRAWS = 64 };
    float *row = numbers(V, 2), *rows = malloc((size_t)DRAWS * V * sizeof(float));
    float uniform[DRAWS];
    struct mot_sampled drawn[DRAWS], again[1];
    double *p = doubles(V);
    for (int i = 0; i < V; i++) { row[i] *= 2.0f; }
    double max = -INFINITY, sum = 0.0;
    for (int i = 0; i < V; i++) { max = fmax(max, row[i]); }
    for (int i = 0; i < V; i++) {
        p[i] = exp((row[i] - max) / o->temperature);
        sum += p[i];
    }
    for (int r = 0; r < DRAWS; r++) {
        memcpy(rows + (size_t)r * V, row, V * sizeof(float));
        uniform[r] = ((float)r + 0.37f) / DRAWS;
    }
    uniform[DRAWS - 1] = 0x1.fffffep-1f;
    e.kernels->sample(&e, DRAWS, V, rows, o, uniform, drawn);
    for (int r = 0; r < DRAWS; r++) {
        double below = 0.0;
        for (int i = 0; i < drawn[r].id; i++) { below += p[i] / sum; }
        const double above = below + p[drawn[r].id] / sum;
        expect_true("id at its quantile", below - 1e-6 <= uniform[r] && uniform[r] <= above + 1e-6);
        const double logprob = log(p[drawn[r].id] / sum);
        expect_true("its log-prob", fabs(drawn[r].logprob - logprob) <= 1e-5);
        e.kernels->sample(&e, 1, V, row, o, &uniform[r], again);
        expect_true("alone as in the batch", memcmp(again, &drawn[r], sizeof(*again)) == 0);
    }
    free(row), free(rows), free(p);
}

/* What a pile of top_p settings keeps of a large vocabulary, seen through the kept log-prob. */
static void test_large_cuts(void)
{
    enum { V = 5000 };
    static const struct mot_sampling cuts[] = {{1.0f, 50, 1.0f, 0.0f},   {1.0f, 0, 0.9f, 0.0f},
                                               {0.6f, 0, 1.0f, 0.05f},   {1.3f, 40, 0.7f, 0.02f},
                                               {1.0f, 1, 1.0f, 0.0f},    {1.0f, 0, 0.0f, 0.0f},
                                               {1.0f, V + 9, 1.0f, 0.0f}};
    float *row = numbers(V, 3);
    double *p = doubles(V);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        const double mass = expected(V, row, &cuts[i], p);
        for (float uniform = 0.0f; uniform < 1.0f; uniform += 0.0517f) {
            struct mot_sampled drawn;
            e.kernels->sample(&e, 1, V, row, &cuts[i], &uniform, &drawn);
            expect_true("a kept id", p[drawn.id] > 0.0);
            expect_true("kept log-prob", fabs(drawn.logprob_kept - log(p[drawn.id])) <= 2e-5);
            expect_true("full log-prob", fabs(drawn.logprob - log(p[drawn.id] * mass)) <= 2e-5);
        }
    }
    free(row), free(p);
}

static void test_greedy_and_nan(void)
{
    const struct mot_sampling greedy = {0.0f, 5, 0.5f, 0.5f}, warm = {1.0f, 0, 1.0f, 0.0f};
    const struct mot_sampling cut = {1.0f, 2, 0.9f, 0.1f};
    const float rows[2][4] = {{1.0f, 3.0f, 3.0f, -2.0f}, {1.0f, NAN, 2.0f, 0.0f}};
    const float masked[4] = {-INFINITY, 0.0f, -INFINITY, 0.0f}, uniform[2] = {0.9f, 0.9f};
    struct mot_sampled drawn[2];
    e.kernels->sample(&e, 2, 4, rows[0], &greedy, uniform, drawn);
    expect_true("greedy takes the first of the largest", drawn[0].id == 1);
    expect_true("greedy's log-prob is temperature 1's",
                fabs(drawn[0].logprob - (3.0 - log(2 * exp(3.0) + exp(1.0) + exp(-2.0)))) <= 1e-6);
    for (int i = 0; i < 2; i++) {
        e.kernels->sample(&e, 2, 4, rows[0], i ? &cut : &warm, uniform, drawn);
        expect_true("NaN shows", isnan(drawn[1].logprob) && isnan(drawn[1].logprob_kept));
        expect_true("NaN gives a valid id", drawn[1].id >= 0 && drawn[1].id < 4);
        e.kernels->sample(&e, 1, 4, masked, i ? &cut : &warm, uniform, drawn);
        expect_true("-inf is never drawn",
                    drawn[0].id == 3 && drawn[0].entropy > 0.69f && drawn[0].entropy < 0.70f);
    }
}

int main(void)
{
    e = exec_create();
    test_frequencies("plain", 300, &(struct mot_sampling){1.0f, 0, 1.0f, 0.0f}, 0);
    test_frequencies("temperature", 60, &(struct mot_sampling){0.5f, 0, 1.0f, 0.0f}, 0);
    test_frequencies("top_k", 60, &(struct mot_sampling){1.0f, 7, 1.0f, 0.0f}, 0);
    test_frequencies("top_k of ties", 20, &(struct mot_sampling){1.0f, 7, 1.0f, 0.0f}, 1);
    test_frequencies("top_p", 60, &(struct mot_sampling){1.0f, 0, 0.8f, 0.0f}, 0);
    test_frequencies("min_p", 60, &(struct mot_sampling){1.5f, 0, 1.0f, 0.1f}, 0);
    test_frequencies("min_p of ties", 20, &(struct mot_sampling){1.0f, 0, 1.0f, 1.0f}, 1);
    test_frequencies("all three", 60, &(struct mot_sampling){0.8f, 20, 0.9f, 0.05f}, 0);
    test_large(&(struct mot_sampling){1.0f, 0, 1.0f, 0.0f});
    test_large_cuts();
    test_greedy_and_nan();
    mot_arena_destroy(e.arena);
    printf(failures ? "%d FAILED\n" : "all right\n", failures);
    return failures != 0;
}
