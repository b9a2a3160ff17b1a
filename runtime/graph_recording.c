/* A recording as a task graph: who ran is a task, what it read and overwrote makes the edges.  See
 * graph_formats.h and trace_read.h.
 *
 * - Classes: workers of one kind and model.  A task's duration is its own on the class where it
 *   ran, elsewhere the mean of tasks of its name and size class there; where none ran, none can.
 * - Edges with bytes: from the maker of a content to its readers.  Without: from the readers of a
 *   content, and its maker, to who overwrites it; and from a task to one that its callback
 *   submitted.  Accesses whose order does not matter (STARPU_COMMUTE) stay in the order they had.
 * - A link is as fast as the fastest transfer seen on it, since the others' ends are upper values.
 * Tasks that a killed program had under way are not in it. */
#include "error.h"
#include "graph_formats.h"
#include "trace_read.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One task's part in one version of a datum. */
struct part {
    uint32_t data, version;
    int task;
    enum mot_recorded_mode mode;
    double bytes;
};
struct parts {
    struct part *at;
    int n;
};

static int recognises(const struct mot_graph_text *text)
{
    return text->n >= 2 && (unsigned char)text->bytes[0] == 0x1f
           && (unsigned char)text->bytes[1] == 0x8b; /* gzip */
}

/* ---- Classes -------------------------------------------------------------------------------- */

/* Kind and model: "CUDA 1.0 (NVIDIA H200 139.7 GiB 8b:00.0)" is "CUDA NVIDIA H200". */
static char *class_name(const struct mot_recorded_worker *worker)
{
    const char *model = strchr(worker->name, '(');
    if (!model) { return mot_strdup(worker->kind); }
    char *name = mot_format("%s %s", worker->kind, model + 1);
    char *end = strstr(name, " GiB");
    if (end) { /* the size before it too */
        *end = '\0';
        end = strrchr(name, ' ');
    } else {
        end = strrchr(name, ')');
    }
    if (end) { *end = '\0'; }
    return name;
}

/* Fills the classes, and class_of each worker. */
static void fill_classes(const struct mot_recording *r, struct mot_graph *graph, int *class_of)
{
    int n = 0;
    for (int w = 0; w < r->n_workers; w++) {
        char *name = class_name(&r->workers[w]);
        int c = 0;
        while (c < n && strcmp(graph->classes[c].name, name) != 0) { c++; }
        class_of[w] = c;
        graph->classes[c].workers++;
        if (c < n) {
            free(name);
            continue;
        }
        n++;
        graph->classes[c].name = name;
        graph->classes[c].memory_bytes = fmax(r->nodes[r->workers[w].node].bytes, 0.0);
    }
    graph->n_classes = n;
    for (int i = 0; i < r->n_transfers; i++) {
        const struct mot_recorded_transfer *x = &r->transfers[i];
        const double s = (x->end_us - x->start_us) * 1e-6;
        for (int w = 0; w < r->n_workers && x->end != MOT_RECORDED_UNKNOWN && s > 0.0; w++) {
            const int node = r->workers[w].node;
            if (node == 0 || (node != x->from && node != x->to)) { continue; } /* 0: main memory */
            double *rate = &graph->classes[class_of[w]].link_bytes_per_s;
            *rate = fmax(*rate, x->bytes / s);
        }
    }
}

/* ---- Durations ------------------------------------------------------------------------------ */

static const struct mot_recording *sorted; /* for the order below; one thread at a time */

static int by_kind(const void *a, const void *b)
{
    const struct mot_recorded_task *x = &sorted->tasks[*(const int *)a];
    const struct mot_recorded_task *y = &sorted->tasks[*(const int *)b];
    const int order = strcmp(x->name, y->name);
    return order ? order : x->size_class - y->size_class;
}

static void fill_durations(const struct mot_recording *r, struct mot_graph *graph,
                           const int *class_of)
{
    const int n = r->n_tasks, C = graph->n_classes;
    int *order = mot_alloc(((size_t)n + 1) * sizeof(*order));
    double *sum = mot_alloc((size_t)C * sizeof(*sum)),
           *count = mot_alloc((size_t)C * sizeof(*count));
    for (int i = 0; i < n; i++) { order[i] = i; }
    sorted = r;
    if (n > 0) { qsort(order, (size_t)n, sizeof(*order), by_kind); }
    for (int first = 0, last; first < n; first = last) {
        for (int c = 0; c < C; c++) { sum[c] = count[c] = 0.0; }
        for (last = first; last < n && by_kind(&order[first], &order[last]) == 0; last++) {
            const struct mot_recorded_task *t = &r->tasks[order[last]];
            sum[class_of[t->worker]] += (t->end_us - t->start_us) * 1e-3;
            count[class_of[t->worker]] += 1.0;
        }
        for (int i = first; i < last; i++) {
            const struct mot_recorded_task *t = &r->tasks[order[i]];
            double *ms = graph->tasks[order[i]].ms;
            for (int c = 0; c < C; c++) { ms[c] = count[c] > 0.0 ? sum[c] / count[c] : INFINITY; }
            ms[class_of[t->worker]] = (t->end_us - t->start_us) * 1e-3;
        }
    }
    free(order);
    free(sum);
    free(count);
}

/* ---- Edges ---------------------------------------------------------------------------------- */

static int by_datum(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->data != y->data) { return x->data < y->data ? -1 : 1; }
    if (x->version != y->version) { return x->version < y->version ? -1 : 1; }
    return x->task - y->task;
}

static struct parts list_parts(const struct mot_recording *r)
{
    size_t n = 0;
    for (int i = 0; i < r->n_tasks; i++) { n += (size_t)r->tasks[i].n_accesses; }
    struct parts parts = {mot_alloc((n + 1) * sizeof(struct part)), 0};
    for (int i = 0; i < r->n_tasks; i++) {
        for (int k = 0; k < r->tasks[i].n_accesses; k++) {
            const struct mot_recorded_access *a = &r->tasks[i].accesses[k];
            parts.at[parts.n++] = (struct part){a->data, a->version, i, a->mode, a->bytes};
        }
    }
    if (parts.n > 0) { qsort(parts.at, (size_t)parts.n, sizeof(struct part), by_datum); }
    return parts;
}

static int makes(const struct part *part)
{
    return part->mode == MOT_RECORDED_W || part->mode == MOT_RECORDED_RW
           || part->mode == MOT_RECORDED_COMMUTE;
}

struct edges {
    const struct mot_recording *r;
    struct mot_graph_edge *at;
    int n;
    size_t room;
};

/* Only where before had ended when after began: not for a task with the datum twice, nor between
 * those that add to one content beside each other. */
static void add(struct edges *edges, int before, int after, double bytes)
{
    const struct mot_recorded_task *tasks = edges->r->tasks;
    if (before == after || tasks[before].end_us > tasks[after].start_us) { return; }
    if ((size_t)edges->n == edges->room) {
        edges->room = 2 * edges->room + 256;
        edges->at = mot_realloc(edges->at, edges->room * sizeof(*edges->at));
    }
    edges->at[edges->n++] =
        (struct mot_graph_edge){.before = before, .after = after, .bytes = bytes};
}

/* Within one version, and from it to the maker of the next. */
static void add_version(struct edges *edges, const struct part *v, int n, const struct part *next)
{
    for (int i = 0; i < n; i++) {
        const int is_content = makes(&v[i]) || v[i].mode == MOT_RECORDED_REDUX;
        for (int k = 0; k < n && is_content; k++) {
            if (!makes(&v[k]) && (makes(&v[i]) || v[k].mode == MOT_RECORDED_R)) {
                add(edges, v[i].task, v[k].task, v[k].bytes);
            }
        }
        if (next) {
            const int reads = is_content && next->mode != MOT_RECORDED_W;
            add(edges, v[i].task, next->task, reads ? next->bytes : 0.0);
        }
    }
}

static void add_data(struct edges *edges)
{
    struct parts parts = list_parts(edges->r);
    for (int first = 0, last; first < parts.n; first = last) {
        const struct part *v = &parts.at[first], *next = NULL;
        for (last = first; last < parts.n && parts.at[last].data == v->data
                           && parts.at[last].version == v->version;) {
            last++;
        }
        for (int i = last; i < parts.n && !next && parts.at[i].data == v->data
                           && parts.at[i].version == v->version + 1;
             i++) {
            if (makes(&parts.at[i])) { next = &parts.at[i]; }
        }
        add_version(edges, v, last - first, next);
    }
    free(parts.at);
}

/* The index of the task of that number; -1: not recorded. */
static int index_of(const struct mot_recording *r, uint32_t number)
{
    int low = 0, high = r->n_tasks;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (r->tasks[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < r->n_tasks && r->tasks[low].number == number ? low : -1;
}

static void add_submissions(struct edges *edges)
{
    const struct mot_recording *r = edges->r;
    for (int i = 0; i < r->n_tasks; i++) {
        const int by = r->tasks[i].by ? index_of(r, r->tasks[i].by) : -1;
        if (by >= 0 && r->tasks[by].end_us <= r->tasks[i].submit_us) { add(edges, by, i, 0.0); }
    }
}

static int by_ends(const void *a, const void *b)
{
    const struct mot_graph_edge *x = a, *y = b;
    if (x->before != y->before) { return x->before - y->before; }
    return x->after - y->after;
}

/* One edge between two tasks, with the bytes of all. */
static void fill_edges(const struct mot_recording *r, struct mot_graph *graph)
{
    struct edges edges = {.r = r};
    add_data(&edges);
    add_submissions(&edges);
    if (edges.n > 0) { qsort(edges.at, (size_t)edges.n, sizeof(*edges.at), by_ends); }
    int capacity = 0;
    for (int i = 0, k; i < edges.n; i = k) {
        double bytes = 0.0;
        for (k = i; k < edges.n && by_ends(&edges.at[i], &edges.at[k]) == 0; k++) {
            bytes += edges.at[k].bytes;
        }
        mot_graph_add_edge(graph, &capacity, edges.at[i].before, edges.at[i].after, bytes, 0);
    }
    free(edges.at);
}

/* ---- The graph ------------------------------------------------------------------------------ */

static void fill(const struct mot_recording *r, const char *path, struct mot_graph *graph)
{
    int *class_of = mot_alloc(((size_t)r->n_workers + 1) * sizeof(*class_of));
    mot_graph_begin(graph, path, r->policy, r->n_workers, r->n_tasks); /* at most so many classes */
    fill_classes(r, graph, class_of);
    for (int i = 0; i < r->n_tasks; i++) {
        const struct mot_recorded_task *t = &r->tasks[i];
        struct mot_graph_task *to = &graph->tasks[i];
        to->name = mot_format("%s.%u", t->name, t->number);
        to->kind = mot_strdup(t->name);
        to->step = t->step > 0 ? t->step : 0;
        for (int k = 0; k < t->n_accesses; k++) {
            const enum mot_recorded_mode mode = t->accesses[k].mode;
            to->output_bytes += mode != MOT_RECORDED_R ? t->accesses[k].bytes : 0.0;
        }
    }
    fill_durations(r, graph, class_of);
    fill_edges(r, graph);
    free(class_of);
}

static int read_recording(const struct mot_graph_text *text, struct mot_graphs *graphs)
{
    struct mot_recording *r;
    const int error = mot_recording_read(text->path, &r);
    if (error) { return error; }
    fill(r, text->path, mot_graphs_add(graphs));
    mot_recording_free(r);
    return 0;
}

const struct mot_graph_format mot_graph_format_recording = {recognises, read_recording};
