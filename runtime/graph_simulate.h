/* Task graphs (graph.h) as simulated runs: one task each, with the durations the graph gives for
 * each class, and its data on the way from memory to memory. */
#ifndef MOT_GRAPH_SIMULATE_H
#define MOT_GRAPH_SIMULATE_H
#include "graph.h"
#include "machine.h"

/* The machine of a graph's own classes: a class without a link (the first of them) computes in main
 * memory, others have the links and memories that the graph says, and where it says none no wait
 * for data. */
void mot_machine_of_graph(const struct mot_graph *graph, struct mot_machine *machine);

/* Runs the graph in the simulation under way, whose machine's classes have the graph's names;
 * StarPU has been started.  Policies are told the graph's estimates.  stages: names, ended by NULL;
 * a task whose kind is one of them, or begins with one and a dot, has that number as its stage.  0
 * or a negative errno with a message. */
int mot_graph_simulate(const struct mot_graph *graph, const char *const *stages,
                       double *makespan_s);

/* Puts the machine's truth into the durations of a graph on its classes (graph_adapt.h); where that
 * changes with time or device, the least of it.  So bounds of the graph hold for runs of it.  0 or
 * -EINVAL with a message. */
int mot_graph_apply_truth(struct mot_graph *graph, const struct mot_machine *machine,
                          const char *const *stages, uint64_t seed);
#endif
