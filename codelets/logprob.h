/* logprob: log-probs (and entropies) of a pack's targets under given weights: the reference policy
 * of the KL term, and `motley logprob`.  The same forward as the gradient's, so equal weights give
 * equal bits.
 *
 *   weights  R  (n_groups) float32 vectors
 *   logprob  W  (n_targets) float32 vector, in the pack's target order
 *   entropy  W  (n_targets) float32 vector, nats; left out when not wanted
 *
 * Cost: the pack's forward pass.  Variants: CPU. */
#ifndef MOT_LOGPROB_H
#define MOT_LOGPROB_H
#include "pack.h"
#include "stage.h"

struct mot_logprob_task {
    const struct mot_stage_context *context; /* borrowed until done */
    const starpu_data_handle_t *weights;     /* (n_groups of the layout) */
    const struct mot_pack *pack;             /* borrowed until done */
    starpu_data_handle_t logprob;            /* mot_logprob_handle() or the caller's own */
    starpu_data_handle_t entropy;            /* NULL: not computed */
    struct mot_hint hint; /* stage, step, group, version by the caller; the rest is filled in */
    void (*done)(void *argument);
    void *argument;
};
/* Submits.  0, or a negative errno with a message. */
int mot_insert_logprob(const struct mot_logprob_task *task);
#endif
