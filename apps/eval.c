/* motley eval: how many answers of a model are right, by the same rewards as in training. */
#include "app.h"
#include "evaluate.h"
#include "json.h"
#include <math.h>
#include <stdlib.h>

struct eval_config {
    struct mot_machine_config machine;
    struct mot_model_config model;
    struct mot_sampling_config sampling;
    char *file;
    struct mot_list reward_funcs, reward_weights;
    int samples, limit, json, rows;
};

static const char usage[] =
    "usage: motley eval --model M --file F --reward_funcs R [options]\n\n"
    "Generates answers and scores them.  --json prints one object: n, samples, accuracy,\n"
    "accuracy_low and accuracy_high (95 % interval), pass@K, reward, mean_length, clipped_ratio,\n"
    "seconds.  --rows adds a line per answer: example, sample, completion, score, end.\n";

#define AT(member) offsetof(struct eval_config, member)
static const struct mot_option options[] = {
    MOT_ROWS(AT(model), mot_model_rows),
    {"file", MOT_OPTION_STRING, AT(file), NULL, NULL, 0, 0, NULL,
     "JSON lines with prompt or question, and answer; or embedded: 'sums:LOW-HIGH' or "
     "'questions:LOW-HIGH', with ':held_out' for what grpo and sft never train on.",
     "Data"},
    {"limit", MOT_OPTION_INT, AT(limit), "0", NULL, 0, 1e9, "examples",
     "Use only so many, the first; 0: all.", NULL},
    {"samples", MOT_OPTION_INT, AT(samples), "1", NULL, 1, 65535, "answers",
     "Answers per example; pass@k is over them.", NULL},
    {"reward_funcs", MOT_OPTION_LIST, AT(reward_funcs), NULL, NULL, 0, 0, NULL,
     "Rewards, by name or name:settings; an answer is right above half of the full score.", NULL},
    {"reward_weights", MOT_OPTION_LIST, AT(reward_weights), "", NULL, 0, 0, NULL,
     "One number per reward; default: all 1.", NULL},
    {"json", MOT_OPTION_BOOL, AT(json), "false", NULL, 0, 0, NULL,
     "One JSON object instead of text.", NULL},
    {"rows", MOT_OPTION_BOOL, AT(rows), "false", NULL, 0, 0, NULL,
     "Also one JSON line per answer, before the summary.", NULL},
    MOT_ROWS(AT(sampling), mot_sampling_rows),
    MOT_ROWS(AT(machine), mot_machine_rows),
    {0},
};
#undef AT

static void print_answer(void *context, const struct mot_row *row, double score)
{
    (void)context;
    json_t *o = json_object();
    json_object_set_new(o, "example", json_integer(row->group->example));
    json_object_set_new(o, "sample", json_integer(row->sample));
    json_object_set_new(o, "completion", mot_json_string(row->text, row->text_bytes));
    json_object_set_new(o, "score", mot_json_number(score));
    json_object_set_new(o, "end", json_string(mot_row_end_name(row->end)));
    char *text = mot_json_text(o);
    printf("%s\n", text);
    free(text);
    json_decref(o);
}

static void print_json(const struct mot_evaluation *e)
{
    json_t *o = json_object();
    char pass[32];
    snprintf(pass, sizeof(pass), "pass@%d", e->samples);
    json_object_set_new(o, "n", json_integer(e->n));
    json_object_set_new(o, "samples", json_integer(e->samples));
    json_object_set_new(o, "accuracy", mot_json_number(e->accuracy));
    json_object_set_new(o, "accuracy_low", mot_json_number(e->low));
    json_object_set_new(o, "accuracy_high", mot_json_number(e->high));
    json_object_set_new(o, pass, mot_json_number(e->pass_at_k));
    json_object_set_new(o, "reward", mot_json_number(e->score));
    json_object_set_new(o, "mean_length", mot_json_number(e->mean_length));
    json_object_set_new(o, "clipped_ratio", mot_json_number(e->truncated));
    json_object_set_new(o, "seconds", mot_json_number(e->seconds));
    char *text = mot_json_text(o);
    printf("%s\n", text);
    free(text);
    json_decref(o);
}

static int evaluate(const struct eval_config *c, struct mot_app_model *model)
{
    struct mot_dataset dataset = {0};
    struct mot_evaluate_options o = {.samples = c->samples,
                                     .limit = c->limit,
                                     .n_functions = c->reward_funcs.n,
                                     .answer = c->rows ? print_answer : NULL};
    struct mot_reward_function *functions = NULL;
    double *weights = NULL;
    struct mot_evaluation e;
    const int room = model->actor.info.shape.max_position - 1;
    int error = mot_app_numbers(&c->reward_weights, "reward_weights", &weights);
    if (error == 0) {
        error = mot_reward_functions_open(c->reward_funcs.item, c->reward_funcs.n, weights,
                                          c->reward_weights.n, &functions);
    }
    if (error == 0) {
        const struct mot_app_data data = {.max_tokens = room, .limit = c->limit};
        error = mot_app_dataset_load(c->file, model, &c->model, &data, &dataset);
    }
    if (error == 0) {
        o.functions = functions;
        mot_app_rollout_options(&c->sampling, model, (int64_t)dataset.n * c->samples, &o.rollout);
        error = mot_evaluate(&model->actor, &dataset, &o, &e);
    }
    if (error == 0 && c->json) {
        print_json(&e);
    } else if (error == 0) {
        printf("accuracy %.2f %% (95 %% interval %.2f to %.2f) on %d examples x %d answers, "
               "pass@%d %.2f %%, %.1f tokens an answer, %.1f s\n",
               100 * e.accuracy, 100 * e.low, 100 * e.high, e.n, e.samples, e.samples,
               100 * e.pass_at_k, e.mean_length, e.seconds);
    }
    mot_dataset_destroy(&dataset);
    mot_reward_functions_close(functions, functions ? o.n_functions : 0);
    free(weights);
    return error;
}

int mot_app_eval(int argc, char **argv)
{
    struct eval_config c;
    const int parsed = mot_options_parse(options, &c, argc, argv, 1, NULL, usage);
    if (parsed) { return parsed > 0 ? MOT_EXIT_OK : MOT_EXIT_USAGE; }
    const int code = mot_app_start(&c.machine);
    if (code) {
        mot_options_free(options, &c);
        return code;
    }
    struct mot_app_model model;
    const struct mot_app_model_options how = {.temperature = c.sampling.temperature};
    int error = mot_app_model_load(&model, &c.model, &how);
    if (error == 0) {
        error = evaluate(&c, &model);
        mot_app_model_free(&model);
    }
    mot_options_free(options, &c);
    return mot_app_stop(mot_app_exit_code(error));
}
