/* Lower bounds on the makespan of a task graph on classes of identical workers: no schedule,
 * however clever, is shorter.  Linear programs in which a task may be shared out over classes: x_tc
 * is the part of task t in class c, p_tc its duration there, m_c the class's workers, T the
 * makespan.
 *
 *   area      min T: sum_c x_tc = 1, sum_t p_tc x_tc <= m_c T (over classes of equal tasks)
 *   longest   area, and sum_c p_tc x_tc <= T for every t (Lawler and Labetoulle 1978: for
 * independent
 *             tasks the optimum with preemption)
 *   path      the longest way through the graph, each task in its best class, with the transfers
 * that
 *             no choice of classes avoids
 *   sets      head + longest(S) + tail, for sets S of tasks that can only run after head and that
 *             tail must follow; heads and tails count the work of what is before and after
 *   mixed     longest, and start times: s_t + sum_c p_tc x_tc <= s_u for every edge; with the rows
 * of
 *             the best sets, so that it is at least all of the above
 *   links     mixed, and rows for bytes over links and in memory
 *
 * Times are milliseconds.  Transfers and memory count where the graph has links, bytes and
 * sizes. */
#ifndef MOT_PLAN_BOUND_H
#define MOT_PLAN_BOUND_H
#include "graph.h"

enum mot_bound {
    MOT_BOUND_AREA,
    MOT_BOUND_LONGEST,
    MOT_BOUND_PATH,
    MOT_BOUND_SETS,
    MOT_BOUND_MIXED,
    MOT_BOUND_LINKS,
    MOT_BOUNDS
};
/* "area", ..., and one line that explains it. */
const char *mot_bound_name(enum mot_bound bound);
const char *mot_bound_help(enum mot_bound bound);

/* What repeating the graph's steps without end comes to.  A step has one update, the task whose
 * kind no other task of the step has and on which later steps depend. */
struct mot_bound_cycle {
    int steps;        /* 0: the graph does not repeat, the rest is unset */
    double area_ms;   /* Z: area of all tasks / steps; no period is shorter */
    double cycle_ms;  /* C: the longest way of a step to its update, mean over steps */
    int eta;          /* how many updates old the weights of a rollout are here, at most; -1: no
                          rollout waits for an update */
    double period_ms; /* max(Z, way / steps it spans) over ways from update to update; no period is
                          shorter */
    int eta_star; /* ceil(C / Z) - 1: the least staleness at which Z and not C sets the period */
};

struct mot_bounds {
    double ms[MOT_BOUNDS];      /* NAN: does not apply, or not solved in time */
    double seconds[MOT_BOUNDS]; /* what it took */
    enum mot_bound best;        /* the simplest of those within 1e-6 of the largest */
    double best_ms;
    struct mot_bound_cycle cycle;
};

/* seconds: for each linear program; 0: 60.  0, or a negative errno with a message. */
int mot_plan_bound(const struct mot_graph *graph, double seconds, struct mot_bounds *bounds);
#endif
