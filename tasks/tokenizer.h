/* Text to ids and back: byte-level BPE from tokenizer.json or a GGUF file. Pre-tokenizer regexes
 * run through PCRE2; merges by rank; special tokens in the text are parsed. */
#ifndef MOT_TOKENIZER_H
#define MOT_TOKENIZER_H
#include <stddef.h>
#include <stdint.h>

struct mot_tokenizer;

/* path: a HF directory (tokenizer.json, tokenizer_config.json), a tokenizer.json, or a GGUF file.
 * 0, or a negative errno with a one-line message. */
int mot_tokenizer_load(const char *path, struct mot_tokenizer **tokenizer);
/* The embedded default of the demo: id = byte value, and after the 256 bytes
 * <|endoftext|> (256, also pad), <|im_start|> (257), <|im_end|> (258, end of turn). */
struct mot_tokenizer *mot_tokenizer_bytes(void);
/* For a model that comes without one: vocab_size ids that have no text.  Encoding is an error that
 * names path, decoding gives nothing, saving writes nothing. */
struct mot_tokenizer *mot_tokenizer_none(const char *path, int vocab_size);
/* Whether path is a directory without tokenizer.json. */
int mot_tokenizer_is_absent(const char *path);
void mot_tokenizer_destroy(struct mot_tokenizer *tokenizer);

int mot_tokenizer_vocab_size(const struct mot_tokenizer *tokenizer);
int32_t mot_tokenizer_bos(const struct mot_tokenizer *tokenizer); /* -1: none */
int32_t mot_tokenizer_eos(const struct mot_tokenizer *tokenizer);
int32_t mot_tokenizer_pad(const struct mot_tokenizer *tokenizer);
/* The id of a token given as its text ("<|im_end|>"), or -1. */
int32_t mot_tokenizer_id(const struct mot_tokenizer *tokenizer, const char *token);
/* The chat template of the model as it was found (Jinja text), or NULL. */
const char *mot_tokenizer_chat_template(const struct mot_tokenizer *tokenizer);

struct mot_ids {
    int32_t *id; /* mot_alloc'ed, NULL when n is 0; freed by mot_ids_free */
    size_t n;
};
void mot_ids_free(struct mot_ids *ids);

/* text of length bytes (may hold zero bytes and bad UTF-8) to ids.  add_bos 1: what the model's own
 * post-processor would put in front.  0 or a negative errno. */
int mot_tokenizer_encode(const struct mot_tokenizer *tokenizer, const char *text, size_t length,
                         int add_bos, struct mot_ids *ids);
/* ids to bytes (may be bad UTF-8: a token can be half a character); zero-terminated, mot_alloc'ed.
 * skip_special 1 leaves special tokens out.  Unknown ids give nothing. */
char *mot_tokenizer_decode(const struct mot_tokenizer *tokenizer, const int32_t *ids, size_t n,
                           int skip_special, size_t *length);

/* Writes tokenizer.json, tokenizer_config.json (and what else the source directory had of the
 * tokenizer) into directory, so that transformers loads it. */
int mot_tokenizer_save(const struct mot_tokenizer *tokenizer, const char *directory);
#endif
