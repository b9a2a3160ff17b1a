/* The tables of the tokenizer: tokens by id and by bytes, merges by pair of ids.  Both look-ups are
 * open-addressing hash tables, filled once while loading and only read afterwards. */
#include "error.h"
#include "hash.h"
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

static uint64_t hash_bytes(const char *bytes, size_t n)
{
    const uint64_t h = mot_hash(MOT_HASH_START, bytes, n);
    return h ^ (h >> 29);
}

/* Finaliser of MurmurHash3. */
static uint64_t hash_pair(uint64_t pair)
{
    pair = (pair ^ (pair >> 33)) * 0xff51afd7ed558ccdu;
    pair = (pair ^ (pair >> 33)) * 0xc4ceb9fe1a85ec53u;
    return pair ^ (pair >> 33);
}

/* A power of two that leaves at least half of the table empty. */
static size_t slots_for(size_t n)
{
    size_t slots = 16;
    while (slots < 2 * n) { slots *= 2; }
    return slots;
}

static void reserve_ids(struct mot_vocab *vocab, int32_t size)
{
    if (size > vocab->capacity) {
        int32_t capacity = vocab->capacity ? vocab->capacity : 1024;
        while (capacity < size) { capacity *= 2; }
        vocab->token = mot_realloc(vocab->token, (size_t)capacity * sizeof(*vocab->token));
        memset(vocab->token + vocab->capacity, 0,
               (size_t)(capacity - vocab->capacity) * sizeof(*vocab->token));
        vocab->capacity = capacity;
    }
    if (size > vocab->size) { vocab->size = size; }
}

int mot_vocab_set(struct mot_vocab *vocab, int64_t id, const char *bytes, size_t n,
                  enum mot_token_kind kind)
{
    if (id < 0 || id >= MOT_TOKENIZER_MAX_ID || n > UINT32_MAX / 4) { return -ERANGE; }
    reserve_ids(vocab, (int32_t)id + 1);
    struct mot_token *token = &vocab->token[id];
    if (token->kind != MOT_TOKEN_ABSENT) { return -EEXIST; }
    if (vocab->n_bytes + n > vocab->bytes_capacity) {
        vocab->bytes_capacity = 2 * vocab->bytes_capacity + n + 4096;
        vocab->bytes = mot_realloc(vocab->bytes, vocab->bytes_capacity);
    }
    if (n > 0) { memcpy(vocab->bytes + vocab->n_bytes, bytes, n); }
    *token = (struct mot_token){.at = vocab->n_bytes, .n = (uint32_t)n, .kind = (uint8_t)kind};
    vocab->n_bytes += n;
    return 0;
}

/* The slot that holds the bytes, or the empty one where they would go. */
static size_t vocab_slot(const struct mot_vocab *vocab, const char *bytes, size_t n)
{
    size_t i = hash_bytes(bytes, n) & (vocab->slots - 1);
    for (; vocab->slot[i] >= 0; i = (i + 1) & (vocab->slots - 1)) {
        const struct mot_token *token = &vocab->token[vocab->slot[i]];
        if (token->n == n && memcmp(vocab->bytes + token->at, bytes, n) == 0) { break; }
    }
    return i;
}

int32_t mot_vocab_index(struct mot_vocab *vocab)
{
    vocab->slots = slots_for((size_t)vocab->size);
    free(vocab->slot);
    vocab->slot = mot_alloc(vocab->slots * sizeof(*vocab->slot));
    memset(vocab->slot, 0xff, vocab->slots * sizeof(*vocab->slot));
    for (int b = 0; b < 256; b++) { vocab->byte_id[b] = -1; }
    for (int32_t id = 0; id < vocab->size; id++) {
        const struct mot_token *token = &vocab->token[id];
        if (token->kind != MOT_TOKEN_NORMAL) { continue; }
        const char *bytes = vocab->bytes + token->at;
        const size_t slot = vocab_slot(vocab, bytes, token->n);
        if (vocab->slot[slot] >= 0) { return id; }
        vocab->slot[slot] = id;
        if (token->n == 1) { vocab->byte_id[(unsigned char)bytes[0]] = id; }
    }
    return -1;
}

int32_t mot_vocab_find(const struct mot_vocab *vocab, const char *bytes, size_t n)
{
    return vocab->slot[vocab_slot(vocab, bytes, n)];
}

const char *mot_vocab_bytes(const struct mot_vocab *vocab, int64_t id, size_t *n)
{
    if (id < 0 || id >= vocab->size || vocab->token[id].kind == MOT_TOKEN_ABSENT) { return NULL; }
    *n = vocab->token[id].n;
    return vocab->bytes + vocab->token[id].at;
}

void mot_vocab_free(struct mot_vocab *vocab)
{
    free(vocab->token);
    free(vocab->bytes);
    free(vocab->slot);
}

void mot_merges_create(struct mot_merges *merges, size_t n_max)
{
    merges->n = 0;
    merges->slots = slots_for(n_max);
    merges->slot = mot_alloc(merges->slots * sizeof(*merges->slot));
    for (size_t i = 0; i < merges->slots; i++) { merges->slot[i].pair = UINT64_MAX; }
}

static size_t merge_slot(const struct mot_merges *merges, uint64_t pair)
{
    size_t i = hash_pair(pair) & (merges->slots - 1);
    while (merges->slot[i].pair != UINT64_MAX && merges->slot[i].pair != pair) {
        i = (i + 1) & (merges->slots - 1);
    }
    return i;
}

void mot_merges_add(struct mot_merges *merges, int32_t left, int32_t right, int32_t rank,
                    int32_t id)
{
    const uint64_t pair = (uint64_t)left << 32 | (uint32_t)right;
    struct mot_merge *merge = &merges->slot[merge_slot(merges, pair)];
    merges->n += merge->pair == UINT64_MAX;
    MOT_ASSERT(2 * merges->n <= merges->slots);
    *merge = (struct mot_merge){.pair = pair, .rank = rank, .id = id};
}

const struct mot_merge *mot_merges_find(const struct mot_merges *merges, int32_t left,
                                        int32_t right)
{
    const uint64_t pair = (uint64_t)left << 32 | (uint32_t)right;
    const struct mot_merge *merge = &merges->slot[merge_slot(merges, pair)];
    return merge->pair == pair ? merge : NULL;
}
