/* graph_write: task graphs as graph_small_dags.c reads them.  See graph.h. */
#include "error.h"
#include "file.h"
#include "graph.h"
#include "json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 17 }; /* doubles come back bit for bit */

static void set(json_t *object, const char *key, json_t *value)
{
    MOT_ASSERT(value && json_object_set_new(object, key, value) == 0);
}

static void append(json_t *array, json_t *value)
{
    MOT_ASSERT(value && json_array_append_new(array, value) == 0);
}

/* Whole numbers as such. */
static json_t *number(double value)
{
    const int whole = isfinite(value) && value == floor(value) && fabs(value) < 1e15;
    return whole ? json_integer((json_int_t)value) : mot_json_number(value);
}

static void set_unless_zero(json_t *object, const char *key, double value)
{
    if (value != 0.0) { set(object, key, number(value)); }
}

static json_t *class_object(const struct mot_graph_class *class)
{
    json_t *object = json_object();
    set(object, "name", mot_json_string(class->name, strlen(class->name)));
    set(object, "workers", json_integer(class->workers));
    set_unless_zero(object, "memory_bytes", class->memory_bytes);
    set_unless_zero(object, "link_bytes_per_s", class->link_bytes_per_s);
    set_unless_zero(object, "link_ms", class->link_ms);
    return object;
}

static json_t *task_object(const struct mot_graph *graph, int t)
{
    const struct mot_graph_task *task = &graph->tasks[t];
    json_t *object = json_object(), *ms = json_array(), *estimate = json_array();
    if (task->name) { set(object, "name", mot_json_string(task->name, strlen(task->name))); }
    if (task->kind) { set(object, "kind", mot_json_string(task->kind, strlen(task->kind))); }
    set(object, "step", json_integer(task->step));
    for (int c = 0; c < graph->n_classes; c++) { append(ms, number(task->ms[c])); }
    set(object, "ms", ms);
    for (int c = 0; graph->estimate_ms && c < graph->n_classes; c++) {
        append(estimate, number(graph->estimate_ms[t * graph->n_classes + c]));
    }
    if (graph->estimate_ms) { json_object_set(object, "estimate_ms", estimate); }
    json_decref(estimate);
    if (graph->priority) { set(object, "priority", json_integer(graph->priority[t])); }
    set_unless_zero(object, "output_bytes", task->output_bytes);
    return object;
}

static json_t *graph_object(const struct mot_graph *graph)
{
    json_t *object = json_object(), *classes = json_array(), *tasks = json_array(),
           *edges = json_array();
    set(object, "name", mot_json_string(graph->name, strlen(graph->name)));
    if (!isnan(graph->optimum_ms)) { set(object, "optimum_ms", number(graph->optimum_ms)); }
    if (!isnan(graph->longest_path_ms)) {
        set(object, "longest_path_ms", number(graph->longest_path_ms));
    }
    for (int c = 0; c < graph->n_classes; c++) {
        append(classes, class_object(&graph->classes[c]));
    }
    for (int t = 0; t < graph->n_tasks; t++) { append(tasks, task_object(graph, t)); }
    for (int e = 0; e < graph->n_edges; e++) {
        json_t *edge = json_array();
        append(edge, json_integer(graph->edges[e].before));
        append(edge, json_integer(graph->edges[e].after));
        if (graph->edges[e].bytes != 0.0) { append(edge, number(graph->edges[e].bytes)); }
        append(edges, edge);
    }
    set(object, "classes", classes);
    set(object, "tasks", tasks);
    set(object, "edges", edges);
    return object;
}

int mot_graphs_write(const struct mot_graphs *graphs, const char *path)
{
    char *bytes = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&bytes, &n);
    MOT_ASSERT(memory);
    for (int g = 0; g < graphs->n; g++) {
        json_t *object = graph_object(&graphs->graph[g]);
        char *text = json_dumps(object, JSON_REAL_PRECISION(DIGITS));
        MOT_ASSERT(text);
        fprintf(memory, "%s%s", g ? ",\n" : "[\n", text);
        free(text);
        json_decref(object);
    }
    fprintf(memory, "%s\n]\n", graphs->n ? "" : "[");
    MOT_ASSERT(fclose(memory) == 0);
    const int status = mot_file_write(path, bytes, n);
    free(bytes);
    return status;
}
