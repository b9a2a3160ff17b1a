/* The files that StarPU on SimGrid reads a machine from, written from a machine description.
 *
 * To StarPU every device that does not compute in main memory is a CUDA device, number i being
 * device n_cpus + i of the machine.  Each has its link, to the memory of its box; other boxes lie
 * behind their node's link.  Two devices whose class has a peer link use it inside a box; across
 * boxes their data goes over both links without a stop in main memory.  A shared link is one for
 * all that share it, and what they send at once shares its bandwidth. */
#ifndef MOT_SIM_PLATFORM_H
#define MOT_SIM_PLATFORM_H
#include "machine.h"

/* The name under which StarPU finds the files (STARPU_HOSTNAME). */
#define MOT_SIM_HOST "motley-sim"

/* Writes bus/motley-sim.{platform.v4.xml,bandwidth,latency,config} into the directory, which
 * exists (STARPU_PERF_MODEL_DIR).  0 or a negative errno with a message. */
int mot_sim_platform_write(const struct mot_machine *machine, const char *directory);

/* Bandwidth in bytes/s and latency in seconds between main memory (-1) or a device's memory and
 * another's, links unshared. */
void mot_sim_platform_path(const struct mot_machine *machine, int from, int to, double *bytes_per_s,
                           double *latency_s);
/* The most that can get into a device's memory, from main memory and its peers at once, in bytes/s,
 * and the least latency of these, in seconds. */
void mot_sim_platform_inflow(const struct mot_machine *machine, int device, double *bytes_per_s,
                             double *latency_s);
#endif
