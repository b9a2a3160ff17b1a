/* Added tokens ("<|im_end|>") are looked for in the text before anything else: the leftmost match,
 * and of those the longest, as the Aho-Corasick automaton of Hugging Face's tokenizers does
 * (MatchKind::LeftmostLongest).  A plain trie walked from each byte is enough: its depth is the
 * longest token, and most bytes begin none. */
#include "error.h"
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

void mot_trie_create(struct mot_trie *trie)
{
    memset(trie, 0, sizeof(*trie));
    for (int b = 0; b < 256; b++) { trie->root[b] = -1; }
}

void mot_trie_free(struct mot_trie *trie)
{
    free(trie->node);
}

static int32_t new_node(struct mot_trie *trie, unsigned char byte)
{
    if (trie->n == trie->capacity) {
        trie->capacity = 2 * trie->capacity + 256;
        trie->node = mot_realloc(trie->node, (size_t)trie->capacity * sizeof(*trie->node));
    }
    trie->node[trie->n] = (struct mot_trie_node){-1, -1, -1, byte};
    return trie->n++;
}

/* The node for byte below node `at` (-1: at the root), or -1. */
static int32_t step(const struct mot_trie *trie, int32_t at, unsigned char byte)
{
    if (at < 0) { return trie->root[byte]; }
    int32_t child = trie->node[at].child;
    while (child >= 0 && trie->node[child].byte != byte) { child = trie->node[child].sibling; }
    return child;
}

void mot_trie_add(struct mot_trie *trie, const char *bytes, size_t n, int32_t token)
{
    MOT_ASSERT(n > 0);
    int32_t at = -1;
    for (size_t i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)bytes[i];
        int32_t below = step(trie, at, byte);
        if (below < 0) {
            below = new_node(trie, byte);
            if (at < 0) {
                trie->root[byte] = below;
            } else {
                trie->node[below].sibling = trie->node[at].child;
                trie->node[at].child = below;
            }
        }
        at = below;
    }
    trie->node[at].token = token;
}

int32_t mot_trie_next(const struct mot_trie *trie, const char *text, size_t n, size_t from,
                      size_t *start, size_t *end)
{
    for (size_t i = from; trie->n > 0 && i < n; i++) {
        int32_t at = -1, found = -1;
        for (size_t j = i; j < n && (at = step(trie, at, (unsigned char)text[j])) >= 0; j++) {
            if (trie->node[at].token >= 0) {
                found = trie->node[at].token;
                *end = j + 1;
            }
        }
        if (found >= 0) {
            *start = i;
            return found;
        }
    }
    return -1;
}

int32_t mot_trie_find(const struct mot_trie *trie, const char *bytes, size_t n)
{
    int32_t at = -1;
    for (size_t i = 0; i < n; i++) {
        at = step(trie, at, (unsigned char)bytes[i]);
        if (at < 0) { return -1; }
    }
    return n > 0 ? trie->node[at].token : -1;
}
