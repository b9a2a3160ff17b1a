/* Times of stages fitted to recordings: from tasks whose durations a known law made, with noise and
 * some of them far too long, the law comes out again; each kind of law; time between two tasks of a
 * worker counts and time without work does not; no coefficient is negative; what is written is a
 * machine file's stages.  Run it alone: ./test_stage_fit */
#include "scratch.h"
#include "stage_fit.h"
#include "workload.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { TASKS = 240 };
static struct mot_recorded_worker workers[1] = {{.name = (char *)"CPU 0", .kind = (char *)"CPU"}};
static struct mot_recorded_task tasks[TASKS];
static struct mot_recording recording = {
    .n_workers = 1, .workers = workers, .n_tasks = TASKS, .tasks = tasks};

static double law_s(const struct mot_machine_stage *law, const struct mot_recorded_task *t)
{
    const double compute = law->flop_per_s > 0 ? t->flop / law->flop_per_s : 0;
    const double memory = law->bytes_per_s > 0 ? t->bytes / law->bytes_per_s : 0;
    return law->s + law->s_per_token * t->tokens + law->s_per_row * t->rows + fmax(compute, memory);
}

/* Tasks of many sizes, one after the other, with a break of a second after every tenth. */
static void fill(const struct mot_machine_stage *law)
{
    double now_us = 0;
    for (int i = 0; i < TASKS; i++) {
        const int rows = 1 + i % 7, tokens = rows * (4 + i % 5);
        tasks[i] = (struct mot_recorded_task){.number = (uint32_t)i + 1,
                                              .name = (char *)"some.task",
                                              .stage = (char *)"some",
                                              .rows = rows,
                                              .tokens = tokens,
                                              .flop = 1e6 * tokens * (1 + i % 3),
                                              .bytes = 1e5 * (4 + i % 5)};
        if (i % 10 == 9) { now_us += 1e6; }
        const double noise = 1 + 0.02 * sin(i * 12.9898), wrong = i % 17 == 0 ? 3 : 1;
        const double us = 1e6 * law_s(law, &tasks[i]) * noise * wrong;
        tasks[i].ready_us = now_us;
        tasks[i].start_us = now_us + 0.3 * us; /* taken late, though the worker was free */
        now_us += us;
        tasks[i].end_us = now_us;
    }
}

static void test_laws(void **state)
{
    (void)state;
    static const struct mot_machine_stage laws[] = {
        {.s = 1e-3},
        {.s = 2e-4, .s_per_token = 5e-5},
        {.s_per_row = 3e-4},
        {.flop_per_s = 2e10},
        {.s = 5e-4, .flop_per_s = 1e10},
        {.flop_per_s = 2e11, .bytes_per_s = 2e8},
    };
    for (size_t l = 0; l < sizeof(laws) / sizeof(laws[0]); l++) {
        const struct mot_recording *list[] = {&recording};
        struct mot_stage_fits fits;
        fill(&laws[l]);
        mot_stage_fit(list, 1, &fits);
        assert_int_equal(fits.n, 1);
        const struct mot_stage_fit *f = &fits.fit[0];
        assert_string_equal(f->times.name, "some.task");
        assert_int_equal(f->tasks, TASKS);
        assert_true(f->sizes > 30 && f->error < 0.03);
        assert_true(f->times.s >= 0 && f->times.s_per_token >= 0 && f->times.s_per_row >= 0);
        for (int i = 0; i < TASKS; i++) {
            const double wanted = law_s(&laws[l], &tasks[i]), got = law_s(&f->times, &tasks[i]);
            if (!(fabs(got - wanted) <= 0.06 * wanted)) {
                fail_msg("law %zu, task %d: %g s, not %g s", l, i, got, wanted);
            }
        }
        mot_stage_fits_free(&fits);
    }
}

static void test_written(void **state)
{
    (void)state;
    static const struct mot_machine_stage law = {.s = 5e-4, .flop_per_s = 1e10};
    const struct mot_recording *list[] = {&recording};
    struct mot_stage_fits fits;
    fill(&law);
    mot_stage_fit(list, 1, &fits);
    char *path = scratch_path("machine.yaml");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("name: m\nclasses:\n  - name: cpu\n    kind: cpu\n    tflop_s: {float32: 1}\n"
          "    memory_gib: 1\n    memory_gb_s: 1\n    stages:\n",
          file);
    mot_stage_fits_write(&fits, 6, file);
    fclose(file);
    struct mot_machine machine;
    assert_int_equal(mot_machine_load(path, mot_workload_stages(), &machine), 0);
    const struct mot_machine_work work = {.task = "some.task", .stage = "other", .flop = 5e6};
    const double s = mot_machine_expected_s(&machine, 0, &work);
    assert_true(fabs(s - 1e-3) < 5e-5);
    mot_machine_free(&machine);
    mot_stage_fits_free(&fits);
    free(path);
}

int main(void)
{
    scratch_begin("stage_fit");
    const struct CMUnitTest list[] = {cmocka_unit_test(test_laws), cmocka_unit_test(test_written)};
    return cmocka_run_group_tests(list, NULL, NULL);
}
