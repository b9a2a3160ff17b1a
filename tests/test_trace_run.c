/* What motley grpo --trace records beside tasks: every datum has a name that says what it is; the
 * staleness of what is trained, the prompts under way and those still admitted, the weights'
 * version, queue lengths and memory; and busy, transfer and idle time of each worker add up to the
 * makespan within 0.1 %.  Run it alone: ./test_trace_run */
#include "program.h"
#include "trace_read.h"
#include <math.h>

enum { STEPS = 6, PROMPTS = 4, ETA = 1 };

static struct mot_recording *record(const char *options)
{
    program_must(0,
                 "grpo --model tiny:1 --train_file sums:10-99 --reward_funcs exact --max_steps %d "
                 "--num_generations 4 --per_device_train_batch_size 8 "
                 "--gradient_accumulation_steps 2 --max_completion_length 8 --chunk 3 --quiet "
                 "--workers 2 --cores_per_worker 1 --trace --output_dir @/run %s",
                 STEPS, options);
    char *path = scratch_path("run/trace.json.gz");
    struct mot_recording *r;
    MOT_ASSERT(mot_recording_read(path, &r) == 0 && !r->ends_early);
    free(path);
    return r;
}

static void check_names(const struct mot_recording *r)
{
    static const char *const words[] = {"weights ",      "moment m ",  "moment v ", "gradient ",
                                        "prompt cache ", "row cache ", "drawn ",    "scores ",
                                        "advantages ",   "squares ",   "metrics "};
    enum { WORDS = sizeof(words) / sizeof(words[0]) };
    int count[WORDS] = {0};
    for (int i = 1; i < r->n_data; i++) {
        const char *name = r->data[i].name;
        check(name != NULL, "datum %d of %d has no name", i, r->n_data);
        for (int k = 0; name && k < WORDS; k++) { count[k] += strstr(name, words[k]) == name; }
    }
    for (int k = 0; k < WORDS; k++) { check(count[k] > 0, "no datum \"%s...\"", words[k]); }
    /* A step is generated ahead of the end, for the run that may go on from there. */
    const int generated = STEPS + ETA;
    check(count[4] == generated * PROMPTS && count[5] == generated * PROMPTS * 4,
          "%d prompt caches and %d row caches", count[4], count[5]);
}

struct summary {
    int n;
    double low, high, last;
};

static struct summary summary_of(const struct mot_recording *r, const char *name)
{
    struct summary s = {.low = INFINITY, .high = -INFINITY};
    for (int i = 0; i < r->n_values; i++) {
        if (strcmp(r->values[i].name, name) != 0) { continue; }
        s.n++;
        s.last = r->values[i].value;
        s.low = fmin(s.low, s.last);
        s.high = fmax(s.high, s.last);
    }
    return s;
}

static void check_values(const struct mot_recording *r)
{
    const struct summary staleness = summary_of(r, "staleness");
    check(staleness.n == STEPS * 2 && staleness.low >= 0 && staleness.high == ETA,
          "staleness: %d values from %g to %g", staleness.n, staleness.low, staleness.high);
    const struct summary running = summary_of(r, "prompts under way");
    check(running.n > STEPS * PROMPTS && running.low == 0 && running.high > 0
              && running.high <= (ETA + 1) * PROMPTS && running.last == 0,
          "prompts under way: %d values from %g to %g", running.n, running.low, running.high);
    /* Never below 0: none is begun that staleness does not admit. */
    const struct summary admitted = summary_of(r, "prompts admitted");
    check(admitted.n == running.n && admitted.low == 0 && admitted.high >= PROMPTS,
          "prompts admitted: %d values from %g to %g", admitted.n, admitted.low, admitted.high);
    const struct summary version = summary_of(r, "weights version");
    check(version.n >= STEPS && version.last >= STEPS - 1, "weights version: %d values, last %g",
          version.n, version.last);
    static const char *const recorders[] = {"memory", "tasks/waiting", "tasks/ready"};
    for (int i = 0; i < 3; i++) {
        check(summary_of(r, recorders[i]).n > 0, "no values of %s", recorders[i]);
    }
}

static void check_usage(const struct mot_recording *r)
{
    struct mot_recorded_usage *usage = mot_alloc_zeroed((size_t)r->n_workers, sizeof(*usage));
    const double makespan_us = mot_recording_usage(r, usage);
    for (int w = 0; w < r->n_workers; w++) {
        const double sum = usage[w].busy_us + usage[w].transfer_us + usage[w].idle_us;
        check(usage[w].busy_us > 0 && usage[w].idle_us > 0
                  && fabs(sum - makespan_us) <= 1e-3 * makespan_us,
              "worker %d: %g busy + %g transfer + %g idle of %g us", w, usage[w].busy_us,
              usage[w].transfer_us, usage[w].idle_us, makespan_us);
    }
    free(usage);
}

int main(void)
{
    scratch_begin("test_trace_run");
    struct mot_recording *r = record("--max_staleness 1 --staleness_mode bounded");
    check_names(r);
    check_values(r);
    check_usage(r);
    mot_recording_free(r);
    return failures > 0;
}
