/* GGUF files: opening, the tensor table, dequantised reading.  See gguf.h; the metadata pairs are
 * read in gguf_metadata.c. */
#include "gguf.h"
#include "error.h"
#include "gguf_parse.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_NAME = 255, MAX_DIMENSIONS = 4, DEFAULT_ALIGNMENT = 32, MAX_ALIGNMENT = 1 << 20 };

int mot_gguf_is(const char *path)
{
    char magic[4] = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* not to wait at a named pipe */
    if (fd < 0) { return 0; }
    const ssize_t n = read(fd, magic, sizeof(magic));
    close(fd);
    return n == sizeof(magic) && memcmp(magic, "GGUF", sizeof(magic)) == 0;
}

/* Sets numbers and, where the type is known, bytes; both must fit in a file of that size. */
static int measure_tensor(const struct gguf_cursor *cursor, struct mot_gguf_tensor *tensor)
{
    const size_t file_bytes = (size_t)(cursor->end - cursor->start);
    tensor->numbers = 1;
    for (int d = 0; d < MAX_DIMENSIONS; d++) {
        if (tensor->size[d] == 0) {
            return mot_fail(EBADMSG, "%s: tensor %s has a dimension of 0", cursor->path,
                            tensor->name);
        }
        if (__builtin_mul_overflow(tensor->numbers, tensor->size[d], &tensor->numbers)) {
            return mot_fail(EBADMSG, "%s: tensor %s has a size that overflows", cursor->path,
                            tensor->name);
        }
    }
    tensor->type = mot_gguf_type_find(tensor->type_id);
    if (!tensor->type) { return 0; }
    const size_t block = tensor->type->block_numbers;
    if (tensor->size[0] % block != 0) {
        return mot_fail(EBADMSG, "%s: tensor %s has rows of %zu numbers, no multiple of %s's %zu",
                        cursor->path, tensor->name, tensor->size[0], tensor->type->name, block);
    }
    if (__builtin_mul_overflow(tensor->numbers / block, tensor->type->block_bytes, &tensor->bytes)
        || tensor->bytes > file_bytes) {
        return mot_fail(EBADMSG, "%s: tensor %s is larger than the file: truncated or damaged",
                        cursor->path, tensor->name);
    }
    return 0;
}

/* One line of the tensor table; offset is still relative to the data section. */
static int take_tensor(struct gguf_cursor *cursor, struct mot_gguf_tensor *tensor)
{
    uint32_t n_dimensions = 0;
    uint64_t offset = 0;
    int result = mot_gguf_take_name(cursor, MAX_NAME, "a tensor name", &tensor->name);
    if (result != 0) { return result; }
    result = mot_gguf_take(cursor, &n_dimensions, sizeof(n_dimensions), tensor->name);
    if (result != 0) { return result; }
    if (n_dimensions < 1 || n_dimensions > MAX_DIMENSIONS) {
        return mot_fail(EBADMSG, "%s: tensor %s has %u dimensions, allowed are 1 to %d",
                        cursor->path, tensor->name, n_dimensions, (int)MAX_DIMENSIONS);
    }
    tensor->n_dimensions = (int)n_dimensions;
    for (int d = 0; d < MAX_DIMENSIONS; d++) {
        uint64_t size = 1;
        if (d < tensor->n_dimensions) {
            result = mot_gguf_take(cursor, &size, sizeof(size), tensor->name);
            if (result != 0) { return result; }
        }
        tensor->size[d] = (size_t)size;
    }
    result = mot_gguf_take(cursor, &tensor->type_id, sizeof(tensor->type_id), tensor->name);
    if (result == 0) { result = mot_gguf_take(cursor, &offset, sizeof(offset), tensor->name); }
    if (result != 0) { return result; }
    tensor->offset = (size_t)offset;
    return measure_tensor(cursor, tensor);
}

static int compare_names(const void *a, const void *b, void *tensors)
{
    const struct mot_gguf_tensor *t = tensors;
    return strcmp(t[*(const size_t *)a].name, t[*(const size_t *)b].name);
}

static int compare_offsets(const void *a, const void *b, void *tensors)
{
    const struct mot_gguf_tensor *x = (struct mot_gguf_tensor *)tensors + *(const size_t *)a;
    const struct mot_gguf_tensor *y = (struct mot_gguf_tensor *)tensors + *(const size_t *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Offsets from the start of the file; each tensor within the file, aligned, none over another. */
static int place_tensors(const struct gguf_cursor *cursor, struct mot_gguf *gguf, size_t alignment)
{
    const size_t file_bytes = gguf->file.n;
    const size_t header = (size_t)(cursor->at - cursor->start);
    const size_t data = (header + alignment - 1) / alignment * alignment;
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        struct mot_gguf_tensor *tensor = &gguf->tensors[i];
        if (tensor->offset % alignment != 0) {
            return mot_fail(EBADMSG, "%s: tensor %s lies at %zu, no multiple of the alignment %zu",
                            cursor->path, tensor->name, tensor->offset, alignment);
        }
        if (data > file_bytes || tensor->offset > file_bytes - data
            || tensor->bytes > file_bytes - data - tensor->offset) {
            return mot_fail(EBADMSG, "%s: tensor %s lies beyond the end: truncated or damaged",
                            cursor->path, tensor->name);
        }
        tensor->offset += data;
    }
    size_t *order = mot_alloc((gguf->n_tensors + 1) * sizeof(*order));
    for (size_t i = 0; i < gguf->n_tensors; i++) { order[i] = i; }
    qsort_r(order, gguf->n_tensors, sizeof(*order), compare_offsets, gguf->tensors);
    int result = 0;
    for (size_t i = 1; i < gguf->n_tensors && result == 0; i++) {
        const struct mot_gguf_tensor *before = &gguf->tensors[order[i - 1]];
        const struct mot_gguf_tensor *tensor = &gguf->tensors[order[i]];
        if (before->offset + before->bytes > tensor->offset || before->offset == tensor->offset) {
            result = mot_fail(EBADMSG, "%s: tensors %s and %s overlap", cursor->path, before->name,
                              tensor->name);
        }
    }
    free(order);
    return result;
}

static int take_tensors(struct gguf_cursor *cursor, struct mot_gguf *gguf, uint64_t n)
{
    /* A tensor's line takes at least 8 + 1 + 4 + 8 + 4 + 8 bytes. */
    if (n > (size_t)(cursor->end - cursor->at) / 33) {
        return mot_fail(EBADMSG, "%s: header says %llu tensors, more than the file holds",
                        cursor->path, (unsigned long long)n);
    }
    gguf->tensors = mot_alloc_zeroed((size_t)n + 1, sizeof(*gguf->tensors));
    gguf->by_name = mot_alloc_zeroed((size_t)n + 1, sizeof(*gguf->by_name));
    for (size_t i = 0; i < n; i++) {
        gguf->by_name[i] = i;
        gguf->n_tensors = i + 1; /* so that close frees a half-read one */
        const int result = take_tensor(cursor, &gguf->tensors[i]);
        if (result != 0) { return result; }
    }
    qsort_r(gguf->by_name, gguf->n_tensors, sizeof(size_t), compare_names, gguf->tensors);
    for (size_t i = 1; i < gguf->n_tensors; i++) {
        const char *name = gguf->tensors[gguf->by_name[i]].name;
        if (strcmp(gguf->tensors[gguf->by_name[i - 1]].name, name) == 0) {
            return mot_fail(EBADMSG, "%s: tensor %s comes twice", cursor->path, name);
        }
    }
    return 0;
}

static int parse(struct mot_gguf *gguf)
{
    struct gguf_cursor cursor = {gguf->file.path, gguf->file.bytes, gguf->file.bytes,
                                 gguf->file.bytes + gguf->file.n};
    char magic[4];
    uint32_t version = 0;
    uint64_t n_tensors = 0, n_values = 0;
    if (gguf->file.n < sizeof(magic) || memcmp(gguf->file.bytes, "GGUF", sizeof(magic)) != 0) {
        return mot_fail(EBADMSG, "%s: is not a GGUF file (it does not begin with \"GGUF\")",
                        cursor.path);
    }
    int result = mot_gguf_take(&cursor, magic, sizeof(magic), "the header");
    if (result == 0) { result = mot_gguf_take(&cursor, &version, 4, "the header"); }
    if (result != 0) { return result; }
    if (version != 2 && version != 3) {
        return mot_fail(EBADMSG, "%s: GGUF version %u%s is not read, only 2 and 3", cursor.path,
                        version, version > 0xffff ? " (big-endian?)" : "");
    }
    result = mot_gguf_take(&cursor, &n_tensors, sizeof(n_tensors), "the header");
    if (result == 0) { result = mot_gguf_take(&cursor, &n_values, 8, "the header"); }
    if (result == 0) { result = mot_gguf_take_metadata(&cursor, gguf, n_values); }
    if (result == 0) { result = take_tensors(&cursor, gguf, n_tensors); }
    int64_t alignment = DEFAULT_ALIGNMENT;
    if (result == 0) {
        const int found = mot_gguf_int(gguf, "general.alignment", &alignment);
        result = found < 0 ? found : 0;
    }
    if (result != 0) { return result; }
    if (alignment < 8 || alignment > MAX_ALIGNMENT || alignment % 8 != 0) {
        return mot_fail(EBADMSG, "%s: general.alignment %lld is no multiple of 8 from 8 to %d",
                        cursor.path, (long long)alignment, (int)MAX_ALIGNMENT);
    }
    return place_tensors(&cursor, gguf, (size_t)alignment);
}

int mot_gguf_open(const char *path, struct mot_gguf **gguf)
{
    struct mot_gguf *opened = mot_alloc_zeroed(1, sizeof(*opened));
    int result = mot_mapped_file_open(&opened->file, path);
    if (result == 0) { result = parse(opened); }
    if (result != 0) {
        mot_gguf_close(opened);
        return result;
    }
    *gguf = opened;
    return 0;
}

void mot_gguf_close(struct mot_gguf *gguf)
{
    if (!gguf) { return; }
    for (size_t i = 0; i < gguf->n_values; i++) { free(gguf->values[i].key); }
    for (size_t i = 0; i < gguf->n_tensors; i++) { free(gguf->tensors[i].name); }
    free(gguf->values);
    free(gguf->by_key);
    free(gguf->tensors);
    free(gguf->by_name);
    mot_mapped_file_close(&gguf->file);
    free(gguf);
}

const char *mot_gguf_path(const struct mot_gguf *gguf)
{
    return gguf->file.path;
}

size_t mot_gguf_n_tensors(const struct mot_gguf *gguf)
{
    return gguf->n_tensors;
}

const struct mot_gguf_tensor *mot_gguf_tensor(const struct mot_gguf *gguf, size_t i)
{
    MOT_ASSERT(i < gguf->n_tensors);
    return &gguf->tensors[i];
}

const struct mot_gguf_tensor *mot_gguf_find(const struct mot_gguf *gguf, const char *name)
{
    size_t low = 0, high = gguf->n_tensors;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct mot_gguf_tensor *tensor = &gguf->tensors[gguf->by_name[middle]];
        const int order = strcmp(name, tensor->name);
        if (order == 0) { return tensor; }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

int mot_gguf_read_rows(const struct mot_gguf *gguf, const struct mot_gguf_tensor *tensor,
                       size_t first, size_t n, float *to)
{
    const struct mot_gguf_type *type = tensor->type;
    if (!type) {
        return mot_fail(ENOTSUP, "%s: tensor %s has type %s (%u), which is not read",
                        gguf->file.path, tensor->name, mot_gguf_type_name(tensor->type_id),
                        tensor->type_id);
    }
    const size_t rows = tensor->numbers / tensor->size[0];
    MOT_ASSERT(first <= rows && n <= rows - first);
    const size_t row_blocks = tensor->size[0] / type->block_numbers;
    type->to_f32(to, gguf->file.bytes + tensor->offset + first * row_blocks * type->block_bytes,
                 n * row_blocks);
    return 0;
}
