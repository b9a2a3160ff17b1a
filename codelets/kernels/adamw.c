/* AdamW, see kernels.h.  Bias corrections are computed in double, once per call. */
#include "cpu_kernels.h"
#include "dialect.h"
#include "error.h"
#include "parallel.h"

/* After dialect.h. */
#include "adamw_body.h"
#include <math.h>

void mot_cpu_adamw(struct mot_exec *e, size_t n, const struct mot_adamw *options, const float *grad,
                   float *p, float *m, float *v)
{
    (void)e;
    MOT_ASSERT(options->step >= 1);
    const double bias1 = 1.0 - pow(options->beta1, options->step);
    const double bias2 = 1.0 - pow(options->beta2, options->step);
    const double rate = options->learning_rate;
    const struct mot_adamw_factors f = {
        .grad_scale = options->grad_scale,
        .decay = (float)(1.0 - rate * options->weight_decay),
        .beta2 = (float)options->beta2,
        .rest1 = (float)(1.0 - options->beta1),
        .rest2 = (float)(1.0 - options->beta2),
        .inv_sqrt_bias2 = (float)(1.0 / sqrt(bias2)),
        .eps = (float)options->eps,
        .step_size = (float)(rate / bias1),
    };
    MOT_PARALLEL_FOR(n > MOT_WORTH_A_TEAM)
    for (size_t i = 0; i < n; i++) { mot_adamw_number(&f, grad[i], p + i, m + i, v + i); }
}
