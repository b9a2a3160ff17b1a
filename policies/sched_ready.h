/* The tasks that are ready: a heap for each kind, ordered by priority, then the longest way to the
 * end, then age.  See sched_ready.c. */
#ifndef MOT_SCHED_READY_H
#define MOT_SCHED_READY_H
#include <stdatomic.h>
#include <stdint.h>

enum { MOT_READY_KINDS = 64, MOT_READY_WINDOW = 64, MOT_READY_LEAST = 8 };

struct mot_sched_task;
struct mot_ready_item { /* within a task */
    int place;          /* in its heap; -1: in none */
    int priority;
    double remaining_us;
};
struct mot_ready_heap {
    struct mot_sched_task **task;
    int n, room;
};
struct mot_ready {
    atomic_int n; /* may be read without the lock */
    struct mot_ready_heap kind[MOT_READY_KINDS];
};
void mot_ready_init(struct mot_ready *ready);
void mot_ready_free(struct mot_ready *ready);
void mot_ready_insert(struct mot_ready *ready, struct mot_sched_task *t);
void mot_ready_remove(struct mot_ready *ready, struct mot_sched_task *t);
/* Its remaining_us has grown; those of many have changed. */
void mot_ready_raise(struct mot_ready *ready, struct mot_sched_task *t);
void mot_ready_reorder(struct mot_ready *ready);

/* The best MOT_READY_WINDOW tasks in order, and then until each kind has had MOT_READY_LEAST.
 * O(window log window) however many are ready.  Nothing may change meanwhile. */
struct mot_ready_walk {
    const struct mot_ready *ready;
    int n, given, of_kind[MOT_READY_KINDS];
    struct mot_sched_task *next[MOT_READY_KINDS * (MOT_READY_LEAST + 2) + 2 * MOT_READY_WINDOW];
};
void mot_ready_walk(const struct mot_ready *ready, struct mot_ready_walk *walk);
struct mot_sched_task *mot_ready_next(struct mot_ready_walk *walk); /* NULL: no more */
#endif
