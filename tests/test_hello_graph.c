/* hello_graph, the newcomer's program, prints the right sum under several policies and worker
 * counts, records one event per task, and exits with 2 and a list under an unknown policy.
 * Run it alone: ./test_hello_graph */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "child.h"
#include "error.h"
#include "trace_read.h"
#include <cmocka.h>

static const char program[] = MOT_BINARY_DIR "/hello_graph";
static const char recorded[] = MOT_BINARY_DIR "/hello_graph.json.gz";

static int run_program(void)
{
    dup2(2, 1);
    execl(program, program, (char *)NULL);
    return 99;
}

static void run(const char *policy, const char *workers, int status, const char *expected)
{
    char text[8192];
    setenv("STARPU_SCHED", policy, 1);
    setenv("STARPU_NCPU", workers, 1);
    const int got = child_run(run_program, text, sizeof(text));
    if (got != status || !strstr(text, expected)) {
        print_error("%s: exit %d: %s\n", policy, got, text);
    }
    assert_int_equal(got, status);
    assert_non_null(strstr(text, expected));
}

static int count_stage(const struct mot_recording *r, const char *stage)
{
    int n = 0;
    for (int i = 0; i < r->n_tasks; i++) { n += strcmp(r->tasks[i].stage, stage) == 0; }
    return n;
}

static void test_policies(void **state)
{
    (void)state;
    setenv("MOTLEY_TRACE", recorded, 1);
    static const char *const names[] = {"eager", "prio", "lws", "random", "dmda", "heteroprio"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *line = mot_format("sum: 499999500000 (policy %s)", names[i]);
        run(names[i], i % 2 ? "2" : "1", 0, line);
        free(line);
        struct mot_recording *r;
        assert_int_equal(mot_recording_read(recorded, &r), 0);
        assert_string_equal(r->policy, names[i]);
        assert_int_equal(r->n_tasks, 9);
        assert_int_equal(count_stage(r, "fill"), 4);
        assert_int_equal(count_stage(r, "sum"), 4);
        assert_int_equal(count_stage(r, "join"), 1);
        mot_recording_free(r);
    }
    unlink(recorded);
}

static void test_unknown_policy(void **state)
{
    (void)state;
    run("eagre", "1", 2, "did you mean \"eager\"?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_policies),
                                       cmocka_unit_test(test_unknown_policy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
