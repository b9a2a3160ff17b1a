/* Starting and stopping StarPU: worker shape, policy, quiet defaults.  See motley.h.
 *
 * StarPU reads much from the environment at starpu_init(); what the user has set there is kept.
 * STARPU_HOME: performance models go to the user's cache folder, not to ~/.starpu. */
#include "cores.h"
#include "idle.h"
#include "policy_choice.h"
#include "simulate.h"
#include "task.h"
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES_MAX = 4096 };

static int n_workers, n_threads;
static int cpu_index[STARPU_NMAXWORKERS]; /* worker id to number among the CPU workers; -1: other */
static atomic_uint generation;            /* counts starts: a worker enters once per start */
static _Thread_local unsigned entered;

/* Makes the folder and those above it.  0 or -errno, without a message. */
static int make_folders(const char *path)
{
    char part[PATH_BYTES_MAX];
    const size_t length = strlen(path);
    if (length == 0 || length >= sizeof(part)) { return -ENAMETOOLONG; }
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0') { continue; }
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) { return -errno; }
    }
    return 0;
}

/* Where it cannot be made, StarPU is left to its own choice: $HOME, else a temporary folder. */
static void choose_home(void)
{
    if (getenv("STARPU_HOME") || getenv("STARPU_PERF_MODEL_DIR")) { return; }
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char path[PATH_BYTES_MAX];
    int length;
    if (cache && cache[0] == '/') {
        length = snprintf(path, sizeof(path), "%s/motley", cache);
    } else if (home && home[0] == '/') {
        length = snprintf(path, sizeof(path), "%s/.cache/motley", home);
    } else {
        return;
    }
    if (length < 0 || length >= (int)sizeof(path) || make_folders(path) != 0) { return; }
    setenv("STARPU_HOME", path, 0);
}

/* The environment StarPU finds. */
static void prepare_environment(void)
{
    choose_home();
    setenv("STARPU_SILENT", "1", 0);
    setenv("STARPU_WORKERS_NOBIND", "1", 1);  /* cores.c binds */
    setenv("STARPU_WORKERS_GETBIND", "0", 1); /* cores.c respects the allowed cores */
}

/* STARPU_NCPU, 0 where it is not set.  StarPU reads it too, and aborts on what is no count. */
static int environment_workers(int *workers)
{
    *workers = 0;
    const char *text = getenv("STARPU_NCPU");
    if (!text || !*text) { return 0; }
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno || *end || value < 0 || value > STARPU_MAXCPUS) {
        return mot_fail(EINVAL, "STARPU_NCPU: '%s' is not a whole number from 0 to %d", text,
                        STARPU_MAXCPUS);
    }
    *workers = (int)value;
    return 0;
}

/* StarPU aborts on a negative one. */
static int check_priorities(void)
{
    static const char *const names[] = {"STARPU_MIN_PRIO", "STARPU_MAX_PRIO"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);
        if (!text || !*text) { continue; }
        char *end;
        errno = 0;
        const long value = strtol(text, &end, 10);
        if (errno || *end || value < 0 || value > INT_MAX) {
            return mot_fail(EINVAL, "%s: '%s' is not a whole number from 0 to %d", names[i], text,
                            INT_MAX);
        }
    }
    return 0;
}

/* A worker for each device. */
static int simulated_shape(void)
{
    if (mot_simulation() == NULL) {
        return mot_fail(EINVAL, "this build of Motley only simulates; build/motley runs");
    }
    n_workers = mot_simulation()->machine->n_cpus;
    n_threads = 1;
    return 0;
}

static int choose_shape(const struct mot_start_options *options)
{
    if (options->workers < 0 || options->workers > STARPU_MAXCPUS || options->cores_per_worker < 0
        || options->cores_per_worker > 4096) {
        return mot_fail(EINVAL,
                        "%d workers of %d cores: workers is 1 to %d, cores per worker 1 to 4096",
                        options->workers, options->cores_per_worker, STARPU_MAXCPUS);
    }
    if (MOT_SIMULATES) { return simulated_shape(); }
    int workers;
    const int error = environment_workers(&workers);
    if (error) { return error; }
    const int cores = mot_cores_discover();
    n_workers = options->workers ? options->workers : workers;
    if (n_workers == 0) { n_workers = 1; }
    n_threads = options->cores_per_worker;
    if (n_threads == 0) { n_threads = cores / n_workers > 0 ? cores / n_workers : 1; }
    mot_cores_assign(n_workers, n_threads);
    return 0;
}

static int choose_policy(const struct mot_start_options *options,
                         struct starpu_sched_policy **policy)
{
    const char *name = options->policy;
    if (!name || !*name) { name = getenv("STARPU_SCHED"); }
    if (!name || !*name) { name = "lws"; }
    const int error = mot_policy_find(name, options->policies, policy);
    if (!error && options->grows && strcmp(name, "graph_test") == 0) {
        return mot_fail(
            EINVAL, "the policy \"graph_test\" takes tasks only while the program waits for all,"
                    " not those that other tasks submit: it would hang here");
    }
    return error;
}

/* -1 means "as many as there are" to StarPU, and that the user has not asked. */
static void fill_conf(struct starpu_conf *conf, struct starpu_sched_policy *policy)
{
    MOT_ASSERT(starpu_conf_init(conf) == 0);
    conf->precedence_over_environment_variables = 1;
    conf->sched_policy = policy;
    conf->sched_policy_name = NULL;
    conf->ncpus = n_workers;
    conf->reserve_ncpus = 0;
    if (conf->ncuda < 0) { conf->ncuda = 0; }
    if (MOT_SIMULATES) { conf->ncuda = mot_simulation()->machine->n_devices - n_workers; }
    if (conf->nhip < 0) { conf->nhip = 0; }
    if (conf->nopencl < 0) { conf->nopencl = 0; }
    conf->catch_signals = 0; /* Ctrl-C is the program's */
}

/* STARPU_SCHED_LIB may be our library, which would record this program a second time. */
static int choose_policy_unrecorded(const struct mot_start_options *options,
                                    struct starpu_sched_policy **policy)
{
    const char *path = getenv("MOTLEY_TRACE");
    char *kept = path ? mot_strdup(path) : NULL;
    unsetenv("MOTLEY_TRACE");
    const int error = choose_policy(options, policy);
    if (kept) { setenv("MOTLEY_TRACE", kept, 1); }
    free(kept);
    return error;
}

/* StarPU prefers the name in STARPU_SCHED to the policy it is given, so that name is out of sight
 * while it starts. */
static int init_starpu(struct starpu_conf *conf)
{
    const char *name = getenv("STARPU_SCHED");
    char *kept = name ? mot_strdup(name) : NULL;
    unsetenv("STARPU_SCHED");
    const int error = starpu_init(conf);
    if (kept) { setenv("STARPU_SCHED", kept, 1); }
    free(kept);
    return error;
}

static void number_cpu_workers(void)
{
    int n = 0;
    for (int w = 0; w < STARPU_NMAXWORKERS; w++) {
        const int is_cpu =
            w < (int)starpu_worker_get_count() && starpu_worker_get_type(w) == STARPU_CPU_WORKER;
        cpu_index[w] = is_cpu ? n++ : -1;
    }
}

static int check_started(const struct starpu_sched_policy *policy)
{
    if ((int)starpu_cpu_worker_get_count() != n_workers) {
        return mot_fail(EINVAL, "%d CPU workers asked for, StarPU starts only %u on this machine",
                        n_workers, starpu_cpu_worker_get_count());
    }
    const char *name = mot_policy_name();
    if (strcmp(name, policy->policy_name) != 0) {
        return mot_fail(EINVAL, "StarPU runs the policy \"%s\", not \"%s\"", name,
                        policy->policy_name);
    }
    return 0;
}

/* MOTLEY_TRACE; a program's second start and those after it add their number, so that they do not
 * overwrite the first one's file. */
static int open_trace(void)
{
    static int opened;
    const char *path = getenv("MOTLEY_TRACE");
    if (!path || !*path) { return 0; }
    opened++;
    if (opened == 1) { return mot_trace_open(path); }
    const char *dot = strstr(strrchr(path, '/') ? strrchr(path, '/') : path, ".json");
    const int stem = (int)(dot ? (size_t)(dot - path) : strlen(path));
    char *numbered = mot_format("%.*s-%d%s", stem, path, opened, path + stem);
    const int error = mot_trace_open(numbered);
    free(numbered);
    return error;
}

int mot_start(const struct mot_start_options *options)
{
    static const struct mot_start_options defaults;
    if (!options) { options = &defaults; }
    MOT_ASSERT(!starpu_is_initialized());
    struct starpu_sched_policy *policy;
    int error = choose_policy_unrecorded(options, &policy);
    if (!error) { error = check_priorities(); }
    if (!error) { error = choose_shape(options); }
    if (error) { return error; }

    prepare_environment();
    struct starpu_conf conf;
    mot_trace_transfers_watch();
    fill_conf(&conf, mot_trace_policy(policy, mot_task_trace));
    error = init_starpu(&conf);
    if (error) {
        mot_cores_forget();
        return mot_fail(-error, "StarPU does not start: %s", strerror(-error));
    }
    number_cpu_workers();
    atomic_fetch_add(&generation, 1);
    mot_task_setup();
    if (!MOT_SIMULATES) { mot_idle_start(); }
    error = check_started(policy);
    mot_trace_name_stages(options->stage_name);
    if (!error) { error = open_trace(); }
    if (error) {
        (void)mot_stop();
        return error;
    }
    mot_simulate_started(options->stage_name);
    mot_watchdog_start(MOT_SIMULATES ? 0 : options->watchdog_s, options->stage_name);
    return 0;
}

void mot_wait_all(void)
{
    MOT_ASSERT(starpu_task_wait_for_all() == 0);
}

int mot_stop(void)
{
    mot_wait_all();
    if (!MOT_SIMULATES) { mot_idle_stop(); }
    mot_watchdog_stop();
    const int error = mot_trace_close();
    starpu_shutdown();
    mot_trace_data_free();
    mot_cores_forget();
    n_workers = n_threads = 0;
    return error;
}

int mot_cpu_workers(void)
{
    return n_workers;
}

int mot_cores_per_worker(void)
{
    return n_threads;
}

const char *mot_policy_name(void)
{
    return starpu_sched_get_sched_policy()->policy_name;
}

void mot_worker_enter(void)
{
    if (MOT_SIMULATES) { return; }
    mot_idle_busy();
    const unsigned now = atomic_load_explicit(&generation, memory_order_relaxed);
    if (entered == now) { return; }
    const int worker = starpu_worker_get_id();
    if (worker < 0) { return; } /* no worker's thread */
    entered = now;
    if (cpu_index[worker] >= 0) { mot_cores_bind_team(cpu_index[worker]); }
}
