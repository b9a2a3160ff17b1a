/* What the metrics of motley grpo say: peers rows 10, 11, 13, and several rewards.  On-policy the
 * loss is 0 and the gradient is not, and frac_reward_zero_std is there.  The second pass of
 * num_iterations 2 sees the updated policy: its ratios are exp(log-prob of the updated weights -
 * recorded log-prob), which two other programs' runs give too.  An answer without a verdict
 * ("none") takes no part: the others' advantages are those of the group without it, its own is 0,
 * and all numbers stay finite.
 * Run it alone: ./test_grpo_metrics */
#include "byte_model.h"
#include "program.h"
#include <math.h>

static const char words[] =
    "grpo --model @/model --num_generations 4 --per_device_train_batch_size 8 "
    "--gradient_accumulation_steps 2 --max_completion_length 6 --learning_rate 1e-2 "
    "--lr_scheduler_type constant --loss_type dapo --save_steps 1 --quiet";

static json_t *metrics_of(const char *run)
{
    char *name = mot_format("@/%s/metrics.jsonl", run);
    json_t *lines = lines_load(name);
    free(name);
    return lines;
}

/* Peers row 10; answers of one length, so that the token mean of the advantages is 0. */
static void test_on_policy(void)
{
    program_must(0,
                 "%s --train_file sums:10-99 --reward_funcs format:.*[5-9].* --max_steps 3 "
                 "--ignore_eos --output_dir @/once",
                 words);
    json_t *lines = metrics_of("once"), *line;
    size_t i;
    json_array_foreach(lines, i, line)
    {
        check(fabs(number_at(line, "loss")) <= 1e-6, "step %zu: loss %g on-policy", i + 1,
              number_at(line, "loss"));
        check(number_at(line, "frac_reward_zero_std") == 1.0 || number_at(line, "grad_norm") > 1e-3,
              "step %zu: no gradient", i + 1);
        check(number_at(line, "ratio/min") == 1.0 && number_at(line, "ratio/max") == 1.0,
              "step %zu: on-policy ratios are not 1", i + 1);
    }
    check(number_at(json_array_get(lines, 0), "frac_reward_zero_std") < 1.0, "a weak test");
    json_decref(lines);
}

/* Eight rows, four prompts a step. */
static void test_epoch(void)
{
    char *path = scratch_path("eight.jsonl");
    static const char row[] = "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n";
    char text[8 * sizeof(row)] = "";
    for (int i = 0; i < 8; i++) { strcat(text, row); }
    scratch_write(path, text, strlen(text));
    program_must(0,
                 "%s --train_file @/eight.jsonl --reward_funcs exact --max_steps 3 "
                 "--output_dir @/epochs",
                 words);
    json_t *lines = metrics_of("epochs"), *line;
    size_t i;
    json_array_foreach(lines, i, line)
    {
        check(number_at(line, "epoch") == 0.5 * (double)(i + 1), "step %zu: epoch %g", i + 1,
              number_at(line, "epoch"));
    }
    check(json_array_size(lines) == 3, "%zu steps", json_array_size(lines));
    json_decref(lines);
    free(path);
}

/* num_tokens and entropy as TRL defines them, from the answers themselves: tokens of all answers
 * with their prompts, over the run; the mean entropy of the tokens that are not masked, which
 * `logprob` gives for the weights of the first step. */
static void test_tokens_and_entropy(void)
{
    program_must(0,
                 "%s --train_file sums:10-99 --reward_funcs format:.*[5-9].* --max_steps 2 "
                 "--mask_truncated_completions --output_dir @/counted",
                 words);
    program_must(0, "logprob --model @/model --quiet @/counted/completions.jsonl");
    json_t *rows = lines_load("@/counted/completions.jsonl"), *row, *lines = metrics_of("counted");
    json_t *values = lines_load("@/stdout");
    double tokens[3] = {0}, entropy = 0.0, counted = 0.0;
    size_t i, masked = 0, half = json_array_size(rows) / 2;
    json_array_foreach(rows, i, row)
    {
        const size_t n = json_array_size(json_object_get(row, "completion_ids"));
        const int step = (int)number_at(row, "step");
        tokens[step] += (double)(n + json_array_size(json_object_get(row, "prompt_ids")));
        if (step == 2) { continue; }
        const json_t *of = json_object_get(json_array_get(values, i), "entropy");
        const int is_masked = strcmp(text_at(row, "end"), "length") == 0;
        masked += is_masked;
        for (size_t t = 0; t < n && !is_masked; t++, counted += 1.0) {
            entropy += json_number_value(json_array_get(of, t));
        }
    }
    check(masked > 0 && masked < half, "%zu of %zu answers masked: a weak test", masked, half);
    const json_t *first = json_array_get(lines, 0);
    const double got = number_at(first, "entropy"), want = entropy / counted;
    check(fabs(got - want) <= 1e-6, "entropy %.9g, not %.9g", got, want);
    check(number_at(first, "num_tokens") == tokens[1]
              && number_at(json_array_get(lines, 1), "num_tokens") == tokens[1] + tokens[2],
          "num_tokens");
    json_decref(values);
    json_decref(rows);
    json_decref(lines);
}

/* The shares of tokens beyond `epsilon` in each answer, under the weights after one update (see
 * expected_ratio): the least below, the greatest above. */
static void expected_shares(double epsilon, double *low_min, double *high_max)
{
    json_t *old = lines_load("@/single/completions.jsonl"), *fresh = lines_load("@/stdout"), *row;
    size_t i;
    *low_min = 1.0;
    *high_max = 0.0;
    json_array_foreach(old, i, row)
    {
        const json_t *before = json_object_get(row, "logprob");
        const json_t *after = json_object_get(json_array_get(fresh, i), "logprob");
        const double advantage = number_at(row, "advantage"), n = (double)json_array_size(before);
        double low = 0.0, high = 0.0;
        for (size_t t = 0; t < json_array_size(before); t++) {
            const double ratio = exp(json_number_value(json_array_get(after, t))
                                     - json_number_value(json_array_get(before, t)));
            low += ratio < 1.0 - epsilon && advantage < 0.0;
            high += ratio > 1.0 + epsilon && advantage > 0.0;
        }
        *low_min = fmin(*low_min, low / n);
        *high_max = fmax(*high_max, high / n);
    }
    json_decref(old);
    json_decref(fresh);
}

/* The mean ratio over both passes of the first step: 1 in the first, in the second what the weights
 * after one update (checkpoint of a run with one pass) give. */
static double expected_ratio(void)
{
    program_must(0,
                 "%s --train_file sums:10-99 --reward_funcs format:.*[5-9].* --max_steps 1 "
                 "--output_dir @/single",
                 words);
    program_must(0, "logprob --model @/single/checkpoints/step-1 --quiet "
                    "@/single/completions.jsonl");
    json_t *old = lines_load("@/single/completions.jsonl"), *fresh = lines_load("@/stdout"), *row;
    double sum = 0.0;
    size_t i, n = 0;
    json_array_foreach(old, i, row)
    {
        const json_t *before = json_object_get(row, "logprob");
        const json_t *after = json_object_get(json_array_get(fresh, i), "logprob");
        for (size_t t = 0; t < json_array_size(before); t++, n++) {
            sum += exp(json_number_value(json_array_get(after, t))
                       - json_number_value(json_array_get(before, t)));
        }
    }
    json_decref(old);
    json_decref(fresh);
    return 0.5 * (1.0 + sum / (double)n);
}

/* Peers row 11. */
static void test_second_pass(void)
{
    program_must(0,
                 "%s --train_file sums:10-99 --reward_funcs format:.*[5-9].* --max_steps 1 "
                 "--num_iterations 2 --epsilon 0.01 --output_dir @/twice",
                 words);
    json_t *lines = metrics_of("twice");
    const json_t *line = json_array_get(lines, 0);
    const double want = expected_ratio(), got = number_at(line, "ratio/mean");
    check(number_at(line, "ratio/std") > 1e-3, "the second pass sees the weights of the first");
    check(fabs(want - 1.0) > 1e-4 && fabs(got - want) <= 1e-5, "mean ratio %.9g, not %.9g", got,
          want);
    check(number_at(line, "sampling/sampling_logp_difference/max") == 0.0,
          "the first pass is not on-policy");
    double low_min, high_max; /* means over both passes, of which the first has none */
    expected_shares(0.01, &low_min, &high_max);
    check(high_max > 0.0 && fabs(number_at(line, "clip_ratio/high_max") - 0.5 * high_max) <= 1e-12
              && fabs(number_at(line, "clip_ratio/low_min") - 0.5 * low_min) <= 1e-12,
          "clipped shares %g and %g", number_at(line, "clip_ratio/low_min"),
          number_at(line, "clip_ratio/high_max"));
    json_decref(lines);
}

/* The first answer to "odd=" has no verdict, the others 1 for a text that holds a digit from 5. */
static const char script[] =
    "#!/bin/sh\n"
    "while IFS= read -r line; do\n"
    "    case $line in *'\"odd='*)\n"
    "        if mkdir \"$0.none\" 2>/dev/null; then echo none; continue; fi "
    ";;\n"
    "    esac\n"
    "    text=${line#*'\"completion\":'}\n"
    "    case ${text%%'\"answer\":'*} in *[5-9]*) echo 1 ;; *) echo 0 ;; "
    "esac\n"
    "done\n";

/* The advantage of one reward among n, the spread over n - 1, as TRL. */
static double advantage_of(const double *rewards, int n, double reward)
{
    double mean = 0.0, var = 0.0;
    for (int i = 0; i < n; i++) { mean += rewards[i] / n; }
    for (int i = 0; i < n; i++) { var += (rewards[i] - mean) * (rewards[i] - mean) / (n - 1); }
    return (reward - mean) / (sqrt(var) + 1e-4);
}

/* Peers row 13. */
static void test_abstention(void)
{
    char *path = scratch_path("score.sh");
    scratch_write(path, script, strlen(script));
    MOT_ASSERT(chmod(path, 0755) == 0);
    free(path);
    path = scratch_path("prompts.jsonl");
    static const char prompts[] = "{\"prompt\": \"odd=\"}\n{\"prompt\": \"1+1=\"}\n"
                                  "{\"prompt\": \"1+2=\"}\n{\"prompt\": \"1+3=\"}\n";
    scratch_write(path, prompts, strlen(prompts));
    free(path);
    program_must(0,
                 "%s --train_file @/prompts.jsonl --chat_template none "
                 "--reward_funcs command:@/score.sh --max_steps 2 --output_dir @/none",
                 words);
    json_t *rows = lines_load("@/none/completions.jsonl"), *lines = metrics_of("none"), *line;
    size_t i;
    int without = 0;
    for (size_t first = 0; first < json_array_size(rows); first += 4) {
        double rewards[4];
        int n = 0;
        for (size_t k = first; k < first + 4; k++) {
            const json_t *reward = json_object_get(json_array_get(rows, k), "reward");
            if (json_is_number(reward)) { rewards[n++] = json_number_value(reward); }
        }
        without += 4 - n;
        for (size_t k = first; k < first + 4; k++) {
            const json_t *row = json_array_get(rows, k), *reward = json_object_get(row, "reward");
            const double got = number_at(row, "advantage");
            const double want =
                json_is_number(reward) ? advantage_of(rewards, n, json_number_value(reward)) : 0.0;
            check(fabs(got - want) <= 1e-5, "row %zu of %d verdicts: advantage %.9g, not %.9g", k,
                  n, got, want);
        }
    }
    check(without == 1, "%d answers without a verdict", without);
    json_array_foreach(lines, i, line)
    {
        check(number_at(line, "reward/abstained") == (i == 0 ? 1.0 : 0.0), "step %zu: abstained",
              i + 1);
        check(isfinite(number_at(line, "reward")) && isfinite(number_at(line, "loss"))
                  && isfinite(number_at(line, "grad_norm"))
                  && isfinite(number_at(line, "rewards/command/mean")),
              "step %zu: not finite", i + 1);
    }
    check(i == 2, "the run stopped");
    json_decref(rows);
    json_decref(lines);
}

/* Two rewards of one kind have metrics of their own, and the reward is their weighted sum. */
static void test_same_reward_twice(void)
{
    program_must(0,
                 "%s --train_file sums:10-99 --reward_funcs format:.*[5-9].* format:.* "
                 "--reward_weights 2 0.5 --max_steps 2 --output_dir @/two_rewards",
                 words);
    json_t *lines = metrics_of("two_rewards"), *line;
    size_t i;
    json_array_foreach(lines, i, line)
    {
        const double first = number_at(line, "rewards/format/mean");
        const double second = number_at(line, "rewards/format_2/mean");
        check(second >= first && second > 0, "step %zu: %g match more than %g", i + 1, second,
              first);
        check(fabs(number_at(line, "reward") - (2 * first + 0.5 * second)) <= 1e-6,
              "step %zu: reward %g of %g and %g", i + 1, number_at(line, "reward"), first, second);
    }
    check(i == 2, "the run stopped");
    json_decref(lines);
}

/* TRL's SFTTrainer counts all tokens of a row, the last one too. */
static void test_sft_tokens(void)
{
    static const char rows[] = "{\"input_ids\": [1, 2, 3, 4, 5]}\n{\"input_ids\": [6, 7, 8]}\n";
    char *path = scratch_path("ids.jsonl");
    scratch_write(path, rows, strlen(rows));
    free(path);
    program_must(0, "sft --model @/model --train_file @/ids.jsonl --max_steps 3 --logging_steps 1 "
                    "--per_device_train_batch_size 2 --quiet --output_dir @/sft");
    json_t *lines = metrics_of("sft"), *line;
    size_t i;
    json_array_foreach(lines, i, line)
    {
        check(number_at(line, "num_tokens") == 8.0 * (double)(i + 1),
              "sft, step %zu: num_tokens %g", i + 1, number_at(line, "num_tokens"));
    }
    check(i == 3, "the run stopped");
    json_decref(lines);
}

int main(void)
{
    scratch_begin("test_grpo_metrics");
    byte_model_write("model", &(struct byte_model){32, 96, 0.5f});
    test_on_policy();
    test_epoch();
    test_tokens_and_entropy();
    test_second_pass();
    test_abstention();
    test_same_reward_twice();
    test_sft_tokens();
    return failures > 0;
}
