/* motley convert: a GGUF file becomes a HF directory that loads as the same model with its
 * tokenizer; a directory that holds something is not overwritten; bad input exits 1, bad usage 2,
 * and neither leaves anything behind. */
#include "model.h"
#include "scratch.h"
#include "tiny_model.h"
#include "tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

static const char *const gguf = MOT_TEST_DATA "/gguf/tiny-Q8_0.gguf";

/* Runs motley convert with those words; its exit code. */
static int convert(const char *words)
{
    char *command = mot_format("%s/motley convert %s 2>/dev/null", MOT_BINARY_DIR, words);
    const int status = system(command);
    free(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_gguf(void **state)
{
    (void)state;
    char *out = scratch_path("a/b"), *words = mot_format("%s %s/", gguf, out);
    struct mot_model from, to;
    struct mot_tokenizer *tokenizer;
    assert_int_equal(convert(words), 0);
    assert_int_equal(mot_model_load(gguf, &from), 0);
    assert_int_equal(mot_model_load(out, &to), 0);
    for (int g = 0; g < from.layout.n_groups; g++) {
        assert_memory_equal(from.groups[g], to.groups[g],
                            from.layout.group_floats[g] * sizeof(float));
    }
    mot_model_destroy(&from);
    mot_model_destroy(&to);
    assert_int_equal(mot_tokenizer_load(out, &tokenizer), 0);
    assert_int_equal(mot_tokenizer_eos(tokenizer), 2);
    mot_tokenizer_destroy(tokenizer);
    assert_int_equal(convert(words), 1); /* not empty now */
    free(words);
    free(out);
}

/* The embedded model, which the other commands call tiny:SEED too. */
static void test_tiny(void **state)
{
    (void)state;
    char *out = scratch_path("tiny"), *words = mot_format("tiny:3 %s", out);
    struct mot_model from, to;
    assert_int_equal(convert(words), 0);
    assert_int_equal(mot_tiny_model_init("tiny:3", &from), 0);
    assert_int_equal(mot_model_load(out, &to), 0);
    assert_memory_equal(from.groups[0], to.groups[0], from.layout.group_floats[0] * sizeof(float));
    mot_model_destroy(&from);
    mot_model_destroy(&to);
    char *command =
        mot_format("cd %s && echo 12+3= | %s/motley tokenize --model tiny:3 - >ids-a && "
                   "echo 12+3= | %s/motley tokenize --model %s - >ids-b && cmp ids-a ids-b",
                   scratch_directory, MOT_BINARY_DIR, MOT_BINARY_DIR, out);
    assert_int_equal(system(command), 0);
    free(command);
    free(words);
    words = mot_format("tiny:x %s-x", out);
    assert_int_equal(convert(words), 1);
    command =
        mot_format("%s/motley tokenize --model tiny:x - 2>/dev/null </dev/null", MOT_BINARY_DIR);
    assert_int_equal(system(command) >> 8, 1);
    free(command);
    free(words);
    free(out);
}

static void test_refusals(void **state)
{
    (void)state;
    char *out = scratch_path("none"), *bad = scratch_path("bad.gguf");
    char *words = mot_format("%s %s", bad, out);
    scratch_write(bad, "GGUF\3\0\0\0", 8);
    assert_int_equal(convert(words), 1);
    assert_int_equal(access(out, F_OK), -1);
    free(words);
    words = mot_format("%s %s", gguf, bad); /* OUT is a file */
    assert_int_equal(convert(words), 1);
    assert_int_equal(convert(""), 2);
    assert_int_equal(convert("one"), 2);
    assert_int_equal(convert("one two three"), 2);
    assert_int_equal(convert("--fast one two"), 2);
    free(words);
    free(bad);
    free(out);
}

int main(void)
{
    scratch_begin("test_convert");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
