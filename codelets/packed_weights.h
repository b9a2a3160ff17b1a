/* pack_weights: a second copy of one layer group's matrices, in the order in which the device's
 * matrix product reads them.  Generation multiplies a few rows by all weights for every token, and
 * rearranging them each time costs it a third of its time; packed once per version, it does not.
 *
 *   plain   R  the group of the layout that holds the matrices
 *   packed  W  mot_packing.layer_floats or head_floats
 *
 * A version's packed copies are a list of mot_packing_groups(): one per layer, then the head's.
 * Norms, biases and embedding rows are read from the plain groups.  Cost: one pass over the
 * weights. Variants: CPU. */
#ifndef MOT_PACKED_WEIGHTS_H
#define MOT_PACKED_WEIGHTS_H
#include "stage.h"

/* How many packed groups a model of that layout has, and the floats of each. */
int mot_packing_groups(const struct mot_layout *layout);
size_t mot_packing_floats(const struct mot_transformer *transformer, int index);
/* The group of the layout that packed group `index` is made of. */
int mot_packing_source(const struct mot_layout *layout, int index);

struct mot_pack_weights {
    const struct mot_stage_context *context;
    int index; /* of the packed group */
    starpu_data_handle_t plain, packed;
    struct mot_hint hint; /* stage, step, version by the caller; the rest is filled in */
};
/* Submits; 0 or a negative errno with a message. */
int mot_insert_pack_weights(const struct mot_pack_weights *task);
#endif
