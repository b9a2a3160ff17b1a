/* motley demo: the main job on the embedded default, nothing to download.  A small byte-level model
 * is fitted to two-digit sums until it is right on about half of the sums it has never seen, then
 * GRPO with an exact reward lifts it.  Runs the two subcommands and prints how to run them by hand;
 * the last line is "held-out accuracy A -> B". */
#include "app.h"
#include "file.h"
#include "json.h"
#include <stdlib.h>
#include <string.h>

int mot_app_demo(int argc, char **argv);
int mot_app_sft(int argc, char **argv);
int mot_app_grpo(int argc, char **argv);

struct demo_config {
    char *output_dir;
    int64_t seed;
    int workers, cores_per_worker, steps, trace, max_staleness;
};

static const char usage[] =
    "usage: motley demo [options]\n\n"
    "Fits a small byte-level model to two-digit sums until it is right on about half of those it\n"
    "has never seen (motley sft), then lifts it by GRPO (motley grpo).  Nothing to download.  The\n"
    "last line of the output is \"held-out accuracy A % -> B %\".\n";

static const char default_dir[] = "motley-demo";
#define AT(member) offsetof(struct demo_config, member)
static const struct mot_option options[] = {
    {"output_dir", MOT_OPTION_STRING, AT(output_dir), default_dir, NULL, 0, 0, NULL,
     "The two run directories, sft and grpo, go here; in the default one an earlier demo's are "
     "replaced.",
     "Demo"},
    {"seed", MOT_OPTION_INT64, AT(seed), "1", NULL, 0, 1e9, NULL, "Seed of everything random.",
     NULL},
    {"steps", MOT_OPTION_INT, AT(steps), "450", NULL, 1, 100000, "steps", "GRPO steps.", NULL},
    {"max_staleness", MOT_OPTION_INT, AT(max_staleness), "0", NULL, 0, 64, "steps",
     "GRPO's: answers may be of weights so many steps older than those they train.", NULL},
    {"workers", MOT_OPTION_INT, AT(workers), "2", NULL, 0, 1024, NULL,
     "CPU workers StarPU schedules on.", NULL},
    {"cores_per_worker", MOT_OPTION_INT, AT(cores_per_worker), "1", NULL, 0, 1024, NULL,
     "Threads inside each worker.", NULL},
    {"trace", MOT_OPTION_BOOL, AT(trace), "false", NULL, 0, 0, NULL,
     "Record both runs, each into its directory's trace.json.gz, for Perfetto.", NULL},
    {0},
};
#undef AT

enum { WORDS_MAX = 64 };
struct command {
    int argc;
    char *argv[WORDS_MAX + 1];
};

/* Appends the words of a line ("--name value ..."). */
static void add_words(struct command *c, char *line)
{
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        MOT_ASSERT(c->argc < WORDS_MAX);
        c->argv[c->argc++] = mot_strdup(word);
    }
    c->argv[c->argc] = NULL;
    free(line);
}

static int run(struct command *c, int (*app)(int, char **))
{
    printf("\n$ motley");
    for (int i = 0; i < c->argc; i++) { printf(" %s", c->argv[i]); }
    printf("\n");
    fflush(stdout);
    const int code = app(c->argc, c->argv);
    for (int i = 0; i < c->argc; i++) { free(c->argv[i]); }
    return code;
}

/* Fits the model until it is right on at least 45 % of the held-out sums: evaluated every five
 * steps, it is then below 60 %. */
static int fit(const struct demo_config *c)
{
    struct command sft = {0};
    add_words(&sft, mot_format("sft --model tiny:%lld --seed %lld --output_dir %s/sft --workers %d "
                               "--cores_per_worker %d%s",
                               (long long)c->seed, (long long)c->seed, c->output_dir, c->workers,
                               c->cores_per_worker, c->trace ? " --trace" : ""));
    add_words(&sft, mot_strdup("--train_file sums:10-99 --eval_file sums:10-99:held_out "
                               "--reward_funcs exact --eval_strategy steps --eval_steps 5 "
                               "--stop_accuracy 0.45 --max_completion_length 4 --chunk 0 "
                               "--max_steps 1500 --save_steps 0 --logging_steps 10"));
    add_words(&sft, mot_strdup("--per_device_train_batch_size 32 --gradient_accumulation_steps 2 "
                               "--learning_rate 1e-3 --warmup_steps 50 --adam_beta2 0.99 "
                               "--lr_scheduler_type constant_with_warmup"));
    return run(&sft, mot_app_sft);
}

static int lift(const struct demo_config *c)
{
    struct command grpo = {0};
    add_words(&grpo, mot_format("grpo --model %s/sft/model --seed %lld --output_dir %s/grpo "
                                "--workers %d --cores_per_worker %d --max_steps %d%s",
                                c->output_dir, (long long)c->seed, c->output_dir, c->workers,
                                c->cores_per_worker, c->steps, c->trace ? " --trace" : ""));
    if (c->max_staleness > 0) {
        add_words(&grpo, mot_format("--max_staleness %d", c->max_staleness));
    }
    add_words(&grpo, mot_strdup("--train_file sums:10-99 --eval_file sums:10-99:held_out "
                                "--eval_steps 50 --reward_funcs exact --num_generations 8 "
                                "--max_completion_length 4 --chunk 2 --rows_per_task 64"));
    add_words(&grpo, mot_strdup("--per_device_train_batch_size 128 "
                                "--gradient_accumulation_steps 4 --learning_rate 5e-4 "
                                "--warmup_steps 5 --adam_beta2 0.95 --save_steps 100"));
    return run(&grpo, mot_app_grpo);
}

int mot_app_demo(int argc, char **argv)
{
    struct demo_config c;
    const int parsed = mot_options_parse(options, &c, argc, argv, 1, NULL, usage);
    if (parsed) { return parsed > 0 ? MOT_EXIT_OK : MOT_EXIT_USAGE; }
    int code = MOT_EXIT_INPUT;
    char *parts[] = {mot_format("%s/sft", c.output_dir), mot_format("%s/grpo", c.output_dir)};
    if (strchr(c.output_dir, ' ') != NULL) {
        mot_fail(EINVAL, "output_dir '%s': the demo takes no blanks in it", c.output_dir);
    } else if (strcmp(c.output_dir, default_dir) != 0
               || (mot_remove_tree(parts[0]) == 0 && mot_remove_tree(parts[1]) == 0)) {
        code = fit(&c);
    }
    if (code == MOT_EXIT_OK) { code = lift(&c); }
    free(parts[0]);
    free(parts[1]);
    mot_options_free(options, &c);
    return code;
}
