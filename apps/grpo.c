/* motley grpo: trains a model by GRPO with verifiable rewards.  Option names and defaults are TRL's
 * (GRPOConfig); the step itself is tasks/grpo_step.c. */
#include "app.h"
#include "evaluate.h"
#include "grpo_report.h"
#include "json.h"
#include "progress.h"
#include "run_directory.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWERS_MAX = 1 << 24 }; /* of a step */

struct grpo_config {
    struct mot_machine_config machine;
    struct mot_model_config model;
    struct mot_sampling_config sampling;
    char *train_file, *eval_file, *output_dir;
    int shuffle_dataset, max_prompt_length;
    struct mot_list reward_funcs, reward_weights;
    int num_generations, per_device_train_batch_size, gradient_accumulation_steps;
    int generation_batch_size, num_iterations, max_steps, lanes, deterministic;
    double num_train_epochs, learning_rate, adam_beta1, adam_beta2, adam_epsilon, weight_decay;
    double max_grad_norm, warmup_ratio, epsilon, epsilon_high, beta;
    int warmup_steps, scale_rewards, mask_truncated_completions;
    char *lr_scheduler_type, *loss_type, *kl_estimator;
    int resume, save_steps, save_total_limit, save_final_model, logging_steps, log_completions;
    int eval_steps, eval_limit, eval_samples;
    double eval_temperature;
};

static const char usage[] =
    "usage: motley grpo --model M --train_file F --reward_funcs R --output_dir D [options]\n\n"
    "Trains a model by GRPO.  With --eval_file the last line of the output is\n"
    "\"held-out accuracy A % -> B %\".  Ctrl-C finishes the step, saves, and exits with 130.\n";

#define AT(member) offsetof(struct grpo_config, member)
static const struct mot_option options[] = {
    MOT_ROWS(AT(model), mot_model_rows),
    {"train_file", MOT_OPTION_STRING, AT(train_file), NULL, NULL, 0, 0, NULL,
     "JSON lines with prompt or question, and answer; or embedded: 'sums:LOW-HIGH' (\"12+30=\") "
     "or 'questions:LOW-HIGH' (\"What is 4 + 7?\").",
     "Data"},
    {"eval_file", MOT_OPTION_STRING, AT(eval_file), "", NULL, 0, 0, NULL,
     "The same form, never trained on; embedded: the same with ':held_out'.", NULL},
    {"shuffle_dataset", MOT_OPTION_BOOL, AT(shuffle_dataset), "true", NULL, 0, 0, NULL,
     "Draw prompts in an order shuffled anew each epoch.", NULL},
    {"max_prompt_length", MOT_OPTION_INT, AT(max_prompt_length), "0", NULL, 0, 1 << 24, "tokens",
     "A longer prompt is an error; 0: what the context leaves.", NULL},
    {"reward_funcs", MOT_OPTION_LIST, AT(reward_funcs), NULL, NULL, 0, 0, NULL,
     "Rewards, by name or name:settings: exact, number, gsm8k, boxed, format, command.", "Reward"},
    {"reward_weights", MOT_OPTION_LIST, AT(reward_weights), "", NULL, 0, 0, NULL,
     "One number per reward; default: all 1.", NULL},
    {"scale_rewards", MOT_OPTION_CHOICE, AT(scale_rewards), "group", "group=true|batch|none=false",
     0, 0, NULL, "Standard deviation that advantages are divided by.", NULL},
    {"num_generations", MOT_OPTION_INT, AT(num_generations), "8", NULL, 2, 65535, "answers",
     "Answers per prompt: the group.", "Generation"},
    MOT_ROWS(AT(sampling), mot_sampling_rows),
    MOT_DEFAULT("temperature", "1.0"),
    MOT_DEFAULT("max_completion_length", "512"),
    {"per_device_train_batch_size", MOT_OPTION_INT, AT(per_device_train_batch_size), "8", NULL, 1,
     1 << 20, "answers", "Answers per micro-batch: one gradient task.", "Training"},
    {"gradient_accumulation_steps", MOT_OPTION_INT, AT(gradient_accumulation_steps), "1", NULL, 1,
     1 << 20, "micro-batches", "Micro-batches per optimiser step.", NULL},
    {"generation_batch_size", MOT_OPTION_INT, AT(generation_batch_size), "0", NULL, 0, ANSWERS_MAX,
     "answers", "Answers per step; 0: those of one optimiser step.", NULL},
    {"num_iterations", MOT_OPTION_INT, AT(num_iterations), "1", NULL, 1, 1000, NULL,
     "Passes of the optimiser over each step's answers.", NULL},
    {"max_steps", MOT_OPTION_INT, AT(max_steps), "-1", NULL, -1, 1e9, "steps",
     "Steps to train; -1: num_train_epochs over the data.", NULL},
    {"num_train_epochs", MOT_OPTION_FLOAT, AT(num_train_epochs), "3.0", NULL, 0, 1e6, NULL,
     "Passes over the data when max_steps is -1.", NULL},
    {"learning_rate", MOT_OPTION_FLOAT, AT(learning_rate), "1e-6", NULL, 0, 100, NULL,
     "Learning rate at its highest, see lr_scheduler_type.", NULL},
    {"lr_scheduler_type", MOT_OPTION_STRING, AT(lr_scheduler_type), "linear", NULL, 0, 0, NULL,
     "How it falls: linear, cosine, constant or constant_with_warmup.", NULL},
    {"warmup_steps", MOT_OPTION_INT, AT(warmup_steps), "0", NULL, 0, 1e9, "optimiser steps",
     "Steps over which the learning rate rises from 0.", NULL},
    {"warmup_ratio", MOT_OPTION_FLOAT, AT(warmup_ratio), "0.0", NULL, 0, 1, NULL,
     "The same as a share of all optimiser steps, when warmup_steps is 0.", NULL},
    {"adam_beta1", MOT_OPTION_FLOAT, AT(adam_beta1), "0.9", NULL, 0, 1, NULL,
     "AdamW: share of the old mean of gradients.", NULL},
    {"adam_beta2", MOT_OPTION_FLOAT, AT(adam_beta2), "0.999", NULL, 0, 1, NULL,
     "AdamW: share of the old mean of squared gradients.", NULL},
    {"adam_epsilon", MOT_OPTION_FLOAT, AT(adam_epsilon), "1e-8", NULL, 0, 1, NULL,
     "AdamW: added to the root of that mean.", NULL},
    {"weight_decay", MOT_OPTION_FLOAT, AT(weight_decay), "0.0", NULL, 0, 100, NULL,
     "Decoupled; norms and biases do not decay.", NULL},
    {"max_grad_norm", MOT_OPTION_FLOAT, AT(max_grad_norm), "1.0", NULL, 0, 1e30, NULL,
     "Gradients are scaled down to this norm; 0: never.", NULL},
    {"lanes", MOT_OPTION_INT, AT(lanes), "2", NULL, 1, 64, NULL,
     "Gradient accumulators: micro-batches that can run at once (4 bytes a parameter each).", NULL},
    {"deterministic", MOT_OPTION_BOOL, AT(deterministic), "true", NULL, 0, 0, NULL,
     "A lane adds its micro-batches in index order, so that timing cannot change bits.", NULL},
    {"loss_type", MOT_OPTION_STRING, AT(loss_type), "dapo", NULL, 0, 0, NULL,
     "grpo, bnpo, dapo or dr_grpo.", "Loss"},
    {"epsilon", MOT_OPTION_FLOAT, AT(epsilon), "0.2", NULL, 0, 1e6, NULL,
     "Ratios below 1 - epsilon are clipped.", NULL},
    {"epsilon_high", MOT_OPTION_FLOAT, AT(epsilon_high), "none", NULL, 0, 1e6, NULL,
     "Ratios above 1 + epsilon_high are clipped; none: epsilon.", NULL},
    {"beta", MOT_OPTION_FLOAT, AT(beta), "0.0", NULL, 0, 1e6, NULL,
     "Weight of the KL term against the starting model; 0: none, and no second copy.", NULL},
    {"kl_estimator", MOT_OPTION_STRING, AT(kl_estimator), "k3", NULL, 0, 0, NULL, "k1, k2 or k3.",
     NULL},
    {"mask_truncated_completions", MOT_OPTION_BOOL, AT(mask_truncated_completions), "false", NULL,
     0, 0, NULL, "Leave answers cut off at max_completion_length out of the loss.", NULL},
    {"output_dir", MOT_OPTION_STRING, AT(output_dir), NULL, NULL, 0, 0, NULL,
     "The run directory: metrics, completions, checkpoints, model.", "Output"},
    {"resume", MOT_OPTION_BOOL, AT(resume), "false", NULL, 0, 0, NULL,
     "Go on from the newest checkpoint of output_dir that verifies.", NULL},
    {"save_steps", MOT_OPTION_INT, AT(save_steps), "500", NULL, 0, 1e9, "steps",
     "Checkpoint every so many steps, and at the end; 0: never.", NULL},
    {"save_total_limit", MOT_OPTION_INT, AT(save_total_limit), "2", NULL, 0, 1e6, "checkpoints",
     "Keep so many, the newest; 0: all.", NULL},
    {"save_final_model", MOT_OPTION_BOOL, AT(save_final_model), "true", NULL, 0, 0, NULL,
     "Write output_dir/model at the end.", NULL},
    {"logging_steps", MOT_OPTION_INT, AT(logging_steps), "1", NULL, 1, 1e9, "steps",
     "Write a line of metrics.jsonl every so many steps.", NULL},
    {"log_completions", MOT_OPTION_BOOL, AT(log_completions), "true", NULL, 0, 0, NULL,
     "Write every answer with ids and log-probs to completions.jsonl.", NULL},
    {"eval_steps", MOT_OPTION_INT, AT(eval_steps), "0", NULL, 0, 1e9, "steps",
     "Evaluate on eval_file every so many steps, and before and after; 0: only before and "
     "after.",
     "Evaluation"},
    {"eval_limit", MOT_OPTION_INT, AT(eval_limit), "0", NULL, 0, 1e9, "examples",
     "Use only so many, the first; 0: all.", NULL},
    {"eval_samples", MOT_OPTION_INT, AT(eval_samples), "1", NULL, 1, 65535, "answers",
     "Answers per example.", NULL},
    {"eval_temperature", MOT_OPTION_FLOAT, AT(eval_temperature), "0.0", NULL, 0, 100, NULL,
     "Of these answers; 0: greedy.", NULL},
    MOT_ROWS(AT(machine), mot_machine_rows),
    {0},
};
#undef AT

/* A run under way. */
struct run {
    struct grpo_config config;
    struct mot_app_model model, reference;
    struct mot_dataset train, eval;
    struct mot_reward_function *functions;
    struct mot_grpo grpo;
    struct mot_run directory;
    int first_step, steps;
    int done, saved;          /* steps behind us, and behind the newest checkpoint */
    int metrics, completions; /* file descriptors, -1: not open */
    struct mot_progress *progress;
    double accuracy[2]; /* on eval_file: first and newest evaluation of this process */
    int evaluations;
};

/* Answers of an optimiser step, and of a step. */
static int64_t answers_per_update(const struct grpo_config *c)
{
    return (int64_t)c->per_device_train_batch_size * c->gradient_accumulation_steps;
}

static int64_t answers_per_step(const struct grpo_config *c)
{
    return c->generation_batch_size > 0 ? c->generation_batch_size : answers_per_update(c);
}

/* What can be known before any work: relations between options, as TRL checks them. */
static int check_config(const struct grpo_config *c)
{
    const int G = c->num_generations, per = c->per_device_train_batch_size;
    if (answers_per_step(c) > ANSWERS_MAX || answers_per_update(c) > ANSWERS_MAX) {
        return mot_fail(EINVAL,
                        "per_device_train_batch_size %d x gradient_accumulation_steps %d: more "
                        "than %d answers",
                        per, c->gradient_accumulation_steps, ANSWERS_MAX);
    }
    const int update = (int)answers_per_update(c), all = (int)answers_per_step(c);
    if (all % G != 0) {
        return mot_fail(EINVAL,
                        "generation_batch_size %d (per_device_train_batch_size x "
                        "gradient_accumulation_steps unless given) is no multiple of "
                        "num_generations %d",
                        all, G);
    }
    if (per % G != 0 && G % per != 0) {
        return mot_fail(EINVAL,
                        "per_device_train_batch_size %d neither divides num_generations %d "
                        "nor is a multiple of it",
                        per, G);
    }
    if (all % update != 0) {
        return mot_fail(EINVAL,
                        "generation_batch_size %d is no multiple of "
                        "per_device_train_batch_size x gradient_accumulation_steps = %d",
                        all, update);
    }
    if (c->sampling.temperature <= 0) {
        return mot_fail(EINVAL, "temperature must be above 0 in training: equal answers teach "
                                "nothing");
    }
    if (all / G > 65535) {
        return mot_fail(EINVAL, "generation_batch_size %d makes more than 65535 prompts a step",
                        all);
    }
    return 0;
}

static int fill_loss(const struct grpo_config *c, struct mot_policy_loss_options *loss)
{
    loss->epsilon = c->epsilon;
    loss->epsilon_high = isnan(c->epsilon_high) ? c->epsilon : c->epsilon_high;
    loss->beta = c->beta;
    const int error = mot_kl_estimator_find(c->kl_estimator, &loss->kl_estimator);
    return error ? error : mot_loss_type_find(c->loss_type, &loss->type);
}

static int fill_grpo(struct run *r)
{
    const struct grpo_config *c = &r->config;
    struct mot_grpo *g = &r->grpo;
    const int all = (int)answers_per_step(c);
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
    g->scale_rewards = (enum mot_scale_rewards)c->scale_rewards;
    g->functions = r->functions;
    g->n_functions = c->reward_funcs.n;
    g->seed = (uint64_t)c->sampling.seed;
    g->shuffle = c->shuffle_dataset;
    mot_app_rollout_options(&c->sampling, &r->model, all, &g->rollout);
    const double per_epoch = (double)r->train.n / g->prompts_per_step;
    const double steps = c->max_steps >= 0 ? c->max_steps : ceil(c->num_train_epochs * per_epoch);
    if (steps * mot_grpo_updates_per_step(g) > INT_MAX) {
        return mot_fail(EINVAL, "%.0f steps of %d optimiser steps each: more than %d in all", steps,
                        mot_grpo_updates_per_step(g), INT_MAX);
    }
    r->steps = (int)steps;
    const int total = r->steps * mot_grpo_updates_per_step(g);
    g->optimizer = (struct mot_optimizer_options){
        .learning_rate = c->learning_rate,
        .adam_beta1 = c->adam_beta1,
        .adam_beta2 = c->adam_beta2,
        .adam_epsilon = c->adam_epsilon,
        .weight_decay = c->weight_decay,
        .max_grad_norm = c->max_grad_norm,
        .warmup_steps = mot_warmup_steps(c->warmup_steps, c->warmup_ratio, total),
        .total_steps = total,
        .deterministic = c->deterministic};
    return mot_schedule_find(c->lr_scheduler_type, &g->optimizer.lr_scheduler_type);
}

static int load_data(struct run *r)
{
    const struct grpo_config *c = &r->config;
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
    const struct grpo_config *c = &r->config;
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
    const struct grpo_config *c = &r->config;
    const struct mot_app_model_options actor = {.path = r->directory.resume_path,
                                                .lanes = c->lanes,
                                                .temperature = c->sampling.temperature};
    int error = mot_app_model_load(&r->model, &c->model, &actor);
    if (error == 0 && r->directory.resume_path != NULL) {
        error = mot_actor_load_optimizer(&r->model.actor, r->directory.resume_path);
        r->first_step = (int)r->directory.resume_step;
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
    const struct grpo_config *c = &r->config;
    int error = check_config(c);
    if (error == 0) { error = fill_loss(c, &r->grpo.loss); }
    if (error == 0) { error = open_rewards(r); }
    const struct mot_run_options where = {
        .output_dir = c->output_dir, .resume = c->resume, .save_total_limit = c->save_total_limit};
    if (error == 0) { error = mot_run_open(&r->directory, &where); }
    if (error == 0) { error = load_models(r); }
    if (error == 0) { error = load_data(r); }
    if (error == 0) { error = fill_grpo(r); }
    const int64_t saves = c->save_steps > 0 ? r->steps / c->save_steps : 0;
    if (error == 0) {
        error = mot_run_check_disk(&r->directory, &r->model.actor.transformer.layout, saves);
    }
    if (error == 0) { error = mot_run_write_config(&r->directory, options, c); }
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
    const struct grpo_config *c = &r->config;
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
    const int error =
        mot_run_checkpoint(&r->directory, &r->model.actor, r->model.tokenizer, r->done, state);
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

/* One step with all that follows it; *skips counts steps in a row that were not finite. */
static int run_step(struct run *r, int step, int *skips)
{
    const struct grpo_config *c = &r->config;
    struct mot_grpo_step *under_way;
    int error = mot_grpo_step_start(&r->grpo, step, &under_way);
    if (error) { return error; }
    const struct mot_grpo_result *result = mot_grpo_step_wait(under_way);
    json_t *line = mot_grpo_metrics(&r->grpo, step, result);
    error = log_step(r, step, result, line);
    *skips = was_not_finite(result) ? *skips + 1 : 0;
    mot_grpo_step_destroy(under_way);
    const int last = step + 1 == r->steps;
    const int is_eval = last || (c->eval_steps > 0 && (step + 1) % c->eval_steps == 0);
    if (error == 0 && is_eval) { error = evaluate(r, line); }
    if (error == 0 && (last || (step + 1) % c->logging_steps == 0)) {
        error = append_and_free(r->metrics, line);
    } else {
        json_decref(line);
    }
    const int is_save = c->save_steps > 0 && ((step + 1) % c->save_steps == 0 || last);
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
    for (int step = r->first_step; error == 0 && step < r->steps; step++) {
        if (mot_interrupted()) { break; }
        error = run_step(r, step, &skips);
        if (error == 0 && skips == SKIPS_MAX) {
            error = mot_fail(EDOM,
                             "%d steps in a row had gradients that are not finite; lower the "
                             "learning rate and --resume",
                             skips);
        }
    }
    mot_progress_finish(r->progress);
    if (error == 0 && mot_interrupted() && r->done > r->saved) { error = checkpoint(r); }
    if (error == 0 && !mot_interrupted() && r->config.save_final_model) {
        error = mot_run_save_model(&r->directory, &r->model.actor, r->model.tokenizer);
    }
    return error;
}

static void tear_down(struct run *r)
{
    if (r->model.tokenizer) { mot_app_model_free(&r->model); }
    if (r->reference.tokenizer) { mot_app_model_free(&r->reference); }
    mot_dataset_destroy(&r->train);
    mot_dataset_destroy(&r->eval);
    mot_app_stop();
    mot_reward_functions_close(r->functions, r->functions ? r->config.reward_funcs.n : 0);
    if (r->metrics >= 0) { close(r->metrics); }
    if (r->completions >= 0) { close(r->completions); }
    mot_run_close(&r->directory);
    mot_options_free(options, &r->config);
}

int mot_app_grpo(int argc, char **argv)
{
    struct run r = {.metrics = -1, .completions = -1};
    int error = mot_options_parse(options, &r.config, argc, argv, 1, NULL, usage);
    if (error) { return error > 0 ? MOT_EXIT_OK : MOT_EXIT_USAGE; }
    const int code = mot_app_start(&r.config.machine);
    if (code) {
        mot_options_free(options, &r.config);
        return code;
    }
    mot_interrupt_watch();
    error = set_up(&r);
    if (error == 0) { error = train(&r); }
    const int interrupted = mot_interrupted();
    if (error == 0 && r.evaluations > 1) {
        printf("held-out accuracy %.1f %% -> %.1f %%\n", 100 * r.accuracy[0], 100 * r.accuracy[1]);
    }
    tear_down(&r);
    if (error) { return MOT_EXIT_INPUT; }
    return interrupted ? MOT_EXIT_INTERRUPTED : MOT_EXIT_OK;
}
