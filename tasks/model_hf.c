/* A HF directory: config.json and generation_config.json of transformers 4 and 5, and the tensors.
 * See model.h.  What would change the mathematics and is not implemented (scaled rotations, sliding
 * windows, other activations, quantised weights) is an error, never ignored. */
#include "error.h"
#include "json.h"
#include "model_read.h"
#include "safetensors.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CONFIG = 16 << 20 };

/* A configuration file being read; the first failing getter sets status, later ones do nothing. */
struct config {
    const char *path;
    const json_t *root;
    int status;
};

/* The integer of that key; fallback when it is absent or null, an error when fallback is 0. */
static int get_int(struct config *c, const char *key, int fallback)
{
    int64_t value = fallback;
    if (c->status == 0 && (fallback == 0 || mot_json_has(c->root, key))) {
        c->status = mot_json_get_int(c->root, c->path, key, 1, INT_MAX, &value);
    }
    return (int)value;
}

static double get_number(struct config *c, const json_t *object, const char *key, double fallback)
{
    double value = fallback;
    if (c->status == 0 && mot_json_has(object, key)) {
        c->status = mot_json_get_number(object, c->path, key, 0.0, 1e15, &value);
    }
    return value;
}

static int get_bool(struct config *c, const char *key)
{
    int value = 0;
    if (c->status == 0 && mot_json_has(c->root, key)) {
        c->status = mot_json_get_bool(c->root, c->path, key, &value);
    }
    return value;
}

/* The string, or fallback when the key is absent or null. */
static const char *get_string(struct config *c, const json_t *object, const char *key,
                              const char *fallback)
{
    const char *value = fallback;
    if (c->status == 0 && mot_json_has(object, key)) {
        c->status = mot_json_get_string(object, c->path, key, &value);
    }
    return value;
}

/* A token id: -1 when absent, null or negative. */
static int32_t get_id(struct config *c, const char *key, int32_t fallback)
{
    int64_t value = fallback;
    if (c->status == 0 && mot_json_has(c->root, key)) {
        c->status = mot_json_get_int(c->root, c->path, key, INT32_MIN, INT32_MAX, &value);
    }
    return value < 0 ? -1 : (int32_t)value;
}

static void refuse(struct config *c, const char *key, const char *why)
{
    if (c->status == 0) { c->status = mot_fail(ENOTSUP, "%s: \"%s\": %s", c->path, key, why); }
}

/* eos_token_id is null, an id, or a list of ids. */
static void add_eos(struct config *c, struct mot_model_info *info)
{
    const json_t *value = json_object_get(c->root, "eos_token_id");
    if (c->status != 0 || !value || json_is_null(value)) { return; }
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < n && c->status == 0; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(id)) {
            refuse(c, "eos_token_id", "is no token id and no list of token ids");
        } else if (json_integer_value(id) >= 0 || json_is_array(value)) {
            c->status = mot_info_add_eos(info, c->path, json_integer_value(id));
        }
    }
}

static const struct mot_architecture *get_architecture(struct config *c)
{
    const char *name = NULL;
    const json_t *classes = json_object_get(c->root, "architectures");
    if (json_is_array(classes) && json_array_size(classes) > 0) {
        name = json_string_value(json_array_get(classes, 0));
    }
    const char *model_type = get_string(c, c->root, "model_type", NULL);
    const struct mot_architecture *found = name ? mot_architecture_find(name, NULL, NULL)
                                                : mot_architecture_find(NULL, model_type, NULL);
    if (!found && c->status == 0) {
        c->status = mot_fail(ENOTSUP, "%s: architecture %s is not implemented, only %s", c->path,
                             name         ? name
                             : model_type ? model_type
                                          : "(none named)",
                             mot_architecture_list());
    }
    return found;
}

/* rope_parameters (transformers 5), or flat rope_theta and rope_scaling (transformers 4). */
static double get_rope_theta(struct config *c)
{
    static const char *const keys[] = {"rope_parameters", "rope_scaling"};
    double theta = get_number(c, c->root, "rope_theta", 10000.0);
    for (int i = 0; i < 2; i++) {
        const json_t *rope = json_object_get(c->root, keys[i]);
        if (!rope || json_is_null(rope)) { continue; }
        if (!json_is_object(rope)) { refuse(c, keys[i], "is not an object"); }
        theta = get_number(c, rope, "rope_theta", theta);
        const char *type = get_string(c, rope, "type", "default");
        type = get_string(c, rope, "rope_type", type);
        if (strcmp(type, "default") != 0 && strcmp(type, "none") != 0) {
            refuse(c, keys[i], "scaled rotary embeddings are not implemented");
        }
        if (get_number(c, rope, "partial_rotary_factor", 1.0) != 1.0) {
            refuse(c, keys[i], "partial rotary embeddings are not implemented");
        }
    }
    if (get_number(c, c->root, "partial_rotary_factor", 1.0) != 1.0) {
        refuse(c, "partial_rotary_factor", "partial rotary embeddings are not implemented");
    }
    return theta;
}

static void refuse_unimplemented(struct config *c, const struct mot_architecture *architecture)
{
    if (strcmp(get_string(c, c->root, "hidden_act", "silu"), "silu") != 0) {
        refuse(c, "hidden_act", "only silu is implemented");
    }
    if (get_bool(c, "attention_bias") && !architecture->qkv_bias) {
        refuse(c, "attention_bias", "biases are not implemented for this architecture");
    }
    if (get_bool(c, "mlp_bias")) { refuse(c, "mlp_bias", "is not implemented"); }
    if (get_bool(c, "use_sliding_window")) {
        refuse(c, "use_sliding_window", "sliding windows are not implemented");
    }
    if (mot_json_has(c->root, "quantization_config")) {
        refuse(c, "quantization_config", "quantised weights are not read");
    }
    const json_t *types = json_object_get(c->root, "layer_types");
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type || strcmp(type, "full_attention") != 0) {
            refuse(c, "layer_types", "only full_attention is implemented");
        }
    }
}

static void get_shape(struct config *c, const struct mot_architecture *architecture,
                      struct mot_model_shape *shape)
{
    shape->n_layers = get_int(c, "num_hidden_layers", 0);
    shape->hidden_size = get_int(c, "hidden_size", 0);
    shape->intermediate_size = get_int(c, "intermediate_size", 0);
    shape->n_heads = get_int(c, "num_attention_heads", 0);
    shape->vocab_size = get_int(c, "vocab_size", 0);
    shape->max_position = get_int(c, "max_position_embeddings", 0);
    shape->norm_eps = (float)get_number(c, c->root, "rms_norm_eps", 1e-6);
    shape->rope_theta = get_rope_theta(c);
    shape->tied = get_bool(c, "tie_word_embeddings");
    shape->qkv_bias = architecture->qkv_bias;
    shape->qk_norm = architecture->qk_norm;
    if (c->status != 0) { return; }
    shape->n_kv_heads = get_int(c, "num_key_value_heads", shape->n_heads);
    int head_dim = architecture->default_head_dim;
    if (head_dim == 0 && !mot_json_has(c->root, "head_dim")) {
        if (shape->hidden_size % shape->n_heads != 0) {
            refuse(c, "hidden_size", "is no multiple of num_attention_heads");
        }
        head_dim = shape->hidden_size / shape->n_heads;
    }
    shape->head_dim = head_dim > 0 || c->status != 0 ? get_int(c, "head_dim", head_dim)
                                                     : get_int(c, "head_dim", 0);
}

static int read_generation_config(const char *directory, struct mot_model_info *info)
{
    char *path = mot_format("%s/generation_config.json", directory);
    struct config c = {.path = path};
    if (access(path, F_OK) == 0) {
        json_t *root = NULL;
        c.status = mot_json_load(path, MAX_CONFIG, &root);
        c.root = root;
        info->bos_id = get_id(&c, "bos_token_id", info->bos_id);
        info->pad_id = get_id(&c, "pad_token_id", info->pad_id);
        add_eos(&c, info);
        json_decref(root);
    }
    free(path);
    return c.status;
}

int mot_hf_read_info(const char *directory, struct mot_model_info *info)
{
    char *path = mot_format("%s/config.json", directory);
    json_t *root = NULL;
    struct config c = {.path = path};
    struct mot_model_info read = {.bos_id = -1, .eos_id = -1, .pad_id = -1};
    c.status = mot_json_load(path, MAX_CONFIG, &root);
    c.root = root;
    if (c.status == 0 && !json_is_object(root)) {
        c.status = mot_fail(EINVAL, "%s: is not a JSON object", path);
    }
    const struct mot_architecture *architecture = c.status == 0 ? get_architecture(&c) : NULL;
    if (architecture && c.status == 0) {
        strcpy(read.architecture, architecture->hf_class);
        get_shape(&c, architecture, &read.shape);
        refuse_unimplemented(&c, architecture);
        read.bos_id = get_id(&c, "bos_token_id", -1);
        read.pad_id = get_id(&c, "pad_token_id", -1);
    }
    /* generation_config.json says more about where answers end, so its ids come first. */
    if (c.status == 0) { c.status = read_generation_config(directory, &read); }
    if (c.status == 0) { add_eos(&c, &read); }
    if (c.status == 0) { c.status = mot_info_check(&read, path); }
    if (c.status == 0) { *info = read; }
    json_decref(root);
    free(path);
    return c.status;
}

/* ---- Tensors ------------------------------------------------------------------------------- */

static int check_tensor(const struct mot_tensor *want, const struct mot_safetensor *found)
{
    const size_t rows = (size_t)want->rows, cols = (size_t)want->cols;
    const int right = found->n_dimensions == want->dimensions
                      && (want->dimensions == 1 ? found->size[0] == cols
                                                : found->size[0] == rows && found->size[1] == cols);
    if (!right) {
        return mot_fail(EINVAL,
                        "%s: tensor %s has %d dimensions (%zu, %zu), config.json makes it (%s%zu)",
                        found->path, found->name, found->n_dimensions, found->size[0],
                        found->size[1], want->dimensions == 1 ? "" : "rows x ", cols);
    }
    if (!found->readable) {
        return mot_fail(ENOTSUP, "%s: tensor %s has dtype %s, which is not read (F32, F16, BF16)",
                        found->path, found->name, found->file_dtype);
    }
    return 0;
}

/* Extra tensors that change nothing: constants of old versions, the head when it is tied. */
static int is_harmless(const struct mot_layout *layout, const char *name)
{
    const size_t length = strlen(name);
    static const char inv_freq[] = "rotary_emb.inv_freq";
    const size_t tail = sizeof(inv_freq) - 1;
    if (length >= tail && strcmp(name + length - tail, inv_freq) == 0) { return 1; }
    return layout->shape.tied && strcmp(name, "lm_head.weight") == 0;
}

/* Every tensor of the layout is there, in shape, and nothing else is. */
static int match_tensors(const struct mot_safetensors *st, const char *directory,
                         const struct mot_layout *layout, const struct mot_safetensor **found)
{
    const size_t n = mot_safetensors_n(st);
    unsigned char *used = mot_alloc_zeroed(n + 1, 1);
    int status = 0;
    for (int t = 0; t < layout->n_tensors && status == 0; t++) {
        const struct mot_tensor *want = &layout->tensors[t];
        found[t] = mot_safetensors_find(st, want->name);
        if (!found[t]) {
            status = mot_fail(EINVAL, "%s: tensor %s is missing", directory, want->name);
        } else {
            used[found[t] - mot_safetensors_at(st, 0)] = 1;
            status = check_tensor(want, found[t]);
        }
    }
    for (size_t i = 0; i < n && status == 0; i++) {
        const struct mot_safetensor *tensor = mot_safetensors_at(st, i);
        if (!used[i] && !is_harmless(layout, tensor->name)) {
            status = mot_fail(EINVAL, "%s: tensor %s has no place in this architecture",
                              tensor->path, tensor->name);
        }
    }
    free(used);
    return status;
}

int mot_hf_load_tensors(const char *directory, struct mot_model *model)
{
    const struct mot_layout *layout = &model->layout;
    struct mot_safetensors *st;
    int status = mot_safetensors_open(directory, &st);
    if (status != 0) { return status; }
    const struct mot_safetensor **found =
        mot_alloc_zeroed((size_t)layout->n_tensors, sizeof(*found));
    status = match_tensors(st, directory, layout, found);
    if (status == 0) { mot_model_allocate(model); }
    for (int t = 0; t < layout->n_tensors && status == 0; t++) {
        float *to = model->groups[layout->tensors[t].group] + layout->tensors[t].offset;
        status = mot_safetensors_read(found[t], to);
        if (status == 0) {
            status = mot_check_finite(found[t]->path, found[t]->name, to, found[t]->numbers);
        }
    }
    free(found);
    mot_safetensors_close(st);
    return status;
}
