/* subprocess, process_pool: peers rows 14 and 15.  A program that sleeps for ever is killed at the
 * limit with what it started, and its slot goes on; a slow request delays no other; a program that
 * dies, talks too much, out of turn or not at all costs only its request; a wrong command is given
 * up with a message; after the end no child, no zombie and no descriptor is left.
 * Run it alone: ./test_subprocess */
#include "error.h"
#include "process_pool.h"
#include "subprocess.h"
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ECHO "while read -r line; do echo \"got $line\"; done"

/* One request's end, awaited by the test. */
struct answer {
    int done, status;
    double at_s;
    char reply[80];
};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void finished(void *context, int status, const char *reply)
{
    struct answer *answer = context;
    pthread_mutex_lock(&mutex);
    MOT_ASSERT(!answer->done && (reply != NULL) == (status == 0));
    answer->status = status;
    answer->at_s = now_s();
    snprintf(answer->reply, sizeof(answer->reply), "%s", reply ? reply : "");
    answer->done = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void await(struct answer *answer)
{
    pthread_mutex_lock(&mutex);
    while (!answer->done) { pthread_cond_wait(&changed, &mutex); }
    pthread_mutex_unlock(&mutex);
}

static struct answer ask(struct mot_pool *pool, const char *line)
{
    struct answer answer = {0};
    mot_pool_submit(pool, line, finished, &answer);
    await(&answer);
    return answer;
}

static struct mot_pool *pool_of(const char *command, int processes, double limit_s)
{
    struct mot_pool *pool = NULL;
    assert_int_equal(mot_pool_create(command, processes, limit_s, &pool), 0);
    return pool;
}

static int open_descriptors(void)
{
    int n = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory)) { n++; }
    closedir(directory);
    return n;
}

static int descriptors;

static int before(void **state)
{
    (void)state;
    descriptors = open_descriptors();
    return 0;
}

/* Nothing stays: no child of any state, no descriptor. */
static int nothing_left(void **state)
{
    (void)state;
    const int no_child = waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
    if (!no_child) { printf("a child is left\n"); }
    if (open_descriptors() != descriptors) { printf("a descriptor is left\n"); }
    return no_child && open_descriptors() == descriptors ? 0 : 1;
}

static void test_many(void **state)
{
    (void)state;
    enum { N = 200 };
    static struct answer answers[N];
    struct mot_pool *pool = pool_of(ECHO, 3, 10.0);
    for (int i = 0; i < N; i++) {
        char line[32];
        snprintf(line, sizeof(line), "%d", i);
        mot_pool_submit(pool, line, finished, &answers[i]);
    }
    for (int i = 0; i < N; i++) {
        char want[32];
        snprintf(want, sizeof(want), "got %d", i);
        await(&answers[i]);
        assert_int_equal(answers[i].status, 0);
        assert_string_equal(answers[i].reply, want);
    }
    assert_int_equal(mot_pool_counts(pool).requests, N);
    assert_int_equal(mot_pool_counts(pool).starts, 3);
    mot_pool_destroy(pool);
    mot_pool_destroy(NULL);
}

/* The sleeper has a child that holds the output open: both must go. */
static void test_sleeps_for_ever(void **state)
{
    (void)state;
    char path[] = MOT_BINARY_DIR "/test_subprocess_XXXXXX";
    close(mkstemp(path));
    char *command =
        mot_format("while read -r l; do if [ $l = hang ]; then sleep 1000 & echo $! >%s; "
                   "wait; fi; echo $l; done",
                   path);
    struct mot_pool *pool = pool_of(command, 1, 0.4);
    const double start_s = now_s();
    struct answer hung = ask(pool, "hang");
    assert_int_equal(hung.status, -ETIMEDOUT);
    assert_true(hung.at_s - start_s >= 0.4 && hung.at_s - start_s < 5.0);
    int sleeper = 0;
    FILE *file = fopen(path, "r");
    assert_int_equal(fscanf(file, "%d", &sleeper), 1);
    fclose(file);
    struct answer next = ask(pool, "fine"); /* the slot is of use again */
    assert_int_equal(next.status, 0);
    assert_string_equal(next.reply, "fine");
    usleep(50000);
    char state_path[64], text[200] = "";
    snprintf(state_path, sizeof(state_path), "/proc/%d/stat", sleeper);
    FILE *stat = fopen(state_path, "r"); /* gone, or a zombie that init has yet to reap */
    if (stat) {
        assert_non_null(fgets(text, sizeof(text), stat));
        fclose(stat);
        assert_non_null(strstr(text, ") Z"));
    }
    assert_int_equal(mot_pool_counts(pool).timeouts, 1);
    assert_int_equal(mot_pool_counts(pool).starts, 2);
    mot_pool_destroy(pool);
    free(command);
    unlink(path);
}

static void test_slow_delays_no_other(void **state)
{
    (void)state;
    struct mot_pool *pool = pool_of("while read -r s; do sleep $s; echo slept $s; done", 2, 10.0);
    struct answer slow = {0}, quick[5] = {{0}};
    const double start_s = now_s();
    mot_pool_submit(pool, "2", finished, &slow);
    assert_true(now_s() - start_s < 0.5); /* submitting does not wait */
    for (int i = 0; i < 5; i++) { mot_pool_submit(pool, "0", finished, &quick[i]); }
    for (int i = 0; i < 5; i++) { await(&quick[i]); }
    assert_false(slow.done);
    assert_true(now_s() - start_s < 1.5);
    await(&slow);
    assert_int_equal(slow.status, 0);
    assert_true(slow.at_s - start_s >= 2.0);
    mot_pool_destroy(pool);
}

static void test_dies(void **state)
{
    (void)state;
    struct mot_pool *pool =
        pool_of("while read -r l; do [ $l = die ] && exit 3; echo $l; done", 1, 10.0);
    assert_int_equal(ask(pool, "a").status, 0);
    assert_int_equal(ask(pool, "die").status, -EPIPE); /* tried again on a fresh one, too */
    assert_string_equal(ask(pool, "b").reply, "b");
    assert_int_equal(mot_pool_counts(pool).deaths, 1);
    mot_pool_destroy(pool);

    pool = pool_of("read -r l; echo only $l", 2, 10.0); /* one line, then it ends: all are served */
    for (int i = 0; i < 20; i++) { assert_string_equal(ask(pool, "x").reply, "only x"); }
    mot_pool_destroy(pool);
    pool = pool_of("read -r l; printf 'no newline'", 1, 10.0);
    assert_string_equal(ask(pool, "x").reply, "no newline");
    mot_pool_destroy(pool);
}

static void test_gives_up(void **state)
{
    (void)state;
    struct mot_pool *pool = pool_of("exit 7", 2, 10.0);
    for (int i = 0; i < 100; i++) { assert_int_equal(ask(pool, "x").status, -EPIPE); }
    assert_true(mot_pool_counts(pool).starts <= 30);
    assert_int_equal(mot_pool_counts(pool).deaths, 100);
    mot_pool_destroy(pool);
    assert_int_equal(mot_subprocess_check("no-such-program-here --x"), -ENOENT);
    assert_non_null(strstr(mot_last_message(), "there is no program 'no-such-program-here'"));
    assert_int_equal(mot_subprocess_check(" "), -EINVAL);
    assert_int_equal(mot_subprocess_check("/bin/sh -c x"), 0);
    assert_int_equal(mot_subprocess_check("while read x; do echo 1; done"), 0);
    assert_int_equal(mot_subprocess_check("A=1 \"$HOME/x\""), 0);
}

static void test_garbage(void **state)
{
    (void)state;
    /* More than asked for: the program is replaced, no later request gets the extra line. */
    struct mot_pool *pool = pool_of("while read -r l; do printf \"$l\\nextra\\n\"; done", 1, 10.0);
    for (int i = 0; i < 3; i++) { assert_string_equal(ask(pool, "x").reply, "x"); }
    assert_true(mot_pool_counts(pool).starts >= 3);
    mot_pool_destroy(pool);
    /* A line without end. */
    pool = pool_of("while read -r l; do [ $l = big ] && tr '\\0' x </dev/zero; echo $l; done", 1,
                   30.0);
    assert_int_equal(ask(pool, "big").status, -EMSGSIZE);
    assert_string_equal(ask(pool, "small").reply, "small");
    assert_int_equal(mot_pool_counts(pool).overlong, 1);
    mot_pool_destroy(pool);
    /* A request larger than the pipe; one that reads nothing of it and answers. */
    char *large = malloc(300001);
    memset(large, 'a', 300000);
    large[300000] = 0;
    pool = pool_of("while read -r l; do echo ${#l}; done", 1, 30.0);
    assert_string_equal(ask(pool, large).reply, "300000");
    mot_pool_destroy(pool);
    pool = pool_of("exec <&-; echo deaf; sleep 100", 1, 5.0);
    for (int i = 0; i < 2; i++) {
        const struct answer deaf = ask(pool, large);
        assert_true(deaf.status == 0 || deaf.status == -ETIMEDOUT || deaf.status == -EPIPE);
    }
    mot_pool_destroy(pool);
    free(large);
    pool = pool_of("while read -r l; do printf 'a\\r\\n'; done", 1, 10.0);
    assert_string_equal(ask(pool, "x").reply, "a");
    mot_pool_destroy(pool);
}

/* Destroyed with work open and waiting; programs that ignore the end of their input. */
static void test_cancel(void **state)
{
    (void)state;
    struct mot_pool *pool = pool_of("trap '' TERM; sleep 1000", 2, 100.0);
    struct answer answers[5] = {{0}};
    for (int i = 0; i < 5; i++) { mot_pool_submit(pool, "x", finished, &answers[i]); }
    const double start_s = now_s();
    mot_pool_destroy(pool);
    for (int i = 0; i < 5; i++) { assert_int_equal(answers[i].status, -ECANCELED); }
    assert_true(now_s() - start_s < 2.0);
    pool = pool_of("sleep 1000", 4, 100.0);
    mot_pool_destroy(pool);
    assert_true(now_s() - start_s < 4.0);
}

/* The program sees three descriptors and no blocked signal. */
static void test_clean_child(void **state)
{
    (void)state;
    struct mot_pool *pool = pool_of("read -r l; echo $(ls /proc/$$/fd | wc -l) "
                                    "$(grep SigBlk /proc/$$/status)",
                                    1, 10.0);
    struct answer answer = ask(pool, "x");
    int n = 0;
    unsigned long long blocked = 1;
    assert_int_equal(sscanf(answer.reply, "%d SigBlk: %llx", &n, &blocked), 2);
    assert_true(n >= 3 && n <= 5); /* the shell's own pipe is open while it counts */
    assert_true(blocked == 0);
    mot_pool_destroy(pool);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(test_many),   TEST(test_sleeps_for_ever), TEST(test_slow_delays_no_other),
        TEST(test_dies),   TEST(test_gives_up),        TEST(test_garbage),
        TEST(test_cancel), TEST(test_clean_child),
    };
    alarm(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
