/* What the subcommands share: options of the machine, the model and sampling (app_options.c), and
 * the start of a program: StarPU, model, tokenizer, chat template. */
#ifndef MOT_APP_H
#define MOT_APP_H
#include "dataset.h"
#include "options.h"
#include "rollout.h"
#include "train.h"
#include <stdint.h>

enum { MOT_EXIT_OK = 0, MOT_EXIT_INPUT = 1, MOT_EXIT_USAGE = 2 };

struct mot_machine_config {
    int workers, cores_per_worker, watchdog_s, quiet;
};
extern const struct mot_option mot_machine_rows[];

struct mot_model_config {
    char *model, *chat_template, *system_prompt, *dtype;
    int head_chunk;
};
extern const struct mot_option mot_model_rows[];

struct mot_sampling_config {
    double temperature, top_p, min_p;
    int top_k, max_completion_length, chunk, rows_per_task, pack_weights, ignore_eos;
    struct mot_list stop;
    int64_t seed;
};
extern const struct mot_option mot_sampling_rows[]; /* temperature 0.0, 256 tokens */
extern const struct mot_option mot_pack_weights_rows[];

struct mot_optimiser_config {
    double learning_rate, adam_beta1, adam_beta2, adam_epsilon, weight_decay, max_grad_norm;
    double warmup_ratio;
    int warmup_steps, lanes, deterministic;
    char *lr_scheduler_type;
};
extern const struct mot_option mot_optimiser_rows[]; /* learning_rate 1e-6 */
/* The same as mot_train_begin takes it, for so many optimiser steps.  0 or -EINVAL with a message.
 */
int mot_app_optimiser(const struct mot_optimiser_config *config, int total_steps,
                      struct mot_optimizer_options *options);

struct mot_output_config {
    char *output_dir;
    int resume, trace, save_steps, save_total_limit, save_final_model, logging_steps;
};
extern const struct mot_option mot_output_rows[]; /* logging_steps 10 */

/* --trace: opens DIRECTORY/trace.json.gz, or where there is one already trace-2.json.gz and so on:
 * a resumed run keeps the earlier part's.  Does nothing while MOTLEY_TRACE records.  0 or a
 * negative errno with a message. */
int mot_app_trace(const char *directory);

/* StarPU with the machine's options.  An exit code. */
int mot_app_start(const struct mot_machine_config *machine);
/* The exit code of a program that would exit with `code`: 1 instead of 0 when the recording could
 * not be written. */
int mot_app_stop(int code);
/* The exit code for a negative errno, or for mot_options_parse's result. */
int mot_app_exit_code(int error);

/* A model ready to run. */
struct mot_app_model {
    struct mot_actor actor;
    struct mot_tokenizer *tokenizer;
    const struct mot_chat_template *chat;
};
struct mot_app_model_options {
    const char *path;   /* weights from here instead of config->model (a checkpoint); NULL */
    int lanes;          /* of the actor; 0: frozen */
    int max_staleness;  /* above 0: versions are copies, that many + 2 alive at most */
    double temperature; /* of its log-probs; 0: 1 */
};
/* Reads model, tokenizer and template (a Hugging Face directory without tokenizer.json takes ids
 * only); checks that vocabulary and weights fit each other and that matrix products pass the
 * self-test.  m must not move afterwards.  StarPU runs.  0 or a negative errno with a message. */
int mot_app_model_load(struct mot_app_model *m, const struct mot_model_config *config,
                       const struct mot_app_model_options *options);
void mot_app_model_free(struct mot_app_model *m);
/* Tokenizer and chat template alone. */
int mot_app_text_load(const struct mot_model_config *config, struct mot_tokenizer **tokenizer,
                      const struct mot_chat_template **chat);

/* How a data set is read. */
struct mot_app_data {
    int with_completion; /* sft */
    int max_tokens, limit;
    const char *called; /* in messages; NULL: the file */
};
/* spec: a JSON lines file, or an embedded task: "sums:LOW-HIGH" ("12+30=", as it stands) or
 * "questions:LOW-HIGH" ("What is 4 + 7?", through the chat template); the training part, or with
 * ":held_out" behind it the sums that part lacks.  0 or a negative errno with a message. */
int mot_app_dataset_load(const char *spec, const struct mot_app_model *m,
                         const struct mot_model_config *config, const struct mot_app_data *data,
                         struct mot_dataset *dataset);
/* The same from an array of rows. */
int mot_app_dataset_of_rows(const json_t *rows, const struct mot_app_model *m,
                            const struct mot_model_config *config, const struct mot_app_data *data,
                            struct mot_dataset *dataset);

/* Rows of a generation task: what the config says; else `rows`, all that are generated together,
 * shared among the CPU workers, 64 at most. */
int mot_app_rows_per_task(const struct mot_sampling_config *config, int64_t rows);
/* Rollout options out of the config: total rows decide rows_per_task where it is 0. */
void mot_app_rollout_options(const struct mot_sampling_config *config,
                             const struct mot_app_model *model, int64_t rows,
                             struct mot_rollout_options *options);
/* A list of numbers ("1 0.5"): 0 and *values ((list->n) mot_alloc'ed, NULL when empty), or
 * -EINVAL. */
int mot_app_numbers(const struct mot_list *list, const char *name, double **values);
#endif
