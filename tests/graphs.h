/* Random task graphs for tests of bounds, planners and formats: the same for the same number. */
#ifndef TEST_GRAPHS_H
#define TEST_GRAPHS_H
#include "error.h"
#include "graph.h"
#include "rng.h"
#include <math.h>
#include <stdint.h>

/* The draws of one graph; each call of graph_draw gives the next. */
static uint32_t graph_number, graph_draws;

static inline int graph_draw(int from, int to)
{
    return from
           + (int)mot_uniform_int(4, MOT_RNG_TEST, graph_number, graph_draws++, 0,
                                  (uint32_t)(to - from + 1));
}

/* 1 to 3 classes of 1 to 3 workers, n tasks, durations of whole milliseconds, edges in one of four
 * shapes: none, chains, random, steps with an update that the next step waits for. */
static inline void graph_random(struct mot_graph *graph, uint32_t number, int n_min, int n_max)
{
    graph_number = number;
    graph_draws = 0;
    const int n = graph_draw(n_min, n_max), C = graph_draw(1, 3), shape = graph_draw(0, 3);
    const int longest = graph_draw(0, 1) ? 9 : 200;
    int capacity = 0;
    mot_graph_begin(graph, "random", "random", C, n);
    for (int c = 0; c < C; c++) {
        graph->classes[c].name = mot_format("class%d", c);
        graph->classes[c].workers = graph_draw(1, 3);
    }
    for (int t = 0; t < n; t++) {
        const int equal = t > 0 && graph_draw(0, 3) == 0, one = graph_draw(0, C - 1);
        graph->tasks[t].kind = mot_strdup(t % 4 == 3 ? "update" : "work");
        graph->tasks[t].step = t / 4;
        for (int c = 0; c < C; c++) {
            graph->tasks[t].ms[c] = equal                               ? graph->tasks[t - 1].ms[c]
                                    : c != one && graph_draw(0, 5) == 0 ? INFINITY
                                                                        : graph_draw(1, longest);
        }
        for (int a = 0; a < t; a++) {
            const int edge =
                shape == 1   ? a == t - 2
                : shape == 2 ? graph_draw(0, 2) == 0
                : shape == 3 ? (t % 4 == 3 && a / 4 == t / 4) || (a % 4 == 3 && a / 4 == t / 4 - 1)
                             : 0;
            if (edge) { mot_graph_add_edge(graph, &capacity, a, t, 0.0, 0); }
        }
    }
}
#endif
