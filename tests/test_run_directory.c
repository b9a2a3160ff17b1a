/* The run directory without a program around it: JSON lines are cut back to the checkpoint's step,
 * a full disk is known before any work, another run's directory is not taken. */
#include "checkpoint.h"
#include "file.h"
#include "run_directory.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/motley-test-run-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return mot_remove_tree(root);
}

static int count_lines(const char *path)
{
    char *bytes;
    size_t n;
    assert_int_equal(mot_file_read(path, 1 << 20, &bytes, &n), 0);
    int lines = 0;
    for (size_t i = 0; i < n; i++) { lines += bytes[i] == '\n'; }
    free(bytes);
    return lines;
}

static void test_lines_are_cut(void **state)
{
    (void)state;
    char *directory = mot_format("%s/run", root), *path = mot_format("%s/metrics.jsonl", directory);
    struct mot_run_options options = {.output_dir = directory};
    struct mot_run run;
    assert_int_equal(mot_run_open(&run, &options), 0);
    int fd = mot_run_lines_open(&run, "metrics.jsonl");
    assert_true(fd >= 0);
    for (int step = 1; step <= 6; step++) {
        json_t *line = json_object();
        json_object_set_new(line, "step", json_integer(step));
        json_object_set_new(line, "loss", mot_json_number(0.0 / 0.0));
        assert_int_equal(mot_json_append_line(fd, line), 0);
        json_decref(line);
    }
    assert_int_equal(write(fd, "{\"step\": 2, \"los", 16), 16); /* torn by a kill */
    close(fd);
    char *step_path;
    assert_int_equal(mot_checkpoint_begin(run.checkpoints, 4, &step_path), 0);
    char *state_path = mot_format("%s/state.json", step_path);
    assert_int_equal(mot_file_write(state_path, "{\"x\": 0.1}", 10), 0);
    free(state_path);
    assert_int_equal(mot_checkpoint_commit(run.checkpoints, 4, step_path, 0), 0);
    mot_run_close(&run);

    assert_int_equal(mot_run_open(&run, &options), -EEXIST);
    options.resume = 1;
    assert_int_equal(mot_run_open(&run, &options), 0);
    assert_int_equal(run.resume_step, 4);
    assert_true(json_real_value(json_object_get(run.resume_state, "x")) == 0.1);
    fd = mot_run_lines_open(&run, "metrics.jsonl");
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(count_lines(path), 4);
    mot_run_close(&run);
    free(path);
    free(directory);
}

static void test_full_disk(void **state)
{
    (void)state;
    char *directory = mot_format("%s/full", root);
    const struct mot_run_options options = {.output_dir = directory, .save_total_limit = 2};
    struct mot_run run;
    assert_int_equal(mot_run_open(&run, &options), 0);
    const struct mot_layout small = {.parameters = 1000}, large = {.parameters = (size_t)1 << 50};
    assert_int_equal(mot_run_check_disk(&run, &small, 1), 0);
    assert_int_equal(mot_run_check_disk(&run, &large, 1), -ENOSPC);
    assert_int_equal(mot_run_check_disk(&run, &large, 0), -ENOSPC);
    /* Many saves take no more room than those that are kept. */
    assert_int_equal(mot_run_check_disk(&run, &small, 1000000000), 0);
    run.save_total_limit = 0; /* all stay */
    assert_int_equal(mot_run_check_disk(&run, &small, 1000000000), -ENOSPC);
    mot_run_close(&run);
    /* Nothing was written: a program that failed before its first step leaves no directory. */
    assert_int_equal(access(directory, F_OK), -1);
    free(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_cut),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
