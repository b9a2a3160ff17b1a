/* The numbers of a step of motley grpo, worked out a second time from what it wrote: peers rows 5,
 * 7, 18, 21.  Some answers are cut off and masked.  From rewards, lengths, ends and log-probs in
 * completions.jsonl follow the advantages (group, batch, none), the loss of each loss_type with its
 * denominator, and, with `motley logprob` of the starting model, KL (k1, k2, k3), which acts on
 * groups without spread too; the second step has a reference that is not the actor.  The padding
 * token is the end-of-text token here: it counts where it was drawn.  A second pass has the ratios
 * of the weights after the first, clipped at both ends; the gradient has the loss's denominator.
 * Run it alone: ./test_grpo_values */
#include "byte_model.h"
#include "program.h"
#include <math.h>

enum { ANSWERS = 16, G = 4, LONGEST = 6 };

struct run {
    const char *loss_type, *scale_rewards, *kl_estimator;
    double beta, temperature;
    int micro_batch;              /* answers */
    double epsilon, epsilon_high; /* read by the second pass */
};

/* Groups end one after the other, so that a micro-batch could start before its advantages are
 * right. */
static const char data_words[] =
    "grpo --model @/model --train_file sums:10-99 --reward_funcs format:.*[0-Z].* "
    "--learning_rate 1e-2 --lr_scheduler_type constant --mask_truncated_completions "
    "--rows_per_task 4 --chunk 1 --quiet";

/* So many steps, into @/name. */
static void train(const struct run *r, const char *name, int steps, const char *more)
{
    program_must(0,
                 "%s --num_generations %d --per_device_train_batch_size %d "
                 "--gradient_accumulation_steps %d --max_completion_length %d --loss_type %s "
                 "--scale_rewards %s --kl_estimator %s --beta %g --temperature %g --epsilon %g "
                 "--epsilon_high %g --max_steps %d --output_dir @/%s %s",
                 data_words, G, r->micro_batch, ANSWERS / r->micro_batch, LONGEST, r->loss_type,
                 r->scale_rewards, r->kl_estimator, r->beta, r->temperature, r->epsilon,
                 r->epsilon_high, steps, name, more);
}

static json_t *lines_of(const char *run, const char *file)
{
    char *name = mot_format("@/%s/%s", run, file);
    json_t *lines = lines_load(name);
    free(name);
    return lines;
}

/* Log-probs of a run's answers under a model: an array with {"logprob"} for each. */
static json_t *logprobs_under(const char *model, const struct run *r, const char *run)
{
    program_must(0, "logprob --model %s --temperature %g --quiet @/%s/completions.jsonl", model,
                 r->temperature, run);
    return lines_load("@/stdout");
}

static int length_of(const json_t *row)
{
    return (int)json_array_size(json_object_get(row, "completion_ids"));
}

static int is_masked(const json_t *row)
{
    return strcmp(text_at(row, "end"), "length") == 0;
}

static double logprob_at(const json_t *lines, int answer, int token)
{
    const json_t *logprob = json_object_get(json_array_get(lines, (size_t)answer), "logprob");
    MOT_ASSERT(token < (int)json_array_size(logprob));
    return json_number_value(json_array_get(logprob, (size_t)token));
}

/* ---- Advantages ------------------------------------------------------------------------------ */

/* Mean and deviation (n - 1) of the rewards of n answers. */
static void reward_spread(const json_t *rows, int first, int n, double *mean, double *std)
{
    double sum = 0.0, squares = 0.0;
    for (int i = first; i < first + n; i++) {
        sum += number_at(json_array_get(rows, (size_t)i), "reward");
    }
    *mean = sum / n;
    for (int i = first; i < first + n; i++) {
        squares += pow(number_at(json_array_get(rows, (size_t)i), "reward") - *mean, 2);
    }
    *std = sqrt(squares / (n - 1));
}

/* Of the answers first .. first + 15, one step; returns the groups without spread. */
static int check_advantages(const struct run *r, const json_t *rows, int first)
{
    double all_mean, all_std;
    int dead = 0;
    reward_spread(rows, first, ANSWERS, &all_mean, &all_std);
    for (int g = first; g < first + ANSWERS; g += G) {
        double mean, std;
        reward_spread(rows, g, G, &mean, &std);
        dead += std == 0.0;
        const double divisor = strcmp(r->scale_rewards, "group") == 0   ? std + 1e-4
                               : strcmp(r->scale_rewards, "batch") == 0 ? all_std + 1e-4
                                                                        : 1.0;
        for (int i = g; i < g + G; i++) {
            const json_t *row = json_array_get(rows, (size_t)i);
            const double want = (number_at(row, "reward") - mean) / divisor;
            check(fabs(number_at(row, "advantage") - want) <= 1e-5,
                  "%s, answer %d: advantage %.9g, not %.9g", r->scale_rewards, i,
                  number_at(row, "advantage"), want);
        }
    }
    return dead;
}

/* ---- Loss ------------------------------------------------------------------------------------ */

struct sums {
    double loss, kl; /* loss: divided; kl: over the tokens that count */
    double tokens, answers, micro_batches;
    double clip_low, clip_high;
};

static double kl_of(const struct run *r, double logprob, double reference)
{
    const double d = logprob - reference;
    switch (r->kl_estimator[1]) {
    case '1':
        return d;
    case '2':
        return d * d / 2;
    default:
        return exp(-d) + d - 1;
    }
}

/* One token of an answer with advantage A. */
static double token_loss(const struct run *r, double A, double logprob, double old, struct sums *s)
{
    const double ratio = exp(logprob - old), low = 1 - r->epsilon, high = 1 + r->epsilon_high;
    s->clip_low += ratio < low && A < 0;
    s->clip_high += ratio > high && A > 0;
    return -fmin(ratio * A, fmin(fmax(ratio, low), high) * A);
}

/* What one optimiser step over the answers first .. first + 15 says, its weights giving `current`
 * to what was drawn; the definitions of policy_loss.h in another form. */
static struct sums step_of(const struct run *r, const json_t *rows, int first,
                           const json_t *current, const json_t *reference)
{
    struct sums s = {0};
    double by_answer = 0.0, by_micro_batch = 0.0, by_token = 0.0;
    for (int m = first; m < first + ANSWERS; m += r->micro_batch) {
        double in_micro_batch = 0.0, tokens = 0.0;
        for (int i = m; i < m + r->micro_batch; i++) {
            const json_t *row = json_array_get(rows, (size_t)i);
            const int n = length_of(row);
            double sum = 0.0;
            if (is_masked(row)) { continue; }
            for (int t = 0; t < n; t++) {
                const double lp = logprob_at(current, i, t);
                const double kl = kl_of(r, lp, logprob_at(reference, i, t));
                sum += token_loss(r, number_at(row, "advantage"), lp, logprob_at(rows, i, t), &s)
                       + r->beta * kl;
                s.kl += kl;
            }
            by_answer += sum / n;
            in_micro_batch += sum;
            tokens += n;
            s.answers++;
        }
        by_token += in_micro_batch;
        by_micro_batch += tokens > 0 ? in_micro_batch / tokens : 0.0;
        s.micro_batches += tokens > 0;
        s.tokens += tokens;
    }
    s.loss = strcmp(r->loss_type, "grpo") == 0   ? by_answer / s.answers
             : strcmp(r->loss_type, "bnpo") == 0 ? by_micro_batch / s.micro_batches
             : strcmp(r->loss_type, "dapo") == 0 ? by_token / s.tokens
                                                 : by_token / (s.answers * LONGEST);
    s.kl /= s.tokens;
    return s;
}

static void check_near(const json_t *line, const char *key, double want, double limit,
                       const char *what)
{
    check(fabs(number_at(line, key) - want) <= limit, "%s: %s %.9g, not %.9g", what, key,
          number_at(line, key), want);
}

/* ids, log-probs and versions of an answer, and what is trained, are of one length; an end-of-text
 * token is the last of its answer. */
static void check_rows(const json_t *rows)
{
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row)
    {
        const int n = length_of(row);
        const json_t *ids = json_object_get(row, "completion_ids");
        int eos = 0;
        for (int t = 0; t < n; t++) { eos += json_integer_value(json_array_get(ids, t)) >= 256; }
        check(n >= 1 && (int)json_array_size(json_object_get(row, "logprob")) == n
                  && (int)json_array_size(json_object_get(row, "version")) == n,
              "answer %zu: ids, log-probs and versions", i);
        check(n <= LONGEST && (n == LONGEST || !is_masked(row)), "answer %zu: length %d", i, n);
        check(is_masked(row) || eos >= 1, "answer %zu has no end", i);
    }
}

/* Two steps, KL in the second against the model that the run began with. */
static void test_run(const struct run *r)
{
    train(r, r->loss_type, 2, "");
    json_t *rows = lines_of(r->loss_type, "completions.jsonl");
    json_t *lines = lines_of(r->loss_type, "metrics.jsonl");
    json_t *reference = logprobs_under("@/model", r, r->loss_type);
    check(json_array_size(rows) == 2 * ANSWERS && json_array_size(lines) == 2, "two steps");
    check_rows(rows);
    for (int step = 0; step < 2; step++) {
        const json_t *line = json_array_get(lines, (size_t)step);
        const struct sums s = step_of(r, rows, step * ANSWERS, rows, reference);
        const int dead = check_advantages(r, rows, step * ANSWERS);
        char *what = mot_format("%s, step %d", r->loss_type, step + 1);
        check_near(line, "loss", s.loss, 2e-6, what);
        check_near(line, "kl", r->beta > 0 ? s.kl : 0.0, 2e-6, what);
        check_near(line, "completions/clipped_ratio", 1 - s.answers / ANSWERS, 1e-6, what);
        check_near(line, "frac_reward_zero_std", dead / (double)(ANSWERS / G), 1e-6, what);
        check(s.answers > 0 && s.answers < ANSWERS && fabs(s.loss) > 1e-3 && dead < ANSWERS / G
                  && (step == 0 || r->beta == 0 || (s.kl != 0 && fabs(r->beta * s.kl) > 1e-4)),
              "%s: a weak test: %g answers count, loss %g, kl %g, %d groups without spread", what,
              s.answers, s.loss, s.kl, dead);
        check(r->micro_batch > 1 || s.micro_batches < ANSWERS, "%s: no micro-batch is masked",
              what);
        free(what);
    }
    json_decref(reference);
    json_decref(lines);
    json_decref(rows);
}

/* The second pass over a step's answers: weights after the first pass are the checkpoint of a run
 * that has one pass. */
static void test_second_pass(void)
{
    const struct run r = {"grpo", "group", "k3", 0.0, 1.0, 8, 0.02, 0.05};
    train(&r, "single", 1, "--save_steps 1 --seed 5");
    train(&r, "twice", 1, "--num_iterations 2 --seed 5");
    check(names_equal("@/single/completions.jsonl", "@/twice/completions.jsonl"), "the answers");
    json_t *rows = lines_of("twice", "completions.jsonl");
    json_t *lines = lines_of("twice", "metrics.jsonl"), *line = json_array_get(lines, 0);
    json_t *current = logprobs_under("@/single/checkpoints/step-1", &r, "twice");
    const struct sums first = step_of(&r, rows, 0, rows, rows);
    const struct sums second = step_of(&r, rows, 0, current, current);
    check_near(line, "loss", (first.loss + second.loss) / 2, 5e-6, "second pass");
    check_near(line, "clip_ratio/low_mean", second.clip_low / (2 * second.tokens), 1e-6,
               "second pass");
    check_near(line, "clip_ratio/high_mean", second.clip_high / (2 * second.tokens), 1e-6,
               "second pass");
    check(second.clip_low > 0 && second.clip_high > 0,
          "a weak test: %g and %g tokens clipped of %g", second.clip_low, second.clip_high,
          second.tokens);
    json_decref(current);
    json_decref(lines);
    json_decref(rows);
}

/* The same answers with two loss types that weigh tokens alike: gradients differ by
 * denominators. */
static void test_gradient(void)
{
    double norm[2];
    struct sums s = {0};
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "norm_dapo" : "norm_dr_grpo";
        const struct run r = {name + strlen("norm_"), "group", "k3", 0.0, 1.0, 8, 0.2, 0.2};
        train(&r, name, 1, "");
        json_t *lines = lines_of(name, "metrics.jsonl"),
               *rows = lines_of(name, "completions.jsonl");
        norm[i] = number_at(json_array_get(lines, 0), "grad_norm");
        s = step_of(&r, rows, 0, rows, rows);
        json_decref(lines);
        json_decref(rows);
    }
    const double undivided[2] = {norm[0] * s.tokens, norm[1] * s.answers * LONGEST};
    check(fabs(undivided[0] / undivided[1] - 1) <= 1e-4 && norm[0] > 1e-3,
          "gradient norms %g of dapo, %g of dr_grpo: %g and %g without denominators", norm[0],
          norm[1], undivided[0], undivided[1]);
}

/* The padding token is the end-of-text token, as in many published models (peers row 7). */
static void write_model(void)
{
    byte_model_write("model", &(struct byte_model){32, 96, 2.0f});
    static const char *const names[] = {"model/config.json", "model/generation_config.json"};
    for (int i = 0; i < 2; i++) {
        char *path = scratch_path(names[i]);
        json_t *root = json_load_file(path, 0, NULL);
        MOT_ASSERT(root);
        json_t *eos = json_object_get(root, "eos_token_id");
        json_object_set(root, "pad_token_id", json_is_array(eos) ? json_array_get(eos, 0) : eos);
        MOT_ASSERT(json_dump_file(root, path, 0) == 0);
        json_decref(root);
        free(path);
    }
}

int main(void)
{
    static const struct run runs[] = {
        {"grpo", "group", "k3", 0.2, 1.0, 16, 0.2, 0.2},
        {"bnpo", "batch", "k1", 0.2, 1.0, 1, 0.2, 0.2},
        {"dapo", "none", "k2", 0.2, 0.8, 8, 0.2, 0.2},
        {"dr_grpo", "batch", "k3", 0.2, 1.0, 4, 0.2, 0.2},
    };
    scratch_begin("test_grpo_values");
    write_model();
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) { test_run(&runs[i]); }
    test_second_pass();
    test_gradient();
    return failures > 0;
}
