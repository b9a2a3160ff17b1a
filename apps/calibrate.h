/* Calibration: how long the stages of a training step take on this machine's workers, measured by
 * running them, as a machine file for motley sim. */
#ifndef MOT_CALIBRATE_H
#define MOT_CALIBRATE_H
#include "app.h"
#include "stage_fit.h"

struct mot_calibration {
    struct mot_stage_fits stages;
    double bytes_per_s;     /* of one worker, all at once: reading and writing memory */
    double peak_flop_per_s; /* float32 matrix products of one worker, all at once */
};
/* data: what the data set of the runs is ("sums:10-99"), NULL: by the model.  StarPU runs and all
 * workers are idle.  Takes seconds for small models.  0 or a negative errno with a message. */
int mot_calibrate(struct mot_app_model *model, const struct mot_model_config *config,
                  const char *data, struct mot_calibration *calibration);
void mot_calibration_free(struct mot_calibration *calibration);
/* The workers as a machine file.  0 or a negative errno with a message. */
int mot_calibration_write(const struct mot_calibration *calibration, const char *model,
                          const char *path);
#endif
