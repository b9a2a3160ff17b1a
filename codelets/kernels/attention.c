/* Causal attention with grouped heads, prefix and own key caches; see kernels.h.  Online softmax
 * (Milakov & Gimelshein 2018, arXiv:1805.02867) over blocks of 64 keys that start at multiples of
 * 64, whatever lies where: for each query and block
 *
 *   m' = max(m, max s),  c = exp(m - m'),  p = exp(s - m'),  l = l c + sum p,  o = o c + p v
 *
 * and at the end out = o / l, lse = m + log l.  A key after the query counts as s = -inf, which
 * changes no bit of m, l or o: so prefill, decode and training compute the same numbers.
 *
 * A unit of work is up to 64 rows of one segment and one key head with its G query heads; the
 * queries of a unit are numbered row * G + head. */
#include "attention_keys.h"
#include "cpu_kernels.h"
#include "error.h"
#include "fast_math.h"
#include <math.h>

enum { UNIT_ROWS = 64, RUNS_PER_THREAD = 16 };

struct unit {
    const struct mot_segment *segment;
    int head, first, rows; /* rows first .. first + rows - 1 of the segment */
};

/* One thread's working memory. */
struct scratch {
    float *columns;   /* (D, MOT_KEYS) keys */
    float *rows;      /* (MOT_KEYS, Dp) values */
    float *max, *sum; /* (UNIT_ROWS G) */
    float *mix;       /* (UNIT_ROWS G, Dp) */
};

static struct scratch scratch_take(struct mot_arena *arena, const struct heads *h)
{
    const size_t queries = (size_t)UNIT_ROWS * (size_t)h->G, Dp = (size_t)h->Dp;
    return (struct scratch){
        .columns = mot_arena_take(arena, Dp * MOT_KEYS * sizeof(float)),
        .rows = mot_arena_take(arena, Dp * MOT_KEYS * sizeof(float)),
        .max = mot_arena_take(arena, queries * sizeof(float)),
        .sum = mot_arena_take(arena, queries * sizeof(float)),
        .mix = mot_arena_take(arena, queries * Dp * sizeof(float)),
    };
}

/* A block's values where they lie: rows (n, Dp) in up to two runs, since a block may begin in the
 * prefix and end in the own cache. */
struct values {
    const float *rows[2];
    int n[2];
};

/* How many of the n keys from position start on the prefix holds. */
static int keys_in_prefix(const struct mot_segment *segment, int start, int n)
{
    const int split = segment->prefix.data ? segment->own.first_position - start : 0;
    return split < 0 ? 0 : mot_min(split, n);
}

/* Keys of positions start .. start + n - 1 into s->columns; values that need padding into
 * s->rows. */
static struct values block_load(const struct heads *h, const struct unit *u, int start, int n,
                                const struct scratch *s)
{
    const struct mot_kv *caches[2] = {&u->segment->prefix, &u->segment->own};
    const int split = keys_in_prefix(u->segment, start, n);
    struct values values = {.n = {split, n - split}};
    if (n < MOT_KEYS) { memset(s->columns, 0, (size_t)h->D * MOT_KEYS * sizeof(float)); }
    for (int i = 0, at = 0; i < 2; at += values.n[i++]) {
        if (values.n[i] == 0) { continue; }
        keys_to_columns(h, caches[i], OF_KEY, u->head, start + at, at, values.n[i], s->columns);
        if (h->D == h->Dp) {
            values.rows[i] = kv_row(h, caches[i]->data, caches[i], OF_VALUE, u->head, start + at);
        } else {
            keys_to_rows(h, caches[i], OF_VALUE, u->head, start + at, at, values.n[i], s->rows);
            values.rows[i] = s->rows + (size_t)at * h->Dp;
        }
    }
    return values;
}

/* Asks for the keys and values of a block that is wanted soon.  In decoding all of them come from
 * memory, once, and waiting for them is what attention takes its time for. */
static void block_prefetch(const struct heads *h, const struct unit *u, int start, int n)
{
    const struct mot_kv *caches[2] = {&u->segment->prefix, &u->segment->own};
    const int split = keys_in_prefix(u->segment, start, n), counts[2] = {split, n - split};
    for (int i = 0, at = 0; i < 2; at += counts[i++]) {
        for (int which = OF_KEY; which <= OF_VALUE && counts[i] > 0; which++) {
            const float *row = kv_row(h, caches[i]->data, caches[i], which, u->head, start + at);
            for (int j = 0; j < counts[i] * h->D; j += 16) { __builtin_prefetch(row + j, 0, 2); }
        }
    }
}

/* Scales and masks the scores of a query that sees `seen` keys of the block (may be <= 0), replaces
 * them by p and takes them into max and sum; returns the factor c of what was gathered before. */
static float softmax_step(float *score, int seen, float scale, float *max, float *sum)
{
    v16 s[4], top = v16_all(-INFINITY);
    for (int v = 0; v < 4; v++) {
        s[v] = v16_load(score + 16 * v) * v16_all(scale);
        if (seen < 16 * v + 16) { s[v] = v16_keep_n(s[v], seen - 16 * v, -INFINITY); }
        top = v16_larger(s[v], top);
    }
    const float block_max = v16_max(top), old = *max, new = block_max > old ? block_max : old;
    for (int v = 0; v < 4; v++) {
        s[v] = v16_exp(s[v] - v16_all(new));
        v16_store(score + 16 * v, s[v]);
    }
    const float factor = new == old ? 1.0f : mot_exp(old - new);
    *max = new;
    *sum = *sum * factor + v16_sum((s[0] + s[1]) + (s[2] + s[3]));
    return factor;
}

/* Queries first .. first + R - 1 of the unit meet the block of n keys at position start. */
static void tile_step(const struct heads *h, const struct unit *u, const float *qkv, int first,
                      int R, int start, int n, const struct values *values, const struct scratch *s)
{
    const float *q[MOT_TILE];
    float *mix[MOT_TILE];
    float score[MOT_TILE][MOT_KEYS] __attribute__((aligned(64)));
    int last = 0;
    for (int r = 0; r < R; r++) {
        const int row = u->first + (first + r) / h->G, head = u->head * h->G + (first + r) % h->G;
        q[r] = qkv + (size_t)(u->segment->first + row) * h->S + (size_t)head * h->D;
        mix[r] = s->mix + (size_t)(first + r) * h->Dp;
    }
    tile_scores(R, h->D, q, s->columns, score);
    for (int r = 0; r < R; r++) {
        const int row = u->first + (first + r) / h->G;
        const int seen = mot_min(u->segment->position + row - start + 1, n);
        const float factor =
            softmax_step(score[r], seen, h->scale, s->max + first + r, s->sum + first + r);
        if (factor != 1.0f) {
            for (int d = 0; d < h->Dp; d += 16) {
                v16_store(mix[r] + d, v16_load(mix[r] + d) * v16_all(factor));
            }
        }
        last = seen > last ? seen : last;
    }
    for (int i = 0, at = 0; i < 2 && at < last; at += values->n[i++]) {
        const int keys = mot_min(values->n[i], last - at);
        tile_mix(R, keys, (float(*)[MOT_KEYS])(&score[0][0] + at), values->rows[i], h->Dp, mix);
    }
}

/* Positions seen by the last row. */
static int unit_end(const struct unit *u)
{
    return u->segment->position + u->first + u->rows;
}

/* next: the unit that this thread takes up then, or NULL. */
static void unit_run(const struct heads *h, const struct unit *u, const struct unit *next,
                     const float *qkv, float *out, float *lse, const struct scratch *s)
{
    const int queries = u->rows * h->G, end = unit_end(u);
    for (int i = 0; i < queries; i++) {
        s->max[i] = -INFINITY;
        s->sum[i] = 0.0f;
    }
    memset(s->mix, 0, (size_t)queries * h->Dp * sizeof(float));
    for (int start = 0; start < end; start += MOT_KEYS) {
        const int n = mot_min(MOT_KEYS, end - start);
        const struct values values = block_load(h, u, start, n, s);
        if (start + MOT_KEYS < end) {
            block_prefetch(h, u, start + MOT_KEYS, mot_min(MOT_KEYS, end - start - MOT_KEYS));
        } else if (next) {
            block_prefetch(h, next, 0, mot_min(MOT_KEYS, unit_end(next)));
        }
        /* The first row whose position reaches the block. */
        int row = start - u->segment->position - u->first;
        row = row < 0 ? 0 : row;
        for (int i = row * h->G; i < queries; i += MOT_TILE) {
            tile_step(h, u, qkv, i, mot_min(MOT_TILE, queries - i), start, n, &values, s);
        }
    }
    for (int i = 0; i < queries; i++) {
        const size_t row = (size_t)(u->segment->first + u->first + i / h->G);
        const size_t head = (size_t)(u->head * h->G + i % h->G);
        float *to = out + (row * (size_t)h->H + head) * (size_t)h->D;
        const float inverse = 1.0f / s->sum[i];
        for (int d = 0; d < h->D; d++) { to[d] = s->mix[(size_t)i * h->Dp + d] * inverse; }
        if (lse) { lse[row * (size_t)h->H + head] = s->max[i] + mot_log(s->sum[i]); }
    }
}

/* Keys and values of a segment's rows go to its own cache. */
static void store_rows(const struct heads *h, const struct mot_segment *segment, const float *qkv)
{
    const struct mot_kv *own = &segment->own;
    for (int i = 0; i < segment->count; i++) {
        const float *key = qkv + (size_t)(segment->first + i) * h->S + (size_t)h->H * h->D;
        for (int head = 0; head < h->K; head++) {
            for (int which = OF_KEY; which <= OF_VALUE; which++) {
                memcpy(kv_row(h, own->data, own, which, head, segment->position + i),
                       key + (size_t)(which * h->K + head) * h->D, (size_t)h->D * sizeof(float));
            }
        }
    }
}

static int units_fill(const struct heads *h, const struct mot_segment *segments, int n_segments,
                      struct unit *units)
{
    int n = 0;
    for (int s = 0; s < n_segments; s++) {
        for (int first = 0; first < segments[s].count; first += UNIT_ROWS) {
            const int rows = mot_min(UNIT_ROWS, segments[s].count - first);
            for (int head = 0; head < h->K; head++, n++) {
                if (units) { units[n] = (struct unit){&segments[s], head, first, rows}; }
            }
        }
    }
    return n;
}

void mot_cpu_attention(struct mot_exec *e, const struct mot_model_shape *shape, int layer,
                       const struct mot_segment *segments, int n_segments, const float *qkv,
                       float *out, float *lse)
{
    const struct heads h = heads_of(shape, layer);
    const size_t mark = mot_arena_mark(e->arena);
    size_t work = 0;
    for (int s = 0; s < n_segments; s++) {
        const struct mot_segment *g = &segments[s];
        const int end = g->position + g->count;
        MOT_ASSERT(g->position >= g->own.first_position);
        MOT_ASSERT(end - g->own.first_position <= g->own.capacity);
        work += (size_t)g->count * (size_t)end * (size_t)(h.H * h.D);
    }
    const int worth = work > MOT_WORTH_A_TEAM, team = mot_team_size();
    const int n = units_fill(&h, segments, n_segments, NULL);
    struct unit *units = mot_arena_take(e->arena, (size_t)n * sizeof(*units));
    struct scratch *scratch = mot_arena_take(e->arena, (size_t)team * sizeof(*scratch));
    for (int i = 0; i < team; i++) { scratch[i] = scratch_take(e->arena, &h); }
    units_fill(&h, segments, n_segments, units);

    MOT_PARALLEL_FOR(worth)
    for (int s = 0; s < n_segments; s++) { store_rows(&h, &segments[s], qkv); }
    const int run = n / (RUNS_PER_THREAD * team) > 1 ? n / (RUNS_PER_THREAD * team) : 1;
    MOT_PARALLEL_TASKS(worth)
    for (int first = 0; first < n; first += run) {
        const int end = mot_min(first + run, n);
        for (int i = first; i < end; i++) {
            const struct unit *next = i + 1 < end ? &units[i + 1] : NULL;
            unit_run(&h, &units[i], next, qkv, out, lse, &scratch[mot_team_rank()]);
        }
    }
    mot_arena_reset(e->arena, mark);
}
