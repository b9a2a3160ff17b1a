/* motley grpo --resume: peers rows 40, 46.  20 steps are 10 + resume + 10 byte for byte:
 * checkpoint, model, completions.jsonl, and metrics.jsonl but for timings; with a learning rate
 * that falls over the whole run; and after Ctrl-C, which exits with 130 and leaves a checkpoint of
 * the step it was in. A run that had saved nothing yet starts anew.  All of that with answers that
 * are two steps old, too, which the checkpoints hold (MOTLEY_TEST_FULL=1: and one step), and what
 * else becomes of such answers: they are generated anew where they are too old for this run, or not
 * its own.  Run it alone: ./test_grpo_resume */
#include "byte_model.h"
#include "checkpoint.h"
#include "program.h"

static char words[1024];
static const char common[] =
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

/* What a resumed run makes of the answers in a checkpoint. */
static void test_stored_answers(void)
{
    static const char answers[] = "@/stored/checkpoints/step-10/answers.jsonl";
    program_must(0, "%s --output_dir @/stored --max_steps 10 --max_staleness 2", common);
    check(lines_count(answers) == 1 + 2 * 16, "answers.jsonl has %d lines", lines_count(answers));
    static const char *const changes[] = {"--max_staleness 0", "--max_staleness 1"};
    static const double stalest[] = {0, 1};
    for (int i = 0; i < 2; i++) {
        char *from = scratch_path("stored"), *to = scratch_path("changed");
        name_remove("@/changed");
        char *copy = mot_format("cp -r %s %s", from, to);
        MOT_ASSERT(system(copy) == 0);
        program_must(0, "%s --output_dir @/changed --max_steps 16 --resume %s", common, changes[i]);
        json_t *lines = lines_load("@/changed/metrics.jsonl"), *line;
        size_t k;
        json_array_foreach(lines, k, line)
        {
            if (number_at(line, "step") <= 10) { continue; }
            const double late = number_at(line, "step") - 11;
            check(number_at(line, "staleness/max") == (late < stalest[i] ? late : stalest[i]),
                  "%s: step %g trains answers %g steps old", changes[i], number_at(line, "step"),
                  number_at(line, "staleness/max"));
        }
        json_decref(lines);
        free(copy);
        free(from);
        free(to);
    }
}

/* A resumed run keeps the options that its results depend on; the others may change. */
static void test_other_options(void)
{
    static const char *const kept[][2] = {
        {"--learning_rate 3e-5", "learning_rate is '3.0e-05', was '"},
        {"--reward_funcs exact number", "reward_funcs is 'exact number', was '"},
        {"--seed 7", "seed is '7', was '42'"},
        {"--model tiny:1", "model is 'tiny:1', was '"},
        {"--lanes 3", "lanes is '3', was '2'"},
    };
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        program_must(1, "%s --output_dir @/whole --max_steps 22 --resume %s", words, kept[i][0]);
        check(strstr(program_errors, kept[i][1]) && strstr(program_errors, "config.yaml"), "%s: %s",
              kept[i][0], program_errors);
    }
    program_must(0,
                 "%s --output_dir @/whole --max_steps 21 --resume --chunk 3 --save_steps 1 "
                 "--workers 2 --cores_per_worker 1 --log_completions false",
                 words);
    check(lines_count("@/whole/metrics.jsonl") == 22, "not resumed to step 21");
}

/* Nor do the rows it learns from change under it. */
static void test_other_rows(void)
{
    static const char *const rows[] = {"{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n",
                                       "{\"prompt\": \"1+2=\", \"answer\": \"3\"}\n"};
    static const char run[] =
        "grpo --train_file @/rows.jsonl --reward_funcs exact --num_generations 4 --model tiny:1 "
        "--per_device_train_batch_size 4 --max_completion_length 4 --quiet --save_steps 1 "
        "--output_dir @/rows";
    char *path = scratch_path("rows.jsonl");
    scratch_write(path, rows[0], strlen(rows[0]));
    program_must(0, "%s --max_steps 1", run);
    scratch_write(path, rows[1], strlen(rows[1]));
    program_must(1, "%s --max_steps 2 --resume", run);
    check(strstr(program_errors, "rows.jsonl: its rows are not those") != NULL, "%s",
          program_errors);
    scratch_write(path, rows[0], strlen(rows[0]));
    program_must(0, "%s --max_steps 2 --resume", run);
    check(lines_count("@/rows/metrics.jsonl") == 2, "not resumed to step 2");
    free(path);
}

int main(void)
{
    static const char *const stalenesses[] = {"", "--max_staleness 2 --chunk 2",
                                              "--max_staleness 1 --staleness_mode exact"};
    const char *full = getenv("MOTLEY_TEST_FULL");
    const int n = full && strcmp(full, "1") == 0 ? 3 : 2;
    scratch_begin("test_grpo_resume");
    byte_model_write("model", &(struct byte_model){32, 96, 0.5f});
    for (int i = 0; i < n; i++) {
        static const char *const runs[] = {"constant", "halves", "whole", "lost", "interrupted"};
        snprintf(words, sizeof(words), "%s %s", common, stalenesses[i]);
        for (int k = 0; k < 5; k++) {
            char *name = mot_format("@/%s", runs[k]);
            name_remove(name);
            free(name);
        }
        test_two_halves();
        test_lost_half();
        test_interrupt();
    }
    test_stored_answers();
    test_other_options();
    test_other_rows();
    return failures > 0;
}
