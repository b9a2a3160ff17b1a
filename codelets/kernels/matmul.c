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

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t desc_view;

static dnnl_memory_desc_t desc_matrix(int rows, int cols, int row_stride, int col_stride)
{
    const dnnl_dims_t dims = {rows, cols}, strides = {row_stride, col_stride};
    dnnl_memory_desc_t desc;
    CHECK(dnnl_memory_desc_create_with_strides(&desc, 2, dims, dnnl_f32, strides));
    return desc;
}

static void entry_create(struct entry *e, const struct mot_product *p)
{
    dnnl_memory_desc_t a = desc_matrix(p->m, p->k, p->a_row, p->a_col);
    dnnl_memory_desc_t b = desc_matrix(p->k, p->n, p->b_row, p->b_col);
    dnnl_memory_desc_t c = desc_matrix(p->m, p->n, p->c_row, 1);
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post_ops;
    CHECK(dnnl_primitive_attr_create(&attr));
    CHECK(dnnl_post_ops_create(&post_ops));
    CHECK(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    if (p->accumulate) {
        CHECK(dnnl_post_ops_append_sum(post_ops, 1.0f, 0, dnnl_data_type_undef));
        CHECK(dnnl_primitive_attr_set_post_ops(attr, post_ops));
    }
    dnnl_primitive_desc_t pd;
    CHECK(dnnl_matmul_primitive_desc_create(&pd, engine, a, b, NULL, c, attr));
    desc_view scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    e->scratch_bytes = dnnl_memory_desc_get_size(scratch);
    CHECK(dnnl_primitive_create(&e->primitive, pd));
    CHECK(dnnl_memory_create(&e->a, a, engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&e->b, b, engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&e->c, c, engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&e->scratch, scratch, engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_primitive_desc_destroy(pd));
    CHECK(dnnl_post_ops_destroy(post_ops));
    CHECK(dnnl_primitive_attr_destroy(attr));
    CHECK(dnnl_memory_desc_destroy(a));
    CHECK(dnnl_memory_desc_destroy(b));
    CHECK(dnnl_memory_desc_destroy(c));
}
#else
static dnnl_memory_desc_t desc_matrix(int rows, int cols, int row_stride, int col_stride)
{
    const dnnl_dims_t dims = {rows, cols}, strides = {row_stride, col_stride};
    dnnl_memory_desc_t desc;
    CHECK(dnnl_memory_desc_init_by_strides(&desc, 2, dims, dnnl_f32, strides));
    return desc;
}

static void entry_create(struct entry *e, const struct mot_product *p)
{
    const dnnl_memory_desc_t a = desc_matrix(p->m, p->k, p->a_row, p->a_col);
    const dnnl_memory_desc_t b = desc_matrix(p->k, p->n, p->b_row, p->b_col);
    const dnnl_memory_desc_t c = desc_matrix(p->m, p->n, p->c_row, 1);
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post_ops;
    CHECK(dnnl_primitive_attr_create(&attr));
    CHECK(dnnl_post_ops_create(&post_ops));
    CHECK(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    if (p->accumulate) {
        CHECK(dnnl_post_ops_append_sum(post_ops, 1.0f));
        CHECK(dnnl_primitive_attr_set_post_ops(attr, post_ops));
    }
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    CHECK(dnnl_matmul_desc_init(&desc, &a, &b, NULL, &c));
    CHECK(dnnl_primitive_desc_create(&pd, &desc, attr, engine, NULL));
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    e->scratch_bytes = dnnl_memory_desc_get_size(scratch);
    CHECK(dnnl_primitive_create(&e->primitive, pd));
    CHECK(dnnl_memory_create(&e->a, &a, engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&e->b, &b, engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&e->c, &c, engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_memory_create(&e->scratch, scratch, engine, DNNL_MEMORY_NONE));
    CHECK(dnnl_primitive_desc_destroy(pd));
    CHECK(dnnl_post_ops_destroy(post_ops));
    CHECK(dnnl_primitive_attr_destroy(attr));
}
#endif

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

void mot_matmul(struct mot_arena *arena, const struct mot_product *p, const float *a,
                const float *b, float *c)
{
    if (p->m == 0 || p->n == 0) { return; }
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
