/* model_layout: from a shape to the place of every tensor.  See model_layout.h. */
#include "model_layout.h"
#include "error.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT_FLOATS = 16, SIZE_MAX_OF_ANYTHING = 1 << 24, LAYERS_MAX = 4096 };
static const size_t absent = (size_t)-1;

struct role {
    const char *name; /* after "model.layers.N.", or whole outside the layers */
    int dimensions;
};
static const struct role roles[MOT_ROLES] = {
    [MOT_INPUT_NORM] = {"input_layernorm.weight", 1},
    [MOT_Q] = {"self_attn.q_proj.weight", 2},
    [MOT_K] = {"self_attn.k_proj.weight", 2},
    [MOT_V] = {"self_attn.v_proj.weight", 2},
    [MOT_Q_BIAS] = {"self_attn.q_proj.bias", 1},
    [MOT_K_BIAS] = {"self_attn.k_proj.bias", 1},
    [MOT_V_BIAS] = {"self_attn.v_proj.bias", 1},
    [MOT_Q_NORM] = {"self_attn.q_norm.weight", 1},
    [MOT_K_NORM] = {"self_attn.k_norm.weight", 1},
    [MOT_O] = {"self_attn.o_proj.weight", 2},
    [MOT_POST_NORM] = {"post_attention_layernorm.weight", 1},
    [MOT_GATE] = {"mlp.gate_proj.weight", 2},
    [MOT_UP] = {"mlp.up_proj.weight", 2},
    [MOT_DOWN] = {"mlp.down_proj.weight", 2},
    [MOT_EMBED] = {"model.embed_tokens.weight", 2},
    [MOT_FINAL_NORM] = {"model.norm.weight", 1},
    [MOT_HEAD] = {"lm_head.weight", 2},
};

/* Rows and columns of a role; 0 rows: this shape has no such tensor. */
static void role_size(const struct mot_model_shape *s, int role, int *rows, int *cols)
{
    const int q = s->n_heads * s->head_dim, kv = s->n_kv_heads * s->head_dim;
    const int C = s->hidden_size, I = s->intermediate_size, V = s->vocab_size;
    const int size[MOT_ROLES][2] = {
        [MOT_INPUT_NORM] = {1, C},
        [MOT_Q] = {q, C},
        [MOT_K] = {kv, C},
        [MOT_V] = {kv, C},
        [MOT_Q_BIAS] = {s->qkv_bias, q},
        [MOT_K_BIAS] = {s->qkv_bias, kv},
        [MOT_V_BIAS] = {s->qkv_bias, kv},
        [MOT_Q_NORM] = {s->qk_norm, s->head_dim},
        [MOT_K_NORM] = {s->qk_norm, s->head_dim},
        [MOT_O] = {C, q},
        [MOT_POST_NORM] = {1, C},
        [MOT_GATE] = {I, C},
        [MOT_UP] = {I, C},
        [MOT_DOWN] = {C, I},
        [MOT_EMBED] = {V, C},
        [MOT_FINAL_NORM] = {1, C},
        [MOT_HEAD] = {s->tied ? 0 : V, C},
    };
    *rows = size[role][0];
    *cols = size[role][1];
}

/* StarPU counts the numbers of a vector in 32 bits; padding fits in what the limit leaves. */
static int check_group_sizes(const struct mot_model_shape *s, const char *where)
{
    const size_t most = UINT32_MAX - 1024;
    size_t floats = 0;
    int rows, cols;
    for (int role = 0; role < MOT_LAYER_ROLES; role++) {
        role_size(s, role, &rows, &cols);
        floats += (size_t)rows * (size_t)cols;
    }
    role_size(s, MOT_EMBED, &rows, &cols);
    const size_t embedding = (size_t)rows * (size_t)cols;
    if (floats <= most && embedding <= most) { return 0; }
    return mot_fail(EINVAL, "%s: a layer or the embedding has %zu numbers, more than %zu", where,
                    floats > embedding ? floats : embedding, most);
}

int mot_model_shape_check(const struct mot_model_shape *s, const char *where)
{
    const struct {
        const char *name;
        int value;
    } sizes[] = {
        {"num_hidden_layers", s->n_layers},
        {"hidden_size", s->hidden_size},
        {"intermediate_size", s->intermediate_size},
        {"num_attention_heads", s->n_heads},
        {"num_key_value_heads", s->n_kv_heads},
        {"head_dim", s->head_dim},
        {"vocab_size", s->vocab_size},
        {"max_position_embeddings", s->max_position},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i].value < 1 || sizes[i].value > SIZE_MAX_OF_ANYTHING) {
            return mot_fail(EINVAL, "%s: %s is %d, not in 1..%d", where, sizes[i].name,
                            sizes[i].value, SIZE_MAX_OF_ANYTHING);
        }
    }
    if (s->n_layers > LAYERS_MAX) {
        return mot_fail(EINVAL, "%s: %d layers, more than %d", where, s->n_layers, LAYERS_MAX);
    }
    if (s->n_heads % s->n_kv_heads != 0) {
        return mot_fail(EINVAL,
                        "%s: %d attention heads are no multiple of %d key-value "
                        "heads",
                        where, s->n_heads, s->n_kv_heads);
    }
    if (s->head_dim % 2 != 0) {
        return mot_fail(EINVAL, "%s: head_dim %d is odd, rotary embedding needs pairs", where,
                        s->head_dim);
    }
    const long long widest = (long long)s->n_heads * s->head_dim;
    if (widest > SIZE_MAX_OF_ANYTHING) {
        return mot_fail(EINVAL, "%s: %d heads of %d numbers are too wide", where, s->n_heads,
                        s->head_dim);
    }
    if (!(s->norm_eps >= 0.0f && s->norm_eps < 1.0f)) {
        return mot_fail(EINVAL, "%s: rms_norm_eps %g is not in [0, 1)", where, s->norm_eps);
    }
    if (!(s->rope_theta > 0.0 && s->rope_theta < 1e15)) {
        return mot_fail(EINVAL, "%s: rope_theta %g is not positive", where, s->rope_theta);
    }
    return check_group_sizes(s, where);
}

/* Appends the tensor to the layout, behind what its group holds already; absent ones are left
 * out. */
static size_t place(struct mot_layout *l, int role, int layer, int group)
{
    int rows, cols;
    role_size(&l->shape, role, &rows, &cols);
    if (rows == 0) { return absent; }
    struct mot_tensor *t = &l->tensors[l->n_tensors++];
    *t = (struct mot_tensor){.role = role,
                             .layer = layer,
                             .group = group,
                             .rows = rows,
                             .cols = cols,
                             .dimensions = roles[role].dimensions,
                             .offset = l->group_floats[group]};
    if (layer < 0) {
        snprintf(t->name, sizeof(t->name), "%s", roles[role].name);
    } else {
        snprintf(t->name, sizeof(t->name), "model.layers.%d.%s", layer, roles[role].name);
    }
    const size_t floats = (size_t)rows * (size_t)cols;
    l->parameters += floats;
    l->group_floats[group] += floats;
    return t->offset;
}

static void pad(size_t *floats)
{
    *floats = (*floats + ALIGNMENT_FLOATS - 1) / ALIGNMENT_FLOATS * ALIGNMENT_FLOATS;
}

/* Neighbours that must form one matrix are not padded apart; every other tensor starts aligned. */
static int continues_matrix(int role)
{
    return role == MOT_K || role == MOT_V || role == MOT_K_BIAS || role == MOT_V_BIAS
           || role == MOT_UP;
}

int mot_layout_create(struct mot_layout *layout, const struct mot_model_shape *shape)
{
    const int error = mot_model_shape_check(shape, "model shape");
    if (error) { return error; }
    struct mot_layout l = {.shape = *shape, .n_groups = shape->n_layers + 2};
    l.group_floats = mot_alloc_zeroed((size_t)l.n_groups, sizeof(size_t));
    l.tensors =
        mot_alloc_zeroed((size_t)shape->n_layers * MOT_LAYER_ROLES + 3, sizeof(struct mot_tensor));
    place(&l, MOT_EMBED, -1, 0);
    pad(&l.group_floats[0]);
    for (int layer = 0; layer < shape->n_layers; layer++) {
        for (int role = 0; role < MOT_LAYER_ROLES; role++) {
            if (!continues_matrix(role)) { pad(&l.group_floats[layer + 1]); }
            l.layer_offset[role] = place(&l, role, layer, layer + 1);
        }
        pad(&l.group_floats[layer + 1]);
    }
    l.final_norm_offset = place(&l, MOT_FINAL_NORM, -1, l.n_groups - 1);
    pad(&l.group_floats[l.n_groups - 1]);
    l.head_offset = place(&l, MOT_HEAD, -1, l.n_groups - 1);
    pad(&l.group_floats[l.n_groups - 1]);
    *layout = l;
    return 0;
}

void mot_layout_destroy(struct mot_layout *layout)
{
    free(layout->group_floats);
    free(layout->tensors);
    memset(layout, 0, sizeof(*layout));
}

const struct mot_tensor *mot_layout_find(const struct mot_layout *layout, const char *name)
{
    for (int i = 0; i < layout->n_tensors; i++) {
        if (strcmp(layout->tensors[i].name, name) == 0) { return &layout->tensors[i]; }
    }
    return NULL;
}

size_t mot_layout_total_floats(const struct mot_layout *layout)
{
    size_t floats = 0;
    for (int g = 0; g < layout->n_groups; g++) { floats += layout->group_floats[g]; }
    return floats;
}

double mot_layer_flop_per_token(const struct mot_model_shape *s, double keys)
{
    const double C = s->hidden_size, q = (double)s->n_heads * s->head_dim;
    const double kv = (double)s->n_kv_heads * s->head_dim;
    const double products = C * (q + 2 * kv) + q * C + 3.0 * C * s->intermediate_size;
    return 2.0 * s->n_layers * (products + 2.0 * q * keys);
}

double mot_head_flop_per_token(const struct mot_model_shape *s)
{
    return 2.0 * s->hidden_size * (double)s->vocab_size;
}
