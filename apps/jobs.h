/* Many runs of programs, some at a time. */
#ifndef MOT_JOBS_H
#define MOT_JOBS_H
#include <stddef.h>
#include <sys/types.h>

enum { MOT_JOB_VARIABLES_MAX = 8 };

/* One run of a program: what it is, then how it ended. */
struct mot_job {
    char **argv; /* ended by NULL; argv[0] is the program's path; NULL: nothing to run */
    char *variables[MOT_JOB_VARIABLES_MAX + 1]; /* "NAME=value" on top of ours, ended by NULL */
    char *out, *err;                            /* files that get its standard output and error */
    double limit_s;                             /* it is killed then; 0: never */

    int status;    /* of waitpid */
    int timed_out; /* killed for the limit */
    int error;     /* it could not be started: a negative errno, after a message */
    double seconds;

    pid_t pid; /* while it runs */
    double start_s;
};

/* Runs jobs (n), at most at_once together, in order.  ended(context, i) as each has ended; what it
 * takes is time in which none is started.  0; or 1 when *stop became non-zero: then the rest was
 * killed. */
int mot_jobs_run(struct mot_job *jobs, int n, int at_once, const volatile int *stop,
                 void (*ended)(void *context, int i), void *context);
void mot_job_free(struct mot_job *job);

/* NULL when it exited with 0; else what became of it and the last line that it wrote to its
 * standard error: "exit 1: unknown ...", "killed by SIGABRT: ...", "took longer than 60 s".  To
 * free. */
char *mot_job_failure(const struct mot_job *job);
#endif
