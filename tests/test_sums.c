/* The demo's sums: no held-out sum, in either order, is trained on; nothing is lost or doubled;
 * every answer is right and every id stands; the seed alone decides the split; the rows written as
 * JSON lines read back as the same data set; ranges and shares that make no sense are messages. */
#include "error.h"
#include "sums.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LOW = 10, HIGH = 99, EOS = 258 };

static struct mot_tokenizer *tokenizer;

static void create(int low, int high, double share, uint64_t seed, struct mot_dataset *train,
                   struct mot_dataset *held_out)
{
    const struct mot_sums sums = {low, high, share, seed};
    assert_int_equal(mot_sums_create(&sums, tokenizer, train, held_out), 0);
}

/* The operands of a row; its text, answer, ids and columns are checked on the way. */
static void read_row(const struct mot_example *example, int *a, int *b)
{
    char text[32], answer[16];
    assert_int_equal(sscanf(example->prompt_text, "%d+%d=", a, b), 2);
    snprintf(text, sizeof(text), "%d+%d=", *a, *b);
    snprintf(answer, sizeof(answer), "%d", *a + *b);
    assert_string_equal(example->prompt_text, text);
    assert_string_equal(example->answer, answer);
    const json_t *prompt = json_object_get(example->columns, "prompt");
    assert_string_equal(json_string_value(prompt), text);

    const struct mot_ids *ids = &example->prompt;
    assert_int_equal(ids->n, strlen(text));
    for (size_t i = 0; i < ids->n; i++) { assert_int_equal(ids->id[i], text[i]); }
    ids = &example->completion;
    assert_int_equal(ids->n, strlen(answer) + 1);
    for (size_t i = 0; i + 1 < ids->n; i++) { assert_int_equal(ids->id[i], answer[i]); }
    assert_int_equal(ids->id[ids->n - 1], EOS);
}

/* Marks each sum of the data set in seen; none may be marked before. */
static void mark(const struct mot_dataset *dataset, int part, int seen[HIGH + 1][HIGH + 1])
{
    for (int i = 0; i < dataset->n; i++) {
        int a, b;
        read_row(&dataset->examples[i], &a, &b);
        assert_in_range(a, LOW, HIGH);
        assert_in_range(b, LOW, HIGH);
        assert_int_equal(seen[a][b], 0);
        seen[a][b] = part;
    }
}

static void test_split(void **state)
{
    (void)state;
    enum { TRAIN = 1, HELD_OUT = 2 };
    static int seen[HIGH + 1][HIGH + 1];
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct mot_dataset train, held_out;
        create(LOW, HIGH, 0.1, seed, &train, &held_out);
        memset(seen, 0, sizeof(seen));
        mark(&train, TRAIN, seen);
        mark(&held_out, HELD_OUT, seen);
        assert_int_equal(train.n + held_out.n, 90 * 90);
        assert_in_range(held_out.n, 700, 2 * 410); /* 410 of 4095 pairs, most of them two rows */
        for (int a = LOW; a <= HIGH; a++) {
            for (int b = LOW; b <= HIGH; b++) { assert_int_equal(seen[a][b], seen[b][a]); }
        }
        mot_dataset_destroy(&train);
        mot_dataset_destroy(&held_out);
    }
}

static int equal(const struct mot_dataset *x, const struct mot_dataset *y)
{
    int result = x->n == y->n;
    for (int i = 0; result && i < x->n; i++) {
        const struct mot_example *a = &x->examples[i], *b = &y->examples[i];
        result = strcmp(a->prompt_text, b->prompt_text) == 0 && strcmp(a->answer, b->answer) == 0
                 && a->prompt.n == b->prompt.n && a->completion.n == b->completion.n
                 && json_equal((json_t *)a->columns, (json_t *)b->columns);
    }
    return result;
}

static void test_seed(void **state)
{
    (void)state;
    struct mot_dataset train[3], held_out[3];
    for (int i = 0; i < 3; i++) { create(LOW, HIGH, 0.1, 7 + i / 2, &train[i], &held_out[i]); }
    assert_true(equal(&train[0], &train[1]));
    assert_true(equal(&held_out[0], &held_out[1]));
    assert_false(equal(&held_out[0], &held_out[2]));
    for (int i = 0; i < 3; i++) {
        mot_dataset_destroy(&train[i]);
        mot_dataset_destroy(&held_out[i]);
    }
}

static void test_written(void **state)
{
    (void)state;
    struct mot_dataset train, held_out, back;
    create(0, 9, 0.3, 1, &train, &held_out);
    char path[] = MOT_BINARY_DIR "/sums-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(mot_sums_write(&train, path), 0);
    const struct mot_chat_template *chat;
    assert_int_equal(mot_chat_template_find("none", &chat), 0);
    const struct mot_dataset_options options = {
        .tokenizer = tokenizer, .chat = chat, .with_completion = 1, .max_tokens = 64};
    assert_int_equal(mot_dataset_load(path, &options, &back), 0);
    unlink(path);
    assert_true(equal(&train, &back));
    mot_dataset_destroy(&train);
    mot_dataset_destroy(&held_out);
    mot_dataset_destroy(&back);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct mot_sums bad[] = {
        {-1, 9, 0.1, 0}, {9, 8, 0.1, 0},   {0, 1000, 0.1, 0}, {0, 2000000000, 0.1, 0},
        {0, 9, 0.0, 0},  {0, 9, 1.0, 0},   {0, 9, -1.0, 0},   {0, 9, 0.0 / 0.0, 0},
        {0, 0, 0.1, 0},  {0, 9, 0.001, 0}, {0, 9, 0.999, 0}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct mot_dataset train, held_out;
        assert_int_equal(mot_sums_create(&bad[i], tokenizer, &train, &held_out), -EINVAL);
    }
    const struct mot_dataset empty = {0};
    assert_int_equal(mot_sums_write(&empty, "/nowhere/sums.jsonl"), -ENOENT);
    assert_int_equal(mot_sums_write(&empty, "/"), -EISDIR);
}

int main(void)
{
    tokenizer = mot_tokenizer_bytes();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_refused),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mot_tokenizer_destroy(tokenizer);
    return failed;
}
