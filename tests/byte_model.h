/* A small Llama that a test writes itself: random weights, tokens are bytes, and mostly printable
 * answers that end by EOS at a chosen rate, so that text rewards differ between answers. */
#ifndef MOT_BYTE_MODEL_H
#define MOT_BYTE_MODEL_H
#include "model.h"
#include "scratch.h"
#include "tokenizer.h"

struct byte_model {
    int hidden_size, intermediate_size;
    float eos; /* how much likelier EOS is than a letter: 0: as likely, 1: some 5 times */
};

/* Letters of prompts (ASCII) and what is to be sampled share a direction of the tied embedding. */
static inline void byte_model_tilt(struct mot_model *model, int32_t eos, float eos_tilt)
{
    const int C = model->info.shape.hidden_size;
    const struct mot_tensor *embed = mot_layout_find(&model->layout, "model.embed_tokens.weight");
    float *row = model->groups[embed->group] + embed->offset;
    for (int id = 0; id < model->info.shape.vocab_size; id++, row += C) {
        const float tilt = id == eos                               ? 1.0f + eos_tilt
                           : (id >= ' ' && id < 127) || id == '\n' ? 1.0f
                                                                   : -1.0f;
        for (int i = 0; i < C; i++) { row[i] += (i % 2 ? 0.5f : -0.5f) * tilt * 3.0f / (float)C; }
    }
}

/* Writes @/name: a HF directory. */
static inline void byte_model_write(const char *name, const struct byte_model *m)
{
    struct mot_tokenizer *tokenizer = mot_tokenizer_bytes();
    struct mot_model_info info = {.architecture = "LlamaForCausalLM",
                                  .shape = {.n_layers = 2,
                                            .hidden_size = m->hidden_size,
                                            .intermediate_size = m->intermediate_size,
                                            .n_heads = 4,
                                            .n_kv_heads = 2,
                                            .head_dim = 8,
                                            .vocab_size = mot_tokenizer_vocab_size(tokenizer),
                                            .max_position = 64,
                                            .norm_eps = 1e-5f,
                                            .rope_theta = 10000.0,
                                            .tied = 1},
                                  .bos_id = mot_tokenizer_bos(tokenizer),
                                  .eos_id = mot_tokenizer_eos(tokenizer),
                                  .pad_id = mot_tokenizer_pad(tokenizer),
                                  .n_eos_ids = 1};
    info.eos_ids[0] = info.eos_id;
    struct mot_model model;
    char *path = scratch_path(name);
    MOT_ASSERT(mot_model_init(&model, &info, 7) == 0);
    byte_model_tilt(&model, info.eos_id, m->eos);
    MOT_ASSERT(mot_make_directories(path) == 0);
    MOT_ASSERT(mot_model_save(path, &info, &model.layout, model.groups) == 0);
    MOT_ASSERT(mot_tokenizer_save(tokenizer, path) == 0);
    mot_model_destroy(&model);
    mot_tokenizer_destroy(tokenizer);
    free(path);
}
#endif
