/* motley: what each class of devices is worth is what a linear program solved by hand says, also
 * once it has changed; a worker that takes four times as long as its twin is found out, and its
 * twin is not; all tasks fall to the worker on which alone they are fast.
 * Run it alone: ./test_sched_motley */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "motley.h"
#include "policies.h"
#include "sched_prices.h"
#include <cmocka.h>
#include <stdatomic.h>
#include <unistd.h>

enum { WORKERS = 2, TASKS = 40 };

struct job {
    double expected_us[WORKERS];
    useconds_t true_us[WORKERS];
    atomic_int worker;
};

static void run_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    struct job *job = argument;
    const int worker = starpu_worker_get_id();
    if (job->true_us[worker] > 0) { usleep(job->true_us[worker]); }
    job->worker = worker;
}

static double cost_us(struct starpu_task *task, unsigned worker, unsigned implementation)
{
    (void)implementation;
    return ((const struct job *)task->cl_arg)->expected_us[worker % WORKERS];
}
static struct starpu_perfmodel model = {
    .type = STARPU_PER_WORKER, .worker_cost_function = cost_us, .symbol = "motley"};
static struct starpu_codelet one = {.cpu_funcs = {run_cpu}, .model = &model, .name = "one"};
static struct starpu_codelet two = {.cpu_funcs = {run_cpu}, .model = &model, .name = "two"};

static void start(void)
{
    const struct mot_start_options options = {
        .workers = WORKERS, .cores_per_worker = 1, .policy = "motley", .policies = mot_policies};
    assert_int_equal(mot_start(&options), 0);
}

static void submit(struct starpu_codelet *codelet, struct job *job)
{
    struct starpu_task *task = starpu_task_create();
    task->cl = codelet;
    task->cl_arg = job;
    job->worker = -1;
    assert_int_equal(starpu_task_submit(task), 0);
}

/* The plan as the policy makes it, now. */
static struct mot_prices prices_now(void)
{
    struct mot_sched *s = mot_sched_of(0);
    STARPU_PTHREAD_MUTEX_LOCK(&s->mutex);
    mot_prices_plan(s);
    const struct mot_prices prices = *(const struct mot_prices *)s->own;
    STARPU_PTHREAD_MUTEX_UNLOCK(&s->mutex);
    return prices;
}

static double worth(const struct mot_prices *prices, int worker)
{
    return prices->worth[mot_sched_of(0)->worker[worker].class];
}

/* 40 of kind one take 1 and 2 ms, 40 of kind two 1 and 10 ms: two on worker 0, one on both, so that
 * an hour of worker 0 is worth two of worker 1.  Then 400 more of kind two: they are on both too,
 * so ten. */
static void test_prices(void **state)
{
    (void)state;
    static struct job first[TASKS], second[TASKS], more[10 * TASKS];
    start();
    starpu_pause();
    for (int i = 0; i < TASKS; i++) {
        first[i] = (struct job){.expected_us = {1000.0, 2000.0}};
        second[i] = (struct job){.expected_us = {1000.0, 10000.0}};
        submit(&one, &first[i]);
        submit(&two, &second[i]);
    }
    const struct mot_prices before = prices_now();
    for (int i = 0; i < 10 * TASKS; i++) {
        more[i] = (struct job){.expected_us = {1000.0, 10000.0}};
        submit(&two, &more[i]);
    }
    const struct mot_prices after = prices_now();
    assert_true(worth(&before, 0) > 1.333 && worth(&before, 0) < 1.334);
    assert_true(worth(&before, 1) > 0.666 && worth(&before, 1) < 0.667);
    assert_true(before.kappa > 0.999 && after.kappa > 0.999);
    assert_true(worth(&after, 0) > 1.818 && worth(&after, 0) < 1.819);
    assert_true(worth(&after, 1) > 0.181 && worth(&after, 1) < 0.182);
    starpu_resume();
    mot_stop();
}

/* Few tasks are no fluid: the longest way decides. */
static void test_few(void **state)
{
    (void)state;
    static struct job jobs[4];
    start();
    starpu_pause();
    for (int i = 0; i < 4; i++) {
        jobs[i] = (struct job){.expected_us = {1000.0, 3000.0}};
        submit(&one, &jobs[i]);
    }
    assert_true(prices_now().kappa == 0.0);
    starpu_resume();
    mot_stop();
}

static void test_straggler(void **state)
{
    (void)state;
    static struct job jobs[TASKS];
    start();
    for (int i = 0; i < TASKS; i++) {
        jobs[i] = (struct job){.expected_us = {10000.0, 10000.0}, .true_us = {10000, 40000}};
        submit(&one, &jobs[i]);
    }
    mot_wait_all();
    const struct mot_sched *s = mot_sched_of(0);
    int of_1 = 0;
    for (int i = 0; i < TASKS; i++) { of_1 += jobs[i].worker == 1; }
    assert_true(of_1 >= 4);
    assert_true(s->worker[0].slow == 1.0);
    assert_true(s->worker[1].slow > 2.0);
    mot_stop();
}

static void test_affinity(void **state)
{
    (void)state;
    static struct job jobs[TASKS];
    start();
    for (int i = 0; i < TASKS; i++) {
        const int fast = i % 2;
        jobs[i] = (struct job){.expected_us = {fast ? 1e8 : 1e3, fast ? 1e3 : 1e8},
                               .true_us = {500, 500}};
        submit(fast ? &two : &one, &jobs[i]);
    }
    mot_wait_all();
    for (int i = 0; i < TASKS; i++) { assert_int_equal(jobs[i].worker, i % 2); }
    mot_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prices), cmocka_unit_test(test_few),
                                       cmocka_unit_test(test_straggler),
                                       cmocka_unit_test(test_affinity)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
