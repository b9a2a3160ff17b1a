/* motley sft as a program: 20 steps = 10 + resume + 10, weights, moments and metrics byte for byte
 * (peers row 40); the same after Ctrl-C (exit code 130); a second run does not overwrite the first;
 * a torn checkpoint is passed over. */
#include "error.h"
#include "file.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/motley-test-sft-XXXXXX";

static char *in_root(const char *name)
{
    return mot_format("%s/%s", root, name);
}

/* Starts motley sft into root/name; extra may be NULL. */
static pid_t launch(const char *name, const char *extra)
{
    char *data = in_root("data.jsonl"), *output = in_root(name);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, 2);
        execl(MOT_BINARY_DIR "/motley", "motley", "sft", "--model", "tiny:7", "--train_file", data,
              "--output_dir", output, "--max_steps", "20", "--per_device_train_batch_size", "2",
              "--gradient_accumulation_steps", "2", "--learning_rate", "1e-3", "--logging_steps",
              "3", "--save_steps", "5", "--save_total_limit", "0", extra, (char *)NULL);
        _exit(127);
    }
    free(data);
    free(output);
    return child;
}

static int wait_for(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void assert_same_file(const char *a, const char *b, const char *file)
{
    char *path[2] = {mot_format("%s/%s/%s", root, a, file), mot_format("%s/%s/%s", root, b, file)};
    char *bytes[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mot_file_read(path[i], 1 << 28, &bytes[i], &n[i]), 0);
    }
    if (n[0] != n[1] || memcmp(bytes[0], bytes[1], n[0]) != 0) { fail_msg("%s differs", file); }
    for (int i = 0; i < 2; i++) {
        free(path[i]);
        free(bytes[i]);
    }
}

/* The lines of metrics.jsonl without what depends on the clock: everything from "timing_s" on. */
static char *metrics_of(const char *name)
{
    char *path = mot_format("%s/%s/metrics.jsonl", root, name), *bytes, *kept;
    size_t n, length = 0;
    assert_int_equal(mot_file_read(path, 1 << 20, &bytes, &n), 0);
    kept = mot_alloc(n + 1);
    for (char *line = strtok(bytes, "\n"); line; line = strtok(NULL, "\n")) {
        char *timing = strstr(line, ",\"timing_s/");
        assert_non_null(timing);
        memcpy(kept + length, line, (size_t)(timing - line));
        length += (size_t)(timing - line);
        kept[length++] = '\n';
    }
    kept[length] = '\0';
    free(bytes);
    free(path);
    return kept;
}

static void assert_same_run(const char *a, const char *b)
{
    assert_same_file(a, b, "model/model.safetensors");
    assert_same_file(a, b, "checkpoints/step-20/model.safetensors");
    assert_same_file(a, b, "checkpoints/step-20/optimizer.safetensors");
    assert_same_file(a, b, "checkpoints/step-20/state.json");
    char *left = metrics_of(a), *right = metrics_of(b);
    assert_string_equal(left, right);
    free(left);
    free(right);
}

static void shell(const char *format, const char *name)
{
    char *inside = mot_format(format, name), *command = mot_format("cd %s && %s", root, inside);
    assert_int_equal(system(command), 0);
    free(inside);
    free(command);
}

static int set_up(void **state)
{
    (void)state;
    static const char rows[] = "{\"prompt\": \"3+4=\", \"completion\": \"7\"}\n"
                               "{\"prompt\": \"12+4=\", \"completion\": \"16\"}\n"
                               "{\"input_ids\": [5, 8, 9, 30, 256]}\n"
                               "{\"prompt\": \"5+4=\", \"completion\": \"9\"}\n"
                               "{\"prompt\": \"1+1=\", \"completion\": \"2\"}\n";
    if (mkdtemp(root) == NULL) { return -1; }
    char *data = in_root("data.jsonl");
    const int status = mot_file_write(data, rows, sizeof(rows) - 1);
    free(data);
    return status == 0 ? wait_for(launch("straight", NULL)) : status;
}

static int tear_down(void **state)
{
    (void)state;
    return mot_remove_tree(root);
}

/* As if the run had been killed after step 12: its last good checkpoint is that of step 10. */
static void test_resume(void **state)
{
    (void)state;
    shell("cp -r straight %s", "killed");
    shell("rm -r %s/model", "killed");
    shell("rm -r %s/checkpoints/step-20", "killed");
    shell("truncate -s -8 %s/checkpoints/step-15/optimizer.safetensors", "killed");
    shell("printf '{\"step\": 12, \"lo' >> %s/metrics.jsonl", "killed");
    assert_int_equal(wait_for(launch("killed", "--resume")), 0);
    assert_same_run("straight", "killed");
}

static void test_interrupt(void **state)
{
    (void)state;
    const pid_t child = launch("interrupted", NULL);
    char *first = in_root("interrupted/checkpoints/step-5");
    for (int i = 0; i < 3000 && access(first, F_OK) != 0; i++) { usleep(10000); }
    free(first);
    kill(child, SIGINT);
    const int code = wait_for(child);
    if (code == 0) { skip(); } /* the machine was faster than the signal */
    assert_int_equal(code, 130);
    assert_int_equal(wait_for(launch("interrupted", "--resume")), 0);
    assert_same_run("straight", "interrupted");
}

static void test_no_overwriting(void **state)
{
    (void)state;
    char *before = metrics_of("straight");
    assert_int_equal(wait_for(launch("straight", NULL)), 1);
    char *after = metrics_of("straight");
    assert_string_equal(before, after);
    free(before);
    free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_no_overwriting),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
