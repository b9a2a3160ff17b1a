/* update: CPU variant and submission.  See update.h. */
#include "update.h"

struct arguments {
    struct mot_adamw options;
    int n_ranges;
    struct mot_decay_range ranges[MOT_LAYER_ROLES];
};

int mot_decay_ranges(const struct mot_layout *layout, int group, int decay_all,
                     struct mot_decay_range ranges[MOT_LAYER_ROLES])
{
    int n = 0;
    size_t end = 0; /* of what the ranges cover */
    for (int t = 0; t < layout->n_tensors; t++) {
        const struct mot_tensor *tensor = &layout->tensors[t];
        if (tensor->group != group) { continue; }
        const int decays = decay_all || tensor->dimensions > 1;
        MOT_ASSERT(n == 0 ? tensor->offset == 0 : tensor->offset >= end);
        if (n == 0 || ranges[n - 1].decays != decays) {
            MOT_ASSERT(n < MOT_LAYER_ROLES);
            ranges[n++] = (struct mot_decay_range){.first = tensor->offset, .decays = decays};
        }
        end = tensor->offset + (size_t)tensor->rows * (size_t)tensor->cols;
    }
    for (int i = 0; i < n; i++) {
        const size_t next = i + 1 < n ? ranges[i + 1].first : layout->group_floats[group];
        ranges[i].n = next - ranges[i].first;
    }
    return n;
}

static void update_cpu(void *buffers[], void *cl_arg)
{
    const struct arguments *a = cl_arg;
    struct mot_exec *e = mot_cpu_exec();
    float *pointers[4]; /* gradient, master, m, v */
    mot_stage_pointers(buffers, 4, pointers);
    for (int i = 0; i < a->n_ranges; i++) {
        const struct mot_decay_range *r = &a->ranges[i];
        struct mot_adamw options = a->options;
        if (!r->decays) { options.weight_decay = 0.0f; }
        e->kernels->adamw(e, r->n, &options, pointers[0] + r->first, pointers[1] + r->first,
                          pointers[2] + r->first, pointers[3] + r->first);
    }
}

static struct starpu_perfmodel update_model = MOT_STAGE_MODEL("motley_update");
static struct starpu_codelet update_codelet = {
    .name = "update",
    .cpu_funcs = {update_cpu},
    .nbuffers = 4,
    .modes = {STARPU_R, STARPU_RW, STARPU_RW, STARPU_RW},
    .model = &update_model,
};

int mot_insert_update(const struct mot_update_task *task)
{
    const starpu_data_handle_t handles[4] = {task->gradient, task->master, task->m, task->v};
    struct arguments a = {.options = task->options};
    a.n_ranges = mot_decay_ranges(task->layout, task->group, task->decay_all, a.ranges);
    struct mot_task insert = {
        .codelet = &update_codelet,
        .name = "train.update",
        .hint = task->hint,
        .n_buffers = 4,
        .handles = handles,
        .argument = &a,
        .argument_bytes = sizeof(a),
        .done = task->done,
        .argument_done = task->argument,
        .priority = 1,
    };
    const double n = (double)task->layout->group_floats[task->group];
    insert.hint.group = task->group;
    insert.hint.flop = 15.0 * n;
    insert.hint.bytes = 7.0 * sizeof(float) * n;
    return mot_task_insert(&insert);
}
