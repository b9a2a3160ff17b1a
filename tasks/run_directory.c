/* The run directory.  See run_directory.h. */
#include "run_directory.h"
#include "checkpoint.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATE_BYTES_MAX = 64 << 20 };

static char *join(const char *directory, const char *name)
{
    return mot_format("%s/%s", directory, name);
}

static int exists(const char *directory, const char *name)
{
    char *path = join(directory, name);
    struct stat status;
    const int found = stat(path, &status) == 0;
    free(path);
    return found;
}

/* Whether a run has left something in the directory; an empty checkpoints/ is nothing. */
static int holds_run(const struct mot_run *run)
{
    if (exists(run->path, "metrics.jsonl") || exists(run->path, "model")) { return 1; }
    DIR *directory = opendir(run->checkpoints);
    int entries = 0;
    for (struct dirent *e; directory && (e = readdir(directory)) != NULL;) {
        entries += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    if (directory) { closedir(directory); }
    return entries > 0;
}

static int find_checkpoint(struct mot_run *run)
{
    const int found = mot_checkpoint_newest(run->checkpoints, &run->resume_path, &run->resume_step);
    if (found < 0) { return found; }
    if (found == 0) {
        mot_warn("%s: no checkpoint to resume from; the run starts anew", run->path);
        return 0;
    }
    char *path = join(run->resume_path, "state.json");
    const int status = mot_json_load(path, STATE_BYTES_MAX, &run->resume_state);
    free(path);
    return status;
}

/* Locks the directory as long as the process lives: two runs that write the same files would ruin
 * each other's. */
static int lock_directory(struct mot_run *run)
{
    run->lock = open(run->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run->lock < 0) { return mot_fail(errno, "%s: %s", run->path, strerror(errno)); }
    if (flock(run->lock, LOCK_EX | LOCK_NB) == 0) { return 0; }
    return mot_fail(errno, "%s: %s", run->path,
                    errno == EWOULDBLOCK ? "another process is writing this run" : strerror(errno));
}

int mot_run_open(struct mot_run *run, const struct mot_run_options *options)
{
    *run = (struct mot_run){
        .path = mot_strdup(options->output_dir),
        .save_total_limit = options->save_total_limit,
        .resume = options->resume,
        .lock = -1,
    };
    run->checkpoints = join(run->path, "checkpoints");
    run->made = !exists(run->path, ".");
    int status = mot_make_directories(run->path);
    if (status == 0) { status = lock_directory(run); }
    if (status < 0) {
        mot_run_close(run);
        return status;
    }
    if (options->resume) {
        if (exists(run->path, "checkpoints")) { status = find_checkpoint(run); }
    } else if (holds_run(run)) {
        status = mot_fail(EEXIST,
                          "%s holds a run already: --resume goes on with it, or name another "
                          "--output_dir",
                          run->path);
    }
    if (status == 0) { status = mot_make_directories(run->checkpoints); }
    if (status < 0) { mot_run_close(run); }
    return status;
}

void mot_run_close(struct mot_run *run)
{
    /* What was made and never written to goes again: rmdir leaves directories that are not
     * empty. */
    if (run->checkpoints) { rmdir(run->checkpoints); }
    if (run->path && run->made) { rmdir(run->path); }
    if (run->path && run->lock >= 0) { close(run->lock); } /* an all-zero run has no lock */
    json_decref(run->resume_state);
    free(run->resume_path);
    free(run->checkpoints);
    free(run->path);
    *run = (struct mot_run){.lock = -1};
}

int mot_run_check_disk(const struct mot_run *run, const struct mot_layout *layout, int64_t saves)
{
    /* Weights and two moments, and a few MB of tokenizer files. */
    const double model = 4.0 * (double)layout->parameters, small = 8e6;
    const int64_t limit = run->save_total_limit;
    const double kept = (double)(limit > 0 && limit < saves ? limit + 1 : saves);
    const double needed = kept * (3.0 * model + small) + model + small;
    const int64_t free_bytes = mot_free_disk_bytes(run->path);
    if (free_bytes < 0) { return (int)free_bytes; }
    if ((double)free_bytes >= needed) { return 0; }
    return mot_fail(ENOSPC,
                    "%s: %.1f GB are free, checkpoints and model take %.1f GB; lower "
                    "--save_total_limit or name another --output_dir",
                    run->path, (double)free_bytes / 1e9, needed / 1e9);
}

/* Options that decide how long a run is, what it reports and where it computes, not what. */
static const char *const may_change[] = {"output_dir",
                                         "resume",
                                         "max_steps",
                                         "num_train_epochs",
                                         "save_steps",
                                         "save_total_limit",
                                         "logging_steps",
                                         "save_final_model",
                                         "log_completions",
                                         "eval_strategy",
                                         "eval_file",
                                         "eval_steps",
                                         "eval_limit",
                                         "eval_samples",
                                         "eval_temperature",
                                         "stop_accuracy",
                                         "workers",
                                         "cores_per_worker",
                                         "watchdog_s",
                                         "max_staleness",
                                         "max_concurrent_rollouts",
                                         "trace",
                                         "quiet",
                                         "chunk",
                                         "rows_per_task",
                                         "pack_weights",
                                         "per_device_eval_batch_size",
                                         NULL};

int mot_run_check_config(const struct mot_run *run, const struct mot_option *table,
                         const void *config, size_t config_bytes)
{
    char *path = join(run->path, "config.yaml");
    if (run->resume_path == NULL || access(path, F_OK) != 0) {
        free(path);
        return 0;
    }
    char *file = mot_format("--config=%s", path), *argv[] = {NULL, file};
    void *was = mot_alloc_zeroed(1, config_bytes);
    int status = mot_options_parse(table, was, 2, argv, 1, NULL, NULL);
    if (status == 0) {
        char *difference = mot_options_difference(table, config, was, may_change);
        if (difference) {
            status = mot_fail(EINVAL,
                              "%s: %s: a resumed run keeps it; to change it name another "
                              "--output_dir",
                              path, difference);
        }
        free(difference);
        mot_options_free(table, was);
    }
    free(was);
    free(file);
    free(path);
    return status;
}

static const char data_key[] = "train_file_crc32";

void mot_run_note_data(json_t *state, const struct mot_dataset *data)
{
    json_object_set_new(state, data_key, json_integer(data->crc32));
}

int mot_run_check_data(const struct mot_run *run, const struct mot_dataset *data)
{
    int64_t was;
    if (!run->resume_state || !mot_json_has(run->resume_state, data_key)) { return 0; }
    const int error =
        mot_json_get_int(run->resume_state, run->resume_path, data_key, 0, UINT32_MAX, &was);
    if (error || was == data->crc32) { return error; }
    return mot_fail(EINVAL,
                    "%s: its rows are not those that %s was trained on: a resumed run keeps them; "
                    "to change them name another --output_dir and give that checkpoint as --model",
                    data->path, run->resume_path);
}

int mot_run_write_config(const struct mot_run *run, const struct mot_option *table,
                         const void *config)
{
    char *text = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&text, &n);
    MOT_ASSERT(memory != NULL);
    int status = mot_options_write_yaml(table, config, memory);
    fclose(memory);
    char *path = join(run->path, "config.yaml");
    if (status == 0) { status = mot_file_write(path, text, n); }
    free(path);
    free(text);
    return status;
}

/* ---- JSON lines ------------------------------------------------------------------------------ */

/* The "step" of a whole line, or -1 for one that is torn or has none. */
static int64_t step_of(const char *line, size_t n)
{
    char why[200];
    if (n == 0 || line[n - 1] != '\n') { return -1; }
    json_t *object = mot_json_decode(line, n, why, sizeof(why));
    const json_t *step = json_object_get(object, "step");
    const int64_t value = json_is_integer(step) ? (int64_t)json_integer_value(step) : -1;
    json_decref(object);
    return value;
}

/* Copies the lines of steps up to last from one file to another. */
static int copy_lines(FILE *from, FILE *to, int64_t last)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    int good = 1;
    while (good && (n = getline(&line, &capacity, from)) > 0) {
        const int64_t step = step_of(line, (size_t)n);
        if (step < 0 || step > last) { continue; }
        good = fwrite(line, 1, (size_t)n, to) == (size_t)n;
    }
    free(line);
    return good && fflush(to) == 0 && fsync(fileno(to)) == 0;
}

/* Cuts the file back to what the checkpoint knows; through a copy, so that a kill loses nothing. */
static int cut_lines(const char *path, int64_t last)
{
    if (access(path, F_OK) != 0 && errno == ENOENT) { return 0; }
    const int in = mot_file_open_input(path);
    if (in < 0) { return in; }
    char *copy = mot_format("%s.tmp", path);
    unlink(copy); /* of a killed run */
    const int out = mot_file_open_output(copy, 0);
    if (out < 0) {
        close(in);
        free(copy);
        return out;
    }
    FILE *from = fdopen(in, "r"), *to = fdopen(out, "w");
    MOT_ASSERT(from && to);
    int good = copy_lines(from, to, last);
    good = fclose(to) == 0 && good;
    fclose(from);
    good = good && rename(copy, path) == 0;
    const int status = good ? 0 : mot_fail(errno ? errno : EIO, "%s: %s", copy, strerror(errno));
    if (!good) { unlink(copy); }
    free(copy);
    return status;
}

int mot_run_lines_open(const struct mot_run *run, const char *name)
{
    char *path = join(run->path, name);
    /* Without a checkpoint all is done again, what came before step 1 too. */
    int result = run->resume ? cut_lines(path, run->resume_path ? run->resume_step : -1) : 0;
    if (result == 0) { result = mot_file_open_output(path, 1); }
    free(path);
    return result;
}

/* ---- Checkpoints and the model --------------------------------------------------------------- */

static int save_into(struct mot_actor *actor, const struct mot_tokenizer *tokenizer,
                     const char *directory, int with_optimizer)
{
    int status = mot_actor_save(actor, directory, with_optimizer);
    if (status == 0 && tokenizer) { status = mot_tokenizer_save(tokenizer, directory); }
    return status;
}

static int save_state(const char *directory, int64_t step, const json_t *state)
{
    json_t *all = state ? json_copy((json_t *)state) : json_object();
    json_object_set_new(all, "step", json_integer(step));
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17));
    char *path = join(directory, "state.json");
    const int status = mot_file_write(path, text, strlen(text));
    free(path);
    free(text);
    json_decref(all);
    return status;
}

int mot_run_checkpoint(const struct mot_run *run, struct mot_actor *actor,
                       const struct mot_tokenizer *tokenizer, int64_t step, const json_t *state,
                       const struct mot_run_extra *extra)
{
    char *path;
    int status = mot_checkpoint_begin(run->checkpoints, step, &path);
    if (status < 0) { return status; }
    status = save_into(actor, tokenizer, path, 1);
    if (status == 0) { status = save_state(path, step, state); }
    if (status == 0 && extra) { status = extra->write(extra->context, path); }
    if (status < 0) {
        mot_checkpoint_abort(path);
        return status;
    }
    return mot_checkpoint_commit(run->checkpoints, step, path, run->save_total_limit);
}

/* model.tmp becomes model; an older model (of a resumed run) goes only then. */
static int put_in_place(const char *fresh, const char *model, const char *old)
{
    int status = mot_remove_tree(old);
    if (status < 0) { return status; }
    if (rename(model, old) < 0 && errno != ENOENT) {
        return mot_fail(errno, "%s: %s", model, strerror(errno));
    }
    if (rename(fresh, model) < 0) { return mot_fail(errno, "%s: %s", fresh, strerror(errno)); }
    return mot_remove_tree(old);
}

int mot_run_save_model(const struct mot_run *run, struct mot_actor *actor,
                       const struct mot_tokenizer *tokenizer)
{
    char *fresh = join(run->path, "model.tmp"), *model = join(run->path, "model");
    char *old = join(run->path, "model.old");
    int status = mot_remove_tree(fresh);
    if (status == 0) { status = mot_make_directories(fresh); }
    if (status == 0) { status = save_into(actor, tokenizer, fresh, 0); }
    if (status == 0) { status = mot_file_sync(fresh); }
    if (status == 0) { status = put_in_place(fresh, model, old); }
    if (status == 0) { status = mot_file_sync(run->path); }
    free(fresh);
    free(model);
    free(old);
    return status;
}

/* ---- Interruption ---------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    (void)signal;
    if (interrupted) { _exit(MOT_EXIT_INTERRUPTED); }
    interrupted = 1;
}

void mot_interrupt_watch(void)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int mot_interrupted(void)
{
    return interrupted;
}
