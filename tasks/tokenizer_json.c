/* Reads tokenizer.json (format: Hugging Face tokenizers, tokenizers/src/models/bpe/serialization.rs
 * and added_vocabulary.rs) and, from the same directory, tokenizer_config.json,
 * special_tokens_map.json and chat_template.jinja.  The files are kept to be saved as they were. */
#include "error.h"
#include "file.h"
#include "json.h"
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 256 << 20, CONFIG_MAX_BYTES = 16 << 20 };

static int refuse_model(const char *path, const char *field, const char *value)
{
    return mot_fail(EINVAL, "%s: model.%s: %s is not supported (byte-level BPE is)", path, field,
                    value);
}

/* Settings of the model that would change ids. */
static int check_model(const json_t *model, const char *path)
{
    const json_t *type = json_object_get(model, "type");
    if (!json_is_object(model)) { return mot_fail(EINVAL, "%s: \"model\" is missing", path); }
    if (type && strcmp(json_is_string(type) ? json_string_value(type) : "?", "BPE") != 0) {
        return refuse_model(path, "type", json_is_string(type) ? json_string_value(type) : "?");
    }
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const json_t *value = json_object_get(model, empty[i]);
        if (value && !json_is_null(value) && json_string_length(value) > 0) {
            return refuse_model(path, empty[i], "other than empty");
        }
    }
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0.0) {
        return refuse_model(path, "dropout", "other than 0");
    }
    if (json_is_true(json_object_get(model, "byte_fallback"))) {
        return refuse_model(path, "byte_fallback", "true (a SentencePiece model)");
    }
    return 0;
}

/* model.vocab: {"token in the byte alphabet": id}. */
static int read_vocab(struct mot_tokenizer *tokenizer, const json_t *model, const char *path)
{
    json_t *vocab;
    int status = mot_json_get_object(model, path, "vocab", &vocab);
    if (status) { return status; }
    const char *text;
    json_t *id;
    json_object_foreach(vocab, text, id)
    {
        const size_t n = strlen(text);
        char *bytes = mot_alloc(n + 1);
        const long count = mot_alphabet_decode(text, n, bytes);
        if (!json_is_integer(id)) {
            status = -EINVAL;
        } else if (count > 0) {
            status = mot_vocab_set(&tokenizer->vocab, json_integer_value(id), bytes, (size_t)count,
                                   MOT_TOKEN_NORMAL);
        } else {
            status = mot_vocab_set(&tokenizer->vocab, json_integer_value(id), text, n,
                                   MOT_TOKEN_LITERAL);
        }
        free(bytes);
        if (status) {
            return mot_fail(EINVAL, "%s: model.vocab: the id of token \"%.100s\" %s", path, text,
                            status == -EEXIST ? "is that of another token"
                                              : "is no whole number of the allowed range");
        }
    }
    return 0;
}

/* The id of a part of a merge, text[0..n) in the byte alphabet; -1 when it is no token. */
static int32_t part_id(const struct mot_tokenizer *tokenizer, const char *text, size_t n,
                       char *bytes, size_t *n_bytes)
{
    const long count = mot_alphabet_decode(text, n, bytes);
    if (count <= 0) { return -1; }
    *n_bytes = (size_t)count;
    return mot_vocab_find(&tokenizer->vocab, bytes, (size_t)count);
}

/* Both parts and what they join to must be tokens.  0 or -1. */
static int add_merge(struct mot_tokenizer *tokenizer, const char *left, size_t n_left,
                     const char *right, size_t n_right, int32_t rank)
{
    char *bytes = mot_alloc(n_left + n_right + 1);
    size_t a = 0, b = 0;
    const int32_t left_id = part_id(tokenizer, left, n_left, bytes, &a);
    const int32_t right_id = part_id(tokenizer, right, n_right, bytes + a, &b);
    const int32_t joined =
        left_id >= 0 && right_id >= 0 ? mot_vocab_find(&tokenizer->vocab, bytes, a + b) : -1;
    free(bytes);
    if (joined < 0) { return -1; }
    mot_merges_add(&tokenizer->merges, left_id, right_id, rank, joined);
    return 0;
}

int mot_tokenizer_add_merge(struct mot_tokenizer *tokenizer, const char *text, size_t n,
                            int32_t rank)
{
    const char *space = n > 0 ? memchr(text, ' ', n) : NULL;
    if (!space) { return -1; }
    const size_t n_left = (size_t)(space - text);
    return add_merge(tokenizer, text, n_left, space + 1, n - n_left - 1, rank);
}

/* model.merges: "left right", or since tokenizers 0.20 ["left", "right"]. */
static int read_merges(struct mot_tokenizer *tokenizer, const json_t *model, const char *path)
{
    json_t *list, *item;
    int status = mot_json_get_array(model, path, "merges", &list);
    if (status) { return status; }
    if (json_array_size(list) > (size_t)4 * MOT_TOKENIZER_MAX_ID) {
        return mot_fail(EINVAL, "%s: model.merges: too many", path);
    }
    mot_merges_create(&tokenizer->merges, json_array_size(list));
    size_t i;
    json_array_foreach(list, i, item)
    {
        const json_t *left = json_array_get(item, 0), *right = json_array_get(item, 1);
        if (json_is_string(item)) {
            status = mot_tokenizer_add_merge(tokenizer, json_string_value(item),
                                             json_string_length(item), (int32_t)i);
        } else if (json_is_string(left) && json_is_string(right) && json_array_size(item) == 2) {
            status = add_merge(tokenizer, json_string_value(left), json_string_length(left),
                               json_string_value(right), json_string_length(right), (int32_t)i);
        } else {
            status = -1;
        }
        if (status) {
            return mot_fail(
                EINVAL, "%s: model.merges[%zu] is not a pair of tokens that join to one", path, i);
        }
    }
    return 0;
}

/* One of added_tokens; NULL, or what is wrong. */
static const char *read_added(struct mot_tokenizer *tokenizer, const json_t *item)
{
    const json_t *id = json_object_get(item, "id"), *content = json_object_get(item, "content");
    if (!json_is_integer(id) || !json_is_string(content)) { return "lacks id or content"; }
    if (json_is_true(json_object_get(item, "single_word"))) {
        return "has single_word, which is not supported";
    }
    const char *text = json_string_value(content);
    const size_t n = json_string_length(content);
    if (n == 0) { return "is empty"; }
    const json_int_t value = json_integer_value(id);
    const enum mot_token_kind kind =
        json_is_true(json_object_get(item, "special")) ? MOT_TOKEN_SPECIAL : MOT_TOKEN_ADDED;
    size_t n_known;
    const char *known = mot_vocab_bytes(&tokenizer->vocab, value, &n_known);
    if (known) {
        char *bytes = mot_alloc(2 * n_known + 1);
        const size_t written = mot_alphabet_encode(known, n_known, bytes);
        const int same = (n_known == n && memcmp(known, text, n) == 0)
                         || (written == n && memcmp(bytes, text, n) == 0);
        free(bytes);
        if (!same || tokenizer->vocab.token[value].kind >= MOT_TOKEN_ADDED) {
            return "has the id of another token";
        }
        tokenizer->vocab.token[value].kind = MOT_TOKEN_ABSENT;
    }
    if (mot_vocab_set(&tokenizer->vocab, value, text, n, kind)) { return "has a bad id"; }
    struct mot_token *token = &tokenizer->vocab.token[value];
    token->normalized = json_is_true(json_object_get(item, "normalized"));
    token->lstrip = json_is_true(json_object_get(item, "lstrip"));
    token->rstrip = json_is_true(json_object_get(item, "rstrip"));
    return NULL;
}

static int read_all_added(struct mot_tokenizer *tokenizer, const json_t *root, const char *path)
{
    const json_t *list = json_object_get(root, "added_tokens");
    size_t i;
    json_t *item;
    if (list && !json_is_array(list)) {
        return mot_fail(EINVAL, "%s: added_tokens is not a list", path);
    }
    json_array_foreach(list, i, item)
    {
        const char *wrong = read_added(tokenizer, item);
        if (wrong) { return mot_fail(EINVAL, "%s: added_tokens[%zu] %s", path, i, wrong); }
    }
    return 0;
}

static int read_model(struct mot_tokenizer *tokenizer, const json_t *root, const char *path)
{
    const json_t *model = json_object_get(root, "model");
    int status = check_model(model, path);
    if (!status) { status = read_vocab(tokenizer, model, path); }
    if (status) { return status; }
    const int32_t twice = mot_vocab_index(&tokenizer->vocab);
    if (twice >= 0) {
        return mot_fail(EINVAL, "%s: token %d repeats the text of another", path, (int)twice);
    }
    tokenizer->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    if (unknown) {
        const json_t *id = json_object_get(json_object_get(model, "vocab"), unknown);
        tokenizer->unknown = json_is_integer(id) ? (int32_t)json_integer_value(id) : -1;
    }
    status = read_merges(tokenizer, model, path);
    if (!status) { status = read_all_added(tokenizer, root, path); }
    return status;
}

/* ---- The files beside it --------------------------------------------------------------------- */

/* Reads directory/name and keeps it.  *text is borrowed; NULL and 0 when there is no such file. */
static int keep_file(struct mot_tokenizer *tokenizer, const char *directory, const char *name,
                     size_t max_bytes, const struct mot_tokenizer_file **kept)
{
    char *path = mot_format("%s/%s", directory, name);
    struct mot_tokenizer_file file = {.name = name};
    int status = 0;
    *kept = NULL;
    if (access(path, F_OK) == 0) { status = mot_file_read(path, max_bytes, &file.bytes, &file.n); }
    free(path);
    if (status || !file.bytes) { return status; }
    MOT_ASSERT(tokenizer->n_files < MOT_TOKENIZER_MAX_FILES);
    tokenizer->file[tokenizer->n_files] = file;
    *kept = &tokenizer->file[tokenizer->n_files++];
    return 0;
}

/* The id of a token that a config names: "text" or {"content": "text"}. */
static void named_token(const struct mot_tokenizer *tokenizer, const json_t *config,
                        const char *key, int32_t *id)
{
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value)) { value = json_object_get(value, "content"); }
    if (*id < 0 && json_is_string(value)) {
        *id = mot_tokenizer_id(tokenizer, json_string_value(value));
    }
}

/* chat_template: a string, or [{"name": "default", "template": ...}, ...]. */
static void read_chat_template(struct mot_tokenizer *tokenizer, const json_t *config)
{
    const json_t *value = json_object_get(config, "chat_template");
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, "default") == 0) {
            value = json_object_get(item, "template");
            break;
        }
    }
    if (json_is_string(value) && !tokenizer->chat_template) {
        tokenizer->chat_template = mot_strdup(json_string_value(value));
    }
}

static int read_config(struct mot_tokenizer *tokenizer, const char *directory, const char *name)
{
    const struct mot_tokenizer_file *kept;
    int status = keep_file(tokenizer, directory, name, CONFIG_MAX_BYTES, &kept);
    if (status || !kept) { return status; }
    char *path = mot_format("%s/%s", directory, name);
    json_t *config = NULL;
    status = mot_json_parse(kept->bytes, kept->n, path, 0, &config);
    if (!status && !json_is_object(config)) {
        status = mot_fail(EINVAL, "%s: not an object", path);
    }
    if (!status) {
        named_token(tokenizer, config, "bos_token", &tokenizer->bos);
        named_token(tokenizer, config, "eos_token", &tokenizer->eos);
        named_token(tokenizer, config, "pad_token", &tokenizer->pad);
        read_chat_template(tokenizer, config);
    }
    json_decref(config);
    free(path);
    return status;
}

static int read_beside(struct mot_tokenizer *tokenizer, const char *directory)
{
    const struct mot_tokenizer_file *kept;
    int status = keep_file(tokenizer, directory, "chat_template.jinja", CONFIG_MAX_BYTES, &kept);
    if (status) { return status; }
    if (kept) { /* wins over tokenizer_config.json, as in transformers */
        if (strlen(kept->bytes) != kept->n) {
            return mot_fail(EINVAL, "%s/chat_template.jinja: holds a zero byte", directory);
        }
        tokenizer->chat_template = mot_strdup(kept->bytes);
    }
    status = read_config(tokenizer, directory, "tokenizer_config.json");
    if (!status) { status = read_config(tokenizer, directory, "special_tokens_map.json"); }
    if (!status) {
        status = keep_file(tokenizer, directory, "added_tokens.json", CONFIG_MAX_BYTES, &kept);
    }
    return status;
}

int mot_tokenizer_load_json(struct mot_tokenizer *tokenizer, const char *path)
{
    struct mot_tokenizer_file file = {.name = "tokenizer.json"};
    int status = mot_file_read(path, FILE_MAX_BYTES, &file.bytes, &file.n);
    if (status) { return status; }
    tokenizer->file[tokenizer->n_files++] = file;
    json_t *root = NULL;
    status = mot_json_parse(file.bytes, file.n, path, 0, &root);
    if (!status && !json_is_object(root)) { status = mot_fail(EINVAL, "%s: not an object", path); }
    if (!status) { status = read_model(tokenizer, root, path); }
    if (!status) { status = mot_tokenizer_parse_parts(tokenizer, root, path); }
    json_decref(root);
    if (!status) { status = mot_tokenizer_finish(tokenizer, path); }
    if (status) { return status; }
    const char *slash = strrchr(path, '/');
    char *directory = slash ? mot_format("%.*s", (int)(slash - path), path) : mot_strdup(".");
    status = read_beside(tokenizer, directory);
    free(directory);
    return status;
}
