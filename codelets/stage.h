/* What all stage codelets share: the model they run and where they compute.
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
    int head_chunk; /* rows of logits held at a time */
};

/* The calling CPU worker's kernels and scratch memory (an arena per worker, emptied by each call). */
struct mot_exec *mot_cpu_exec(void);
/* Frees all workers' scratch memory; after mot_stop. */
void mot_cpu_exec_free(void);
/* Largest scratch memory any worker has held, bytes. */
size_t mot_cpu_exec_peak_bytes(void);

/* The first n buffers as pointers (vectors of floats). */
void mot_stage_pointers(void *buffers[], int n, float **pointers);

/* Buffers of one task, gathered for mot_task_insert. */
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
#endif
