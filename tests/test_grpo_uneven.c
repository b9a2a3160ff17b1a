/* Shares of very unequal size, and workers without any: peers row 38.  A step has two groups, one
 * of which has a prompt that leaves room for 4 tokens and the other answers of 48; of four workers
 * at most two generate, so others have no sample of the step.  No step waits for them: the run
 * ends, and its weights, answers and metrics are those of one worker, byte for byte.  So it is with
 * one answer a micro-batch and with one micro-batch for all.
 * Run it alone: ./test_grpo_uneven */
#include "byte_model.h"
#include "program.h"

enum { SHORTEST = 4, LONGEST = 48, STEPS = 3 };

static void write_prompts(void)
{
    char text[256], *path = scratch_path("prompts.jsonl");
    snprintf(text, sizeof(text), "{\"prompt\": \"%.60s\"}\n{\"prompt\": \"1+1=\"}\n",
             "123456789+123456789+123456789+123456789+123456789+123456789=");
    scratch_write(path, text, strlen(text));
    free(path);
}

/* A run that has not ended after a minute is killed and is a failure. */
static void train(const char *name, int workers, const char *more)
{
    char *line = mot_format(
        "grpo --model @/model --train_file @/prompts.jsonl --chat_template none "
        "--reward_funcs format:.*[0-Z] --num_generations 2 --max_completion_length %d "
        "--rows_per_task 2 --chunk 0 --learning_rate 1e-2 --max_steps %d --quiet --workers %d "
        "--cores_per_worker 1 --output_dir @/%s %s",
        LONGEST, STEPS, workers, name, more);
    const pid_t pid = program_start(line);
    const double begun = milliseconds_now();
    while (!program_has_ended(pid) && milliseconds_now() - begun < 60e3) { milliseconds_sleep(5); }
    if (!program_has_ended(pid)) { kill(pid, SIGKILL); }
    const int code = program_wait(pid);
    if (code != 0) {
        printf("FAIL: exit %d: motley %s\n%s", code, line, program_errors);
        exit(1);
    }
    free(line);
}

static void check_shares(const char *run)
{
    char *name = mot_format("@/%s/completions.jsonl", run);
    json_t *rows = lines_load(name), *lines;
    int lengths[2] = {0};
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *ids = json_object_get(json_array_get(rows, i), "completion_ids");
        lengths[0] += json_array_size(ids) == SHORTEST;
        lengths[1] += json_array_size(ids) == LONGEST;
    }
    check(lengths[0] == 2 * STEPS && lengths[1] == 2 * STEPS, "%s: %d short, %d long answers", run,
          lengths[0], lengths[1]);
    free(name);
    name = mot_format("@/%s/metrics.jsonl", run);
    lines = lines_load(name);
    double norm = 0.0;
    for (size_t i = 0; i < STEPS; i++) {
        norm += number_at(json_array_get(lines, i), "grad_norm");
        check(number_at(json_array_get(lines, i), "perf/generate_tasks") == 2,
              "%s, step %zu: not two generate tasks for four workers", run, i + 1);
    }
    check(norm > 0, "%s: a weak test: nothing was trained", run);
    json_decref(lines);
    json_decref(rows);
    free(name);
}

static void test_workers(const char *name, const char *more)
{
    char *one = mot_format("%s-1", name), *four = mot_format("%s-4", name);
    train(one, 1, more);
    train(four, 4, more);
    check_shares(four);
    static const char *const files[] = {"model/model.safetensors", "completions.jsonl"};
    for (int i = 0; i < 2; i++) {
        char *a = mot_format("@/%s/%s", one, files[i]), *b = mot_format("@/%s/%s", four, files[i]);
        check(names_equal(a, b), "%s: four workers give another %s", name, files[i]);
        free(a);
        free(b);
    }
    char *a = mot_format("@/%s/metrics.jsonl", one), *b = mot_format("@/%s/metrics.jsonl", four);
    check(metrics_equal(a, b), "%s: other metrics", name);
    free(a);
    free(b);
    free(one);
    free(four);
}

int main(void)
{
    scratch_begin("test_grpo_uneven");
    byte_model_write("model", &(struct byte_model){32, 96, 0.5f});
    write_prompts();
    test_workers("single", "--ignore_eos --per_device_train_batch_size 1 "
                           "--gradient_accumulation_steps 4");
    test_workers("whole", "--ignore_eos --per_device_train_batch_size 4");
    return failures > 0;
}
