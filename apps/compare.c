/* motley compare: scheduling policies beside each other.  Every policy runs every case (a seed of a
 * workload, a task graph) in a process of its own, motley sim or a real subcommand, and its
 * makespan is divided by a lower bound on that of any schedule. */
#include "compare.h"
#include "error.h"
#include "file.h"
#include "graph_simulate.h"
#include "jobs.h"
#include "json.h"
#include "options.h"
#include "plan_bound.h"
#include "progress.h"
#include "sim.h"
#include "trace_read.h"
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int mot_app_compare(int argc, char **argv);

static const char usage[] =
    "usage: motley compare --machine FILE --workload FILE [options]\n"
    "       motley compare --graphs FILE [--machine FILE] [options]\n"
    "       motley compare --run \"grpo --config FILE ...\" [options]\n\n"
    "Runs a workload, or every task graph of a file, under scheduling policies, in simulated time\n"
    "(motley sim), and prints for each policy its makespan over a lower bound (motley bound): the\n"
    "geometric mean and the worst.  The bound knows the true durations; of a simulated workload "
    "it\n"
    "has no transfers in it.  --run measures a subcommand of motley on this machine instead, one\n"
    "run at a time, by the recording of its tasks.\n\n"
    "A policy is any that StarPU knows.  NAME:N (modular ones) queues N tasks for each worker;\n"
    "heteroprio learns averages in a first run and the second counts, heteroprio:cold only runs\n"
    "once.\n";

struct compare_config {
    char *machine, *workload, *graphs, *like, *run;
    struct mot_list policies, output;
    int seeds, steps, workers, jobs, json;
    int64_t seed;
    double noise, limit_s, lp_seconds;
};

#define AT(member) offsetof(struct compare_config, member)
static const struct mot_option options[] = {
    {"machine", MOT_OPTION_STRING, AT(machine), "", NULL, 0, 0, NULL, "Machine file.", "What"},
    {"workload", MOT_OPTION_STRING, AT(workload), "", NULL, 0, 0, NULL, "Workload file.", NULL},
    {"graphs", MOT_OPTION_STRING, AT(graphs), "", NULL, 0, 0, NULL,
     "Instead of a workload: a file of task graphs that carry their durations.", NULL},
    {"like", MOT_OPTION_STRING, AT(like), "", NULL, 0, 0, NULL,
     "Whose durations in a graph the machine's classes take, as in motley sim.", NULL},
    {"workers", MOT_OPTION_INT, AT(workers), "0", NULL, 0, MOT_GRAPH_WORKERS_MAX, NULL,
     "Without a machine: identical workers of a file of one class; 0: what it says.", NULL},
    {"run", MOT_OPTION_STRING, AT(run), "", NULL, 0, 0, NULL,
     "Instead of a simulation: a subcommand with its options, blanks between; --output_dir and "
     "--seed of grpo, sft and demo are added.",
     NULL},
    {"policies", MOT_OPTION_LIST, AT(policies), "all", NULL, 0, 0, NULL,
     "Names, or all: the known baselines and Motley's own.", "How"},
    {"seeds", MOT_OPTION_INT, AT(seeds), "0", NULL, 0, 100000, NULL,
     "How many; 0: 10, for graphs without noise 1.", NULL},
    {"seed", MOT_OPTION_INT64, AT(seed), "1", NULL, 0, 9e15, NULL, "The first of them.", NULL},
    {"noise", MOT_OPTION_FLOAT, AT(noise), "0", NULL, 0, 10, NULL,
     "Sigma of a log-normal factor of mean 1 between durations expected and true.", NULL},
    {"steps", MOT_OPTION_INT, AT(steps), "0", NULL, 0, 1e6, "steps",
     "Train for so many; 0: what the workload says.", NULL},
    {"jobs", MOT_OPTION_INT, AT(jobs), "0", NULL, 0, 4096, NULL,
     "Simulations at once; 0: as many as there are processors.", "Running"},
    {"limit_s", MOT_OPTION_FLOAT, AT(limit_s), "600", NULL, 0, 1e9, "s",
     "Time for each run, which then counts as failed; 0: none.", NULL},
    {"lp_seconds", MOT_OPTION_FLOAT, AT(lp_seconds), "20", NULL, 0.001, 1e9, "s",
     "Time for each linear program of a bound.", NULL},
    {"output", MOT_OPTION_LIST, AT(output), "", NULL, 0, 0, NULL,
     "Files to write too, by their suffix: .csv (a line for each run), .json, .svg, .html.",
     "Output"},
    {"json", MOT_OPTION_BOOL, AT(json), "false", NULL, 0, 0, NULL,
     "One JSON object instead of the table.", NULL},
    {0},
};
#undef AT

/* What the jobs and their ends work on. */
struct compare {
    struct compare_config config;
    struct mot_comparison of;
    char *program; /* motley, or its simulator */
    char *directory;
    struct mot_job *jobs; /* (n_cases, n_policies): seeds take turns, policies within */
    struct mot_progress *progress;
    int done, per_run_bound, warming;
};

static volatile sig_atomic_t stop_signal;
static volatile int stopped;

static void on_signal(int number)
{
    stop_signal = number;
    stopped = 1;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static struct mot_sim_source source_of(const struct compare *c, const char *graph)
{
    const struct compare_config *g = &c->config;
    return (struct mot_sim_source){.machine = g->machine,
                                   .workload = g->workload,
                                   .graphs = g->graphs,
                                   .graph = graph,
                                   .like = g->like,
                                   .workers = g->workers,
                                   .noise = g->noise,
                                   .steps = g->steps};
}

static void add_case(struct mot_comparison *of, const char *graph, int64_t seed)
{
    const size_t n = (size_t)of->n_cases + 1;
    of->cases = mot_realloc(of->cases, n * sizeof(*of->cases));
    of->cases[of->n_cases++] = (struct mot_compared_case){
        .graph = graph ? mot_strdup(graph) : NULL, .seed = seed, .bound_s = NAN};
}

/* Two graphs of one name could not be told apart. */
static int check_names(const struct mot_graphs *graphs)
{
    for (int i = 0; i < graphs->n; i++) {
        for (int k = 0; k < i; k++) {
            if (strcmp(graphs->graph[i].name, graphs->graph[k].name) != 0) { continue; }
            return mot_fail(EINVAL, "%s:%d: a second graph '%s'", graphs->graph[i].file,
                            graphs->graph[i].line, graphs->graph[i].name);
        }
    }
    return 0;
}

static int list_cases(struct compare *c, const struct mot_sim_subject *subject)
{
    const struct compare_config *g = &c->config;
    const struct mot_graphs *graphs = &subject->graphs;
    const int is_list = g->graphs != NULL, fixed = graphs->n > 0 && subject->machine.n_truths == 0;
    const int seeds = g->seeds > 0 ? g->seeds : fixed ? 1 : 10;
    const int error = is_list ? check_names(graphs) : 0;
    for (int i = 0; !error && i < (is_list ? graphs->n : 1); i++) {
        for (int k = 0; k < seeds; k++) {
            add_case(&c->of, is_list ? graphs->graph[i].name : NULL, g->seed + k);
        }
    }
    return error;
}

static int bound_of(const struct compare *c, const struct mot_graph *graph, double *bound_s)
{
    struct mot_bounds bounds;
    const int error = mot_plan_bound(graph, c->config.lp_seconds, &bounds);
    if (!error) { *bound_s = bounds.best_ms * 1e-3; }
    return error;
}

/* A graph that is known before it runs has one bound for all policies. */
static int bound_cases(struct compare *c)
{
    for (int i = 0; i < c->of.n_cases && !stopped; i++) {
        struct mot_compared_case *one = &c->of.cases[i];
        const struct mot_sim_source source = source_of(c, one->graph);
        struct mot_sim_subject subject;
        int error = mot_sim_load("compare", &source, one->seed, &subject);
        if (!error) {
            error = mot_graph_apply_truth(subject.graph, &subject.machine, mot_workload_stages(),
                                          (uint64_t)one->seed);
        }
        if (!error) { error = bound_of(c, subject.graph, &one->bound_s); }
        mot_sim_unload(&subject);
        if (error) { return 1; }
    }
    return 0;
}

/* Exit codes, as all that follow. */
static int prepare_simulation(struct compare *c)
{
    struct mot_sim_source source = source_of(c, NULL);
    struct mot_sim_subject subject;
    source.explain = 1;
    int code = mot_sim_load("compare", &source, c->config.seed, &subject);
    if (code == 0) {
        c->program = mot_sim_program();
        code = c->program == NULL || list_cases(c, &subject) != 0;
    }
    if (code == 0) {
        c->per_run_bound = subject.graph == NULL;
        const char *name = c->config.graphs ? c->config.graphs : subject.workload.name;
        c->of.what = mot_strdup(name);
        c->of.where =
            mot_strdup(c->config.machine ? subject.machine.name : "the classes of the graphs");
    }
    mot_sim_unload(&subject);
    if (code == 0 && !c->per_run_bound) { code = bound_cases(c); }
    return code;
}

static int prepare_real(struct compare *c)
{
    char own[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
    if (n < 0) {
        mot_fail(errno, "/proc/self/exe: %s", strerror(errno));
        return 1;
    }
    own[n] = '\0';
    c->program = mot_strdup(own);
    c->per_run_bound = 1;
    c->of.is_real = 1;
    c->of.what = mot_format("motley %s", c->config.run);
    c->of.where = mot_strdup("this machine");
    const int seeds = c->config.seeds > 0 ? c->config.seeds : 10;
    for (int k = 0; k < seeds; k++) { add_case(&c->of, NULL, c->config.seed + k); }
    return 0;
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

static void add_word(struct mot_job *job, int *n, char *word)
{
    job->argv = mot_realloc(job->argv, ((size_t)*n + 2) * sizeof(*job->argv));
    job->argv[(*n)++] = word;
    job->argv[*n] = NULL;
}

static void add_option(struct mot_job *job, int *n, const char *name, const char *value)
{
    if (value == NULL) { return; }
    add_word(job, n, mot_format("--%s=%s", name, value));
}

static void set_simulation_words(const struct compare *c, const struct mot_compared_policy *policy,
                                 const struct mot_compared_case *one, const char *home,
                                 struct mot_job *job)
{
    const struct compare_config *g = &c->config;
    int n = 0;
    add_word(job, &n, mot_strdup(c->program));
    add_word(job, &n, mot_strdup("sim"));
    add_word(job, &n, mot_strdup("--json"));
    add_option(job, &n, "machine", g->machine);
    add_option(job, &n, "workload", g->workload);
    add_option(job, &n, "graphs", g->graphs);
    add_option(job, &n, "graph", one->graph);
    add_option(job, &n, "like", g->like);
    add_option(job, &n, "policy", policy->name);
    add_word(job, &n, mot_format("--seed=%lld", (long long)one->seed));
    add_word(job, &n, mot_format("--noise=%.17g", g->noise));
    add_word(job, &n, mot_format("--steps=%d", g->steps));
    add_word(job, &n, mot_format("--workers=%d", g->workers));
    if (c->per_run_bound) { add_word(job, &n, mot_format("--write=%s/graph.json", home)); }
}

static void set_real_words(const struct compare *c, const struct mot_compared_case *one,
                           const char *home, struct mot_job *job)
{
    char *words = mot_strdup(c->config.run), *rest = NULL;
    int n = 0, trains = 0;
    add_word(job, &n, mot_strdup(c->program));
    for (char *w = strtok_r(words, " \t\n", &rest); w; w = strtok_r(NULL, " \t\n", &rest)) {
        if (n == 1) {
            trains = strcmp(w, "grpo") == 0 || strcmp(w, "sft") == 0 || strcmp(w, "demo") == 0;
        }
        add_word(job, &n, mot_strdup(w));
    }
    if (trains) {
        add_word(job, &n, mot_format("--output_dir=%s/run", home));
        add_word(job, &n, mot_format("--seed=%lld", (long long)one->seed));
    }
    free(words);
}

/* Policies that learn keep what they have learned in the home of their run, which nobody shares. */
static int set_job(struct compare *c, int p, int i, struct mot_job *job)
{
    const struct mot_compared_policy *policy = &c->of.policies[p];
    char *home = mot_format("%s/%d-%d", c->directory, p, i);
    if (mkdir(home, 0777) != 0 && errno != EEXIST) {
        const int error = mot_fail(errno, "%s: %s", home, strerror(errno));
        free(home);
        return error;
    }
    int n = 0;
    job->variables[n++] = mot_format("STARPU_HOME=%s", home);
    job->variables[n++] = mot_format("STARPU_HETEROPRIO_DATA_DIR=%s", home);
    if (policy->depth > 0) {
        job->variables[n++] = mot_format("STARPU_NTASKS_THRESHOLD=%d", policy->depth);
    }
    if (c->of.is_real) {
        job->variables[n++] = mot_format("STARPU_SCHED=%s", policy->name);
        job->variables[n++] = mot_format("MOTLEY_TRACE=%s/trace.json.gz", home);
        set_real_words(c, &c->of.cases[i], home, job);
    } else {
        set_simulation_words(c, policy, &c->of.cases[i], home, job);
    }
    job->out = mot_format("%s/out", home);
    job->err = mot_format("%s/err", home);
    job->limit_s = c->config.limit_s;
    free(home);
    return 0;
}

/* ---- What they came to ----------------------------------------------------------------------- */

static int read_simulated(const struct mot_job *job, double *makespan_s)
{
    json_t *result;
    int error = mot_json_load(job->out, 64 << 20, &result);
    if (error) { return error; }
    error = mot_json_get_number(result, job->out, "makespan_s", 0.0, 1e15, makespan_s);
    json_decref(result);
    return error;
}

static int read_recorded(const char *path, double *makespan_s)
{
    struct mot_recording *r;
    const int error = mot_recording_read(path, &r);
    if (error) { return error; }
    struct mot_recorded_usage *usage = mot_alloc_zeroed((size_t)r->n_workers + 1, sizeof(*usage));
    *makespan_s = mot_recording_usage(r, usage) * 1e-6;
    free(usage);
    mot_recording_free(r);
    return 0;
}

/* The bound of the graph that ran. */
static int read_bound(const struct compare *c, const char *path, double *bound_s)
{
    struct mot_graphs graphs;
    int error = mot_graphs_read(path, 0, &graphs);
    if (error) { return error; }
    error = bound_of(c, &graphs.graph[0], bound_s);
    mot_graphs_free(&graphs);
    return error;
}

static int read_result(struct compare *c, const struct mot_job *job, int p, int i,
                       struct mot_compared_run *run)
{
    char *file = mot_format("%s/%d-%d/%s", c->directory, p, i,
                            c->of.is_real ? "trace.json.gz" : "graph.json");
    double makespan_s = NAN, bound_s = c->of.cases[i].bound_s;
    int error = c->of.is_real ? read_recorded(file, &makespan_s) : read_simulated(job, &makespan_s);
    if (!error && c->per_run_bound) { error = read_bound(c, file, &bound_s); }
    free(file);
    if (error) { return error; }
    run->makespan_s = makespan_s;
    run->bound_s = bound_s;
    return 0;
}

static void clear_home(const struct compare *c, int p, int i)
{
    char *home = mot_format("%s/%d-%d", c->directory, p, i);
    (void)mot_remove_tree(home);
    free(home);
}

static void ended(void *context, int index)
{
    struct compare *c = context;
    const int p = index % c->of.n_policies, i = index / c->of.n_policies;
    struct mot_compared_run *run = &c->of.runs[p * c->of.n_cases + i];
    const struct mot_job *job = &c->jobs[index];
    run->failure = mot_job_failure(job);
    if (run->failure == NULL && !c->warming && read_result(c, job, p, i, run) != 0) {
        run->failure = mot_format("its result could not be read: %s", mot_last_message());
    }
    if (run->failure) {
        const struct mot_compared_case *one = &c->of.cases[i];
        mot_warn("%s%s%s, seed %lld: %s", c->of.policies[p].label, one->graph ? ", " : "",
                 one->graph ? one->graph : "", (long long)one->seed, run->failure);
    }
    if (!c->warming || run->failure) { clear_home(c, p, i); }
    mot_progress_update(c->progress, ++c->done, c->of.policies[p].label);
}

/* Runs what has not failed: all of it, or before that what only warms a policy's memory. */
static int run_round(struct compare *c, int at_once, int warming)
{
    const int n = c->of.n_policies * c->of.n_cases;
    c->warming = warming;
    c->jobs = mot_alloc_zeroed((size_t)n, sizeof(*c->jobs));
    int error = 0;
    for (int k = 0; !error && k < n; k++) {
        const int p = k % c->of.n_policies, i = k / c->of.n_policies;
        if ((warming && !c->of.policies[p].has_memory)
            || c->of.runs[p * c->of.n_cases + i].failure) {
            continue;
        }
        error = set_job(c, p, i, &c->jobs[k]);
    }
    int code = error != 0;
    if (!error) { code = mot_jobs_run(c->jobs, n, at_once, &stopped, ended, c); }
    for (int k = 0; k < n; k++) { mot_job_free(&c->jobs[k]); }
    free(c->jobs);
    return code;
}

static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int run_all(struct compare *c)
{
    const int n = c->of.n_policies * c->of.n_cases;
    c->of.runs = mot_alloc_zeroed((size_t)n, sizeof(*c->of.runs));
    int warm = 0;
    for (int k = 0; k < n; k++) { c->of.runs[k].makespan_s = c->of.runs[k].bound_s = NAN; }
    for (int p = 0; p < c->of.n_policies; p++) { warm += c->of.policies[p].has_memory; }
    const int at_once = c->of.is_real ? 1 : c->config.jobs > 0 ? c->config.jobs : processors();
    c->progress = mot_progress_create(n + warm * c->of.n_cases, "compare");
    mot_progress_update(c->progress, 0, NULL);
    int code = warm > 0 ? run_round(c, at_once, 1) : 0;
    if (code == 0) { code = run_round(c, at_once, 0); }
    mot_progress_finish(c->progress);
    return code;
}

static int all_failed(const struct mot_comparison *of)
{
    for (int k = 0; k < of->n_policies * of->n_cases; k++) {
        if (of->runs[k].failure == NULL) { return 0; }
    }
    return 1;
}

static int report(const struct compare *c)
{
    if (c->config.json) {
        mot_compared_print_json(&c->of);
    } else {
        mot_compared_print(&c->of);
    }
    for (int i = 0; i < c->config.output.n; i++) {
        if (mot_compared_write(&c->of, c->config.output.item[i]) != 0) { return 1; }
    }
    return all_failed(&c->of);
}

static int compare(struct compare *c)
{
    const struct compare_config *g = &c->config;
    if ((g->workload != NULL) + (g->graphs != NULL) + (g->run != NULL) != 1) {
        mot_fail(EINVAL, "compare: one of --workload, --graphs and --run is needed");
        return 2;
    }
    for (int i = 0; i < g->output.n; i++) {
        const int error = mot_compared_check_output(g->output.item[i]);
        if (error) { return error == -EINVAL ? 2 : 1; }
    }
    if (mot_compared_policies(g->policies.item, g->policies.n, &c->of) != 0) { return 1; }
    char directory[] = "/tmp/motley-compare-XXXXXX";
    if (mkdtemp(directory) == NULL) {
        mot_fail(errno, "%s: %s", directory, strerror(errno));
        return 1;
    }
    c->directory = directory;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    int code = g->run ? prepare_real(c) : prepare_simulation(c);
    if (code == 0 && !stopped) { code = run_all(c); }
    if (stopped) {
        code = 128 + stop_signal;
    } else if (code == 0) {
        code = report(c);
    }
    (void)mot_remove_tree(directory);
    return code;
}

int mot_app_compare(int argc, char **argv)
{
    struct compare c = {0};
    const int status = mot_options_parse(options, &c.config, argc, argv, 1, NULL, usage);
    if (status != 0) { return status < 0 ? 2 : 0; }
    const int code = compare(&c);
    mot_comparison_free(&c.of);
    mot_options_free(options, &c.config);
    free(c.program);
    return code;
}
