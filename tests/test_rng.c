/* Random numbers are Philox4x32-10's: the known answers of Random123 (Salmon et al. 2011, file
 * kat_vectors); uniform, whole and normal numbers have the mean and variance of their names;
 * streams and each word of the counter tell numbers apart.
 * Run it alone: ./test_rng */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "rng.h"
#include <cmocka.h>
#include <math.h>

enum { DRAWS = 100000 };

static void test_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t key;
        uint32_t counter[4], out[4];
    } known[] = {
        {0, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {0xffffffffffffffff,
         {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        mot_philox(known[i].key, known[i].counter, out);
        assert_memory_equal(out, known[i].out, sizeof(out));
    }
}

/* Of n numbers, within six standard errors of the mean and of the variance. */
static void near(double sum, double squares, double mean, double variance, double fourth)
{
    const double m = sum / DRAWS, v = squares / DRAWS - m * m;
    assert_true(fabs(m - mean) < 6.0 * sqrt(variance / DRAWS));
    assert_true(fabs(v - variance) < 6.0 * sqrt((fourth - variance * variance) / DRAWS));
}

static void test_moments(void **state)
{
    (void)state;
    double u = 0.0, uu = 0.0, k = 0.0, kk = 0.0, z = 0.0, zz = 0.0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        const double x = mot_uniform(7, MOT_RNG_TEST, 1, 2, i);
        const double whole = mot_uniform_int(7, MOT_RNG_TEST, 1, i, 3, 6);
        const double normal = mot_normal(7, MOT_RNG_TEST, i, 2, 3);
        assert_true(x >= 0.0 && x < 1.0 && whole <= 5.0);
        u += x, uu += x * x, k += whole, kk += whole * whole, z += normal, zz += normal * normal;
    }
    near(u, uu, 0.5, 1.0 / 12.0, 1.0 / 80.0);
    near(k, kk, 2.5, 35.0 / 12.0, 707.0 / 48.0);
    near(z, zz, 0.0, 1.0, 3.0);
}

static void test_independence(void **state)
{
    (void)state;
    const float base = mot_uniform(1, MOT_RNG_SAMPLE, 2, 3, 4);
    assert_true(base == mot_uniform(1, MOT_RNG_SAMPLE, 2, 3, 4));
    assert_true(base != mot_uniform(2, MOT_RNG_SAMPLE, 2, 3, 4));
    assert_true(base != mot_uniform(1ull << 32 | 1, MOT_RNG_SAMPLE, 2, 3, 4));
    assert_true(base != mot_uniform(1, MOT_RNG_SHUFFLE, 2, 3, 4));
    assert_true(base != mot_uniform(1, MOT_RNG_SAMPLE, 3, 3, 4));
    assert_true(base != mot_uniform(1, MOT_RNG_SAMPLE, 2, 4, 4));
    assert_true(base != mot_uniform(1, MOT_RNG_SAMPLE, 2, 3, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_answers),
                                       cmocka_unit_test(test_moments),
                                       cmocka_unit_test(test_independence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
