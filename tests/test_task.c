/* Inserting tasks: hints reach a policy and none is invented for foreign tasks; tasks with more
 * buffers than StarPU's static limit; done callbacks that insert more tasks; priorities;
 * wrong descriptions, tasks nobody can run and data larger than memory are
 * refused; the watchdog names the task that hangs, and ends the program (peers row 37).  The
 * declared plan counts down.
 * Run it alone: ./test_task */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "child.h"
#include "motley.h"
#include "stages.h"
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

enum { BUFFERS = 40 };
static const struct mot_start_options two_workers = {.workers = 2,
                                                     .cores_per_worker = 1,
                                                     .policy = "lws",
                                                     .watchdog_s = 60,
                                                     .stage_name = mot_stage_name};

static atomic_int ran, hints_right, foreign_hints;

static void nothing_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
    const struct mot_hint *hint = mot_task_hint(starpu_task_get_current());
    if (!hint) {
        foreign_hints++;
    } else if (hint->stage == MOT_STAGE_GRADIENT && hint->step == 7 && hint->tokens == 99) {
        hints_right++;
    }
    ran++;
}
static struct starpu_codelet nothing = {.cpu_funcs = {nothing_cpu}, .name = "nothing"};

/* buffers 0..n-2 R (1) int, n-1 W (1) int: their sum plus the argument */
static void sum_cpu(void *buffers[], void *argument)
{
    int sum = *(const int *)argument;
    for (int i = 0; i < BUFFERS - 1; i++) {
        sum += *(const int *)STARPU_VARIABLE_GET_PTR(buffers[i]);
    }
    *(int *)STARPU_VARIABLE_GET_PTR(buffers[BUFFERS - 1]) = sum;
}
static struct starpu_codelet sum = {.cpu_funcs = {sum_cpu}, .nbuffers = STARPU_VARIABLE_NBUFFERS};

static int start(void **state)
{
    (void)state;
    ran = hints_right = foreign_hints = 0;
    return mot_start(&two_workers);
}

static int stop(void **state)
{
    (void)state;
    mot_stop();
    return 0;
}

static void test_hints(void **state)
{
    (void)state;
    const struct mot_task task = {.codelet = &nothing,
                                  .name = "train.gradient",
                                  .hint = {.stage = MOT_STAGE_GRADIENT, .step = 7, .tokens = 99},
                                  .priority = 1000};
    for (int i = 0; i < 10; i++) { assert_int_equal(mot_task_insert(&task), 0); }
    assert_int_equal(starpu_task_insert(&nothing, STARPU_CALLBACK_ARG_NFREE, state, 0), 0);
    mot_wait_all();
    assert_int_equal(ran, 11);
    assert_int_equal(hints_right, 10);
    assert_int_equal(foreign_hints, 1);
    assert_null(mot_task_hint(NULL));
}

static void test_many_buffers(void **state)
{
    (void)state;
    int value[BUFFERS], offset = 1000, expected = 1000;
    starpu_data_handle_t handle[BUFFERS];
    enum starpu_data_access_mode mode[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) {
        value[i] = i * i;
        expected += i < BUFFERS - 1 ? i * i : 0;
        mode[i] = i < BUFFERS - 1 ? STARPU_R : STARPU_W;
        starpu_variable_data_register(&handle[i], STARPU_MAIN_RAM, (uintptr_t)&value[i],
                                      sizeof(value[i]));
    }
    const struct mot_task task = {.codelet = &sum,
                                  .name = "test.sum",
                                  .n_buffers = BUFFERS,
                                  .handles = handle,
                                  .modes = mode,
                                  .argument = &offset,
                                  .argument_bytes = sizeof(offset)};
    assert_int_equal(mot_task_insert(&task), 0);
    offset = 0; /* the argument was copied */
    memset(mode, 0, sizeof(mode));
    for (int i = 0; i < BUFFERS; i++) { starpu_data_unregister(handle[i]); }
    assert_int_equal(value[BUFFERS - 1], expected);
}

static atomic_int chain_left;

static void continue_chain(void *argument)
{
    if (atomic_fetch_sub(&chain_left, 1) <= 0) { return; }
    mot_task_insert(&(struct mot_task){.codelet = &nothing,
                                       .name = "test.chain",
                                       .done = continue_chain,
                                       .argument_done = argument});
}

static void *insert_from_thread(void *argument)
{
    for (int i = 0; i < 500; i++) { continue_chain(argument); }
    return NULL;
}

static void test_callbacks(void **state)
{
    (void)state;
    chain_left = 4000;
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) { pthread_create(&thread[i], NULL, insert_from_thread, NULL); }
    for (int i = 0; i < 2; i++) { pthread_join(thread[i], NULL); }
    mot_wait_all();
    assert_int_equal(ran, 4000);
}

static void test_refusals(void **state)
{
    (void)state;
    int value = 0;
    starpu_data_handle_t handle;
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&value, sizeof(value));
    const starpu_data_handle_t two[] = {handle, NULL};
    const enum starpu_data_access_mode modes[] = {STARPU_R, STARPU_R};
    struct mot_task task = {
        .codelet = &sum, .name = "test.refused", .n_buffers = 2, .handles = two, .modes = modes};
    assert_int_equal(mot_task_insert(&task), -EINVAL);
    assert_non_null(strstr(mot_last_message(), "test.refused: buffer 1 is NULL"));
    task.modes = NULL;
    assert_int_equal(mot_task_insert(&task), -EINVAL);
    task.codelet = &nothing;
    assert_int_equal(mot_task_insert(&task), -EINVAL);
    assert_non_null(strstr(mot_last_message(), "2 buffers for a codelet of 0"));
    task.codelet = NULL;
    assert_int_equal(mot_task_insert(&task), -EINVAL);

    static struct starpu_codelet elsewhere = {.where = STARPU_CUDA, .name = "elsewhere"};
    task = (struct mot_task){.codelet = &elsewhere,
                             .name = "test.elsewhere",
                             .argument = &value,
                             .argument_bytes = sizeof(value)};
    assert_int_equal(mot_task_insert(&task), -ENODEV);
    assert_non_null(strstr(mot_last_message(), "test.elsewhere"));
    mot_wait_all();
    starpu_data_unregister(handle);
}

static int insert_too_large(void)
{
    setenv("STARPU_LIMIT_CPU_MEM", "4", 1); /* MB */
    if (mot_start(&two_workers)) { return 2; }
    static struct starpu_codelet read = {
        .cpu_funcs = {nothing_cpu}, .nbuffers = 1, .modes = {STARPU_W}};
    starpu_data_handle_t small, large;
    starpu_vector_data_register(&small, -1, 0, 1 << 20, 1);
    starpu_vector_data_register(&large, -1, 0, 16 << 20, 1);
    struct mot_task task = {.codelet = &read, .name = "test.large", .n_buffers = 1};
    task.handles = &small;
    if (mot_task_insert(&task)) { return 3; }
    task.handles = &large;
    if (mot_task_insert(&task) != -ENODEV) { return 4; }
    starpu_data_unregister(small);
    starpu_data_unregister(large);
    mot_stop();
    return 0;
}

static void test_too_large(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(child_run(insert_too_large, text, sizeof(text)), 0);
    assert_non_null(strstr(text, "test.large"));
    assert_non_null(strstr(text, "16777216 bytes"));
}

static void hang_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
    sleep(60);
}

static int hang(void)
{
    static struct starpu_codelet codelet = {.cpu_funcs = {hang_cpu}};
    struct mot_start_options options = two_workers;
    options.watchdog_s = 1;
    if (mot_start(&options)) { return 2; }
    mot_task_insert(&(struct mot_task){.codelet = &codelet,
                                       .name = "reward.hangs",
                                       .hint = {.stage = MOT_STAGE_REWARD, .step = 4}});
    for (int i = 0; i < 4; i++) { /* kept quiet for 2 s */
        usleep(500000);
        mot_watchdog_touch();
    }
    write(2, "touched\n", 8);
    mot_wait_all();
    return 0;
}

static void test_watchdog(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(child_run(hang, text, sizeof(text)), 1);
    const char *barked = strstr(text, "reward.hangs");
    assert_non_null(barked);
    assert_non_null(strstr(text, "stage reward, step 4"));
    assert_non_null(strstr(text, "no task finished for 1 s"));
    assert_true(strstr(text, "touched") && strstr(text, "touched") < barked);
}

static void test_plan(void **state)
{
    (void)state;
    mot_plan_declare(1, MOT_STAGE_GRADIENT, 4, 4e6);
    mot_plan_declare(2, MOT_STAGE_GRADIENT, 3, 3e6);
    mot_plan_submitted(1, MOT_STAGE_GRADIENT, 1, 1e6);
    assert_int_equal(mot_plan_remaining(MOT_STAGE_GRADIENT).tasks, 6);
    assert_true(mot_plan_remaining(MOT_STAGE_GRADIENT).flop == 6e6);
    assert_int_equal(mot_plan_remaining(MOT_STAGE_REWARD).tasks, 0);
    mot_plan_end(1);
    assert_int_equal(mot_plan_remaining(MOT_STAGE_GRADIENT).tasks, 3);
    mot_plan_submitted(2, MOT_STAGE_GRADIENT, 9, 9e6);
    assert_int_equal(mot_plan_remaining(MOT_STAGE_GRADIENT).tasks, 0);
    mot_plan_end(2);
    mot_plan_end(2);
    assert_string_equal(mot_stage_name(MOT_STAGE_CAST), "cast");
}

int main(void)
{
    /* The children first: they start from a process without threads. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_watchdog),
        cmocka_unit_test(test_plan),
        cmocka_unit_test_setup_teardown(test_hints, start, stop),
        cmocka_unit_test_setup_teardown(test_many_buffers, start, stop),
        cmocka_unit_test_setup_teardown(test_callbacks, start, stop),
        cmocka_unit_test_setup_teardown(test_refusals, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
