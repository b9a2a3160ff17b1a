/* logprob: CPU variant and submission.  See logprob.h. */
#include "logprob.h"
#include <stdlib.h>

struct arguments {
    const struct mot_stage_context *context;
    const struct mot_pack *pack;
    int with_entropy;
};

static void logprob_cpu(void *buffers[], void *cl_arg)
{
    const struct arguments *a = cl_arg;
    const struct mot_transformer *t = a->context->transformer;
    const struct mot_pack *pack = a->pack;
    const int n_groups = t->layout.n_groups;
    struct mot_exec *e = mot_cpu_exec();
    float **weights = mot_arena_take(e->arena, (size_t)n_groups * sizeof(*weights));
    mot_stage_pointers(buffers, n_groups, weights);
    float *logprob = (float *)STARPU_VECTOR_GET_PTR(buffers[n_groups]);
    MOT_ASSERT(STARPU_VECTOR_GET_NX(buffers[n_groups]) >= (size_t)pack->n_targets);
    float *entropy = a->with_entropy
                         ? (float *)STARPU_VECTOR_GET_PTR(buffers[n_groups + 1])
                         : mot_arena_take(e->arena, (size_t)pack->n_targets * sizeof(float));

    const struct mot_batch batch = {
        .T = pack->T,
        .n_segments = pack->n_segments,
        .ids = pack->ids,
        .position = pack->position,
        .segments = mot_pack_bind(pack, &t->layout.shape, e->arena),
    };
    const size_t C = (size_t)t->layout.shape.hidden_size;
    float *hidden = mot_arena_take(e->arena, (size_t)pack->T * C * sizeof(float));
    mot_transformer_forward(e, t, (const float *const *)weights, &batch, hidden, NULL);
    const struct mot_head_targets targets = {
        .n = pack->n_targets,
        .row = pack->row,
        .target = pack->target,
        .inv_temperature = a->context->inv_temperature,
        .chunk = a->context->head_chunk,
    };
    mot_head_logprob(e, t, (const float *const *)weights, hidden, &targets, logprob, entropy);
}

static struct starpu_perfmodel logprob_model = MOT_STAGE_MODEL("motley_logprob");
static struct starpu_codelet logprob_codelet = {
    .name = "logprob",
    .cpu_funcs = {logprob_cpu},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &logprob_model,
};

int mot_insert_logprob(const struct mot_logprob_task *task)
{
    const struct mot_layout *layout = &task->context->transformer->layout;
    struct mot_buffers b = {0};
    mot_buffers_add_all(&b, task->weights, layout->n_groups, STARPU_R);
    mot_buffers_add(&b, task->logprob, STARPU_W);
    if (task->entropy) { mot_buffers_add(&b, task->entropy, STARPU_W); }

    struct arguments a = {task->context, task->pack, task->entropy != NULL};
    struct mot_task insert = {
        .codelet = &logprob_codelet,
        .name = "train.logprob",
        .hint = task->hint,
        .done = task->done,
        .argument_done = task->argument,
    };
    insert.hint.flop = mot_pack_forward_flop(task->pack, &layout->shape);
    insert.hint.bytes = (double)layout->parameters * task->context->number_bytes;
    insert.hint.rows = task->pack->n_answers;
    insert.hint.tokens = task->pack->T;
    return mot_stage_insert(&insert, &b, &a, sizeof(a));
}
