/* A policy to begin with: copy it, rename it, give it an idea (README.md).  One queue, first come,
 * first served; not in the table, but the conformance test runs it. */
#include "error.h"
#include <starpu_scheduler.h>
#include <stdlib.h>

struct policy {
    starpu_pthread_mutex_t mutex; /* guards the queue */
    struct starpu_task_list queue;
};

static struct policy *of(unsigned context)
{
    return starpu_sched_ctx_get_policy_data(context);
}

/* While this worker waits for the mutex, others may look at its state: StarPU waits for them
 * otherwise, and they for it. */
static void lock(struct policy *p)
{
    starpu_worker_relax_on();
    STARPU_PTHREAD_MUTEX_LOCK(&p->mutex);
    starpu_worker_relax_off();
}

static void init(unsigned context)
{
    struct policy *p = mot_alloc_zeroed(1, sizeof(*p));
    STARPU_PTHREAD_MUTEX_INIT(&p->mutex, NULL);
    starpu_task_list_init(&p->queue);
    starpu_sched_ctx_set_policy_data(context, p);
}

static void deinit(unsigned context)
{
    struct policy *p = of(context);
    MOT_ASSERT(starpu_task_list_empty(&p->queue));
    STARPU_PTHREAD_MUTEX_DESTROY(&p->mutex);
    free(p);
}

static void add_workers(unsigned context, int *workers, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        starpu_sched_ctx_worker_shares_tasks_lists(workers[i], (int)context);
    }
}

/* A task is ready.  starpu_push_task_end before a worker can take it, wakes after the mutex. */
static int push(struct starpu_task *task)
{
    struct policy *p = of(task->sched_ctx);
    const unsigned context = task->sched_ctx; /* the task may be gone once it is in the queue */
    char able[STARPU_NMAXWORKERS] = {0};
    lock(p);
    for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
        able[w] = starpu_sched_ctx_contains_worker((int)w, context)
                  && starpu_worker_can_execute_task_first_impl(w, task, NULL);
    }
    starpu_task_list_push_back(&p->queue, task);
    starpu_push_task_end(task);
    STARPU_PTHREAD_MUTEX_UNLOCK(&p->mutex);
    for (int w = 0; w < STARPU_NMAXWORKERS; w++) {
        if (able[w]) { starpu_wake_worker_relax_light(w); }
    }
    return 0;
}

/* This worker wants a task: the one this policy thinks best, or NULL.  After NULL it sleeps until
 * it is woken. */
static struct starpu_task *pop(unsigned context)
{
    struct policy *p = of(context);
    const unsigned worker = (unsigned)starpu_worker_get_id_check();
    unsigned implementation;
    lock(p);
    struct starpu_task *t = starpu_task_list_begin(&p->queue);
    while (t && !starpu_worker_can_execute_task_first_impl(worker, t, &implementation)) {
        t = starpu_task_list_next(t);
    }
    if (t) {
        starpu_task_list_erase(&p->queue, t);
        starpu_task_set_implementation(t, implementation);
    }
    STARPU_PTHREAD_MUTEX_UNLOCK(&p->mutex);
    return t;
}

struct starpu_sched_policy mot_sched_template;
struct starpu_sched_policy mot_sched_template = {
    .init_sched = init,
    .deinit_sched = deinit,
    .add_workers = add_workers,
    .push_task = push,
    .pop_task = pop,
    .policy_name = "template",
    .policy_description = "first come, first served",
    .worker_type = STARPU_WORKER_LIST,
};
