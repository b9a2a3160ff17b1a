/* Outputs that cannot be written are an error with exit code 1, whichever: a recording, metrics,
 * completions, standard output; and none of them waits at a named pipe that nobody reads, nor
 * replaces a device by a file.  /dev/full stands for a full disk.
 * Run it alone: ./test_outputs */
#include "byte_model.h"
#include "program.h"

#define TINY "--model tiny:1 --quiet "
#define GRPO                                                                         \
    "grpo --train_file sums:10-99 --reward_funcs exact --num_generations 4 --quiet " \
    "--model tiny:1 --per_device_train_batch_size 4 --max_completion_length 4 "      \
    "--save_steps 1 --max_steps "
#define SFT                                                                                \
    "sft --train_file sums:10-99 --model tiny:1 --quiet --save_steps 1 --logging_steps 1 " \
    "--max_steps "

/* Exit code, one line, and the name in it. */
static void must_fail(const char *line, int code, const char *name)
{
    const int got = program_run(line);
    int lines = 0;
    for (const char *c = program_errors; *c; c++) { lines += *c == '\n'; }
    check(got == code && lines == 1 && strstr(program_errors, name),
          "motley %s\n  exit %d, expected %d and \"%s\" in: %s", line, got, code, name,
          program_errors);
}

static void test_recordings(void)
{
    static const char line[] = "generate " TINY "--prompt 1+1= --max_completion_length 4";
    setenv("MOTLEY_TRACE", "/dev/full", 1);
    must_fail(line, 1, "/dev/full");
    must_fail(GRPO "1 --output_dir @/recorded", 1, "/dev/full");
    must_fail(SFT "1 --output_dir @/recorded-sft", 1, "/dev/full");
    must_fail("eval --file sums:10-20 --reward_funcs exact " TINY, 1, "/dev/full");
    char *path = scratch_path("pipe");
    setenv("MOTLEY_TRACE", path, 1);
    must_fail(line, 1, "/pipe");
    free(path);
    path = scratch_path("trace.json.gz");
    setenv("MOTLEY_TRACE", path, 1);
    program_must(0, line);
    check(access(path, F_OK) == 0, "no recording");
    unsetenv("MOTLEY_TRACE");
    free(path);
}

/* A file of a run directory that is `target` when the run goes on. */
static void test_lines(const char *words, const char *run, const char *name, const char *target)
{
    program_must(0, "%s1 --output_dir @/%s", words, run);
    char *link_name = mot_format("@/%s/%s", run, name), *link_path = program_words(link_name);
    char *to = program_words(target);
    MOT_ASSERT(unlink(link_path) == 0 && symlink(to, link_path) == 0);
    char *line = mot_format("%s2 --resume --output_dir @/%s", words, run);
    must_fail(line, 1, name);
    free(line);
    free(to);
    free(link_path);
    free(link_name);
}

/* A checkpoint whose manifest is no file does not verify. */
static void test_manifest(void)
{
    program_must(0, SFT "1 --output_dir @/manifest");
    char *path = scratch_path("manifest/checkpoints/step-1/manifest.json");
    MOT_ASSERT(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    program_must(0, SFT "1 --resume --output_dir @/manifest");
    check(strstr(program_errors, "manifest.json") != NULL, "nothing said of a manifest: %s",
          program_errors);
    free(path);
}

/* Appends to what is a full disk only once the run has begun: the size of files is limited. */
static void test_full_lines(const char *words, const char *run, int limit_bytes, const char *name)
{
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)limit_bytes;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    char *line = mot_format("%s100 --save_steps 0 --output_dir @/%s", words, run);
    must_fail(line, 1, name);
    free(line);
    setrlimit(RLIMIT_FSIZE, &before);
}

/* Standard output that is full, or closed, and the streams a shell has closed. */
static void test_shell(const char *words, const char *redirections, int code)
{
    char *err = scratch_path("err");
    char *line = mot_format("exec timeout 60 " MOT_BINARY_DIR "/motley %s %s 2>%s", words,
                            redirections, err);
    const int status = system(line);
    check(WIFEXITED(status) && WEXITSTATUS(status) == code, "%s: status %x, not %d", line, status,
          code);
    free(line);
    free(err);
}

/* Nothing that is said gets into a file that took the number of a stream the caller had closed. */
static void test_closed_streams(void)
{
    char *run = scratch_path("closed");
    char *line = mot_format("exec timeout 60 " MOT_BINARY_DIR
                            "/motley grpo --train_file sums:10-99 --reward_funcs exact "
                            "--num_generations 4 --model tiny:1 --max_completion_length 4 "
                            "--per_device_train_batch_size 4 --max_steps 2 --output_dir %s "
                            "<&- >&- 2>&-",
                            run);
    const int status = system(line);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %x", line, status);
    free(line);
    json_t *rows = lines_load("@/closed/completions.jsonl");
    json_t *metrics = lines_load("@/closed/metrics.jsonl");
    check(json_array_size(rows) > 0 && json_array_size(metrics) == 2, "%zu answers, %zu steps",
          json_array_size(rows), json_array_size(metrics));
    json_decref(rows);
    json_decref(metrics);
    free(run);
}

/* A message about text of the command line names the option, not the file it went through. */
static void test_place_of_prompt(void)
{
    char *prompt = mot_alloc(5001);
    memset(prompt, '1', 5000);
    prompt[5000] = 0;
    char *line = mot_format("generate " TINY "--prompt %s", prompt);
    must_fail(line, 1, "motley: --prompt:1: ");
    free(line);
    free(prompt);
}

static void test_device_stays(void)
{
    char *node = scratch_path("null");
    if (mknod(node, S_IFCHR | 0666, (dev_t)(1 << 8 | 3)) == 0) {
        char *line =
            mot_format("bound " MOT_SOURCE_DIR "/tests/data/small-dags.json --write %s", node);
        struct stat status;
        program_must(0, "%s", line);
        check(stat(node, &status) == 0 && S_ISCHR(status.st_mode), "a device became a file");
        free(line);
    } else {
        printf("no right to make a device: --write onto one is not tried\n");
    }
    free(node);
    must_fail("bound " MOT_SOURCE_DIR "/tests/data/small-dags.json --write /dev/full", 1,
              "/dev/full");
    must_fail("bound " MOT_SOURCE_DIR "/tests/data/small-dags.json --write @/pipe", 1, "/pipe");
}

/* A result that could not be written is refused before the work that makes it. */
static void test_results(void)
{
    static const char nowhere[] = "@/nowhere/result.csv", folder[] = "@/folder.csv";
    char *path = scratch_path("folder.csv");
    MOT_ASSERT(mkdir(path, 0700) == 0);
    free(path);
    static const char *const lines[] = {
        "bound " MOT_SOURCE_DIR "/tests/data/small-dags.json --write %s",
        "sim --machine " MOT_SOURCE_DIR "/tests/machines/cpu-box.yaml --workload nothing "
        "--write %s",
        "compare --graphs " MOT_SOURCE_DIR "/tests/data/small-dags.json --policies eager "
        "--output %s",
        "devices --calibrate --model tiny:1 --write %s",
    };
    for (int i = 0; i < (int)(sizeof(lines) / sizeof(lines[0])); i++) {
        char *line = mot_format(lines[i], nowhere);
        must_fail(line, 1, "/nowhere/result.csv: No such file or directory");
        free(line);
        line = mot_format(lines[i], folder);
        must_fail(line, 1, "/folder.csv: Is a directory");
        free(line);
    }
}

int main(void)
{
    scratch_begin("test_outputs");
    char *pipe_path = scratch_path("pipe");
    MOT_ASSERT(mkfifo(pipe_path, 0600) == 0);
    free(pipe_path);
    test_recordings();
    test_lines(GRPO, "pipe-metrics", "metrics.jsonl", "@/pipe");
    test_lines(GRPO, "pipe-completions", "completions.jsonl", "@/pipe");
    test_lines(SFT, "pipe-sft", "metrics.jsonl", "@/pipe");
    test_manifest();
    test_full_lines(GRPO, "full", 8192, "completions.jsonl");
    test_full_lines(SFT, "full-sft", 4096, "metrics.jsonl");
    test_shell("generate --model tiny:1 --prompt 1+1= --quiet", ">/dev/full", 1);
    test_shell("generate --model tiny:1 --prompt 1+1= --quiet", ">&-", 1);
    test_shell("eval --model tiny:1 --file sums:10-20 --reward_funcs exact --json --quiet",
               ">/dev/full", 1);
    test_shell("tokenize --model bytes -", "<&-", 1);
    test_shell("devices", ">/dev/full", 1);
    test_closed_streams();
    test_place_of_prompt();
    test_device_stays();
    test_results();
    return failures > 0;
}
