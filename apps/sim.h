/* The simulator's program, as motley sim starts it. */
#ifndef MOT_SIM_H
#define MOT_SIM_H

/* The program of the simulator's build: MOTLEY_SIM_PROGRAM, else sim/motley beside this program's
 * own file (build/sim/motley for build/motley), or this program when it is that one.  To free; NULL
 * with a message that says how to build it when it is not there. */
char *mot_sim_program(void);
#endif
