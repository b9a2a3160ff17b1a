/* The inside of the recorder's writer, for trace_write*.c alone. */
#ifndef MOT_TRACE_WRITE_PARTS_H
#define MOT_TRACE_WRITE_PARTS_H
#include "trace_text.h"
#include "trace_write.h"
#include <stdlib.h>
#include <zlib.h>

enum {
    PID_SCHEDULER = 1000,
    PID_LINKS = 1001,
    TID_DECISIONS = 1000, /* thread numbers are unique over processes: some viewers need that */
    TID_LINKS = 2000,
    FLOWS_MAX = 16,        /* arrows into one task */
    COUNTERS_GAP_US = 1000 /* no more than a counter event each */
};

/* A content's producer, for arrows. */
struct mot_trace_producer {
    uint32_t version, task;
    int worker;
    double start_us, end_us;
};
struct mot_trace_transfer_open {
    struct mot_trace_transfer_message m;
    struct mot_trace_transfer_open *next;
};
/* What the writer knows of a datum. */
struct mot_trace_datum {
    char name[MOT_TRACE_NAME_BYTES];
    struct mot_trace_producer producers[2]; /* the newest versions, by parity */
    struct mot_trace_transfer_open *under_way;
};

struct mot_trace_writer {
    int fd, failed; /* failed: an errno */
    char *path;
    const char *(*stage_name)(int stage);
    struct text text; /* lines not yet compressed */
    z_stream zip;
    unsigned char *packed;
    size_t packed_bytes;
    long long member_ms; /* when the last one was written */
    struct mot_trace_datum *data;
    size_t n_data;
    struct mot_trace_access_message *accesses;
    size_t accesses_capacity;
    int has_started;
    uint64_t next_id, n_tasks, n_messages, n_transfers, file_bytes;
    double counters_us, last_us;
    int waiting, ready;
    uint64_t used[STARPU_MAXNODES];
    uint8_t links[STARPU_MAXNODES][STARPU_MAXNODES]; /* named already */
    int nodes[STARPU_NMAXWORKERS];                   /* of each worker */
};

/* trace_write.c: events that name things, up to their args' first value; counters. */
void mot_trace_put_metadata(struct text *t, const char *name, int pid, int tid);
void mot_trace_put_thread(struct text *t, int pid, int tid, const char *name);
void mot_trace_put_counter(struct text *t, const char *name, int pid, double ts_us);
void mot_trace_put_memory(struct mot_trace_writer *w, unsigned node, uint64_t bytes, double ts_us);
void mot_trace_put_queues(struct mot_trace_writer *w, int waiting, int ready, double ts_us);

/* trace_write_data.c */
struct mot_trace_datum *mot_trace_datum_of(struct mot_trace_writer *w, uint32_t number);
void mot_trace_write_data(struct mot_trace_writer *w, const struct mot_trace_data_message *m);
void mot_trace_write_transfer(struct mot_trace_writer *w,
                              const struct mot_trace_transfer_message *m);
/* A task on that node began then, with this datum: its transfers have arrived. */
void mot_trace_end_transfers(struct mot_trace_writer *w, uint32_t number, int node,
                             double start_us);
/* Those whose end nobody has told. */
void mot_trace_end_all_transfers(struct mot_trace_writer *w);

/* trace_write_task.c */
void mot_trace_write_task(struct mot_trace_writer *w, const struct mot_trace_ring *ring);
void mot_trace_write_decision(struct mot_trace_writer *w, const struct mot_trace_ring *ring);

static inline void put_field(struct text *t, const char *name, double value)
{
    put(t, ",\"");
    put(t, name);
    put(t, "\":");
    put_number(t, value);
}

static inline void put_time(struct text *t, const char *name, double us)
{
    put(t, ",\"");
    put(t, name);
    put(t, "\":");
    put_us(t, us);
}
#endif
