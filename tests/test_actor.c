/* The actor: what readers of weights get, and what comes back from disk.
 *   - peers row 31, 32: after each update every tensor of the version that rollouts read is the
 *     master's (or its bfloat16 rounding), the tied embedding included; and log-probs follow it
 *   - peers row 43: with bfloat16 copies the float32 masters take the sum of 100 steps far below
 *     half a bfloat16 ulp, bit for bit as without copies
 *   - an older version keeps its numbers while somebody holds it, and is gone afterwards
 *   - save, load, go on: the same bits as going on; a damaged optimizer file is an error */
#include "file.h"
#include "logprob.h"
#include "safetensors.h"
#include "stages.h"
#include "training.h"
#include "update.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static const char model[] = "tiny-llama-tied";

static int start(void **state)
{
    (void)state;
    const struct mot_start_options options = {.workers = 2, .cores_per_worker = 1, .policy = "lws"};
    return mot_start(&options);
}

static int stop(void **state)
{
    (void)state;
    mot_stop();
    mot_cpu_exec_free();
    return 0;
}

/* How many numbers of the current version are not the master's rounded to dtype. */
static size_t differences(struct mot_actor *actor)
{
    struct mot_actor_host host;
    struct mot_version *version = mot_actor_read(actor);
    size_t differ = 0;
    mot_actor_acquire(actor, &host);
    for (int g = 0; g < version->n_groups; g++) {
        if (!version->is_master) { starpu_data_acquire(version->groups[g], STARPU_R); }
        const float *read = starpu_data_get_local_ptr(version->groups[g]);
        for (size_t i = 0; i < actor->transformer.layout.group_floats[g]; i++) {
            float expected = host.weights[g][i];
            if (actor->options.dtype == MOT_BF16) {
                expected = mot_f32_from_bf16(mot_bf16_from_f32(expected));
            }
            differ += memcmp(&read[i], &expected, sizeof(expected)) != 0;
        }
        if (!version->is_master) { starpu_data_release(version->groups[g]); }
    }
    mot_actor_release(actor, &host);
    mot_version_release(version);
    return differ;
}

/* Sum of the log-probs of the first row under the current version. */
static double logprob_sum(struct mot_actor *actor, const struct rows *rows)
{
    struct mot_pack *pack = rows_pack(rows, 0, 1, 1.0f);
    struct mot_version *version = mot_actor_read(actor);
    starpu_data_handle_t values = mot_float_vector((size_t)pack->n_targets);
    const struct mot_logprob_task task = {
        .context = &actor->context,
        .weights = version->groups,
        .pack = pack,
        .logprob = values,
        .hint = {.stage = MOT_STAGE_LOGPROB},
    };
    assert_int_equal(mot_insert_logprob(&task), 0);
    mot_version_release(version);
    starpu_data_acquire(values, STARPU_R);
    const float *l = starpu_data_get_local_ptr(values);
    double sum = 0.0;
    for (int t = 0; t < pack->n_targets; t++) { sum += l[t]; }
    starpu_data_release(values);
    starpu_data_unregister(values);
    mot_pack_destroy(pack);
    return sum;
}

static void test_versions(void **state)
{
    (void)state;
    static const struct mot_actor_options cases[] = {
        {.lanes = 2}, {.lanes = 2, .copies = 1}, {.lanes = 2, .dtype = MOT_BF16}};
    struct rows rows;
    rows_load(&rows, model);
    for (int c = 0; c < 3; c++) {
        struct mot_actor actor;
        actor_load(&actor, model, &cases[c]);
        struct mot_optimizer_options o = reference_options();
        o.learning_rate = 0.01;
        double before = logprob_sum(&actor, &rows);
        uint64_t hash = mot_actor_version_hash(&actor);
        for (int step = 0; step < 3; step++) {
            assert_true(differences(&actor) == 0);
            rows_step(&actor, &rows, &o, step, NULL);
            mot_plan_end(step);
            const double after = logprob_sum(&actor, &rows);
            assert_true(after > before + 0.1); /* it is trained on this row */
            before = after;
            assert_true(mot_actor_version_hash(&actor) != hash);
            hash = mot_actor_version_hash(&actor);
            assert_int_equal(mot_actor_live_versions(&actor), 1);
        }
        assert_true(differences(&actor) == 0);
        mot_actor_destroy(&actor);
    }
    json_decref(rows.reference);
}

static void test_old_version_stays(void **state)
{
    (void)state;
    struct rows rows;
    struct mot_actor actor;
    rows_load(&rows, model);
    actor_load(&actor, model,
               &(struct mot_actor_options){.lanes = 1, .copies = 1, .max_versions = 3});
    const struct mot_optimizer_options o = reference_options();
    struct mot_version *old = mot_actor_read(&actor);
    starpu_data_acquire(old->groups[1], STARPU_R);
    const size_t bytes = actor.transformer.layout.group_floats[1] * sizeof(float);
    float *saved = mot_alloc(bytes);
    memcpy(saved, starpu_data_get_local_ptr(old->groups[1]), bytes);
    starpu_data_release(old->groups[1]);
    for (int step = 0; step < 3; step++) {
        rows_step(&actor, &rows, &o, step, NULL);
        mot_plan_end(step);
    }
    assert_int_equal(old->number, 0);
    assert_int_equal(actor.current->number, 3);
    assert_int_equal(mot_actor_live_versions(&actor), 2);
    starpu_data_acquire(old->groups[1], STARPU_R);
    assert_memory_equal(saved, starpu_data_get_local_ptr(old->groups[1]), bytes);
    starpu_data_release(old->groups[1]);
    mot_version_release(old);
    assert_int_equal(mot_actor_live_versions(&actor), 1);
    free(saved);
    mot_actor_destroy(&actor);
    json_decref(rows.reference);
}

/* 100 updates of group 1 with one gradient, learning rate 1e-6; the group afterwards in
 * *weights. */
static void hundred_updates(enum mot_dtype dtype, float **before, float **weights, size_t *moved)
{
    struct mot_actor actor;
    actor_load(&actor, model, &(struct mot_actor_options){.lanes = 1, .dtype = dtype});
    const struct mot_layout *layout = &actor.transformer.layout;
    const size_t n = layout->group_floats[1];
    const starpu_data_handle_t lane = mot_actor_lane(&actor, 0)[1];
    starpu_data_acquire(lane, STARPU_W);
    float *gradient = starpu_data_get_local_ptr(lane);
    for (size_t i = 0; i < n; i++) { gradient[i] = (float)(i % 7) - 3.0f; }
    starpu_data_release(lane);
    struct mot_actor_host host;
    mot_actor_acquire(&actor, &host);
    *before = mot_alloc(n * sizeof(float));
    memcpy(*before, host.weights[1], n * sizeof(float));
    mot_actor_release(&actor, &host);
    for (int step = 1; step <= 100; step++) {
        const struct mot_update_task update = {
            .gradient = lane,
            .master = actor.master[1],
            .m = actor.m[1],
            .v = actor.v[1],
            .layout = layout,
            .group = 1,
            .options = {.learning_rate = 1e-6f,
                        .beta1 = 0.9f,
                        .beta2 = 0.999f,
                        .eps = 1e-8f,
                        .step = step,
                        .grad_scale = 1.0f},
            .hint = {.stage = MOT_STAGE_UPDATE},
        };
        assert_int_equal(mot_insert_update(&update), 0);
        mot_actor_advance(&actor, 0);
    }
    mot_wait_all();
    assert_true(differences(&actor) == 0);
    mot_actor_acquire(&actor, &host);
    *weights = mot_alloc(n * sizeof(float));
    memcpy(*weights, host.weights[1], n * sizeof(float));
    mot_actor_release(&actor, &host);
    *moved = 0;
    for (size_t i = 0; i < n; i++) { *moved += (*weights)[i] != (*before)[i]; }
    mot_actor_destroy(&actor);
}

static void test_masters_take_small_steps(void **state)
{
    (void)state;
    float *before[2], *after[2];
    size_t moved[2];
    hundred_updates(MOT_F32, &before[0], &after[0], &moved[0]);
    hundred_updates(MOT_BF16, &before[1], &after[1], &moved[1]);
    struct mot_layout layout;
    struct mot_model_info info;
    assert_int_equal(mot_model_read_info(MOT_TEST_DATA "/tiny-llama-tied", &info), 0);
    assert_int_equal(mot_layout_create(&layout, &info.shape), 0);
    assert_memory_equal(after[0], after[1], layout.group_floats[1] * sizeof(float));
    assert_true(moved[1] > layout.group_floats[1] / 2);
    size_t at = layout.layer_offset[MOT_Q]; /* small weights, so little rounding */
    while (at % 7 != 0) { at++; }           /* where the gradient is -3 */
    const float step = fabsf(after[1][at] - before[1][at]);
    assert_true(fabsf(step - 1e-4f) < 2e-6f); /* 100 steps of size 1e-6 */
    mot_layout_destroy(&layout);
    for (int i = 0; i < 2; i++) {
        free(before[i]);
        free(after[i]);
    }
}

static void steps(struct mot_actor *actor, const struct rows *rows, int first, int n)
{
    const struct mot_optimizer_options o = reference_options();
    for (int step = first; step < first + n; step++) {
        rows_step(actor, rows, &o, step, NULL);
        mot_plan_end(step);
    }
}

static void load_saved(struct mot_actor *actor, const char *directory)
{
    struct mot_model loaded;
    assert_int_equal(mot_model_load(directory, &loaded), 0);
    assert_int_equal(mot_actor_create(actor, &loaded, &(struct mot_actor_options){.lanes = 2}), 0);
    mot_model_destroy(&loaded);
}

static void test_save_and_load(void **state)
{
    (void)state;
    char directory[] = "/tmp/motley-test-actor-XXXXXX";
    struct rows rows;
    struct mot_actor straight, resumed;
    assert_non_null(mkdtemp(directory));
    rows_load(&rows, model);
    actor_load(&straight, model, &(struct mot_actor_options){.lanes = 2});
    steps(&straight, &rows, 0, 3);
    assert_int_equal(mot_actor_save(&straight, directory, 1), 0);
    load_saved(&resumed, directory);
    assert_int_equal(mot_actor_load_optimizer(&resumed, directory), 0);
    assert_int_equal(resumed.updates, 3);
    steps(&straight, &rows, 3, 2);
    steps(&resumed, &rows, 3, 2);
    assert_true(mot_actor_version_hash(&straight) == mot_actor_version_hash(&resumed));
    mot_actor_destroy(&straight);

    /* Without its moments it goes another way, and damage is an error. */
    char *path = mot_format("%s/optimizer.safetensors", directory), *bytes;
    size_t n;
    assert_int_equal(mot_file_read(path, 1 << 28, &bytes, &n), 0);
    assert_int_equal(truncate(path, (off_t)n - 4), 0);
    assert_true(mot_actor_load_optimizer(&resumed, directory) < 0);
    char *name = memmem(bytes, n, "m.model", 7);
    assert_non_null(name);
    *name = 'x';
    assert_int_equal(mot_file_write(path, bytes, n), 0);
    assert_true(mot_actor_load_optimizer(&resumed, directory) < 0);
    assert_non_null(strstr(mot_last_message(), "m.model"));
    free(bytes);
    free(path);
    mot_actor_destroy(&resumed);
    json_decref(rows.reference);
    assert_int_equal(mot_remove_tree(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_old_version_stays),
        cmocka_unit_test(test_masters_take_small_steps),
        cmocka_unit_test(test_save_and_load),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
