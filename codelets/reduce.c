/* reduce: CPU variant and submission.  See reduce.h. */
#include "reduce.h"

struct arguments {
    int n_lanes;
    size_t n;
};

static void reduce_cpu(void *buffers[], void *cl_arg)
{
    const struct arguments *a = cl_arg;
    struct mot_exec *e = mot_cpu_exec();
    float *sum = (float *)STARPU_VECTOR_GET_PTR(buffers[0]);
    for (int lane = 1; lane < a->n_lanes; lane++) {
        e->kernels->accumulate(e, a->n, (const float *)STARPU_VECTOR_GET_PTR(buffers[lane]), sum);
    }
    double *squares = (double *)STARPU_VARIABLE_GET_PTR(buffers[a->n_lanes]);
    *squares = e->kernels->sum_of_squares(e, a->n, sum);
}

static struct starpu_perfmodel reduce_model = MOT_STAGE_MODEL("motley_reduce");
static struct starpu_codelet reduce_codelet = {
    .name = "reduce",
    .cpu_funcs = {reduce_cpu},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &reduce_model,
};

int mot_insert_reduce(const struct mot_reduce_task *task)
{
    struct mot_buffers b = {0};
    MOT_ASSERT(task->n_lanes >= 1);
    mot_buffers_add(&b, task->lanes[0], STARPU_RW);
    mot_buffers_add_all(&b, task->lanes + 1, task->n_lanes - 1, STARPU_R);
    mot_buffers_add(&b, task->squares, STARPU_W);
    struct arguments a = {task->n_lanes, task->n};
    struct mot_task insert = {
        .codelet = &reduce_codelet,
        .name = "train.reduce",
        .hint = task->hint,
        .done = task->done,
        .argument_done = task->argument,
        .priority = 1,
    };
    insert.hint.flop = (double)task->n * (task->n_lanes + 1);
    insert.hint.bytes = sizeof(float) * insert.hint.flop;
    return mot_stage_insert(&insert, &b, &a, sizeof(a));
}
