/* machine files and the platforms made from them: every shipped machine loads and makes sense; bad
 * and contradictory files are refused with one line that names file and line; durations are those
 * of the roofline or of the measured stage; the truth is a function of seed and task with the means
 * it says; paths between memories have the bandwidth of their narrowest link.
 * Run it alone: ./test_machine */
#include "machine.h"
#include "scratch.h"
#include "sim_platform.h"
#include "workload.h"
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MACHINES MOT_SOURCE_DIR "/tests/machines"

static struct mot_machine machine;

static int load_text(const char *text)
{
    char *path = scratch_path("machine.yaml");
    scratch_write(path, text, strlen(text));
    const int error = mot_machine_load(path, mot_workload_stages(), &machine);
    free(path);
    return error;
}

static void load(const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), MACHINES "/%s.yaml", name);
    assert_int_equal(mot_machine_load(path, mot_workload_stages(), &machine), 0);
}

static void test_shipped(void **state)
{
    (void)state;
    DIR *directory = opendir(MACHINES);
    assert_non_null(directory);
    int n = 0;
    for (const struct dirent *e; (e = readdir(directory)) != NULL;) {
        if (strstr(e->d_name, ".yaml") == NULL) { continue; }
        char path[1024];
        snprintf(path, sizeof(path), MACHINES "/%s", e->d_name);
        assert_int_equal(mot_machine_load(path, mot_workload_stages(), &machine), 0);
        assert_true(machine.n_cpus >= 1); /* rewards need one */
        char *out = scratch_path("");
        assert_int_equal(mot_sim_platform_write(&machine, out), 0);
        free(out);
        mot_machine_free(&machine);
        n++;
    }
    closedir(directory);
    assert_true(n >= 8);
}

#define CPU   "{name: cpu, kind: cpu, tflop_s: {float32: 1}, memory_gib: 8, memory_gb_s: 10}"
#define GPU   "name: G, kind: gpu, tflop_s: {float32: 10}, memory_gib: 8, memory_gb_s: 100"
#define LINKS "links: [{name: l, gb_s: 10}]\n"

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int line;
        const char *word;
    } bad[] = {
        {"", 1, "empty"},
        {"name: [a\n", 2, "expected"},
        {"name: a\nname: b\n", 2, "twice"},
        {"name: a\nclasses: &x []\n", 2, "anchors"},
        {"name: a\nclasses: []\n", 2, "nothing is listed"},
        {"classes: [" CPU "]\n", 1, "'name' is missing"},
        {"name: a\nclases: [" CPU "]\n", 1, "'classes' is missing"},
        {"name: a\nclasses: [" CPU "]\nlimks: []\n", 3, "did you mean 'links'"},
        {"name: a\nclasses:\n  - {kind: cpu}\n", 3, "'name' is missing"},
        {"name: a\nclasses:\n  - " CPU "\n  - " CPU "\n", 4, "twice"},
        {"name: a\nclasses:\n  - " CPU "\n  - {name: d, kind: cpu, tflop_s: {float32: 1}, "
         "memory_gib: 8, memory_gb_s: 10}\n",
         4, "second cpu class"},
        {"name: a\nclasses:\n  - {" GPU "}\n", 3, "needs a link"},
        {"name: a\n" LINKS "classes:\n  - {" GPU ", link: m}\n", 4, "there is no 'm'"},
        {"name: a\n" LINKS "classes:\n  - {" GPU ", link: l, count: 0}\n", 4, "0 is not in 1"},
        {"name: a\n" LINKS "classes:\n  - {" GPU ", link: l, count: 1.5}\n", 4, "no whole number"},
        {"name: a\n" LINKS "classes:\n  - {" GPU ", link: l, count: 10k}\n", 4, "no number"},
        {"name: a\n" LINKS "classes:\n  - {" GPU ", link: l, count: 9999}\n", 4, "more than"},
        {"name: a\n" LINKS "classes:\n  - {" GPU ", link: l}\n", 4, "no class of kind cpu"},
        {"name: a\nlinks: [{name: l, gb_s: -1}]\nclasses: [" CPU "]\n", 2, "not in"},
        {"name: a\nclasses:\n  - {name: c, kind: cpu, tflop_s: {bfloat16: 1}, memory_gib: 8, "
         "memory_gb_s: 1}\n",
         3, "float32 is missing"},
        {"name: a\nclasses:\n  - {name: c, kind: cpu, tflop_s: {int4: 1}, memory_gib: 8, "
         "memory_gb_s: 1}\n",
         3, "no dtype"},
        {"name: a\n" LINKS "classes:\n  - {" GPU ", link: l, watts: 10, idle_watts: 20}\n", 4,
         "more watts idle"},
        {"name: a\n" LINKS "classes:\n  - {" GPU ", link: l, stages: {bake: {ms: 1}}}\n", 4,
         "no stage 'bake'"},
        {"name: a\n" LINKS "classes:\n  - {" GPU ", link: l, stages: {reward: {ms: -1}}}\n", 4,
         "not in"},
        {"name: a\n" LINKS "classes:\n  - {" GPU ", link: l, stages: {reward: 5}}\n", 4, "never"},
        {"name: a\nnodes: [{name: n}, {name: m}]\nclasses: [" CPU "]\n", 2, "needs a link"},
        {"name: a\nclasses: [" CPU "]\ntruth: [{class: x}]\n", 3, "there is no 'x'"},
        {"name: a\nclasses: [" CPU "]\ntruth: [{class: cpu, device: 1}]\n", 3, "1 devices"},
        {"name: a\nclasses: [" CPU "]\ntruth: [{device: 0}]\n", 3, "class is missing"},
        {"name: a\nclasses: [" CPU "]\ntruth: [{stage: bake}]\n", 3, "no stage 'bake'"},
        {"name: a\nclasses: [" CPU "]\ntruth: [{probability: 2}]\n", 3, "not in"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char place[64];
        snprintf(place, sizeof(place), "machine.yaml:%d: ", bad[i].line);
        catch_begin();
        const int error = load_text(bad[i].text);
        const int lines = catch_end();
        if (error != -EINVAL || lines != 1 || !strstr(mot_last_message(), place)
            || !strstr(mot_last_message(), bad[i].word)) {
            fail_msg("case %zu: %d, %d lines, '%s' lacks '%s' or '%s'", i, error, lines,
                     mot_last_message(), place, bad[i].word);
        }
    }
}

static double expected(const char *class, const struct mot_machine_work *work)
{
    for (int c = 0; c < machine.n_classes; c++) {
        if (strcmp(machine.classes[c].name, class) == 0) {
            return mot_machine_expected_s(&machine, c, work);
        }
    }
    fail();
    return NAN;
}

static void test_durations(void **state)
{
    (void)state;
    assert_int_equal(
        load_text("name: a\n" LINKS "classes:\n  - " CPU "\n"
                  "  - {name: g, kind: gpu, link: l, tflop_s: {float32: 10, bfloat16: 40},\n"
                  "     memory_gib: 1, memory_gb_s: 100, flop_efficiency: 0.5,\n"
                  "     bandwidth_efficiency: 0.25, start_us: 100,\n"
                  "     stages: {reward: never, rollout.prefill: {ms: 3},\n"
                  "              generate: {ms: 1, ms_per_token: 0.1, ms_per_row: 2, gb_s: 1}}}\n"),
        0);
    struct mot_machine_work w = {.task = "train.gradient",
                                 .stage = "gradient",
                                 .flop = 1e12,
                                 .bytes = 1e9,
                                 .dtype = MOT_F32};
    assert_true(fabs(expected("cpu", &w) - 1.0) < 1e-12);
    assert_true(fabs(expected("g", &w) - (1e-4 + 0.2)) < 1e-12);
    w.dtype = MOT_BF16; /* now the memory is what takes longest */
    assert_true(fabs(expected("g", &w) - (1e-4 + fmax(0.05, 0.04))) < 1e-12);
    w.bytes = 1e10;
    assert_true(fabs(expected("g", &w) - (1e-4 + 0.4)) < 1e-12);
    assert_true(fabs(expected("cpu", &w) - 1.0) < 1e-12); /* float32's peak: no other is known */
    w.stage = "reward";
    assert_true(isinf(expected("g", &w)));
    w.stage = "generate";
    w.tokens = 20;
    w.rows = 3;
    assert_true(fabs(expected("g", &w) - (1e-4 + 1e-3 + 2e-3 + 6e-3 + 10.0)) < 1e-12);
    w.task = "rollout.prefill"; /* the task's own name counts more than its stage */
    assert_true(fabs(expected("g", &w) - (1e-4 + 3e-3)) < 1e-12);
    mot_machine_free(&machine);
}

static double factor(int device, const char *stage, double now_s, uint64_t key)
{
    return mot_machine_truth_factor(&machine, device, stage, now_s, 7, key);
}

static void test_truth(void **state)
{
    (void)state;
    assert_int_equal(load_text("name: a\n" LINKS "classes:\n  - " CPU "\n  - {" GPU
                               ", link: l, count: 2}\ntruth:\n"
                               "  - {class: G, factor: 2}\n"
                               "  - {class: G, device: 1, from_s: 10, factor: 3}\n"
                               "  - {stage: generate, sigma: 0.5}\n"
                               "  - {stage: reward, probability: 0.1, factor: 11}\n"),
                     0);
    assert_true(factor(0, "update", 0, 1) == 1.0);
    assert_true(factor(1, "update", 0, 1) == 2.0);
    assert_true(factor(2, "update", 9.9, 1) == 2.0);
    assert_true(factor(2, "update", 10.0, 1) == 6.0);
    assert_true(factor(1, "update", 10.0, 1) == 2.0);
    enum { N = 40000 };
    double mean = 0.0, log_mean = 0.0, log_square = 0.0, outliers = 0.0;
    for (uint64_t k = 0; k < N; k++) {
        const double f = factor(0, "generate", 0, k);
        assert_true(f == factor(0, "generate", 5, k)); /* of task and seed alone */
        assert_true(f > 0.0);
        mean += f / N;
        log_mean += log(f) / N;
        log_square += log(f) * log(f) / N;
        outliers += factor(0, "reward", 0, k) == 11.0;
    }
    assert_true(fabs(mean - 1.0) < 0.02);
    assert_true(fabs(sqrt(log_square - log_mean * log_mean) - 0.5) < 0.01);
    assert_true(fabs(outliers / N - 0.1) < 0.01);
    assert_true(factor(0, "generate", 0, 1) != factor(0, "generate", 0, 2));
    mot_machine_free(&machine);
}

static int device_of(const char *name)
{
    for (int i = 0; i < machine.n_devices; i++) {
        char text[64];
        mot_machine_device_name(&machine, i, text, sizeof(text));
        if (strcmp(text, name) == 0) { return i; }
    }
    fail();
    return -1;
}

static void path_is(const char *from, const char *to, double gb_s, double latency_us)
{
    double bytes_per_s, latency_s;
    mot_sim_platform_path(&machine, from ? device_of(from) : -1, to ? device_of(to) : -1,
                          &bytes_per_s, &latency_s);
    if (fabs(bytes_per_s * 1e-9 - gb_s) > 1e-9 || fabs(latency_s * 1e6 - latency_us) > 1e-9) {
        fail_msg("%s to %s: %g GB/s, %g us", from ? from : "RAM", to ? to : "RAM",
                 bytes_per_s * 1e-9, latency_s * 1e6);
    }
}

static void test_paths(void **state)
{
    (void)state;
    load("h800-h20");
    assert_int_equal(machine.n_devices - machine.n_cpus, 48);
    path_is(NULL, "H800-0", 50, 15);     /* head, InfiniBand, PCI Express */
    path_is("H20-23", NULL, 1.5, 60);    /* through the shared Ethernet */
    path_is("H800-0", "H800-7", 200, 5); /* NVLink in a box of eight */
    path_is("H800-7", "H800-8", 50, 30); /* between boxes */
    path_is("H800-0", "H20-0", 1.5, 75);
    mot_machine_free(&machine);
    load("desktop-4090-1080ti");
    path_is("RTX-4090-0", "GTX-1080-Ti-0", 6.3, 20);
    mot_machine_free(&machine);
}

/* Counts that differ from the file's: devices, boxes, parts of a class, and what is true of
 * them. */
static void test_changed(void **state)
{
    (void)state;
    assert_int_equal(
        load_text("name: m\n" LINKS "nodes:\n  - {name: head}\n  - {name: box, count: 2, link: l}\n"
                  "classes:\n  - " CPU "\n  - {" GPU ", link: l, node: box, count: 4}\n"
                  "  - {name: H, kind: gpu, link: l, tflop_s: {float32: 1}, memory_gib: 1,\n"
                  "     memory_gb_s: 1, stages: {gradient: {ms: 1}}}\n"
                  "truth: [{class: G, factor: 2}, {class: H, factor: 3}, {class: G, device: 5,\n"
                  "         factor: 5}]\n"),
        0);
    assert_int_equal(mot_machine_class_find(&machine, "H", 1), 2);
    assert_int_equal(mot_machine_class_find(&machine, "HH", 2), -1);
    assert_int_equal(mot_machine_set_count(&machine, 1, 5), -EINVAL); /* a truth is of device 5 */
    assert_int_equal(mot_machine_set_count(&machine, 0, 5), -EINVAL); /* a cpu */
    assert_int_equal(mot_machine_set_count(&machine, 1, 10), 0);      /* three boxes of 4 */
    assert_int_equal(machine.n_devices, 1 + 10 + 1);
    assert_int_equal(machine.nodes[1].count, 3);
    const int part = mot_machine_split(&machine, 1, 4, "G-b");
    assert_int_equal(part, 3);
    int n[4] = {0};
    for (int d = 0; d < machine.n_devices; d++) {
        const struct mot_machine_device *device = &machine.devices[d];
        assert_int_equal(device->number, n[device->class]++);
        if (device->class == part) { assert_int_equal(device->box, 1 + device->number / 4); }
        const double factor = mot_machine_truth_factor(&machine, d, NULL, 0.0, 1, 1);
        const int slow = device->class == part && device->number == 1; /* the 5 of G */
        assert_true(factor
                    == (device->class == 0   ? 1.0
                        : device->class == 2 ? 3.0
                                             : 2.0)
                           * (slow ? 5.0 : 1.0));
    }
    assert_true(n[0] == 1 && n[1] == 4 && n[2] == 1 && n[3] == 6);
    const struct mot_machine_work work = {.task = "train.gradient", .stage = "gradient", .flop = 1};
    mot_machine_forbid(&machine, part, "gradient");
    mot_machine_forbid(&machine, 2, "gradient");
    assert_true(isinf(mot_machine_expected_s(&machine, part, &work)));
    assert_true(isinf(mot_machine_expected_s(&machine, 2, &work)));
    assert_true(isfinite(mot_machine_expected_s(&machine, 1, &work)));
    assert_int_equal(mot_machine_set_count(&machine, 1, 0), 0); /* G goes, G-b stays */
    assert_int_equal(machine.n_classes, 3);
    assert_int_equal(machine.n_devices, 1 + 1 + 6);
    assert_string_equal(machine.classes[1].name, "H");
    assert_string_equal(machine.classes[2].name, "G-b");
    for (int d = 0; d < machine.n_devices; d++) {
        const double factor = mot_machine_truth_factor(&machine, d, NULL, 0.0, 1, 1);
        const int class = machine.devices[d].class;
        assert_true(class == 2 ? factor == 2.0 || factor == 10.0 : factor == (class ? 3.0 : 1.0));
    }
    mot_machine_free(&machine);
}

int main(void)
{
    scratch_begin("machine");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped), cmocka_unit_test(test_changed),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_durations),
        cmocka_unit_test(test_truth),   cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
