/* Does this machine's matrix product keep its rows independent?  See kernels.h and matmul.h.
 *
 * For each use and each shape of the model, a product of many rows by the whole team is compared
 * bit for bit with products of few rows taken from other places of it, by the whole team and by one
 * thread.  A path that fails gives way to the next.  The weight gradient, a sum over the rows, must
 * only be the same for any number of threads.  oneDNN's code over a classic GEMM ("gemm:...") cuts
 * the sums by the sizes of the whole product, so no sample of sizes speaks for it: only its
 * batch-reduce kernels ("brg:...") are tried at all. */
#include "error.h"
#include "kernels.h"
#include "matmul.h"
#include "parallel.h"
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LAYERS_MAX = 5, ROWS = 130 };
/* Rows of the compared products: single rows, odd tails, whole register blocks. */
static const int row_counts[] = {1, 2, 5, 16, 33, 97};
/* Rows summed over by the weight gradient in one product. */
static const int sum_counts[] = {1, 33, MOT_MATMUL_SUM_ROWS};

struct layer {
    int N, K;
};

static int layers_of(const struct mot_model_shape *s, struct layer *layers)
{
    const int C = s->hidden_size, D = s->head_dim;
    layers[0] = (struct layer){(s->n_heads + 2 * s->n_kv_heads) * D, C};
    layers[1] = (struct layer){C, s->n_heads * D};
    layers[2] = (struct layer){2 * s->intermediate_size, C};
    layers[3] = (struct layer){C, s->intermediate_size};
    layers[4] = (struct layer){s->vocab_size, C};
    return LAYERS_MAX;
}

/* Numbers between -1 and 1; cheap, since a head has many. */
static void fill(float *x, size_t n, uint32_t seed)
{
    uint32_t state = seed;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state * 0x1p-31f;
    }
}

static int with_team(int threads)
{
#ifdef _OPENMP
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
#else
    (void)threads;
    return 1;
#endif
}

static int same(const float *a, const float *b, size_t n)
{
    return memcmp(a, b, n * sizeof(float)) == 0;
}

/* Forward and input gradient: rows of the large product against small ones. */
static int rows_hold(struct mot_arena *arena, enum mot_matmul_path path, struct mot_product p)
{
    const size_t mark = mot_arena_mark(arena);
    const size_t k = (size_t)p.k, n = (size_t)p.n;
    float *a = mot_arena_take(arena, ROWS * k * sizeof(float));
    float *b = mot_arena_take(arena, n * k * sizeof(float));
    float *whole = mot_arena_take(arena, ROWS * n * sizeof(float));
    float *part = mot_arena_take(arena, ROWS * n * sizeof(float));
    fill(a, ROWS * k, 1);
    fill(b, n * k, 2);
    p.m = ROWS;
    mot_matmul_by(path, arena, &p, a, b, whole);
    int ok = 1;
    for (size_t i = 0; i < sizeof(row_counts) / sizeof(row_counts[0]) && ok; i++) {
        const size_t first = (7 * i + 3) % (size_t)(ROWS - row_counts[i]);
        p.m = row_counts[i];
        const int team = mot_team_size(), passes = team > 1 && i % 2 == 0 ? 2 : 1;
        for (int pass = 0; pass < passes; pass++) {
            if (pass == 1) { with_team(1); }
            mot_matmul_by(path, arena, &p, a + first * k, b, part);
            with_team(team);
            ok &= same(part, whole + first * n, (size_t)p.m * n);
        }
    }
    mot_arena_reset(arena, mark);
    return ok;
}

static int is_batch_reduce(const struct mot_product *p)
{
    char code[64];
    mot_matmul_implementation(p, code, sizeof(code));
    return strncmp(code, "brg", 3) == 0;
}

/* Packed weights against plain ones. */
static int packed_holds(struct mot_arena *arena, struct layer l)
{
    const enum mot_matmul_path path = mot_matmul_path_of(MOT_MATMUL_FORWARD);
    const size_t mark = mot_arena_mark(arena);
    const size_t k = (size_t)l.K, n = (size_t)l.N;
    struct mot_product p = mot_product_forward(ROWS, l.N, l.K);
    float *a = mot_arena_take(arena, ROWS * k * sizeof(float));
    float *b = mot_arena_take(arena, n * k * sizeof(float));
    float *whole = mot_arena_take(arena, ROWS * n * sizeof(float));
    float *part = mot_arena_take(arena, ROWS * n * sizeof(float));
    float *packed_b = mot_arena_take(arena, mot_matmul_pack_bytes(&p));
    fill(a, ROWS * k, 1);
    fill(b, n * k, 2);
    mot_matmul_by(path, arena, &p, a, b, whole);
    mot_matmul_pack(&p, b, packed_b);
    int ok = 1;
    for (size_t i = 0; i < sizeof(row_counts) / sizeof(row_counts[0]) && ok; i++) {
        const size_t first = (7 * i + 3) % (size_t)(ROWS - row_counts[i]);
        p.m = row_counts[i];
        const int team = mot_team_size();
        if (i % 2 == 1) { with_team(1); }
        mot_matmul_packed(&p, a + first * k, packed_b, part);
        with_team(team);
        ok = same(part, whole + first * n, (size_t)p.m * n);
    }
    mot_arena_reset(arena, mark);
    return ok;
}

/* Weight gradient: one thread against the team. */
static int sums_hold(struct mot_arena *arena, enum mot_matmul_path path, struct layer l)
{
    const size_t mark = mot_arena_mark(arena);
    const size_t size = (size_t)l.N * (size_t)l.K;
    float *dy = mot_arena_take(arena, MOT_MATMUL_SUM_ROWS * (size_t)l.N * sizeof(float));
    float *x = mot_arena_take(arena, MOT_MATMUL_SUM_ROWS * (size_t)l.K * sizeof(float));
    float *by_team = mot_arena_take(arena, size * sizeof(float));
    float *by_one = mot_arena_take(arena, size * sizeof(float));
    const int team = mot_team_size();
    int ok = 1;
    fill(dy, MOT_MATMUL_SUM_ROWS * (size_t)l.N, 3);
    fill(x, MOT_MATMUL_SUM_ROWS * (size_t)l.K, 4);
    for (size_t i = 0; i < sizeof(sum_counts) / sizeof(sum_counts[0]) && ok && team > 1; i++) {
        const struct mot_product p = mot_product_grad_weight(sum_counts[i], l.N, l.K);
        memset(by_team, 0, size * sizeof(float));
        memset(by_one, 0, size * sizeof(float));
        mot_matmul_by(path, arena, &p, dy, x, by_team);
        with_team(1);
        mot_matmul_by(path, arena, &p, dy, x, by_one);
        with_team(team);
        ok = same(by_team, by_one, size);
    }
    mot_arena_reset(arena, mark);
    return ok;
}

static struct mot_product product_of(enum mot_matmul_use use, struct layer l, int rows)
{
    switch (use) {
    case MOT_MATMUL_FORWARD:
        return mot_product_forward(rows, l.N, l.K);
    case MOT_MATMUL_GRAD_INPUT:
        return mot_product_grad_input(rows, l.N, l.K, 0);
    default:
        return mot_product_grad_weight(rows, l.N, l.K);
    }
}

static int path_holds(struct mot_arena *arena, enum mot_matmul_use use, enum mot_matmul_path path,
                      const struct layer *layers, int n)
{
    if (path == MOT_MATMUL_OWN) { return 1; } /* by construction */
    for (int i = 0; i < n; i++) {
        const struct mot_product p = product_of(use, layers[i], ROWS);
        if (!is_batch_reduce(&p)) { return 0; }
        if (use == MOT_MATMUL_GRAD_WEIGHT ? !sums_hold(arena, path, layers[i])
                                          : !rows_hold(arena, path, p)) {
            return 0;
        }
    }
    return 1;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
enum { TESTED_MAX = 32 };
static struct layer tested[TESTED_MAX][LAYERS_MAX];
static int n_tested;

static int was_tested(const struct layer *layers)
{
    for (int i = 0; i < n_tested; i++) {
        if (memcmp(tested[i], layers, sizeof(tested[i])) == 0) { return 1; }
    }
    return 0;
}

static void choose_paths(const struct layer *layers, int n)
{
    struct mot_arena *arena = mot_arena_create();
    for (int i = 0; i < MOT_MATMUL_USES; i++) {
        const enum mot_matmul_use use = (enum mot_matmul_use)i;
        enum mot_matmul_path path = mot_matmul_path_of(use);
        while (!path_holds(arena, use, path, layers, n)) { path++; }
        mot_matmul_set_path(use, path);
    }
    for (int i = 0; i < n; i++) {
        const struct mot_product p = mot_product_forward(ROWS, layers[i].N, layers[i].K);
        if (mot_matmul_pack_bytes(&p) == 0) { break; }
        if (!packed_holds(arena, layers[i])) { mot_matmul_forbid_packing(); }
    }
    mot_arena_destroy(arena);
}

int mot_matmul_self_test(const struct mot_model_shape *shape)
{
    struct layer layers[LAYERS_MAX];
    const int n = layers_of(shape, layers);
    pthread_mutex_lock(&mutex);
    if (!was_tested(layers)) {
        choose_paths(layers, n);
        if (n_tested < TESTED_MAX) { memcpy(tested[n_tested++], layers, sizeof(layers)); }
    }
    pthread_mutex_unlock(&mutex);
    return 0;
}

const char *mot_matmul_describe(void)
{
    static _Thread_local char text[128];
    static const char *const names[] = {"", ", lone rows paired", ", replaced by our own"};
    const dnnl_version_t *v = dnnl_version();
    const struct mot_product p = mot_product_forward(64, 64, 64);
    char code[48];
    mot_matmul_implementation(&p, code, sizeof(code));
    snprintf(text, sizeof(text), "oneDNN %d.%d.%d matmul (%s%s)", v->major, v->minor, v->patch,
             code, names[mot_matmul_path_of(MOT_MATMUL_FORWARD)]);
    return text;
}

double mot_matmul_peak_flop_per_s(void)
{
    enum { SIZE = 1024, TRIES = 12 };
    struct mot_arena *arena = mot_arena_create();
    const size_t bytes = (size_t)SIZE * SIZE * sizeof(float);
    float *a = mot_arena_take(arena, bytes), *b = mot_arena_take(arena, bytes);
    float *c = mot_arena_take(arena, bytes);
    const struct mot_product p = mot_product_forward(SIZE, SIZE, SIZE);
    double best = 0.0;
    fill(a, (size_t)SIZE * SIZE, 1);
    fill(b, (size_t)SIZE * SIZE, 2);
    for (int i = 0; i < TRIES; i++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        mot_matmul(arena, &p, a, b, c);
        clock_gettime(CLOCK_MONOTONIC, &end);
        const double seconds =
            (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        const double rate = 2.0 * SIZE * SIZE * SIZE / seconds;
        best = rate > best ? rate : best;
    }
    mot_arena_destroy(arena);
    return best;
}
