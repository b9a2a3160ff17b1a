/* Matrix products through oneDNN's matmul primitive; see matmul.h.
 *
 * Primitives are kept per thread (a table of fixed size, the oldest of a slot's rivals dropped), so
 * nothing is locked; oneDNN's own cache shares the generated code between threads.  The scratchpad
 * comes from the worker's arena. */
#include "matmul.h"
#include "error.h"
#include "parallel.h"
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                   \
    do {                                              \
        const dnnl_status_t status_ = (call);         \
        MOT_ASSERT(status_ == dnnl_success && #call); \
    } while (0)

struct key {
    struct mot_product product;
    int threads;
};

struct entry {
    struct key key;
    unsigned long used; /* 0: empty */
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c, scratch;
    size_t scratch_bytes;
};

enum { SETS = 64, WAYS = 4 };

struct cache {
    unsigned long clock;
    dnnl_stream_t stream;
    struct entry entries[SETS][WAYS];
};

static dnnl_engine_t engine;
static pthread_key_t cache_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void entry_clear(struct entry *e)
{
    if (!e->used) { return; }
    CHECK(dnnl_primitive_destroy(e->primitive));
    const dnnl_memory_t memories[] = {e->a, e->b, e->c, e->scratch};
    for (int i = 0; i < 4; i++) { CHECK(dnnl_memory_destroy(memories[i])); }
    memset(e, 0, sizeof(*e));
}

static void cache_destroy(void *pointer)
{
    struct cache *cache = pointer;
    for (int i = 0; i < SETS * WAYS; i++) { entry_clear(&cache->entries[0][0] + i); }
    CHECK(dnnl_stream_destroy(cache->stream));
    free(cache);
}

static void start_once(void)
{
    CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
    MOT_ASSERT(pthread_key_create(&cache_key, cache_destroy) == 0);
}

static struct cache *cache_of_thread(void)
{
    pthread_once(&once, start_once);
    struct cache *cache = pthread_getspecific(cache_key);
    if (!cache) {
        cache = mot_alloc_zeroed(1, sizeof(*cache));
        CHECK(dnnl_stream_create(&cache->stream, engine, dnnl_stream_default_flags));
        pthread_setspecific(cache_key, cache);
    }
    return cache;
}

/* The three matrices and the attributes of a product as oneDNN wants them. */
struct description {
    dnnl_memory_desc_t a, b, c;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t primitive;
};

/* What the two generations of oneDNN's C interface spell differently. */
#if DNNL_VERSION_MAJOR >= 3
#    define MEMORY_DESC(desc)    (desc)
#    define append_sum(post_ops) dnnl_post_ops_append_sum(post_ops, 1.0f, 0, dnnl_data_type_undef)
static dnnl_memory_desc_t desc_matrix(int rows, int cols, int row_stride, int col_stride)
{
    const dnnl_dims_t dims = {rows, cols}, strides = {row_stride, col_stride};
    dnnl_memory_desc_t desc;
    CHECK(dnnl_memory_desc_create_with_strides(&desc, 2, dims, dnnl_f32, strides));
    return desc;
}

static dnnl_status_t describe_primitive(struct description *d)
{
    return dnnl_matmul_primitive_desc_create(&d->primitive, engine, d->a, d->b, NULL, d->c,
                                             d->attr);
}

static void free_matrices(struct description *d)
{
    CHECK(dnnl_memory_desc_destroy(d->a));
    CHECK(dnnl_memory_desc_destroy(d->b));
    CHECK(dnnl_memory_desc_destroy(d->c));
}
#else
#    define MEMORY_DESC(desc)    (&(desc))
#    define append_sum(post_ops) dnnl_post_ops_append_sum(post_ops, 1.0f)
static dnnl_memory_desc_t desc_matrix(int rows, int cols, int row_stride, int col_stride)
{
    const dnnl_dims_t dims = {rows, cols}, strides = {row_stride, col_stride};
    dnnl_memory_desc_t desc;
    CHECK(dnnl_memory_desc_init_by_strides(&desc, 2, dims, dnnl_f32, strides));
    return desc;
}

static dnnl_status_t describe_primitive(struct description *d)
{
    dnnl_matmul_desc_t desc;
    CHECK(dnnl_matmul_desc_init(&desc, &d->a, &d->b, NULL, &d->c));
    return dnnl_primitive_desc_create(&d->primitive, &desc, d->attr, engine, NULL);
}

static void free_matrices(struct description *d)
{
    (void)d; /* plain structs */
}
#endif

static void description_destroy(struct description *d)
{
    CHECK(dnnl_primitive_desc_destroy(d->primitive));
    CHECK(dnnl_primitive_attr_destroy(d->attr));
    free_matrices(d);
}

static void description_create(struct description *d, const struct mot_product *p)
{
    dnnl_post_ops_t post_ops;
    d->a = desc_matrix(p->m, p->k, p->a_row, p->a_col);
    d->b = desc_matrix(p->k, p->n, p->b_row, p->b_col);
    d->c = desc_matrix(p->m, p->n, p->c_row, 1);
    CHECK(dnnl_primitive_attr_create(&d->attr));
    CHECK(dnnl_primitive_attr_set_scratchpad_mode(d->attr, dnnl_scratchpad_mode_user));
    if (p->accumulate) {
        CHECK(dnnl_post_ops_create(&post_ops));
        CHECK(append_sum(post_ops));
        CHECK(dnnl_primitive_attr_set_post_ops(d->attr, post_ops));
        CHECK(dnnl_post_ops_destroy(post_ops));
    }
    CHECK(describe_primitive(d));
}

static void entry_create(struct entry *e, const struct mot_product *p)
{
    struct description d;
    description_create(&d, p);
    /* Version 2 returns a pointer to the struct, version 3 the handle itself. */
    const void *scratch = dnnl_primitive_desc_query_md(d.primitive, dnnl_query_scratchpad_md, 0);
    e->scratch_bytes = dnnl_memory_desc_get_size(scratch);
    CHECK(dnnl_primitive_create(&e->primitive, d.primitive));
    CHECK(dnnl_memory_create(&e->a, MEMORY_DESC(d.a), engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&e->b, MEMORY_DESC(d.b), engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&e->c, MEMORY_DESC(d.c), engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&e->scratch, scratch, engine, DNNL_MEMORY_NONE));
    description_destroy(&d);
}

void mot_matmul_implementation(const struct mot_product *p, char *name, size_t bytes)
{
    struct description d;
    const char *text;
    pthread_once(&once, start_once);
    description_create(&d, p);
    CHECK(dnnl_primitive_desc_query(d.primitive, dnnl_query_impl_info_str, 0, (void *)&text));
    snprintf(name, bytes, "%s", text);
    description_destroy(&d);
}

static unsigned hash(const struct key *key)
{
    unsigned h = 2166136261u; /* FNV-1a over the ints */
    const int *word = (const int *)key;
    for (size_t i = 0; i < sizeof(*key) / sizeof(int); i++) {
        h = (h ^ (unsigned)word[i]) * 16777619u;
        h ^= h >> 15;
    }
    return h;
}

static struct entry *entry_find(struct cache *cache, const struct mot_product *p)
{
    struct key key;
    memset(&key, 0, sizeof(key));
    key.product = *p;
    key.threads = mot_team_size();
    struct entry *set = cache->entries[hash(&key) % SETS], *oldest = set;
    cache->clock++;
    for (int i = 0; i < WAYS; i++) {
        if (set[i].used && memcmp(&set[i].key, &key, sizeof(key)) == 0) {
            set[i].used = cache->clock;
            return &set[i];
        }
        if (set[i].used < oldest->used) { oldest = &set[i]; }
    }
    entry_clear(oldest);
    entry_create(oldest, p);
    oldest->key = key;
    oldest->used = cache->clock;
    return oldest;
}

static void run_primitive(struct mot_arena *arena, const struct mot_product *p, const float *a,
                          const float *b, float *c)
{
    struct cache *cache = cache_of_thread();
    struct entry *e = entry_find(cache, p);
    const size_t mark = mot_arena_mark(arena);
    void *scratch = mot_arena_take(arena, e->scratch_bytes);
    CHECK(dnnl_memory_set_data_handle(e->a, (void *)(uintptr_t)a));
    CHECK(dnnl_memory_set_data_handle(e->b, (void *)(uintptr_t)b));
    CHECK(dnnl_memory_set_data_handle(e->c, c));
    CHECK(dnnl_memory_set_data_handle(e->scratch, scratch));
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, e->a},
                                    {DNNL_ARG_WEIGHTS, e->b},
                                    {DNNL_ARG_DST, e->c},
                                    {DNNL_ARG_SCRATCHPAD, e->scratch}};
    CHECK(dnnl_primitive_execute(e->primitive, cache->stream, 4, args));
    CHECK(dnnl_stream_wait(cache->stream));
    mot_arena_reset(arena, mark);
}

/* A product of one row as the first of two equal ones. */
static void run_pair(struct mot_arena *arena, const struct mot_product *p, const float *a,
                     const float *b, float *c)
{
    const size_t mark = mot_arena_mark(arena);
    const size_t k = (size_t)p->k, n_bytes = (size_t)p->n * sizeof(float);
    float *two_a = mot_arena_take(arena, 2 * k * sizeof(float));
    float *two_c = mot_arena_take(arena, 2 * n_bytes);
    for (size_t i = 0; i < k; i++) { two_a[i] = two_a[k + i] = a[i * (size_t)p->a_col]; }
    if (p->accumulate) {
        memcpy(two_c, c, n_bytes);
        memcpy(two_c + p->n, c, n_bytes);
    }
    struct mot_product two = *p;
    two.m = 2;
    two.a_row = p->k;
    two.a_col = 1;
    two.c_row = p->n;
    run_primitive(arena, &two, two_a, b, two_c);
    memcpy(c, two_c, n_bytes);
    mot_arena_reset(arena, mark);
}

void mot_matmul_by(enum mot_matmul_path path, struct mot_arena *arena, const struct mot_product *p,
                   const float *a, const float *b, float *c)
{
    if (p->m == 0 || p->n == 0) { return; }
    MOT_ASSERT(p->m > 0 && p->n > 0 && p->k > 0);
    if (path == MOT_MATMUL_OWN) {
        mot_matmul_own(arena, p, a, b, c);
    } else if (path == MOT_MATMUL_PAIRED && p->m == 1) {
        run_pair(arena, p, a, b, c);
    } else {
        run_primitive(arena, p, a, b, c);
    }
}

/* Set before the work starts, by the self-test. */
static _Atomic int paths[MOT_MATMUL_USES] = {
#if DNNL_VERSION_MAJOR >= 3
    MOT_MATMUL_PAIRED, MOT_MATMUL_PAIRED, MOT_MATMUL_PAIRED
#else
    MOT_MATMUL_PRIMITIVE, MOT_MATMUL_PRIMITIVE, MOT_MATMUL_PRIMITIVE
#endif
};

enum mot_matmul_path mot_matmul_path_of(enum mot_matmul_use use)
{
    return (enum mot_matmul_path)paths[use];
}

void mot_matmul_set_path(enum mot_matmul_use use, enum mot_matmul_path path)
{
    paths[use] = (int)path;
}

void mot_matmul(struct mot_arena *arena, const struct mot_product *p, const float *a,
                const float *b, float *c)
{
    mot_matmul_by(mot_matmul_path_of(p->use), arena, p, a, b, c);
}
