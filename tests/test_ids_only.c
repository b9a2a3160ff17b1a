/* A model that comes without a tokenizer takes ids: motley logprob gives the recorded values of
 * PyTorch for all four tiny models, sft trains on input_ids and writes checkpoints without a
 * tokenizer; text is a one-line error that names the model. */
#include "program.h"
#include <math.h>

static const char *const models[] = {"tiny-qwen2", "tiny-qwen3", "tiny-llama-tied",
                                     "tiny-llama-untied-gqa1"};

static json_t *expected_of(const char *model)
{
    char *path = mot_format(MOT_TEST_DATA "/%s.json", model);
    json_t *expected = json_load_file(path, 0, NULL);
    MOT_ASSERT(expected);
    free(path);
    return expected;
}

/* The recorded rows as lines of input_ids, each as long as it is. */
static void write_rows(const json_t *expected)
{
    char *path = scratch_path("rows.jsonl");
    FILE *file = fopen(path, "w");
    MOT_ASSERT(file);
    for (size_t b = 0; b < json_array_size(json_object_get(expected, "ids")); b++) {
        const json_t *ids = json_array_get(json_object_get(expected, "ids"), b);
        const json_int_t n =
            json_integer_value(json_array_get(json_object_get(expected, "lengths"), b));
        json_t *row = json_array();
        for (json_int_t i = 0; i < n; i++) {
            json_array_append(row, json_array_get(ids, (size_t)i));
        }
        json_t *line = json_pack("{s:o}", "input_ids", row);
        json_dumpf(line, file, JSON_COMPACT);
        putc('\n', file);
        json_decref(line);
    }
    MOT_ASSERT(fclose(file) == 0);
    free(path);
}

/* Log-probs within 1e-4 of the recorded ones, the tolerance of tests/data/README.md. */
static void test_logprob(const char *model)
{
    json_t *expected = expected_of(model);
    write_rows(expected);
    program_must(0, "logprob --model " MOT_TEST_DATA "/%s @/rows.jsonl", model);
    json_t *got = lines_load("@/stdout");
    const json_t *all = json_object_get(expected, "logprob");
    MOT_ASSERT(json_array_size(got) == json_array_size(all));
    for (size_t b = 0; b < json_array_size(got); b++) {
        const json_t *row = json_object_get(json_array_get(got, b), "logprob");
        MOT_ASSERT(json_array_size(row) > 0);
        for (size_t i = 0; i < json_array_size(row); i++) {
            const double x = json_number_value(json_array_get(row, i));
            const double y = json_number_value(json_array_get(json_array_get(all, b), i));
            if (!(fabs(x - y) <= 1e-4)) {
                printf("FAIL: %s row %zu [%zu]: %.9g, expected %.9g\n", model, b, i, x, y);
                exit(1);
            }
        }
    }
    json_decref(got);
    json_decref(expected);
}

static void must_fail(const char *command, const char *words)
{
    program_must(1, "%s", command);
    if (!strstr(program_errors, words)) {
        printf("FAIL: no \"%s\" in: %s\n", words, program_errors);
        exit(1);
    }
}

static void test_sft(void)
{
    program_must(0, "sft --model " MOT_TEST_DATA "/tiny-qwen2 --train_file @/rows.jsonl"
                    " --per_device_train_batch_size 3 --max_steps 2 --output_dir @/run");
    char *model = program_words("@/run/model/model.safetensors");
    char *tokenizer = program_words("@/run/model/tokenizer.json");
    MOT_ASSERT(access(model, R_OK) == 0 && access(tokenizer, F_OK) != 0);
    free(model);
    free(tokenizer);
    program_must(0, "logprob --model @/run/model @/rows.jsonl");
}

static void test_text(void)
{
    static const char row[] = "{\"text\":\"hello\"}\n";
    char *path = scratch_path("text.jsonl");
    scratch_write(path, row, sizeof(row) - 1);
    must_fail("logprob --model " MOT_TEST_DATA "/tiny-qwen2 @/text.jsonl", "tokenizer.json");
    must_fail("generate --model " MOT_TEST_DATA "/tiny-qwen2 --prompt hello", "tokenizer.json");
    free(path);
}

int main(void)
{
    scratch_begin("test_ids_only");
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) { test_logprob(models[i]); }
    json_t *rows = expected_of("tiny-qwen2");
    write_rows(rows);
    json_decref(rows);
    test_sft();
    test_text();
    return 0;
}
