/* motley bound: lower bounds on the makespan of the task graphs in a file, and for small ones the
 * proven optimum. */
#include "error.h"
#include "file.h"
#include "graph.h"
#include "json.h"
#include "options.h"
#include "plan_bound.h"
#include "plan_exact.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mot_app_bound(int argc, char **argv);

struct bound_config {
    int workers, exact, json;
    double exact_seconds, lp_seconds;
    char *write;
};

static const struct mot_option options[] = {
    {.name = "workers",
     .type = MOT_OPTION_INT,
     .offset = offsetof(struct bound_config, workers),
     .default_text = "0",
     .max = MOT_GRAPH_WORKERS_MAX,
     .help = "Identical workers, for files of one class; 0: as many as the file says.",
     .section = "The graph"},
    {.name = "write",
     .type = MOT_OPTION_STRING,
     .offset = offsetof(struct bound_config, write),
     .default_text = "",
     .help = "A file to write the graphs to in Motley's own form."},
    {.name = "exact",
     .type = MOT_OPTION_BOOL,
     .offset = offsetof(struct bound_config, exact),
     .default_text = "false",
     .help = "Also search for the shortest schedule (at most 64 tasks; without transfers).",
     .section = "Solving"},
    {.name = "exact_seconds",
     .type = MOT_OPTION_FLOAT,
     .offset = offsetof(struct bound_config, exact_seconds),
     .default_text = "120",
     .min = 0.001,
     .max = 1e9,
     .unit = "s",
     .help = "Time for that search in each graph."},
    {.name = "lp_seconds",
     .type = MOT_OPTION_FLOAT,
     .offset = offsetof(struct bound_config, lp_seconds),
     .default_text = "60",
     .min = 0.001,
     .max = 1e9,
     .unit = "s",
     .help = "Time for each linear program; a bound that takes longer is left out."},
    {.name = "json",
     .type = MOT_OPTION_BOOL,
     .offset = offsetof(struct bound_config, json),
     .default_text = "false",
     .help = "One JSON object a line for each graph instead of a table.",
     .section = "Output"},
    {.name = NULL},
};

static const char usage[] =
    "usage: motley bound FILE [options]\n\n"
    "Prints for each task graph in FILE (- is the standard input) lower bounds on its makespan: "
    "no\n"
    "schedule on these workers is shorter. FILE is Motley's own JSON form (an array of graphs "
    "with\n"
    "classes, tasks, edges), a workflow of WfCommons or WfInstances (JSON), a recording of\n"
    "MOTLEY_TRACE or --trace, or a graph of the Standard Task Graph Set (text).\n\n"
    "  area     all work shared out over all workers\n"
    "  longest  area, and no task is longer than the makespan\n"
    "  path     the longest way through the graph, with transfers it cannot avoid\n"
    "  sets     work that can only run between a head and a tail\n"
    "  mixed    area, edges and sets in one linear program\n"
    "  links    mixed, with bytes over links and in memory, where the file has such\n"
    "  list     the makespan of a list schedule, an upper value (without transfers)\n"
    "  exact    (--exact) the shortest makespan, proven; or the shortest found and a bound\n"
    "  period   of steps repeated without end, and eta*: the least staleness that saves time";

/* What is known of one graph. */
struct result {
    struct mot_bounds bounds;
    struct mot_schedule list;
    int exact_run;
    struct mot_exact exact;
};

static int solve(const struct mot_graph *graph, const struct bound_config *config,
                 struct result *result)
{
    const int status = mot_plan_bound(graph, config->lp_seconds, &result->bounds);
    if (status) { return status; }
    mot_plan_list(graph, 8, &result->list);
    result->exact_run = config->exact;
    if (!config->exact) { return 0; }
    const struct mot_exact_options exact = {.seconds = config->exact_seconds};
    return mot_plan_exact(graph, &exact, &result->exact);
}

static void result_free(struct result *result)
{
    mot_schedule_free(&result->list);
    if (result->exact_run) { mot_exact_free(&result->exact); }
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void print_line(const char *name, double ms, double seconds, const char *note)
{
    printf("  %-8s %14.3f %9.3f  %s\n", name, ms, seconds, note);
}

static void print_cycle(const struct mot_bound_cycle *cycle)
{
    if (cycle->steps == 0) { return; }
    printf("  period   %14.3f            a step of %d; area %.3f, longest way to its update %.3f; "
           "eta* %d",
           cycle->period_ms, cycle->steps, cycle->area_ms, cycle->cycle_ms, cycle->eta_star);
    if (cycle->eta >= 0) { printf(" (here %d)", cycle->eta); }
    printf("\n");
}

static void print_text(const struct mot_graph *graph, const struct result *result)
{
    const struct mot_bounds *bounds = &result->bounds;
    printf("%s: %d tasks, %d edges, workers:", graph->name, graph->n_tasks, graph->n_edges);
    for (int c = 0; c < graph->n_classes; c++) {
        printf("%s %d %s", c ? "," : "", graph->classes[c].workers, graph->classes[c].name);
    }
    printf("\n  %-8s %14s %9s\n", "bound", "milliseconds", "taken (s)");
    for (int b = 0; b < MOT_BOUNDS; b++) {
        if (b == MOT_BOUND_LINKS && isnan(bounds->ms[b])) { continue; }
        print_line(mot_bound_name((enum mot_bound)b), bounds->ms[b], bounds->seconds[b],
                   isnan(bounds->ms[b])     ? "not solved in time"
                   : b == (int)bounds->best ? "<- binds"
                                            : "");
    }
    print_cycle(&bounds->cycle);
    char note[128];
    snprintf(note, sizeof(note), "%.4f x the best bound",
             result->list.makespan_ms / bounds->best_ms);
    printf("  %-8s %14.3f            %s\n", "list", result->list.makespan_ms, note);
    if (result->exact_run) {
        const struct mot_exact *exact = &result->exact;
        if (exact->proven) {
            snprintf(note, sizeof(note), "proven, %.4f x the best bound",
                     exact->schedule.makespan_ms / bounds->best_ms);
        } else {
            snprintf(note, sizeof(note), "not proven: the shortest found; none is below %.3f",
                     exact->bound_ms);
        }
        print_line("exact", exact->schedule.makespan_ms, exact->seconds, note);
    }
    if (!isnan(graph->optimum_ms)) {
        printf("  %-8s %14.3f            as the file says\n", "optimum", graph->optimum_ms);
    }
    printf("\n");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void set(json_t *object, const char *key, json_t *value)
{
    MOT_ASSERT(value && json_object_set_new(object, key, value) == 0);
}

static json_t *exact_object(const struct mot_graph *graph, const struct mot_exact *exact)
{
    json_t *object = json_object(), *class = json_array(), *start = json_array();
    set(object, "makespan_ms", mot_json_number(exact->schedule.makespan_ms));
    set(object, "proven", json_boolean(exact->proven));
    set(object, "bound_ms", mot_json_number(exact->bound_ms));
    set(object, "nodes", json_integer(exact->nodes));
    set(object, "seconds", mot_json_number(exact->seconds));
    for (int t = 0; t < graph->n_tasks; t++) {
        json_array_append_new(class, json_integer(exact->schedule.class[t]));
        json_array_append_new(start, mot_json_number(exact->schedule.start[t]));
    }
    set(object, "class", class);
    set(object, "start_ms", start);
    return object;
}

static json_t *cycle_object(const struct mot_bound_cycle *cycle)
{
    json_t *object = json_object();
    set(object, "steps", json_integer(cycle->steps));
    set(object, "period_ms", mot_json_number(cycle->period_ms));
    set(object, "area_ms", mot_json_number(cycle->area_ms));
    set(object, "cycle_ms", mot_json_number(cycle->cycle_ms));
    set(object, "eta", cycle->eta >= 0 ? json_integer(cycle->eta) : json_null());
    set(object, "eta_star", json_integer(cycle->eta_star));
    return object;
}

static void print_json(const struct mot_graph *graph, const struct result *result)
{
    json_t *object = json_object(), *ms = json_object(), *seconds = json_object();
    set(object, "name", mot_json_string(graph->name, strlen(graph->name)));
    set(object, "tasks", json_integer(graph->n_tasks));
    set(object, "edges", json_integer(graph->n_edges));
    set(object, "workers", json_integer(mot_graph_workers(graph)));
    for (int b = 0; b < MOT_BOUNDS; b++) {
        const char *name = mot_bound_name((enum mot_bound)b);
        set(ms, name, mot_json_number(result->bounds.ms[b]));
        set(seconds, name, mot_json_number(result->bounds.seconds[b]));
    }
    set(object, "bounds_ms", ms);
    set(object, "seconds", seconds);
    set(object, "best", json_string(mot_bound_name(result->bounds.best)));
    set(object, "best_ms", mot_json_number(result->bounds.best_ms));
    set(object, "list_ms", mot_json_number(result->list.makespan_ms));
    if (result->bounds.cycle.steps > 0) {
        set(object, "period", cycle_object(&result->bounds.cycle));
    }
    if (result->exact_run) { set(object, "exact", exact_object(graph, &result->exact)); }
    if (!isnan(graph->optimum_ms)) {
        set(object, "optimum_ms", mot_json_number(graph->optimum_ms));
    }
    char *text = mot_json_text(object);
    puts(text);
    free(text);
    json_decref(object);
}

static int bound_file(const char *path, const struct bound_config *config)
{
    struct mot_graphs graphs;
    int status = config->write ? mot_file_check_output(config->write) : 0;
    if (!status) { status = mot_graphs_read(path, config->workers, &graphs); }
    if (status) { return status; }
    if (config->write) { status = mot_graphs_write(&graphs, config->write); }
    for (int g = 0; !status && g < graphs.n; g++) {
        struct result result = {.exact_run = 0};
        status = solve(&graphs.graph[g], config, &result);
        if (!status && config->json) {
            print_json(&graphs.graph[g], &result);
        } else if (!status) {
            print_text(&graphs.graph[g], &result);
        }
        fflush(stdout);
        result_free(&result);
    }
    mot_graphs_free(&graphs);
    return status;
}

int mot_app_bound(int argc, char **argv)
{
    struct bound_config config = {.workers = 0};
    struct mot_list files = {NULL, 0};
    int status = mot_options_parse(options, &config, argc, argv, 1, &files, usage);
    int exit_code = status == 1 ? 0 : 2;
    if (status == 0 && files.n != 1) {
        mot_fail(EINVAL, "bound: one FILE (or -) is needed, %d are given", files.n);
    } else if (status == 0) {
        exit_code = bound_file(files.item[0], &config) ? 1 : 0;
    }
    if (status == 0) { mot_options_free(options, &config); }
    mot_list_free(&files);
    return exit_code;
}
