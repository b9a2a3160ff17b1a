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
    char *train_file, *eval_file, *output_dir;
    int shuffle_dataset, max_prompt_length;
    struct mot_list reward_funcs, reward_weights;
    int num_generations, per_device_train_batch_size, gradient_accumulation_steps;
    int generation_batch_size, steps_per_generation, num_iterations, max_steps, lanes,
        deterministic;
    double num_train_epochs, learning_rate, adam_beta1, adam_beta2, adam_epsilon, weight_decay;
    double max_grad_norm, warmup_ratio, epsilon, epsilon_high, beta;
    int warmup_steps, scale_rewards, mask_truncated_completions;
    char *lr_scheduler_type, *loss_type, *kl_estimator;
    int resume, save_steps, save_total_limit, save_final_model, logging_steps, log_completions;
    int trace;
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
