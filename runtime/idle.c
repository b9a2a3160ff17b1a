/* Idle CPU workers sleep instead of looking for tasks without a pause.
 *
 * StarPU's drivers spin: with more workers than cores, or beside a reward program, an idle worker
 * takes half of somebody's core, and STARPU_BACKOFF_MAX does not help (it yields, it never sleeps).
 * StarPU's idle hook runs in a CPU worker's thread each time it found no task, on any build of
 * StarPU; sleeping there costs a ready task a tenth of a millisecond at most, and stages take
 * milliseconds.  A worker looks for about 50 us before it sleeps, so chains of small tasks do not
 * pay. */
#include "idle.h"
#include "error.h"
#include <starpu.h>
#include <starpu_expert.h>
#include <time.h>

enum { SPIN_NS = 50 * 1000, SLEEP_NS = 100 * 1000 };
static int hook = -1;
static _Thread_local long long idle_since_ns; /* 0: was busy */

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static unsigned idle(void *unused)
{
    (void)unused;
    const long long now = now_ns();
    if (idle_since_ns == 0) { idle_since_ns = now; }
    if (now - idle_since_ns > SPIN_NS) { nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL); }
    return 1; /* a StarPU built with blocking drivers may block */
}

void mot_idle_busy(void)
{
    idle_since_ns = 0;
}

void mot_idle_start(void)
{
    hook = starpu_idle_hook_register(idle, NULL);
    MOT_ASSERT(hook >= 0);
}

void mot_idle_stop(void)
{
    starpu_idle_hook_deregister(hook);
    hook = -1;
}
