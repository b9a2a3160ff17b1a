/* advantage: see advantage.h.  Two passes in double: E[r^2] - E[r]^2 cancels badly when rewards are
 * nearly equal, the usual case late in training. */
#include "advantage.h"
#include "error.h"
#include <math.h>
#include <string.h>

static const double std_epsilon = 1e-4; /* TRL's */

int mot_scale_rewards_find(const char *name, enum mot_scale_rewards *scale)
{
    static const struct {
        const char *name;
        enum mot_scale_rewards scale;
    } names[] = {
        {"group", MOT_SCALE_GROUP}, {"batch", MOT_SCALE_BATCH}, {"none", MOT_SCALE_NONE},
        {"True", MOT_SCALE_GROUP},  {"true", MOT_SCALE_GROUP},  {"False", MOT_SCALE_NONE},
        {"false", MOT_SCALE_NONE},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i].name, name) == 0) {
            *scale = names[i].scale;
            return 0;
        }
    }
    return mot_fail(EINVAL, "scale_rewards: no \"%s\", there are group, batch, none", name);
}

void mot_reward_combine(int n, int functions, const float *value, const double *weight,
                        float *reward)
{
    for (int i = 0; i < n; i++) {
        double sum = 0.0;
        int counted = 0;
        for (int f = 0; f < functions; f++) {
            const double v = value[(size_t)f * (size_t)n + (size_t)i];
            if (isnan(v)) { continue; }
            sum += weight[f] * v;
            counted++;
        }
        reward[i] = counted > 0 ? (float)sum : NAN;
    }
}

/* Statistics of the numbers that are not NaN; relative to the first of them. */
struct spread {
    int count;
    double first, mean_above_first, std;
};

static struct spread spread_of(size_t n, const float *x)
{
    struct spread s = {.count = 0};
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i])) { continue; }
        if (s.count++ == 0) { s.first = x[i]; }
        sum += x[i] - s.first;
    }
    if (s.count < 2) { return s; }
    s.mean_above_first = sum / s.count;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i])) { continue; }
        const double d = x[i] - s.first - s.mean_above_first;
        squares += d * d;
    }
    s.std = sqrt(squares / (s.count - 1));
    return s;
}

static void count_group(int size, const struct spread *s, struct mot_advantage_sums *sums)
{
    sums->rewards += s->count;
    sums->reward_sum += s->count * (s->first + s->mean_above_first);
    sums->abstained += size - s->count;
    sums->groups += 1.0;
    sums->groups_zero_std += s->std == 0.0;
    if (s->count >= 2) {
        sums->group_std_sum += s->std;
        sums->groups_with_std += 1.0;
    }
}

void mot_advantage(int groups, int size, const float *reward, enum mot_scale_rewards scale,
                   float *adv, struct mot_advantage_sums *sums)
{
    MOT_ASSERT(groups >= 0 && size >= 1);
    const size_t n = (size_t)groups * (size_t)size;
    const double batch_std = scale == MOT_SCALE_BATCH ? spread_of(n, reward).std : 0.0;

    for (int p = 0; p < groups; p++) {
        const float *r = reward + (size_t)p * (size_t)size;
        float *a = adv + (size_t)p * (size_t)size;
        const struct spread s = spread_of((size_t)size, r);
        const double std = scale == MOT_SCALE_GROUP ? s.std : batch_std;
        const double divisor = scale == MOT_SCALE_NONE ? 1.0 : std + std_epsilon;
        for (int g = 0; g < size; g++) {
            const double d = r[g] - s.first - s.mean_above_first;
            a[g] = isnan(r[g]) || s.count < 2 ? 0.0f : (float)(d / divisor);
        }
        if (sums) { count_group(size, &s, sums); }
    }
}
