/* What threads tell the recorder's writer: binary messages in rings, one ring per thread that has
 * something to tell, each with one producer (its thread) and one consumer (the writer).  Private to
 * the recorder (trace*.c).
 *
 * A message is a header and what belongs to its kind, in whole slots of 64 bytes, so that a header
 * never wraps round the ring's end.  Writing one takes no lock and no allocation, but for a
 * thread's first, which makes its ring.  A full ring makes its thread wait until the writer has
 * made room (under SimGrid: empty all rings itself); waits are counted and the file says how many
 * there were and how long they took.  Nothing is ever dropped. */
#ifndef MOT_TRACE_RECORD_H
#define MOT_TRACE_RECORD_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { MOT_TRACE_SLOT_BYTES = 64, MOT_TRACE_RING_BYTES = 4 << 20 };

enum mot_trace_kind {
    MOT_TRACE_TASK,     /* task message, then the name where it is copied, then its accesses */
    MOT_TRACE_DATA,     /* data message: a datum seen for the first time, or named */
    MOT_TRACE_TRANSFER, /* transfer message */
    MOT_TRACE_VALUE,    /* value message */
    MOT_TRACE_DECISION  /* decision message, then its candidates */
};

/* First in every message.  Times are starpu_timing_now(), microseconds. */
struct mot_trace_header {
    uint32_t kind, slots; /* slots: of the whole message */
    double time_us;       /* of what is told; messages of one ring are nearly in this order */
};

struct mot_trace_task_message {
    struct mot_trace_header header; /* time: the body's end */
    uint32_t number, by;            /* by: the task whose callback or body submitted it; 0: none */
    const char *name;               /* static storage; unused where name_bytes > 0 */
    double submit_us, ready_us, popped_us, start_us;
    int32_t has_hint, stage, step, group, version, rows, tokens;
    int32_t worker;
    double flop, bytes;
    int32_t waiting, ready; /* tasks submitted and not ready, ready and not started, at the end */
    uint32_t n_accesses, name_bytes;
    uint64_t used_bytes; /* memory in use on the worker's node */
};

/* mode_bytes: enum mot_trace_mode << 56 | bytes. */
struct mot_trace_access_message {
    uint32_t data, version;
    uint64_t mode_bytes;
};
#define MOT_TRACE_BYTES_MASK ((UINT64_C(1) << 56) - 1)

enum { MOT_TRACE_NAME_BYTES = 32 };
struct mot_trace_data_message {
    struct mot_trace_header header;
    uint64_t bytes;
    uint32_t data, unused;
    char name[MOT_TRACE_NAME_BYTES]; /* empty: not named */
};

struct mot_trace_transfer_message {
    struct mot_trace_header header; /* time: the submission */
    double end_us;                  /* 0: still under way when the submission returned */
    uint64_t bytes;
    uint32_t data; /* 0: not known */
    int16_t from, to;
};

struct mot_trace_value_message {
    struct mot_trace_header header;
    const char *name; /* static storage */
    double value;
};

struct mot_trace_decision_message {
    struct mot_trace_header header;
    const char *veto; /* static storage; NULL: none */
    uint32_t task;    /* number; 0: not a recorded one */
    int32_t worker, n_candidates;
};

/* ---- Rings ---------------------------------------------------------------------------------- */

struct mot_trace_ring {
    _Alignas(64) _Atomic uint64_t head; /* bytes ever written; the producer's */
    uint64_t tail_seen;                 /* the producer's copy of tail */
    _Atomic uint64_t waits;             /* how often its thread found it full, */
    _Atomic double waited_us;           /* and how long that took */
    atomic_int owned;                   /* 0: its thread has ended, another may take it over */
    _Alignas(64) _Atomic uint64_t tail; /* bytes ever read; the consumer's */
    struct mot_trace_ring *next;        /* in the list of all */
    _Alignas(64) unsigned char bytes[MOT_TRACE_RING_BYTES];
};

/* The calling thread's ring with room for so many slots, waiting for the writer where it is full;
 * messages larger than half a ring are the programmer's error. */
struct mot_trace_ring *mot_trace_ring_reserve(uint32_t slots);
/* Bytes of the message being written, from offset at on. */
void mot_trace_ring_put(struct mot_trace_ring *ring, size_t at, const void *bytes, size_t n);
/* Hands the message to the writer. */
void mot_trace_ring_commit(struct mot_trace_ring *ring, uint32_t slots);

/* For the writer: all rings (a list that only grows, to as many as there were threads at once), the
 * next message of one (NULL: none; valid until dropped), more of its bytes, and giving back its
 * room. */
struct mot_trace_ring *mot_trace_rings(void);
const struct mot_trace_header *mot_trace_ring_next(struct mot_trace_ring *ring);
void mot_trace_ring_get(const struct mot_trace_ring *ring, size_t at, void *bytes, size_t n);
void mot_trace_ring_drop(struct mot_trace_ring *ring);
/* Bytes waiting in the fullest ring. */
uint64_t mot_trace_rings_fullest(void);
/* Called by a thread whose ring is full, again and again until there is room: waits a moment, or
 * empties the rings.  Set once, before recording begins. */
extern void (*mot_trace_make_room)(void);

static inline uint32_t mot_trace_slots(size_t bytes)
{
    return (uint32_t)((bytes + MOT_TRACE_SLOT_BYTES - 1) / MOT_TRACE_SLOT_BYTES);
}
#endif
