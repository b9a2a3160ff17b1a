/* One optimiser step: who submits what when.  See train.h.
 *
 * Everything is driven by three kinds of event: a micro-batch is handed over (mot_train_add), the
 * denominator is known (mot_train_close), a task has ended (callbacks).  A stage is submitted by
 * the event that completes its inputs, never before. */
#include "train.h"
#include "norm.h"
#include "reduce.h"
#include "stages.h"
#include "update.h"
#include <stdlib.h>
#include <string.h>

struct micro_batch {
    struct mot_train *train;
    struct mot_pack *pack; /* owned until its gradient has ended; NULL: empty */
    starpu_data_handle_t *advantages;
    int n_advantages;
    starpu_data_handle_t reference, proximal, metrics;
    int added;
    int copied; /* the handles are copies of ours: the caller's may go away */
};

struct mot_train {
    struct mot_actor *actor;
    struct mot_optimizer_options optimizer;
    enum mot_loss_kind kind;
    const struct mot_policy_loss_options *loss;
    int step, iteration;
    struct mot_version *version; /* held until the last gradient has ended */
    int version_number;
    double planned_flop; /* per micro-batch, as declared */

    starpu_pthread_mutex_t mutex; /* guards what follows */
    int n, n_added, n_gradients, n_gradients_done;
    struct micro_batch *micro; /* (n) */
    int n_lanes;
    int *lane_next;    /* (n_lanes) the lane's next micro-batch when it is ordered */
    int *lane_started; /* (n_lanes) */
    int closed;
    double denominator;
    void (*done)(void *argument, const struct mot_train_metrics *metrics);
    void *argument;

    /* From the reduce on one event after the other; tasks_left is counted under the mutex. */
    int tasks_left;
    starpu_data_handle_t *gradient; /* (n_groups) the lane that holds the sum; not owned */
    starpu_data_handle_t *squares;  /* (n_groups) */
    struct mot_norm norm;
};

static struct mot_hint hint_of(const struct mot_train *train, int stage, int group)
{
    return (struct mot_hint){
        .stage = stage,
        .step = train->iteration,
        .group = group,
        .version = train->version_number,
    };
}

static int n_groups_of(const struct mot_train *train)
{
    return train->actor->transformer.layout.n_groups;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void free_train(struct mot_train *train)
{
    train->actor->training = 0;
    starpu_pthread_mutex_destroy(&train->mutex);
    free(train->micro);
    free(train->lane_next);
    free(train->lane_started);
    free(train->gradient);
    free(train->squares);
    free(train);
}

static void finish(struct mot_train *train, int skipped)
{
    const struct mot_norm *norm = &train->norm;
    const struct mot_policy_loss_metrics *l = &norm->sum.loss;
    const struct mot_train_metrics metrics = {
        .loss = l->loss / train->denominator,
        .grad_norm = norm->grad_norm,
        .learning_rate = mot_learning_rate(&train->optimizer, train->step),
        .tokens = l->tokens,
        .entropy_sum = l->entropy_sum,
        .kl_sum = l->kl_sum,
        .clip_low = l->clip_low,
        .clip_high = l->clip_high,
        .clip_region = l->clip_region,
        .answers = l->answers,
        .clip_low_min = l->clip_low_min,
        .clip_high_max = l->clip_high_max,
        .ratio_sum = l->ratio_sum,
        .ratio_sq_sum = l->ratio_sq_sum,
        .ratio_min = l->ratio_min,
        .ratio_max = l->ratio_max,
        .logprob_difference_sum = l->difference_sum,
        .logprob_difference_max = l->difference_max,
        .importance = l->importance,
        .prompt_tokens = norm->sum.prompt_tokens,
        .forward_tokens = norm->sum.forward_tokens,
        .skipped = skipped,
    };
    void (*done)(void *, const struct mot_train_metrics *) = train->done;
    void *argument = train->argument;
    free_train(train);
    if (done) { done(argument, &metrics); }
}

/* 1 for the task that ends a stage. */
static int count_down(struct mot_train *train)
{
    starpu_pthread_mutex_lock(&train->mutex);
    const int last = --train->tasks_left == 0;
    starpu_pthread_mutex_unlock(&train->mutex);
    return last;
}

static void skip(struct mot_train *train, int why)
{
    const int n = n_groups_of(train);
    mot_plan_submitted(train->iteration, MOT_STAGE_UPDATE, n, 0.0);
    if (!train->actor->current->is_master) {
        mot_plan_submitted(train->iteration, MOT_STAGE_CAST, n, 0.0);
    }
    finish(train, why);
}

/* ---- Update ---------------------------------------------------------------------------------- */

static void update_done(void *argument)
{
    struct mot_train *train = argument;
    if (!count_down(train)) { return; }
    mot_actor_advance(train->actor, train->iteration);
    finish(train, 0);
}

static void submit_updates(struct mot_train *train)
{
    struct mot_actor *actor = train->actor;
    const struct mot_optimizer_options *o = &train->optimizer;
    const int n = n_groups_of(train);
    actor->updates++;
    train->tasks_left = n;
    for (int g = 0; g < n; g++) {
        const struct mot_update_task update = {
            .gradient = train->gradient[g],
            .master = actor->master[g],
            .m = actor->m[g],
            .v = actor->v[g],
            .layout = &actor->transformer.layout,
            .group = g,
            .decay_all = o->decay_all,
            .options =
                {
                    .learning_rate = (float)mot_learning_rate(o, train->step),
                    .beta1 = (float)o->adam_beta1,
                    .beta2 = (float)o->adam_beta2,
                    .eps = (float)o->adam_epsilon,
                    .weight_decay = (float)o->weight_decay,
                    .step = actor->updates,
                    .grad_scale = (float)train->norm.grad_scale,
                },
            .hint = hint_of(train, MOT_STAGE_UPDATE, g),
            .done = update_done,
            .argument = train,
        };
        mot_plan_submitted(train->iteration, MOT_STAGE_UPDATE, 1, 0.0);
        mot_task_must(mot_insert_update(&update)); /* the last one may free train */
    }
}

/* ---- Reduce and norm ------------------------------------------------------------------------- */

static void norm_done(void *argument)
{
    struct mot_train *train = argument;
    if (!train->norm.finite) {
        mot_warn("step %d: loss or gradient is not finite; the update is skipped",
                 train->iteration);
        skip(train, 1);
    } else if (train->norm.sum.loss.tokens == 0.0) {
        skip(train, 2);
    } else {
        submit_updates(train);
    }
}

static void submit_norm(struct mot_train *train)
{
    struct mot_buffers metrics = {0};
    const int n = n_groups_of(train);
    for (int i = 0; i < train->n; i++) {
        if (train->micro[i].metrics) {
            mot_buffers_add(&metrics, train->micro[i].metrics, STARPU_R);
        }
    }
    /* Handles are given back after the submission, when train may be gone already. */
    starpu_data_handle_t *squares = train->squares;
    train->squares = NULL;
    const struct mot_norm_task norm = {
        .squares = squares,
        .metrics = metrics.handles,
        .n_groups = n,
        .n_metrics = metrics.n,
        .denominator = train->denominator,
        .max_grad_norm = train->optimizer.max_grad_norm,
        .result = &train->norm,
        .hint = hint_of(train, MOT_STAGE_REDUCE, -1),
        .done = norm_done,
        .argument = train,
    };
    mot_plan_submitted(train->iteration, MOT_STAGE_REDUCE, 1, 0.0);
    mot_task_must(mot_insert_norm(&norm));
    for (int g = 0; g < n; g++) { starpu_data_unregister_submit(squares[g]); }
    for (int i = 0; i < metrics.n; i++) { starpu_data_unregister_submit(metrics.handles[i]); }
    free(squares);
    mot_buffers_free(&metrics);
}

static void reduce_done(void *argument)
{
    struct mot_train *train = argument;
    if (count_down(train)) { submit_norm(train); }
}

static void submit_reduces(struct mot_train *train)
{
    const struct mot_layout *layout = &train->actor->transformer.layout;
    const int n = layout->n_groups;
    starpu_data_handle_t *lanes = mot_alloc_zeroed((size_t)train->n_lanes, sizeof(*lanes));
    train->gradient = mot_alloc_zeroed((size_t)n, sizeof(*train->gradient));
    train->squares = mot_alloc_zeroed((size_t)n, sizeof(*train->squares));
    train->tasks_left = n;
    for (int g = 0; g < n; g++) {
        int used = 0;
        for (int lane = 0; lane < train->n_lanes; lane++) {
            if (train->lane_started[lane]) {
                lanes[used++] = mot_actor_lane(train->actor, lane)[g];
            }
        }
        train->gradient[g] = lanes[0];
        starpu_variable_data_register(&train->squares[g], -1, 0, sizeof(double));
        mot_data_name(train->squares[g], "squares %d s%d", g, train->iteration);
        const struct mot_reduce_task reduce = {
            .lanes = lanes,
            .n_lanes = used,
            .n = layout->group_floats[g],
            .squares = train->squares[g],
            .hint = hint_of(train, MOT_STAGE_REDUCE, g),
            .done = reduce_done,
            .argument = train,
        };
        mot_plan_submitted(train->iteration, MOT_STAGE_REDUCE, 1, 0.0);
        mot_task_must(mot_insert_reduce(&reduce));
    }
    free(lanes);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* 1 for the event that completes the gradients: all micro-batches in, their gradients done and the
 * denominator known.  Under the mutex, in the critical section that changes any of these: once it
 * is left, train belongs to the event that was told 1 and may be freed by what that starts. */
static int is_complete(const struct mot_train *train)
{
    return train->closed && train->n_added == train->n
           && train->n_gradients_done == train->n_gradients;
}

static void start_reduce(struct mot_train *train)
{
    mot_version_release(train->version);
    if (train->n_gradients == 0) {
        mot_plan_submitted(train->iteration, MOT_STAGE_REDUCE, n_groups_of(train) + 1, 0.0);
        skip(train, 2);
    } else {
        submit_reduces(train);
    }
}

static void gradient_done(void *argument)
{
    struct micro_batch *micro = argument;
    struct mot_train *train = micro->train;
    mot_pack_destroy(micro->pack);
    micro->pack = NULL;
    starpu_pthread_mutex_lock(&train->mutex);
    train->n_gradients_done++;
    const int complete = is_complete(train);
    starpu_pthread_mutex_unlock(&train->mutex);
    if (complete) { start_reduce(train); }
}

/* Gives back the handle arrays, and the handles where they are copies. */
static void drop_inputs(struct micro_batch *micro)
{
    for (int i = 0; micro->copied && i < micro->n_advantages; i++) {
        starpu_data_unregister_submit(micro->advantages[i]);
    }
    if (micro->copied && micro->reference) { starpu_data_unregister_submit(micro->reference); }
    if (micro->copied && micro->proximal) { starpu_data_unregister_submit(micro->proximal); }
    free(micro->advantages);
    micro->advantages = NULL;
    micro->n_advantages = 0;
    micro->reference = micro->proximal = NULL;
}

/* Under the mutex; the micro-batch has been added and it is its turn. */
static void submit_gradient(struct mot_train *train, int index)
{
    struct micro_batch *micro = &train->micro[index];
    const int lane = index % train->n_lanes;
    mot_plan_submitted(train->iteration, MOT_STAGE_GRADIENT, 1, train->planned_flop);
    if (micro->pack == NULL) { return; }
    enum mot_lane_access access =
        train->optimizer.deterministic ? MOT_LANE_ORDERED : MOT_LANE_ANY_ORDER;
    if (!train->lane_started[lane]) { access = MOT_LANE_FIRST; }
    train->lane_started[lane] = 1;
    train->n_gradients++;
    train->actor->gradient_flop =
        3.0 * mot_pack_forward_flop(micro->pack, &train->actor->info.shape);
    starpu_variable_data_register(&micro->metrics, -1, 0, sizeof(struct mot_gradient_metrics));
    mot_data_name(micro->metrics, "metrics %d s%d", index, train->iteration);
    const struct mot_gradient_task gradient = {
        .context = &train->actor->context,
        .weights = train->version->groups,
        .lane = mot_actor_lane(train->actor, lane),
        .access = access,
        .metrics = micro->metrics,
        .advantages = micro->advantages,
        .n_advantages = micro->n_advantages,
        .reference = micro->reference,
        .proximal = micro->proximal,
        .pack = micro->pack,
        .kind = train->kind,
        .loss = train->loss,
        .hint = hint_of(train, MOT_STAGE_GRADIENT, index),
        .done = gradient_done,
        .argument = micro,
    };
    mot_task_must(mot_insert_gradient(&gradient));
    drop_inputs(micro);
}

static starpu_data_handle_t copy_of(starpu_data_handle_t handle)
{
    starpu_data_handle_t copy;
    starpu_data_register_same(&copy, handle);
    MOT_ASSERT(starpu_data_cpy(copy, handle, 1, NULL, NULL) == 0);
    return copy;
}

/* The caller may unregister its handles as soon as mot_train_add has returned: a micro-batch that
 * has to wait for its turn reads copies. */
static void copy_inputs(struct micro_batch *micro)
{
    for (int i = 0; i < micro->n_advantages; i++) {
        micro->advantages[i] = copy_of(micro->advantages[i]);
    }
    if (micro->reference) { micro->reference = copy_of(micro->reference); }
    if (micro->proximal) { micro->proximal = copy_of(micro->proximal); }
    micro->copied = 1;
}

void mot_train_add(struct mot_train *train, int index, struct mot_pack *pack,
                   const struct mot_train_inputs *inputs)
{
    MOT_ASSERT(index >= 0 && index < train->n);
    MOT_ASSERT(pack == NULL || (train->kind == MOT_LOSS_POLICY) == (inputs != NULL));
    struct micro_batch *micro = &train->micro[index];
    starpu_pthread_mutex_lock(&train->mutex);
    MOT_ASSERT(!micro->added);
    micro->train = train;
    micro->added = 1;
    micro->pack = pack;
    if (pack && inputs) {
        const size_t bytes = (size_t)inputs->n_advantages * sizeof(*micro->advantages);
        MOT_ASSERT(inputs->n_advantages > 0);
        micro->n_advantages = inputs->n_advantages;
        micro->reference = inputs->reference;
        micro->proximal = inputs->proximal;
        micro->advantages = mot_alloc(bytes);
        memcpy(micro->advantages, inputs->advantages, bytes);
    }
    int *next = &train->lane_next[index % train->n_lanes];
    if (!train->optimizer.deterministic) {
        submit_gradient(train, index);
    } else if (index != *next) {
        if (pack) { copy_inputs(micro); }
    } else {
        for (; *next < train->n && train->micro[*next].added; *next += train->n_lanes) {
            submit_gradient(train, *next);
        }
    }
    train->n_added++;
    const int complete = is_complete(train);
    starpu_pthread_mutex_unlock(&train->mutex);
    if (complete) { start_reduce(train); }
}

/* ---- Begin and close ------------------------------------------------------------------------- */

struct mot_train *mot_train_begin(struct mot_actor *actor,
                                  const struct mot_optimizer_options *optimizer,
                                  enum mot_loss_kind kind,
                                  const struct mot_policy_loss_options *loss, int step,
                                  int iteration, int n_micro_batches)
{
    MOT_ASSERT(n_micro_batches >= 1 && actor->options.lanes >= 1 && !actor->training);
    struct mot_train *train = mot_alloc_zeroed(1, sizeof(*train));
    actor->training = 1;
    train->actor = actor;
    train->optimizer = *optimizer;
    train->kind = kind;
    train->loss = loss;
    train->step = step;
    train->iteration = iteration;
    train->version = mot_actor_read(actor);
    train->version_number = train->version->number;
    train->n = n_micro_batches;
    train->micro = mot_alloc_zeroed((size_t)n_micro_batches, sizeof(*train->micro));
    train->n_lanes =
        actor->options.lanes < n_micro_batches ? actor->options.lanes : n_micro_batches;
    train->lane_next = mot_alloc_zeroed((size_t)train->n_lanes, sizeof(int));
    train->lane_started = mot_alloc_zeroed((size_t)train->n_lanes, sizeof(int));
    for (int lane = 0; lane < train->n_lanes; lane++) { train->lane_next[lane] = lane; }
    starpu_pthread_mutex_init(&train->mutex, NULL);

    const int n = n_groups_of(train);
    train->planned_flop = actor->gradient_flop;
    mot_plan_declare(iteration, MOT_STAGE_GRADIENT, n_micro_batches,
                     n_micro_batches * train->planned_flop);
    mot_plan_declare(iteration, MOT_STAGE_REDUCE, n + 1, 0.0);
    mot_plan_declare(iteration, MOT_STAGE_UPDATE, n, 0.0);
    if (!actor->current->is_master) { mot_plan_declare(iteration, MOT_STAGE_CAST, n, 0.0); }
    return train;
}

void mot_train_close(struct mot_train *train, double denominator,
                     void (*done)(void *argument, const struct mot_train_metrics *metrics),
                     void *argument)
{
    starpu_pthread_mutex_lock(&train->mutex);
    MOT_ASSERT(!train->closed);
    train->denominator = denominator > 1.0 ? denominator : 1.0;
    train->done = done;
    train->argument = argument;
    train->closed = 1;
    const int complete = is_complete(train);
    starpu_pthread_mutex_unlock(&train->mutex);
    if (complete) { start_reduce(train); }
}

void mot_train_drop(struct mot_train *train)
{
    MOT_ASSERT(!train->closed);
    for (int i = 0; i < train->n; i++) {
        struct micro_batch *micro = &train->micro[i];
        mot_pack_destroy(micro->pack); /* left where its turn in the lane never came */
        drop_inputs(micro);
        if (micro->metrics) { starpu_data_unregister(micro->metrics); }
    }
    mot_version_release(train->version);
    free_train(train);
}

double mot_learning_rate(const struct mot_optimizer_options *options, int step)
{
    return options->learning_rate
           * mot_schedule_factor(options->lr_scheduler_type, step, options->warmup_steps,
                                 options->total_steps);
}
