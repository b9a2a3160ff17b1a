/* Classes of identical devices.  See sched_core.h.
 *
 * Devices are alike when they are of one kind, say the same of themselves and have their memory
 * where the others have it; and no more once StarPU's models tell them apart, as they do for the
 * devices of a simulation and for invented ones, which all have the same name. */
#include "error.h"
#include "sched_models.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* "CUDA 3.0 (NVIDIA H800 79.1 GiB 1b:00.0)" to "CUDA NVIDIA H800 79.1 GiB". */
static void describe(int worker, char *text, size_t bytes)
{
    char name[128];
    starpu_worker_get_name(worker, name, sizeof(name));
    const char *kind = starpu_worker_get_type_as_string(starpu_worker_get_type(worker));
    char *device = strchr(name, '(');
    char *end = device ? strrchr(device, ')') : NULL;
    if (end) { *end = '\0'; }
    char *place = device ? strrchr(device, ' ') : NULL;
    if (place && strchr(place, ':')) { *place = '\0'; }
    snprintf(text, bytes, "%s %.50s", kind, device ? device + 1 : "");
}

static int in_main_memory(int worker)
{
    return starpu_worker_get_memory_node((unsigned)worker) == STARPU_MAIN_RAM;
}

static int new_class(struct mot_sched *s, int worker)
{
    if (s->n_classes == MOT_SCHED_CLASSES_MAX) { return s->n_classes - 1; }
    struct mot_sched_class *c = &s->class[s->n_classes];
    *c = (struct mot_sched_class){.first = worker};
    describe(worker, c->name, sizeof(c->name));
    mot_models_fill_class(s, c);
    s->epoch++;
    return s->n_classes++;
}

void mot_sched_class_add(struct mot_sched *s, int worker)
{
    char name[sizeof(s->class[0].name)];
    describe(worker, name, sizeof(name));
    int class = -1;
    for (int c = 0; c < s->n_classes && class < 0; c++) {
        if (strcmp(s->class[c].name, name) == 0
            && in_main_memory(s->class[c].first) == in_main_memory(worker)) {
            class = c;
        }
    }
    if (class < 0) { class = new_class(s, worker); }
    s->class[class].workers++;
    s->worker[worker].class = class;
    s->worker[worker].node = starpu_worker_get_memory_node((unsigned)worker);
    s->worker[worker].is_used = 1;
    s->worker[worker].slow = 1.0;
    if (worker >= s->n_workers) { s->n_workers = worker + 1; }
}

void mot_sched_class_remove(struct mot_sched *s, int worker)
{
    if (!s->worker[worker].is_used) { return; }
    struct mot_sched_class *c = &s->class[s->worker[worker].class];
    s->worker[worker].is_used = 0;
    c->workers--;
    if (c->first != worker) { return; }
    for (int w = 0; w < s->n_workers; w++) {
        if (s->worker[w].is_used && &s->class[s->worker[w].class] == c) { c->first = w; }
    }
}

/* StarPU's estimates of all implementations that both can run, compared as they are: NAN equals
 * NAN. */
static int same_estimates(const struct mot_sched *s, struct starpu_task *task, int a, int b)
{
    for (unsigned i = 0; i < STARPU_MAXIMPLEMENTATIONS; i++) {
        if (!starpu_worker_can_execute_task((unsigned)a, task, i)
            || !starpu_worker_can_execute_task((unsigned)b, task, i)) {
            continue;
        }
        const double x = starpu_task_worker_expected_length(task, (unsigned)a, s->context, i);
        const double y = starpu_task_worker_expected_length(task, (unsigned)b, s->context, i);
        if (x != y && !(isnan(x) && isnan(y))) { return 0; }
    }
    return 1;
}

/* A worker that differs goes to the class of another that has left the same one and is like it,
 * else to a new one.  What was learned of the class is learned again: it was of both. */
static void part(struct mot_sched *s, struct mot_sched_task *t, int worker, int first_new)
{
    const int old = s->worker[worker].class;
    int class = -1;
    for (int c = first_new; c < s->n_classes && class < 0; c++) {
        if (strcmp(s->class[c].name, s->class[old].name) == 0
            && same_estimates(s, t->task, s->class[c].first, worker)) {
            class = c;
        }
    }
    if (class < 0) { class = new_class(s, worker); }
    if (class == old) { return; }
    s->class[old].workers--;
    s->class[class].workers++;
    s->worker[worker].class = class;
}

void mot_sched_class_check(struct mot_sched *s, struct mot_sched_task *t)
{
    enum { CLOSELY = 64, THEN_EVERY = 16 };
    const int checks = s->kind_checks[t->kind]++;
    if (checks > CLOSELY && checks % THEN_EVERY != 0) { return; }
    const int first_new = s->n_classes;
    const unsigned epoch = s->epoch;
    for (int w = 0; w < s->n_workers; w++) {
        if (!s->worker[w].is_used || s->worker[w].running) { continue; }
        const int first = s->class[s->worker[w].class].first;
        if (w != first && !same_estimates(s, t->task, first, w)) { part(s, t, w, first_new); }
    }
    if (s->epoch != epoch) { mot_sched_guess(s, t); }
}
