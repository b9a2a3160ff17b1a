/* Safetensors: named tensors in one file or in the shards of a HF directory, mapped; and a writer.
 * Format: 8 bytes little-endian header length, a JSON header, the tensors' bytes without holes.
 * Source: huggingface/safetensors, README.md "Format" and rust/src/tensor.rs, whose checks we
 * share.
 *
 * Opening checks all that the header says against the file: lengths, duplicate names, number
 * formats, shape x format = size (without overflow), no overlap, no hole, nothing behind the
 * last tensor. */
#ifndef MOT_SAFETENSORS_H
#define MOT_SAFETENSORS_H
#include "dtype.h"
#include <stddef.h>

enum { MOT_SAFETENSORS_DIMENSIONS = 8 };

struct mot_safetensor {
    char *name;
    const char *file_dtype; /* as in the file: "BF16", "I64" */
    int readable;           /* 0: a format that mot_safetensors_read does not convert */
    enum mot_dtype dtype;   /* when readable */
    int n_dimensions;       /* 0 (a scalar) to MOT_SAFETENSORS_DIMENSIONS */
    size_t size[MOT_SAFETENSORS_DIMENSIONS]; /* row-major, the last one contiguous */
    size_t numbers, bytes;
    const unsigned char *data; /* in the map, any alignment */
    const char *path;          /* of the file it lies in */
};

struct mot_safetensors;

/* path: a .safetensors file, or a directory with model.safetensors or model.safetensors.index.json.
 * 0, or a negative errno with a message naming the file and the place. */
int mot_safetensors_open(const char *path, struct mot_safetensors **opened);
void mot_safetensors_close(struct mot_safetensors *opened); /* NULL is allowed */
size_t mot_safetensors_n(const struct mot_safetensors *opened);
/* The i-th tensor, names ascending. */
const struct mot_safetensor *mot_safetensors_at(const struct mot_safetensors *opened, size_t i);
const struct mot_safetensor *mot_safetensors_find(const struct mot_safetensors *opened,
                                                  const char *name);
/* All numbers as float32 into to (tensor->numbers).  0, or -ENOTSUP with a message naming
 * tensor and format. */
int mot_safetensors_read(const struct mot_safetensor *tensor, float *to);

/* ---- Writing -------------------------------------------------------------------------------
 * The bytes of the file are a function of entries and data alone.  They go to PATH.tmp, which
 * finish fsyncs and renames to PATH, so PATH is either whole or as it was.  Each call returns 0
 * or a negative errno with a message; after a failure call abort. */
struct mot_safetensors_entry {
    const char *name;
    enum mot_dtype dtype;
    int n_dimensions;
    size_t size[4];
};
struct mot_safetensors_writer;

int mot_safetensors_create(const char *path, const struct mot_safetensors_entry *entries, size_t n,
                           struct mot_safetensors_writer **writer);
/* The next bytes of the data, tensor after tensor in the order of the entries, in any portions. */
int mot_safetensors_append(struct mot_safetensors_writer *writer, const void *data, size_t bytes);
/* Frees the writer, also on failure. */
int mot_safetensors_finish(struct mot_safetensors_writer *writer);
/* Removes PATH.tmp and frees the writer. */
void mot_safetensors_abort(struct mot_safetensors_writer *writer);
#endif
