/* Inside of the model reader: what model.c shares with model_hf.c and model_gguf.c only. */
#ifndef MOT_MODEL_READ_H
#define MOT_MODEL_READ_H
#include "gguf.h"
#include "model.h"

struct mot_architecture {
    const char *hf_class, *model_type, *gguf;
    int qkv_bias, qk_norm, default_head_dim, gguf_permuted;
};
/* The architecture whose HF class (or model_type, or GGUF name) is that, or NULL; any may be
 * NULL. */
const struct mot_architecture *mot_architecture_find(const char *hf_class, const char *model_type,
                                                     const char *gguf);
/* "LlamaForCausalLM, ...": for messages. */
const char *mot_architecture_list(void);

/* Adds an end-of-sequence id unless it is there; an error when there are too many. */
int mot_info_add_eos(struct mot_model_info *info, const char *path, int64_t id);
/* Ids within the vocabulary, sizes that make sense; path is named in the message. */
int mot_info_check(const struct mot_model_info *info, const char *path);

int mot_hf_read_info(const char *directory, struct mot_model_info *info);
int mot_gguf_read_info(const struct mot_gguf *gguf, struct mot_model_info *info);

/* Fill model->groups, which they allocate once every tensor is known to be there in the right
 * shape: a header alone cannot make us allocate more than the file can fill. */
int mot_hf_load_tensors(const char *directory, struct mot_model *model);
int mot_gguf_load_tensors(const struct mot_gguf *gguf, const struct mot_architecture *architecture,
                          struct mot_model *model);

/* Buffers of zeros for model->layout. */
void mot_model_allocate(struct mot_model *model);
/* -EINVAL with a message when one of the n numbers is NaN or infinite. */
int mot_check_finite(const char *path, const char *name, const float *numbers, size_t n);
#endif
