/* graph_made: task graphs that need no file.  See graph_formats.h.
 *
 * cholesky:TILES, the tiled Cholesky factorisation of a matrix of TILES x TILES tiles of 960 x 960
 * float32: TILES (TILES + 1) (TILES + 2) / 6 tasks.  Durations, workers and links are those of
 * "mirage", 12 cores and three M2070, that StarPU ships measurements of
 * (tools/perfmodels/sampling/ in its source); three cores are the GPUs' own. */
#include "error.h"
#include "graph_formats.h"
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "cholesky:";
enum { TILES_MAX = 390, CLASSES = 2 }; /* 390: 10 million tasks */

static const double tile_bytes = 960.0 * 960.0 * 4.0;
enum kernel { POTRF, TRSM, SYRK, GEMM };
static const struct {
    const char *name;
    double ms[CLASSES];
} kernels[] = {[POTRF] = {"potrf", {18.85, 5.367}},
               [TRSM] = {"trsm", {45.65, 6.394}},
               [SYRK] = {"syrk", {43.89, 1.403}},
               [GEMM] = {"gemm", {87.78, 2.805}}};

struct maker {
    struct mot_graph *graph;
    int tiles, n, capacity;
    int *written; /* (tiles, tiles) the last task that wrote the tile; -1: none has */
};

static int *last_writer(const struct maker *m, int row, int column)
{
    return &m->written[(size_t)row * (size_t)m->tiles + (size_t)column];
}

/* One task; it reads and writes the tile row, column, and reads those on the left in step k. */
static void add(struct maker *m, enum kernel kernel, int row, int column, int k)
{
    const int t = m->n++;
    struct mot_graph_task *task = &m->graph->tasks[t];
    task->kind = mot_strdup(kernels[kernel].name);
    task->name = mot_format("%s %d %d %d", kernels[kernel].name, row, column, k);
    memcpy(task->ms, kernels[kernel].ms, sizeof(kernels[kernel].ms));
    task->output_bytes = tile_bytes;
    const int before[] = {*last_writer(m, row, column),
                          kernel == TRSM                     ? *last_writer(m, k, k)
                          : kernel == SYRK || kernel == GEMM ? *last_writer(m, row, k)
                                                             : -1,
                          kernel == GEMM ? *last_writer(m, column, k) : -1};
    for (int i = 0; i < 3; i++) {
        if (before[i] < 0) { continue; }
        mot_graph_add_edge(m->graph, &m->capacity, before[i], t, tile_bytes, 0);
    }
    *last_writer(m, row, column) = t;
}

static void make_cholesky(int tiles, const char *name, struct mot_graph *graph)
{
    const size_t cells = (size_t)tiles * (size_t)tiles;
    mot_graph_begin(graph, name, name, CLASSES, tiles * (tiles + 1) * (tiles + 2) / 6);
    graph->classes[0] = (struct mot_graph_class){.name = mot_strdup("cpu"), .workers = 9};
    graph->classes[1] = (struct mot_graph_class){.name = mot_strdup("gpu"),
                                                 .workers = 3,
                                                 .memory_bytes = 5.6e9,
                                                 .link_bytes_per_s = 6e9,
                                                 .link_ms = 0.01};
    struct maker m = {
        .graph = graph, .tiles = tiles, .written = mot_alloc(cells * sizeof(*m.written))};
    for (size_t i = 0; i < cells; i++) { m.written[i] = -1; }
    for (int k = 0; k < tiles; k++) {
        add(&m, POTRF, k, k, k);
        for (int row = k + 1; row < tiles; row++) { add(&m, TRSM, row, k, k); }
        for (int row = k + 1; row < tiles; row++) {
            add(&m, SYRK, row, row, k);
            for (int column = k + 1; column < row; column++) { add(&m, GEMM, row, column, k); }
        }
    }
    MOT_ASSERT(m.n == graph->n_tasks);
    free(m.written);
}

int mot_graph_is_made(const char *path)
{
    return strncmp(path, prefix, strlen(prefix)) == 0;
}

int mot_graph_make(const char *path, struct mot_graphs *graphs)
{
    char *end;
    const char *number = path + strlen(prefix);
    const long tiles = strtol(number, &end, 10);
    if (end == number || *end || tiles < 1 || tiles > TILES_MAX) {
        return mot_fail(EINVAL, "%s: '%s' is not a number of tiles (1 to %d)", path, number,
                        TILES_MAX);
    }
    make_cholesky((int)tiles, path, mot_graphs_add(graphs));
    return 0;
}
