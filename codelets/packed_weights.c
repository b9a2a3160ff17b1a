/* pack_weights: CPU variant and submission.  See packed_weights.h. */
#include "packed_weights.h"

int mot_packing_groups(const struct mot_layout *layout)
{
    return layout->shape.n_layers + 1;
}

size_t mot_packing_floats(const struct mot_transformer *transformer, int index)
{
    const struct mot_packing *packing = &transformer->packing;
    return index < transformer->layout.shape.n_layers ? packing->layer_floats
                                                      : packing->head_floats;
}

int mot_packing_source(const struct mot_layout *layout, int index)
{
    if (index < layout->shape.n_layers) { return index + 1; }
    return layout->shape.tied ? 0 : layout->n_groups - 1;
}

struct argument {
    const struct mot_stage_context *context;
    int index;
};

static void pack_weights_cpu(void *buffers[], void *cl_arg)
{
    const struct argument *a = cl_arg;
    const struct mot_transformer *t = a->context->transformer;
    float *pointers[2];
    struct mot_exec *e = mot_cpu_exec();
    mot_stage_pointers(buffers, 2, pointers);
    if (a->index < t->layout.shape.n_layers) {
        mot_transformer_pack_layer(e, t, pointers[0], pointers[1]);
    } else {
        mot_head_pack(e, t, pointers[0], pointers[1]);
    }
}

static struct starpu_perfmodel pack_weights_model = MOT_STAGE_MODEL("motley_pack_weights");
static struct starpu_codelet pack_weights_codelet = {
    .name = "pack_weights",
    .cpu_funcs = {pack_weights_cpu},
    .nbuffers = 2,
    .modes = {STARPU_R, STARPU_W},
    .model = &pack_weights_model,
};

int mot_insert_pack_weights(const struct mot_pack_weights *task)
{
    const struct mot_transformer *t = task->context->transformer;
    const starpu_data_handle_t handles[2] = {task->plain, task->packed};
    struct argument a = {task->context, task->index};
    struct mot_task insert = {
        .codelet = &pack_weights_codelet,
        .name = "rollout.pack",
        .hint = task->hint,
        .n_buffers = 2,
        .handles = handles,
        .argument = &a,
        .argument_bytes = sizeof(a),
        .priority = 1,
    };
    insert.hint.bytes = 2.0 * sizeof(float) * (double)mot_packing_floats(t, task->index);
    return mot_task_insert(&insert);
}
