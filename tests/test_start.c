/* Starting StarPU: each of its policies that the acceptance runs use starts and is the one that
 * runs, in each worker shape; an unknown policy, library or shape is refused with a message that
 * says what there is, and one that cannot run a graph that grows; the OpenMP team has the size
 * asked for.  Each start is a child process: the shape and the policy are fixed once per process in
 * a user's program too.
 * Run it alone: ./test_start */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#ifdef _OPENMP
#    include <omp.h>
#endif
#include "child.h"
#include "motley.h"
#include "policies.h"

static const char *policy;
static int workers, cores, grows;
static atomic_int team_size;

static void count_team(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
    int n = 0;
#ifdef _OPENMP
#    pragma omp parallel reduction(+ : n)
    n++;
#else
    n = cores;
#endif
    team_size = n;
}

static struct starpu_codelet count_codelet = {.cpu_funcs = {count_team}, .name = "count"};

static int start_and_run(void)
{
    const struct mot_start_options options = {.workers = workers,
                                              .cores_per_worker = cores,
                                              .policy = policy,
                                              .grows = grows,
                                              .policies = mot_policies,
                                              .watchdog_s = 30};
    if (mot_start(&options)) { return 2; }
    if (strcmp(mot_policy_name(), policy) != 0) { return 3; }
    if (mot_cpu_workers() != workers || mot_cores_per_worker() != cores) { return 4; }
    for (int i = 0; i < 20; i++) {
        if (mot_task_insert(&(struct mot_task){.codelet = &count_codelet, .name = "test.count"})) {
            return 5;
        }
    }
    mot_stop();
    return team_size == cores ? 0 : 6;
}

static void expect(int status, const char *words[])
{
    char text[8192];
    const int got = child_run(start_and_run, text, sizeof(text));
    if (got != status) { print_error("policy %s: exit %d, said: %s\n", policy, got, text); }
    assert_int_equal(got, status);
    for (int i = 0; words && words[i]; i++) {
        if (!strstr(text, words[i])) { print_error("not found: %s in: %s\n", words[i], text); }
        assert_non_null(strstr(text, words[i]));
    }
}

static void test_policies(void **state)
{
    (void)state;
    static const char *const names[] = {"eager",      "prio",         "lws",       "ws",
                                        "random",     "dm",           "dmda",      "dmdas",
                                        "heteroprio", "modular-heft", "motley-eft"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        policy = names[i];
        workers = 2;
        cores = 1;
        expect(0, NULL);
    }
}

static void test_shapes(void **state)
{
    (void)state;
    static const int shapes[][2] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        policy = "lws";
        workers = shapes[i][0];
        cores = shapes[i][1];
        expect(0, NULL);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    workers = cores = 1;
    policy = "dmad";
    expect(2, (const char *[]){"unknown scheduling policy \"dmad\"", "did you mean \"dmda\"?",
                               "known: ", "eager", "modular-heft", "motley-eft", NULL});
    policy = "graph_test";
    grows = 1;
    expect(2, (const char *[]){"the policy \"graph_test\"", "not those that other tasks submit",
                               NULL});
    grows = 0;
    policy = "eager";
    setenv("STARPU_SCHED_LIB", "/nonexistent/library.so", 1);
    expect(2, (const char *[]){"STARPU_SCHED_LIB", "/nonexistent/library.so", NULL});
    unsetenv("STARPU_SCHED_LIB");
    workers = 100000;
    expect(2, (const char *[]){"100000 workers", NULL});
}

/* The environment's policy counts when the program names none; the program's own wins. */
static int start_from_environment(void)
{
    setenv("STARPU_SCHED", "prio", 1);
    if (mot_start(NULL) || strcmp(mot_policy_name(), "prio") != 0) { return 2; }
    mot_stop();
    const struct mot_start_options options = {.policy = "eager", .workers = 1};
    if (mot_start(&options) || strcmp(mot_policy_name(), "eager") != 0) { return 3; }
    mot_stop();
    setenv("STARPU_SCHED", "nothing-like-it", 1);
    return mot_start(NULL) == -EINVAL ? 0 : 4;
}

static void test_environment(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(child_run(start_from_environment, text, sizeof(text)), 0);
    assert_non_null(strstr(text, "nothing-like-it"));
}

/* A policy handed to mot_start() is found by name and runs. */
static int start_own_policy(void)
{
    struct starpu_sched_policy own = {0};
    struct starpu_sched_policy **known = starpu_sched_get_predefined_policies();
    for (; *known; known++) {
        if (strcmp((*known)->policy_name, "eager") == 0) { own = **known; }
    }
    own.policy_name = "own";
    struct starpu_sched_policy *const list[] = {&own, NULL};
    const struct mot_start_options options = {.policy = "own", .workers = 1, .policies = list};
    if (mot_start(&options) || strcmp(mot_policy_name(), "own") != 0) { return 2; }
    mot_stop();
    return 0;
}

static void test_own_policy(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(child_run(start_own_policy, text, sizeof(text)), 0);
}

int main(void)
{
    unsetenv("STARPU_SCHED");
    unsetenv("STARPU_NCPU");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),   cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_environment),
        cmocka_unit_test(test_own_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
