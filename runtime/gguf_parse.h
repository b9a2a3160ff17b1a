/* Inside of the GGUF reader, shared by gguf.c and gguf_metadata.c only: the cursor over the header
 * and what is kept of it. */
#ifndef MOT_GGUF_PARSE_H
#define MOT_GGUF_PARSE_H
#include "gguf.h"
#include "mapped_file.h"

/* What is still to be read of the file.  The first failing read prints the message. */
struct gguf_cursor {
    const char *path;
    const unsigned char *start, *at, *end;
};

/* One metadata pair.  Everything at `at` has been walked once, within the file. */
struct gguf_value {
    char *key;
    uint32_t type;           /* enum gguf_value_type */
    uint32_t element_type;   /* of an array */
    size_t count;            /* of an array */
    const unsigned char *at; /* the scalar, the string's length, or the array's first element */
};

struct mot_gguf {
    struct mot_mapped_file file;
    size_t n_values;
    struct gguf_value *values; /* (n_values) in file order */
    size_t *by_key;            /* (n_values) indices into values, keys ascending */
    size_t n_tensors;
    struct mot_gguf_tensor *tensors; /* (n_tensors) in file order */
    size_t *by_name;                 /* (n_tensors) indices into tensors, names ascending */
};

/* 0, or a negative errno after a message "header ends inside `what`". */
int mot_gguf_take(struct gguf_cursor *cursor, void *to, size_t bytes, const char *what);
/* A length-prefixed name of 1 to max bytes without control characters, as a string of its own. */
int mot_gguf_take_name(struct gguf_cursor *cursor, size_t max, const char *what, char **name);
/* Reads n pairs into gguf->values and indexes them; a key that comes twice is an error. */
int mot_gguf_take_metadata(struct gguf_cursor *cursor, struct mot_gguf *gguf, uint64_t n);
#endif
