/* arena: a list of chunks, filled in order.  See arena.h. */
#include "arena.h"
#include "error.h"
#include <stdlib.h>

enum { CHUNKS_MAX = 64, ALIGNMENT = 64 };
static const size_t chunk_bytes_min = (size_t)1 << 20;

struct chunk {
    char *memory;
    size_t bytes;
    size_t start; /* position of its first byte in the arena's running count */
};

/* Positions count bytes over all chunks, so a mark is one number. */
struct mot_arena {
    struct chunk chunk[CHUNKS_MAX];
    int n_chunks;
    int current;
    size_t used; /* within the current chunk */
    size_t peak;
};

struct mot_arena *mot_arena_create(void)
{
    return mot_alloc_zeroed(1, sizeof(struct mot_arena));
}

void mot_arena_destroy(struct mot_arena *arena)
{
    if (arena == NULL) { return; }
    for (int i = 0; i < arena->n_chunks; i++) { free(arena->chunk[i].memory); }
    free(arena);
}

size_t mot_arena_mark(const struct mot_arena *arena)
{
    return arena->n_chunks == 0 ? 0 : arena->chunk[arena->current].start + arena->used;
}

/* Makes room for bytes in the chunk after the current one: an empty chunk that is too small is
 * replaced, so sizes settle after a few tasks. */
static void next_chunk(struct mot_arena *arena, size_t bytes)
{
    const int i = arena->n_chunks == 0 ? 0 : arena->current + 1;
    MOT_ASSERT(i < CHUNKS_MAX);
    size_t start = 0;
    if (i > 0) { start = arena->chunk[i - 1].start + arena->chunk[i - 1].bytes; }
    if (i < arena->n_chunks && arena->chunk[i].bytes < bytes) {
        for (int j = i; j < arena->n_chunks; j++) { free(arena->chunk[j].memory); }
        arena->n_chunks = i;
    }
    if (i == arena->n_chunks) {
        size_t size = start > chunk_bytes_min ? start : chunk_bytes_min; /* doubles the total */
        if (size > ((size_t)256 << 20)) { size = (size_t)256 << 20; }
        if (size < bytes) { size = bytes; }
        arena->chunk[i] = (struct chunk){.memory = mot_alloc_aligned(size), .bytes = size};
        arena->n_chunks = i + 1;
    }
    arena->chunk[i].start = start;
    arena->current = i;
    arena->used = 0;
}

void *mot_arena_take(struct mot_arena *arena, size_t bytes)
{
    MOT_ASSERT(bytes < (size_t)1 << 48);
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (arena->n_chunks == 0 || arena->chunk[arena->current].bytes - arena->used < bytes) {
        next_chunk(arena, bytes);
    }
    void *memory = arena->chunk[arena->current].memory + arena->used;
    arena->used += bytes;
    const size_t total = mot_arena_mark(arena);
    if (total > arena->peak) { arena->peak = total; }
    return memory;
}

void mot_arena_reset(struct mot_arena *arena, size_t mark)
{
    MOT_ASSERT(mark <= mot_arena_mark(arena));
    if (arena->n_chunks == 0) { return; }
    while (arena->chunk[arena->current].start > mark) { arena->current--; }
    arena->used = mark - arena->chunk[arena->current].start;
}

size_t mot_arena_peak_bytes(const struct mot_arena *arena)
{
    return arena->peak;
}
