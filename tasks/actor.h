/* The actor: the network being trained, as StarPU data.  Master weights and moments exist once;
 * what rollouts and gradients read are versions.
 *
 * At dtype float32 without staleness the version is the master itself: nothing that reads weights
 * of version v + 1 is submitted before the update that makes it.  Otherwise each update is followed
 * by casts into fresh handles (a reused slot read by a later submitted task would silently read the
 * wrong version), retired with starpu_data_unregister_submit after the last reader's submission. */
#ifndef MOT_ACTOR_H
#define MOT_ACTOR_H
#include "dtype.h"
#include "model.h"
#include "stage.h"

/* Weights of one version: what readers get.  Counted: retired when the last reader lets go. */
struct mot_version {
    int number;
    int n_groups;
    starpu_data_handle_t *groups; /* (n_groups) */
    int references;
    int is_master; /* handles belong to the actor */
};

struct mot_actor_options {
    enum mot_dtype dtype; /* of the compute copies; float32: none is made */
    int lanes;            /* gradient accumulators; 0: weights only (a frozen model) */
};

struct mot_actor {
    struct mot_transformer transformer;
    struct mot_model_info info;
    struct mot_stage_context context;
    struct mot_actor_options options;
    starpu_data_handle_t *master, *m, *v; /* (n_groups) float32 vectors */
    starpu_data_handle_t **lanes;         /* (lanes)(n_groups) gradient sums */
    int updates;                          /* optimiser steps done: AdamW's step counter */
    struct mot_version *current;          /* what new readers read; the actor holds a reference */
    float **memory;                       /* host buffers behind master, m, v (owned) */
};

/* Takes the model's group buffers (model->groups becomes NULL).  Moments start at zero. */
int mot_actor_create(struct mot_actor *actor, struct mot_model *model,
                     const struct mot_actor_options *options);
void mot_actor_destroy(struct mot_actor *actor); /* all tasks done */

/* The current version with a reference more; let go after the last reader is submitted. */
struct mot_version *mot_actor_read(struct mot_actor *actor);
void mot_version_release(struct mot_version *version);
/* After the updates of an optimiser step are submitted: the next version becomes current (casts are
 * submitted where versions are copies). */
void mot_actor_advance(struct mot_actor *actor, int step);
/* How many versions are alive; at most eta + 2, asserted. */
int mot_actor_live_versions(const struct mot_actor *actor);

/* Master weights (and moments) in host memory, read between acquire and release; all tasks that
 * write them have been submitted.  m, v may be NULL. */
void mot_actor_acquire(struct mot_actor *actor, float ***weights, float ***m, float ***v);
void mot_actor_release(struct mot_actor *actor);
/* FNV-1a over the bytes of the current version, for tests (peers row 31). */
uint64_t mot_actor_version_hash(struct mot_actor *actor);
/* model files + optimizer.safetensors (m and v, when lanes > 0) into a directory that exists. */
int mot_actor_save(struct mot_actor *actor, const char *directory);
/* Moments and update count of such a directory; the model itself is loaded by mot_model_load. */
int mot_actor_load_optimizer(struct mot_actor *actor, const char *directory);
#endif
