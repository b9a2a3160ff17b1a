/* motley grpo is deterministic: peers rows 1, 31, 46.  The same config and seed give byte-identical
 * checkpoints and the same metrics after 5 steps under the policies eager, lws, dmda, prio, random,
 * for 1x1, 1x2 and 2x1 workers x cores and for chunks of 4 and 64 tokens: with the built-in model,
 * and with one whose MLP is 4864 wide, where a matrix product could take another order of its sum.
 * With random and two workers gradient tasks overlap: determinism is not had by serialising.  The
 * trainer's log-probs of the sampled tokens are the sampler's, exactly.  Packed weights change
 * nothing.  With --max_staleness 1 and 2, exact, all of that holds too, except that the log-probs
 * differ, and generation runs into the training of earlier steps.  MOTLEY_TEST_FULL=1: all 30
 * combinations.  Run it alone: ./test_grpo_determinism */
#include "byte_model.h"
#include "kernels.h"
#include "program.h"
#include "recording.h"

struct configuration {
    const char *policy;
    int workers, cores, chunk;
};
static const char *const policies[] = {"eager", "lws", "dmda", "prio", "random"};
static const int shapes[][2] = {{1, 1}, {1, 2}, {2, 1}}, chunks[] = {4, 64};

struct subject {
    const char *name, *arguments;
    int staleness; /* --max_staleness */
};
/* Several micro-batches a lane, two optimiser steps a rollout, a reference model, late EOS. */
static const char common[] = "--num_generations 8 --per_device_train_batch_size 8 "
                             "--gradient_accumulation_steps 4 --num_iterations 2 --beta 0.01 "
                             "--weight_decay 0.01 --save_final_model false";
static const struct subject subjects[] = {
    {"tiny",
     "--model tiny:1 --train_file sums:10-99 --reward_funcs format:(?s).* "
     "--max_completion_length 5 --learning_rate 1e-3",
     0},
    {"wide",
     "--model @/wide-model --train_file sums:0-99 --reward_funcs format:.*[5-9].* "
     "--max_completion_length 12 --learning_rate 1e-3 --temperature 0.8",
     0},
    {"stale-1",
     "--model tiny:1 --train_file sums:10-99 --reward_funcs format:(?s).* "
     "--max_completion_length 5 --learning_rate 1e-3",
     1},
    {"stale-2",
     "--model @/model --train_file sums:0-99 --reward_funcs format:.*[5-9].* "
     "--max_completion_length 12 --learning_rate 1e-3 --generation_batch_size 64 "
     "--vllm_importance_sampling_mode token_truncate",
     2},
};

/* How often two gradient tasks run at the same time, or (ahead) a generate task at the time of a
 * gradient task of an earlier step. */
static int overlaps(const char *name, int ahead)
{
    json_t *records = recorded_tasks(name);
    const size_t n = json_array_size(records);
    int found = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *a = json_array_get(records, i);
        if (strcmp(text_at(a, "name"), "train.gradient") != 0) { continue; }
        for (size_t k = ahead ? 0 : i + 1; k < n; k++) {
            const json_t *b = json_array_get(records, k);
            const char *other = ahead ? "rollout.generate" : "train.gradient";
            found += strcmp(text_at(b, "name"), other) == 0
                     && (!ahead || number_at(a, "step") < number_at(b, "step"))
                     && number_at(a, "start_us") < number_at(b, "end_us")
                     && number_at(b, "start_us") < number_at(a, "end_us");
        }
    }
    json_decref(records);
    return found;
}

static void check_metrics(const struct subject *s)
{
    const char *subject = s->name;
    char *name = mot_format("@/%s-0/metrics.jsonl", subject);
    json_t *lines = lines_load(name), *line;
    size_t i;
    int learnt = 0;
    json_array_foreach(lines, i, line)
    {
        const double stale = number_at(line, "staleness/max");
        check(stale == ((int)i < s->staleness ? (double)i : s->staleness)
                  && stale == number_at(line, "staleness/min"),
              "%s step %zu: answers %g steps old", subject, i + 1, stale);
        check((number_at(line, "sampling/sampling_logp_difference/max") == 0.0) == (stale == 0.0),
              "%s step %zu: the trainer's log-probs are not the sampler's", subject, i + 1);
        check(number_at(line, "optim/skipped_updates") == 0.0, "an update was skipped");
        learnt += number_at(line, "frac_reward_zero_std") < 1.0;
    }
    check(i == 5 && learnt >= 2, "%s: %zu steps, %d with gradients: a weak test", subject, i,
          learnt);
    json_decref(lines);
    free(name);
}

/* Tasks of that name among the records. */
static int tasks_named(const char *records, const char *task)
{
    json_t *lines = recorded_tasks(records), *line;
    size_t i;
    int n = 0;
    json_array_foreach(lines, i, line)
    {
        n += strcmp(text_at(line, "name"), task) == 0;
    }
    json_decref(lines);
    return n;
}

/* Run number `index`, compared with run 0; every second one generates from packed weights, which
 * are missing only where the matrix product is our own. */
static void one(const struct subject *s, int index, const struct configuration *c)
{
    setenv("STARPU_SCHED", c->policy, 1);
    program_must(0,
                 "grpo %s %s --output_dir @/%s-%d --max_steps 5 --save_steps 5 --quiet "
                 "--workers %d --cores_per_worker %d --chunk %d --pack_weights %s "
                 "--max_staleness %d --trace",
                 s->arguments, common, s->name, index, c->workers, c->cores, c->chunk,
                 index % 2 == 1 ? "true" : "false", s->staleness);
    char *records = mot_format("@/%s-%d/trace.json.gz", s->name, index);
    const int packed = tasks_named(records, "rollout.pack");
    const int wanted = index % 2 == 1 && strstr(mot_matmul_describe(), "(brg") != NULL;
    check((packed > 0) == wanted, "%s-%d: %d tasks pack weights", s->name, index, packed);
    const int is_parallel = strcmp(c->policy, "random") == 0 && c->workers == 2;
    check(!is_parallel || overlaps(records, 0) > 0, "%s: no gradient tasks overlap", s->name);
    check(!is_parallel || (overlaps(records, 1) > 0) == (s->staleness > 0),
          "%s: generation is not ahead of training as it should be", s->name);
    free(records);
    if (index == 0) {
        check_metrics(s);
        return;
    }
    char *a = mot_format("@/%s-0", s->name), *b = mot_format("@/%s-%d", s->name, index);
    char *names[4] = {mot_format("%s/checkpoints", a), mot_format("%s/checkpoints", b),
                      mot_format("%s/metrics.jsonl", a), mot_format("%s/metrics.jsonl", b)};
    char *completions[2] = {mot_format("%s/completions.jsonl", a),
                            mot_format("%s/completions.jsonl", b)};
    check(directories_equal(names[0], names[1]) && metrics_equal(names[2], names[3])
              && names_equal(completions[0], completions[1]),
          "%s: %s %dx%d chunk %d is not %s-0", s->name, c->policy, c->workers, c->cores, c->chunk,
          s->name);
    name_remove(b);
    for (int i = 0; i < 4; i++) { free(names[i]); }
    for (int i = 0; i < 2; i++) { free(completions[i]); }
    free(a);
    free(b);
}

static int one_subject(const struct subject *s, int is_full)
{
    static const struct configuration few[] = {
        {"eager", 1, 1, 64}, {"random", 2, 1, 4}, {"lws", 2, 1, 64},  {"dmda", 1, 2, 4},
        {"prio", 2, 1, 4},   {"eager", 1, 2, 4},  {"prio", 1, 1, 64}, {"dmda", 2, 1, 64},
        {"lws", 1, 1, 4},    {"random", 1, 2, 64}};
    int n = 0;
    for (size_t i = 0; !is_full && i < sizeof(few) / sizeof(few[0]); i++) { one(s, n++, &few[i]); }
    for (int i = 0; is_full && i < 30; i++) {
        const struct configuration c = {.policy = policies[i / 6],
                                        .workers = shapes[i % 3][0],
                                        .cores = shapes[i % 3][1],
                                        .chunk = chunks[i / 3 % 2]};
        one(s, n++, &c);
    }
    return n;
}

int main(void)
{
    const char *full = getenv("MOTLEY_TEST_FULL");
    scratch_begin("test_grpo_determinism");
    byte_model_write("wide-model", &(struct byte_model){
                                       .hidden_size = 32, .intermediate_size = 4864, .eos = 0.5f});
    byte_model_write("model", &(struct byte_model){64, 192, 0.5f});
    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
        const double start = milliseconds_now();
        const int n = one_subject(&subjects[i], full && strcmp(full, "1") == 0);
        printf("%s: %d configurations, %.1f s\n", subjects[i].name, n,
               (milliseconds_now() - start) / 1e3);
    }
    return failures > 0;
}
