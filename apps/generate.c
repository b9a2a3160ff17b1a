/* motley generate: answers of a model to prompts, from the command line or a file. */
#include "app.h"
#include "json.h"
#include <stdlib.h>
#include <string.h>

struct generate_config {
    struct mot_machine_config machine;
    struct mot_model_config model;
    struct mot_sampling_config sampling;
    char *prompt, *file;
    int samples, json;
};

static const char usage[] =
    "usage: motley generate --model M --prompt TEXT [options]\n"
    "       motley generate --model M --file F [options]\n\n"
    "Prints one answer after the other.  --json prints an object per answer: prompt, completion,\n"
    "end (eos, stop or length), completion_ids, logprob.\n";

#define AT(member) offsetof(struct generate_config, member)
static const struct mot_option options[] = {
    MOT_ROWS(AT(model), mot_model_rows),
    {"prompt", MOT_OPTION_STRING, AT(prompt), "", NULL, 0, 0, NULL,
     "One prompt; the chat template is put around it.", "Prompts"},
    {"file", MOT_OPTION_STRING, AT(file), "", NULL, 0, 0, NULL,
     "JSON lines with prompt or question; or embedded, as in grpo: 'questions:LOW-HIGH'.", NULL},
    {"samples", MOT_OPTION_INT, AT(samples), "1", NULL, 1, 65535, "answers", "Answers per prompt.",
     NULL},
    {"json", MOT_OPTION_BOOL, AT(json), "false", NULL, 0, 0, NULL,
     "One JSON line per answer, with ids and log-probs, instead of text.", NULL},
    MOT_ROWS(AT(sampling), mot_sampling_rows),
    MOT_ROWS(AT(machine), mot_machine_rows),
    {0},
};
#undef AT

/* A data set of one row. */
static int one_prompt(const struct generate_config *c, const struct mot_app_model *model,
                      struct mot_dataset *dataset)
{
    json_t *rows = json_array(), *row = json_object();
    json_object_set_new(row, "prompt", mot_json_string(c->prompt, strlen(c->prompt)));
    json_array_append_new(rows, row);
    const struct mot_app_data data = {.max_tokens = model->actor.info.shape.max_position - 1,
                                      .called = "--prompt"};
    const int error = mot_app_dataset_of_rows(rows, model, &c->model, &data, dataset);
    json_decref(rows);
    return error;
}

static void print_row(const struct generate_config *c, const struct mot_example *example,
                      const struct mot_row *row)
{
    if (!c->json) {
        printf("%s\n", row->text);
        return;
    }
    json_t *o = json_object(), *ids = json_array();
    for (int i = 0; i < row->n; i++) { json_array_append_new(ids, json_integer(row->ids[i])); }
    json_object_set_new(o, "prompt",
                        mot_json_string(example->prompt_text, strlen(example->prompt_text)));
    json_object_set_new(o, "completion", mot_json_string(row->text, row->text_bytes));
    json_object_set_new(o, "end", json_string(mot_row_end_name(row->end)));
    json_object_set_new(o, "completion_ids", ids);
    json_object_set_new(o, "logprob", mot_json_numbers(row->logprob, (size_t)row->n));
    char *text = mot_json_text(o);
    printf("%s\n", text);
    free(text);
    json_decref(o);
}

static int generate(const struct generate_config *c, struct mot_app_model *model,
                    const struct mot_dataset *dataset)
{
    struct mot_prompt *prompts = mot_alloc((size_t)dataset->n * sizeof(*prompts));
    for (int i = 0; i < dataset->n; i++) {
        const struct mot_ids *ids = &dataset->examples[i].prompt;
        prompts[i] = (struct mot_prompt){.ids = ids->id, .n = (int)ids->n, .example = i};
    }
    struct mot_rollout_options rollout_options;
    mot_app_rollout_options(&c->sampling, model, (int64_t)dataset->n * c->samples,
                            &rollout_options);
    const struct mot_rollout_listener listener = {0};
    struct mot_rollout *rollout;
    const int error =
        mot_rollout_start(&model->actor, mot_actor_read(&model->actor), prompts, dataset->n,
                          c->samples, &rollout_options, &listener, &rollout);
    if (error == 0) {
        mot_rollout_wait(rollout);
        for (int i = 0; i < dataset->n * c->samples; i++) {
            const struct mot_group *g = &rollout->groups[i / c->samples];
            print_row(c, &dataset->examples[g->example], &g->rows[i % c->samples]);
        }
        mot_rollout_destroy(rollout);
    }
    free(prompts);
    return error;
}

int mot_app_generate(int argc, char **argv)
{
    struct generate_config c;
    const int parsed = mot_options_parse(options, &c, argc, argv, 1, NULL, usage);
    if (parsed) { return parsed > 0 ? MOT_EXIT_OK : MOT_EXIT_USAGE; }
    int code = MOT_EXIT_USAGE;
    if ((c.prompt == NULL) == (c.file == NULL)) {
        mot_fail(EINVAL, "generate takes either --prompt or --file");
    } else {
        code = mot_app_start(&c.machine);
    }
    if (code) {
        mot_options_free(options, &c);
        return code;
    }
    struct mot_app_model model;
    struct mot_dataset dataset = {0};
    const struct mot_app_model_options how = {.temperature = c.sampling.temperature};
    int error = mot_app_model_load(&model, &c.model, &how);
    if (error == 0) {
        const struct mot_app_data data = {.max_tokens = model.actor.info.shape.max_position - 1};
        error = c.prompt != NULL ? one_prompt(&c, &model, &dataset)
                                 : mot_app_dataset_load(c.file, &model, &c.model, &data, &dataset);
        if (error == 0) { error = generate(&c, &model, &dataset); }
        mot_app_model_free(&model);
    }
    mot_dataset_destroy(&dataset);
    mot_options_free(options, &c);
    return mot_app_stop(mot_app_exit_code(error));
}
