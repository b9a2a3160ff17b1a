/* motley devices --calibrate: it finds a time for every stage that a training step has, on
 * two workers; the machine file that it writes loads, and simulated training on it takes a time;
 * what cannot be measured or written is refused.  motley bench sim holds simulated steps against
 * real ones: its lines are complete (how near they are is for a quiet machine to tell).  77 without
 * the simulator's build.  Run it alone: ./test_calibrate */
#include "program.h"
#include <math.h>

static void check_stages(const char *shape)
{
    static const char *const stages[] = {"rollout.prefill", "rollout.generate", "reward.score",
                                         "train.advantage", "train.gradient",   "train.reduce",
                                         "train.norm",      "train.update"};
    program_must(0, "devices --calibrate --json --quiet %s --write @/machine.yaml", shape);
    json_t *lines = lines_load("@/stdout");
    const json_t *found = json_object_get(json_array_get(lines, 0), "stages");
    check(number_at(json_array_get(lines, 0), "memory_bytes_per_s") > 0, "no memory bandwidth");
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        const json_t *stage = json_object_get(found, stages[i]);
        check(stage != NULL && number_at(stage, "tasks") > 0, "nothing of %s", stages[i]);
        if (!stage) { continue; }
        const double any = number_at(stage, "s") + number_at(stage, "s_per_token")
                           + number_at(stage, "s_per_row") + number_at(stage, "flop_per_s");
        check(any > 0, "%s takes no time", stages[i]);
    }
    json_decref(lines);
    program_must(0, "sim --json --machine @/machine.yaml --workload " MOT_SOURCE_DIR
                    "/tests/workloads/smollm2-step.yaml --steps 1");
    lines = lines_load("@/stdout");
    check(number_at(json_array_get(lines, 0), "makespan_s") > 0, "no makespan");
    json_decref(lines);
}

static void check_bench(void)
{
    program_must(0, "bench sim --model tiny:1 --quiet --repeats 1 --steps 3 --prompts 2 "
                    "--max_completion_length 4 --workers 2 --cores_per_worker 1");
    json_t *lines = lines_load("@/stdout");
    check(json_array_size(lines) == 2, "%zu lines", json_array_size(lines));
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        const double real = number_at(line, "real_step_s");
        const double simulated = number_at(line, "simulated_step_s");
        check(real > 0 && simulated > 0 && number_at(line, "ratio") > 0, "line %zu", i);
        check(i == 1 || fabs(number_at(line, "ratio") - simulated / real) < 1e-6, "ratio %zu", i);
    }
    check(number_at(json_array_get(lines, 1), "worst_ratio") > 0, "no worst ratio");
    json_decref(lines);
}

static void refused(int code, const char *line, const char *word)
{
    program_must(code, "%s", line);
    check(strstr(program_errors, word) != NULL, "%s: %s", line, program_errors);
}

int main(void)
{
    const char *program = getenv("MOTLEY_SIM_PROGRAM");
    if (access(program ? program : MOT_BINARY_DIR "/sim/motley", X_OK) != 0) {
        printf("skipped: no simulator's build (tools/setup --sim)\n");
        return 77;
    }
    scratch_begin("calibrate");
    check_stages("--workers 2 --cores_per_worker 1");
    check_bench();
    refused(2, "devices --write @/x.yaml", "--calibrate");
    refused(1, "devices --calibrate --model @/none", "none");
    refused(1, "devices --calibrate --quiet --write @/none/x.yaml", "x.yaml");
    setenv("MOTLEY_TRACE", "/dev/null", 1);
    refused(1, "devices --calibrate", "MOTLEY_TRACE");
    unsetenv("MOTLEY_TRACE");
    refused(1, "bench sim --model tiny:1 --per_device_train_batch_size 3", "3");
    setenv("MOTLEY_SIM_PROGRAM", "/none/such", 1);
    refused(1, "bench sim --model tiny:1", "/none/such");
    return failures > 0;
}
