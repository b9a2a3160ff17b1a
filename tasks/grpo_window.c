/* grpo_window: steps under way, their turns, and the versions they read.  See grpo_window.h. */
#include "grpo_window.h"
#include <stdlib.h>
#include <string.h>

struct mot_grpo_window {
    const struct mot_grpo *grpo;
    int end;   /* the step after the last */
    int limit; /* the same of those that are started */
    struct mot_grpo_store *store;
    int oldest;  /* not released */
    int next;    /* to be started */
    int n_slots; /* max_staleness + 1 */
    struct mot_rollout_line *line;
    starpu_pthread_mutex_t mutex; /* guards what follows, which a worker's thread looks at */
    int turn;                     /* the step that trains, or would */
    struct mot_grpo_step **steps; /* (n_slots): step s at s mod n_slots */
};

static struct mot_grpo_step **slot_of(struct mot_grpo_window *w, int step)
{
    return &w->steps[step % w->n_slots];
}

static int is_bounded(const struct mot_grpo *grpo)
{
    return grpo->max_staleness > 0 && grpo->staleness_mode == MOT_STALENESS_BOUNDED;
}

struct mot_grpo_window *mot_grpo_window_open(const struct mot_grpo *grpo,
                                             const struct mot_grpo_span *span)
{
    const int first = span->first;
    const struct mot_actor_options *actor = &grpo->actor->options;
    MOT_ASSERT(grpo->max_staleness >= 0);
    MOT_ASSERT(grpo->max_staleness == 0
               || (actor->copies && actor->max_versions == grpo->max_staleness + 2));
    struct mot_grpo_window *w = mot_alloc_zeroed(1, sizeof(*w));
    w->grpo = grpo;
    w->end = span->end;
    w->limit = span->end + (span->is_open ? grpo->max_staleness : 0);
    w->store = span->store;
    w->oldest = w->next = w->turn = first;
    w->n_slots = grpo->max_staleness + 1;
    w->steps = mot_alloc_zeroed((size_t)w->n_slots, sizeof(w->steps[0]));
    const int64_t done = (int64_t)first * grpo->prompts_per_step;
    const struct mot_admission admission = {.concurrency = grpo->max_concurrent_rollouts,
                                            .eta = grpo->max_staleness,
                                            .batch = grpo->prompts_per_step,
                                            .version = first,
                                            .accepted = done};
    w->line = mot_rollout_line_create(grpo->rollout.max_tasks, &admission);
    if (is_bounded(grpo)) { mot_rollout_line_publish(w->line, mot_actor_read(grpo->actor), first); }
    starpu_pthread_mutex_init(&w->mutex, NULL);
    return w;
}

/* In a worker's thread: the weights after this step are there.  The next step is in the window
 * already, unless it holds one step: those start later, in turn. */
static void trained(void *context, int step)
{
    struct mot_grpo_window *w = context;
    struct mot_version *version = is_bounded(w->grpo) ? mot_actor_read(w->grpo->actor) : NULL;
    mot_rollout_line_publish(w->line, version, step + 1);
    starpu_pthread_mutex_lock(&w->mutex);
    w->turn = step + 1;
    const int is_there = w->n_slots > 1 && step + 1 < w->end; /* what is beyond is only generated */
    struct mot_grpo_step *next = is_there ? *slot_of(w, step + 1) : NULL;
    starpu_pthread_mutex_unlock(&w->mutex);
    if (next != NULL) { mot_grpo_step_turn(next); }
}

/* The next step.  No update runs meanwhile, they wait for mot_grpo_step_wait: the current version
 * is that of the oldest step, max(first, next - eta). */
static int start(struct mot_grpo_window *w)
{
    struct mot_grpo_place place = {
        .line = w->line, .store = w->store, .trained = trained, .context = w};
    starpu_pthread_mutex_lock(&w->mutex);
    place.waits = w->turn != w->next;
    starpu_pthread_mutex_unlock(&w->mutex);
    if (!is_bounded(w->grpo)) {
        place.version = mot_actor_read(w->grpo->actor);
        place.version_step = w->oldest;
    }
    struct mot_grpo_step *step;
    const int error = mot_grpo_step_start(w->grpo, w->next, &place, &step);
    if (error) { return error; }
    starpu_pthread_mutex_lock(&w->mutex);
    *slot_of(w, w->next) = step;
    starpu_pthread_mutex_unlock(&w->mutex);
    w->next++;
    return 0;
}

int mot_grpo_window_next(struct mot_grpo_window *w, const struct mot_grpo_result **result)
{
    while (w->next < w->limit && w->next < w->oldest + w->n_slots) {
        const int error = start(w);
        if (error) { return error; }
    }
    *result = w->oldest < w->end ? mot_grpo_step_wait(*slot_of(w, w->oldest)) : NULL;
    return 0;
}

void mot_grpo_window_release(struct mot_grpo_window *w)
{
    struct mot_grpo_step **slot = slot_of(w, w->oldest);
    starpu_pthread_mutex_lock(&w->mutex);
    struct mot_grpo_step *step = *slot;
    *slot = NULL;
    starpu_pthread_mutex_unlock(&w->mutex);
    mot_grpo_step_destroy(step);
    w->oldest++;
}

int mot_grpo_window_save(void *context, const char *directory)
{
    struct mot_grpo_window *w = context;
    const int n = w->next - w->oldest;
    if (n == 0) { return 0; }
    const struct mot_rollout **rollouts = mot_alloc((size_t)n * sizeof(*rollouts));
    for (int i = 0; i < n; i++) { rollouts[i] = mot_grpo_step_answers(*slot_of(w, w->oldest + i)); }
    const int error = mot_grpo_store_save(directory, w->grpo, w->oldest, rollouts, n);
    free(rollouts);
    return error;
}

/* Rows that were begun. */
static int64_t rows_begun(const struct mot_rollout *rollout)
{
    int64_t rows = rollout->dropped_rows;
    for (int p = 0; p < rollout->n_groups; p++) {
        const struct mot_group *g = &rollout->groups[p];
        for (int k = 0; k < g->n_rows; k++) { rows += g->rows[k].end != MOT_ROW_RUNNING; }
    }
    return rows;
}

int64_t mot_grpo_window_close(struct mot_grpo_window *w)
{
    if (w == NULL) { return 0; }
    int64_t dropped = 0;
    mot_rollout_line_cancel(w->line);
    mot_wait_all();
    for (int i = 0; i < w->n_slots; i++) {
        if (w->steps[i] == NULL) { continue; }
        dropped += rows_begun(mot_grpo_step_answers(w->steps[i]));
        mot_grpo_step_destroy(w->steps[i]);
    }
    mot_rollout_line_destroy(w->line);
    mot_grpo_store_destroy(w->store);
    starpu_pthread_mutex_destroy(&w->mutex);
    free(w->steps);
    free(w);
    return dropped;
}
