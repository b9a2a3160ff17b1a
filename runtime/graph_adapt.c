/* graph_adapt: durations of a graph's classes for those of a machine.  See graph_adapt.h. */
#include "graph_adapt.h"
#include "error.h"
#include "sim_platform.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What a class of the machine takes its durations from. */
struct source {
    int class;     /* of the graph; -1: not found yet */
    double factor; /* on its durations */
    const char *why;
};

struct adapter {
    struct mot_graph *graph;
    const struct mot_machine *m;
    struct source *source; /* (machine's classes) */
};

static int find_graph_class(const struct mot_graph *g, const char *name, size_t length)
{
    for (int c = 0; c < g->n_classes; c++) {
        if (strncasecmp(g->classes[c].name, name, length) == 0
            && g->classes[c].name[length] == '\0') {
            return c;
        }
    }
    return -1;
}

/* ---- What the user says ---------------------------------------------------------------------- */

/* A part of the text, without blanks around it. */
struct part {
    const char *at;
    size_t n;
};

static struct part part_of(const char *at, const char *end)
{
    while (at < end && *at == ' ') { at++; }
    while (end > at && end[-1] == ' ') { end--; }
    return (struct part){at, (size_t)(end - at)};
}

/* One item of `like`, "CLASS=OWN" or "CLASS=OWN*FACTOR". */
static int read_item(struct adapter *a, const char *item, const char *end)
{
    const char *equals = memchr(item, '=', (size_t)(end - item)), *star = NULL;
    if (equals == NULL) {
        return mot_fail(EINVAL, "like: '%.*s' is not CLASS=CLASS or CLASS=CLASS*FACTOR",
                        (int)(end - item), item);
    }
    for (const char *c = equals; c < end; c++) { star = *c == '*' ? c : star; } /* the last */
    double factor = 1.0;
    if (star != NULL) {
        const struct part number = part_of(star + 1, end);
        char *after;
        factor = strtod(number.at, &after);
        if (after != number.at + number.n || !(factor >= 1e-9 && factor <= 1e9)) {
            return mot_fail(EINVAL, "like: '%.*s' is no factor from 1e-9 to 1e9", (int)number.n,
                            number.at);
        }
    }
    const struct part name = part_of(item, equals), own = part_of(equals + 1, star ? star : end);
    const int c = mot_machine_class_find(a->m, name.at, name.n);
    if (c < 0) {
        return mot_fail(EINVAL, "like: %s has no class '%.*s'", a->m->path, (int)name.n, name.at);
    }
    const int of = find_graph_class(a->graph, own.at, own.n);
    if (of < 0) {
        return mot_fail(EINVAL, "like: %s has no class '%.*s'", a->graph->file, (int)own.n, own.at);
    }
    a->source[c] = (struct source){.class = of, .factor = factor, .why = "as asked"};
    return 0;
}

static int read_like(struct adapter *a, const char *like)
{
    int error = 0;
    while (!error && like != NULL && *like) {
        const char *end = like + strcspn(like, ",");
        error = read_item(a, like, end);
        like = end + (*end == ',');
    }
    return error;
}

/* ---- What goes without saying ---------------------------------------------------------------- */

/* The graph's processors; -1: it has none. */
static int processors(const struct mot_graph *g)
{
    for (int c = 0; c < g->n_classes; c++) {
        if (strncasecmp(g->classes[c].name, "cpu", 3) == 0) { return c; }
    }
    for (int c = 0; c < g->n_classes; c++) {
        if (g->classes[c].link_bytes_per_s == 0.0) { return c; }
    }
    return -1;
}

static double peak(const struct mot_machine_class *c)
{
    return c->flop_per_s[MOT_F32] * c->flop_efficiency;
}

/* Class c takes the durations of the graph's class `from` as the machine's class `as` has them. */
static void scale(struct adapter *a, int c, int from, int as)
{
    const double ratio = peak(&a->m->classes[as]) / peak(&a->m->classes[c]);
    const double factor = as == c ? 1.0 : a->source[as].factor;
    a->source[c] = (struct source){.class = from,
                                   .factor = factor * ratio,
                                   .why = as == c ? "as they are" : "by the ratio of peaks"};
}

/* The machine's first class of the kind that takes durations from graph's class `of`; else -1. */
static int first_like(const struct adapter *a, int is_cpu, int of)
{
    for (int c = 0; c < a->m->n_classes; c++) {
        if (a->m->classes[c].is_cpu == is_cpu && a->source[c].class == of) { return c; }
    }
    return -1;
}

/* The class of the graph that a gpu of no name in it is like, which is not its processors; -1:
 * there is none, or -EINVAL with a message. */
static int find_accelerator(const struct adapter *a, int c, int *of)
{
    const struct mot_graph *g = a->graph;
    const int cpu = processors(g);
    int n = 0, n_free = 0, some = -1, free_one = -1;
    for (int k = 0; k < g->n_classes; k++) {
        if (k == cpu) { continue; }
        const int is_free = first_like(a, 0, k) < 0;
        n++;
        n_free += is_free;
        some = some < 0 ? k : some;
        free_one = is_free ? k : free_one;
    }
    *of = n == 1 ? some : free_one;
    if (n <= 1 || n_free == 1) { return 0; }
    return mot_fail(EINVAL,
                    "%s:%d: '%s' of %s is like which of its %d classes that are no processors? "
                    "--like '%s=%s' would say",
                    g->file, g->line, a->m->classes[c].name, a->m->path, n, a->m->classes[c].name,
                    g->classes[some].name);
}

/* For the machine's class c, which has none of its name. */
static int find_source(struct adapter *a, int c)
{
    const int is_cpu = a->m->classes[c].is_cpu, cpu = processors(a->graph);
    int of = cpu;
    const int error = is_cpu ? 0 : find_accelerator(a, c, &of);
    if (error) { return error; }
    if (of >= 0) {
        const int as = first_like(a, is_cpu, of);
        scale(a, c, of, as < 0 ? c : as);
    } else if (cpu >= 0 && first_like(a, 1, cpu) >= 0) {
        scale(a, c, cpu, first_like(a, 1, cpu));
    }
    return 0;
}

static int find_sources(struct adapter *a, int explain)
{
    const struct mot_machine *m = a->m;
    int error = 0;
    for (int c = 0; c < m->n_classes; c++) {
        if (a->source[c].class >= 0) { continue; }
        const int of = find_graph_class(a->graph, m->classes[c].name, strlen(m->classes[c].name));
        if (of >= 0) { a->source[c] = (struct source){.class = of, .factor = 1.0}; }
    }
    for (int i = 0; !error && i < 2 * m->n_classes; i++) { /* processors first */
        const int c = i % m->n_classes;
        if (a->source[c].class < 0 && m->classes[c].is_cpu == (i < m->n_classes)) {
            error = find_source(a, c);
        }
    }
    for (int c = 0; !error && explain && c < m->n_classes; c++) {
        const struct source *s = &a->source[c];
        if (s->class < 0) {
            mot_info("%s: nothing in %s stands for it: it idles", m->classes[c].name,
                     a->graph->file);
        } else if (s->why != NULL) {
            mot_info("%s: durations of '%s' x %.4g, %s", m->classes[c].name,
                     a->graph->classes[s->class].name, s->factor, s->why);
        }
    }
    return error;
}

/* ---- The graph on the machine's classes ------------------------------------------------------ */

/* Some class's name that the task runs on. */
static const char *able_class(const struct mot_graph *g, int task)
{
    int c = 0;
    while (c + 1 < g->n_classes && !isfinite(g->tasks[task].ms[c])) { c++; }
    return g->classes[c].name;
}

static int check_able(const struct adapter *a)
{
    const struct mot_graph *g = a->graph;
    for (int t = 0; t < g->n_tasks; t++) {
        int able = 0;
        for (int c = 0; c < a->m->n_classes; c++) {
            const int of = a->source[c].class;
            able |= of >= 0 && isfinite(g->tasks[t].ms[of]);
        }
        if (!able) {
            const char *only = able_class(g, t);
            return mot_fail(EINVAL,
                            "%s:%d: task %d '%s' runs on '%s', which no class of %s is like "
                            "(--like 'CLASS=%s')",
                            g->file, g->tasks[t].line ? g->tasks[t].line : g->line, t,
                            g->tasks[t].name ? g->tasks[t].name : "", only, a->m->path, only);
        }
    }
    return 0;
}

static struct mot_graph_class class_of_machine(const struct mot_machine *m, int c)
{
    struct mot_graph_class made = {.name = mot_strdup(m->classes[c].name),
                                   .memory_bytes = m->classes[c].memory_bytes};
    for (int d = m->n_devices - 1; d >= 0; d--) {
        if (m->devices[d].class != c) { continue; }
        made.workers++;
        if (d >= m->n_cpus) {
            double latency_s;
            mot_sim_platform_inflow(m, d, &made.link_bytes_per_s, &latency_s);
            made.link_ms = latency_s * 1e3;
        }
    }
    return made;
}

/* n_tasks durations in n classes from those in the graph's, in one block. */
static double *adapted(const struct adapter *a, const double *ms)
{
    const size_t from = (size_t)a->graph->n_classes, n = (size_t)a->m->n_classes;
    double *made = mot_alloc((size_t)a->graph->n_tasks * n * sizeof(double) + sizeof(double));
    for (size_t t = 0; t < (size_t)a->graph->n_tasks; t++) {
        for (size_t c = 0; c < n; c++) {
            const struct source *s = &a->source[c];
            made[t * n + c] = s->class < 0 ? INFINITY : s->factor * ms[t * from + (size_t)s->class];
        }
    }
    return made;
}

static void take_classes(const struct adapter *a)
{
    struct mot_graph *g = a->graph;
    const int n = a->m->n_classes;
    double *ms = adapted(a, g->tasks[0].ms); /* one block, as mot_graph_begin made it */
    free(g->tasks[0].ms);
    if (g->estimate_ms) {
        double *estimates = adapted(a, g->estimate_ms);
        free(g->estimate_ms);
        g->estimate_ms = estimates;
    }
    for (int t = 0; t < g->n_tasks; t++) { g->tasks[t].ms = ms + (size_t)t * (size_t)n; }
    for (int c = 0; c < g->n_classes; c++) { free(g->classes[c].name); }
    free(g->classes);
    g->classes = mot_alloc_zeroed((size_t)n, sizeof(*g->classes));
    for (int c = 0; c < n; c++) { g->classes[c] = class_of_machine(a->m, c); }
    g->n_classes = n;
    g->optimum_ms = g->longest_path_ms = NAN; /* those of other classes */
}

/* What a task reads and leaves must be in one memory together while it runs. */
static int check_memory(const struct mot_graph *g, const struct mot_machine *m)
{
    const size_t n = (size_t)g->n_tasks;
    double *in = mot_alloc_zeroed(n, sizeof(double)), *out = mot_alloc_zeroed(n, sizeof(double));
    for (int e = 0; e < g->n_edges; e++) {
        in[g->edges[e].after] += g->edges[e].bytes;
        out[g->edges[e].before] = fmax(out[g->edges[e].before], g->edges[e].bytes);
    }
    int error = 0;
    for (int t = 0; !error && t < g->n_tasks; t++) {
        const double bytes = in[t] + fmax(out[t], g->tasks[t].output_bytes);
        double room = 0.0;
        for (int c = 0; c < m->n_classes; c++) {
            if (isfinite(g->tasks[t].ms[c])) { room = fmax(room, m->classes[c].memory_bytes); }
        }
        if (bytes > room) {
            error = mot_fail(EINVAL,
                             "%s:%d: task %d '%s' has %.4g bytes of data; the largest memory of a "
                             "class of %s that can run it has %.4g",
                             g->file, g->tasks[t].line ? g->tasks[t].line : g->line, t,
                             g->tasks[t].name ? g->tasks[t].name : "", bytes, m->path, room);
        }
    }
    free(in);
    free(out);
    return error;
}

int mot_graph_adapt(struct mot_graph *graph, const struct mot_machine *machine, const char *like,
                    int explain)
{
    MOT_ASSERT(graph->n_tasks > 0 && graph->n_classes > 0);
    struct adapter a = {.graph = graph, .m = machine};
    a.source = mot_alloc_zeroed((size_t)machine->n_classes, sizeof(*a.source));
    for (int c = 0; c < machine->n_classes; c++) { a.source[c].class = -1; }
    int error = read_like(&a, like);
    if (!error) { error = find_sources(&a, explain); }
    if (!error) { error = check_able(&a); }
    if (!error) { take_classes(&a); }
    if (!error) { error = check_memory(graph, machine); }
    free(a.source);
    return error;
}
