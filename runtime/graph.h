/* A task graph on classes of identical workers, in memory: what bounds, planners and simulations
 * read.  Files of several formats become one of these (graph_formats_table.h); durations are given
 * per class, so devices may be as unlike as they are.
 *
 * Letters: C classes, n tasks.  Times are milliseconds, sizes bytes.  Everything here is plain data
 * that its owner may change; mot_graph_check() says whether it still makes sense. */
#ifndef MOT_GRAPH_H
#define MOT_GRAPH_H
#include <stddef.h>
#include <stdio.h>

/* The most tasks, edges and workers of a graph: products of two fit in 64 bits, sums in an int. */
enum { MOT_GRAPH_TASKS_MAX = 10000000, MOT_GRAPH_WORKERS_MAX = 1000000 };

/* Workers that take the same time for the same task. */
struct mot_graph_class {
    char *name;
    int workers;
    double memory_bytes;     /* of each worker where it has a link, else of all; 0: unlimited */
    double link_bytes_per_s; /* of each worker's own link to main memory, either way at once;
                                 0: the workers compute in main memory */
    double link_ms;          /* latency of that link */
};

struct mot_graph_task {
    char *name, *kind;
    int step;            /* of the training run; 0 where there are none */
    double *ms;          /* (C) duration; INFINITY: this class cannot run it */
    double output_bytes; /* what it leaves behind; 0: unknown or nothing */
    int line;            /* of the file, for messages; 0: unknown */
};

/* after starts when before has ended and its bytes have come. */
struct mot_graph_edge {
    int before, after;
    double bytes;
    int line;
};

struct mot_graph {
    char *name, *file; /* file: for messages */
    int line;
    int n_classes;
    struct mot_graph_class *classes;
    int n_tasks;
    struct mot_graph_task *tasks;
    double *estimate_ms; /* (n_tasks, C) what policies are told; NULL: the durations */
    int *priority; /* (n_tasks) greater goes first; NULL: the longest way to the end decides */
    int n_edges;
    struct mot_graph_edge *edges;
    double optimum_ms, longest_path_ms; /* as the file says, without transfers; NAN: it does not */
};

struct mot_graphs {
    struct mot_graph *graph;
    int n;
};

/* Reads all graphs of a file ("-": standard input; "cholesky:TILES": none, it is made), each
 * checked.  The format is recognised from the text.  workers: of the single class of formats that
 * give one duration per task (0: what the file says; where it says nothing that is an error; -1:
 * what it says, else 1).  0, or a negative errno with one message "file:line: ...", and *graphs
 * untouched. */
int mot_graphs_read(const char *path, int workers, struct mot_graphs *graphs);
void mot_graphs_free(struct mot_graphs *graphs);
/* The graphs as Motley's own JSON form, one graph a line; reading it back gives the same graphs.
 * 0, or a negative errno with a message. */
int mot_graphs_write(const struct mot_graphs *graphs, const char *path);

/* An empty graph with its classes and tasks to be filled in: names NULL, all else zero. */
void mot_graph_begin(struct mot_graph *graph, const char *file, const char *name, int n_classes,
                     int n_tasks);
/* Makes room for estimates, equal to the durations there are then; for priorities, all 0. */
void mot_graph_add_estimates(struct mot_graph *graph);
void mot_graph_add_priorities(struct mot_graph *graph);
/* capacity: what graph->edges has room for, kept by the caller from 0 on. */
void mot_graph_add_edge(struct mot_graph *graph, int *capacity, int before, int after, double bytes,
                        int line);
void mot_graph_free(struct mot_graph *graph);
/* 0; or -EINVAL and one message for the first thing that makes no sense: no class, no worker, a
 * negative or infinite time or size, a task that no class can run or whose data no class that can
 * run it can hold, an edge to nowhere, a cycle (whose tasks it names). */
int mot_graph_check(const struct mot_graph *graph);
/* The tasks in an order in which edges point forward, ties by index.  0, or -EINVAL without a
 * message where there is a cycle; then order begins with the tasks outside and before it and *n is
 * their number (n may be NULL). */
int mot_graph_order(const struct mot_graph *graph, int *order, int *n);

/* Edges by task: edge[start[t]] to edge[start[t + 1] - 1] are the indices of those that leave t
 * (by_after 0) or enter it (by_after 1). */
struct mot_graph_links {
    int *start, *edge; /* (n + 1), (n_edges) */
};
void mot_graph_links(const struct mot_graph *graph, int by_after, struct mot_graph_links *links);
void mot_graph_links_free(struct mot_graph_links *links);

/* Shortest duration over the classes. */
double mot_graph_fastest_ms(const struct mot_graph *graph, int task);
/* 1 where class c can run the task, as to its code and its memory. */
int mot_graph_can_run(const struct mot_graph *graph, int task, int c);
/* Sum of the workers of all classes. */
int mot_graph_workers(const struct mot_graph *graph);
#endif
