/* Times measured in one run are what the next one expects before it has measured any; a warning
 * tells when they no longer hold, and then new ones replace them; a file that is damaged is begun
 * anew, one of a later version stays as it is; programs that end together lose nothing of each
 * other's.  A kind never seen is expected to take what the class's rates say.
 * Run it alone: ./test_sched_models */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "json.h"
#include "motley.h"
#include "policies.h"
#include "sched_core.h"
#include "scratch.h"
#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TASKS = 12 };
static char *models;

static void run_sleep(void *buffers[], void *argument)
{
    (void)buffers;
    usleep((useconds_t)(uintptr_t)argument);
}
static struct starpu_codelet codelet = {.cpu_funcs = {run_sleep}};

static void start(void)
{
    const struct mot_start_options options = {
        .workers = 1, .cores_per_worker = 1, .policy = "motley-eft", .policies = mot_policies};
    assert_int_equal(mot_start(&options), 0);
}

static struct starpu_task *task_of(const char *name, int us, double flops)
{
    struct starpu_task *task = starpu_task_create();
    task->cl = &codelet;
    task->name = name;
    task->flops = flops;
    task->cl_arg = (void *)(uintptr_t)us;
    return task;
}

/* TASKS of that name, each of so many microseconds. */
static void run(const char *name, int us)
{
    start();
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(starpu_task_submit(task_of(name, us, 1e6)), 0);
    }
    mot_wait_all();
    mot_stop();
}

/* What a task is expected to take, as a run begins. */
static struct mot_estimate expect(const char *name, double flops)
{
    start();
    starpu_pause();
    struct starpu_task *task = task_of(name, 0, flops);
    assert_int_equal(starpu_task_submit(task), 0);
    struct mot_sched *s = mot_sched_of(0);
    STARPU_PTHREAD_MUTEX_LOCK(&s->mutex);
    const struct mot_estimate e = mot_sched_estimate(s, task->sched_data, 0);
    STARPU_PTHREAD_MUTEX_UNLOCK(&s->mutex);
    starpu_resume();
    mot_wait_all();
    mot_stop();
    return e;
}

static int begin(void **state)
{
    (void)state;
    unlink(models);
    return 0;
}

static void test_kept(void **state)
{
    (void)state;
    assert_false(expect("test.other", 1e6).is_known);
    run("test.kept", 3000);
    const struct mot_estimate e = expect("test.kept", 1e6);
    assert_true(e.is_known);
    assert_true(e.p50_us > 2900.0 && e.p50_us < 30000.0);
    assert_false(expect("test.kept", 1e9).is_known); /* another size */
}

static void test_none(void **state)
{
    (void)state;
    setenv("MOTLEY_MODELS", "", 1);
    run("test.none", 100);
    assert_false(expect("test.none", 1e6).is_known);
    setenv("MOTLEY_MODELS", models, 1);
    assert_int_not_equal(access(models, F_OK), 0);
}

static void test_drift(void **state)
{
    (void)state;
    run("test.drift", 1000);
    catch_begin();
    run("test.drift", 40000);
    assert_int_equal(catch_end(), 1);
    assert_non_null(strstr(caught_text, "test.drift takes"));
    const struct mot_estimate e = expect("test.drift", 1e6);
    assert_true(e.p50_us > 39000.0);
    catch_begin();
    run("test.drift", 40000);
    assert_int_equal(catch_end(), 0);
}

/* The rates of tasks of 1e6 operations in 5 ms say 50 ms for a kind of 1e7. */
static void test_roofline(void **state)
{
    (void)state;
    run("test.rate", 5000);
    const struct mot_estimate e = expect("test.unseen", 1e7);
    assert_false(e.is_known);
    assert_true(e.p50_us > 49900.0 && e.p50_us < 1e6);
}

static void test_damaged(void **state)
{
    (void)state;
    static const char *const damaged[] = {
        "",
        "{",
        "[]",
        "{\"format\": \"motley models\"}",
        "{\"format\": \"motley models\", \"version\": 1, \"classes\": []}",
        "{\"format\": \"other\", \"version\": 1, \"classes\": {}}",
    };
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        scratch_write(models, damaged[i], strlen(damaged[i]));
        catch_begin();
        run("test.damaged", 100);
        assert_true(catch_end() >= 1);
        assert_non_null(strstr(caught_text, models));
        assert_true(expect("test.damaged", 1e6).is_known);
    }
}

/* What is inside and makes no sense is as if it were not there. */
static void test_nonsense(void **state)
{
    (void)state;
    static const char *const tasks[] = {
        "[]", "{\"test.odd\": 3}", "{\"test.odd\": {\"20.0\": {\"samples\": 4}}}",
        "{\"test.odd\": {\"20.0\": {\"samples\": [-1, 0, \"x\", null]}}}"};
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        char *text = mot_format("{\"format\": \"motley models\", \"version\": 1, \"classes\": "
                                "{\"CPU x1, 1 cores each\": {\"flop_per_us\": -4, \"tasks\": %s}}}",
                                tasks[i]);
        scratch_write(models, text, strlen(text));
        free(text);
        catch_begin();
        assert_false(expect("test.odd", 1e6).is_known);
        assert_int_equal(catch_end(), 0);
    }
}

static void test_later_version(void **state)
{
    (void)state;
    static const char later[] = "{\"format\": \"motley models\", \"version\": 2}\n";
    char *bytes;
    size_t n;
    scratch_write(models, later, strlen(later));
    catch_begin();
    run("test.later", 100);
    assert_int_equal(catch_end(), 1);
    assert_int_equal(mot_file_read(models, 1000, &bytes, &n), 0);
    assert_string_equal(bytes, later);
    free(bytes);
}

static void test_together(void **state)
{
    (void)state;
    enum { PROGRAMS = 4 };
    pid_t child[PROGRAMS];
    char name[PROGRAMS][32];
    for (int i = 0; i < PROGRAMS; i++) {
        snprintf(name[i], sizeof(name[i]), "test.together.%d", i);
        child[i] = fork();
        if (child[i] == 0) {
            for (int k = 0; k < 4; k++) { run(name[i], 50); }
            _exit(0);
        }
    }
    for (int i = 0; i < PROGRAMS; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    json_t *file = NULL;
    assert_int_equal(mot_json_load(models, 1 << 20, &file), 0);
    const json_t *class =
        json_object_iter_value(json_object_iter(json_object_get(file, "classes")));
    for (int i = 0; i < PROGRAMS; i++) {
        const json_t *task = json_object_get(json_object_get(class, "tasks"), name[i]);
        const json_t *entry = json_object_get(task, "20.0");
        assert_int_equal(json_integer_value(json_object_get(entry, "seen")), 4 * TASKS);
    }
    json_decref(file);
}

int main(void)
{
    scratch_begin("test_sched_models");
    models = scratch_path("folder/models.json");
    setenv("MOTLEY_MODELS", models, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_together, begin),
                                       cmocka_unit_test_setup(test_kept, begin),
                                       cmocka_unit_test_setup(test_none, begin),
                                       cmocka_unit_test_setup(test_drift, begin),
                                       cmocka_unit_test_setup(test_roofline, begin),
                                       cmocka_unit_test_setup(test_damaged, begin),
                                       cmocka_unit_test_setup(test_nonsense, begin),
                                       cmocka_unit_test_setup(test_later_version, begin)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(models);
    return failed;
}
