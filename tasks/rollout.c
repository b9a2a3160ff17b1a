/* rollout: rollouts, their groups and rows.  See rollout.h. */
#include "rollout.h"
#include "rollout_internal.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *const end_names[] = {"running", "eos", "stop", "length"};

const char *mot_row_end_name(enum mot_row_end end)
{
    return end_names[end];
}

static void create_row(struct mot_row *row, struct mot_group *g, int sample, int max_tokens)
{
    const size_t n = (size_t)max_tokens;
    *row = (struct mot_row){.group = g, .sample = sample, .max_tokens = max_tokens};
    row->ids = mot_alloc(n * sizeof(int32_t));
    row->logprob = mot_alloc(n * sizeof(float));
    row->logprob_kept = mot_alloc(n * sizeof(float));
    row->entropy = mot_alloc(n * sizeof(float));
    row->version = mot_alloc(n * sizeof(int32_t));
    row->device = mot_alloc(n);
}

/* What the tasks' random numbers can tell apart (generate.h), and an int count. */
int mot_rollout_check_counts(int n_prompts, int samples)
{
    enum { MOST = 65536 };
    if (n_prompts > MOST || samples > MOST) {
        return mot_fail(EINVAL, "%d prompts with %d answers each: at most %d of both at once",
                        n_prompts, samples, MOST);
    }
    if ((int64_t)n_prompts * samples > INT_MAX) {
        return mot_fail(EINVAL, "%d prompts with %d answers each: more than %d rows at once",
                        n_prompts, samples, INT_MAX);
    }
    return 0;
}

/* A simulated answer ends within what there is room for. */
static void set_length(struct mot_row *row, const struct mot_rollout_options *options)
{
    const struct mot_answer_lengths *l = options->lengths;
    l->of(l->context, options->step, row->group->index, row->sample, &row->length,
          &row->expected_length);
    MOT_ASSERT(row->length >= 1 && row->expected_length >= 0);
    if (row->length > row->max_tokens) { row->length = row->max_tokens; }
}

static int create_groups(struct mot_rollout *rollout, const struct mot_prompt *prompts, int samples,
                         int max_position, const struct mot_rollout_options *options)
{
    const int max_completion = options->max_completion_length;
    for (int i = 0; i < rollout->n_groups; i++) {
        struct mot_group *g = &rollout->groups[i];
        const int room = max_position - prompts[i].n;
        if (prompts[i].n < 1 || room < 1) {
            return mot_fail(EINVAL,
                            "prompt %d has %d tokens; the model's context of %d tokens "
                            "leaves no room for an answer",
                            prompts[i].example, prompts[i].n, max_position);
        }
        *g = (struct mot_group){.index = i,
                                .example = prompts[i].example,
                                .prompt = prompts[i].ids,
                                .prompt_tokens = prompts[i].n,
                                .n_rows = samples};
        g->rows = mot_alloc_zeroed((size_t)samples, sizeof(struct mot_row));
        for (int k = 0; k < samples; k++) {
            create_row(&g->rows[k], g, k, room < max_completion ? room : max_completion);
            if (options->lengths) { set_length(&g->rows[k], options); }
        }
    }
    return 0;
}

/* Packing takes the time that about 15 decoding steps win by it; rows that end early make a rollout
 * shorter than it looks here. */
static int packing_pays(const struct mot_actor *actor, int n_rows,
                        const struct mot_rollout_options *options)
{
    enum { PARAMETERS = 4000000, STEPS = 48 };
    const int tasks = (n_rows + options->rows_per_task - 1) / options->rows_per_task;
    const int64_t steps = (int64_t)tasks * options->max_completion_length;
    return actor->transformer.layout.parameters >= PARAMETERS && steps >= STEPS;
}

int mot_rollout_create(const struct mot_actor *actor, const struct mot_prompt *prompts,
                       int n_prompts, int samples, const struct mot_rollout_options *options,
                       struct mot_rollout **rollout)
{
    MOT_ASSERT(n_prompts >= 1 && samples >= 1 && options->max_completion_length >= 1);
    struct mot_rollout *r = mot_alloc_zeroed(1, sizeof(*r));
    r->n_groups = n_prompts;
    starpu_pthread_mutex_init(&r->mutex, NULL);
    starpu_pthread_cond_init(&r->changed, NULL);
    r->groups = mot_alloc_zeroed((size_t)n_prompts, sizeof(struct mot_group));
    int error = mot_rollout_check_counts(n_prompts, samples);
    if (error == 0) {
        error = create_groups(r, prompts, samples, actor->transformer.layout.shape.max_position,
                              options);
    }
    if (error) {
        mot_rollout_destroy(r);
        return error;
    }
    *rollout = r;
    return 0;
}

int mot_rollout_start(struct mot_actor *actor, struct mot_version *version,
                      const struct mot_prompt *prompts, int n_prompts, int samples,
                      const struct mot_rollout_options *options,
                      const struct mot_rollout_listener *listener, struct mot_rollout **rollout)
{
    MOT_ASSERT(options->rows_per_task >= 1 && (version || options->line));
    struct mot_rollout *r;
    const int error = mot_rollout_create(actor, prompts, n_prompts, samples, options, &r);
    if (error) {
        if (version) { mot_version_release(version); }
        return error;
    }
    struct mot_rollout_line *line = options->line;
    struct mot_rollout_state *s = mot_alloc_zeroed(1, sizeof(*s));
    *s = (struct mot_rollout_state){
        .line = line ? line : mot_rollout_line_create(options->max_tasks, NULL),
        .owns_line = line == NULL,
        .rollout = r,
        .actor = actor,
        .version = version,
        .version_step = options->version_step,
        .options = *options,
        .listener = *listener,
        .rows_left = n_prompts * samples,
        .pack_pays = packing_pays(actor, n_prompts * samples, options)};
    s->waiting = mot_alloc((size_t)s->rows_left * sizeof(struct mot_row *));
    r->state = s;
    *rollout = r; /* before the first task: a listener may look at it */
    mot_rollout_declare(s);
    mot_rollout_line_enter(s);
    return 0;
}

void mot_rollout_tell(struct mot_rollout *rollout, const struct mot_tokenizer *tokenizer,
                      const struct mot_rollout_listener *listener)
{
    for (int p = 0; p < rollout->n_groups; p++) {
        struct mot_group *g = &rollout->groups[p];
        for (int k = 0; k < g->n_rows; k++) {
            struct mot_row *row = &g->rows[k];
            row->text =
                mot_tokenizer_decode(tokenizer, row->ids, (size_t)row->n, 1, &row->text_bytes);
            if (listener->row) { listener->row(listener->context, row); }
        }
        g->n_ended = g->n_rows;
        if (listener->group) { listener->group(listener->context, g); }
    }
    if (listener->end) { listener->end(listener->context, rollout); }
    starpu_pthread_mutex_lock(&rollout->mutex);
    rollout->ended = 1;
    starpu_pthread_cond_signal(&rollout->changed);
    starpu_pthread_mutex_unlock(&rollout->mutex);
}

void mot_rollout_wait(struct mot_rollout *rollout)
{
    starpu_pthread_mutex_lock(&rollout->mutex);
    while (!rollout->ended) { starpu_pthread_cond_wait(&rollout->changed, &rollout->mutex); }
    starpu_pthread_mutex_unlock(&rollout->mutex);
}

void mot_rollout_destroy(struct mot_rollout *rollout)
{
    if (rollout == NULL) { return; }
    MOT_ASSERT(rollout->state == NULL);
    starpu_pthread_cond_destroy(&rollout->changed);
    starpu_pthread_mutex_destroy(&rollout->mutex);
    for (int i = 0; i < rollout->n_groups; i++) {
        struct mot_group *g = &rollout->groups[i];
        for (int k = 0; g->rows != NULL && k < g->n_rows; k++) {
            struct mot_row *row = &g->rows[k];
            free(row->ids);
            free(row->logprob);
            free(row->logprob_kept);
            free(row->entropy);
            free(row->version);
            free(row->device);
            free(row->text);
        }
        free(g->rows);
    }
    free(rollout->groups);
    free(rollout);
}
