/* graph_wfcommons: workflows of WfCommons and WfInstances (WfFormat,
 * github.com/wfcommons/WfFormat).
 *
 * Schema 1.5 and 1.6: workflow.specification has tasks (id, parents, children, inputFiles,
 * outputFiles) and files (id, sizeInBytes); workflow.execution has tasks (id, runtimeInSeconds) and
 * machines (cpu.coreCount).  Schema 1.4: workflow has tasks (name, id, runtimeInSeconds, parents,
 * children, files with link, name, sizeInBytes) and machines (cpu.coreCount or cpu.count).  Schema
 * 1.3: the same with runtime, and size.
 *
 * One class: the cores of all machines, or as many workers as asked for.  Parents and children name
 * tasks by id or by name, and either side's list will do.  An edge's bytes are the files that one
 * task writes and the other reads. */
#include "error.h"
#include "graph_formats.h"
#include "json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct workflow {
    const struct mot_graph_text *text;
    const char *version;
    json_t *tasks;         /* of the specification */
    json_t *files;         /* 1.5: all files by id, or NULL */
    json_t *runs;          /* 1.5: the execution's tasks, or NULL */
    json_t *machines;      /* or NULL */
    json_t *index;         /* id or name of a task: its number; owned */
    json_t *size, *writer; /* file: bytes; file: the number of the task that writes it; owned */
    struct mot_graph *graph;
    int capacity;
};

static int recognises(const struct mot_graph_text *text)
{
    return text->json && json_is_object(text->json)
           && (json_object_get(text->json, "workflow")
               || json_object_get(text->json, "schemaVersion"));
}

static const char *place_of(const struct workflow *w, const json_t *value)
{
    return mot_graph_place(w->text, value);
}

/* The number that index has for the string, or a message. */
static int find_task(const struct workflow *w, const json_t *name, int *task)
{
    const char *text = json_string_value(name);
    const json_t *found = text ? json_object_get(w->index, text) : NULL;
    if (!found) {
        return mot_fail(EINVAL, "%s: there is no task '%.120s'", place_of(w, name),
                        text ? text : "(not a string)");
    }
    *task = (int)json_integer_value(found);
    return 0;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static void name_task(struct workflow *w, const json_t *task, const char *key, int number)
{
    const char *name = json_string_value(json_object_get(task, key));
    if (name && !json_object_get(w->index, name)) {
        MOT_ASSERT(json_object_set_new(w->index, name, json_integer(number)) == 0);
    }
}

/* Ids first: a name that is another task's id means that one. */
static int index_tasks(struct workflow *w)
{
    const size_t n = json_array_size(w->tasks);
    w->index = json_object();
    for (size_t t = 0; t < n; t++) {
        const json_t *task = json_array_get(w->tasks, t);
        if (!json_is_object(task)) {
            return mot_fail(EINVAL, "%s: a task must be an object", place_of(w, task));
        }
        const char *id = json_string_value(json_object_get(task, "id"));
        if (id && json_object_get(w->index, id)) {
            return mot_fail(EINVAL, "%s: there are two tasks '%.120s'", place_of(w, task), id);
        }
        name_task(w, task, "id", (int)t);
    }
    for (size_t t = 0; t < n; t++) { name_task(w, json_array_get(w->tasks, t), "name", (int)t); }
    return 0;
}

/* "bowtie2_ID0000003" is of kind "bowtie2": what comes before the last word with a digit. */
static char *kind_of(const json_t *task, const char *name)
{
    const char *category = json_string_value(json_object_get(task, "category"));
    if (category) { return mot_strdup(category); }
    char *kind = mot_strdup(name);
    char *cut = strrchr(kind, '_');
    if (cut && cut > kind && strpbrk(cut, "0123456789")) { *cut = 0; }
    return kind;
}

static int read_seconds(const struct workflow *w, const json_t *task, double *ms)
{
    double seconds;
    const char *key = mot_json_has(task, "runtimeInSeconds") || !mot_json_has(task, "runtime")
                          ? "runtimeInSeconds"
                          : "runtime";
    const int status = mot_json_get_number(task, place_of(w, task), key, 0.0, 1e12, &seconds);
    if (!status) { *ms = seconds * 1e3; }
    return status;
}

static int read_tasks(struct workflow *w)
{
    int status = index_tasks(w);
    for (int t = 0; !status && t < w->graph->n_tasks; t++) {
        const json_t *value = json_array_get(w->tasks, (size_t)t);
        struct mot_graph_task *task = &w->graph->tasks[t];
        const char *name = json_string_value(json_object_get(value, "name"));
        if (!name) { name = json_string_value(json_object_get(value, "id")); }
        if (!name) {
            return mot_fail(EINVAL, "%s: a task has neither \"name\" nor \"id\"",
                            place_of(w, value));
        }
        task->name = mot_strdup(name);
        task->kind = kind_of(value, name);
        task->line = mot_json_lines_find(w->text->lines, value);
        task->ms[0] = NAN;
        if (!w->runs) { status = read_seconds(w, value, &task->ms[0]); }
    }
    for (size_t i = 0; !status && i < json_array_size(w->runs); i++) {
        const json_t *run = json_array_get(w->runs, i);
        int t;
        if (!json_is_object(run)) {
            return mot_fail(EINVAL, "%s: an executed task must be an object", place_of(w, run));
        }
        if (!mot_json_has(run, "id")) {
            return mot_fail(EINVAL, "%s: \"id\" is missing", place_of(w, run));
        }
        status = find_task(w, json_object_get(run, "id"), &t);
        if (!status) { status = read_seconds(w, run, &w->graph->tasks[t].ms[0]); }
    }
    for (int t = 0; !status && t < w->graph->n_tasks; t++) {
        if (isnan(w->graph->tasks[t].ms[0])) {
            status =
                mot_fail(EINVAL, "%s: task '%.120s' has no runtime in \"execution\"",
                         place_of(w, json_array_get(w->tasks, (size_t)t)), w->graph->tasks[t].name);
        }
    }
    return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* The size of a file's entry.  0 where it has none. */
static int entry_bytes(const struct workflow *w, const json_t *file, double *bytes)
{
    const char *key = mot_json_has(file, "sizeInBytes") ? "sizeInBytes" : "size";
    *bytes = 0.0;
    if (!mot_json_has(file, key)) { return 0; }
    return mot_json_get_number(file, place_of(w, file), key, 0.0, 1e18, bytes);
}

static int add_file(struct workflow *w, const json_t *file, const char *key, const char **name)
{
    double bytes;
    int status = mot_json_get_string(file, place_of(w, file), key, name);
    if (!status) { status = entry_bytes(w, file, &bytes); }
    if (!status) {
        const double known = json_real_value(json_object_get(w->size, *name));
        MOT_ASSERT(json_object_set_new(w->size, *name, json_real(fmax(known, bytes))) == 0);
    }
    return status;
}

static int written_by(struct workflow *w, const char *file, int task)
{
    w->graph->tasks[task].output_bytes += json_real_value(json_object_get(w->size, file));
    return json_object_set_new(w->writer, file, json_integer(task));
}

/* Sizes and writers of all files. */
static int read_files(struct workflow *w)
{
    const char *name;
    int status = 0;
    w->size = json_object();
    w->writer = json_object();
    for (size_t i = 0; !status && i < json_array_size(w->files); i++) {
        status = add_file(w, json_array_get(w->files, i), "id", &name);
    }
    for (int t = 0; !status && t < w->graph->n_tasks; t++) {
        const json_t *task = json_array_get(w->tasks, (size_t)t);
        const json_t *own = json_object_get(task, "files");
        const json_t *outputs = json_object_get(task, "outputFiles");
        for (size_t i = 0; !status && i < json_array_size(own); i++) {
            const json_t *file = json_array_get(own, i), *link = json_object_get(file, "link");
            status = add_file(w, file, json_object_get(file, "name") ? "name" : "id", &name);
            if (!status && json_is_string(link) && strcmp(json_string_value(link), "output") == 0) {
                MOT_ASSERT(written_by(w, name, t) == 0);
            }
        }
        for (size_t i = 0; !status && i < json_array_size(outputs); i++) {
            name = json_string_value(json_array_get(outputs, i));
            if (!name) {
                return mot_fail(EINVAL, "%s: \"outputFiles\" must be strings",
                                place_of(w, outputs));
            }
            MOT_ASSERT(written_by(w, name, t) == 0);
        }
    }
    return status;
}

/* Adds the file's bytes to those that task has from each earlier one; from (n). */
static void add_read(const struct workflow *w, const char *file, int task, double *from)
{
    const json_t *writer = json_object_get(w->writer, file);
    const int t = writer ? (int)json_integer_value(writer) : task;
    if (t != task) { from[t] += json_real_value(json_object_get(w->size, file)); }
}

static void bytes_read(const struct workflow *w, int task, double *from)
{
    const json_t *value = json_array_get(w->tasks, (size_t)task);
    const json_t *own = json_object_get(value, "files");
    const json_t *inputs = json_object_get(value, "inputFiles");
    memset(from, 0, (size_t)w->graph->n_tasks * sizeof(*from));
    for (size_t i = 0; i < json_array_size(own); i++) {
        const json_t *file = json_array_get(own, i), *link = json_object_get(file, "link");
        const char *name = json_string_value(json_object_get(file, "name"));
        if (!name) { name = json_string_value(json_object_get(file, "id")); }
        if (name && json_is_string(link) && strcmp(json_string_value(link), "input") == 0) {
            add_read(w, name, task, from);
        }
    }
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        const char *name = json_string_value(json_array_get(inputs, i));
        if (name) { add_read(w, name, task, from); }
    }
}

/* ---- Edges ----------------------------------------------------------------------------------- */

/* One of a task's lists, "parents" or "children": pairs of numbers to edges without bytes. */
static int read_list(struct workflow *w, int task, const char *key)
{
    const json_t *list = json_object_get(json_array_get(w->tasks, (size_t)task), key);
    if (list && !json_is_null(list) && !json_is_array(list)) {
        return mot_fail(EINVAL, "%s: \"%s\" must be an array", place_of(w, list), key);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *name = json_array_get(list, i);
        int other;
        const int status = find_task(w, name, &other);
        if (status) { return status; }
        const int child = key[0] == 'c';
        mot_graph_add_edge(w->graph, &w->capacity, child ? task : other, child ? other : task, 0.0,
                           mot_json_lines_find(w->text->lines, name));
    }
    return 0;
}

static int compare_edges(const void *a, const void *b)
{
    const struct mot_graph_edge *x = a, *y = b;
    if (x->after != y->after) { return x->after < y->after ? -1 : 1; }
    if (x->before != y->before) { return x->before < y->before ? -1 : 1; }
    return x->line - y->line;
}

/* Both lists say the same edges: each once, with its bytes. */
static int read_edges(struct workflow *w)
{
    struct mot_graph *graph = w->graph;
    int status = 0;
    for (int t = 0; !status && t < graph->n_tasks; t++) {
        status = read_list(w, t, "parents");
        if (!status) { status = read_list(w, t, "children"); }
    }
    if (status || graph->n_edges == 0) { return status; }
    qsort(graph->edges, (size_t)graph->n_edges, sizeof(*graph->edges), compare_edges);
    double *from = mot_alloc((size_t)graph->n_tasks * sizeof(*from));
    int n = 0;
    for (int e = 0; e < graph->n_edges; e++) {
        struct mot_graph_edge edge = graph->edges[e];
        const int same_task = n > 0 && graph->edges[n - 1].after == edge.after;
        if (same_task && graph->edges[n - 1].before == edge.before) { continue; }
        if (!same_task) { bytes_read(w, edge.after, from); }
        edge.bytes = from[edge.before];
        graph->edges[n++] = edge;
    }
    graph->n_edges = n;
    free(from);
    return 0;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* The workers: asked for, or the cores of all machines. */
static int read_machines(const struct workflow *w, struct mot_graph_class *class)
{
    const int asked = w->text->workers;
    double workers = asked > 0 ? asked : 0.0;
    for (size_t i = 0; asked <= 0 && i < json_array_size(w->machines); i++) {
        const json_t *cpu = json_object_get(json_array_get(w->machines, i), "cpu");
        const json_t *count = json_object_get(cpu, "coreCount");
        workers += json_number_value(count ? count : json_object_get(cpu, "count"));
    }
    if (asked < 0) { workers = fmax(workers, 1.0); }
    if (!(workers >= 1.0 && workers <= MOT_GRAPH_WORKERS_MAX) || workers != floor(workers)) {
        return mot_fail(EINVAL,
                        "%s: the machines have %g cores in all; --workers says how many "
                        "workers (1 to %d)",
                        place_of(w, w->machines ? w->machines : w->text->json), workers,
                        (int)MOT_GRAPH_WORKERS_MAX);
    }
    class->name = mot_strdup("core");
    class->workers = (int)workers;
    return 0;
}

/* Finds the parts, wherever the schema has them. */
static int find_parts(struct workflow *w)
{
    const struct mot_graph_text *text = w->text;
    json_t *workflow, *part;
    const char *place = mot_graph_place(text, text->json);
    int status = mot_json_get_string(text->json, place, "schemaVersion", &w->version);
    if (!status && (strncmp(w->version, "1.", 2) != 0 || w->version[2] < '3')) {
        status = mot_fail(EINVAL, "%s: schema %.20s of WfFormat; 1.3 to 1.6 are read", place,
                          w->version);
    }
    if (!status) { status = mot_json_get_object(text->json, place, "workflow", &workflow); }
    if (status) { return status; }
    if (!mot_json_has(workflow, "specification")) {
        w->machines = json_object_get(workflow, "machines");
        return mot_json_get_array(workflow, place_of(w, workflow), "tasks", &w->tasks);
    }
    status = mot_json_get_object(workflow, place_of(w, workflow), "specification", &part);
    if (!status) { status = mot_json_get_array(part, place_of(w, part), "tasks", &w->tasks); }
    if (!status && mot_json_has(part, "files")) {
        status = mot_json_get_array(part, place_of(w, part), "files", &w->files);
    }
    if (!status) {
        status = mot_json_get_object(workflow, place_of(w, workflow), "execution", &part);
    }
    if (!status) { status = mot_json_get_array(part, place_of(w, part), "tasks", &w->runs); }
    if (!status) { w->machines = json_object_get(part, "machines"); }
    return status;
}

static int read_all(const struct mot_graph_text *text, struct mot_graphs *graphs)
{
    struct workflow w = {.text = text};
    int status = find_parts(&w);
    if (status) { return status; }
    if (json_array_size(w.tasks) > MOT_GRAPH_TASKS_MAX) {
        return mot_fail(EFBIG, "%s: %zu tasks; at most %d are read", place_of(&w, w.tasks),
                        json_array_size(w.tasks), (int)MOT_GRAPH_TASKS_MAX);
    }
    const char *name = json_string_value(json_object_get(text->json, "name"));
    w.graph = mot_graphs_add(graphs);
    mot_graph_begin(w.graph, text->path, name ? name : "workflow", 1,
                    (int)json_array_size(w.tasks));
    w.graph->line = mot_json_lines_find(text->lines, w.tasks);
    status = read_machines(&w, &w.graph->classes[0]);
    if (!status) { status = read_tasks(&w); }
    if (!status) { status = read_files(&w); }
    if (!status) { status = read_edges(&w); }
    json_decref(w.index);
    json_decref(w.size);
    json_decref(w.writer);
    return status;
}

const struct mot_graph_format mot_graph_format_wfcommons = {recognises, read_all};
