/* Inserting tasks that carry a hint.  See motley.h.
 *
 * The state of a task is its callback's argument, which StarPU frees with the task: no path leaks
 * it, and mot_task_hint() knows our tasks by their callback.  The worker is entered in the pop
 * prologue, which StarPU runs in the worker's own thread right before the task. */
#include "task.h"
#include "simulate.h"
#include <stdlib.h>
#include <string.h>

static int memory_is_limited; /* some memory node has a size StarPU enforces */

void mot_task_setup(void)
{
    memory_is_limited = 0;
    for (unsigned node = 0; node < starpu_memory_nodes_get_count(); node++) {
        if (starpu_memory_get_total(node) >= 0) { memory_is_limited = 1; }
    }
}

static void task_taken(void *argument)
{
    struct mot_task_state *state = argument;
    mot_watchdog_taken(state, starpu_worker_get_id());
    state->trace.popped_us = state->start_us;
    mot_worker_enter();
}

static void task_done(void *argument)
{
    struct mot_task_state *state = argument;
    if (state->done) { state->done(state->argument_done); }
    mot_watchdog_finished(state); /* last: what done() submits keeps the count above 0 */
}

const struct mot_hint *mot_task_hint(const struct starpu_task *task)
{
    if (!task || task->callback_func != task_done) { return NULL; }
    return &((const struct mot_task_state *)task->callback_arg)->hint;
}

struct mot_trace_task *mot_task_trace(const struct starpu_task *task)
{
    if (!task || task->callback_func != task_done) { return NULL; }
    return &((struct mot_task_state *)task->callback_arg)->trace;
}

static const char *name_of(const struct mot_task *task)
{
    if (task->name) { return task->name; }
    return task->codelet && task->codelet->name ? task->codelet->name : "unnamed";
}

static int check_description(const struct mot_task *task)
{
    const char *name = name_of(task);
    if (!task->codelet) { return mot_fail(EINVAL, "task %s: no codelet", name); }
    if (task->n_buffers < 0 || (task->n_buffers > 0 && !task->handles)) {
        return mot_fail(EINVAL, "task %s: no handles for its %d buffers", name, task->n_buffers);
    }
    const int fixed = task->codelet->nbuffers != STARPU_VARIABLE_NBUFFERS;
    if (fixed && task->codelet->nbuffers != task->n_buffers) {
        return mot_fail(EINVAL, "task %s: %d buffers for a codelet of %d", name, task->n_buffers,
                        task->codelet->nbuffers);
    }
    if (!fixed && task->n_buffers > 0 && !task->modes) {
        return mot_fail(EINVAL, "task %s: no access modes", name);
    }
    for (int i = 0; i < task->n_buffers; i++) {
        if (!task->handles[i]) { return mot_fail(EINVAL, "task %s: buffer %d is NULL", name, i); }
        if (fixed && task->modes && task->modes[i] != STARPU_CODELET_GET_MODE(task->codelet, i)) {
            return mot_fail(EINVAL, "task %s: buffer %d has another access mode than its codelet",
                            name, i);
        }
    }
    return 0;
}

static void fill_buffers(struct starpu_task *t, const struct mot_task *task)
{
    const size_t n = (size_t)task->n_buffers;
    const int variable = task->codelet->nbuffers == STARPU_VARIABLE_NBUFFERS;
    starpu_data_handle_t *handles = t->handles;
    enum starpu_data_access_mode *modes = t->modes;
    if (n > STARPU_NMAXBUFS) { /* freed with the task */
        handles = t->dyn_handles = mot_alloc_zeroed(n, sizeof(*handles));
        if (variable) { modes = t->dyn_modes = mot_alloc_zeroed(n, sizeof(*modes)); }
    }
    if (n > 0) { memcpy(handles, task->handles, n * sizeof(*handles)); }
    if (variable) {
        t->nbuffers = task->n_buffers;
        if (n > 0) { memcpy(modes, task->modes, n * sizeof(*modes)); }
    }
}

/* All buffers of a task must fit the worker's memory together: a datum too large for the device it
 * is sent to hangs StarPU.  Workers that are too small are excluded from this task, and in a
 * simulation those that cannot run it. */
static int exclude_workers(struct starpu_task *t, const struct mot_task *task)
{
    size_t bytes = 0, largest = 0;
    int able = 0, excluded = 0, incapable = 0, at = 0;
    long long room = 0;
    for (int i = 0; i < task->n_buffers; i++) {
        const size_t size = starpu_data_get_size(task->handles[i]);
        bytes += size;
        if (size > largest) {
            largest = size;
            at = i;
        }
    }
    const unsigned workers = starpu_worker_get_count();
    uint32_t *fits = ((struct mot_task_state *)t->callback_arg)->fits;
    for (unsigned w = 0; w < workers; w++) {
        unsigned variant;
        if (!starpu_worker_can_execute_task_first_impl(w, t, &variant)) { continue; }
        if (!mot_simulate_can_run(t->callback_arg, (int)w)) {
            incapable++;
            continue;
        }
        const starpu_ssize_t total = starpu_memory_get_total(starpu_worker_get_memory_node(w));
        able++;
        if (total < 0 || bytes <= (size_t)total) {
            fits[w / 32] |= UINT32_C(1) << (w % 32);
        } else {
            excluded++;
            if (total > room) { room = total; }
        }
    }
    char place[512];
    if (able > 0 && excluded == able) {
        return mot_fail(
            ENODEV,
            "%stask %s: its buffers take %zu bytes (the largest is buffer %d, %zu bytes),"
            " the largest memory of a worker that could run it is %lld bytes",
            mot_simulate_place(place, sizeof(place)), name_of(task), bytes, at, largest, room);
    }
    if (able == 0) {
        return mot_fail(ENODEV, "%stask %s: no worker here can run it",
                        mot_simulate_place(place, sizeof(place)), name_of(task));
    }
    if (excluded + incapable > 0) {
        t->workerids = fits;
        t->workerids_len = (workers + 31) / 32;
    }
    return 0;
}

/* The accesses that the recorder notes come behind the state. */
static struct mot_task_state *create_state(const struct mot_task *task)
{
    const size_t accesses = mot_trace_on() ? (size_t)task->n_buffers : 0;
    struct mot_task_state *state =
        mot_alloc_zeroed(1, sizeof(*state) + accesses * sizeof(struct mot_trace_access_message));
    state->hint = task->hint;
    state->name = name_of(task);
    state->done = task->done;
    state->argument_done = task->argument_done;
    state->worker = -1;
    state->trace.hint = &state->hint;
    state->trace.name = state->name;
    state->trace.accesses = (void *)(state + 1);
    state->trace.number = 0;
    if (mot_trace_on()) { mot_trace_submitted(&state->trace); }
    if (MOT_SIMULATES) { mot_simulate_task(state, task); }
    return state;
}

static struct starpu_task *create(const struct mot_task *task)
{
    struct mot_task_state *state = create_state(task);
    struct starpu_task *t = starpu_task_create();
    MOT_ASSERT(t);
    t->cl = task->codelet;
    t->name = state->name;
    t->callback_func = task_done;
    t->callback_arg = state;
    t->callback_arg_free = 1;
    t->prologue_callback_pop_func = task_taken;
    t->prologue_callback_pop_arg = state;
    t->flops = task->hint.flop;
    t->cl_arg = task->argument;
    if (task->argument_bytes > 0) {
        t->cl_arg = mot_alloc(task->argument_bytes);
        memcpy(t->cl_arg, task->argument, task->argument_bytes);
        t->cl_arg_size = task->argument_bytes;
        t->cl_arg_free = 1;
    }
    const int low = starpu_sched_get_min_priority(), high = starpu_sched_get_max_priority();
    t->priority = task->priority < low ? low : task->priority > high ? high : task->priority;
    fill_buffers(t, task);
    return t;
}

int mot_task_insert(const struct mot_task *task)
{
    int error = check_description(task);
    if (error) { return error; }
    struct starpu_task *t = create(task);
    if (memory_is_limited || MOT_SIMULATES) { error = exclude_workers(t, task); }
    if (!error) {
        mot_watchdog_submitted(1);
        if (starpu_task_submit(t) == 0) { return 0; } /* t may be gone already */
        mot_watchdog_submitted(-1);
        error = mot_fail(ENODEV, "task %s: no worker here can run it", name_of(task));
    }
    mot_trace_refused(&((struct mot_task_state *)t->callback_arg)->trace);
    t->destroy = 0;
    starpu_task_destroy(t);
    return error;
}
