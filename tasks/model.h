/* A model on disk: a HF directory (config.json, *.safetensors) or a GGUF file, read into the layout
 * of codelets/model_layout.h, and written as a HF directory. */
#ifndef MOT_MODEL_H
#define MOT_MODEL_H
#include "model_layout.h"
#include <stdint.h>

/* What is known of a model besides its numbers. */
struct mot_model_info {
    char architecture[64]; /* "LlamaForCausalLM", see architectures_table.h */
    struct mot_model_shape shape;
    int32_t bos_id, eos_id, pad_id; /* -1: none; eos_id is the first of eos_ids */
    int32_t eos_ids[8];             /* generation_config.json may name several */
    int n_eos_ids;
};

struct mot_model {
    char *path; /* the directory or file it was read from */
    struct mot_model_info info;
    struct mot_layout layout;
    float **groups; /* (layout.n_groups) float32 buffers, 64-byte aligned, padding zero */
};

/* Reads config.json or the GGUF header only.  0, or a negative errno with a message that names file
 * and place. */
int mot_model_read_info(const char *path, struct mot_model_info *info);
int mot_model_load(const char *path, struct mot_model *model);
void mot_model_destroy(struct mot_model *model);
/* Random weights as transformers makes them: N(0, 0.02), norms 1, biases 0, by MOT_RNG_INIT. */
int mot_model_init(struct mot_model *model, const struct mot_model_info *info, uint64_t seed);

/* Writes config.json, generation_config.json and model.safetensors (float32) into a directory that
 * exists; groups as in the layout.  All files are fsynced.  Shape-equal models give equal bytes for
 * equal weights.  Tokenizer files are the tokenizer's business (mot_tokenizer_save). */
int mot_model_save(const char *directory, const struct mot_model_info *info,
                   const struct mot_layout *layout, float *const *groups);
#endif
