/* rollout_feed: the chains of generate tasks and what they drew.  See rollout.h. */
#include "prefill.h"
#include "rollout_internal.h"
#include <stdlib.h>
#include <string.h>

/* One generate task: who is in it. */
struct flight {
    struct mot_rollout_state *state;
    starpu_data_handle_t drawn;
    int tokens_max; /* of a row in this task */
    int n_rows;
    struct mot_row **rows;
};

static struct mot_hint hint_of(const struct mot_rollout_state *s, const struct mot_group *group)
{
    return (struct mot_hint){.stage = MOT_STAGE_GENERATE,
                             .step = s->options.step,
                             .group = group->index,
                             .version = group->version->number};
}

static const starpu_data_handle_t *packed_of(const struct mot_rollout_state *s,
                                             struct mot_version *version)
{
    const enum mot_pack_weights pack = s->options.pack_weights;
    if (pack == MOT_PACK_NEVER) { return NULL; }
    return mot_version_packed(version, s->pack_pays || pack == MOT_PACK_ALWAYS, s->options.step);
}

/* ---- The plan -------------------------------------------------------------------------------- */

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

/* Every row to its longest, tasks full. */
void mot_rollout_declare(struct mot_rollout_state *s)
{
    const int most = s->options.max_completion_length, per = s->options.rows_per_task;
    const int chunk = s->options.chunk > 0 && s->options.chunk < most ? s->options.chunk : most;
    const int tasks = (s->rows_left + per - 1) / per;
    s->declared.tasks = tasks * ((most + chunk - 1) / chunk);
    s->declared.flop = flop_of(s, s->rows_left, most);
    mot_plan_declare(s->options.step, MOT_STAGE_GENERATE, s->declared.tasks, s->declared.flop);
}

/* Takes tasks and operations off the plan: they have been submitted, or will never come. */
static void withdraw(struct mot_rollout_state *s, int tasks, double flop)
{
    tasks = tasks < s->declared.tasks ? tasks : s->declared.tasks;
    flop = flop < s->declared.flop ? flop : s->declared.flop;
    s->declared.tasks -= tasks;
    s->declared.flop -= flop;
    mot_plan_submitted(s->options.step, MOT_STAGE_GENERATE, tasks, flop);
}

void mot_rollout_withdraw(struct mot_rollout_state *s)
{
    withdraw(s, s->declared.tasks, s->declared.flop);
}

/* ---- Submission ------------------------------------------------------------------------------ */

/* Prefills the groups among rows that have no prompt cache yet, in one task; all rows are of one
 * version. */
static int prefill_new_groups(struct mot_rollout_state *s, struct mot_row *const *rows, int n)
{
    const struct mot_model_shape *shape = &s->actor->transformer.layout.shape;
    int *lengths = mot_alloc((size_t)n * sizeof(*lengths)), count = 0, status = 0;
    const int32_t **ids = mot_alloc((size_t)n * sizeof(*ids));
    starpu_data_handle_t *caches = mot_alloc((size_t)n * sizeof(*caches));
    const struct mot_group *first = NULL;
    for (int i = 0; i < n; i++) {
        struct mot_group *g = rows[i]->group;
        if (g->cache != NULL) { continue; }
        g->cache =
            mot_number_vector(&s->actor->context, mot_prompt_cache_floats(shape, g->prompt_tokens));
        mot_data_name(g->cache, "prompt cache %d s%d", g->index, s->options.step);
        first = first == NULL ? g : first;
        lengths[count] = g->prompt_tokens;
        ids[count] = g->prompt;
        caches[count++] = g->cache;
        s->rollout->prompt_tokens += g->prompt_tokens;
    }
    if (count > 0) {
        s->rollout->prefill_tasks++;
        const struct mot_prefill prefill = {.context = &s->actor->context,
                                            .weights = first->version->groups,
                                            .packed = packed_of(s, first->version),
                                            .n_prompts = count,
                                            .lengths = lengths,
                                            .ids = ids,
                                            .caches = caches,
                                            .hint = hint_of(s, first)};
        status = mot_insert_prefill(&prefill);
    }
    free(lengths);
    free(ids);
    free(caches);
    return status;
}

/* The rows of a task as its codelet wants them; returns how many prompt caches they read. */
static int describe_rows(const struct mot_rollout_state *s, struct mot_row *const *rows, int n,
                         struct mot_generate_row *spec, starpu_data_handle_t *prompts,
                         starpu_data_handle_t *caches)
{
    const struct mot_model_shape *shape = &s->actor->transformer.layout.shape;
    int n_prompts = 0;
    for (int i = 0; i < n; i++) {
        struct mot_row *row = rows[i];
        const struct mot_group *g = row->group;
        int p = 0;
        while (p < n_prompts && prompts[p] != g->cache) { p++; }
        if (p == n_prompts) { prompts[n_prompts++] = g->cache; }
        if (row->cache == NULL) {
            row->cache = mot_number_vector(&s->actor->context,
                                           mot_kv_bytes(shape, row->max_tokens) / sizeof(float));
            mot_data_name(row->cache, "row cache %d.%d s%d", g->index, row->sample,
                          s->options.step);
        }
        caches[i] = row->cache;
        spec[i] = (struct mot_generate_row){.prompt = p,
                                            .prompt_tokens = g->prompt_tokens,
                                            .capacity = row->max_tokens,
                                            .n = row->n,
                                            .last_id = row->n > 0 ? row->ids[row->n - 1] : 0,
                                            .max_tokens = row->max_tokens,
                                            .expected_tokens = row->expected_length,
                                            .simulated_tokens = row->length,
                                            .rng_prompt = (uint32_t)g->index,
                                            .rng_sample = (uint32_t)row->sample};
    }
    return n_prompts;
}

static void generated(void *argument);

/* Submits one generate task over rows of one version; the mutex is held. */
static void submit(struct mot_rollout_state *s, struct mot_row *const *rows, int n)
{
    int error = prefill_new_groups(s, rows, n);
    const size_t N = (size_t)n;
    struct flight *f = mot_alloc(sizeof(*f));
    *f = (struct flight){.state = s, .n_rows = n, .rows = mot_alloc(N * sizeof(f->rows[0]))};
    memcpy(f->rows, rows, N * sizeof(f->rows[0]));
    struct mot_generate_row *spec = mot_alloc(N * sizeof(*spec));
    starpu_data_handle_t *prompts = mot_alloc(N * sizeof(*prompts));
    starpu_data_handle_t *caches = mot_alloc(N * sizeof(*caches));
    struct mot_version *version = rows[0]->group->version;
    struct mot_generate generate = {.context = &s->actor->context,
                                    .weights = version->groups,
                                    .packed = packed_of(s, version),
                                    .n_rows = n,
                                    .prompts = prompts,
                                    .row_caches = caches,
                                    .rows = spec,
                                    .chunk = s->options.chunk,
                                    .sampling = s->options.sampling,
                                    .seed = s->options.seed,
                                    .rng_step = (uint32_t)s->options.step,
                                    .n_eos = s->options.n_eos,
                                    .hint = hint_of(s, rows[0]->group),
                                    .done = generated,
                                    .argument_done = f};
    generate.n_prompts = describe_rows(s, rows, n, spec, prompts, caches);
    memcpy(generate.eos, s->options.eos, sizeof(generate.eos));
    f->tokens_max = mot_generate_tokens_max(&generate);
    f->drawn = mot_byte_vector(mot_drawn_bytes(n, f->tokens_max));
    mot_data_name(f->drawn, "drawn tokens s%d", s->options.step);
    generate.drawn = f->drawn;
    if (error == 0) { error = mot_insert_generate(&generate); }
    mot_task_must(error); /* nothing can run this job */
    s->running++;
    s->line->running++;
    s->rollout->generate_tasks++;
    withdraw(s, 1, flop_of(s, n, mot_generate_tokens_max(&generate)));
    free(spec);
    free(prompts);
    free(caches);
}

/* Begins groups, whole, while the next task has room for them and the line admits them; 0 when none
 * can be begun now whatever the room. */
static int begin_groups(struct mot_rollout_state *s)
{
    struct mot_rollout_line *line = s->line;
    while (s->next_group < s->rollout->n_groups) {
        struct mot_group *g = &s->rollout->groups[s->next_group];
        if (s->n_waiting > 0 && s->n_waiting + g->n_rows > s->options.rows_per_task) { return 1; }
        if (line->is_limited && mot_admission_capacity(&line->admission) < 1) { return 0; }
        line->admission.running++;
        mot_rollout_line_tell(line);
        g->version = s->version ? s->version : line->newest;
        g->version_step = s->version ? s->version_step : line->newest_step;
        mot_version_retain(g->version);
        for (int i = 0; i < g->n_rows; i++) { s->waiting[s->n_waiting++] = &g->rows[i]; }
        s->next_group++;
    }
    return 0;
}

/* Brings the first waiting rows of one version, at most `most`, to the front; their number. */
static int gather(struct mot_rollout_state *s, int most)
{
    int n = 0;
    for (int i = 0; i < s->n_waiting && n < most; i++) {
        struct mot_row *row = s->waiting[i];
        if (row->group->version != s->waiting[0]->group->version) { continue; }
        memmove(s->waiting + n + 1, s->waiting + n, (size_t)(i - n) * sizeof(s->waiting[0]));
        s->waiting[n++] = row;
    }
    return n;
}

/* Submits generate tasks while there is room and work.  A few long rows are kept back while other
 * tasks of the rollout are under way, to be joined with what those return. */
void mot_rollout_feed(struct mot_rollout_state *s)
{
    struct mot_rollout_line *line = s->line;
    const int most = s->options.rows_per_task;
    while (line->running < line->max_tasks && !line->cancelled) {
        const int is_full = begin_groups(s);
        const int n = gather(s, most);
        const int is_tail = !is_full && n == s->n_waiting && n < (most + 1) / 2;
        if (n == 0 || (is_tail && s->running > 0)) { return; }
        submit(s, s->waiting, n);
        s->n_waiting -= n;
        memmove(s->waiting, s->waiting + n, (size_t)s->n_waiting * sizeof(s->waiting[0]));
    }
}

/* ---- What was drawn -------------------------------------------------------------------------- */

/* Where a stop string that is not over yet after n tokens begins at the earliest: the token whose
 * text, with that of the later ones, is as long as the longest stop string. */
static int tail_start(const struct mot_rollout_options *o, const struct mot_row *row, int n)
{
    size_t longest = 0, bytes = 0;
    for (int i = 0; i < o->n_stop; i++) {
        const size_t n_bytes = strlen(o->stop[i]);
        longest = n_bytes > longest ? n_bytes : longest;
    }
    while (n > 0 && bytes < longest) {
        size_t token;
        free(mot_tokenizer_decode(o->tokenizer, &row->ids[--n], 1, 1, &token));
        bytes += token;
    }
    return n;
}

/* Where the text of the row first holds a stop string: tokens up to there, or 0.  Only prefixes
 * that end in the newest `fresh` tokens can be the first. */
static int stop_at(const struct mot_rollout_options *o, const struct mot_row *row, int fresh)
{
    for (int n = row->n - fresh + 1; o->n_stop > 0 && n <= row->n; n++) {
        const int from = tail_start(o, row, n - 1);
        size_t bytes;
        char *text =
            mot_tokenizer_decode(o->tokenizer, row->ids + from, (size_t)(n - from), 1, &bytes);
        int found = 0;
        for (int i = 0; i < o->n_stop && !found; i++) {
            found = memmem(text, bytes, o->stop[i], strlen(o->stop[i])) != NULL;
        }
        free(text);
        if (found) { return n; }
    }
    return 0;
}

/* The row has ended: its text, and nothing more of its keys and values. */
static void end_row(const struct mot_rollout_state *s, struct mot_row *row)
{
    row->text = s->options.lengths ? mot_strdup("")
                                   : mot_tokenizer_decode(s->options.tokenizer, row->ids,
                                                          (size_t)row->n, 1, &row->text_bytes);
    starpu_data_unregister_submit(row->cache);
    row->cache = NULL;
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
        row->version[at] = row->group->version->number;
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
    end_row(s, row);
    return 1;
}

/* The same in a simulation: no tokens, only how many; *n of them. */
static int take_length(const struct mot_rollout_state *s, struct mot_row *row, int tokens_max,
                       int *n)
{
    const int left = row->length - row->n;
    *n = left < tokens_max ? left : tokens_max;
    row->n += *n;
    if (row->n < row->length) { return 0; }
    row->end = row->n == row->max_tokens ? MOT_ROW_LENGTH : MOT_ROW_EOS;
    end_row(s, row);
    return 1;
}

/* A group's end, or that of a dropped one: its prompt cache and weights are no longer needed. */
static void let_go(struct mot_group *g)
{
    if (g->cache != NULL) { starpu_data_unregister_submit(g->cache); }
    g->cache = NULL;
    mot_version_release(g->version);
    g->version = NULL;
}

/* Tells the listener of rows that have just ended, and of the groups they complete. */
static void report(struct mot_rollout_state *s, struct mot_row *const *ended, int n)
{
    for (int i = 0; i < n && s->listener.row; i++) {
        s->listener.row(s->listener.context, ended[i]);
    }
    for (int i = 0; i < n; i++) {
        struct mot_group *g = ended[i]->group;
        starpu_pthread_mutex_lock(&s->line->mutex);
        const int whole = ++g->n_ended == g->n_rows;
        s->line->admission.running -= whole;
        s->line->admission.accepted += whole;
        mot_rollout_line_tell(s->line);
        starpu_pthread_mutex_unlock(&s->line->mutex);
        if (!whole) { continue; }
        let_go(g);
        if (s->listener.group) { s->listener.group(s->listener.context, g); }
    }
}

/* What a generate task drew is in main memory: take it over, report, go on. */
static void read_back(void *argument)
{
    struct flight *f = argument;
    struct mot_rollout_state *s = f->state;
    struct mot_rollout_line *line = s->line;
    const struct mot_drawn *drawn = starpu_data_get_local_ptr(f->drawn);
    struct mot_row **ended = mot_alloc((size_t)f->n_rows * sizeof(*ended));
    int n_ended = 0, n_live = 0;
    int64_t tokens = 0;
    for (int i = 0; i < f->n_rows; i++) {
        struct mot_row *row = f->rows[i];
        int n, has_ended;
        if (s->options.lengths) {
            has_ended = take_length(s, row, f->tokens_max, &n);
        } else {
            n = drawn->row[i].n;
            has_ended = take_tokens(s, row, mot_drawn_tokens(drawn, i), n, drawn->row[i].ended);
        }
        tokens += n;
        if (has_ended) {
            ended[n_ended++] = row;
        } else {
            f->rows[n_live++] = row;
        }
    }
    starpu_data_release(f->drawn);
    starpu_data_unregister_submit(f->drawn);
    report(s, ended, n_ended);

    starpu_pthread_mutex_lock(&line->mutex);
    memcpy(s->waiting + s->n_waiting, f->rows, (size_t)n_live * sizeof(f->rows[0]));
    s->n_waiting += n_live;
    s->running--;
    line->running--;
    s->rows_left -= n_ended;
    s->rollout->generated_tokens += tokens;
    const int last = s->rows_left == 0 || (line->cancelled && s->running == 0);
    if (last) { mot_rollout_line_leave(s); }
    mot_rollout_line_feed(line);
    starpu_pthread_mutex_unlock(&line->mutex);
    free(ended);
    free(f->rows);
    free(f);
    if (last) { mot_rollout_finish(s); }
}

/* A generate task has run, on whatever device: have what it drew brought to main memory.  Not asked
 * for at submission, where the answer could come at once, under the mutex. */
static void generated(void *argument)
{
    struct flight *f = argument;
    starpu_data_acquire_cb(f->drawn, STARPU_R, read_back, f);
}

/* Rows that were begun and have not ended go, with all they hold. */
static void drop_rows(struct mot_rollout_state *s)
{
    for (int p = 0; p < s->next_group; p++) {
        struct mot_group *g = &s->rollout->groups[p];
        if (g->n_ended == g->n_rows) { continue; }
        for (int k = 0; k < g->n_rows; k++) {
            struct mot_row *row = &g->rows[k];
            s->rollout->dropped_rows += row->end == MOT_ROW_RUNNING;
            if (row->cache != NULL) { starpu_data_unregister_submit(row->cache); }
            row->cache = NULL;
        }
        starpu_pthread_mutex_lock(&s->line->mutex);
        s->line->admission.running--;
        mot_rollout_line_tell(s->line);
        starpu_pthread_mutex_unlock(&s->line->mutex);
        let_go(g);
    }
}

void mot_rollout_finish(struct mot_rollout_state *s)
{
    struct mot_rollout *rollout = s->rollout;
    const struct mot_rollout_listener listener = s->listener;
    const int whole = s->rows_left == 0;
    mot_rollout_withdraw(s);
    if (!whole) { drop_rows(s); }
    rollout->state = NULL;
    if (s->version) { mot_version_release(s->version); }
    if (s->owns_line) { mot_rollout_line_destroy(s->line); }
    free(s->waiting);
    free(s);
    if (whole && listener.end) { listener.end(listener.context, rollout); }
    starpu_pthread_mutex_lock(&rollout->mutex);
    rollout->ended = 1;
    starpu_pthread_cond_signal(&rollout->changed);
    starpu_pthread_mutex_unlock(&rollout->mutex);
}
