/* A model on disk: which kind it is, buffers, random weights.  See model.h; the formats are read in
 * model_hf.c and model_gguf.c and written in model_save.c. */
#include "model.h"
#include "error.h"
#include "model_read.h"
#include "rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct mot_architecture architectures[] = {
#define MOT_ARCHITECTURE(hf, type, gguf, bias, norm, dim, permuted) \
    {hf, type, gguf, bias, norm, dim, permuted},
#include "architectures_table.h"
#undef MOT_ARCHITECTURE
};
enum { N_ARCHITECTURES = sizeof(architectures) / sizeof(architectures[0]) };

static int same(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

const struct mot_architecture *mot_architecture_find(const char *hf_class, const char *model_type,
                                                     const char *gguf)
{
    for (int i = 0; i < N_ARCHITECTURES; i++) {
        const struct mot_architecture *a = &architectures[i];
        if (same(hf_class, a->hf_class) || same(model_type, a->model_type) || same(gguf, a->gguf)) {
            return a;
        }
    }
    return NULL;
}

const char *mot_architecture_list(void)
{
    return
#define MOT_ARCHITECTURE(hf, type, gguf, bias, norm, dim, permuted) hf " "
#include "architectures_table.h"
#undef MOT_ARCHITECTURE
        ;
}

int mot_info_add_eos(struct mot_model_info *info, const char *path, int64_t id)
{
    const int max = (int)(sizeof(info->eos_ids) / sizeof(info->eos_ids[0]));
    if (id < 0 || id > INT32_MAX) {
        return mot_fail(EINVAL, "%s: eos_token_id %lld is no token", path, (long long)id);
    }
    for (int i = 0; i < info->n_eos_ids; i++) {
        if (info->eos_ids[i] == id) { return 0; }
    }
    if (info->n_eos_ids == max) {
        return mot_fail(EINVAL, "%s: more than %d different eos_token_id", path, max);
    }
    info->eos_ids[info->n_eos_ids++] = (int32_t)id;
    info->eos_id = info->eos_ids[0];
    return 0;
}

int mot_info_check(const struct mot_model_info *info, const char *path)
{
    const int status = mot_model_shape_check(&info->shape, path);
    if (status) { return status; }
    int32_t highest = info->bos_id > info->pad_id ? info->bos_id : info->pad_id;
    for (int i = 0; i < info->n_eos_ids; i++) {
        if (info->eos_ids[i] > highest) { highest = info->eos_ids[i]; }
    }
    if (highest >= info->shape.vocab_size) {
        return mot_fail(EINVAL, "%s: special token id %d is outside the vocabulary of %d", path,
                        highest, info->shape.vocab_size);
    }
    return 0;
}

static int is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Opens a GGUF file; says what is expected when the path is something else. */
static int open_gguf(const char *path, struct mot_gguf **gguf)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        const int error = errno;
        return mot_fail(error, "%s: no model there: %s", path, strerror(error));
    }
    if (!mot_gguf_is(path)) {
        return mot_fail(EINVAL,
                        "%s: is neither a GGUF file nor a directory with config.json and "
                        "safetensors",
                        path);
    }
    return mot_gguf_open(path, gguf);
}

int mot_model_read_info(const char *path, struct mot_model_info *info)
{
    struct mot_model_info read;
    struct mot_gguf *gguf;
    int result;
    if (is_directory(path)) {
        result = mot_hf_read_info(path, &read);
    } else {
        result = open_gguf(path, &gguf);
        if (result != 0) { return result; }
        result = mot_gguf_read_info(gguf, &read);
        mot_gguf_close(gguf);
    }
    if (result == 0) { *info = read; }
    return result;
}

static int load_gguf(const char *path, struct mot_model *model)
{
    struct mot_gguf *gguf;
    int result = open_gguf(path, &gguf);
    if (result != 0) { return result; }
    result = mot_gguf_read_info(gguf, &model->info);
    if (result == 0) { result = mot_layout_create(&model->layout, &model->info.shape); }
    if (result == 0) {
        const struct mot_architecture *architecture =
            mot_architecture_find(model->info.architecture, NULL, NULL);
        result = mot_gguf_load_tensors(gguf, architecture, model);
    }
    mot_gguf_close(gguf);
    return result;
}

static int load_hf(const char *path, struct mot_model *model)
{
    int result = mot_hf_read_info(path, &model->info);
    if (result == 0) { result = mot_layout_create(&model->layout, &model->info.shape); }
    if (result == 0) { result = mot_hf_load_tensors(path, model); }
    return result;
}

int mot_model_load(const char *path, struct mot_model *model)
{
    struct mot_model loaded = {.path = mot_strdup(path)};
    const int result = is_directory(path) ? load_hf(path, &loaded) : load_gguf(path, &loaded);
    if (result != 0) {
        mot_model_destroy(&loaded);
        return result;
    }
    *model = loaded;
    return 0;
}

void mot_model_allocate(struct mot_model *model)
{
    const struct mot_layout *layout = &model->layout;
    model->groups = mot_alloc_zeroed((size_t)layout->n_groups, sizeof(*model->groups));
    for (int g = 0; g < layout->n_groups; g++) {
        const size_t bytes = layout->group_floats[g] * sizeof(float);
        model->groups[g] = mot_alloc_aligned(bytes);
        memset(model->groups[g], 0, bytes);
    }
}

void mot_model_destroy(struct mot_model *model)
{
    for (int g = 0; model->groups && g < model->layout.n_groups; g++) { free(model->groups[g]); }
    free(model->groups);
    free(model->path);
    mot_layout_destroy(&model->layout);
    memset(model, 0, sizeof(*model));
}

int mot_check_finite(const char *path, const char *name, const float *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(numbers[i])) {
            return mot_fail(EINVAL, "%s: tensor %s holds %g at place %zu", path, name,
                            (double)numbers[i], i);
        }
    }
    return 0;
}

static int is_norm(enum mot_tensor_role role)
{
    return role == MOT_INPUT_NORM || role == MOT_POST_NORM || role == MOT_FINAL_NORM
           || role == MOT_Q_NORM || role == MOT_K_NORM;
}

int mot_model_init(struct mot_model *model, const struct mot_model_info *info, uint64_t seed)
{
    struct mot_model made = {.info = *info};
    const int status = mot_layout_create(&made.layout, &info->shape);
    if (status) { return status; }
    mot_model_allocate(&made);
    for (int t = 0; t < made.layout.n_tensors; t++) {
        const struct mot_tensor *tensor = &made.layout.tensors[t];
        float *at = made.groups[tensor->group] + tensor->offset;
        const size_t n = (size_t)tensor->rows * (size_t)tensor->cols;
        for (size_t i = 0; i < n; i++) {
            if (is_norm(tensor->role)) {
                at[i] = 1.0f;
            } else if (tensor->dimensions == 2) { /* keyed by tensor, then by place in it */
                at[i] =
                    0.02f
                    * mot_normal(seed, MOT_RNG_INIT, (uint32_t)t, (uint32_t)(i >> 32), (uint32_t)i);
            }
        }
    }
    made.path = mot_strdup("(random weights)");
    *model = made;
    return 0;
}
