/* optimiser: learning-rate schedules (transformers/optimization.py) and the clip factor
 * (torch.nn.utils.clip_grad_norm_).  See optimiser.h. */
#include "optimiser.h"
#include "error.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

struct mot_schedule {
    const char *name;
    int has_warmup;
    double (*factor)(double progress); /* in [0, 1] from the end of the warm-up to the last step */
};

static double linear(double progress)
{
    return 1.0 - progress;
}

static double cosine(double progress)
{
    return 0.5 * (1.0 + cos(M_PI * progress));
}

static double constant(double progress)
{
    (void)progress;
    return 1.0;
}

static const struct mot_schedule schedules[] = {
    {"linear", 1, linear},
    {"cosine", 1, cosine},
    {"constant", 0, constant},
    {"constant_with_warmup", 1, constant},
};

int mot_schedule_find(const char *name, const struct mot_schedule **schedule)
{
    for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++) {
        if (strcmp(schedules[i].name, name) == 0) {
            *schedule = &schedules[i];
            return 0;
        }
    }
    return mot_fail(EINVAL,
                    "lr_scheduler_type: no \"%s\", there are linear, cosine, constant, "
                    "constant_with_warmup",
                    name);
}

double mot_schedule_factor(const struct mot_schedule *schedule, int step, int warmup_steps,
                           int total_steps)
{
    MOT_ASSERT(step >= 0 && warmup_steps >= 0);
    if (schedule->has_warmup && step < warmup_steps) { return (double)step / warmup_steps; }
    const int begin = schedule->has_warmup ? warmup_steps : 0;
    const int length = total_steps > begin ? total_steps - begin : 1;
    return schedule->factor(fmin(1.0, (double)(step - begin) / length));
}

int mot_warmup_steps(int warmup_steps, double warmup_ratio, int total_steps)
{
    return warmup_steps > 0 ? warmup_steps : (int)ceil(warmup_ratio * total_steps);
}

double mot_clip_factor(double norm, double max_norm)
{
    return max_norm > 0.0 ? fmin(1.0, max_norm / (norm + 1e-6)) : 1.0;
}
