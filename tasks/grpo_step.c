/* grpo_step: the graph of one GRPO step and the callbacks that grow it.  See grpo_step.h. */
#include "grpo_step.h"
#include "grpo_pack.h"
#include "grpo_store.h"
#include "logprob.h"
#include "stages.h"
#include <stdlib.h>
#include <string.h>

/* Answers first .. first + n - 1 of the step, in group order. */
struct micro_batch {
    int first, n;
    int groups_not_ended;           /* of those it touches: still generating */
    int groups_not_scored;          /* advantages not computed yet */
    int claimed_for;                /* 1 + the newest optimiser step it was handed over to */
    starpu_data_handle_t reference; /* log-probs of the reference policy, or NULL */
    starpu_data_handle_t proximal;  /* of the policy at the start of the update, or NULL */
    struct mot_pack *pack;          /* of the tasks that compute these, or NULL */
};

/* mutex guards the counters below; it is not held while tasks are submitted. */
struct mot_grpo_step {
    const struct mot_grpo *grpo;
    struct mot_grpo_place place;
    int step, n_answers, n_updates, updates_per_iteration;
    struct mot_prompt *prompts;
    struct mot_rollout *rollout;
    struct mot_scored_group *groups;
    int n_micro_batches; /* of one iteration */
    struct micro_batch *micro_batches;
    starpu_pthread_mutex_t mutex;
    starpu_pthread_cond_t changed;
    int update;                   /* the optimiser step under way */
    int added;                    /* of its micro-batches: handed over */
    int generated;                /* the rollout has ended: nothing reads its weights any more */
    int is_turn;                  /* the step before has ended: the weights to train are there */
    int may_update;               /* somebody waits for this step */
    int callbacks;                /* threads inside hand_over */
    int ended;                    /* all is done */
    struct mot_version *proximal; /* from the turn to the end, where log-probs of it are needed */
    struct mot_train *train;
    struct mot_loss_counts counts; /* of the update under way */
    struct mot_train_metrics *updates;
    struct mot_grpo_result result;
    double start_us, turn_us;
};

/* The context of an advantage task's callback. */
struct advantage_done {
    struct mot_grpo_step *step;
    int first_group, n_groups;
};

int mot_grpo_updates_per_step(const struct mot_grpo *g)
{
    const int answers = g->prompts_per_step * g->num_generations;
    return answers / (g->answers_per_micro_batch * g->micro_batches_per_update) * g->num_iterations;
}

static int needs_proximal(const struct mot_grpo *grpo)
{
    return grpo->max_staleness > 0 && grpo->correct_importance;
}

static struct mot_hint hint_of(const struct mot_grpo_step *s, enum mot_stage stage, int group)
{
    return (struct mot_hint){.stage = stage, .step = s->step, .group = group, .version = -1};
}

static void hand_over(struct mot_grpo_step *s);

static void release_proximal(struct mot_grpo_step *s)
{
    if (s->proximal != NULL) { mot_version_release(s->proximal); }
    s->proximal = NULL;
}

/* In a worker's thread: an optimiser step has ended. */
static void updated(void *argument, const struct mot_train_metrics *metrics)
{
    struct mot_grpo_step *s = argument;
    starpu_pthread_mutex_lock(&s->mutex);
    s->updates[s->update++] = *metrics;
    if (s->update < s->n_updates) {
        hand_over(s);
        return;
    }
    starpu_pthread_mutex_unlock(&s->mutex); /* nobody goes on before `ended` is set */
    release_proximal(s);
    s->result.seconds = (starpu_timing_now() - s->turn_us) * 1e-6;
    if (s->place.trained) { s->place.trained(s->place.context, s->step); }
    starpu_pthread_mutex_lock(&s->mutex);
    s->ended = 1;
    starpu_pthread_cond_broadcast(&s->changed);
    starpu_pthread_mutex_unlock(&s->mutex);
}

static void begin_update(struct mot_grpo_step *s)
{
    const int number = s->step * s->n_updates + s->update;
    s->train = mot_train_begin(s->grpo->actor, &s->grpo->optimizer, MOT_LOSS_POLICY, &s->grpo->loss,
                               number, s->step, s->grpo->micro_batches_per_update);
}

/* Log-probs of a whole micro-batch under a version: the reference's, or the proximal policy's. */
static starpu_data_handle_t submit_logprob(struct mot_grpo_step *s, int index,
                                           struct mot_version *version)
{
    struct micro_batch *mb = &s->micro_batches[index];
    if (mb->pack == NULL) {
        mb->pack = mot_grpo_pack(s->grpo, s->rollout, NULL, mb->first, mb->n, NULL);
    }
    struct mot_logprob_task task = {.context = &version->actor->context,
                                    .weights = version->groups,
                                    .pack = mb->pack,
                                    .logprob = mot_float_vector((size_t)mb->pack->n_targets),
                                    .hint = hint_of(s, MOT_STAGE_LOGPROB, index)};
    task.hint.version = version->number;
    mot_data_name(task.logprob, "logprob %d v%d s%d", index, version->number, s->step);
    mot_plan_submitted(s->step, MOT_STAGE_LOGPROB, 1, 0.0);
    mot_task_must(mot_insert_logprob(&task));
    return task.logprob;
}

/* Hands one micro-batch over to the optimiser step, with the advantages of the groups it
 * touches. */
static void add_micro_batch(struct mot_grpo_step *s, struct mot_train *train, int index,
                            struct micro_batch *mb, struct mot_pack *pack)
{
    const int G = s->grpo->num_generations, first = mb->first / G;
    const int n = (mb->first + mb->n - 1) / G - first + 1;
    starpu_data_handle_t *advantages = mot_alloc((size_t)n * sizeof(*advantages));
    int64_t staleness = 0;
    for (int i = 0; i < n; i++) {
        const int64_t age = s->step - s->rollout->groups[first + i].version_step;
        staleness = age > staleness ? age : staleness;
        advantages[i] = s->groups[first + i].advantage_handle;
    }
    mot_trace_value("staleness", (double)staleness); /* of the answers that are trained now */
    if (s->proximal != NULL && mb->proximal == NULL) {
        mb->proximal = submit_logprob(s, (int)(mb - s->micro_batches), s->proximal);
    }
    const struct mot_train_inputs inputs = {.advantages = advantages,
                                            .n_advantages = n,
                                            .reference = mb->reference,
                                            .proximal = mb->proximal};
    mot_train_add(train, index, pack, &inputs);
    free(advantages);
}

/* The first micro-batch of the update under way that is complete and not handed over, claimed, with
 * its pack; -1 when there is none.  The mutex is held. */
static int claim(struct mot_grpo_step *s, struct mot_pack **pack)
{
    if (!s->is_turn || s->update == s->n_updates) { return -1; }
    const int most = s->grpo->micro_batches_per_update;
    struct micro_batch *first = &s->micro_batches[s->update % s->updates_per_iteration * most];
    for (int i = 0; i < most; i++) {
        if (first[i].groups_not_scored > 0 || first[i].claimed_for > s->update) { continue; }
        first[i].claimed_for = s->update + 1;
        if (s->train == NULL) { begin_update(s); }
        *pack =
            mot_grpo_pack(s->grpo, s->rollout, s->groups, first[i].first, first[i].n, &s->counts);
        return i;
    }
    return -1;
}

static struct mot_loss_counts no_counts(const struct mot_grpo *grpo)
{
    return (struct mot_loss_counts){.max_completion_length = grpo->rollout.max_completion_length};
}

/* Closes the update under way once all its micro-batches are handed over, the step is waited for,
 * and the rollout has ended: the update changes weights that rows still being generated would go on
 * with.  Where these read copies only the last update waits for the rollout, which then has let go
 * of its version.  The mutex is held before and after, not while closing. */
static void close_update(struct mot_grpo_step *s)
{
    const int is_last = s->update + 1 == s->n_updates;
    const int has_weights = s->generated || (s->grpo->actor->options.copies && !is_last);
    if (!s->may_update || !has_weights || s->added < s->grpo->micro_batches_per_update) { return; }
    struct mot_train *train = s->train;
    const double denominator = mot_policy_loss_denominator(&s->grpo->loss, &s->counts);
    s->train = NULL;
    s->added = 0;
    s->counts = no_counts(s->grpo);
    starpu_pthread_mutex_unlock(&s->mutex);
    mot_train_close(train, denominator, updated, s);
    starpu_pthread_mutex_lock(&s->mutex);
}

/* Hands over what is complete, and closes the update where that was the last of it.  Lanes keep
 * their order whatever the order here (train.h).  Called with the mutex held, which it lets go:
 * between what the caller changed and this, another thread could have ended the step. */
static void hand_over(struct mot_grpo_step *s)
{
    const int most = s->grpo->micro_batches_per_update;
    s->callbacks++; /* keeps s alive */
    struct mot_pack *pack;
    for (int index; (index = claim(s, &pack)) >= 0;) {
        struct mot_train *train = s->train;
        const int mini = s->update % s->updates_per_iteration;
        starpu_pthread_mutex_unlock(&s->mutex);
        add_micro_batch(s, train, index, &s->micro_batches[mini * most + index], pack);
        starpu_pthread_mutex_lock(&s->mutex);
        s->added++;
    }
    close_update(s);
    s->callbacks--;
    starpu_pthread_cond_broadcast(&s->changed);
    starpu_pthread_mutex_unlock(&s->mutex);
}

/* The micro-batches that hold answers of a group: from *first, the number is returned. */
static int micro_batches_of(const struct mot_grpo_step *s, int group, int *first)
{
    const int G = s->grpo->num_generations, per = s->grpo->answers_per_micro_batch;
    *first = group * G / per;
    return (group * G + G - 1) / per - *first + 1;
}

static void advantages_ready(void *argument)
{
    struct advantage_done *d = argument;
    struct mot_grpo_step *s = d->step;
    starpu_pthread_mutex_lock(&s->mutex);
    for (int g = d->first_group; g < d->first_group + d->n_groups; g++) {
        int first;
        const int n = micro_batches_of(s, g, &first);
        for (int i = first; i < first + n; i++) { s->micro_batches[i].groups_not_scored--; }
    }
    free(d);
    hand_over(s);
}

static void submit_advantages(struct mot_grpo_step *s, int first, int n)
{
    const struct mot_grpo *grpo = s->grpo;
    const int G = grpo->num_generations;
    const size_t N = (size_t)n;
    starpu_data_handle_t *scores = mot_alloc(N * (size_t)G * sizeof(*scores));
    starpu_data_handle_t *advantages = mot_alloc(N * sizeof(*advantages));
    for (int i = 0; i < n; i++) {
        struct mot_scored_group *g = &s->groups[first + i];
        memcpy(&scores[(size_t)i * (size_t)G], g->score_handles, (size_t)G * sizeof(*scores));
        advantages[i] = g->advantage_handle;
    }
    struct advantage_done *d = mot_alloc(sizeof(*d));
    *d = (struct advantage_done){.step = s, .first_group = first, .n_groups = n};
    const struct mot_group_advantage advantage = {.functions = grpo->functions,
                                                  .n_functions = grpo->n_functions,
                                                  .n_groups = n,
                                                  .group_size = G,
                                                  .scale = grpo->scale_rewards,
                                                  .scores = scores,
                                                  .advantages = advantages,
                                                  .rewards = s->groups[first].rewards,
                                                  .sums = &s->groups[first].sums,
                                                  .hint = hint_of(s, MOT_STAGE_ADVANTAGE, first),
                                                  .done = advantages_ready,
                                                  .argument_done = d};
    mot_plan_submitted(s->step, MOT_STAGE_ADVANTAGE, 1, 0.0);
    mot_task_must(mot_insert_group_advantage(&advantage));
    free(scores);
    free(advantages);
}

/* A row has ended: score it. */
static void row_ended(void *context, struct mot_row *row)
{
    struct mot_grpo_step *s = context;
    const struct mot_grpo *grpo = s->grpo;
    mot_plan_submitted(s->step, MOT_STAGE_REWARD, 1, 0.0);
    mot_task_must(mot_scoring_submit(&s->groups[row->group->index], row,
                                     &grpo->dataset->examples[row->group->example], grpo->functions,
                                     grpo->n_functions, s->step));
}

/* A group has ended: its advantages, and the reference of micro-batches it completes. */
static void group_ended(void *context, struct mot_group *group)
{
    struct mot_grpo_step *s = context;
    int first;
    const int n = micro_batches_of(s, group->index, &first);
    for (int i = first; i < first + n && s->grpo->reference != NULL; i++) {
        starpu_pthread_mutex_lock(&s->mutex);
        const int whole = --s->micro_batches[i].groups_not_ended == 0;
        starpu_pthread_mutex_unlock(&s->mutex);
        if (!whole) { continue; }
        struct mot_version *version = mot_actor_read(s->grpo->reference);
        s->micro_batches[i].reference = submit_logprob(s, i, version);
        mot_version_release(version);
    }
    if (s->grpo->scale_rewards != MOT_SCALE_BATCH) { submit_advantages(s, group->index, 1); }
}

static void rollout_ended(void *context, struct mot_rollout *rollout)
{
    struct mot_grpo_step *s = context;
    s->result.generate_seconds = (starpu_timing_now() - s->start_us) * 1e-6;
    if (s->grpo->scale_rewards == MOT_SCALE_BATCH) { submit_advantages(s, 0, rollout->n_groups); }
    starpu_pthread_mutex_lock(&s->mutex);
    s->generated = 1;
    hand_over(s);
}

static void create_micro_batches(struct mot_grpo_step *s)
{
    const int per = s->grpo->answers_per_micro_batch, G = s->grpo->num_generations;
    s->n_micro_batches = s->n_answers / per;
    s->micro_batches = mot_alloc_zeroed((size_t)s->n_micro_batches, sizeof(struct micro_batch));
    for (int i = 0; i < s->n_micro_batches; i++) {
        struct micro_batch *mb = &s->micro_batches[i];
        mb->first = i * per;
        mb->n = per;
        mb->groups_not_ended = (mb->first + per - 1) / G - mb->first / G + 1;
        mb->groups_not_scored = mb->groups_not_ended;
    }
}

int mot_grpo_example(const struct mot_grpo *g, int step, int index)
{
    const int64_t position = (int64_t)step * g->prompts_per_step + index;
    return mot_dataset_at(g->dataset, g->seed, g->shuffle, position);
}

static void choose_prompts(struct mot_grpo_step *s)
{
    const struct mot_grpo *g = s->grpo;
    s->prompts = mot_alloc((size_t)g->prompts_per_step * sizeof(*s->prompts));
    for (int i = 0; i < g->prompts_per_step; i++) {
        const int example = mot_grpo_example(g, s->step, i);
        const struct mot_ids *ids = &g->dataset->examples[example].prompt;
        s->prompts[i] = (struct mot_prompt){.ids = ids->id, .n = (int)ids->n, .example = example};
    }
}

static void declare_plan(const struct mot_grpo_step *s)
{
    const struct mot_grpo *g = s->grpo;
    const int groups = g->scale_rewards == MOT_SCALE_BATCH ? 1 : g->prompts_per_step;
    mot_plan_declare(s->step, MOT_STAGE_REWARD, s->n_answers, 0.0);
    mot_plan_declare(s->step, MOT_STAGE_ADVANTAGE, groups, 0.0);
    const int logprobs = (g->reference != NULL) + needs_proximal(g);
    mot_plan_declare(s->step, MOT_STAGE_LOGPROB, logprobs * s->n_micro_batches, 0.0);
}

/* The step's turn: with it come the weights at the start of its updates. */
static void take_turn(struct mot_grpo_step *s)
{
    s->is_turn = 1;
    s->turn_us = starpu_timing_now();
    if (needs_proximal(s->grpo)) { s->proximal = mot_actor_read(s->grpo->actor); }
}

void mot_grpo_step_turn(struct mot_grpo_step *s)
{
    starpu_pthread_mutex_lock(&s->mutex);
    take_turn(s);
    hand_over(s);
}

/* Answers that are there already instead of a rollout; 0 when they are not. */
static int take_stored(struct mot_grpo_step *s, const struct mot_rollout_options *options,
                       const struct mot_rollout_listener *listener)
{
    const struct mot_grpo *grpo = s->grpo;
    const int P = grpo->prompts_per_step;
    struct mot_rollout *r;
    if (s->place.store == NULL
        || mot_rollout_create(grpo->actor, s->prompts, P, grpo->num_generations, options, &r)) {
        return 0;
    }
    if (!mot_grpo_store_fill(s->place.store, grpo, s->step, r)) {
        mot_rollout_destroy(r);
        return 0;
    }
    if (s->place.version) { mot_version_release(s->place.version); }
    s->rollout = r;
    mot_rollout_line_accept(options->line, P);
    mot_rollout_tell(r, grpo->rollout.tokenizer, listener);
    return 1;
}

static int start_rollout(struct mot_grpo_step *s)
{
    const struct mot_grpo *grpo = s->grpo;
    struct mot_rollout_options options = grpo->rollout;
    options.step = s->step;
    options.line = s->place.line;
    options.version_step = s->place.version_step;
    const struct mot_rollout_listener listener = {
        .row = row_ended, .group = group_ended, .end = rollout_ended, .context = s};
    if (take_stored(s, &options, &listener)) { return 0; }
    return mot_rollout_start(grpo->actor, s->place.version, s->prompts, grpo->prompts_per_step,
                             grpo->num_generations, &options, &listener, &s->rollout);
}

int mot_grpo_step_start(const struct mot_grpo *grpo, int step, const struct mot_grpo_place *place,
                        struct mot_grpo_step **started)
{
    const int G = grpo->num_generations, per = grpo->answers_per_micro_batch;
    MOT_ASSERT(G % per == 0 || per % G == 0);
    struct mot_grpo_step *s = mot_alloc_zeroed(1, sizeof(*s));
    s->grpo = grpo;
    s->step = s->result.step = step;
    if (place != NULL) {
        s->place = *place;
    } else {
        s->place.version = mot_actor_read(grpo->actor);
        s->place.version_step = step;
    }
    s->n_answers = grpo->prompts_per_step * G;
    s->n_updates = mot_grpo_updates_per_step(grpo);
    s->updates_per_iteration = s->n_updates / grpo->num_iterations;
    MOT_ASSERT(s->n_answers == per * grpo->micro_batches_per_update * s->updates_per_iteration);
    s->updates = mot_alloc_zeroed((size_t)s->n_updates, sizeof(*s->updates));
    s->counts = no_counts(grpo);
    starpu_pthread_mutex_init(&s->mutex, NULL);
    starpu_pthread_cond_init(&s->changed, NULL);
    choose_prompts(s);
    s->groups = mot_scoring_create(grpo->prompts_per_step, G, grpo->n_functions);
    create_micro_batches(s);
    declare_plan(s);
    s->start_us = starpu_timing_now();
    if (!s->place.waits) { take_turn(s); }
    const int error = start_rollout(s);
    if (error) {
        mot_grpo_step_destroy(s);
        return error;
    }
    *started = s;
    return 0;
}

const struct mot_grpo_result *mot_grpo_step_wait(struct mot_grpo_step *s)
{
    starpu_pthread_mutex_lock(&s->mutex);
    s->may_update = 1;
    hand_over(s);
    mot_rollout_wait(s->rollout);
    starpu_pthread_mutex_lock(&s->mutex);
    while (!s->ended || s->callbacks > 0) { starpu_pthread_cond_wait(&s->changed, &s->mutex); }
    starpu_pthread_mutex_unlock(&s->mutex);
    s->result.rollout = s->rollout;
    s->result.groups = s->groups;
    s->result.n_updates = s->n_updates;
    s->result.updates = s->updates;
    return &s->result;
}

const struct mot_rollout *mot_grpo_step_answers(struct mot_grpo_step *s)
{
    mot_rollout_wait(s->rollout);
    return s->rollout;
}

void mot_grpo_step_destroy(struct mot_grpo_step *s)
{
    mot_plan_end(s->step);
    release_proximal(s);
    if (s->train != NULL) { mot_train_drop(s->train); }
    if (s->rollout != NULL) { mot_rollout_wait(s->rollout); }
    for (int i = 0; i < s->n_micro_batches; i++) {
        struct micro_batch *mb = &s->micro_batches[i];
        if (mb->reference != NULL) { starpu_data_unregister(mb->reference); }
        if (mb->proximal != NULL) { starpu_data_unregister(mb->proximal); }
        mot_pack_destroy(mb->pack);
    }
    mot_scoring_destroy(s->groups, s->grpo->prompts_per_step, s->grpo->num_generations);
    mot_rollout_destroy(s->rollout);
    free(s->micro_batches);
    free(s->updates);
    free(s->prompts);
    starpu_pthread_cond_destroy(&s->changed);
    starpu_pthread_mutex_destroy(&s->mutex);
    free(s);
}
