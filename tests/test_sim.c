/* motley sim, run as a program: times that can be computed by hand come out, busy + transfer + idle
 * is the makespan on every device, runs repeat exactly, noise and a device that slows down change
 * what happens and not what is expected, staleness stays within its bound, memories are kept to,
 * what cannot be is refused, and recordings say the same as results.  77 without the simulator's
 * build.  Run it alone: ./test_sim */
#include "program.h"
#include "trace_read.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define FILES MOT_SOURCE_DIR "/tests"

static void write_file(const char *name, const char *text)
{
    char *path = scratch_path(name);
    scratch_write(path, text, strlen(text));
    free(path);
}

/* The result of one run; json_decref() it. */
static json_t *simulated(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *line;
    MOT_ASSERT(vasprintf(&line, format, arguments) >= 0);
    va_end(arguments);
    program_must(0, "sim %s --json", line);
    free(line);
    json_t *lines = lines_load("@/stdout");
    assert_int_equal(json_array_size(lines), 1);
    json_t *result = json_incref(json_array_get(lines, 0));
    json_decref(lines);
    return result;
}

static double makespan(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *line;
    MOT_ASSERT(vasprintf(&line, format, arguments) >= 0);
    va_end(arguments);
    json_t *result = simulated("%s", line);
    free(line);
    const double s = number_at(result, "makespan_s");
    json_decref(result);
    return s;
}

/* Relative, and absolute to what StarPU itself takes. */
static void about(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-3 * wanted + 1e-3)) {
        fail_msg("%.9g s, not %.9g s", got, wanted);
    }
}

/* One step on one CPU worker, every stage with a time of its own. */
static const char one_cpu[] = "name: one\nclasses:\n  - {name: cpu, kind: cpu, tflop_s: "
                              "{float32: 1}, memory_gib: 8, memory_gb_s: 100,\n     stages: "
                              "{rollout.prefill: {ms: 30}, generate: {ms_per_token: 1}, reward: "
                              "{ms: 10}, advantage: {ms: 5},\n              gradient: {ms: 100}, "
                              "reduce: {ms: 2}, update: {ms: 7}, cast: {ms: 0}}}\n";
/* 4 answers of 20 tokens; 2 layers make 4 groups of weights. */
static const char small[] =
    "name: small\nmodel: {n_layers: 2, hidden_size: 64, intermediate_size: 128, n_heads: 4,\n"
    "        n_kv_heads: 2, head_dim: 16, vocab_size: 100}\nsteps: 1\nprompts_per_step: 2\n"
    "group_size: 2\nprompt_tokens: {mean: 10, max: 10}\nanswer_tokens: {mean: 20, max: 20}\n"
    "micro_batch: 2\nrows_per_task: 2\n";

static void test_by_hand(void **state)
{
    (void)state;
    write_file("one.yaml", one_cpu);
    write_file("small.yaml", small);
    /* heteroprio divides by times that it has measured. */
    char zero[sizeof(one_cpu)];
    memcpy(zero, one_cpu, sizeof(zero));
    memcpy(strstr(zero, "advantage: {ms: 5}"), "advantage: {ms: 0}", 18);
    write_file("zero.yaml", zero);
    program_must(0, "sim --machine @/zero.yaml --workload @/small.yaml --policy heteroprio");
    /* Two prefills; 80 tokens; 4 scores; 2 advantages; 2 gradients; 4 reduces and the norm; 4
     * updates. */
    const double wanted =
        2 * 0.030 + 80 * 0.001 + 4 * 0.010 + 2 * 0.005 + 2 * 0.1 + 5 * 0.002 + 4 * 0.007;
    static const char *const policies[] = {"eager", "dmdas", "modular-heft", "lws"};
    for (int i = 0; i < 4; i++) {
        json_t *r =
            simulated("--machine @/one.yaml --workload @/small.yaml --policy %s", policies[i]);
        about(number_at(r, "makespan_s"), wanted);
        const json_t *device = json_array_get(json_object_get(r, "devices"), 0);
        about(number_at(device, "busy_s"), wanted);
        assert_int_equal(json_integer_value(json_object_get(device, "tasks")),
                         2 + 2 + 4 + 2 + 2 + 5 + 4);
        const json_t *step = json_array_get(json_object_get(r, "steps"), 0);
        assert_int_equal(json_integer_value(json_object_get(step, "answer_tokens")), 80);
        assert_string_equal(text_at(r, "policy"), policies[i]);
        json_decref(r);
    }
    /* In chunks of 8 tokens the same work is done. */
    char chunked[1024];
    snprintf(chunked, sizeof(chunked), "%schunk: 8\n", small);
    write_file("chunked.yaml", chunked);
    about(makespan("--machine @/one.yaml --workload @/chunked.yaml"), wanted);
}

static void test_truth(void **state)
{
    (void)state;
    char text[2048];
    snprintf(text, sizeof(text),
             "%struth: [{stage: gradient, factor: 3}, {class: cpu, device: 0, "
             "from_s: 0.38, factor: 2}]\n",
             one_cpu);
    write_file("true.yaml", text);
    /* Gradients take 300 ms; the second starts at 490 or later, with all that comes then. */
    const double before = 2 * 0.030 + 80 * 0.001 + 4 * 0.010 + 2 * 0.005;
    const double s = makespan("--machine @/true.yaml --workload @/small.yaml");
    assert_true(s > before + 0.3 + 0.6 + 2 * (5 * 0.002 + 4 * 0.007) - 0.1);
    assert_true(s < before + 0.6 + 0.6 + 2 * (5 * 0.002 + 4 * 0.007) + 0.1);

    const double plain = makespan("--machine @/one.yaml --workload @/small.yaml");
    double sum = 0.0;
    for (int seed = 1; seed <= 20; seed++) {
        const double noisy =
            makespan("--machine @/one.yaml --workload @/small.yaml --noise 0.5 --seed %d", seed);
        assert_true(fabs(noisy - plain) > 1e-6);
        sum += noisy / 20;
    }
    assert_true(fabs(sum / plain - 1.0) < 0.15); /* the factor's mean is 1 */
}

static void test_repeats(void **state)
{
    (void)state;
    static const char words[] =
        "--machine " FILES "/machines/desktop-4090-1080ti.yaml --workload " FILES
        "/workloads/smollm2-step.yaml --noise 0.3 --policy";
    static const char *const policies[] = {"eager", "dmda", "modular-heteroprio"};
    for (int i = 0; i < 3; i++) {
        json_t *a = simulated("%s %s", words, policies[i]);
        json_t *b = simulated("%s %s", words, policies[i]);
        assert_true(json_equal(a, b));
        const double whole = number_at(a, "makespan_s");
        size_t k;
        json_t *device;
        double busy = 0.0;
        json_array_foreach(json_object_get(a, "devices"), k, device)
        {
            const double parts = number_at(device, "busy_s") + number_at(device, "transfer_s")
                                 + number_at(device, "idle_s");
            assert_true(fabs(parts / whole - 1.0) < 1e-6);
            assert_true(number_at(device, "idle_s") >= -1e-6 * whole);
            busy += number_at(device, "busy_s");
        }
        assert_true(busy > 0.0);
        assert_true(number_at(a, "energy_wh") > 0.0);
        json_decref(a);
        json_decref(b);
    }
}

static void test_staleness(void **state)
{
    (void)state;
    double faster = INFINITY;
    for (int eta = 0; eta <= 2; eta++) {
        char text[2048];
        snprintf(text, sizeof(text), "%sstaleness: %d\n", small, eta);
        write_file("stale.yaml", text);
        char two[4096];
        snprintf(two, sizeof(two),
                 "%s  - {name: g, kind: gpu, link: l, tflop_s: {float32: 1}, "
                 "memory_gib: 8, memory_gb_s: 100,\n     stages: {rollout.prefill: {ms: 30}, "
                 "generate: {ms_per_token: 1}, gradient: never}}\nlinks: [{name: l, gb_s: 10}]\n",
                 one_cpu);
        write_file("two.yaml", two);
        json_t *r =
            simulated("--machine @/two.yaml --workload @/stale.yaml --steps 6 --policy dmda");
        const json_t *steps = json_object_get(r, "steps");
        assert_int_equal(json_array_size(steps), 6);
        size_t i;
        json_t *step;
        int most = 0;
        json_array_foreach(steps, i, step)
        {
            const int age = (int)json_integer_value(json_object_get(step, "staleness_max"));
            most = age > most ? age : most;
        }
        assert_true(most <= eta && (eta == 0 || most > 0));
        assert_true(number_at(r, "makespan_s") <= faster * 1.001);
        faster = number_at(r, "makespan_s");
        json_decref(r);
    }
}

static void test_graphs(void **state)
{
    (void)state;
    /* a to b and c on other classes, 1 GB over 10 GB/s each. */
    write_file("graph.json",
               "[{\"name\": \"v\", \"classes\": [{\"name\": \"cpu\", \"workers\": 1}, {\"name\": "
               "\"gpu\", \"workers\": 2, \"link_bytes_per_s\": 1e10, \"link_ms\": 1}],\n"
               "\"tasks\": [{\"ms\": [100, null]}, {\"ms\": [null, 200]}, {\"ms\": [null, 300]}],\n"
               "\"edges\": [[0, 1, 1e9], [0, 2, 1e9]]}]\n");
    json_t *r = simulated("--graphs @/graph.json --policy eager");
    about(number_at(r, "makespan_s"), 0.1 + 0.101 + 0.3);
    json_decref(r);
    /* Under no policy is a recorded graph shorter than its optimum. */
    static const char *const policies[] = {"eager", "dmdas", "modular-heft", "heteroprio"};
    for (int i = 0; i < 4; i++) {
        r = simulated("--graphs " MOT_TEST_DATA "/small-dags.json --graph rl2-2-4-eta1 --policy %s",
                      policies[i]);
        assert_true(number_at(r, "makespan_s") >= 2.088);
        json_decref(r);
    }
    write_file("dag.yaml", "name: d\ndag: graph.json\n");
    write_file("wrong.yaml", one_cpu);
    program_must(1, "sim --machine @/wrong.yaml --workload @/dag.yaml");
}

static void refused(int code, const char *word, const char *line)
{
    program_must(code, "sim %s", line);
    if (!strstr(program_errors, word)) { fail_msg("'%s' lacks '%s'", program_errors, word); }
}

/* A StarPU program without Motley, recorded here on two processors, runs on any machine. */
static void test_recording(void **state)
{
    (void)state;
    char *recording = scratch_path("foreign.json.gz"), *line;
    line = mot_format(
        "STARPU_NCPU=2 STARPU_SCHED=eager MOTLEY_TRACE=%s STARPU_SCHED_LIB=" MOT_BINARY_DIR
        "/libmotley-policies.so " MOT_BINARY_DIR "/foreign_graph >/dev/null",
        recording);
    assert_int_equal(system(line), 0);
    free(line);
    free(recording);
    static const char *const machines[] = {"desktop-4090-1080ti", "a100-l40s-l4", "cpu-box"};
    for (int i = 0; i < 3; i++) {
        json_t *r = simulated("--graphs @/foreign.json.gz --machine " FILES
                              "/machines/%s.yaml --policy dmdas",
                              machines[i]);
        size_t k;
        json_t *device;
        json_int_t tasks = 0;
        double busy = 0.0;
        json_array_foreach(json_object_get(r, "devices"), k, device)
        {
            tasks += json_integer_value(json_object_get(device, "tasks"));
            busy += number_at(device, "busy_s");
        }
        assert_int_equal(tasks, 10 * (1 + 2 * 8));
        assert_true(busy > 0.0 && number_at(r, "makespan_s") > 0.0);
        json_decref(r);
        if (i < 2) { assert_non_null(strstr(program_errors, "by the ratio of peaks")); }
    }
    /* Ten times as long, as asked. */
    static const char slowed[] = "--graphs @/foreign.json.gz --machine " FILES
                                 "/machines/cpu-box.yaml --policy eager --like cpu=CPU*%d";
    const double slow = makespan(slowed, 1000), slower = makespan(slowed, 10000);
    assert_true(fabs(slower / slow - 10.0) < 0.2);
    refused(1, "no class 'gpu'",
            "--graphs @/foreign.json.gz --machine " FILES "/machines/cpu-box.yaml --like cpu=gpu");
    refused(2, "--workers", "--graphs x --machine y --workers 3");
    write_file("stg", "2\n0 6 0\n1 4 1 0\n");
    refused(1, "--workers does", "--graphs @/stg");
    about(makespan("--graphs @/stg --workers 2"), 0.010);
    about(makespan("--graphs @/stg --machine @/one.yaml"), 0.010);
}

static void test_refused(void **state)
{
    (void)state;
    refused(2, "--workload", "--machine @/one.yaml");
    refused(2, "needs a --machine", "--workload @/small.yaml");
    refused(1, "no-such.yaml", "--machine @/no-such.yaml --workload @/small.yaml");
    refused(1, "unknown", "--machine @/one.yaml --workload @/small.yaml --policy nonsense");
    refused(1, "no graph 'x'", "--graphs " MOT_TEST_DATA "/small-dags.json --graph x");
    char text[2048];
    snprintf(text, sizeof(text), "%s", one_cpu);
    char *at = strstr(text, "{ms: 100}");
    memcpy(at, "never    ", 9);
    write_file("never.yaml", text);
    refused(1, "never.yaml:3: task train.gradient: no worker",
            "--machine @/never.yaml --workload @/small.yaml");
    /* A device whose memory cannot hold a task's data is not given it; nobody else could run it. */
    write_file("tiny.yaml", "name: tiny\nlinks: [{name: l, gb_s: 1}]\nclasses:\n  - {name: cpu, "
                            "kind: cpu, tflop_s: {float32: 1}, memory_gib: 8, memory_gb_s: 1,\n"
                            "     stages: {gradient: never}}\n  - {name: g, kind: gpu, link: l, "
                            "tflop_s: {float32: 1}, memory_gib: 0.05, memory_gb_s: 1}\n");
    refused(1, "tiny.yaml:4: task train.gradient: its buffers take",
            "--machine @/tiny.yaml --workload " FILES "/workloads/smollm2-step.yaml");
    /* Another program that is not there. */
    char *kept = getenv("MOTLEY_SIM_PROGRAM") ? strdup(getenv("MOTLEY_SIM_PROGRAM")) : NULL;
    setenv("MOTLEY_SIM_PROGRAM", "/nowhere/motley", 1);
    refused(1, "tools/setup --sim", "--machine @/one.yaml --workload @/small.yaml");
    if (kept) {
        setenv("MOTLEY_SIM_PROGRAM", kept, 1);
    } else {
        unsetenv("MOTLEY_SIM_PROGRAM");
    }
    free(kept);
}

/* More devices than StarPU was built for; data that main memory does not hold. */
static void test_too_large(void **state)
{
    (void)state;
    static const char gpus[] =
        "name: m\nlinks: [{name: l, gb_s: 1}]\nclasses:\n"
        "  - {name: cpu, kind: cpu, count: %d, tflop_s: {float32: 1}, "
        "memory_gib: %g, memory_gb_s: 1}\n"
        "  - {name: g, kind: gpu, count: %d, link: l, tflop_s: {float32: 1}, "
        "memory_gib: 4, memory_gb_s: 1}\n";
    char text[1024];
    static const struct {
        int cpus, gpus;
        const char *word;
    } large[] = {{1, 257, "many.yaml:4: 257 devices with a memory of their own"},
                 {1000, 1, "many.yaml:4: 1000 CPU workers, at most"}};
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), gpus, large[i].cpus, 1.0, large[i].gpus);
        write_file("many.yaml", text);
        refused(1, large[i].word, "--graphs cholesky:2 --machine @/many.yaml");
    }
    /* SmolLM2's float32 weights, two moments and two lanes are 2.5 GiB. */
    snprintf(text, sizeof(text), gpus, 1, 2.0, 1);
    write_file("main.yaml", text);
    refused(1, "main.yaml:4: main memory, that of 'cpu', is 2 GiB",
            "--machine @/main.yaml --workload " FILES "/workloads/smollm2-step.yaml --policy dmda");
    snprintf(text, sizeof(text), gpus, 1, 16.0, 1);
    write_file("main.yaml", text);
    assert_true(makespan("--machine @/main.yaml --workload " FILES
                         "/workloads/smollm2-step.yaml --policy dmda")
                > 0.0);
    /* A graph's data goes when it has been read for the last time: twenty tasks in a row leave 1 GB
     * each where 2 fit, and nothing is evicted into the little main memory there is. */
    snprintf(text, sizeof(text), gpus, 1, 0.05, 1);
    write_file("main.yaml", text);
    struct bytes row = {0};
    static const char begin[] = "{\"classes\": [{\"name\": \"g\", \"workers\": 1}], \"tasks\": [";
    bytes_put(&row, begin, strlen(begin));
    for (int t = 0; t < 20; t++) {
        snprintf(text, sizeof(text), "{\"ms\": [50]}%s", t < 19 ? ", " : "], \"edges\": [");
        bytes_put(&row, text, strlen(text));
    }
    for (int t = 1; t < 20; t++) {
        snprintf(text, sizeof(text), "[%d, %d, 1.5e9]%s", t - 1, t, t < 19 ? ", " : "]}");
        bytes_put(&row, text, strlen(text));
    }
    bytes_put(&row, "", 1);
    write_file("row.json", (const char *)row.at);
    free(row.at);
    about(makespan("--machine @/main.yaml --graphs @/row.json --policy dmda --like cpu=g*1000"),
          20 * 0.050);
}

static void test_tight_memory(void **state)
{
    (void)state;
    json_t *r = simulated("--machine " FILES "/machines/tight-memory.yaml --workload " FILES
                          "/workloads/smollm2-step.yaml --policy eager");
    assert_true(number_at(r, "makespan_s") > 0.0);
    json_decref(r);
    /* So little that workers wait for room. */
    static const char cards[] =
        "name: t\nlinks: [{name: l, gb_s: 25, latency_us: 10}, {name: k, gb_s: 6.3, latency_us: "
        "10}]\nclasses:\n  - {name: cpu, kind: cpu, count: 2, tflop_s: {float32: 0.48}, "
        "memory_gib: "
        "64, memory_gb_s: 18}\n  - {name: a, kind: gpu, link: l, tflop_s: {float32: 8}, "
        "memory_gib: "
        "%g, memory_gb_s: 1500}\n  - {name: b, kind: gpu, count: 2, link: k, tflop_s: {float32: "
        "1.5}, memory_gib: %g, memory_gb_s: 100}\n";
    char text[1024];
    snprintf(text, sizeof(text), cards, 1.6, 1.6);
    write_file("tight.yaml", text);
    static const char *const policies[] = {"eager", "dmdas", "heteroprio"};
    for (int i = 0; i < 3; i++) {
        assert_true(makespan("--machine @/tight.yaml --workload " FILES
                             "/workloads/smollm2-step.yaml --policy %s",
                             policies[i])
                    > 0.0);
    }
}

/* Devices with memories of their own, some that generate and some that train, over slow links, all
 * other stages taking no time: data come and go while a device computes, so that whichever part is
 * the bottleneck is always at work. */
static void test_devices_overlap(void **state)
{
    (void)state;
    write_file("split.yaml",
               "name: split\nlinks: [{name: wire, gb_s: 1, latency_us: 10}]\nclasses:\n"
               "  - {name: cpu, kind: cpu, tflop_s: {float32: 1000}, memory_gib: 8,\n"
               "     memory_gb_s: 1000, stages: {generate: never, gradient: never,\n"
               "     reward: {ms: 0}}}\n"
               "  - {name: R, kind: gpu, count: 3, link: wire, tflop_s: {float32: 1000},\n"
               "     memory_gib: 8, memory_gb_s: 100000,\n"
               "     stages: {generate: {ms_per_token: 1}, gradient: never}}\n"
               "  - {name: T, kind: gpu, count: 2, link: wire, tflop_s: {float32: 1000},\n"
               "     memory_gib: 8, memory_gb_s: 100000,\n"
               "     stages: {generate: never, gradient: {ms_per_token: 0.4}}}\n");
    char text[1024];
    snprintf(text, sizeof(text), "%s", small);
    char *steps = strstr(text, "steps: 1");
    snprintf(steps, sizeof(text) - (size_t)(steps - text),
             "steps: 4\nprompts_per_step: 32\ngroup_size: 4\nprompt_tokens: {mean: 1, max: 1}\n"
             "answer_tokens: {mean: 500, max: 500}\nmicro_batch: 2\nrows_per_task: 1\n"
             "lanes: 8\nstaleness: 2\nmax_tasks: 16\n");
    write_file("split-work.yaml", text);
    static const char *const policies[] = {"prio", "dmdas", "modular-heft"};
    for (int i = 0; i < 3; i++) {
        json_t *r = simulated("--machine @/split.yaml --workload @/split-work.yaml --policy %s",
                              policies[i]);
        const double wanted = 4 * 128 * 500 * 0.001 / 3;
        if (!(number_at(r, "makespan_s") < 1.06 * wanted)) {
            fail_msg("%s: %g s, %g s at the least", policies[i], number_at(r, "makespan_s"),
                     wanted);
        }
        assert_true(number_at(r, "makespan_s") > wanted);
        json_decref(r);
    }
}

/* The device as --json names it, out of the worker's name in a recording: "CUDA 0.0 (A100 72.0
 * GiB)" is of class A100.  Devices come in the same order in both, processors first. */
static int worker_of(const struct mot_recording *r, int device, int n_cpus)
{
    for (int w = 0; w < r->n_workers; w++) {
        const int is_cpu = strcmp(r->workers[w].kind, "CPU") == 0;
        if (r->workers[w].device + (is_cpu ? 0 : n_cpus) == device && is_cpu == (device < n_cpus)) {
            return w;
        }
    }
    return -1;
}

/* A recording of a simulated run says what the run said: tasks, busy, transfer and idle time of
 * each device, which add up to the makespan; transfers, memory and the data's names are in it. */
static void test_trace(void **state)
{
    (void)state;
    enum { CPUS = 2, DEVICES = 4 };
    char *path = scratch_path("sim.json.gz");
    json_t *result =
        simulated("--machine " FILES "/machines/desktop-4090-1080ti.yaml --workload " FILES
                  "/workloads/smollm2-step.yaml --policy dmdas --trace %s",
                  path);
    struct mot_recording *r;
    assert_int_equal(mot_recording_read(path, &r), 0);
    free(path);
    assert_true(r->simulated && !r->ends_early && r->n_workers == DEVICES);
    const double makespan_s = number_at(result, "makespan_s");
    struct mot_recorded_usage usage[DEVICES];
    about(mot_recording_usage(r, usage) * 1e-6, makespan_s);
    for (int d = 0; d < DEVICES; d++) {
        const json_t *device = json_array_get(json_object_get(result, "devices"), (size_t)d);
        const int w = worker_of(r, d, CPUS);
        assert_in_range(w, 0, DEVICES - 1);
        assert_true(d < CPUS || strstr(r->workers[w].name, text_at(device, "class")));
        int tasks = 0;
        for (int i = 0; i < r->n_tasks; i++) { tasks += r->tasks[i].worker == w; }
        assert_int_equal(tasks, json_integer_value(json_object_get(device, "tasks")));
        const double sum = usage[w].busy_us + usage[w].transfer_us + usage[w].idle_us;
        assert_true(fabs(sum * 1e-6 - makespan_s) <= 1e-3 * makespan_s);
        assert_true(fabs(usage[w].busy_us * 1e-6 - number_at(device, "busy_s"))
                    <= 1e-3 * makespan_s);
        assert_true(fabs(usage[w].transfer_us * 1e-6 - number_at(device, "transfer_s"))
                    <= 1e-3 * makespan_s);
    }
    double bytes = 0.0, memory = 0.0;
    for (int i = 0; i < r->n_transfers; i++) { bytes += r->transfers[i].bytes; }
    for (int i = 0; i < r->n_values; i++) {
        if (strcmp(r->values[i].name, "memory") == 0 && r->values[i].node > 0) {
            memory = fmax(memory, r->values[i].value);
        }
    }
    /* The weights, 4 bytes each, come to a device at least once. */
    assert_true(bytes > 4 * 134e6 && memory > 4 * 134e6);
    assert_non_null(r->data[1].name);
    mot_recording_free(r);
    json_decref(result);
}

int main(void)
{
    const char *program = getenv("MOTLEY_SIM_PROGRAM");
    if (access(program ? program : MOT_BINARY_DIR "/sim/motley", X_OK) != 0) {
        printf("skipped: no simulator's build (tools/setup --sim)\n");
        return 77;
    }
    scratch_begin("sim");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),      cmocka_unit_test(test_truth),
        cmocka_unit_test(test_repeats),      cmocka_unit_test(test_staleness),
        cmocka_unit_test(test_graphs),       cmocka_unit_test(test_recording),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_tight_memory), cmocka_unit_test(test_devices_overlap),
        cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
