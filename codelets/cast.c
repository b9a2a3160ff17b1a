/* cast: CPU variant and submission.  See cast.h. */
#include "cast.h"
#include <string.h>

struct arguments {
    size_t n;
    enum mot_dtype dtype;
};

static void cast_cpu(void *buffers[], void *cl_arg)
{
    const struct arguments *a = cl_arg;
    struct mot_exec *e = mot_cpu_exec();
    const float *master = (const float *)STARPU_VECTOR_GET_PTR(buffers[0]);
    float *copy = (float *)STARPU_VECTOR_GET_PTR(buffers[1]);
    if (a->dtype == MOT_F32) {
        memcpy(copy, master, a->n * sizeof(float));
    } else {
        e->kernels->round_bf16(e, a->n, master, copy);
    }
}

static struct starpu_perfmodel cast_model = MOT_STAGE_MODEL("motley_cast");
static struct starpu_codelet cast_codelet = {
    .name = "cast",
    .cpu_funcs = {cast_cpu},
    .nbuffers = 2,
    .modes = {STARPU_R, STARPU_W},
    .model = &cast_model,
};

int mot_insert_cast(const struct mot_cast_task *task)
{
    MOT_ASSERT(task->dtype == MOT_F32 || task->dtype == MOT_BF16);
    const starpu_data_handle_t handles[2] = {task->master, task->copy};
    struct arguments a = {task->n, task->dtype};
    struct mot_task insert = {
        .codelet = &cast_codelet,
        .name = "train.cast",
        .hint = task->hint,
        .n_buffers = 2,
        .handles = handles,
        .argument = &a,
        .argument_bytes = sizeof(a),
        .priority = 1,
    };
    insert.hint.flop = (double)task->n;
    insert.hint.bytes = 2.0 * sizeof(float) * (double)task->n;
    return mot_task_insert(&insert);
}
