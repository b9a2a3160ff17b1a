/* json: what is read and what is refused, with the words of the message; what is written comes back
 * bit for bit (float32), and NaN as null.  Run it alone: ./test_json */
#include "error.h"
#include "file.h"
#include "json.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define message_has(text) assert_non_null(strstr(mot_last_message(), text))

static json_t *parsed(const char *text)
{
    json_t *value = NULL;
    assert_int_equal(mot_json_parse(text, strlen(text), "f.json", 0, &value), 0);
    return value;
}

static void test_refused(void **state)
{
    (void)state;
    json_t *value = NULL;
    const char *bad[] = {
        "",    "{",        "{\"a\":1,\"a\":2}",      "[1,]",    "{\"a\":NaN}",
        "1 2", "\"\xff\"", "[99999999999999999999]", "[1e999]", "{\"a\\u0000b\":1}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(mot_json_parse(bad[i], strlen(bad[i]), "f.json", 0, &value), -EINVAL);
        message_has("f.json:1: not JSON: ");
        assert_null(value);
    }
    assert_int_equal(mot_json_parse("{\n\n x", 6, "f.json", 0, &value), -EINVAL);
    message_has("f.json:3: ");
    assert_int_equal(mot_json_parse("{x", 2, "f.jsonl", 12, &value), -EINVAL);
    message_has("f.jsonl:12: ");

    enum { DEEP = 100000 };
    char *deep = malloc(DEEP);
    memset(deep, '[', DEEP);
    assert_int_equal(mot_json_parse(deep, DEEP, "deep", 0, &value), -EINVAL);
    message_has("maximum parsing depth");
    free(deep);
    char why[80];
    assert_null(mot_json_decode("{]", 2, why, sizeof(why)));
    assert_non_null(strstr(why, "line 1"));
}

static void test_files(void **state)
{
    (void)state;
    char path[] = MOT_BINARY_DIR "/test_json_XXXXXX";
    close(mkstemp(path));
    json_t *value = NULL;
    assert_int_equal(mot_file_write(path, "{\"a\": 1}", 8), 0);
    assert_int_equal(mot_json_load(path, 7, &value), -EFBIG);
    message_has(path);
    assert_int_equal(mot_json_load(path, 8, &value), 0);
    assert_true(mot_json_has(value, "a"));
    json_decref(value);
    unlink(path);
    assert_int_equal(mot_json_load(path, 8, &value), -ENOENT);
    assert_int_equal(mot_json_load("/", 8, &value), -EISDIR);
}

static void test_getters(void **state)
{
    (void)state;
    json_t *o = parsed("{\"i\":7,\"x\":1.5,\"b\":true,\"s\":\"t\",\"a\":[1],\"o\":{},\"n\":null}");
    int64_t i = -1;
    double x = -1.0;
    int b = -1;
    const char *s = NULL;
    json_t *child = NULL;
    assert_int_equal(mot_json_get_int(o, "f", "i", 0, 7, &i), 0);
    assert_int_equal(i, 7);
    assert_int_equal(mot_json_get_int(o, "f", "i", 0, 6, &i), -EINVAL);
    message_has("f: \"i\" is 7, not in 0..6");
    assert_int_equal(mot_json_get_int(o, "f", "x", 0, 6, &i), -EINVAL);
    message_has("f: \"x\" must be a whole number, not a number with a fraction");
    assert_int_equal(mot_json_get_int(o, "f", "n", 0, 6, &i), -EINVAL);
    message_has("f: \"n\" is missing");
    assert_int_equal(mot_json_get_int(NULL, "f", "n", 0, 6, &i), -EINVAL);
    assert_int_equal(i, 7);
    assert_int_equal(mot_json_get_number(o, "f", "x", 0.0, 2.0, &x), 0);
    assert_true(x == 1.5);
    assert_int_equal(mot_json_get_number(o, "f", "i", 0.0, 7.0, &x), 0);
    assert_true(x == 7.0);
    assert_int_equal(mot_json_get_number(o, "f", "s", 0.0, 7.0, &x), -EINVAL);
    assert_int_equal(mot_json_get_bool(o, "f", "b", &b), 0);
    assert_int_equal(b, 1);
    assert_int_equal(mot_json_get_bool(o, "f", "i", &b), -EINVAL);
    assert_int_equal(mot_json_get_string(o, "f", "s", &s), 0);
    assert_string_equal(s, "t");
    assert_int_equal(mot_json_get_string(o, "f", "a", &s), -EINVAL);
    assert_int_equal(mot_json_get_array(o, "f", "a", &child), 0);
    assert_int_equal(mot_json_get_array(o, "f", "o", &child), -EINVAL);
    assert_int_equal(mot_json_get_object(o, "f", "o", &child), 0);
    assert_int_equal(mot_json_get_object(child, "f", "a", &child), -EINVAL);
    assert_false(mot_json_has(o, "n"));
    assert_false(mot_json_has(o, "none"));
    json_decref(o);
}

static void test_written(void **state)
{
    (void)state;
    float values[1000];
    uint32_t bits = 12345;
    for (int i = 0; i < 1000; i++) {
        bits = bits * 1664525u + 1013904223u;
        memcpy(&values[i], &bits, 4);
    }
    values[0] = NAN;
    values[1] = -INFINITY;
    json_t *array = mot_json_numbers(values, 1000);
    char *text = mot_json_text(array);
    json_t *back = parsed(text);
    assert_null(strstr(text, "nan"));
    assert_null(strchr(text, '\n'));
    for (int i = 0; i < 1000; i++) {
        const json_t *number = json_array_get(back, i);
        if (!isfinite(values[i])) {
            assert_true(json_is_null(number));
            continue;
        }
        const float again = (float)json_real_value(number);
        assert_memory_equal(&again, &values[i], 4);
    }
    free(text);
    json_decref(back);
    json_decref(array);
}

static void test_bad_text(void **state)
{
    (void)state;
    static const char bytes[] = "a\0\xc3\xa9\xc0\x80\xed\xa0\x80\xf0\x9f\x98\x80\xf4\x90\xe2\x82";
    json_t *string = mot_json_string(bytes, sizeof(bytes) - 1);
#define BAD "\xef\xbf\xbd"
    assert_string_equal(json_string_value(string),
                        "a" BAD "\xc3\xa9" BAD BAD BAD BAD BAD "\xf0\x9f\x98\x80" BAD BAD BAD BAD);
    json_decref(string);
    string = mot_json_string("", 0);
    assert_string_equal(json_string_value(string), "");
    json_decref(string);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_files),
        cmocka_unit_test(test_getters),  cmocka_unit_test(test_written),
        cmocka_unit_test(test_bad_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
