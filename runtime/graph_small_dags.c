/* graph_small_dags: Motley's own form of task graphs.  A file is one graph or an array of graphs:
 *
 *   {"name": "two", "optimum_ms": 12, "longest_path_ms": 12,
 *    "classes": [{"name": "cpu", "workers": 2}, {"name": "gpu", "workers": 1,
 *                 "memory_bytes": 8e9, "link_bytes_per_s": 12e9, "link_ms": 0.01}],
 *    "tasks": [{"name": "g0", "kind": "generate", "step": 0, "ms": [null, 10], "output_bytes": 64},
 *              {"kind": "reward", "step": 0, "ms": [2, 5]}],
 *    "edges": [[0, 1, 64]]}
 *
 * ms is the duration in each class, null where it cannot run; a task may also have "estimate_ms",
 * what policies are told of it instead, and "priority", a whole number, greater first; an edge is
 * [before, after] or [before, after, bytes].  Only classes (name, workers), tasks (ms) and edges
 * are needed.  Other keys are not read. */
#include "error.h"
#include "graph_formats.h"
#include "json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LARGEST = 1e15; /* milliseconds, bytes: sums of many stay exact enough */

static int looks_like_graph(const json_t *value)
{
    return json_is_object(value)
           && (json_object_get(value, "edges") || json_object_get(value, "classes")
               || json_object_get(value, "tasks"));
}

static int recognises(const struct mot_graph_text *text)
{
    if (!text->json) { return 0; }
    return json_is_array(text->json) || looks_like_graph(text->json);
}

/* A string, where there is one, copied to *to. */
static int optional_string(const json_t *object, const char *place, const char *key, char **to)
{
    const char *string;
    if (!mot_json_has(object, key)) { return 0; }
    const int status = mot_json_get_string(object, place, key, &string);
    if (!status) { *to = mot_strdup(string); }
    return status;
}

static int optional_number(const json_t *object, const char *place, const char *key, double *to)
{
    return mot_json_has(object, key) ? mot_json_get_number(object, place, key, 0.0, LARGEST, to)
                                     : 0;
}

static int read_class(const struct mot_graph_text *text, const json_t *value,
                      struct mot_graph_class *class)
{
    const char *place = mot_graph_place(text, value), *name;
    int64_t workers;
    int status = mot_json_get_string(value, place, "name", &name);
    if (!status) {
        class->name = mot_strdup(name);
        status = mot_json_get_int(value, place, "workers", 1, MOT_GRAPH_WORKERS_MAX, &workers);
    }
    if (!status) { status = optional_number(value, place, "memory_bytes", &class->memory_bytes); }
    if (!status) {
        status = optional_number(value, place, "link_bytes_per_s", &class->link_bytes_per_s);
    }
    if (!status) { status = optional_number(value, place, "link_ms", &class->link_ms); }
    if (status) { return status; }
    class->workers = (int)workers;
    return 0;
}

static int read_ms(const struct mot_graph_text *text, const json_t *task, const char *place,
                   const char *key, int n_classes, double *ms)
{
    json_t *array;
    const int status = mot_json_get_array(task, place, key, &array);
    if (status) { return status; }
    if ((int)json_array_size(array) != n_classes) {
        return mot_fail(EINVAL, "%s: \"%s\" has %zu durations, there are %d classes",
                        mot_graph_place(text, array), key, json_array_size(array), n_classes);
    }
    for (int c = 0; c < n_classes; c++) {
        const json_t *value = json_array_get(array, (size_t)c);
        ms[c] = json_is_null(value) ? INFINITY : json_number_value(value);
        if (!json_is_null(value) && !(json_is_number(value) && ms[c] >= 0.0 && ms[c] <= LARGEST)) {
            char *shown = mot_json_text(value);
            const int failed =
                mot_fail(EINVAL, "%s: \"%s\" for class %d is %.40s, not null or 0 to %g",
                         mot_graph_place(text, array), key, c, shown, LARGEST);
            free(shown);
            return failed;
        }
    }
    return 0;
}

static int read_task(const struct mot_graph_text *text, const json_t *value, int n_classes,
                     struct mot_graph_task *task)
{
    char place[512];
    snprintf(place, sizeof(place), "%s", mot_graph_place(text, value));
    task->line = mot_json_lines_find(text->lines, value);
    int64_t step = 0;
    int status = read_ms(text, value, place, "ms", n_classes, task->ms);
    if (!status) { status = optional_string(value, place, "name", &task->name); }
    if (!status) { status = optional_string(value, place, "kind", &task->kind); }
    if (!status && mot_json_has(value, "step")) {
        status = mot_json_get_int(value, place, "step", -1000000000, 1000000000, &step);
    }
    if (!status) { status = optional_number(value, place, "output_bytes", &task->output_bytes); }
    task->step = (int)step;
    return status;
}

/* What of a task only simulated runs look at. */
static int read_told(const struct mot_graph_text *text, const json_t *value,
                     struct mot_graph *graph, int t)
{
    char place[512];
    snprintf(place, sizeof(place), "%s", mot_graph_place(text, value));
    int64_t priority = 0;
    int status = 0;
    if (mot_json_has(value, "estimate_ms")) {
        status = read_ms(text, value, place, "estimate_ms", graph->n_classes,
                         graph->estimate_ms + (size_t)t * (size_t)graph->n_classes);
    }
    if (!status && mot_json_has(value, "priority")) {
        status = mot_json_get_int(value, place, "priority", -1000000000, 1000000000, &priority);
        if (!status) { graph->priority[t] = (int)priority; }
    }
    return status;
}

static int read_all_told(const struct mot_graph_text *text, const json_t *tasks,
                         struct mot_graph *graph)
{
    int estimates = 0, priorities = 0, status = 0;
    for (int t = 0; t < graph->n_tasks; t++) {
        estimates |= mot_json_has(json_array_get(tasks, (size_t)t), "estimate_ms");
        priorities |= mot_json_has(json_array_get(tasks, (size_t)t), "priority");
    }
    if (estimates) { mot_graph_add_estimates(graph); }
    if (priorities) { mot_graph_add_priorities(graph); }
    for (int t = 0; !status && t < graph->n_tasks && (estimates || priorities); t++) {
        status = read_told(text, json_array_get(tasks, (size_t)t), graph, t);
    }
    return status;
}

static int read_edge(const struct mot_graph_text *text, const json_t *value,
                     struct mot_graph *graph, int *capacity)
{
    const size_t n = json_array_size(value);
    const json_t *before = json_array_get(value, 0), *after = json_array_get(value, 1);
    const json_t *bytes = json_array_get(value, 2);
    const int good = (n == 2 || n == 3) && json_is_integer(before) && json_is_integer(after)
                     && (n == 2 || json_is_number(bytes));
    const json_int_t a = json_integer_value(before), b = json_integer_value(after);
    if (!good || a < 0 || b < 0 || a >= graph->n_tasks || b >= graph->n_tasks) {
        char *shown = mot_json_text(value);
        const int failed =
            mot_fail(EINVAL,
                     "%s: edge %.80s is not [before, after] or [before, after, bytes] "
                     "between tasks 0 to %d",
                     mot_graph_place(text, value), shown, graph->n_tasks - 1);
        free(shown);
        return failed;
    }
    mot_graph_add_edge(graph, capacity, (int)a, (int)b, n == 3 ? json_number_value(bytes) : 0.0,
                       mot_json_lines_find(text->lines, value));
    return 0;
}

static int too_many(const char *place, const char *what, size_t n)
{
    return mot_fail(EFBIG, "%s: %zu %s; at most %d are read", place, n, what,
                    (int)MOT_GRAPH_TASKS_MAX);
}

static int read_graph(const struct mot_graph_text *text, const json_t *value, int number,
                      struct mot_graphs *graphs)
{
    char place[512], name[32];
    snprintf(place, sizeof(place), "%s", mot_graph_place(text, value));
    snprintf(name, sizeof(name), "graph%d", number);
    json_t *classes, *tasks, *edges;
    int status = mot_json_get_array(value, place, "classes", &classes);
    if (!status) { status = mot_json_get_array(value, place, "tasks", &tasks); }
    if (!status) { status = mot_json_get_array(value, place, "edges", &edges); }
    if (status) { return status; }
    const size_t n = json_array_size(tasks), n_classes = json_array_size(classes);
    if (n > MOT_GRAPH_TASKS_MAX) { return too_many(place, "tasks", n); }
    if (json_array_size(edges) > MOT_GRAPH_TASKS_MAX) {
        return too_many(place, "edges", json_array_size(edges));
    }
    if (n_classes * n > 100 * (size_t)MOT_GRAPH_TASKS_MAX || n_classes > MOT_GRAPH_WORKERS_MAX) {
        return too_many(place, "classes", n_classes);
    }
    struct mot_graph *graph = mot_graphs_add(graphs);
    mot_graph_begin(graph, text->path, name, (int)n_classes, (int)n);
    graph->line = mot_json_lines_find(text->lines, value);
    char *own = NULL;
    status = optional_string(value, place, "name", &own);
    if (own) {
        free(graph->name);
        graph->name = own;
    }
    if (!status) { status = optional_number(value, place, "optimum_ms", &graph->optimum_ms); }
    if (!status) {
        status = optional_number(value, place, "longest_path_ms", &graph->longest_path_ms);
    }
    for (size_t c = 0; !status && c < n_classes; c++) {
        status = read_class(text, json_array_get(classes, c), &graph->classes[c]);
    }
    for (size_t t = 0; !status && t < n; t++) {
        status = read_task(text, json_array_get(tasks, t), (int)n_classes, &graph->tasks[t]);
    }
    if (!status) { status = read_all_told(text, tasks, graph); }
    int capacity = 0;
    for (size_t e = 0; !status && e < json_array_size(edges); e++) {
        status = read_edge(text, json_array_get(edges, e), graph, &capacity);
    }
    if (!status && text->workers > 0 && n_classes > 1) {
        status = mot_fail(EINVAL,
                          "%s: --workers is for files of one class of workers; this one has "
                          "%zu",
                          place, n_classes);
    }
    if (!status && text->workers > 0 && n_classes == 1) {
        graph->classes[0].workers = text->workers;
    }
    return status;
}

static int read_all(const struct mot_graph_text *text, struct mot_graphs *graphs)
{
    if (!json_is_array(text->json)) { return read_graph(text, text->json, 0, graphs); }
    int status = 0;
    for (size_t i = 0; !status && i < json_array_size(text->json); i++) {
        status = read_graph(text, json_array_get(text->json, i), (int)i, graphs);
    }
    return status;
}

const struct mot_graph_format mot_graph_format_small_dags = {recognises, read_all};
