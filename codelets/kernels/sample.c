/* Drawing ids from rows of logits; see kernels.h.
 *
 * Order and meaning of the cuts are those of transformers' logits warpers, which TRL uses:
 * temperature; top_k keeps the k largest and what equals the last of them; top_p keeps an id while
 * the mass of the ids before it, of what top_k kept, is below top_p; min_p keeps an id whose
 * probability is at least min_p times the largest.  The largest is always kept.
 *
 * Nothing cut off: the block sums of the softmax are walked first, then one block.  Something cut
 * off: a heap hands out ids by falling probability, no more of them than are kept. */
#include "cpu_kernels.h"
#include "fast_math.h"
#include "parallel.h"
#include "softmax_row.h"
#include <math.h>

struct candidate {
    float weight; /* exp(z) */
    int32_t id;
};

/* One thread's working memory. */
struct scratch {
    float *block_sums;      /* (blocks) */
    struct candidate *heap; /* (V) */
    struct candidate *kept; /* (V) */
};

static int argmax(int V, const float *x)
{
    int best = 0;
    for (int i = 1; i < V; i++) {
        if (x[i] > x[best]) { best = i; }
    }
    return best;
}

static inline int comes_before(struct candidate a, struct candidate b)
{
    return a.weight > b.weight || (a.weight == b.weight && a.id < b.id);
}

static void sift_down(struct candidate *heap, int n, int at)
{
    const struct candidate item = heap[at];
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && comes_before(heap[child + 1], heap[child])) { child++; }
        if (comes_before(item, heap[child])) { break; }
        heap[at] = heap[child];
    }
    heap[at] = item;
}

static struct candidate pop(struct candidate *heap, int *n)
{
    const struct candidate top = heap[0];
    heap[0] = heap[--*n];
    if (*n > 0) { sift_down(heap, *n, 0); }
    return top;
}

/* All ids of positive probability, as a heap; their number. */
static int heap_fill(struct candidate *heap, int V, const float *logits,
                     const struct mot_softmax_row *row)
{
    int n = 0;
    for (int i = 0; i < V; i += 16) {
        const int left = mot_min(16, V - i);
        const v16 z =
            (v16_load_n(logits + i, left) - v16_all(row->max)) * v16_all(row->inv_temperature);
        const v16 p = v16_exp(z);
        for (int l = 0; l < left; l++) {
            heap[n] = (struct candidate){p[l], i + l};
            n += p[l] > 0.0f;
        }
    }
    for (int i = n / 2 - 1; i >= 0; i--) { sift_down(heap, n, i); }
    return n;
}

/* Fills s->kept by falling probability; returns how many, and their summed weight. */
static int keep(const struct scratch *s, int V, const float *logits,
                const struct mot_softmax_row *row, const struct mot_sampling *o, double *mass)
{
    int heaped = heap_fill(s->heap, V, logits, row), ready = 0, kept = 0;
    double total = row->sum, before = 0.0;
    if (o->top_k > 0 && o->top_k < heaped) {
        total = 0.0;
        while (heaped > 0 && (ready < o->top_k || s->heap[0].weight == s->kept[ready - 1].weight)) {
            s->kept[ready] = pop(s->heap, &heaped);
            total += (double)s->kept[ready++].weight;
        }
        heaped = 0;
    }
    const float floor = o->min_p > 0.0f ? o->min_p : 0.0f; /* the largest weight is 1 */
    while (kept < ready || heaped > 0) {
        const float next = kept < ready ? s->kept[kept].weight : s->heap[0].weight;
        if (kept > 0 && o->top_p < 1.0f && before >= (double)o->top_p * total) { break; }
        if (kept > 0 && next < floor) { break; }
        if (kept >= ready) { s->kept[kept] = pop(s->heap, &heaped); }
        before += (double)next;
        kept++;
    }
    *mass = before;
    return kept;
}

static int32_t draw_kept(const struct candidate *kept, int n, double mass, float uniform)
{
    const double aim = (double)uniform * mass;
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        sum += (double)kept[i].weight;
        if (sum > aim) { return kept[i].id; }
    }
    return kept[n - 1].id;
}

/* From all ids in id order: first the block, then the id in it. */
static int32_t draw_any(const float *block_sums, int V, const float *logits,
                        const struct mot_softmax_row *row, float uniform)
{
    const int blocks = MOT_CEIL_DIV(V, MOT_SOFTMAX_BLOCK);
    const double aim = (double)uniform * row->sum;
    double sum = 0.0;
    int b = 0, last = 0;
    for (; b < blocks; b++) {
        if (block_sums[b] > 0.0f) { last = b; }
        if (sum + (double)block_sums[b] > aim) { break; }
        sum += (double)block_sums[b];
    }
    if (b == blocks) { /* rounding left nothing above aim */
        b = last;
        sum -= (double)block_sums[b];
    }
    const int start = b * MOT_SOFTMAX_BLOCK, end = mot_min(V, start + MOT_SOFTMAX_BLOCK);
    int32_t id = argmax(end - start, logits + start) + start;
    for (int i = start; i < end; i += 16) {
        const int left = mot_min(16, end - i);
        const v16 p = v16_exp((v16_load_n(logits + i, left) - v16_all(row->max))
                              * v16_all(row->inv_temperature));
        for (int l = 0; l < left; l++) {
            if (!(p[l] > 0.0f)) { continue; }
            id = i + l;
            sum += (double)p[l];
            if (sum > aim) { return id; }
        }
    }
    return id;
}

static int cuts_nothing(const struct mot_sampling *o, int V)
{
    return (o->top_k <= 0 || o->top_k >= V) && o->top_p >= 1.0f && o->min_p <= 0.0f;
}

static struct mot_sampled sample_row(const struct scratch *s, int V, const float *logits,
                                     const struct mot_sampling *o, float uniform)
{
    const float inv_temperature = o->temperature > 0.0f ? 1.0f / o->temperature : 1.0f;
    const struct mot_softmax_row row =
        mot_softmax_row_read(V, logits, inv_temperature, 1, s->block_sums);
    struct mot_sampled result = {.id = argmax(V, logits), .entropy = mot_softmax_row_entropy(&row)};
    float kept_log_sum = row.log_sum;
    if (!(row.sum > 0.0 && isfinite(row.sum))) {
        kept_log_sum = NAN; /* a NaN or infinite logit: the log-probs say so */
    } else if (o->temperature > 0.0f && cuts_nothing(o, V)) {
        result.id = draw_any(s->block_sums, V, logits, &row, uniform);
    } else if (o->temperature > 0.0f) {
        double mass;
        const int kept = keep(s, V, logits, &row, o, &mass);
        result.id = draw_kept(s->kept, kept, mass, uniform);
        kept_log_sum = mot_log((float)mass);
    }
    const float logit = logits[result.id];
    result.logprob = mot_softmax_row_logprob(&row, logit);
    result.logprob_kept = (logit - row.max) * inv_temperature - kept_log_sum;
    return result;
}

void mot_cpu_sample(struct mot_exec *e, int R, int V, const float *logits,
                    const struct mot_sampling *sampling, const float *uniform,
                    struct mot_sampled *out)
{
    const size_t mark = mot_arena_mark(e->arena);
    const int team = mot_team_size();
    const int lists = sampling->temperature > 0.0f && !cuts_nothing(sampling, V);
    struct scratch *scratch = mot_arena_take(e->arena, (size_t)team * sizeof(*scratch));
    for (int i = 0; i < team; i++) {
        const size_t blocks = MOT_CEIL_DIV(V, MOT_SOFTMAX_BLOCK);
        scratch[i].block_sums = mot_arena_take(e->arena, blocks * sizeof(float));
        if (!lists) { continue; }
        scratch[i].heap = mot_arena_take(e->arena, (size_t)V * sizeof(struct candidate));
        scratch[i].kept = mot_arena_take(e->arena, (size_t)V * sizeof(struct candidate));
    }
    MOT_PARALLEL_TASKS((size_t)R * V > MOT_WORTH_A_TEAM / 4)
    for (int r = 0; r < R; r++) {
        out[r] =
            sample_row(&scratch[mot_team_rank()], V, logits + (size_t)r * V, sampling, uniform[r]);
    }
    mot_arena_reset(e->arena, mark);
}
