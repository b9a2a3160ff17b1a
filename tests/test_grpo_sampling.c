/* Where the answers of motley grpo come from: peers rows 18, 27, 37, 46.
 * The key of a draw is (seed, step, prompt, sample, position): the same prompt twice in a step, in
 * two steps with the same weights, and its samples have answers of their own, and the tokens of one
 * answer are not all drawn at one quantile.  Steps walk through the data: each epoch is a
 * permutation, shuffled anew or in file order.  Each of two end-of-text tokens ends an answer.
 * --top_k, --top_p and --min_p cut what they say, while log-probs stay those of the full softmax,
 * so that the importance ratio of unchanged weights is 1 and not the mass that was kept.  The share
 * of groups without spread is p^G + (1 - p)^G for a reward of chance p.
 * Run it alone: ./test_grpo_sampling */
#include "byte_model.h"
#include "program.h"
#include <math.h>

enum { VOCABULARY = 512 }; /* at most */

static const char run_words[] = "grpo --chat_template none --learning_rate 0 --save_steps 0 "
                                "--save_final_model false --quiet";

static void write_lines(const char *name, const char *lines)
{
    char *path = scratch_path(name);
    scratch_write(path, lines, strlen(lines));
    free(path);
}

static const json_t *ids_of(const json_t *rows, size_t answer)
{
    const json_t *ids = json_object_get(json_array_get(rows, answer), "completion_ids");
    MOT_ASSERT(json_array_size(ids) > 0);
    return ids;
}

static int id_at(const json_t *rows, size_t answer, size_t token)
{
    return (int)json_integer_value(json_array_get(ids_of(rows, answer), token));
}

/* ---- The key of a draw ----------------------------------------------------------------------- */

/* At temperature 100 all ids are nearly equally likely, and ids are drawn in their order: an id is
 * its quantile, and two neighbours of an answer lie a third of the vocabulary apart on average. */
static void test_key(void)
{
    enum { TOKENS = 24 };
    write_lines("twice.jsonl", "{\"prompt\": \"1+1=\"}\n{\"prompt\": \"1+1=\"}\n");
    program_must(0,
                 "%s --model @/model --train_file @/twice.jsonl --reward_funcs format:.* "
                 "--num_generations 4 --per_device_train_batch_size 8 --max_steps 2 --ignore_eos "
                 "--max_completion_length %d --chunk 5 --temperature 100 --output_dir @/key",
                 run_words, TOKENS);
    json_t *rows = lines_load("@/key/completions.jsonl");
    const size_t n = json_array_size(rows);
    check(n == 16, "%zu answers", n);
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < a; b++) {
            check(!json_equal(ids_of(rows, a), ids_of(rows, b)),
                  "answers %zu and %zu (8 a step, 4 a prompt) are the same", b, a);
        }
        double apart = 0.0;
        for (size_t t = 1; t < TOKENS; t++) {
            apart += fabs((double)id_at(rows, a, t) - id_at(rows, a, t - 1)) / (TOKENS - 1);
        }
        check(apart > 40, "answer %zu: tokens are %g ids apart", a, apart);
    }
    json_decref(rows);
}

/* ---- The order of the data ------------------------------------------------------------------- */

enum { PROMPTS = 7, EPOCHS = 3 };

/* order: the examples of three epochs, two a step, so that epochs begin within a step. */
static void data_order(const char *name, const char *more, int *order)
{
    program_must(0,
                 "%s --model @/model --train_file @/seven.jsonl --reward_funcs exact "
                 "--num_generations 2 --per_device_train_batch_size 4 --num_train_epochs %d "
                 "--max_completion_length 1 --output_dir @/%s %s",
                 run_words, EPOCHS, name, more);
    char *path = mot_format("@/%s/completions.jsonl", name);
    json_t *rows = lines_load(path);
    check(json_array_size(rows) >= 2 * PROMPTS * EPOCHS && json_array_size(rows) <= 44,
          "%s: %zu answers in %d epochs", name, json_array_size(rows), EPOCHS);
    for (size_t i = 0; i < PROMPTS * EPOCHS; i++) {
        const json_t *row = json_array_get(rows, 2 * i);
        order[i] = (int)number_at(row, "example");
        check(text_at(row, "prompt")[2] == '1' + order[i], "prompt %zu is not its example's", i);
        check(number_at(row, "step") == (double)(i / 2 + 1), "prompt %zu: another step", i);
    }
    json_decref(rows);
    free(path);
}

static void test_data_order(void)
{
    write_lines("seven.jsonl", "{\"prompt\": \"1+1=\", \"answer\": 2}\n"
                               "{\"prompt\": \"1+2=\", \"answer\": 3}\n"
                               "{\"prompt\": \"1+3=\", \"answer\": 4}\n"
                               "{\"prompt\": \"1+4=\", \"answer\": 5}\n"
                               "{\"prompt\": \"1+5=\", \"answer\": 6}\n"
                               "{\"prompt\": \"1+6=\", \"answer\": 7}\n"
                               "{\"prompt\": \"1+7=\", \"answer\": 8}\n");
    int order[PROMPTS * EPOCHS], plain[PROMPTS * EPOCHS];
    data_order("shuffled", "", order);
    data_order("plain", "--shuffle_dataset false", plain);
    for (int e = 0; e < EPOCHS; e++) {
        int seen = 0;
        for (int i = 0; i < PROMPTS; i++) {
            seen |= 1 << order[e * PROMPTS + i];
            check(plain[e * PROMPTS + i] == i, "epoch %d: example %d in place of %d", e,
                  plain[e * PROMPTS + i], i);
        }
        check(seen == (1 << PROMPTS) - 1, "epoch %d is no permutation: %x", e, (unsigned)seen);
        check(
            memcmp(order + e * PROMPTS, plain, PROMPTS * sizeof(int)) != 0
                && (e == 0
                    || memcmp(order + e * PROMPTS, order + (e - 1) * PROMPTS, PROMPTS * sizeof(int))
                           != 0),
            "epoch %d is not shuffled anew", e);
    }
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* generation_config.json of @/model says first, second. */
static void set_ends(int first, int second)
{
    char *path = scratch_path("ends/generation_config.json");
    json_t *root = json_load_file(path, 0, NULL);
    if (root == NULL) { root = json_object(); }
    json_object_set_new(root, "eos_token_id", json_pack("[i, i]", first, second));
    MOT_ASSERT(json_dump_file(root, path, 0) == 0);
    json_decref(root);
    free(path);
}

static void test_two_ends(int first, int second)
{
    set_ends(first, second);
    name_remove("@/two_ends");
    program_must(0,
                 "%s --model @/ends --train_file sums:10-99 --reward_funcs exact "
                 "--num_generations 4 --per_device_train_batch_size 32 --max_steps 1 "
                 "--max_completion_length 24 --output_dir @/two_ends",
                 run_words);
    json_t *rows = lines_load("@/two_ends/completions.jsonl");
    int by[2] = {0};
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const size_t n = json_array_size(ids_of(rows, i));
        for (size_t t = 0; t < n; t++) {
            const int id = id_at(rows, i, t), is_end = id == first || id == second;
            check(!is_end || t + 1 == n, "answer %zu goes on after id %d", i, id);
        }
        const int last = id_at(rows, i, n - 1), ended = last == first || last == second;
        check(strcmp(text_at(json_array_get(rows, i), "end"), ended ? "eos" : "length") == 0,
              "answer %zu: its last id is %d and its end \"%s\"", i, last,
              text_at(json_array_get(rows, i), "end"));
        by[0] += last == first;
        by[1] += last == second;
    }
    check(by[0] > 0 && by[1] > 0, "a weak test: %d answers end by %d, %d by %d", by[0], first,
          by[1], second);
    json_decref(rows);
}

/* ---- What is drawn --------------------------------------------------------------------------- */

static int vocabulary;
static double chance[VOCABULARY]; /* of the first token after "1+2=" */
static json_t *chance_lines;      /* of motley logprob, one an id */

static void read_chances(void)
{
    char *path = scratch_path("ids.jsonl");
    FILE *file = fopen(path, "w");
    for (int id = 0; id < vocabulary; id++) {
        fprintf(file, "{\"prompt_ids\": [49, 43, 50, 61], \"completion_ids\": [%d]}\n", id);
    }
    fclose(file);
    free(path);
    program_must(0, "logprob --model @/model --quiet @/ids.jsonl");
    chance_lines = lines_load("@/stdout");
    double sum = 0.0;
    for (int id = 0; id < vocabulary; id++) {
        const json_t *line = json_array_get(chance_lines, (size_t)id);
        chance[id] = exp(json_number_value(json_array_get(json_object_get(line, "logprob"), 0)));
        sum += chance[id];
    }
    check(fabs(sum - 1.0) <= 1e-4, "chances sum to %g", sum);
}

/* Whether an option lets an id through, by its definition. */
static int is_kept(const char *option, double limit, int id)
{
    double likelier = 0.0, mass = 0.0, most = 0.0;
    for (int i = 0; i < vocabulary; i++) {
        likelier += chance[i] > chance[id];
        mass += chance[i] > chance[id] ? chance[i] : 0.0;
        most = fmax(most, chance[i]);
    }
    return strcmp(option, "top_k") == 0   ? likelier < limit
           : strcmp(option, "top_p") == 0 ? mass < limit
                                          : chance[id] >= limit * most;
}

static json_t *draw(const char *name, const char *more)
{
    program_must(0,
                 "%s --model @/model --train_file @/one.jsonl --reward_funcs format:[A-Z] "
                 "--num_generations 64 --per_device_train_batch_size 64 --max_steps 2 --ignore_eos "
                 "--max_completion_length 2 --output_dir @/%s %s",
                 run_words, name, more);
    char *path = mot_format("@/%s/completions.jsonl", name);
    json_t *rows = lines_load(path);
    free(path);
    check(json_array_size(rows) == 128, "%s: %zu answers", name, json_array_size(rows));
    return rows;
}

/* Of the first tokens of rows, how many are not kept; checks their log-probs and that they vary. */
static int count_outside(const json_t *rows, const char *option, double limit)
{
    int outside = 0, others = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const int id = id_at(rows, i, 0);
        const json_t *logprob = json_object_get(json_array_get(rows, i), "logprob");
        const json_t *full = json_object_get(json_array_get(chance_lines, (size_t)id), "logprob");
        outside += !is_kept(option, limit, id);
        others += id != id_at(rows, 0, 0);
        check(json_equal(json_array_get(logprob, 0), json_array_get(full, 0)),
              "%s %g, answer %zu: not the log-prob of the full softmax", option, limit, i);
    }
    check(others > 0, "%s %g: all draws are the same", option, limit);
    return outside;
}

static void test_cuts(void)
{
    static const struct {
        const char *option, *value;
    } cuts[] = {{"top_k", "5"}, {"top_p", "0.3"}, {"min_p", "0.5"}};
    json_t *all = draw("all", "");
    for (int i = 0; i < 3; i++) {
        const double limit = strtod(cuts[i].value, NULL);
        char *more = mot_format("--%s %s", cuts[i].option, cuts[i].value);
        json_t *rows = draw(cuts[i].option, more);
        const int outside = count_outside(rows, cuts[i].option, limit);
        check(outside == 0, "%s: %d draws of what is cut off", more, outside);
        check(count_outside(all, cuts[i].option, limit) > 0, "%s: a weak test", more);
        json_decref(rows);
        free(more);
    }
    json_decref(all);
}

/* Peers row 27: the weights do not change, so the mean of exp(old - behaviour) is 1; it would be
 * the kept mass, well below 0.8, if behaviour were what the sampler renormalises to. */
static void test_importance(void)
{
    json_decref(draw("stale", "--top_p 0.8 --max_staleness 1"));
    json_t *lines = lines_load("@/stale/metrics.jsonl"), *line;
    size_t i;
    json_array_foreach(lines, i, line)
    {
        const double mean = number_at(line, "sampling/importance_sampling_ratio/mean");
        check(fabs(mean - 1.0) <= 1e-6
                  && number_at(line, "sampling/importance_sampling_ratio/min") == mean,
              "step %zu: importance ratio %g", i + 1, mean);
    }
    check(i == 2, "%zu steps", i);
    json_decref(lines);
}

/* Peers row 18: 128 groups of 2, rewards 1 with the chance of a capital letter. */
static void test_groups_without_spread(void)
{
    enum { GROUPS = 128 };
    program_must(0,
                 "%s --model @/model --train_file @/one.jsonl --reward_funcs format:[A-Z] "
                 "--num_generations 2 --per_device_train_batch_size 64 --max_steps 1 "
                 "--gradient_accumulation_steps 4 --max_completion_length 1 --output_dir @/chance",
                 run_words);
    json_t *rows = lines_load("@/chance/completions.jsonl");
    json_t *lines = lines_load("@/chance/metrics.jsonl");
    double p = 0.0, without = 0.0;
    for (int id = 'A'; id <= 'Z'; id++) { p += chance[id]; }
    for (size_t g = 0; g < GROUPS; g++) {
        const double a = number_at(json_array_get(rows, 2 * g), "reward");
        without += (a == number_at(json_array_get(rows, 2 * g + 1), "reward")) / (double)GROUPS;
    }
    const double want = p * p + (1 - p) * (1 - p);
    const double got = number_at(json_array_get(lines, 0), "frac_reward_zero_std");
    check(fabs(got - without) <= 1e-6, "frac_reward_zero_std %g, %g in the answers", got, without);
    check(fabs(got - want) <= 4 * sqrt(want * (1 - want) / GROUPS) && p > 0.1 && p < 0.9,
          "frac_reward_zero_std %g, not about %g (chance %g)", got, want, p);
    json_decref(rows);
    json_decref(lines);
}

/* And dropped: with no KL they gave no gradient, so that only the denominator changes; with KL and
 * nothing but such groups nothing is left to learn from. */
static void test_groups_dropped(void)
{
    program_must(0,
                 "%s --model @/model --train_file @/one.jsonl --reward_funcs format:[A-Z] "
                 "--num_generations 2 --per_device_train_batch_size 64 --max_steps 1 "
                 "--gradient_accumulation_steps 4 --max_completion_length 1 --loss_type dapo "
                 "--drop_zero_std_groups --output_dir @/dropped",
                 run_words);
    json_t *all = lines_load("@/chance/metrics.jsonl");
    json_t *dropped = lines_load("@/dropped/metrics.jsonl");
    const json_t *a = json_array_get(all, 0), *d = json_array_get(dropped, 0);
    const double flat = number_at(a, "frac_reward_zero_std");
    check(number_at(d, "frac_reward_zero_std") == flat && flat > 0.1 && flat < 0.9,
          "frac_reward_zero_std %g and %g", flat, number_at(d, "frac_reward_zero_std"));
    const double want = number_at(a, "grad_norm") / (1.0 - flat), got = number_at(d, "grad_norm");
    check(fabs(got - want) <= 1e-4 * want, "grad_norm %g without such groups, not %g", got, want);
    json_decref(all);
    json_decref(dropped);
    program_must(0,
                 "%s --model @/model --train_file @/one.jsonl --reward_funcs format:(?s).* "
                 "--num_generations 2 --per_device_train_batch_size 16 --max_steps 2 --beta 0.5 "
                 "--max_completion_length 1 --drop_zero_std_groups --output_dir @/nothing",
                 run_words);
    json_t *lines = lines_load("@/nothing/metrics.jsonl");
    check(json_array_size(lines) == 2, "%zu steps", json_array_size(lines));
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        check(number_at(line, "loss") == 0 && number_at(line, "optim/skipped_updates") == 1,
              "step %zu of groups without spread is no empty step", i);
    }
    json_decref(lines);
}

int main(void)
{
    scratch_begin("test_grpo_sampling");
    struct mot_tokenizer *tokenizer = mot_tokenizer_bytes();
    const int eos = mot_tokenizer_eos(tokenizer);
    vocabulary = mot_tokenizer_vocab_size(tokenizer);
    MOT_ASSERT(vocabulary <= VOCABULARY);
    byte_model_write("model", &(struct byte_model){32, 96, 0.5f});
    byte_model_write("ends", &(struct byte_model){32, 96, 0.0f});
    write_lines("one.jsonl", "{\"prompt\": \"1+2=\"}\n");
    test_key();
    test_data_order();
    test_two_ends(eos, 'e');
    test_two_ends('e', eos);
    read_chances();
    test_cuts();
    test_importance();
    test_groups_without_spread();
    test_groups_dropped();
    json_decref(chance_lines);
    mot_tokenizer_destroy(tokenizer);
    return failures > 0;
}
