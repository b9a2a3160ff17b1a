/* motley sft: supervised fine-tuning on prompts with completions, or on rows of ids.  Option names
 * and defaults are TRL's (SFTConfig); the step itself is tasks/supervised.c. */
#include "app.h"
#include "evaluate.h"
#include "json.h"
#include "progress.h"
#include "run_directory.h"
#include "supervised.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int mot_app_sft(int argc, char **argv);

enum eval_strategy { EVAL_NO, EVAL_STEPS, EVAL_EPOCH };

struct sft_config {
    struct mot_machine_config machine;
    struct mot_model_config model;
    struct mot_sampling_config sampling;
    struct mot_optimiser_config optimiser;
    struct mot_output_config output;
    char *train_file, *eval_file;
    int shuffle_dataset, max_length, completion_only_loss;
    int per_device_train_batch_size, gradient_accumulation_steps, max_steps;
    double num_train_epochs;
    double stop_accuracy;
    int decay_all;
    int eval_strategy, eval_steps, eval_limit, eval_samples, per_device_eval_batch_size;
    struct mot_list reward_funcs;
};

static const char usage[] =
    "usage: motley sft --model M --train_file F --output_dir D [options]\n\n"
    "Fine-tunes a model on given completions.  Ctrl-C finishes the step, saves, and exits with\n"
    "130.\n";

#define AT(member) offsetof(struct sft_config, member)
static const struct mot_option options[] = {
    MOT_ROWS(AT(model), mot_model_rows),
    {"train_file", MOT_OPTION_STRING, AT(train_file), NULL, NULL, 0, 0, NULL,
     "JSON lines with prompt and completion, or input_ids; or embedded: 'sums:LOW-HIGH' "
     "(\"12+30=\").",
     "Data"},
    {"eval_file", MOT_OPTION_STRING, AT(eval_file), "", NULL, 0, 0, NULL,
     "The same form, never trained on; embedded: the same with ':held_out'.  Evaluated at the "
     "end at least.",
     NULL},
    {"shuffle_dataset", MOT_OPTION_BOOL, AT(shuffle_dataset), "true", NULL, 0, 0, NULL,
     "Draw rows in an order shuffled anew each epoch.", NULL},
    {"max_length", MOT_OPTION_INT, AT(max_length), "1024", NULL, 2, 1 << 24, "tokens",
     "A longer row (prompt and completion) is an error.", NULL},
    {"completion_only_loss", MOT_OPTION_BOOL, AT(completion_only_loss), "true", NULL, 0, 0, NULL,
     "Count completion tokens only; false: prompt tokens too.", NULL},
    {"per_device_train_batch_size", MOT_OPTION_INT, AT(per_device_train_batch_size), "8", NULL, 1,
     1 << 20, "rows", "Rows per micro-batch: one gradient task.", "Training"},
    {"gradient_accumulation_steps", MOT_OPTION_INT, AT(gradient_accumulation_steps), "1", NULL, 1,
     1 << 20, "micro-batches", "Micro-batches per optimiser step.", NULL},
    {"max_steps", MOT_OPTION_INT, AT(max_steps), "-1", NULL, -1, 1e9, "steps",
     "Optimiser steps; -1: num_train_epochs over the data.", NULL},
    {"num_train_epochs", MOT_OPTION_FLOAT, AT(num_train_epochs), "3.0", NULL, 0, 1e6, NULL,
     "Passes over the data when max_steps is -1.", NULL},
    MOT_ROWS(AT(optimiser), mot_optimiser_rows),
    MOT_DEFAULT("learning_rate", "2e-5"),
    {"decay_all", MOT_OPTION_BOOL, AT(decay_all), "false", NULL, 0, 0, NULL,
     "Norms and biases decay too.", NULL},
    MOT_ROWS(AT(output), mot_output_rows),
    {"eval_strategy", MOT_OPTION_CHOICE, AT(eval_strategy), "no", "no|steps|epoch", 0, 0, NULL,
     "When to evaluate on eval_file besides at the end.", "Evaluation"},
    {"eval_steps", MOT_OPTION_INT, AT(eval_steps), "0", NULL, 0, 1e9, "steps",
     "With eval_strategy steps; 0: logging_steps.", NULL},
    {"eval_limit", MOT_OPTION_INT, AT(eval_limit), "0", NULL, 0, 1e9, "rows",
     "Use only so many, the first; 0: all.", NULL},
    {"per_device_eval_batch_size", MOT_OPTION_INT, AT(per_device_eval_batch_size), "8", NULL, 1,
     1 << 20, "rows", "Rows per task.", NULL},
    {"reward_funcs", MOT_OPTION_LIST, AT(reward_funcs), "", NULL, 0, 0, NULL,
     "Score generated answers to eval_file too: accuracy beside the loss.", NULL},
    {"eval_samples", MOT_OPTION_INT, AT(eval_samples), "1", NULL, 1, 65535, "answers",
     "Answers per prompt for that.", NULL},
    {"stop_accuracy", MOT_OPTION_FLOAT, AT(stop_accuracy), "none", NULL, 0, 1, NULL,
     "Stop after an evaluation whose accuracy is at least this.", NULL},
    MOT_ROWS(AT(sampling), mot_sampling_rows),
    MOT_ROWS(AT(machine), mot_machine_rows),
    {0},
};
#undef AT

/* Sums since the last line of metrics.jsonl, and over the run; saved with a checkpoint. */
struct window {
    double steps, loss, tokens, entropy, skipped;
    double num_tokens; /* of all rows since the run began, as TRL's SFTTrainer counts them */
};

/* A run under way. */
struct run {
    struct sft_config config;
    struct mot_app_model model;
    struct mot_dataset train, eval;
    struct mot_reward_function *functions;
    struct mot_supervised supervised;
    struct mot_run directory;
    int first_step, steps, saved_step;
    int64_t last_position; /* rows to train on in all */
    int metrics;           /* file descriptor, -1: not open */
    struct window window;
    double window_start_s;
    int stop; /* the accuracy asked for has been reached */
    struct mot_progress *progress;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int rows_per_step(const struct sft_config *c)
{
    return c->per_device_train_batch_size * c->gradient_accumulation_steps;
}

/* ---- Before the first step ------------------------------------------------------------------- */

static int check_config(const struct sft_config *c)
{
    enum { ROWS_MAX = 1 << 24 };
    if ((int64_t)c->per_device_train_batch_size * c->gradient_accumulation_steps > ROWS_MAX) {
        return mot_fail(EINVAL,
                        "per_device_train_batch_size %d x gradient_accumulation_steps %d: more "
                        "than %d rows",
                        c->per_device_train_batch_size, c->gradient_accumulation_steps, ROWS_MAX);
    }
    if (c->eval_strategy != EVAL_NO && c->eval_file == NULL) {
        return mot_fail(EINVAL, "eval_strategy needs --eval_file");
    }
    if (c->reward_funcs.n > 0 && c->eval_file == NULL) {
        return mot_fail(EINVAL, "reward_funcs score answers to --eval_file, which is not given");
    }
    if (!isnan(c->stop_accuracy) && (c->reward_funcs.n == 0 || c->eval_strategy == EVAL_NO)) {
        return mot_fail(EINVAL, "stop_accuracy needs --reward_funcs and --eval_strategy");
    }
    return 0;
}

static int fill_supervised(struct run *r)
{
    const struct sft_config *c = &r->config;
    const int rows = rows_per_step(c);
    const double all = c->num_train_epochs * r->train.n;
    const double steps = c->max_steps >= 0 ? c->max_steps : ceil(all / rows);
    if (!(steps <= INT32_MAX)) { return mot_fail(EINVAL, "num_train_epochs: too many steps"); }
    r->steps = (int)steps;
    r->last_position = c->max_steps >= 0 ? (int64_t)r->steps * rows : (int64_t)ceil(all);
    r->supervised = (struct mot_supervised){
        .actor = &r->model.actor,
        .dataset = &r->train,
        .rows_per_micro_batch = c->per_device_train_batch_size,
        .micro_batches = c->gradient_accumulation_steps,
        .completion_only_loss = c->completion_only_loss,
        .shuffle = c->shuffle_dataset,
        .seed = (uint64_t)c->sampling.seed,
    };
    const int error = mot_app_optimiser(&c->optimiser, r->steps, &r->supervised.optimizer);
    r->supervised.optimizer.decay_all = c->decay_all;
    return error;
}

static int load_data(struct run *r)
{
    const struct sft_config *c = &r->config;
    const int context = r->model.actor.info.shape.max_position;
    const int most = c->max_length < context ? c->max_length : context;
    const struct mot_app_data train = {.with_completion = 1, .max_tokens = most};
    const struct mot_app_data eval = {
        .with_completion = 1, .max_tokens = most, .limit = c->eval_limit};
    int error = mot_app_dataset_load(c->train_file, &r->model, &c->model, &train, &r->train);
    if (error == 0 && c->eval_file != NULL) {
        error = mot_app_dataset_load(c->eval_file, &r->model, &c->model, &eval, &r->eval);
    }
    return error;
}

/* The fields of the window, by name, for state.json. */
static const struct {
    const char *name;
    size_t offset;
} window_fields[] = {
    {"steps", offsetof(struct window, steps)},
    {"loss", offsetof(struct window, loss)},
    {"tokens", offsetof(struct window, tokens)},
    {"entropy", offsetof(struct window, entropy)},
    {"skipped", offsetof(struct window, skipped)},
    {"num_tokens", offsetof(struct window, num_tokens)},
};
enum { WINDOW_FIELDS = sizeof(window_fields) / sizeof(window_fields[0]) };

static int load_window(struct run *r)
{
    for (int i = 0; i < WINDOW_FIELDS; i++) {
        double *field = (double *)((char *)&r->window + window_fields[i].offset);
        const int error = mot_json_get_number(r->directory.resume_state, r->directory.resume_path,
                                              window_fields[i].name, -1e300, 1e300, field);
        if (error) { return error; }
    }
    return 0;
}

static int load_model(struct run *r)
{
    const struct sft_config *c = &r->config;
    const struct mot_app_model_options how = {.path = r->directory.resume_path,
                                              .lanes = c->optimiser.lanes};
    int error = mot_app_model_load(&r->model, &c->model, &how);
    if (error == 0 && r->directory.resume_path != NULL) {
        error = mot_actor_load_optimizer(&r->model.actor, r->directory.resume_path);
        r->first_step = r->saved_step = (int)r->directory.resume_step;
        if (error == 0) { error = load_window(r); }
    }
    return error;
}

/* Everything up to the first step; each part checks before work is done. */
static int set_up(struct run *r)
{
    const struct sft_config *c = &r->config;
    int error = check_config(c);
    if (error == 0 && c->reward_funcs.n > 0) {
        error = mot_reward_functions_open(c->reward_funcs.item, c->reward_funcs.n, NULL, 0,
                                          &r->functions);
    }
    const struct mot_run_options where = {.output_dir = c->output.output_dir,
                                          .resume = c->output.resume,
                                          .save_total_limit = c->output.save_total_limit};
    if (error == 0) { error = mot_run_open(&r->directory, &where); }
    if (error == 0) { error = mot_run_check_config(&r->directory, options, c, sizeof(*c)); }
    if (error == 0 && c->output.trace) { error = mot_app_trace(c->output.output_dir); }
    if (error == 0) { error = load_model(r); }
    if (error == 0) { error = load_data(r); }
    if (error == 0) { error = mot_run_check_data(&r->directory, &r->train); }
    if (error == 0) { error = fill_supervised(r); }
    const int64_t saves = c->output.save_steps > 0 ? r->steps / c->output.save_steps + 1 : 0;
    if (error == 0) {
        error = mot_run_check_disk(&r->directory, &r->model.actor.transformer.layout, saves);
    }
    if (error == 0) { error = mot_run_write_config(&r->directory, options, c); }
    if (error == 0) {
        r->metrics = mot_run_lines_open(&r->directory, "metrics.jsonl");
        error = r->metrics < 0 ? r->metrics : 0;
    }
    return error;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void put(json_t *line, const char *name, double value)
{
    json_object_set_new(line, name, mot_json_number(value));
}

static json_t *new_line(const struct run *r, int step)
{
    json_t *line = json_object();
    json_object_set_new(line, "step", json_integer(step));
    put(line, "epoch",
        fmin((double)step * rows_per_step(&r->config), (double)r->last_position) / r->train.n);
    return line;
}

static int append_and_free(int fd, json_t *line)
{
    const int error = mot_json_append_line(fd, line);
    json_decref(line);
    return error;
}

/* Accuracy of generated answers, added to the line; sets r->stop. */
static int evaluate_answers(struct run *r, json_t *line)
{
    const struct sft_config *c = &r->config;
    struct mot_evaluate_options o = {
        .samples = c->eval_samples, .functions = r->functions, .n_functions = c->reward_funcs.n};
    mot_app_rollout_options(&c->sampling, &r->model, (int64_t)r->eval.n * c->eval_samples,
                            &o.rollout);
    struct mot_evaluation e;
    const int error = mot_evaluate(&r->model.actor, &r->eval, &o, &e);
    if (error) { return error; }
    put(line, "eval/accuracy", e.accuracy);
    put(line, "eval/reward", e.score);
    put(line, "eval/mean_length", e.mean_length);
    r->stop = e.accuracy >= c->stop_accuracy; /* none is NaN */
    mot_info("evaluation: accuracy %.2f %% (95 %% interval %.2f to %.2f) on %d x %d answers",
             100 * e.accuracy, 100 * e.low, 100 * e.high, e.n, e.samples);
    return 0;
}

/* A line of its own, as TRL logs it: eval_loss. */
static int evaluate(struct run *r, int step)
{
    const struct sft_config *c = &r->config;
    const double start_s = now_s();
    struct mot_supervised_loss loss;
    int error = mot_supervised_evaluate(&r->model.actor, &r->eval, c->per_device_eval_batch_size,
                                        c->completion_only_loss, step, &loss);
    if (error) { return error; }
    json_t *line = new_line(r, step);
    put(line, "eval_loss", loss.loss);
    put(line, "eval_entropy", loss.entropy);
    mot_info("evaluation: loss %.4f on %d rows", loss.loss, r->eval.n);
    if (c->reward_funcs.n > 0) { error = evaluate_answers(r, line); }
    put(line, "timing_s/eval", now_s() - start_s);
    if (error) {
        json_decref(line);
        return error;
    }
    return append_and_free(r->metrics, line);
}

static int log_window(struct run *r, int step, const struct mot_train_metrics *m)
{
    struct window *w = &r->window;
    const double seconds = now_s() - r->window_start_s, num_tokens = w->num_tokens;
    json_t *line = new_line(r, step);
    put(line, "loss", w->loss / w->steps);
    put(line, "grad_norm", m->grad_norm);
    put(line, "learning_rate", m->learning_rate);
    put(line, "entropy", w->tokens > 0.0 ? w->entropy / w->tokens : NAN);
    put(line, "num_tokens", num_tokens);
    put(line, "optim/skipped_updates", w->skipped);
    put(line, "timing_s/step", seconds / w->steps);
    put(line, "perf/throughput", w->tokens / seconds);
    *w = (struct window){.num_tokens = num_tokens};
    r->window_start_s = now_s();
    return append_and_free(r->metrics, line);
}

static int checkpoint(struct run *r, int step)
{
    json_t *state = json_object();
    for (int i = 0; i < WINDOW_FIELDS; i++) {
        const double *field = (const double *)((const char *)&r->window + window_fields[i].offset);
        put(state, window_fields[i].name, *field);
    }
    mot_run_note_data(state, &r->train);
    const int error =
        mot_run_checkpoint(&r->directory, &r->model.actor, r->model.tokenizer, step, state, NULL);
    json_decref(state);
    if (error == 0) { r->saved_step = step; }
    return error;
}

/* Whether an evaluation follows step - 1 (steps done: step). */
static int is_eval_step(const struct run *r, int step)
{
    const struct sft_config *c = &r->config;
    if (r->eval.n == 0) { return 0; }
    if (step == r->steps) { return 1; }
    if (c->eval_strategy == EVAL_STEPS) {
        return step % (c->eval_steps > 0 ? c->eval_steps : c->output.logging_steps) == 0;
    }
    const int64_t rows = rows_per_step(c);
    return c->eval_strategy == EVAL_EPOCH
           && step * rows / r->train.n > (step - 1) * rows / r->train.n;
}

static void add_to_window(struct run *r, const struct mot_train_metrics *m, int rows)
{
    struct window *w = &r->window;
    w->steps += 1.0;
    w->num_tokens += m->forward_tokens + rows; /* a row's last token is not forwarded */
    w->skipped += m->skipped != 0;
    if (m->skipped == 1) { return; } /* not finite: it would spoil the means */
    w->loss += m->loss;
    w->tokens += m->tokens;
    w->entropy += m->entropy_sum;
}

/* Step number `step` (0, 1, ...) with all that follows it. */
static int run_step(struct run *r, int step, struct mot_train_metrics *m)
{
    const struct sft_config *c = &r->config;
    const int64_t first = (int64_t)step * rows_per_step(c), left = r->last_position - first;
    const int n = left < rows_per_step(c) ? (int)left : rows_per_step(c), done = step + 1;
    mot_supervised_step(&r->supervised, step, first, n, m);
    add_to_window(r, m, n);
    char text[80];
    snprintf(text, sizeof(text), "loss %.4f  grad norm %.3f", m->loss, m->grad_norm);
    mot_progress_add_tokens(r->progress, (int64_t)m->forward_tokens);
    mot_progress_update(r->progress, done, text);

    int error = 0;
    const int last = done == r->steps;
    if (last || done % c->output.logging_steps == 0) { error = log_window(r, done, m); }
    if (error == 0 && is_eval_step(r, done)) { error = evaluate(r, done); }
    const int is_save =
        c->output.save_steps > 0 && (done % c->output.save_steps == 0 || last || r->stop);
    if (error == 0 && is_save) { error = checkpoint(r, done); }
    return error;
}

static int train(struct run *r)
{
    enum { SKIPS_MAX = 10 };
    int error = 0, skips = 0, step = r->first_step;
    r->window_start_s = now_s();
    r->progress = mot_progress_create(r->steps, "sft");
    mot_progress_update(r->progress, step, NULL);
    while (error == 0 && step < r->steps && !r->stop && !mot_interrupted()) {
        struct mot_train_metrics m;
        error = run_step(r, step++, &m);
        skips = m.skipped == 1 ? skips + 1 : 0;
        if (error == 0 && skips == SKIPS_MAX) {
            error = mot_fail(EDOM,
                             "%d steps in a row had gradients that are not finite; lower the "
                             "learning rate and --resume",
                             skips);
        }
    }
    if (error == 0 && mot_interrupted() && step != r->saved_step) { error = checkpoint(r, step); }
    mot_progress_finish(r->progress);
    if (error == 0 && !mot_interrupted() && r->config.output.save_final_model) {
        error = mot_run_save_model(&r->directory, &r->model.actor, r->model.tokenizer);
    }
    return error;
}

/* The exit code, which is `code` unless something goes wrong here. */
static int tear_down(struct run *r, int code)
{
    if (r->model.tokenizer) { mot_app_model_free(&r->model); }
    mot_dataset_destroy(&r->train);
    mot_dataset_destroy(&r->eval);
    code = mot_app_stop(code);
    mot_reward_functions_close(r->functions, r->functions ? r->config.reward_funcs.n : 0);
    if (r->metrics >= 0) { close(r->metrics); }
    mot_run_close(&r->directory);
    mot_options_free(options, &r->config);
    return code;
}

int mot_app_sft(int argc, char **argv)
{
    struct run r = {.metrics = -1};
    int error = mot_options_parse(options, &r.config, argc, argv, 1, NULL, usage);
    if (error) { return error > 0 ? MOT_EXIT_OK : MOT_EXIT_USAGE; }
    const int code = mot_app_start(&r.config.machine);
    if (code) {
        mot_options_free(options, &r.config);
        return code;
    }
    error = set_up(&r); /* a signal ends it at once: nothing is at stake yet */
    mot_interrupt_watch();
    if (error == 0) { error = train(&r); }
    const int unless = mot_interrupted() ? MOT_EXIT_INTERRUPTED : MOT_EXIT_OK;
    return tear_down(&r, error ? MOT_EXIT_INPUT : unless);
}
