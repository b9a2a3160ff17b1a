/* A step is a graph, not a row of phases.  From the recording of a run with two workers, shaped
 * like the demo: in at least 80 % of the steps a reward and a gradient start before the last
 * generate chunk ends; a row that ends early is scored while its batch goes on; a group's prompt is
 * forwarded once in generation and once per pass in training (exact counts of tokens).  The same
 * checks fail on a run without chunks and with one micro-batch.  A command reward that sleeps 2 s
 * for one answer delays nothing but what needs its score; and under policies that want to hear of a
 * task's end from a worker, such a reward's reply comes from one.  Run it alone:
 * ./test_grpo_graph */
#include "byte_model.h"
#include "program.h"
#include "recording.h"

enum { STEPS = 10, PASSES = 2, GROUPS = 32, SAMPLES = 8 };

static const char words[] =
    "grpo --model @/model --train_file sums:0-99 --reward_funcs format:.*[5-9].* "
    "--num_generations 8 --generation_batch_size 256 --num_iterations 2 --max_steps 10 "
    "--max_completion_length 12 --learning_rate 1e-4 --save_steps 0 --save_final_model false "
    "--workers 2 --cores_per_worker 1 --quiet";

/* When the tasks of one name in one step started and ended first and last, us; tokens summed up. */
struct span {
    int n;
    double first_start, first_end, last_end, tokens;
};

static struct span span_of(const json_t *records, int step, const char *name)
{
    struct span s = {.first_start = 1e300, .first_end = 1e300};
    size_t i;
    json_t *r;
    json_array_foreach(records, i, r)
    {
        if ((int)number_at(r, "step") != step || strcmp(text_at(r, "name"), name) != 0) {
            continue;
        }
        const double start = number_at(r, "start_us"), end = number_at(r, "end_us");
        s.n++;
        s.first_start = start < s.first_start ? start : s.first_start;
        s.first_end = end < s.first_end ? end : s.first_end;
        s.last_end = end > s.last_end ? end : s.last_end;
        s.tokens += number_at(r, "tokens");
    }
    return s;
}

/* Steps in which a reward and a gradient start before the last generate task ends. */
static int steps_overlapping(const json_t *records)
{
    int found = 0;
    for (int step = 0; step < STEPS; step++) {
        const struct span generate = span_of(records, step, "rollout.generate");
        const struct span score = span_of(records, step, "reward.score");
        const struct span gradient = span_of(records, step, "train.gradient");
        check(score.n == GROUPS * SAMPLES && gradient.n >= PASSES && generate.n >= 1,
              "step %d: %d scores, %d gradients", step, score.n, gradient.n);
        found += score.first_start < generate.last_end && gradient.first_start < generate.last_end;
    }
    return found;
}

/* Steps whose only batch goes on after one of its rows has been scored. */
static int steps_scoring_early(const json_t *records)
{
    int found = 0;
    for (int step = 0; step < STEPS; step++) {
        const struct span generate = span_of(records, step, "rollout.generate");
        found += span_of(records, step, "reward.score").first_end < generate.last_end;
    }
    return found;
}

/* Tokens of the step's prompts, each group's once, and of its answers less their last one, which is
 * never forwarded. */
static void count_tokens(const json_t *completions, int step, double *prompts, double *answers)
{
    size_t i;
    json_t *row;
    *prompts = *answers = 0.0;
    json_array_foreach(completions, i, row)
    {
        if ((int)number_at(row, "step") != step + 1) { continue; }
        *answers += (double)json_array_size(json_object_get(row, "completion_ids")) - 1.0;
        if (number_at(row, "sample") == 0.0) {
            *prompts += (double)json_array_size(json_object_get(row, "prompt_ids"));
        }
    }
}

static void check_counts(const json_t *records, const char *run)
{
    char *name = mot_format("@/%s/completions.jsonl", run);
    json_t *completions = lines_load(name);
    free(name);
    name = mot_format("@/%s/metrics.jsonl", run);
    json_t *metrics = lines_load(name);
    free(name);
    for (int step = 0; step < STEPS; step++) {
        const json_t *m = json_array_get(metrics, (size_t)step);
        double prompts, answers;
        count_tokens(completions, step, &prompts, &answers);
        const double prefilled = span_of(records, step, "rollout.prefill").tokens;
        check(prompts > 0.0 && prefilled == prompts
                  && number_at(m, "perf/prompt_tokens_prefilled") == prompts,
              "%s step %d: %.0f prompt tokens prefilled, of %.0f", run, step, prefilled, prompts);
        check(number_at(m, "perf/prompt_tokens_trained") == PASSES * prompts
                  && number_at(m, "perf/tokens_trained") == PASSES * (prompts + answers),
              "%s step %d: %.0f prompt tokens trained in %d passes, of %.0f", run, step,
              number_at(m, "perf/prompt_tokens_trained"), PASSES, prompts);
    }
    json_decref(metrics);
    json_decref(completions);
}

static json_t *records_of(const char *run, const char *arguments)
{
    program_must(0, "%s --output_dir @/%s %s --trace", words, run, arguments);
    char *name = mot_format("@/%s/trace.json.gz", run);
    json_t *tasks = recorded_tasks(name);
    free(name);
    return tasks;
}

static void test_overlap(void)
{
    json_t *records = records_of("demo", "--chunk 2 --rows_per_task 32 "
                                         "--per_device_train_batch_size 16 "
                                         "--gradient_accumulation_steps 16");
    const int good = steps_overlapping(records);
    check(10 * good >= 8 * STEPS, "only %d of %d steps overlap", good, STEPS);
    check_counts(records, "demo");
    json_decref(records);

    records = records_of("phases", "--chunk 0 --rows_per_task 256 "
                                   "--per_device_train_batch_size 256 "
                                   "--gradient_accumulation_steps 1");
    const int bad = steps_overlapping(records);
    check(10 * bad < 8 * STEPS, "without chunks and micro-batches %d steps overlap", bad);
    check(steps_scoring_early(records) == 0, "a task scored rows before it ended");
    check_counts(records, "phases");
    json_decref(records);
    printf("overlapping steps: %d of %d, without chunks %d\n", good, STEPS, bad);

    records = records_of("batch", "--chunk 2 --rows_per_task 256 "
                                  "--per_device_train_batch_size 256 "
                                  "--gradient_accumulation_steps 1");
    const int early = steps_scoring_early(records);
    check(10 * early >= 8 * STEPS, "rows that end early are scored late in %d of %d steps",
          STEPS - early, STEPS);
    check_counts(records, "batch");
    json_decref(records);
}

/* Sleeps at the first answer to the prompt "slow=". */
static const char script[] = "#!/bin/sh\n"
                             "while IFS= read -r line; do\n"
                             "    case $line in *'\"slow='*)\n"
                             "        if mkdir \"$0.slept\" 2>/dev/null; then sleep 2; fi ;;\n"
                             "    esac\n"
                             "    case $line in *'\"ended\":true'*) echo 1 ;; *) echo 0 ;; esac\n"
                             "done\n";

/* Tasks that run after the slow answer's group was ready for its advantages, less those that
 * must. */
static void test_slow_reward(void)
{
    enum { PROMPTS = 8 };
    char *path = scratch_path("score.sh"), *data = scratch_path("prompts.jsonl"), text[1024] = "";
    scratch_write(path, script, strlen(script));
    MOT_ASSERT(chmod(path, 0755) == 0);
    for (int i = 0; i < PROMPTS; i++) {
        const size_t n = strlen(text);
        snprintf(text + n, sizeof(text) - n, "{\"prompt\": \"%s=\", \"answer\": \"%d\"}\n",
                 i < PROMPTS - 1 ? "fast" : "slow", i);
    }
    scratch_write(data, text, strlen(text));
    free(path);
    free(data);
    program_must(0, "grpo --model @/model --chat_template none --train_file @/prompts.jsonl "
                    "--shuffle_dataset false --reward_funcs command:@/score.sh "
                    "--num_generations 4 --per_device_train_batch_size 4 "
                    "--gradient_accumulation_steps 8 --max_completion_length 6 --chunk 2 "
                    "--rows_per_task 8 --max_steps 1 --save_steps 0 --workers 1 "
                    "--cores_per_worker 1 --quiet --output_dir @/slow --trace");
    json_t *records = recorded_tasks("@/slow/trace.json.gz"), *r;
    size_t i;
    double slow_end = 0.0, others_end = 0.0, first = 1e300;
    int others = 0;
    json_array_foreach(records, i, r)
    {
        const char *name = text_at(r, "name");
        const int is_last_group = (int)number_at(r, "group") == PROMPTS - 1;
        first = number_at(r, "start_us") < first ? number_at(r, "start_us") : first;
        if (strcmp(name, "train.advantage") == 0 && is_last_group) {
            slow_end = number_at(r, "start_us");
        }
        const int is_free =
            strncmp(name, "rollout.", 8) == 0 || strcmp(name, "reward.score") == 0
            || (!is_last_group
                && (strcmp(name, "train.advantage") == 0 || strcmp(name, "train.gradient") == 0));
        if (!is_free) { continue; }
        others++;
        others_end = number_at(r, "end_us") > others_end ? number_at(r, "end_us") : others_end;
    }
    json_decref(records);
    printf("slow score after %.2f s, all %d tasks that do not need it after %.2f s\n",
           (slow_end - first) / 1e6, others, (others_end - first) / 1e6);
    check(slow_end - first > 1.9e6, "the reward did not sleep");
    check(others > PROMPTS * 6 && others_end < slow_end - 0.5e6,
          "tasks that need no slow score waited for it");
}

/* Each of these stops a program in which another thread ends a task. */
static void test_reply_under_policies(void)
{
    static const char *const policies[] = {"dm", "dmda", "heteroprio"};
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        setenv("STARPU_SCHED", policies[i], 1);
        program_must(0,
                     "grpo --model @/model --train_file sums:0-9 --reward_funcs command:@/score.sh "
                     "--num_generations 4 --max_completion_length 4 --max_steps 1 --save_steps 0 "
                     "--save_final_model false --workers 2 --cores_per_worker 1 --quiet "
                     "--output_dir @/%s",
                     policies[i]);
    }
    unsetenv("STARPU_SCHED");
}

int main(void)
{
    scratch_begin("test_grpo_graph");
    byte_model_write("model", &(struct byte_model){64, 192, 1.5f});
    test_overlap();
    test_slow_reward();
    test_reply_under_policies();
    return failures > 0;
}
