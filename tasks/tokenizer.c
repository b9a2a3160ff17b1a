/* Tokenizer: loading by kind of file, encode, decode.
 *
 * encode, in the order of Hugging Face's tokenizers: added tokens are cut out of the raw text;
 * the rest is normalised (NFC, where the model says so); added tokens marked "normalized" are
 * cut out of that; regexes cut words; merges make ids.  Bytes that are no UTF-8 become the
 * tokens of the single bytes.  decode joins the bytes of the tokens: decode(encode(text)) is the
 * text (NFC, and a byte that a model has no token for, aside); encode(decode(ids)) need not be
 * the ids. */
#include "tokenizer.h"
#include "error.h"
#include "gguf.h"
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct mot_tokenizer *mot_tokenizer_create(void)
{
    struct mot_tokenizer *tokenizer = mot_alloc_zeroed(1, sizeof(*tokenizer));
    tokenizer->bos = tokenizer->eos = tokenizer->pad = tokenizer->unknown = -1;
    mot_trie_create(&tokenizer->raw);
    mot_trie_create(&tokenizer->normalized);
    return tokenizer;
}

/* An added token into the trie it belongs to. */
static void index_added(struct mot_tokenizer *tokenizer, int32_t id)
{
    const struct mot_token *token = &tokenizer->vocab.token[id];
    const char *bytes = tokenizer->vocab.bytes + token->at;
    if (token->n == 0) { return; }
    if (!token->normalized) {
        mot_trie_add(&tokenizer->raw, bytes, token->n, id);
        return;
    }
    size_t n = token->n;
    char *nfc = tokenizer->nfc ? mot_utf8_nfc(bytes, n, &n) : NULL;
    mot_trie_add(&tokenizer->normalized, nfc ? nfc : bytes, n, id);
    free(nfc);
}

int mot_tokenizer_finish(struct mot_tokenizer *tokenizer, const char *path)
{
    struct mot_vocab *vocab = &tokenizer->vocab;
    if (vocab->size == 0) { return mot_fail(EINVAL, "%s: the vocabulary is empty", path); }
    if (!tokenizer->merges.slot) { mot_merges_create(&tokenizer->merges, 0); }
    const int32_t twice = mot_vocab_index(vocab);
    if (twice >= 0) {
        return mot_fail(EINVAL, "%s: token %d repeats the text of another", path, (int)twice);
    }
    for (int32_t id = 0; id < vocab->size; id++) {
        if (vocab->token[id].kind >= MOT_TOKEN_ADDED) { index_added(tokenizer, id); }
    }
    return 0;
}

int mot_tokenizer_load(const char *path, struct mot_tokenizer **loaded)
{
    struct stat state;
    if (stat(path, &state) != 0) {
        const int error = errno;
        return mot_fail(error, "%s: %s", path, strerror(error));
    }
    struct mot_tokenizer *tokenizer = mot_tokenizer_create();
    int status;
    if (S_ISDIR(state.st_mode)) {
        char *file = mot_format("%s/tokenizer.json", path);
        status = mot_tokenizer_load_json(tokenizer, file);
        free(file);
    } else if (mot_gguf_is(path)) {
        status = mot_tokenizer_load_gguf(tokenizer, path);
    } else {
        status = mot_tokenizer_load_json(tokenizer, path);
    }
    if (status) {
        mot_tokenizer_destroy(tokenizer);
        return status;
    }
    *loaded = tokenizer;
    return 0;
}

struct mot_tokenizer *mot_tokenizer_bytes(void)
{
    static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    struct mot_tokenizer *tokenizer = mot_tokenizer_create();
    int status = 0;
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        status |= mot_vocab_set(&tokenizer->vocab, b, &byte, 1, MOT_TOKEN_NORMAL);
    }
    for (int i = 0; i < 3; i++) {
        status |= mot_vocab_set(&tokenizer->vocab, 256 + i, special[i], strlen(special[i]),
                                MOT_TOKEN_SPECIAL);
    }
    tokenizer->pad = 256;
    tokenizer->eos = 258;
    tokenizer->chat_template = mot_strdup(
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
        "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\\n' }}{% endif %}");
    status |= mot_tokenizer_finish(tokenizer, "bytes");
    MOT_ASSERT(status == 0);
    return tokenizer;
}

struct mot_tokenizer *mot_tokenizer_none(const char *path, int vocab_size)
{
    struct mot_tokenizer *tokenizer = mot_tokenizer_create();
    tokenizer->none = mot_strdup(path);
    tokenizer->vocab.size = tokenizer->vocab.capacity = vocab_size;
    tokenizer->vocab.token = mot_alloc_zeroed((size_t)vocab_size, sizeof(struct mot_token));
    return tokenizer;
}

int mot_tokenizer_is_absent(const char *path)
{
    struct stat state;
    if (stat(path, &state) != 0 || !S_ISDIR(state.st_mode)) { return 0; }
    char *file = mot_format("%s/tokenizer.json", path);
    const int absent = stat(file, &state) != 0 && errno == ENOENT;
    free(file);
    return absent;
}

void mot_tokenizer_destroy(struct mot_tokenizer *tokenizer)
{
    if (!tokenizer) { return; }
    mot_vocab_free(&tokenizer->vocab);
    free(tokenizer->merges.slot);
    mot_splitter_free(&tokenizer->splitter);
    mot_trie_free(&tokenizer->raw);
    mot_trie_free(&tokenizer->normalized);
    for (int i = 0; i < tokenizer->n_files; i++) { free(tokenizer->file[i].bytes); }
    free(tokenizer->chat_template);
    free(tokenizer->none);
    free(tokenizer);
}

int mot_tokenizer_vocab_size(const struct mot_tokenizer *tokenizer)
{
    return tokenizer->vocab.size;
}

int32_t mot_tokenizer_bos(const struct mot_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t mot_tokenizer_eos(const struct mot_tokenizer *tokenizer)
{
    return tokenizer->eos;
}

int32_t mot_tokenizer_pad(const struct mot_tokenizer *tokenizer)
{
    return tokenizer->pad;
}

int32_t mot_tokenizer_id(const struct mot_tokenizer *tokenizer, const char *token)
{
    const size_t n = strlen(token);
    int32_t id = mot_trie_find(&tokenizer->raw, token, n);
    if (id < 0) { id = mot_trie_find(&tokenizer->normalized, token, n); }
    return id >= 0 ? id : mot_vocab_find(&tokenizer->vocab, token, n);
}

const char *mot_tokenizer_chat_template(const struct mot_tokenizer *tokenizer)
{
    return tokenizer->chat_template;
}

void mot_ids_free(struct mot_ids *ids)
{
    free(ids->id);
    *ids = (struct mot_ids){NULL, 0};
}

/* One call of encode. */
struct encoder {
    const struct mot_tokenizer *tokenizer;
    struct mot_bpe_scratch scratch;
    struct mot_id_list ids;
};

static void encode_word(void *argument, const char *word, size_t n)
{
    struct encoder *encoder = argument;
    mot_bpe_word(encoder->tokenizer, &encoder->scratch, word, n, &encoder->ids);
}

/* Text without added tokens: words, and single bytes where it is no UTF-8. */
static int encode_plain(struct encoder *encoder, const char *text, size_t n)
{
    int status = 0;
    for (size_t at = 0; at < n && status == 0;) {
        const size_t valid = mot_utf8_valid(text + at, n - at);
        status =
            mot_splitter_run(&encoder->tokenizer->splitter, text + at, valid, encode_word, encoder);
        at += valid;
        if (at < n) {
            mot_bpe_word(encoder->tokenizer, &encoder->scratch, text + at++, 1, &encoder->ids);
        }
    }
    return status;
}

static int encode_normalized(struct encoder *encoder, const char *text, size_t n);

/* Cuts the tokens of the trie out of text; rest gets what lies between them. */
static int encode_around(struct encoder *encoder, const struct mot_trie *trie, const char *text,
                         size_t n, int (*rest)(struct encoder *, const char *, size_t))
{
    size_t done = 0, start, end, from = 0;
    int32_t id;
    int status = 0;
    while (status == 0 && (id = mot_trie_next(trie, text, n, from, &start, &end)) >= 0) {
        const struct mot_token *token = &encoder->tokenizer->vocab.token[id];
        from = end;
        if (token->lstrip) { start -= mot_utf8_space_before(text + done, start - done); }
        if (token->rstrip) { from = end += mot_utf8_space_after(text + end, n - end); }
        if (start > done) { status = rest(encoder, text + done, start - done); }
        mot_id_list_push(&encoder->ids, id);
        done = end;
    }
    return status || done == n ? status : rest(encoder, text + done, n - done);
}

static int encode_normalized(struct encoder *encoder, const char *text, size_t n)
{
    size_t n_nfc;
    char *nfc = encoder->tokenizer->nfc ? mot_utf8_nfc(text, n, &n_nfc) : NULL;
    const int status = encode_around(encoder, &encoder->tokenizer->normalized, nfc ? nfc : text,
                                     nfc ? n_nfc : n, encode_plain);
    free(nfc);
    return status;
}

int mot_tokenizer_encode(const struct mot_tokenizer *tokenizer, const char *text, size_t length,
                         int add_bos, struct mot_ids *ids)
{
    if (tokenizer->none) {
        return mot_fail(ENOENT, "%s: has no tokenizer.json, so it takes ids, not text",
                        tokenizer->none);
    }
    if (length > MOT_TOKENIZER_MAX_TEXT) {
        return mot_fail(EFBIG, "tokenizer: a text of %zu bytes (at most %zu)", length,
                        MOT_TOKENIZER_MAX_TEXT);
    }
    struct encoder encoder = {.tokenizer = tokenizer};
    for (int i = 0; add_bos && i < tokenizer->n_prefix; i++) {
        mot_id_list_push(&encoder.ids, tokenizer->prefix[i]);
    }
    const int status = encode_around(&encoder, &tokenizer->raw, text, length, encode_normalized);
    mot_bpe_scratch_free(&encoder.scratch);
    if (status) {
        free(encoder.ids.id);
        return status;
    }
    *ids = (struct mot_ids){encoder.ids.id, encoder.ids.n};
    return 0;
}

char *mot_tokenizer_decode(const struct mot_tokenizer *tokenizer, const int32_t *ids, size_t n,
                           int skip_special, size_t *length)
{
    size_t count = 0, capacity = 4 * n + 16;
    char *text = mot_alloc(capacity);
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes;
        const char *bytes = mot_vocab_bytes(&tokenizer->vocab, ids[i], &n_bytes);
        if (!bytes || (skip_special && tokenizer->vocab.token[ids[i]].kind == MOT_TOKEN_SPECIAL)) {
            continue;
        }
        if (count + n_bytes + 1 > capacity) {
            capacity = 2 * (count + n_bytes) + 16;
            text = mot_realloc(text, capacity);
        }
        memcpy(text + count, bytes, n_bytes);
        count += n_bytes;
    }
    text[count] = 0;
    if (length) { *length = count; }
    return text;
}
