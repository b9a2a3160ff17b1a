/* workload_run: a workload as steps of GRPO without numbers.  See workload.h. */
#include "grpo_window.h"
#include "rng.h"
#include "simulate.h"
#include "workload.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT, ANSWER, UNKNOWN }; /* what a length is drawn for */

/* What every step borrows. */
struct run {
    const struct mot_workload *workload;
    uint64_t seed;
    struct mot_actor actor, reference;
    struct mot_dataset dataset;
    int32_t *prompt; /* (prompts.max) ids that nobody reads */
    struct mot_reward reward;
    struct mot_reward_function function;
    struct mot_answer_lengths lengths;
    struct mot_grpo grpo;
};

/* The length policies are told of is what would come but for a factor nobody can know. */
static void answer_length(const void *context, int step, int prompt, int sample, int *tokens,
                          int *expected)
{
    const struct run *r = context;
    const struct mot_workload *w = r->workload;
    const int length = mot_lengths_draw(&w->answers, r->seed, ANSWER, step, prompt, sample);
    *expected = w->lengths_known ? length : 0;
    *tokens = length;
    if (w->unknown_sigma > 0.0) {
        const struct mot_lengths factor = {
            .mean = length, .sigma = w->unknown_sigma, .max = w->answers.max};
        *tokens = mot_lengths_draw(&factor, r->seed, UNKNOWN, step, prompt, sample);
    }
}

static int create_actor(const struct run *r, int lanes, struct mot_actor *actor)
{
    const struct mot_workload *w = r->workload;
    struct mot_model model = {.info.shape = w->shape};
    int error = mot_layout_create(&model.layout, &w->shape);
    if (error) { return error; }
    model.groups = mot_alloc_zeroed((size_t)model.layout.n_groups, sizeof(float *));
    for (int g = 0; g < model.layout.n_groups; g++) {
        model.groups[g] = mot_simulated_memory(model.layout.group_floats[g] * sizeof(float));
    }
    const struct mot_actor_options options = {.dtype = w->dtype,
                                              .copies = lanes > 0 && w->staleness > 0,
                                              .max_versions = w->staleness + 2,
                                              .lanes = lanes};
    error = mot_actor_create(actor, &model, &options);
    mot_layout_destroy(&model.layout);
    return error;
}

/* One example for each prompt of the run. */
static void create_dataset(struct run *r)
{
    const struct mot_workload *w = r->workload;
    struct mot_dataset *d = &r->dataset;
    r->prompt = mot_alloc_zeroed((size_t)w->prompts.max, sizeof(int32_t));
    d->n = w->prompts_per_step * w->steps;
    d->examples = mot_alloc_zeroed((size_t)d->n, sizeof(*d->examples));
    for (int i = 0; i < d->n; i++) {
        const int step = i / w->prompts_per_step, prompt = i % w->prompts_per_step;
        const int n = mot_lengths_draw(&w->prompts, r->seed, PROMPT, step, prompt, 0);
        d->examples[i].prompt = (struct mot_ids){.id = r->prompt, .n = (size_t)n};
    }
}

static int fill_grpo(struct run *r)
{
    const struct mot_workload *w = r->workload;
    const int devices = mot_simulation()->machine->n_devices;
    r->reward = (struct mot_reward){.name = "simulated"};
    r->function = (struct mot_reward_function){.reward = &r->reward, .weight = 1.0};
    r->lengths = (struct mot_answer_lengths){.of = answer_length, .context = r};
    struct mot_grpo *g = &r->grpo;
    g->actor = &r->actor;
    g->reference = w->reference ? &r->reference : NULL;
    g->dataset = &r->dataset;
    g->rollout = (struct mot_rollout_options){.sampling.temperature = 1.0f,
                                              .max_completion_length = w->answers.max,
                                              .chunk = w->chunk,
                                              .rows_per_task = w->rows_per_task,
                                              .pack_weights = MOT_PACK_NEVER,
                                              .max_tasks = w->max_tasks ? w->max_tasks : devices,
                                              .seed = r->seed,
                                              .lengths = &r->lengths};
    g->loss.epsilon = g->loss.epsilon_high = 0.2;
    g->loss.beta = w->reference ? 0.04 : 0.0;
    g->optimizer = (struct mot_optimizer_options){.learning_rate = 1e-6,
                                                  .adam_beta1 = 0.9,
                                                  .adam_beta2 = 0.999,
                                                  .adam_epsilon = 1e-8,
                                                  .total_steps = w->steps};
    g->prompts_per_step = w->prompts_per_step;
    g->num_generations = w->group_size;
    g->answers_per_micro_batch = w->micro_batch;
    g->micro_batches_per_update = w->micro_batches_per_update;
    g->num_iterations = 1;
    g->scale_rewards = MOT_SCALE_GROUP;
    g->n_functions = 1;
    g->functions = &r->function;
    g->max_staleness = w->staleness;
    g->staleness_mode = w->staleness_mode;
    const int error = mot_loss_type_find("dapo", &g->loss.type);
    return error ? error : mot_schedule_find("constant", &g->optimizer.lr_scheduler_type);
}

static void look_at(const struct mot_grpo_result *result, double start_us,
                    struct mot_workload_step *step)
{
    const struct mot_rollout *rollout = result->rollout;
    step->end_s = (starpu_timing_now() - start_us) * 1e-6;
    step->generate_s = result->generate_seconds;
    step->prompt_tokens = rollout->prompt_tokens;
    step->answer_tokens = rollout->generated_tokens;
    for (int p = 0; p < rollout->n_groups; p++) {
        const int age = result->step - (int)rollout->groups[p].version_step;
        step->staleness_max = age > step->staleness_max ? age : step->staleness_max;
        step->staleness_mean += (double)age / rollout->n_groups;
    }
}

static int run_steps(struct run *r, struct mot_workload_result *result)
{
    const double start_us = starpu_timing_now();
    struct mot_grpo_window *window =
        mot_grpo_window_open(&r->grpo, &(struct mot_grpo_span){.end = r->workload->steps});
    int error = 0;
    for (;;) {
        const struct mot_grpo_result *step;
        error = mot_grpo_window_next(window, &step);
        if (error || step == NULL) { break; }
        look_at(step, start_us, &result->steps[result->n_steps]);
        result->makespan_s = result->steps[result->n_steps].end_s;
        result->generate_tasks += step->rollout->generate_tasks;
        result->n_steps++;
        mot_grpo_window_release(window);
    }
    mot_grpo_window_close(window);
    return error;
}

int mot_workload_run(const struct mot_workload *workload, uint64_t seed,
                     struct mot_workload_result *result)
{
    MOT_ASSERT(workload->dag == NULL && mot_simulation() != NULL);
    struct run *r = mot_alloc_zeroed(1, sizeof(*r));
    r->workload = workload;
    r->seed = seed;
    *result = (struct mot_workload_result){
        .steps = mot_alloc_zeroed((size_t)workload->steps, sizeof(*result->steps))};
    create_dataset(r);
    int error = create_actor(r, workload->lanes, &r->actor);
    if (!error && workload->reference) { error = create_actor(r, 0, &r->reference); }
    if (!error) { error = fill_grpo(r); }
    if (!error) { error = run_steps(r, result); }
    if (!error) {
        mot_actor_destroy(&r->actor);
        if (workload->reference) { mot_actor_destroy(&r->reference); }
    }
    free(r->dataset.examples);
    free(r->prompt);
    free(r);
    return error;
}
