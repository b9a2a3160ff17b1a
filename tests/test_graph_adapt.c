/* graph_adapt and graph_made: a machine's classes take the durations of the graph's class of their
 * name, of its processors, of its one accelerator, or of what --like says, with the factors that
 * can be computed by hand; workers, memories and links become the machine's; what is ambiguous,
 * cannot run or does not fit is refused by one line with the place.  cholesky:TILES has the tasks
 * and edges of the algorithm written down once more.  Run it alone: ./test_graph_adapt */
#include "graph_adapt.h"
#include "scratch.h"
#include "workload.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Peaks with efficiencies: cpu 2, A 10, B 40 TFLOP/s. */
static const char machine_text[] =
    "name: m\nlinks: [{name: l, gb_s: 10, latency_us: 3}]\nclasses:\n"
    "  - {name: A, kind: gpu, link: l, count: 2, tflop_s: {float32: 10}, memory_gib: 1,\n"
    "     memory_gb_s: 1}\n"
    "  - {name: cpu, kind: cpu, count: 3, tflop_s: {float32: 4}, flop_efficiency: 0.5,\n"
    "     memory_gib: 4, memory_gb_s: 1}\n"
    "  - {name: B, kind: gpu, link: l, tflop_s: {float32: 40}, memory_gib: 1, memory_gb_s: 1}\n";
enum { A, CPU, B };

static struct mot_machine machine;
static struct mot_graphs graphs;
static struct mot_graph *graph;

static void read_graph(const char *text)
{
    char *copy = mot_strdup(text), *path = scratch_path("graph");
    for (char *c = copy; *c; c++) { *c = *c == '\'' ? '"' : *c; }
    scratch_write(path, copy, strlen(copy));
    assert_int_equal(mot_graphs_read(path, -1, &graphs), 0);
    graph = &graphs.graph[0];
    free(copy);
    free(path);
}

/* The first task's durations in A, cpu and B. */
static void adapts(const char *text, const char *like, double a, double cpu, double b)
{
    read_graph(text);
    assert_int_equal(mot_graph_adapt(graph, &machine, like, 0), 0);
    const double wanted[] = {a, cpu, b};
    for (int c = 0; c < 3; c++) {
        const double ms = graph->tasks[0].ms[c];
        if (!(ms == wanted[c] || fabs(ms / wanted[c] - 1.0) < 1e-12)) {
            fail_msg("%s: %g ms, not %g", machine.classes[c].name, ms, wanted[c]);
        }
    }
    assert_int_equal(mot_graph_check(graph), 0);
    mot_graphs_free(&graphs);
}

#define CLASSES(list) "{'classes': [" list "], 'edges': [], "
#define C(name)       "{'name': '" name "', 'workers': 9}"
#define L(name)       "{'name': '" name "', 'workers': 9, 'link_bytes_per_s': 1}"

static void test_sources(void **state)
{
    (void)state;
    /* By name, in any case and order. */
    adapts(CLASSES(L("b") ", " C("CPU") ", " L("a")) "'tasks': [{'ms': [3, 5, 7]}]}", NULL, 7, 5,
           3);
    /* Processors only: the others by peaks over theirs. */
    adapts(CLASSES(C("core")) "'tasks': [{'ms': [40]}]}", NULL, 8, 40, 2);
    /* One accelerator: A as it is, B four times as fast; not on processors. */
    adapts(CLASSES(C("cpu") ", " L("gpu")) "'tasks': [{'ms': [null, 8]}]}", NULL, 8, INFINITY, 2);
    /* Known by its name, though the recording saw no transfer to it. */
    adapts(CLASSES(C("CUDA X") ", " C("CPU")) "'tasks': [{'ms': [8, 9]}]}", NULL, 8, 9, 2);
    /* B has its own; what is left is A's. */
    adapts(CLASSES(C("cpu") ", " L("B") ", " L("x")) "'tasks': [{'ms': [1, 2, 3]}]}", NULL, 3, 1,
           2);
    /* A's by the ratio to B, which has the name. */
    adapts(CLASSES(C("cpu") ", " L("B")) "'tasks': [{'ms': [1, 2]}]}", NULL, 8, 1, 2);
    /* As asked; B goes by A. */
    adapts(CLASSES(C("cpu") ", " L("gpu")) "'tasks': [{'ms': [1, 8]}]}", "A=gpu*3", 24, 1, 6);
    adapts(CLASSES(C("cpu") ", " L("x") ", " L("y")) "'tasks': [{'ms': [1, 2, 3]}]}",
           "A=y*0.5, B = x", 1.5, 1, 2);
    /* A file of one class does not need to say how many workers it has. */
    adapts("2\n0 6 0\n1 4 1 0\n", NULL, 6 / 5.0, 6, 6 / 20.0);
}

static void test_machine(void **state)
{
    (void)state;
    read_graph(CLASSES(C("core")) "'optimum_ms': 4, 'tasks': [{'ms': [40]}]}");
    assert_int_equal(mot_graph_adapt(graph, &machine, NULL, 0), 0);
    assert_int_equal(graph->n_classes, 3);
    static const int workers[] = {2, 3, 1};
    for (int c = 0; c < 3; c++) {
        const struct mot_graph_class *class = &graph->classes[c];
        assert_string_equal(class->name, machine.classes[c].name);
        assert_int_equal(class->workers, workers[c]);
        assert_true(class->memory_bytes == machine.classes[c].memory_bytes);
        assert_true(class->link_bytes_per_s == (c == CPU ? 0.0 : 10e9));
        assert_true(fabs(class->link_ms - (c == CPU ? 0.0 : 3e-3)) < 1e-12);
    }
    assert_true(isnan(graph->optimum_ms));
    mot_graphs_free(&graphs);
}

/* What comes from main memory and from both other GPUs at once; a bound that knew only the former
 * would forbid what happens. */
static void test_peers(void **state)
{
    (void)state;
    static const char links[] = "links: [{name: l, gb_s: 10, latency_us: 3},\n"
                                "        {name: p, gb_s: 50, latency_us: 1}]\n"
                                "nodes: [{name: box, peer: p}]\n";
    char *text = mot_format("name: m\n%s%s", links, strstr(machine_text, "classes:"));
    char *path = scratch_path("peers.yaml");
    struct mot_machine before = machine;
    scratch_write(path, text, strlen(text));
    assert_int_equal(mot_machine_load(path, mot_workload_stages(), &machine), 0);
    read_graph(CLASSES(C("core")) "'tasks': [{'ms': [40]}]}");
    assert_int_equal(mot_graph_adapt(graph, &machine, NULL, 0), 0);
    for (int c = 0; c < 3; c++) {
        assert_true(graph->classes[c].link_bytes_per_s == (c == CPU ? 0.0 : 110e9));
        assert_true(fabs(graph->classes[c].link_ms - (c == CPU ? 0.0 : 1e-3)) < 1e-12);
    }
    mot_graphs_free(&graphs);
    mot_machine_free(&machine);
    machine = before;
    free(path);
    free(text);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *like, *word;
    } bad[] = {
        {CLASSES(C("cpu") ", " L("x") ", " L("y")) "'tasks': [{'ms': [1, 2, 3]}]}", NULL,
         "like which of its 2 classes"},
        {CLASSES(C("cpu")) "'tasks': [{'ms': [1]}]}", "nothing", "'nothing' is not"},
        {CLASSES(C("cpu")) "'tasks': [{'ms': [1]}]}", "X=cpu", "no class 'X'"},
        {CLASSES(C("cpu")) "'tasks': [{'ms': [1]}]}", "A=gpu", "no class 'gpu'"},
        {CLASSES(C("cpu")) "'tasks': [{'ms': [1]}]}", "A=cpu*fast", "'fast' is no factor"},
        {CLASSES(C("cpu")) "'tasks': [{'ms': [1]}]}", "A=cpu*0", "'0' is no factor"},
        {CLASSES(C("cpu") ", " L("A") ", " L("B") ", " L("x")) "\n'tasks': [{'ms': [1, 2, 3, 4]},\n"
                                                               "{'ms': [null, null, null, 4], "
                                                               "'name': 'lost'}]}",
         NULL, "graph:3: task 1 'lost' runs on 'x'"},
        {CLASSES(C("cpu") ", " L("gpu")) "\n'tasks': [{'ms': [null, 4], 'output_bytes': 2e9}]}",
         NULL, "graph:2: task 0 '' has 2e+09 bytes"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        read_graph(bad[i].text);
        const int error = mot_graph_adapt(graph, &machine, bad[i].like, 0);
        if (error != -EINVAL || !strstr(mot_last_message(), bad[i].word)) {
            fail_msg("case %zu: %d, '%s' lacks '%s'", i, error, mot_last_message(), bad[i].word);
        }
        mot_graphs_free(&graphs);
    }
    /* The data of all edges together, in the memory of the one class that can run it. */
    read_graph("{'classes': [" C("cpu") ", " L(
        "gpu") "], 'tasks': [{'ms': [1, 1]}, {'ms': [1, 1]},"
               "{'ms': [null, 1]}], 'edges': [[0, 2, 6e8], [1, 2, 6e8]]}");
    assert_int_equal(mot_graph_adapt(graph, &machine, NULL, 0), -EINVAL);
    assert_non_null(strstr(mot_last_message(), "task 2"));
    mot_graphs_free(&graphs);
}

/* ---- cholesky:TILES -------------------------------------------------------------------------- */

static int has_edge(const char *before, const char *after)
{
    int n = 0;
    for (int e = 0; e < graph->n_edges; e++) {
        n += strcmp(graph->tasks[graph->edges[e].before].name, before) == 0
             && strcmp(graph->tasks[graph->edges[e].after].name, after) == 0;
    }
    return n;
}

static void test_cholesky(void **state)
{
    (void)state;
    assert_int_equal(mot_graphs_read("cholesky:3", 0, &graphs), 0);
    graph = &graphs.graph[0];
    assert_int_equal(mot_graph_check(graph), 0);
    assert_int_equal(graph->n_tasks, 10); /* 3 potrf, 3 trsm, 3 syrk, 1 gemm */
    assert_int_equal(graph->n_edges, 12);
    static const char *const edges[][2] = {
        {"potrf 0 0 0", "trsm 1 0 0"}, {"potrf 0 0 0", "trsm 2 0 0"}, {"trsm 1 0 0", "syrk 1 1 0"},
        {"trsm 2 0 0", "syrk 2 2 0"},  {"trsm 1 0 0", "gemm 2 1 0"},  {"trsm 2 0 0", "gemm 2 1 0"},
        {"syrk 1 1 0", "potrf 1 1 1"}, {"gemm 2 1 0", "trsm 2 1 1"},  {"potrf 1 1 1", "trsm 2 1 1"},
        {"trsm 2 1 1", "syrk 2 2 1"},  {"syrk 2 2 0", "syrk 2 2 1"},  {"syrk 2 2 1", "potrf 2 2 2"},
    };
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        if (has_edge(edges[i][0], edges[i][1]) != 1) {
            fail_msg("no edge %s -> %s", edges[i][0], edges[i][1]);
        }
    }
    mot_graphs_free(&graphs);
    assert_int_equal(mot_graphs_read("cholesky:84", 0, &graphs), 0);
    assert_int_equal(graphs.graph[0].n_tasks, 102340);
    mot_graphs_free(&graphs);
    static const char *const bad[] = {"cholesky:", "cholesky:0", "cholesky:3x", "cholesky:100000"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mot_graphs_read(bad[i], 0, &graphs), -EINVAL);
        assert_non_null(strstr(mot_last_message(), "is not a number of tiles"));
    }
}

static int load_machine(void **state)
{
    (void)state;
    char *path = scratch_path("machine.yaml");
    scratch_write(path, machine_text, strlen(machine_text));
    const int error = mot_machine_load(path, mot_workload_stages(), &machine);
    free(path);
    return error;
}

static int free_machine(void **state)
{
    (void)state;
    mot_machine_free(&machine);
    return 0;
}

int main(void)
{
    scratch_begin("graph_adapt");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),  cmocka_unit_test(test_machine),
        cmocka_unit_test(test_peers),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cholesky),
    };
    return cmocka_run_group_tests(tests, load_machine, free_machine);
}
