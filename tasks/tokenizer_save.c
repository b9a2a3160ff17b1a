/* Writes a tokenizer so that transformers' AutoTokenizer loads it with the same ids.  What came
 * from a Hugging Face directory is written back byte for byte; for a GGUF file and the embedded
 * default, tokenizer.json and tokenizer_config.json are made from the tables. */
#include "error.h"
#include "file.h"
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

/* The token as tokenizer.json writes it. */
static json_t *token_text(const struct mot_vocab *vocab, int32_t id)
{
    size_t n;
    const char *bytes = mot_vocab_bytes(vocab, id, &n);
    if (vocab->token[id].kind != MOT_TOKEN_NORMAL) { return json_stringn(bytes, n); }
    char *text = mot_alloc(2 * n + 1);
    json_t *value = json_stringn(text, mot_alphabet_encode(bytes, n, text));
    free(text);
    return value;
}

static int by_rank(const void *a, const void *b)
{
    const struct mot_merge *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static json_t *make_merges(const struct mot_tokenizer *tokenizer)
{
    const struct mot_merges *merges = &tokenizer->merges;
    struct mot_merge *sorted = mot_alloc((merges->n + 1) * sizeof(*sorted));
    size_t n = 0;
    for (size_t i = 0; i < merges->slots; i++) {
        if (merges->slot[i].pair != UINT64_MAX) { sorted[n++] = merges->slot[i]; }
    }
    qsort(sorted, n, sizeof(*sorted), by_rank);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *left = token_text(&tokenizer->vocab, (int32_t)(sorted[i].pair >> 32));
        json_t *right = token_text(&tokenizer->vocab, (int32_t)(uint32_t)sorted[i].pair);
        json_array_append_new(
            list, json_sprintf("%s %s", json_string_value(left), json_string_value(right)));
        json_decref(left);
        json_decref(right);
    }
    free(sorted);
    return list;
}

/* model.vocab, and added_tokens: those that are looked for in the text.  They stand in both:
 * tokenizers gives an added token that the vocabulary lacks the next free id, whatever the file
 * says. */
static void make_tokens(const struct mot_vocab *vocab, json_t *all, json_t *added)
{
    for (int32_t id = 0; id < vocab->size; id++) {
        const struct mot_token *token = &vocab->token[id];
        json_t *text = token->kind == MOT_TOKEN_ABSENT ? NULL : token_text(vocab, id);
        if (!text) { continue; } /* not UTF-8: only a GGUF file could have it */
        json_object_set_new(all, json_string_value(text), json_integer(id));
        if (token->kind >= MOT_TOKEN_ADDED) {
            json_array_append_new(added, json_pack("{s:i, s:O, s:b, s:b, s:b, s:b, s:b}", "id",
                                                   (int)id, "content", text, "single_word", 0,
                                                   "lstrip", token->lstrip, "rstrip", token->rstrip,
                                                   "normalized", token->normalized, "special",
                                                   token->kind == MOT_TOKEN_SPECIAL));
        }
        json_decref(text);
    }
}

static json_t *make_pre_tokenizer(const struct mot_splitter *splitter)
{
    json_t *list = json_array();
    for (int i = 0; i < splitter->n; i++) {
        const struct mot_split *split = &splitter->step[i];
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split",
                                              "pattern", split->literal ? "String" : "Regex",
                                              split->pattern, "behavior", "Isolated", "invert", 0));
    }
    json_array_append_new(list,
                          json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                                    0, "trim_offsets", 1, "use_regex", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

/* TemplateProcessing with the prefix, or null. */
static json_t *make_post_processor(const struct mot_tokenizer *tokenizer)
{
    if (tokenizer->n_prefix == 0) { return json_null(); }
    json_t *single = json_array(), *pair = json_array(), *special = json_object();
    for (int i = 0; i < tokenizer->n_prefix; i++) {
        json_t *text = token_text(&tokenizer->vocab, tokenizer->prefix[i]);
        json_t *item = json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", text, "type_id", 0);
        json_array_append(single, item);
        json_array_append_new(pair, item);
        json_object_set_new(special, json_string_value(text),
                            json_pack("{s:O, s:[i], s:[O]}", "id", text, "ids",
                                      (int)tokenizer->prefix[i], "tokens", text));
        json_decref(text);
    }
    json_t *a = json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0);
    json_array_append(single, a);
    json_array_append_new(pair, a);
    json_array_append_new(pair, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 1));
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair",
                     pair, "special_tokens", special);
}

static json_t *make_tokenizer(const struct mot_tokenizer *tokenizer)
{
    json_t *vocab = json_object(), *added = json_array();
    make_tokens(&tokenizer->vocab, vocab, added);
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                  "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                  "byte_fallback", 0, "ignore_merges", tokenizer->ignore_merges, "vocab", vocab,
                  "merges", make_merges(tokenizer));
    return json_pack("{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:{s:s, s:b, s:b, s:b}, s:o}", "version",
                     "1.0", "truncation", "padding", "added_tokens", added, "normalizer",
                     tokenizer->nfc ? json_pack("{s:s}", "type", "NFC") : json_null(),
                     "pre_tokenizer", make_pre_tokenizer(&tokenizer->splitter), "post_processor",
                     make_post_processor(tokenizer), "decoder", "type", "ByteLevel",
                     "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model", model);
}

static json_t *make_config(const struct mot_tokenizer *tokenizer)
{
    json_t *config = json_pack("{s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                               "clean_up_tokenization_spaces", 0);
    const struct {
        const char *key;
        int32_t id;
    } named[] = {{"bos_token", tokenizer->bos},
                 {"eos_token", tokenizer->eos},
                 {"pad_token", tokenizer->pad}};
    for (int i = 0; i < 3; i++) {
        if (named[i].id >= 0) {
            json_object_set_new(config, named[i].key, token_text(&tokenizer->vocab, named[i].id));
        }
    }
    if (tokenizer->chat_template) {
        json_object_set_new(config, "chat_template", json_string(tokenizer->chat_template));
    }
    return config;
}

static int write_bytes(const char *directory, const char *name, const char *bytes, size_t n)
{
    char *path = mot_format("%s/%s", directory, name);
    const int status = mot_file_write(path, bytes, n);
    free(path);
    return status;
}

/* Takes value. */
static int write_json(const char *directory, const char *name, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
    json_decref(value);
    if (!text) { return mot_fail(ENOMEM, "%s/%s: cannot be made", directory, name); }
    const int status = write_bytes(directory, name, text, strlen(text));
    free(text);
    return status;
}

int mot_tokenizer_save(const struct mot_tokenizer *tokenizer, const char *directory)
{
    int has_tokenizer = 0, has_config = 0, status = 0;
    if (tokenizer->none) { return 0; }
    for (int i = 0; i < tokenizer->n_files && !status; i++) {
        const struct mot_tokenizer_file *file = &tokenizer->file[i];
        has_tokenizer |= strcmp(file->name, "tokenizer.json") == 0;
        has_config |= strcmp(file->name, "tokenizer_config.json") == 0;
        status = write_bytes(directory, file->name, file->bytes, file->n);
    }
    if (!status && !has_tokenizer) {
        status = write_json(directory, "tokenizer.json", make_tokenizer(tokenizer));
    }
    if (!status && !has_config) {
        status = write_json(directory, "tokenizer_config.json", make_config(tokenizer));
    }
    return status;
}
