/* Log-probs of one token are one number, wherever they are computed: peers rows 20, 21, 28, 31, 33,
 * 46. `motley logprob` on the ids in completions.jsonl gives the stored values bit for bit, with
 * the weights that each step sampled from, at temperatures 1 and 0.7, one line or many a task; with
 * the weights of another step it does not, so rollouts and their KV caches are of the newest
 * version.  Sampled ids are used as they are where re-encoding their text would give others.  The
 * same seed draws the same answers whatever the workers and tasks, another seed others.
 * Run it alone: ./test_grpo_logprob */
#include "byte_model.h"
#include "program.h"

enum { STEPS = 3 };

/* A learning rate that moves every weight visibly. */
static const char run_words[] =
    "grpo --train_file sums:10-99 --reward_funcs format:.*[5-9].* --num_generations 4 "
    "--per_device_train_batch_size 8 --gradient_accumulation_steps 2 --max_completion_length 10 "
    "--chunk 3 --learning_rate 0.02 --lr_scheduler_type constant --save_steps 1 "
    "--save_total_limit 0 --quiet";

/* How many rows of the step have exactly the log-probs that `motley logprob` gives for them with
 * the weights of model; *rows: all of that step. */
static int rows_agreeing(const json_t *completions, int step, const char *model,
                         const char *temperature, int batch_tokens, int *rows)
{
    char *path = scratch_path("step.jsonl");
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    size_t i;
    json_t *row;
    json_t *chosen = json_array();
    json_array_foreach(completions, i, row)
    {
        if ((int)number_at(row, "step") != step) { continue; }
        MOT_ASSERT(mot_json_append_line(fd, row) == 0);
        json_array_append(chosen, row);
    }
    close(fd);
    free(path);
    program_must(0, "logprob --model %s --temperature %s --batch_tokens %d --quiet @/step.jsonl",
                 model, temperature, batch_tokens);
    json_t *answers = lines_load("@/stdout");
    *rows = (int)json_array_size(chosen);
    check(json_array_size(answers) == json_array_size(chosen), "not one line for each row");
    int agreeing = 0;
    json_array_foreach(chosen, i, row)
    {
        /* 9 digits hold a float32, so equal numbers are equal bits. */
        agreeing += json_equal(json_object_get(row, "logprob"),
                               json_object_get(json_array_get(answers, i), "logprob"));
    }
    json_decref(answers);
    json_decref(chosen);
    return agreeing;
}

static void check_lengths(const json_t *completions)
{
    size_t i;
    json_t *row;
    json_array_foreach(completions, i, row)
    {
        const size_t n = json_array_size(json_object_get(row, "completion_ids"));
        check(n >= 1 && json_array_size(json_object_get(row, "logprob")) == n
                  && json_array_size(json_object_get(row, "version")) == n,
              "row %zu: ids, logprob and version have not the same length", i);
    }
}

/* Weights of the steps: what step s samples from is the checkpoint of step s - 1. */
static void test_versions(const char *temperature)
{
    program_must(0, "%s --model @/model --output_dir @/run-%s --temperature %s --max_steps %d",
                 run_words, temperature, temperature, STEPS);
    char *name = mot_format("@/run-%s/completions.jsonl", temperature);
    json_t *completions = lines_load(name);
    free(name);
    check_lengths(completions);
    for (int step = 1; step <= STEPS; step++) {
        char *weights = step == 1
                            ? mot_strdup("@/model")
                            : mot_format("@/run-%s/checkpoints/step-%d", temperature, step - 1);
        int rows;
        const int many = rows_agreeing(completions, step, weights, temperature, 2048, &rows);
        const int single = rows_agreeing(completions, step, weights, temperature, 1, &rows);
        check(rows == 16 && many == rows && single == rows,
              "temperature %s, step %d: of %d rows %d agree, %d one by one", temperature, step,
              rows, many, single);
        free(weights);
        if (step == 1) { continue; }
        const int stale = rows_agreeing(completions, step, "@/model", temperature, 2048, &rows);
        check(stale == 0, "temperature %s, step %d: %d rows agree with the first weights",
              temperature, step, stale);
    }
    json_decref(completions);
    name = mot_format("@/run-%s/metrics.jsonl", temperature);
    json_t *metrics = lines_load(name), *line;
    size_t i;
    json_array_foreach(metrics, i, line)
    {
        check(number_at(line, "sampling/sampling_logp_difference/max") == 0.0,
              "temperature %s: the trainer's weights of step %zu are not the sampler's",
              temperature, i + 1);
    }
    check(i == STEPS, "%zu lines of metrics", i);
    json_decref(metrics);
    free(name);
}

/* The optimiser steps of a generation batch change the weights only after all of it has been
 * generated: a mini-batch whose answers are there early does not train under the others' feet. */
static void test_mini_batches(void)
{
    program_must(0,
                 "%s --model @/model --output_dir @/mini --generation_batch_size 64 --max_steps 1 "
                 "--rows_per_task 4 --chunk 1",
                 run_words);
    json_t *completions = lines_load("@/mini/completions.jsonl");
    int rows;
    const int agreeing = rows_agreeing(completions, 1, "@/model", "1", 2048, &rows);
    check(rows == 64 && agreeing == rows, "mini-batches: %d of %d rows agree", agreeing, rows);
    json_decref(completions);
}

/* Text that is not UTF-8 does not survive decoding and encoding; the ids that were sampled do. */
static void test_ids_are_kept(void)
{
    program_must(0, "%s --model tiny:3 --output_dir @/bytes --max_steps 1", run_words);
    json_t *completions = lines_load("@/bytes/completions.jsonl"), *row;
    struct mot_tokenizer *tokenizer = mot_tokenizer_bytes();
    size_t i;
    int other = 0, rows;
    json_array_foreach(completions, i, row)
    {
        const char *text = text_at(row, "completion");
        struct mot_ids ids;
        MOT_ASSERT(mot_tokenizer_encode(tokenizer, text, strlen(text), 0, &ids) == 0);
        other += ids.n != json_array_size(json_object_get(row, "completion_ids"));
        mot_ids_free(&ids);
    }
    check(other > 0, "all texts encode to the sampled ids: a weak test");
    check(rows_agreeing(completions, 1, "tiny:3", "1", 2048, &rows) == rows,
          "log-probs are not those of the sampled ids");
    json_t *metrics = lines_load("@/bytes/metrics.jsonl");
    check(number_at(json_array_get(metrics, 0), "sampling/sampling_logp_difference/max") == 0.0,
          "trained ids are not the sampled ones");
    json_decref(metrics);
    json_decref(completions);
    mot_tokenizer_destroy(tokenizer);
}

static int same_answers(const char *arguments)
{
    name_remove("@/other");
    program_must(0, "%s --model @/model --output_dir @/other --temperature 0.7 --max_steps 1 %s",
                 run_words, arguments);
    json_t *a = lines_load("@/run-0.7/completions.jsonl");
    json_t *b = lines_load("@/other/completions.jsonl");
    int same = json_array_size(b) > 0;
    for (size_t i = 0; i < json_array_size(b); i++) {
        same &= json_equal(json_object_get(json_array_get(a, i), "completion_ids"),
                           json_object_get(json_array_get(b, i), "completion_ids"));
    }
    json_decref(a);
    json_decref(b);
    return same;
}

int main(void)
{
    scratch_begin("test_grpo_logprob");
    byte_model_write("model", &(struct byte_model){32, 96, 0.5f});
    test_versions("1");
    test_versions("0.7");
    test_mini_batches();
    test_ids_are_kept();
    check(same_answers("--workers 2 --cores_per_worker 1 --rows_per_task 2 --chunk 0"),
          "other tasks draw other answers");
    check(!same_answers("--seed 43"), "another seed draws the same answers");
    return failures > 0;
}
