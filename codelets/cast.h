/* cast: one layer group of the master weights to a fresh compute copy, rounded to its number
 * format.
 *
 *   master  R  (n) float32
 *   copy    W  (n) float32 (on the CPU bfloat16 values are held widened)
 *
 * Cost: one pass over two vectors.  Variants: CPU. */
#ifndef MOT_CAST_H
#define MOT_CAST_H
#include "dtype.h"
#include "stage.h"

struct mot_cast_task {
    starpu_data_handle_t master, copy;
    size_t n;
    enum mot_dtype dtype; /* MOT_F32: a plain copy; MOT_BF16 */
    struct mot_hint hint; /* stage, step, group, version by the caller; the rest is filled in */
};
/* Submits.  0, or a negative errno with a message. */
int mot_insert_cast(const struct mot_cast_task *task);
#endif
