/* The table of Motley's own scheduling policies.  See policies.h. */
#include "policies.h"

struct starpu_sched_policy *const mot_policies[] = {
#define MOT_SCHED(name) &mot_sched_##name,
#include "sched_table.h"
#undef MOT_SCHED
    NULL,
};
