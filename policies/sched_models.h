/* What was measured of each kind of task in each class of devices, kept between runs.
 *
 * One file per machine, JSON: MOTLEY_MODELS=FILE names it, empty: none; by default it is
 * motley-models-HOST.json in STARPU_HOME, beside StarPU's own models, else in ~/.cache/motley.
 * Simulations, whose machine files say it all, have none unless it is named.
 *
 * {"format": "motley models", "version": 1, "classes": {"CPU x2": {"flop_per_us": ...,
 *  "bytes_per_us": ..., "tasks": {"rollout.decode": {"24.0": {"seen": 321, "samples": [...]}}}}}}
 *
 * A class of processors counts its workers and their cores, which share a memory.  The innermost
 * key is the task's size (sched_core.h) and its implementation, with an r behind where the samples
 * are relative to StarPU's model; else they are microseconds. */
#ifndef MOT_SCHED_MODELS_H
#define MOT_SCHED_MODELS_H
#include "sched_core.h"
#include <jansson.h>

/* Reads the file.  What cannot be read is said in a warning, and the run begins with nothing. */
void mot_models_load(struct mot_sched *s);
/* The samples of earlier runs, into a new cell; and into a class what it reaches. */
void mot_models_fill(const struct mot_sched *s, struct mot_sched_cell *cell);
void mot_models_fill_class(const struct mot_sched *s, struct mot_sched_class *class);
/* Says so when what this run measures differs from what earlier runs did by more than tasks of the
 * cell vary, and then forgets the latter.  us: one more measured task of worker w. */
void mot_models_check(struct mot_sched *s, struct mot_sched_cell *cell, double x);
/* Adds what this run has measured to the file, which other runs may have changed meanwhile. */
void mot_models_save(struct mot_sched *s);
void mot_models_free(struct mot_sched *s);

/* The file as it is now, for people who want to look: "classes" as above, a new reference; *path to
 * free.  NULL: there is none. */
json_t *mot_models_read(char **path);
#endif
