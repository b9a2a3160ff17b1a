/* progress: on a terminal (a pseudo-terminal here) the line is rewritten in place, cut to the
 * width, and taken away and put back around messages; elsewhere few plain lines, the last state
 * always; quiet: nothing.  Run it alone: ./test_progress */
#include "error.h"
#include "progress.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char output[1 << 16];

static void read_all(int fd)
{
    size_t n = 0;
    ssize_t got;
    while (n < sizeof(output) - 1 && (got = read(fd, output + n, sizeof(output) - 1 - n)) > 0) {
        n += (size_t)got;
    }
    output[n] = 0;
}

/* Runs work in a child whose standard error is fd; what it wrote, read at from, is in output. */
static void run(void (*work)(void), int fd, int from)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, STDERR_FILENO);
        close(fd);
        close(from);
        work();
        _exit(0);
    }
    close(fd);
    read_all(from); /* to the end: a pseudo-terminal then gives EIO */
    close(from);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void run_on_pipe(void (*work)(void))
{
    int pair[2];
    assert_int_equal(pipe(pair), 0);
    run(work, pair[1], pair[0]);
}

static int run_on_terminal(void (*work)(void), int columns)
{
    const int from = posix_openpt(O_RDWR | O_NOCTTY);
    if (from < 0 || grantpt(from) < 0 || unlockpt(from) < 0) { return 0; }
    const int fd = open(ptsname(from), O_RDWR | O_NOCTTY);
    if (fd < 0) { return 0; }
    const struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    ioctl(fd, TIOCSWINSZ, &size);
    setenv("TERM", "xterm", 1);
    run(work, fd, from);
    return 1;
}

static int count(const char *what)
{
    int n = 0;
    for (const char *at = output; (at = strstr(at, what)); at += strlen(what)) { n++; }
    return n;
}

static void thousand_steps(void)
{
    struct mot_progress *progress = mot_progress_create(1000, "grpo");
    for (int i = 0; i <= 1000; i++) {
        mot_progress_update(progress, i, i == 1000 ? "reward 0.75" : "reward 0.25");
        mot_progress_add_tokens(progress, 100);
    }
    mot_progress_finish(progress);
}

static void messages_between(void)
{
    struct mot_progress *progress = mot_progress_create(10, "grpo");
    mot_progress_update(progress, 0, "reward \033[31m");
    mot_warn("first");
    usleep(150000);
    mot_progress_update(progress, 5, "a text that is much longer than the terminal is wide");
    mot_info("second");
    mot_progress_finish(progress);
    mot_warn("third");
    mot_progress_finish(NULL);
}

static void quiet_work(void)
{
    mot_set_quiet(1);
    thousand_steps();
}

static void test_plain(void **state)
{
    (void)state;
    run_on_pipe(thousand_steps);
    assert_int_equal(count("\n"), 2);
    assert_ptr_equal(strstr(output, "motley: grpo 0/1000  reward 0.25\n"), output);
    assert_non_null(strstr(output, "grpo 1000/1000  reward 0.75  "));
    assert_non_null(strstr(output, " tokens/s\n"));
    assert_int_equal(count("\033"), 0);
    run_on_pipe(quiet_work);
    assert_string_equal(output, "");
}

static void test_terminal(void **state)
{
    (void)state;
    if (!run_on_terminal(messages_between, 40)) { skip(); }
    /* Each message begins on a line that was cleared just before it. */
    assert_non_null(strstr(output, "\r\033[Kmotley: warning: first\r\n\r\033[Kgrpo 0/10"));
    assert_non_null(strstr(output, "\r\033[Kmotley: second\r\n\r\033[Kgrpo 5/10"));
    assert_non_null(strstr(output, "\nmotley: warning: third"));
    assert_int_equal(count("third"), 1);
    assert_null(strstr(output, "\033[31m"));
    for (const char *line = strstr(output, "grpo"); line; line = strstr(line + 1, "grpo")) {
        assert_true(strcspn(line, "\r\n") <= 39);
    }
    assert_true(run_on_terminal(thousand_steps, 80));
    assert_true(count("grpo") <= 20); /* not one for each of the thousand */
    assert_non_null(strstr(output, "grpo 1000/1000  reward 0.75"));
    assert_int_equal(count("\n"), 1);
    assert_true(run_on_terminal(quiet_work, 80));
    assert_string_equal(output, "");
}

static void half_of_it(void)
{
    struct mot_progress *progress = mot_progress_create(15, "resumed");
    mot_progress_update(progress, 10, NULL);
    usleep(200000);
    mot_progress_update(progress, 11, NULL); /* 4 more at 0.2 s */
    mot_progress_finish(progress);
}

static void test_time_left(void **state)
{
    (void)state;
    run_on_pipe(half_of_it);
    assert_non_null(strstr(output, "resumed 10/15\n"));
    assert_true(strstr(output, "resumed 11/15  0:01 left\n") || strstr(output, "0:02 left\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_time_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
