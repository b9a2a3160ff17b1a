/* sim_subject: what is simulated, read from files; and the simulator's program.  See sim.h. */
#include "error.h"
#include "graph_adapt.h"
#include "graph_simulate.h"
#include "sim.h"
#include "simulate.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The graph of that name, on the machine; where none is given, the graph's own. */
static int choose_graph(const struct mot_sim_source *c, struct mot_sim_subject *s, const char *file,
                        const char *name)
{
    const int error = mot_graphs_read(file, c->machine ? -1 : c->workers, &s->graphs);
    if (error) { return error; }
    for (int i = 0; i < s->graphs.n; i++) {
        struct mot_graph *graph = &s->graphs.graph[i];
        if (name != NULL && !(graph->name && strcmp(graph->name, name) == 0)) { continue; }
        s->graph = graph;
        if (c->machine == NULL) { mot_machine_of_graph(graph, &s->machine); }
        return mot_graph_adapt(graph, &s->machine, c->like, c->explain);
    }
    return mot_fail(EINVAL, "%s: there is no graph '%s'", file, name ? name : "");
}

/* --noise is one more thing that is true of the machine. */
static void add_noise(struct mot_machine *m, double sigma)
{
    const size_t n = (size_t)m->n_truths + 1;
    m->truths = mot_realloc(m->truths, n * sizeof(*m->truths));
    m->truths[m->n_truths++] = (struct mot_machine_truth){
        .class = -1, .device = -1, .factor = 1.0, .sigma = sigma, .probability = 1.0};
}

static int draw_graph(struct mot_sim_subject *s, int64_t seed)
{
    const int error = mot_workload_graph(&s->workload, &s->machine, (uint64_t)seed, &s->drawn);
    if (!error) { s->graph = &s->drawn; }
    return error;
}

int mot_sim_load(const char *command, const struct mot_sim_source *c, int64_t seed,
                 struct mot_sim_subject *s)
{
    memset(s, 0, sizeof(*s));
    if ((c->workload != NULL) == (c->graphs != NULL)) {
        mot_fail(EINVAL, "%s: one of --workload and --graphs is needed", command);
        return 2;
    }
    if (c->workload != NULL && c->machine == NULL) {
        mot_fail(EINVAL, "%s: --workload needs a --machine", command);
        return 2;
    }
    if (c->devices != NULL && c->machine == NULL) {
        mot_fail(EINVAL, "%s: --devices is for a --machine", command);
        return 2;
    }
    if (c->workers > 0 && c->machine != NULL) {
        mot_fail(EINVAL, "%s: --workers is for graphs without a --machine", command);
        return 2;
    }
    int error = 0;
    if (c->machine) { error = mot_machine_load(c->machine, mot_workload_stages(), &s->machine); }
    if (!error && c->machine) { error = mot_sim_devices(&s->machine, c->devices); }
    if (!error && c->workload) { error = mot_workload_load(c->workload, &s->workload); }
    if (!error && c->steps > 0 && s->workload.stages.steps > 0) {
        s->workload.stages.steps = c->steps;
    } else if (!error && c->steps > 0) {
        s->workload.steps = c->steps;
    }
    if (!error && c->max_staleness) { s->workload.staleness = *c->max_staleness; }
    if (!error && c->workload && s->workload.dag) {
        error = choose_graph(c, s, s->workload.dag, s->workload.graph);
    } else if (!error && c->graphs) {
        error = choose_graph(c, s, c->graphs, c->graph);
    } else if (!error && s->workload.stages.steps > 0) {
        error = draw_graph(s, seed);
    }
    if (!error && c->noise > 0.0) { add_noise(&s->machine, c->noise); }
    return error ? 1 : 0;
}

void mot_sim_unload(struct mot_sim_subject *s)
{
    mot_machine_free(&s->machine);
    mot_workload_free(&s->workload);
    mot_graphs_free(&s->graphs);
    mot_graph_free(&s->drawn);
    memset(s, 0, sizeof(*s));
}

char *mot_sim_program(void)
{
    const char *named = getenv("MOTLEY_SIM_PROGRAM");
    char own[PATH_MAX], *path;
    const ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
    if (n < 0) {
        mot_fail(errno, "/proc/self/exe: %s", strerror(errno));
        return NULL;
    }
    own[n] = '\0';
    if (MOT_SIMULATES) { return mot_strdup(own); }
    char *slash = strrchr(own, '/');
    path = named && *named ? mot_strdup(named)
                           : mot_format("%.*s/sim/motley", (int)(slash - own), own);
    if (access(path, X_OK) == 0) { return path; }
    mot_fail(ENOENT,
             "no simulator at %s: tools/setup --sim, then cmake -S . -B %.*s/sim -DMOT_SIM=ON and "
             "cmake --build %.*s/sim",
             path, (int)(slash - own), own, (int)(slash - own), own);
    free(path);
    return NULL;
}
