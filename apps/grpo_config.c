/* grpo_config: the option table of `motley grpo` and what it may not say.  See grpo_config.h. */
#include "grpo_config.h"
#include <math.h>
#include <stddef.h>

enum { ANSWERS_MAX = 1 << 24 }; /* of a step */

const char mot_grpo_usage[] =
    "usage: motley grpo --model M --train_file F --reward_funcs R --output_dir D [options]\n\n"
    "Trains a model by GRPO.  With --eval_file the last line of the output is\n"
    "\"held-out accuracy A % -> B %\".  Ctrl-C finishes the step, saves, and exits with 130.\n";

#define AT(member) offsetof(struct mot_staleness_config, member)
/* The words of the choices are those of the enums. */
static const struct mot_option staleness_rows[] = {
    {"max_staleness", MOT_OPTION_INT, AT(max_staleness), "0", NULL, 0, 64, "steps",
     "Answers may be of weights so many steps older than those they train: that many steps more "
     "are "
     "under way at once.",
     "Staleness"},
    {"staleness_mode", MOT_OPTION_CHOICE, AT(mode), "exact", "bounded|exact", 0, 0, NULL,
     "exact: always that many, the same bits every time; bounded: the newest weights there are "
     "when a prompt is begun.",
     NULL},
    {"max_concurrent_rollouts", MOT_OPTION_INT, AT(max_concurrent_rollouts), "0", NULL, 0, 1 << 24,
     "prompts", "Prompts being answered at once, over all steps; 0: no limit.", NULL},
    {"vllm_importance_sampling_correction", MOT_OPTION_BOOL, AT(correction), "true", NULL, 0, 0,
     NULL,
     "With max_staleness: recompute log-probs at the start of a step, clip around them, and weigh "
     "each answer by how much likelier it has become.",
     NULL},
    {"vllm_importance_sampling_mode", MOT_OPTION_CHOICE, AT(correction_mode), "sequence_mask",
     "sequence_mask|sequence_truncate|token_mask|token_truncate", 0, 0, NULL,
     "By answer or by token; weights beyond the bounds are dropped or cut.", NULL},
    {"vllm_importance_sampling_clip_max", MOT_OPTION_FLOAT, AT(clip_max), "3.0", NULL, 0, 1e9, NULL,
     "Upper bound; 0: none.", NULL},
    {"vllm_importance_sampling_clip_min", MOT_OPTION_FLOAT, AT(clip_min), "none", NULL, 0, 1e9,
     NULL, "Lower bound.", NULL},
    {0},
};
#undef AT

#define AT(member) offsetof(struct mot_grpo_config, member)
const struct mot_option mot_grpo_options[] = {
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
    {"steps_per_generation", MOT_OPTION_INT, AT(steps_per_generation), "0", NULL, 0, 1 << 20,
     "micro-batches", "The same as a number of micro-batches; 0: gradient_accumulation_steps.",
     NULL},
    {"num_iterations", MOT_OPTION_INT, AT(num_iterations), "1", NULL, 1, 1000, NULL,
     "Passes of the optimiser over each step's answers.", NULL},
    {"max_steps", MOT_OPTION_INT, AT(max_steps), "-1", NULL, -1, 1e9, "steps",
     "Steps to train; -1: num_train_epochs over the data.", NULL},
    {"num_train_epochs", MOT_OPTION_FLOAT, AT(num_train_epochs), "3.0", NULL, 0, 1e6, NULL,
     "Passes over the data when max_steps is -1.", NULL},
    MOT_ROWS(AT(optimiser), mot_optimiser_rows),
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
    {"drop_zero_std_groups", MOT_OPTION_BOOL, AT(drop_zero_std_groups), "false", NULL, 0, 0, NULL,
     "Leave groups whose rewards are all equal out of the loss: they have no advantage, but the KL "
     "term acts on them and they count in the loss's denominator.",
     NULL},
    MOT_ROWS(AT(staleness), staleness_rows),
    MOT_ROWS(AT(output), mot_output_rows),
    MOT_DEFAULT("logging_steps", "1"),
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

/* Answers of an optimiser step. */
static int64_t answers_per_update(const struct mot_grpo_config *c)
{
    return (int64_t)c->per_device_train_batch_size * c->gradient_accumulation_steps;
}

int64_t mot_grpo_config_answers(const struct mot_grpo_config *c)
{
    if (c->generation_batch_size > 0) { return c->generation_batch_size; }
    return c->steps_per_generation > 0
               ? (int64_t)c->per_device_train_batch_size * c->steps_per_generation
               : answers_per_update(c);
}

int mot_grpo_config_check(const struct mot_grpo_config *c)
{
    const int G = c->num_generations, per = c->per_device_train_batch_size;
    if (c->generation_batch_size > 0 && c->steps_per_generation > 0) {
        return mot_fail(EINVAL,
                        "generation_batch_size and steps_per_generation say the same twice: "
                        "give one");
    }
    if (mot_grpo_config_answers(c) > ANSWERS_MAX || answers_per_update(c) > ANSWERS_MAX) {
        return mot_fail(EINVAL,
                        "per_device_train_batch_size %d x gradient_accumulation_steps %d: more "
                        "than %d answers",
                        per, c->gradient_accumulation_steps, ANSWERS_MAX);
    }
    const int update = (int)answers_per_update(c), all = (int)mot_grpo_config_answers(c);
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
    if (c->staleness.clip_max > 0 && c->staleness.clip_min > c->staleness.clip_max) {
        return mot_fail(EINVAL,
                        "vllm_importance_sampling_clip_min %g is above "
                        "vllm_importance_sampling_clip_max %g",
                        c->staleness.clip_min, c->staleness.clip_max);
    }
    return 0;
}

int mot_grpo_config_loss(const struct mot_grpo_config *c, struct mot_policy_loss_options *loss)
{
    loss->epsilon = c->epsilon;
    loss->epsilon_high = isnan(c->epsilon_high) ? c->epsilon : c->epsilon_high;
    loss->beta = c->beta;
    loss->importance = (struct mot_importance_options){
        .mode = (enum mot_importance_mode)c->staleness.correction_mode,
        .min = c->staleness.clip_min,
        .max = c->staleness.clip_max > 0 ? c->staleness.clip_max : NAN};
    const int error = mot_kl_estimator_find(c->kl_estimator, &loss->kl_estimator);
    return error ? error : mot_loss_type_find(c->loss_type, &loss->type);
}
