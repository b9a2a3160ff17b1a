/* norm: CPU variant and submission.  See norm.h. */
#include "norm.h"
#include "optimiser.h"
#include <math.h>

struct arguments {
    int n_groups, n_metrics;
    double denominator, max_grad_norm;
    struct mot_norm *result;
};

static void norm_cpu(void *buffers[], void *cl_arg)
{
    const struct arguments *a = cl_arg;
    struct mot_norm norm = {.finite = 1};
    double squares = 0.0;
    for (int g = 0; g < a->n_groups; g++) {
        squares += *(const double *)STARPU_VARIABLE_GET_PTR(buffers[g]);
    }
    for (int i = 0; i < a->n_metrics; i++) {
        const struct mot_gradient_metrics *m =
            (const struct mot_gradient_metrics *)STARPU_VARIABLE_GET_PTR(buffers[a->n_groups + i]);
        mot_policy_loss_metrics_add(&norm.sum.loss, &m->loss);
        norm.sum.prompt_tokens += m->prompt_tokens;
        norm.sum.forward_tokens += m->forward_tokens;
    }
    norm.grad_norm = sqrt(squares) / a->denominator;
    norm.grad_scale = mot_clip_factor(norm.grad_norm, a->max_grad_norm) / a->denominator;
    norm.finite = isfinite(norm.grad_norm) && isfinite(norm.sum.loss.loss);
    *a->result = norm;
}

/* In a simulation every step learns. */
static void norm_simulated(void *argument)
{
    const struct arguments *a = argument;
    *a->result = (struct mot_norm){.finite = 1, .grad_scale = 1.0, .sum.loss.tokens = 1.0};
}

static struct starpu_perfmodel norm_model = MOT_STAGE_MODEL("motley_norm");
static struct starpu_codelet norm_codelet = {
    .name = "norm",
    .where = STARPU_CPU,
    .cpu_funcs = {norm_cpu},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &norm_model,
};

int mot_insert_norm(const struct mot_norm_task *task)
{
    struct mot_buffers b = {0};
    mot_buffers_add_all(&b, task->squares, task->n_groups, STARPU_R);
    mot_buffers_add_all(&b, task->metrics, task->n_metrics, STARPU_R);
    struct arguments a = {task->n_groups, task->n_metrics, task->denominator, task->max_grad_norm,
                          task->result};
    struct mot_task insert = {
        .codelet = &norm_codelet,
        .name = "train.norm",
        .hint = task->hint,
        .done = task->done,
        .argument_done = task->argument,
        .priority = 1,
        .simulated.effect = norm_simulated,
    };
    insert.hint.flop = b.n;
    insert.hint.bytes = 8.0 * task->n_groups + (double)sizeof(struct mot_norm) * task->n_metrics;
    return mot_stage_insert(&insert, &b, &a, sizeof(a));
}
