/* The policy losses and advantages against values computed by hand in double (a group of four
 * answers with lengths 3, 5, 2, 4), and what users of other trainers have tripped over:
 *   peers row 1: the same batch in 1x8, 2x4, 8x1 micro-batches has the same gradient
 *   peers row 2: a globally normalised loss is not divided again, with a mean-type term in the sum
 *   peers row 3: lengths 1 and 3, A = +1, -1: loss 0.5 and gradient 0.25 however it is split
 *   peers row 4: dr_grpo's golden value; a duplicated batch has the same loss
 *   peers row 5: truncated answers leave numerator and denominator; all truncated is 0, not NaN
 *   peers rows 6, 7: counts come from lengths; weights say what counts, never an id
 *   peers row 10: on-policy the loss is 0 and the gradient is not
 *   peers row 12: k1, k2, k3; ref - lp = 200 stays finite; k3's expectation is the full KL
 *   peers rows 13, 18: a reward that abstains; groups without spread, and KL on them
 *   stale answers: truncated importance sampling and the decoupled loss, by token and by sequence
 * Expected values are in double and compared to 1e-6. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "advantage.h"
#include "error.h"
#include "policy_loss.h"
#include "rng.h"

enum { G = 4, N = 14, LENGTH_MAX = 5, MAX = 64 };
static const int length[G] = {3, 5, 2, 4};
static const float reward[G] = {1.0f, 0.0f, 0.0f, 0.5f};
static const float lp[N] = {-0.50f, -1.20f, -0.10f, -0.90f, -2.00f, -0.30f, -0.70f,
                            -1.50f, -1.10f, -0.40f, -0.20f, -0.80f, -2.50f, -0.60f};
static const float old[N] = {-0.60f, -1.00f, -0.10f, -0.70f, -2.40f, -0.35f, -0.70f,
                             -1.10f, -1.60f, -0.45f, -0.20f, -0.95f, -2.10f, -0.90f};
static const float ref[N] = {-0.70f, -1.10f, -0.20f, -0.80f, -2.10f, -0.40f, -0.60f,
                             -1.30f, -1.30f, -0.50f, -0.30f, -0.90f, -2.20f, -0.70f};

static const float beh[N] = {-0.65f, -1.30f, -0.10f, -0.70f, -2.40f, -0.30f, -1.90f,
                             -1.10f, -1.50f, -0.45f, -0.25f, -0.95f, -2.00f, -1.10f};

static void near(double got, double expected, double limit, const char *what)
{
    if (!(fabs(got - expected) <= limit)) {
        fail_msg("%s: got %.9g, expected %.9g", what, got, expected);
    }
}

/* Answers laid out as targets, as the head sees them. */
struct batch {
    int answers, tokens;
    int length[MAX];
    int masked[MAX]; /* per answer */
    float advantage[MAX], old[MAX], ref[MAX], lp[MAX];
    int is_stale;
    float beh[MAX]; /* read when is_stale: old is then the proximal policy's */
};

static struct batch golden(enum mot_scale_rewards scale)
{
    struct batch b = {.answers = G, .tokens = N};
    float adv[G];
    mot_advantage(1, G, reward, scale, adv, NULL);
    int t = 0;
    for (int a = 0; a < G; a++) {
        b.length[a] = length[a];
        for (int i = 0; i < length[a]; i++) { b.advantage[t++] = adv[a]; }
    }
    memcpy(b.lp, lp, sizeof(lp));
    memcpy(b.old, old, sizeof(old));
    memcpy(b.ref, ref, sizeof(ref));
    memcpy(b.beh, beh, sizeof(beh));
    return b;
}

static struct mot_policy_loss_options options_of(const char *type, double beta)
{
    struct mot_policy_loss_options o = {
        .epsilon = 0.2, .epsilon_high = 0.2, .beta = beta, .kl_estimator = MOT_KL_K3};
    assert_int_equal(mot_loss_type_find(type, &o.type), 0);
    return o;
}

/* Answers [from, to) as one micro-batch: coef and metrics un-normalised, counts of what is not
 * masked.  The coefficients are asked for in pieces of 3, as a head working in chunks does. */
static void micro_batch(const struct batch *b, const struct mot_policy_loss_options *o, int from,
                        int to, float *coef, struct mot_policy_loss_metrics *metrics,
                        struct mot_loss_counts *counts)
{
    float weight[MAX] = {0}, factor[MAX];
    int first = 0, tokens = 0, answer_of[MAX];
    for (int a = 0; a < from; a++) { first += b->length[a]; }
    for (int a = from; a < to; a++) { tokens += b->masked[a] ? 0 : b->length[a]; }
    int t = 0;
    for (int a = from; a < to; a++) {
        const double w = b->masked[a] ? 0.0 : o->type->token_weight(b->length[a], tokens);
        for (int i = 0; i < b->length[a]; i++, t++) {
            weight[t] = (float)w;
            answer_of[t] = a;
        }
        counts->answers += !b->masked[a];
    }
    counts->tokens += tokens;
    counts->micro_batches += tokens > 0;
    struct mot_policy_loss loss = {.options = o,
                                   .advantage = b->advantage + first,
                                   .old = b->old + first,
                                   .reference = o->beta != 0.0 ? b->ref + first : NULL,
                                   .weight = weight,
                                   .answer_of = answer_of};
    if (b->is_stale) {
        loss.behaviour = b->beh + first;
        loss.factor = factor;
        mot_importance(&o->importance, t, answer_of, loss.old, loss.behaviour, weight, factor,
                       &loss.metrics.importance);
    }
    float entropy[MAX];
    for (int i = 0; i < t; i++) { entropy[i] = 0.5f; }
    for (int i = 0; i < t; i += 3) {
        const int n = t - i < 3 ? t - i : 3;
        mot_policy_loss_coef(&loss, i, n, b->lp + first + i, entropy + i, coef + first + i);
    }
    mot_policy_loss_end(&loss);
    mot_policy_loss_metrics_add(metrics, &loss.metrics);
}

/* The batch in micro-batches of `size` answers: normalised loss and gradient. */
static double loss_of(const struct batch *b, const struct mot_policy_loss_options *o, int size,
                      double *gradient, struct mot_policy_loss_metrics *m)
{
    float coef[MAX];
    struct mot_policy_loss_metrics sum = {0};
    struct mot_loss_counts counts = {.max_completion_length = LENGTH_MAX};
    for (int a = 0; a < b->answers; a += size) {
        const int to = a + size < b->answers ? a + size : b->answers;
        micro_batch(b, o, a, to, coef, &sum, &counts);
    }
    const double denominator = mot_policy_loss_denominator(o, &counts);
    for (int t = 0; gradient && t < b->tokens; t++) { gradient[t] = coef[t] / denominator; }
    if (m) { *m = sum; }
    return sum.loss / denominator;
}

static void test_advantages(void **state)
{
    (void)state;
    static const double trl[G] = {1.305310, -0.783186, -0.783186, 0.261062};
    static const double dr[G] = {0.625, -0.375, -0.375, 0.125};
    float adv[G];
    struct mot_advantage_sums sums = {0};
    mot_advantage(1, G, reward, MOT_SCALE_GROUP, adv, &sums);
    for (int g = 0; g < G; g++) { near(adv[g], trl[g], 1e-6, "advantage, scale group"); }
    near(sums.group_std_sum, 0.478714, 1e-6, "std, ddof 1");
    near(sums.reward_sum / sums.rewards, 0.375, 1e-6, "mean");
    mot_advantage(1, G, reward, MOT_SCALE_NONE, adv, NULL);
    for (int g = 0; g < G; g++) { near(adv[g], dr[g], 1e-6, "advantage, scale none"); }

    /* batch: the mean is the group's, the std that of all eight */
    const float two[2 * G] = {1, 0, 0, 0.5f, 1, 1, 1, 0};
    double mean = 0, var = 0;
    float adv2[2 * G];
    for (int i = 0; i < 8; i++) { mean += two[i] / 8.0; }
    for (int i = 0; i < 8; i++) { var += (two[i] - mean) * (two[i] - mean) / 7.0; }
    mot_advantage(2, G, two, MOT_SCALE_BATCH, adv2, NULL);
    near(adv2[0], 0.625 / (sqrt(var) + 1e-4), 1e-6, "advantage, scale batch");
    near(adv2[7], -0.75 / (sqrt(var) + 1e-4), 1e-6, "advantage, scale batch");
}

static void test_equal_rewards_give_zero(void **state)
{
    (void)state;
    float r[16], adv[16];
    for (int i = 0; i < 16; i++) { r[i] = 0.1f; } /* its float mean is off by a rounding */
    struct mot_advantage_sums sums = {0};
    mot_advantage(1, 16, r, MOT_SCALE_GROUP, adv, &sums);
    for (int i = 0; i < 16; i++) { assert_true(adv[i] == 0.0f); }
    assert_true(sums.groups_zero_std == 1.0);
    mot_advantage(4, 4, r, MOT_SCALE_BATCH, adv, &sums);
    for (int i = 0; i < 16; i++) { assert_true(adv[i] == 0.0f); }
    assert_true(sums.groups_zero_std == 5.0 && sums.groups == 5.0);
    mot_advantage(16, 1, r, MOT_SCALE_GROUP, adv, NULL); /* groups of one */
    for (int i = 0; i < 16; i++) { assert_true(adv[i] == 0.0f); }
}

static void test_abstaining_rewards(void **state)
{
    (void)state;
    const float r[4] = {1.0f, NAN, 0.0f, 0.5f}, valid[3] = {1.0f, 0.0f, 0.5f};
    float adv[4], expected[3];
    struct mot_advantage_sums sums = {0};
    mot_advantage(1, 4, r, MOT_SCALE_GROUP, adv, &sums);
    mot_advantage(1, 3, valid, MOT_SCALE_GROUP, expected, NULL);
    assert_true(adv[0] == expected[0] && adv[2] == expected[1] && adv[3] == expected[2]);
    assert_true(adv[1] == 0.0f);
    assert_true(sums.abstained == 1.0 && sums.rewards == 3.0);
    near(sums.reward_sum / sums.rewards, 0.5, 1e-6, "mean of what did not abstain");

    const float none[3] = {NAN, NAN, NAN}, one[3] = {NAN, 2.0f, NAN};
    mot_advantage(1, 3, none, MOT_SCALE_GROUP, adv, &sums);
    assert_true(adv[0] == 0.0f && adv[1] == 0.0f && adv[2] == 0.0f);
    mot_advantage(1, 3, one, MOT_SCALE_BATCH, adv, &sums);
    assert_true(adv[0] == 0.0f && adv[1] == 0.0f && adv[2] == 0.0f);
    assert_true(isfinite(sums.reward_sum) && isfinite(sums.group_std_sum));
    assert_true(sums.groups_zero_std == 2.0);

    /* two functions: the sum of those that speak; NaN only where both abstain */
    const float value[2 * 3] = {1.0f, NAN, NAN, 0.5f, 2.0f, NAN};
    const double weight[2] = {2.0, 10.0};
    float combined[3];
    mot_reward_combine(3, 2, value, weight, combined);
    assert_true(combined[0] == 7.0f && combined[1] == 20.0f && isnan(combined[2]));
}

/* peers row 18: the share of groups without signal is p^G + (1 - p)^G for a reward of chance p. */
static void test_share_of_dead_groups(void **state)
{
    (void)state;
    static const double shares[][2] = {{2, 0.7048}, {8, 0.2044}};
    enum { GROUPS = 4000 };
    for (int k = 0; k < 2; k++) {
        const int size = (int)shares[k][0];
        struct mot_advantage_sums sums = {0};
        for (int p = 0; p < GROUPS; p++) {
            float r[8], adv[8];
            for (int g = 0; g < size; g++) {
                r[g] = mot_uniform(1, MOT_RNG_TEST, (uint32_t)p, (uint32_t)g, 0) < 0.18f;
            }
            mot_advantage(1, size, r, MOT_SCALE_GROUP, adv, &sums);
        }
        near(sums.groups_zero_std / sums.groups, shares[k][1], 0.03, "frac_reward_zero_std");
    }
}

static void test_golden_losses(void **state)
{
    (void)state;
    struct batch b = golden(MOT_SCALE_GROUP);
    struct mot_policy_loss_metrics m;
    struct mot_policy_loss_options o = options_of("grpo", 0);
    near(loss_of(&b, &o, 4, NULL, NULL), 0.0826180, 1e-6, "grpo");
    o.epsilon_high = 0.28;
    near(loss_of(&b, &o, 4, NULL, NULL), 0.0813127, 1e-6, "grpo, clip-higher");
    o = options_of("dapo", 0);
    near(loss_of(&b, &o, 4, NULL, &m), 0.0920019, 1e-6, "dapo");
    near(m.clip_low / m.tokens, 1.0 / 14, 1e-6, "clip low");
    near(m.clip_high / m.tokens, 1.0 / 14, 1e-6, "clip high");
    near(m.clip_region / m.tokens, 2.0 / 14, 1e-6, "clip region");
    near(m.ratio_max, exp(0.5), 1e-6, "largest ratio");
    near(m.ratio_min, exp(-0.4), 1e-6, "smallest ratio");
    near(m.difference_max, 0.5, 1e-6, "largest |lp - old|");
    near(m.entropy_sum / m.tokens, 0.5, 1e-6, "entropy");
    o.epsilon_high = 0.28;
    near(loss_of(&b, &o, 4, NULL, NULL), 0.0905100, 1e-6, "dapo, clip-higher");
    o = options_of("dr_grpo", 0);
    near(loss_of(&b, &o, 4, NULL, NULL), 0.0644013, 1e-6, "sum / (G * 5)");
    o = options_of("bnpo", 0);
    near(loss_of(&b, &o, 4, NULL, NULL), 0.0920019, 1e-6, "bnpo, one micro-batch");
    near(loss_of(&b, &o, 2, NULL, NULL), 0.1026257, 1e-6,
         "bnpo, micro-batches of 2: a mean of means");
    b = golden(MOT_SCALE_NONE);
    o = options_of("dr_grpo", 0);
    near(loss_of(&b, &o, 4, NULL, NULL), 0.0308362, 1e-6, "Dr.GRPO");
}

static void test_golden_kl(void **state)
{
    (void)state;
    static const double mean[3] = {0.0214286, 0.0110714, 0.0112927};
    static const double answer_mean[3] = {0.0441667, 0.0113750, 0.0114351};
    struct batch b = golden(MOT_SCALE_GROUP);
    struct mot_policy_loss_metrics m;
    for (int k = 0; k < 3; k++) {
        static const char *const name[3] = {"k1", "k2", "k3"};
        struct mot_policy_loss_options o = options_of("dapo", 1.0), plain = options_of("grpo", 0);
        assert_int_equal(mot_kl_estimator_find(name[k], &o.kl_estimator), 0);
        loss_of(&b, &o, 4, NULL, &m);
        near(m.kl_sum / m.tokens, mean[k], 1e-6, name[k]);
        o.type = plain.type;
        near(loss_of(&b, &o, 4, NULL, NULL) - loss_of(&b, &plain, 4, NULL, NULL), answer_mean[k],
             1e-6, "KL, mean of means");
    }
    struct mot_policy_loss_options o = options_of("grpo", 0.04);
    near(loss_of(&b, &o, 4, NULL, NULL), 0.0830754, 1e-6, "grpo + .04 k3");
    o = options_of("dapo", 0.04);
    near(loss_of(&b, &o, 4, NULL, NULL), 0.0924536, 1e-6, "dapo + .04 k3");
    enum mot_kl_estimator e;
    assert_int_equal(mot_kl_estimator_find("k4", &e), -EINVAL);
    assert_int_equal(mot_loss_type_find("gapo", &o.type), -EINVAL);
    assert_non_null(strstr(mot_last_message(), "dr_grpo"));
}

static void test_golden_gradients(void **state)
{
    (void)state;
    static const double plain[N] = {-.103042, -.076336, -.093236, .045801, .083455,
                                    .058810,  .055942,  0,        .092233, .058810,
                                    -.018647, -.021665, -.012500, 0};
    static const double with_kl[N] = {-.102524, -.076636, -.092965, .045501, .083727,
                                      .059082,  .055641,  -.000633, .092750, .059082,
                                      -.018375, -.021393, -.013499, .000272};
    static const double on_policy[G] = {-0.093236, 0.055942, 0.055942, -0.018647};
    struct batch b = golden(MOT_SCALE_GROUP);
    double g[MAX];
    struct mot_policy_loss_options o = options_of("dapo", 0);
    loss_of(&b, &o, 4, g, NULL);
    for (int t = 0; t < N; t++) { near(g[t], plain[t], 1e-6, "d dapo / d lp"); }
    o.beta = 0.04;
    loss_of(&b, &o, 4, g, NULL);
    for (int t = 0; t < N; t++) { near(g[t], with_kl[t], 1e-6, "d (dapo + .04 k3) / d lp"); }

    /* peers row 10: on-policy, clip fractions 0; zero-mean advantages give grpo a loss of 0 */
    struct mot_policy_loss_metrics m;
    memcpy(b.lp, old, sizeof(old));
    o.beta = 0;
    near(loss_of(&b, &o, 4, g, &m), 0.0372946, 1e-6, "dapo on-policy");
    int t = 0;
    for (int a = 0; a < G; a++) {
        for (int i = 0; i < length[a]; i++) { near(g[t++], on_policy[a], 1e-6, "on-policy"); }
    }
    assert_true(m.clip_region == 0 && m.ratio_min == 1 && m.ratio_max == 1);
    o = options_of("grpo", 0);
    near(loss_of(&b, &o, 4, g, NULL), 0.0, 1e-6, "grpo on-policy");
    assert_true(fabs(g[0]) > 0.01);
}

struct stale_row {
    enum mot_importance_mode mode;
    double min, max, grpo, dapo;
};

static void test_golden_stale_losses(void **state)
{
    (void)state;
    static const struct stale_row rows[] = {
        {MOT_IMPORTANCE_TOKEN_TRUNCATE, NAN, 2.0, 0.062958, 0.099588},
        {MOT_IMPORTANCE_TOKEN_MASK, 0.5, 2.0, -0.015361, -0.012296},
        {MOT_IMPORTANCE_SEQUENCE_TRUNCATE, NAN, 3.0, 0.317800, 0.528741},
        {MOT_IMPORTANCE_SEQUENCE_MASK, NAN, 3.0, -0.288601, -0.337546},
        {MOT_IMPORTANCE_TOKEN_MASK, NAN, 5.0, NAN, 0.1734376}, /* the decoupled loss, upper 5 */
        {MOT_IMPORTANCE_TOKEN_MASK, NAN, 2.0, NAN, -0.0122959},
    };
    struct batch b = golden(MOT_SCALE_GROUP);
    b.is_stale = 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct mot_policy_loss_options o = options_of("dapo", 0), grpo = options_of("grpo", 0);
        o.importance = (struct mot_importance_options){rows[i].mode, rows[i].min, rows[i].max};
        grpo.importance = o.importance;
        near(loss_of(&b, &o, 2, NULL, NULL), rows[i].dapo, 1e-6, "stale, dapo");
        if (isnan(rows[i].grpo)) { continue; }
        near(loss_of(&b, &grpo, 2, NULL, NULL), rows[i].grpo, 1e-6, "stale, grpo");
    }
    /* Without a correction the ratio is to the sampler's policy, and clips there. */
    struct mot_policy_loss_options o = options_of("dapo", 0);
    struct batch coupled = golden(MOT_SCALE_GROUP);
    memcpy(coupled.old, beh, sizeof(beh));
    near(loss_of(&coupled, &o, 4, NULL, NULL), 0.1783919, 1e-6, "coupled");
}

static void test_importance_factors(void **state)
{
    (void)state;
    static const double w[N] = {1.051271, 1.349859, 1, 1,        1, .951229, 3.320117,
                                1,        .904837,  1, 1.051271, 1, .904837, 1.221403};
    static const double product[G] = {1.419068, 3.158193, .904837, 1.161834};
    struct batch b = golden(MOT_SCALE_GROUP);
    b.is_stale = 1;
    int answer_of[N];
    float factor[N], weight[N];
    for (int a = 0, t = 0; a < G; a++) {
        for (int i = 0; i < length[a]; i++, t++) {
            answer_of[t] = a;
            weight[t] = 1.0f;
        }
    }
    struct mot_importance_options o = {MOT_IMPORTANCE_TOKEN_TRUNCATE, NAN, NAN};
    struct mot_importance_sums sums = {0};
    mot_importance(&o, N, answer_of, old, beh, weight, factor, &sums);
    for (int t = 0; t < N; t++) { near(factor[t], w[t], 1e-6, "w"); }
    assert_true(sums.n == N);
    near(sums.max, 3.320117, 1e-6, "largest w");
    near(sums.min, .904837, 1e-6, "smallest w");

    o.mode = MOT_IMPORTANCE_SEQUENCE_TRUNCATE;
    sums = (struct mot_importance_sums){0};
    mot_importance(&o, N, answer_of, old, beh, weight, factor, &sums);
    for (int t = 0; t < N; t++) { near(factor[t], product[answer_of[t]], 1e-6, "w of a row"); }
    assert_true(sums.n == G);
    near(sums.sum, product[0] + product[1] + product[2] + product[3], 1e-6, "sum of w");

    /* Bounds below, masked answers, numbers far apart, and NaN, which must show. */
    const float far[4] = {-300.0f, -1.0f, -1.0f, NAN}, near_by[4] = {-1.0f, -1.0f, -300.0f, -1.0f};
    const float some[4] = {1.0f, 0.0f, 1.0f, 1.0f};
    const int own[4] = {0, 1, 2, 3};
    o = (struct mot_importance_options){MOT_IMPORTANCE_TOKEN_TRUNCATE, 0.5, NAN};
    mot_importance(&o, 4, own, far, near_by, some, factor, &sums);
    assert_true(factor[0] == 0.5f && factor[1] == 0.0f && isnan(factor[3]));
    near(factor[2] / exp(20.0), 1.0, 1e-6, "a clamped exponent");

    /* The metrics are of the sampler's against the trainer's log-probs, and add up. */
    struct mot_policy_loss_metrics m;
    struct mot_policy_loss_options dapo = options_of("dapo", 0);
    dapo.importance = (struct mot_importance_options){MOT_IMPORTANCE_TOKEN_TRUNCATE, NAN, NAN};
    loss_of(&b, &dapo, 1, NULL, &m);
    near(m.difference_sum / m.tokens, 0.1464286, 1e-6, "mean |old - behaviour|");
    near(m.difference_max, 1.2, 1e-6, "largest |old - behaviour|");
    assert_true(m.importance.n == N);
    near(m.importance.max, 3.320117, 1e-6, "largest factor");
}

/* Derivatives by central differences of the loss itself, all types and estimators. */
static void test_gradients_by_differences(void **state)
{
    (void)state;
    static const char *const types[] = {"grpo", "bnpo", "dapo", "dr_grpo"};
    const float step = 1.0f / 1024;
    for (int k = 0; k < 12; k++) {
        struct mot_policy_loss_options o = options_of(types[k / 3], 0.3);
        o.kl_estimator = (enum mot_kl_estimator)(k % 3);
        struct batch b = golden(MOT_SCALE_GROUP);
        double g[MAX];
        b.is_stale = k % 2; /* the factor has no gradient of its own */
        o.importance = (struct mot_importance_options){MOT_IMPORTANCE_TOKEN_TRUNCATE, NAN, 2.0};
        loss_of(&b, &o, 2, g, NULL);
        for (int t = 0; t < N; t++) {
            const float at = b.lp[t];
            b.lp[t] = at + step;
            const double above = loss_of(&b, &o, 2, NULL, NULL);
            b.lp[t] = at - step;
            const double below = loss_of(&b, &o, 2, NULL, NULL);
            b.lp[t] = at;
            near((above - below) / (2.0 * step), g[t], 1e-5, "difference quotient");
        }
    }
}

/* peers rows 1, 2: eight answers in any split; the KL term is the auxiliary mean-type one. */
static void test_split_does_not_matter(void **state)
{
    (void)state;
    static const char *const types[] = {"grpo", "dapo", "dr_grpo"};
    struct batch b = {.answers = 8};
    for (int a = 0; a < 8; a++) {
        b.length[a] = 1 + (a * 5) % 7;
        for (int i = 0; i < b.length[a]; i++, b.tokens++) {
            const uint32_t t = (uint32_t)b.tokens;
            b.advantage[t] = (float)(a % 3 - 1);
            b.lp[t] = -2.0f * mot_uniform(5, MOT_RNG_TEST, t, 0, 0);
            b.old[t] = b.lp[t] + 0.6f * (mot_uniform(5, MOT_RNG_TEST, t, 1, 0) - 0.5f);
            b.ref[t] = b.lp[t] + 0.6f * (mot_uniform(5, MOT_RNG_TEST, t, 2, 0) - 0.5f);
        }
    }
    for (int k = 0; k < 3; k++) {
        struct mot_policy_loss_options o = options_of(types[k], 0.04);
        double whole[MAX], parts[MAX];
        const double loss = loss_of(&b, &o, 8, whole, NULL);
        for (int size = 1; size < 8; size++) {
            near(loss_of(&b, &o, size, parts, NULL), loss, 1e-9, "loss of a split batch");
            for (int t = 0; t < b.tokens; t++) { near(parts[t], whole[t], 1e-9, "split"); }
        }
    }
}

static void test_two_answers_of_unequal_length(void **state)
{
    (void)state;
    struct batch b = {.answers = 2, .tokens = 4, .length = {1, 3}, .advantage = {1, -1, -1, -1}};
    struct mot_policy_loss_options o = options_of("dapo", 0);
    for (int size = 1; size <= 2; size++) {
        double g[MAX];
        near(loss_of(&b, &o, size, g, NULL), 0.5, 1e-9, "peers row 3: loss");
        for (int t = 0; t < 4; t++) { near(fabs(g[t]), 0.25, 1e-9, "peers row 3: gradient"); }
    }
}

static void test_duplicated_batch(void **state)
{
    (void)state;
    static const char *const types[] = {"grpo", "bnpo", "dapo", "dr_grpo"};
    for (int k = 0; k < 4; k++) {
        struct batch one = golden(MOT_SCALE_GROUP), two = one;
        two.answers = 2 * G;
        two.tokens = 2 * N;
        memcpy(two.length + G, one.length, sizeof(int) * G);
        memcpy(two.advantage + N, one.advantage, sizeof(float) * N);
        memcpy(two.lp + N, lp, sizeof(lp));
        memcpy(two.old + N, old, sizeof(old));
        memcpy(two.ref + N, ref, sizeof(ref));
        struct mot_policy_loss_options o = options_of(types[k], 0.04);
        near(loss_of(&two, &o, 4, NULL, NULL), loss_of(&one, &o, 4, NULL, NULL), 1e-9, types[k]);
    }
}

static void test_truncated_answers(void **state)
{
    (void)state;
    static const char *const types[] = {"grpo", "bnpo", "dapo", "dr_grpo"};
    for (int k = 0; k < 4; k++) {
        struct mot_policy_loss_options o = options_of(types[k], 0.04);
        struct batch all = golden(MOT_SCALE_GROUP), half = all;
        half.masked[2] = half.masked[3] = 1;
        half.advantage[8] = half.lp[10] = NAN; /* what is masked is not looked at */
        struct batch first_two = all;
        first_two.answers = 2;
        first_two.tokens = 8;
        double g[MAX], expected[MAX];
        struct mot_policy_loss_metrics m;
        near(loss_of(&half, &o, 4, g, &m), loss_of(&first_two, &o, 4, expected, NULL), 1e-12,
             "half of the answers truncated");
        for (int t = 0; t < N; t++) { near(g[t], t < 8 ? expected[t] : 0.0, 1e-12, "gradient"); }
        assert_true(m.tokens == 8);

        for (int a = 0; a < G; a++) { all.masked[a] = 1; }
        near(loss_of(&all, &o, 2, g, &m), 0.0, 0.0, "all truncated");
        for (int t = 0; t < N; t++) { near(g[t], 0.0, 0.0, "all truncated"); }
        assert_true(m.tokens == 0 && m.ratio_max == 0);
    }
}

/* By hand: answers of 4, 2, 3 and 1 tokens, ratios 0.5 where a token counts as clipped below, 2
 * where above, else 1.  TRL: (is_low_clipped * mask).sum(-1) / mask.sum(-1) of each answer, then
 * the least; the same of is_high_clipped, then the greatest; masked answers are NaN and left
 * out. */
static void test_clipped_shares(void **state)
{
    (void)state;
    static const float ratio[] = {0.5f, 1, 1, 2, /**/ 0.5f, 2, /**/ 2, 2, 1, /**/ 0.5f};
    static const float advantage[] = {-1, -1, -1, -1, /**/ -1, -1, /**/ 1, 1, 1, /**/ -1};
    struct batch b = {.answers = 4, .tokens = 10, .length = {4, 2, 3, 1}};
    memcpy(b.advantage, advantage, sizeof(advantage));
    for (int t = 0; t < b.tokens; t++) { b.lp[t] = logf(ratio[t]) + (b.old[t] = -3.0f); }
    struct mot_policy_loss_options o = options_of("dapo", 0.0);
    struct mot_policy_loss_metrics m;
    for (int size = 1; size <= 4; size++) {
        loss_of(&b, &o, size, NULL, &m);
        near(m.answers, 4, 0, "answers");
        near(m.clip_low, 3, 0, "tokens clipped below");
        near(m.clip_high, 2, 0, "tokens clipped above");
        near(m.clip_region, 5, 0, "tokens clipped");
        near(m.clip_low_min, 0, 0, "the third answer has none below");
        near(m.clip_high_max, 2.0 / 3.0, 1e-15, "two of its three above");
    }
    b.masked[2] = 1;
    loss_of(&b, &o, 3, NULL, &m);
    near(m.answers, 3, 0, "answers that are not masked");
    near(m.clip_low_min, 0.25, 0, "shares 1/4, 1/2, 1");
    near(m.clip_high_max, 0, 0, "none above");
}

static void test_far_from_reference_and_old(void **state)
{
    (void)state;
    struct batch b = {.answers = 1, .tokens = 2, .length = {2}, .advantage = {-1, 1}};
    b.lp[0] = b.lp[1] = -300;
    b.ref[0] = b.ref[1] = -100; /* ref - lp = 200 */
    b.old[1] = -500;            /* ratio exp(200) */
    b.old[0] = -500;
    for (int k = 0; k < 3; k++) {
        double g[MAX];
        struct mot_policy_loss_metrics m;
        struct mot_policy_loss_options o = options_of("dapo", 0.04);
        o.kl_estimator = (enum mot_kl_estimator)k;
        assert_true(isfinite(loss_of(&b, &o, 1, g, &m)));
        assert_true(isfinite(g[0]) && isfinite(g[1]) && isfinite(m.kl_sum));
        assert_true(isfinite((float)m.ratio_max));
    }
    b.lp[0] = NAN; /* but what is not a number must show */
    struct mot_policy_loss_options o = options_of("dapo", 0.04);
    double g[MAX];
    assert_true(isnan(loss_of(&b, &o, 1, g, NULL)) && isnan(g[0]));
}

/* peers row 12: over a vocabulary of 5, sum p k3 is the full KL(p || q), and so are k1's. */
static void test_k3_expectation_is_the_kl(void **state)
{
    (void)state;
    static const double p[5] = {0.5, 0.2, 0.15, 0.1, 0.05}, q[5] = {0.3, 0.3, 0.2, 0.1, 0.1};
    double full = 0.0;
    for (int v = 0; v < 5; v++) { full += p[v] * log(p[v] / q[v]); }
    for (int k = 0; k < 3; k += 2) { /* k1 and k3 */
        double mean = 0.0;
        for (int v = 0; v < 5; v++) {
            struct batch b = {.answers = 1, .tokens = 1, .length = {1}};
            struct mot_policy_loss_options o = options_of("dapo", 1.0);
            o.kl_estimator = (enum mot_kl_estimator)k;
            b.lp[0] = b.old[0] = (float)log(p[v]);
            b.ref[0] = (float)log(q[v]);
            struct mot_policy_loss_metrics m;
            double g[MAX];
            loss_of(&b, &o, 1, g, &m);
            mean += p[v] * m.kl_sum;
            /* peers row 18: the advantage is 0 here, and KL still acts */
            if (k == 2) { near(g[0], 1.0 - q[v] / p[v], 1e-6, "gradient of k3"); }
        }
        near(mean, full, 1e-6, "expectation of the estimator");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_advantages),
        cmocka_unit_test(test_equal_rewards_give_zero),
        cmocka_unit_test(test_abstaining_rewards),
        cmocka_unit_test(test_share_of_dead_groups),
        cmocka_unit_test(test_golden_losses),
        cmocka_unit_test(test_golden_kl),
        cmocka_unit_test(test_golden_gradients),
        cmocka_unit_test(test_golden_stale_losses),
        cmocka_unit_test(test_importance_factors),
        cmocka_unit_test(test_gradients_by_differences),
        cmocka_unit_test(test_split_does_not_matter),
        cmocka_unit_test(test_two_answers_of_unequal_length),
        cmocka_unit_test(test_duplicated_batch),
        cmocka_unit_test(test_truncated_answers),
        cmocka_unit_test(test_clipped_shares),
        cmocka_unit_test(test_far_from_reference_and_old),
        cmocka_unit_test(test_k3_expectation_is_the_kl),
    };
    return cmocka_run_group_tests_name("policy_loss", tests, NULL, NULL);
}
