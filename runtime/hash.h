/* FNV-1a, 64 bits: a number for bytes, the same on every machine.  Not for adversaries. */
#ifndef MOT_HASH_H
#define MOT_HASH_H
#include <stddef.h>
#include <stdint.h>

#define MOT_HASH_START UINT64_C(0xcbf29ce484222325)

/* The hash of what gave `hash` so far (MOT_HASH_START: nothing), then n bytes more. */
static inline uint64_t mot_hash(uint64_t hash, const void *bytes, size_t n)
{
    for (const unsigned char *b = bytes, *end = b + n; b < end; b++) {
        hash = (hash ^ *b) * UINT64_C(0x100000001b3);
    }
    return hash;
}
#endif
