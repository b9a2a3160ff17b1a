/* motley sim: a workload on a machine, both of them text files, in simulated time.
 *
 * The files are read and checked here; the simulation is the program of another build, on StarPU
 * with SimGrid, which takes over by execv() with the same arguments. */
#include "sim.h"
#include "file.h"
#include "graph_simulate.h"
#include "json.h"
#include "motley.h"
#include "options.h"
#include "policies.h"
#include "simulate.h"
#include "stages.h"
#include "workload.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int mot_app_sim(int argc, char **argv);

static const char usage[] =
    "usage: motley sim --machine FILE --workload FILE [options]\n"
    "       motley sim --graphs FILE [--graph NAME] [--machine FILE] [options]\n\n"
    "Simulates training, or a task graph, on the devices of a machine file under any scheduling\n"
    "policy: how long it takes, what each device does, what it costs.  Files are YAML\n"
    "(tests/machines/ and tests/workloads/ have examples and the list of keys); graphs as in\n"
    "motley bound, on their own classes unless a machine is given: then its classes take the\n"
    "durations of the graph's classes of their names, or as --like says, or by ratio of peaks.\n";

struct sim_config {
    char *machine, *workload, *graphs, *graph, *like, *devices, *policy, *trace, *write;
    double noise;
    int64_t seed;
    int json, steps, workers, max_staleness;
};

#define AT(member) offsetof(struct sim_config, member)
static const struct mot_option options[] = {
    {"machine", MOT_OPTION_STRING, AT(machine), "", NULL, 0, 0, NULL, "Machine file.", "What"},
    {"devices", MOT_OPTION_STRING, AT(devices), "", NULL, 0, 0, NULL,
     "Other numbers of devices: CLASS=N, or CLASS=G+T of which G only generate and T only train: "
     "\"H800=13+11, H20=24\".",
     NULL},
    {"workload", MOT_OPTION_STRING, AT(workload), "", NULL, 0, 0, NULL, "Workload file.", NULL},
    {"graphs", MOT_OPTION_STRING, AT(graphs), "", NULL, 0, 0, NULL,
     "Instead of a workload: a file of task graphs that carry their durations.", NULL},
    {"graph", MOT_OPTION_STRING, AT(graph), "", NULL, 0, 0, NULL,
     "Which of its graphs, by name; default: the first.", NULL},
    {"like", MOT_OPTION_STRING, AT(like), "", NULL, 0, 0, NULL,
     "Whose durations in the graph the machine's classes take, where names do not say it: "
     "\"A100=gpu, L4=gpu*2.5\".",
     NULL},
    {"workers", MOT_OPTION_INT, AT(workers), "0", NULL, 0, MOT_GRAPH_WORKERS_MAX, NULL,
     "Without a machine: identical workers of a file of one class; 0: what it says.", NULL},
    {"policy", MOT_OPTION_STRING, AT(policy), "", NULL, 0, 0, NULL,
     "Scheduling policy; default: STARPU_SCHED, else lws.", "How"},
    {"noise", MOT_OPTION_FLOAT, AT(noise), "0", NULL, 0, 10, NULL,
     "Sigma of a log-normal factor of mean 1 between durations expected and true.", NULL},
    {"seed", MOT_OPTION_INT64, AT(seed), "1", NULL, 0, 9e15, NULL, "Of lengths and of the truth.",
     NULL},
    {"steps", MOT_OPTION_INT, AT(steps), "0", NULL, 0, 1e6, "steps",
     "Train for so many; 0: what the workload says.", NULL},
    {"max_staleness", MOT_OPTION_INT, AT(max_staleness), "-1", NULL, -1, 1e6, "steps",
     "Weights may be so many steps behind; -1: what the workload says.", NULL},
    {"json", MOT_OPTION_BOOL, AT(json), "false", NULL, 0, 0, NULL,
     "One JSON object instead of text.", "Output"},
    {"trace", MOT_OPTION_STRING, AT(trace), "", NULL, 0, 0, NULL,
     "Record the run into this file (trace.json.gz).", NULL},
    {"write", MOT_OPTION_STRING, AT(write), "", NULL, 0, 0, NULL,
     "Write the graph that ran into this file, with the true durations, for motley bound.", NULL},
    {0},
};
#undef AT

/* One run: what it is of and what came out. */
struct sim {
    struct sim_config config;
    struct mot_sim_subject of;
    struct mot_workload_result result;
    char policy[128];
    struct mot_simulated_use *use; /* (devices) */
};

/* ---- Output ---------------------------------------------------------------------------------- */

static int64_t tokens_of(const struct sim *s)
{
    int64_t tokens = 0;
    for (int i = 0; i < s->result.n_steps; i++) { tokens += s->result.steps[i].answer_tokens; }
    return tokens;
}

/* Of all devices, over the makespan; NAN where one of them has no price. */
static double price(const struct sim *s)
{
    double sum = 0.0;
    for (int i = 0; i < s->of.machine.n_devices; i++) {
        sum += s->of.machine.classes[s->of.machine.devices[i].class].price_per_hour;
    }
    return sum * s->result.makespan_s / 3600.0;
}

static double energy_wh(const struct sim *s)
{
    double joule = 0.0;
    for (int i = 0; i < s->of.machine.n_devices; i++) {
        const struct mot_machine_class *c = &s->of.machine.classes[s->of.machine.devices[i].class];
        const double busy = s->use[i].busy_s, idle = s->result.makespan_s - busy;
        joule += c->watts * busy + c->idle_watts * idle;
    }
    return joule / 3600.0;
}

static json_t *devices_json(const struct sim *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->of.machine.n_devices; i++) {
        const struct mot_simulated_use *u = &s->use[i];
        char name[256];
        mot_machine_device_name(&s->of.machine, i, name, sizeof(name));
        json_t *o = json_object();
        json_object_set_new(o, "device", json_string(name));
        json_object_set_new(
            o, "class", json_string(s->of.machine.classes[s->of.machine.devices[i].class].name));
        json_object_set_new(o, "busy_s", mot_json_number(u->busy_s));
        json_object_set_new(o, "transfer_s", mot_json_number(u->wait_s));
        json_object_set_new(o, "idle_s",
                            mot_json_number(s->result.makespan_s - u->busy_s - u->wait_s));
        json_object_set_new(o, "tasks", json_integer(u->tasks));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *steps_json(const struct sim *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->result.n_steps; i++) {
        const struct mot_workload_step *step = &s->result.steps[i];
        json_t *o = json_object();
        json_object_set_new(o, "step", json_integer(i + 1));
        json_object_set_new(o, "end_s", mot_json_number(step->end_s));
        json_object_set_new(o, "generate_s", mot_json_number(step->generate_s));
        json_object_set_new(o, "answer_tokens", json_integer(step->answer_tokens));
        json_object_set_new(o, "prompt_tokens", json_integer(step->prompt_tokens));
        json_object_set_new(o, "staleness_mean", mot_json_number(step->staleness_mean));
        json_object_set_new(o, "staleness_max", json_integer(step->staleness_max));
        json_array_append_new(list, o);
    }
    return list;
}

static void print_json(const struct sim *s)
{
    json_t *o = json_object();
    const char *name = s->of.graph ? s->of.graph->name : s->of.workload.name;
    json_object_set_new(o, "machine", json_string(s->of.machine.name));
    json_object_set_new(o, "workload", json_string(name ? name : ""));
    json_object_set_new(o, "policy", json_string(s->policy));
    json_object_set_new(o, "seed", json_integer(s->config.seed));
    json_object_set_new(o, "noise", mot_json_number(s->config.noise));
    json_object_set_new(o, "makespan_s", mot_json_number(s->result.makespan_s));
    if (s->of.graph == NULL) {
        json_object_set_new(o, "tokens_per_s",
                            mot_json_number((double)tokens_of(s) / s->result.makespan_s));
    }
    json_object_set_new(o, "price", mot_json_number(price(s)));
    json_object_set_new(o, "energy_wh", mot_json_number(energy_wh(s)));
    if (s->of.graph == NULL) { json_object_set_new(o, "steps", steps_json(s)); }
    json_object_set_new(o, "devices", devices_json(s));
    char *text = mot_json_text(o);
    puts(text);
    free(text);
    json_decref(o);
}

static void print_text(const struct sim *s)
{
    const double makespan = s->result.makespan_s;
    printf("%s on %s, policy %s, seed %lld\n",
           s->of.graph ? s->of.graph->name : s->of.workload.name, s->of.machine.name, s->policy,
           (long long)s->config.seed);
    if (s->of.graph == NULL) {
        printf("\n%6s %12s %12s %12s %10s\n", "step", "end", "generated", "tokens", "staleness");
    }
    for (int i = 0; i < s->result.n_steps; i++) {
        const struct mot_workload_step *step = &s->result.steps[i];
        printf("%6d %10.3f s %10.3f s %12lld %6.2f (%d)\n", i + 1, step->end_s, step->generate_s,
               (long long)step->answer_tokens, step->staleness_mean, step->staleness_max);
    }
    printf("\n%-24s %8s %8s %8s %8s\n", "device", "busy", "transfer", "idle", "tasks");
    for (int i = 0; i < s->of.machine.n_devices; i++) {
        const struct mot_simulated_use *u = &s->use[i];
        char name[256];
        mot_machine_device_name(&s->of.machine, i, name, sizeof(name));
        printf("%-24s %6.1f %% %6.1f %% %6.1f %% %8d\n", name, 100.0 * u->busy_s / makespan,
               100.0 * u->wait_s / makespan, 100.0 * (makespan - u->busy_s - u->wait_s) / makespan,
               u->tasks);
    }
    printf("\nmakespan %.6g s", makespan);
    if (s->of.graph == NULL) { printf(", %.6g tokens/s", (double)tokens_of(s) / makespan); }
    if (!isnan(price(s))) { printf(", price %.4g", price(s)); }
    if (!isnan(energy_wh(s))) { printf(", energy %.4g Wh", energy_wh(s)); }
    puts("");
}

/* ---- The graph that ran ---------------------------------------------------------------------- */

/* The graph of a recorded run on the machine's classes, with the durations that were true. */
static void take_recorded(const struct mot_machine *m, const struct mot_graph *recorded,
                          const char *name, struct mot_graph *graph)
{
    mot_graph_begin(graph, recorded->file, name, m->n_classes, recorded->n_tasks);
    for (int c = 0; c < m->n_classes; c++) {
        graph->classes[c].name = mot_strdup(m->classes[c].name);
        graph->classes[c].workers = mot_machine_class_devices(m, c);
    }
    for (int t = 0; t < recorded->n_tasks; t++) {
        const struct mot_graph_task *from = &recorded->tasks[t];
        struct mot_graph_task *to = &graph->tasks[t];
        const unsigned long number = strtoul(strrchr(from->name, '.') + 1, NULL, 10);
        to->name = mot_strdup(from->name);
        to->kind = mot_strdup(from->kind);
        to->step = from->step;
        to->output_bytes = from->output_bytes;
        for (int c = 0; c < m->n_classes; c++) {
            to->ms[c] = 1e3 * mot_simulated_true_s((uint32_t)number, c);
        }
    }
    int capacity = 0;
    for (int e = 0; e < recorded->n_edges; e++) {
        const struct mot_graph_edge *edge = &recorded->edges[e];
        mot_graph_add_edge(graph, &capacity, edge->before, edge->after, edge->bytes, 0);
    }
}

/* trace: of the run; not needed where it was of a graph. */
static int write_graph(struct sim *s, const char *trace)
{
    struct mot_graph made = {0};
    struct mot_graphs recorded = {0};
    int error = 0;
    if (s->of.graph != NULL) {
        error = mot_graph_apply_truth(s->of.graph, &s->of.machine, mot_workload_stages(),
                                      (uint64_t)s->config.seed);
    } else {
        error = mot_graphs_read(trace, 0, &recorded);
        if (!error) {
            take_recorded(&s->of.machine, &recorded.graph[0], s->of.workload.name, &made);
        }
    }
    const struct mot_graphs one = {.graph = s->of.graph ? s->of.graph : &made, .n = 1};
    if (!error) { error = mot_graphs_write(&one, s->config.write); }
    mot_graphs_free(&recorded);
    mot_graph_free(&made);
    return error;
}

/* ---- The run --------------------------------------------------------------------------------- */

static int simulate(void *argument)
{
    struct sim *s = argument;
    const struct sim_config *c = &s->config;
    const int needs_trace = c->write != NULL && s->of.graph == NULL;
    char *trace = c->trace      ? mot_strdup(c->trace)
                  : needs_trace ? mot_format("%s.trace.json.gz", c->write)
                                : NULL;
    if (trace) { setenv("MOTLEY_TRACE", trace, 1); }
    if (needs_trace) { mot_simulated_keep_truth(); }
    const struct mot_start_options start = {.policy = s->config.policy,
                                            .grows = s->of.graph == NULL,
                                            .policies = mot_policies,
                                            .stage_name = mot_stage_name};
    if (mot_start(&start)) { return 1; }
    snprintf(s->policy, sizeof(s->policy), "%s", mot_policy_name());
    int error = 0;
    if (s->of.graph != NULL) {
        error = mot_graph_simulate(s->of.graph, mot_workload_stages(), &s->result.makespan_s);
    } else {
        error = mot_workload_run(&s->of.workload, (uint64_t)s->config.seed, &s->result);
    }
    s->use = mot_alloc_zeroed((size_t)s->of.machine.n_devices, sizeof(*s->use));
    for (int i = 0; i < s->of.machine.n_devices; i++) { s->use[i] = mot_simulated_use(i); }
    if (mot_stop() != 0) { error = -EIO; }
    if (!error && c->write) { error = write_graph(s, trace); }
    if (trace && c->trace == NULL) { unlink(trace); }
    free(trace);
    if (error) { return 1; }
    if (s->config.json) {
        print_json(s);
    } else {
        print_text(s);
    }
    if (fflush(stdout) == 0 && !ferror(stdout)) { return 0; }
    mot_fail(errno ? errno : EIO, "standard output: not all results could be written");
    return 1;
}

/* The simulator's program with the same words; returns only where that fails. */
static int hand_over(char **argv)
{
    char *program = mot_sim_program();
    if (program == NULL) { return 1; }
    fflush(NULL);
    execv(program, argv);
    mot_fail(errno, "%s: %s", program, strerror(errno));
    free(program);
    return 1;
}

int mot_app_sim(int argc, char **argv)
{
    struct sim s = {0};
    const int status = mot_options_parse(options, &s.config, argc, argv, 1, NULL, usage);
    if (status != 0) { return status < 0 ? 2 : 0; }
    const struct sim_config *c = &s.config;
    const struct mot_sim_source source = {.machine = c->machine,
                                          .devices = c->devices,
                                          .max_staleness =
                                              c->max_staleness < 0 ? NULL : &c->max_staleness,
                                          .workload = c->workload,
                                          .graphs = c->graphs,
                                          .graph = c->graph,
                                          .like = c->like,
                                          .workers = c->workers,
                                          .explain = MOT_SIMULATES,
                                          .noise = c->noise,
                                          .steps = c->steps};
    int code = c->write && mot_file_check_output(c->write) ? 1 : 0;
    if (code == 0) { code = mot_sim_load("sim", &source, c->seed, &s.of); }
    if (code == 0 && !MOT_SIMULATES) {
        code = hand_over(argv - 1);
    } else if (code == 0) {
        const struct mot_simulation simulation = {.machine = &s.of.machine,
                                                  .dtype = s.of.workload.dtype,
                                                  .seed = (uint64_t)s.config.seed};
        code = mot_simulate(&simulation, simulate, &s);
        if (code < 0) { code = 1; }
    }
    mot_sim_unload(&s.of);
    free(s.result.steps);
    free(s.use);
    mot_options_free(options, &s.config);
    return code;
}
