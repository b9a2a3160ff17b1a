/* What the files of the bounds share; see plan_bound.h for the letters. */
#ifndef MOT_PLAN_BOUND_INTERNAL_H
#define MOT_PLAN_BOUND_INTERNAL_H
#include "plan_bound.h"
#include "plan_lp.h"
#include <stdint.h>

enum {
    BOUND_PRICES = 16,       /* price vectors at most */
    BOUND_SETS = 8,          /* sets whose program is solved, and whose rows the mixed one gets */
    BOUND_CLOSURE_MAX = 2048 /* tasks up to which all ancestors of all tasks are kept */
};

/* Tasks that can only run after head, and after which tail must pass. */
struct bound_set {
    char *in; /* (n) */
    double head, tail, ms;
};

struct bound_problem {
    const struct mot_graph *graph;
    int n, C;
    double seconds, scale; /* programs see milliseconds x scale */
    int *order;
    struct mot_graph_links out, in;
    double *ms;           /* (n, C), INFINITY: cannot run there */
    double *fastest;      /* (n) */
    int n_groups, *group; /* (n) tasks with equal durations share a group */
    double *head, *tail;  /* (n) time that must pass before its start, after its end */
    double *path_tail;    /* (n) tail by edges alone, at their fastest */
    int words;            /* of a row of above; 0: too many tasks */
    uint64_t *above;      /* (n, words) ancestors */
    int K;
    double *price; /* (K, C) >= 0, sum over c of m_c x price = 1 */
    double *work;  /* (n, K) least priced duration */
    int n_sets;
    struct bound_set set[BOUND_SETS];
};

/* Finds the groups anew, after ms has changed. */
void bound_groups(struct bound_problem *p);
/* min T of the area program of a set (NULL: all tasks), in milliseconds; longest: with its rows.
 * price: NULL, or (C) the duals of the classes' rows.  NAN where it is not solved. */
double bound_area(const struct bound_problem *p, const char *set, int longest, double *price);
/* Fills head, tail and path_tail from edges and transfers (plan_bound_path.c); the longest way. */
double bound_path(struct bound_problem *p);
/* Strengthens head and tail by work, finds the sets; the largest of their bounds. */
double bound_sets(struct bound_problem *p);
/* links: with the rows for bytes.  NAN where they do not apply, or it is not solved. */
double bound_mixed(const struct bound_problem *p, int links);
/* 1 where a row of links or memory could matter. */
int bound_has_links(const struct bound_problem *p);
void bound_cycle(const struct bound_problem *p, double area_ms, struct mot_bound_cycle *cycle);

static inline int bound_is_above(const struct bound_problem *p, int ancestor, int task)
{
    return (int)(p->above[(size_t)task * (size_t)p->words + (size_t)(ancestor / 64)]
                     >> (ancestor % 64)
                 & 1);
}
#endif
