/* Supervised fine-tuning.  See supervised.h. */
#include "supervised.h"
#include "logprob.h"
#include "stages.h"
#include <stdlib.h>
#include <string.h>

/* Prompt and answer of one example; ids is where they lie next to each other when not all
 * borrowed. */
struct row {
    struct mot_pack_prompt prompt;
    const int32_t *answer;
    int n;
    int32_t *ids;
};

/* 0 when the example has no counted token. */
static int cut_row(const struct mot_example *example, int completion_only, struct row *row)
{
    const size_t p = example->prompt.n, c = example->completion.n;
    *row = (struct row){
        .prompt = {(int)p, example->prompt.id}, .answer = example->completion.id, .n = (int)c};
    if (completion_only && p > 0) { return c > 0; }
    if (p + c < 2) { return 0; }
    row->ids = mot_alloc((p + c) * sizeof(*row->ids));
    if (p > 0) { memcpy(row->ids, example->prompt.id, p * sizeof(*row->ids)); }
    if (c > 0) { memcpy(row->ids + p, example->completion.id, c * sizeof(*row->ids)); }
    row->prompt = (struct mot_pack_prompt){1, row->ids};
    row->answer = row->ids + 1;
    row->n = (int)(p + c) - 1;
    return 1;
}

/* The pack of n examples, or NULL when none has a counted token. */
static struct mot_pack *make_pack(const struct mot_dataset *dataset, const int *index, int n,
                                  int completion_only)
{
    struct mot_pack_prompt *prompts = mot_alloc_zeroed((size_t)n, sizeof(*prompts));
    struct mot_pack_answer *answers = mot_alloc_zeroed((size_t)n, sizeof(*answers));
    int32_t **owned = mot_alloc_zeroed((size_t)n, sizeof(*owned));
    int used = 0;
    for (int i = 0; i < n; i++) {
        struct row row;
        if (!cut_row(&dataset->examples[index[i]], completion_only, &row)) { continue; }
        owned[used] = row.ids;
        prompts[used] = row.prompt;
        answers[used] =
            (struct mot_pack_answer){.prompt = used, .n = row.n, .ids = row.answer, .weight = 1.0f};
        used++;
    }
    struct mot_pack *pack = used > 0 ? mot_pack_create(prompts, used, answers, used) : NULL;
    for (int i = 0; i < used; i++) { free(owned[i]); }
    free(owned);
    free(prompts);
    free(answers);
    return pack;
}

/* ---- One step -------------------------------------------------------------------------------- */

/* The end of the step, from the worker that ended it. */
struct waiting {
    starpu_pthread_mutex_t mutex;
    starpu_pthread_cond_t changed;
    int done;
    struct mot_train_metrics *metrics;
};

static void step_done(void *argument, const struct mot_train_metrics *metrics)
{
    struct waiting *w = argument;
    starpu_pthread_mutex_lock(&w->mutex);
    *w->metrics = *metrics;
    w->done = 1;
    starpu_pthread_cond_signal(&w->changed);
    starpu_pthread_mutex_unlock(&w->mutex);
}

void mot_supervised_step(const struct mot_supervised *s, int step, int64_t first, int n,
                         struct mot_train_metrics *metrics)
{
    const int per = s->rows_per_micro_batch;
    const int micro_batches = (n + per - 1) / per;
    MOT_ASSERT(n >= 1 && micro_batches <= s->micro_batches);
    struct waiting w = {.mutex = STARPU_PTHREAD_MUTEX_INITIALIZER,
                        .changed = STARPU_PTHREAD_COND_INITIALIZER,
                        .metrics = metrics};
    struct mot_train *train =
        mot_train_begin(s->actor, &s->optimizer, MOT_LOSS_NLL, NULL, step, step, micro_batches);
    int *index = mot_alloc((size_t)per * sizeof(*index));
    double tokens = 0.0;
    for (int m = 0; m < micro_batches; m++) {
        const int rows = n - m * per < per ? n - m * per : per;
        for (int i = 0; i < rows; i++) {
            index[i] = mot_dataset_at(s->dataset, s->seed, s->shuffle, first + m * per + i);
        }
        struct mot_pack *pack = make_pack(s->dataset, index, rows, s->completion_only_loss);
        tokens += pack ? pack->n_targets : 0;
        mot_train_add(train, m, pack, NULL);
    }
    free(index);
    mot_train_close(train, tokens, step_done, &w);
    starpu_pthread_mutex_lock(&w.mutex);
    while (!w.done) { starpu_pthread_cond_wait(&w.changed, &w.mutex); }
    starpu_pthread_mutex_unlock(&w.mutex);
    mot_plan_end(step);
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

/* Adds one pack's values; waits for its task. */
static void collect(starpu_data_handle_t logprob, starpu_data_handle_t entropy,
                    struct mot_pack *pack, struct mot_supervised_loss *sum)
{
    starpu_data_acquire(logprob, STARPU_R);
    starpu_data_acquire(entropy, STARPU_R);
    const float *l = starpu_data_get_local_ptr(logprob);
    const float *e = starpu_data_get_local_ptr(entropy);
    for (int t = 0; t < pack->n_targets; t++) {
        sum->loss -= l[t];
        sum->entropy += e[t];
    }
    sum->tokens += pack->n_targets;
    starpu_data_release(logprob);
    starpu_data_release(entropy);
    starpu_data_unregister(logprob);
    starpu_data_unregister(entropy);
    mot_pack_destroy(pack);
}

static struct mot_pack *pack_at(const struct mot_dataset *dataset, int first, int per,
                                int completion_only)
{
    int *index = mot_alloc((size_t)per * sizeof(*index));
    int n = 0;
    while (n < per && first + n < dataset->n) { index[n] = first + n, n++; }
    struct mot_pack *pack = make_pack(dataset, index, n, completion_only);
    free(index);
    return pack;
}

int mot_supervised_evaluate(struct mot_actor *actor, const struct mot_dataset *dataset,
                            int rows_per_task, int completion_only_loss, int step,
                            struct mot_supervised_loss *result)
{
    const int tasks = (dataset->n + rows_per_task - 1) / rows_per_task;
    struct mot_pack **packs = mot_alloc_zeroed((size_t)tasks, sizeof(struct mot_pack *));
    starpu_data_handle_t *values = mot_alloc_zeroed((size_t)tasks * 2, sizeof(*values));
    struct mot_version *version = mot_actor_read(actor);
    int status = 0;
    for (int i = 0; i < tasks && status == 0; i++) {
        packs[i] = pack_at(dataset, i * rows_per_task, rows_per_task, completion_only_loss);
        if (packs[i] == NULL) { continue; }
        values[2 * i] = mot_float_vector((size_t)packs[i]->n_targets);
        values[2 * i + 1] = mot_float_vector((size_t)packs[i]->n_targets);
        mot_data_name(values[2 * i], "logprob %d eval", i);
        mot_data_name(values[2 * i + 1], "entropy %d eval", i);
        const struct mot_logprob_task task = {
            .context = &actor->context,
            .weights = version->groups,
            .pack = packs[i],
            .logprob = values[2 * i],
            .entropy = values[2 * i + 1],
            .hint = {.stage = MOT_STAGE_LOGPROB,
                     .step = step,
                     .group = i,
                     .version = version->number},
        };
        status = mot_insert_logprob(&task);
    }
    mot_version_release(version);
    if (status < 0) { mot_task_must(status); } /* no worker can run it: nothing can go on */
    struct mot_supervised_loss sum = {0};
    for (int i = 0; i < tasks; i++) {
        if (packs[i]) { collect(values[2 * i], values[2 * i + 1], packs[i], &sum); }
    }
    free(packs);
    free(values);
    if (sum.tokens == 0.0) { return mot_fail(EINVAL, "%s: no token to evaluate", dataset->path); }
    result->loss = sum.loss / sum.tokens;
    result->entropy = sum.entropy / sum.tokens;
    result->tokens = sum.tokens;
    return 0;
}
