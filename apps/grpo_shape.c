/* grpo_shape: steps of GRPO without files.  See grpo_shape.h. */
#include "grpo_shape.h"
#include "grpo_window.h"
#include <stdlib.h>

static int fill(struct mot_app_model *model, const struct mot_dataset *data,
                const struct mot_grpo_shape *shape, struct mot_reward_function *function,
                struct mot_grpo *g)
{
    const int answers = shape->prompts * shape->generations;
    const struct mot_optimiser_config optimiser = {.learning_rate = shape->learning_rate,
                                                   .adam_beta1 = 0.9,
                                                   .adam_beta2 = 0.999,
                                                   .adam_epsilon = 1e-8,
                                                   .max_grad_norm = 1.0,
                                                   .deterministic = 1,
                                                   .lanes = shape->lanes,
                                                   .lr_scheduler_type = (char *)"constant"};
    *g = (struct mot_grpo){.actor = &model->actor,
                           .dataset = data,
                           .tokenizer = model->tokenizer,
                           .loss = {.epsilon = 0.2, .epsilon_high = 0.2},
                           .prompts_per_step = shape->prompts,
                           .num_generations = shape->generations,
                           .answers_per_micro_batch = shape->answers_per_micro_batch,
                           .num_iterations = 1,
                           .n_functions = 1,
                           .functions = function,
                           .seed = (uint64_t)shape->sampling.seed,
                           .shuffle = 1};
    g->micro_batches_per_update = shape->micro_batches_per_update
                                      ? shape->micro_batches_per_update
                                      : answers / shape->answers_per_micro_batch;
    mot_app_rollout_options(&shape->sampling, model, answers, &g->rollout);
    const int error = mot_loss_type_find("dapo", &g->loss.type);
    return error ? error : mot_app_optimiser(&optimiser, 1000000, &g->optimizer);
}

static void note(const struct mot_rollout *rollout, struct mot_grpo_shape_run *run)
{
    for (int p = 0; p < rollout->n_groups; p++) {
        const struct mot_group *group = &rollout->groups[p];
        run->prompt_tokens += group->prompt_tokens;
        for (int k = 0; k < group->n_rows; k++) {
            run->lengths[run->n_lengths++] = group->rows[k].n;
        }
    }
}

static int run_steps(const struct mot_grpo *g, int steps, struct mot_grpo_shape_run *run)
{
    double before_us = starpu_timing_now();
    struct mot_grpo_window *window = mot_grpo_window_open(g, &(struct mot_grpo_span){.end = steps});
    int error = 0, done = 0;
    for (;;) {
        const struct mot_grpo_result *step;
        error = mot_grpo_window_next(window, &step);
        if (error || step == NULL) { break; }
        const double now_us = starpu_timing_now();
        run->step_s[done++] = 1e-6 * (now_us - before_us);
        before_us = now_us;
        note(step->rollout, run);
        mot_grpo_window_release(window);
    }
    mot_grpo_window_close(window);
    return error;
}

int mot_grpo_shape_measure(struct mot_app_model *model, const struct mot_dataset *data,
                           const struct mot_grpo_shape *shape, struct mot_grpo_shape_run *run)
{
    const size_t steps = (size_t)shape->steps, prompts = (size_t)shape->prompts;
    *run = (struct mot_grpo_shape_run){
        .step_s = mot_alloc_zeroed(steps, sizeof(double)),
        .lengths = mot_alloc_zeroed(steps * prompts * (size_t)shape->generations, sizeof(int))};
    char *const names[] = {(char *)"exact"};
    struct mot_reward_function *function = NULL;
    struct mot_grpo grpo;
    int error = mot_reward_functions_open(names, 1, NULL, 0, &function);
    if (!error) { error = fill(model, data, shape, function, &grpo); }
    if (!error) { error = run_steps(&grpo, shape->steps, run); }
    mot_reward_functions_close(function, function ? 1 : 0);
    run->prompt_tokens /= (double)(steps * prompts);
    return error;
}

void mot_grpo_shape_run_free(struct mot_grpo_shape_run *run)
{
    free(run->step_s);
    free(run->lengths);
    *run = (struct mot_grpo_shape_run){0};
}
