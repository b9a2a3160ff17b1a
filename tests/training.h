/* Tests of training: a reference model as an actor, its rows as micro-batches, single steps. */
#ifndef TRAINING_H
#define TRAINING_H
#include "json.h"
#include "train.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ids and lengths of a file of the reference folder. */
struct rows {
    json_t *reference;
    int n, length[8];
    int32_t ids[8][64];
};

static inline void rows_load(struct rows *rows, const char *model)
{
    char *path = mot_format("%s/%s.json", MOT_TEST_DATA, model);
    MOT_ASSERT(mot_json_load(path, 1 << 26, &rows->reference) == 0);
    free(path);
    const json_t *ids = json_object_get(rows->reference, "ids");
    const json_t *lengths = json_object_get(rows->reference, "lengths");
    rows->n = (int)json_array_size(ids);
    for (int r = 0; r < rows->n; r++) {
        rows->length[r] = (int)json_integer_value(json_array_get(lengths, (size_t)r));
        for (int t = 0; t < rows->length[r]; t++) {
            rows->ids[r][t] = (int32_t)json_integer_value(
                json_array_get(json_array_get(ids, (size_t)r), (size_t)t));
        }
    }
}

static inline double rows_tokens(const struct rows *rows)
{
    double tokens = 0.0;
    for (int r = 0; r < rows->n; r++) { tokens += rows->length[r] - 1; }
    return tokens;
}

/* Rows first .. first + n - 1 as one pack: the first id is the prompt, all others are targets. */
static inline struct mot_pack *rows_pack(const struct rows *rows, int first, int n, float weight)
{
    struct mot_pack_prompt prompts[8];
    struct mot_pack_answer answers[8];
    for (int i = 0; i < n; i++) {
        const int r = first + i;
        prompts[i] = (struct mot_pack_prompt){1, rows->ids[r]};
        answers[i] = (struct mot_pack_answer){
            .prompt = i, .n = rows->length[r] - 1, .ids = rows->ids[r] + 1, .weight = weight};
    }
    return mot_pack_create(prompts, n, answers, n);
}

static inline void actor_load(struct mot_actor *actor, const char *model,
                              const struct mot_actor_options *options)
{
    char *path = mot_format("%s/%s", MOT_TEST_DATA, model);
    struct mot_model loaded;
    MOT_ASSERT(mot_model_load(path, &loaded) == 0);
    MOT_ASSERT(mot_actor_create(actor, &loaded, options) == 0);
    mot_model_destroy(&loaded);
    free(path);
}

/* The end of a step, from the worker that ended it to the test. */
struct waiting {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int done;
    struct mot_train_metrics metrics;
};

static inline void waiting_done(void *argument, const struct mot_train_metrics *metrics)
{
    struct waiting *w = argument;
    pthread_mutex_lock(&w->mutex);
    w->done = 1;
    w->metrics = *metrics;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mutex);
}

static inline struct mot_train_metrics train_wait(struct mot_train *train, double denominator)
{
    struct waiting w = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    mot_train_close(train, denominator, waiting_done, &w);
    pthread_mutex_lock(&w.mutex);
    while (!w.done) { pthread_cond_wait(&w.cond, &w.mutex); }
    pthread_mutex_unlock(&w.mutex);
    mot_wait_all();
    return w.metrics;
}

/* As the reference was made: see reference values' "adamw". */
static inline struct mot_optimizer_options reference_options(void)
{
    struct mot_optimizer_options o = {
        .learning_rate = 1e-3,
        .adam_beta1 = 0.9,
        .adam_beta2 = 0.95,
        .adam_epsilon = 1e-8,
        .weight_decay = 0.1,
        .max_grad_norm = 1.0,
        .total_steps = 100,
        .decay_all = 1,
        .deterministic = 1,
    };
    MOT_ASSERT(mot_schedule_find("constant", &o.lr_scheduler_type) == 0);
    return o;
}

/* One step of mean NLL over all rows, one micro-batch a row, handed over in the order given. */
static inline struct mot_train_metrics rows_step(struct mot_actor *actor, const struct rows *rows,
                                                 const struct mot_optimizer_options *o, int step,
                                                 const int *order)
{
    struct mot_train *train = mot_train_begin(actor, o, MOT_LOSS_NLL, NULL, step, step, rows->n);
    for (int i = 0; i < rows->n; i++) {
        const int r = order ? order[i] : i;
        mot_train_add(train, r, rows_pack(rows, r, 1, 1.0f), NULL);
    }
    return train_wait(train, rows_tokens(rows));
}
#endif
