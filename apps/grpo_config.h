/* The options of `motley grpo`: names and defaults are TRL's (GRPOConfig). */
#ifndef MOT_GRPO_CONFIG_H
#define MOT_GRPO_CONFIG_H
#include "app.h"
#include "grpo_step.h"

struct mot_staleness_config {
    int max_staleness, mode, max_concurrent_rollouts;
    int correction, correction_mode;
    double clip_min, clip_max;
};

struct mot_grpo_config {
    struct mot_machine_config machine;
    struct mot_model_config model;
    struct mot_sampling_config sampling;
    struct mot_optimiser_config optimiser;
    struct mot_output_config output;
    char *train_file, *eval_file;
    int shuffle_dataset, max_prompt_length;
    struct mot_list reward_funcs, reward_weights;
    int num_generations, per_device_train_batch_size, gradient_accumulation_steps;
    int generation_batch_size, steps_per_generation, num_iterations, max_steps;
    double num_train_epochs;
    double epsilon, epsilon_high, beta;
    int scale_rewards, mask_truncated_completions, drop_zero_std_groups;
    char *loss_type, *kl_estimator;
    int log_completions;
    int eval_steps, eval_limit, eval_samples;
    double eval_temperature;
    struct mot_staleness_config staleness;
};
extern const struct mot_option mot_grpo_options[];
extern const char mot_grpo_usage[];

/* Answers of a step. */
int64_t mot_grpo_config_answers(const struct mot_grpo_config *config);
/* What can be known before any work: relations between options, as TRL checks them.  0 or -EINVAL
 * with a message. */
int mot_grpo_config_check(const struct mot_grpo_config *config);
/* Loss and corrections, out of the config; likewise. */
int mot_grpo_config_loss(const struct mot_grpo_config *config,
                         struct mot_policy_loss_options *loss);
#endif
