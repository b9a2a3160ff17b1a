/* motley compare, run as a program: its makespans are motley sim's and its bounds motley bound's,
 * run by run; means are those of its own lines; a graph's bound is of its true durations; a policy
 * that learns runs twice; a run that dies, says nonsense or takes too long is told and the rest
 * goes on; what cannot be is refused before any run.  77 without the simulator's build.  Run it
 * alone: ./test_compare */
#include "program.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MACHINE MOT_SOURCE_DIR "/tests/machines/mirage-like.yaml"

static char *simulator; /* the program */

static void write_file(const char *name, const char *text)
{
    char *path = scratch_path(name);
    scratch_write(path, text, strlen(text));
    free(path);
}

static json_t *first_line(void)
{
    json_t *lines = lines_load("@/stdout");
    assert_true(json_array_size(lines) >= 1);
    json_t *line = json_incref(json_array_get(lines, 0));
    json_decref(lines);
    return line;
}

static json_t *compared(const char *words)
{
    program_must(0, "compare --json %s", words);
    return first_line();
}

static double one_number(const char *words, const char *key)
{
    program_must(0, "%s", words);
    json_t *line = first_line();
    const double value = number_at(line, key);
    json_decref(line);
    return value;
}

/* The run of a policy and a seed. */
static const json_t *run_of(const json_t *result, const char *policy, int seed)
{
    size_t i;
    json_t *run;
    json_array_foreach(json_object_get(result, "runs"), i, run)
    {
        if (strcmp(text_at(run, "policy"), policy) == 0 && (int)number_at(run, "seed") == seed) {
            return run;
        }
    }
    fail_msg("no run of %s, seed %d", policy, seed);
    return NULL;
}

static void close_to(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-6 * fabs(wanted))) { fail_msg("%.9g, not %.9g", got, wanted); }
}

/* Means and worst of a policy are those of its runs. */
static void check_summaries(const json_t *result)
{
    size_t p, i;
    json_t *policy, *run;
    json_array_foreach(json_object_get(result, "policies"), p, policy)
    {
        double logs = 0.0, worst = 0.0, seconds = 0.0;
        int n = 0;
        json_array_foreach(json_object_get(result, "runs"), i, run)
        {
            if (strcmp(text_at(run, "policy"), text_at(policy, "policy")) != 0) { continue; }
            const double ratio = number_at(run, "ratio");
            assert_true(ratio >= 1.0 - 1e-6);
            close_to(ratio, number_at(run, "makespan_s") / number_at(run, "bound_s"));
            logs += log(ratio);
            worst = fmax(worst, ratio);
            seconds += number_at(run, "makespan_s");
            n++;
        }
        assert_true(n > 0 && n == (int)number_at(policy, "runs"));
        close_to(number_at(policy, "mean_ratio"), exp(logs / n));
        close_to(number_at(policy, "worst_ratio"), worst);
        close_to(number_at(policy, "mean_makespan_s"), seconds / n);
    }
}

static const char stages[] =
    "name: s\nstages: {steps: 2, answers: 6, micro_batch: 3, staleness: 1,\n"
    "  tokens: {mean: 4, sigma: 0.9, unknown_sigma: 0.5}, weight_mb: 64,\n"
    "  answer_mb: 0.0625, gradient_mb: 8}\n";

static void test_equals_sim(void **state)
{
    (void)state;
    write_file("s.yaml", stages);
    json_t *result = compared("--machine " MACHINE " --workload @/s.yaml --policies dmda,eager "
                              "--seeds 2 --seed 5 --output @/a.csv @/a.svg @/a.html");
    assert_int_equal(json_array_size(json_object_get(result, "runs")), 4);
    check_summaries(result);
    double before = 0.0;
    for (int k = 0; k < 4; k++) {
        const char *policy = k < 2 ? "dmda" : "eager";
        const int seed = 5 + k % 2;
        char words[1024];
        snprintf(
            words, sizeof(words),
            "sim --machine %s --workload @/s.yaml --policy %s --seed %d --json --write @/g.json",
            MACHINE, policy, seed);
        const json_t *run = run_of(result, policy, seed);
        close_to(number_at(run, "makespan_s"), one_number(words, "makespan_s"));
        close_to(number_at(run, "bound_s"), one_number("bound @/g.json --json", "best_ms") * 1e-3);
        assert_true(number_at(run, "makespan_s") != before); /* seeds draw other lengths */
        before = number_at(run, "makespan_s");
    }
    /* The same numbers in the CSV. */
    size_t n;
    char *path = scratch_path("a.csv"), *csv = scratch_read(path, &n), line[256];
    const json_t *run = run_of(result, "eager", 6);
    snprintf(line, sizeof(line), "\neager,,6,%.9g,%.9g,", number_at(run, "makespan_s"),
             number_at(run, "bound_s"));
    if (!strstr(csv, line)) { fail_msg("'%s' is not in\n%s", line, csv); }
    assert_int_equal(lines_count("@/a.csv"), 5);
    free(csv);
    free(path);
    /* A dot for each run. */
    path = scratch_path("a.html");
    char *html = scratch_read(path, &n);
    int dots = 0;
    for (const char *at = html; (at = strstr(at, "<circle")); at++) { dots++; }
    assert_int_equal(dots, 4);
    free(html);
    free(path);
    json_decref(result);
}

/* Policies are told the estimate; the bound knows better. */
static void test_truth(void **state)
{
    (void)state;
    write_file("t.json",
               "[{\"name\": \"a\", \"classes\": [{\"name\": \"cpu\", \"workers\": 1}, {\"name\": "
               "\"gpu\", \"workers\": 1}],\n \"tasks\": [{\"ms\": [4000, 1000], \"estimate_ms\": "
               "[1000, 4000]}], \"edges\": []},\n {\"name\": \"b\", \"classes\": [{\"name\": "
               "\"cpu\", \"workers\": 2}], \"tasks\": [{\"ms\": [3000]}, {\"ms\": [2000]}],\n"
               " \"edges\": [[0, 1]]}]\n");
    json_t *result = compared("--graphs @/t.json --policies dmda");
    assert_int_equal(json_array_size(json_object_get(result, "runs")), 2);
    const json_t *run = json_array_get(json_object_get(result, "runs"), 0);
    assert_string_equal(text_at(run, "graph"), "a");
    assert_true(fabs(number_at(run, "makespan_s") - 4.0) < 1e-2); /* where it seems to be shorter */
    close_to(number_at(run, "bound_s"), 1.0);
    run = json_array_get(json_object_get(result, "runs"), 1);
    assert_true(fabs(number_at(run, "makespan_s") - 5.0) < 1e-2);
    close_to(number_at(run, "bound_s"), 5.0);
    json_decref(result);
    /* Noise moves both, by the same factors. */
    result = compared("--graphs @/t.json --policies eager --noise 0.5 --seeds 3");
    assert_int_equal(json_array_size(json_object_get(result, "runs")), 6);
    for (size_t i = 3; i < 6; i++) {
        run = json_array_get(json_object_get(result, "runs"), i);
        assert_string_equal(text_at(run, "graph"), "b");
        assert_true(fabs(number_at(run, "bound_s") - 5.0) > 1e-3);
        assert_true(fabs(number_at(run, "ratio") - 1.0) < 1e-3); /* a chain: nothing to decide */
    }
    json_decref(result);
}

/* A training workload's graph is known once it has run. */
static void test_training(void **state)
{
    (void)state;
    write_file("w.yaml", "name: w\nmodel: {n_layers: 2, hidden_size: 64, intermediate_size: 128, "
                         "n_heads: 4,\n  n_kv_heads: 2, head_dim: 16, vocab_size: 100}\nsteps: 2\n"
                         "prompts_per_step: 2\ngroup_size: 2\nprompt_tokens: {mean: 10, max: 10}\n"
                         "answer_tokens: {mean: 20, sigma: 0.5, max: 60}\nmicro_batch: 2\n"
                         "rows_per_task: 2\nchunk: 8\nstaleness: 1\n");
    json_t *result = compared("--machine " MOT_SOURCE_DIR "/tests/machines/h100-a100-t4.yaml "
                              "--workload @/w.yaml --policies eager,dmda --seeds 2 --noise 0.3");
    check_summaries(result);
    json_decref(result);
}

/* Stands in for the simulator: the shell text, then the simulator itself. */
static void stand_in(const char *text)
{
    char *path = scratch_path("stand-in"), *script;
    script =
        mot_format("#!/bin/sh\nunset MOTLEY_SIM_PROGRAM\n%s\nexec %s \"$@\"\n", text, simulator);
    scratch_write(path, script, strlen(script));
    MOT_ASSERT(chmod(path, 0755) == 0);
    setenv("MOTLEY_SIM_PROGRAM", path, 1);
    free(script);
    free(path);
}

static void test_warm(void **state)
{
    (void)state;
    char text[1024];
    snprintf(text, sizeof(text),
             "echo \"$* $STARPU_NTASKS_THRESHOLD $STARPU_HETEROPRIO_DATA_DIR\" >> %s/calls",
             scratch_directory);
    stand_in(text);
    json_t *result = compared("--machine " MACHINE " --workload @/s.yaml --seeds 2 --policies "
                              "heteroprio,heteroprio:cold,modular-heft:5");
    check_summaries(result);
    assert_int_equal(lines_count("@/calls"), 2 * 2 + 2 + 2);
    size_t n;
    char *path = scratch_path("calls"), *calls = scratch_read(path, &n);
    assert_non_null(strstr(calls, " 5 "));
    int differ = 0; /* what it has learned changes what it does */
    for (int seed = 1; seed <= 2; seed++) {
        differ |= number_at(run_of(result, "heteroprio", seed), "makespan_s")
                  != number_at(run_of(result, "heteroprio:cold", seed), "makespan_s");
    }
    assert_true(differ);
    free(calls);
    free(path);
    json_decref(result);
}

/* Runs of eager fail; those of dmda do not. */
static void check_failed(const char *words, const char *why)
{
    char line[512];
    snprintf(line, sizeof(line),
             "--machine %s --workload @/s.yaml --seeds 2 --policies eager,dmda %s", MACHINE, words);
    json_t *result = compared(line);
    for (int seed = 1; seed <= 2; seed++) {
        const char *text = text_at(run_of(result, "eager", seed), "failure");
        if (!strstr(text, why)) { fail_msg("'%s' lacks '%s'", text, why); }
        assert_true(number_at(run_of(result, "dmda", seed), "ratio") >= 1.0);
    }
    const json_t *eager = json_array_get(json_object_get(result, "policies"), 0);
    assert_int_equal(json_integer_value(json_object_get(eager, "failed")), 2);
    assert_true(json_is_null(json_object_get(eager, "mean_ratio")));
    if (!strstr(program_errors, why)) { fail_msg("'%s' is not told", why); }
    json_decref(result);
}

static void test_failures(void **state)
{
    (void)state;
    stand_in("case \"$*\" in *policy=eager*) echo 'motley: it broke' >&2; kill -ABRT $$;; esac");
    check_failed("", "killed by SIGABRT: it broke");
    stand_in("case \"$*\" in *policy=eager*) exit 3;; esac");
    check_failed("", "exit 3");
    stand_in("case \"$*\" in *policy=eager*) echo nonsense; exit 0;; esac");
    check_failed("", "could not be read");
    stand_in("case \"$*\" in *policy=eager*) sleep 60;; esac");
    check_failed("--limit_s 1.5", "took longer than 1.5 s");
    /* When nothing has come out at all, that is no success. */
    stand_in("exit 3");
    program_must(1, "compare --machine " MACHINE " --workload @/s.yaml --seeds 1 --policies eager");
}

static void refused(int code, const char *word, const char *line)
{
    program_must(code, "compare %s", line);
    if (!strstr(program_errors, word)) { fail_msg("'%s' lacks '%s'", program_errors, word); }
}

#define SUBJECT "--machine " MACHINE " --workload @/s.yaml "

static void test_refused(void **state)
{
    (void)state;
    setenv("MOTLEY_SIM_PROGRAM", simulator, 1);
    refused(2, "--workload, --graphs and --run", "--machine " MACHINE);
    refused(2, "--workload, --graphs and --run", SUBJECT "--graphs @/t.json");
    refused(1, "did you mean \"modular-heft\"", SUBJECT "--policies eager,modular-hefd");
    refused(1, "only modular policies take a number", SUBJECT "--policies eager:5");
    refused(1, "only heteroprio takes :cold", SUBJECT "--policies modular-heft:cold");
    refused(2, ".csv, .json, .svg, .html", SUBJECT "--output a.pdf");
    refused(1, "no-such.yaml", "--machine no-such.yaml --workload @/s.yaml");
    refused(1, "has no stage 'generate'",
            "--machine " MOT_SOURCE_DIR "/tests/machines/cpu-box.yaml --workload @/s.yaml");
    write_file("twice.json", "[{\"name\": \"a\", \"classes\": [{\"name\": \"c\", \"workers\": 1}], "
                             "\"tasks\": [{\"ms\": [1]}], \"edges\": []},\n{\"name\": \"a\", "
                             "\"classes\": [{\"name\": \"c\", \"workers\": 1}], \"tasks\": "
                             "[{\"ms\": [2]}], \"edges\": []}]\n");
    refused(1, "twice.json:2: a second graph 'a'", "--graphs @/twice.json");
    write_file("odd.yaml", "name: s\nstages: {steps: 1, answers: 5, micro_batch: 2, tokens: {mean: "
                           "4}}\n");
    refused(1, "odd.yaml:2", "--machine " MACHINE " --workload @/odd.yaml");
    setenv("MOTLEY_SIM_PROGRAM", "/nowhere/motley", 1);
    refused(1, "tools/setup --sim", SUBJECT);
}

int main(void)
{
    const char *program = getenv("MOTLEY_SIM_PROGRAM");
    simulator = mot_strdup(program ? program : MOT_BINARY_DIR "/sim/motley");
    if (access(simulator, X_OK) != 0) {
        printf("skipped: no simulator's build (tools/setup --sim)\n");
        return 77;
    }
    scratch_begin("compare");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_sim), cmocka_unit_test(test_truth),
        cmocka_unit_test(test_training),   cmocka_unit_test(test_warm),
        cmocka_unit_test(test_failures),   cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
