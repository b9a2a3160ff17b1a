/* The graph of tasks submitted and not ended, from the data they declare to access: who waits for
 * whom, and the longest way to the end from each.  See sched_core.h.
 *
 * Dependencies declared by other means (tags, starpu_task_declare_deps) are not seen; edges that
 * are there make no difference to what may run, only to its order.  Later tasks wait for earlier
 * ones, so the reverse of submission is an order in which each length is final when it is passed
 * on.  A pass over all is made when an eighth has been added since the last; a new task's length
 * goes to a bounded number of those before it at once. */
#include "error.h"
#include "sched_core.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct members {
    struct mot_sched_task **task; /* each a reference */
    int n, room;
};

/* Who wrote a datum last (several, where they commute), and who has read it since. */
struct datum {
    starpu_data_handle_t handle; /* NULL: empty place */
    struct members writers, readers;
    int commutes;
};

struct mot_sched_graph {
    struct datum *data; /* hashed */
    size_t n_data, room;
    struct mot_sched_task *oldest, *newest;
    size_t n_alive, n_new; /* n_new: since the last pass */
};

/* ---- References ------------------------------------------------------------------------------ */

static void release(struct mot_sched_task *t)
{
    if (--t->references > 0) { return; }
    free(t->guess);
    free(t);
}

static void add_member(struct members *m, struct mot_sched_task *t)
{
    if (m->n == m->room) {
        m->room = m->room ? 2 * m->room : 2;
        m->task = mot_realloc(m->task, (size_t)m->room * sizeof(struct mot_sched_task *));
    }
    m->task[m->n++] = t;
    t->references++;
}

static void clear(struct members *m)
{
    for (int i = 0; i < m->n; i++) { release(m->task[i]); }
    m->n = 0;
}

/* Forgets those that have ended; returns how many are left. */
static int prune(struct members *m)
{
    int n = 0;
    for (int i = 0; i < m->n; i++) {
        if (m->task[i]->task) {
            m->task[n++] = m->task[i];
        } else {
            release(m->task[i]);
        }
    }
    return m->n = n;
}

static void drop_before(struct mot_sched_task *t)
{
    for (int i = 0; i < t->n_before; i++) { release(t->before[i]); }
    free(t->before);
    t->before = NULL;
    t->n_before = 0;
}

/* ---- Data ------------------------------------------------------------------------------------ */

static struct datum *place_of(struct mot_sched_graph *g, starpu_data_handle_t handle)
{
    size_t at = (size_t)(((uintptr_t)handle >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
    for (at &= g->room - 1; g->data[at].handle && g->data[at].handle != handle;) {
        at = (at + 1) & (g->room - 1);
    }
    return &g->data[at];
}

/* Data none of whose tasks are alive are forgotten on the way. */
static void grow(struct mot_sched_graph *g)
{
    struct datum *old = g->data;
    const size_t n = g->room;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (old[i].handle && prune(&old[i].writers) + prune(&old[i].readers) > 0) { kept++; }
    }
    while (2 * (kept + 64) > g->room) { g->room = g->room ? 2 * g->room : 256; }
    g->data = mot_alloc_zeroed(g->room, sizeof(*g->data));
    g->n_data = kept;
    for (size_t i = 0; i < n; i++) {
        if (old[i].writers.n + old[i].readers.n > 0) {
            *place_of(g, old[i].handle) = old[i];
        } else {
            free(old[i].writers.task);
            free(old[i].readers.task);
        }
    }
    free(old);
}

static struct datum *datum_of(struct mot_sched_graph *g, starpu_data_handle_t handle)
{
    if (2 * (g->n_data + 1) > g->room) { grow(g); }
    struct datum *d = place_of(g, handle);
    if (!d->handle) {
        d->handle = handle;
        g->n_data++;
    }
    return d;
}

static void wait_for(struct mot_sched_task *t, struct members *m)
{
    const int n = prune(m);
    if (n == 0) { return; }
    t->before = mot_realloc(t->before, (size_t)(t->n_before + n) * sizeof(struct mot_sched_task *));
    for (int i = 0; i < n; i++) {
        if (m->task[i] == t) { continue; }
        t->before[t->n_before++] = m->task[i];
        m->task[i]->references++;
    }
}

static void access_datum(struct datum *d, struct mot_sched_task *t,
                         enum starpu_data_access_mode mode)
{
    const int commutes = (mode & (STARPU_COMMUTE | STARPU_REDUX)) != 0;
    if (!commutes && !(mode & STARPU_W)) {
        wait_for(t, &d->writers);
        prune(&d->readers);
        add_member(&d->readers, t);
        return;
    }
    if (commutes && d->commutes && prune(&d->readers) == 0) { /* beside the other writers */
        prune(&d->writers);
        add_member(&d->writers, t);
        return;
    }
    wait_for(t, d->readers.n > 0 ? &d->readers : &d->writers);
    clear(&d->writers);
    clear(&d->readers);
    add_member(&d->writers, t);
    d->commutes = commutes;
}

/* ---- Lengths --------------------------------------------------------------------------------- */

static void pass(struct mot_sched *s)
{
    struct mot_sched_graph *g = s->graph;
    for (struct mot_sched_task *t = g->oldest; t; t = t->newer) { t->tail_us = 0.0; }
    for (struct mot_sched_task *t = g->newest; t; t = t->older) {
        t->remaining_us = t->own_us + t->tail_us;
        for (int i = 0; i < t->n_before; i++) {
            t->before[i]->tail_us = fmax(t->before[i]->tail_us, t->remaining_us);
        }
    }
    g->n_new = 0;
    mot_ready_reorder(&s->ready);
}

void mot_sched_graph_update(struct mot_sched *s)
{
    if (s->graph->n_new > 0 && s->graph->n_new >= s->graph->n_alive / 8) { pass(s); }
}

static void raise_before(struct mot_sched *s, struct mot_sched_task *t, int *budget)
{
    for (int i = 0; *budget > 0 && i < t->n_before; i++) {
        struct mot_sched_task *b = t->before[i];
        if (b->remaining_us >= b->own_us + t->remaining_us) { continue; }
        (*budget)--;
        b->remaining_us = b->own_us + t->remaining_us;
        if (b->ready.place >= 0) { mot_ready_raise(&s->ready, b); }
        raise_before(s, b, budget);
    }
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

void mot_sched_graph_init(struct mot_sched *s)
{
    s->graph = mot_alloc_zeroed(1, sizeof(*s->graph));
    grow(s->graph);
}

void mot_sched_graph_add(struct mot_sched *s, struct mot_sched_task *t)
{
    struct mot_sched_graph *g = s->graph;
    t->older = g->newest;
    *(g->newest ? &g->newest->newer : &g->oldest) = t;
    g->newest = t;
    g->n_alive++;
    g->n_new++;
    for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(t->task); i++) {
        const enum starpu_data_access_mode mode = STARPU_TASK_GET_MODE(t->task, i);
        if (!(mode & (STARPU_RW | STARPU_REDUX))) { continue; } /* scratch */
        access_datum(datum_of(g, STARPU_TASK_GET_HANDLE(t->task, i)), t, mode);
    }
    t->remaining_us = t->own_us;
    int budget = 64;
    raise_before(s, t, &budget);
}

void mot_sched_graph_ready(struct mot_sched_task *t)
{
    drop_before(t); /* they have ended */
}

void mot_sched_graph_end(struct mot_sched *s, struct mot_sched_task *t)
{
    struct mot_sched_graph *g = s->graph;
    *(t->older ? &t->older->newer : &g->oldest) = t->newer;
    *(t->newer ? &t->newer->older : &g->newest) = t->older;
    g->n_alive--;
    drop_before(t);
    t->task = NULL;
    release(t);
}

void mot_sched_graph_each(struct mot_sched *s,
                          void (*visit)(struct mot_sched *s, struct mot_sched_task *t, void *own),
                          void *own)
{
    for (struct mot_sched_task *t = s->graph->oldest; t; t = t->newer) { visit(s, t, own); }
}

void mot_sched_graph_free(struct mot_sched *s)
{
    struct mot_sched_graph *g = s->graph;
    while (g->oldest) { mot_sched_graph_end(s, g->oldest); } /* StarPU told no end of them */
    for (size_t i = 0; i < g->room; i++) {
        clear(&g->data[i].writers);
        clear(&g->data[i].readers);
        free(g->data[i].writers.task);
        free(g->data[i].readers.task);
    }
    free(g->data);
    free(g);
}
