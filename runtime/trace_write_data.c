/* Data and transfers as trace events.  See trace_write.c. */
#include "trace_write_parts.h"

struct mot_trace_datum *mot_trace_datum_of(struct mot_trace_writer *w, uint32_t number)
{
    if (number >= w->n_data) {
        const size_t n = 2 * (size_t)number + 64;
        w->data = mot_realloc(w->data, n * sizeof(*w->data));
        memset(w->data + w->n_data, 0, (n - w->n_data) * sizeof(*w->data));
        w->n_data = n;
    }
    return &w->data[number];
}

void mot_trace_write_data(struct mot_trace_writer *w, const struct mot_trace_data_message *m)
{
    struct mot_trace_datum *d = mot_trace_datum_of(w, m->data);
    if (m->name[0]) { memcpy(d->name, m->name, sizeof(d->name)); }
    mot_trace_put_metadata(&w->text, "motley_data", 0, 0);
    put(&w->text, "\"data\":");
    put_int(&w->text, m->data);
    put(&w->text, ",\"name\":");
    put_text(&w->text, m->name);
    put(&w->text, ",\"bytes\":");
    put_int(&w->text, (int64_t)m->bytes);
    put(&w->text, "}},\n");
}

static void put_data_name(struct mot_trace_writer *w, uint32_t number)
{
    const struct mot_trace_datum *d = mot_trace_datum_of(w, number);
    char name[32];
    snprintf(name, sizeof(name), number ? "data %u" : "data", number);
    put_text(&w->text, d->name[0] ? d->name : name);
}

static void put_link(struct mot_trace_writer *w, int from, int to)
{
    if (w->links[from][to]) { return; }
    w->links[from][to] = 1;
    char names[2][64], both[160];
    starpu_memory_node_get_name((unsigned)from, names[0], sizeof(names[0]));
    starpu_memory_node_get_name((unsigned)to, names[1], sizeof(names[1]));
    snprintf(both, sizeof(both), "%s to %s", names[0], names[1]);
    mot_trace_put_thread(&w->text, PID_LINKS, TID_LINKS + from * STARPU_MAXNODES + to, both);
}

/* An async event of a transfer, up to its time. */
static void put_async(struct mot_trace_writer *w, const char *phase,
                      const struct mot_trace_transfer_message *m, uint64_t id, double ts_us)
{
    struct text *t = &w->text;
    put(t, "{\"ph\":");
    put_text(t, phase);
    put(t, ",\"cat\":\"transfer\",\"id\":");
    put_int(t, (int64_t)id);
    put(t, ",\"name\":");
    put_data_name(w, m->data);
    put(t, ",\"pid\":");
    put_int(t, PID_LINKS);
    put(t, ",\"tid\":");
    put_int(t, TID_LINKS + m->from * STARPU_MAXNODES + m->to);
    put(t, ",\"ts\":");
    put_us(t, ts_us);
}

static void put_transfer(struct mot_trace_writer *w, const struct mot_trace_transfer_message *m,
                         double end_us, const char *end)
{
    struct text *t = &w->text;
    const uint64_t id = ++w->next_id;
    put_link(w, m->from, m->to);
    put_async(w, "b", m, id, m->header.time_us);
    put(t, ",\"args\":{\"data\":");
    put_int(t, m->data);
    put(t, ",\"bytes\":");
    put_int(t, (int64_t)m->bytes);
    put(t, ",\"from\":");
    put_int(t, m->from);
    put(t, ",\"to\":");
    put_int(t, m->to);
    put(t, ",\"end\":");
    put_text(t, end);
    put(t, ",\"end_us\":");
    put_us(t, end_us);
    put(t, "}},\n");
    put_async(w, "e", m, id, end_us);
    put(t, "},\n");
    w->n_transfers++;
}

void mot_trace_write_transfer(struct mot_trace_writer *w,
                              const struct mot_trace_transfer_message *m)
{
    if (m->end_us > 0.0 || m->data == 0) {
        put_transfer(w, m, m->end_us > 0.0 ? m->end_us : m->header.time_us,
                     m->end_us > 0.0 ? "exact" : "unknown");
        return;
    }
    struct mot_trace_datum *d = mot_trace_datum_of(w, m->data);
    struct mot_trace_transfer_open *transfer = mot_alloc(sizeof(*transfer));
    *transfer = (struct mot_trace_transfer_open){*m, d->under_way};
    d->under_way = transfer;
}

/* A task on that node began then, with this datum: its transfers have arrived. */
void mot_trace_end_transfers(struct mot_trace_writer *w, uint32_t number, int node, double start_us)
{
    struct mot_trace_transfer_open **place = &mot_trace_datum_of(w, number)->under_way;
    while (*place) {
        struct mot_trace_transfer_open *transfer = *place;
        if (transfer->m.to != node || transfer->m.header.time_us > start_us) {
            place = &transfer->next;
            continue;
        }
        *place = transfer->next;
        put_transfer(w, &transfer->m, start_us, "at most");
        free(transfer);
    }
}

void mot_trace_end_all_transfers(struct mot_trace_writer *w)
{
    for (size_t i = 0; i < w->n_data; i++) {
        for (struct mot_trace_transfer_open *x = w->data[i].under_way, *next; x; x = next) {
            next = x->next;
            put_transfer(w, &x->m, x->m.header.time_us, "unknown");
            free(x);
        }
    }
}
