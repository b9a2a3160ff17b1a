/* gguf: every tensor of the files in data/gguf has its type and its first values as gguf-py
 * dequantises them, bit for bit; metadata of every type come back, of the wrong type are one
 * message; an unread type, a wrong count, size, offset or alignment is one message naming file and
 * place. */
#include "gguf.h"
#include "json.h"
#include "scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void check_file(const char *name, const json_t *expected)
{
    char *path = mot_format("%s/gguf/%s", MOT_TEST_DATA, name);
    struct mot_gguf *gguf;
    const char *tensor_name;
    json_t *values;
    size_t n = 0;
    assert_int_equal(mot_gguf_is(path), 1);
    assert_int_equal(mot_gguf_open(path, &gguf), 0);
    json_object_foreach(json_object_get(expected, "first"), tensor_name, values)
    {
        const struct mot_gguf_tensor *tensor = mot_gguf_find(gguf, tensor_name);
        float row[1024];
        assert_non_null(tensor);
        assert_true(tensor->size[0] <= 1024);
        const json_t *type = json_object_get(json_object_get(expected, "types"), tensor_name);
        assert_string_equal(tensor->type->name, json_string_value(type));
        assert_int_equal(mot_gguf_read_rows(gguf, tensor, 0, 1, row), 0);
        for (size_t i = 0; i < json_array_size(values); i++) {
            const double want = json_number_value(json_array_get(values, i));
            if (!(row[i] == (float)want)) {
                fail_msg("%s %s: number %zu is %.9g, expected %.9g", name, tensor_name, i,
                         (double)row[i], want);
            }
        }
        n++;
    }
    assert_int_equal(n, mot_gguf_n_tensors(gguf));
    mot_gguf_close(gguf);
    free(path);
}

static void test_values(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny-F32.gguf",  "tiny-F16.gguf",  "tiny-BF16.gguf",
                                        "tiny-Q8_0.gguf", "tiny-Q4_0.gguf", "tiny-Q4_1.gguf"};
    json_t *root;
    assert_int_equal(mot_json_load(MOT_TEST_DATA "/gguf/tiny-gguf.json", 1 << 24, &root), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *expected = json_object_get(json_object_get(root, "files"), names[i]);
        assert_non_null(expected);
        check_file(names[i], expected);
    }
    json_decref(root);
}

/* Later blocks, later rows: what was dequantised stays near the float32 original, in every row. */
static void test_all_rows(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        double limit; /* of the error, relative to the largest number of the row */
    } files[] = {{MOT_TEST_DATA "/gguf/tiny-F16.gguf", 0.0005},
                 {MOT_TEST_DATA "/gguf/tiny-BF16.gguf", 0.004},
                 {MOT_TEST_DATA "/gguf/tiny-Q8_0.gguf", 0.005},
                 {MOT_TEST_DATA "/gguf/tiny-Q4_0.gguf", 0.13},
                 {MOT_TEST_DATA "/gguf/tiny-Q4_1.gguf", 0.08}};
    struct mot_gguf *exact, *gguf;
    assert_int_equal(mot_gguf_open(MOT_TEST_DATA "/gguf/tiny-F32.gguf", &exact), 0);
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        assert_int_equal(mot_gguf_open(files[f].path, &gguf), 0);
        for (size_t t = 0; t < mot_gguf_n_tensors(gguf); t++) {
            const struct mot_gguf_tensor *tensor = mot_gguf_tensor(gguf, t);
            const struct mot_gguf_tensor *same = mot_gguf_find(exact, tensor->name);
            for (size_t r = 0; r < tensor->size[1]; r++) {
                float got[256], want[256];
                double largest = 0.0, error = 0.0;
                assert_int_equal(tensor->size[0], 256);
                assert_int_equal(mot_gguf_read_rows(gguf, tensor, r, 1, got), 0);
                assert_int_equal(mot_gguf_read_rows(exact, same, r, 1, want), 0);
                for (int i = 0; i < 256; i++) {
                    largest = fmax(largest, fabs((double)want[i]));
                    error = fmax(error, fabs((double)got[i] - (double)want[i]));
                }
                assert_true(error <= files[f].limit * largest);
            }
        }
        mot_gguf_close(gguf);
    }
    mot_gguf_close(exact);
}

/* ---- Files made here ----------------------------------------------------------------------- */

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

static void put_header(struct bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_values)
{
    bytes_put(b, "GGUF", 4);
    bytes_put_u32(b, version);
    bytes_put_u64(b, n_tensors);
    bytes_put_u64(b, n_values);
}

static void put_key(struct bytes *b, const char *key, uint32_t type)
{
    bytes_put_text(b, key);
    bytes_put_u32(b, type);
}

static void put_array(struct bytes *b, uint32_t type, uint64_t count)
{
    bytes_put_u32(b, type);
    bytes_put_u64(b, count);
}

/* A (2, 3) float32 tensor's line at that offset. */
static void put_tensor(struct bytes *b, const char *name, uint64_t offset)
{
    bytes_put_text(b, name);
    bytes_put_u32(b, 2);
    bytes_put_u64(b, 3);
    bytes_put_u64(b, 2);
    bytes_put_u32(b, 0);
    bytes_put_u64(b, offset);
}

static struct mot_gguf *open_bytes(struct bytes *b)
{
    char *path = scratch_path("made.gguf");
    struct mot_gguf *gguf = NULL;
    scratch_write(path, b->at, b->n);
    bytes_free(b);
    assert_int_equal(mot_gguf_open(path, &gguf), 0);
    free(path);
    return gguf;
}

static void refuse_bytes(struct bytes *b, const char *word)
{
    char *path = scratch_path("made.gguf");
    struct mot_gguf *gguf = NULL;
    scratch_write(path, b->at, b->n);
    bytes_free(b);
    catch_begin();
    const int status = mot_gguf_open(path, &gguf);
    assert_true(failed_well(status, catch_end(), path, word));
    free(path);
}

static void put_scalars(struct bytes *b)
{
    const float single = 1.5f;
    const double twice = 0.1;
    put_key(b, "u8", U8), bytes_put(b, "\xff", 1);
    put_key(b, "i8", I8), bytes_put(b, "\xff", 1);
    put_key(b, "u16", U16), bytes_put(b, "\xfe\xff", 2);
    put_key(b, "i16", I16), bytes_put(b, "\xfe\xff", 2);
    put_key(b, "u32", U32), bytes_put_u32(b, 0xffffffffu);
    put_key(b, "i32", I32), bytes_put_u32(b, 0xffffffffu);
    put_key(b, "f32", F32), bytes_put(b, &single, 4);
    put_key(b, "yes", BOOL), bytes_put(b, "\1", 1);
    put_key(b, "bad", BOOL), bytes_put(b, "\2", 1);
    put_key(b, "text", STRING), bytes_put_u64(b, 3), bytes_put(b, "a\0b", 3);
    put_key(b, "u64", U64), bytes_put_u64(b, UINT64_MAX);
    put_key(b, "i64", I64), bytes_put_u64(b, (uint64_t)-5);
    put_key(b, "f64", F64), bytes_put(b, &twice, 8);
}

static void test_scalars(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int64_t value;
    } integers[] = {{"u8", 255},         {"i8", -1},  {"u16", 65534}, {"i16", -2},
                    {"u32", 4294967295}, {"i32", -1}, {"i64", -5}};
    for (uint32_t version = 2; version <= 3; version++) {
        struct bytes b = {0};
        put_header(&b, version, 0, 13);
        put_scalars(&b);
        struct mot_gguf *gguf = open_bytes(&b);
        int64_t integer = 77;
        double number;
        int truth;
        struct mot_gguf_text text;
        for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
            assert_int_equal(mot_gguf_int(gguf, integers[i].key, &integer), 1);
            assert_true(integer == integers[i].value);
        }
        assert_int_equal(mot_gguf_int(gguf, "absent", &integer), 0);
        assert_true(integer == -5);
        assert_true(mot_gguf_float(gguf, "f32", &number) == 1 && number == 1.5);
        assert_true(mot_gguf_float(gguf, "f64", &number) == 1 && number == 0.1);
        assert_true(mot_gguf_float(gguf, "i8", &number) == 1 && number == -1.0);
        assert_true(mot_gguf_bool(gguf, "yes", &truth) == 1 && truth == 1);
        assert_int_equal(mot_gguf_string(gguf, "text", &text), 1);
        assert_int_equal(text.n, 3);
        assert_memory_equal(text.bytes, "a\0b", 3);
        assert_string_equal(mot_gguf_key(gguf, 0), "u8");
        assert_null(mot_gguf_key(gguf, 13));
        catch_begin();
        int status = mot_gguf_int(gguf, "u64", &integer);
        assert_true(failed_well(status, catch_end(), "made.gguf", "u64"));
        catch_begin();
        status = mot_gguf_bool(gguf, "bad", &truth);
        assert_true(failed_well(status, catch_end(), "made.gguf", "bad"));
        catch_begin();
        status = mot_gguf_string(gguf, "i8", &text);
        assert_true(failed_well(status, catch_end(), "made.gguf", "i8 is of type int8"));
        catch_begin();
        status = mot_gguf_int(gguf, "text", &integer);
        assert_true(failed_well(status, catch_end(), "made.gguf", "text is of type string"));
        mot_gguf_close(gguf);
    }
}

static void test_arrays(void **state)
{
    (void)state;
    struct bytes b = {0};
    put_header(&b, 3, 0, 4);
    put_key(&b, "words", ARRAY), put_array(&b, STRING, 2);
    bytes_put_text(&b, "one"), bytes_put_text(&b, "");
    put_key(&b, "numbers", ARRAY), put_array(&b, I16, 2), bytes_put(&b, "\1\0\xff\xff", 4);
    put_key(&b, "none", ARRAY), put_array(&b, F32, 0);
    put_key(&b, "nested", ARRAY), put_array(&b, ARRAY, 1), put_array(&b, U8, 1),
        bytes_put(&b, "x", 1);
    struct mot_gguf *gguf = open_bytes(&b);
    struct mot_gguf_text *words;
    int64_t *integers;
    double *numbers;
    size_t n;
    assert_int_equal(mot_gguf_strings(gguf, "words", &words, &n), 1);
    assert_int_equal(n, 2);
    assert_int_equal(words[0].n, 3);
    assert_memory_equal(words[0].bytes, "one", 3);
    assert_int_equal(words[1].n, 0);
    free(words);
    assert_int_equal(mot_gguf_ints(gguf, "numbers", &integers, &n), 1);
    assert_true(n == 2 && integers[0] == 1 && integers[1] == -1);
    free(integers);
    assert_int_equal(mot_gguf_floats(gguf, "numbers", &numbers, &n), 1);
    assert_true(n == 2 && numbers[0] == 1.0 && numbers[1] == -1.0);
    free(numbers);
    assert_int_equal(mot_gguf_floats(gguf, "none", &numbers, &n), 1);
    assert_int_equal(n, 0);
    free(numbers);
    assert_true(mot_gguf_array_length(gguf, "nested", &n) == 1 && n == 1);
    catch_begin();
    int status = mot_gguf_ints(gguf, "nested", &integers, &n);
    assert_true(failed_well(status, catch_end(), "made.gguf", "nested is of type array of array"));
    catch_begin();
    status = mot_gguf_strings(gguf, "numbers", &words, &n);
    assert_true(failed_well(status, catch_end(), "made.gguf", "numbers is of type array of int16"));
    catch_begin();
    status = mot_gguf_floats(gguf, "words", &numbers, &n);
    assert_true(failed_well(status, catch_end(), "made.gguf", "words is of type array of string"));
    mot_gguf_close(gguf);
}

static void test_bad_headers(void **state)
{
    (void)state;
    struct bytes b = {0};
    bytes_put(&b, "GGML", 4), refuse_bytes(&b, "not a GGUF");
    put_header(&b, 1, 0, 0), refuse_bytes(&b, "version 1");
    put_header(&b, 0x03000000, 0, 0), refuse_bytes(&b, "big-endian");
    put_header(&b, 3, 0, UINT64_MAX), refuse_bytes(&b, "metadata pairs");
    put_header(&b, 3, UINT64_MAX, 0), refuse_bytes(&b, "tensors");
    put_header(&b, 3, 0, 1), put_key(&b, "", U8), bytes_put(&b, "xxxxxx", 6);
    refuse_bytes(&b, "0 characters");
    put_header(&b, 3, 0, 1), put_key(&b, "a\nb", U8), bytes_put(&b, "xxxx", 4);
    refuse_bytes(&b, "control character");
    put_header(&b, 3, 0, 1), put_key(&b, "a", 13), bytes_put_u64(&b, 0);
    refuse_bytes(&b, "unknown type 13");
    put_header(&b, 3, 0, 2), put_key(&b, "a", U8), bytes_put(&b, "x", 1);
    put_key(&b, "a", U8), bytes_put(&b, "x", 1);
    refuse_bytes(&b, "a comes twice");
    put_header(&b, 3, 0, 1), put_key(&b, "a", STRING), bytes_put_u64(&b, UINT64_MAX);
    refuse_bytes(&b, "ends inside a");
    put_header(&b, 3, 0, 1), put_key(&b, "a", ARRAY), put_array(&b, U64, UINT64_MAX);
    refuse_bytes(&b, "more than the file");
    put_header(&b, 3, 0, 1), put_key(&b, "a", ARRAY), put_array(&b, 99, 0);
    refuse_bytes(&b, "unknown type 99");
    put_header(&b, 3, 0, 1), put_key(&b, "a", ARRAY);
    for (int i = 0; i < 9; i++) { put_array(&b, ARRAY, 1); }
    refuse_bytes(&b, "deeper");
    put_header(&b, 3, 0, 1), put_key(&b, "general.alignment", U32), bytes_put_u32(&b, 0);
    refuse_bytes(&b, "alignment");
}

/* A good file of two tensors, a and b, of 24 bytes each at offsets 0 and second. */
static void put_two(struct bytes *b, const char *name, uint64_t second)
{
    put_header(b, 3, 2, 0);
    put_tensor(b, "a", 0);
    put_tensor(b, name, second);
    bytes_align(b, 32);
    for (int i = 0; i < 56; i++) { bytes_put(b, "", 1); }
}

/* Overwrites n bytes at `back` bytes before the end of the header of put_two. */
static void put_two_patched(struct bytes *b, size_t back, const void *bytes, size_t n)
{
    put_two(b, "b", 32);
    const size_t header = 4 + 4 + 8 + 8 + 2 * (8 + 1 + 4 + 8 + 8 + 4 + 8);
    memcpy(b->at + header - back, bytes, n);
}

static void test_bad_tensors(void **state)
{
    (void)state;
    const uint64_t zero = 0, huge = (uint64_t)1 << 63;
    const uint32_t five = 5, q8_0 = 8;
    struct bytes b = {0};
    put_two(&b, "b", 32);
    mot_gguf_close(open_bytes(&b));
    put_two(&b, "a", 32), refuse_bytes(&b, "tensor a comes twice");
    put_two(&b, "b", 0), refuse_bytes(&b, "overlap");
    put_two(&b, "b", 8), refuse_bytes(&b, "alignment");
    put_two(&b, "b", 64), refuse_bytes(&b, "tensor b lies beyond");
    put_two(&b, "b", UINT64_MAX - 31), refuse_bytes(&b, "tensor b lies beyond");
    put_two(&b, "b", 32), b.n--, refuse_bytes(&b, "tensor b lies beyond");
    put_two_patched(&b, 20, &zero, 8), refuse_bytes(&b, "tensor b has a dimension of 0");
    put_two_patched(&b, 20, &huge, 8), refuse_bytes(&b, "overflows");
    put_two_patched(&b, 32, &five, 4), refuse_bytes(&b, "tensor b has 5 dimensions");
    put_two_patched(&b, 12, &q8_0, 4), refuse_bytes(&b, "tensor b has rows of 3 numbers");
}

/* Tensors of 24 bytes, 16 apart: not the same offset, yet one over the other. */
static void test_overlap(void **state)
{
    (void)state;
    struct bytes b = {0};
    put_header(&b, 3, 2, 1);
    put_key(&b, "general.alignment", U32), bytes_put_u32(&b, 8);
    put_tensor(&b, "a", 0);
    put_tensor(&b, "b", 16);
    for (int i = 0; i < 64; i++) { bytes_put(&b, "", 1); }
    refuse_bytes(&b, "tensors a and b overlap");
}

static void test_unread_type(void **state)
{
    (void)state;
    const uint32_t q4_k = 12;
    struct bytes b = {0};
    float row[3];
    put_two_patched(&b, 12, &q4_k, 4);
    struct mot_gguf *gguf = open_bytes(&b);
    catch_begin();
    const int status = mot_gguf_read_rows(gguf, mot_gguf_find(gguf, "b"), 0, 1, row);
    assert_true(failed_well(status, catch_end(), "made.gguf", "tensor b has type Q4_K (12)"));
    mot_gguf_close(gguf);
}

int main(void)
{
    scratch_begin("test_gguf");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),      cmocka_unit_test(test_all_rows),
        cmocka_unit_test(test_scalars),     cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_bad_headers), cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_unread_type), cmocka_unit_test(test_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
