/* Where the keys and values of attention lie, and how a block of them is laid out for the tiles of
 * attention_tiles.h.  Shared by the forward and the backward. */
#ifndef MOT_ATTENTION_KEYS_H
#define MOT_ATTENTION_KEYS_H
#include "attention_tiles.h"
#include "kernels.h"
#include <string.h>

/* The sizes of one call.  G query heads read each key head. */
struct heads {
    int layer, H, K, G, D, Dp;
    size_t S; /* width of a q,k,v row */
    float scale;
};

struct heads heads_of(const struct mot_model_shape *shape, int layer);

enum { OF_KEY, OF_VALUE };

/* The D numbers of one position in a cache (or in its gradient). */
static inline float *kv_row(const struct heads *h, float *data, const struct mot_kv *kv, int which,
                            int head, int position)
{
    const size_t plane = ((size_t)h->layer * 2 + (size_t)which) * (size_t)h->K + (size_t)head;
    const size_t slot = (size_t)(position - kv->first_position);
    return data + (plane * (size_t)kv->capacity + slot) * (size_t)h->D;
}

/* The cache of a segment that holds a position. */
static inline const struct mot_kv *kv_of(const struct mot_segment *s, int position)
{
    return s->prefix.data && position < s->own.first_position ? &s->prefix : &s->own;
}

/* n keys (or values) from position start on as columns (D, MOT_KEYS); missing ones are zero.  They
 * lie in one cache. */
void keys_to_columns(const struct heads *h, const struct mot_kv *kv, int which, int head, int start,
                     int first, int n, float *columns);
/* The same as rows (MOT_KEYS, Dp), padded with zeros. */
void keys_to_rows(const struct heads *h, const struct mot_kv *kv, int which, int head, int start,
                  int first, int n, float *rows);
/* MOT_KEYS columns back to n rows of D numbers, which are added to. */
void columns_add_to_rows(int D, int n, const float *columns, float *rows);
#endif
