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
 * StarPU has been started.  0 or a negative errno with a message. */
int mot_graph_simulate(const struct mot_graph *graph, double *makespan_s);
#endif
