/* safetensors: a written file has the bytes the format asks for and reads back bit for bit, in all
 * formats and shapes, from one file and from shards; each kind of lie in a header is one message
 * that names file and tensor; a failed write leaves the old file. */
#include "safetensors.h"
#include "scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void write_file(const char *path, const char *header, size_t data_bytes)
{
    struct bytes file = {0};
    bytes_put_u64(&file, strlen(header));
    bytes_put(&file, header, strlen(header));
    for (size_t i = 0; i < data_bytes; i++) { bytes_put(&file, "", 1); }
    scratch_write(path, file.at, file.n);
    bytes_free(&file);
}

static void test_round_trip(void **state)
{
    (void)state;
    const struct mot_safetensors_entry entries[] = {
        {"b", MOT_F32, 2, {2, 3}}, {"a", MOT_BF16, 1, {3}}, {"c", MOT_F16, 0, {0}}};
    const float b[6] = {1.5f, -2.0f, 0.1f, 3e38f, -0.0f, 1e-40f};
    const uint16_t a[3] = {0x3f80, 0xc000, 0x0001}, c = 0x3c01;
    char *path = scratch_path("round.safetensors");
    struct mot_safetensors_writer *writer;
    assert_int_equal(mot_safetensors_create(path, entries, 3, &writer), 0);
    assert_int_equal(mot_safetensors_append(writer, b, 10), 0); /* any portions */
    assert_int_equal(mot_safetensors_append(writer, (const char *)b + 10, sizeof(b) - 10), 0);
    assert_int_equal(mot_safetensors_append(writer, a, sizeof(a)), 0);
    assert_int_equal(mot_safetensors_append(writer, &c, sizeof(c)), 0);
    assert_int_equal(mot_safetensors_finish(writer), 0);

    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[24,30]},"
        "\"c\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[30,32]}}";
    size_t n;
    char *bytes = scratch_read(path, &n);
    uint64_t length;
    memcpy(&length, bytes, sizeof(length));
    assert_int_equal(length % 8, 0);
    assert_in_range(length, sizeof(header) - 1, sizeof(header) + 6);
    assert_memory_equal(bytes + 8, header, sizeof(header) - 1);
    for (size_t i = sizeof(header) - 1; i < length; i++) { assert_int_equal(bytes[8 + i], ' '); }
    assert_int_equal(n, 8 + length + 32);
    free(bytes);

    struct mot_safetensors *st;
    assert_int_equal(mot_safetensors_open(path, &st), 0);
    assert_int_equal(mot_safetensors_n(st), 3);
    assert_string_equal(mot_safetensors_at(st, 0)->name, "a");
    assert_null(mot_safetensors_find(st, "d"));
    float got[6];
    assert_int_equal(mot_safetensors_read(mot_safetensors_find(st, "b"), got), 0);
    assert_memory_equal(got, b, sizeof(b));
    assert_int_equal(mot_safetensors_read(mot_safetensors_find(st, "a"), got), 0);
    assert_true(got[0] == 1.0f && got[1] == -2.0f && got[2] == 0x1p-133f);
    assert_int_equal(mot_safetensors_find(st, "c")->numbers, 1);
    assert_int_equal(mot_safetensors_read(mot_safetensors_find(st, "c"), got), 0);
    assert_true(got[0] == 1.0009765625f);
    mot_safetensors_close(st);
    free(path);
}

/* What a hostile or damaged header may say, and a word of the message. */
static const struct {
    const char *header, *word;
    size_t data_bytes;
} lies[] = {
    {"", "JSON", 0},
    {"[]", "object", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", "JSON", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}x", "JSON", 4},
    {"{\"a\":1,\"a\":2}", "duplicate", 0},
    {"{\"a\":1}", "a is not an object", 0},
    {"{\"__metadata__\":[]}", "__metadata__", 0},
    {"{\"__metadata__\":{\"x\":1}}", "__metadata__", 0},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", "tensor a has no dtype", 4},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", "unknown dtype \"F33\"",
     4},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "tensor a has no shape", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "tensor a", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", "tensor a", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "8", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
     "overflow", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", "differ",
     0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "differ", 4},
    {"{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}", "differ", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "data_offsets", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "data_offsets", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", "data_offsets", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,99999999999999999999]}}", "JSON",
     4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "truncated", 4},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "belong to no tensor", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", "belong to no tensor", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
     "overlap", 12},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     "overlap", 4},
};

static void test_lies(void **state)
{
    (void)state;
    char *path = scratch_path("lie.safetensors");
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct mot_safetensors *st;
        write_file(path, lies[i].header, lies[i].data_bytes);
        catch_begin();
        const int status = mot_safetensors_open(path, &st);
        assert_true(failed_well(status, catch_end(), path, lies[i].word));
    }
    free(path);
}

/* Formats that are known by size only can lie in a file; reading them is an error. */
static void test_unread_format(void **state)
{
    (void)state;
    char *path = scratch_path("int.safetensors");
    struct mot_safetensors *st;
    float number;
    write_file(path, "{\"ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8);
    assert_int_equal(mot_safetensors_open(path, &st), 0);
    catch_begin();
    const int status = mot_safetensors_read(mot_safetensors_find(st, "ids"), &number);
    assert_true(failed_well(status, catch_end(), path, "tensor ids has dtype I64"));
    mot_safetensors_close(st);
    free(path);
}

static void test_header_length(void **state)
{
    (void)state;
    char *path = scratch_path("length.safetensors");
    const uint64_t lengths[] = {1, 100, 100000001, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    struct mot_safetensors *st;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        scratch_write(path, &lengths[i], sizeof(lengths[i]));
        catch_begin();
        const int status = mot_safetensors_open(path, &st);
        assert_true(failed_well(status, catch_end(), path, "header of"));
    }
    scratch_write(path, "1234567", 7);
    catch_begin();
    int status = mot_safetensors_open(path, &st);
    assert_true(failed_well(status, catch_end(), path, "too few"));
    scratch_write(path, "", 0);
    catch_begin();
    status = mot_safetensors_open(path, &st);
    assert_true(failed_well(status, catch_end(), path, "too few"));
    free(path);
}

/* An index and what is wrong with it; shard x holds tensor a, shard y holds b, shard z also a. */
static const struct {
    const char *index, *word;
} indices[] = {
    {"{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"y.safetensors\"}}", NULL},
    {"{}", "weight_map"},
    {"{\"weight_map\":{}}", "weight_map"},
    {"{\"weight_map\":{\"a\":1}}", "plain file name"},
    {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "plain file name"},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "plain file name"},
    {"{\"weight_map\":{\"a\":\"none.safetensors\"}}", "none.safetensors"},
    {"{\"weight_map\":{\"a\":\"x.safetensors\",\"c\":\"y.safetensors\"}}", "tensor b"},
    {"{\"weight_map\":{\"a\":\"y.safetensors\",\"b\":\"x.safetensors\"}}", "tensor a"},
    {"{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"x.safetensors\"}}", "tensor b"},
    {"{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"y.safetensors\",\"c\":\"z.safetensors\"}}",
     "tensor a comes in two files"},
};

static void test_shards(void **state)
{
    (void)state;
    char *directory = scratch_path("shards");
    assert_int_equal(mot_make_directories(directory), 0);
    const char names[] = {'x', 'y', 'z'}, tensors[] = {'a', 'b', 'a'};
    for (int i = 0; i < 3; i++) {
        char *path = mot_format("%s/%c.safetensors", directory, names[i]);
        char *header = mot_format(
            "{\"%c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", tensors[i]);
        write_file(path, header, 4);
        free(header);
        free(path);
    }
    char *path = mot_format("%s/model.safetensors.index.json", directory);
    for (size_t i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
        struct mot_safetensors *st;
        scratch_write(path, indices[i].index, strlen(indices[i].index));
        catch_begin();
        const int status = mot_safetensors_open(directory, &st);
        const int lines = catch_end();
        if (indices[i].word) {
            assert_true(failed_well(status, lines, directory, indices[i].word));
        } else {
            assert_int_equal(status, 0);
            assert_int_equal(mot_safetensors_n(st), 2);
            assert_non_null(mot_safetensors_find(st, "b"));
            mot_safetensors_close(st);
        }
    }
    free(path);
    free(directory);
}

/* An aborted write leaves what was there, and nothing beside it. */
static void test_abort(void **state)
{
    (void)state;
    const struct mot_safetensors_entry entry = {"a", MOT_F32, 1, {1}};
    char *path = scratch_path("old.safetensors"), *temporary = mot_format("%s.tmp", path);
    struct mot_safetensors_writer *writer;
    scratch_write(path, "old", 3);
    assert_int_equal(mot_safetensors_create(path, &entry, 1, &writer), 0);
    mot_safetensors_abort(writer);
    size_t n;
    char *bytes = scratch_read(path, &n);
    assert_string_equal(bytes, "old");
    assert_int_equal(access(temporary, F_OK), -1);
    free(bytes);
    free(temporary);
    free(path);
    catch_begin();
    const int status = mot_safetensors_create("/nowhere/a.safetensors", &entry, 1, &writer);
    assert_true(failed_well(status, catch_end(), "/nowhere/a.safetensors", "created"));
}

int main(void)
{
    scratch_begin("test_safetensors");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_lies),
        cmocka_unit_test(test_unread_format), cmocka_unit_test(test_header_length),
        cmocka_unit_test(test_shards),        cmocka_unit_test(test_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
