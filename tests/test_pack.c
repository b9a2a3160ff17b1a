/* What a pack promises: each prompt once, each answer after its own prompt, targets in answer
 * order, every target predicted by the row before it, and the last token of an answer not
 * forwarded; bound segments read their own prompt's keys.  Expected rows are written out by
 * hand. */
#include "arena.h"
#include "pack.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const int32_t prompt_a[] = {10, 11, 12}, prompt_b[] = {20};
static const int32_t answer_0[] = {1, 2, 3}, answer_1[] = {4}, answer_2[] = {5, 6};
static const float old_0[] = {-0.1f, -0.2f, -0.3f};

/* Answers of prompt b and a mixed: rows follow the prompts, targets the answers. */
static struct mot_pack *make(void)
{
    const struct mot_pack_prompt prompts[] = {{3, prompt_a}, {1, prompt_b}};
    const struct mot_pack_answer answers[] = {
        {.prompt = 1, .n = 3, .ids = answer_0, .old = old_0, .weight = 0.5f},
        {.prompt = 0, .n = 1, .ids = answer_1, .weight = 0.0f},
        {.prompt = 0, .n = 2, .ids = answer_2, .weight = 2.0f, .advantage_index = 7},
    };
    return mot_pack_create(prompts, 2, answers, 3);
}

static void test_rows(void **state)
{
    (void)state;
    struct mot_pack *pack = make();
    const int32_t ids[] = {10, 11, 12, 5, 20, 1, 2}, position[] = {0, 1, 2, 3, 0, 1, 2};
    assert_int_equal(pack->T, 7);
    assert_int_equal(pack->prompt_tokens, 4);
    assert_int_equal(pack->n_segments, 4); /* the answer of one token has no rows */
    assert_memory_equal(pack->ids, ids, sizeof(ids));
    assert_memory_equal(pack->position, position, sizeof(position));
    const int first[] = {0, 3, 4, 5}, count[] = {3, 1, 1, 2}, prefix[] = {-1, 0, -1, 2};
    for (int s = 0; s < 4; s++) {
        assert_int_equal(pack->segments[s].first, first[s]);
        assert_int_equal(pack->segments[s].count, count[s]);
        assert_int_equal(pack->segments[s].position, position[first[s]]);
        assert_int_equal(pack->prefix_of[s], prefix[s]);
    }
    mot_pack_destroy(pack);
}

static void test_targets(void **state)
{
    (void)state;
    struct mot_pack *pack = make();
    const int32_t row[] = {4, 5, 6, 2, 2, 3}, target[] = {1, 2, 3, 4, 5, 6};
    const int answer_of[] = {0, 0, 0, 1, 2, 2};
    const float old[] = {-0.1f, -0.2f, -0.3f, 0, 0, 0}, weight[] = {0.5f, 0.5f, 0.5f, 0, 2, 2};
    assert_int_equal(pack->n_targets, 6);
    assert_memory_equal(pack->row, row, sizeof(row));
    assert_memory_equal(pack->target, target, sizeof(target));
    assert_memory_equal(pack->answer_of, answer_of, sizeof(answer_of));
    assert_memory_equal(pack->old, old, sizeof(old));
    assert_memory_equal(pack->weight, weight, sizeof(weight));
    assert_int_equal(pack->answers[2].advantage_index, 7);
    assert_null(pack->answers[0].ids);
    mot_pack_destroy(pack);
}

static void test_bind(void **state)
{
    (void)state;
    const struct mot_model_shape shape = {
        .n_layers = 2,
        .hidden_size = 16,
        .intermediate_size = 32,
        .n_heads = 2,
        .n_kv_heads = 1,
        .head_dim = 8,
        .vocab_size = 32,
        .max_position = 16,
    };
    struct mot_pack *pack = make();
    struct mot_arena *arena = mot_arena_create();
    struct mot_segment *s = mot_pack_bind(pack, &shape, arena);
    assert_null(s[0].prefix.data);
    assert_ptr_equal(s[1].prefix.data, s[0].own.data);
    assert_int_equal(s[1].prefix.capacity, 3);
    assert_int_equal(s[1].own.first_position, 3);
    assert_ptr_equal(s[3].prefix.data, s[2].own.data);
    for (int i = 0; i < 4; i++) { /* each cache is memory of its own, whole */
        memset(s[i].own.data, i, mot_kv_bytes(&shape, s[i].own.capacity));
    }
    for (int i = 0; i < 4; i++) { assert_int_equal(((char *)s[i].own.data)[0], i); }
    assert_null(pack->segments[0].own.data);

    double flop = pack->n_targets * mot_head_flop_per_token(&shape);
    const double keys[] = {1, 2, 3, 4, 1, 2, 3};
    for (int t = 0; t < 7; t++) { flop += mot_layer_flop_per_token(&shape, keys[t]); }
    assert_true(mot_pack_forward_flop(pack, &shape) == flop);
    mot_arena_destroy(arena);
    mot_pack_destroy(pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_bind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
