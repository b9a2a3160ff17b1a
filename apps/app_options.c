/* Options that several subcommands share; their tables take these in with MOT_ROWS.  See app.h. */
#include "app.h"
#include <stddef.h>

#define AT(member) offsetof(struct mot_machine_config, member)
const struct mot_option mot_machine_rows[] = {
    {"workers", MOT_OPTION_INT, AT(workers), "0", NULL, 0, 1024, NULL,
     "CPU workers StarPU schedules on; 0: STARPU_NCPU, else one.", "Machine"},
    {"cores_per_worker", MOT_OPTION_INT, AT(cores_per_worker), "0", NULL, 0, 1024, NULL,
     "Threads inside each worker; 0: the allowed cores shared out.", NULL},
    {"watchdog_s", MOT_OPTION_INT, AT(watchdog_s), "1800", NULL, 0, 1e9, "s",
     "Stop, naming what runs, when no task ends for so long; 0: never.", NULL},
    {"quiet", MOT_OPTION_BOOL, AT(quiet), "false", NULL, 0, 0, NULL,
     "No progress, only warnings and errors.", NULL},
    {0},
};
#undef AT

#define AT(member) offsetof(struct mot_model_config, member)
const struct mot_option mot_model_rows[] = {
    {"model", MOT_OPTION_STRING, AT(model), NULL, NULL, 0, 0, NULL,
     "HF directory or GGUF file; 'tiny:SEED' makes the small byte-level default.", "Model"},
    {"chat_template", MOT_OPTION_STRING, AT(chat_template), "", NULL, 0, 0, NULL,
     "Form of prompts: a name, or 'none' for plain text; default: the model's own.", NULL},
    {"system_prompt", MOT_OPTION_STRING, AT(system_prompt), "", NULL, 0, 0, NULL,
     "System message put before each prompt.", NULL},
    {"dtype", MOT_OPTION_STRING, AT(dtype), "float32", NULL, 0, 0, NULL,
     "Weights that rollouts and gradients read: float32 or bfloat16 (masters are float32).", NULL},
    {"head_chunk", MOT_OPTION_INT, AT(head_chunk), "128", NULL, 1, 1 << 20, "rows",
     "Rows of vocabulary logits held in memory at a time in training.", NULL},
    {0},
};
#undef AT

/* The words are those of enum mot_pack_weights. */
const struct mot_option mot_pack_weights_rows[] = {
    {"pack_weights", MOT_OPTION_CHOICE, 0, "auto", "auto|true|false", 0, 0, NULL,
     "Generate from a second, rearranged copy of the weights: sooner, for more memory; auto: when "
     "it pays.",
     NULL},
    {0},
};

#define AT(member) offsetof(struct mot_sampling_config, member)
const struct mot_option mot_sampling_rows[] = {
    {"temperature", MOT_OPTION_FLOAT, AT(temperature), "0.0", NULL, 0, 100, NULL,
     "Logits are divided by it before sampling; 0: greedy.", "Generation"},
    {"top_p", MOT_OPTION_FLOAT, AT(top_p), "1.0", NULL, 1e-6, 1, NULL,
     "Keep the most probable tokens that together reach this mass.", NULL},
    {"top_k", MOT_OPTION_INT, AT(top_k), "0", NULL, 0, 1 << 24, "tokens",
     "Keep the k most probable tokens; 0: all.", NULL},
    {"min_p", MOT_OPTION_FLOAT, AT(min_p), "0.0", NULL, 0, 1, NULL,
     "Keep tokens with at least this share of the most probable one's.", NULL},
    {"max_completion_length", MOT_OPTION_INT, AT(max_completion_length), "256", NULL, 1, 1 << 24,
     "tokens", "Longest answer.", NULL},
    {"stop", MOT_OPTION_LIST, AT(stop), "", NULL, 0, 0, NULL,
     "Strings that end an answer, besides the end-of-text token.", NULL},
    {"ignore_eos", MOT_OPTION_BOOL, AT(ignore_eos), "false", NULL, 0, 0, NULL,
     "Go on past the end-of-text token, to max_completion_length.", NULL},
    {"chunk", MOT_OPTION_INT, AT(chunk), "64", NULL, 0, 1 << 24, "tokens",
     "A generate task adds so many tokens to its rows, then yields; 0: to the end.", NULL},
    {"rows_per_task", MOT_OPTION_INT, AT(rows_per_task), "0", NULL, 0, 4096, "rows",
     "Rows a generate task continues; 0: all rows shared out to the workers, at most 64.", NULL},
    MOT_ROWS(AT(pack_weights), mot_pack_weights_rows),
    {"seed", MOT_OPTION_INT64, AT(seed), "42", NULL, 0, 9e15, NULL, "Seed of everything random.",
     NULL},
    {0},
};
#undef AT

#define AT(member) offsetof(struct mot_optimiser_config, member)
const struct mot_option mot_optimiser_rows[] = {
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
    {0},
};
#undef AT

#define AT(member) offsetof(struct mot_output_config, member)
const struct mot_option mot_output_rows[] = {
    {"output_dir", MOT_OPTION_STRING, AT(output_dir), NULL, NULL, 0, 0, NULL,
     "The run directory: metrics, completions, checkpoints, model.", "Output"},
    {"resume", MOT_OPTION_BOOL, AT(resume), "false", NULL, 0, 0, NULL,
     "Go on from the newest checkpoint of output_dir that verifies.", NULL},
    {"trace", MOT_OPTION_BOOL, AT(trace), "false", NULL, 0, 0, NULL,
     "Record tasks, transfers and memory into output_dir/trace.json.gz, for Perfetto; or "
     "MOTLEY_TRACE=FILE, for any subcommand.",
     NULL},
    {"save_steps", MOT_OPTION_INT, AT(save_steps), "500", NULL, 0, 1e9, "steps",
     "Checkpoint every so many steps, and at the end; 0: never.", NULL},
    {"save_total_limit", MOT_OPTION_INT, AT(save_total_limit), "2", NULL, 0, 1e6, "checkpoints",
     "Keep so many, the newest; 0: all.", NULL},
    {"save_final_model", MOT_OPTION_BOOL, AT(save_final_model), "true", NULL, 0, 0, NULL,
     "Write output_dir/model at the end.", NULL},
    {"logging_steps", MOT_OPTION_INT, AT(logging_steps), "10", NULL, 1, 1e9, "steps",
     "Write a line of metrics.jsonl every so many steps: means over them in sft.", NULL},
    {0},
};
#undef AT
