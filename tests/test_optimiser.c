/* Learning-rate schedules against the formulas of transformers' get_scheduler written out, and the
 * clip factor. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "error.h"
#include "optimiser.h"

static double factor(const char *name, int step, int warmup, int total)
{
    const struct mot_schedule *s;
    assert_int_equal(mot_schedule_find(name, &s), 0);
    return mot_schedule_factor(s, step, warmup, total);
}

static void near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-12)) { fail_msg("got %.15g, expected %.15g", got, expected); }
}

static void test_schedules(void **state)
{
    (void)state;
    for (int step = 0; step < 20; step++) {
        const double up = step / 5.0, t = (step - 5) / 15.0;
        near(factor("linear", step, 5, 20), step < 5 ? up : (20 - step) / 15.0);
        near(factor("linear", step, 0, 20), (20 - step) / 20.0);
        near(factor("cosine", step, 5, 20), step < 5 ? up : 0.5 * (1.0 + cos(M_PI * t)));
        near(factor("constant", step, 5, 20), 1.0);
        near(factor("constant_with_warmup", step, 5, 20), step < 5 ? up : 1.0);
    }
    near(factor("linear", 25, 5, 20), 0.0); /* past the end */
    near(factor("cosine", 25, 5, 20), 0.0);
    near(factor("linear", 3, 5, 4), 0.6); /* a warm-up longer than the run */
    near(factor("linear", 5, 5, 5), 1.0); /* as max(1, total - warmup) gives it */
    const struct mot_schedule *s;
    assert_int_equal(mot_schedule_find("linea", &s), -EINVAL);
}

static void test_warmup_steps(void **state)
{
    (void)state;
    assert_int_equal(mot_warmup_steps(0, 0.1, 25), 3); /* rounded up */
    assert_int_equal(mot_warmup_steps(7, 0.1, 25), 7); /* steps win */
    assert_int_equal(mot_warmup_steps(0, 0.0, 25), 0);
}

static void test_clip_factor(void **state)
{
    (void)state;
    near(mot_clip_factor(0.5, 1.0), 1.0);
    near(mot_clip_factor(4.0, 1.0), 1.0 / 4.000001);
    near(mot_clip_factor(0.0, 1.0), 1.0);
    near(mot_clip_factor(4.0, 0.0), 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_warmup_steps),
        cmocka_unit_test(test_clip_factor),
    };
    return cmocka_run_group_tests_name("optimiser", tests, NULL, NULL);
}
