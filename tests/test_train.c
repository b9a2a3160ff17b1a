/* Optimiser steps driven through the tasks.
 *   - eight steps on each reference model: losses, gradient norms, weights and moments are
 *     PyTorch's, weight decay on all tensors and clipping included; and without decay on vectors
 *   - the same bits under eager, lws, dmda, prio and random, with 1x1, 1x2 and 2x1 workers x cores,
 *     and whatever the order in which micro-batches are handed over
 *   - peers row 1, 2, 3: 1x8, 2x4, 8x1 micro-batch splits and 1 to 3 lanes give the same step
 *   - a policy loss's inputs may be given up right after the hand-over, whatever its order
 *   - a gradient that is not finite, or nothing to learn from: weights and moments keep their bits
 * Expected values: reference files (PyTorch 2.13, float32). */
#include "hash.h"
#include "stages.h"
#include "training.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const char *const models[] = {"tiny-llama-tied", "tiny-llama-untied-gqa1", "tiny-qwen2",
                                     "tiny-qwen3"};

static void start(const char *policy, int workers, int cores)
{
    const struct mot_start_options options = {
        .workers = workers, .cores_per_worker = cores, .policy = policy, .watchdog_s = 60};
    assert_int_equal(mot_start(&options), 0);
}

static void stop(void)
{
    mot_stop();
    mot_cpu_exec_free();
}

#define ASSERT_NEAR(got, expected, relative)                     \
    do {                                                         \
        const double g_ = (got), e_ = (expected);                \
        if (!(fabs(g_ - e_) <= (relative)*fabs(e_))) {           \
            fail_msg("%s is %.9g, expected %.9g", #got, g_, e_); \
        }                                                        \
    } while (0)

static double norm_of(const float *values, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) { sum += (double)values[i] * values[i]; }
    return sqrt(sum);
}

static void check_after(struct mot_actor *actor, const json_t *after)
{
    struct mot_actor_host host;
    const struct mot_layout *layout = &actor->transformer.layout;
    mot_actor_acquire(actor, &host);
    for (int i = 0; i < layout->n_tensors; i++) {
        const struct mot_tensor *t = &layout->tensors[i];
        if (strstr(t->name, "k_proj.bias")) { continue; } /* its gradient is rounding noise */
        const json_t *expected = json_object_get(after, t->name);
        const size_t n = (size_t)t->rows * (size_t)t->cols;
        const float *w = host.weights[t->group] + t->offset;
        assert_non_null(expected);
        ASSERT_NEAR(norm_of(w, n), json_number_value(json_object_get(expected, "norm")), 1e-5);
        ASSERT_NEAR(norm_of(host.m[t->group] + t->offset, n),
                    json_number_value(json_object_get(expected, "m_norm")), 1e-4);
        ASSERT_NEAR(norm_of(host.v[t->group] + t->offset, n),
                    json_number_value(json_object_get(expected, "v_norm")), 1e-4);
        const json_t *first = json_object_get(expected, "first");
        double largest = 0.0;
        for (size_t k = 0; k < json_array_size(first); k++) {
            largest = fmax(largest, fabs(json_number_value(json_array_get(first, k))));
        }
        for (size_t k = 0; k < json_array_size(first); k++) {
            const double error = fabs(w[k] - json_number_value(json_array_get(first, k)));
            if (!(error <= 1e-4 * largest)) { fail_msg("%s[%zu] off by %g", t->name, k, error); }
        }
    }
    mot_actor_release(actor, &host);
}

static void test_reference(void **state)
{
    (void)state;
    start("lws", 2, 1);
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct rows rows;
        struct mot_actor actor;
        rows_load(&rows, models[i]);
        actor_load(&actor, models[i], &(struct mot_actor_options){.lanes = 2});
        const struct mot_optimizer_options o = reference_options();
        const json_t *adamw = json_object_get(rows.reference, "adamw");
        for (int step = 0; step < 8; step++) {
            const json_t *expected = json_array_get(json_object_get(adamw, "steps"), (size_t)step);
            const struct mot_train_metrics m = rows_step(&actor, &rows, &o, step, NULL);
            ASSERT_NEAR(m.loss, json_number_value(json_array_get(expected, 0)), 1e-5);
            ASSERT_NEAR(m.grad_norm, json_number_value(json_array_get(expected, 1)), 1e-5);
            assert_int_equal(m.skipped, 0);
            assert_true(m.tokens == rows_tokens(&rows));
            assert_int_equal(actor.current->number, step + 1);
            mot_plan_end(step);
        }
        check_after(&actor, json_object_get(adamw, "after"));
        mot_actor_destroy(&actor);
        json_decref(rows.reference);
    }
    for (int stage = 0; stage < MOT_STAGES; stage++) {
        assert_int_equal(mot_plan_remaining(stage).tasks, 0);
    }
    stop();
}

/* A learning rate of 0.1 and a decay of 1: what decays has become smaller by 0.9, nothing else
 * has. */
static void test_decay_skips_vectors(void **state)
{
    (void)state;
    start("eager", 1, 1);
    struct rows rows;
    rows_load(&rows, "tiny-qwen2");
    struct mot_actor_host host;
    float *after[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    struct mot_layout layout = {0};
    for (int all = 0; all < 2; all++) {
        struct mot_actor actor;
        actor_load(&actor, "tiny-qwen2", &(struct mot_actor_options){.lanes = 1});
        struct mot_optimizer_options o = reference_options();
        o.weight_decay = 100.0;
        o.decay_all = all;
        rows_step(&actor, &rows, &o, 0, NULL);
        mot_plan_end(0);
        mot_actor_acquire(&actor, &host);
        bytes[all] = actor.transformer.layout.group_floats[1] * sizeof(float);
        after[all] = mot_alloc(bytes[all]);
        memcpy(after[all], host.weights[1], bytes[all]);
        mot_actor_release(&actor, &host);
        if (all) { assert_int_equal(mot_layout_create(&layout, &actor.info.shape), 0); }
        mot_actor_destroy(&actor);
    }
    for (int i = 0; i < layout.n_tensors; i++) {
        const struct mot_tensor *t = &layout.tensors[i];
        if (t->group != 1) { continue; }
        const size_t n = (size_t)t->rows * (size_t)t->cols;
        const int same = memcmp(after[0] + t->offset, after[1] + t->offset, n * sizeof(float)) == 0;
        if (same != (t->dimensions > 1)) { fail_msg("%s: decay is wrong", t->name); }
    }
    free(after[0]);
    free(after[1]);
    mot_layout_destroy(&layout);
    json_decref(rows.reference);
    stop();
}

/* ---- The same bits, whatever runs where ------------------------------------------------------ */

static uint64_t three_steps(int lanes, const char *policy, int workers, int cores, const int *order)
{
    struct rows rows;
    struct mot_actor actor;
    start(policy, workers, cores);
    rows_load(&rows, "tiny-qwen3");
    actor_load(&actor, "tiny-qwen3", &(struct mot_actor_options){.lanes = lanes});
    const struct mot_optimizer_options o = reference_options();
    for (int step = 0; step < 3; step++) {
        rows_step(&actor, &rows, &o, step, order);
        mot_plan_end(step);
    }
    const uint64_t hash = mot_actor_version_hash(&actor);
    mot_actor_destroy(&actor);
    json_decref(rows.reference);
    stop();
    return hash;
}

static void test_bits(void **state)
{
    (void)state;
    static const int orders[3][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    static const char *const policies[] = {"eager", "lws", "dmda", "prio", "random"};
    static const int shapes[3][2] = {{1, 1}, {1, 2}, {2, 1}};
    const uint64_t expected[2] = {three_steps(1, "eager", 1, 1, orders[0]),
                                  three_steps(2, "eager", 1, 1, orders[0])};
    for (int p = 0; p < 5; p++) {
        for (int s = 0; s < 3; s++) {
            const int lanes = 1 + (p + s) % 2;
            const uint64_t got =
                three_steps(lanes, policies[p], shapes[s][0], shapes[s][1], orders[(p + s) % 3]);
            if (got != expected[lanes - 1]) {
                fail_msg("%s %dx%d differs", policies[p], shapes[s][0], shapes[s][1]);
            }
        }
    }
}

/* ---- Policy losses: advantages and reference log-probs come as handles ----------------------- */

static starpu_data_handle_t filled(size_t n, float first, float step)
{
    starpu_data_handle_t handle = mot_float_vector(n);
    starpu_data_acquire(handle, STARPU_W);
    float *values = starpu_data_get_local_ptr(handle);
    for (size_t i = 0; i < n; i++) { values[i] = first + step * (float)i; }
    starpu_data_release(handle);
    return handle;
}

/* One step of two answers to each of three prompts; the handles go away right after each hand-over,
 * so that a micro-batch which waits for its turn must have kept what it reads. */
static uint64_t policy_step(const int *order, struct mot_train_metrics *metrics)
{
    struct rows rows;
    struct mot_actor actor;
    rows_load(&rows, "tiny-llama-tied");
    actor_load(&actor, "tiny-llama-tied",
               &(struct mot_actor_options){.lanes = 1, .temperature = 0.7});
    const struct mot_optimizer_options o = reference_options();
    struct mot_policy_loss_options loss = {.epsilon = 0.2,
                                           .epsilon_high = 0.3,
                                           .beta = 0.1,
                                           .kl_estimator = MOT_KL_K3,
                                           .importance = {MOT_IMPORTANCE_TOKEN_TRUNCATE, NAN, 2.0}};
    assert_int_equal(mot_loss_type_find("dapo", &loss.type), 0);
    struct mot_train *train = mot_train_begin(&actor, &o, MOT_LOSS_POLICY, &loss, 0, 0, 3);
    for (int i = 0; i < 3; i++) {
        const int r = order[i];
        const struct mot_pack_prompt prompt = {2, rows.ids[r]};
        struct mot_pack_answer answers[2] = {
            {.n = 2, .ids = rows.ids[r] + 2, .weight = 1.0f, .advantage_index = 1},
            {.n = 1, .ids = rows.ids[r] + 4, .weight = 1.0f, .advantage_buffer = 1},
        };
        starpu_data_handle_t advantages[2] = {filled(2, (float)r, -1.0f), filled(1, 0.5f, 0.0f)};
        starpu_data_handle_t reference = filled(3, -2.0f - (float)r, 0.25f);
        starpu_data_handle_t proximal = filled(3, -0.5f * (float)r, 0.5f);
        const struct mot_train_inputs inputs = {.advantages = advantages,
                                                .n_advantages = 2,
                                                .reference = reference,
                                                .proximal = proximal};
        mot_train_add(train, r, mot_pack_create(&prompt, 1, answers, 2), &inputs);
        for (int a = 0; a < 2; a++) { starpu_data_unregister_submit(advantages[a]); }
        starpu_data_unregister_submit(reference);
        starpu_data_unregister_submit(proximal);
    }
    *metrics = train_wait(train, 9.0);
    mot_plan_end(0);
    const uint64_t hash = mot_actor_version_hash(&actor);
    mot_actor_destroy(&actor);
    json_decref(rows.reference);
    return hash;
}

static void test_policy_loss_inputs(void **state)
{
    (void)state;
    static const int orders[3][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    struct mot_train_metrics first, other;
    start("lws", 2, 1);
    const uint64_t expected = policy_step(orders[0], &first);
    assert_true(first.tokens == 9.0 && first.skipped == 0);
    assert_true(first.prompt_tokens == 6.0 && first.forward_tokens == 9.0);
    assert_true(first.kl_sum > 0.0 && first.grad_norm > 0.0);
    for (int i = 1; i < 3; i++) {
        assert_true(policy_step(orders[i], &other) == expected);
        assert_memory_equal(&first, &other, sizeof(first));
    }
    stop();
}

/* ---- Splits ---------------------------------------------------------------------------------- */

/* Eight rows out of the reference's three, as `n` micro-batches; the gradient is read out of the
 * first moment: (1 - beta1) gradient after one step. */
static void gradient_of(int n, int lanes, int deterministic, float **gradient, size_t *numbers)
{
    struct rows rows, all;
    struct mot_actor actor;
    rows_load(&rows, "tiny-llama-tied");
    all = (struct rows){.n = 8};
    for (int r = 0; r < 8; r++) {
        all.length[r] = rows.length[r % 3] - r / 3;
        memcpy(all.ids[r], rows.ids[r % 3], sizeof(all.ids[r]));
    }
    actor_load(&actor, "tiny-llama-tied", &(struct mot_actor_options){.lanes = lanes});
    struct mot_optimizer_options o = reference_options();
    o.max_grad_norm = 0.0;
    o.deterministic = deterministic;
    struct mot_train *train = mot_train_begin(&actor, &o, MOT_LOSS_NLL, NULL, 0, 0, n);
    for (int i = 0; i < n; i++) {
        mot_train_add(train, i, rows_pack(&all, i * (8 / n), 8 / n, 1.0f), NULL);
    }
    train_wait(train, rows_tokens(&all));
    mot_plan_end(0);

    struct mot_actor_host host;
    mot_actor_acquire(&actor, &host);
    *numbers = mot_layout_total_floats(&actor.transformer.layout);
    *gradient = mot_alloc(*numbers * sizeof(float));
    size_t at = 0;
    for (int g = 0; g < actor.transformer.layout.n_groups; g++) {
        const size_t floats = actor.transformer.layout.group_floats[g];
        memcpy(*gradient + at, host.m[g], floats * sizeof(float));
        at += floats;
    }
    mot_actor_release(&actor, &host);
    mot_actor_destroy(&actor);
    json_decref(rows.reference);
}

static void test_splits(void **state)
{
    (void)state;
    static const int cases[][3] = {{8, 1, 1}, {4, 2, 1}, {2, 2, 1}, {8, 3, 1}, {8, 2, 0}};
    start("lws", 2, 1);
    float *expected, *got;
    size_t n;
    gradient_of(1, 1, 1, &expected, &n);
    const double norm = norm_of(expected, n);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        gradient_of(cases[c][0], cases[c][1], cases[c][2], &got, &n);
        for (size_t i = 0; i < n; i++) { got[i] -= expected[i]; }
        const double error = norm_of(got, n) / norm;
        if (!(error <= 1e-6)) { fail_msg("%d micro-batches: off by %g", cases[c][0], error); }
        free(got);
    }
    free(expected);
    stop();
}

/* ---- Steps that are skipped ------------------------------------------------------------------ */

static uint64_t state_hash(struct mot_actor *actor)
{
    struct mot_actor_host host;
    uint64_t hash = mot_actor_version_hash(actor);
    mot_actor_acquire(actor, &host);
    for (int g = 0; g < actor->transformer.layout.n_groups; g++) {
        const size_t n = actor->transformer.layout.group_floats[g] * sizeof(float);
        hash = mot_hash(mot_hash(hash, host.m[g], n), host.v[g], n);
    }
    mot_actor_release(actor, &host);
    return hash;
}

/* One step whose rows weigh `weight`; a NULL pack where skip is set. */
static int step_of_weight(struct mot_actor *actor, const struct rows *rows, float weight, int empty)
{
    const struct mot_optimizer_options o = reference_options();
    struct mot_train *train = mot_train_begin(actor, &o, MOT_LOSS_NLL, NULL, 0, 0, rows->n);
    for (int r = rows->n - 1; r >= 0; r--) {
        mot_train_add(train, r, empty ? NULL : rows_pack(rows, r, 1, r ? 1.0f : weight), NULL);
    }
    const struct mot_train_metrics m = train_wait(train, rows_tokens(rows));
    for (int stage = 0; stage < MOT_STAGES; stage++) {
        assert_int_equal(mot_plan_remaining(stage).tasks, 0);
    }
    return m.skipped;
}

static void test_skipped(void **state)
{
    (void)state;
    start("lws", 2, 1);
    struct rows rows;
    struct mot_actor actor;
    rows_load(&rows, "tiny-llama-tied");
    actor_load(&actor, "tiny-llama-tied", &(struct mot_actor_options){.lanes = 2});
    assert_int_equal(step_of_weight(&actor, &rows, 1.0f, 0), 0);
    const uint64_t before = state_hash(&actor);
    const int updates = actor.updates, version = actor.current->number;
    assert_int_equal(step_of_weight(&actor, &rows, INFINITY, 0), 1);
    assert_true(state_hash(&actor) == before);
    assert_int_equal(step_of_weight(&actor, &rows, 1.0f, 1), 2);
    assert_true(state_hash(&actor) == before);
    assert_int_equal(actor.updates, updates);
    assert_int_equal(actor.current->number, version);
    assert_int_equal(step_of_weight(&actor, &rows, 1.0f, 0), 0); /* and it goes on */
    assert_true(state_hash(&actor) != before);
    mot_actor_destroy(&actor);
    json_decref(rows.reference);
    stop();
}

/* StarPU 1.4.10 does not free a worker's list of ready tasks (_starpu_push_local_task). */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:_starpu_push_local_task\n";
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference), cmocka_unit_test(test_decay_skips_vectors),
        cmocka_unit_test(test_bits),      cmocka_unit_test(test_policy_loss_inputs),
        cmocka_unit_test(test_splits),    cmocka_unit_test(test_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
