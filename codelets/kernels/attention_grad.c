/* The gradient of attention; see kernels.h and attention.c (Dao et al. 2022, arXiv:2205.14135,
 * appendix B.2: probabilities are worked out again from lse, never kept).
 *
 *   p = exp(s - lse),  dp = dout v,  ds = p (dp - delta) scale,  delta = dout out
 *   dq = ds k,  dk = ds^T q,  dv = p^T dout
 *
 * Two passes, so that every sum has one thread and one order.  The first goes over blocks
 * of rows and gives dq.  The second goes over blocks of keys of each cache and gives dk and dv: the
 * segments that read the cache, as kernels.h orders them, and their queries in ascending order. */
#include "attention_keys.h"
#include "cpu_kernels.h"
#include "error.h"
#include "fast_math.h"
#include <math.h>

enum { UNIT_ROWS = 64 };

/* What both passes read. */
struct call {
    struct heads h;
    const struct mot_segment *segments;
    int n_segments;
    const float *qkv, *out, *lse, *dout;
    float *delta; /* (T, H) */
    float *dqkv;
};

/* One thread's working memory. */
struct scratch {
    float *keys, *values;   /* columns (D, MOT_KEYS) */
    float *rows;            /* (MOT_KEYS, Dp) keys */
    float *dkeys, *dvalues; /* columns (D, MOT_KEYS) */
    float *dq;              /* (UNIT_ROWS G, Dp) */
};

static struct scratch scratch_take(struct mot_arena *arena, const struct heads *h)
{
    const size_t block = (size_t)h->Dp * MOT_KEYS * sizeof(float);
    return (struct scratch){
        .keys = mot_arena_take(arena, block),
        .values = mot_arena_take(arena, block),
        .rows = mot_arena_take(arena, block),
        .dkeys = mot_arena_take(arena, block),
        .dvalues = mot_arena_take(arena, block),
        .dq = mot_arena_take(arena, (size_t)(UNIT_ROWS * h->G * h->Dp) * sizeof(float)),
    };
}

/* Up to MOT_TILE queries of one segment and key head, numbered row * G + head as in attention.c. */
struct tile {
    int R;
    int position[MOT_TILE];
    const float *q[MOT_TILE], *dout[MOT_TILE];
    float lse[MOT_TILE], delta[MOT_TILE];
    float p[MOT_TILE][MOT_KEYS] __attribute__((aligned(64)));
    float ds[MOT_TILE][MOT_KEYS] __attribute__((aligned(64)));
};

static void tile_locate(struct tile *t, const struct call *c, const struct mot_segment *segment,
                        int head, int first, int end)
{
    const struct heads *h = &c->h;
    t->R = mot_min(MOT_TILE, end - first);
    for (int r = 0; r < t->R; r++) {
        const size_t row = (size_t)(segment->first + (first + r) / h->G);
        const size_t query_head = (size_t)(head * h->G + (first + r) % h->G);
        const size_t at = row * (size_t)h->H + query_head;
        t->position[r] = segment->position + (first + r) / h->G;
        t->q[r] = c->qkv + row * h->S + query_head * (size_t)h->D;
        t->dout[r] = c->dout + at * (size_t)h->D;
        t->lse[r] = c->lse[at];
        t->delta[r] = c->delta[at];
    }
}

/* p and ds of the tile for n keys at position start, laid out in columns. */
static void tile_compute(struct tile *t, const struct heads *h, const float *keys,
                         const float *values, int start, int n)
{
    tile_scores(t->R, h->D, t->q, keys, t->p);
    tile_scores(t->R, h->D, t->dout, values, t->ds);
    for (int r = 0; r < t->R; r++) {
        const int seen = mot_min(t->position[r] - start + 1, n);
        for (int v = 0; v < 4; v++) {
            float *at_p = t->p[r] + 16 * v, *at_ds = t->ds[r] + 16 * v;
            v16 p = v16_exp(v16_load(at_p) * v16_all(h->scale) - v16_all(t->lse[r]));
            p = v16_keep_n(p, seen - 16 * v, 0.0f);
            const v16 ds = p * (v16_load(at_ds) - v16_all(t->delta[r])) * v16_all(h->scale);
            v16_store(at_p, p);
            v16_store(at_ds, ds);
        }
    }
}

struct row_unit {
    const struct mot_segment *segment;
    int head, first, rows;
};

static void load_split(const struct heads *h, const struct row_unit *u, int start, int n,
                       const struct scratch *s)
{
    const struct mot_segment *segment = u->segment;
    if (n < MOT_KEYS) {
        memset(s->keys, 0, (size_t)h->D * MOT_KEYS * sizeof(float));
        memset(s->values, 0, (size_t)h->D * MOT_KEYS * sizeof(float));
    }
    for (int i = 0, run; i < n; i += run) {
        const struct mot_kv *kv = kv_of(segment, start + i);
        run = kv == &segment->prefix ? mot_min(n - i, segment->own.first_position - start - i)
                                     : n - i;
        keys_to_columns(h, kv, OF_KEY, u->head, start + i, i, run, s->keys);
        keys_to_columns(h, kv, OF_VALUE, u->head, start + i, i, run, s->values);
        keys_to_rows(h, kv, OF_KEY, u->head, start + i, i, run, s->rows);
    }
}

/* dq of a block of rows. */
static void row_unit_run(const struct call *c, const struct row_unit *u, const struct scratch *s)
{
    const struct heads *h = &c->h;
    const int queries = u->rows * h->G, base = u->first * h->G;
    const int end = u->segment->position + u->first + u->rows;
    memset(s->dq, 0, (size_t)queries * h->Dp * sizeof(float));
    for (int start = 0; start < end; start += MOT_KEYS) {
        const int n = mot_min(MOT_KEYS, end - start);
        load_split(h, u, start, n, s);
        int row = start - u->segment->position - u->first;
        row = row < 0 ? 0 : row;
        for (int i = row * h->G; i < queries; i += MOT_TILE) {
            struct tile t;
            float *dq[MOT_TILE];
            tile_locate(&t, c, u->segment, u->head, base + i, base + queries);
            tile_compute(&t, h, s->keys, s->values, start, n);
            for (int r = 0; r < t.R; r++) { dq[r] = s->dq + (size_t)(i + r) * h->Dp; }
            const int seen = t.position[t.R - 1] - start + 1;
            tile_mix(t.R, mot_min(seen, n), t.ds, s->rows, h->Dp, dq);
        }
    }
    for (int i = 0; i < queries; i++) {
        const size_t row = (size_t)(u->segment->first + u->first + i / h->G);
        const size_t head = (size_t)(u->head * h->G + i % h->G);
        memcpy(c->dqkv + row * h->S + head * (size_t)h->D, s->dq + (size_t)i * h->Dp,
               (size_t)h->D * sizeof(float));
    }
}

/* A cache and the gradient that gathers for it; end is one past its last position. */
struct cache {
    struct mot_kv kv;
    float *grad;
    int end;
};

struct key_unit {
    const struct cache *cache;
    int head, start;
};

static struct cache *cache_find(struct cache *caches, int *n, const struct mot_kv *kv, float *grad)
{
    for (int i = 0; i < *n; i++) {
        if (caches[i].grad == grad) { return &caches[i]; }
    }
    caches[*n] = (struct cache){*kv, grad, kv->first_position};
    return &caches[(*n)++];
}

static int caches_fill(const struct call *c, struct cache *caches)
{
    int n = 0;
    for (int i = 0; i < c->n_segments; i++) {
        const struct mot_segment *s = &c->segments[i];
        struct cache *own = cache_find(caches, &n, &s->own, s->own_grad);
        if (own->end < s->position + s->count) { own->end = s->position + s->count; }
        if (!s->prefix.data) { continue; }
        struct cache *prefix = cache_find(caches, &n, &s->prefix, s->prefix_grad);
        if (prefix->end < s->own.first_position) { prefix->end = s->own.first_position; }
    }
    return n;
}

/* The queries of one segment add to dk and dv of n keys at position start. */
static void gather(const struct call *c, const struct mot_segment *segment, int head, int start,
                   int n, const struct scratch *s)
{
    const struct heads *h = &c->h;
    const int queries = segment->count * h->G;
    int row = start - segment->position;
    row = row < 0 ? 0 : row;
    for (int i = row * h->G; i < queries; i += MOT_TILE) {
        struct tile t;
        tile_locate(&t, c, segment, head, i, queries);
        tile_compute(&t, h, s->keys, s->values, start, n);
        tile_outer(t.R, h->D, t.dout, t.p, s->dvalues);
        tile_outer(t.R, h->D, t.q, t.ds, s->dkeys);
    }
}

static void key_unit_run(const struct call *c, const struct key_unit *u, const struct scratch *s)
{
    const struct heads *h = &c->h;
    const struct cache *cache = u->cache;
    const int n = mot_min(MOT_KEYS, cache->end - u->start);
    const size_t block = (size_t)h->D * MOT_KEYS * sizeof(float);
    if (n < MOT_KEYS) {
        memset(s->keys, 0, block);
        memset(s->values, 0, block);
    }
    keys_to_columns(h, &cache->kv, OF_KEY, u->head, u->start, 0, n, s->keys);
    keys_to_columns(h, &cache->kv, OF_VALUE, u->head, u->start, 0, n, s->values);
    memset(s->dkeys, 0, block);
    memset(s->dvalues, 0, block);
    for (int with_prefix = 1; with_prefix >= 0; with_prefix--) {
        for (int i = 0; i < c->n_segments; i++) {
            const struct mot_segment *segment = &c->segments[i];
            if ((segment->prefix.data != NULL) != with_prefix) { continue; }
            if (with_prefix && segment->prefix_grad == cache->grad) {
                const int left = segment->own.first_position - u->start;
                if (left > 0) { gather(c, segment, u->head, u->start, mot_min(n, left), s); }
            }
            if (segment->own_grad == cache->grad) { gather(c, segment, u->head, u->start, n, s); }
        }
    }
    for (int which = OF_KEY; which <= OF_VALUE; which++) {
        columns_add_to_rows(h->D, n, which == OF_KEY ? s->dkeys : s->dvalues,
                            kv_row(h, cache->grad, &cache->kv, which, u->head, u->start));
    }
}

/* delta of one row's heads. */
static void row_delta(const struct call *c, size_t row)
{
    const struct heads *h = &c->h;
    for (int head = 0; head < h->H; head++) {
        const size_t at = row * (size_t)h->H + (size_t)head;
        const float *a = c->out + at * (size_t)h->D, *b = c->dout + at * (size_t)h->D;
        v16 sum = v16_all(0.0f);
        for (int d = 0; d < h->D; d += 16) {
            const int n = mot_min(16, h->D - d);
            sum = v16_fma(v16_load_n(a + d, n), v16_load_n(b + d, n), sum);
        }
        c->delta[at] = v16_sum(sum);
    }
}

/* The gradients of a segment's own keys and values into its rows of dqkv. */
static void read_own(const struct call *c, const struct mot_segment *s)
{
    const struct heads *h = &c->h;
    for (int i = 0; i < s->count; i++) {
        float *key = c->dqkv + (size_t)(s->first + i) * h->S + (size_t)h->H * h->D;
        for (int head = 0; head < h->K; head++) {
            for (int which = OF_KEY; which <= OF_VALUE; which++) {
                memcpy(key + (size_t)(which * h->K + head) * h->D,
                       kv_row(h, s->own_grad, &s->own, which, head, s->position + i),
                       (size_t)h->D * sizeof(float));
            }
        }
    }
}

static void run_rows(struct mot_exec *e, const struct call *c, const struct scratch *scratch)
{
    int n = 0, T = 0;
    for (int i = 0; i < c->n_segments; i++) {
        n += c->h.K * MOT_CEIL_DIV(c->segments[i].count, UNIT_ROWS);
    }
    struct row_unit *units = mot_arena_take(e->arena, (size_t)n * sizeof(*units));
    n = 0;
    for (int i = 0; i < c->n_segments; i++) {
        const struct mot_segment *s = &c->segments[i];
        T += s->count;
        for (int first = 0; first < s->count; first += UNIT_ROWS) {
            for (int head = 0; head < c->h.K; head++) {
                const int rows = mot_min(UNIT_ROWS, s->count - first);
                units[n++] = (struct row_unit){s, head, first, rows};
            }
        }
    }
    const int worth = T >= 16;
    MOT_PARALLEL_FOR(worth)
    for (int i = 0; i < c->n_segments; i++) {
        const struct mot_segment *s = &c->segments[i];
        for (int r = 0; r < s->count; r++) { row_delta(c, (size_t)(s->first + r)); }
    }
    MOT_PARALLEL_TASKS(worth)
    for (int i = 0; i < n; i++) { row_unit_run(c, &units[i], &scratch[mot_team_rank()]); }
}

static void run_keys(struct mot_exec *e, const struct call *c, const struct scratch *scratch)
{
    struct cache *caches = mot_arena_take(e->arena, 2 * (size_t)c->n_segments * sizeof(*caches));
    const int n_caches = caches_fill(c, caches);
    int n = 0;
    for (int i = 0; i < n_caches; i++) {
        n += c->h.K * MOT_CEIL_DIV(caches[i].end - caches[i].kv.first_position, MOT_KEYS);
    }
    struct key_unit *units = mot_arena_take(e->arena, (size_t)n * sizeof(*units));
    n = 0;
    for (int i = 0; i < n_caches; i++) {
        for (int at = caches[i].kv.first_position; at < caches[i].end; at += MOT_KEYS) {
            for (int head = 0; head < c->h.K; head++) {
                units[n++] = (struct key_unit){&caches[i], head, at};
            }
        }
    }
    MOT_PARALLEL_TASKS(n > 1)
    for (int i = 0; i < n; i++) { key_unit_run(c, &units[i], &scratch[mot_team_rank()]); }
}

void mot_cpu_attention_grad(struct mot_exec *e, const struct mot_model_shape *shape, int layer,
                            const struct mot_segment *segments, int n_segments, const float *qkv,
                            const float *out, const float *lse, const float *dout, float *dqkv)
{
    const size_t mark = mot_arena_mark(e->arena);
    const int team = mot_team_size();
    struct call c = {.h = heads_of(shape, layer),
                     .segments = segments,
                     .n_segments = n_segments,
                     .qkv = qkv,
                     .out = out,
                     .lse = lse,
                     .dout = dout,
                     .dqkv = dqkv};
    int rows = 0;
    for (int i = 0; i < n_segments; i++) {
        const int end = segments[i].first + segments[i].count;
        MOT_ASSERT(segments[i].own_grad && (!segments[i].prefix.data || segments[i].prefix_grad));
        rows = end > rows ? end : rows;
    }
    c.delta = mot_arena_take(e->arena, (size_t)rows * (size_t)c.h.H * sizeof(float));
    struct scratch *scratch = mot_arena_take(e->arena, (size_t)team * sizeof(*scratch));
    for (int i = 0; i < team; i++) { scratch[i] = scratch_take(e->arena, &c.h); }
    run_rows(e, &c, scratch);
    run_keys(e, &c, scratch);
    MOT_PARALLEL_FOR(rows >= 64)
    for (int i = 0; i < n_segments; i++) { read_own(&c, &segments[i]); }
    mot_arena_reset(e->arena, mark);
}
