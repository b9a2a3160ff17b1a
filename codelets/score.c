/* score: CPU variant, codelet, submission.  See score.h. */
#include "score.h"
#include <math.h>
#include <stdlib.h>

struct argument {
    const struct mot_reward_function *functions;
    int n_functions;
    const struct mot_reward_input *input;
};

/* One external question under way. */
struct pending {
    struct starpu_task *task;
    float *value, *error;
};

static void put(float *value, float *error, const struct mot_score *score)
{
    *value = score->abstains ? NAN : (float)score->value;
    *error = score->error ? 1.0f : 0.0f;
}

/* The task has one thing less to wait for.  When that ends it, the policy is told in the thread
 * that says so, and dm, heteroprio and others stop the program unless that is a worker's. */
static void reply_cpu(void *buffers[], void *cl_arg)
{
    struct pending *p = cl_arg;
    (void)buffers;
    starpu_task_end_dep_release(p->task);
    free(p);
}

static struct starpu_perfmodel reply_model = MOT_STAGE_MODEL("motley_reply");

static struct starpu_codelet reply_codelet = {
    .name = "reply",
    .where = STARPU_CPU,
    .cpu_funcs = {reply_cpu},
    .model = &reply_model,
};

/* In the poll thread: the reply is there. */
static void replied(void *context, const struct mot_score *score)
{
    struct pending *p = context;
    put(p->value, p->error, score);
    mot_watchdog_touch();
    const struct mot_task task = {.codelet = &reply_codelet,
                                  .name = "reward.reply",
                                  .hint = *mot_task_hint(p->task),
                                  .argument = p,
                                  .priority = p->task->priority};
    mot_task_must(mot_task_insert(&task));
}

static void score_cpu(void *buffers[], void *cl_arg)
{
    const struct argument *a = cl_arg;
    float *values = (float *)STARPU_VECTOR_GET_PTR(buffers[0]);
    float *errors = values + a->n_functions;
    struct starpu_task *task = starpu_task_get_current();
    for (int f = 0; f < a->n_functions; f++) {
        const struct mot_reward_function *function = &a->functions[f];
        if (function->reward->begin != NULL) {
            struct pending *p = mot_alloc(sizeof(*p));
            *p = (struct pending){.task = task, .value = &values[f], .error = &errors[f]};
            starpu_task_end_dep_add(task, 1);
            function->reward->begin(function->state, a->input, replied, p);
        } else {
            struct mot_score score = {0};
            function->reward->score(function->state, a->input, &score);
            put(&values[f], &errors[f], &score);
        }
    }
}

static struct starpu_perfmodel score_model = MOT_STAGE_MODEL("motley_score");

static struct starpu_codelet score_codelet = {
    .name = "score",
    .where = STARPU_CPU,
    .cpu_funcs = {score_cpu},
    .nbuffers = 1,
    .modes = {STARPU_W},
    .model = &score_model,
};

int mot_insert_score(const struct mot_score_insert *s)
{
    struct argument a = {
        .functions = s->functions, .n_functions = s->n_functions, .input = s->input};
    struct mot_task task = {.codelet = &score_codelet,
                            .name = "reward.score",
                            .hint = s->hint,
                            .n_buffers = 1,
                            .handles = &s->scores,
                            .argument = &a,
                            .argument_bytes = sizeof(a),
                            .priority = s->priority};
    task.hint.rows = 1;
    task.hint.bytes = (double)s->input->completion_bytes;
    return mot_task_insert(&task);
}
