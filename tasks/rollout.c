/* rollout: chains of generate tasks and what they drew.  See rollout.h. */
#include "rollout.h"
#include "prefill.h"
#include "stages.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Under way.  mutex guards all of it but the options; it is never held while a listener runs. */
struct mot_rollout_state {
    pthread_mutex_t mutex;
    struct mot_rollout *rollout;
    struct mot_actor *actor;
    struct mot_version *version;
    const starpu_data_handle_t *packed; /* of the version; NULL: plain weights alone */
    struct mot_rollout_options options;
    struct mot_rollout_listener listener;
    struct mot_row **waiting; /* rows under way that no task holds, oldest first */
    int n_waiting;
    int next_group; /* first group not begun */
    int running;    /* generate tasks submitted and not yet read back */
    int rows_left;
    struct mot_plan_entry declared; /* of the plan: generate tasks not submitted yet */
};

/* One generate task: who is in it. */
struct flight {
    struct mot_rollout_state *state;
    starpu_data_handle_t drawn;
    int n_rows;
    struct mot_row **rows;
};

static const char *const end_names[] = {"running", "eos", "stop", "length"};

const char *mot_row_end_name(enum mot_row_end end)
{
    return end_names[end];
}

static struct mot_hint hint_of(const struct mot_rollout_state *s, int group)
{
    return (struct mot_hint){.stage = MOT_STAGE_GENERATE,
                             .step = s->options.step,
                             .group = group,
                             .version = s->version->number};
}

/* Prefills the groups among rows that have no prompt cache yet, in one task. */
static int prefill_new_groups(struct mot_rollout_state *s, struct mot_row *const *rows, int n)
{
    int lengths[n], count = 0;
    const int32_t *ids[n];
    starpu_data_handle_t caches[n];
    const struct mot_model_shape *shape = &s->actor->transformer.layout.shape;
    int first = -1;
    for (int i = 0; i < n; i++) {
        struct mot_group *g = rows[i]->group;
        if (g->cache != NULL) { continue; }
        g->cache = mot_float_vector(mot_prompt_cache_floats(shape, g->prompt_tokens));
        g->first_version = s->version->number;
        first = first < 0 ? g->index : first;
        lengths[count] = g->prompt_tokens;
        ids[count] = g->prompt;
        caches[count++] = g->cache;
        s->rollout->prompt_tokens += g->prompt_tokens;
    }
    if (count == 0) { return 0; }
    s->rollout->prefill_tasks++;
    const struct mot_prefill prefill = {.context = &s->actor->context,
                                        .weights = s->version->groups,
                                        .packed = s->packed,
                                        .n_prompts = count,
                                        .lengths = lengths,
                                        .ids = ids,
                                        .caches = caches,
                                        .hint = hint_of(s, first)};
    return mot_insert_prefill(&prefill);
}

static void generated(void *argument);

/* Operations of a task that adds so many tokens to each of n rows, each with about half of the
 * longest answer behind it. */
static double flop_of(const struct mot_rollout_state *s, int n, int tokens)
{
    const struct mot_model_shape *shape = &s->actor->transformer.layout.shape;
    const struct mot_group *g = &s->rollout->groups[0];
    const double keys = g->prompt_tokens + 0.5 * s->options.max_completion_length;
    return (double)n * tokens
           * (mot_layer_flop_per_token(shape, keys) + mot_head_flop_per_token(shape));
}

/* Tells the plan what the rollout will take at most: every row to its longest, tasks full. */
static void declare_plan(struct mot_rollout_state *s)
{
    const int most = s->options.max_completion_length, per = s->options.rows_per_task;
    const int chunk = s->options.chunk > 0 && s->options.chunk < most ? s->options.chunk : most;
    const int tasks = (s->rows_left + per - 1) / per;
    s->declared.tasks = tasks * ((most + chunk - 1) / chunk);
    s->declared.flop = flop_of(s, s->rows_left, most);
    mot_plan_declare(s->options.step, MOT_STAGE_GENERATE, s->declared.tasks, s->declared.flop);
}

/* Takes tasks and operations off the plan: they have been submitted, or will never come. */
static void withdraw_plan(struct mot_rollout_state *s, int tasks, double flop)
{
    tasks = tasks < s->declared.tasks ? tasks : s->declared.tasks;
    flop = flop < s->declared.flop ? flop : s->declared.flop;
    s->declared.tasks -= tasks;
    s->declared.flop -= flop;
    mot_plan_submitted(s->options.step, MOT_STAGE_GENERATE, tasks, flop);
}

/* Submits one generate task over rows; the mutex is held. */
static void submit(struct mot_rollout_state *s, struct mot_row *const *rows, int n)
{
    const struct mot_model_shape *shape = &s->actor->transformer.layout.shape;
    int error = prefill_new_groups(s, rows, n);
    struct flight *f = mot_alloc(sizeof(*f));
    *f = (struct flight){
        .state = s, .n_rows = n, .rows = mot_alloc((size_t)n * sizeof(struct mot_row *))};
    memcpy(f->rows, rows, (size_t)n * sizeof(struct mot_row *));
    struct mot_generate_row *spec = mot_alloc((size_t)n * sizeof(*spec));
    starpu_data_handle_t prompts[n], caches[n];
    int n_prompts = 0;
    for (int i = 0; i < n; i++) {
        struct mot_row *row = rows[i];
        const struct mot_group *g = row->group;
        int p = 0;
        while (p < n_prompts && prompts[p] != g->cache) { p++; }
        if (p == n_prompts) { prompts[n_prompts++] = g->cache; }
        if (row->cache == NULL) {
            row->cache = mot_float_vector(mot_kv_bytes(shape, row->max_tokens) / sizeof(float));
        }
        caches[i] = row->cache;
        spec[i] = (struct mot_generate_row){.prompt = p,
                                            .prompt_tokens = g->prompt_tokens,
                                            .capacity = row->max_tokens,
                                            .n = row->n,
                                            .last_id = row->n > 0 ? row->ids[row->n - 1] : 0,
                                            .max_tokens = row->max_tokens,
                                            .rng_prompt = (uint32_t)g->index,
                                            .rng_sample = (uint32_t)row->sample};
    }
    struct mot_generate generate = {.context = &s->actor->context,
                                    .weights = s->version->groups,
                                    .packed = s->packed,
                                    .n_prompts = n_prompts,
                                    .n_rows = n,
                                    .prompts = prompts,
                                    .row_caches = caches,
                                    .rows = spec,
                                    .chunk = s->options.chunk,
                                    .sampling = s->options.sampling,
                                    .seed = s->options.seed,
                                    .rng_step = (uint32_t)s->options.step,
                                    .n_eos = s->options.n_eos,
                                    .hint = hint_of(s, rows[0]->group->index),
                                    .done = generated,
                                    .argument_done = f};
    memcpy(generate.eos, s->options.eos, sizeof(generate.eos));
    f->drawn = mot_byte_vector(mot_drawn_bytes(n, mot_generate_tokens_max(&generate)));
    generate.drawn = f->drawn;
    if (error == 0) { error = mot_insert_generate(&generate); }
    mot_task_must(error); /* nothing can run this job */
    s->running++;
    s->rollout->generate_tasks++;
    withdraw_plan(s, 1, flop_of(s, n, mot_generate_tokens_max(&generate)));
    free(spec);
}

/* Submits generate tasks while there is room and work; the mutex is held.  Groups are begun whole,
 * as soon as a task has room for them.  A few long rows are kept back while other tasks are under
 * way, to be joined with what those return. */
static void feed(struct mot_rollout_state *s)
{
    const int most = s->options.rows_per_task;
    while (s->running < s->options.max_tasks) {
        while (s->next_group < s->rollout->n_groups) {
            struct mot_group *g = &s->rollout->groups[s->next_group];
            if (s->n_waiting > 0 && s->n_waiting + g->n_rows > most) { break; }
            for (int i = 0; i < g->n_rows; i++) { s->waiting[s->n_waiting++] = &g->rows[i]; }
            s->next_group++;
        }
        const int n = s->n_waiting < most ? s->n_waiting : most;
        const int is_tail = s->next_group == s->rollout->n_groups && n < (most + 1) / 2;
        if (n == 0 || (is_tail && s->running > 0)) { return; }
        submit(s, s->waiting, n);
        s->n_waiting -= n;
        memmove(s->waiting, s->waiting + n, (size_t)s->n_waiting * sizeof(s->waiting[0]));
    }
}

/* Where the text of the row first holds a stop string: tokens up to there, or 0.  Only prefixes
 * that end in the newest `fresh` tokens can be the first. */
static int stop_at(const struct mot_rollout_options *o, const struct mot_row *row, int fresh)
{
    for (int n = row->n - fresh + 1; o->n_stop > 0 && n <= row->n; n++) {
        size_t bytes;
        char *text = mot_tokenizer_decode(o->tokenizer, row->ids, (size_t)n, 1, &bytes);
        int found = 0;
        for (int i = 0; i < o->n_stop && !found; i++) {
            found = memmem(text, bytes, o->stop[i], strlen(o->stop[i])) != NULL;
        }
        free(text);
        if (found) { return n; }
    }
    return 0;
}

/* Takes a row's new tokens over; 1 when it has ended. */
static int take_tokens(const struct mot_rollout_state *s, struct mot_row *row,
                       const struct mot_sampled *tokens, int n, int ended)
{
    MOT_ASSERT(n >= 1 && row->n + n <= row->max_tokens);
    for (int i = 0; i < n; i++) {
        const int at = row->n + i;
        row->ids[at] = tokens[i].id;
        row->logprob[at] = tokens[i].logprob;
        row->logprob_kept[at] = tokens[i].logprob_kept;
        row->entropy[at] = tokens[i].entropy;
        row->version[at] = s->version->number;
        row->device[at] = STARPU_CPU_WORKER;
    }
    row->n += n;
    const int stop = stop_at(&s->options, row, n);
    if (stop > 0 && !(ended && stop == row->n)) {
        row->n = stop;
        row->end = MOT_ROW_STOP;
    } else if (ended) {
        row->end = MOT_ROW_EOS;
    } else if (row->n == row->max_tokens) {
        row->end = MOT_ROW_LENGTH;
    }
    if (row->end == MOT_ROW_RUNNING) { return 0; }
    row->text =
        mot_tokenizer_decode(s->options.tokenizer, row->ids, (size_t)row->n, 1, &row->text_bytes);
    starpu_data_unregister_submit(row->cache);
    row->cache = NULL;
    return 1;
}

static void destroy_state(struct mot_rollout_state *s)
{
    mot_version_release(s->version);
    pthread_mutex_destroy(&s->mutex);
    free(s->waiting);
    free(s);
}

/* Tells the listener of rows that have just ended; the groups they complete; and the end. */
static void report(struct mot_rollout_state *s, struct mot_row *const *ended, int n)
{
    for (int i = 0; i < n && s->listener.row; i++) {
        s->listener.row(s->listener.context, ended[i]);
    }
    for (int i = 0; i < n; i++) {
        struct mot_group *g = ended[i]->group;
        pthread_mutex_lock(&s->mutex);
        const int whole = ++g->n_ended == g->n_rows;
        pthread_mutex_unlock(&s->mutex);
        if (!whole) { continue; }
        starpu_data_unregister_submit(g->cache);
        g->cache = NULL;
        if (s->listener.group) { s->listener.group(s->listener.context, g); }
    }
}

/* What a generate task drew is in main memory: take it over, report, go on. */
static void read_back(void *argument)
{
    struct flight *f = argument;
    struct mot_rollout_state *s = f->state;
    const struct mot_drawn *drawn = starpu_data_get_local_ptr(f->drawn);
    struct mot_row *ended[f->n_rows], *live[f->n_rows];
    int n_ended = 0, n_live = 0;
    int64_t tokens = 0;
    for (int i = 0; i < f->n_rows; i++) {
        struct mot_row *row = f->rows[i];
        const int n = drawn->row[i].n;
        tokens += n;
        if (take_tokens(s, row, mot_drawn_tokens(drawn, i), n, drawn->row[i].ended)) {
            ended[n_ended++] = row;
        } else {
            live[n_live++] = row;
        }
    }
    starpu_data_release(f->drawn);
    starpu_data_unregister_submit(f->drawn);
    report(s, ended, n_ended);

    pthread_mutex_lock(&s->mutex);
    memcpy(s->waiting + s->n_waiting, live, (size_t)n_live * sizeof(live[0]));
    s->n_waiting += n_live;
    s->running--;
    s->rows_left -= n_ended;
    s->rollout->generated_tokens += tokens;
    const int last = s->rows_left == 0;
    if (last) {
        withdraw_plan(s, s->declared.tasks, s->declared.flop);
    } else {
        feed(s);
    }
    pthread_mutex_unlock(&s->mutex);
    free(f->rows);
    free(f);
    if (last) {
        struct mot_rollout *rollout = s->rollout;
        const struct mot_rollout_listener listener = s->listener;
        rollout->state = NULL;
        destroy_state(s);
        if (listener.end) { listener.end(listener.context, rollout); }
        pthread_mutex_lock(&rollout->mutex);
        rollout->ended = 1;
        pthread_cond_signal(&rollout->changed);
        pthread_mutex_unlock(&rollout->mutex);
    }
}

/* A generate task has run, on whatever device: have what it drew brought to main memory.  Not asked
 * for at submission, where the answer could come at once, under the mutex. */
static void generated(void *argument)
{
    struct flight *f = argument;
    starpu_data_acquire_cb(f->drawn, STARPU_R, read_back, f);
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
static int check_counts(int n_prompts, int samples)
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

static int create_groups(struct mot_rollout *rollout, const struct mot_prompt *prompts, int samples,
                         int max_position, int max_completion)
{
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
        }
    }
    return 0;
}

/* The packed weights that the options ask for, or NULL.  Packing takes the time that about 15
 * decoding steps win by it; rows that end early make a rollout shorter than it looks here. */
static const starpu_data_handle_t *packed_weights(struct mot_version *version, int n_rows,
                                                  const struct mot_rollout_options *options)
{
    enum { PARAMETERS = 4000000, STEPS = 48 };
    if (options->pack_weights == MOT_PACK_NEVER) { return NULL; }
    const int tasks = (n_rows + options->rows_per_task - 1) / options->rows_per_task;
    const int64_t steps = (int64_t)tasks * options->max_completion_length;
    const int pays = version->actor->transformer.layout.parameters >= PARAMETERS && steps >= STEPS;
    return mot_version_packed(version, pays || options->pack_weights == MOT_PACK_ALWAYS,
                              options->step);
}

int mot_rollout_start(struct mot_actor *actor, struct mot_version *version,
                      const struct mot_prompt *prompts, int n_prompts, int samples,
                      const struct mot_rollout_options *options,
                      const struct mot_rollout_listener *listener, struct mot_rollout **rollout)
{
    MOT_ASSERT(n_prompts >= 1 && samples >= 1 && options->max_completion_length >= 1);
    MOT_ASSERT(options->rows_per_task >= 1);
    struct mot_rollout *r = mot_alloc_zeroed(1, sizeof(*r));
    r->n_groups = n_prompts;
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->groups = mot_alloc_zeroed((size_t)n_prompts, sizeof(struct mot_group));
    int error = check_counts(n_prompts, samples);
    if (error == 0) {
        error = create_groups(r, prompts, samples, actor->transformer.layout.shape.max_position,
                              options->max_completion_length);
    }
    if (error) {
        mot_version_release(version);
        mot_rollout_destroy(r);
        return error;
    }
    struct mot_rollout_state *s = mot_alloc_zeroed(1, sizeof(*s));
    *s = (struct mot_rollout_state){.rollout = r,
                                    .actor = actor,
                                    .version = version,
                                    .packed = packed_weights(version, n_prompts * samples, options),
                                    .options = *options,
                                    .listener = *listener,
                                    .rows_left = n_prompts * samples};
    pthread_mutex_init(&s->mutex, NULL);
    if (s->options.max_tasks <= 0) { s->options.max_tasks = mot_cpu_workers(); }
    s->waiting = mot_alloc((size_t)s->rows_left * sizeof(struct mot_row *));
    r->state = s;
    *rollout = r; /* before the first task: a listener may look at it */
    declare_plan(s);
    pthread_mutex_lock(&s->mutex);
    feed(s);
    pthread_mutex_unlock(&s->mutex);
    return 0;
}

void mot_rollout_wait(struct mot_rollout *rollout)
{
    pthread_mutex_lock(&rollout->mutex);
    while (!rollout->ended) { pthread_cond_wait(&rollout->changed, &rollout->mutex); }
    pthread_mutex_unlock(&rollout->mutex);
}

void mot_rollout_destroy(struct mot_rollout *rollout)
{
    if (rollout == NULL) { return; }
    MOT_ASSERT(rollout->state == NULL);
    pthread_cond_destroy(&rollout->changed);
    pthread_mutex_destroy(&rollout->mutex);
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
