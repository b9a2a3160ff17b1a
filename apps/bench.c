/* motley bench: how fast this machine generates and trains, beside what its matrix products reach.
 *
 *   decode  tokens per second of a batch that generates, prefill not counted
 *   train   forward, backward and AdamW of a micro-batch, tokens per second
 *   grpo    a whole GRPO step on arithmetic prompts, end-of-text ignored
 *   record  what recording costs (bench_record.c)
 *   sim     simulated steps beside real ones (bench_sim.c)
 *
 * One JSON line per repeat and one with the median ("median": true).  share_of_peak is model
 * operations per second (2 per multiply-add, 3 forward passes for training) over the best of a few
 * square matrix products measured in the same run. */
#include "bench.h"
#include "app.h"
#include "grpo_step.h"
#include "json.h"
#include "rng.h"
#include "stages.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct bench_config {
    struct mot_machine_config machine;
    struct mot_model_config model;
    int repeats, batch, prompt_length, new_tokens, train_tokens, prompts, generations, pack_weights,
        trace;
};

static const char usage[] =
    "usage: motley bench decode|train|grpo --model M [options]\n"
    "       motley bench record|sim [options], see motley bench record --help\n\n"
    "Prints a JSON line per measurement and the one of median share again as the last, with\n"
    "\"median\": true:\n"
    "bench, model, dtype, batch, threads, workers, policy, seconds, tokens_per_s, flop_per_s,\n"
    "gemm_peak_flop_per_s, share_of_peak, peak_rss_bytes.\n";

#define AT(member) offsetof(struct bench_config, member)
static const struct mot_option options[] = {
    MOT_ROWS(AT(model), mot_model_rows),
    {"repeats", MOT_OPTION_INT, AT(repeats), "5", NULL, 1, 1000, NULL,
     "Measurements; the median is reported last.", "Benchmark"},
    {"batch", MOT_OPTION_INT, AT(batch), "0", NULL, 0, 65535, "rows",
     "decode: rows generated at once (0: 32); train: answers (0: 4).", NULL},
    {"prompt_length", MOT_OPTION_INT, AT(prompt_length), "104", NULL, 1, 1 << 20, "tokens",
     "decode: tokens of each prompt.", NULL},
    {"new_tokens", MOT_OPTION_INT, AT(new_tokens), "0", NULL, 0, 1 << 20, "tokens",
     "decode: tokens per row (0: 48); grpo: per answer (0: 64).", NULL},
    {"train_tokens", MOT_OPTION_INT, AT(train_tokens), "256", NULL, 1, 1 << 20, "tokens",
     "train: tokens per answer.", NULL},
    {"prompts", MOT_OPTION_INT, AT(prompts), "4", NULL, 1, 8, NULL, "grpo: prompts per step.",
     NULL},
    {"num_generations", MOT_OPTION_INT, AT(generations), "4", NULL, 2, 65535, "answers",
     "grpo: answers per prompt.", NULL},
    MOT_ROWS(AT(pack_weights), mot_pack_weights_rows),
    {"trace", MOT_OPTION_BOOL, AT(trace), "false", NULL, 0, 0, NULL,
     "Record tasks, transfers and memory into ./trace.json.gz, for Perfetto.", NULL},
    MOT_ROWS(AT(machine), mot_machine_rows),
    {0},
};
#undef AT

struct bench {
    const struct bench_config *config;
    const char *name;
    struct mot_app_model *model;
    int batch;
};

/* What one repeat measured, and the GEMM peak: the mean of one just before and one just after it,
 * as other programs on the machine come and go. */
struct measure {
    double seconds, tokens, flop, peak_flop_per_s;
};

static double share_of_peak(const struct measure *m)
{
    return m->flop / m->seconds / m->peak_flop_per_s;
}

static void print_measure(const struct bench *b, const struct measure *m, int median)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    json_t *o = json_object();
    json_object_set_new(o, "bench", json_string(b->name));
    json_object_set_new(o, "model", json_string(b->config->model.model));
    json_object_set_new(o, "dtype", json_string(b->config->model.dtype));
    json_object_set_new(o, "batch", json_integer(b->batch));
    json_object_set_new(o, "threads", json_integer(mot_cpu_workers() * mot_cores_per_worker()));
    json_object_set_new(o, "workers", json_integer(mot_cpu_workers()));
    json_object_set_new(o, "policy", json_string(mot_policy_name()));
    json_object_set_new(o, "seconds", mot_json_number(m->seconds));
    json_object_set_new(o, "tokens_per_s", mot_json_number(m->tokens / m->seconds));
    json_object_set_new(o, "flop_per_s", mot_json_number(m->flop / m->seconds));
    json_object_set_new(o, "gemm_peak_flop_per_s", mot_json_number(m->peak_flop_per_s));
    json_object_set_new(o, "share_of_peak", mot_json_number(share_of_peak(m)));
    json_object_set_new(o, "peak_rss_bytes", json_integer((json_int_t)used.ru_maxrss * 1024));
    if (median) { json_object_set_new(o, "median", json_true()); }
    char *text = mot_json_text(o);
    printf("%s\n", text);
    fflush(stdout);
    free(text);
    json_decref(o);
}

/* GEMM peak of one worker's team, times the workers. */
static void measure_peak(void *buffers[], void *argument)
{
    (void)buffers;
    **(double **)argument = mot_matmul_peak_flop_per_s();
}

static int find_peak(double *result)
{
    static struct starpu_codelet codelet = {.name = "gemm_peak", .cpu_funcs = {measure_peak}};
    const struct mot_task task = {.codelet = &codelet,
                                  .name = "bench.gemm_peak",
                                  .hint = {.stage = -1},
                                  .argument = &result,
                                  .argument_bytes = sizeof(result)};
    const int error = mot_task_insert(&task);
    mot_wait_all();
    *result *= mot_cpu_workers();
    return error;
}

static int32_t *random_ids(const struct bench *b, int stream, int n)
{
    int32_t *ids = mot_alloc((size_t)n * sizeof(int32_t));
    const uint32_t vocab = (uint32_t)b->model->actor.info.shape.vocab_size;
    for (int i = 0; i < n; i++) {
        ids[i] = (int32_t)mot_uniform_int(1, MOT_RNG_TEST, (uint32_t)stream, (uint32_t)i, 0, vocab);
    }
    return ids;
}

/* Seconds of a rollout of batch rows with so many new tokens each. */
static int time_rollout(const struct bench *b, const struct mot_prompt *prompts, int new_tokens,
                        double *seconds)
{
    const int per_worker = (b->batch + mot_cpu_workers() - 1) / mot_cpu_workers();
    const struct mot_rollout_options o = {.sampling = {.temperature = 1.0f, .top_p = 1.0f},
                                          .max_completion_length = new_tokens,
                                          .rows_per_task = per_worker,
                                          .pack_weights =
                                              (enum mot_pack_weights)b->config->pack_weights,
                                          .seed = 1,
                                          .tokenizer = b->model->tokenizer};
    const struct mot_rollout_listener listener = {0};
    struct mot_rollout *rollout;
    const double start_us = starpu_timing_now();
    const int error = mot_rollout_start(&b->model->actor, mot_actor_read(&b->model->actor), prompts,
                                        b->batch, 1, &o, &listener, &rollout);
    if (error) { return error; }
    mot_rollout_wait(rollout);
    *seconds = (starpu_timing_now() - start_us) * 1e-6;
    mot_rollout_destroy(rollout);
    return 0;
}

/* The time of new_tokens decoding steps: a rollout with one token less that, which is prefill and
 * the first draw, out of one with new_tokens more. */
static int decode(struct bench *b, struct measure *m)
{
    const int n = b->config->new_tokens > 0 ? b->config->new_tokens : 48;
    const int prompt = b->config->prompt_length;
    struct mot_prompt *prompts = mot_alloc((size_t)b->batch * sizeof(*prompts));
    for (int i = 0; i < b->batch; i++) {
        prompts[i] = (struct mot_prompt){.ids = random_ids(b, i, prompt), .n = prompt};
    }
    double first = 0, all = 0;
    int error = time_rollout(b, prompts, 1, &first);
    if (error == 0) { error = time_rollout(b, prompts, 1 + n, &all); }
    const struct mot_model_shape *shape = &b->model->actor.info.shape;
    *m = (struct measure){.seconds = all - first, .tokens = (double)b->batch * n};
    m->flop =
        m->tokens
        * (mot_layer_flop_per_token(shape, prompt + 0.5 * n) + mot_head_flop_per_token(shape));
    for (int i = 0; i < b->batch; i++) { free((void *)prompts[i].ids); }
    free(prompts);
    return error;
}

struct trained {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int ended;
};

static void updated(void *argument, const struct mot_train_metrics *metrics)
{
    struct trained *t = argument;
    (void)metrics;
    pthread_mutex_lock(&t->mutex);
    t->ended = 1;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->mutex);
}

static int optimizer_options(struct mot_optimizer_options *o)
{
    *o = (struct mot_optimizer_options){.learning_rate = 1e-6,
                                        .adam_beta1 = 0.9,
                                        .adam_beta2 = 0.999,
                                        .adam_epsilon = 1e-8,
                                        .max_grad_norm = 1.0,
                                        .total_steps = 1000,
                                        .deterministic = 1};
    return mot_schedule_find("constant", &o->lr_scheduler_type);
}

static int train(struct bench *b, struct measure *m)
{
    const int n = b->config->train_tokens;
    struct mot_pack_prompt *prompts = mot_alloc((size_t)b->batch * sizeof(*prompts));
    struct mot_pack_answer *answers = mot_alloc((size_t)b->batch * sizeof(*answers));
    for (int i = 0; i < b->batch; i++) {
        int32_t *ids = random_ids(b, i, n + 1);
        prompts[i] = (struct mot_pack_prompt){.n = 1, .ids = ids};
        answers[i] = (struct mot_pack_answer){.prompt = i, .n = n, .ids = ids + 1, .weight = 1.0f};
    }
    struct mot_optimizer_options optimizer;
    const int error = optimizer_options(&optimizer);
    if (error == 0) {
        struct trained t = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
        struct mot_pack *pack = mot_pack_create(prompts, b->batch, answers, b->batch);
        *m = (struct measure){.tokens = (double)b->batch * n};
        m->flop = 3.0 * mot_pack_forward_flop(pack, &b->model->actor.info.shape);
        const double start_us = starpu_timing_now();
        struct mot_train *step =
            mot_train_begin(&b->model->actor, &optimizer, MOT_LOSS_NLL, NULL, 0, 0, 1);
        mot_train_add(step, 0, pack, NULL);
        mot_train_close(step, m->tokens, updated, &t);
        pthread_mutex_lock(&t.mutex);
        while (!t.ended) { pthread_cond_wait(&t.changed, &t.mutex); }
        pthread_mutex_unlock(&t.mutex);
        m->seconds = (starpu_timing_now() - start_us) * 1e-6;
    }
    for (int i = 0; i < b->batch; i++) { free((void *)prompts[i].ids); }
    free(prompts);
    free(answers);
    return error;
}

/* Word problems of about 40 tokens, those of the peers' benchmark. */
static int problems(const struct bench *b, struct mot_dataset *dataset)
{
    dataset->n = b->config->prompts;
    dataset->examples = mot_alloc_zeroed((size_t)dataset->n, sizeof(struct mot_example));
    int error = 0;
    for (int i = 0; i < dataset->n && error == 0; i++) {
        struct mot_example *e = &dataset->examples[i];
        e->prompt_text = mot_format("Question: a farmer has %d boxes with %d apples each and gives "
                                    "away %d apples. How many apples are left? Think step by step "
                                    "and then answer with a number. Answer:",
                                    i + 3, 2 * i + 5, i + 1);
        e->columns = json_object();
        e->answer = mot_strdup("7");
        error = mot_tokenizer_encode(b->model->tokenizer, e->prompt_text, strlen(e->prompt_text), 1,
                                     &e->prompt);
        const size_t new_tokens = (size_t)(b->config->new_tokens > 0 ? b->config->new_tokens : 64);
        const int context = b->model->actor.info.shape.max_position;
        if (error == 0 && e->prompt.n + new_tokens > (size_t)context) {
            error = mot_fail(EINVAL,
                             "%s: a prompt of %zu tokens and new_tokens %zu are more than the "
                             "model's context of %d tokens",
                             b->config->model.model, e->prompt.n, new_tokens, context);
        }
    }
    return error;
}

static int grpo_step(struct bench *b, const struct mot_dataset *dataset, struct measure *m)
{
    const int answers = b->config->prompts * b->config->generations;
    struct mot_reward_function *functions = NULL;
    char *const names[] = {"number"};
    struct mot_grpo g = {.actor = &b->model->actor,
                         .dataset = dataset,
                         .tokenizer = b->model->tokenizer,
                         .prompts_per_step = dataset->n,
                         .num_generations = b->config->generations,
                         .answers_per_micro_batch = answers,
                         .micro_batches_per_update = 1,
                         .num_iterations = 1,
                         .n_functions = 1,
                         .loss = {.epsilon = 0.2, .epsilon_high = 0.2}};
    g.rollout = (struct mot_rollout_options){
        .sampling = {.temperature = 1.0f, .top_p = 1.0f},
        .max_completion_length = b->config->new_tokens > 0 ? b->config->new_tokens : 64,
        .rows_per_task = answers,
        .pack_weights = (enum mot_pack_weights)b->config->pack_weights,
        .seed = 1,
        .tokenizer = b->model->tokenizer};
    int error = mot_reward_functions_open(names, 1, NULL, 0, &functions);
    if (error == 0) { error = mot_loss_type_find("dapo", &g.loss.type); }
    if (error == 0) { error = optimizer_options(&g.optimizer); }
    g.functions = functions;
    struct mot_grpo_step *step;
    if (error == 0) { error = mot_grpo_step_start(&g, 0, NULL, &step); }
    if (error == 0) {
        const struct mot_grpo_result *r = mot_grpo_step_wait(step);
        const struct mot_model_shape *shape = &b->model->actor.info.shape;
        const double tokens = (double)r->rollout->generated_tokens;
        *m = (struct measure){.seconds = r->seconds, .tokens = tokens};
        /* One forward to generate, three to train; the head on answer tokens only. */
        const double forwards = r->rollout->prompt_tokens + tokens;
        m->flop = 4.0
                  * (forwards * mot_layer_flop_per_token(shape, 64)
                     + tokens * mot_head_flop_per_token(shape));
        mot_grpo_step_destroy(step);
    }
    mot_reward_functions_close(functions, functions ? 1 : 0);
    return error;
}

static int grpo(struct bench *b, struct measure *m)
{
    struct mot_dataset dataset = {0};
    int error = problems(b, &dataset);
    if (error == 0) { error = grpo_step(b, &dataset, m); }
    mot_dataset_destroy(&dataset);
    return error;
}

static const struct {
    const char *name;
    int (*run)(struct bench *b, struct measure *m);
    int default_batch;
} benches[] = {{"decode", decode, 32}, {"train", train, 4}, {"grpo", grpo, 0}};

static int by_share(const void *a, const void *b)
{
    const double x = share_of_peak(a), y = share_of_peak(b);
    return (x > y) - (x < y);
}

/* The rows that a bench asks for must fit the model's context. */
static int check_context(const struct bench *b, int which)
{
    const struct bench_config *c = b->config;
    const int new_tokens = c->new_tokens > 0 ? c->new_tokens : 48;
    const int context = b->model->actor.info.shape.max_position;
    if (benches[which].run == decode && c->prompt_length + 1 + new_tokens > context) {
        return mot_fail(EINVAL,
                        "%s: prompt_length %d and new_tokens %d are more than the model's context "
                        "of %d tokens",
                        c->model.model, c->prompt_length, new_tokens, context);
    }
    if (benches[which].run == train && c->train_tokens + 1 > context) {
        return mot_fail(EINVAL,
                        "%s: train_tokens %d are more than the model's context of %d tokens",
                        c->model.model, c->train_tokens, context);
    }
    return 0;
}

static int run(struct bench *b, int which)
{
    const int repeats = b->config->repeats;
    struct measure *m = mot_alloc((size_t)repeats * sizeof(*m)), warm_up;
    b->name = benches[which].name;
    b->batch = b->config->batch > 0 ? b->config->batch : benches[which].default_batch;
    if (b->batch == 0) { b->batch = b->config->prompts * b->config->generations; }
    int error = check_context(b, which);
    if (error == 0) {
        error = benches[which].run(b, &warm_up);
    } /* allocations, page faults, primitives */
    double before, after = 0.0;
    if (error == 0) { error = find_peak(&before); }
    for (int i = 0; i < repeats && error == 0; i++, before = after) {
        error = benches[which].run(b, &m[i]);
        if (error == 0) { error = find_peak(&after); }
        m[i].peak_flop_per_s = 0.5 * (before + after);
        if (error == 0) { print_measure(b, &m[i], 0); }
    }
    if (error == 0) {
        qsort(m, (size_t)repeats, sizeof(*m), by_share);
        print_measure(b, &m[repeats / 2], 1);
    }
    free(m);
    return error;
}

static int find_bench(const struct mot_list *words, int *which)
{
    for (size_t i = 0; words->n == 1 && i < sizeof(benches) / sizeof(benches[0]); i++) {
        if (strcmp(words->item[0], benches[i].name) == 0) {
            *which = (int)i;
            return 0;
        }
    }
    return mot_fail(EINVAL, "bench takes one of decode, train, grpo, record, sim");
}

int mot_app_bench(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "record") == 0) { return mot_bench_record(argc - 1, argv + 1); }
    if (argc > 1 && strcmp(argv[1], "sim") == 0) { return mot_bench_sim(argc - 1, argv + 1); }
    struct bench_config c;
    struct mot_list words = {0};
    const int parsed = mot_options_parse(options, &c, argc, argv, 1, &words, usage);
    if (parsed) { return parsed > 0 ? MOT_EXIT_OK : MOT_EXIT_USAGE; }
    int which = 0, code = MOT_EXIT_USAGE;
    if (find_bench(&words, &which) == 0) { code = mot_app_start(&c.machine); }
    if (code == MOT_EXIT_OK) {
        struct mot_app_model model;
        const struct mot_app_model_options how = {.lanes = 1};
        int error = c.trace ? mot_app_trace(".") : 0;
        if (error == 0) { error = mot_app_model_load(&model, &c.model, &how); }
        if (error == 0) {
            struct bench b = {.config = &c, .model = &model};
            error = run(&b, which);
            mot_app_model_free(&model);
        }
        code = mot_app_stop(mot_app_exit_code(error));
    }
    mot_list_free(&words);
    mot_options_free(options, &c);
    return code;
}
