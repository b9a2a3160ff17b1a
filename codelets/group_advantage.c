/* group_advantage: CPU variant, codelet, submission.  See group_advantage.h. */
#include "group_advantage.h"
#include <string.h>

struct argument {
    const struct mot_reward_function *functions;
    int n_functions, n_groups, group_size;
    enum mot_scale_rewards scale;
    float *rewards;
    struct mot_advantage_sums *sums;
};

static void group_advantage_cpu(void *buffers[], void *cl_arg)
{
    const struct argument *a = cl_arg;
    struct mot_exec *e = mot_cpu_exec();
    const int n = a->n_groups * a->group_size;
    float *values = mot_arena_take(e->arena, sizeof(float) * (size_t)(n * a->n_functions));
    double *weights = mot_arena_take(e->arena, sizeof(double) * (size_t)a->n_functions);
    float *advantages = mot_arena_take(e->arena, sizeof(float) * (size_t)n);
    for (int f = 0; f < a->n_functions; f++) {
        weights[f] = a->functions[f].weight;
        for (int i = 0; i < n; i++) {
            values[f * n + i] = ((const float *)STARPU_VECTOR_GET_PTR(buffers[i]))[f];
        }
    }
    mot_reward_combine(n, a->n_functions, values, weights, a->rewards);
    mot_advantage(a->n_groups, a->group_size, a->rewards, a->scale, advantages, a->sums);
    for (int g = 0; g < a->n_groups; g++) {
        float *out = (float *)STARPU_VECTOR_GET_PTR(buffers[n + g]);
        memcpy(out, advantages + g * a->group_size, sizeof(float) * (size_t)a->group_size);
    }
}

static struct starpu_perfmodel group_advantage_model = MOT_STAGE_MODEL("motley_group_advantage");

static struct starpu_codelet group_advantage_codelet = {
    .name = "advantage",
    .where = STARPU_CPU,
    .cpu_funcs = {group_advantage_cpu},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &group_advantage_model,
};

int mot_insert_group_advantage(const struct mot_group_advantage *g)
{
    struct argument a = {.functions = g->functions,
                         .n_functions = g->n_functions,
                         .n_groups = g->n_groups,
                         .group_size = g->group_size,
                         .scale = g->scale,
                         .rewards = g->rewards,
                         .sums = g->sums};
    const int n = g->n_groups * g->group_size;
    struct mot_buffers b = {0};
    mot_buffers_add_all(&b, g->scores, n, STARPU_R);
    mot_buffers_add_all(&b, g->advantages, g->n_groups, STARPU_W);
    struct mot_task task = {.codelet = &group_advantage_codelet,
                            .name = "train.advantage",
                            .hint = g->hint,
                            .done = g->done,
                            .argument_done = g->argument_done,
                            .priority = g->priority};
    task.hint.rows = n;
    return mot_stage_insert(&task, &b, &a, sizeof(a));
}
