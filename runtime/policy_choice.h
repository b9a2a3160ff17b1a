/* Finding a scheduling policy by name before StarPU starts: StarPU itself takes an unknown name for
 * "lws" without a word, and so it does with a STARPU_SCHED_LIB it cannot load. */
#ifndef MOT_POLICY_CHOICE_H
#define MOT_POLICY_CHOICE_H
#include <starpu.h>
#include <starpu_scheduler.h>

/* Looks in STARPU_SCHED_LIB, then in more (ended by NULL; may be NULL), then among StarPU's own.
 * 0 and *policy; -EINVAL with a message listing the known names.  A library stays loaded. */
int mot_policy_find(const char *name, struct starpu_sched_policy *const *more,
                    struct starpu_sched_policy **policy);
#endif
