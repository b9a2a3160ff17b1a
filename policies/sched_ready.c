/* The ready queue.  See sched_ready.h. */
#include "sched_ready.h"
#include "error.h"
#include "sched_core.h"
#include <stdlib.h>

/* 1 when a goes before b. */
static int goes_before(const struct mot_sched_task *a, const struct mot_sched_task *b)
{
    if (a->ready.priority != b->ready.priority) { return a->ready.priority > b->ready.priority; }
    if (a->ready.remaining_us != b->ready.remaining_us) {
        return a->ready.remaining_us > b->ready.remaining_us;
    }
    return a->id < b->id;
}

static void put(struct mot_ready_heap *h, int at, struct mot_sched_task *t)
{
    h->task[at] = t;
    t->ready.place = at;
}

static void rise(struct mot_ready_heap *h, int at)
{
    struct mot_sched_task *t = h->task[at];
    for (; at > 0 && goes_before(t, h->task[(at - 1) / 2]); at = (at - 1) / 2) {
        put(h, at, h->task[(at - 1) / 2]);
    }
    put(h, at, t);
}

static void sink(struct mot_ready_heap *h, int at)
{
    struct mot_sched_task *t = h->task[at];
    for (int child; (child = 2 * at + 1) < h->n; at = child) {
        if (child + 1 < h->n && goes_before(h->task[child + 1], h->task[child])) { child++; }
        if (!goes_before(h->task[child], t)) { break; }
        put(h, at, h->task[child]);
    }
    put(h, at, t);
}

void mot_ready_init(struct mot_ready *ready)
{
    *ready = (struct mot_ready){.n = 0};
}

void mot_ready_free(struct mot_ready *ready)
{
    for (int k = 0; k < MOT_READY_KINDS; k++) { free(ready->kind[k].task); }
}

void mot_ready_insert(struct mot_ready *ready, struct mot_sched_task *t)
{
    struct mot_ready_heap *h = &ready->kind[t->kind];
    if (h->n == h->room) {
        h->room = 2 * h->room + 16;
        h->task = mot_realloc(h->task, (size_t)h->room * sizeof(struct mot_sched_task *));
    }
    t->ready.priority = t->task->priority;
    t->ready.remaining_us = t->remaining_us;
    put(h, h->n++, t);
    rise(h, h->n - 1);
    atomic_fetch_add(&ready->n, 1);
}

void mot_ready_remove(struct mot_ready *ready, struct mot_sched_task *t)
{
    struct mot_ready_heap *h = &ready->kind[t->kind];
    const int at = t->ready.place;
    struct mot_sched_task *last = h->task[--h->n];
    t->ready.place = -1;
    atomic_fetch_sub(&ready->n, 1);
    if (last == t) { return; }
    put(h, at, last);
    rise(h, at);
    sink(h, last->ready.place);
}

void mot_ready_raise(struct mot_ready *ready, struct mot_sched_task *t)
{
    t->ready.remaining_us = t->remaining_us;
    rise(&ready->kind[t->kind], t->ready.place);
}

void mot_ready_reorder(struct mot_ready *ready)
{
    for (int k = 0; k < MOT_READY_KINDS; k++) {
        struct mot_ready_heap *h = &ready->kind[k];
        for (int i = 0; i < h->n; i++) {
            h->task[i]->ready.remaining_us = h->task[i]->remaining_us;
        }
        for (int i = h->n / 2 - 1; i >= 0; i--) { sink(h, i); }
    }
}

/* ---- In order -------------------------------------------------------------------------------- */

static void walk_push(struct mot_ready_walk *walk, struct mot_sched_task *t)
{
    int at = walk->n++;
    for (; at > 0 && goes_before(t, walk->next[(at - 1) / 2]); at = (at - 1) / 2) {
        walk->next[at] = walk->next[(at - 1) / 2];
    }
    walk->next[at] = t;
}

static struct mot_sched_task *walk_pop(struct mot_ready_walk *walk)
{
    struct mot_sched_task *first = walk->next[0], *last = walk->next[--walk->n];
    int at = 0;
    for (int child; (child = 2 * at + 1) < walk->n; at = child) {
        if (child + 1 < walk->n && goes_before(walk->next[child + 1], walk->next[child])) {
            child++;
        }
        if (!goes_before(walk->next[child], last)) { break; }
        walk->next[at] = walk->next[child];
    }
    walk->next[at] = last;
    return first;
}

void mot_ready_walk(const struct mot_ready *ready, struct mot_ready_walk *walk)
{
    walk->ready = ready;
    walk->n = walk->given = 0;
    for (int k = 0; k < MOT_READY_KINDS; k++) {
        walk->of_kind[k] = 0;
        if (ready->kind[k].n > 0) { walk_push(walk, ready->kind[k].task[0]); }
    }
}

struct mot_sched_task *mot_ready_next(struct mot_ready_walk *walk)
{
    while (walk->n > 0) {
        struct mot_sched_task *t = walk_pop(walk);
        if (walk->given >= MOT_READY_WINDOW && walk->of_kind[t->kind] >= MOT_READY_LEAST) {
            continue; /* and with it what comes after it in its heap */
        }
        walk->given++;
        walk->of_kind[t->kind]++;
        const struct mot_ready_heap *h = &walk->ready->kind[t->kind];
        for (int child = 2 * t->ready.place + 1, i = 0; i < 2 && child + i < h->n; i++) {
            walk_push(walk, h->task[child + i]);
        }
        return t;
    }
    return NULL;
}
