/* plan_exact_memo: the states that the exact solver has been in, by the set of tasks done; those of
 * one set are a list of vectors none of which is needless beside the others.  See plan_exact.c. */
#include "error.h"
#include "plan_exact_internal.h"
#include <stdlib.h>
#include <string.h>

enum {
    LIST_MAX = 256
}; /* vectors compared at most; what lies beyond is found again by searching */

struct record {
    uint64_t set;
    uint32_t next;  /* + 1; 0: the end */
    uint32_t items; /* doubles that follow */
    double item[];
};

struct exact_memo {
    uint32_t *bucket; /* (1 << bits) index + 1 of a record, in units of 8 bytes */
    int bits;
    uint64_t *arena;
    size_t used, capacity; /* in units of 8 bytes */
};

struct exact_memo *exact_memo_create(double bytes, int items)
{
    struct exact_memo *memo = mot_alloc_zeroed(1, sizeof(*memo));
    const size_t record_bytes = sizeof(struct record) + 8 * (size_t)items;
    memo->capacity = (size_t)bytes / 8;
    if (memo->capacity > UINT32_MAX - 1) { memo->capacity = UINT32_MAX - 1; }
    memo->arena = mot_alloc(8 * memo->capacity);
    memo->bits = 10;
    while (memo->bits < 22 && ((size_t)1 << memo->bits) < 8 * memo->capacity / record_bytes) {
        memo->bits++;
    }
    memo->bucket = mot_alloc_zeroed((size_t)1 << memo->bits, sizeof(*memo->bucket));
    return memo;
}

void exact_memo_destroy(struct exact_memo *memo)
{
    free(memo->arena);
    free(memo->bucket);
    free(memo);
}

static int below(const double *low, const double *high, int items)
{
    for (int i = 0; i < items; i++) {
        if (low[i] > high[i]) { return 0; }
    }
    return 1;
}

int exact_memo_covers(struct exact_memo *memo, uint64_t set, int items, const double *low,
                      const double *high)
{
    const uint64_t hash = set * 0x9e3779b97f4a7c15U; /* Fibonacci hashing */
    uint32_t *link = &memo->bucket[hash >> (64 - memo->bits)];
    struct record *place = NULL; /* of a state that the new one makes needless */
    int compared = 0;
    while (*link && compared < LIST_MAX) {
        struct record *record = (struct record *)(memo->arena + (*link - 1));
        if (record->set == set) {
            compared++;
            if (below(record->item, high, items)) { return 1; }
            if (!place && below(low, record->item, items)) { place = record; }
        }
        link = &record->next;
    }
    const size_t units = (sizeof(struct record) + 7) / 8 + (size_t)items;
    if (!place) {
        if (compared == LIST_MAX || memo->used + units > memo->capacity) { return 0; }
        place = (struct record *)(memo->arena + memo->used);
        place->set = set;
        place->items = (uint32_t)items;
        place->next = 0;
        *link = (uint32_t)memo->used + 1;
        memo->used += units;
    }
    memcpy(place->item, low, (size_t)items * sizeof(*low));
    return 0;
}
