/* What motley compare has found: policies, cases, and a run of each under each. */
#ifndef MOT_COMPARE_H
#define MOT_COMPARE_H
#include <stdint.h>

struct mot_compared_policy {
    char *label;    /* as the user wrote it: "modular-heft:5" */
    char *name;     /* StarPU's */
    int depth;      /* tasks queued for a worker (STARPU_NTASKS_THRESHOLD); 0: StarPU's default */
    int has_memory; /* keeps averages from run to run: only a second run counts */
};

struct mot_compared_case {
    char *graph; /* name in the file; NULL: there is one */
    int64_t seed;
    double bound_s; /* NAN: each run has its own */
};

struct mot_compared_run {
    double makespan_s, bound_s; /* NAN when it failed */
    char *failure;              /* NULL: it did not */
};

struct mot_comparison {
    char *what, *where; /* workload and machine, for headings */
    int is_real;        /* wall time */
    int n_policies, n_cases;
    struct mot_compared_policy *policies;
    struct mot_compared_case *cases;
    struct mot_compared_run *runs; /* (n_policies, n_cases) */
};

/* Over the runs of a policy that did not fail. */
struct mot_compared_summary {
    int runs, failed;
    double mean_ratio, worst_ratio; /* of makespan over bound, the mean geometric; NAN: no run */
    double mean_makespan_s;
};
struct mot_compared_summary mot_compared_summary(const struct mot_comparison *c, int policy);
/* Makespan over bound; NAN when the run failed. */
double mot_compared_ratio(const struct mot_comparison *c, int policy, int index);

/* Of "eager,prio", "modular-heft:5", "heteroprio:cold", "all", ...: policies of StarPU, ours, or
 * STARPU_SCHED_LIB's.  0, or -EINVAL with a message that names the nearest. */
int mot_compared_policies(char *const *words, int n, struct mot_comparison *c);
void mot_comparison_free(struct mot_comparison *c);

void mot_compared_print(const struct mot_comparison *c);
void mot_compared_print_json(const struct mot_comparison *c);
/* 0 when the file's name ends in .csv, .svg, .html or .json; else -EINVAL with a message. */
int mot_compared_check_output(const char *path);
int mot_compared_write(const struct mot_comparison *c, const char *path);
#endif
