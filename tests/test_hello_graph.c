/* hello_graph, the newcomer's program, prints the right sum under several policies and worker
 * counts, leaves one record per task, and exits with 2 and a list under an unknown policy.
 * Run it alone: ./test_hello_graph */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "child.h"
#include "error.h"
#include <cmocka.h>

static const char program[] = MOT_BINARY_DIR "/hello_graph";
static const char records[] = MOT_BINARY_DIR "/hello_graph.jsonl";

static int run_program(void)
{
    dup2(2, 1);
    execl(program, program, records, (char *)NULL);
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

static int count_lines(const char *path, const char *word)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[1024];
    int n = 0;
    while (fgets(line, sizeof(line), file)) { n += strstr(line, word) != NULL; }
    fclose(file);
    return n;
}

static void test_policies(void **state)
{
    (void)state;
    static const char *const names[] = {"eager", "prio", "lws", "random", "dmda", "heteroprio"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *line = mot_format("sum: 499999500000 (policy %s)", names[i]);
        run(names[i], i % 2 ? "2" : "1", 0, line);
        free(line);
        assert_int_equal(count_lines(records, "\"stage\":\"fill\""), 4);
        assert_int_equal(count_lines(records, "\"stage\":\"sum\""), 4);
        assert_int_equal(count_lines(records, "\"stage\":\"join\""), 1);
    }
    unlink(records);
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
