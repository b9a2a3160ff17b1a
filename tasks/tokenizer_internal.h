/* What the files of the tokenizer share: tokenizer.c (encode, decode), tokenizer_vocab.c (tables),
 * tokenizer_bpe.c (merges), tokenizer_split.c (regexes), tokenizer_added.c (special tokens),
 * tokenizer_utf8.c, and the loaders and the writer.  Nobody else includes it. */
#ifndef MOT_TOKENIZER_INTERNAL_H
#define MOT_TOKENIZER_INTERNAL_H
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer.h"
#include <jansson.h>
#include <pcre2.h>
#include <stddef.h>
#include <stdint.h>

#define MOT_TOKENIZER_MAX_ID    (1 << 22)
#define MOT_TOKENIZER_MAX_STEPS 16
#define MOT_TOKENIZER_MAX_TEXT  ((size_t)1 << 30) /* bytes in one call of encode */

/* ---- Vocabulary: id to bytes and back (tokenizer_vocab.c) ------------------------------------ */

enum mot_token_kind {
    MOT_TOKEN_ABSENT,  /* a hole in the ids */
    MOT_TOKEN_NORMAL,  /* reached by merges; bytes are those of the text */
    MOT_TOKEN_LITERAL, /* not written in the byte alphabet: decoded as it stands, never reached */
    MOT_TOKEN_ADDED,   /* parsed in the text before anything else, but ordinary text to decode */
    MOT_TOKEN_SPECIAL  /* parsed likewise, and left out by skip_special */
};

struct mot_token {
    size_t at; /* in mot_vocab.bytes */
    uint32_t n;
    uint8_t kind;
    uint8_t normalized, lstrip, rstrip; /* added and special ones: as in tokenizer.json */
};

struct mot_vocab {
    struct mot_token *token; /* (size) */
    int32_t size, capacity;
    char *bytes;
    size_t n_bytes, bytes_capacity;
    int32_t *slot; /* hash table of the NORMAL tokens: ids, -1 empty; slots is a power of two */
    size_t slots;
    int32_t byte_id[256]; /* -1: the model has no token for that byte */
};
/* Copies the bytes.  0, -EEXIST when the id has a token, -ERANGE when it is too large. */
int mot_vocab_set(struct mot_vocab *vocab, int64_t id, const char *bytes, size_t n,
                  enum mot_token_kind kind);
/* Builds the hash table when all tokens are set.  -1, or the id of a token that repeats another. */
int32_t mot_vocab_index(struct mot_vocab *vocab);
int32_t mot_vocab_find(const struct mot_vocab *vocab, const char *bytes, size_t n); /* or -1 */
/* The bytes of a token (borrowed), *n of them; NULL when the id is none. */
const char *mot_vocab_bytes(const struct mot_vocab *vocab, int64_t id, size_t *n);
void mot_vocab_free(struct mot_vocab *vocab);

/* ---- Merges: pair of ids to rank and result (tokenizer_vocab.c) ------------------------------ */

struct mot_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: empty slot */
    int32_t rank, id;
};
struct mot_merges {
    struct mot_merge *slot;
    size_t slots, n;
};
void mot_merges_create(struct mot_merges *merges, size_t n_max);
/* A pair given twice keeps its last rank, as in Hugging Face's tokenizers. */
void mot_merges_add(struct mot_merges *merges, int32_t left, int32_t right, int32_t rank,
                    int32_t id);
const struct mot_merge *mot_merges_find(const struct mot_merges *merges, int32_t left,
                                        int32_t right);

/* ---- Encoding one word (tokenizer_bpe.c) ----------------------------------------------------- */

struct mot_id_list {
    int32_t *id;
    size_t n, capacity;
};
void mot_id_list_push(struct mot_id_list *list, int32_t id);

struct mot_bpe_symbol;
struct mot_bpe_entry;
/* Work space of one call of encode; zero to start with. */
struct mot_bpe_scratch {
    struct mot_bpe_symbol *symbol;
    struct mot_bpe_entry *heap;
    size_t symbols, heap_n, heap_capacity;
};
void mot_bpe_scratch_free(struct mot_bpe_scratch *scratch);
/* Appends the ids of the word.  O(n log n). */
void mot_bpe_word(const struct mot_tokenizer *tokenizer, struct mot_bpe_scratch *scratch,
                  const char *word, size_t n, struct mot_id_list *ids);

/* ---- Pre-tokenizer: a sequence of regexes (tokenizer_split.c) -------------------------------- */

/* Matches and the text between them become pieces; each step splits the pieces of the one
 * before. */
struct mot_split {
    char *pattern; /* as in tokenizer.json */
    int literal;   /* a string, not a regex */
    pcre2_code *code;
};
struct mot_splitter {
    struct mot_split step[MOT_TOKENIZER_MAX_STEPS];
    int n;
    pcre2_match_context *context;
};
/* 0, or -EINVAL with a message that begins with where ("file: field"). */
int mot_splitter_add(struct mot_splitter *splitter, const char *pattern, int literal,
                     const char *where);
void mot_splitter_free(struct mot_splitter *splitter);
typedef void mot_piece_function(void *argument, const char *piece, size_t n);
/* text: valid UTF-8.  0, or -EINVAL with a message when a regex needs too much work. */
int mot_splitter_run(const struct mot_splitter *splitter, const char *text, size_t n,
                     mot_piece_function *piece, void *argument);
extern const char mot_split_gpt2[], mot_split_llama3[], mot_split_qwen2[];

/* ---- Added tokens: a trie (tokenizer_added.c) ------------------------------------------------ */

struct mot_trie_node {
    int32_t child, sibling; /* -1: none */
    int32_t token;          /* the id that ends here; -1: none */
    unsigned char byte;
};
struct mot_trie {
    struct mot_trie_node *node;
    int32_t n, capacity;
    int32_t root[256];
};
void mot_trie_create(struct mot_trie *trie);
void mot_trie_add(struct mot_trie *trie, const char *bytes, size_t n, int32_t token);
/* The leftmost longest token in text at or after from: its id, *start and *end; -1 when none. */
int32_t mot_trie_next(const struct mot_trie *trie, const char *text, size_t n, size_t from,
                      size_t *start, size_t *end);
/* The token that is exactly these bytes, or -1. */
int32_t mot_trie_find(const struct mot_trie *trie, const char *bytes, size_t n);
void mot_trie_free(struct mot_trie *trie);

/* ---- UTF-8, the byte alphabet, NFC (tokenizer_utf8.c) ---------------------------------------- */

/* The length of the longest valid UTF-8 prefix. */
size_t mot_utf8_valid(const char *text, size_t n);
/* Bytes of white space (Unicode White_Space) at the end or the start of text. */
size_t mot_utf8_space_before(const char *text, size_t n);
size_t mot_utf8_space_after(const char *text, size_t n);
/* GPT-2's alphabet writes each byte as one printable character.  decode: n bytes of UTF-8 to at
 * most n bytes, whose number is returned, or -1 when a character is not of the alphabet.  encode:
 * to (2 n + 1) bytes, zero-terminated; the number without the zero. */
long mot_alphabet_decode(const char *text, size_t n, char *bytes);
size_t mot_alphabet_encode(const char *bytes, size_t n, char *text);
/* NFC of text; bytes that are no UTF-8 stay as they are.  NULL when it is normal as it is, else
 * mot_alloc'ed with *n_out bytes. */
char *mot_utf8_nfc(const char *text, size_t n, size_t *n_out);

/* ---- The whole ------------------------------------------------------------------------------- */

/* A file of the source directory, kept to be written back as it was. */
struct mot_tokenizer_file {
    const char *name; /* static */
    char *bytes;
    size_t n;
};
#define MOT_TOKENIZER_MAX_FILES 6

struct mot_tokenizer {
    struct mot_vocab vocab;
    struct mot_merges merges;
    int ignore_merges; /* a word that is a token needs no merges (Llama 3) */
    int32_t unknown;   /* for bytes without a token; -1: they are left out */
    struct mot_splitter splitter;
    int nfc;
    struct mot_trie raw, normalized; /* added tokens looked for before and after NFC */
    int32_t prefix[8];               /* what the post-processor puts in front */
    int n_prefix;
    int32_t bos, eos, pad;
    char *chat_template;
    struct mot_tokenizer_file file[MOT_TOKENIZER_MAX_FILES];
    int n_files;
    char *none; /* path of a model that has no tokenizer; else NULL */
};
/* An empty one, and the end of loading: builds the tables from the tokens that are set.  0, or
 * -EINVAL with a message that begins with path. */
struct mot_tokenizer *mot_tokenizer_create(void);
int mot_tokenizer_finish(struct mot_tokenizer *tokenizer, const char *path);
/* The loaders; *tokenizer comes from mot_tokenizer_create and is the caller's to destroy. */
int mot_tokenizer_load_json(struct mot_tokenizer *tokenizer, const char *path);
int mot_tokenizer_load_gguf(struct mot_tokenizer *tokenizer, const char *path);
/* One line of merges, "left right" in the byte alphabet; -1 when it is no pair of tokens that join
 * to a token (tokenizer_json.c). */
int mot_tokenizer_add_merge(struct mot_tokenizer *tokenizer, const char *text, size_t n,
                            int32_t rank);
/* The pre_tokenizer field of tokenizer.json (tokenizer_json_parts.c), and the others that are read
 * for what they do to ids. */
int mot_tokenizer_parse_parts(struct mot_tokenizer *tokenizer, const json_t *root,
                              const char *path);
#endif
