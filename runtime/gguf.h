/* GGUF files, versions 2 and 3, little-endian: typed metadata (hyperparameters, tokenizer) and
 * tensors that are dequantised to float32 as they are read.
 * Source: ggml's docs/gguf.md, and the block layouts in ggml-common.h.
 *
 * The file is mapped, never copied: opening costs the header only.  mot_gguf_open checks every
 * count, length and offset against the size of the file, so that all later reads are safe.  All
 * functions but open and close may be called from several threads at once. */
#ifndef MOT_GGUF_H
#define MOT_GGUF_H
#include <stddef.h>
#include <stdint.h>

struct mot_gguf;

/* 1 when the file begins as a GGUF file does, 0 when not (or it cannot be read). */
int mot_gguf_is(const char *path);
/* 0, or a negative errno with a message naming the file and the place in it. */
int mot_gguf_open(const char *path, struct mot_gguf **gguf);
void mot_gguf_close(struct mot_gguf *gguf); /* NULL is allowed */
const char *mot_gguf_path(const struct mot_gguf *gguf);

/* ---- Metadata ------------------------------------------------------------------------------
 * Each getter returns 1 when the key is there and *value is set; 0 when the key is absent (no
 * message, *value untouched); -EINVAL with a message when it is there but of another type. */

/* A view into the mapped file: n bytes, no zero at the end, perhaps zero bytes or bad UTF-8 within.
 * Valid until mot_gguf_close. */
struct mot_gguf_text {
    const char *bytes;
    size_t n;
};

int mot_gguf_string(const struct mot_gguf *gguf, const char *key, struct mot_gguf_text *value);
/* Any integer type; a uint64 above INT64_MAX is an error. */
int mot_gguf_int(const struct mot_gguf *gguf, const char *key, int64_t *value);
/* float32 or float64, or any integer type. */
int mot_gguf_float(const struct mot_gguf *gguf, const char *key, double *value);
int mot_gguf_bool(const struct mot_gguf *gguf, const char *key, int *value);

/* Arrays: *items is mot_alloc'ed (free() it; not NULL even when *n is 0); the views of a string
 * array point into the map. */
int mot_gguf_strings(const struct mot_gguf *gguf, const char *key, struct mot_gguf_text **items,
                     size_t *n);
int mot_gguf_ints(const struct mot_gguf *gguf, const char *key, int64_t **items, size_t *n);
int mot_gguf_floats(const struct mot_gguf *gguf, const char *key, double **items, size_t *n);
/* The number of elements of an array of whatever type; returns as above. */
int mot_gguf_array_length(const struct mot_gguf *gguf, const char *key, size_t *n);

/* The name of the i-th key in file order, or NULL when there is none. */
const char *mot_gguf_key(const struct mot_gguf *gguf, size_t i);

/* ---- Tensors ------------------------------------------------------------------------------- */

/* One number format of tensors: a row of blocks, each of block_numbers numbers in block_bytes. */
struct mot_gguf_type {
    uint32_t id; /* enum ggml_type */
    const char *name;
    size_t block_numbers, block_bytes;
    /* n_blocks blocks at from (any alignment) to n_blocks * block_numbers floats. */
    void (*to_f32)(float *to, const unsigned char *from, size_t n_blocks);
};
/* The format of that id, or NULL when it is none we read.  To add one: a function and a line in
 * gguf_types.c. */
const struct mot_gguf_type *mot_gguf_type_find(uint32_t id);
/* Its name, also for formats that we know only by name; "unknown" else. */
const char *mot_gguf_type_name(uint32_t id);

struct mot_gguf_tensor {
    char *name;
    uint32_t type_id;
    const struct mot_gguf_type *type; /* NULL: a format we do not read */
    int n_dimensions;                 /* 1 to 4 */
    size_t size[4]; /* size[0] is the contiguous one: a HF (rows, cols) is {cols, rows, 1, 1} */
    size_t numbers; /* product of the sizes */
    size_t offset;  /* in the file, in bytes */
    size_t bytes;   /* 0 when type is NULL */
};
size_t mot_gguf_n_tensors(const struct mot_gguf *gguf);
const struct mot_gguf_tensor *mot_gguf_tensor(const struct mot_gguf *gguf, size_t i);
const struct mot_gguf_tensor *mot_gguf_find(const struct mot_gguf *gguf, const char *name);
/* Rows first..first+n-1 (a row is size[0] numbers; all other dimensions are counted through) as
 * float32 into to (n, size[0]).  0, or -ENOTSUP with a message naming tensor and type. */
int mot_gguf_read_rows(const struct mot_gguf *gguf, const struct mot_gguf_tensor *tensor,
                       size_t first, size_t n, float *to);
#endif
