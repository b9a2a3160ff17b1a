/* The embedded default: a small byte-level Llama with random weights, so that everything can be
 * tried without a download.  Nothing pre-trained is shipped: `motley sft` fits it first. */
#ifndef MOT_TINY_MODEL_H
#define MOT_TINY_MODEL_H
#include "model.h"

/* 1 when path has the form "tiny:SEED". */
int mot_tiny_model_is(const char *path);
/* 0 and the SEED, or -EINVAL with a message when it is no whole number. */
int mot_tiny_model_seed(const char *path, uint64_t *seed);
/* 0, or -EINVAL with a message as before.  The tokenizer that belongs to it is
 * mot_tokenizer_bytes(). */
int mot_tiny_model_init(const char *path, struct mot_model *model);
#endif
