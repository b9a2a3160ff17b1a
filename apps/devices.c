/* motley devices: what this machine gives Motley: the workers StarPU starts, their cores, memory
 * and caches, what was compiled in, and the speed of float32 matrix products, measured.  With
 * --calibrate also how long the stages of a training step take (calibrate.h). */
#include "calibrate.h"
#include "file.h"
#include "json.h"
#include "kernels.h"
#include "motley.h"
#include "sched_models.h"
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mot_app_devices(int argc, char **argv);

static const char usage[] =
    "usage: motley devices [options]\n\n"
    "       motley devices --calibrate [--model M] [--write FILE] [options]\n\n"
    "Lists the StarPU workers of this machine and what Motley can use there.  --calibrate runs\n"
    "small training steps and tells how long their stages take; --write makes a machine file of\n"
    "that, for motley sim.  Times that policies of ours have measured before are listed too.\n";

struct config {
    struct mot_machine_config machine;
    struct mot_model_config model;
    int json, calibrate;
    char *data, *write;
};

#define AT(member) offsetof(struct config, member)
static const struct mot_option options[] = {
    {"calibrate", MOT_OPTION_BOOL, AT(calibrate), "false", NULL, 0, 0, NULL,
     "Measure memory and the stages of a training step.", "Calibration"},
    {"train_file", MOT_OPTION_STRING, AT(data), "", NULL, 0, 0, NULL,
     "Prompts of those steps, as in grpo; default: embedded sums.", NULL},
    {"write", MOT_OPTION_STRING, AT(write), "", NULL, 0, 0, NULL,
     "Write a machine file with the times found.", NULL},
    MOT_ROWS(AT(model), mot_model_rows),
    MOT_DEFAULT("model", "tiny:1"),
    MOT_ROWS(AT(machine), mot_machine_rows),
    {"json", MOT_OPTION_BOOL, AT(json), "false", NULL, 0, 0, NULL,
     "JSON instead of text: an object of the machine, and one of the times known.", "Output"},
    {0},
};
#undef AT

/* What does not depend on StarPU. */
struct machine {
    int cores, units; /* of the machine; units: hardware threads */
    double memory_bytes;
    double cache_bytes[4];  /* largest level 1 data, 2, 3 cache; [0] unused; 0: none */
    double peak_flop_per_s; /* float32 GEMM of one worker's team */
};

static void read_machine(struct machine *m)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) { return; }
    if (hwloc_topology_load(topology) == 0) {
        const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
        m->units = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
        m->cores = cores > 0 ? cores : m->units;
        m->memory_bytes = (double)hwloc_get_root_obj(topology)->total_memory;
        static const hwloc_obj_type_t level[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
                                                 HWLOC_OBJ_L3CACHE};
        for (int i = 0; i < 3; i++) {
            const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, level[i], 0);
            m->cache_bytes[i + 1] = cache ? (double)cache->attr->cache.size : 0.0;
        }
    }
    hwloc_topology_destroy(topology);
}

/* argument: struct machine ** */
static void measure_cpu(void *buffers[], void *argument)
{
    (void)buffers;
    (*(struct machine **)argument)->peak_flop_per_s = mot_matmul_peak_flop_per_s();
}

static int measure(struct machine *m)
{
    static struct starpu_codelet codelet = {.cpu_funcs = {measure_cpu}, .name = "peak"};
    const int error = mot_task_insert(&(struct mot_task){
        .codelet = &codelet, .name = "devices.peak", .argument = &m, .argument_bytes = sizeof(m)});
    mot_wait_all();
    return error;
}

static const char *kind_name(enum starpu_worker_archtype type)
{
    switch (type) {
    case STARPU_CPU_WORKER:
        return "CPU";
    case STARPU_CUDA_WORKER:
        return "CUDA";
    case STARPU_OPENCL_WORKER:
        return "OpenCL";
    case STARPU_HIP_WORKER:
        return "HIP";
    default:
        return "other";
    }
}

/* Bytes a worker's memory node holds; of a CPU worker the machine's. */
static double worker_memory(int worker, const struct machine *m)
{
    const starpu_ssize_t limit = starpu_memory_get_total(starpu_worker_get_memory_node(worker));
    return limit >= 0 ? (double)limit : m->memory_bytes;
}

static void starpu_version(char *text, size_t bytes)
{
    int major, minor, release;
    starpu_get_version(&major, &minor, &release);
    snprintf(text, bytes, "%d.%d.%d", major, minor, release);
}

#ifdef _OPENMP
static const char openmp[] = "yes";
#else
static const char openmp[] = "no";
#endif

static void print_table(const struct machine *m)
{
    char version[32];
    starpu_version(version, sizeof(version));
    printf("worker  kind    cores  memory (GiB)  name\n");
    for (int w = 0; w < (int)starpu_worker_get_count(); w++) {
        char name[128];
        starpu_worker_get_name(w, name, sizeof(name));
        const enum starpu_worker_archtype type = starpu_worker_get_type(w);
        printf("%6d  %-6s  %5d  %12.1f  %s\n", w, kind_name(type),
               type == STARPU_CPU_WORKER ? mot_cores_per_worker() : 0,
               worker_memory(w, m) / 1073741824.0, name);
    }
    printf("\nmachine: %d cores, %d hardware threads, caches %.0f KiB / %.0f KiB / %.1f MiB\n",
           m->cores, m->units, m->cache_bytes[1] / 1024.0, m->cache_bytes[2] / 1024.0,
           m->cache_bytes[3] / 1048576.0);
    printf("StarPU %s, policy %s; OpenMP: %s; %s\n", version, mot_policy_name(), openmp,
           mot_matmul_describe());
    printf("float32 matrix products on one CPU worker: %.1f GFLOP/s\n", m->peak_flop_per_s * 1e-9);
}

static void print_json(const struct machine *m)
{
    char version[32];
    starpu_version(version, sizeof(version));
    printf("{\"workers\":[");
    for (int w = 0; w < (int)starpu_worker_get_count(); w++) {
        const enum starpu_worker_archtype type = starpu_worker_get_type(w);
        printf("%s{\"worker\":%d,\"kind\":\"%s\",\"cores\":%d,\"memory_bytes\":%.0f}", w ? "," : "",
               w, kind_name(type), type == STARPU_CPU_WORKER ? mot_cores_per_worker() : 0,
               worker_memory(w, m));
    }
    printf("],\"cores\":%d,\"hardware_threads\":%d,\"memory_bytes\":%.0f,\"starpu\":\"%s\","
           "\"policy\":\"%s\",\"openmp\":%s,\"gemm\":\"%s\",\"gemm_peak_flop_per_s\":%.0f}\n",
           m->cores, m->units, m->memory_bytes, version, mot_policy_name(),
           openmp[0] == 'y' ? "true" : "false", mot_matmul_describe(), m->peak_flop_per_s);
}

static void print_calibration(const struct mot_calibration *c)
{
    printf("each of %d workers while all work: memory %.1f GB/s, matrix products %.1f GFLOP/s\n\n",
           mot_cpu_workers(), 1e-9 * c->bytes_per_s, 1e-9 * c->peak_flop_per_s);
    printf("%-20s %6s %5s %10s %12s %10s %9s %7s %7s\n", "stage", "tasks", "sizes", "ms",
           "us a token", "us a row", "GFLOP/s", "GB/s", "error");
    for (int i = 0; i < c->stages.n; i++) {
        const struct mot_stage_fit *f = &c->stages.fit[i];
        printf("%-20s %6d %5d %10.3f %12.3f %10.3f %9.1f %7.1f %5.1f %%\n", f->times.name, f->tasks,
               f->sizes, 1e3 * f->times.s, 1e6 * f->times.s_per_token, 1e6 * f->times.s_per_row,
               1e-9 * f->times.flop_per_s, 1e-9 * f->times.bytes_per_s, 100.0 * f->error);
    }
}

static void print_calibration_json(const struct mot_calibration *c)
{
    json_t *o = json_object(), *stages = json_object();
    json_object_set_new(o, "workers", json_integer(mot_cpu_workers()));
    json_object_set_new(o, "memory_bytes_per_s", mot_json_number(c->bytes_per_s));
    json_object_set_new(o, "gemm_peak_flop_per_s", mot_json_number(c->peak_flop_per_s));
    for (int i = 0; i < c->stages.n; i++) {
        const struct mot_stage_fit *f = &c->stages.fit[i];
        json_object_set_new(stages, f->times.name,
                            json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "tasks", f->tasks,
                                      "sizes", f->sizes, "s", f->times.s, "s_per_token",
                                      f->times.s_per_token, "s_per_row", f->times.s_per_row,
                                      "flop_per_s", f->times.flop_per_s, "bytes_per_s",
                                      f->times.bytes_per_s, "error", f->error));
    }
    json_object_set_new(o, "stages", stages);
    char *text = mot_json_text(o);
    puts(text);
    free(text);
    json_decref(o);
}

/* ---- Times measured in earlier runs ---------------------------------------------------------- */

struct known {
    int sizes, tasks; /* kinds by size, tasks ever measured */
};

static struct known count_known(json_t *tasks)
{
    struct known k = {0};
    const char *name, *size;
    json_t *sizes, *entry;
    json_object_foreach(tasks, name, sizes)
    {
        json_object_foreach(sizes, size, entry)
        {
            k.sizes++;
            k.tasks += (int)json_integer_value(json_object_get(entry, "seen"));
        }
    }
    return k;
}

/* Once StarPU has stopped: what this run has measured is in the file by then. */
static void print_known(int as_json)
{
    char *path;
    json_t *classes = mot_models_read(&path), *class;
    const char *name;
    if (!classes) { return; }
    if (!as_json) {
        printf("\nmeasured times in %s\n%-32s %6s %6s %8s %9s %7s\n", path, "devices", "kinds",
               "sizes", "tasks", "GFLOP/s", "GB/s");
    }
    json_t *list = json_object();
    json_object_foreach(classes, name, class)
    {
        json_t *tasks = json_object_get(class, "tasks");
        const struct known k = count_known(tasks);
        const double flop_per_us = json_number_value(json_object_get(class, "flop_per_us"));
        const double bytes_per_us = json_number_value(json_object_get(class, "bytes_per_us"));
        if (!as_json) {
            printf("%-32s %6zu %6d %8d %9.1f %7.1f\n", name, json_object_size(tasks), k.sizes,
                   k.tasks, 1e-3 * flop_per_us, 1e-3 * bytes_per_us);
        }
        json_object_set_new(list, name,
                            json_pack("{s:I, s:i, s:i, s:f, s:f}", "kinds",
                                      (json_int_t)json_object_size(tasks), "sizes", k.sizes,
                                      "tasks", k.tasks, "flop_per_s", 1e6 * flop_per_us,
                                      "bytes_per_s", 1e6 * bytes_per_us));
    }
    if (as_json) {
        json_t *o = json_pack("{s:s, s:o}", "measured_times", path, "devices", list);
        char *text = mot_json_text(o);
        puts(text);
        free(text);
        json_decref(o);
    } else {
        json_decref(list);
    }
    json_decref(classes);
    free(path);
}

static int calibrate(const struct config *config)
{
    struct mot_app_model model;
    struct mot_calibration calibration = {0};
    int error = config->write ? mot_file_check_output(config->write) : 0;
    if (error) { return error; }
    error = mot_app_model_load(&model, &config->model, &(struct mot_app_model_options){.lanes = 2});
    if (error) { return error; }
    error = mot_calibrate(&model, &config->model, config->data, &calibration);
    if (!error && config->write) {
        error = mot_calibration_write(&calibration, config->model.model, config->write);
    }
    if (!error && config->json) {
        print_calibration_json(&calibration);
    } else if (!error) {
        print_calibration(&calibration);
    }
    mot_calibration_free(&calibration);
    mot_app_model_free(&model);
    return error;
}

static int list(const struct config *config)
{
    struct machine machine = {0};
    read_machine(&machine);
    const int error = measure(&machine);
    if (!error && config->json) {
        print_json(&machine);
    } else if (!error) {
        print_table(&machine);
    }
    return error;
}

int mot_app_devices(int argc, char **argv)
{
    struct config config;
    const int status = mot_options_parse(options, &config, argc, argv, 1, NULL, usage);
    if (status != 0) { return status < 0 ? MOT_EXIT_USAGE : MOT_EXIT_OK; }
    int code = MOT_EXIT_USAGE;
    if (config.write && !config.calibrate) {
        mot_fail(EINVAL, "devices: --write needs --calibrate");
    } else {
        code = mot_app_start(&config.machine);
    }
    if (code == MOT_EXIT_OK) {
        const int error = config.calibrate ? calibrate(&config) : list(&config);
        code = mot_app_stop(mot_app_exit_code(error));
        if (!error) { print_known(config.json); }
    }
    mot_options_free(options, &config);
    return code;
}
