/* What all stage codelets share: the model they run, where they compute, what they cost.
 *
 * A stage codelet is one StarPU task kind: it finds its buffers, and calls the transformer or one
 * kernel on the device of the worker that runs it.  Weights come as one buffer per layer group
 * (model_layout.h), always first in the buffer list. */
#ifndef MOT_STAGE_H
#define MOT_STAGE_H
#include "motley.h"
#include "transformer.h"

/* One per process and model; borrowed by every task argument. */
struct mot_stage_context {
    const struct mot_transformer *transformer;
    int head_chunk;        /* rows of logits held at a time */
    float inv_temperature; /* log-probs are of softmax(logits * inv_temperature) */
    int number_bytes; /* of a weight or cached number: 4, or in a simulation what its dtype has */
};

/* The calling CPU worker's kernels and scratch memory (an arena per worker, emptied by each call).
 * Threads that are no workers share one more: for the main thread of tests and tools. */
struct mot_exec *mot_cpu_exec(void);
/* Frees all workers' scratch memory; after mot_stop. */
void mot_cpu_exec_free(void);
/* Largest scratch memory any worker has held, bytes. */
size_t mot_cpu_exec_peak_bytes(void);

/* The first n buffers as pointers (vectors of floats). */
void mot_stage_pointers(void *buffers[], int n, float **pointers);

/* A vector of n floats, or n bytes, that lives where it is used (home node -1); the caller
 * unregisters.  From 2^32 floats on, StarPU's count of elements is not that of numbers. */
starpu_data_handle_t mot_float_vector(size_t n);
starpu_data_handle_t mot_byte_vector(size_t n);
/* The same of n numbers of the context's. */
starpu_data_handle_t mot_number_vector(const struct mot_stage_context *context, size_t n);

/* For submissions that have no caller to tell (callbacks): a failed one, whose message is out
 * already, ends the program with exit code 1. */
void mot_task_must(int status);

/* Buffers of one task, gathered for mot_task_insert.  All zero is empty. */
struct mot_buffers {
    int n, capacity;
    starpu_data_handle_t *handles;
    enum starpu_data_access_mode *modes;
};
void mot_buffers_add(struct mot_buffers *b, starpu_data_handle_t handle,
                     enum starpu_data_access_mode mode);
void mot_buffers_add_all(struct mot_buffers *b, const starpu_data_handle_t *handles, int n,
                         enum starpu_data_access_mode mode);
void mot_buffers_free(struct mot_buffers *b);

/* Inserts the task with these buffers, which are freed in any case, and a copy of its argument.
 * As mot_task_insert. */
int mot_stage_insert(struct mot_task *task, struct mot_buffers *b, void *argument, size_t bytes);

/* A codelet's cost model: the longer of hint.flop at an assumed rate and hint.bytes at an assumed
 * bandwidth, plus a start-up time.  Known from the first task on, so no dm* policy meets a stage
 * without an estimate, and nothing stale is read from files; only ratios between tasks and between
 * devices matter to them.
 *   static struct starpu_perfmodel model = MOT_STAGE_MODEL("motley_reduce"); */
double mot_stage_cost_us(struct starpu_task *task, struct starpu_perfmodel_arch *arch,
                         unsigned implementation);
#define MOT_STAGE_MODEL(name)                                                               \
    {                                                                                       \
        .type = STARPU_PER_ARCH, .symbol = (name), .arch_cost_function = mot_stage_cost_us, \
    }
#endif
