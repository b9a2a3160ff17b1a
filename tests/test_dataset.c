/* Data sets of JSON lines: every form of row to prompt, completion and answer; one BOS or none
 * (peers row 23); each kind of bad row is one message with file and line; the training order is
 * a permutation in each epoch and depends on seed and position alone.
 * Run: test_dataset (needs no data). */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataset.h"
#include "error.h"
#include "file.h"

static char path[] = "/tmp/motley-test-XXXXXX";
static struct mot_tokenizer *tokenizer;

static struct mot_dataset_options options_for(const char *chat)
{
    struct mot_dataset_options options = {.tokenizer = tokenizer};
    assert_int_equal(mot_chat_template_find(chat, &options.chat), 0);
    return options;
}

static void load(const char *text, const struct mot_dataset_options *options,
                 struct mot_dataset *dataset)
{
    assert_int_equal(mot_file_write(path, text, strlen(text)), 0);
    assert_int_equal(mot_dataset_load(path, options, dataset), 0);
}

/* The ids, decoded, are the text. */
static void decodes(const struct mot_ids *ids, const char *expected)
{
    char *text = mot_tokenizer_decode(tokenizer, ids->id, ids->n, 0, NULL);
    assert_string_equal(text, expected);
    free(text);
}

static void test_prompts(void **state)
{
    (void)state;
    struct mot_dataset_options options = options_for("chatml");
    struct mot_dataset d;
    load("\xef\xbb\xbf{\"question\": \"2+2?\", \"answer\": \"4\"}\n\n  \r\n"
         "{\"prompt\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
         "\"content\": "
         "\"u\"}], \"ground_truth\": 7, \"answer\": \"long\", \"level\": [1]}\r\n"
         "{\"prompt\": \"x\", \"answer\": 0.1}",
         &options, &d);
    assert_int_equal(d.n, 3);
    assert_string_equal(d.path, path);
    assert_string_equal(d.examples[0].prompt_text,
                        "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n");
    decodes(&d.examples[0].prompt, d.examples[0].prompt_text);
    assert_int_equal(d.examples[0].prompt.id[0], 257); /* parsed as the special token */
    assert_int_equal(d.examples[0].completion.n, 0);
    assert_string_equal(d.examples[0].answer, "4");
    assert_string_equal(d.examples[1].answer, "7"); /* ground_truth wins; a number is text */
    assert_true(json_is_integer(json_object_get(d.examples[1].columns, "ground_truth")));
    assert_true(json_is_array(json_object_get(d.examples[1].columns, "level")));
    assert_string_equal(d.examples[2].answer, "0.1");
    mot_dataset_destroy(&d);
    options.system_prompt = "Be short.";
    options.limit = 2;
    load("{\"prompt\": \"a\"}\n{\"prompt\": [{\"role\": \"system\", \"content\": \"s\"}]}\n{bad",
         &options, &d);
    assert_int_equal(d.n, 2);
    assert_null(d.examples[0].answer);
    assert_string_equal(d.examples[0].prompt_text,
                        "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
                        "<|im_start|>assistant\n");
    assert_string_equal(d.examples[1].prompt_text,
                        "<|im_start|>system\ns<|im_end|>\n<|im_start|>assistant\n");
    mot_dataset_destroy(&d);
}

static void test_completions(void **state)
{
    (void)state;
    struct mot_dataset_options options = options_for("chatml");
    options.with_completion = 1;
    struct mot_dataset d;
    load("{\"prompt\": \"a\", \"completion\": \"b\", \"answer\": \"c\"}\n"
         "{\"question\": \"a\", \"answer\": 5}\n"
         "{\"prompt\": \"a\", \"completion\": [{\"role\": \"assistant\", \"content\": \"\\nz\"}]}\n"
         "{\"input_ids\": [1, 2, 258]}",
         &options, &d);
    decodes(&d.examples[0].completion, "b<|im_end|>");
    assert_int_equal(d.examples[0].completion.id[1], 258);
    decodes(&d.examples[1].completion, "5<|im_end|>");
    decodes(&d.examples[2].completion, "\nz<|im_end|>");
    assert_int_equal(d.examples[3].prompt.n, 1);
    assert_int_equal(d.examples[3].prompt.id[0], 1);
    assert_int_equal(d.examples[3].completion.n, 2);
    assert_int_equal(d.examples[3].completion.id[1], 258);
    mot_dataset_destroy(&d);
    options = options_for("none");
    options.with_completion = 1;
    load("{\"prompt\": \"12+\", \"completion\": \"3\"}", &options, &d);
    decodes(&d.examples[0].prompt, "12+");
    decodes(&d.examples[0].completion, "3<|im_end|>"); /* the EOS of this tokenizer */
    mot_dataset_destroy(&d);
    options = options_for("qwen3");
    options.with_completion = 1;
    load("{\"prompt\": \"a\", \"completion\": \"b\"}", &options, &d);
    decodes(&d.examples[0].completion, "<think>\n\n</think>\n\nb<|im_end|>");
    mot_dataset_destroy(&d);
}

/* A tokenizer whose post-processor adds a BOS: once, also where the text begins with one. */
static void test_one_bos(void **state)
{
    (void)state;
    static const char text[] =
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],\"pre_tokenizer\":"
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"post_processor\":{\"type\":"
        "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"
        "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"ids\":[1]}}},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}";
    char folder[] = "/tmp/motley-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *file = mot_format("%s/tokenizer.json", folder);
    char *config = mot_format("%s/tokenizer_config.json", folder);
    assert_int_equal(mot_file_write(file, text, strlen(text)), 0);
    assert_int_equal(mot_file_write(config, "{\"bos_token\":\"<s>\"}", 19), 0);
    struct mot_tokenizer *with_bos = NULL;
    assert_int_equal(mot_tokenizer_load(folder, &with_bos), 0);
    assert_int_equal(mot_tokenizer_bos(with_bos), 1);
    struct mot_dataset_options options = options_for("none");
    options.tokenizer = with_bos;
    struct mot_dataset d;
    load("{\"prompt\": \"a\"}\n{\"prompt\": \"<s>a\"}\n", &options, &d);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(d.examples[i].prompt.n, 2);
        assert_int_equal(d.examples[i].prompt.id[0], 1);
        assert_int_equal(d.examples[i].prompt.id[1], 0);
    }
    mot_dataset_destroy(&d);
    mot_tokenizer_destroy(with_bos);
    mot_remove_tree(folder);
    free(file);
    free(config);
}

static void refuses(const char *text, const struct mot_dataset_options *options, const char *words)
{
    struct mot_dataset d;
    memset(&d, 0x5a, sizeof(d));
    const struct mot_dataset before = d;
    assert_int_equal(mot_file_write(path, text, strlen(text)), 0);
    assert_true(mot_dataset_load(path, options, &d) < 0);
    if (!strstr(mot_last_message(), words)) {
        fail_msg("expected '%s' in '%s'", words, mot_last_message());
    }
    assert_memory_equal(&d, &before, sizeof(d)); /* untouched */
}

static void test_refused(void **state)
{
    (void)state;
    struct mot_dataset_options options = options_for("chatml");
    refuses("", &options, ": no rows");
    refuses("\n \n", &options, ": no rows");
    refuses("{\"prompt\": \"a\"}\n{\"prompt\": ", &options, ":2: not JSON");
    refuses("{\"prompt\": \"a\", \"prompt\": \"b\"}", &options, ":1: not JSON");
    refuses("[1]", &options, ":1: not a JSON object");
    refuses("\n{\"x\": 1}", &options, ":2: \"prompt\" or \"question\" is missing");
    refuses("{\"prompt\": 5}", &options, ":1: \"prompt\" is neither");
    refuses("{\"prompt\": []}", &options, ":1: messages");
    refuses("{\"prompt\": [{\"role\": \"user\"}]}", &options, ":1: messages[0].content");
    refuses("{\"prompt\": \"a\\u0000b\"}", &options, ":1: not JSON");
    options.max_tokens = 20;
    refuses("{\"prompt\": \"123456789012345678901234567890\"}", &options,
            ":1: the prompt has 49 tokens, the limit is 20");
    options.max_tokens = 0;
    options.with_completion = 1;
    refuses("{\"prompt\": \"a\"}", &options, ":1: \"completion\"");
    refuses("{\"prompt\": \"a\", \"completion\": {}}", &options, ":1: \"completion\" is no string");
    refuses("{\"input_ids\": [1]}", &options, ":1: \"input_ids\"");
    refuses("{\"input_ids\": [1, 259]}", &options, ":1: input_ids[1]");
    options.max_tokens = 3;
    refuses("{\"input_ids\": [1, 2, 3, 4]}", &options,
            ":1: prompt and completion have 1 + 3 tokens");
    options = options_for("none");
    refuses("{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}]}", &options,
            "--chat_template");
    refuses("{\"prompt\": \"\"}", &options, ":1: the prompt is empty");
    options.system_prompt = "s";
    refuses("{\"prompt\": \"a\"}", &options, "--chat_template");
    struct mot_dataset d;
    assert_true(mot_dataset_load("/nonexistent/file", &options, &d) < 0);
}

static void test_order(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 8, 100, 7473};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        const int n = sizes[s];
        const struct mot_dataset d = {.n = n};
        char *seen = mot_alloc_zeroed((size_t)n, 1);
        int moved = 0, as_before = 0;
        for (int epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, (size_t)n);
            for (int i = 0; i < n; i++) {
                const int at = mot_dataset_at(&d, 42, 1, (int64_t)epoch * n + i);
                assert_in_range(at, 0, n - 1);
                assert_false(seen[at]++);
                moved += at != i;
                as_before +=
                    epoch > 0 && at == mot_dataset_at(&d, 42, 1, (int64_t)(epoch - 1) * n + i);
                assert_int_equal(mot_dataset_at(&d, 42, 0, (int64_t)epoch * n + i), i);
            }
        }
        if (n >= 100) {
            assert_true(moved > 3 * n * 9 / 10);
            assert_true(as_before < n / 5);
            assert_true(mot_dataset_at(&d, 42, 1, 0) != mot_dataset_at(&d, 43, 1, 0)
                        || mot_dataset_at(&d, 42, 1, 1) != mot_dataset_at(&d, 43, 1, 1));
        }
        free(seen);
    }
}

static int start(void **state)
{
    (void)state;
    tokenizer = mot_tokenizer_bytes();
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int stop(void **state)
{
    (void)state;
    mot_tokenizer_destroy(tokenizer);
    return unlink(path);
}

/* As many examples as an int can count: positions give each its own, of the whole range. */
static void test_order_of_most_examples(void **state)
{
    (void)state;
    enum { POSITIONS = 4000 };
    static int at[POSITIONS];
    const struct mot_dataset dataset = {.n = INT_MAX};
    int upper = 0;
    for (int i = 0; i < POSITIONS; i++) {
        const int64_t position = (int64_t)i * (INT_MAX / POSITIONS);
        at[i] = mot_dataset_at(&dataset, 5, 1, position);
        assert_in_range(at[i], 0, INT_MAX - 1);
        upper += at[i] >= 1 << 30;
        for (int k = 0; k < i; k++) { assert_int_not_equal(at[k], at[i]); }
    }
    assert_in_range(upper, POSITIONS * 45 / 100, POSITIONS * 55 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_completions),
        cmocka_unit_test(test_one_bos),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_order_of_most_examples),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
