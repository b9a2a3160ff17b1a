/* policy_loss: the clipped surrogate, its aggregations, KL estimators and metrics, in double.  See
 * policy_loss.h for the formulas and their sources. */
#include "policy_loss.h"
#include "error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bounds of what is exponentiated, as verl and OpenRLHF have them: exp(20) = 4.9e8. */
static const double exponent_max = 20.0;

/* Passes NaN on, which fmin and fmax would hide. */
static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double weight_per_answer(int answer_tokens, int micro_batch_tokens)
{
    (void)micro_batch_tokens;
    return answer_tokens > 0 ? 1.0 / answer_tokens : 0.0;
}

static double weight_per_micro_batch(int answer_tokens, int micro_batch_tokens)
{
    (void)answer_tokens;
    return micro_batch_tokens > 0 ? 1.0 / micro_batch_tokens : 0.0;
}

static double weight_one(int answer_tokens, int micro_batch_tokens)
{
    (void)answer_tokens, (void)micro_batch_tokens;
    return 1.0;
}

static double over_answers(const struct mot_loss_counts *counts)
{
    return counts->answers;
}

static double over_micro_batches(const struct mot_loss_counts *counts)
{
    return counts->micro_batches;
}

static double over_tokens(const struct mot_loss_counts *counts)
{
    return counts->tokens;
}

static double over_answers_at_full_length(const struct mot_loss_counts *counts)
{
    return counts->answers * counts->max_completion_length;
}

static void clipped_surrogate(const struct mot_policy_loss_options *options, double logprob,
                              double old, double advantage, struct mot_surrogate *out)
{
    const double log_ratio = logprob - old;
    const double ratio = exp(clamp(log_ratio, -exponent_max, exponent_max));
    const double clipped = clamp(ratio, 1.0 - options->epsilon, 1.0 + options->epsilon_high);
    const double free_value = ratio * advantage, clipped_value = clipped * advantage;
    const int is_clipped = free_value > clipped_value; /* where equal, the ratio is inside */
    const int is_constant = is_clipped || fabs(log_ratio) > exponent_max;

    out->ratio = ratio;
    out->loss = is_clipped ? -clipped_value : -free_value;
    out->gradient = is_constant ? 0.0 : -free_value;
}

static const struct mot_loss_type mot_loss_grpo = {"grpo", weight_per_answer, over_answers,
                                                   clipped_surrogate};
static const struct mot_loss_type mot_loss_bnpo = {"bnpo", weight_per_micro_batch,
                                                   over_micro_batches, clipped_surrogate};
static const struct mot_loss_type mot_loss_dapo = {"dapo", weight_one, over_tokens,
                                                   clipped_surrogate};
static const struct mot_loss_type mot_loss_dr_grpo = {
    "dr_grpo", weight_one, over_answers_at_full_length, clipped_surrogate};

static const struct mot_loss_type *const types[] = {
#define MOT_LOSS_TYPE(name) &mot_loss_##name,
#include "policy_loss_table.h"
#undef MOT_LOSS_TYPE
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

int mot_loss_type_find(const char *name, const struct mot_loss_type **type)
{
    char names[512] = "";
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(types[i]->name, name) == 0) {
            *type = types[i];
            return 0;
        }
        const size_t used = strlen(names);
        snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", types[i]->name);
    }
    return mot_fail(EINVAL, "loss_type: no \"%s\", there are %s", name, names);
}

int mot_kl_estimator_find(const char *name, enum mot_kl_estimator *estimator)
{
    for (int i = MOT_KL_K1; i <= MOT_KL_K3; i++) {
        if (name[0] == 'k' && name[1] == '1' + i && name[2] == '\0') {
            *estimator = (enum mot_kl_estimator)i;
            return 0;
        }
    }
    return mot_fail(EINVAL, "kl_estimator: no \"%s\", there are k1, k2, k3", name);
}

double mot_policy_loss_denominator(const struct mot_policy_loss_options *options,
                                   const struct mot_loss_counts *counts)
{
    return fmax(options->type->denominator(counts), 1.0);
}

/* The estimator's value and its derivative with respect to logprob. */
static double kl_value(enum mot_kl_estimator estimator, double logprob, double reference,
                       double *gradient)
{
    const double d = logprob - reference;
    if (estimator == MOT_KL_K1) {
        *gradient = 1.0;
        return d;
    }
    if (estimator == MOT_KL_K2) {
        *gradient = d;
        return 0.5 * d * d;
    }
    const double inside = clamp(d, -exponent_max, exponent_max);
    *gradient = fabs(d) > exponent_max ? 0.0 : 1.0 - exp(-d);
    return exp(-inside) + inside - 1.0;
}

/* The shares of an answer whose tokens have all come. */
static void end_answer(struct mot_policy_loss *loss)
{
    struct mot_policy_loss_metrics *m = &loss->metrics;
    const double n = loss->under_way.tokens;
    if (n == 0.0) { return; }
    const double low = loss->under_way.low / n, high = loss->under_way.high / n;
    m->clip_low_min = m->answers == 0.0 ? low : fmin(m->clip_low_min, low);
    m->clip_high_max = fmax(m->clip_high_max, high);
    m->answers += 1.0;
    loss->under_way.tokens = loss->under_way.low = loss->under_way.high = 0.0;
}

void mot_policy_loss_end(struct mot_policy_loss *loss)
{
    if (loss->answer_of) { end_answer(loss); }
}

/* Target t more in the sums. */
static void count_token(struct mot_policy_loss *loss, int t, double ratio, double difference)
{
    const struct mot_policy_loss_options *options = loss->options;
    struct mot_policy_loss_metrics *m = &loss->metrics;
    const double advantage = loss->advantage[t];
    const int low = ratio < 1.0 - options->epsilon && advantage < 0.0;
    const int high = ratio > 1.0 + options->epsilon_high && advantage > 0.0;
    m->clip_low += low;
    m->clip_high += high;
    m->clip_region += low || high;
    if (loss->answer_of) {
        if (loss->answer_of[t] != loss->under_way.answer) { end_answer(loss); }
        loss->under_way.answer = loss->answer_of[t];
        loss->under_way.tokens += 1.0;
        loss->under_way.low += low;
        loss->under_way.high += high;
    }
    m->ratio_min = m->tokens == 0.0 ? ratio : fmin(m->ratio_min, ratio);
    m->ratio_max = m->tokens == 0.0 ? ratio : fmax(m->ratio_max, ratio);
    m->ratio_sum += ratio;
    m->ratio_sq_sum += ratio * ratio;
    m->difference_sum += difference;
    m->difference_max = fmax(m->difference_max, difference);
    m->tokens += 1.0;
}

void mot_policy_loss_coef(void *context, int first, int n, const float *logprob,
                          const float *entropy, float *coef)
{
    struct mot_policy_loss *loss = context;
    const struct mot_policy_loss_options *options = loss->options;
    struct mot_policy_loss_metrics *m = &loss->metrics;
    MOT_ASSERT(options->beta == 0.0 || loss->reference);
    MOT_ASSERT((loss->behaviour != NULL) == (loss->factor != NULL));

    for (int i = 0; i < n; i++) {
        const double weight = loss->weight[first + i];
        coef[i] = 0.0f;
        if (weight == 0.0) { continue; }
        const double lp = logprob[i], old = loss->old[first + i];
        const double advantage = loss->advantage[first + i];
        struct mot_surrogate s;
        options->type->surrogate(options, lp, old, advantage, &s);
        double difference = fabs(lp - old);
        if (loss->behaviour) {
            const double factor = loss->factor[first + i];
            s.loss *= factor;
            s.gradient *= factor;
            difference = fabs(old - loss->behaviour[first + i]);
        }
        double kl = 0.0, kl_gradient = 0.0;
        if (options->beta != 0.0) {
            kl = kl_value(options->kl_estimator, lp, loss->reference[first + i], &kl_gradient);
        }
        coef[i] = (float)(weight * (s.gradient + options->beta * kl_gradient));
        count_token(loss, first + i, s.ratio, difference);
        m->loss += weight * (s.loss + options->beta * kl);
        m->kl_sum += kl;
        m->entropy_sum += entropy ? entropy[i] : 0.0;
    }
}

void mot_policy_loss_metrics_add(struct mot_policy_loss_metrics *to,
                                 const struct mot_policy_loss_metrics *from)
{
    if (from->tokens == 0.0) { return; }
    if (to->tokens == 0.0) {
        *to = *from;
        return;
    }
    to->tokens += from->tokens;
    to->loss += from->loss;
    to->entropy_sum += from->entropy_sum;
    to->kl_sum += from->kl_sum;
    to->clip_low += from->clip_low;
    to->clip_high += from->clip_high;
    to->clip_region += from->clip_region;
    if (from->answers > 0.0) {
        to->clip_low_min =
            to->answers == 0.0 ? from->clip_low_min : fmin(to->clip_low_min, from->clip_low_min);
        to->clip_high_max = fmax(to->clip_high_max, from->clip_high_max);
        to->answers += from->answers;
    }
    to->ratio_sum += from->ratio_sum;
    to->ratio_sq_sum += from->ratio_sq_sum;
    to->ratio_min = fmin(to->ratio_min, from->ratio_min);
    to->ratio_max = fmax(to->ratio_max, from->ratio_max);
    to->difference_sum += from->difference_sum;
    to->difference_max = fmax(to->difference_max, from->difference_max);
    mot_importance_sums_add(&to->importance, &from->importance);
}
