/* What motley sim and motley compare share: what is simulated, and the program that does it. */
#ifndef MOT_SIM_H
#define MOT_SIM_H
#include "graph.h"
#include "machine.h"
#include "workload.h"
#include <stdint.h>

/* What is simulated, as the user names it; NULL: not given. */
struct mot_sim_source {
    const char *machine, *workload, *graphs, *graph;
    const char *like;         /* mot_graph_adapt */
    const char *devices;      /* mot_sim_devices */
    const int *max_staleness; /* NULL: what the workload says */
    double noise;
    int steps, workers; /* 0: what the files say */
    int explain;        /* tell what stands for what (mot_graph_adapt) */
};

/* The same, read.  graph: NULL for a workload that builds its graph as it runs. */
struct mot_sim_subject {
    struct mot_machine machine;
    struct mot_workload workload;
    struct mot_graphs graphs;
    struct mot_graph drawn; /* a workload of stages, for that seed */
    struct mot_graph *graph;
};

/* command: of messages.  0, or the exit code after a message; the subject is to be freed in both
 * cases. */
int mot_sim_load(const char *command, const struct mot_sim_source *source, int64_t seed,
                 struct mot_sim_subject *subject);
void mot_sim_unload(struct mot_sim_subject *subject);

/* The program of the simulator's build: MOTLEY_SIM_PROGRAM, else sim/motley beside this program's
 * own file (build/sim/motley for build/motley), or this program when it is that one.  To free; NULL
 * with a message that says how to build it when it is not there. */
char *mot_sim_program(void);

/* --devices, "H800=13+11, H20=24": other numbers of devices, N of a class, or G that only generate
 * and T, as a class CLASS-train, that only train.  0 or -EINVAL with a message. */
int mot_sim_devices(struct mot_machine *machine, const char *text);
#endif
