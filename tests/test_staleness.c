/* Bounded staleness, under random delays before each task and before each task's callback.
 *   peers row 35: the capacity rule after a restart at version 0, 5, 50
 *   hundreds of short runs of random shape (staleness 0 to 3, exact and bounded, several optimiser
 *   steps a step, chunks, a limit of prompts under way, stops in the middle, restarts from stored
 *   answers) under the policies eager, lws, prio and random:
 *     no answer older than the staleness allows when it is trained; in exact mode of the very
 *     version; and in bounded mode sometimes fresher
 *     every row drawn is trained exactly once, or dropped where the run stops
 *     never more than eta + 2 versions alive
 *     no deadlock: a watchdog ends the test
 *   two rollouts in a line with room for two prompts: never more are under way
 * Also run under the thread sanitizer, which makes fewer runs.  MOTLEY_TEST_FULL=1: four times as
 * many. */
#include "byte_model.h"
#include "grpo_window.h"
#include "rng.h"
#include "stages.h"
#include "task.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

enum { POLICIES = 4 };
static const char *const policies[POLICIES] = {"lws", "eager", "prio", "random"};
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { RUNS = 20 }; /* of each policy */
#else
enum { RUNS = 75 };
#endif

/* ---- Delays ---------------------------------------------------------------------------------- */

static struct {
    atomic_uint_fast64_t seed;
    atomic_uint calls; /* numbers of random delays */
    struct mot_actor *actor;
    atomic_int most_alive, prompts, scores;
    atomic_int ended, most_prompts; /* groups whose rows have all been reported; at once */
} watch;

struct wrapped {
    void (*done)(void *argument);
    void *argument;
};

/* None, mostly; else up to 0.5 ms. */
static void delay(void)
{
    const float x = mot_uniform(atomic_load(&watch.seed), MOT_RNG_TEST,
                                atomic_fetch_add(&watch.calls, 1), 0, 0);
    if (x < 0.3f) { usleep((useconds_t)(x * 1700.0f)); }
}

static void done_late(void *argument)
{
    const struct wrapped w = *(struct wrapped *)argument;
    free(argument);
    delay();
    const int alive = mot_actor_live_versions(watch.actor);
    if (alive > atomic_load(&watch.most_alive)) { atomic_store(&watch.most_alive, alive); }
    w.done(w.argument);
}

void __real_mot_watchdog_taken(struct mot_task_state *state, int worker);
void __wrap_mot_watchdog_taken(struct mot_task_state *state, int worker);
/* In a worker's thread, before the task runs: takes no lock of ours, StarPU holds its own. */
void __wrap_mot_watchdog_taken(struct mot_task_state *state, int worker)
{
    __real_mot_watchdog_taken(state, worker);
    if (strcmp(state->name, "rollout.prefill") == 0) {
        const int begun = atomic_fetch_add(&watch.prompts, state->hint.rows) + state->hint.rows;
        const int now = begun - atomic_load(&watch.ended);
        if (now > atomic_load(&watch.most_prompts)) { atomic_store(&watch.most_prompts, now); }
    }
    atomic_fetch_add(&watch.scores, strcmp(state->name, "reward.score") == 0);
    if (state->done) {
        struct wrapped *w = mot_alloc(sizeof(*w));
        *w = (struct wrapped){state->done, state->argument_done};
        state->done = done_late;
        state->argument_done = w;
    }
    delay();
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static struct {
    struct mot_tokenizer *tokenizer;
    struct mot_dataset dataset;
    struct mot_reward_function *functions;
} shared;

/* What all runs have seen: each must have come up. */
static struct {
    int fresher, dropped, restored;
} seen;

static int choose(uint64_t seed, uint32_t what, int n)
{
    return (int)(mot_uniform(seed, MOT_RNG_TEST, what, 1, 0) * (float)n) % n;
}

static struct mot_grpo shape_of(uint64_t seed, struct mot_actor *actor)
{
    const int G = 2 + choose(seed, 1, 3), prompts = 2 * (1 + choose(seed, 2, 3));
    struct mot_grpo g = {
        .actor = actor,
        .dataset = &shared.dataset,
        .tokenizer = shared.tokenizer,
        .rollout = {.sampling = {.temperature = 1.0f, .top_p = 1.0f},
                    .max_completion_length = 1 + choose(seed, 3, 6),
                    .chunk = choose(seed, 4, 4),
                    .rows_per_task = 1 + choose(seed, 5, 2 * G),
                    .pack_weights = (enum mot_pack_weights)choose(seed, 6, 3),
                    .seed = seed,
                    .n_eos = 1,
                    .eos = {mot_tokenizer_eos(shared.tokenizer)},
                    .tokenizer = shared.tokenizer},
        .loss = {.epsilon = 0.2,
                 .epsilon_high = 0.2,
                 .importance = {(enum mot_importance_mode)choose(seed, 7, 4), NAN, 3.0}},
        .optimizer = {.learning_rate = 1e-3,
                      .adam_beta1 = 0.9,
                      .adam_beta2 = 0.95,
                      .adam_epsilon = 1e-8,
                      .max_grad_norm = 1.0,
                      .total_steps = 1000,
                      .deterministic = 1},
        .prompts_per_step = prompts,
        .num_generations = G,
        .answers_per_micro_batch = G,
        .micro_batches_per_update = choose(seed, 8, 2) ? prompts : prompts / 2,
        .num_iterations = 1 + choose(seed, 9, 2),
        .scale_rewards = choose(seed, 10, 4) ? MOT_SCALE_GROUP : MOT_SCALE_BATCH,
        .n_functions = 1,
        .functions = shared.functions,
        .seed = seed,
        .shuffle = 1,
        .max_staleness = choose(seed, 11, 4),
        .staleness_mode = (enum mot_staleness_mode)choose(seed, 12, 2),
        .max_concurrent_rollouts = choose(seed, 13, 2) ? 1 + choose(seed, 14, prompts) : 0,
        .correct_importance = choose(seed, 15, 4) > 0,
    };
    assert_int_equal(mot_loss_type_find("dapo", &g.loss.type), 0);
    assert_int_equal(mot_schedule_find("constant", &g.optimizer.lr_scheduler_type), 0);
    return g;
}

static void actor_make(struct mot_actor *actor, int staleness)
{
    struct mot_model model;
    char *path = scratch_path("model");
    assert_int_equal(mot_model_load(path, &model), 0);
    const struct mot_actor_options options = {
        .lanes = 2, .copies = staleness > 0, .max_versions = staleness + 2};
    assert_int_equal(mot_actor_create(actor, &model, &options), 0);
    mot_model_destroy(&model);
    free(path);
}

/* A step's answers as they are trained; returns how many. */
static int check_step(const struct mot_grpo *g, const struct mot_grpo_result *r)
{
    const int updates = mot_grpo_updates_per_step(g), eta = g->max_staleness;
    const int oldest = r->step > eta ? r->step - eta : 0;
    int rows = 0;
    double tokens = 0.0, trained = 0.0;
    for (int p = 0; p < r->rollout->n_groups; p++) {
        const struct mot_group *group = &r->rollout->groups[p];
        assert_in_range(group->version_step, oldest, r->step);
        assert_true(group->version == NULL && group->cache == NULL);
        for (int k = 0; k < group->n_rows; k++, rows++) {
            const struct mot_row *row = &group->rows[k];
            assert_true(row->n >= 1 && row->end != MOT_ROW_RUNNING && row->cache == NULL);
            tokens += row->n;
            for (int t = 0; t < row->n; t++) {
                assert_int_equal(row->version[t], group->version_step * updates);
                if (g->staleness_mode == MOT_STALENESS_EXACT || eta == 0) {
                    assert_int_equal(row->version[t], oldest * updates);
                }
            }
        }
        seen.fresher += group->version_step > oldest;
    }
    for (int u = 0; u < r->n_updates; u++) {
        trained += r->updates[u].tokens;
        assert_int_equal(r->updates[u].skipped, 0);
    }
    assert_true(trained == tokens * g->num_iterations);
    return rows;
}

/* Steps first .. until its end or stop; the answers that were trained. */
static int run_steps(const struct mot_grpo *g, struct mot_grpo_window *window, int first, int stop)
{
    int trained = 0, step = first;
    const struct mot_grpo_result *r;
    while (step < stop && mot_grpo_window_next(window, &r) == 0 && r != NULL) {
        assert_int_equal(r->step, step);
        trained += check_step(g, r);
        mot_grpo_window_release(window);
        step++;
    }
    assert_int_equal(step, stop);
    return trained;
}

/* One run, which may stop early, and may go on from what it stored then. */
static void run(uint64_t seed)
{
    struct mot_actor actor;
    struct mot_grpo g = shape_of(seed, &actor);
    actor_make(&actor, g.max_staleness);
    atomic_store(&watch.seed, seed);
    watch.actor = &actor;
    atomic_store(&watch.most_alive, 0);
    atomic_store(&watch.prompts, 0);
    atomic_store(&watch.scores, 0);
    const int end = 2 + choose(seed, 20, 5), stop = 1 + choose(seed, 21, end);
    const int is_kept = choose(seed, 22, 2), P = g.prompts_per_step, G = g.num_generations;
    struct mot_grpo_span span = {.end = end, .is_open = choose(seed, 23, 2)};
    struct mot_grpo_window *window = mot_grpo_window_open(&g, &span);
    int64_t trained = run_steps(&g, window, 0, stop), stored = 0;
    if (is_kept) {
        char *path = scratch_path(".");
        assert_int_equal(mot_grpo_window_save(window, path), 0);
        free(path);
    }
    int64_t dropped = mot_grpo_window_close(window);
    if (is_kept && stop < end) {
        char *path = scratch_path(".");
        span.first = stop;
        assert_int_equal(mot_grpo_store_load(path, &g, stop, &span.store), 0);
        assert_int_equal(span.store != NULL, g.max_staleness > 0);
        const int ahead =
            span.is_open || end - stop > g.max_staleness ? g.max_staleness : end - stop;
        stored = (int64_t)ahead * P * G;
        assert_int_equal(dropped, stored);
        window = mot_grpo_window_open(&g, &span);
        trained += run_steps(&g, window, stop, end);
        dropped += mot_grpo_window_close(window);
        seen.restored += stored > 0;
        free(path);
    }
    seen.dropped += dropped > stored;
    assert_int_equal(atomic_load(&watch.prompts) * (int64_t)G + stored, trained + dropped);
    assert_true(atomic_load(&watch.scores) >= trained);
    assert_true(atomic_load(&watch.most_alive) <= g.max_staleness + 2);
    assert_int_equal(mot_actor_live_versions(&actor), 1);
    mot_wait_all();
    mot_actor_destroy(&actor);
}

static void test_runs(void **state)
{
    const char *full = getenv("MOTLEY_TEST_FULL");
    const int runs = full && strcmp(full, "1") == 0 ? 4 * RUNS : RUNS;
    const uint64_t first = (uint64_t)(uintptr_t)*state;
    const struct mot_start_options options = {.workers = 2,
                                              .cores_per_worker = 1,
                                              .policy = policies[first],
                                              .watchdog_s = 120,
                                              .stage_name = mot_stage_name};
    assert_int_equal(mot_start(&options), 0);
    for (int i = 0; i < runs; i++) { run(first * 100000 + (uint64_t)i); }
    mot_stop();
    mot_cpu_exec_free();
    printf("%s: %d runs; so far %d groups fresher than exact, %d runs dropped rows, %d restored\n",
           policies[first], runs, seen.fresher, seen.dropped, seen.restored);
    if (first == POLICIES - 1) {
        assert_true(seen.fresher > 0 && seen.dropped > 0 && seen.restored > 0);
    }
}

static void count_row(void *context, struct mot_row *row)
{
    atomic_int *left = context; /* of each group */
    if (atomic_fetch_sub(&left[row->group->index], 1) == 1) { atomic_fetch_add(&watch.ended, 1); }
}

static void test_prompts_at_once(void **state)
{
    (void)state;
    enum { PROMPTS = 6, SAMPLES = 3 };
    const struct mot_start_options options = {.workers = 2, .cores_per_worker = 1};
    assert_int_equal(mot_start(&options), 0);
    struct mot_actor actor;
    actor_make(&actor, 0);
    watch.actor = &actor;
    for (int limit = 0; limit < 3; limit++) {
        atomic_int left[2][PROMPTS];
        struct mot_prompt prompts[PROMPTS];
        struct mot_rollout *rollouts[2];
        atomic_store(&watch.prompts, 0);
        atomic_store(&watch.ended, 0);
        atomic_store(&watch.most_prompts, 0);
        const struct mot_admission admission = {.concurrency = limit, .batch = 2 * PROMPTS};
        struct mot_rollout_line *line = mot_rollout_line_create(2, &admission);
        const struct mot_rollout_options o = {.sampling = {.temperature = 1.0f, .top_p = 1.0f},
                                              .max_completion_length = 5,
                                              .chunk = 2,
                                              .rows_per_task = SAMPLES,
                                              .tokenizer = shared.tokenizer,
                                              .line = line};
        for (int i = 0; i < PROMPTS; i++) {
            const struct mot_ids *ids = &shared.dataset.examples[i % shared.dataset.n].prompt;
            prompts[i] = (struct mot_prompt){.ids = ids->id, .n = (int)ids->n};
            atomic_store(&left[0][i], SAMPLES);
            atomic_store(&left[1][i], SAMPLES);
        }
        for (int k = 0; k < 2; k++) {
            const struct mot_rollout_listener listener = {.row = count_row, .context = left[k]};
            assert_int_equal(mot_rollout_start(&actor, mot_actor_read(&actor), prompts, PROMPTS,
                                               SAMPLES, &o, &listener, &rollouts[k]),
                             0);
        }
        for (int k = 0; k < 2; k++) { mot_rollout_wait(rollouts[k]); }
        for (int k = 0; k < 2; k++) { mot_rollout_destroy(rollouts[k]); }
        mot_rollout_line_destroy(line);
        assert_int_equal(atomic_load(&watch.ended), 2 * PROMPTS);
        assert_true(atomic_load(&watch.most_prompts) <= (limit ? limit : 2 * PROMPTS));
        assert_true(limit != 0 || atomic_load(&watch.most_prompts) > 1);
    }
    mot_wait_all();
    mot_actor_destroy(&actor);
    mot_stop();
    mot_cpu_exec_free();
}

/* ---- The rule -------------------------------------------------------------------------------- */

static void test_capacity(void **state)
{
    (void)state;
    static const int versions[] = {0, 5, 50};
    for (int eta = 0; eta < 4; eta++) {
        for (size_t i = 0; i < 3; i++) {
            struct mot_admission a = {.eta = eta,
                                      .batch = 16,
                                      .version = versions[i],
                                      .accepted = (int64_t)versions[i] * 16};
            assert_int_equal(mot_admission_capacity(&a), (eta + 1) * 16);
            a.running = 10;
            assert_int_equal(mot_admission_capacity(&a), (eta + 1) * 16 - 10);
            a.concurrency = 12;
            assert_int_equal(mot_admission_capacity(&a), 2);
            a.concurrency = 1000;
            assert_int_equal(mot_admission_capacity(&a), (eta + 1) * 16 - 10);
            a.accepted += 16 * (eta + 1) - 10; /* a whole window begun, none of it trained */
            assert_int_equal(mot_admission_capacity(&a), 0);
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    scratch_begin("test_staleness");
    byte_model_write("model", &(struct byte_model){16, 32, 0.5f});
    shared.tokenizer = mot_tokenizer_bytes();
    static const char rows[] = "{\"prompt\": \"1+2=\", \"answer\": \"3\"}\n"
                               "{\"prompt\": \"20+2=\", \"answer\": \"22\"}\n"
                               "{\"prompt\": \"5+2=\", \"answer\": \"7\"}\n"
                               "{\"prompt\": \"40+50=\", \"answer\": \"90\"}\n"
                               "{\"prompt\": \"0+0=\", \"answer\": \"0\"}\n";
    char *path = scratch_path("data.jsonl");
    scratch_write(path, rows, strlen(rows));
    struct mot_dataset_options options = {.tokenizer = shared.tokenizer};
    int error = mot_chat_template_find("none", &options.chat);
    error = error || mot_dataset_load(path, &options, &shared.dataset);
    free(path);
    char *const names[] = {(char *)"format:.*[a-m].*"};
    return error || mot_reward_functions_open(names, 1, NULL, 0, &shared.functions);
}

static int tear_down(void **state)
{
    (void)state;
    mot_reward_functions_close(shared.functions, 1);
    mot_dataset_destroy(&shared.dataset);
    mot_tokenizer_destroy(shared.tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_prompts_at_once),
        cmocka_unit_test_prestate(test_runs, (void *)0),
        cmocka_unit_test_prestate(test_runs, (void *)1),
        cmocka_unit_test_prestate(test_runs, (void *)2),
        cmocka_unit_test_prestate(test_runs, (void *)3),
    };
    return cmocka_run_group_tests_name("staleness", tests, set_up, tear_down);
}
