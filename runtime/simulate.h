/* Simulated runs: the same program on StarPU's SimGrid build, on the devices of a machine file, in
 * simulated time (starpu_timing_now).
 *
 * Tasks of mot_task_insert run nothing: their codelets' functions are replaced by one that lets the
 * time pass that the machine says (machine.h), and cost models by what it expects.  Work is taken
 * from the task's hint; where the task says a truth of its own (mot_task.truth), time passes for
 * that instead, while policies go on seeing the hint.  A codelet that only says STARPU_CPU in its
 * `where` runs on CPU classes, and on those whose machine file names its stage.
 *
 * Data has sizes and places but no bytes: nothing may read or write it.  What the program needs of
 * a task's results it gets from mot_task.simulated.
 *
 * In the ordinary build MOT_SIMULATES is 0 and nothing here does anything. */
#ifndef MOT_SIMULATE_H
#define MOT_SIMULATE_H
#include "machine.h"
#include <starpu.h>

#ifdef STARPU_SIMGRID
enum { MOT_SIMULATES = 1 };
#else
enum { MOT_SIMULATES = 0 };
#endif

struct mot_simulation {
    const struct mot_machine *machine; /* borrowed to the end */
    enum mot_dtype dtype;              /* of the matrix products */
    uint64_t seed;                     /* of the truth */
};
/* Runs run(argument) in the simulation and ends the program with the exit code that it returns.
 * Returns only a negative errno, with a message: the machine is too large for this build of StarPU,
 * or its files cannot be written. */
int mot_simulate(const struct mot_simulation *simulation, int (*run)(void *argument),
                 void *argument);
/* The simulation under way; NULL: none. */
const struct mot_simulation *mot_simulation(void);

/* What a device did since mot_start(). */
struct mot_simulated_use {
    double busy_s;
    double wait_s; /* a task was bound to the device, its data on the way */
    int tasks;
};
struct mot_simulated_use mot_simulated_use(int device);
/* The device of a worker. */
int mot_simulated_device(int worker);

/* From now on the true durations of tasks are kept.  For recorded ones (MOTLEY_TRACE): seconds of
 * the task of that number in the recording on a device of the class, the least that the truth
 * allows; INFINITY: the class cannot run it, or there is no such task. */
void mot_simulated_keep_truth(void);
double mot_simulated_true_s(uint32_t number, int class);

/* What tells a task from others in the truth: the first of its name, step and group. */
uint64_t mot_simulated_key(const char *name, int step, int group);

/* Memory for data: addresses that nothing may touch.  Never given back. */
void *mot_simulated_memory(size_t bytes);
#endif
