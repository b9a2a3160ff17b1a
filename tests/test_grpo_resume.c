/* motley grpo --resume: peers rows 40, 46.  20 steps are 10 + resume + 10 byte for byte:
 * checkpoint, model, completions.jsonl, and metrics.jsonl but for timings; with a learning rate
 * that falls over the whole run; and after Ctrl-C, which exits with 130 and leaves a checkpoint of
 * the step it was in. A run that had saved nothing yet starts anew.  Run it alone:
 * ./test_grpo_resume */
#include "byte_model.h"
#include "checkpoint.h"
#include "program.h"

static const char words[] =
    "grpo --model @/model --train_file sums:10-99 --reward_funcs format:.*[5-9].* "
    "--num_generations 4 --per_device_train_batch_size 8 --gradient_accumulation_steps 2 "
    "--num_iterations 2 --beta 0.01 --max_completion_length 8 --learning_rate 1e-3 "
    "--eval_file sums:10-99:held_out --eval_limit 4 --eval_steps 10 --save_steps 10 "
    "--save_total_limit 0 --quiet";

/* Run `name` ended as the run "whole" did. */
static void check_same(const char *whole, const char *name)
{
    static const char *const parts[] = {"checkpoints/step-20", "model"};
    for (int i = 0; i < 2; i++) {
        char *a = mot_format("@/%s/%s", whole, parts[i]),
             *b = mot_format("@/%s/%s", name, parts[i]);
        check(directories_equal(a, b), "%s: %s differs", name, parts[i]);
        free(a);
        free(b);
    }
    char *a = mot_format("@/%s/metrics.jsonl", whole), *b = mot_format("@/%s/metrics.jsonl", name);
    check(lines_count(a) == 21 && metrics_equal(a, b), "%s: metrics differ", name);
    free(a);
    free(b);
    a = mot_format("@/%s/completions.jsonl", whole);
    b = mot_format("@/%s/completions.jsonl", name);
    check(names_equal(a, b), "%s: completions differ", name);
    free(a);
    free(b);
}

/* 10 steps, and 10 more. */
static void test_two_halves(void)
{
    program_must(0, "%s --output_dir @/constant --lr_scheduler_type constant --max_steps 20",
                 words);
    program_must(0, "%s --output_dir @/halves --lr_scheduler_type constant --max_steps 10", words);
    program_must(0, "%s --output_dir @/halves --lr_scheduler_type constant --max_steps 20 --resume",
                 words);
    check_same("constant", "halves");
}

/* The lines of steps 11 to 20 are there, their checkpoint is lost. */
static void test_lost_half(void)
{
    program_must(0, "%s --output_dir @/whole --max_steps 20", words);
    program_must(0, "%s --output_dir @/lost --max_steps 20", words);
    name_remove("@/lost/checkpoints/step-20");
    name_remove("@/lost/model");
    program_must(0, "%s --output_dir @/lost --max_steps 20 --resume", words);
    check_same("whole", "lost");
    /* Without any checkpoint: from the start, and no line twice. */
    name_remove("@/lost/checkpoints");
    program_must(0, "%s --output_dir @/lost --max_steps 20 --resume", words);
    check_same("whole", "lost");
}

/* Ctrl-C after some lines of metrics; 1 when it came before the end of the run. */
static int interrupt(void)
{
    name_remove("@/interrupted");
    char *line = mot_format("%s --output_dir @/interrupted --max_steps 20", words);
    const pid_t pid = program_start(line);
    const double start = milliseconds_now();
    while (lines_count("@/interrupted/metrics.jsonl") < 4 && milliseconds_now() - start < 60e3) {
        milliseconds_sleep(0.5);
    }
    kill(pid, SIGINT);
    const int code = program_wait(pid);
    free(line);
    check(code == 130 || code == 0, "Ctrl-C: exit code %d: %s", code, program_errors);
    char *model = scratch_path("interrupted/model");
    check(code == 0 || access(model, F_OK) != 0, "an interrupted run left a final model");
    free(model);
    return code == 130;
}

static void test_interrupt(void)
{
    int tries = 1;
    while (!interrupt() && tries < 20) { tries++; }
    char *checkpoints = scratch_path("interrupted/checkpoints"), *path;
    int64_t step = 0;
    check(tries < 20, "Ctrl-C always came too late");
    check(mot_checkpoint_newest(checkpoints, &path, &step) == 1, "Ctrl-C left no checkpoint");
    check(step > 0 && step < 20 && step + 1 == lines_count("@/interrupted/metrics.jsonl"),
          "the checkpoint after Ctrl-C is of step %d", (int)step);
    printf("interrupted in step %d\n", (int)step);
    free(path);
    free(checkpoints);
    program_must(0, "%s --output_dir @/interrupted --max_steps 20 --resume", words);
    check_same("whole", "interrupted");
}

int main(void)
{
    scratch_begin("test_grpo_resume");
    byte_model_write("model", &(struct byte_model){32, 96, 0.5f});
    test_two_halves();
    test_lost_half();
    test_interrupt();
    return failures > 0;
}
