/* Scratch memory per worker, buffer lists and the cost model of all stages.  See stage.h. */
#include "stage.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One per worker, the last for threads that are none.  Each slot is touched by its thread alone;
 * the arena pointers are created on first use. */
static struct mot_exec execs[STARPU_NMAXWORKERS + 1];

struct mot_exec *mot_cpu_exec(void)
{
    const int worker = starpu_is_initialized() ? starpu_worker_get_id() : -1;
    struct mot_exec *e = &execs[worker < 0 ? STARPU_NMAXWORKERS : worker];
    if (e->arena == NULL) {
        e->arena = mot_arena_create();
        e->kernels = &mot_kernels_cpu;
        e->stream = NULL;
    }
    mot_arena_reset(e->arena, 0);
    return e;
}

void mot_cpu_exec_free(void)
{
    for (int w = 0; w <= STARPU_NMAXWORKERS; w++) {
        mot_arena_destroy(execs[w].arena);
        execs[w].arena = NULL;
    }
}

size_t mot_cpu_exec_peak_bytes(void)
{
    size_t peak = 0;
    for (int w = 0; w <= STARPU_NMAXWORKERS; w++) {
        const size_t bytes = execs[w].arena ? mot_arena_peak_bytes(execs[w].arena) : 0;
        peak = bytes > peak ? bytes : peak;
    }
    return peak;
}

void mot_stage_pointers(void *buffers[], int n, float **pointers)
{
    for (int i = 0; i < n; i++) { pointers[i] = (float *)STARPU_VECTOR_GET_PTR(buffers[i]); }
}

void mot_task_must(int status)
{
    if (status >= 0) { return; }
    fflush(NULL);
    _exit(1); /* not exit: workers are running, this may be one of them */
}

/* StarPU counts elements in 32 bits. */
static starpu_data_handle_t vector_of(size_t elements, size_t element_bytes)
{
    starpu_data_handle_t handle;
    MOT_ASSERT(elements > 0 && elements <= UINT32_MAX);
    starpu_vector_data_register(&handle, -1, 0, (uint32_t)elements, element_bytes);
    return handle;
}

starpu_data_handle_t mot_byte_vector(size_t n)
{
    enum { BLOCK_BYTES = 1024 };
    return n <= UINT32_MAX ? vector_of(n, 1)
                           : vector_of((n + BLOCK_BYTES - 1) / BLOCK_BYTES, BLOCK_BYTES);
}

starpu_data_handle_t mot_float_vector(size_t n)
{
    return n <= UINT32_MAX ? vector_of(n, sizeof(float)) : mot_byte_vector(n * sizeof(float));
}

starpu_data_handle_t mot_number_vector(const struct mot_stage_context *context, size_t n)
{
    return context->number_bytes == (int)sizeof(float)
               ? mot_float_vector(n)
               : mot_byte_vector(n * (size_t)context->number_bytes);
}

void mot_buffers_add(struct mot_buffers *b, starpu_data_handle_t handle,
                     enum starpu_data_access_mode mode)
{
    MOT_ASSERT(handle != NULL);
    if (b->n == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 16;
        b->handles = mot_realloc(b->handles, (size_t)b->capacity * sizeof(*b->handles));
        b->modes = mot_realloc(b->modes, (size_t)b->capacity * sizeof(*b->modes));
    }
    b->handles[b->n] = handle;
    b->modes[b->n] = mode;
    b->n++;
}

void mot_buffers_add_all(struct mot_buffers *b, const starpu_data_handle_t *handles, int n,
                         enum starpu_data_access_mode mode)
{
    for (int i = 0; i < n; i++) { mot_buffers_add(b, handles[i], mode); }
}

void mot_buffers_free(struct mot_buffers *b)
{
    free(b->handles);
    free(b->modes);
    *b = (struct mot_buffers){0};
}

int mot_stage_insert(struct mot_task *task, struct mot_buffers *b, void *argument, size_t bytes)
{
    task->n_buffers = b->n;
    task->handles = b->handles;
    task->modes = b->modes;
    task->argument = argument;
    task->argument_bytes = bytes;
    const int error = mot_task_insert(task);
    mot_buffers_free(b);
    return error;
}

/* Rough rates of one core and of one card: priors, not measurements. */
static const double core_flop_per_s = 5e10, core_bytes_per_s = 1e10;
static const double card_flop_per_s = 5e12, card_bytes_per_s = 3e11;
static const double start_us = 10.0;

double mot_stage_cost_us(struct starpu_task *task, struct starpu_perfmodel_arch *arch,
                         unsigned implementation)
{
    (void)implementation;
    const struct mot_hint *hint = mot_task_hint(task);
    if (hint == NULL) { return start_us; }
    const int on_cpu = arch->devices[0].type == STARPU_CPU_WORKER;
    const double cores = mot_cores_per_worker() > 0 ? mot_cores_per_worker() : 1;
    const double flop_per_s = on_cpu ? cores * core_flop_per_s : card_flop_per_s;
    const double bytes_per_s = on_cpu ? cores * core_bytes_per_s : card_bytes_per_s;
    return start_us + 1e6 * fmax(hint->flop / flop_per_s, hint->bytes / bytes_per_s);
}
