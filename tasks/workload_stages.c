/* workload_stages: steps of four stages as a task graph.  See struct mot_stage_graph in
 * workload.h. */
#include "rng.h"
#include "workload.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KNOWN = 16, UNKNOWN }; /* what a length is drawn for; apart from workload_run.c's */
enum { GENERATE, REWARD, GRADIENT, UPDATE, KINDS };
static const char *const kinds[KINDS] = {"generate", "reward", "gradient", "update"};

static const double reward_bytes = 64.0;

/* A graph under construction: a step has `answers` generate tasks, as many rewards, its gradients,
 * and the update, in that order. */
struct draft {
    const struct mot_stage_graph *s;
    const struct mot_machine *machine;
    struct mot_graph *graph;
    uint64_t seed;
    int capacity; /* of edges */
};

static int has_stage(const struct mot_machine_class *c, const char *name)
{
    for (int i = 0; i < c->n_stages; i++) {
        if (strcmp(c->stages[i].name, name) == 0) { return 1; }
    }
    return 0;
}

/* There are no shapes to compute durations from. */
static int check_machine(const struct mot_workload *w, const struct mot_machine *m)
{
    for (int c = 0; c < m->n_classes; c++) {
        for (int k = 0; k < KINDS; k++) {
            if (has_stage(&m->classes[c], kinds[k])) { continue; }
            return mot_fail(EINVAL,
                            "%s: the class '%s' has no stage '%s', whose time a workload of stages "
                            "(%s) needs",
                            m->path, m->classes[c].name, kinds[k], w->path);
        }
    }
    return 0;
}

static int tasks_per_step(const struct mot_stage_graph *s)
{
    return 2 * s->answers + s->answers / s->micro_batch + 1;
}

static void set_task(struct draft *d, int t, int kind, int step, double expected_tokens,
                     double true_tokens)
{
    struct mot_graph *g = d->graph;
    struct mot_graph_task *task = &g->tasks[t];
    task->kind = mot_strdup(kinds[kind]);
    task->step = step;
    for (int c = 0; c < g->n_classes; c++) {
        struct mot_machine_work work = {.stage = kinds[kind], .tokens = true_tokens};
        task->ms[c] = 1e3 * mot_machine_expected_s(d->machine, c, &work);
        work.tokens = expected_tokens;
        g->estimate_ms[t * g->n_classes + c] = 1e3 * mot_machine_expected_s(d->machine, c, &work);
    }
    /* What is further on goes first, and earlier steps. */
    const int priority = 50 - 4 * step + kind;
    g->priority[t] = priority > 0 ? priority : 0;
}

static void add_edge(struct draft *d, int before, int after, double bytes)
{
    mot_graph_add_edge(d->graph, &d->capacity, before, after, bytes, 0);
}

static double uniform_by_rand(void)
{
    return (rand() + 1.0) / (RAND_MAX + 2.0);
}

/* The logarithm of a factor of mean 1. */
static double draw(const struct draft *d, int step, int answer, int what, double sigma)
{
    double z;
    if (d->s->by_rand) {
        const double a = uniform_by_rand(), b = uniform_by_rand();
        z = sqrt(-2.0 * log(a)) * cos(2.0 * M_PI * b);
    } else {
        z = mot_normal(d->seed, MOT_RNG_SIMULATED, (uint32_t)step, (uint32_t)answer,
                       (uint32_t)what);
    }
    return sigma * z - 0.5 * sigma * sigma;
}

static void add_step(struct draft *d, int step)
{
    const struct mot_stage_graph *s = d->s;
    const int per = tasks_per_step(s), B = s->answers, first = step * per;
    const int update = first + per - 1, read = step - 1 - s->staleness;
    for (int i = 0; i < B; i++) {
        const double expected = s->mean * exp(draw(d, step, i, KNOWN, s->sigma));
        const double really = expected * exp(draw(d, step, i, UNKNOWN, s->unknown_sigma));
        set_task(d, first + i, GENERATE, step, expected, really);
        set_task(d, first + B + i, REWARD, step, 1.0, 1.0);
        if (read >= 0) { add_edge(d, read * per + per - 1, first + i, s->weight_bytes); }
        add_edge(d, first + i, first + B + i, s->answer_bytes);
    }
    for (int j = 0; j < B / s->micro_batch; j++) {
        const int gradient = first + 2 * B + j;
        set_task(d, gradient, GRADIENT, step, 1.0, 1.0);
        if (step > 0) { add_edge(d, first - 1, gradient, s->weight_bytes); }
        for (int i = j * s->micro_batch; i < (j + 1) * s->micro_batch; i++) {
            add_edge(d, first + i, gradient, s->answer_bytes);
            add_edge(d, first + B + i, gradient, reward_bytes);
        }
        add_edge(d, gradient, update, s->gradient_bytes);
    }
    set_task(d, update, UPDATE, step, 1.0, 1.0);
    if (step > 0) { add_edge(d, first - 1, update, s->weight_bytes); }
}

int mot_workload_graph(const struct mot_workload *w, const struct mot_machine *m, uint64_t seed,
                       struct mot_graph *graph)
{
    const struct mot_stage_graph *s = &w->stages;
    MOT_ASSERT(s->steps > 0);
    int error = check_machine(w, m);
    if (error) { return error; }
    struct draft d = {.s = s, .machine = m, .graph = graph, .seed = seed};
    mot_graph_begin(graph, w->path, w->name, m->n_classes, s->steps * tasks_per_step(s));
    mot_graph_add_estimates(graph);
    mot_graph_add_priorities(graph);
    for (int i = 0; i < m->n_devices; i++) { graph->classes[m->devices[i].class].workers++; }
    for (int c = 0; c < m->n_classes; c++) {
        graph->classes[c].name = mot_strdup(m->classes[c].name);
    }
    srand((unsigned)seed);
    for (int step = 0; step < s->steps; step++) { add_step(&d, step); }
    error = mot_graph_check(graph);
    if (error) { mot_graph_free(graph); }
    return error;
}
