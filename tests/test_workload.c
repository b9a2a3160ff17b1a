/* workload files: the shipped ones load; bad and contradictory ones are refused with one line that
 * names file and line; lengths have the mean and spread they say, or are those of a recording.
 * Run it alone: ./test_workload */
#include "scratch.h"
#include "workload.h"
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define WORKLOADS MOT_SOURCE_DIR "/tests/workloads"

static struct mot_workload workload;

static int load_text(const char *text)
{
    char *path = scratch_path("workload.yaml");
    scratch_write(path, text, strlen(text));
    const int error = mot_workload_load(path, &workload);
    free(path);
    return error;
}

static void test_shipped(void **state)
{
    (void)state;
    DIR *directory = opendir(WORKLOADS);
    assert_non_null(directory);
    int n = 0;
    for (const struct dirent *e; (e = readdir(directory)) != NULL;) {
        if (strstr(e->d_name, ".yaml") == NULL) { continue; }
        char path[1024];
        snprintf(path, sizeof(path), WORKLOADS "/%s", e->d_name);
        assert_int_equal(mot_workload_load(path, &workload), 0);
        mot_workload_free(&workload);
        n++;
    }
    closedir(directory);
    assert_true(n >= 2);
}

#define MODEL                                                                                   \
    "model: {n_layers: 2, hidden_size: 64, intermediate_size: 128, n_heads: 4, n_kv_heads: 2, " \
    "head_dim: 16, vocab_size: 100}\n"
#define PROMPTS "prompt_tokens: {mean: 5, max: 8}\n"
#define ANSWERS "answer_tokens: {mean: 5, max: 8}\n"
#define STEP    "steps: 1\nprompts_per_step: 4\ngroup_size: 2\nmicro_batch: 2\nrows_per_task: 4\n"

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int line;
        const char *word;
    } bad[] = {
        {"name: a\n" STEP PROMPTS ANSWERS, 1, "'model' is missing"},
        {"name: a\n" MODEL "steps: 0\n", 3, "not in"},
        {"name: a\n" MODEL STEP ANSWERS, 1, "'prompt_tokens' is missing"},
        {"name: a\n" MODEL STEP PROMPTS "answer_tokens: {mean: 9, max: 8}\n", 9, "above max"},
        {"name: a\n" MODEL STEP PROMPTS "answer_tokens: {mean: 5, max: 8, known: yes}\n", 9,
         "neither true nor false"},
        {"name: a\n" MODEL STEP PROMPTS "answer_tokens: {mean: 5, max: 8, sgima: 1}\n", 9,
         "did you mean 'sigma'"},
        {"name: a\n" MODEL STEP PROMPTS "answer_tokens: {mean: 5, max: 8, file: x}\n", 9,
         "either a file or a mean"},
        {"name: a\n" MODEL STEP PROMPTS ANSWERS "dtype: float64\n", 10, "neither float32"},
        {"name: a\n" MODEL STEP PROMPTS ANSWERS "staleness: -1\n", 10, "not in"},
        {"name: a\n" MODEL STEP PROMPTS ANSWERS "staleness_mode: loose\n", 10, "neither bounded"},
        {"name: a\n" MODEL STEP PROMPTS ANSWERS "stalness: 1\n", 10, "did you mean 'staleness'"},
        {"name: a\n" MODEL
         "steps: 1\nprompts_per_step: 4\ngroup_size: 4\nmicro_batch: 3\nrows_per_task: 4\n" PROMPTS
             ANSWERS,
         6, "neither divides"},
        {"name: a\n" MODEL
         "steps: 1\nprompts_per_step: 3\ngroup_size: 2\nmicro_batch: 4\nrows_per_task: 4\n" PROMPTS
             ANSWERS,
         6, "no whole number of micro-batches"},
        {"name: a\nmodel: {n_layers: 2, hidden_size: 64, intermediate_size: 128, n_heads: 5, "
         "n_kv_heads: 2, head_dim: 16, vocab_size: 100}\n" STEP PROMPTS ANSWERS,
         2, "n"},
        {"name: a\ndag: x.json\nsteps: 3\n", 3, "unknown name 'steps'"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char place[64];
        snprintf(place, sizeof(place), "workload.yaml:%d: ", bad[i].line);
        catch_begin();
        const int error = load_text(bad[i].text);
        const int lines = catch_end();
        if (error != -EINVAL || lines != 1 || !strstr(mot_last_message(), place)
            || !strstr(mot_last_message(), bad[i].word)) {
            fail_msg("case %zu: %d, %d lines, '%s' lacks '%s' or '%s'", i, error, lines,
                     mot_last_message(), place, bad[i].word);
        }
    }
}

static void test_lengths(void **state)
{
    (void)state;
    const struct mot_lengths l = {.mean = 1000, .sigma = 0.8, .max = 1 << 20};
    enum { N = 30000 };
    double mean = 0.0, log_mean = 0.0, log_square = 0.0;
    for (int i = 0; i < N; i++) {
        const int n = mot_lengths_draw(&l, 3, 1, i / 100, i % 100, 0);
        assert_int_equal(n, mot_lengths_draw(&l, 3, 1, i / 100, i % 100, 0));
        mean += (double)n / N;
        log_mean += log(n) / N;
        log_square += log(n) * log(n) / N;
    }
    assert_true(fabs(mean - 1000.0) < 20.0);
    assert_true(fabs(sqrt(log_square - log_mean * log_mean) - 0.8) < 0.02);
    const struct mot_lengths cut = {.mean = 1000, .sigma = 0.8, .max = 1200};
    int longest = 0;
    for (int i = 0; i < 1000; i++) {
        const int n = mot_lengths_draw(&cut, 3, 1, i, 0, 0);
        assert_in_range(n, 1, 1200);
        longest += n == 1200;
    }
    assert_true(longest > 100);
}

static void test_recorded(void **state)
{
    (void)state;
    static const char lines[] = "{\"completion_ids\": [1, 2, 3]}\n{\"completion_ids\": []}\n"
                                "{\"completion_ids\": [1, 2, 3, 4, 5]}\n";
    char *path = scratch_path("completions.jsonl");
    scratch_write(path, lines, strlen(lines));
    static const char text[] =
        "name: a\n" MODEL STEP PROMPTS "answer_tokens: {file: completions.jsonl, max: 4}\n";
    assert_int_equal(load_text(text), 0);
    assert_int_equal(workload.answers.n, 2); /* the empty answer is none */
    int seen[8] = {0};
    for (int i = 0; i < 200; i++) { seen[mot_lengths_draw(&workload.answers, 1, 1, i, 0, 0)]++; }
    assert_true(seen[3] > 60 && seen[4] > 60 && seen[3] + seen[4] == 200); /* 5 is cut to max */
    mot_workload_free(&workload);
    scratch_write(path, "{\"a\": 1}\n", 9);
    catch_begin();
    const int error = load_text(text);
    assert_true(failed_well(error, catch_end(), "completions.jsonl:1", "completion_ids"));
    free(path);
}

int main(void)
{
    scratch_begin("workload");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
