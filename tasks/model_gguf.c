/* A GGUF file as a model: hyperparameters from the metadata, ggml's tensor names, and the rows of q
 * and k put back into HF's order.  See model.h; source of the names: llama.cpp's gguf-py constants
 * and convert_hf_to_gguf.py. */
#include "error.h"
#include "model_read.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_names[MOT_ROLES] = {
    [MOT_INPUT_NORM] = "attn_norm.weight",
    [MOT_Q] = "attn_q.weight",
    [MOT_K] = "attn_k.weight",
    [MOT_V] = "attn_v.weight",
    [MOT_Q_BIAS] = "attn_q.bias",
    [MOT_K_BIAS] = "attn_k.bias",
    [MOT_V_BIAS] = "attn_v.bias",
    [MOT_Q_NORM] = "attn_q_norm.weight",
    [MOT_K_NORM] = "attn_k_norm.weight",
    [MOT_O] = "attn_output.weight",
    [MOT_POST_NORM] = "ffn_norm.weight",
    [MOT_GATE] = "ffn_gate.weight",
    [MOT_UP] = "ffn_up.weight",
    [MOT_DOWN] = "ffn_down.weight",
    [MOT_EMBED] = "token_embd.weight",
    [MOT_FINAL_NORM] = "output_norm.weight",
    [MOT_HEAD] = "output.weight",
};

/* Metadata being read; the first failing getter sets status, later ones do nothing. */
struct reader {
    const struct mot_gguf *gguf;
    const char *prefix; /* "llama": put before keys that begin with a dot */
    int status;
};

static void full_key(const struct reader *r, const char *key, char full[128])
{
    snprintf(full, 128, "%s%s", key[0] == '.' ? r->prefix : "", key);
}

/* The integer, at least `least`; fallback when the key is absent, an error when fallback is < 0. */
static int get_int(struct reader *r, const char *key, int least, int fallback)
{
    char full[128];
    int64_t value = fallback;
    full_key(r, key, full);
    if (r->status != 0) { return fallback; }
    const int found = mot_gguf_int(r->gguf, full, &value);
    if (found < 0) {
        r->status = found;
    } else if (!found && fallback < 0) {
        r->status = mot_fail(EINVAL, "%s: metadata %s is missing", mot_gguf_path(r->gguf), full);
    } else if (found && (value < least || value > INT_MAX)) {
        r->status = mot_fail(EINVAL, "%s: metadata %s is %lld, not in %d..%d",
                             mot_gguf_path(r->gguf), full, (long long)value, least, INT_MAX);
    }
    return r->status == 0 ? (int)value : fallback;
}

static double get_float(struct reader *r, const char *key, double fallback)
{
    char full[128];
    double value = fallback;
    full_key(r, key, full);
    if (r->status == 0) {
        const int found = mot_gguf_float(r->gguf, full, &value);
        r->status = found < 0 ? found : 0;
    }
    return value;
}

static void refuse(struct reader *r, const char *key, const char *why)
{
    char full[128];
    full_key(r, key, full);
    if (r->status == 0) {
        r->status = mot_fail(ENOTSUP, "%s: %s: %s", mot_gguf_path(r->gguf), full, why);
    }
}

static const struct mot_architecture *get_architecture(struct reader *r)
{
    struct mot_gguf_text text = {"", 0};
    char name[64];
    const int found = mot_gguf_string(r->gguf, "general.architecture", &text);
    if (found < 0) {
        r->status = found;
        return NULL;
    }
    snprintf(name, sizeof(name), "%.*s", (int)(text.n < 60 ? text.n : 60), text.bytes);
    const struct mot_architecture *architecture = mot_architecture_find(NULL, NULL, name);
    if (!architecture) {
        r->status = mot_fail(ENOTSUP, "%s: architecture \"%s\" is not implemented, only %s",
                             mot_gguf_path(r->gguf), name, mot_architecture_list());
    }
    return architecture;
}

/* Scaled or partial rotations, windows and experts change the mathematics. */
static void refuse_unimplemented(struct reader *r, int head_dim)
{
    char key[128];
    struct mot_gguf_text scaling = {"none", 4};
    full_key(r, ".rope.scaling.type", key);
    const int found = r->status == 0 ? mot_gguf_string(r->gguf, key, &scaling) : 0;
    if (found < 0) { r->status = found; }
    if ((scaling.n != 4 || memcmp(scaling.bytes, "none", 4) != 0)
        || get_float(r, ".rope.scaling.factor", 1.0) != 1.0
        || mot_gguf_find(r->gguf, "rope_freqs.weight")) {
        refuse(r, ".rope.scaling.type", "scaled rotary embeddings are not implemented");
    }
    if (get_int(r, ".rope.dimension_count", 1, head_dim) != head_dim) {
        refuse(r, ".rope.dimension_count", "partial rotary embeddings are not implemented");
    }
    if (get_int(r, ".attention.value_length", 1, head_dim) != head_dim) {
        refuse(r, ".attention.value_length", "differs from key_length, which is not implemented");
    }
    if (get_int(r, ".attention.sliding_window", 0, 0) != 0) {
        refuse(r, ".attention.sliding_window", "sliding windows are not implemented");
    }
    if (get_int(r, ".expert_count", 0, 0) != 0) {
        refuse(r, ".expert_count", "mixtures of experts are not implemented");
    }
}

static void get_shape(struct reader *r, struct mot_model_shape *shape)
{
    const struct mot_gguf_tensor *embedding = mot_gguf_find(r->gguf, role_names[MOT_EMBED]);
    if (!embedding || embedding->n_dimensions != 2 || embedding->size[1] > INT_MAX) {
        r->status = mot_fail(EINVAL, "%s: tensor %s is missing or no matrix",
                             mot_gguf_path(r->gguf), role_names[MOT_EMBED]);
        return;
    }
    shape->vocab_size = (int)embedding->size[1];
    shape->n_layers = get_int(r, ".block_count", 1, -1);
    shape->hidden_size = get_int(r, ".embedding_length", 1, -1);
    shape->intermediate_size = get_int(r, ".feed_forward_length", 1, -1);
    shape->n_heads = get_int(r, ".attention.head_count", 1, -1);
    shape->max_position = get_int(r, ".context_length", 1, -1);
    shape->norm_eps = (float)get_float(r, ".attention.layer_norm_rms_epsilon", 1e-6);
    shape->rope_theta = get_float(r, ".rope.freq_base", 10000.0);
    shape->tied = mot_gguf_find(r->gguf, role_names[MOT_HEAD]) == NULL;
    if (r->status != 0) { return; }
    shape->n_kv_heads = get_int(r, ".attention.head_count_kv", 1, shape->n_heads);
    const int even = shape->hidden_size % shape->n_heads == 0;
    shape->head_dim =
        get_int(r, ".attention.key_length", 1, even ? shape->hidden_size / shape->n_heads : -1);
    refuse_unimplemented(r, shape->head_dim);
}

int mot_gguf_read_info(const struct mot_gguf *gguf, struct mot_model_info *info)
{
    struct reader r = {.gguf = gguf};
    struct mot_model_info read = {.bos_id = -1, .eos_id = -1, .pad_id = -1};
    const struct mot_architecture *architecture = get_architecture(&r);
    if (!architecture) { return r.status; }
    r.prefix = architecture->gguf;
    strcpy(read.architecture, architecture->hf_class);
    read.shape.qkv_bias = architecture->qkv_bias;
    read.shape.qk_norm = architecture->qk_norm;
    get_shape(&r, &read.shape);

    static const char *const ends[] = {"tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id"};
    for (int i = 0; i < 2 && r.status == 0; i++) {
        int64_t id;
        const int found = mot_gguf_int(gguf, ends[i], &id);
        if (found < 0) { r.status = found; }
        if (found > 0) { r.status = mot_info_add_eos(&read, mot_gguf_path(gguf), id); }
    }
    /* INT_MAX: absent; a real id is inside the vocabulary, which is checked below. */
    const int bos = get_int(&r, "tokenizer.ggml.bos_token_id", 0, INT_MAX);
    const int pad = get_int(&r, "tokenizer.ggml.padding_token_id", 0, INT_MAX);
    read.bos_id = bos == INT_MAX ? -1 : bos;
    read.pad_id = pad == INT_MAX ? -1 : pad;
    if (r.status == 0) { r.status = mot_info_check(&read, mot_gguf_path(gguf)); }
    if (r.status == 0) { *info = read; }
    return r.status;
}

/* ---- Tensors ------------------------------------------------------------------------------- */

static int check_tensor(const char *path, const struct mot_tensor *want,
                        const struct mot_gguf_tensor *found)
{
    const size_t rows = want->dimensions == 1 ? 1 : (size_t)want->rows;
    if (found->size[0] != (size_t)want->cols || found->size[1] != rows || found->size[2] != 1
        || found->size[3] != 1) {
        return mot_fail(EINVAL,
                        "%s: tensor %s has %zu rows of %zu numbers, the metadata make it %zu of %d",
                        path, found->name, found->size[1], found->size[0], rows, want->cols);
    }
    if (!found->type) {
        return mot_fail(ENOTSUP, "%s: tensor %s has type %s (%u), which is not read", path,
                        found->name, mot_gguf_type_name(found->type_id), found->type_id);
    }
    return 0;
}

/* Every tensor of the layout is there, in shape, and nothing else is. */
static int match_tensors(const struct mot_gguf *gguf, const struct mot_layout *layout,
                         const struct mot_gguf_tensor **found)
{
    const char *path = mot_gguf_path(gguf);
    const size_t n = mot_gguf_n_tensors(gguf);
    unsigned char *used = mot_alloc_zeroed(n + 1, 1);
    int status = 0;
    for (int t = 0; t < layout->n_tensors && status == 0; t++) {
        const struct mot_tensor *want = &layout->tensors[t];
        char name[96];
        if (want->layer < 0) {
            snprintf(name, sizeof(name), "%s", role_names[want->role]);
        } else {
            snprintf(name, sizeof(name), "blk.%d.%s", want->layer, role_names[want->role]);
        }
        found[t] = mot_gguf_find(gguf, name);
        if (!found[t]) {
            status = mot_fail(EINVAL, "%s: tensor %s is missing", path, name);
        } else {
            used[found[t] - mot_gguf_tensor(gguf, 0)] = 1;
            status = check_tensor(path, want, found[t]);
        }
    }
    for (size_t i = 0; i < n && status == 0; i++) {
        if (!used[i]) {
            status = mot_fail(EINVAL, "%s: tensor %s has no place in this architecture", path,
                              mot_gguf_tensor(gguf, i)->name);
        }
    }
    free(used);
    return status;
}

/* Rows of q and k: ggml's rotation turns neighbours (2 j, 2 j + 1) of a head, HF's the pairs
 * (j, j + D/2); so row s D/2 + j of HF is row 2 j + s of the file. */
static int read_interleaved(const struct mot_gguf *gguf, const struct mot_gguf_tensor *tensor,
                            int rows, int head_dim, float *to)
{
    const int half = head_dim / 2;
    for (int row = 0; row < rows; row++) {
        const int in_head = row % head_dim;
        const int from = row - in_head + 2 * (in_head % half) + in_head / half;
        const int status =
            mot_gguf_read_rows(gguf, tensor, (size_t)from, 1, to + (size_t)row * tensor->size[0]);
        if (status != 0) { return status; }
    }
    return 0;
}

int mot_gguf_load_tensors(const struct mot_gguf *gguf, const struct mot_architecture *architecture,
                          struct mot_model *model)
{
    const struct mot_layout *layout = &model->layout;
    const struct mot_gguf_tensor **found =
        mot_alloc_zeroed((size_t)layout->n_tensors, sizeof(*found));
    int status = match_tensors(gguf, layout, found);
    if (status == 0) { mot_model_allocate(model); }
    for (int t = 0; t < layout->n_tensors && status == 0; t++) {
        const struct mot_tensor *tensor = &layout->tensors[t];
        float *to = model->groups[tensor->group] + tensor->offset;
        if (architecture->gguf_permuted && (tensor->role == MOT_Q || tensor->role == MOT_K)) {
            status = read_interleaved(gguf, found[t], tensor->rows, layout->shape.head_dim, to);
        } else {
            status = mot_gguf_read_rows(gguf, found[t], 0, (size_t)tensor->rows, to);
        }
        if (status == 0) {
            status = mot_check_finite(mot_gguf_path(gguf), found[t]->name, to, found[t]->numbers);
        }
    }
    free(found);
    return status;
}
