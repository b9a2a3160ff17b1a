/* The recorder's rings.  See trace_record.h. */
#include "error.h"
#include "trace_record.h"
#include <pthread.h>
#include <starpu.h>
#include <stdlib.h>
#include <string.h>

void (*mot_trace_make_room)(void);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the list's growth */
static struct mot_trace_ring *_Atomic rings;
static pthread_key_t key; /* tells when a thread ends */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static _Thread_local struct mot_trace_ring *own;

static void thread_ends(void *argument)
{
    struct mot_trace_ring *ring = argument;
    atomic_store_explicit(&ring->owned, 0, memory_order_release);
}

static void make_key(void)
{
    MOT_ASSERT(pthread_key_create(&key, thread_ends) == 0);
}

/* That of a thread which has ended, or a new one. */
static struct mot_trace_ring *take_ring(void)
{
    struct mot_trace_ring *ring;
    pthread_once(&key_once, make_key);
    pthread_mutex_lock(&mutex);
    for (ring = atomic_load(&rings); ring; ring = ring->next) {
        if (atomic_load_explicit(&ring->owned, memory_order_acquire) == 0) { break; }
    }
    if (ring) {
        atomic_store(&ring->owned, 1);
    } else {
        ring = mot_alloc_aligned(sizeof(*ring));
        memset(ring, 0, offsetof(struct mot_trace_ring, bytes));
        atomic_store(&ring->owned, 1);
        ring->next = atomic_load(&rings);
        atomic_store_explicit(&rings, ring, memory_order_release);
    }
    pthread_mutex_unlock(&mutex);
    pthread_setspecific(key, ring);
    own = ring;
    return ring;
}

/* Bytes the producer may write now. */
static uint64_t room(struct mot_trace_ring *ring)
{
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    return MOT_TRACE_RING_BYTES - (head - ring->tail_seen);
}

struct mot_trace_ring *mot_trace_ring_reserve(uint32_t slots)
{
    struct mot_trace_ring *ring = own ? own : take_ring();
    const uint64_t bytes = (uint64_t)slots * MOT_TRACE_SLOT_BYTES;
    MOT_ASSERT(bytes <= MOT_TRACE_RING_BYTES / 2);
    if (room(ring) >= bytes) { return ring; }
    ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (room(ring) >= bytes) { return ring; }
    const double start_us = starpu_timing_now();
    while (room(ring) < bytes) {
        mot_trace_make_room();
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    }
    atomic_fetch_add(&ring->waits, 1);
    atomic_store(&ring->waited_us, atomic_load(&ring->waited_us) + starpu_timing_now() - start_us);
    return ring;
}

void mot_trace_ring_put(struct mot_trace_ring *ring, size_t at, const void *bytes, size_t n)
{
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    const size_t start = (size_t)((head + at) % MOT_TRACE_RING_BYTES);
    const size_t first = n < MOT_TRACE_RING_BYTES - start ? n : MOT_TRACE_RING_BYTES - start;
    memcpy(ring->bytes + start, bytes, first);
    if (n > first) { memcpy(ring->bytes, (const char *)bytes + first, n - first); }
}

void mot_trace_ring_commit(struct mot_trace_ring *ring, uint32_t slots)
{
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + (uint64_t)slots * MOT_TRACE_SLOT_BYTES,
                          memory_order_release);
}

struct mot_trace_ring *mot_trace_rings(void)
{
    return atomic_load_explicit(&rings, memory_order_acquire);
}

const struct mot_trace_header *mot_trace_ring_next(struct mot_trace_ring *ring)
{
    const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (atomic_load_explicit(&ring->head, memory_order_acquire) == tail) { return NULL; }
    return (const void *)(ring->bytes + tail % MOT_TRACE_RING_BYTES);
}

void mot_trace_ring_get(const struct mot_trace_ring *ring, size_t at, void *bytes, size_t n)
{
    const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    const size_t start = (size_t)((tail + at) % MOT_TRACE_RING_BYTES);
    const size_t first = n < MOT_TRACE_RING_BYTES - start ? n : MOT_TRACE_RING_BYTES - start;
    memcpy(bytes, ring->bytes + start, first);
    if (n > first) { memcpy((char *)bytes + first, ring->bytes, n - first); }
}

void mot_trace_ring_drop(struct mot_trace_ring *ring)
{
    const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    const struct mot_trace_header *header =
        (const void *)(ring->bytes + tail % MOT_TRACE_RING_BYTES);
    atomic_store_explicit(&ring->tail, tail + (uint64_t)header->slots * MOT_TRACE_SLOT_BYTES,
                          memory_order_release);
}

uint64_t mot_trace_rings_fullest(void)
{
    uint64_t fullest = 0;
    for (struct mot_trace_ring *r = mot_trace_rings(); r; r = r->next) {
        const uint64_t bytes = atomic_load_explicit(&r->head, memory_order_relaxed)
                               - atomic_load_explicit(&r->tail, memory_order_relaxed);
        fullest = bytes > fullest ? bytes : fullest;
    }
    return fullest;
}
