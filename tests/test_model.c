/* model: every tiny model directory and GGUF file loads with the shape and numbers it has; saving
 * and loading again gives the same bits, saving twice the same bytes; shards, bfloat16, and the
 * config.json of transformers 4 and 5 mean the same model; what would change the mathematics, and
 * every missing, extra or mis-shaped tensor, is one message naming file and place. */
#include "gguf.h"
#include "json.h"
#include "model.h"
#include "safetensors.h"
#include "scratch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct {
    const char *name, *architecture;
    int n_kv_heads, head_dim, tied, qkv_bias, qk_norm;
    double rope_theta, norm_eps;
} tiny[] = {
    {"tiny-llama-tied", "LlamaForCausalLM", 2, 12, 1, 0, 0, 1e4, 1e-5},
    {"tiny-llama-untied-gqa1", "LlamaForCausalLM", 1, 12, 0, 0, 0, 1e5, 1e-6},
    {"tiny-qwen2", "Qwen2ForCausalLM", 2, 12, 1, 1, 0, 1e6, 1e-6},
    {"tiny-qwen3", "Qwen3ForCausalLM", 2, 16, 1, 0, 1, 1e6, 1e-6},
};
enum { N_TINY = sizeof(tiny) / sizeof(tiny[0]) };

static struct mot_model load(const char *path)
{
    struct mot_model model;
    assert_int_equal(mot_model_load(path, &model), 0);
    return model;
}

static void save(const struct mot_model *model, const char *directory)
{
    assert_int_equal(mot_make_directories(directory), 0);
    assert_int_equal(mot_model_save(directory, &model->info, &model->layout, model->groups), 0);
}

static const float *tensor_of(const struct mot_model *model, const char *name)
{
    const struct mot_tensor *tensor = mot_layout_find(&model->layout, name);
    assert_non_null(tensor);
    return model->groups[tensor->group] + tensor->offset;
}

static void assert_same_models(const struct mot_model *a, const struct mot_model *b)
{
    assert_string_equal(a->info.architecture, b->info.architecture);
    assert_memory_equal(&a->info.shape, &b->info.shape, sizeof(a->info.shape));
    assert_int_equal(a->info.bos_id, b->info.bos_id);
    assert_int_equal(a->info.pad_id, b->info.pad_id);
    assert_int_equal(a->info.n_eos_ids, b->info.n_eos_ids);
    assert_memory_equal(a->info.eos_ids, b->info.eos_ids, sizeof(a->info.eos_ids));
    for (int g = 0; g < a->layout.n_groups; g++) { /* padding included: it is zero */
        assert_memory_equal(a->groups[g], b->groups[g], a->layout.group_floats[g] * sizeof(float));
    }
}

static void assert_same_files(const char *a, const char *b, const char *name)
{
    char *paths[2] = {mot_format("%s/%s", a, name), mot_format("%s/%s", b, name)};
    size_t n[2];
    char *bytes[2] = {scratch_read(paths[0], &n[0]), scratch_read(paths[1], &n[1])};
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    for (int i = 0; i < 2; i++) {
        free(paths[i]);
        free(bytes[i]);
    }
}

static void test_directories(void **state)
{
    (void)state;
    for (int m = 0; m < N_TINY; m++) {
        char *path = mot_format("%s/%s", MOT_TEST_DATA, tiny[m].name);
        struct mot_model model = load(path);
        const struct mot_model_shape *s = &model.info.shape;
        assert_string_equal(model.info.architecture, tiny[m].architecture);
        assert_true(s->n_layers == 2 && s->hidden_size == 48 && s->intermediate_size == 96);
        assert_true(s->n_heads == 4 && s->vocab_size == 320 && s->max_position == 128);
        assert_true(s->n_kv_heads == tiny[m].n_kv_heads && s->head_dim == tiny[m].head_dim);
        assert_true(s->tied == tiny[m].tied && s->qkv_bias == tiny[m].qkv_bias);
        assert_true(s->qk_norm == tiny[m].qk_norm && s->rope_theta == tiny[m].rope_theta);
        assert_true(s->norm_eps == (float)tiny[m].norm_eps);
        assert_true(model.info.bos_id == 1 && model.info.eos_id == 2 && model.info.pad_id == 0);
        assert_int_equal(model.info.n_eos_ids, 1);

        struct mot_safetensors *st;
        assert_int_equal(mot_safetensors_open(path, &st), 0);
        assert_int_equal(mot_safetensors_n(st), model.layout.n_tensors);
        for (size_t i = 0; i < mot_safetensors_n(st); i++) {
            const struct mot_safetensor *tensor = mot_safetensors_at(st, i);
            assert_memory_equal(tensor_of(&model, tensor->name), tensor->data, tensor->bytes);
        }
        mot_safetensors_close(st);
        mot_model_destroy(&model);
        free(path);
    }
}

/* The rows of q and k as convert_hf_to_gguf permutes them: reshape (heads, 2, D/2, C), swap 1,
 * 2. */
static void check_permuted(const struct mot_gguf *gguf, const struct mot_model *model,
                           const char *gguf_name, const char *name, size_t heads)
{
    const size_t half = 32, width = 256;
    float row[256];
    const float *hf = tensor_of(model, name);
    for (size_t h = 0; h < heads; h++) {
        for (size_t s = 0; s < 2; s++) {
            for (size_t j = 0; j < half; j++) {
                const struct mot_gguf_tensor *tensor = mot_gguf_find(gguf, gguf_name);
                const size_t from = (h * half + j) * 2 + s, to = (h * 2 + s) * half + j;
                assert_int_equal(mot_gguf_read_rows(gguf, tensor, from, 1, row), 0);
                assert_memory_equal(row, hf + to * width, width * sizeof(float));
            }
        }
    }
}

static void test_gguf_files(void **state)
{
    (void)state;
    static const char *const names[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"};
    for (size_t m = 0; m < sizeof(names) / sizeof(names[0]); m++) {
        char *path = mot_format("%s/gguf/tiny-%s.gguf", MOT_TEST_DATA, names[m]);
        struct mot_model model = load(path);
        const struct mot_model_shape *s = &model.info.shape;
        assert_string_equal(model.info.architecture, "LlamaForCausalLM");
        assert_true(s->n_layers == 1 && s->hidden_size == 256 && s->intermediate_size == 256);
        assert_true(s->n_heads == 4 && s->n_kv_heads == 2 && s->head_dim == 64 && !s->tied);
        assert_true(s->vocab_size == 320 && s->max_position == 128 && s->rope_theta == 1e4);
        assert_true(s->norm_eps == 1e-5f && !s->qkv_bias && !s->qk_norm);
        assert_true(model.info.bos_id == 1 && model.info.eos_id == 2 && model.info.pad_id == 0);
        struct mot_gguf *gguf;
        float row[256];
        assert_int_equal(mot_gguf_open(path, &gguf), 0);
        check_permuted(gguf, &model, "blk.0.attn_q.weight",
                       "model.layers.0.self_attn.q_proj.weight", 4);
        check_permuted(gguf, &model, "blk.0.attn_k.weight",
                       "model.layers.0.self_attn.k_proj.weight", 2);
        assert_int_equal(
            mot_gguf_read_rows(gguf, mot_gguf_find(gguf, "output.weight"), 319, 1, row), 0);
        assert_memory_equal(row, tensor_of(&model, "lm_head.weight") + 319 * 256, sizeof(row));
        mot_gguf_close(gguf);

        char *directory = scratch_path(names[m]);
        save(&model, directory);
        struct mot_model again = load(directory);
        assert_same_models(&model, &again);
        mot_model_destroy(&again);
        mot_model_destroy(&model);
        free(directory);
        free(path);
    }
}

static void test_save(void **state)
{
    (void)state;
    for (int m = 0; m < N_TINY; m++) {
        char *path = mot_format("%s/%s", MOT_TEST_DATA, tiny[m].name);
        char *once = scratch_path("once"), *twice = scratch_path("twice");
        struct mot_model model = load(path);
        save(&model, once);
        struct mot_model again = load(once);
        assert_same_models(&model, &again);
        save(&again, twice);
        assert_same_files(once, twice, "config.json");
        assert_same_files(once, twice, "generation_config.json");
        assert_same_files(once, twice, "model.safetensors");
        mot_model_destroy(&again);
        mot_model_destroy(&model);
        assert_int_equal(mot_remove_tree(twice), 0);
        free(once);
        free(twice);
        free(path);
    }
}

/* ---- Variants of one directory ------------------------------------------------------------- */

static const char *const qwen3 = MOT_TEST_DATA "/tiny-qwen3";

/* Writes the tensors first..last-1 of st as dtype. */
static void write_part(const char *path, const struct mot_safetensors *st, size_t first,
                       size_t last, enum mot_dtype dtype)
{
    struct mot_safetensors_entry entries[64] = {{0}};
    struct mot_safetensors_writer *writer;
    for (size_t i = first; i < last; i++) {
        const struct mot_safetensor *tensor = mot_safetensors_at(st, i);
        entries[i - first] = (struct mot_safetensors_entry){
            tensor->name, dtype, tensor->n_dimensions, {tensor->size[0], tensor->size[1]}};
    }
    assert_int_equal(mot_safetensors_create(path, entries, last - first, &writer), 0);
    for (size_t i = first; i < last; i++) {
        const struct mot_safetensor *tensor = mot_safetensors_at(st, i);
        for (size_t k = 0; k < tensor->numbers; k++) {
            float number;
            memcpy(&number, tensor->data + k * sizeof(number), sizeof(number));
            const uint16_t brain = mot_bf16_from_f32(number), half = mot_f16_from_f32(number);
            const void *from = dtype == MOT_F32 ? (void *)&number : &half;
            if (dtype == MOT_BF16) { from = &brain; }
            assert_int_equal(mot_safetensors_append(writer, from, mot_dtype_bytes(dtype)), 0);
        }
    }
    assert_int_equal(mot_safetensors_finish(writer), 0);
}

/* A directory with the config.json of tiny-qwen3. */
static char *make_variant(const char *name)
{
    char *directory = scratch_path(name);
    char *config = mot_format("%s/config.json", directory);
    size_t n;
    char *bytes = scratch_read(MOT_TEST_DATA "/tiny-qwen3/config.json", &n);
    assert_int_equal(mot_make_directories(directory), 0);
    scratch_write(config, bytes, n);
    free(bytes);
    free(config);
    return directory;
}

static void test_shards(void **state)
{
    (void)state;
    char *directory = make_variant("shards");
    struct mot_safetensors *st;
    assert_int_equal(mot_safetensors_open(qwen3, &st), 0);
    const size_t n = mot_safetensors_n(st), ends[] = {0, n / 3, n};
    json_t *map = json_object();
    for (int part = 0; part < 2; part++) {
        char *file = mot_format("model-0000%d-of-00002.safetensors", part + 1);
        char *path = mot_format("%s/%s", directory, file);
        write_part(path, st, ends[part], ends[part + 1], MOT_F32);
        for (size_t i = ends[part]; i < ends[part + 1]; i++) {
            json_object_set_new(map, mot_safetensors_at(st, i)->name, json_string(file));
        }
        free(path);
        free(file);
    }
    char *index = mot_format("%s/model.safetensors.index.json", directory);
    json_t *root = json_pack("{s:{s:i},s:o}", "metadata", "total_size", 1, "weight_map", map);
    assert_int_equal(json_dump_file(root, index, 0), 0);
    json_decref(root);
    free(index);
    mot_safetensors_close(st);
    struct mot_model whole = load(qwen3), sharded = load(directory);
    assert_same_models(&whole, &sharded);
    mot_model_destroy(&whole);
    mot_model_destroy(&sharded);
    free(directory);
}

static void test_half_precision(void **state)
{
    (void)state;
    const enum mot_dtype dtypes[] = {MOT_BF16, MOT_F16};
    const double limits[] = {1.0 / 256.0, 1.0 / 2048.0};
    struct mot_model exact = load(qwen3);
    for (int d = 0; d < 2; d++) {
        char *directory = make_variant(mot_dtype_name(dtypes[d]));
        char *path = mot_format("%s/model.safetensors", directory);
        struct mot_safetensors *st;
        assert_int_equal(mot_safetensors_open(qwen3, &st), 0);
        write_part(path, st, 0, mot_safetensors_n(st), dtypes[d]);
        mot_safetensors_close(st);
        struct mot_model rounded = load(directory);
        for (int g = 0; g < exact.layout.n_groups; g++) {
            for (size_t i = 0; i < exact.layout.group_floats[g]; i++) {
                const double want = exact.groups[g][i], got = rounded.groups[g][i];
                assert_true(fabs(got - want) <= limits[d] * fabs(want) + 1e-7);
            }
        }
        mot_model_destroy(&rounded);
        free(path);
        free(directory);
    }
    mot_model_destroy(&exact);
}

/* ---- config.json --------------------------------------------------------------------------- */

/* Loads tiny-NAME with its config.json changed: each key of the JSON text replaces, null removes.
 * Returns as mot_model_load does. */
static int load_changed(const char *name, const char *changes, struct mot_model *model, char **path)
{
    char *from = mot_format("%s/%s", MOT_TEST_DATA, name);
    char *directory = scratch_path("changed");
    char *files[4] = {mot_format("%s/config.json", from), mot_format("%s/config.json", directory),
                      mot_format("%s/model.safetensors", from),
                      mot_format("%s/model.safetensors", directory)};
    json_t *config, *change, *value;
    const char *key;
    assert_int_equal(mot_make_directories(directory), 0);
    assert_int_equal(mot_json_load(files[0], 1 << 20, &config), 0);
    assert_int_equal(mot_json_parse(changes, strlen(changes), "changes", 0, &change), 0);
    json_object_foreach(change, key, value)
    {
        if (json_is_null(value)) {
            json_object_del(config, key);
        } else {
            json_object_set(config, key, value);
        }
    }
    assert_int_equal(json_dump_file(config, files[1], 0), 0);
    json_decref(config);
    json_decref(change);
    unlink(files[3]);
    assert_int_equal(symlink(files[2], files[3]), 0);
    for (int i = 0; i < 4; i++) { free(files[i]); }
    free(from);
    *path = directory;
    return mot_model_load(directory, model);
}

/* Ways to write the same model. */
static const struct {
    const char *name, *changes;
} synonyms[] = {
    /* transformers 4 */
    {"tiny-qwen2", "{\"rope_parameters\":null,\"rope_theta\":1000000.0,\"rope_scaling\":null,"
                   "\"dtype\":null,\"torch_dtype\":\"float32\",\"layer_types\":null}"},
    {"tiny-llama-tied", "{\"rope_parameters\":null,\"rope_theta\":10000,\"head_dim\":null}"},
    {"tiny-llama-tied", "{\"rope_parameters\":null,\"head_dim\":null}"}, /* theta's default */
    {"tiny-llama-tied", "{\"rope_scaling\":{\"type\":\"default\"}}"},
    {"tiny-llama-untied-gqa1", "{\"tie_word_embeddings\":null}"},
    {"tiny-llama-tied", "{\"architectures\":null}"},
    {"tiny-qwen3", "{\"sliding_window\":4096,\"num_experts\":7}"},
    {"tiny-qwen3", "{\"rms_norm_eps\":null,\"bos_token_id\":1,\"eos_token_id\":[2,2]}"},
};

static void test_synonyms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(synonyms) / sizeof(synonyms[0]); i++) {
        char *path = mot_format("%s/%s", MOT_TEST_DATA, synonyms[i].name), *changed;
        struct mot_model same, model = load(path);
        assert_int_equal(load_changed(synonyms[i].name, synonyms[i].changes, &same, &changed), 0);
        assert_same_models(&model, &same);
        mot_model_destroy(&same);
        mot_model_destroy(&model);
        free(changed);
        free(path);
    }
}

/* Changes that must be refused, and a word of the message. */
static const struct {
    const char *name, *changes, *word;
} refused[] = {
    {"tiny-qwen3", "{\"architectures\":[\"MistralForCausalLM\"]}", "MistralForCausalLM"},
    {"tiny-qwen3", "{\"architectures\":null,\"model_type\":null}", "none named"},
    {"tiny-qwen3", "{\"architectures\":null,\"model_type\":\"gpt2\"}", "gpt2"},
    {"tiny-qwen3", "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0}}", "rope_scaling"},
    {"tiny-qwen3", "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e4}}", "scaled"},
    {"tiny-qwen3", "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0}}", "scaled"},
    {"tiny-qwen3", "{\"partial_rotary_factor\":0.5}", "partial"},
    {"tiny-qwen3", "{\"rope_parameters\":{\"rope_theta\":-1.0}}", "rope_theta"},
    {"tiny-qwen3", "{\"attention_bias\":true}", "attention_bias"},
    {"tiny-llama-tied", "{\"attention_bias\":true}", "attention_bias"},
    {"tiny-llama-tied", "{\"mlp_bias\":true}", "mlp_bias"},
    {"tiny-qwen2", "{\"hidden_act\":\"gelu\"}", "hidden_act"},
    {"tiny-qwen2", "{\"use_sliding_window\":true}", "use_sliding_window"},
    {"tiny-qwen2", "{\"layer_types\":[\"full_attention\",\"sliding_attention\"]}", "layer_types"},
    {"tiny-qwen2", "{\"quantization_config\":{\"bits\":4}}", "quantization_config"},
    {"tiny-qwen2", "{\"hidden_size\":null}", "hidden_size"},
    {"tiny-qwen2", "{\"hidden_size\":\"48\"}", "hidden_size"},
    {"tiny-qwen2", "{\"hidden_size\":49}", "hidden_size"},
    {"tiny-qwen2", "{\"hidden_size\":0}", "hidden_size"},
    {"tiny-qwen2", "{\"hidden_size\":-48}", "hidden_size"},
    {"tiny-qwen2", "{\"hidden_size\":48.0}", "hidden_size"},
    {"tiny-qwen2", "{\"vocab_size\":16777217}", "vocab_size"},
    {"tiny-qwen2", "{\"vocab_size\":9223372036854775807}", "vocab_size"},
    {"tiny-qwen2", "{\"num_hidden_layers\":1000000}", "layers"},
    {"tiny-qwen2", "{\"num_key_value_heads\":3}", "heads"},
    {"tiny-qwen2", "{\"rms_norm_eps\":1.0}", "rms_norm_eps"},
    {"tiny-qwen3", "{\"head_dim\":15}", "head_dim"},
    {"tiny-qwen3", "{\"head_dim\":null}", "q_proj"}, /* 128 then */
    {"tiny-qwen3", "{\"vocab_size\":321}", "model.embed_tokens.weight"},
    {"tiny-qwen3", "{\"intermediate_size\":95}", "model.layers.0.mlp.gate_proj.weight"},
    {"tiny-qwen3", "{\"num_hidden_layers\":3}", "model.layers.2.input_layernorm.weight is missing"},
    {"tiny-qwen3", "{\"num_hidden_layers\":1}", "model.layers.1."},
    {"tiny-qwen3", "{\"tie_word_embeddings\":false}", "lm_head.weight is missing"},
    {"tiny-qwen3", "{\"architectures\":[\"LlamaForCausalLM\"]}", "no place in this architecture"},
    {"tiny-qwen3", "{\"eos_token_id\":\"x\"}", "eos_token_id"},
    {"tiny-qwen3", "{\"eos_token_id\":[1,2.5]}", "eos_token_id"},
    {"tiny-qwen3", "{\"eos_token_id\":[1,-2]}", "eos_token_id"},
    {"tiny-qwen3", "{\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", "more than 8"},
    {"tiny-qwen3", "{\"eos_token_id\":320}", "outside the vocabulary"},
    {"tiny-qwen3", "{\"pad_token_id\":320}", "outside the vocabulary"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct mot_model model;
        char *path;
        catch_begin();
        const int status = load_changed(refused[i].name, refused[i].changes, &model, &path);
        /* tensors are named with the data file, which is reached through the same directory */
        assert_true(failed_well(status, catch_end(), path, refused[i].word));
        free(path);
    }
}

static void test_end_ids(void **state)
{
    (void)state;
    struct mot_model model;
    char *path;
    assert_int_equal(load_changed("tiny-qwen3", "{\"eos_token_id\":[7,5]}", &model, &path), 0);
    assert_true(model.info.n_eos_ids == 2 && model.info.eos_id == 7 && model.info.eos_ids[1] == 5);
    char *generation = mot_format("%s/generation_config.json", path);
    save(&model, path); /* a list, in both files */
    mot_model_destroy(&model);
    model = load(path);
    assert_true(model.info.n_eos_ids == 2 && model.info.eos_id == 7 && model.info.eos_ids[1] == 5);
    mot_model_destroy(&model);
    static const char text[] = "{\"eos_token_id\":9,\"pad_token_id\":3,\"bos_token_id\":null}";
    scratch_write(generation, text, sizeof(text) - 1); /* its ids come first */
    model = load(path);
    assert_true(model.info.n_eos_ids == 3 && model.info.eos_id == 9 && model.info.eos_ids[1] == 7);
    assert_true(model.info.pad_id == 3 && model.info.bos_id == 1);
    mot_model_destroy(&model);
    scratch_write(generation, "[1", 2);
    catch_begin();
    const int status = mot_model_load(path, &model);
    assert_true(failed_well(status, catch_end(), generation, "JSON"));
    unlink(generation);
    free(generation);
    free(path);
}

static void test_no_model(void **state)
{
    (void)state;
    struct mot_model_info info;
    struct mot_model model;
    static const char *const paths[] = {MOT_TEST_DATA "/none", MOT_TEST_DATA "/gguf",
                                        MOT_TEST_DATA "/tiny-qwen3/model.safetensors", "/dev/null"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        catch_begin();
        int status = mot_model_read_info(paths[i], &info);
        assert_true(failed_well(status, catch_end(), paths[i], paths[i]));
        catch_begin();
        status = mot_model_load(paths[i], &model);
        assert_true(failed_well(status, catch_end(), paths[i], paths[i]));
    }
}

/* One number of a tiny model becomes NaN. */
static void test_nan(void **state)
{
    (void)state;
    struct mot_model broken, model = load(qwen3);
    char *directory = scratch_path("nan");
    model.groups[1][3] = NAN;
    save(&model, directory);
    catch_begin();
    const int status = mot_model_load(directory, &broken);
    assert_true(failed_well(status, catch_end(), directory, "input_layernorm.weight holds nan"));
    mot_model_destroy(&model);
    free(directory);
}

static void test_random_weights(void **state)
{
    (void)state;
    struct mot_model_info info;
    struct mot_model a, b;
    assert_int_equal(mot_model_read_info(MOT_TEST_DATA "/tiny-qwen2", &info), 0);
    assert_int_equal(mot_model_init(&a, &info, 1), 0);
    assert_int_equal(mot_model_init(&b, &info, 1), 0);
    assert_same_models(&a, &b);
    mot_model_destroy(&b);
    double sum = 0.0, squares = 0.0;
    const float *embedding = tensor_of(&a, "model.embed_tokens.weight");
    const int n = 320 * 48;
    for (int i = 0; i < n; i++) {
        sum += (double)embedding[i];
        squares += (double)embedding[i] * (double)embedding[i];
    }
    assert_true(fabs(sum / n) <= 5.0 * 0.02 / sqrt(n));
    assert_true(fabs(sqrt(squares / n) / 0.02 - 1.0) <= 5.0 / sqrt(2.0 * n));
    assert_true(tensor_of(&a, "model.norm.weight")[47] == 1.0f);
    assert_true(tensor_of(&a, "model.layers.1.self_attn.k_proj.bias")[3] == 0.0f);
    assert_true(embedding[0] != tensor_of(&a, "model.layers.0.mlp.up_proj.weight")[0]);
    assert_int_equal(mot_model_init(&b, &info, 2), 0);
    assert_true(embedding[0] != tensor_of(&b, "model.embed_tokens.weight")[0]);
    mot_model_destroy(&a);
    mot_model_destroy(&b);
}

int main(void)
{
    scratch_begin("test_model");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directories),    cmocka_unit_test(test_gguf_files),
        cmocka_unit_test(test_save),           cmocka_unit_test(test_shards),
        cmocka_unit_test(test_half_precision), cmocka_unit_test(test_synonyms),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_end_ids),
        cmocka_unit_test(test_no_model),       cmocka_unit_test(test_nan),
        cmocka_unit_test(test_random_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
