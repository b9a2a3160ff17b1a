/* The recording as Chrome trace events.  See trace_write.h.
 *
 *   process = memory node, thread = worker; X: a task's body, all known of it in args
 *   process "links": b and e, a transfer; its end is exact, or "at most": when the first task that
 *     reads it on that node began, or unknown: nobody there has read it
 *   s and f: from the task that made a content to one that reads it
 *   process "scheduler": counters of tasks waiting and ready, values of the program (staleness);
 *     i: a decision of the policy
 *   C in a node's process: bytes of memory in use
 *   M of names that viewers do not know: motley_start (policy, workers, nodes), motley_data (a
 *     datum's name), motley_end (totals; a file without it ends early)
 *
 * Every gzip member is whole lines, at most about half a second of them, so that a killed run's
 * file opens up to its last half second. */
#include "file.h"
#include "trace_write_parts.h"
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MEMBER_BYTES = 512 << 10, MEMBER_MS = 500 };

static long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int mot_trace_writer_open(const char *path, const char *(*stage_name)(int stage),
                          struct mot_trace_writer **writer)
{
    const int fd = mot_file_open_output(path, 0);
    if (fd < 0) { return fd; }
    struct mot_trace_writer *w = mot_alloc_zeroed(1, sizeof(*w));
    w->fd = fd;
    w->path = mot_strdup(path);
    w->stage_name = stage_name;
    w->member_ms = now_ms();
    const int gzip = 15 + 16; /* zlib's window bits for a gzip header */
    MOT_ASSERT(deflateInit2(&w->zip, Z_BEST_SPEED, Z_DEFLATED, gzip, 9, Z_DEFAULT_STRATEGY)
               == Z_OK);
    *writer = w;
    return 0;
}

/* ---- Members -------------------------------------------------------------------------------- */

static void write_all(struct mot_trace_writer *w, const unsigned char *bytes, size_t n)
{
    while (n > 0 && !w->failed) {
        const ssize_t written = write(w->fd, bytes, n);
        if (written < 0 && errno == EINTR) { continue; }
        if (written <= 0) {
            w->failed = written < 0 ? errno : EIO;
            mot_fail(w->failed, "%s: cannot write: %s; the recording ends here", w->path,
                     strerror(w->failed));
            return;
        }
        bytes += written;
        n -= (size_t)written;
        w->file_bytes += (uint64_t)written;
    }
}

/* The lines gathered so far become a gzip member of their own. */
static void end_member(struct mot_trace_writer *w)
{
    w->member_ms = now_ms();
    if (w->text.n == 0) { return; }
    const size_t bound = deflateBound(&w->zip, w->text.n);
    if (bound > w->packed_bytes) {
        w->packed_bytes = bound;
        w->packed = mot_realloc(w->packed, bound);
    }
    w->zip.next_in = (unsigned char *)w->text.at;
    w->zip.avail_in = (unsigned)w->text.n;
    w->zip.next_out = w->packed;
    w->zip.avail_out = (unsigned)bound;
    MOT_ASSERT(deflate(&w->zip, Z_FINISH) == Z_STREAM_END);
    write_all(w, w->packed, bound - w->zip.avail_out);
    MOT_ASSERT(deflateReset(&w->zip) == Z_OK);
    w->text.n = 0;
}

/* ---- Events that name things ---------------------------------------------------------------- */

/* An "M" event up to its args' first value. */
void mot_trace_put_metadata(struct text *t, const char *name, int pid, int tid)
{
    put(t, "{\"ph\":\"M\",\"name\":");
    put_text(t, name);
    put(t, ",\"pid\":");
    put_int(t, pid);
    put(t, ",\"tid\":");
    put_int(t, tid);
    put(t, ",\"args\":{");
}

static void put_process(struct text *t, int pid, const char *name, int order)
{
    mot_trace_put_metadata(t, "process_name", pid, 0);
    put(t, "\"name\":");
    put_text(t, name);
    put(t, "}},\n");
    mot_trace_put_metadata(t, "process_sort_index", pid, 0);
    put(t, "\"sort_index\":");
    put_int(t, order);
    put(t, "}},\n");
}

void mot_trace_put_thread(struct text *t, int pid, int tid, const char *name)
{
    mot_trace_put_metadata(t, "thread_name", pid, tid);
    put(t, "\"name\":");
    put_text(t, name);
    put(t, "}},\n");
    mot_trace_put_metadata(t, "thread_sort_index", pid, tid);
    put(t, "\"sort_index\":");
    put_int(t, tid);
    put(t, "}},\n");
}

static const char *kind_of(int worker)
{
    switch (starpu_worker_get_type(worker)) {
    case STARPU_CPU_WORKER:
        return "CPU";
    case STARPU_CUDA_WORKER:
        return "CUDA";
    case STARPU_HIP_WORKER:
        return "HIP";
    case STARPU_OPENCL_WORKER:
        return "OpenCL";
    default:
        return "other";
    }
}

static void put_workers(struct mot_trace_writer *w, struct text *t)
{
    put(t, ",\"workers\":[");
    for (unsigned i = 0; i < starpu_worker_get_count(); i++) {
        char name[128];
        starpu_worker_get_name((int)i, name, sizeof(name));
        w->nodes[i] = (int)starpu_worker_get_memory_node(i);
        put(t, i ? ",{\"name\":" : "{\"name\":");
        put_text(t, name);
        put(t, ",\"kind\":");
        put_text(t, kind_of((int)i));
        put(t, ",\"device\":");
        put_int(t, starpu_worker_get_devid((int)i));
        put(t, ",\"node\":");
        put_int(t, w->nodes[i]);
        put(t, "}");
    }
    put(t, "]");
}

static void put_nodes(struct text *t)
{
    put(t, ",\"nodes\":[");
    for (unsigned node = 0; node < starpu_memory_nodes_get_count(); node++) {
        char name[64];
        starpu_memory_node_get_name(node, name, sizeof(name));
        put(t, node ? ",{\"name\":" : "{\"name\":");
        put_text(t, name);
        put(t, ",\"bytes\":");
        put_int(t, starpu_memory_get_total(node)); /* -1: no limit known */
        put(t, "}");
    }
    put(t, "]");
}

/* Before the first event: by then workers and nodes have their names. */
static void start(struct mot_trace_writer *w)
{
    struct text *t = &w->text;
    w->has_started = 1;
    put(t, "[\n");
    mot_trace_put_metadata(t, "motley_start", 0, 0);
    put(t, "\"version\":");
    put_text(t, MOT_VERSION);
    put(t, ",\"policy\":");
    put_text(t, starpu_sched_get_sched_policy_in_ctx(0)->policy_name);
    put(t, ",\"simulated\":");
#if defined(STARPU_SIMGRID)
    put(t, "true");
#else
    put(t, "false");
#endif
    put_workers(w, t);
    put_nodes(t);
    put(t, "}},\n");
    for (unsigned node = 0; node < starpu_memory_nodes_get_count(); node++) {
        char name[64];
        starpu_memory_node_get_name(node, name, sizeof(name));
        put_process(t, (int)node + 1, name, (int)node);
    }
    for (unsigned i = 0; i < starpu_worker_get_count(); i++) {
        char name[128];
        starpu_worker_get_name((int)i, name, sizeof(name));
        mot_trace_put_thread(t, w->nodes[i] + 1, (int)i + 1, name);
    }
    put_process(t, PID_SCHEDULER, "scheduler", PID_SCHEDULER);
    mot_trace_put_thread(t, PID_SCHEDULER, TID_DECISIONS, "decisions");
    put_process(t, PID_LINKS, "links", PID_LINKS);
}

/* ---- Counters ------------------------------------------------------------------------------- */

void mot_trace_put_counter(struct text *t, const char *name, int pid, double ts_us)
{
    put(t, "{\"ph\":\"C\",\"name\":");
    put_text(t, name);
    put(t, ",\"pid\":");
    put_int(t, pid);
    put(t, ",\"tid\":0,\"ts\":");
    put_us(t, ts_us);
    put(t, ",\"args\":{");
}

void mot_trace_put_memory(struct mot_trace_writer *w, unsigned node, uint64_t bytes, double ts_us)
{
    if (w->used[node] == bytes) { return; }
    w->used[node] = bytes;
    mot_trace_put_counter(&w->text, "memory", (int)node + 1, ts_us);
    put(&w->text, "\"bytes\":");
    put_int(&w->text, (int64_t)bytes);
    put(&w->text, "}},\n");
}

void mot_trace_put_queues(struct mot_trace_writer *w, int waiting, int ready, double ts_us)
{
    w->counters_us = ts_us;
    if (waiting == w->waiting && ready == w->ready) { return; }
    w->waiting = waiting;
    w->ready = ready;
    mot_trace_put_counter(&w->text, "tasks", PID_SCHEDULER, ts_us);
    put(&w->text, "\"waiting\":");
    put_int(&w->text, waiting);
    put(&w->text, ",\"ready\":");
    put_int(&w->text, ready);
    put(&w->text, "}},\n");
}

/* ---- Values ------------------------------------------------------------------------------ */

static void write_value(struct mot_trace_writer *w, const struct mot_trace_value_message *m)
{
    mot_trace_put_counter(&w->text, m->name, PID_SCHEDULER, m->header.time_us);
    put(&w->text, "\"value\":");
    put_number(&w->text, m->value);
    put(&w->text, "}},\n");
}

/* ---- The writer ----------------------------------------------------------------------------- */

void mot_trace_writer_message(struct mot_trace_writer *w, struct mot_trace_ring *ring)
{
    union {
        struct mot_trace_header header;
        struct mot_trace_data_message data;
        struct mot_trace_transfer_message transfer;
        struct mot_trace_value_message value;
    } m;
    m.header = *mot_trace_ring_next(ring);
    if (!w->has_started) { start(w); }
    if (m.header.kind == MOT_TRACE_TASK) {
        mot_trace_write_task(w, ring);
    } else if (m.header.kind == MOT_TRACE_DECISION) {
        mot_trace_write_decision(w, ring);
    } else {
        mot_trace_ring_get(ring, 0, &m, sizeof(m));
        if (m.header.kind == MOT_TRACE_DATA) { mot_trace_write_data(w, &m.data); }
        if (m.header.kind == MOT_TRACE_TRANSFER) { mot_trace_write_transfer(w, &m.transfer); }
        if (m.header.kind == MOT_TRACE_VALUE) { write_value(w, &m.value); }
    }
    w->n_messages++;
    w->last_us = fmax(w->last_us, m.header.time_us);
    if (w->failed) { w->text.n = 0; }
    if (w->text.n > MEMBER_BYTES) { end_member(w); }
}

void mot_trace_writer_round(struct mot_trace_writer *w, int now)
{
    if (!w->has_started) { return; }
    for (unsigned node = 0; node < starpu_memory_nodes_get_count(); node++) {
        mot_trace_put_memory(w, node, starpu_memory_get_used(node), starpu_timing_now());
    }
    if (now || now_ms() - w->member_ms >= MEMBER_MS) { end_member(w); }
}

/* The totals, and the array's end. */
static void put_end(struct mot_trace_writer *w, const struct mot_trace_stats *stats)
{
    struct text *t = &w->text;
    mot_trace_put_metadata(t, "motley_end", 0, 0);
    put(t, "\"tasks\":");
    put_int(t, (int64_t)w->n_tasks);
    put_field(t, "transfers", (double)w->n_transfers);
    put_field(t, "waits", (double)stats->waits);
    put_field(t, "waited_us", stats->waited_us);
    put_field(t, "writer_cpu_s", stats->writer_cpu_s);
    put(t, "}}\n]\n");
}

int mot_trace_writer_close(struct mot_trace_writer *w, struct mot_trace_stats *stats)
{
    if (!w->has_started) { start(w); }
    struct stat file;
    if (w->n_tasks == 0 && fstat(w->fd, &file) == 0 && S_ISREG(file.st_mode)) { unlink(w->path); }
    mot_trace_end_all_transfers(w);
    mot_trace_put_queues(w, 0, 0, w->last_us);
    put_end(w, stats);
    end_member(w);
    int error = w->failed ? -w->failed : 0;
    if (close(w->fd) != 0 && !error) {
        error = mot_fail(errno, "%s: cannot write: %s", w->path, strerror(errno));
    }
    stats->tasks = w->n_tasks;
    stats->messages = w->n_messages;
    stats->transfers = w->n_transfers;
    stats->file_bytes = w->file_bytes;
    deflateEnd(&w->zip);
    free(w->path);
    free(w->text.at);
    free(w->packed);
    free(w->data);
    free(w->accesses);
    free(w);
    return error;
}
