/* Allowed cores and the binding of each CPU worker's OpenMP team.  See cores.h.
 *
 * The C allowed cores are cut into consecutive shares in hwloc's order (neighbours share caches and
 * NUMA nodes): worker i of W owns cores [i C / W, (i + 1) C / W).
 *
 * Where a share has exactly one core per thread, each OpenMP thread is pinned to a core of its own:
 * left alone, the two threads of a team were found on one core, the other idle.  But libgomp ends
 * threads when a team shrinks (oneDNN asks for smaller teams for small products) and creates them
 * again with the affinity of the worker's own thread, and a later team would pile up on that one
 * core.  A team of two never shrinks below two, so both are pinned; with more threads the worker's
 * own thread may run on the whole share.
 *
 * With more cores than threads the team floats within its share, so that a small run does not sit
 * on a core that another process keeps busy.  With more threads than cores nothing is bound. */
#include "cores.h"
#include <hwloc.h>
#include <sched.h>
#ifdef _OPENMP
#    include <omp.h>
#endif
#include "error.h"

static hwloc_topology_t topology;
static hwloc_bitmap_t *core; /* (n_cores) the allowed processing units of each core */
static int n_cores;
static int n_workers, n_threads;

/* The processing units this process may run on, as hwloc numbers them. */
static hwloc_bitmap_t allowed_set(void)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    MOT_ASSERT(set);
    if (hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_THREAD) != 0 || hwloc_bitmap_iszero(set)) {
        hwloc_bitmap_copy(set, hwloc_topology_get_topology_cpuset(topology));
    }
    return set;
}

int mot_cores_discover(void)
{
    mot_cores_forget();
    if (hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0) {
        topology = NULL;
        n_cores = 1;
        return n_cores;
    }
    hwloc_bitmap_t allowed = allowed_set();
    /* Some virtual machines report no cores, only processing units. */
    int depth = hwloc_get_type_depth(topology, HWLOC_OBJ_CORE);
    if (depth == HWLOC_TYPE_DEPTH_UNKNOWN) { depth = hwloc_get_type_depth(topology, HWLOC_OBJ_PU); }
    const unsigned all = hwloc_get_nbobjs_by_depth(topology, depth);
    core = mot_alloc_zeroed(all + 1, sizeof(*core));
    for (unsigned i = 0; i < all; i++) {
        hwloc_bitmap_t set = hwloc_bitmap_dup(hwloc_get_obj_by_depth(topology, depth, i)->cpuset);
        MOT_ASSERT(set);
        hwloc_bitmap_and(set, set, allowed);
        if (hwloc_bitmap_iszero(set)) {
            hwloc_bitmap_free(set);
        } else {
            core[n_cores++] = set;
        }
    }
    hwloc_bitmap_free(allowed);
    if (n_cores == 0) { n_cores = 1; }
    return n_cores;
}

void mot_cores_forget(void)
{
    for (int i = 0; core && core[i]; i++) { hwloc_bitmap_free(core[i]); }
    free(core);
    core = NULL;
    if (topology) { hwloc_topology_destroy(topology); }
    topology = NULL;
    n_cores = n_workers = n_threads = 0;
}

void mot_cores_assign(int workers, int threads)
{
    MOT_ASSERT(workers >= 1 && threads >= 1);
    n_workers = workers;
    n_threads = threads;
}

static void bind_self(hwloc_const_bitmap_t set)
{
    /* A refusal (a sandbox) costs speed only. */
    (void)hwloc_set_cpubind(topology, set, HWLOC_CPUBIND_THREAD);
}

static void bind_helpers(int first, int share)
{
#ifdef _OPENMP
    if (share != n_threads || share < 2) { return; }
#    pragma omp parallel num_threads(n_threads)
    {
        const int i = omp_get_thread_num();
        if (i > 0 || n_threads == 2) { bind_self(core[first + i]); }
    }
#else
    (void)first;
    (void)share;
#endif
}

void mot_cores_bind_team(int index)
{
    MOT_ASSERT(index >= 0 && index < n_workers);
#ifdef _OPENMP
    omp_set_dynamic(0);
    omp_set_num_threads(n_threads);
#endif
    if (!core || (long)n_workers * n_threads > n_cores) { return; }
    const int first = (int)((long)index * n_cores / n_workers);
    const int share = (int)((long)(index + 1) * n_cores / n_workers) - first;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    MOT_ASSERT(set);
    for (int i = first; i < first + share; i++) { hwloc_bitmap_or(set, set, core[i]); }
    bind_self(set);
    hwloc_bitmap_free(set);
    bind_helpers(first, share);
}
