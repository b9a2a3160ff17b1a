/* Reading recordings.  See trace_read.h.  An event a line, so that memory is only what is kept and
 * a torn last line is told from a wrong one. */
#include "trace_read.h"
#include "error.h"
#include "file.h"
#include "json.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { DATA_MAX = 1 << 26 };

/* A line of the file as it is read, growing arrays, and what the messages name. */
struct reader {
    struct mot_recording *r;
    const char *path;
    char place[4200]; /* "path:line" */
    int has_started, has_ended;
    size_t tasks, transfers, values, decisions, data; /* room */
};

/* ---- Lines ---------------------------------------------------------------------------------- */

/* The next line without its end; 0 at the end of the file, torn or not.  *torn: it stops within
 * a line or a gzip member. */
static int next_line(gzFile file, char **line, size_t *room, int *torn)
{
    size_t n = 0;
    for (;;) {
        if (*room - n < 2) {
            *room = 2 * *room + 4096;
            *line = mot_realloc(*line, *room);
        }
        const unsigned space = (unsigned)(*room - n > INT_MAX ? INT_MAX : *room - n);
        if (!gzgets(file, *line + n, (int)space)) {
            int error;
            gzerror(file, &error);
            *torn = n > 0 || error != Z_OK;
            return 0;
        }
        n += strlen(*line + n);
        if (n > 0 && (*line)[n - 1] == '\n') {
            (*line)[n - 1] = '\0';
            return 1;
        }
    }
}

/* ---- Fields --------------------------------------------------------------------------------- */

static const double limit = 1e17;

static int get_int(const struct reader *in, const json_t *o, const char *key, int min, int *value)
{
    int64_t wide;
    const int error = mot_json_get_int(o, in->place, key, min, INT_MAX, &wide);
    if (error == 0) { *value = (int)wide; }
    return error;
}

static int get_number(const struct reader *in, const json_t *o, const char *key, double min,
                      double *value)
{
    return mot_json_get_number(o, in->place, key, min, limit, value);
}

static int get_u32(const struct reader *in, const json_t *o, const char *key, uint32_t *value)
{
    int64_t wide;
    const int error = mot_json_get_int(o, in->place, key, 0, UINT32_MAX - 1, &wide);
    if (error == 0) { *value = (uint32_t)wide; }
    return error;
}

static int get_text(const struct reader *in, const json_t *o, const char *key, char **value)
{
    const char *text;
    const int error = mot_json_get_string(o, in->place, key, &text);
    if (error == 0) { *value = mot_strdup(text); }
    return error;
}

/* Room for one more element, zeroed. */
static void *grow(void *array, int n, size_t *room, size_t size)
{
    if ((size_t)n == *room) {
        *room = 2 * *room + 64;
        array = mot_realloc(array, *room * size);
    }
    memset((char *)array + (size_t)n * size, 0, size);
    return array;
}

/* ---- Start, end, data ----------------------------------------------------------------------- */

static int read_workers(struct reader *in, const json_t *args)
{
    json_t *workers, *nodes;
    struct mot_recording *r = in->r;
    int error = mot_json_get_array(args, in->place, "workers", &workers);
    if (error == 0) { error = mot_json_get_array(args, in->place, "nodes", &nodes); }
    if (error) { return error; }
    r->workers = mot_alloc_zeroed(json_array_size(workers) + 1, sizeof(*r->workers));
    r->nodes = mot_alloc_zeroed(json_array_size(nodes) + 1, sizeof(*r->nodes));
    for (size_t i = 0; i < json_array_size(nodes) && error == 0; i++) {
        const json_t *node = json_array_get(nodes, i);
        error = get_text(in, node, "name", &r->nodes[i].name);
        if (error == 0) { error = get_number(in, node, "bytes", -1.0, &r->nodes[i].bytes); }
        r->n_nodes++;
    }
    for (size_t i = 0; i < json_array_size(workers) && error == 0; i++) {
        const json_t *worker = json_array_get(workers, i);
        struct mot_recorded_worker *to = &r->workers[i];
        error = get_text(in, worker, "name", &to->name);
        if (error == 0) { error = get_text(in, worker, "kind", &to->kind); }
        if (error == 0) { error = get_int(in, worker, "device", -1, &to->device); }
        if (error == 0) { error = get_int(in, worker, "node", 0, &to->node); }
        if (error == 0 && to->node >= r->n_nodes) {
            error =
                mot_fail(EINVAL, "%s: a worker on node %d of %d", in->place, to->node, r->n_nodes);
        }
        r->n_workers++;
    }
    return error;
}

static int read_start(struct reader *in, const json_t *args)
{
    if (in->has_started) { return mot_fail(EINVAL, "%s: a second start", in->place); }
    in->has_started = 1;
    int error = get_text(in, args, "policy", &in->r->policy);
    if (error == 0) { error = mot_json_get_bool(args, in->place, "simulated", &in->r->simulated); }
    return error ? error : read_workers(in, args);
}

static int read_end(struct reader *in, const json_t *args)
{
    double waits;
    in->has_ended = 1;
    int error = get_number(in, args, "waits", 0.0, &waits);
    if (error == 0) { error = get_number(in, args, "waited_us", 0.0, &in->r->waited_us); }
    if (error == 0) { error = get_number(in, args, "writer_cpu_s", 0.0, &in->r->writer_cpu_s); }
    if (error == 0) { in->r->waits = (uint64_t)waits; }
    return error;
}

static void make_data(struct reader *in, uint32_t number)
{
    struct mot_recording *r = in->r;
    while (r->n_data <= (int)number) {
        r->data = grow(r->data, r->n_data, &in->data, sizeof(*r->data));
        r->n_data++;
    }
}

static int read_datum(struct reader *in, const json_t *args)
{
    struct mot_recording *r = in->r;
    uint32_t number;
    double bytes;
    const char *name;
    int error = get_u32(in, args, "data", &number);
    if (error == 0) { error = get_number(in, args, "bytes", 0.0, &bytes); }
    if (error == 0) { error = mot_json_get_string(args, in->place, "name", &name); }
    if (error) { return error; }
    if (number > DATA_MAX) { return mot_fail(EINVAL, "%s: datum %u", in->place, number); }
    make_data(in, number);
    r->data[number].bytes = bytes;
    if (*name) {
        free(r->data[number].name);
        r->data[number].name = mot_strdup(name);
    }
    return 0;
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

static int read_access(struct reader *in, const json_t *row, struct mot_recorded_access *a)
{
    static const char *const modes[] = {"R", "W", "RW", "COMMUTE", "REDUX"};
    const json_int_t data = json_integer_value(json_array_get(row, 0));
    const json_int_t version = json_integer_value(json_array_get(row, 1));
    const json_t *bytes = json_array_get(row, 2);
    const char *mode = json_string_value(json_array_get(row, 3));
    for (int m = 0; m < 5 && mode; m++) {
        const int makes = m != MOT_RECORDED_R && m != MOT_RECORDED_REDUX;
        if (strcmp(mode, modes[m]) != 0 || data < 1 || data > DATA_MAX || version < makes
            || version >= UINT32_MAX || !json_is_number(bytes)) {
            continue;
        }
        *a = (struct mot_recorded_access){.data = (uint32_t)data,
                                          .version = (uint32_t)version,
                                          .bytes = json_number_value(bytes),
                                          .mode = (enum mot_recorded_mode)m};
        make_data(in, a->data);
        return 0;
    }
    return mot_fail(EINVAL, "%s: not an access: [datum, version, bytes, mode] is wanted",
                    in->place);
}

static int read_accesses(struct reader *in, const json_t *args, struct mot_recorded_task *t)
{
    json_t *rows;
    int error = mot_json_get_array(args, in->place, "data", &rows);
    if (error) { return error; }
    const size_t n = json_array_size(rows);
    t->accesses = mot_alloc_zeroed(n + 1, sizeof(*t->accesses));
    for (size_t i = 0; i < n && error == 0; i++) {
        error = read_access(in, json_array_get(rows, i), &t->accesses[i]);
    }
    t->n_accesses = (int)n;
    return error;
}

static int read_hint(struct reader *in, const json_t *args, struct mot_recorded_task *t)
{
    const json_t *stage = json_object_get(args, "stage");
    t->step = t->group = t->version = -1;
    if (!stage) { return 0; }
    if (json_is_string(stage)) {
        t->stage = mot_strdup(json_string_value(stage));
    } else {
        t->stage = mot_format("%lld", (long long)json_integer_value(stage));
    }
    int error = get_int(in, args, "step", INT_MIN, &t->step);
    if (error == 0) { error = get_int(in, args, "group", INT_MIN, &t->group); }
    if (error == 0) { error = get_int(in, args, "version", INT_MIN, &t->version); }
    if (error == 0) { error = get_int(in, args, "rows", INT_MIN, &t->rows); }
    if (error == 0) { error = get_int(in, args, "tokens", INT_MIN, &t->tokens); }
    if (error == 0 && mot_json_has(args, "flop")) {
        error = mot_json_get_number(args, in->place, "flop", -INFINITY, INFINITY, &t->flop);
    }
    if (error == 0 && mot_json_has(args, "bytes")) {
        error = mot_json_get_number(args, in->place, "bytes", -INFINITY, INFINITY, &t->bytes);
    }
    return error;
}

static int read_task(struct reader *in, const json_t *event, const json_t *args)
{
    struct mot_recording *r = in->r;
    r->tasks = grow(r->tasks, r->n_tasks, &in->tasks, sizeof(*r->tasks));
    struct mot_recorded_task *t = &r->tasks[r->n_tasks++]; /* so that a failure frees it */
    double duration = 0.0;
    int error = get_text(in, event, "name", &t->name);
    if (error == 0) { error = get_number(in, event, "ts", -limit, &t->start_us); }
    if (error == 0) { error = get_number(in, event, "dur", 0.0, &duration); }
    if (error == 0) { error = get_u32(in, args, "task", &t->number); }
    if (error == 0) { error = get_u32(in, args, "by", &t->by); }
    if (error == 0) { error = get_int(in, args, "worker", 0, &t->worker); }
    if (error == 0) { error = get_int(in, args, "size_class", 0, &t->size_class); }
    if (error == 0) { error = get_number(in, args, "submit_us", -limit, &t->submit_us); }
    if (error == 0) { error = get_number(in, args, "ready_us", -limit, &t->ready_us); }
    if (error == 0) { error = get_number(in, args, "popped_us", -limit, &t->popped_us); }
    if (error == 0) { error = read_hint(in, args, t); }
    if (error == 0) { error = read_accesses(in, args, t); }
    t->end_us = t->start_us + duration;
    if (error == 0 && t->worker >= r->n_workers) {
        error =
            mot_fail(EINVAL, "%s: a task on worker %d of %d", in->place, t->worker, r->n_workers);
    }
    return error;
}

/* ---- Transfers, values, decisions ----------------------------------------------------------- */

static int read_transfer(struct reader *in, const json_t *event, const json_t *args)
{
    struct mot_recording *r = in->r;
    struct mot_recorded_transfer x = {0};
    const char *end;
    int error = get_u32(in, args, "data", &x.data);
    if (error == 0) { error = get_int(in, args, "from", 0, &x.from); }
    if (error == 0) { error = get_int(in, args, "to", 0, &x.to); }
    if (error == 0) { error = get_number(in, args, "bytes", 0.0, &x.bytes); }
    if (error == 0) { error = get_number(in, event, "ts", -limit, &x.start_us); }
    if (error == 0) { error = get_number(in, args, "end_us", -limit, &x.end_us); }
    if (error == 0) { error = mot_json_get_string(args, in->place, "end", &end); }
    if (error) { return error; }
    if (x.from >= r->n_nodes || x.to >= r->n_nodes) {
        return mot_fail(EINVAL, "%s: a transfer from node %d to %d of %d", in->place, x.from, x.to,
                        r->n_nodes);
    }
    x.end = strcmp(end, "exact") == 0     ? MOT_RECORDED_EXACT
            : strcmp(end, "at most") == 0 ? MOT_RECORDED_AT_MOST
                                          : MOT_RECORDED_UNKNOWN;
    r->transfers = grow(r->transfers, r->n_transfers, &in->transfers, sizeof(x));
    r->transfers[r->n_transfers++] = x;
    return 0;
}

/* A counter event has one or more series: "memory" {bytes}, "tasks" {waiting, ready}, others
 * {value}. */
static int read_values(struct reader *in, const json_t *event, json_t *args)
{
    struct mot_recording *r = in->r;
    double time_us;
    int pid;
    const char *name, *key;
    json_t *value;
    int error = get_number(in, event, "ts", -limit, &time_us);
    if (error == 0) { error = get_int(in, event, "pid", 0, &pid); }
    if (error == 0) { error = mot_json_get_string(event, in->place, "name", &name); }
    if (error) { return error; }
    json_object_foreach(args, key, value)
    {
        const int is_alone = strcmp(key, "value") == 0 || strcmp(key, "bytes") == 0;
        r->values = grow(r->values, r->n_values, &in->values, sizeof(*r->values));
        r->values[r->n_values++] = (struct mot_recorded_value){
            .name = is_alone ? mot_strdup(name) : mot_format("%s/%s", name, key),
            .node = pid <= r->n_nodes ? pid - 1 : -1,
            .time_us = time_us,
            .value = json_is_number(value) ? json_number_value(value) : NAN};
    }
    return 0;
}

static int read_decision(struct reader *in, const json_t *event, const json_t *args)
{
    struct mot_recording *r = in->r;
    json_t *rows;
    r->decisions = grow(r->decisions, r->n_decisions, &in->decisions, sizeof(*r->decisions));
    struct mot_recorded_decision *d = &r->decisions[r->n_decisions++];
    int error = get_number(in, event, "ts", -limit, &d->time_us);
    if (error == 0) { error = get_u32(in, args, "task", &d->task); }
    if (error == 0) { error = get_int(in, args, "worker", -1, &d->worker); }
    if (error == 0 && mot_json_has(args, "veto")) { error = get_text(in, args, "veto", &d->veto); }
    if (error == 0) { error = mot_json_get_array(args, in->place, "candidates", &rows); }
    if (error) { return error; }
    const size_t n = json_array_size(rows);
    d->candidates = mot_alloc_zeroed(n + 1, sizeof(d->candidates[0]));
    d->n_candidates = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i), *estimate = json_array_get(row, 1);
        d->candidates[i].worker = (int)json_integer_value(json_array_get(row, 0));
        d->candidates[i].estimate_us = json_is_number(estimate) ? json_number_value(estimate) : NAN;
    }
    return 0;
}

/* ---- The file ------------------------------------------------------------------------------- */

static int read_metadata(struct reader *in, const char *name, const json_t *args)
{
    if (strcmp(name, "motley_start") == 0) { return read_start(in, args); }
    if (strcmp(name, "motley_end") == 0) { return read_end(in, args); }
    if (strcmp(name, "motley_data") == 0) { return read_datum(in, args); }
    return 0; /* names of processes and threads, for viewers */
}

static int read_event(struct reader *in, const json_t *event)
{
    const char *phase, *name;
    json_t *args = NULL;
    int error = mot_json_get_string(event, in->place, "ph", &phase);
    if (error) { return error; }
    if (strcmp(phase, "s") == 0 || strcmp(phase, "f") == 0 || strcmp(phase, "e") == 0) { return 0; }
    error = mot_json_get_string(event, in->place, "name", &name);
    if (error == 0) { error = mot_json_get_object(event, in->place, "args", &args); }
    if (error) { return error; }
    if (!in->has_started && strcmp(name, "motley_start") != 0) {
        return mot_fail(EINVAL, "%s: not a recording of Motley: no motley_start before this",
                        in->place);
    }
    switch (phase[0]) {
    case 'M':
        return read_metadata(in, name, args);
    case 'X':
        return read_task(in, event, args);
    case 'b':
        return read_transfer(in, event, args);
    case 'C':
        return read_values(in, event, args);
    case 'i':
        return read_decision(in, event, args);
    default:
        return 0;
    }
}

/* "[", "]", or an event with or without a comma. */
static int read_line(struct reader *in, char *line, int number)
{
    size_t n = strlen(line);
    if (n > 0 && line[n - 1] == ',') { n--; }
    if (n == 0 || (n == 1 && (line[0] == '[' || line[0] == ']'))) { return 0; }
    json_t *event;
    int error = mot_json_parse(line, n, in->path, number, &event);
    if (error) { return error; }
    snprintf(in->place, sizeof(in->place), "%s:%d", in->path, number);
    error = read_event(in, event);
    json_decref(event);
    return error;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = ((const struct mot_recorded_task *)a)->number;
    const uint32_t y = ((const struct mot_recorded_task *)b)->number;
    return (x > y) - (x < y);
}

int mot_recording_read(const char *path, struct mot_recording **recording)
{
    const int fd = mot_file_open_input(path);
    if (fd < 0) { return fd; }
    gzFile file = gzdopen(fd, "rb");
    MOT_ASSERT(file);
    struct reader in = {.path = path, .r = mot_alloc_zeroed(1, sizeof(*in.r))};
    char *line = NULL;
    size_t room = 0;
    int error = 0, torn = 0;
    for (int number = 1; error == 0 && next_line(file, &line, &room, &torn); number++) {
        error = read_line(&in, line, number);
    }
    free(line);
    gzclose(file);
    if (error == 0 && !in.has_started && !torn) {
        error = mot_fail(EINVAL, "%s: not a recording of Motley: it is empty", path);
    }
    if (error) {
        mot_recording_free(in.r);
        return error;
    }
    in.r->ends_early = torn || !in.has_ended;
    if (in.r->n_tasks > 0) {
        qsort(in.r->tasks, (size_t)in.r->n_tasks, sizeof(*in.r->tasks), by_number);
    }
    *recording = in.r;
    return 0;
}

void mot_recording_free(struct mot_recording *r)
{
    if (!r) { return; }
    for (int i = 0; i < r->n_workers; i++) {
        free(r->workers[i].name);
        free(r->workers[i].kind);
    }
    for (int i = 0; i < r->n_nodes; i++) { free(r->nodes[i].name); }
    for (int i = 0; i < r->n_tasks; i++) {
        free(r->tasks[i].name);
        free(r->tasks[i].stage);
        free(r->tasks[i].accesses);
    }
    for (int i = 0; i < r->n_values; i++) { free(r->values[i].name); }
    for (int i = 0; i < r->n_data; i++) { free(r->data[i].name); }
    for (int i = 0; i < r->n_decisions; i++) {
        free(r->decisions[i].veto);
        free(r->decisions[i].candidates);
    }
    free(r->policy);
    free(r->workers);
    free(r->nodes);
    free(r->tasks);
    free(r->transfers);
    free(r->values);
    free(r->decisions);
    free(r->data);
    free(r);
}

/* ---- Usage ---------------------------------------------------------------------------------- */

static int by_worker_and_start(const void *a, const void *b)
{
    const struct mot_recorded_task *x = *(const struct mot_recorded_task *const *)a;
    const struct mot_recorded_task *y = *(const struct mot_recorded_task *const *)b;
    if (x->worker != y->worker) { return x->worker - y->worker; }
    if (x->start_us != y->start_us) { return x->start_us < y->start_us ? -1 : 1; }
    return (x->end_us > y->end_us) - (x->end_us < y->end_us);
}

double mot_recording_usage(const struct mot_recording *r, struct mot_recorded_usage *usage)
{
    double begin = INFINITY, end = -INFINITY;
    const struct mot_recorded_task **order = mot_alloc(((size_t)r->n_tasks + 1) * sizeof(*order));
    for (int i = 0; i < r->n_tasks; i++) {
        order[i] = &r->tasks[i];
        begin = fmin(begin, order[i]->submit_us);
        end = fmax(end, order[i]->end_us);
    }
    if (r->n_tasks > 0) { qsort(order, (size_t)r->n_tasks, sizeof(*order), by_worker_and_start); }
    for (int w = 0, i = 0; w < r->n_workers; w++) {
        double last = begin;
        struct mot_recorded_usage *u = &usage[w];
        *u = (struct mot_recorded_usage){0};
        for (; i < r->n_tasks && order[i]->worker == w; i++) {
            const struct mot_recorded_task *t = order[i];
            const double start = fmax(t->start_us, last),
                         taken = fmin(start, fmax(t->popped_us, last));
            u->idle_us += taken - last;
            u->transfer_us += start - taken;
            u->busy_us += fmax(t->end_us - start, 0.0);
            last = fmax(t->end_us, start);
        }
        u->idle_us += r->n_tasks > 0 ? end - last : 0.0;
    }
    free(order);
    return r->n_tasks > 0 ? end - begin : 0.0;
}
