/* Byte-pair encoding of one word (Sennrich et al. 2016, arXiv:1508.07909): start from bytes, and as
 * long as a neighbouring pair is in the merge table, join the one of lowest rank, the leftmost of
 * equals.  Symbols are a linked list and candidate pairs a binary heap, so a word of a megabyte
 * costs O(n log n); entries whose symbols have changed since are dropped when they surface. */
#include "error.h"
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

struct mot_bpe_symbol {
    int32_t id;         /* -1: joined to the one before */
    int32_t prev, next; /* indices; -1: none */
};

struct mot_bpe_entry {
    int32_t rank, at;        /* at: index of the left symbol */
    int32_t left, right, id; /* the pair as it was, and what it becomes */
};

void mot_id_list_push(struct mot_id_list *list, int32_t id)
{
    if (list->n == list->capacity) {
        list->capacity = 2 * list->capacity + 64;
        list->id = mot_realloc(list->id, list->capacity * sizeof(*list->id));
    }
    list->id[list->n++] = id;
}

void mot_bpe_scratch_free(struct mot_bpe_scratch *scratch)
{
    free(scratch->symbol);
    free(scratch->heap);
}

static int is_before(const struct mot_bpe_entry *a, const struct mot_bpe_entry *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(struct mot_bpe_scratch *s, const struct mot_bpe_entry *entry)
{
    if (s->heap_n == s->heap_capacity) {
        s->heap_capacity = 2 * s->heap_capacity + 64;
        s->heap = mot_realloc(s->heap, s->heap_capacity * sizeof(*s->heap));
    }
    size_t i = s->heap_n++;
    for (size_t up; i > 0 && is_before(entry, &s->heap[up = (i - 1) / 2]); i = up) {
        s->heap[i] = s->heap[up];
    }
    s->heap[i] = *entry;
}

static struct mot_bpe_entry heap_pop(struct mot_bpe_scratch *s)
{
    const struct mot_bpe_entry top = s->heap[0], last = s->heap[--s->heap_n];
    size_t i = 0;
    for (size_t down; (down = 2 * i + 1) < s->heap_n; i = down) {
        down += down + 1 < s->heap_n && is_before(&s->heap[down + 1], &s->heap[down]);
        if (!is_before(&s->heap[down], &last)) { break; }
        s->heap[i] = s->heap[down];
    }
    s->heap[i] = last;
    return top;
}

/* Puts the pair that begins at symbol `at` on the heap, if it can be merged. */
static void consider(const struct mot_tokenizer *tokenizer, struct mot_bpe_scratch *s, int32_t at)
{
    if (at < 0 || s->symbol[at].next < 0) { return; }
    const int32_t left = s->symbol[at].id, right = s->symbol[s->symbol[at].next].id;
    const struct mot_merge *merge = mot_merges_find(&tokenizer->merges, left, right);
    if (merge) { heap_push(s, &(struct mot_bpe_entry){merge->rank, at, left, right, merge->id}); }
}

/* The word's bytes as a list of symbols; returns how many.  Bytes without a token are left out. */
static int32_t start_symbols(const struct mot_tokenizer *tokenizer, struct mot_bpe_scratch *s,
                             const char *word, size_t n)
{
    if (n > s->symbols) {
        free(s->symbol);
        s->symbols = n < 64 ? 64 : 2 * n;
        s->symbol = mot_alloc(s->symbols * sizeof(*s->symbol));
    }
    int32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t id = tokenizer->vocab.byte_id[(unsigned char)word[i]];
        if (id < 0) { id = tokenizer->unknown; }
        if (id < 0) { continue; }
        s->symbol[count] = (struct mot_bpe_symbol){id, count - 1, count + 1};
        count++;
    }
    if (count > 0) { s->symbol[count - 1].next = -1; }
    return count;
}

void mot_bpe_word(const struct mot_tokenizer *tokenizer, struct mot_bpe_scratch *s,
                  const char *word, size_t n, struct mot_id_list *ids)
{
    MOT_ASSERT(n <= MOT_TOKENIZER_MAX_TEXT * 3);
    if (tokenizer->ignore_merges) {
        const int32_t whole = mot_vocab_find(&tokenizer->vocab, word, n);
        if (whole >= 0) {
            mot_id_list_push(ids, whole);
            return;
        }
    }
    const int32_t count = start_symbols(tokenizer, s, word, n);
    s->heap_n = 0;
    for (int32_t i = 0; i + 1 < count; i++) { consider(tokenizer, s, i); }
    while (s->heap_n > 0) {
        const struct mot_bpe_entry entry = heap_pop(s);
        struct mot_bpe_symbol *left = &s->symbol[entry.at];
        if (left->id != entry.left || left->next < 0) { continue; }
        struct mot_bpe_symbol *right = &s->symbol[left->next];
        if (right->id != entry.right) { continue; }
        left->id = entry.id;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0) { s->symbol[left->next].prev = entry.at; }
        consider(tokenizer, s, left->prev);
        consider(tokenizer, s, entry.at);
    }
    for (int32_t i = count > 0 ? 0 : -1; i >= 0; i = s->symbol[i].next) {
        mot_id_list_push(ids, s->symbol[i].id);
    }
}
