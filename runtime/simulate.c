/* simulate: StarPU on SimGrid with a machine file.  See simulate.h. */
#include "simulate.h"
#include "hash.h"
#include "sim_platform.h"
#include "task.h"
#include <dlfcn.h>
#include <ftw.h>
#include <math.h>
#include <starpu_expert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

uint64_t mot_simulated_key(const char *name, int step, int group)
{
    uint64_t hash = mot_hash(MOT_HASH_START, name, strlen(name));
    hash = (hash ^ (uint32_t)step) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 29) ^ (uint32_t)group) * 0xbf58476d1ce4e5b9u;
    return (hash ^ hash >> 32) | 1;
}

#ifdef STARPU_SIMGRID

/* Set while the simulation runs; SimGrid's actors share one thread. */
static struct {
    struct mot_simulation of;
    int (*run)(void *argument);
    void *argument;
    const char *(*stage_name)(int stage);
    struct mot_simulated_use *use; /* (devices) */
    double *last_end_us;           /* (devices) */
    double start_us;
    double main_bytes; /* of mot_simulated_memory, all in main memory */
} sim;

const struct mot_simulation *mot_simulation(void)
{
    return sim.run ? &sim.of : NULL;
}

/* ---- Starting -------------------------------------------------------------------------------- */

static int check_size(const struct mot_machine *m)
{
    const int gpus = m->n_devices - m->n_cpus;
    if (gpus > STARPU_MAXCUDADEVS) {
        enum { SETUP_MAX = 256 };
        if (gpus > SETUP_MAX) {
            return mot_fail(EINVAL,
                            "%s:%d: %d devices with a memory of their own, at most %d can "
                            "be simulated",
                            m->path, m->line, gpus, SETUP_MAX);
        }
        return mot_fail(EINVAL,
                        "%s:%d: %d devices with a memory of their own; this simulator was built "
                        "for %d (MOTLEY_SIM_GPUS=%d tools/setup --sim, then build it again)",
                        m->path, m->line, gpus, STARPU_MAXCUDADEVS, gpus);
    }
    if (m->n_cpus > STARPU_MAXCPUS) {
        return mot_fail(EINVAL, "%s:%d: %d CPU workers, at most %d can be simulated", m->path,
                        m->line, m->n_cpus, STARPU_MAXCPUS);
    }
    return 0;
}

/* What StarPU and SimGrid are told through the environment. */
static void set_environment(const char *directory)
{
    setenv("STARPU_PERF_MODEL_DIR", directory, 1);
    setenv("STARPU_HOSTNAME", MOT_SIM_HOST, 1);
    setenv("STARPU_CUDA_PIPELINE", "1", 0); /* a device with a memory takes no task ahead */
    setenv("STARPU_SIMGRID_CUDA_QUEUE_COST", "0", 0);
    setenv("STARPU_SIMGRID_CUDA_MALLOC_COST", "0", 0);
    setenv("STARPU_SIMGRID_TASK_SUBMIT_COST", "0", 0);
    setenv("STARPU_SIMGRID_FETCHING_INPUT_COST", "0", 0);
    setenv("STARPU_SIMGRID_SCHED_COST", "0", 0);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static char directory[] = "/tmp/motley-sim-XXXXXX";

static void remove_directory(void)
{
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* StarPU's library calls this inside the simulation.  The process ends here: SimGrid would complain
 * of workers that a failed run leaves behind. */
int starpu_main(int argc, char **argv);
int starpu_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const int code = sim.run(sim.argument);
    remove_directory();
    fflush(NULL);
    _exit(code);
}

int mot_simulate(const struct mot_simulation *simulation, int (*run)(void *argument),
                 void *argument)
{
    MOT_ASSERT(sim.run == NULL);
    const struct mot_machine *m = simulation->machine;
    int error = check_size(m);
    if (error) { return error; }
    if (mkdtemp(directory) == NULL) {
        return mot_fail(errno, "%s: %s", directory, strerror(errno));
    }
    error = mot_sim_platform_write(m, directory);
    if (error) {
        remove_directory();
        return error;
    }
    set_environment(directory);
    sim.of = *simulation;
    sim.argument = argument;
    sim.run = run;
    sim.use = mot_alloc_zeroed((size_t)m->n_devices, sizeof(*sim.use));
    sim.last_end_us = mot_alloc_zeroed((size_t)m->n_devices, sizeof(double));

    /* Every actor gets a stack as large as this limit says, and there is one for each pair of
     * devices. */
    struct rlimit limit;
    enum { STACK_BYTES = 256 << 10 };
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur > STACK_BYTES) {
        limit.rlim_cur = STACK_BYTES;
        setrlimit(RLIMIT_STACK, &limit);
    }
    /* The main of StarPU's library, hidden by the program's own, starts SimGrid. */
    int (*starpus)(int, char **) = (int (*)(int, char **))dlsym(RTLD_NEXT, "main");
    MOT_ASSERT(starpus != NULL);
    char name[] = "motley", quiet[] = "--log=root.thresh:error", *argv[] = {name, quiet, NULL};
    starpus(2, argv); /* starpu_main does not return */
    return mot_fail(EDEADLK, "the simulation stopped with tasks left that nothing will ever run");
}

/* A worker of StarPU's that finds no room for a task's data waits to be told of some, and on
 * SimGrid nobody tells it; elsewhere it asks again and again.  So all look again when the time has
 * grown by a hundredth, the most by which such a wait can be too long.  When nothing has begun for
 * a hundred times as long as everything took before, nothing ever will. */
static void *keep_awake(void *argument)
{
    (void)argument;
    const double least_s = 1e-3, growth = 0.01, hopeless = 100.0, hopeless_s = 1000.0;
    for (;;) {
        const double now_s = (starpu_timing_now() - sim.start_us) * 1e-6;
        double end_s = 0.0;
        for (int i = 0; i < sim.of.machine->n_devices; i++) {
            end_s = fmax(end_s, (sim.last_end_us[i] - sim.start_us) * 1e-6);
        }
        if (now_s > hopeless * end_s + hopeless_s) {
            mot_fail(EDEADLK,
                     "%s: nothing has begun since %.6g s, and tasks are left: the policy keeps "
                     "them, or what the devices fetch does not fit their memories together",
                     sim.of.machine->path, end_s);
            fflush(NULL);
            _exit(1);
        }
        starpu_sleep((float)fmax(least_s, growth * now_s));
        starpu_wake_all_blocked_workers();
    }
    return NULL;
}

void mot_simulate_started(const char *(*stage_name)(int stage))
{
    starpu_pthread_t thread;
    remove_directory(); /* StarPU has read it */
    sim.stage_name = stage_name;
    sim.start_us = starpu_timing_now();
    for (int i = 0; i < sim.of.machine->n_devices; i++) { sim.last_end_us[i] = sim.start_us; }
    MOT_ASSERT(starpu_pthread_create(&thread, NULL, keep_awake, NULL) == 0);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

int mot_simulated_device(int worker)
{
    const int devid = starpu_worker_get_devid(worker);
    return starpu_worker_get_type(worker) == STARPU_CPU_WORKER ? devid
                                                               : sim.of.machine->n_cpus + devid;
}

static const char *stage_name(const struct mot_task_state *state)
{
    return sim.stage_name ? sim.stage_name(state->hint.stage) : NULL;
}

static double expected_s(const struct mot_task_state *state, const struct mot_hint *hint, int class)
{
    if (state->simulated.expected_s) { return state->simulated.expected_s[class]; }
    const struct mot_machine_work work = {.task = state->name,
                                          .stage = stage_name(state),
                                          .flop = hint->flop,
                                          .bytes = hint->bytes,
                                          .tokens = hint->tokens,
                                          .rows = hint->rows,
                                          .dtype = sim.of.dtype};
    return mot_machine_expected_s(sim.of.machine, class, &work);
}

static struct mot_task_state *state_of(const struct starpu_task *task)
{
    return mot_task_hint(task) ? task->callback_arg : NULL;
}

static const double shortest_s = 1e-6; /* policies of StarPU divide by times */

/* Seconds on a device of the class, but for the machine's truth. */
static double own_true_s(const struct mot_task_state *state, int class)
{
    const struct mot_simulated_task *t = &state->simulated;
    if (t->true_s) { return t->true_s[class]; }
    return expected_s(state, t->has_truth ? &t->truth : &state->hint, class);
}

/* Seconds the task takes on the device, from now on. */
static double true_s(const struct mot_task_state *state, int device)
{
    const struct mot_machine *m = sim.of.machine;
    const struct mot_simulated_task *t = &state->simulated;
    const double now_s = (starpu_timing_now() - sim.start_us) * 1e-6;
    const double s = own_true_s(state, m->devices[device].class);
    return s * mot_machine_truth_factor(m, device, stage_name(state), now_s, sim.of.seed, t->key);
}

/* StarPU knows no limit of main memory, and would have nowhere to evict to: the run ends. */
static void check_main_memory(void)
{
    const struct mot_machine *m = sim.of.machine;
    const struct mot_machine_class *c = &m->classes[m->devices[0].class];
    const double bytes = sim.main_bytes + (double)starpu_memory_get_used(STARPU_MAIN_RAM);
    if (bytes <= c->memory_bytes) { return; }
    mot_fail(ENOMEM, "%s:%d: main memory, that of '%s', is %.4g GiB; the run keeps %.4g GiB in it",
             m->path, c->line ? c->line : m->line, c->name, c->memory_bytes / (1 << 30),
             bytes / (1 << 30));
    remove_directory();
    fflush(NULL);
    _exit(1);
}

/* Notes that the task begins on the device of the calling worker, or is put behind those that run
 * there.  Seconds it takes. */
static double begin_task(struct mot_task_state *state, void *argument)
{
    check_main_memory();
    const int device = mot_simulated_device(starpu_worker_get_id());
    const double s = fmax(true_s(state, device), shortest_s);
    MOT_ASSERT(isfinite(s));
    struct mot_simulated_use *use = &sim.use[device];
    const double free_us = sim.last_end_us[device];
    const double begin_us = fmax(starpu_timing_now(), free_us);
    const double bound_us = fmax(state->start_us, free_us);
    use->wait_s += begin_us > bound_us ? (begin_us - bound_us) * 1e-6 : 0.0;
    use->busy_s += s;
    use->tasks++;
    sim.last_end_us[device] = begin_us + s * 1e6;
    if (state->simulated.effect) { state->simulated.effect(argument); }
    return s;
}

/* Device models of a kind are asked for by kind and number.  A worker with a memory of its own that
 * asks about the task it has begun is StarPU's driver, which lets that time pass: transfers from
 * and to the device go on meanwhile. */
static double cost_us(struct starpu_task *task, struct starpu_perfmodel_arch *arch,
                      unsigned implementation)
{
    (void)implementation;
    const double never_us = 1e15;
    struct mot_task_state *state = state_of(task);
    if (state == NULL) { return 1.0; }
    const struct mot_machine *m = sim.of.machine;
    const int is_cpu = arch->devices[0].type == STARPU_CPU_WORKER;
    if (!is_cpu && starpu_task_get_current() == task) {
        if (state->simulated.true_us <= 0.0) {
            state->simulated.true_us = 1e6 * begin_task(state, task->cl_arg);
        }
        return state->simulated.true_us;
    }
    const int device = is_cpu ? 0 : m->n_cpus + arch->devices[0].devid;
    if (device >= m->n_devices) { return never_us; }
    const double us = 1e6 * expected_s(state, &state->hint, m->devices[device].class);
    return us < never_us ? fmax(us, 1e6 * shortest_s) : never_us;
}

/* 1 when the machine file says of the class how long the task takes. */
static int is_named(const struct mot_machine_class *c, const struct mot_task_state *state)
{
    const char *stage = stage_name(state);
    for (int i = 0; i < c->n_stages; i++) {
        if (strcmp(c->stages[i].name, state->name) == 0
            || (stage != NULL && strcmp(c->stages[i].name, stage) == 0)) {
            return 1;
        }
    }
    return 0;
}

static int can_run(const struct mot_task_state *state, int class)
{
    const struct mot_machine *m = sim.of.machine;
    const struct mot_machine_class *c = &m->classes[class];
    if (state->simulated.cpu_only && m->n_cpus > 0 && !c->is_cpu && !is_named(c, state)) {
        return 0;
    }
    return isfinite(expected_s(state, &state->hint, class));
}

int mot_simulate_can_run(const struct mot_task_state *state, int worker)
{
    return can_run(state, sim.of.machine->devices[mot_simulated_device(worker)].class);
}

const char *mot_simulate_place(char *text, size_t bytes)
{
    snprintf(text, bytes, "%.400s:%d: ", sim.of.machine->path, sim.of.machine->line);
    return text;
}

/* What every codelet does here on a processor: it lets the time pass. */
static void pass_time(void *buffers[], void *argument)
{
    (void)buffers;
    struct mot_task_state *state = state_of(starpu_task_get_current());
    MOT_ASSERT(state != NULL);
    starpu_sleep((float)begin_task(state, argument));
}

/* How often tasks of this name, step and group have been inserted. */
struct place {
    uint64_t hash; /* 0: empty */
    uint64_t count;
};
static struct place *table;
static size_t table_size, table_used;

static struct place *find(uint64_t hash)
{
    size_t at = hash & (table_size - 1);
    while (table[at].hash && table[at].hash != hash) { at = (at + 1) & (table_size - 1); }
    return &table[at];
}

static void grow(void)
{
    struct place *old = table;
    const size_t n = table_size;
    table_size = n ? 2 * n : 1024;
    table = mot_alloc_zeroed(table_size, sizeof(*table));
    for (size_t i = 0; i < n; i++) {
        if (old[i].hash) { *find(old[i].hash) = old[i]; }
    }
    free(old);
}

/* Tells tasks apart whatever the order in which different ones are inserted. */
static uint64_t key_of(const struct mot_task_state *state)
{
    const uint64_t hash = mot_simulated_key(state->name, state->hint.step, state->hint.group);
    if (2 * (table_used + 1) > table_size) { grow(); }
    struct place *place = find(hash);
    table_used += place->hash == 0;
    place->hash = hash;
    return hash + 0x9e3779b97f4a7c15u * place->count++;
}

/* The cost model of a codelet that has been changed. */
struct replaced {
    struct starpu_perfmodel model;
    int cpu_only;
};

/* Codelets are changed where they stand, when they are first seen. */
static void replace(struct starpu_codelet *codelet)
{
    struct replaced *r = mot_alloc_zeroed(1, sizeof(*r));
    r->cpu_only = codelet->where == STARPU_CPU;
    r->model.type = STARPU_PER_ARCH;
    r->model.arch_cost_function = cost_us;
    r->model.symbol = codelet->model && codelet->model->symbol ? codelet->model->symbol
                      : codelet->name                          ? codelet->name
                                                               : "unnamed";
    codelet->model = &r->model;
    codelet->cpu_funcs[0] = pass_time;
    codelet->cuda_funcs[0] = pass_time; /* there to be one: StarPU's driver does not call it */
    codelet->cuda_flags[0] = STARPU_CUDA_ASYNC;
    codelet->where = STARPU_CPU | STARPU_CUDA;
    codelet->flags |= STARPU_CODELET_SIMGRID_EXECUTE;
}

/* By number of the recording, (classes) each. */
static struct {
    int on;
    size_t n; /* numbers with room */
    double *s;
} kept;

void mot_simulated_keep_truth(void)
{
    kept.on = 1;
}

double mot_simulated_true_s(uint32_t number, int class)
{
    const size_t classes = (size_t)sim.of.machine->n_classes;
    return number < kept.n ? kept.s[number * classes + (size_t) class] : INFINITY;
}

static void keep_truth(const struct mot_task_state *state)
{
    const struct mot_machine *m = sim.of.machine;
    const size_t classes = (size_t)m->n_classes, number = state->trace.number;
    if (number >= kept.n) {
        const size_t n = 2 * number + 1024;
        kept.s = mot_realloc(kept.s, n * classes * sizeof(double));
        for (size_t i = kept.n * classes; i < n * classes; i++) { kept.s[i] = INFINITY; }
        kept.n = n;
    }
    for (int c = 0; c < m->n_classes; c++) {
        kept.s[number * classes + (size_t)c] =
            can_run(state, c) ? own_true_s(state, c)
                                    * mot_machine_least_factor(m, c, stage_name(state), sim.of.seed,
                                                               state->simulated.key)
                              : INFINITY;
    }
}

void mot_simulate_task(struct mot_task_state *state, const struct mot_task *task)
{
    if (task->codelet->cpu_funcs[0] != pass_time) { replace(task->codelet); }
    struct mot_simulated_task *t = &state->simulated;
    t->cpu_only = ((const struct replaced *)task->codelet->model)->cpu_only;
    t->key = key_of(state);
    t->expected_s = task->simulated.expected_s;
    t->true_s = task->simulated.true_s;
    t->effect = task->simulated.effect;
    t->has_truth = task->simulated.truth != NULL;
    if (t->has_truth) { t->truth = *task->simulated.truth; }
    if (kept.on) { keep_truth(state); }
}

struct mot_simulated_use mot_simulated_use(int device)
{
    return sim.use[device];
}

void *mot_simulated_memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        mot_fail(errno, "no addresses for %zu bytes of simulated data", bytes);
        exit(1);
    }
    sim.main_bytes += (double)bytes;
    return at;
}

#else /* the ordinary build */

int mot_simulate(const struct mot_simulation *simulation, int (*run)(void *argument),
                 void *argument)
{
    (void)simulation;
    (void)run;
    (void)argument;
    MOT_ASSERT(MOT_SIMULATES);
    return -EINVAL;
}

const struct mot_simulation *mot_simulation(void)
{
    return NULL;
}

void mot_simulate_started(const char *(*stage_name)(int stage))
{
    (void)stage_name;
}

void mot_simulate_task(struct mot_task_state *state, const struct mot_task *task)
{
    (void)state;
    (void)task;
}

int mot_simulate_can_run(const struct mot_task_state *state, int worker)
{
    (void)state;
    (void)worker;
    return 1;
}

const char *mot_simulate_place(char *text, size_t bytes)
{
    (void)bytes;
    text[0] = '\0';
    return text;
}

int mot_simulated_device(int worker)
{
    return worker;
}

void mot_simulated_keep_truth(void)
{
}

double mot_simulated_true_s(uint32_t number, int class)
{
    (void)number;
    (void)class;
    return INFINITY;
}

struct mot_simulated_use mot_simulated_use(int device)
{
    (void)device;
    return (struct mot_simulated_use){0};
}

void *mot_simulated_memory(size_t bytes)
{
    (void)bytes;
    MOT_ASSERT(MOT_SIMULATES);
    return NULL;
}
#endif
