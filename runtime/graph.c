/* graph: a task graph in memory; checks, order, and edges by task.  See graph.h. */
#include "graph.h"
#include "error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void mot_graph_begin(struct mot_graph *graph, const char *file, const char *name, int n_classes,
                     int n_tasks)
{
    memset(graph, 0, sizeof(*graph));
    graph->name = mot_strdup(name);
    graph->file = mot_strdup(file);
    graph->n_classes = n_classes;
    graph->classes = mot_alloc_zeroed((size_t)n_classes, sizeof(*graph->classes));
    graph->n_tasks = n_tasks;
    graph->tasks = mot_alloc_zeroed((size_t)n_tasks, sizeof(*graph->tasks));
    double *ms = mot_alloc_zeroed((size_t)n_tasks * (size_t)n_classes + 1, sizeof(*ms));
    for (int t = 0; t < n_tasks; t++) { graph->tasks[t].ms = ms + (size_t)t * (size_t)n_classes; }
    if (n_tasks == 0) { free(ms); }
    graph->optimum_ms = graph->longest_path_ms = NAN;
}

void mot_graph_add_edge(struct mot_graph *graph, int *capacity, int before, int after, double bytes,
                        int line)
{
    if (graph->n_edges == *capacity) {
        *capacity = 2 * *capacity + 16;
        graph->edges = mot_realloc(graph->edges, (size_t)*capacity * sizeof(*graph->edges));
    }
    graph->edges[graph->n_edges++] = (struct mot_graph_edge){before, after, bytes, line};
}

void mot_graph_add_estimates(struct mot_graph *graph)
{
    if (graph->estimate_ms || graph->n_tasks == 0) { return; }
    const size_t n = (size_t)graph->n_tasks * (size_t)graph->n_classes;
    graph->estimate_ms = mot_alloc((n + 1) * sizeof(double));
    memcpy(graph->estimate_ms, graph->tasks[0].ms, n * sizeof(double)); /* one block */
}

void mot_graph_add_priorities(struct mot_graph *graph)
{
    if (graph->priority) { return; }
    graph->priority = mot_alloc_zeroed((size_t)graph->n_tasks + 1, sizeof(int));
}

void mot_graph_free(struct mot_graph *graph)
{
    for (int c = 0; c < graph->n_classes; c++) { free(graph->classes[c].name); }
    for (int t = 0; t < graph->n_tasks; t++) {
        free(graph->tasks[t].name);
        free(graph->tasks[t].kind);
    }
    if (graph->n_tasks > 0) { free(graph->tasks[0].ms); } /* one block, see mot_graph_begin */
    free(graph->name);
    free(graph->file);
    free(graph->classes);
    free(graph->tasks);
    free(graph->edges);
    free(graph->estimate_ms);
    free(graph->priority);
    memset(graph, 0, sizeof(*graph));
}

void mot_graph_links(const struct mot_graph *graph, int by_after, struct mot_graph_links *links)
{
    const int n = graph->n_tasks;
    links->start = mot_alloc_zeroed((size_t)n + 2, sizeof(*links->start));
    links->edge = mot_alloc((size_t)graph->n_edges * sizeof(*links->edge));
    int *next = links->start + 1; /* next[t] ends as start[t + 1] */
    for (int e = 0; e < graph->n_edges; e++) {
        next[1 + (by_after ? graph->edges[e].after : graph->edges[e].before)]++;
    }
    for (int t = 0; t < n; t++) { next[t + 1] += next[t]; }
    for (int e = 0; e < graph->n_edges; e++) {
        const int t = by_after ? graph->edges[e].after : graph->edges[e].before;
        links->edge[next[t]++] = e;
    }
}

void mot_graph_links_free(struct mot_graph_links *links)
{
    free(links->start);
    free(links->edge);
    memset(links, 0, sizeof(*links));
}

/* A heap of task indices, smallest first, so that ties go by index. */
static void heap_push(int *heap, int n, int task)
{
    while (n > 0 && heap[(n - 1) / 2] > task) {
        heap[n] = heap[(n - 1) / 2];
        n = (n - 1) / 2;
    }
    heap[n] = task;
}

static int heap_pop(int *heap, int n) /* n: with the one that goes */
{
    const int first = heap[0], last = heap[--n];
    int at = 0;
    for (int child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child]) { child++; }
        if (heap[child] >= last) { break; }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

int mot_graph_order(const struct mot_graph *graph, int *order, int *n_done)
{
    const int n = graph->n_tasks;
    struct mot_graph_links out;
    mot_graph_links(graph, 0, &out);
    int *waits = mot_alloc_zeroed((size_t)n, sizeof(*waits));
    int *heap = mot_alloc((size_t)n * sizeof(*heap));
    for (int e = 0; e < graph->n_edges; e++) { waits[graph->edges[e].after]++; }
    int ready = 0, done = 0;
    for (int t = 0; t < n; t++) {
        if (waits[t] == 0) { heap_push(heap, ready++, t); }
    }
    while (ready > 0) {
        const int t = order[done++] = heap_pop(heap, ready--);
        for (int i = out.start[t]; i < out.start[t + 1]; i++) {
            const int after = graph->edges[out.edge[i]].after;
            if (--waits[after] == 0) { heap_push(heap, ready++, after); }
        }
    }
    mot_graph_links_free(&out);
    free(waits);
    free(heap);
    if (n_done) { *n_done = done; }
    return done == n ? 0 : -EINVAL;
}

double mot_graph_fastest_ms(const struct mot_graph *graph, int task)
{
    double best = INFINITY;
    for (int c = 0; c < graph->n_classes; c++) {
        if (mot_graph_can_run(graph, task, c)) { best = fmin(best, graph->tasks[task].ms[c]); }
    }
    return best;
}

int mot_graph_can_run(const struct mot_graph *graph, int task, int c)
{
    const struct mot_graph_task *t = &graph->tasks[task];
    const double memory = graph->classes[c].memory_bytes;
    return isfinite(t->ms[c]) && !(memory > 0.0 && t->output_bytes > memory);
}

int mot_graph_workers(const struct mot_graph *graph)
{
    int workers = 0;
    for (int c = 0; c < graph->n_classes; c++) { workers += graph->classes[c].workers; }
    return workers;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* "file:line: task 7 'name'", into text. */
static const char *task_place(const struct mot_graph *graph, int t, char text[512])
{
    const struct mot_graph_task *task = &graph->tasks[t];
    snprintf(text, 512, "%.200s:%d: task %d%s%.120s%s", graph->file,
             task->line ? task->line : graph->line, t, task->name ? " '" : "",
             task->name ? task->name : "", task->name ? "'" : "");
    return text;
}

static int check_classes(const struct mot_graph *graph)
{
    long long workers = 0;
    if (graph->n_classes < 1) {
        return mot_fail(EINVAL, "%s:%d: graph '%.120s': there is no class of workers", graph->file,
                        graph->line, graph->name);
    }
    for (int c = 0; c < graph->n_classes; c++) {
        const struct mot_graph_class *class = &graph->classes[c];
        workers += class->workers;
        if (class->workers < 1 || workers > MOT_GRAPH_WORKERS_MAX) {
            return mot_fail(EINVAL, "%s:%d: class '%.120s': %d workers; 1 to %d in all are needed",
                            graph->file, graph->line, class->name, class->workers,
                            (int)MOT_GRAPH_WORKERS_MAX);
        }
        const double sizes[] = {class->memory_bytes, class->link_bytes_per_s, class->link_ms};
        for (int i = 0; i < 3; i++) {
            if (!(isfinite(sizes[i]) && sizes[i] >= 0.0)) {
                return mot_fail(EINVAL, "%s:%d: class '%.120s': %s is %g, not 0 or more",
                                graph->file, graph->line, class->name,
                                i == 0   ? "the memory"
                                : i == 1 ? "the link's speed"
                                         : "the latency",
                                sizes[i]);
            }
        }
    }
    return 0;
}

static int check_task(const struct mot_graph *graph, int t)
{
    char place[512];
    const struct mot_graph_task *task = &graph->tasks[t];
    int can = 0, fits = 0;
    for (int c = 0; c < graph->n_classes; c++) {
        if (isnan(task->ms[c]) || task->ms[c] < 0.0) {
            return mot_fail(EINVAL, "%s: %g ms on class '%.120s' is no duration",
                            task_place(graph, t, place), task->ms[c], graph->classes[c].name);
        }
        const double estimate =
            graph->estimate_ms
                ? graph->estimate_ms[(size_t)t * (size_t)graph->n_classes + (size_t)c]
                : task->ms[c];
        if (isnan(estimate) || estimate < 0.0 || isfinite(estimate) != isfinite(task->ms[c])) {
            return mot_fail(EINVAL, "%s: on class '%.120s' the duration is %g ms, the estimate %g",
                            task_place(graph, t, place), graph->classes[c].name, task->ms[c],
                            estimate);
        }
        can += isfinite(task->ms[c]);
        fits += mot_graph_can_run(graph, t, c);
    }
    if (!(isfinite(task->output_bytes) && task->output_bytes >= 0.0)) {
        return mot_fail(EINVAL, "%s: an output of %g bytes", task_place(graph, t, place),
                        task->output_bytes);
    }
    if (can == 0) {
        return mot_fail(EINVAL, "%s: no class of workers can run it", task_place(graph, t, place));
    }
    if (fits == 0) {
        return mot_fail(EINVAL, "%s: no class that can run it has the memory for its %.0f bytes",
                        task_place(graph, t, place), task->output_bytes);
    }
    return 0;
}

/* order: as mot_graph_order left it, with done tasks outside the cycle.  Names the tasks of one:
 * walking back from a task that waits always meets another that waits. */
static int report_cycle(const struct mot_graph *graph, const int *order, int done)
{
    const int n = graph->n_tasks;
    int *mark = mot_alloc_zeroed((size_t)n, sizeof(*mark)); /* 1: done; 2: on the walk */
    int *back = mot_alloc((size_t)n * sizeof(*back));       /* a waiting predecessor */
    int at = -1;
    for (int i = 0; i < done; i++) { mark[order[i]] = 1; }
    for (int e = 0; e < graph->n_edges; e++) {
        const struct mot_graph_edge *edge = &graph->edges[e];
        if (mark[edge->before] == 0 && mark[edge->after] == 0) {
            back[edge->after] = edge->before;
            at = edge->after;
        }
    }
    while (mark[at] == 0) {
        mark[at] = 2;
        at = back[at];
    }
    char place[512], text[256];
    size_t used = 0;
    int t = at, length = 0;
    do {
        length++;
        if (used < sizeof(text) - 24) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%d <- ", t);
        }
        t = back[t];
    } while (t != at);
    free(mark);
    free(back);
    return mot_fail(EINVAL, "%s: waits for itself: a cycle of %d tasks (%s%d)",
                    task_place(graph, at, place), length, text, at);
}

int mot_graph_check(const struct mot_graph *graph)
{
    const int n = graph->n_tasks;
    int status = check_classes(graph);
    if (!status && n < 1) {
        status = mot_fail(EINVAL, "%s:%d: graph '%.120s' has no task", graph->file, graph->line,
                          graph->name);
    }
    for (int t = 0; !status && t < n; t++) { status = check_task(graph, t); }
    for (int e = 0; !status && e < graph->n_edges; e++) {
        const struct mot_graph_edge *edge = &graph->edges[e];
        const int bad =
            edge->before < 0 || edge->before >= n || edge->after < 0 || edge->after >= n;
        const int line = edge->line ? edge->line : graph->line;
        if (bad) {
            status = mot_fail(EINVAL, "%s:%d: edge %d -> %d: there are only tasks 0 to %d",
                              graph->file, line, edge->before, edge->after, n - 1);
        } else if (!(isfinite(edge->bytes) && edge->bytes >= 0.0)) {
            status = mot_fail(EINVAL, "%s:%d: edge %d -> %d: %g bytes", graph->file, line,
                              edge->before, edge->after, edge->bytes);
        }
    }
    if (status) { return status; }
    int *order = mot_alloc((size_t)n * sizeof(*order)), done;
    if (mot_graph_order(graph, order, &done)) { status = report_cycle(graph, order, done); }
    free(order);
    return status;
}
