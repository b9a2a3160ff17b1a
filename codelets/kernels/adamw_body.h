/* One number's AdamW step; the factors of a whole call are worked out once (adamw.c).  Compiled
 * after dialect.h. */
struct mot_adamw_factors {
    float grad_scale, decay;   /* decay = 1 - learning_rate weight_decay */
    float beta2, rest1, rest2; /* rest = 1 - beta */
    float inv_sqrt_bias2;      /* 1 / sqrt(1 - beta2^step) */
    float eps, step_size;      /* step_size = learning_rate / (1 - beta1^step) */
};

MOT_DEVICE void mot_adamw_number(const struct mot_adamw_factors *f, float grad, MOT_GLOBAL float *p,
                                 MOT_GLOBAL float *m, MOT_GLOBAL float *v)
{
    const float g = grad * f->grad_scale;
    const float mean = *m + f->rest1 * (g - *m);
    const float square = *v * f->beta2 + f->rest2 * (g * g);
    const float root = sqrtf(square) * f->inv_sqrt_bias2 + f->eps;
    *m = mean;
    *v = square;
    *p = *p * f->decay - f->step_size * (mean / root);
}
