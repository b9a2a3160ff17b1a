/* Which CPU cores this process may use, and which of them belong to which CPU worker.
 * StarPU's own binding puts all OpenMP threads of a worker on one core, so it is switched off
 * (STARPU_WORKERS_NOBIND) and each worker's team is bound here. */
#ifndef MOT_CORES_H
#define MOT_CORES_H

/* Reads the machine and the calling thread's affinity.  Returns the number of allowed cores, at
 * least 1.  Call before StarPU starts; again after a mot_cores_forget(). */
int mot_cores_discover(void);
/* Shares the allowed cores out to so many workers of so many threads.  Not thread-safe. */
void mot_cores_assign(int workers, int threads);
/* Binds the calling thread and its OpenMP team as CPU worker number index, sets the team's size. */
void mot_cores_bind_team(int index);
void mot_cores_forget(void);
#endif
