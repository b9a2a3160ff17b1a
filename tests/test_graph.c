/* graph: each file format is read to the very graph it describes, what is written comes back, what
 * makes no sense is refused by one line that names file and line, and damaged files never crash.
 * Run it alone: ./test_graph [mutations] */
#include "graph.h"
#include "graphs.h"
#include "json_lines.h"
#include "scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <strings.h>

#include <cmocka.h>

static uint32_t mutations = 3000; /* of each text */

/* text with its ' turned into ", as a file; free() the path. */
static char *file_of(const char *text)
{
    char *copy = mot_strdup(text), *path = scratch_path("graph");
    for (char *c = copy; *c; c++) { *c = *c == '\'' ? '"' : *c; }
    scratch_write(path, copy, strlen(copy));
    free(copy);
    return path;
}

static void read_text(const char *text, int workers, struct mot_graphs *graphs)
{
    char *path = file_of(text);
    assert_int_equal(mot_graphs_read(path, workers, graphs), 0);
    free(path);
}

static void assert_equal_graphs(const struct mot_graph *a, const struct mot_graph *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->n_classes, b->n_classes);
    assert_int_equal(a->n_tasks, b->n_tasks);
    assert_int_equal(a->n_edges, b->n_edges);
    assert_true(memcmp(&a->optimum_ms, &b->optimum_ms, sizeof(double)) == 0
                || (isnan(a->optimum_ms) && isnan(b->optimum_ms)));
    for (int c = 0; c < a->n_classes; c++) {
        const struct mot_graph_class *x = &a->classes[c], *y = &b->classes[c];
        assert_string_equal(x->name, y->name);
        assert_true(x->workers == y->workers && x->memory_bytes == y->memory_bytes);
        assert_true(x->link_bytes_per_s == y->link_bytes_per_s && x->link_ms == y->link_ms);
    }
    for (int t = 0; t < a->n_tasks; t++) {
        const struct mot_graph_task *x = &a->tasks[t], *y = &b->tasks[t];
        assert_true(x->step == y->step && x->output_bytes == y->output_bytes);
        assert_true(!x->name == !y->name && (!x->name || strcmp(x->name, y->name) == 0));
        assert_true(!x->kind == !y->kind && (!x->kind || strcmp(x->kind, y->kind) == 0));
        assert_memory_equal(x->ms, y->ms, (size_t)a->n_classes * sizeof(double));
    }
    for (int e = 0; e < a->n_edges; e++) {
        const struct mot_graph_edge *x = &a->edges[e], *y = &b->edges[e];
        assert_true(x->before == y->before && x->after == y->after && x->bytes == y->bytes);
    }
}

/* ---- What is read ---------------------------------------------------------------------------- */

static void test_small_dags(void **state)
{
    (void)state;
    struct mot_graphs graphs;
    assert_int_equal(mot_graphs_read(MOT_TEST_DATA "/small-dags.json", 0, &graphs), 0);
    assert_int_equal(graphs.n, 30);
    const struct mot_graph *first = &graphs.graph[0], *nocpu = &graphs.graph[3];
    assert_string_equal(first->name, "rl2-1-4-eta0");
    assert_true(first->n_tasks == 11 && first->n_edges == 10 && first->n_classes == 2);
    assert_true(first->tasks[0].ms[0] == 2570.0 && first->tasks[0].ms[1] == 386.0);
    assert_string_equal(first->tasks[10].kind, "update");
    assert_true(first->edges[9].before == 9 && first->edges[9].after == 10);
    assert_true(first->optimum_ms == 1208.0 && first->longest_path_ms == 506.0);
    assert_int_equal(first->tasks[0].line, 2);
    assert_true(isinf(nocpu->tasks[0].ms[0]) && nocpu->tasks[0].ms[1] == 243.0);
    assert_int_equal(nocpu->tasks[0].line, 5);
    mot_graphs_free(&graphs);
}

static const char stg[] = "# a comment, then an empty line\n\n   4  # of them\n"
                          "  0  0  0\n  1  7  1  0\n  2  5  1  0\n  3  4  2  1 2\r\n  4  2.5 1 2\n"
                          "  5  0  2  3 4\n# Proto001.stg\n#    Processors : 3\n";

static void test_stg(void **state)
{
    (void)state;
    struct mot_graphs graphs;
    read_text(stg, 0, &graphs);
    const struct mot_graph *graph = &graphs.graph[0];
    assert_true(graphs.n == 1 && graph->n_tasks == 4 && graph->classes[0].workers == 3);
    const double ms[] = {7.0, 5.0, 4.0, 2.5};
    for (int t = 0; t < 4; t++) { assert_true(graph->tasks[t].ms[0] == ms[t]); }
    const int edge[][2] = {{0, 2}, {1, 2}, {1, 3}};
    assert_int_equal(graph->n_edges, 3);
    for (int e = 0; e < 3; e++) {
        assert_true(graph->edges[e].before == edge[e][0] && graph->edges[e].after == edge[e][1]);
    }
    assert_true(graph->tasks[2].line == 7 && graph->edges[1].line == 7);
    mot_graphs_free(&graphs);

    read_text(stg, 8, &graphs);
    assert_int_equal(graphs.graph[0].classes[0].workers, 8);
    mot_graphs_free(&graphs);
    /* Costs after each predecessor; no entry and exit; the number of processors in the first line;
     * numbers from 1. */
    read_text("2 6\n1 3 0\n2 4 1 1 50\n", 0, &graphs);
    graph = &graphs.graph[0];
    assert_true(graph->n_tasks == 2 && graph->classes[0].workers == 6);
    assert_true(graph->n_edges == 1 && graph->edges[0].bytes == 50.0);
    mot_graphs_free(&graphs);
}

/* One workflow in the three layouts. */
static const char wf13[] =
    "{'name': 'w', 'schemaVersion': '1.3', 'workflow': {'makespan': 9,\n"
    "'machines': [{'nodeName': 'a', 'cpu': {'count': 3}}, {'nodeName': 'b', 'cpu': {'count': "
    "1}}],\n"
    "'tasks': [\n"
    "{'name': 'split_ID01', 'runtime': 1.5, 'parents': [], 'children': ['count_ID02', "
    "'count_ID03'],\n"
    " 'files': [{'link': 'input', 'name': 'in', 'size': 5}, {'link': 'output', 'name': 'x', "
    "'size': 10},\n"
    " {'link': 'output', 'name': 'y', 'size': 20}]},\n"
    "{'name': 'count_ID02', 'runtime': 2, 'parents': ['split_ID01'], 'children': [],\n"
    " 'files': [{'link': 'input', 'name': 'x', 'size': 10}, {'link': 'input', 'name': 'y', 'size': "
    "20}]},\n"
    "{'name': 'count_ID03', 'runtime': 0.25, 'parents': ['split_ID01'], 'children': [],\n"
    " 'files': [{'link': 'input', 'name': 'y', 'size': 20}]}]}}\n";
static const char wf14[] =
    "{'name': 'w', 'schemaVersion': '1.4', 'workflow': {'makespanInSeconds': 9,\n"
    "'machines': [{'nodeName': 'a', 'cpu': {'coreCount': 4}}],\n"
    "'tasks': [\n"
    "{'name': 'split_ID01', 'id': 'ID01', 'runtimeInSeconds': 1.5, 'parents': [],\n"
    " 'children': ['count_ID02', 'count_ID03'],\n"
    " 'files': [{'link': 'output', 'name': 'x', 'sizeInBytes': 10},\n"
    " {'link': 'output', 'name': 'y', 'sizeInBytes': 20}]},\n"
    "{'name': 'count_ID02', 'id': 'ID02', 'runtimeInSeconds': 2, 'parents': [], 'children': [],\n"
    " 'files': [{'link': 'input', 'name': 'x', 'sizeInBytes': 10},\n"
    " {'link': 'input', 'name': 'y', 'sizeInBytes': 20}]},\n"
    "{'name': 'count_ID03', 'id': 'ID03', 'runtimeInSeconds': 0.25, 'parents': ['ID01'],\n"
    " 'children': [], 'files': [{'link': 'input', 'name': 'y', 'sizeInBytes': 20}]}]}}\n";
static const char wf15[] =
    "{'name': 'w', 'schemaVersion': '1.5', 'workflow': {'specification': {'tasks': [\n"
    "{'name': 'split_ID01', 'id': 'ID01', 'parents': [], 'children': ['ID02', 'ID03'],\n"
    " 'inputFiles': [], 'outputFiles': ['x', 'y']},\n"
    "{'name': 'count_ID02', 'id': 'ID02', 'parents': ['ID01'], 'children': [],\n"
    " 'inputFiles': ['x', 'y'], 'outputFiles': []},\n"
    "{'name': 'count_ID03', 'id': 'ID03', 'parents': ['ID01'], 'children': [],\n"
    " 'inputFiles': ['y']}],\n"
    "'files': [{'id': 'x', 'sizeInBytes': 10}, {'id': 'y', 'sizeInBytes': 20}]},\n"
    "'execution': {'makespanInSeconds': 9, 'executedAt': 'now', 'tasks': [\n"
    "{'id': 'ID02', 'runtimeInSeconds': 2}, {'id': 'ID01', 'runtimeInSeconds': 1.5},\n"
    "{'id': 'ID03', 'runtimeInSeconds': 0.25}],\n"
    "'machines': [{'nodeName': 'a', 'cpu': {'coreCount': 4, 'speedInMHz': 1000}}]}}}\n";

static void test_wfcommons(void **state)
{
    (void)state;
    const char *texts[] = {wf13, wf14, wf15};
    for (int i = 0; i < 3; i++) {
        struct mot_graphs graphs;
        read_text(texts[i], 0, &graphs);
        const struct mot_graph *graph = &graphs.graph[0];
        assert_true(graphs.n == 1 && graph->n_tasks == 3 && graph->n_edges == 2);
        assert_string_equal(graph->name, "w");
        assert_int_equal(graph->classes[0].workers, 4);
        assert_true(graph->tasks[0].ms[0] == 1500.0 && graph->tasks[1].ms[0] == 2000.0
                    && graph->tasks[2].ms[0] == 250.0);
        assert_true(graph->tasks[0].output_bytes == 30.0 && graph->tasks[1].output_bytes == 0.0);
        assert_string_equal(graph->tasks[2].kind, "count");
        assert_true(graph->edges[0].before == 0 && graph->edges[0].after == 1);
        assert_true(graph->edges[0].bytes == 30.0 && graph->edges[1].bytes == 20.0);
        mot_graphs_free(&graphs);
    }
}

static const char linked[] =
    "{'name': 'x', 'optimum_ms': 0.1, 'classes': [{'name': 'cpu', 'workers': 2},\n"
    "{'name': 'gpu', 'workers': 1, 'memory_bytes': 8e9, 'link_bytes_per_s': 1.2e10, 'link_ms': "
    "0.013}],\n"
    "'tasks': [{'name': 'g\\u00e9', 'kind': 'generate', 'step': 7, 'ms': [null, 0.1],\n"
    "'output_bytes': 64}, {'ms': [2, 1e-3]}],\n"
    "'edges': [[0, 1, 64.5]]}";

static void test_written_comes_back(void **state)
{
    (void)state;
    struct mot_graphs graphs, back;
    char *path = scratch_path("written");
    for (int i = 0; i < 2; i++) {
        if (i == 0) {
            read_text(linked, 0, &graphs);
            assert_true(graphs.graph[0].classes[1].link_bytes_per_s == 1.2e10);
            assert_true(graphs.graph[0].edges[0].bytes == 64.5);
        } else {
            assert_int_equal(mot_graphs_read(MOT_TEST_DATA "/small-dags.json", 0, &graphs), 0);
        }
        assert_int_equal(mot_graphs_write(&graphs, path), 0);
        assert_int_equal(mot_graphs_read(path, 0, &back), 0);
        assert_int_equal(graphs.n, back.n);
        for (int g = 0; g < graphs.n; g++) {
            assert_equal_graphs(&graphs.graph[g], &back.graph[g]);
        }
        mot_graphs_free(&graphs);
        mot_graphs_free(&back);
    }
    free(path);
}

static void test_json_lines(void **state)
{
    (void)state;
    const char text[] = "{\"a,:]}\": [1,\n 2.5 ,\n\"x\\\"\n\", {}],\n\"b\": {\"c\": [\n[]]}}";
    char *fixed = mot_strdup(text); /* a newline in a string is no JSON: make it a blank */
    fixed[strcspn(strstr(fixed, "x\\\""), "\n") + (size_t)(strstr(fixed, "x\\\"") - fixed)] = ' ';
    json_t *root = json_loads(fixed, 0, NULL);
    assert_non_null(root);
    struct mot_json_lines *lines = mot_json_lines_create(root, fixed, strlen(fixed));
    const json_t *a = json_object_get(root, "a,:]}");
    const json_t *c = json_object_get(json_object_get(root, "b"), "c");
    assert_int_equal(mot_json_lines_find(lines, root), 1);
    assert_int_equal(mot_json_lines_find(lines, json_array_get(a, 0)), 1);
    assert_int_equal(mot_json_lines_find(lines, json_array_get(a, 1)), 2);
    assert_int_equal(mot_json_lines_find(lines, json_array_get(a, 2)), 3);
    assert_int_equal(mot_json_lines_find(lines, json_array_get(a, 3)), 3);
    assert_int_equal(mot_json_lines_find(lines, c), 4);
    assert_int_equal(mot_json_lines_find(lines, json_array_get(c, 0)), 5);
    assert_int_equal(mot_json_lines_find(lines, (const json_t *)text), 0);
    mot_json_lines_destroy(lines);
    json_decref(root);
    free(fixed);
}

/* ---- What is refused ------------------------------------------------------------------------- */

#define TASKS2 "'tasks': [{'ms': [1]},\n{'ms': [2]}],\n"
#define CPU    "{'classes': [{'name': 'cpu', 'workers': 1}],\n"

/* text, the line that the message names, a word that it has. */
static const struct {
    const char *text;
    int line;
    const char *word;
} bad[] = {
    {"", 1, "no task graph"},
    {"hello\n", 1, "Standard Task Graph"},
    {"[]", 1, "no graph"},
    {"[1]", 1, "needed here"},
    {"{\n'edges': [}", 2, "not JSON"},
    {CPU "'edges': []}", 1, "\"tasks\" is missing"},
    {CPU "'tasks': [], 'edges': []}", 1, "no task"},
    {"{'classes': [], 'tasks': [{'ms': []}], 'edges': []}", 1, "no class"},
    {"{'classes': [\n{'name': 'cpu', 'workers': 0}], 'tasks': [], 'edges': []}", 2, "\"workers\""},
    {CPU TASKS2 "'edges': [[0, 1],\n[1, 0]]}", 0, "cycle of 2 tasks"},
    {CPU TASKS2 "'edges': [[1, 1]]}", 3, "cycle of 1 tasks"},
    {CPU TASKS2 "'edges': [[0, 1],\n[0, 2]]}", 5, "[0,2]"},
    {CPU TASKS2 "'edges': [[0, 1, -4]]}", 4, "-4 bytes"},
    {CPU TASKS2 "'edges': [\n[0]]}", 5, "[0]"},
    {CPU TASKS2 "'edges': 3}", 1, "\"edges\""},
    {CPU "'tasks': [{'ms': [1]},\n{'ms': [-2]}], 'edges': []}", 3, "class 0 is -2"},
    {CPU "'tasks': [{'ms': [1]},\n{'ms': ['x']}], 'edges': []}", 3, "class 0 is \"x\""},
    {CPU "'tasks': [{'ms': [1]},\n{'ms': [null]}], 'edges': []}", 3, "no class of workers can run"},
    {CPU "'tasks': [{'ms': [1]},\n{'ms': [1, 2]}], 'edges': []}", 3, "2 durations"},
    {CPU "'tasks': [{'ms': [1]},\n{}], 'edges': []}", 3, "\"ms\" is missing"},
    {CPU "'tasks': [{'ms': [1]},\n{'ms': [1], 'step': 0.5}], 'edges': []}", 3, "\"step\""},
    {"{'classes': [{'name': 'gpu', 'workers': 1, 'memory_bytes': 10}],\n'tasks': [{'ms': [1],\n"
     "'output_bytes': 11}], 'edges': []}",
     2, "memory for its 11 bytes"},
    {"{'classes': [{'name': 'gpu', 'workers': 1,\n'link_ms': -1}], 'tasks': [{'ms': [1]}], "
     "'edges': "
     "[]}",
     1, "\"link_ms\""},
    {"4\n1 2 0\n", 1, "4 tasks are announced, 1 lines"},
    {"2 2\n0 2 0\n1 3 1\n", 3, "the line ends"},
    {"2 2\n0 2 0\n1 3 1 5\n", 3, "'5' is not a task before it"},
    {"2 2\n0 2 0\n1 -3 1 0\n", 3, "'-3' is not its time"},
    {"2 2\n0 2 0\n7 3 1 0\n", 3, "task 7 where 1 should be"},
    {"2 2\n0 2 0\n1 3x 1 0\n", 3, "'3x'"},
    {"2 2\n0 2 0\n1 3 1 0 0 0 0\n", 3, "more numbers"},
    {"2 2\n0 2 1 1\n1 3 1 0\n", 0, "cycle of 2 tasks"},
    {"2\n0 2 0\n1 3 1 0\n", 1, "--workers"},
    {"2 2 2\n0 2 0\n1 3 1 0\n", 1, "more than"},
    {"1e9\n", 1, "number of tasks"},
    {"{'schemaVersion': '1.2', 'workflow': {}}", 1, "schema 1.2"},
    {"{'schemaVersion': '1.5'}", 1, "\"workflow\" is missing"},
    {"{'schemaVersion': '1.4', 'workflow': {'machines': [],\n'tasks': [{'name': 'a', "
     "'runtimeInSeconds': 1}]}}",
     1, "--workers"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct mot_graphs graphs = {NULL, -7};
        char *path = file_of(bad[i].text);
        catch_begin();
        const int status = mot_graphs_read(path, 0, &graphs);
        const int lines = catch_end();
        char place[600];
        snprintf(place, sizeof(place), bad[i].line ? "%s:%d: " : "%s:", path, bad[i].line);
        if (!failed_well(status, lines, place, bad[i].word)) { fail_msg("bad file %zu", i); }
        assert_int_equal(graphs.n, -7); /* untouched */
        free(path);
    }
    struct mot_graphs graphs;
    assert_int_equal(mot_graphs_read("/nowhere/graph", 0, &graphs), -ENOENT);
    char *path = file_of(linked);
    catch_begin();
    const int status = mot_graphs_read(path, 4, &graphs);
    assert_true(failed_well(status, catch_end(), path, "--workers"));
    free(path);
}

/* Two changes of the workflow that the text itself cannot show. */
static void test_workflow_refused(void **state)
{
    (void)state;
    const struct {
        const char *text, *from, *to, *word;
    } change[] = {
        {wf13, "'parents': ['split_ID01']", "'parents': ['split_ID99']", "no task 'split_ID99'"},
        {wf13, "'runtime': 2", "'runtime': -2", "\"runtime\" is -2"},
        {wf13, "'children': []", "'children': 'split_ID01'", "must be an array"},
        {wf14, "'id': 'ID02'", "'id': 'ID01'", "two tasks 'ID01'"},
        {wf15, "{'id': 'ID02', 'runtimeInSeconds': 2},", "", "no runtime"},
        {wf15, "{'id': 'ID02', 'run", "{'id': 'ID07', 'run", "no task 'ID07'"},
        {wf15, "'sizeInBytes': 20", "'sizeInBytes': 'x'", "\"sizeInBytes\""},
        {wf15, "'parents': []", "'parents': ['ID03']", "cycle of 2 tasks"},
    };
    for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
        const char *at = strstr(change[i].text, change[i].from);
        assert_non_null(at);
        char *text = mot_format("%.*s%s%s", (int)(at - change[i].text), change[i].text,
                                change[i].to, at + strlen(change[i].from));
        char *path = file_of(text);
        struct mot_graphs graphs;
        catch_begin();
        const int status = mot_graphs_read(path, 0, &graphs);
        if (!failed_well(status, catch_end(), path, change[i].word)) { fail_msg("change %zu", i); }
        free(path);
        free(text);
    }
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static const char *const words[] = {"null", "[]", "{}", "-1", "1e999", "99999999999", "'x'", "true",
                                    "0",    "1",  "2",  "]",  "}",     "\n",          "#",   "1.5"};

static uint32_t draw(uint32_t text, uint32_t mutation, uint32_t which, uint32_t bound)
{
    return mot_uniform_int(9, MOT_RNG_TEST, text, mutation, which, bound);
}

/* One to three changes; text has room. */
static void mutate(char *text, uint32_t number, uint32_t m)
{
    const uint32_t changes = 1 + draw(number, m, 0, 3);
    for (uint32_t i = 1; i <= changes && *text; i++) {
        const size_t n = strlen(text), at = draw(number, m, 8 * i, (uint32_t)n);
        const char *word = words[draw(number, m, 8 * i + 1, sizeof(words) / sizeof(words[0]))];
        const size_t span = draw(number, m, 8 * i + 2, 12);
        switch (draw(number, m, 8 * i + 3, 4)) {
        case 0:
            text[at] = (char)(1 + draw(number, m, 8 * i + 4, 255));
            break;
        case 1:
            text[at] = 0;
            break;
        case 2:
            memmove(text + at + strlen(word), text + at, n - at + 1);
            memcpy(text + at, word, strlen(word));
            break;
        default:
            memmove(text + at, text + (at + span < n ? at + span : n),
                    n - (at + span < n ? at + span : n) + 1);
        }
    }
}

static void test_damaged(void **state)
{
    (void)state;
    const char *texts[] = {stg, wf13, wf14, wf15, linked, CPU TASKS2 "'edges': [[0, 1]]}"};
    int read = 0, refused = 0;
    for (uint32_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (uint32_t m = 0; m < mutations; m++) {
            char text[4096];
            snprintf(text, sizeof(text), "%s", texts[i]);
            mutate(text, i, m);
            char *path = file_of(text);
            struct mot_graphs graphs;
            catch_begin();
            const int status = mot_graphs_read(path, 0, &graphs);
            const int lines = catch_end();
            if (status == 0) {
                assert_int_equal(lines, 0);
                assert_int_equal(mot_graph_check(&graphs.graph[0]), 0);
                mot_graphs_free(&graphs);
                read++;
            } else {
                assert_true(failed_well(status, lines, path, ":"));
                refused++;
            }
            free(path);
        }
    }
    printf("damaged files: %d read, %d refused\n", read, refused);
    assert_true(read > 0 && refused > 0);
}

static void test_order(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 50; i++) {
        struct mot_graph graph;
        int order[40], place[40], n;
        graph_random(&graph, i, 2, 40);
        assert_int_equal(mot_graph_order(&graph, order, &n), 0);
        assert_int_equal(n, graph.n_tasks);
        for (int t = 0; t < 40; t++) { place[t] = -1; }
        for (int j = 0; j < n; j++) { place[order[j]] = j; }
        for (int t = 0; t < n; t++) { assert_true(place[t] >= 0); }
        for (int e = 0; e < graph.n_edges; e++) {
            assert_true(place[graph.edges[e].before] < place[graph.edges[e].after]);
        }
        mot_graph_free(&graph);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) { mutations = (uint32_t)strtoul(argv[1], NULL, 10); }
    scratch_begin("test_graph");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_dags),
        cmocka_unit_test(test_stg),
        cmocka_unit_test(test_wfcommons),
        cmocka_unit_test(test_written_comes_back),
        cmocka_unit_test(test_json_lines),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_workflow_refused),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
