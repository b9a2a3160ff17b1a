/* Times of stages out of recordings: what a machine file says of a class as measured
 * (machine.h), fitted to tasks that have run. */
#ifndef MOT_STAGE_FIT_H
#define MOT_STAGE_FIT_H
#include "machine.h"
#include "trace_read.h"
#include <stdio.h>

struct mot_stage_fit {
    struct mot_machine_stage times; /* named after the task */
    int tasks, sizes;               /* how many, of how many different sizes */
    double error; /* median over sizes of |fitted - measured| / measured, measured a median */
};
struct mot_stage_fits {
    int n;
    struct mot_stage_fit *fit; /* in the order of names */
};

/* Of the tasks with a stage on CPU workers in n recordings.  A task's time is from when it was
 * ready and its worker free to its end: what lies between two tasks counts.  Coefficients are not
 * negative; the sum of relative errors over tasks, each as long as the median of its size, is
 * least. */
void mot_stage_fit(const struct mot_recording *const *recordings, int n,
                   struct mot_stage_fits *fits);
void mot_stage_fits_free(struct mot_stage_fits *fits);
/* As the value of a class's `stages` in a machine file, indented by so many blanks. */
void mot_stage_fits_write(const struct mot_stage_fits *fits, int indent, FILE *file);
#endif
