/* The whole transformer on the CPU against PyTorch: four tiny models (Llama tied and untied with
 * one key-value head, Qwen2 with biases, Qwen3 with norms of q and k), every logit, log-prob,
 * entropy and gradient recorded, and eight AdamW steps with weight decay and clipping; one tiny
 * Llama in each number format of GGUF.  Tolerances: log-probs 1e-4; gradients 1e-3 of the tensor's
 * norm; AdamW 1e-5.  Rows beyond their length are never packed, so ids there cannot matter. */
#include "reference_file.h"

#include <cmocka.h>

static void check_tiny(void **state)
{
    const char *name = *state;
    struct reference ref;
    reference_open(&ref, name, MOT_TEST_DATA, name);
    const struct reference_limits limits = {
        .logprob = 1e-4, .gradient = 1e-3, .adamw = 1e-5, .chunk = 7};
    reference_check_forward(&ref, &limits);
    reference_check_gradients(&ref, &limits);
    reference_check_adamw(&ref, &limits);
    reference_close(&ref);
}

static void check_gguf(void **state)
{
    const char *file = *state;
    char path[512];
    snprintf(path, sizeof(path), "%s/gguf/%s", MOT_TEST_DATA, file);
    struct network net = reference_network(path);
    json_t *all = reference_json(MOT_TEST_DATA "/gguf/tiny-gguf.json");
    json_t *entry = json_object_get(json_object_get(all, "files"), file);
    assert_non_null(entry);
    struct rows rows = reference_rows(json_object_get(all, "ids"), json_object_get(all, "lengths"));
    float logprob[256], entropy[256];
    rows_logprobs(&net, &rows, 5, logprob, entropy);
    check_rows(&rows, json_object_get(entry, "logprob"), logprob, 1e-4, file);
    rows_free(&rows);
    json_decref(all);
    network_destroy(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"tiny-llama-tied", check_tiny, NULL, NULL, "tiny-llama-tied"},
        {"tiny-llama-untied-gqa1", check_tiny, NULL, NULL, "tiny-llama-untied-gqa1"},
        {"tiny-qwen2", check_tiny, NULL, NULL, "tiny-qwen2"},
        {"tiny-qwen3", check_tiny, NULL, NULL, "tiny-qwen3"},
        {"tiny-F32.gguf", check_gguf, NULL, NULL, "tiny-F32.gguf"},
        {"tiny-F16.gguf", check_gguf, NULL, NULL, "tiny-F16.gguf"},
        {"tiny-BF16.gguf", check_gguf, NULL, NULL, "tiny-BF16.gguf"},
        {"tiny-Q8_0.gguf", check_gguf, NULL, NULL, "tiny-Q8_0.gguf"},
        {"tiny-Q4_0.gguf", check_gguf, NULL, NULL, "tiny-Q4_0.gguf"},
        {"tiny-Q4_1.gguf", check_gguf, NULL, NULL, "tiny-Q4_1.gguf"},
    };
    return cmocka_run_group_tests_name("transformer", tests, NULL, NULL);
}
