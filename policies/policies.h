/* Motley's own scheduling policies.  To add one: policies/sched_NAME.c with a
 * struct starpu_sched_policy mot_sched_NAME, its line in sched_table.h and in CMakeLists.txt, and
 * tests/test_sched_NAME.c. */
#ifndef MOT_POLICIES_H
#define MOT_POLICIES_H
#include <starpu.h>
#include <starpu_scheduler.h>
#define MOT_SCHED(name) extern struct starpu_sched_policy mot_sched_##name;
#include "sched_table.h"
#undef MOT_SCHED
/* All of them, ended by NULL; for mot_start_options.policies. */
extern struct starpu_sched_policy *const mot_policies[];
#endif
