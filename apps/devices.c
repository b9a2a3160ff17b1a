/* motley devices: what this machine gives Motley: the workers StarPU starts, their cores, memory
 * and caches, what was compiled in, and the speed of float32 matrix products, measured. */
#include "kernels.h"
#include "motley.h"
#include "options.h"
#include "policies.h"
#include <hwloc.h>
#include <stdio.h>

int mot_app_devices(int argc, char **argv);

static const char usage[] =
    "usage: motley devices [options]\n\n"
    "Lists the StarPU workers of this machine and what Motley can use there.\n";

struct config {
    int workers, cores_per_worker, json;
};

static const struct mot_option options[] = {
    {"workers", MOT_OPTION_INT, offsetof(struct config, workers), "0", NULL, 0, 1024, NULL,
     "CPU workers; 0: STARPU_NCPU, else one.", "Worker shape"},
    {"cores_per_worker", MOT_OPTION_INT, offsetof(struct config, cores_per_worker), "0", NULL, 0,
     4096, NULL, "Cores of each CPU worker; 0: all allowed cores shared out.", NULL},
    {"json", MOT_OPTION_BOOL, offsetof(struct config, json), "false", NULL, 0, 0, NULL,
     "One JSON object instead of text.", "Output"},
    {NULL, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL},
};

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

int mot_app_devices(int argc, char **argv)
{
    struct config config;
    const int status = mot_options_parse(options, &config, argc, argv, 1, NULL, usage);
    if (status != 0) { return status < 0 ? 2 : 0; }
    const struct mot_start_options start = {.workers = config.workers,
                                            .cores_per_worker = config.cores_per_worker,
                                            .policies = mot_policies};
    mot_options_free(options, &config);
    if (mot_start(&start)) { return 2; }
    struct machine machine = {0};
    read_machine(&machine);
    const int error = measure(&machine);
    if (!error && config.json) {
        print_json(&machine);
    } else if (!error) {
        print_table(&machine);
    }
    mot_stop();
    return error ? 1 : 0;
}
