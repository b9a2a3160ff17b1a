/* JSON: load, typed getters with messages, lines out.  See json.h. */
#include "json.h"
#include "error.h"
#include "file.h"
#include "utf8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* JSON_DECODE_ANY: also a bare number or string; who wants an object asks for its type. */
static json_t *decode(const char *bytes, size_t n, json_error_t *error)
{
    json_t *value = json_loadb(bytes, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, error);
    if (!value && json_error_code(error) == json_error_null_character) { /* our own words */
        snprintf(error->text, sizeof(error->text), "\\u0000 in a string: text cannot hold a zero");
    }
    return value;
}

json_t *mot_json_decode(const char *bytes, size_t n, char *why, size_t why_bytes)
{
    json_error_t error;
    json_t *value = decode(bytes, n, &error);
    if (!value) {
        snprintf(why, why_bytes, "line %d, column %d: %s", error.line, error.column, error.text);
    }
    return value;
}

int mot_json_parse(const char *bytes, size_t n, const char *file, int line, json_t **value)
{
    json_error_t error;
    json_t *decoded = decode(bytes, n, &error);
    if (!decoded) {
        return mot_fail(EINVAL, "%s:%d: not JSON: %s (column %d)", file,
                        line > 0 ? line : error.line, error.text, error.column);
    }
    *value = decoded;
    return 0;
}

int mot_json_load(const char *path, size_t max_bytes, json_t **value)
{
    char *bytes;
    size_t n;
    int status = mot_file_read(path, max_bytes, &bytes, &n);
    if (status) { return status; }
    status = mot_json_parse(bytes, n, path, 0, value);
    free(bytes);
    return status;
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        break;
    }
    return "null";
}

int mot_json_has(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

/* The value of key, not null, or NULL and the message. */
static json_t *find(const json_t *object, const char *file, const char *key)
{
    if (!json_is_object(object)) {
        mot_fail(EINVAL, "%s: an object with \"%s\" is needed here, not %s", file, key,
                 object ? type_name(object) : "nothing");
        return NULL;
    }
    json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) {
        mot_fail(EINVAL, "%s: \"%s\" is missing", file, key);
        return NULL;
    }
    return value;
}

static int wrong_type(const json_t *value, const char *file, const char *key, const char *wanted)
{
    return mot_fail(EINVAL, "%s: \"%s\" must be %s, not %s", file, key, wanted, type_name(value));
}

int mot_json_get_int(const json_t *object, const char *file, const char *key, int64_t min,
                     int64_t max, int64_t *value)
{
    const json_t *found = find(object, file, key);
    if (!found) { return -EINVAL; }
    if (!json_is_integer(found)) { return wrong_type(found, file, key, "a whole number"); }
    const int64_t number = json_integer_value(found);
    if (number < min || number > max) {
        return mot_fail(EINVAL, "%s: \"%s\" is %lld, not in %lld..%lld", file, key,
                        (long long)number, (long long)min, (long long)max);
    }
    *value = number;
    return 0;
}

int mot_json_get_number(const json_t *object, const char *file, const char *key, double min,
                        double max, double *value)
{
    const json_t *found = find(object, file, key);
    if (!found) { return -EINVAL; }
    if (!json_is_number(found)) { return wrong_type(found, file, key, "a number"); }
    const double number = json_number_value(found);
    if (!isfinite(number) || !(number >= min && number <= max)) {
        return mot_fail(EINVAL, "%s: \"%s\" is %g, not in %g..%g", file, key, number, min, max);
    }
    *value = number;
    return 0;
}

int mot_json_get_bool(const json_t *object, const char *file, const char *key, int *value)
{
    const json_t *found = find(object, file, key);
    if (!found) { return -EINVAL; }
    if (!json_is_boolean(found)) { return wrong_type(found, file, key, "true or false"); }
    *value = json_is_true(found);
    return 0;
}

int mot_json_get_string(const json_t *object, const char *file, const char *key, const char **value)
{
    const json_t *found = find(object, file, key);
    if (!found) { return -EINVAL; }
    if (!json_is_string(found)) { return wrong_type(found, file, key, "a string"); }
    *value = json_string_value(found);
    return 0;
}

int mot_json_get_array(const json_t *object, const char *file, const char *key, json_t **value)
{
    json_t *found = find(object, file, key);
    if (!found) { return -EINVAL; }
    if (!json_is_array(found)) { return wrong_type(found, file, key, "an array"); }
    *value = found;
    return 0;
}

int mot_json_get_object(const json_t *object, const char *file, const char *key, json_t **value)
{
    json_t *found = find(object, file, key);
    if (!found) { return -EINVAL; }
    if (!json_is_object(found)) { return wrong_type(found, file, key, "an object"); }
    *value = found;
    return 0;
}

json_t *mot_json_number(double value)
{
    json_t *number = isfinite(value) ? json_real(value) : json_null();
    MOT_ASSERT(number);
    return number;
}

json_t *mot_json_numbers(const float *values, size_t n)
{
    json_t *array = json_array();
    MOT_ASSERT(array);
    for (size_t i = 0; i < n; i++) {
        MOT_ASSERT(json_array_append_new(array, mot_json_number(values[i])) == 0);
    }
    return array;
}

json_t *mot_json_string(const char *bytes, size_t n)
{
    char *text = mot_alloc(3 * n + 1), *end = text;
    while (n > 0) {
        const int length = *bytes ? mot_utf8_length(bytes, n) : 0;
        end = length ? mempcpy(end, bytes, (size_t)length) : mempcpy(end, "\xef\xbf\xbd", 3);
        bytes += length ? length : 1;
        n -= (size_t)(length ? length : 1);
    }
    json_t *string = json_stringn(text, (size_t)(end - text));
    MOT_ASSERT(string);
    free(text);
    return string;
}

char *mot_json_text(const json_t *value)
{
    char *text =
        json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(MOT_JSON_DIGITS));
    MOT_ASSERT(text);
    return text;
}

int mot_json_append_line(int fd, const json_t *value)
{
    char *text = mot_json_text(value);
    const int status = mot_file_append_line(fd, text);
    free(text);
    return status;
}
