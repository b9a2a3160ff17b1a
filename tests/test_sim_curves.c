/* Simulated throughput has the shapes that were measured elsewhere: against staleness, with long
 * answers among short ones and devices for generation and training apart, it rises steeply from 0
 * to 1 and then hardly (AReaL's Table 7); mixes of H800 and H20, split best, come within 5 % of the
 * model of rates (AReaL-Hex).  --devices refuses what makes no sense.  77 without the simulator's
 * build.  MOTLEY_TEST_FULL=1: all five mixes, and an even split, which is worse; in a minute.
 * Run it alone: ./test_sim_curves */
#include "program.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define FILES MOT_SOURCE_DIR "/tests"

/* The result of one run; json_decref() it. */
static json_t *simulated(const char *line)
{
    program_must(0, "sim %s --policy dmdas --json", line);
    json_t *lines = lines_load("@/stdout");
    assert_int_equal(json_array_size(lines), 1);
    json_t *result = json_incref(json_array_get(lines, 0));
    json_decref(lines);
    return result;
}

static void test_staleness(void **state)
{
    (void)state;
    static const int etas[] = {0, 1, 16};
    double rate[3], most = 0.0;
    for (int i = 0; i < 3; i++) {
        char line[1024];
        snprintf(line, sizeof(line),
                 "--machine " FILES "/machines/h800-h20-box.yaml --workload " FILES
                 "/workloads/areal-1.5b.yaml --devices H800=0+2,H20=6+0 --steps 6 "
                 "--max_staleness %d",
                 etas[i]);
        json_t *r = simulated(line);
        rate[i] = number_at(r, "tokens_per_s");
        json_decref(r);
        assert_true(rate[i] > 0.97 * most);
        most = fmax(most, rate[i]);
    }
    assert_true(rate[1] > 1.5 * rate[0]);  /* 1.70 */
    assert_true(rate[2] < 1.15 * rate[1]); /* 1.05 */
}

/* Tokens a second when the steps follow each other, of generation from the first on. */
static double mix(const char *devices)
{
    char line[1024];
    snprintf(line, sizeof(line),
             "--machine " FILES "/machines/h800-h20-rates.yaml --workload " FILES
             "/workloads/even.yaml --steps 3 --devices %s",
             devices);
    json_t *r = simulated(line);
    const json_t *steps = json_object_get(r, "steps");
    const json_t *first = json_array_get(steps, 0), *last = json_array_get(steps, 2);
    double tokens = 0.0;
    for (size_t i = 1; i < 3; i++) {
        tokens += number_at(json_array_get(steps, i), "answer_tokens");
    }
    const double s = number_at(last, "end_s") - number_at(first, "end_s");
    json_decref(r);
    return tokens / s;
}

static void test_mixes(void **state)
{
    (void)state;
    /* Splits with the most throughput in whole devices when both stages go at the rates of
     * h800-h20-rates.yaml; ratios of the model with devices divisible. */
    static const struct {
        const char *devices;
        double ratio;
    } mixes[] = {{"H800=13+11,H20=24+0", 1.95},
                 {"H800=1+7,H20=24+0", 1.28},
                 {"H800=7+9,H20=24+0", 1.62},
                 {"H800=0+8,H20=34+14", 1.75}};
    const double base = mix("H800=18+6,H20=0");
    const int full = getenv("MOTLEY_TEST_FULL") != NULL;
    for (int i = 0; i < (full ? 4 : 1); i++) {
        const double ratio = mix(mixes[i].devices) / base;
        if (!(fabs(ratio / mixes[i].ratio - 1.0) < 0.05)) {
            fail_msg("%s: %.3f of 24 H800, not %.2f", mixes[i].devices, ratio, mixes[i].ratio);
        }
    }
    if (!full) { return; }
    const double half = mix("H800=12+12,H20=0"); /* the paper: the best has 1.57 times as much */
    assert_true(fabs(base / half - 1.5) < 0.06);
}

static void test_devices_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"H800", "is not CLASS=N"},
                                         {"H800=", "is not CLASS=N"},
                                         {"H800=1+", "is not CLASS=N"},
                                         {"H800=-1", "is not CLASS=N"},
                                         {"H800=3x", "is not CLASS=N"},
                                         {"H800=99999", "is not CLASS=N"},
                                         {"H100=3", "no class 'H100'"},
                                         {"cpu=3", "is a cpu"},
                                         {"H800=3000,H20=3000", "more than 4096 devices"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        program_must(1,
                     "sim --machine " FILES "/machines/h800-h20-rates.yaml --workload " FILES
                     "/workloads/even.yaml --devices %s",
                     bad[i][0]);
        if (!strstr(program_errors, bad[i][1])) {
            fail_msg("'%s' lacks '%s'", program_errors, bad[i][1]);
        }
    }
    /* Nobody left to train. */
    program_must(1, "sim --machine " FILES "/machines/h800-h20-rates.yaml --workload " FILES
                    "/workloads/even.yaml --devices H800=3+0,H20=0");
    assert_non_null(strstr(program_errors, "train.gradient"));
    program_must(2, "sim --graphs cholesky:3 --devices gpu=3");
}

int main(void)
{
    const char *program = getenv("MOTLEY_SIM_PROGRAM");
    if (access(program ? program : MOT_BINARY_DIR "/sim/motley", X_OK) != 0) {
        printf("skipped: no simulator's build (tools/setup --sim)\n");
        return 77;
    }
    scratch_begin("sim_curves");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_staleness),
        cmocka_unit_test(test_mixes),
        cmocka_unit_test(test_devices_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
