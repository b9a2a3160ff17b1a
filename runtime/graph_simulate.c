/* graph_simulate: a graph's tasks through mot_task_insert.  See graph_simulate.h.
 *
 * What a task leaves behind for its successors is one handle for each size among its edges; edges
 * without bytes share one of a byte.  Priorities are the graph's, or else the longest way to the
 * end, each task at its estimate's mean over classes, in 0 .. 99 (policies without priorities
 * ignore them). */
#include "graph_simulate.h"
#include "error.h"
#include "motley.h"
#include "simulate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double free_bytes_per_s = 1e18; /* of links that are no wait */
static const double free_memory = 1e15;

void mot_machine_of_graph(const struct mot_graph *graph, struct mot_machine *machine)
{
    struct mot_machine m = {.path = mot_strdup(graph->file ? graph->file : "graph"),
                            .name = mot_strdup(graph->name ? graph->name : "graph"),
                            .line = graph->line,
                            .n_nodes = 1,
                            .n_classes = graph->n_classes,
                            .n_links = graph->n_classes};
    const size_t n = (size_t)graph->n_classes;
    m.nodes = mot_alloc_zeroed(1, sizeof(*m.nodes));
    m.nodes[0] =
        (struct mot_machine_node){.name = mot_strdup("box"), .count = 1, .link = -1, .peer = -1};
    m.classes = mot_alloc_zeroed(n, sizeof(*m.classes));
    m.links = mot_alloc_zeroed(n, sizeof(*m.links));
    m.devices = mot_alloc_zeroed((size_t)mot_graph_workers(graph), sizeof(*m.devices));
    int cpu = -1;
    for (int c = 0; c < graph->n_classes && cpu < 0; c++) {
        if (graph->classes[c].link_bytes_per_s == 0.0) { cpu = c; }
    }
    for (int c = 0; c < graph->n_classes; c++) {
        const struct mot_graph_class *from = &graph->classes[c];
        const int linked = from->link_bytes_per_s > 0.0;
        m.links[c] = (struct mot_machine_link){.name = mot_strdup(from->name),
                                               .bytes_per_s = linked ? from->link_bytes_per_s
                                                                     : free_bytes_per_s,
                                               .latency_s = linked ? from->link_ms * 1e-3 : 0.0};
        m.classes[c] = (struct mot_machine_class){
            .name = mot_strdup(from->name),
            .is_cpu = c == cpu,
            .count = from->workers,
            .flop_per_s = {1e12, 1e12, 1e12},
            .bytes_per_s = 1e12,
            .flop_efficiency = 1.0,
            .bandwidth_efficiency = 1.0,
            .memory_bytes = from->memory_bytes > 0.0 ? from->memory_bytes : free_memory,
            .price_per_hour = NAN,
            .watts = NAN,
            .idle_watts = NAN,
            .link = c == cpu ? -1 : c,
            .peer = -1};
    }
    for (int far = 0; far < 2; far++) {
        for (int c = 0; c < graph->n_classes; c++) {
            for (int k = 0; k < graph->classes[c].workers && (c == cpu) != far; k++) {
                m.devices[m.n_devices++] = (struct mot_machine_device){.class = c, .number = k};
            }
        }
        if (!far) { m.n_cpus = m.n_devices; }
    }
    *machine = m;
}

/* What one task leaves for others: parallel arrays. */
struct outputs {
    int n;
    double *bytes;
    starpu_data_handle_t *handles; /* NULL: read for the last time */
    int *reads;                    /* that are still to come */
};

/* What a task's end needs. */
struct ended {
    struct run *run;
    int task;
};

struct run {
    const struct mot_graph *graph;
    struct mot_graph_links before, after; /* edges by their end, by their start */
    struct outputs *outputs;              /* (n_tasks) */
    struct ended *ended;                  /* (n_tasks) */
    double bytes, room;                   /* of all outputs; of each memory */
    const char *const *stages;
    double *expected_s, *true_s;     /* (n_tasks, machine's classes) */
    int *priority;                   /* (n_tasks) */
    struct starpu_codelet *codelets; /* one for each kind */
    char **kinds;
    int n_kinds;
};

static void nothing(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
}

/* The codelet of a kind: policies tell tasks apart by it. */
static struct starpu_codelet *codelet_of(struct run *r, const char *kind)
{
    int k = 0;
    while (k < r->n_kinds && strcmp(r->kinds[k], kind) != 0) { k++; }
    if (k == r->n_kinds) {
        r->kinds[k] = mot_strdup(kind);
        r->codelets[k] = (struct starpu_codelet){
            .cpu_funcs = {nothing}, .nbuffers = STARPU_VARIABLE_NBUFFERS, .name = r->kinds[k]};
        r->n_kinds++;
    }
    return &r->codelets[k];
}

static const double *estimates_of(const struct mot_graph *g, int task)
{
    return g->estimate_ms ? g->estimate_ms + (size_t)task * (size_t)g->n_classes
                          : g->tasks[task].ms;
}

/* The graph's class of the name of the machine's class c, or -EINVAL. */
static int find_class(const struct mot_graph *g, const struct mot_machine *m, int c)
{
    for (int i = 0; i < g->n_classes; i++) {
        if (strcmp(g->classes[i].name, m->classes[c].name) == 0) { return i; }
    }
    return mot_fail(EINVAL, "%s: the graph has no times for the class '%s' of %s", g->file,
                    m->classes[c].name, m->path);
}

/* Times in the order of the machine's classes, which have the graph's names. */
static int fill_times(struct run *r, const struct mot_machine *m)
{
    const struct mot_graph *g = r->graph;
    const size_t n = (size_t)g->n_tasks * (size_t)m->n_classes;
    r->expected_s = mot_alloc_zeroed(n, sizeof(double));
    r->true_s = mot_alloc_zeroed(n, sizeof(double));
    for (int c = 0; c < m->n_classes; c++) {
        const int from = find_class(g, m, c);
        if (from < 0) { return from; }
        for (int t = 0; t < g->n_tasks; t++) {
            const size_t to = (size_t)t * (size_t)m->n_classes + (size_t)c;
            r->expected_s[to] = estimates_of(g, t)[from] * 1e-3;
            r->true_s[to] = g->tasks[t].ms[from] * 1e-3;
        }
    }
    return 0;
}

static double mean_ms(const struct mot_graph *g, int task)
{
    const double *ms = estimates_of(g, task);
    double sum = 0.0;
    int n = 0;
    for (int c = 0; c < g->n_classes; c++) {
        if (!isfinite(ms[c])) { continue; }
        sum += ms[c];
        n++;
    }
    return n > 0 ? sum / n : 0.0;
}

static void fill_priorities(struct run *r, const int *order)
{
    enum { HIGHEST = 99 };
    const struct mot_graph *g = r->graph;
    double *way = mot_alloc_zeroed((size_t)g->n_tasks, sizeof(double)), longest = 0.0;
    for (int i = g->n_tasks - 1; i >= 0; i--) {
        const int t = order[i];
        for (int e = r->after.start[t]; e < r->after.start[t + 1]; e++) {
            way[t] = fmax(way[t], way[g->edges[r->after.edge[e]].after]);
        }
        way[t] += mean_ms(g, t);
        longest = fmax(longest, way[t]);
    }
    MOT_ASSERT(g->n_tasks >= 0);
    r->priority = mot_alloc_zeroed((size_t)g->n_tasks, sizeof(int));
    for (int t = 0; t < g->n_tasks; t++) {
        r->priority[t] = g->priority     ? g->priority[t]
                         : longest > 0.0 ? (int)(HIGHEST * way[t] / longest)
                                         : 0;
    }
    free(way);
}

/* The index of task's output of that size. */
static int output_of(struct run *r, int task, double bytes)
{
    struct outputs *o = &r->outputs[task];
    for (int i = 0; i < o->n; i++) {
        if (o->bytes[i] == bytes) { return i; }
    }
    const size_t n = (size_t)o->n + 1;
    enum { BLOCK_BYTES = 4096 };
    starpu_data_handle_t handle;
    if (bytes <= UINT32_MAX) {
        starpu_vector_data_register(&handle, -1, 0, bytes < 1.0 ? 1 : (uint32_t)bytes, 1);
    } else {
        starpu_vector_data_register(&handle, -1, 0, (uint32_t)(bytes / BLOCK_BYTES), BLOCK_BYTES);
    }
    o->bytes = mot_realloc(o->bytes, n * sizeof(*o->bytes));
    o->handles = mot_realloc(o->handles, n * sizeof(starpu_data_handle_t));
    o->reads = mot_realloc(o->reads, n * sizeof(*o->reads));
    o->bytes[o->n] = bytes;
    o->handles[o->n] = handle;
    o->reads[o->n] = 0;
    r->bytes += bytes;
    return o->n++;
}

/* Data that nobody will read again leaves the memories where they may run out.  Elsewhere it stays:
 * letting it go changes which of several idle workers StarPU wakes first, and with it what policies
 * without a cost model do. */
static void task_ended(void *argument)
{
    const struct ended *ended = argument;
    struct run *r = ended->run;
    const struct mot_graph_links *before = &r->before;
    if (r->bytes <= r->room) { return; }
    for (int i = before->start[ended->task]; i < before->start[ended->task + 1]; i++) {
        const struct mot_graph_edge *e = &r->graph->edges[before->edge[i]];
        const int of = output_of(r, e->before, e->bytes);
        struct outputs *o = &r->outputs[e->before];
        if (--o->reads[of] > 0) { continue; }
        starpu_data_unregister_submit(o->handles[of]);
        o->handles[of] = NULL;
    }
}

static const char *kind_of(const struct mot_graph_task *task)
{
    return task->kind ? task->kind : "task";
}

static int stage_of(const char *const *stages, const char *kind)
{
    const size_t n = strcspn(kind, ".");
    for (int i = 0; stages[i] != NULL; i++) {
        if (strlen(stages[i]) == n && strncmp(stages[i], kind, n) == 0) { return i; }
    }
    return -1;
}

static int insert(struct run *r, int t)
{
    const struct mot_graph *g = r->graph;
    for (int e = r->after.start[t]; e < r->after.start[t + 1]; e++) {
        const int of = output_of(r, t, g->edges[r->after.edge[e]].bytes);
        r->outputs[t].reads[of]++;
    }
    const int n_in = r->before.start[t + 1] - r->before.start[t], n_out = r->outputs[t].n;
    const size_t n = (size_t)(n_in + n_out);
    starpu_data_handle_t *handles = mot_alloc((n + 1) * sizeof(*handles));
    enum starpu_data_access_mode *modes = mot_alloc((n + 1) * sizeof(*modes));
    int used = 0;
    for (int i = 0; i < n_in; i++) {
        const struct mot_graph_edge *e = &g->edges[r->before.edge[r->before.start[t] + i]];
        handles[used] = r->outputs[e->before].handles[output_of(r, e->before, e->bytes)];
        int twice = 0;
        for (int k = 0; k < used; k++) { twice |= handles[k] == handles[used]; }
        if (twice) { continue; }
        modes[used++] = STARPU_R;
    }
    for (int i = 0; i < n_out; i++) {
        handles[used] = r->outputs[t].handles[i];
        modes[used++] = STARPU_W;
    }
    const struct mot_graph_task *task = &g->tasks[t];
    const int classes = mot_simulation()->machine->n_classes;
    const char *kind = kind_of(task);
    r->ended[t] = (struct ended){.run = r, .task = t};
    const int error = mot_task_insert(&(struct mot_task){
        .codelet = codelet_of(r, kind),
        .name = r->kinds[codelet_of(r, kind) - r->codelets],
        .hint = {.stage = stage_of(r->stages, kind), .step = task->step, .group = t, .version = -1},
        .n_buffers = used,
        .handles = handles,
        .modes = modes,
        .priority = r->priority[t],
        .done = task_ended,
        .argument_done = &r->ended[t],
        .simulated.expected_s = r->expected_s + (size_t)t * (size_t)classes,
        .simulated.true_s = r->true_s + (size_t)t * (size_t)classes});
    free(handles);
    free(modes);
    return error;
}

static void free_run(struct run *r)
{
    for (int t = 0; t < r->graph->n_tasks; t++) {
        for (int i = 0; i < r->outputs[t].n; i++) {
            starpu_data_handle_t handle = r->outputs[t].handles[i];
            if (handle) { starpu_data_unregister_no_coherency(handle); }
        }
        free(r->outputs[t].reads);
        free(r->outputs[t].bytes);
        free(r->outputs[t].handles);
    }
    mot_graph_links_free(&r->before);
    mot_graph_links_free(&r->after);
    free(r->outputs);
    free(r->ended);
    free(r->expected_s);
    free(r->true_s);
    free(r->priority);
}

int mot_graph_simulate(const struct mot_graph *graph, const char *const *stages, double *makespan_s)
{
    const size_t n = (size_t)graph->n_tasks;
    struct run r = {.graph = graph,
                    .stages = stages,
                    .outputs = mot_alloc_zeroed(n, sizeof(struct outputs)),
                    .ended = mot_alloc_zeroed(n, sizeof(struct ended)),
                    .codelets = mot_alloc_zeroed(n, sizeof(struct starpu_codelet)),
                    .kinds = mot_alloc_zeroed(n, sizeof(char *))}; /* StarPU keeps both */
    mot_graph_links(graph, 1, &r.before);
    mot_graph_links(graph, 0, &r.after);
    int *order = mot_alloc(n * sizeof(*order));
    int error = mot_graph_order(graph, order, NULL);
    MOT_ASSERT(error == 0); /* mot_graph_check */
    fill_priorities(&r, order);
    error = fill_times(&r, mot_simulation()->machine);
    starpu_pause(); /* policies see the whole graph, whatever workers would have taken meanwhile */
    const struct mot_machine *m = mot_simulation()->machine;
    const double share = 0.9; /* of a memory, which StarPU uses */
    r.room = INFINITY;
    for (int c = 0; c < m->n_classes; c++) {
        r.room = fmin(r.room, share * m->classes[c].memory_bytes);
    }
    const double start_us = starpu_timing_now();
    for (int i = 0; !error && i < graph->n_tasks; i++) { error = insert(&r, order[i]); }
    starpu_resume();
    mot_wait_all();
    *makespan_s = (starpu_timing_now() - start_us) * 1e-6;
    free(order);
    free_run(&r);
    return error;
}

/* ---- What a run will be ---------------------------------------------------------------------- */

int mot_graph_apply_truth(struct mot_graph *graph, const struct mot_machine *m,
                          const char *const *stages, uint64_t seed)
{
    mot_graph_add_estimates(graph);
    for (int c = 0; c < m->n_classes && m->n_truths > 0; c++) {
        const int i = find_class(graph, m, c);
        if (i < 0) { return i; }
        for (int t = 0; t < graph->n_tasks; t++) {
            const char *kind = kind_of(&graph->tasks[t]);
            const int stage = stage_of(stages, kind);
            graph->tasks[t].ms[i] *=
                mot_machine_least_factor(m, c, stage >= 0 ? stages[stage] : "other", seed,
                                         mot_simulated_key(kind, graph->tasks[t].step, t));
        }
    }
    return 0;
}
