/* The directory of one run: what a training program writes besides the model.
 *
 *   config.yaml           every option as resolved
 *   metrics.jsonl         one object a step, finite numbers only (others are null)
 *   completions.jsonl     where the program writes samples
 *   checkpoints/step-N/   model, tokenizer, optimizer.safetensors, state.json, manifest.json
 *   model/                the trained model: a HF directory
 *
 * Resuming cuts the JSON lines files back to the checkpoint's step, so that 10 steps + resume + 10
 * leave the lines of 20.  Nothing of another run is overwritten: a directory that holds a run
 * already is an error without --resume. */
#ifndef MOT_RUN_DIRECTORY_H
#define MOT_RUN_DIRECTORY_H
#include "actor.h"
#include "dataset.h"
#include "json.h"
#include "options.h"
#include "tokenizer.h"

struct mot_run_options {
    const char *output_dir;
    int resume; /* go on from the newest checkpoint that verifies; with none, start anew */
    int save_total_limit; /* checkpoints kept; 0: all */
};

struct mot_run {
    char *path, *checkpoints; /* directories */
    int save_total_limit, resume;
    int lock; /* file descriptor of the directory, locked: one process at a time; -1: none */
    int made; /* path was not there before */
    /* Found by mot_run_open with resume: */
    char *resume_path;    /* the checkpoint's directory: a model for mot_model_load, or NULL */
    int64_t resume_step;  /* its step; 0 without */
    json_t *resume_state; /* its state.json, or NULL */
};

/* Makes the directory, or finds the checkpoint to resume from.  Before any work: nothing has been
 * written yet when it fails.  0 or a negative errno with a message. */
int mot_run_open(struct mot_run *run, const struct mot_run_options *options);
/* Removes the directories again while nothing has been written into them. */
void mot_run_close(struct mot_run *run);
/* -ENOSPC with a message unless the disk has room for `saves` checkpoints (as many as will be kept,
 * and the one being written) and the final model of that many parameters. */
int mot_run_check_disk(const struct mot_run *run, const struct mot_layout *layout, int64_t saves);
/* Before a run that resumes: -EINVAL with a message when an option is not what it was in this run
 * and its results would change with it.  config has config_bytes, as mot_options_parse fills it. */
int mot_run_check_config(const struct mot_run *run, const struct mot_option *table,
                         const void *config, size_t config_bytes);
/* The same for the rows of the training data, which mot_run_note_data has put into the state of the
 * checkpoint; one without is of no opinion. */
int mot_run_check_data(const struct mot_run *run, const struct mot_dataset *data);
void mot_run_note_data(json_t *state, const struct mot_dataset *data);
/* Writes config.yaml. */
int mot_run_write_config(const struct mot_run *run, const struct mot_option *table,
                         const void *config);

/* A JSON lines file of the run, opened for appending ("metrics.jsonl").  Its objects have an
 * integer "step", 1 for the first: the checkpoint of step N knows the lines of steps 1 .. N, and
 * with resume the file is first cut to those.  A file descriptor for mot_json_append_line (json.h:
 * numbers that are not finite become null), or a negative errno with a message. */
int mot_run_lines_open(const struct mot_run *run, const char *name);

/* Writes more files into a checkpoint's directory; 0 or a negative errno with a message. */
struct mot_run_extra {
    int (*write)(void *context, const char *directory);
    void *context;
};
/* checkpoints/step-N: the actor's weights and moments, the tokenizer (NULL: none), state (borrowed:
 * whatever the program needs to go on; "step" is added) and extra files (NULL: none).  All tasks
 * that write weights are done or submitted; not from a callback. */
int mot_run_checkpoint(const struct mot_run *run, struct mot_actor *actor,
                       const struct mot_tokenizer *tokenizer, int64_t step, const json_t *state,
                       const struct mot_run_extra *extra);
/* model/: written under another name and renamed. */
int mot_run_save_model(const struct mot_run *run, struct mot_actor *actor,
                       const struct mot_tokenizer *tokenizer);

/* Ctrl-C and SIGTERM: the first sets a flag (finish the step, checkpoint, exit 130), the second
 * ends the program at once. */
void mot_interrupt_watch(void);
int mot_interrupted(void);
enum { MOT_EXIT_INTERRUPTED = 130 };
#endif
