/* app: what the subcommands share.  See app.h. */
#include "app.h"
#include "json.h"
#include "optimiser.h"
#include "policies.h"
#include "stages.h"
#include "sums.h"
#include "tiny_model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int mot_app_exit_code(int error)
{
    if (error == 0) { return MOT_EXIT_OK; }
    return error > 0 ? MOT_EXIT_OK : MOT_EXIT_INPUT; /* 1 of mot_options_parse: help was printed */
}

int mot_app_start(const struct mot_machine_config *machine)
{
    mot_set_quiet(machine->quiet);
    const struct mot_start_options options = {.workers = machine->workers,
                                              .cores_per_worker = machine->cores_per_worker,
                                              .grows = 1,
                                              .watchdog_s = machine->watchdog_s,
                                              .policies = mot_policies,
                                              .stage_name = mot_stage_name};
    const int error = mot_start(&options);
    if (error) { return error == -EINVAL ? MOT_EXIT_USAGE : MOT_EXIT_INPUT; }
    return MOT_EXIT_OK;
}

int mot_app_trace(const char *directory)
{
    if (mot_trace_is_on()) { return 0; }
    char *path = mot_format("%s/trace.json.gz", directory);
    for (int i = 2; access(path, F_OK) == 0; i++) {
        free(path);
        path = mot_format("%s/trace-%d.json.gz", directory, i);
    }
    const int error = mot_trace_open(path);
    free(path);
    return error;
}

int mot_app_stop(int code)
{
    const int error = mot_stop();
    mot_cpu_exec_free();
    return code == MOT_EXIT_OK && error ? MOT_EXIT_INPUT : code;
}

static int find_chat(const struct mot_model_config *config, const struct mot_tokenizer *tokenizer,
                     const struct mot_chat_template **chat)
{
    const char *form = config->chat_template;
    if (form == NULL) { form = mot_tokenizer_chat_template(tokenizer); }
    return mot_chat_template_find(form != NULL ? form : "none", chat);
}

int mot_app_text_load(const struct mot_model_config *config, struct mot_tokenizer **tokenizer,
                      const struct mot_chat_template **chat)
{
    if (mot_tiny_model_is(config->model)) {
        *tokenizer = mot_tokenizer_bytes();
    } else {
        const int error = mot_tokenizer_load(config->model, tokenizer);
        if (error) { return error; }
    }
    const int error = find_chat(config, *tokenizer, chat);
    if (error) {
        mot_tokenizer_destroy(*tokenizer);
        *tokenizer = NULL;
    }
    return error;
}

int mot_app_model_load(struct mot_app_model *m, const struct mot_model_config *config,
                       const struct mot_app_model_options *options)
{
    const char *path = options->path != NULL ? options->path : config->model;
    struct mot_actor_options actor = {.lanes = options->lanes,
                                      .copies = options->max_staleness > 0,
                                      .max_versions = options->max_staleness + 2,
                                      .head_chunk = config->head_chunk,
                                      .temperature = options->temperature};
    if (mot_dtype_parse(config->dtype, &actor.dtype) != 0 || actor.dtype == MOT_F16) {
        return mot_fail(EINVAL, "dtype '%s' is unknown; float32 or bfloat16", config->dtype);
    }
    memset(m, 0, sizeof(*m));
    const int no_text = mot_tokenizer_is_absent(config->model);
    int error = no_text ? 0 : mot_app_text_load(config, &m->tokenizer, &m->chat);
    if (error) { return error; }
    struct mot_model model = {0};
    error =
        mot_tiny_model_is(path) ? mot_tiny_model_init(path, &model) : mot_model_load(path, &model);
    if (no_text) { m->tokenizer = mot_tokenizer_none(config->model, model.info.shape.vocab_size); }
    if (no_text && error == 0) { error = find_chat(config, m->tokenizer, &m->chat); }
    const int ids = mot_tokenizer_vocab_size(m->tokenizer);
    if (error == 0 && ids > model.info.shape.vocab_size) {
        error = mot_fail(EINVAL, "%s: the tokenizer has %d ids, the model only %d rows",
                         config->model, ids, model.info.shape.vocab_size);
    }
    if (error == 0) { error = mot_actor_create(&m->actor, &model, &actor); }
    mot_model_destroy(&model);
    if (error) {
        mot_tokenizer_destroy(m->tokenizer);
        m->tokenizer = NULL;
    }
    return error;
}

static struct mot_dataset_options dataset_options(const struct mot_app_model *m,
                                                  const struct mot_model_config *config,
                                                  const struct mot_app_data *data)
{
    return (struct mot_dataset_options){.tokenizer = m->tokenizer,
                                        .chat = m->chat,
                                        .system_prompt = config->system_prompt,
                                        .with_completion = data->with_completion,
                                        .max_tokens = data->max_tokens,
                                        .limit = data->limit,
                                        .called = data->called};
}

int mot_app_dataset_of_rows(const json_t *rows, const struct mot_app_model *m,
                            const struct mot_model_config *config, const struct mot_app_data *data,
                            struct mot_dataset *dataset)
{
    const int fd = memfd_create("rows", MFD_CLOEXEC); /* the loader reads files */
    if (fd < 0) { return mot_fail(errno, "memory for a data set: %s", strerror(errno)); }
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int error = 0;
    for (size_t i = 0; i < json_array_size(rows) && error == 0; i++) {
        error = mot_json_append_line(fd, json_array_get(rows, i));
    }
    const struct mot_dataset_options options = dataset_options(m, config, data);
    if (error == 0) { error = mot_dataset_load(path, &options, dataset); }
    close(fd);
    return error;
}

/* The sums as questions for a chat model: "What is 4 + 7?". */
static int ask(const struct mot_dataset *sums, const struct mot_app_model *m,
               const struct mot_model_config *config, const struct mot_app_data *data,
               struct mot_dataset *dataset)
{
    json_t *rows = json_array();
    for (int i = 0; i < sums->n; i++) {
        int a, b;
        const int found = sscanf(sums->examples[i].prompt_text, "%d+%d=", &a, &b);
        MOT_ASSERT(found == 2);
        char question[64];
        snprintf(question, sizeof(question), "What is %d + %d?", a, b);
        json_array_append_new(rows, json_pack("{s:s, s:s}", "question", question, "answer",
                                              sums->examples[i].answer));
    }
    const int error = mot_app_dataset_of_rows(rows, m, config, data, dataset);
    json_decref(rows);
    return error;
}

/* The embedded tasks of app.h; 1 when spec has another form, such as a number of ten digits. */
static int load_embedded(const char *spec, const struct mot_app_model *m,
                         const struct mot_model_config *config, const struct mot_app_data *data,
                         struct mot_dataset *dataset)
{
    char form[16];
    struct mot_sums sums = {.seed = 1};
    int end = 0;
    if (sscanf(spec, "%15[a-z]:%9d-%9d%n", form, &sums.low, &sums.high, &end) != 3) { return 1; }
    const int held_out = strcmp(spec + end, ":held_out") == 0;
    const int questions = strcmp(form, "questions") == 0;
    if ((!questions && strcmp(form, "sums") != 0) || (!held_out && spec[end] != '\0')) { return 1; }
    sums.held_out = questions ? 0.3 : 0.1;
    struct mot_dataset parts[2];
    int error = mot_sums_create(&sums, m->tokenizer, &parts[0], &parts[1]);
    if (error) { return error; }
    if (questions) {
        struct mot_app_data called = *data;
        called.called = spec;
        error = ask(&parts[held_out], m, config, &called, dataset);
        mot_dataset_destroy(&parts[held_out]);
    } else {
        *dataset = parts[held_out];
    }
    mot_dataset_destroy(&parts[!held_out]);
    return error;
}

/* What mot_dataset_load does with a file's rows: the first `limit`, none too long. */
static int hold_to_limits(const char *spec, const struct mot_app_data *data,
                          struct mot_dataset *dataset)
{
    if (data->limit > 0 && dataset->n > data->limit) {
        struct mot_dataset rest = {.n = dataset->n - data->limit};
        rest.examples = mot_alloc((size_t)rest.n * sizeof(struct mot_example));
        memcpy(rest.examples, dataset->examples + data->limit,
               (size_t)rest.n * sizeof(struct mot_example));
        dataset->n = data->limit;
        mot_dataset_destroy(&rest);
    }
    for (int i = 0; data->max_tokens > 0 && i < dataset->n; i++) {
        const struct mot_example *e = &dataset->examples[i];
        const size_t tokens = e->prompt.n + (data->with_completion ? e->completion.n : 0);
        if (tokens <= (size_t)data->max_tokens) { continue; }
        mot_dataset_destroy(dataset);
        return mot_fail(EINVAL, "%s: a row has %zu tokens, the limit is %d", spec, tokens,
                        data->max_tokens);
    }
    return 0;
}

int mot_app_dataset_load(const char *spec, const struct mot_app_model *m,
                         const struct mot_model_config *config, const struct mot_app_data *data,
                         struct mot_dataset *dataset)
{
    const int error = load_embedded(spec, m, config, data, dataset);
    if (error == 0) { return hold_to_limits(spec, data, dataset); }
    if (error < 0) { return error; }
    const struct mot_dataset_options options = dataset_options(m, config, data);
    return mot_dataset_load(spec, &options, dataset);
}

void mot_app_model_free(struct mot_app_model *m)
{
    mot_actor_destroy(&m->actor);
    mot_tokenizer_destroy(m->tokenizer);
}

int mot_app_rows_per_task(const struct mot_sampling_config *config, int64_t rows)
{
    if (config->rows_per_task != 0) { return config->rows_per_task; }
    const int64_t share = (rows + mot_cpu_workers() - 1) / mot_cpu_workers();
    return share < 64 ? (int)share : 64;
}

void mot_app_rollout_options(const struct mot_sampling_config *config,
                             const struct mot_app_model *model, int64_t rows,
                             struct mot_rollout_options *options)
{
    const struct mot_model_info *info = &model->actor.info;
    *options =
        (struct mot_rollout_options){.sampling = {.temperature = (float)config->temperature,
                                                  .top_k = config->top_k,
                                                  .top_p = (float)config->top_p,
                                                  .min_p = (float)config->min_p},
                                     .max_completion_length = config->max_completion_length,
                                     .chunk = config->chunk,
                                     .rows_per_task = mot_app_rows_per_task(config, rows),
                                     .pack_weights = (enum mot_pack_weights)config->pack_weights,
                                     .seed = (uint64_t)config->seed,
                                     .n_stop = config->stop.n,
                                     .stop = config->stop.item,
                                     .tokenizer = model->tokenizer};
    if (config->ignore_eos) { return; }
    for (int i = 0; i < info->n_eos_ids && options->n_eos < MOT_EOS_MAX; i++) {
        options->eos[options->n_eos++] = info->eos_ids[i];
    }
    /* A chat model ends its turn with a token that config.json may not list. */
    const char *end = mot_chat_template_end(model->chat);
    const int32_t id = end != NULL ? mot_tokenizer_id(model->tokenizer, end) : -1;
    for (int i = 0; i < options->n_eos; i++) {
        if (options->eos[i] == id) { return; }
    }
    if (id >= 0 && options->n_eos < MOT_EOS_MAX) { options->eos[options->n_eos++] = id; }
}

int mot_app_optimiser(const struct mot_optimiser_config *config, int total_steps,
                      struct mot_optimizer_options *options)
{
    *options = (struct mot_optimizer_options){
        .learning_rate = config->learning_rate,
        .adam_beta1 = config->adam_beta1,
        .adam_beta2 = config->adam_beta2,
        .adam_epsilon = config->adam_epsilon,
        .weight_decay = config->weight_decay,
        .max_grad_norm = config->max_grad_norm,
        .warmup_steps = mot_warmup_steps(config->warmup_steps, config->warmup_ratio, total_steps),
        .total_steps = total_steps,
        .deterministic = config->deterministic};
    return mot_schedule_find(config->lr_scheduler_type, &options->lr_scheduler_type);
}

int mot_app_numbers(const struct mot_list *list, const char *name, double **values)
{
    *values = NULL;
    if (list->n == 0) { return 0; }
    double *numbers = mot_alloc((size_t)list->n * sizeof(double));
    for (int i = 0; i < list->n; i++) {
        char *end;
        numbers[i] = strtod(list->item[i], &end);
        if (end == list->item[i] || *end != '\0' || !(numbers[i] > -1e30 && numbers[i] < 1e30)) {
            free(numbers);
            return mot_fail(EINVAL, "%s: '%s' is not a number", name, list->item[i]);
        }
    }
    *values = numbers;
    return 0;
}
