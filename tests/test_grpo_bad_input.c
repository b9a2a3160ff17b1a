/* What a user can get wrong with motley grpo: one line that says what, exit code 1 (input) or 2
 * (usage), nothing written or overwritten; a full disk before the run, while it saves, and a limit
 * on file sizes: exit code 1 and the checkpoint before stays good.  And what is odd but right:
 * peers row 5 (all answers cut off and masked: loss 0, no NaN, no update), row 37 (fewer prompts
 * than a step takes; a prompt longer than the context is a message with its line, at the start).
 * Run it alone: ./test_grpo_bad_input */
#include "byte_model.h"
#include "checkpoint.h"
#include "program.h"
#include <sched.h>
#include <sys/mount.h>

#define MODEL "--model tiny:1 "
#define DATA  "--train_file sums:10-99 "
#define EXACT "--reward_funcs exact "

struct bad {
    const char *arguments;
    int code;
    const char *word; /* in the message */
};
static const struct bad table[] = {
    {MODEL DATA EXACT "--num_genrations 8", 2, "num_generations"},
    {MODEL DATA EXACT "--num_generations", 2, "num_generations"},
    {MODEL DATA EXACT "--max_steps many", 2, "max_steps"},
    {MODEL DATA EXACT "--max_steps 1 stray", 2, "stray"},
    {MODEL DATA EXACT "--learning_rate 1e", 2, "learning_rate"},
    {MODEL DATA EXACT "--num_generations 1", 2, "num_generations"},
    {MODEL DATA EXACT "--max_completion_length 0", 2, "max_completion_length"},
    {MODEL DATA EXACT "--workers 100000", 2, "workers"},
    {MODEL DATA, 2, "reward_funcs"},
    {DATA EXACT, 2, "model"},
    {"--config @/unknown.yaml", 2, "unknown.yaml:3: "},
    {"--config @/none.yaml", 2, "none.yaml"},
    {MODEL DATA "--reward_funcs exactt", 1, "\"exact\""},
    {MODEL DATA "--reward_funcs format:(", 1, "format"},
    {MODEL DATA "--reward_funcs command:/none/such", 1, "/none/such"},
    {MODEL DATA EXACT "--reward_weights 1,2", 1, "reward_weights"},
    {MODEL DATA EXACT "--reward_weights one", 1, "one"},
    {MODEL DATA EXACT "--temperature 0", 1, "temperature"},
    {MODEL DATA EXACT "--generation_batch_size 16 --steps_per_generation 2", 1, "twice"},
    {MODEL DATA EXACT "--generation_batch_size 12", 1, "num_generations 8"},
    {MODEL DATA EXACT "--generation_batch_size 24 --gradient_accumulation_steps 2", 1, "24"},
    {MODEL DATA EXACT "--per_device_train_batch_size 12 --generation_batch_size 24", 1, "12"},
    {MODEL DATA EXACT "--loss_type dappo", 1, "dapo"},
    {MODEL DATA EXACT "--kl_estimator k4", 1, "k3"},
    {MODEL DATA EXACT "--lr_scheduler_type quadratic", 1, "cosine"},
    {MODEL DATA EXACT "--chat_template jinja", 1, "chatml"},
    {MODEL DATA EXACT "--dtype float64", 1, "float64"},
    {MODEL DATA EXACT "--max_prompt_length 3", 1, "limit is 3"},
    {MODEL EXACT "--train_file sums:99-10", 1, "sums"},
    {MODEL EXACT "--train_file sums:0-4294967305", 1, "4294967305"}, /* 9 in 32 bits */
    {MODEL EXACT "--train_file @/empty.jsonl", 1, "empty.jsonl"},
    {MODEL EXACT "--train_file @/none.jsonl", 1, "none.jsonl"},
    {MODEL EXACT "--train_file @/long.jsonl", 1, "long.jsonl:1: "},
    {MODEL EXACT "--train_file @/torn.jsonl", 1, "torn.jsonl:2: "},
    {MODEL DATA EXACT "--eval_file @/torn.jsonl", 1, "torn.jsonl:2: "},
    {MODEL EXACT "--train_file @/pipe", 1, "pipe: no file, but a named pipe"},
    {MODEL EXACT "--train_file /dev/zero", 1, "/dev/zero: no file, but a device"},
    {"--model @/pipe " DATA EXACT, 1, "/pipe"},
    {"--model @/pipes " DATA EXACT, 1, "/pipes/tokenizer.json: no file, but a named pipe"},
    {"--config @/pipe", 2, "pipe: no file, but a named pipe"},
    {"--model tiny:one " DATA EXACT, 1, "tiny:one"},
    {"--model @/none " DATA EXACT, 1, "/none: No such file"},
    {"--model @/garbage " DATA EXACT, 1, "/garbage/"},
    {"--model @/torn.jsonl " DATA EXACT, 1, "torn.jsonl"},
    {"--model @/cut " DATA EXACT, 1, "model.safetensors"},
};

static int exists(const char *name)
{
    char *path = program_words(name);
    const int found = access(path, F_OK) == 0;
    free(path);
    return found;
}

/* One line "motley: ..." that has the word. */
static void check_message(const char *line, int got, int code, const char *word)
{
    int lines = 0;
    for (const char *c = program_errors; *c; c++) { lines += *c == '\n'; }
    check(got == code && lines == 1 && strncmp(program_errors, "motley: ", 8) == 0
              && strstr(program_errors, word),
          "motley %s\n  exit %d, %d lines; expected %d and \"%s\" in: %s", line, got, lines, code,
          word, program_errors);
}

static void write_text(const char *name, const char *text)
{
    char *path = program_words(name);
    scratch_write(path, text, strlen(text));
    free(path);
}

static void write_files(void)
{
    char text[512] = "{\"prompt\": \"", *path = scratch_path("garbage");
    memset(text + strlen(text), 'x', 300);
    strcat(text, "\", \"answer\": \"1\"}\n");
    write_text("@/long.jsonl", text);
    write_text("@/empty.jsonl", "");
    write_text("@/torn.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\"prompt\": \"1+\n");
    write_text("@/three.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n"
                                "{\"prompt\": \"1+2=\", \"answer\": \"3\"}\n"
                                "{\"prompt\": \"2+2=\", \"answer\": \"4\"}\n");
    write_text("@/unknown.yaml", "model: tiny:1\ntrain_file: sums:10-99\nlerning_rate: 1e-3\n");
    MOT_ASSERT(mot_make_directories(path) == 0);
    free(path);
    write_text("@/garbage/config.json", "\x01\x02 what is this");
    char *pipe = scratch_path("pipe"), *inner = scratch_path("pipes/tokenizer.json");
    path = scratch_path("pipes");
    MOT_ASSERT(mkfifo(pipe, 0600) == 0 && mkdir(path, 0700) == 0 && mkfifo(inner, 0600) == 0);
    free(path);
    free(inner);
    free(pipe);
    write_text("@/garbage/tokenizer.json", "{\"model\": [");
    write_text("@/garbage/model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}");
    byte_model_write("cut", &(struct byte_model){32, 96, 0.5f});
    path = scratch_path("cut/model.safetensors");
    MOT_ASSERT(truncate(path, 10000) == 0);
    free(path);
}

static void test_table(void)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char *line = mot_format("grpo --output_dir @/bad --max_steps 1 %s", table[i].arguments);
        check_message(line, program_run(line), table[i].code, table[i].word);
        check(!exists("@/bad"), "motley %s: left a run directory", line);
        free(line);
    }
}

static void test_environment(void)
{
    static const char line[] = "grpo --output_dir @/bad --max_steps 1 " MODEL DATA EXACT;
    setenv("STARPU_SCHED", "eagre", 1);
    check_message(line, program_run(line), 2, "did you mean \"eager\"?");
    setenv("STARPU_SCHED", "foo", 1);
    check_message(line, program_run(line), 2, "prio");
    unsetenv("STARPU_SCHED");
    static const char *const counts[] = {"-5", "many", "2x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        setenv("STARPU_NCPU", counts[i], 1);
        check_message(line, program_run(line), 2, "STARPU_NCPU");
    }
    unsetenv("STARPU_NCPU");
    char *pipe = scratch_path("pipe");
    static const char *const threads[] = {"0", "many", "2,", "-1"};
    for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
        static const char help[] = "--version";
        setenv("OMP_NUM_THREADS", threads[i], 1);
        check_message(help, program_run(help), 0, "OMP_NUM_THREADS");
    }
    setenv("OMP_NUM_THREADS", " 3, 2", 1);
    program_must(0, "--version");
    check(program_errors[0] == 0, "a right OMP_NUM_THREADS is refused: %s", program_errors);
    unsetenv("OMP_NUM_THREADS");
    setenv("STARPU_SCHED_LIB", pipe, 1);
    check_message(line, program_run(line), 2, "/pipe is no file");
    unsetenv("STARPU_SCHED_LIB");
    free(pipe);
}

static const char run_words[] =
    "grpo --model @/model --reward_funcs format:.*[5-9].* --num_generations 4 "
    "--per_device_train_batch_size 8 --max_completion_length 4 --learning_rate 1e-3 --quiet";

/* A directory that holds a run is not touched without --resume. */
static void test_taken_directory(void)
{
    program_must(0, "%s " DATA "--output_dir @/taken --max_steps 2 --save_steps 1", run_words);
    char *from = scratch_path("taken"), *to = scratch_path("copy");
    char *copy = mot_format("cp -r %s %s", from, to);
    MOT_ASSERT(system(copy) == 0);
    char *line = mot_format("%s " DATA "--output_dir @/taken --max_steps 3", run_words);
    check_message(line, program_run(line), 1, "--resume");
    check(directories_equal("@/taken", "@/copy"), "a refused run has changed the directory");
    free(line);
    free(copy);
    free(from);
    free(to);
}

/* Peers row 37. */
static void test_three_prompts(void)
{
    program_must(0,
                 "%s --train_file @/three.jsonl --generation_batch_size 32 --output_dir @/three "
                 "--gradient_accumulation_steps 4 --max_steps 2 --save_steps 0",
                 run_words);
    json_t *rows = lines_load("@/three/completions.jsonl");
    check(json_array_size(rows) == 2 * 32, "not all prompts were answered");
    json_decref(rows);
}

/* Peers row 5; more steps than a run with gradients that are not finite goes on for. */
static void test_all_masked(void)
{
    enum { STEPS = 12 };
    program_must(0,
                 "%s " DATA "--mask_truncated_completions --ignore_eos --output_dir @/masked "
                 "--max_steps %d --save_steps 0 --weight_decay 0.1",
                 run_words, STEPS);
    json_t *lines = lines_load("@/masked/metrics.jsonl"), *line;
    size_t i;
    json_array_foreach(lines, i, line)
    {
        check(number_at(line, "loss") == 0.0 && number_at(line, "grad_norm") == 0.0
                  && number_at(line, "optim/skipped_updates") == 1.0
                  && number_at(line, "completions/clipped_ratio") == 1.0,
              "step %zu of masked answers is no empty step", i + 1);
    }
    check(i == STEPS, "%zu steps of masked answers", i);
    check(names_equal("@/model/model.safetensors", "@/masked/model/model.safetensors"),
          "masked answers changed the weights");
    json_decref(lines);
}

/* ---- Full disks ------------------------------------------------------------------------------ */

static int newest_step(const char *name)
{
    char *path = program_words(name), *found;
    int64_t step = 0;
    if (mot_checkpoint_newest(path, &found, &step) == 1) { free(found); }
    free(path);
    return (int)step;
}

/* A checkpoint that may not be written: the one before stays, and the run can go on later. */
static void test_file_limit(void)
{
    char *line = mot_format("%s " DATA "--output_dir @/taken --max_steps 4 --save_steps 1 --resume",
                            run_words);
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 50000; /* metrics fit, weights do not */
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    const int code = program_run(line);
    setrlimit(RLIMIT_FSIZE, &before);
    check_message(line, code, 1, "safetensors");
    check(newest_step("@/taken/checkpoints") == 2, "the checkpoint before is lost");
    program_must(0, "%s", line);
    check(newest_step("@/taken/checkpoints") == 4, "the run does not go on after a full disk");
    free(line);
}

static void fill_disk(const char *name)
{
    char *path = program_words(name);
    static const char zeros[1 << 16];
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    MOT_ASSERT(fd >= 0);
    while (write(fd, zeros, sizeof(zeros)) > 0) {}
    close(fd);
    free(path);
}

/* On a file system of its own, that a run fills up. */
static void test_full_disk(const char *disk)
{
    char *line = mot_format("%s " DATA "--output_dir @/disk/run --max_steps 100000 --save_steps 1",
                            run_words);
    const pid_t pid = program_start(line);
    while (newest_step("@/disk/run/checkpoints") < 1 && !program_has_ended(pid)) {
        milliseconds_sleep(1);
    }
    fill_disk("@/disk/filler");
    check_message(line, program_wait(pid), 1, "No space left");
    check(newest_step("@/disk/run/checkpoints") >= 1, "a full disk cost the checkpoint");
    free(line);
    /* Known before any work. */
    line = mot_format("grpo " MODEL DATA EXACT "--output_dir @/disk/new --max_steps 1");
    check_message(line, program_run(line), 1, "are free");
    check(!exists("@/disk/new"), "a run without room left a directory");
    free(line);
    MOT_ASSERT(umount2(disk, MNT_DETACH) == 0);
}

/* Two runs on one directory: the second is refused and the first does not notice. */
static void test_two_processes(void)
{
    const pid_t first =
        program_start("grpo " MODEL DATA EXACT "--output_dir @/shared --max_steps 400");
    while (!exists("@/shared/metrics.jsonl")) { milliseconds_sleep(5); }
    char *line =
        mot_format("grpo " MODEL DATA EXACT "--output_dir @/shared --max_steps 1 --resume");
    int status;
    check_message(line, program_run(line), 1, "another process");
    kill(first, SIGKILL);
    MOT_ASSERT(waitpid(first, &status, 0) == first);
    check(WIFSIGNALED(status), "the first run had ended before the second began");
    free(line);
}

/* More answers than a rollout can have are refused before anything of that size is made: the old
 * way took minutes and gigabytes first. */
static void test_too_many_answers(void)
{
    enum { ROWS = 66000 };
    struct bytes text = {0};
    static const char row[] = "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n";
    for (int i = 0; i < ROWS; i++) { bytes_put(&text, row, strlen(row)); }
    char *path = scratch_path("many.jsonl");
    scratch_write(path, text.at, text.n);
    free(text.at);
    free(path);
    static const char line[] = "eval " MODEL EXACT "--file @/many.jsonl --samples 500 --quiet";
    struct rlimit before, limit;
    getrlimit(RLIMIT_CPU, &before);
    limit = before;
    limit.rlim_cur = 40;
    setrlimit(RLIMIT_CPU, &limit);
    const int code = program_run(line);
    setrlimit(RLIMIT_CPU, &before);
    check_message(line, code, 1, "66000 prompts");
}

/* Results that cannot be written are an error, not silence. */
static void test_full_output(void)
{
    check(system("exec " MOT_BINARY_DIR "/motley --help >/dev/full 2>/dev/null") >> 8 == 1,
          "a full standard output is no error");
}

int main(void)
{
    scratch_begin("test_grpo_bad_input");
    byte_model_write("model", &(struct byte_model){32, 96, 0.5f});
    write_files();
    test_table();
    test_environment();
    test_taken_directory();
    test_two_processes();
    test_full_output();
    test_too_many_answers();
    test_three_prompts();
    test_all_masked();
    test_file_limit();
    char *disk = scratch_path("disk");
    MOT_ASSERT(mot_make_directories(disk) == 0);
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
        && mount("tmpfs", disk, "tmpfs", 0, "size=64m") == 0) {
        test_full_disk(disk);
    } else {
        printf("no right to mount: a full disk is not tried, a limit of file sizes was\n");
    }
    free(disk);
    return failures > 0;
}
