/* The order among rollouts under way together, and admission.  See rollout_line.h. */
#include "rollout_line.h"
#include "rollout_internal.h"
#include <stdlib.h>

int64_t mot_admission_capacity(const struct mot_admission *a)
{
    const int64_t fresh = (a->eta + a->version + 1) * a->batch - (a->accepted + a->running);
    const int64_t room = a->concurrency - a->running;
    return a->concurrency > 0 && room < fresh ? room : fresh;
}

struct mot_rollout_line *mot_rollout_line_create(int max_tasks,
                                                 const struct mot_admission *admission)
{
    struct mot_rollout_line *line = mot_alloc_zeroed(1, sizeof(*line));
    starpu_pthread_mutex_init(&line->mutex, NULL);
    line->max_tasks = max_tasks > 0 ? max_tasks : mot_cpu_workers();
    line->is_limited = admission != NULL;
    if (admission) { line->admission = *admission; }
    return line;
}

void mot_rollout_line_destroy(struct mot_rollout_line *line)
{
    MOT_ASSERT(line->oldest == NULL && line->running == 0);
    if (line->newest) { mot_version_release(line->newest); }
    starpu_pthread_mutex_destroy(&line->mutex);
    free(line);
}

void mot_rollout_line_feed(struct mot_rollout_line *line)
{
    for (struct mot_rollout_state *s = line->oldest; s != NULL; s = s->next) {
        mot_rollout_feed(s);
    }
}

void mot_rollout_line_tell(const struct mot_rollout_line *line)
{
    if (!line->is_limited || !mot_trace_is_on()) { return; }
    mot_trace_value("prompts under way", (double)line->admission.running);
    mot_trace_value("prompts admitted", (double)mot_admission_capacity(&line->admission));
}

void mot_rollout_line_enter(struct mot_rollout_state *state)
{
    struct mot_rollout_line *line = state->line;
    starpu_pthread_mutex_lock(&line->mutex);
    struct mot_rollout_state **at = &line->oldest;
    MOT_ASSERT(!line->cancelled);
    while (*at != NULL) { at = &(*at)->next; }
    *at = state;
    mot_rollout_line_feed(line);
    starpu_pthread_mutex_unlock(&line->mutex);
}

void mot_rollout_line_leave(struct mot_rollout_state *state)
{
    struct mot_rollout_state **at = &state->line->oldest;
    while (*at != state) { at = &(*at)->next; }
    *at = state->next;
    state->next = NULL;
}

void mot_rollout_line_publish(struct mot_rollout_line *line, struct mot_version *version,
                              int64_t step)
{
    starpu_pthread_mutex_lock(&line->mutex);
    struct mot_version *old = line->newest;
    line->newest = version;
    line->newest_step = step;
    line->admission.version = step;
    mot_trace_value("weights version", (double)step); /* optimised steps behind it */
    mot_rollout_line_tell(line);
    mot_rollout_line_feed(line);
    starpu_pthread_mutex_unlock(&line->mutex);
    if (old) { mot_version_release(old); }
}

void mot_rollout_line_accept(struct mot_rollout_line *line, int64_t prompts)
{
    starpu_pthread_mutex_lock(&line->mutex);
    line->admission.accepted += prompts;
    starpu_pthread_mutex_unlock(&line->mutex);
}

void mot_rollout_line_cancel(struct mot_rollout_line *line)
{
    struct mot_rollout_state *idle = NULL;
    starpu_pthread_mutex_lock(&line->mutex);
    line->cancelled = 1;
    for (struct mot_rollout_state *s = line->oldest, *next; s != NULL; s = next) {
        next = s->next;
        if (s->running > 0) { continue; } /* ends when these are read back */
        mot_rollout_line_leave(s);
        s->next = idle;
        idle = s;
    }
    starpu_pthread_mutex_unlock(&line->mutex);
    while (idle != NULL) {
        struct mot_rollout_state *s = idle;
        idle = s->next;
        mot_rollout_finish(s);
    }
}
