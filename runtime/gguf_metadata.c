/* GGUF metadata: reading the pairs of the header, and the getters.  See gguf.h.
 * Every element occupies at least one byte of the file, so no count can make us allocate or walk
 * more than the file's own size. */
#include "error.h"
#include "gguf_parse.h"
#include <stdlib.h>
#include <string.h>

enum gguf_value_type {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    BOOL,
    STRING,
    ARRAY,
    U64,
    I64,
    F64,
    N_VALUE_TYPES
};
enum { MAX_KEY = 65535, MAX_DEPTH = 4 };

/* Bytes of a scalar; 0 for strings and arrays. */
static const unsigned char scalar_bytes[N_VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static const char *const type_names[N_VALUE_TYPES] = {
    "uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
    "bool",  "string", "array",  "uint64", "int64",  "float64"};

int mot_gguf_take(struct gguf_cursor *cursor, void *to, size_t bytes, const char *what)
{
    if ((size_t)(cursor->end - cursor->at) < bytes) {
        return mot_fail(EBADMSG, "%s: the file ends inside %s (byte %zu): truncated or damaged",
                        cursor->path, what, (size_t)(cursor->at - cursor->start));
    }
    if (to) { memcpy(to, cursor->at, bytes); }
    cursor->at += bytes;
    return 0;
}

int mot_gguf_take_name(struct gguf_cursor *cursor, size_t max, const char *what, char **name)
{
    uint64_t length = 0;
    const size_t place = (size_t)(cursor->at - cursor->start);
    int result = mot_gguf_take(cursor, &length, sizeof(length), what);
    if (result != 0) { return result; }
    if (length == 0 || length > max) {
        return mot_fail(EBADMSG, "%s: %s at byte %zu has %llu characters, allowed are 1 to %zu",
                        cursor->path, what, place, (unsigned long long)length, max);
    }
    const unsigned char *text = cursor->at;
    result = mot_gguf_take(cursor, NULL, (size_t)length, what);
    if (result != 0) { return result; }
    for (size_t i = 0; i < length; i++) {
        if (text[i] < 0x20 || text[i] == 0x7f) {
            return mot_fail(EBADMSG, "%s: %s at byte %zu holds a control character", cursor->path,
                            what, place);
        }
    }
    *name = mot_alloc((size_t)length + 1);
    memcpy(*name, text, (size_t)length);
    (*name)[length] = 0;
    return 0;
}

static int skip_string(struct gguf_cursor *cursor, const char *key)
{
    uint64_t length = 0;
    const int result = mot_gguf_take(cursor, &length, sizeof(length), key);
    if (result != 0) { return result; }
    return mot_gguf_take(cursor, NULL, length > SIZE_MAX ? SIZE_MAX : (size_t)length, key);
}

/* Reads the head of an array, then steps over its elements. */
static int skip_array(struct gguf_cursor *cursor, const char *key, int depth,
                      struct gguf_value *value)
{
    uint32_t type = 0;
    uint64_t count = 0;
    int result = mot_gguf_take(cursor, &type, sizeof(type), key);
    if (result == 0) { result = mot_gguf_take(cursor, &count, sizeof(count), key); }
    if (result != 0) { return result; }
    if (type >= N_VALUE_TYPES) {
        return mot_fail(EBADMSG, "%s: array %s has elements of unknown type %u", cursor->path, key,
                        type);
    }
    if (depth >= MAX_DEPTH) {
        return mot_fail(EBADMSG, "%s: %s nests arrays deeper than %d", cursor->path, key,
                        (int)MAX_DEPTH);
    }
    if (count > (size_t)(cursor->end - cursor->at)) {
        return mot_fail(EBADMSG, "%s: array %s has %llu elements, more than the file holds",
                        cursor->path, key, (unsigned long long)count);
    }
    if (value) {
        value->element_type = type;
        value->count = (size_t)count;
        value->at = cursor->at;
    }
    if (scalar_bytes[type] > 0) { /* no overflow: count is at most the size of the file */
        return mot_gguf_take(cursor, NULL, (size_t)count * scalar_bytes[type], key);
    }
    for (uint64_t i = 0; i < count && result == 0; i++) {
        result =
            type == STRING ? skip_string(cursor, key) : skip_array(cursor, key, depth + 1, NULL);
    }
    return result;
}

static int take_value(struct gguf_cursor *cursor, struct gguf_value *value)
{
    int result = mot_gguf_take_name(cursor, MAX_KEY, "a metadata key", &value->key);
    if (result == 0) {
        result = mot_gguf_take(cursor, &value->type, sizeof(value->type), value->key);
    }
    if (result != 0) { return result; }
    value->at = cursor->at;
    if (value->type >= N_VALUE_TYPES) {
        return mot_fail(EBADMSG, "%s: metadata %s has unknown type %u", cursor->path, value->key,
                        value->type);
    }
    if (value->type == STRING) { return skip_string(cursor, value->key); }
    if (value->type == ARRAY) { return skip_array(cursor, value->key, 0, value); }
    return mot_gguf_take(cursor, NULL, scalar_bytes[value->type], value->key);
}

static int compare_keys(const void *a, const void *b, void *values)
{
    const struct gguf_value *v = values;
    return strcmp(v[*(const size_t *)a].key, v[*(const size_t *)b].key);
}

int mot_gguf_take_metadata(struct gguf_cursor *cursor, struct mot_gguf *gguf, uint64_t n)
{
    /* A pair takes at least 8 + 1 + 4 + 1 bytes. */
    if (n > (size_t)(cursor->end - cursor->at) / 14) {
        return mot_fail(EBADMSG, "%s: header says %llu metadata pairs, more than the file holds",
                        cursor->path, (unsigned long long)n);
    }
    gguf->values = mot_alloc_zeroed((size_t)n + 1, sizeof(*gguf->values));
    gguf->by_key = mot_alloc_zeroed((size_t)n + 1, sizeof(*gguf->by_key));
    for (size_t i = 0; i < n; i++) {
        gguf->by_key[i] = i;
        gguf->n_values = i + 1; /* so that close frees a half-read one */
        const int result = take_value(cursor, &gguf->values[i]);
        if (result != 0) { return result; }
    }
    qsort_r(gguf->by_key, gguf->n_values, sizeof(size_t), compare_keys, gguf->values);
    for (size_t i = 1; i < gguf->n_values; i++) {
        const char *key = gguf->values[gguf->by_key[i]].key;
        if (strcmp(gguf->values[gguf->by_key[i - 1]].key, key) == 0) {
            return mot_fail(EBADMSG, "%s: metadata key %s comes twice", cursor->path, key);
        }
    }
    return 0;
}

static const struct gguf_value *find(const struct mot_gguf *gguf, const char *key)
{
    size_t low = 0, high = gguf->n_values;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct gguf_value *value = &gguf->values[gguf->by_key[middle]];
        const int order = strcmp(key, value->key);
        if (order == 0) { return value; }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

static int fail_type(const struct mot_gguf *gguf, const struct gguf_value *value, const char *want)
{
    const int array = value->type == ARRAY;
    return mot_fail(EINVAL, "%s: metadata %s is of type %s%s, expected %s", gguf->file.path,
                    value->key, array ? "array of " : "",
                    type_names[array ? value->element_type : value->type], want);
}

/* The integer of that type at `at`: 1, or 0 when it is none (or above INT64_MAX). */
static int get_int(uint32_t type, const unsigned char *at, int64_t *value)
{
    union {
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
    } x;
    memcpy(&x, at, scalar_bytes[type]);
    switch (type) {
    case U8:
        *value = at[0];
        return 1;
    case I8:
        *value = (signed char)at[0];
        return 1;
    case U16:
        *value = x.u16;
        return 1;
    case I16:
        *value = x.i16;
        return 1;
    case U32:
        *value = x.u32;
        return 1;
    case I32:
        *value = x.i32;
        return 1;
    case U64:
        *value = (int64_t)x.u64;
        return x.u64 <= INT64_MAX;
    case I64:
        *value = x.i64;
        return 1;
    default:
        return 0;
    }
}

static int get_float(uint32_t type, const unsigned char *at, double *value)
{
    float single;
    int64_t integer;
    if (type == F32) {
        memcpy(&single, at, sizeof(single));
        *value = single;
        return 1;
    }
    if (type == F64) {
        memcpy(value, at, sizeof(*value));
        return 1;
    }
    if (get_int(type, at, &integer)) {
        *value = (double)integer;
        return 1;
    }
    return 0;
}

/* The string whose length lies at `at`; the byte after it. */
static const unsigned char *get_text(const unsigned char *at, struct mot_gguf_text *text)
{
    uint64_t length = 0;
    memcpy(&length, at, sizeof(length));
    text->bytes = (const char *)at + sizeof(length);
    text->n = (size_t)length;
    return at + sizeof(length) + length;
}

int mot_gguf_string(const struct mot_gguf *gguf, const char *key, struct mot_gguf_text *value)
{
    const struct gguf_value *found = find(gguf, key);
    if (!found) { return 0; }
    if (found->type != STRING) { return fail_type(gguf, found, "a string"); }
    get_text(found->at, value);
    return 1;
}

int mot_gguf_int(const struct mot_gguf *gguf, const char *key, int64_t *value)
{
    const struct gguf_value *found = find(gguf, key);
    if (!found) { return 0; }
    int64_t integer;
    if (!get_int(found->type, found->at, &integer)) {
        return fail_type(gguf, found, "an integer below 2^63");
    }
    *value = integer;
    return 1;
}

int mot_gguf_float(const struct mot_gguf *gguf, const char *key, double *value)
{
    const struct gguf_value *found = find(gguf, key);
    if (!found) { return 0; }
    return get_float(found->type, found->at, value) ? 1 : fail_type(gguf, found, "a number");
}

int mot_gguf_bool(const struct mot_gguf *gguf, const char *key, int *value)
{
    const struct gguf_value *found = find(gguf, key);
    if (!found) { return 0; }
    if (found->type != BOOL || found->at[0] > 1) {
        return fail_type(gguf, found, "a bool that is 0 or 1");
    }
    *value = found->at[0];
    return 1;
}

int mot_gguf_strings(const struct mot_gguf *gguf, const char *key, struct mot_gguf_text **items,
                     size_t *n)
{
    const struct gguf_value *found = find(gguf, key);
    if (!found) { return 0; }
    if (found->type != ARRAY || found->element_type != STRING) {
        return fail_type(gguf, found, "an array of strings");
    }
    struct mot_gguf_text *texts = mot_alloc_zeroed(found->count + 1, sizeof(*texts));
    const unsigned char *at = found->at;
    for (size_t i = 0; i < found->count; i++) { at = get_text(at, &texts[i]); }
    *items = texts;
    *n = found->count;
    return 1;
}

int mot_gguf_ints(const struct mot_gguf *gguf, const char *key, int64_t **items, size_t *n)
{
    const struct gguf_value *found = find(gguf, key);
    if (!found) { return 0; }
    if (found->type != ARRAY) { return fail_type(gguf, found, "an array of integers"); }
    int64_t *integers = mot_alloc_zeroed(found->count + 1, sizeof(*integers));
    const size_t step = scalar_bytes[found->element_type];
    for (size_t i = 0; i < found->count; i++) {
        if (!get_int(found->element_type, found->at + i * step, &integers[i])) {
            free(integers);
            return fail_type(gguf, found, "an array of integers below 2^63");
        }
    }
    *items = integers;
    *n = found->count;
    return 1;
}

int mot_gguf_floats(const struct mot_gguf *gguf, const char *key, double **items, size_t *n)
{
    const struct gguf_value *found = find(gguf, key);
    if (!found) { return 0; }
    if (found->type != ARRAY) { return fail_type(gguf, found, "an array of numbers"); }
    double *numbers = mot_alloc_zeroed(found->count + 1, sizeof(*numbers));
    const size_t step = scalar_bytes[found->element_type];
    for (size_t i = 0; i < found->count; i++) {
        if (!get_float(found->element_type, found->at + i * step, &numbers[i])) {
            free(numbers);
            return fail_type(gguf, found, "an array of numbers");
        }
    }
    *items = numbers;
    *n = found->count;
    return 1;
}

int mot_gguf_array_length(const struct mot_gguf *gguf, const char *key, size_t *n)
{
    const struct gguf_value *found = find(gguf, key);
    if (!found) { return 0; }
    if (found->type != ARRAY) { return fail_type(gguf, found, "an array"); }
    *n = found->count;
    return 1;
}

const char *mot_gguf_key(const struct mot_gguf *gguf, size_t i)
{
    return i < gguf->n_values ? gguf->values[i].key : NULL;
}
