/* motley grpo and motley sft refuse sizes that do not go together or that an int cannot count: one
 * line that names the option and what is wrong, exit code 1, and no run directory is left.
 * Run it alone: ./test_grpo_options */
#include "program.h"

/* `motley arguments` says words and leaves nothing. */
static void refuses(const char *arguments, const char *words)
{
    program_must(1, "%s --model tiny:1 --train_file sums:0-9 --output_dir @/run --quiet",
                 arguments);
    check(strstr(program_errors, words) != NULL, "%s: '%s' does not say '%s'", arguments,
          program_errors, words);
    const char *end = strchr(program_errors, '\n');
    check(end != NULL && end[1] == '\0', "%s: not one line: %s", arguments, program_errors);
    char *run = scratch_path("run");
    check(access(run, F_OK) != 0, "%s: left a run directory", arguments);
    free(run);
}

#define GRPO "grpo --reward_funcs exact "

int main(void)
{
    scratch_begin("test_grpo_options");
    refuses(GRPO "--per_device_train_batch_size 12", "multiple of num_generations 8");
    refuses(GRPO "--num_generations 12 --per_device_train_batch_size 8 "
                 "--gradient_accumulation_steps 3",
            "neither divides num_generations 12");
    refuses(GRPO "--generation_batch_size 24 --gradient_accumulation_steps 2",
            "no multiple of per_device_train_batch_size");
    refuses(GRPO "--per_device_train_batch_size 65536 --gradient_accumulation_steps 65536",
            "gradient_accumulation_steps 65536: more than");
    refuses(GRPO "--num_generations 2 --per_device_train_batch_size 262144",
            "more than 65535 prompts");
    refuses(GRPO "--max_steps 1000000000 --num_iterations 1000", "1000000000 steps of 1000");
    refuses(GRPO "--num_train_epochs 1e6 --num_iterations 1000", "optimiser steps each: more than");
    refuses(GRPO "--temperature 0", "temperature");
    refuses(GRPO "--reward_weights 1~2", "reward_weights");
    refuses("sft --per_device_train_batch_size 65536 --gradient_accumulation_steps 65536",
            "gradient_accumulation_steps 65536: more than");
    return failures > 0;
}
