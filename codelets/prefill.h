/* prefill: forwards whole prompts, once each, and keeps their keys and values for the answers.
 *
 *   weights  R  (n_groups) one buffer per layer group
 *   packed   R  their packed copies (packed_weights.h), or none
 *   caches   W  (n_prompts) one per prompt: mot_prompt_cache_floats(shape, n) float32: keys and
 *               values of its n tokens (struct mot_kv, capacity n), then the final hidden state (C)
 *               of its last token, from which every answer draws its first
 *
 * All prompts of a task run as one packed batch.  Variants: CPU. */
#ifndef MOT_PREFILL_H
#define MOT_PREFILL_H
#include "stage.h"

size_t mot_prompt_cache_floats(const struct mot_model_shape *shape, int n_tokens);
/* The two parts of a prompt cache. */
struct mot_kv mot_prompt_cache_kv(float *cache, int n_tokens);
const float *mot_prompt_cache_hidden(const struct mot_model_shape *shape, const float *cache,
                                     int n_tokens);

struct mot_prefill {
    const struct mot_stage_context *context;
    const starpu_data_handle_t *weights;
    const starpu_data_handle_t *packed; /* (mot_packing_groups()) or NULL: without; equal bits */
    int n_prompts;
    const int *lengths;                 /* (n_prompts) tokens, >= 1 */
    const int32_t *const *ids;          /* (n_prompts) copied */
    const starpu_data_handle_t *caches; /* (n_prompts) */
    struct mot_hint hint;               /* stage, step, group, version; the rest is filled in */
    int priority;
};
/* Submits; 0 or a negative errno with a message.  Handles must live until the task has run. */
int mot_insert_prefill(const struct mot_prefill *prefill);
#endif
