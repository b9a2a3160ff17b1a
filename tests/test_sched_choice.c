/* What tells the policies apart.  heteroprio and multiprio: of two kinds faster on the same device
 * it takes the one it speeds up more, and the other device the other kind.  qa: tasks one by
 * one that are a little faster on the one fast device all go there by earliest finish time, and
 * only until it is busier than LAMBDA times what quick allocation would have made of it.  steal:
 * without any model, and with one that says the contrary, the device that proves faster gets more.
 * Run it alone: ./test_sched_choice */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "motley.h"
#include "policies.h"
#include <cmocka.h>
#include <stdatomic.h>
#include <unistd.h>

enum { WORKERS_MAX = 4, TASKS = 20 };

struct job {
    double expected_us[WORKERS_MAX];
    useconds_t true_us[WORKERS_MAX];
    atomic_int worker, order; /* order: of beginning, over all */
};
static atomic_int begun;

static void run_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    struct job *job = argument;
    const int worker = starpu_worker_get_id();
    job->order = begun++;
    usleep(job->true_us[worker]);
    job->worker = worker;
}

static double cost_us(struct starpu_task *task, unsigned worker, unsigned implementation)
{
    (void)implementation;
    return ((const struct job *)task->cl_arg)->expected_us[worker % WORKERS_MAX];
}
static struct starpu_perfmodel model = {
    .type = STARPU_PER_WORKER, .worker_cost_function = cost_us, .symbol = "choice"};
static struct starpu_codelet one = {.cpu_funcs = {run_cpu}, .model = &model, .name = "one"};
static struct starpu_codelet two = {.cpu_funcs = {run_cpu}, .model = &model, .name = "two"};

static void start(const char *policy, int workers)
{
    const struct mot_start_options options = {
        .workers = workers, .cores_per_worker = 1, .policy = policy, .policies = mot_policies};
    assert_int_equal(mot_start(&options), 0);
    begun = 0;
}

static void submit(struct starpu_codelet *codelet, struct job *job)
{
    struct starpu_task *task = starpu_task_create();
    task->cl = codelet;
    task->cl_arg = job;
    job->worker = -1;
    assert_int_equal(starpu_task_submit(task), 0);
}

static int on_worker(const struct job *jobs, int n, int worker)
{
    int count = 0;
    for (int i = 0; i < n; i++) { count += jobs[i].worker == worker; }
    return count;
}

/* Kind one is 8 times as fast on worker 1, kind two twice as fast. */
static void sorts_by_affinity(const char *policy)
{
    static struct job first[TASKS], second[TASKS];
    start(policy, 2);
    starpu_pause();
    for (int i = 0; i < TASKS; i++) {
        first[i] = (struct job){.expected_us = {16000.0, 2000.0}, .true_us = {16000, 2000}};
        second[i] = (struct job){.expected_us = {4000.0, 2000.0}, .true_us = {4000, 2000}};
        submit(&two, &second[i]);
        submit(&one, &first[i]);
    }
    starpu_resume();
    mot_wait_all();
    assert_true(on_worker(first, TASKS, 1) >= TASKS - 1);
    assert_true(on_worker(second, TASKS, 0) >= TASKS / 3);
    for (int i = 0; i < TASKS; i++) { /* while there is of both, none of two on worker 1 */
        assert_true(second[i].worker == 0 || second[i].order > TASKS);
    }
    mot_stop();
}

static void test_heteroprio(void **state)
{
    (void)state;
    sorts_by_affinity("motley-heteroprio");
}

static void test_multiprio(void **state)
{
    (void)state;
    sorts_by_affinity("motley-multiprio");
}

/* One by one: 1 ms on worker 0, 1.2 ms on the three others; how many are run on worker 0. */
static int one_by_one(const char *policy)
{
    static struct job jobs[TASKS];
    start(policy, 4);
    for (int i = 0; i < TASKS; i++) {
        jobs[i] = (struct job){.expected_us = {1000.0, 1200.0, 1200.0, 1200.0},
                               .true_us = {1000, 1200, 1200, 1200}};
        submit(&one, &jobs[i]);
        mot_wait_all();
    }
    mot_stop();
    return on_worker(jobs, TASKS, 0);
}

/* 20 ms of the fast device against 20 x 1.2 / 3 ms of each of the others: at most 1.5 times. */
static void test_qa(void **state)
{
    (void)state;
    const int fast = one_by_one("motley-qa");
    assert_true(one_by_one("motley-eft") >= TASKS - 2);
    assert_true(fast >= TASKS / 3 && fast <= 3 * TASKS / 4);
}

static void test_steal(void **state)
{
    (void)state;
    static struct job jobs[2 * TASKS];
    start("motley-steal", 2);
    for (int i = 0; i < 2 * TASKS; i++) {
        jobs[i] = (struct job){.expected_us = {8000.0, 1000.0}, .true_us = {2000, 16000}};
        submit(&one, &jobs[i]);
    }
    mot_wait_all();
    assert_true(on_worker(jobs, 2 * TASKS, 0) >= 2 * TASKS * 2 / 3);
    assert_true(on_worker(jobs, 2 * TASKS, 1) >= 1);
    mot_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_heteroprio),
                                       cmocka_unit_test(test_multiprio), cmocka_unit_test(test_qa),
                                       cmocka_unit_test(test_steal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
