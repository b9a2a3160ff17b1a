/* motley bound: the table and the JSON of the recorded graphs, --exact, --workers, --write, exit
 * codes and messages.  Run it alone: ./test_bound */
#include "program.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define GRAPHS MOT_TEST_DATA "/small-dags.json"

/* What the last program printed; free() it. */
static char *printed(void)
{
    size_t n;
    char *path = scratch_path("stdout"), *text = scratch_read(path, &n);
    free(path);
    return text;
}

static double nested(const json_t *object, const char *a, const char *b)
{
    return json_number_value(json_object_get(json_object_get(object, a), b));
}

static void test_json(void **state)
{
    (void)state;
    program_must(0, "bound %s --json", GRAPHS);
    json_t *lines = lines_load("@/stdout");
    assert_int_equal(json_array_size(lines), 30);
    for (size_t i = 0; i < 30; i++) {
        const json_t *line = json_array_get(lines, i);
        const double optimum = json_number_value(json_object_get(line, "optimum_ms"));
        const double best = json_number_value(json_object_get(line, "best_ms"));
        const char *name = json_string_value(json_object_get(line, "best"));
        assert_true(best > 0.5 * optimum && best <= optimum * (1.0 + 1e-6));
        assert_true(fabs(nested(line, "bounds_ms", name) - best) <= 1e-5 * best);
        assert_true(json_number_value(json_object_get(line, "list_ms")) >= optimum);
        assert_true(json_is_null(json_object_get(json_object_get(line, "bounds_ms"), "links")));
        assert_null(json_object_get(line, "exact"));
    }
    json_decref(lines);
}

static void test_exact(void **state)
{
    (void)state;
    /* The first graph of the file alone, through --write of a file made from it. */
    const char two[] = "[{\"name\": \"a\", \"classes\": [{\"name\": \"cpu\", \"workers\": 2}], "
                       "\"tasks\": [{\"ms\": [3]}, {\"ms\": [3]}, {\"ms\": [2]}, {\"ms\": [2]}, "
                       "{\"ms\": [2]}], \"edges\": []}]";
    char *path = scratch_path("two.json");
    scratch_write(path, two, strlen(two));
    program_must(0, "bound @/two.json --exact --json --write @/again.json");
    json_t *lines = lines_load("@/stdout");
    const json_t *line = json_array_get(lines, 0);
    assert_true(nested(line, "bounds_ms", "area") == 6.0);
    assert_true(nested(line, "exact", "makespan_ms") == 6.0);
    assert_true(json_is_true(json_object_get(json_object_get(line, "exact"), "proven")));
    json_decref(lines);
    program_must(0, "bound @/again.json --workers 1 --exact");
    char *text = printed();
    assert_non_null(strstr(text, "a: 5 tasks, 0 edges, workers: 1 cpu\n"));
    assert_non_null(strstr(text, "area             12.000"));
    assert_non_null(strstr(text, "<- binds"));
    assert_non_null(strstr(text, "proven"));
    free(text);
    free(path);
}

static void test_table_names_the_period(void **state)
{
    (void)state;
    program_must(0, "bound %s", GRAPHS);
    char *text = printed();
    const char *graph = strstr(text, "rl3-2-2-eta0-nocpu: 12 tasks");
    assert_non_null(graph);
    const char *period = strstr(graph, "period"), *next = strstr(graph, "\n\n");
    assert_true(period && next && period < next);
    assert_non_null(strstr(period, "eta* 1 (here 0)"));
    free(text);
    program_must(0, "bound --help");
    text = printed();
    const char *words[] = {"usage: motley bound FILE", "--exact", "--workers", "--json", "mixed"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        assert_non_null(strstr(text, words[i]));
    }
    free(text);
}

static void test_exit_codes(void **state)
{
    (void)state;
    char *path = scratch_path("bad.stg");
    scratch_write(path, "2 1\n0 2 1 1\n1 3 1 0\n", 19);
    const struct {
        int code;
        const char *line, *word;
    } runs[] = {
        {1, "bound @/bad.stg", "bad.stg:"},
        {1, "bound @/bad.stg --json", "cycle of 2 tasks"},
        {1, "bound @/none", "@/none"},
        {1, "bound " GRAPHS " --workers 3", "--workers"},
        {1, "bound " GRAPHS " --write @/no/where.json", "@/no/where.json"},
        {2, "bound", "one FILE"},
        {2, "bound a b", "one FILE"},
        {2, "bound " GRAPHS " --workers -1", "workers"},
        {2, "bound " GRAPHS " --exakt", "exact"},
    };
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        char *word = program_words(runs[i].word);
        program_must(runs[i].code, "%s", runs[i].line);
        const char *end = strchr(program_errors, '\n');
        if (!strstr(program_errors, word) || !end || end[1] != 0) {
            fail_msg("'%s' in one line is missing: %s", word, program_errors);
        }
        free(word);
    }
    free(path);
}

int main(void)
{
    scratch_begin("test_bound");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_table_names_the_period),
        cmocka_unit_test(test_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
