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

struct mot_actor;

/* Weights of one version: what readers get.  Counted: retired when the last reader lets go. */
struct mot_version {
    struct mot_actor *actor;
    int number; /* optimiser steps that went into it, those before a checkpoint included */
    int n_groups;
    starpu_data_handle_t *groups; /* (n_groups) */
    starpu_data_handle_t *packed; /* (mot_packing_groups()); NULL: nobody has asked for them */
    int references;
    int is_master; /* handles belong to the actor */
};

struct mot_actor_options {
    enum mot_dtype dtype; /* of the compute copies: float32 (no copies, unless asked) or bfloat16 */
    int copies;           /* 1: copies at float32 too: readers may be older than the master */
    int max_versions;     /* alive at once, asserted: eta + 2; 0: 2 */
    int lanes;            /* gradient accumulators; 0: weights only (a frozen model) */
    double temperature;   /* of the log-probs; 0: 1 */
    int head_chunk;       /* rows of logits held at a time; 0: 128 */
};

struct mot_actor {
    struct mot_transformer transformer;
    struct mot_model_info info;
    struct mot_stage_context context;
    struct mot_actor_options options;
    starpu_data_handle_t *master, *m, *v; /* (n_groups) float32 vectors */
    starpu_data_handle_t **lanes;         /* (lanes)(n_groups) gradient sums; NULL until used */
    int updates;                          /* optimiser steps done: AdamW's step counter */
    struct mot_version *current;          /* what new readers read; the actor holds a reference */
    int versions_made, versions_alive;
    starpu_pthread_mutex_t mutex; /* guards current, the versions' counts and lanes */
    float **memory;               /* (n_memory) host buffers behind the handles (owned) */
    int n_memory;
    double gradient_flop; /* of a micro-batch, as last seen: for the declared plan */
    int training;         /* an optimiser step is under way */
};

/* Takes the model's group buffers (model->groups becomes NULL).  Moments start at zero.  After
 * mot_start. */
int mot_actor_create(struct mot_actor *actor, struct mot_model *model,
                     const struct mot_actor_options *options);
void mot_actor_destroy(struct mot_actor *actor); /* all tasks done */

/* The current version with a reference more; let go after the last reader is submitted. */
struct mot_version *mot_actor_read(struct mot_actor *actor);
/* The version's packed weights (codelets/packed_weights.h), made by tasks submitted on the first
 * call with create 1 (hints say that step), retired with the version.  NULL: there are none, or
 * create is 0 and nobody has asked before. */
const starpu_data_handle_t *mot_version_packed(struct mot_version *version, int create, int step);
void mot_version_retain(struct mot_version *version);
void mot_version_release(struct mot_version *version);
/* After the updates of an optimiser step are submitted: the next version becomes current (casts are
 * submitted where versions are copies).  mot_train does it. */
void mot_actor_advance(struct mot_actor *actor, int step);
/* How many versions are alive. */
int mot_actor_live_versions(struct mot_actor *actor);
/* The handles (n_groups) of a gradient lane, allocated on first use; mot_train's. */
const starpu_data_handle_t *mot_actor_lane(struct mot_actor *actor, int lane);

/* Master weights and moments in host memory, to be read or written between acquire and release; all
 * tasks that write them have been submitted.  Blocks: not from a callback.  m and v are NULL for a
 * frozen model. */
struct mot_actor_host {
    float **weights, **m, **v; /* (n_groups) */
};
void mot_actor_acquire(struct mot_actor *actor, struct mot_actor_host *host);
void mot_actor_release(struct mot_actor *actor, struct mot_actor_host *host);
/* FNV-1a over the bytes of the current version, for tests (peers row 31). */
uint64_t mot_actor_version_hash(struct mot_actor *actor);
/* The model's files and, with_optimizer, optimizer.safetensors (m, v, updates) into a directory
 * that exists. */
int mot_actor_save(struct mot_actor *actor, const char *directory, int with_optimizer);
/* Moments and update count of such a directory; the model itself is loaded by mot_model_load. */
int mot_actor_load_optimizer(struct mot_actor *actor, const char *directory);
#endif
