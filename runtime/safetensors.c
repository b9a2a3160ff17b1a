/* Safetensors, reading: header checks, shards of a directory, conversion.  See safetensors.h. */
#include "safetensors.h"
#include "error.h"
#include "json.h"
#include "mapped_file.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HEADER = 100000000, MAX_INDEX = 100000000, MAX_SHARDS = 10000 };

/* Number formats of the files; those without a dtype are known by size only. */
static const struct {
    const char *name;
    size_t bytes;
    int readable;
    enum mot_dtype dtype;
} formats[] = {
    {"F32", 4, 1, MOT_F32}, {"F16", 2, 1, MOT_F16}, {"BF16", 2, 1, MOT_BF16}, {"F64", 8, 0, 0},
    {"I64", 8, 0, 0},       {"U64", 8, 0, 0},       {"I32", 4, 0, 0},         {"U32", 4, 0, 0},
    {"I16", 2, 0, 0},       {"U16", 2, 0, 0},       {"I8", 1, 0, 0},          {"U8", 1, 0, 0},
    {"BOOL", 1, 0, 0},      {"F8_E4M3", 1, 0, 0},   {"F8_E5M2", 1, 0, 0},
};

struct mot_safetensors {
    size_t n_files;
    struct mot_mapped_file *files; /* (n_files), allocated for all before the first is opened */
    size_t n;
    struct mot_safetensor *tensors; /* (n) names ascending once opened */
};

/* Where a header's numbers are checked against. */
struct header {
    const char *path;
    const unsigned char *data; /* first byte behind the header */
    size_t data_bytes;
};

/* A non-negative JSON integer. */
static int get_size(const json_t *value, size_t *size)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) { return 0; }
    *size = (size_t)json_integer_value(value);
    return 1;
}

static int take_format(const struct header *h, struct mot_safetensor *tensor, const json_t *dtype,
                       size_t *number_bytes)
{
    if (!json_is_string(dtype)) {
        return mot_fail(EBADMSG, "%s: tensor %s has no dtype", h->path, tensor->name);
    }
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (strcmp(formats[i].name, json_string_value(dtype)) == 0) {
            tensor->file_dtype = formats[i].name;
            tensor->readable = formats[i].readable;
            tensor->dtype = formats[i].dtype;
            *number_bytes = formats[i].bytes;
            return 0;
        }
    }
    return mot_fail(EBADMSG, "%s: tensor %s has unknown dtype \"%s\"", h->path, tensor->name,
                    json_string_value(dtype));
}

static int take_shape(const struct header *h, struct mot_safetensor *tensor, const json_t *shape)
{
    if (!json_is_array(shape) || json_array_size(shape) > MOT_SAFETENSORS_DIMENSIONS) {
        return mot_fail(EBADMSG, "%s: tensor %s has no shape of at most %d dimensions", h->path,
                        tensor->name, (int)MOT_SAFETENSORS_DIMENSIONS);
    }
    tensor->n_dimensions = (int)json_array_size(shape);
    tensor->numbers = 1;
    for (int d = 0; d < tensor->n_dimensions; d++) {
        if (!get_size(json_array_get(shape, (size_t)d), &tensor->size[d])
            || __builtin_mul_overflow(tensor->numbers, tensor->size[d], &tensor->numbers)) {
            return mot_fail(EBADMSG, "%s: tensor %s has a bad or overflowing shape", h->path,
                            tensor->name);
        }
    }
    return 0;
}

/* One entry of the header; the name is owned by the tensor from here on. */
static int take_tensor(const struct header *h, const char *name, const json_t *entry,
                       struct mot_safetensor *tensor)
{
    tensor->name = mot_strdup(name);
    tensor->path = h->path;
    if (!json_is_object(entry)) {
        return mot_fail(EBADMSG, "%s: header entry %s is not an object", h->path, name);
    }
    size_t number_bytes = 0, begin = 0, end = 0;
    int result = take_format(h, tensor, json_object_get(entry, "dtype"), &number_bytes);
    if (result == 0) { result = take_shape(h, tensor, json_object_get(entry, "shape")); }
    if (result != 0) { return result; }
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2
        || !get_size(json_array_get(offsets, 0), &begin)
        || !get_size(json_array_get(offsets, 1), &end) || begin > end) {
        return mot_fail(EBADMSG, "%s: tensor %s has no ascending pair of data_offsets", h->path,
                        name);
    }
    if (end > h->data_bytes) {
        return mot_fail(EBADMSG,
                        "%s: tensor %s ends at byte %zu of %zu of data: truncated or damaged",
                        h->path, name, end, h->data_bytes);
    }
    if (__builtin_mul_overflow(tensor->numbers, number_bytes, &tensor->bytes)
        || tensor->bytes != end - begin) {
        return mot_fail(EBADMSG, "%s: tensor %s has %zu bytes, its shape and dtype %s differ",
                        h->path, name, end - begin, tensor->file_dtype);
    }
    tensor->data = h->data + begin;
    return 0;
}

static int check_metadata(const char *path, const json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) {
        return mot_fail(EBADMSG, "%s: __metadata__ is not an object", path);
    }
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        if (!json_is_string(value)) {
            return mot_fail(EBADMSG, "%s: __metadata__ %s is not a string", path, key);
        }
    }
    return 0;
}

static int compare_places(const void *a, const void *b)
{
    const struct mot_safetensor *x = a, *y = b;
    if (x->data != y->data) { return x->data < y->data ? -1 : 1; }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int compare_names(const void *a, const void *b)
{
    const struct mot_safetensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* The tensors must cover the data from first to last byte, each byte once. */
static int check_cover(const struct header *h, struct mot_safetensor *tensors, size_t n)
{
    if (n > 0) { qsort(tensors, n, sizeof(*tensors), compare_places); }
    const unsigned char *at = h->data;
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].data < at) {
            return mot_fail(EBADMSG, "%s: tensors %s and %s overlap", h->path, tensors[i - 1].name,
                            tensors[i].name);
        }
        if (tensors[i].data > at) {
            return mot_fail(EBADMSG, "%s: %zu bytes before tensor %s belong to no tensor", h->path,
                            (size_t)(tensors[i].data - at), tensors[i].name);
        }
        at += tensors[i].bytes;
    }
    const size_t rest = h->data_bytes - (size_t)(at - h->data);
    if (rest > 0) {
        return mot_fail(EBADMSG, "%s: the last %zu bytes belong to no tensor", h->path, rest);
    }
    return 0;
}

/* Appends the tensors of one header to st. */
static int take_header(struct mot_safetensors *st, const struct header *h, json_t *root)
{
    const char *name;
    json_t *entry;
    const size_t first = st->n;
    st->tensors =
        mot_realloc(st->tensors, (first + json_object_size(root) + 1) * sizeof(*st->tensors));
    json_object_foreach(root, name, entry)
    {
        int result;
        if (strcmp(name, "__metadata__") == 0) {
            result = check_metadata(h->path, entry);
        } else {
            struct mot_safetensor *tensor = &st->tensors[st->n++];
            memset(tensor, 0, sizeof(*tensor));
            result = take_tensor(h, name, entry, tensor);
        }
        if (result != 0) { return result; }
    }
    return check_cover(h, st->tensors + first, st->n - first);
}

/* Maps one file and appends its tensors. */
static int open_file(struct mot_safetensors *st, const char *path)
{
    struct mot_mapped_file *file = &st->files[st->n_files];
    int result = mot_mapped_file_open(file, path);
    if (result != 0) { return result; }
    st->n_files++;
    uint64_t length = 0;
    if (file->n < sizeof(length)) {
        return mot_fail(EBADMSG, "%s: %zu bytes are too few for a safetensors file", path, file->n);
    }
    memcpy(&length, file->bytes, sizeof(length));
    if (length > file->n - sizeof(length) || length > MAX_HEADER) {
        return mot_fail(EBADMSG,
                        "%s: header of %llu bytes does not fit into the file: truncated, or not "
                        "a safetensors file",
                        path, (unsigned long long)length);
    }
    json_t *root;
    const unsigned char *text = file->bytes + sizeof(length);
    result = mot_json_parse((const char *)text, (size_t)length, path, 0, &root);
    if (result != 0) { return result; }
    const struct header h = {file->path, text + length, file->n - sizeof(length) - (size_t)length};
    result = json_is_object(root) ? take_header(st, &h, root)
                                  : mot_fail(EBADMSG, "%s: the header is not a JSON object", path);
    json_decref(root);
    return result;
}

/* A shard's name must be a plain file name: an index must not lead us elsewhere. */
static int check_shard_name(const char *index, const char *tensor, const json_t *shard)
{
    const char *name = json_string_value(shard);
    if (!name || name[0] == 0 || name[0] == '.' || strchr(name, '/')) {
        return mot_fail(EBADMSG, "%s: weight_map of %s is not a plain file name", index, tensor);
    }
    return 0;
}

/* Opens each file that weight_map names, once. */
static int open_shards(struct mot_safetensors *st, const char *directory, const char *index,
                       json_t *map)
{
    const char *tensor;
    json_t *shard;
    json_t *seen = json_object();
    int result = 0;
    json_object_foreach(map, tensor, shard)
    {
        result = check_shard_name(index, tensor, shard);
        if (result != 0) { break; }
        if (json_object_get(seen, json_string_value(shard))) { continue; }
        json_object_set_new(seen, json_string_value(shard), json_true());
        if (st->n_files == MAX_SHARDS) {
            result = mot_fail(EBADMSG, "%s: names more than %d files", index, (int)MAX_SHARDS);
            break;
        }
        st->files = mot_realloc(st->files, (st->n_files + 1) * sizeof(*st->files));
        char *path = mot_format("%s/%s", directory, json_string_value(shard));
        result = open_file(st, path);
        free(path);
        if (result != 0) { break; }
    }
    json_decref(seen);
    return result;
}

/* Index and shards must say the same. */
static int check_map(const struct mot_safetensors *st, const char *index, json_t *map)
{
    const char *name;
    json_t *shard;
    for (size_t i = 0; i < st->n; i++) {
        const char *file = strrchr(st->tensors[i].path, '/') + 1;
        const char *mapped = json_string_value(json_object_get(map, st->tensors[i].name));
        if (!mapped || strcmp(mapped, file) != 0) {
            return mot_fail(EBADMSG, "%s: does not list tensor %s in %s, where it is", index,
                            st->tensors[i].name, file);
        }
    }
    if (st->n == json_object_size(map)) { return 0; }
    json_object_foreach(map, name, shard)
    {
        if (!mot_safetensors_find(st, name)) {
            return mot_fail(EBADMSG, "%s: tensor %s is not in %s", index, name,
                            json_string_value(shard));
        }
    }
    return 0;
}

static int sort_names(struct mot_safetensors *st, const char *path)
{
    if (st->n > 0) { qsort(st->tensors, st->n, sizeof(*st->tensors), compare_names); }
    for (size_t i = 1; i < st->n; i++) {
        if (strcmp(st->tensors[i - 1].name, st->tensors[i].name) == 0) {
            return mot_fail(EBADMSG, "%s: tensor %s comes in two files", path, st->tensors[i].name);
        }
    }
    return 0;
}

static int open_index(struct mot_safetensors *st, const char *directory, const char *index)
{
    json_t *root;
    int result = mot_json_load(index, MAX_INDEX, &root);
    if (result != 0) { return result; }
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0) {
        result = mot_fail(EBADMSG, "%s: has no weight_map", index);
    } else {
        result = open_shards(st, directory, index, map);
    }
    if (result == 0) { result = sort_names(st, index); }
    if (result == 0) { result = check_map(st, index, map); }
    json_decref(root);
    return result;
}

static int open_any(struct mot_safetensors *st, const char *path)
{
    char *single = mot_format("%s/model.safetensors", path);
    char *index = mot_format("%s/model.safetensors.index.json", path);
    int result;
    st->files = mot_alloc_zeroed(1, sizeof(*st->files));
    if (access(single, F_OK) != 0 && access(index, F_OK) == 0) {
        result = open_index(st, path, index);
    } else {
        char *directory = mot_format("%s/.", path); /* reachable only where path is a directory */
        result = open_file(st, access(directory, F_OK) == 0 ? single : path);
        free(directory);
        if (result == 0) { result = sort_names(st, path); }
    }
    free(single);
    free(index);
    return result;
}

int mot_safetensors_open(const char *path, struct mot_safetensors **opened)
{
    struct mot_safetensors *st = mot_alloc_zeroed(1, sizeof(*st));
    const int result = open_any(st, path);
    if (result != 0) {
        mot_safetensors_close(st);
        return result;
    }
    *opened = st;
    return 0;
}

void mot_safetensors_close(struct mot_safetensors *opened)
{
    if (!opened) { return; }
    for (size_t i = 0; i < opened->n; i++) { free(opened->tensors[i].name); }
    for (size_t i = 0; i < opened->n_files; i++) { mot_mapped_file_close(&opened->files[i]); }
    free(opened->tensors);
    free(opened->files);
    free(opened);
}

size_t mot_safetensors_n(const struct mot_safetensors *opened)
{
    return opened->n;
}

const struct mot_safetensor *mot_safetensors_at(const struct mot_safetensors *opened, size_t i)
{
    MOT_ASSERT(i < opened->n);
    return &opened->tensors[i];
}

const struct mot_safetensor *mot_safetensors_find(const struct mot_safetensors *opened,
                                                  const char *name)
{
    if (opened->n == 0) { return NULL; }
    const struct mot_safetensor key = {.name = (char *)(uintptr_t)name};
    return bsearch(&key, opened->tensors, opened->n, sizeof(key), compare_names);
}

int mot_safetensors_read(const struct mot_safetensor *tensor, float *to)
{
    if (!tensor->readable) {
        return mot_fail(ENOTSUP, "%s: tensor %s has dtype %s, which is not read (F32, F16, BF16)",
                        tensor->path, tensor->name, tensor->file_dtype);
    }
    mot_to_f32(to, tensor->data, tensor->dtype, tensor->numbers);
    return 0;
}
