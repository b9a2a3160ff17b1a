/* Equal tokens give equal bits on the CPU, however they are computed:
 *   the sampler's way (prompt prefilled once, then all answers one token at a time with its keys as
 *   prefix) and in chunks, the trainer's packed forward with a shared prompt, and each sequence
 *   whole and alone; with and without kept activations; with 1 and 2 threads
 *   peers row 25: a row alone, and packed behind 1, 7 and 67 rows of another sequence
 *   peers row 28: log-probs at batch 1, 2, 8
 * Compared with memcmp, on three kinds of model, and one whose MLP is as wide as
 * Qwen2-0.5B's, with random weights. */
#include "network.h"
#include "shapes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#ifdef _OPENMP
#    include <omp.h>
#endif

enum { PROMPT = 83, ANSWERS = 8, LONGEST = 26, ALL = PROMPT + LONGEST };

/* One prompt and its answers; their log-probs, computed in some way. */
struct group {
    struct network net;
    int32_t prompt[PROMPT], answer[ANSWERS][LONGEST];
    int length[ANSWERS];
    float want[ANSWERS][LONGEST]; /* each sequence whole and alone */
};

static void fill_ids(int32_t *ids, int n, int vocabulary, uint32_t stream)
{
    for (int i = 0; i < n; i++) {
        ids[i] =
            (int32_t)mot_uniform_int(3, MOT_RNG_TEST, stream, (uint32_t)i, 0, (uint32_t)vocabulary);
    }
}

/* Log-probs of n targets under rows first .. of hidden. */
static void logprobs(struct group *g, const float *hidden, int first, int n, const int32_t *target,
                     float *out)
{
    int32_t row[ALL];
    for (int i = 0; i < n; i++) { row[i] = first + i; }
    const struct mot_head_targets targets = {n, row, target, 1.25f, 16};
    mot_head_logprob(&g->net.e, &g->net.t, network_weights(&g->net), hidden, &targets, out, NULL);
}

/* Answer a, whole sequence in one segment behind `offset` rows of another. */
static void alone(struct group *g, int a, int offset, float *out)
{
    int32_t ids[ALL], other[ALL];
    memcpy(ids, g->prompt, sizeof(g->prompt));
    memcpy(ids + PROMPT, g->answer[a], sizeof(int32_t) * (size_t)g->length[a]);
    fill_ids(other, offset, g->net.t.layout.shape.vocab_size, 77);
    const struct run runs[2] = {{.ids = other, .n = offset},
                                {.ids = ids, .n = PROMPT + g->length[a]}};
    const size_t mark = mot_arena_mark(g->net.e.arena);
    const int skip = offset == 0;
    const struct mot_batch batch = network_batch(&g->net, runs + skip, 2 - skip);
    const float *hidden = network_forward(&g->net, &batch, NULL);
    logprobs(g, hidden, offset + PROMPT - 1, g->length[a], g->answer[a], out);
    mot_arena_reset(g->net.e.arena, mark);
}

static void create(struct group *g, int shape)
{
    g->net = network_create(&shapes[shape].shape, NULL, (uint64_t)shape + 1);
    fill_ids(g->prompt, PROMPT, g->net.t.layout.shape.vocab_size, 1000);
    for (int a = 0; a < ANSWERS; a++) {
        g->length[a] = a == 3 ? 1 : LONGEST - 3 * a;
        fill_ids(g->answer[a], LONGEST, g->net.t.layout.shape.vocab_size, (uint32_t)a);
        alone(g, a, 0, g->want[a]);
    }
}

static void same(const struct group *g, int a, const float *got, const char *how)
{
    for (int i = 0; i < g->length[a]; i++) {
        if (memcmp(&got[i], &g->want[a][i], sizeof(float)) != 0) {
            fail_msg("%s: answer %d token %d: %.9g, alone %.9g", how, a, i, got[i], g->want[a][i]);
        }
    }
}

/* The sampler: prefill, then at most `chunk` tokens of each of the first n answers a forward. */
static void check_decode(struct group *g, int n, int chunk)
{
    struct network *net = &g->net;
    const size_t C = (size_t)net->t.layout.shape.hidden_size;
    float got[ANSWERS][LONGEST];
    const size_t mark = mot_arena_mark(net->e.arena);
    const struct mot_kv prompt = network_kv(net, 0, PROMPT + 3); /* a cache may have room left */
    struct mot_kv own[ANSWERS];
    for (int a = 0; a < n; a++) { own[a] = network_kv(net, PROMPT, LONGEST); }
    const struct run prefill = {g->prompt, PROMPT, 0, {0}, prompt};
    struct mot_batch batch = network_batch(net, &prefill, 1);
    const float *hidden = network_forward(net, &batch, NULL);
    for (int a = 0; a < n; a++) { logprobs(g, hidden, PROMPT - 1, 1, g->answer[a], got[a]); }

    for (int at = 0; at < LONGEST; at += chunk) {
        const size_t step = mot_arena_mark(net->e.arena);
        struct run runs[ANSWERS];
        int rows[ANSWERS], live[ANSWERS], k = 0, T = 0;
        for (int a = 0; a < n; a++) { /* an answer's last token is not forwarded */
            const int left = g->length[a] - 1 - at, count = left < chunk ? left : chunk;
            if (count <= 0) { continue; }
            runs[k] = (struct run){g->answer[a] + at, count, PROMPT + at, prompt, own[a]};
            rows[k] = T;
            T += count;
            live[k++] = a;
        }
        if (k > 0) {
            batch = network_batch(net, runs, k);
            hidden = network_forward(net, &batch, NULL);
        }
        for (int i = 0; i < k; i++) {
            logprobs(g, hidden + (size_t)rows[i] * C, 0, runs[i].n, g->answer[live[i]] + at + 1,
                     got[live[i]] + at + 1);
        }
        mot_arena_reset(net->e.arena, step);
    }
    mot_arena_reset(net->e.arena, mark);
    char how[64];
    snprintf(how, sizeof(how), "decode, batch %d, chunk %d", n, chunk);
    for (int a = 0; a < n; a++) { same(g, a, got[a], how); }
}

/* The trainer: the prompt once, then its answers; all activations kept or none. */
static void check_shared_prompt(struct group *g, int n, int keep)
{
    struct network *net = &g->net;
    const size_t mark = mot_arena_mark(net->e.arena);
    const struct mot_kv prompt = network_kv(net, 0, PROMPT);
    struct run runs[1 + ANSWERS] = {{g->prompt, PROMPT, 0, {0}, prompt}};
    int k = 1;
    for (int a = 0; a < n; a++) {
        if (g->length[a] < 2) { continue; }
        runs[k++] = (struct run){g->answer[a], g->length[a] - 1, PROMPT, prompt, {0}};
    }
    const struct mot_batch batch = network_batch(net, runs, k);
    struct mot_activations *kept;
    const float *hidden = network_forward(net, &batch, keep ? &kept : NULL);
    int row = PROMPT;
    for (int a = 0; a < n; a++) {
        float got[LONGEST];
        logprobs(g, hidden, PROMPT - 1, 1, g->answer[a], got);
        logprobs(g, hidden, row, g->length[a] - 1, g->answer[a] + 1, got + 1);
        row += g->length[a] - 1;
        same(g, a, got, keep ? "shared prompt, activations kept" : "shared prompt");
    }
    mot_arena_reset(net->e.arena, mark);
}

static void check_shape(void **state)
{
    const int shape = *(const int *)*state;
    static struct group g;
    create(&g, shape);
    static const int offsets[] = {1, 7, 67};
    for (int a = 0; a < ANSWERS; a += 3) {
        for (int k = 0; k < 3; k++) {
            float got[LONGEST];
            alone(&g, a, offsets[k], got);
            same(&g, a, got, "behind other rows");
        }
    }
    static const int batches[] = {1, 2, ANSWERS}, chunks[] = {1, 4, 64};
    for (int k = 0; k < 3; k++) {
        check_shared_prompt(&g, batches[k], 0);
        check_shared_prompt(&g, batches[k], 1);
        check_decode(&g, batches[k], 1);
        check_decode(&g, ANSWERS, chunks[k]);
    }
#ifdef _OPENMP
    const int threads = omp_get_max_threads();
    for (int n = 1; n <= 2; n++) {
        omp_set_num_threads(n);
        check_shared_prompt(&g, ANSWERS, 1);
        check_decode(&g, ANSWERS, 1);
    }
    omp_set_num_threads(threads);
#endif
    network_destroy(&g.net);
}

/* What the sampler reports of an id is what the trainer computes for it. */
static void test_sampled_logprob(void **state)
{
    (void)state;
    static struct group g;
    create(&g, 0);
    struct network *net = &g.net;
    const struct run run = {.ids = g.prompt, .n = PROMPT};
    const struct mot_batch batch = network_batch(net, &run, 1);
    const float *hidden = network_forward(net, &batch, NULL);
    const struct mot_sampling sampling = {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f};
    struct mot_sampled sampled[PROMPT];
    float uniform[PROMPT], logprob[PROMPT], entropy[PROMPT];
    int32_t row[PROMPT], id[PROMPT];
    for (int i = 0; i < PROMPT; i++) {
        uniform[i] = mot_uniform(9, MOT_RNG_TEST, (uint32_t)i, 0, 0);
    }
    mot_head_sample(&net->e, &net->t, network_weights(net), NULL, hidden, PROMPT, &sampling,
                    uniform, sampled);
    for (int i = 0; i < PROMPT; i++) {
        row[i] = i;
        id[i] = sampled[i].id;
        assert_true(id[i] >= 0 && id[i] < net->t.layout.shape.vocab_size);
    }
    const struct mot_head_targets targets = {PROMPT, row, id, 1.0f / sampling.temperature, 9};
    mot_head_logprob(&net->e, &net->t, network_weights(net), hidden, &targets, logprob, entropy);
    for (int i = 0; i < PROMPT; i++) {
        assert_memory_equal(&logprob[i], &sampled[i].logprob, sizeof(float));
        assert_memory_equal(&entropy[i], &sampled[i].entropy, sizeof(float));
    }
    network_destroy(net);
}

int main(void)
{
    static int index[SHAPES] = {0, 1, 2, 3};
    const struct CMUnitTest tests[] = {
        {shapes[0].name, check_shape, NULL, NULL, &index[0]},
        {shapes[1].name, check_shape, NULL, NULL, &index[1]},
        {shapes[2].name, check_shape, NULL, NULL, &index[2]},
        {shapes[3].name, check_shape, NULL, NULL, &index[3]},
        cmocka_unit_test(test_sampled_logprob),
    };
    return cmocka_run_group_tests_name("transformer_bits", tests, NULL, NULL);
}
