/* Writing a model as a HF directory that transformers 4 and 5 load.  See model.h.
 * Keys are written in a fixed order, and the weights in layout order, so equal models give equal
 * bytes. */
#include "error.h"
#include "file.h"
#include "model_read.h"
#include "safetensors.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest decimal that is this float32: "1e-05", not "9.99999975e-06". */
static double shortest(float value)
{
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) { break; }
    }
    return strtod(text, NULL);
}

static void set_id(json_t *object, const char *key, int32_t id)
{
    json_object_set_new(object, key, id < 0 ? json_null() : json_integer(id));
}

/* bos, eos (null, one id, or a list), pad. */
static void set_ids(json_t *object, const struct mot_model_info *info)
{
    set_id(object, "bos_token_id", info->bos_id);
    if (info->n_eos_ids > 1) {
        json_t *ids = json_array();
        for (int i = 0; i < info->n_eos_ids; i++) {
            json_array_append_new(ids, json_integer(info->eos_ids[i]));
        }
        json_object_set_new(object, "eos_token_id", ids);
    } else {
        set_id(object, "eos_token_id", info->eos_id);
    }
    set_id(object, "pad_token_id", info->pad_id);
}

/* Writes and frees the object. */
static int write_json(const char *directory, const char *name, json_t *object)
{
    /* 15 digits read well; where they lose a bit, 17 do not. */
    size_t precision = 15;
    const double theta = json_number_value(json_object_get(object, "rope_theta"));
    char text[40];
    snprintf(text, sizeof(text), "%.15g", theta);
    if (strtod(text, NULL) != theta) { precision = 17; }
    char *json = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(precision));
    json_decref(object);
    MOT_ASSERT(json);
    char *line = mot_format("%s\n", json);
    char *path = mot_format("%s/%s", directory, name);
    const int status = mot_file_write(path, line, strlen(line));
    free(path);
    free(line);
    free(json);
    return status;
}

static json_t *make_config(const struct mot_model_info *info,
                           const struct mot_architecture *architecture)
{
    const struct mot_model_shape *s = &info->shape;
    json_t *config = json_pack("{s:[s],s:s}", "architectures", info->architecture, "model_type",
                               architecture->model_type);
    const struct {
        const char *key;
        int value;
    } sizes[] = {
        {"vocab_size", s->vocab_size},
        {"hidden_size", s->hidden_size},
        {"intermediate_size", s->intermediate_size},
        {"num_hidden_layers", s->n_layers},
        {"num_attention_heads", s->n_heads},
        {"num_key_value_heads", s->n_kv_heads},
        {"head_dim", s->head_dim},
        {"max_position_embeddings", s->max_position},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        json_object_set_new(config, sizes[i].key, json_integer(sizes[i].value));
    }
    json_object_set_new(config, "rms_norm_eps", json_real(shortest(s->norm_eps)));
    json_object_set_new(config, "rope_theta", json_real(s->rope_theta)); /* transformers 4 */
    json_object_set_new(
        config, "rope_parameters", /* transformers 5 */
        json_pack("{s:f,s:s}", "rope_theta", s->rope_theta, "rope_type", "default"));
    json_object_set_new(config, "hidden_act", json_string("silu"));
    json_object_set_new(config, "attention_dropout", json_real(0.0));
    if (!s->qkv_bias) { json_object_set_new(config, "attention_bias", json_false()); }
    json_object_set_new(config, "tie_word_embeddings", json_boolean(s->tied));
    set_ids(config, info);
    json_object_set_new(config, "torch_dtype", json_string("float32")); /* transformers 4 */
    json_object_set_new(config, "dtype", json_string("float32"));       /* transformers 5 */
    json_object_set_new(config, "use_cache", json_true());
    return config;
}

static int save_weights(const char *directory, const struct mot_layout *layout,
                        float *const *groups)
{
    struct mot_safetensors_entry *entries =
        mot_alloc_zeroed((size_t)layout->n_tensors, sizeof(*entries));
    for (int t = 0; t < layout->n_tensors; t++) {
        const struct mot_tensor *tensor = &layout->tensors[t];
        entries[t] = (struct mot_safetensors_entry){
            .name = tensor->name, .dtype = MOT_F32, .n_dimensions = tensor->dimensions};
        entries[t].size[0] = (size_t)(tensor->dimensions == 1 ? tensor->cols : tensor->rows);
        entries[t].size[1] = (size_t)tensor->cols;
    }
    char *path = mot_format("%s/model.safetensors", directory);
    struct mot_safetensors_writer *writer;
    int status = mot_safetensors_create(path, entries, (size_t)layout->n_tensors, &writer);
    if (status == 0) {
        for (int t = 0; t < layout->n_tensors && status == 0; t++) {
            const struct mot_tensor *tensor = &layout->tensors[t];
            const size_t n = (size_t)tensor->rows * (size_t)tensor->cols;
            status = mot_safetensors_append(writer, groups[tensor->group] + tensor->offset,
                                            n * sizeof(float));
        }
        if (status == 0) {
            status = mot_safetensors_finish(writer);
        } else {
            mot_safetensors_abort(writer);
        }
    }
    free(path);
    free(entries);
    return status;
}

int mot_model_save(const char *directory, const struct mot_model_info *info,
                   const struct mot_layout *layout, float *const *groups)
{
    const struct mot_architecture *architecture =
        mot_architecture_find(info->architecture, NULL, NULL);
    MOT_ASSERT(architecture);
    int status = write_json(directory, "config.json", make_config(info, architecture));
    if (status != 0) { return status; }
    json_t *generation = json_object();
    set_ids(generation, info);
    status = write_json(directory, "generation_config.json", generation);
    if (status == 0) { status = save_weights(directory, layout, groups); }
    return status == 0 ? mot_file_sync(directory) : status;
}
