/* motley grpo: trains a model by GRPO with verifiable rewards.  Its options are in grpo_config.c;
 * the step itself is tasks/grpo_step.c. */
#include "evaluate.h"
#include "grpo_config.h"
#include "grpo_report.h"
#include "grpo_window.h"
#include "json.h"
#include "progress.h"
#include "run_directory.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A run under way. */
struct run {
    struct mot_grpo_config config;
    struct mot_app_model model, reference;
    struct mot_dataset train, eval;
    struct mot_reward_function *functions;
    struct mot_grpo grpo;
    struct mot_run directory;
    int first_step, steps;
    int done, saved;              /* steps behind us, and behind the newest checkpoint */
    int metrics, completions;     /* file descriptors, -1: not open */
    struct mot_grpo_store *store; /* of the checkpoint, until the window has it */
    struct mot_grpo_window *window;
    struct mot_progress *progress;
    double num_tokens;  /* since the run began, mot_grpo_tokens */
    double accuracy[2]; /* on eval_file: first and newest evaluation of this process */
    int evaluations;
};

static int fill_grpo(struct run *r)
{
    const struct mot_grpo_config *c = &r->config;
    struct mot_grpo *g = &r->grpo;
    const int all = (int)mot_grpo_config_answers(c);
    g->actor = &r->model.actor;
    g->reference = c->beta > 0 ? &r->reference.actor : NULL;
    g->dataset = &r->train;
    g->tokenizer = r->model.tokenizer;
    g->prompts_per_step = all / c->num_generations;
    g->num_generations = c->num_generations;
    g->answers_per_micro_batch = c->per_device_train_batch_size;
    g->micro_batches_per_update = c->gradient_accumulation_steps;
    g->num_iterations = c->num_iterations;
    g->mask_truncated_completions = c->mask_truncated_completions;
    g->drop_zero_std_groups = c->drop_zero_std_groups;
    g->scale_rewards = (enum mot_scale_rewards)c->scale_rewards;
    g->functions = r->functions;
    g->n_functions = c->reward_funcs.n;
    g->seed = (uint64_t)c->sampling.seed;
    g->shuffle = c->shuffle_dataset;
    g->max_staleness = c->staleness.max_staleness;
    g->staleness_mode = (enum mot_staleness_mode)c->staleness.mode;
    g->max_concurrent_rollouts = c->staleness.max_concurrent_rollouts;
    g->correct_importance = c->staleness.correction;
    mot_app_rollout_options(&c->sampling, &r->model, all, &g->rollout);
    const double per_epoch = (double)r->train.n / g->prompts_per_step;
    const double steps = c->max_steps >= 0 ? c->max_steps : ceil(c->num_train_epochs * per_epoch);
    if (steps * mot_grpo_updates_per_step(g) > INT_MAX) {
        return mot_fail(EINVAL, "%.0f steps of %d optimiser steps each: more than %d in all", steps,
                        mot_grpo_updates_per_step(g), INT_MAX);
    }
    r->steps = (int)steps;
    const int total = r->steps * mot_grpo_updates_per_step(g);
    return mot_app_optimiser(&c->optimiser, total, &g->optimizer);
}

static int load_data(struct run *r)
{
    const struct mot_grpo_config *c = &r->config;
    const int context = r->model.actor.info.shape.max_position;
    const int most = c->max_prompt_length > 0 && c->max_prompt_length < context - 1
                         ? c->max_prompt_length
                         : context - 1;
    const struct mot_app_data train = {.max_tokens = most};
    const struct mot_app_data eval = {.max_tokens = most, .limit = c->eval_limit};
    int error = mot_app_dataset_load(c->train_file, &r->model, &c->model, &train, &r->train);
    if (error == 0 && c->eval_file != NULL) {
        error = mot_app_dataset_load(c->eval_file, &r->model, &c->model, &eval, &r->eval);
    }
    return error;
}

static int open_rewards(struct run *r)
{
    const struct mot_grpo_config *c = &r->config;
    double *weights;
    int error = mot_app_numbers(&c->reward_weights, "reward_weights", &weights);
    if (error) { return error; }
    error = mot_reward_functions_open(c->reward_funcs.item, c->reward_funcs.n, weights,
                                      c->reward_weights.n, &r->functions);
    free(weights);
    return error;
}

/* The models: the actor from the checkpoint when there is one, the reference always from
 * --model. */
static int load_models(struct run *r)
{
    const struct mot_grpo_config *c = &r->config;
    const struct mot_app_model_options actor = {.path = r->directory.resume_path,
                                                .lanes = c->optimiser.lanes,
                                                .max_staleness = c->staleness.max_staleness,
                                                .temperature = c->sampling.temperature};
    int error = mot_app_model_load(&r->model, &c->model, &actor);
    if (error == 0 && r->directory.resume_path != NULL) {
        error = mot_actor_load_optimizer(&r->model.actor, r->directory.resume_path);
        r->first_step = (int)r->directory.resume_step;
        if (error == 0) {
            error = mot_json_get_number(r->directory.resume_state, r->directory.resume_path,
                                        "num_tokens", 0, 1e300, &r->num_tokens);
        }
    }
    const struct mot_app_model_options frozen = {.temperature = c->sampling.temperature};
    if (error == 0 && c->beta > 0) {
        error = mot_app_model_load(&r->reference, &c->model, &frozen);
    }
    return error;
}

/* Everything up to the first step; each part checks before work is done. */
static int set_up(struct run *r)
{
    const struct mot_grpo_config *c = &r->config;
    int error = mot_grpo_config_check(c);
    if (error == 0) { error = mot_grpo_config_loss(c, &r->grpo.loss); }
    if (error == 0) { error = open_rewards(r); }
    const struct mot_run_options where = {.output_dir = c->output.output_dir,
                                          .resume = c->output.resume,
                                          .save_total_limit = c->output.save_total_limit};
    if (error == 0) { error = mot_run_open(&r->directory, &where); }
    if (error == 0) {
        error = mot_run_check_config(&r->directory, mot_grpo_options, c, sizeof(*c));
    }
    if (error == 0 && c->output.trace) { error = mot_app_trace(c->output.output_dir); }
    if (error == 0) { error = load_models(r); }
    if (error == 0) { error = load_data(r); }
    if (error == 0) { error = mot_run_check_data(&r->directory, &r->train); }
    if (error == 0) { error = fill_grpo(r); }
    if (error == 0 && r->directory.resume_path != NULL) {
        error = mot_grpo_store_load(r->directory.resume_path, &r->grpo, r->first_step, &r->store);
    }
    const int64_t saves = c->output.save_steps > 0 ? r->steps / c->output.save_steps : 0;
    if (error == 0) {
        error = mot_run_check_disk(&r->directory, &r->model.actor.transformer.layout, saves);
    }
    if (error == 0) { error = mot_run_write_config(&r->directory, mot_grpo_options, c); }
    if (error == 0) {
        r->metrics = mot_run_lines_open(&r->directory, "metrics.jsonl");
        error = r->metrics < 0 ? r->metrics : 0;
    }
    if (error == 0 && c->log_completions) {
        r->completions = mot_run_lines_open(&r->directory, "completions.jsonl");
        error = r->completions < 0 ? r->completions : 0;
    }
    return error;
}

/* Adds eval/... to a metrics line (NULL: only prints). */
static int evaluate(struct run *r, json_t *line)
{
    const struct mot_grpo_config *c = &r->config;
    if (r->eval.n == 0) { return 0; }
    struct mot_evaluate_options o = {
        .samples = c->eval_samples, .functions = r->functions, .n_functions = c->reward_funcs.n};
    mot_app_rollout_options(&c->sampling, &r->model, (int64_t)r->eval.n * c->eval_samples,
                            &o.rollout);
    o.rollout.sampling.temperature = (float)c->eval_temperature;
    struct mot_evaluation e;
    const int error = mot_evaluate(&r->model.actor, &r->eval, &o, &e);
    if (error) { return error; }
    r->accuracy[r->evaluations++ > 0] = e.accuracy;
    mot_info("evaluation: accuracy %.2f %% (95 %% interval %.2f to %.2f) on %d x %d answers",
             100 * e.accuracy, 100 * e.low, 100 * e.high, e.n, e.samples);
    json_object_set_new(line, "eval/accuracy", mot_json_number(e.accuracy));
    json_object_set_new(line, "eval/reward", mot_json_number(e.score));
    json_object_set_new(line, "eval/mean_length", mot_json_number(e.mean_length));
    json_object_set_new(line, "timing_s/eval", mot_json_number(e.seconds));
    return 0;
}

static int append_and_free(int fd, json_t *line)
{
    const int error = mot_json_append_line(fd, line);
    json_decref(line);
    return error;
}

static int log_step(struct run *r, int step, const struct mot_grpo_result *result, json_t *line)
{
    const int answers = r->grpo.prompts_per_step * r->grpo.num_generations;
    for (int i = 0; r->completions >= 0 && i < answers; i++) {
        const int error =
            append_and_free(r->completions, mot_grpo_completion(&r->grpo, step, result, i));
        if (error) { return error; }
    }
    char text[160];
    snprintf(text, sizeof(text),
             "reward %.3f, loss %.4f, grad norm %.3f, length %.1f, %.0f tokens/s",
             json_number_value(json_object_get(line, "reward")),
             json_number_value(json_object_get(line, "loss")),
             json_number_value(json_object_get(line, "grad_norm")),
             json_number_value(json_object_get(line, "completions/mean_length")),
             json_number_value(json_object_get(line, "perf/throughput")));
    mot_progress_update(r->progress, step + 1, text);
    return 0;
}

static int checkpoint(struct run *r)
{
    json_t *state = json_object();
    json_object_set_new(state, "num_tokens", mot_json_number(r->num_tokens));
    mot_run_note_data(state, &r->train);
    const struct mot_run_extra extra = {mot_grpo_window_save, r->window};
    const int error = mot_run_checkpoint(&r->directory, &r->model.actor, r->model.tokenizer,
                                         r->done, state, &extra);
    json_decref(state);
    if (error == 0) { r->saved = r->done; }
    return error;
}

/* 1 when an update of the step was skipped because a number was not finite. */
static int was_not_finite(const struct mot_grpo_result *result)
{
    int found = 0;
    for (int i = 0; i < result->n_updates; i++) { found |= result->updates[i].skipped == 1; }
    return found;
}

/* The next step with all that follows it; *skips counts steps in a row that were not finite. */
static int run_step(struct run *r, int *skips)
{
    const struct mot_grpo_config *c = &r->config;
    const struct mot_grpo_result *result;
    int error = mot_grpo_window_next(r->window, &result);
    if (error) { return error; }
    const int step = result->step;
    json_t *line = mot_grpo_metrics(&r->grpo, step, result);
    r->num_tokens += mot_grpo_tokens(result);
    json_object_set_new(line, "num_tokens", mot_json_number(r->num_tokens));
    error = log_step(r, step, result, line);
    *skips = was_not_finite(result) ? *skips + 1 : 0;
    mot_grpo_window_release(r->window);
    const int last = step + 1 == r->steps;
    const int is_eval = last || (c->eval_steps > 0 && (step + 1) % c->eval_steps == 0);
    if (error == 0 && is_eval) { error = evaluate(r, line); }
    if (error == 0 && (last || (step + 1) % c->output.logging_steps == 0)) {
        error = append_and_free(r->metrics, line);
    } else {
        json_decref(line);
    }
    const int is_save =
        c->output.save_steps > 0 && ((step + 1) % c->output.save_steps == 0 || last);
    r->done = step + 1;
    return error == 0 && is_save ? checkpoint(r) : error;
}

static int train(struct run *r)
{
    enum { SKIPS_MAX = 10 };
    r->done = r->saved = r->first_step;
    int error = 0, skips = 0;
    json_t *before = json_object();
    if (r->first_step == 0) { error = evaluate(r, before); }
    if (error == 0 && json_object_size(before) > 0) {
        json_object_set_new(before, "step", json_integer(0));
        error = append_and_free(r->metrics, before);
    } else {
        json_decref(before);
    }
    r->progress = mot_progress_create(r->steps, "grpo");
    mot_progress_update(r->progress, r->first_step, "");
    const struct mot_grpo_span span = {.first = r->first_step,
                                       .end = r->steps,
                                       .is_open = r->config.output.save_steps > 0,
                                       .store = r->store};
    r->store = NULL;
    r->window = mot_grpo_window_open(&r->grpo, &span);
    while (error == 0 && r->done < r->steps && !mot_interrupted()) {
        error = run_step(r, &skips);
        if (error == 0 && skips == SKIPS_MAX) {
            error = mot_fail(EDOM,
                             "%d steps in a row had gradients that are not finite; lower the "
                             "learning rate and --resume",
                             skips);
        }
    }
    mot_progress_finish(r->progress);
    if (error == 0 && mot_interrupted() && r->done > r->saved) { error = checkpoint(r); }
    mot_grpo_window_close(r->window);
    if (error == 0 && !mot_interrupted() && r->config.output.save_final_model) {
        error = mot_run_save_model(&r->directory, &r->model.actor, r->model.tokenizer);
    }
    return error;
}

/* The exit code, which is `code` unless something goes wrong here. */
static int tear_down(struct run *r, int code)
{
    mot_grpo_store_destroy(r->store);
    if (r->model.tokenizer) { mot_app_model_free(&r->model); }
    if (r->reference.tokenizer) { mot_app_model_free(&r->reference); }
    mot_dataset_destroy(&r->train);
    mot_dataset_destroy(&r->eval);
    code = mot_app_stop(code);
    mot_reward_functions_close(r->functions, r->functions ? r->config.reward_funcs.n : 0);
    if (r->metrics >= 0) { close(r->metrics); }
    if (r->completions >= 0) { close(r->completions); }
    mot_run_close(&r->directory);
    mot_options_free(mot_grpo_options, &r->config);
    return code;
}

int mot_app_grpo(int argc, char **argv)
{
    struct run r = {.metrics = -1, .completions = -1};
    int error = mot_options_parse(mot_grpo_options, &r.config, argc, argv, 1, NULL, mot_grpo_usage);
    if (error) { return error > 0 ? MOT_EXIT_OK : MOT_EXIT_USAGE; }
    const int code = mot_app_start(&r.config.machine);
    if (code) {
        mot_options_free(mot_grpo_options, &r.config);
        return code;
    }
    error = set_up(&r); /* a signal ends it at once: nothing is at stake yet */
    mot_interrupt_watch();
    if (error == 0) { error = train(&r); }
    const int unless = mot_interrupted() ? MOT_EXIT_INTERRUPTED : MOT_EXIT_OK;
    if (error == 0 && r.evaluations > 1) {
        printf("held-out accuracy %.1f %% -> %.1f %%\n", 100 * r.accuracy[0], 100 * r.accuracy[1]);
    }
    return tear_down(&r, error ? MOT_EXIT_INPUT : unless);
}
