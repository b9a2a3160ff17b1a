/* importance: factors of stale tokens.  See importance.h. */
#include "importance.h"
#include <math.h>

static const double exponent_max = 20.0;

void mot_importance_sums_add(struct mot_importance_sums *to, const struct mot_importance_sums *from)
{
    if (from->n == 0.0) { return; }
    to->min = to->n == 0.0 ? from->min : fmin(to->min, from->min);
    to->max = to->n == 0.0 ? from->max : fmax(to->max, from->max);
    to->n += from->n;
    to->sum += from->sum;
}

/* Comparisons with NaN are false: no bound, and NaN passes. */
static double bounded(const struct mot_importance_options *o, double log_ratio)
{
    double x = log_ratio < -exponent_max ? -exponent_max : log_ratio;
    x = x > exponent_max ? exponent_max : x;
    const double w = exp(x);
    const int is_low = w<o->min, is_high = w> o->max;
    if (!is_low && !is_high) { return w; }
    const int is_mask =
        o->mode == MOT_IMPORTANCE_TOKEN_MASK || o->mode == MOT_IMPORTANCE_SEQUENCE_MASK;
    if (is_mask) { return 0.0; }
    return is_low ? o->min : o->max;
}

void mot_importance(const struct mot_importance_options *options, int n, const int *answer_of,
                    const float *proximal, const float *behaviour, const float *weight,
                    float *factor, struct mot_importance_sums *sums)
{
    const int by_token = options->mode == MOT_IMPORTANCE_TOKEN_MASK
                         || options->mode == MOT_IMPORTANCE_TOKEN_TRUNCATE;
    for (int first = 0, end; first < n; first = end) {
        double log_ratio = 0.0;
        end = first;
        do {
            if (weight[end] != 0.0f) {
                log_ratio += (double)proximal[end] - (double)behaviour[end];
            }
            end++;
        } while (!by_token && end < n && answer_of[end] == answer_of[first]);
        const int counts = weight[first] != 0.0f;
        const double w = counts ? bounded(options, log_ratio) : 0.0;
        for (int t = first; t < end; t++) { factor[t] = (float)w; }
        if (!counts) { continue; }
        const struct mot_importance_sums one = {.n = 1.0, .sum = w, .min = w, .max = w};
        mot_importance_sums_add(sums, &one);
    }
}
