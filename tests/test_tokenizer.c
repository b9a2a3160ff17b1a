/* The tokenizer on small files written here: merges by rank and leftmost first, ids through
 * every form of tokenizer.json that is read, added tokens with their flags, bytes that are no
 * UTF-8, long words, what is refused and how, saving and loading.  Sampled ids are never encoded
 * again: peers row 20 shows why (encode(decode(ids)) differs from ids).  One BOS or none: peers
 * row 23.
 * Run: test_tokenizer (needs no data). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "error.h"
#include "file.h"
#include "tokenizer.h"

static char folder[] = "/tmp/motley-test-XXXXXX";

/* Ids of the small vocabulary: letters, a space, and what the merges make. */
#define VOCAB                                                                                     \
    "\"a\":0,\"b\":1,\"c\":2,\"\\u0120\":3,\"ab\":4,\"bc\":5,\"abc\":6,\"aa\":7,\"1\":8,\"2\":9," \
    "\"12\":10,\"\\u00c3\":11,\"\\u00a9\":12,\"\\u00c3\\u00a9\":13,\"e\":14,\"\\u00cc\":15,"      \
    "\"\\u0123\":16,\"\\u0120a\":17,\"\\u010a\":18"
#define MERGES                                        \
    "\"b c\",\"a b\",[\"ab\",\"c\"],\"a a\",\"1 2\"," \
    "\"\\u00c3 \\u00a9\",\"\\u0120 a\""
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"

struct parts { /* fields of tokenizer.json; NULL: the usual */
    const char *normalizer, *pre, *post, *added, *model, *decoder, *merges;
};

static char *write_tokenizer(const struct parts *p)
{
    char *text = mot_format(
        "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s,"
        "\"decoder\":%s,\"model\":{%s,\"vocab\":{" VOCAB "},\"merges\":[%s]}}",
        p->added ? p->added : "", p->normalizer ? p->normalizer : "null",
        p->pre ? p->pre : BYTE_LEVEL, p->post ? p->post : "null",
        p->decoder ? p->decoder : "{\"type\":\"ByteLevel\"}",
        p->model ? p->model : "\"type\":\"BPE\"", p->merges ? p->merges : MERGES);
    char *path = mot_format("%s/tokenizer.json", folder);
    assert_int_equal(mot_file_write(path, text, strlen(text)), 0);
    free(text);
    return path;
}

static struct mot_tokenizer *load(const struct parts *p)
{
    char *path = write_tokenizer(p);
    struct mot_tokenizer *tokenizer = NULL;
    assert_int_equal(mot_tokenizer_load(path, &tokenizer), 0);
    free(path);
    return tokenizer;
}

/* expected: ids separated by spaces. */
static void expect_n(const struct mot_tokenizer *tokenizer, const char *text, size_t n, int add_bos,
                     const char *expected)
{
    struct mot_ids ids = {NULL, 0};
    char got[512] = "";
    assert_int_equal(mot_tokenizer_encode(tokenizer, text, n, add_bos, &ids), 0);
    for (size_t i = 0; i < ids.n && i < 64; i++) {
        snprintf(got + strlen(got), sizeof(got) - strlen(got), i ? " %d" : "%d", (int)ids.id[i]);
    }
    assert_string_equal(got, expected);
    mot_ids_free(&ids);
}

static void expect(const struct mot_tokenizer *tokenizer, const char *text, const char *expected)
{
    expect_n(tokenizer, text, strlen(text), 0, expected);
}

static void refuses(const struct parts *p, const char *words)
{
    char *path = write_tokenizer(p);
    struct mot_tokenizer *tokenizer = NULL;
    assert_true(mot_tokenizer_load(path, &tokenizer) < 0);
    assert_null(tokenizer);
    if (!strstr(mot_last_message(), words) || !strstr(mot_last_message(), "tokenizer.json")) {
        fail_msg("expected '%s' in '%s'", words, mot_last_message());
    }
    free(path);
}

static void test_merges(void **state)
{
    (void)state;
    struct mot_tokenizer *t = load(&(struct parts){.pre = NULL});
    expect(t, "", "");
    expect(t, "abc", "0 5"); /* "b c" has the lower rank: "ab" never forms, so "abc" does not */
    expect(t, "abab", "4 4");
    expect(t, "aaa", "7 0"); /* the leftmost of equal rank */
    expect(t, "aaaa", "7 7");
    expect(t, "a a", "0 17");
    expect(t, "a  a", "0 3 17"); /* the last of several spaces goes with the word */
    expect(t, "a\n\na", "0 18 18 0");
    expect(t, "1212", "10 10");
    expect(t, "\xc3\xa9", "13");
    expect(t, "abz", "4"); /* no token for z, no unk_token: left out, as tokenizers does */
    assert_int_equal(mot_tokenizer_vocab_size(t), 19);
    assert_int_equal(mot_tokenizer_id(t, "abc"), 6);
    assert_int_equal(mot_tokenizer_id(t, "zz"), -1);
    mot_tokenizer_destroy(t);
    t = load(&(struct parts){.model = "\"type\":\"BPE\",\"ignore_merges\":true"});
    expect(t, "abc", "6"); /* a whole word that is a token */
    expect(t, "abca", "0 5 0");
    mot_tokenizer_destroy(t);
    t = load(&(struct parts){.model = "\"type\":\"BPE\",\"unk_token\":\"c\""});
    expect(t, "az", "0 2");
    mot_tokenizer_destroy(t);
}

static void test_not_a_bijection(void **state)
{
    (void)state;
    struct mot_tokenizer *t = load(&(struct parts){.pre = NULL});
    const int32_t sampled[] = {0, 1, 2, 6, 99, -1}; /* a b c abc, and two that are no ids */
    size_t n;
    char *text = mot_tokenizer_decode(t, sampled, 6, 0, &n);
    assert_string_equal(text, "abcabc");
    assert_int_equal(n, 6);
    expect(t, text, "0 5 0 5");
    free(text);
    mot_tokenizer_destroy(t);
}

static void test_pre_tokenizers(void **state)
{
    (void)state;
    struct mot_tokenizer *t = load(
        &(struct parts){.pre = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
                               "\"individual_digits\":true}," BYTE_LEVEL "]}"});
    expect(t, "1212", "8 9 8 9");
    mot_tokenizer_destroy(t);
    t = load(&(struct parts){
        .pre = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
               "{\"Regex\":\"\\\\p{N}{1,3}|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\","
               "\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
               "\"use_regex\":false}]}"});
    expect(t, "1212a a", "10 8 9 0 3 0"); /* 121|2, and the space is a word of its own */
    mot_tokenizer_destroy(t);
    t = load(&(struct parts){
        .pre = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
               "{\"String\":\"b\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":"
               "\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}"});
    expect(t, "ab a", "0 1 17");
    mot_tokenizer_destroy(t);
}

static void test_nfc(void **state)
{
    (void)state;
    struct mot_tokenizer *t = load(&(struct parts){.normalizer = "{\"type\":\"NFC\"}"});
    expect(t, "e\xcc\x81", "13"); /* e + U+0301 = U+00E9 */
    expect(t,
           "\xff"
           "e\xcc\x81",
           "13");
    enum { N = 400000 }; /* a run of marks no sorting may choke on */
    char *marks = mot_alloc(N);
    for (int i = 0; i < N; i += 4) { memcpy(marks + i, "\xcc\x81\xcc\xa3", 4); }
    struct mot_ids ids = {NULL, 0};
    assert_int_equal(mot_tokenizer_encode(t, marks, N, 0, &ids), 0);
    assert_true(ids.n > N / 8);
    mot_ids_free(&ids);
    free(marks);
    mot_tokenizer_destroy(t);
}

#define ADDED(id, text, flags) \
    "{\"id\":" id ",\"content\":\"" text "\",\"normalized\":false," flags "}"

static void test_added_tokens(void **state)
{
    (void)state;
    struct mot_tokenizer *t = load(&(struct parts){
        .added = ADDED("19", "<s>", "\"special\":true") "," ADDED(
            "20", "<s>>",
            "\"special\":true") "," ADDED("21", "<strip>",
                                          "\"special\":false,\"lstrip\":true,\"rstrip\":"
                                          "true") ",{\"id\":22,\"content\":\"<n>\","
                                                  "\"normalized\":true,\"special\":false}"
                                                  "," ADDED("6", "abc", "\"special\":false"),
        .post =
            "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\","
            "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],"
            "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[19],\"tokens\":[\"<s>\"]}}}"});
    expect(t, "a<s>a", "0 19 0");
    expect(t, "a<s>>a", "0 20 0"); /* the longest */
    expect(t, "<s<s>", "19");      /* no token for < */
    expect(t, "a  <strip> \n a", "0 21 0");
    expect(t, "a<n><s>", "0 22 19");
    expect(t, "aabcb", "0 6 1"); /* an added token that is also in the vocabulary */
    expect_n(t, "a", 1, 1, "19 0");
    expect_n(t, "", 0, 1, "19");
    assert_int_equal(mot_tokenizer_id(t, "<s>"), 19);
    const int32_t ids[] = {19, 0, 21, 22};
    char *text = mot_tokenizer_decode(t, ids, 4, 1, NULL);
    assert_string_equal(text, "a<strip><n>");
    free(text);
    text = mot_tokenizer_decode(t, ids, 4, 0, NULL);
    assert_string_equal(text, "<s>a<strip><n>");
    free(text);
    mot_tokenizer_destroy(t);
}

static void test_bytes(void **state)
{
    (void)state;
    struct mot_tokenizer *t = mot_tokenizer_bytes();
    char all[512];
    for (int i = 0; i < 512; i++) { all[i] = (char)(i * 7 + i / 256); }
    struct mot_ids ids = {NULL, 0};
    assert_int_equal(mot_tokenizer_encode(t, all, 512, 1, &ids), 0);
    assert_int_equal(ids.n, 512);
    for (int i = 0; i < 512; i++) { assert_int_equal(ids.id[i], (unsigned char)all[i]); }
    size_t n;
    char *back = mot_tokenizer_decode(t, ids.id, ids.n, 0, &n);
    assert_int_equal(n, 512);
    assert_memory_equal(back, all, 512);
    free(back);
    mot_ids_free(&ids);
    expect(t, "a<|im_end|>", "97 258");
    assert_int_equal(mot_tokenizer_vocab_size(t), 259);
    assert_int_equal(mot_tokenizer_eos(t), 258);
    assert_int_equal(mot_tokenizer_pad(t), 256);
    assert_int_equal(mot_tokenizer_bos(t), -1);
    mot_tokenizer_destroy(t);
}

/* Saving and loading gives the same ids and special ids. */
static void same_after_saving(struct mot_tokenizer *t, const char *text, const char *expected)
{
    char *to = mot_format("%s/saved", folder);
    struct mot_tokenizer *again = NULL;
    mot_remove_tree(to);
    assert_int_equal(mot_make_directories(to), 0);
    assert_int_equal(mot_tokenizer_save(t, to), 0);
    assert_int_equal(mot_tokenizer_load(to, &again), 0);
    expect(t, text, expected);
    expect(again, text, expected);
    assert_int_equal(mot_tokenizer_eos(again), mot_tokenizer_eos(t));
    assert_int_equal(mot_tokenizer_pad(again), mot_tokenizer_pad(t));
    assert_int_equal(mot_tokenizer_bos(again), mot_tokenizer_bos(t));
    const char *chat = mot_tokenizer_chat_template(t);
    if (chat) { assert_string_equal(mot_tokenizer_chat_template(again), chat); }
    mot_tokenizer_destroy(again);
    mot_tokenizer_destroy(t);
    free(to);
}

static void test_save(void **state)
{
    (void)state;
    same_after_saving(mot_tokenizer_bytes(), "\xff\xc3\xa9 <|im_end|>", "255 195 169 32 258");
    char *config = mot_format("%s/tokenizer_config.json", folder);
    const char text[] =
        "{\"bos_token\": null, \"eos_token\": {\"content\": \"<e>\"}, \"pad_token\": "
        "\"c\", \"chat_template\": [{\"name\": \"default\", \"template\": \"T\"}]}";
    assert_int_equal(mot_file_write(config, text, strlen(text)), 0);
    struct mot_tokenizer *t =
        load(&(struct parts){.added = ADDED("19", "<e>", "\"special\":true")});
    assert_int_equal(mot_tokenizer_eos(t), 19);
    assert_int_equal(mot_tokenizer_pad(t), 2);
    assert_string_equal(mot_tokenizer_chat_template(t), "T");
    same_after_saving(t, "a<e>", "0 19");
    char *saved = mot_format("%s/saved/tokenizer_config.json", folder), *bytes;
    size_t n;
    assert_int_equal(mot_file_read(saved, 1 << 20, &bytes, &n), 0);
    assert_string_equal(bytes, text); /* as it was */
    unlink(config);
    free(bytes);
    free(saved);
    free(config);
}

/* A megabyte in one word: the heap gives what merging by hand gives, in no time. */
static void test_long_word(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    struct mot_tokenizer *t = load(&(struct parts){.pre = NULL});
    char *word = mot_alloc(N);
    memset(word, 'a', N);
    word[N - 1] = 'b';
    struct mot_ids ids = {NULL, 0};
    assert_int_equal(mot_tokenizer_encode(t, word, N, 0, &ids), 0);
    assert_int_equal(ids.n, N / 2); /* a b joins first (rank 1), the rest in pairs from the left */
    for (int i = 0; i < N / 2 - 1; i++) { assert_int_equal(ids.id[i], 7); }
    assert_int_equal(ids.id[N / 2 - 1], 4);
    mot_ids_free(&ids);
    free(word);
    mot_tokenizer_destroy(t);
}

static void test_hostile_regex(void **state)
{
    (void)state;
    struct mot_tokenizer *t = load(&(struct parts){
        .pre =
            "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
            "\"(?:a|a?a)+[bc]\"},\"behavior\":\"Isolated\",\"invert\":false}," BYTE_LEVEL "]}"});
    char text[201];
    memset(text, 'a', 200);
    text[200] = 0;
    struct mot_ids ids = {NULL, 0};
    assert_true(mot_tokenizer_encode(t, text, 200, 0, &ids) < 0);
    assert_null(ids.id);
    mot_tokenizer_destroy(t);
}

static void test_refused(void **state)
{
    (void)state;
    refuses(&(struct parts){.normalizer = "{\"type\":\"Lowercase\"}"},
            "normalizer: type Lowercase");
    refuses(&(struct parts){.pre = "{\"type\":\"Metaspace\"}"}, "pre_tokenizer: type Metaspace");
    refuses(&(struct parts){.pre = "null"}, "pre_tokenizer");
    refuses(&(struct parts){.pre = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"},
            "add_prefix_space");
    refuses(&(struct parts){.post = "{\"type\":\"RobertaProcessing\"}"}, "post_processor");
    refuses(&(struct parts){.decoder = "{\"type\":\"WordPiece\"}"}, "decoder: type WordPiece");
    refuses(&(struct parts){.model = "\"type\":\"Unigram\""}, "model.type: Unigram");
    refuses(&(struct parts){.model = "\"type\":\"WordPiece\""}, "model.type: WordPiece");
    refuses(&(struct parts){.model = "\"type\":\"BPE\",\"byte_fallback\":true"}, "byte_fallback");
    refuses(&(struct parts){.model = "\"type\":\"BPE\",\"dropout\":0.1"}, "dropout");
    refuses(&(struct parts){.model = "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\""},
            "end_of_word_suffix");
    refuses(&(struct parts){.merges = "\"a z\""}, "model.merges[0]");
    refuses(&(struct parts){.merges = "\"a b\",\"a c\""}, "model.merges[1]");
    refuses(&(struct parts){.merges = "\"a b\",5"}, "model.merges[1]");
    refuses(&(struct parts){.added = ADDED("3", "<x>", "\"special\":true")}, "added_tokens[0]");
    refuses(&(struct parts){.added = ADDED("2000000000", "<x>", "\"special\":true")},
            "added_tokens[0]");
    refuses(&(struct parts){.added = ADDED("19", "<x>", "\"single_word\":true")}, "single_word");
    static const char *const regexes[] = {"a(",     "\\\\bword", "^a",  "[a&&b]",
                                          "[[a]b]", "a{1,2}+",   "(?<n"};
    for (size_t i = 0; i < sizeof(regexes) / sizeof(regexes[0]); i++) {
        char *pre =
            mot_format("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                       "\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\",\"invert\":"
                       "false}," BYTE_LEVEL "]}",
                       regexes[i]);
        refuses(&(struct parts){.pre = pre}, "pre_tokenizer: the regex");
        free(pre);
    }
}

static int start(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    return mot_remove_tree(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges),         cmocka_unit_test(test_not_a_bijection),
        cmocka_unit_test(test_pre_tokenizers), cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_added_tokens),   cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_save),           cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_hostile_regex),  cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
