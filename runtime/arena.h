/* Scratch memory of one worker: taken piece by piece, given back all at once.  Grows by chunks that
 * stay valid until the reset that covers them; after a few tasks nothing is allocated any more.
 * Not thread-safe: an arena belongs to one worker. */
#ifndef MOT_ARENA_H
#define MOT_ARENA_H
#include <stddef.h>

struct mot_arena;
struct mot_arena *mot_arena_create(void);
void mot_arena_destroy(struct mot_arena *arena); /* NULL is allowed */

/* bytes of uninitialised memory, aligned to 64; never NULL. */
void *mot_arena_take(struct mot_arena *arena, size_t bytes);
/* A mark of what is taken now, and the return to it: all taken since is free again. */
size_t mot_arena_mark(const struct mot_arena *arena);
void mot_arena_reset(struct mot_arena *arena, size_t mark);
size_t mot_arena_peak_bytes(const struct mot_arena *arena);
#endif
