/* A pool of equal external programs that answer one line with one line, for work that must not hold
 * a StarPU worker: submitting returns at once, one thread of the pool polls all the pipes.
 *
 * A program that is not done in time is killed with its process group, one that ends is started
 * anew; the request pays, the slot goes on. */
#ifndef MOT_PROCESS_POOL_H
#define MOT_PROCESS_POOL_H
#include <stddef.h>
#include <stdint.h>

struct mot_pool;

/* How one request ended, called once, in the pool's thread: be quick, do not wait.  status 0: reply
 * is the line without its newline, borrowed until the return.  Else reply is NULL and status
 *   -ETIMEDOUT  no line within the time limit
 *   -EPIPE      the program ended without a line, or the pool has given it up
 *   -EMSGSIZE   more than the longest allowed line without an end
 *   -ECANCELED  the pool was destroyed before */
typedef void (*mot_pool_finished)(void *context, int status, const char *reply);

struct mot_pool_counts {
    int64_t requests;                   /* submitted */
    int64_t timeouts, deaths, overlong; /* requests that ended so */
    int64_t starts;                     /* of programs, the first ones included */
};

/* Starts `processes` >= 1 copies of command (words as /bin/sh reads them).  time_limit_s > 0 counts
 * from when the request is given to a program, its start included.  0 or a negative errno with a
 * message. */
int mot_pool_create(const char *command, int processes, double time_limit_s,
                    struct mot_pool **pool);
/* Stops and reaps the programs, ends what is open with -ECANCELED.  NULL is allowed. */
void mot_pool_destroy(struct mot_pool *pool);
/* Gives line (copied; without newline) to the next free program.  Any thread. */
void mot_pool_submit(struct mot_pool *pool, const char *line, mot_pool_finished finished,
                     void *context);
struct mot_pool_counts mot_pool_counts(struct mot_pool *pool);
#endif
