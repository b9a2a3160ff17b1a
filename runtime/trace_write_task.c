/* Tasks, arrows between them, and decisions as trace events.  See trace_write.c. */
#include "trace_write_parts.h"

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* One end of an arrow; f binds to the slice that encloses its time. */
static void put_flow(struct mot_trace_writer *w, const char *phase, uint64_t id, int worker,
                     double ts_us)
{
    struct text *t = &w->text;
    put(t, "{\"ph\":");
    put_text(t, phase);
    put(t, ",\"cat\":\"data\",\"name\":\"data\",\"id\":");
    put_int(t, (int64_t)id);
    put(t, ",\"pid\":");
    put_int(t, w->nodes[worker] + 1);
    put(t, ",\"tid\":");
    put_int(t, worker + 1);
    put(t, ",\"ts\":");
    put_us(t, ts_us);
    put(t, phase[0] == 'f' ? ",\"bp\":\"e\"},\n" : "},\n");
}

/* Arrows from the tasks that made what this one reads, one from each; and this one is the producer
 * of what it made. */
static void put_flows(struct mot_trace_writer *w, const struct mot_trace_task_message *m)
{
    uint32_t from[FLOWS_MAX];
    int n = 0;
    for (uint32_t i = 0; i < m->n_accesses; i++) {
        const struct mot_trace_access_message *a = &w->accesses[i];
        const enum mot_trace_mode mode = (enum mot_trace_mode)(a->mode_bytes >> 56);
        const int makes = mode != MOT_TRACE_R && mode != MOT_TRACE_REDUX;
        const uint32_t reads = mode == MOT_TRACE_R ? a->version : a->version - 1;
        struct mot_trace_datum *d = mot_trace_datum_of(w, a->data);
        const struct mot_trace_producer *p = &d->producers[reads % 2];
        int is_new = mode != MOT_TRACE_W && mode != MOT_TRACE_REDUX && reads > 0
                     && p->version == reads && n < FLOWS_MAX;
        for (int k = 0; k < n && is_new; k++) { is_new = from[k] != p->task; }
        if (is_new) {
            const double inside = fmax(p->start_us, p->end_us - 0.001);
            from[n++] = p->task;
            put_flow(w, "s", ++w->next_id, p->worker, inside);
            put_flow(w, "f", w->next_id, m->worker, m->start_us);
        }
        if (makes) {
            d->producers[a->version % 2] = (struct mot_trace_producer){
                a->version, m->number, m->worker, m->start_us, m->header.time_us};
        }
    }
}

static void put_accesses(struct mot_trace_writer *w, const struct mot_trace_task_message *m)
{
    static const char *const modes[] = {"R", "W", "RW", "COMMUTE", "REDUX"};
    struct text *t = &w->text;
    put(t, ",\"data\":[");
    for (uint32_t i = 0; i < m->n_accesses; i++) {
        const struct mot_trace_access_message *a = &w->accesses[i];
        put(t, i ? ",[" : "[");
        put_int(t, a->data);
        put(t, ",");
        put_int(t, a->version);
        put(t, ",");
        put_int(t, (int64_t)(a->mode_bytes & MOT_TRACE_BYTES_MASK));
        put(t, ",");
        put_text(t, modes[a->mode_bytes >> 56]);
        put(t, "]");
    }
    put(t, "]");
}

/* The whole binary logarithm of its operations, else of its bytes: tasks of one size class take
 * about as long on one device. */
static int size_class(const struct mot_trace_writer *w, const struct mot_trace_task_message *m)
{
    double size = m->flop > 0.0 ? m->flop : m->bytes;
    for (uint32_t i = 0; i < m->n_accesses && !(m->flop > 0.0 || m->bytes > 0.0); i++) {
        size += (double)(w->accesses[i].mode_bytes & MOT_TRACE_BYTES_MASK);
    }
    return size >= 1.0 ? ilogb(size) : 0;
}

static void put_hint(struct mot_trace_writer *w, const struct mot_trace_task_message *m)
{
    struct text *t = &w->text;
    put(t, ",\"stage\":");
    if (w->stage_name && m->stage >= 0) {
        put_text(t, w->stage_name(m->stage));
    } else {
        put_int(t, m->stage);
    }
    put_field(t, "step", m->step);
    put_field(t, "group", m->group);
    put_field(t, "version", m->version);
    put_field(t, "rows", m->rows);
    put_field(t, "tokens", m->tokens);
    put_field(t, "flop", m->flop);
    put_field(t, "bytes", m->bytes);
}

static void put_task(struct mot_trace_writer *w, const struct mot_trace_task_message *m,
                     const char *name)
{
    struct text *t = &w->text;
    put(t, "{\"ph\":\"X\",\"cat\":\"task\",\"name\":");
    put_text(t, name);
    put(t, ",\"pid\":");
    put_int(t, w->nodes[m->worker] + 1);
    put(t, ",\"tid\":");
    put_int(t, m->worker + 1);
    put_time(t, "ts", m->start_us);
    put_time(t, "dur", m->header.time_us - m->start_us);
    put(t, ",\"args\":{\"task\":");
    put_int(t, m->number);
    put_field(t, "by", m->by);
    put_field(t, "worker", m->worker);
    put_time(t, "submit_us", m->submit_us);
    put_time(t, "ready_us", m->ready_us);
    put_time(t, "popped_us", m->popped_us);
    put_field(t, "size_class", size_class(w, m));
    if (m->has_hint) { put_hint(w, m); }
    put_accesses(w, m);
    put(t, "}},\n");
}

void mot_trace_write_task(struct mot_trace_writer *w, const struct mot_trace_ring *ring)
{
    struct mot_trace_task_message m;
    mot_trace_ring_get(ring, 0, &m, sizeof(m));
    char copied[160];
    MOT_ASSERT(m.name_bytes < sizeof(copied));
    mot_trace_ring_get(ring, sizeof(m), copied, m.name_bytes);
    copied[m.name_bytes] = '\0';
    if (m.n_accesses > w->accesses_capacity) {
        w->accesses_capacity = 2 * (size_t)m.n_accesses;
        w->accesses = mot_realloc(w->accesses, w->accesses_capacity * sizeof(*w->accesses));
    }
    if (m.n_accesses > 0) {
        mot_trace_ring_get(ring, sizeof(m) + m.name_bytes, w->accesses,
                           m.n_accesses * sizeof(*w->accesses));
    }
    put_task(w, &m, m.name_bytes > 0 ? copied : m.name);
    put_flows(w, &m);
    const int node = w->nodes[m.worker];
    for (uint32_t i = 0; i < m.n_accesses; i++) {
        mot_trace_end_transfers(w, w->accesses[i].data, node, m.start_us);
    }
    mot_trace_put_memory(w, (unsigned)node, m.used_bytes, m.header.time_us);
    if (m.header.time_us - w->counters_us >= COUNTERS_GAP_US) {
        mot_trace_put_queues(w, m.waiting, m.ready, m.header.time_us);
    }
    w->n_tasks++;
}

void mot_trace_write_decision(struct mot_trace_writer *w, const struct mot_trace_ring *ring)
{
    struct text *t = &w->text;
    struct mot_trace_decision_message m;
    struct mot_trace_candidate candidates[STARPU_NMAXWORKERS];
    mot_trace_ring_get(ring, 0, &m, sizeof(m));
    mot_trace_ring_get(ring, sizeof(m), candidates, (size_t)m.n_candidates * sizeof(candidates[0]));
    put(t, "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"decision\",\"name\":\"decision\",\"pid\":");
    put_int(t, PID_SCHEDULER);
    put(t, ",\"tid\":");
    put_int(t, TID_DECISIONS);
    put_time(t, "ts", m.header.time_us);
    put(t, ",\"args\":{\"task\":");
    put_int(t, m.task);
    put_field(t, "worker", m.worker);
    put(t, ",\"veto\":");
    if (m.veto) {
        put_text(t, m.veto);
    } else {
        put(t, "null");
    }
    put(t, ",\"candidates\":[");
    for (int i = 0; i < m.n_candidates; i++) {
        put(t, i ? ",[" : "[");
        put_int(t, candidates[i].worker);
        put(t, ",");
        put_number(t, candidates[i].estimate_us);
        put(t, "]");
    }
    put(t, "]}},\n");
}
