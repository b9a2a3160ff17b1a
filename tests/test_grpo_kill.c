/* motley grpo survives kill -9: peers row 41.  A run that saves every step is killed at 30 random
 * moments (a fixed seed; while it starts, steps and saves).  Each time the newest checkpoint
 * verifies, is not older than it was, and --resume goes on; at the end checkpoint, model, metrics
 * and completions are those of a run nobody disturbed.  Run it alone: ./test_grpo_kill */
#include "byte_model.h"
#include "checkpoint.h"
#include "program.h"

enum { KILLS = 30, STEPS = 60 };

static const char words[] =
    "grpo --model @/model --train_file sums:10-99 --reward_funcs format:.*[5-9].* "
    "--num_generations 4 --per_device_train_batch_size 8 --gradient_accumulation_steps 1 "
    "--max_completion_length 4 --learning_rate 1e-3 --save_steps 1 --max_steps 60 --quiet";

static char *checkpoints;

/* Step of the newest checkpoint that verifies; 0: none. */
static int newest(void)
{
    char *path;
    int64_t step = 0;
    if (mot_checkpoint_newest(checkpoints, &path, &step) == 1) { free(path); }
    return (int)step;
}

/* A checkpoint newer than `step` is there, verified or not. */
static int has_newer(int step)
{
    for (int s = step + 1; s <= step + 3; s++) {
        char *path = mot_format("%s/step-%d", checkpoints, s);
        const int is_there = access(path, F_OK) == 0;
        free(path);
        if (is_there) { return 1; }
    }
    return 0;
}

static double draw(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / (1 << 24);
}

/* Starts or resumes the run and kills it; 1 when it had not ended. */
static int kill_once(int number, double start_ms, unsigned *state)
{
    const int before = newest();
    char *line = mot_format("%s --output_dir @/killed --resume", words);
    const pid_t pid = program_start(line);
    free(line);
    const double begin = milliseconds_now();
    const int is_early = number % 3 == 0;
    while (!is_early && !has_newer(before) && milliseconds_now() - begin < 60e3) {
        if (program_has_ended(pid)) { break; }
        milliseconds_sleep(0.5);
    }
    milliseconds_sleep(draw(state) * (is_early ? start_ms : 30.0));
    kill(pid, SIGKILL);
    const int code = program_wait(pid), after = newest();
    check(code == 0 || code == 128 + SIGKILL, "kill %d: exit code %d: %s", number, code,
          program_errors);
    check(after >= before && (is_early || after > before),
          "kill %d: the newest checkpoint is of step %d, was of %d", number, after, before);
    return code != 0;
}

int main(void)
{
    scratch_begin("test_grpo_kill");
    byte_model_write("model", &(struct byte_model){32, 96, 0.5f});
    checkpoints = scratch_path("killed/checkpoints");
    double start_ms = milliseconds_now();
    program_must(0, "%s --output_dir @/whole --max_steps 0 --save_final_model false", words);
    start_ms = milliseconds_now() - start_ms;
    name_remove("@/whole");
    program_must(0, "%s --output_dir @/whole", words);
    unsigned state = 5;
    int kills = 0, ends = 0;
    while (kills < KILLS && ends < KILLS) {
        const int was_killed = kill_once(kills, start_ms, &state);
        kills += was_killed;
        if (!was_killed && ends++ < KILLS) { name_remove("@/killed"); }
        if (failures) { return 1; }
    }
    printf("%d kills, the last checkpoint is of step %d\n", kills, newest());
    check(kills == KILLS, "the run ended %d times before it was killed", ends);
    program_must(0, "%s --output_dir @/killed --resume", words);
    check(newest() == STEPS, "not resumed to the end");
    check(directories_equal("@/whole/checkpoints", "@/killed/checkpoints")
              && directories_equal("@/whole/model", "@/killed/model")
              && metrics_equal("@/whole/metrics.jsonl", "@/killed/metrics.jsonl")
              && names_equal("@/whole/completions.jsonl", "@/killed/completions.jsonl"),
          "the killed run's end differs");
    free(checkpoints);
    return failures > 0;
}
