/* What the subcommands share: option rows for the machine, the model and sampling, and the start of
 * a program: options, StarPU, model, tokenizer, chat template. */
#ifndef MOT_APP_H
#define MOT_APP_H
#include "dataset.h"
#include "options.h"
#include "rollout.h"
#include <stdint.h>

enum { MOT_EXIT_OK = 0, MOT_EXIT_INPUT = 1, MOT_EXIT_USAGE = 2 };

struct mot_machine_config {
    int workers, cores_per_worker, watchdog_s, quiet;
    char *task_records;
};
#define MOT_MACHINE_ROWS(config, m)                                                           \
    {"workers", MOT_OPTION_INT, offsetof(config, m.workers),                                  \
     "0",       NULL,           0,                                                            \
     1024,      NULL,           "CPU workers StarPU schedules on; 0: STARPU_NCPU, else one.", \
     "Machine"},                                                                              \
        {"cores_per_worker",                                                                  \
         MOT_OPTION_INT,                                                                      \
         offsetof(config, m.cores_per_worker),                                                \
         "0",                                                                                 \
         NULL,                                                                                \
         0,                                                                                   \
         1024,                                                                                \
         NULL,                                                                                \
         "Threads inside each worker; 0: the allowed cores shared out.",                      \
         NULL},                                                                               \
        {"watchdog_s",                                                                        \
         MOT_OPTION_INT,                                                                      \
         offsetof(config, m.watchdog_s),                                                      \
         "1800",                                                                              \
         NULL,                                                                                \
         0,                                                                                   \
         1e9,                                                                                 \
         "s",                                                                                 \
         "Stop, naming what runs, when no task ends for so long; 0: never.",                  \
         NULL},                                                                               \
        {"task_records",                                                                      \
         MOT_OPTION_STRING,                                                                   \
         offsetof(config, m.task_records),                                                    \
         "",                                                                                  \
         NULL,                                                                                \
         0,                                                                                   \
         0,                                                                                   \
         NULL,                                                                                \
         "Write one JSON line per finished task into this file.",                             \
         NULL},                                                                               \
    {                                                                                         \
        "quiet", MOT_OPTION_BOOL, offsetof(config, m.quiet), "false", NULL, 0, 0, NULL,       \
            "No progress, only warnings and errors.", NULL                                    \
    }

struct mot_model_config {
    char *model, *chat_template, *system_prompt, *dtype;
    int head_chunk;
};
#define MOT_MODEL_ROWS(config, m)                                                                \
    {"model",                                                                                    \
     MOT_OPTION_STRING,                                                                          \
     offsetof(config, m.model),                                                                  \
     NULL,                                                                                       \
     NULL,                                                                                       \
     0,                                                                                          \
     0,                                                                                          \
     NULL,                                                                                       \
     "HF directory or GGUF file; 'tiny:SEED' makes the small byte-level default.",               \
     "Model"},                                                                                   \
        {"chat_template",                                                                        \
         MOT_OPTION_STRING,                                                                      \
         offsetof(config, m.chat_template),                                                      \
         "",                                                                                     \
         NULL,                                                                                   \
         0,                                                                                      \
         0,                                                                                      \
         NULL,                                                                                   \
         "Form of prompts: a name, or 'none' for plain text; default: the model's own.",         \
         NULL},                                                                                  \
        {"system_prompt",                                                                        \
         MOT_OPTION_STRING,                                                                      \
         offsetof(config, m.system_prompt),                                                      \
         "",                                                                                     \
         NULL,                                                                                   \
         0,                                                                                      \
         0,                                                                                      \
         NULL,                                                                                   \
         "System message put before each prompt.",                                               \
         NULL},                                                                                  \
        {"dtype",                                                                                \
         MOT_OPTION_STRING,                                                                      \
         offsetof(config, m.dtype),                                                              \
         "float32",                                                                              \
         NULL,                                                                                   \
         0,                                                                                      \
         0,                                                                                      \
         NULL,                                                                                   \
         "Weights that rollouts and gradients read: float32 or bfloat16 (masters are float32).", \
         NULL},                                                                                  \
    {                                                                                            \
        "head_chunk", MOT_OPTION_INT, offsetof(config, m.head_chunk), "128", NULL, 1, 1 << 20,   \
            "rows", "Rows of vocabulary logits held in memory at a time in training.", NULL      \
    }

struct mot_sampling_config {
    double temperature, top_p, min_p;
    int top_k, max_completion_length, chunk, rows_per_task, pack_weights, ignore_eos;
    struct mot_list stop;
    int64_t seed;
};
/* The words are those of enum mot_pack_weights. */
#define MOT_PACK_WEIGHTS_ROW(config, member)                                                       \
    {                                                                                              \
        "pack_weights", MOT_OPTION_CHOICE, offsetof(config, member), "auto", "auto|true|false", 0, \
            0, NULL,                                                                               \
            "Generate from a second, rearranged copy of the weights: sooner, for more memory; "    \
            "auto: when it pays.",                                                                 \
            NULL                                                                                   \
    }
#define MOT_SAMPLING_ROWS(config, m, temperature_text, length_text)                            \
    {"temperature",                                                                            \
     MOT_OPTION_FLOAT,                                                                         \
     offsetof(config, m.temperature),                                                          \
     temperature_text,                                                                         \
     NULL,                                                                                     \
     0,                                                                                        \
     100,                                                                                      \
     NULL,                                                                                     \
     "Logits are divided by it before sampling; 0: greedy.",                                   \
     "Generation"},                                                                            \
        {"top_p",                                                                              \
         MOT_OPTION_FLOAT,                                                                     \
         offsetof(config, m.top_p),                                                            \
         "1.0",                                                                                \
         NULL,                                                                                 \
         1e-6,                                                                                 \
         1,                                                                                    \
         NULL,                                                                                 \
         "Keep the most probable tokens that together reach this mass.",                       \
         NULL},                                                                                \
        {"top_k", MOT_OPTION_INT, offsetof(config, m.top_k),                                   \
         "0",     NULL,           0,                                                           \
         1 << 24, "tokens",       "Keep the k most probable tokens; 0: all.",                  \
         NULL},                                                                                \
        {"min_p",                                                                              \
         MOT_OPTION_FLOAT,                                                                     \
         offsetof(config, m.min_p),                                                            \
         "0.0",                                                                                \
         NULL,                                                                                 \
         0,                                                                                    \
         1,                                                                                    \
         NULL,                                                                                 \
         "Keep tokens with at least this share of the most probable one's.",                   \
         NULL},                                                                                \
        {"max_completion_length",                                                              \
         MOT_OPTION_INT,                                                                       \
         offsetof(config, m.max_completion_length),                                            \
         length_text,                                                                          \
         NULL,                                                                                 \
         1,                                                                                    \
         1 << 24,                                                                              \
         "tokens",                                                                             \
         "Longest answer.",                                                                    \
         NULL},                                                                                \
        {"stop",                                                                               \
         MOT_OPTION_LIST,                                                                      \
         offsetof(config, m.stop),                                                             \
         "",                                                                                   \
         NULL,                                                                                 \
         0,                                                                                    \
         0,                                                                                    \
         NULL,                                                                                 \
         "Strings that end an answer, besides the end-of-text token.",                         \
         NULL},                                                                                \
        {"ignore_eos",                                                                         \
         MOT_OPTION_BOOL,                                                                      \
         offsetof(config, m.ignore_eos),                                                       \
         "false",                                                                              \
         NULL,                                                                                 \
         0,                                                                                    \
         0,                                                                                    \
         NULL,                                                                                 \
         "Go on past the end-of-text token, to max_completion_length.",                        \
         NULL},                                                                                \
        {"chunk",                                                                              \
         MOT_OPTION_INT,                                                                       \
         offsetof(config, m.chunk),                                                            \
         "64",                                                                                 \
         NULL,                                                                                 \
         0,                                                                                    \
         1 << 24,                                                                              \
         "tokens",                                                                             \
         "A generate task adds so many tokens to its rows, then yields; 0: to the end.",       \
         NULL},                                                                                \
        {"rows_per_task",                                                                      \
         MOT_OPTION_INT,                                                                       \
         offsetof(config, m.rows_per_task),                                                    \
         "0",                                                                                  \
         NULL,                                                                                 \
         0,                                                                                    \
         4096,                                                                                 \
         "rows",                                                                               \
         "Rows a generate task continues; 0: all rows shared out to the workers, at most 64.", \
         NULL},                                                                                \
        MOT_PACK_WEIGHTS_ROW(config, m.pack_weights),                                          \
    {                                                                                          \
        "seed", MOT_OPTION_INT64, offsetof(config, m.seed), "42", NULL, 0, 9e15, NULL,         \
            "Seed of everything random.", NULL                                                 \
    }

/* StarPU with the machine's options; records opened.  An exit code. */
int mot_app_start(const struct mot_machine_config *machine);
void mot_app_stop(void);
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
    double temperature; /* of its log-probs; 0: 1 */
};
/* Reads model, tokenizer and template (a Hugging Face directory without tokenizer.json takes ids
 * only); checks that vocabulary and weights fit each other and that
 * matrix products pass the self-test.  m must not move afterwards.  StarPU runs.  0 or a negative
 * errno with a message. */
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

/* Rollout options out of the config: total rows decide rows_per_task where it is 0. */
void mot_app_rollout_options(const struct mot_sampling_config *config,
                             const struct mot_app_model *model, int64_t rows,
                             struct mot_rollout_options *options);
/* A list of numbers ("1 0.5"): 0 and *values ((list->n) mot_alloc'ed, NULL when empty), or
 * -EINVAL. */
int mot_app_numbers(const struct mot_list *list, const char *name, double **values);
#endif
