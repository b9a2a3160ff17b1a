/* The recorder, written and read back.  Tasks: names, hints, times in order, who submitted them,
 * and the versions of their data, from which the graph comes out again under several policies;
 * tasks submitted to StarPU directly; decisions and values; a full ring makes its thread wait and
 * drops nothing; busy + waiting + idle of each worker is the makespan, and the busy time is what
 * the tasks measured themselves; a killed program's file opens, and so does one cut off anywhere;
 * other files are refused with a message.  Run it alone: ./test_trace */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "child.h"
#include "file.h"
#include "motley.h"
#include "stages.h"
#include "trace_read.h"
#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <zlib.h>

static const char path[] = MOT_BINARY_DIR "/test_trace.json.gz";

static void start(const char *policy)
{
    const struct mot_start_options options = {.workers = 2,
                                              .cores_per_worker = 1,
                                              .policy = policy,
                                              .watchdog_s = 60,
                                              .stage_name = mot_stage_name};
    assert_int_equal(mot_start(&options), 0);
}

static struct mot_recording *read_back(void)
{
    struct mot_recording *r = NULL;
    assert_int_equal(mot_recording_read(path, &r), 0);
    unlink(path);
    return r;
}

static void nothing_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
}
static struct starpu_codelet nothing = {.cpu_funcs = {nothing_cpu}, .name = "nothing"};
static struct starpu_codelet touch = {
    .cpu_funcs = {nothing_cpu}, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = "touch"};

static void insert(const char *name, int n, const starpu_data_handle_t *handles,
                   const enum starpu_data_access_mode *modes)
{
    assert_int_equal(
        mot_task_insert(&(struct mot_task){
            .codelet = &touch, .name = name, .n_buffers = n, .handles = handles, .modes = modes}),
        0);
}

static const struct mot_recorded_task *find(const struct mot_recording *r, const char *name)
{
    for (int i = 0; i < r->n_tasks; i++) {
        if (strcmp(r->tasks[i].name, name) == 0) { return &r->tasks[i]; }
    }
    fail_msg("no task %s", name);
    return NULL;
}

static void check_times(const struct mot_recording *r)
{
    for (int i = 0; i < r->n_tasks; i++) {
        const struct mot_recorded_task *t = &r->tasks[i];
        assert_true(t->submit_us <= t->ready_us && t->ready_us <= t->popped_us
                    && t->popped_us <= t->start_us && t->start_us <= t->end_us
                    && t->end_us - t->submit_us < 60e6);
        assert_in_range(t->worker, 0, r->n_workers - 1);
    }
}

/* ---- Hints ---------------------------------------------------------------------------------- */

static void test_hints(void **state)
{
    (void)state;
    start("lws");
    assert_int_equal(mot_trace_open(path), 0);
    assert_true(mot_trace_is_on());
    const struct mot_task task = {.codelet = &nothing,
                                  .name = "train.\"gradient\"",
                                  .hint = {.stage = MOT_STAGE_GRADIENT,
                                           .step = 1,
                                           .group = 3,
                                           .version = -1,
                                           .flop = 1e6,
                                           .bytes = 2.5,
                                           .tokens = 5,
                                           .rows = 2}};
    for (int i = 0; i < 300; i++) { assert_int_equal(mot_task_insert(&task), 0); }
    assert_int_equal(starpu_task_insert(&nothing, STARPU_NAME, "direct", 0), 0);
    mot_wait_all();
    assert_int_equal(mot_trace_close(), 0);
    assert_false(mot_trace_is_on());
    assert_int_equal(mot_task_insert(&task), 0); /* not recorded */
    mot_stop();
    assert_int_equal(mot_trace_last_stats().tasks, 301);

    struct mot_recording *r = read_back();
    assert_false(r->ends_early);
    assert_string_equal(r->policy, "lws");
    assert_int_equal(r->n_workers, 2);
    assert_string_equal(r->workers[1].kind, "CPU");
    assert_int_equal(r->n_tasks, 301);
    check_times(r);
    for (int i = 0; i < 300; i++) {
        const struct mot_recorded_task *t = &r->tasks[i];
        assert_int_equal(t->number, i + 1);
        assert_string_equal(t->name, "train.\"gradient\"");
        assert_string_equal(t->stage, "gradient");
        assert_true(t->step == 1 && t->group == 3 && t->version == -1);
        assert_true(t->tokens == 5 && t->rows == 2 && t->flop == 1e6 && t->bytes == 2.5);
        assert_int_equal(t->size_class, 19);
    }
    const struct mot_recorded_task *direct = find(r, "direct");
    assert_null(direct->stage);
    assert_int_equal(direct->step, -1);
    mot_recording_free(r);
}

/* ---- The graph ------------------------------------------------------------------------------ */

static void submit_last(void *argument)
{
    const enum starpu_data_access_mode modes[] = {STARPU_R, STARPU_RW};
    insert("last", 2, argument, modes);
}

/* a -> {b, c} -> d, and last, which d's end submits. */
static void submit_diamond(starpu_data_handle_t h[4])
{
    const enum starpu_data_access_mode modes[] = {STARPU_R, STARPU_R, STARPU_W};
    insert("a", 1, (starpu_data_handle_t[]){h[0]}, modes + 2);
    insert("b", 2, (starpu_data_handle_t[]){h[0], h[1]}, modes + 1);
    insert("c", 2, (starpu_data_handle_t[]){h[0], h[2]}, modes + 1);
    const starpu_data_handle_t three[] = {h[1], h[2], h[3]};
    assert_int_equal(mot_task_insert(&(struct mot_task){.codelet = &touch,
                                                        .name = "d",
                                                        .n_buffers = 3,
                                                        .handles = three,
                                                        .modes = modes,
                                                        .done = submit_last,
                                                        .argument_done = h}),
                     0);
}

static void check_access(const struct mot_recorded_task *t, int i, const struct mot_recording *r,
                         const char *name, uint32_t version, enum mot_recorded_mode mode)
{
    assert_true(i < t->n_accesses);
    const struct mot_recorded_access *a = &t->accesses[i];
    assert_string_equal(r->data[a->data].name, name);
    assert_int_equal(a->version, version);
    assert_int_equal(a->mode, mode);
    assert_true(a->bytes == 4.0 && r->data[a->data].bytes == 4.0);
}

static void test_graph(void **state)
{
    (void)state;
    static const char *const policies[] = {"lws", "eager", "dmdas", "modular-heft", "heteroprio"};
    for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
        start(policies[p]);
        assert_int_equal(mot_trace_open(path), 0);
        starpu_data_handle_t h[4];
        for (int i = 0; i < 4; i++) {
            starpu_variable_data_register(&h[i], -1, 0, sizeof(int));
            mot_data_name(h[i], "datum %d", i);
        }
        submit_diamond(h);
        mot_wait_all();
        for (int i = 0; i < 4; i++) { starpu_data_unregister(h[i]); }
        mot_stop();
        struct mot_recording *r = read_back();
        assert_int_equal(r->n_tasks, 5);
        assert_int_equal(r->n_data, 5);
        check_times(r);
        check_access(find(r, "a"), 0, r, "datum 0", 1, MOT_RECORDED_W);
        check_access(find(r, "b"), 0, r, "datum 0", 1, MOT_RECORDED_R);
        check_access(find(r, "b"), 1, r, "datum 1", 1, MOT_RECORDED_W);
        check_access(find(r, "c"), 1, r, "datum 2", 1, MOT_RECORDED_W);
        check_access(find(r, "d"), 0, r, "datum 1", 1, MOT_RECORDED_R);
        check_access(find(r, "d"), 1, r, "datum 2", 1, MOT_RECORDED_R);
        check_access(find(r, "d"), 2, r, "datum 3", 1, MOT_RECORDED_W);
        check_access(find(r, "last"), 1, r, "datum 1", 2, MOT_RECORDED_RW);
        assert_int_equal(find(r, "last")->by, find(r, "d")->number);
        assert_int_equal(find(r, "d")->by, 0);
        assert_true(find(r, "b")->ready_us >= find(r, "a")->end_us);
        mot_recording_free(r);
    }
}

/* ---- Decisions and values ------------------------------------------------------------------- */

static void decide_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
    const struct mot_trace_candidate candidates[] = {{0, 12.5f}, {1, INFINITY}};
    mot_trace_decision(starpu_task_get_current(), candidates, 2, 0, "does not fit");
    mot_trace_value("staleness", 3);
}

static void test_decisions(void **state)
{
    (void)state;
    static struct starpu_codelet decide = {.cpu_funcs = {decide_cpu}, .name = "decide"};
    start("lws");
    assert_int_equal(mot_trace_open(path), 0);
    assert_int_equal(mot_task_insert(&(struct mot_task){.codelet = &decide, .name = "decide"}), 0);
    mot_stop();
    struct mot_recording *r = read_back();
    assert_int_equal(r->n_decisions, 1);
    const struct mot_recorded_decision *d = &r->decisions[0];
    assert_int_equal(d->task, find(r, "decide")->number);
    assert_int_equal(d->worker, 0);
    assert_string_equal(d->veto, "does not fit");
    assert_int_equal(d->n_candidates, 2);
    assert_true(d->candidates[0].estimate_us == 12.5 && isnan(d->candidates[1].estimate_us));
    int found = 0;
    for (int i = 0; i < r->n_values; i++) {
        found += strcmp(r->values[i].name, "staleness") == 0 && r->values[i].value == 3.0;
    }
    assert_int_equal(found, 1);
    mot_recording_free(r);
}

/* ---- A full ring ---------------------------------------------------------------------------- */

enum { FLOOD = 300000 };

static void test_full(void **state)
{
    (void)state;
    start("lws");
    assert_int_equal(mot_trace_open(path), 0);
    assert_int_equal(mot_task_insert(&(struct mot_task){.codelet = &nothing, .name = "one"}), 0);
    for (int i = 0; i < FLOOD; i++) { mot_trace_value("flood", i); }
    mot_stop();
    const struct mot_trace_stats stats = mot_trace_last_stats();
    assert_true(stats.waits > 0 && stats.waited_us > 0.0);
    struct mot_recording *r = read_back();
    assert_true(r->waits == stats.waits && r->waited_us > 0.0);
    int next = 0;
    for (int i = 0; i < r->n_values; i++) {
        if (strcmp(r->values[i].name, "flood") != 0) { continue; }
        assert_true(r->values[i].value == next); /* all there, in order */
        next++;
    }
    assert_int_equal(next, FLOOD);
    mot_recording_free(r);
}

/* ---- Where the time goes -------------------------------------------------------------------- */

static _Atomic double measured_us[2];

static void sleep_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
    const double begin_us = starpu_timing_now();
    usleep(3000);
    const int worker = starpu_worker_get_id_check();
    measured_us[worker] = measured_us[worker] + starpu_timing_now() - begin_us;
}

static void test_usage(void **state)
{
    (void)state;
    static struct starpu_codelet sleeper = {.cpu_funcs = {sleep_cpu}, .name = "sleep"};
    start("eager");
    assert_int_equal(mot_trace_open(path), 0);
    measured_us[0] = measured_us[1] = 0.0;
    const double begin_us = starpu_timing_now();
    for (int i = 0; i < 41; i++) {
        assert_int_equal(mot_task_insert(&(struct mot_task){.codelet = &sleeper, .name = "sleep"}),
                         0);
        if (i == 20) { usleep(30000); }
    }
    mot_wait_all();
    const double wall_us = starpu_timing_now() - begin_us;
    mot_stop();
    struct mot_recording *r = read_back();
    struct mot_recorded_usage usage[2];
    const double makespan_us = mot_recording_usage(r, usage);
    assert_true(makespan_us <= wall_us && makespan_us > 0.9 * wall_us);
    for (int w = 0; w < 2; w++) {
        const double sum_us = usage[w].busy_us + usage[w].transfer_us + usage[w].idle_us;
        print_message("worker %d: busy %.0f us (measured %.0f), waits for data %.0f, idle %.0f\n",
                      w, usage[w].busy_us, measured_us[w], usage[w].transfer_us, usage[w].idle_us);
        assert_true(fabs(sum_us - makespan_us) <= 1e-3 * makespan_us);
        assert_true(usage[w].busy_us >= measured_us[w]);
        assert_true(usage[w].busy_us <= 1.05 * measured_us[w] + 2000.0);
        assert_true(usage[w].idle_us > 0.0 && usage[w].transfer_us >= 0.0);
    }
    mot_recording_free(r);
}

/* ---- Tasks that something else ends --------------------------------------------------------- */

static struct starpu_task *_Atomic held;

static void hold_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
    starpu_task_end_dep_add(starpu_task_get_current(), 1);
    held = starpu_task_get_current();
}

/* The body's end is recorded, not that of the task; and copies, which StarPU does not tell of. */
static void test_ends(void **state)
{
    (void)state;
    static struct starpu_codelet hold = {.cpu_funcs = {hold_cpu}, .name = "hold"};
    for (int own = 0; own < 2; own++) {
        start("lws");
        assert_int_equal(mot_trace_open(path), 0);
        held = NULL;
        if (own) {
            const struct mot_task task = {.codelet = &hold, .name = "hold"};
            assert_int_equal(mot_task_insert(&task), 0);
        } else {
            assert_int_equal(starpu_task_insert(&hold, 0), 0);
        }
        while (!held) { usleep(1000); }
        usleep(100000);
        starpu_task_end_dep_release(held);
        mot_wait_all();
        starpu_data_handle_t from, to;
        int value = 7, copy = 0;
        starpu_variable_data_register(&from, STARPU_MAIN_RAM, (uintptr_t)&value, sizeof(int));
        starpu_variable_data_register(&to, STARPU_MAIN_RAM, (uintptr_t)&copy, sizeof(int));
        assert_int_equal(starpu_data_cpy(to, from, 0, NULL, NULL), 0);
        usleep(50000);
        starpu_data_unregister(from);
        starpu_data_unregister(to);
        mot_stop();
        struct mot_recording *r = read_back();
        assert_int_equal(r->n_tasks, 2);
        for (int i = 0; i < 2; i++) {
            assert_true(r->tasks[i].end_us - r->tasks[i].start_us < 40000.0);
        }
        assert_int_equal(find(r, "data_cpy")->accesses[0].mode, MOT_RECORDED_W);
        mot_recording_free(r);
    }
}

/* ---- Killed, cut off, not ours -------------------------------------------------------------- */

static int run_until_killed(void)
{
    start("lws");
    if (mot_trace_open(path)) { return 2; }
    for (;;) {
        mot_task_insert(&(struct mot_task){.codelet = &nothing, .name = "endless"});
        usleep(500);
    }
}

static void test_killed(void **state)
{
    (void)state;
    unlink(path);
    const pid_t pid = fork();
    if (pid == 0) { _exit(run_until_killed()); }
    struct stat file = {0};
    for (int i = 0; i < 600 && file.st_size == 0; i++) { /* at most half a minute */
        usleep(50000);
        (void)!stat(path, &file);
    }
    usleep(1500000); /* a second, so that two members are there */
    kill(pid, SIGKILL);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    struct mot_recording *r = read_back();
    assert_true(r->ends_early);
    assert_true(r->n_tasks > 100);
    check_times(r);
    const double covered_us = r->tasks[r->n_tasks - 1].end_us - r->tasks[0].end_us;
    print_message("killed: %d tasks over %.2f s\n", r->n_tasks, covered_us * 1e-6);
    assert_true(covered_us > 0.9e6); /* all but the last second */
    mot_recording_free(r);
}

static void write_path(const void *bytes, size_t n)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

static void test_cut_off(void **state)
{
    (void)state;
    start("lws");
    assert_int_equal(mot_trace_open(path), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mot_task_insert(&(struct mot_task){.codelet = &nothing, .name = "t"}), 0);
    }
    mot_stop();
    char *bytes;
    size_t n;
    int whole = 0;
    assert_int_equal(mot_file_read(path, 1 << 20, &bytes, &n), 0);
    for (size_t cut = 1; cut <= n; cut++) {
        struct mot_recording *r;
        write_path(bytes, cut);
        assert_int_equal(mot_recording_read(path, &r), 0);
        assert_true(cut == n || r->ends_early);
        whole += !r->ends_early;
        mot_recording_free(r);
    }
    assert_int_equal(whole, 1);
    free(bytes);
    unlink(path);
}

static void refuse(const char *text, const char *word)
{
    struct mot_recording *r = NULL;
    write_path(text, strlen(text));
    const int error = mot_recording_read(path, &r);
    if (error == 0 || !strstr(mot_last_message(), word)) {
        print_error("%s: %d, %s\n", text, error, mot_last_message());
    }
    assert_true(error < 0 && r == NULL);
    assert_non_null(strstr(mot_last_message(), word));
    assert_non_null(strstr(mot_last_message(), path));
    unlink(path);
}

#define START                                                                                    \
    "[\n{\"ph\":\"M\",\"name\":\"motley_start\",\"args\":{\"policy\":\"p\",\"simulated\":false," \
    "\"workers\":[{\"name\":\"w\",\"kind\":\"CPU\",\"device\":0,\"node\":0}],\"nodes\":[{"       \
    "\"name\":\"n\",\"bytes\":-1}]}},\n"
#define TASK(worker, data)                                                           \
    "{\"ph\":\"X\",\"name\":\"t\",\"ts\":1,\"dur\":1,\"args\":{\"task\":1,\"by\":0," \
    "\"worker\":" worker                                                             \
    ",\"size_class\":0,\"submit_us\":0,\"ready_us\":0,\"popped_us\":0,\"data\":[" data "]}},\n"

static void test_not_ours(void **state)
{
    (void)state;
    struct mot_recording *r;
    assert_true(mot_recording_read("/nonexistent/trace.json.gz", &r) < 0);
    refuse("", "empty");
    refuse("{\"traceEvents\":[]}\n", "\"ph\"");
    refuse("[\n{\"ph\":\"X\",\"name\":\"t\",\"args\":{}},\n", ":2: not a recording of Motley");
    refuse(START "nonsense\n", ":3:");
    refuse(START TASK("7", ""), ":3: a task on worker 7 of 1");
    refuse(START TASK("0", "[1,1,4]"), ":3: not an access");
    refuse(START TASK("0", "[-1,1,4,\"R\"]"), ":3: not an access");
    refuse(START TASK("0", "[1,0,4,\"W\"]"), ":3: not an access");
    refuse(START START, "second start");
    write_path(START TASK("0", "[1,1,4,\"W\"]"), strlen(START TASK("0", "[1,1,4,\"W\"]")));
    r = read_back(); /* the same, right */
    assert_true(r->ends_early && r->n_tasks == 1 && r->n_data == 2);
    mot_recording_free(r);
}

static int start_unwritable(void)
{
    setenv("MOTLEY_TRACE", "/nonexistent/folder/trace.json.gz", 1);
    return mot_start(&(struct mot_start_options){.workers = 1}) == -ENOENT ? 7 : 1;
}

static void test_unwritable(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(child_run(start_unwritable, text, sizeof(text)), 7);
    assert_non_null(strstr(text, "/nonexistent/folder/trace.json.gz: cannot write"));
}

static int start_full_disk(void)
{
    setenv("MOTLEY_TRACE", "/dev/full", 1);
    if (mot_start(&(struct mot_start_options){.workers = 1})) { return 1; }
    mot_task_insert(&(struct mot_task){.codelet = &nothing, .name = "t"});
    mot_wait_all();
    return mot_trace_close() == -ENOSPC ? 7 : 2;
}

static void test_full_disk(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(child_run(start_full_disk, text, sizeof(text)), 7);
    assert_non_null(strstr(text, "/dev/full: cannot write: No space left on device"));
}

int main(void)
{
    unsetenv("MOTLEY_TRACE");
    /* The children first: they start from a process without threads. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),    cmocka_unit_test(test_unwritable),
        cmocka_unit_test(test_full_disk), cmocka_unit_test(test_hints),
        cmocka_unit_test(test_graph),     cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_full),      cmocka_unit_test(test_usage),
        cmocka_unit_test(test_ends),      cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_not_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
