/* The actor's memory, handles and versions.  See actor.h. */
#include "actor.h"
#include "cast.h"
#include "hash.h"
#include "packed_weights.h"
#include "simulate.h"
#include "stages.h"
#include <stdlib.h>
#include <string.h>

/* A host buffer of the actor's as a handle; the actor frees it. */
static starpu_data_handle_t keep(struct mot_actor *actor, float *buffer, size_t n)
{
    starpu_data_handle_t handle;
    actor->memory =
        mot_realloc(actor->memory, (size_t)(actor->n_memory + 1) * sizeof(*actor->memory));
    actor->memory[actor->n_memory++] = buffer;
    starpu_vector_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)buffer, n, sizeof(float));
    return handle;
}

static float *numbers(size_t n)
{
    return MOT_SIMULATES ? mot_simulated_memory(n * sizeof(float))
                         : mot_alloc_aligned(n * sizeof(float));
}

static float *zeros(size_t n)
{
    float *buffer = numbers(n);
    if (!MOT_SIMULATES) { memset(buffer, 0, n * sizeof(float)); }
    return buffer;
}

static starpu_data_handle_t *handle_array(int n)
{
    return mot_alloc_zeroed((size_t)n, sizeof(starpu_data_handle_t));
}

/* A version whose groups are the master's handles or fresh copies; casts are submitted. */
static struct mot_version *make_version(struct mot_actor *actor, int step)
{
    const struct mot_layout *layout = &actor->transformer.layout;
    struct mot_version *v = mot_alloc_zeroed(1, sizeof(*v));
    v->actor = actor;
    v->number = actor->versions_made;
    v->n_groups = layout->n_groups;
    v->references = 1;
    v->is_master = actor->options.dtype == MOT_F32 && !actor->options.copies;
    if (v->is_master) {
        v->groups = actor->master;
        return v;
    }
    v->groups = handle_array(v->n_groups);
    for (int g = 0; g < v->n_groups; g++) {
        v->groups[g] = mot_number_vector(&actor->context, layout->group_floats[g]);
        mot_data_name(v->groups[g], "weights %d v%d", g, v->number);
        const struct mot_cast_task cast = {
            .master = actor->master[g],
            .copy = v->groups[g],
            .n = layout->group_floats[g],
            .dtype = actor->options.dtype,
            .hint = {.stage = MOT_STAGE_CAST, .step = step, .group = g, .version = v->number},
        };
        mot_task_must(mot_insert_cast(&cast));
        mot_plan_submitted(step, MOT_STAGE_CAST, 1, 0.0);
    }
    return v;
}

int mot_actor_create(struct mot_actor *actor, struct mot_model *model,
                     const struct mot_actor_options *options)
{
    struct mot_actor made = {.info = model->info, .options = *options};
    if (options->dtype != MOT_F32 && options->dtype != MOT_BF16) {
        return mot_fail(EINVAL, "dtype %s: compute copies are float32 or bfloat16",
                        mot_dtype_name(options->dtype));
    }
    int status = MOT_SIMULATES ? 0 : mot_matmul_self_test(&model->info.shape);
    if (status == 0) { status = mot_transformer_create(&made.transformer, &model->info.shape); }
    if (status < 0) { return status; }
    if (!MOT_SIMULATES) { mot_transformer_find_packing(&made.transformer, &mot_kernels_cpu); }
    if (made.options.max_versions == 0) { made.options.max_versions = 2; }
    *actor = made;
    starpu_pthread_mutex_init(&actor->mutex, NULL);
    actor->context = (struct mot_stage_context){
        .transformer = &actor->transformer,
        .head_chunk = options->head_chunk ? options->head_chunk : 128,
        .inv_temperature = options->temperature > 0.0 ? (float)(1.0 / options->temperature) : 1.0f,
        .number_bytes = MOT_SIMULATES ? (int)mot_dtype_bytes(options->dtype) : (int)sizeof(float),
    };

    const struct mot_layout *layout = &actor->transformer.layout;
    const int n = layout->n_groups;
    actor->master = handle_array(n);
    actor->m = handle_array(n);
    actor->v = handle_array(n);
    for (int g = 0; g < n; g++) {
        actor->master[g] = keep(actor, model->groups[g], layout->group_floats[g]);
        model->groups[g] = NULL;
        mot_data_name(actor->master[g], "weights %d", g);
        if (options->lanes == 0) { continue; }
        actor->m[g] = keep(actor, zeros(layout->group_floats[g]), layout->group_floats[g]);
        actor->v[g] = keep(actor, zeros(layout->group_floats[g]), layout->group_floats[g]);
        mot_data_name(actor->m[g], "moment m %d", g);
        mot_data_name(actor->v[g], "moment v %d", g);
    }
    free(model->groups);
    model->groups = NULL;
    if (options->lanes > 0) {
        actor->lanes = mot_alloc_zeroed((size_t)options->lanes, sizeof(*actor->lanes));
    }
    actor->current = make_version(actor, 0);
    actor->versions_made = actor->versions_alive = 1;
    return 0;
}

static void unregister(starpu_data_handle_t *handles, int n)
{
    for (int i = 0; handles && i < n; i++) {
        if (handles[i]) { starpu_data_unregister(handles[i]); }
    }
    free(handles);
}

void mot_actor_destroy(struct mot_actor *actor)
{
    const int n = actor->transformer.layout.n_groups;
    mot_version_release(actor->current);
    MOT_ASSERT(actor->versions_alive == 0);
    unregister(actor->master, n);
    unregister(actor->m, n);
    unregister(actor->v, n);
    for (int lane = 0; lane < actor->options.lanes; lane++) { unregister(actor->lanes[lane], n); }
    free(actor->lanes);
    for (int i = 0; i < actor->n_memory && !MOT_SIMULATES; i++) { free(actor->memory[i]); }
    free(actor->memory);
    mot_transformer_destroy(&actor->transformer);
    starpu_pthread_mutex_destroy(&actor->mutex);
    memset(actor, 0, sizeof(*actor));
}

const starpu_data_handle_t *mot_actor_lane(struct mot_actor *actor, int lane)
{
    const struct mot_layout *layout = &actor->transformer.layout;
    MOT_ASSERT(lane >= 0 && lane < actor->options.lanes);
    starpu_pthread_mutex_lock(&actor->mutex);
    if (actor->lanes[lane] == NULL) {
        starpu_data_handle_t *handles = handle_array(layout->n_groups);
        for (int g = 0; g < layout->n_groups; g++) {
            handles[g] = keep(actor, numbers(layout->group_floats[g]), layout->group_floats[g]);
            mot_data_name(handles[g], "gradient %d lane %d", g, lane);
        }
        actor->lanes[lane] = handles;
    }
    const starpu_data_handle_t *handles = actor->lanes[lane];
    starpu_pthread_mutex_unlock(&actor->mutex);
    return handles;
}

/* ---- Versions -------------------------------------------------------------------------------- */

struct mot_version *mot_actor_read(struct mot_actor *actor)
{
    starpu_pthread_mutex_lock(&actor->mutex);
    struct mot_version *version = actor->current;
    version->references++;
    starpu_pthread_mutex_unlock(&actor->mutex);
    return version;
}

static starpu_data_handle_t *pack(struct mot_version *v, int step)
{
    const struct mot_transformer *t = &v->actor->transformer;
    const int n = mot_packing_groups(&t->layout);
    starpu_data_handle_t *packed = handle_array(n);
    for (int i = 0; i < n; i++) {
        packed[i] = mot_float_vector(mot_packing_floats(t, i));
        const int group = mot_packing_source(&t->layout, i);
        mot_data_name(packed[i], "packed weights %d v%d", group, v->number);
        const struct mot_pack_weights task = {
            .context = &v->actor->context,
            .index = i,
            .plain = v->groups[group],
            .packed = packed[i],
            .hint = {.stage = MOT_STAGE_CAST, .step = step, .group = group, .version = v->number},
        };
        mot_task_must(mot_insert_pack_weights(&task));
    }
    return packed;
}

const starpu_data_handle_t *mot_version_packed(struct mot_version *version, int create, int step)
{
    struct mot_actor *actor = version->actor;
    starpu_pthread_mutex_lock(&actor->mutex);
    if (version->packed == NULL && create && actor->transformer.packing.head_floats > 0) {
        version->packed = pack(version, step);
    }
    const starpu_data_handle_t *packed = version->packed;
    starpu_pthread_mutex_unlock(&actor->mutex);
    return packed;
}

void mot_version_retain(struct mot_version *version)
{
    starpu_pthread_mutex_lock(&version->actor->mutex);
    MOT_ASSERT(version->references > 0);
    version->references++;
    starpu_pthread_mutex_unlock(&version->actor->mutex);
}

void mot_version_release(struct mot_version *version)
{
    struct mot_actor *actor = version->actor;
    starpu_pthread_mutex_lock(&actor->mutex);
    MOT_ASSERT(version->references > 0);
    const int last = --version->references == 0;
    actor->versions_alive -= last;
    starpu_pthread_mutex_unlock(&actor->mutex);
    if (!last) { return; }
    if (!version->is_master) {
        for (int g = 0; g < version->n_groups; g++) {
            starpu_data_unregister_submit(version->groups[g]);
        }
        free(version->groups);
    }
    const int n = mot_packing_groups(&actor->transformer.layout);
    for (int i = 0; version->packed != NULL && i < n; i++) {
        starpu_data_unregister_submit(version->packed[i]);
    }
    free(version->packed);
    free(version);
}

void mot_actor_advance(struct mot_actor *actor, int step)
{
    struct mot_version *next = make_version(actor, step);
    starpu_pthread_mutex_lock(&actor->mutex);
    struct mot_version *old = actor->current;
    actor->current = next;
    actor->versions_made++;
    actor->versions_alive++;
    starpu_pthread_mutex_unlock(&actor->mutex);
    mot_version_release(old);
    MOT_ASSERT(mot_actor_live_versions(actor) <= actor->options.max_versions);
}

int mot_actor_live_versions(struct mot_actor *actor)
{
    starpu_pthread_mutex_lock(&actor->mutex);
    const int alive = actor->versions_alive;
    starpu_pthread_mutex_unlock(&actor->mutex);
    return alive;
}

uint64_t mot_actor_version_hash(struct mot_actor *actor)
{
    const struct mot_layout *layout = &actor->transformer.layout;
    struct mot_version *version = mot_actor_read(actor);
    uint64_t hash = MOT_HASH_START;
    for (int g = 0; g < version->n_groups; g++) {
        starpu_data_acquire(version->groups[g], STARPU_R);
        hash = mot_hash(hash, starpu_data_get_local_ptr(version->groups[g]),
                        layout->group_floats[g] * sizeof(float));
        starpu_data_release(version->groups[g]);
    }
    mot_version_release(version);
    return hash;
}

/* ---- Host access ----------------------------------------------------------------------------- */

static float **acquire(const starpu_data_handle_t *handles, int n)
{
    float **pointers = mot_alloc_zeroed((size_t)n, sizeof(*pointers));
    for (int g = 0; g < n; g++) {
        starpu_data_acquire(handles[g], STARPU_RW);
        pointers[g] = starpu_data_get_local_ptr(handles[g]);
    }
    return pointers;
}

static void release(const starpu_data_handle_t *handles, int n, float **pointers)
{
    for (int g = 0; g < n; g++) { starpu_data_release(handles[g]); }
    free(pointers);
}

void mot_actor_acquire(struct mot_actor *actor, struct mot_actor_host *host)
{
    const int n = actor->transformer.layout.n_groups;
    host->weights = acquire(actor->master, n);
    host->m = actor->options.lanes ? acquire(actor->m, n) : NULL;
    host->v = actor->options.lanes ? acquire(actor->v, n) : NULL;
}

void mot_actor_release(struct mot_actor *actor, struct mot_actor_host *host)
{
    const int n = actor->transformer.layout.n_groups;
    release(actor->master, n, host->weights);
    if (host->m) { release(actor->m, n, host->m); }
    if (host->v) { release(actor->v, n, host->v); }
    *host = (struct mot_actor_host){0};
}
