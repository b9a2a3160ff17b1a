/* JSON through jansson, the way all of Motley reads and writes it: duplicate keys are errors, sizes
 * are capped, nesting is limited to 2048 by jansson itself, and each message names file and place.
 *
 * Functions return 0, or a negative errno with a message; outputs are untouched on failure.  In the
 * getters `file` is only for the message: "model/config.json" or "train.jsonl:12". */
#ifndef MOT_JSON_H
#define MOT_JSON_H
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Significant digits of the numbers we write: float32 comes back bit for bit. */
enum { MOT_JSON_DIGITS = 9 };

/* Any JSON value from bytes, or NULL and the reason with line and column in why; prints nothing.
 * For text whose errors are counted, not reported: replies of programs, fuzzed input. */
json_t *mot_json_decode(const char *bytes, size_t n, char *why, size_t why_bytes);
/* line > 0: bytes are that line of a JSON lines file, and the message is "file:line: ...". */
int mot_json_parse(const char *bytes, size_t n, const char *file, int line, json_t **value);
/* A whole file of at most max_bytes (else -EFBIG). */
int mot_json_load(const char *path, size_t max_bytes, json_t **value);

/* The value of key, which must be there and of this type (null is as not there). Strings, arrays
 * and objects are borrowed from object.  get_int takes whole numbers in min..max, written as
 * integers; get_number takes any finite number in min..max. */
int mot_json_get_int(const json_t *object, const char *file, const char *key, int64_t min,
                     int64_t max, int64_t *value);
int mot_json_get_number(const json_t *object, const char *file, const char *key, double min,
                        double max, double *value);
int mot_json_get_bool(const json_t *object, const char *file, const char *key, int *value);
int mot_json_get_string(const json_t *object, const char *file, const char *key,
                        const char **value);
int mot_json_get_array(const json_t *object, const char *file, const char *key, json_t **value);
int mot_json_get_object(const json_t *object, const char *file, const char *key, json_t **value);
/* 1 when key is there and not null.  An optional key with a default reads:
 *     if (mot_json_has(object, "eps")) { status = mot_json_get_number(object, ..., &eps); } */
int mot_json_has(const json_t *object, const char *key);

/* A new number; null for NaN and infinity, which JSON lacks.  Never NULL. */
json_t *mot_json_number(double value);
/* An array of n float32, likewise. */
json_t *mot_json_numbers(const float *values, size_t n);
/* A string of n bytes from wherever, sampled text for one: what is not UTF-8, and zero bytes,
 * become U+FFFD, one for each byte. */
json_t *mot_json_string(const char *bytes, size_t n);
/* One line of compact JSON, keys in the order they were set, MOT_JSON_DIGITS digits; to free. */
char *mot_json_text(const json_t *value);
/* The same to a JSON lines file, newline added, by one write(2). */
int mot_json_append_line(int fd, const json_t *value);
#endif
