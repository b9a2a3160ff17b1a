/* model, fuzzed: 10,000 damaged safetensors, GGUF and config.json files, the same ones each
 * time (truncations, flipped bytes, moved blocks, planted sizes and offsets, exchanged JSON
 * values).  Each load either fails with exactly one line that names the file, or succeeds
 * silently; none crashes.  Prints how many were refused; under ASan and UBSan it also proves no
 * leak, no overflow. */
#include "json.h"
#include "model.h"
#include "rng.h"
#include "safetensors.h"
#include "scratch.h"
#include <signal.h>

enum { SAFETENSORS_CASES = 3500, GGUF_CASES = 4000, CONFIG_CASES = 2500 };

static volatile sig_atomic_t current_case;
static const char *current_kind = "";
static uint32_t draws; /* of the current case */

/* A number below bound, a function of case and draw. */
static uint32_t draw(uint32_t bound)
{
    return mot_uniform_int(7, MOT_RNG_TEST, (uint32_t)current_kind[0], (uint32_t)current_case,
                           draws++, bound);
}

static void crashed(int signal_number)
{
    char text[100];
    const int n = snprintf(text, sizeof(text), "signal %d in case %d of %s\n", signal_number,
                           (int)current_case, current_kind);
    if (write(real_stderr, text, (size_t)n) < 0) { _exit(3); }
    _exit(2);
}

/* ---- The sound files ----------------------------------------------------------------------- */

static struct mot_model tiny_model(void)
{
    const struct mot_model_info info = {.architecture = "LlamaForCausalLM",
                                        .shape = {.n_layers = 1,
                                                  .hidden_size = 8,
                                                  .intermediate_size = 8,
                                                  .n_heads = 2,
                                                  .n_kv_heads = 1,
                                                  .head_dim = 4,
                                                  .vocab_size = 12,
                                                  .max_position = 16,
                                                  .norm_eps = 1e-5f,
                                                  .rope_theta = 1e4,
                                                  .tied = 1},
                                        .bos_id = 1,
                                        .eos_id = 2,
                                        .pad_id = -1,
                                        .eos_ids = {2},
                                        .n_eos_ids = 1};
    struct mot_model model;
    MOT_ASSERT(mot_model_init(&model, &info, 3) == 0);
    return model;
}

static void put_int(struct bytes *b, const char *key, uint32_t value)
{
    bytes_put_text(b, key);
    bytes_put_u32(b, 4);
    bytes_put_u32(b, value);
}

static void put_metadata(struct bytes *b)
{
    bytes_put_text(b, "general.architecture");
    bytes_put_u32(b, 8);
    bytes_put_text(b, "llama");
    put_int(b, "llama.block_count", 1);
    put_int(b, "llama.context_length", 16);
    put_int(b, "llama.embedding_length", 8);
    put_int(b, "llama.feed_forward_length", 32);
    put_int(b, "llama.attention.head_count", 2);
    put_int(b, "llama.attention.head_count_kv", 1);
    put_int(b, "tokenizer.ggml.eos_token_id", 2);
    bytes_put_text(b, "tokenizer.ggml.tokens");
    bytes_put_u32(b, 9);
    bytes_put_u32(b, 8);
    bytes_put_u64(b, 3);
    for (int i = 0; i < 3; i++) { bytes_put_text(b, "abc"); }
}

/* A Llama of 8 wide, 1 layer; ffn_down, whose rows are 32 long, is Q8_0. */
static struct bytes tiny_gguf(void)
{
    static const struct {
        const char *name;
        uint32_t type, rows, cols;
    } tensors[] = {
        {"token_embd.weight", 0, 12, 8},       {"output_norm.weight", 0, 1, 8},
        {"blk.0.attn_norm.weight", 0, 1, 8},   {"blk.0.attn_q.weight", 1, 8, 8},
        {"blk.0.attn_k.weight", 30, 4, 8},     {"blk.0.attn_v.weight", 0, 4, 8},
        {"blk.0.attn_output.weight", 0, 8, 8}, {"blk.0.ffn_norm.weight", 0, 1, 8},
        {"blk.0.ffn_gate.weight", 0, 32, 8},   {"blk.0.ffn_up.weight", 0, 32, 8},
        {"blk.0.ffn_down.weight", 8, 8, 32},
    };
    const size_t n = sizeof(tensors) / sizeof(tensors[0]);
    struct bytes b = {0};
    uint64_t offset = 0;
    bytes_put(&b, "GGUF", 4);
    bytes_put_u32(&b, 3);
    bytes_put_u64(&b, n);
    bytes_put_u64(&b, 9);
    put_metadata(&b);
    for (size_t t = 0; t < n; t++) {
        const uint32_t type = tensors[t].type, dimensions = tensors[t].rows == 1 ? 1 : 2;
        bytes_put_text(&b, tensors[t].name);
        bytes_put_u32(&b, dimensions);
        bytes_put_u64(&b, tensors[t].cols);
        if (dimensions == 2) { bytes_put_u64(&b, tensors[t].rows); }
        bytes_put_u32(&b, type);
        bytes_put_u64(&b, offset);
        const uint64_t numbers = (uint64_t)tensors[t].rows * tensors[t].cols;
        const uint64_t size = type == 8 ? numbers / 32 * 34 : numbers * (type == 0 ? 4 : 2);
        offset += (size + 31) / 32 * 32;
    }
    bytes_align(&b, 32);
    for (uint64_t i = 0; i < offset; i++) { bytes_put(&b, i % 4 == 3 ? "\x3c" : "\x10", 1); }
    return b;
}

/* ---- Damage -------------------------------------------------------------------------------- */

/* A place in the first `header` bytes three times of four, else anywhere. */
static size_t draw_place(const struct bytes *b, size_t header)
{
    const size_t bound = draw(4) && header < b->n ? header : b->n;
    return bound ? draw((uint32_t)bound) : 0;
}

static void plant_number(struct bytes *b, size_t header)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       7,
                                       0x7f,
                                       0xff,
                                       0xffff,
                                       1u << 24,
                                       0x7fffffff,
                                       0x80000000,
                                       UINT32_MAX,
                                       1ull << 32,
                                       1ull << 40,
                                       INT64_MAX,
                                       1ull << 63,
                                       UINT64_MAX,
                                       UINT64_MAX - 31,
                                       0x4000000000000000ull};
    const uint64_t number = numbers[draw(sizeof(numbers) / sizeof(numbers[0]))];
    const size_t size = draw(2) ? 8 : 4, place = draw_place(b, header);
    if (place + size <= b->n) { memcpy(b->at + place, &number, size); }
}

static void damage(struct bytes *b, size_t header)
{
    const uint32_t kind = draw(8);
    if (kind == 0) {
        b->n = draw((uint32_t)b->n);
    } else if (kind == 1) { /* a block over another */
        const size_t from = draw_place(b, header), to = draw_place(b, header);
        const size_t most = b->n - (from > to ? from : to);
        memmove(b->at + to, b->at + from, draw((uint32_t)(most < 64 ? most : 64) + 1));
    } else if (kind == 2) { /* bytes too many */
        for (uint32_t i = draw(64); i > 0; i--) { bytes_put(b, "\x20", 1); }
    } else if (kind < 5) {
        plant_number(b, header);
    } else {
        for (uint32_t i = 1 + draw(3); i > 0; i--) {
            b->at[draw_place(b, header)] ^= (unsigned char)(1u << draw(8));
        }
    }
}

/* Replaces `old` (its k-th occurrence) in the text, if it is there. */
static void exchange(struct bytes *b, size_t limit, const char *old, const char *new, uint32_t k)
{
    const size_t n = strlen(old);
    for (size_t i = 0; i + n <= limit && i + n <= b->n; i++) {
        if (memcmp(b->at + i, old, n) != 0 || k-- > 0) { continue; }
        struct bytes made = {0};
        bytes_put(&made, b->at, i);
        bytes_put(&made, new, strlen(new));
        bytes_put(&made, b->at + i + n, b->n - i - n);
        bytes_free(b);
        *b = made;
        return;
    }
}

/* The header says something else, and its length is right again: lies beyond the JSON parser. */
static void lie_in_header(struct bytes *b, size_t header)
{
    static const char *const old[] = {"0",     "1",    "8",      "F32",    "[", ":{", "]",  "12",
                                      "shape", "data", "layers", "weight", ",", "32", "256"};
    static const char *const new[] = {"9",
                                      "18446744073709551615",
                                      "9223372036854775807",
                                      "-1",
                                      "BF16",
                                      "F64",
                                      "[[",
                                      "null",
                                      "8",
                                      "0",
                                      "4",
                                      "1e3",
                                      "\"x\"",
                                      "F16",
                                      "4294967296",
                                      "32",
                                      "self"};
    const size_t before = b->n;
    exchange(b, header, old[draw(sizeof(old) / sizeof(old[0]))],
             new[draw(sizeof(new) / sizeof(new[0]))], draw(12));
    const uint64_t length = header - 8 + b->n - before;
    memcpy(b->at, &length, sizeof(length));
}

/* One value of config.json becomes another. */
static void lie_in_config(struct bytes *b)
{
    static const char *const values[] = {"0",
                                         "-1",
                                         "1",
                                         "3",
                                         "1e400",
                                         "1e30",
                                         "-0.0",
                                         "null",
                                         "true",
                                         "[]",
                                         "{}",
                                         "\"\"",
                                         "\"silu\"",
                                         "2147483648",
                                         "9223372036854775807",
                                         "99999999999999999999",
                                         "16777216",
                                         "[1,2,3]",
                                         "{\"rope_type\":\"x\"}",
                                         "\"\\u0000\"",
                                         "\"\xff\"",
                                         "[[[[[[",
                                         "4096",
                                         "12"};
    json_t *root;
    const char *key;
    json_t *value;
    char why[200];
    root = mot_json_decode((const char *)b->at, b->n, why, sizeof(why));
    MOT_ASSERT(root);
    uint32_t k = draw((uint32_t)json_object_size(root));
    const char *new = values[draw(sizeof(values) / sizeof(values[0]))];
    b->n = 0;
    json_object_foreach(root, key, value)
    {
        char *old = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        char *pair = mot_format("%s\"%s\":%s", b->n ? "," : "{", key, k-- == 0 ? new : old);
        bytes_put(b, pair, strlen(pair));
        free(pair);
        free(old);
    }
    bytes_put(b, "}", 1);
    json_decref(root);
}

/* ---- The cases ----------------------------------------------------------------------------- */

static int refused_count;

/* Loads; complains and stops unless it went as the first comment says. */
static void load_one(const char *path)
{
    struct mot_model model;
    catch_begin();
    const int status = mot_model_load(path, &model);
    const int lines = catch_end();
    if (status == 0) { mot_model_destroy(&model); }
    refused_count += status != 0;
    if (status == 0 ? lines != 0 : !failed_well(status, lines, path, path)) {
        printf("case %d of %s: status %d, %d lines: %s\n", (int)current_case, current_kind, status,
               lines, caught_text);
        exit(1);
    }
}

/* kind's sound file damaged in `cases` ways, written to file and loaded from path. */
static void fuzz(const char *kind, const struct bytes *sound, size_t header, int cases,
                 const char *file, const char *path)
{
    current_kind = kind;
    current_case = -1;
    refused_count = 0;
    scratch_write(file, sound->at, sound->n);
    load_one(path);
    MOT_ASSERT(refused_count == 0);
    for (int i = 0; i < cases; i++) {
        struct bytes b = {0};
        bytes_put(&b, sound->at, sound->n);
        current_case = i;
        draws = 0;
        if ((size_t)i < header && i < cases / 4) {
            b.n = (size_t)i; /* cut in the header, everywhere */
        } else if (i % 2 && kind[0] == 's') {
            lie_in_header(&b, header);
        } else if (i % 2 && kind[0] == 'c') {
            lie_in_config(&b);
        } else {
            damage(&b, header);
        }
        scratch_write(file, b.at, b.n);
        load_one(path);
        bytes_free(&b);
    }
    scratch_write(file, sound->at, sound->n);
    printf("%-12s %5d cases, %5d refused, %5d loaded\n", kind, cases, refused_count,
           cases - refused_count);
    fflush(stdout);
    MOT_ASSERT(refused_count > cases / 2 && refused_count < cases);
}

int main(void)
{
    scratch_begin("test_model_fuzz");
    catch_begin();
    catch_end();
    signal(SIGABRT, crashed);
    signal(SIGBUS, crashed);
    if (!__sanitizer_set_report_fd) { signal(SIGSEGV, crashed); } /* ASan says more than we can */

    char *directory = scratch_path("model"), *file = scratch_path("model/model.safetensors");
    char *config = scratch_path("model/config.json"), *gguf = scratch_path("model.gguf");
    struct mot_model model = tiny_model();
    MOT_ASSERT(mot_make_directories(directory) == 0);
    MOT_ASSERT(mot_model_save(directory, &model.info, &model.layout, model.groups) == 0);
    mot_model_destroy(&model);

    struct bytes sound = {0};
    uint64_t length;
    sound.at = (unsigned char *)scratch_read(file, &sound.n);
    memcpy(&length, sound.at, sizeof(length));
    fuzz("safetensors", &sound, 8 + (size_t)length, SAFETENSORS_CASES, file, directory);
    bytes_free(&sound);

    sound.at = (unsigned char *)scratch_read(config, &sound.n);
    fuzz("config.json", &sound, sound.n, CONFIG_CASES, config, directory);
    bytes_free(&sound);

    sound = tiny_gguf();
    const size_t header = 1100; /* about: where places are drawn from */
    fuzz("gguf", &sound, header, GGUF_CASES, gguf, gguf);
    bytes_free(&sound);
    printf("%d cases, no crash, one message for each refusal\n",
           SAFETENSORS_CASES + CONFIG_CASES + GGUF_CASES);
    free(directory);
    free(file);
    free(config);
    free(gguf);
    return 0;
}
