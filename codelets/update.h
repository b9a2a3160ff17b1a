/* update: one AdamW step of one layer group (kernel adamw), in place.
 *
 *   gradient  R   (group_floats) float32, un-normalised; options.grad_scale normalises and clips
 *   master    RW  (group_floats) float32 weights
 *   m, v      RW  (group_floats) float32 moments
 *
 * Weight decay goes to ranges of the group: matrices only, or all tensors, as the caller says.
 * Cost: one pass over seven vectors.  Variants: CPU. */
#ifndef MOT_UPDATE_H
#define MOT_UPDATE_H
#include "stage.h"

/* Neighbouring tensors of a group that are treated alike. */
struct mot_decay_range {
    size_t first, n; /* numbers of the group's buffer */
    int decays;
};
/* The ranges of a group, covering it whole (padding included): one per tensor at most, neighbours
 * alike joined.  decay_all 1: everything decays; 0: vectors (norms, biases) do not.
 * Returns how many, at most MOT_LAYER_ROLES. */
int mot_decay_ranges(const struct mot_layout *layout, int group, int decay_all,
                     struct mot_decay_range ranges[MOT_LAYER_ROLES]);

struct mot_update_task {
    starpu_data_handle_t gradient, master, m, v;
    const struct mot_layout *layout;
    int group, decay_all;
    struct mot_adamw options;
    struct mot_hint hint; /* stage, step, version by the caller; the rest is filled in */
    void (*done)(void *argument);
    void *argument;
};
/* Submits.  0, or a negative errno with a message. */
int mot_insert_update(const struct mot_update_task *task);
#endif
