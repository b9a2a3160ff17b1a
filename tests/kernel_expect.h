/* What the tests of the kernels share: numbers to compute with, and comparison with expected values
 * in double.  An output is filled with NaN before, and NaN fails every comparison. */
#ifndef KERNEL_EXPECT_H
#define KERNEL_EXPECT_H
#include "kernels.h"
#include "rng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#    include <omp.h>
#endif

static int failures;

static inline struct mot_exec exec_create(void)
{
    return (struct mot_exec){.kernels = &mot_kernels_cpu, .arena = mot_arena_create()};
}

static inline void use_threads(int n)
{
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    (void)n;
#endif
}

/* n normal numbers, another list for each seed. */
static inline float *numbers(size_t n, uint32_t seed)
{
    float *x = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) { x[i] = mot_normal(7, MOT_RNG_TEST, seed, (uint32_t)i, 0); }
    return x;
}

static inline float *nans(size_t n)
{
    float *x = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) { x[i] = NAN; }
    return x;
}

static inline double *doubles(size_t n)
{
    return calloc(n, sizeof(double));
}

static inline double *widened(const float *x, size_t n)
{
    double *y = malloc(n * sizeof(double));
    for (size_t i = 0; i < n; i++) { y[i] = x[i]; }
    return y;
}

/* Every number within limit times the largest expected one. */
static inline void expect(const char *what, const float *got, const double *want, size_t n,
                          double limit)
{
    double scale = 0.0, worst = 0.0;
    int bad = 0;
    for (size_t i = 0; i < n; i++) { scale = fmax(scale, fabs(want[i])); }
    for (size_t i = 0; i < n; i++) {
        const double error = fabs((double)got[i] - want[i]);
        if (!(error <= limit * scale)) {
            if (!bad) { printf("  %s[%zu]: want %.9g, got %.9g\n", what, i, want[i], got[i]); }
            bad = 1;
        }
        worst = fmax(worst, error);
    }
    printf("%-38s %s (worst %.2g of %.3g)\n", what, bad ? "FAIL" : "ok", worst, scale);
    failures += bad;
}

static inline void expect_equal(const char *what, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(a + i, b + i, sizeof(float)) != 0) {
            printf("  %s[%zu]: %.9g and %.9g differ: FAIL\n", what, i, a[i], b[i]);
            failures++;
            return;
        }
    }
}

static inline void expect_true(const char *what, int truth)
{
    if (!truth) {
        printf("  %s: FAIL\n", what);
        failures++;
    }
}
#endif
