/* Reads the tokenizer of a GGUF file (keys: ggml's docs/gguf.md; the regexes that the "pre"
 * names stand for and which of them add a BOS: llama.cpp, src/llama-vocab.cpp).  Where GGUF says
 * less than tokenizer.json does (normalizer, ignore_merges), the original tokenizer of that
 * family counts. */
#include "error.h"
#include "gguf.h"
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

/* What a tokenizer.ggml.pre name stands for. */
struct pre {
    const char *name;
    const char *split[4]; /* up to the first NULL */
    int nfc, ignore_merges, add_bos;
};

static const struct pre known[] = {
    {"gpt-2", {mot_split_gpt2}, 0, 0, 0},
    {"smollm", {"\\p{N}", mot_split_gpt2}, 0, 0, 0},
    {"starcoder", {"\\p{N}", mot_split_gpt2}, 0, 0, 0},
    {"refact", {"\\p{N}", mot_split_gpt2}, 0, 0, 0},
    {"llama-bpe", {mot_split_llama3}, 0, 1, 1},
    {"llama3", {mot_split_llama3}, 0, 1, 1},
    {"llama-v3", {mot_split_llama3}, 0, 1, 1},
    {"qwen2", {mot_split_qwen2}, 1, 0, 0},
    {"deepseek-r1-qwen", {mot_split_qwen2}, 1, 0, 0},
    {"default",
     {"[\\p{P}\\$\\+<=>\\^~\\|]+", mot_split_gpt2, "\\p{N}+", "[0-9][0-9][0-9]"},
     0,
     0,
     0},
};

/* GGUF's token types. */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED, TYPE_BYTE };

static int is_text(const struct mot_gguf_text *text, const char *word)
{
    return text->n == strlen(word) && memcmp(text->bytes, word, text->n) == 0;
}

/* A string that must be there. */
static int need_string(const struct mot_gguf *gguf, const char *key, struct mot_gguf_text *value)
{
    const int found = mot_gguf_string(gguf, key, value);
    if (found == 0) { return mot_fail(EINVAL, "%s: %s is missing", mot_gguf_path(gguf), key); }
    return found < 0 ? found : 0;
}

static int read_pre(struct mot_tokenizer *tokenizer, const struct mot_gguf *gguf)
{
    const char *path = mot_gguf_path(gguf);
    struct mot_gguf_text model, name;
    int status = need_string(gguf, "tokenizer.ggml.model", &model);
    if (status) { return status; }
    if (!is_text(&model, "gpt2")) {
        return mot_fail(EINVAL,
                        "%s: tokenizer.ggml.model: \"%.*s\" is not supported%s (byte-level "
                        "BPE, \"gpt2\", is)",
                        path, model.n < 40 ? (int)model.n : 40, model.bytes,
                        is_text(&model, "llama") ? ", a SentencePiece model" : "");
    }
    status = need_string(gguf, "tokenizer.ggml.pre", &name);
    if (status) { return status; }
    char list[256] = "";
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const struct pre *pre = &known[i];
        strncat(list, " ", sizeof(list) - strlen(list) - 1);
        strncat(list, pre->name, sizeof(list) - strlen(list) - 1);
        if (!is_text(&name, pre->name)) { continue; }
        for (int s = 0; s < 4 && pre->split[s] && !status; s++) {
            status = mot_splitter_add(&tokenizer->splitter, pre->split[s], 0, path);
        }
        tokenizer->nfc = pre->nfc;
        tokenizer->ignore_merges = pre->ignore_merges;
        tokenizer->n_prefix = pre->add_bos;
        return status;
    }
    return mot_fail(EINVAL, "%s: tokenizer.ggml.pre: \"%.*s\" is not known; these are:%s", path,
                    name.n < 40 ? (int)name.n : 40, name.bytes, list);
}

/* One token of that type. */
static int add_token(struct mot_vocab *vocab, size_t id, const struct mot_gguf_text *text,
                     int64_t type)
{
    char *bytes = mot_alloc(text->n + 1);
    const long n = mot_alphabet_decode(text->bytes, text->n, bytes);
    int status;
    if (type == TYPE_CONTROL || type == TYPE_UNKNOWN) {
        status = mot_vocab_set(vocab, (int64_t)id, text->bytes, text->n, MOT_TOKEN_SPECIAL);
    } else if (type == TYPE_USER_DEFINED) {
        status = mot_vocab_set(vocab, (int64_t)id, text->bytes, text->n, MOT_TOKEN_ADDED);
    } else if (type == TYPE_UNUSED || n <= 0) {
        status = mot_vocab_set(vocab, (int64_t)id, text->bytes, text->n, MOT_TOKEN_LITERAL);
    } else {
        status = mot_vocab_set(vocab, (int64_t)id, bytes, (size_t)n, MOT_TOKEN_NORMAL);
    }
    free(bytes);
    return status;
}

static int read_tokens(struct mot_tokenizer *tokenizer, const struct mot_gguf *gguf)
{
    const char *path = mot_gguf_path(gguf);
    struct mot_gguf_text *token = NULL;
    int64_t *type = NULL;
    size_t n = 0, n_types = 0;
    int found = mot_gguf_strings(gguf, "tokenizer.ggml.tokens", &token, &n);
    int status = found < 0 ? found : 0;
    if (found == 0) { status = mot_fail(EINVAL, "%s: tokenizer.ggml.tokens is missing", path); }
    if (!status) {
        found = mot_gguf_ints(gguf, "tokenizer.ggml.token_type", &type, &n_types);
        status = found < 0 ? found : 0;
    }
    if (!status && found && n_types != n) {
        status = mot_fail(EINVAL, "%s: tokenizer.ggml.token_type has %zu entries for %zu tokens",
                          path, n_types, n);
    }
    for (size_t i = 0; i < n && !status; i++) {
        if (add_token(&tokenizer->vocab, i, &token[i], type ? type[i] : TYPE_NORMAL)) {
            status = mot_fail(EINVAL, "%s: tokenizer.ggml.tokens: too many or too long", path);
        }
    }
    free(token);
    free(type);
    if (!status && n == 0) {
        status = mot_fail(EINVAL, "%s: tokenizer.ggml.tokens is empty", path);
    }
    if (status) { return status; }
    const int32_t twice = mot_vocab_index(&tokenizer->vocab);
    return twice < 0 ? 0
                     : mot_fail(EINVAL, "%s: tokenizer.ggml.tokens[%d] repeats another token", path,
                                (int)twice);
}

static int read_merges(struct mot_tokenizer *tokenizer, const struct mot_gguf *gguf)
{
    const char *path = mot_gguf_path(gguf);
    struct mot_gguf_text *merge = NULL;
    size_t n = 0;
    const int found = mot_gguf_strings(gguf, "tokenizer.ggml.merges", &merge, &n);
    int status = found < 0 ? found : 0;
    if (found == 0) { status = mot_fail(EINVAL, "%s: tokenizer.ggml.merges is missing", path); }
    if (!status && n > (size_t)4 * MOT_TOKENIZER_MAX_ID) {
        status = mot_fail(EINVAL, "%s: tokenizer.ggml.merges: too many", path);
    }
    if (!status) { mot_merges_create(&tokenizer->merges, n); }
    for (size_t i = 0; i < n && !status; i++) {
        if (mot_tokenizer_add_merge(tokenizer, merge[i].bytes, merge[i].n, (int32_t)i)) {
            status = mot_fail(EINVAL,
                              "%s: tokenizer.ggml.merges[%zu] is not a pair of tokens that join "
                              "to one",
                              path, i);
        }
    }
    free(merge);
    return status;
}

/* The id under key, -1 when absent. */
static int read_id(const struct mot_tokenizer *tokenizer, const struct mot_gguf *gguf,
                   const char *key, int32_t *id)
{
    int64_t value = -1;
    size_t n;
    const int found = mot_gguf_int(gguf, key, &value);
    if (found <= 0) { return found; }
    if (!mot_vocab_bytes(&tokenizer->vocab, value, &n)) {
        return mot_fail(EINVAL, "%s: %s: %lld is no token", mot_gguf_path(gguf), key,
                        (long long)value);
    }
    *id = (int32_t)value;
    return 0;
}

static int read_special(struct mot_tokenizer *tokenizer, const struct mot_gguf *gguf)
{
    int status = read_id(tokenizer, gguf, "tokenizer.ggml.bos_token_id", &tokenizer->bos);
    if (!status) {
        status = read_id(tokenizer, gguf, "tokenizer.ggml.eos_token_id", &tokenizer->eos);
    }
    if (!status) {
        status = read_id(tokenizer, gguf, "tokenizer.ggml.padding_token_id", &tokenizer->pad);
    }
    if (status) { return status; }
    int add_bos = tokenizer->n_prefix;
    status = mot_gguf_bool(gguf, "tokenizer.ggml.add_bos_token", &add_bos);
    if (status < 0) { return status; }
    tokenizer->n_prefix = add_bos && tokenizer->bos >= 0;
    tokenizer->prefix[0] = tokenizer->bos;
    struct mot_gguf_text chat;
    status = mot_gguf_string(gguf, "tokenizer.chat_template", &chat);
    if (status <= 0) { return status; }
    if (memchr(chat.bytes, 0, chat.n) || mot_utf8_valid(chat.bytes, chat.n) != chat.n) {
        return mot_fail(EINVAL, "%s: tokenizer.chat_template is not text", mot_gguf_path(gguf));
    }
    tokenizer->chat_template = mot_format("%.*s", (int)chat.n, chat.bytes);
    return 0;
}

int mot_tokenizer_load_gguf(struct mot_tokenizer *tokenizer, const char *path)
{
    struct mot_gguf *gguf = NULL;
    int status = mot_gguf_open(path, &gguf);
    if (status) { return status; }
    status = read_pre(tokenizer, gguf);
    if (!status) { status = read_tokens(tokenizer, gguf); }
    if (!status) { status = read_merges(tokenizer, gguf); }
    if (!status) { status = read_special(tokenizer, gguf); }
    if (!status) { status = mot_tokenizer_finish(tokenizer, path); }
    mot_gguf_close(gguf);
    return status;
}
