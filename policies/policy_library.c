/* libmotley-policies.so: our policies, and the recorder, for any StarPU program (README.md).
 *
 *   STARPU_SCHED_LIB=/path/libmotley-policies.so STARPU_SCHED=NAME program
 *
 * NAME is a policy of ours; with MOTLEY_TRACE=FILE also any of StarPU's own, and either is
 * recorded. StarPU asks for a policy once at each start, makes it ready before the first task and
 * tells it when the last one has ended: that is when the recording opens and closes. */
#include "policies.h"
#include "trace.h"
#include <stdlib.h>
#include <string.h>

#define MOT_EXPORT __attribute__((visibility("default")))

struct starpu_sched_policy *starpu_get_sched_lib_policy(const char *name);
struct starpu_sched_policy **starpu_get_sched_lib_policies(void);

static struct starpu_sched_policy recorded;
static void (*inner_init)(unsigned context);
static void (*inner_deinit)(unsigned context);

static const char *trace_path(void)
{
    const char *path = getenv("MOTLEY_TRACE");
    return path && *path ? path : NULL;
}

/* Context 0 is the one StarPU makes; a program's others share its workers.  A file that cannot be
 * written has had its message: the program runs all the same. */
static void begin(unsigned context)
{
    if (inner_init) { inner_init(context); }
    if (context == 0 && trace_path()) { (void)mot_trace_open(trace_path()); }
}

static void end(unsigned context)
{
    if (context == 0) { (void)mot_trace_close(); }
    if (inner_deinit) { inner_deinit(context); }
}

static struct starpu_sched_policy *find_in(struct starpu_sched_policy *const *list,
                                           const char *name)
{
    for (; *list; list++) {
        if ((*list)->policy_name && strcmp((*list)->policy_name, name) == 0) { return *list; }
    }
    return NULL;
}

MOT_EXPORT struct starpu_sched_policy *starpu_get_sched_lib_policy(const char *name)
{
    struct starpu_sched_policy *policy = find_in(mot_policies, name);
    if (!trace_path()) { return policy; } /* NULL: StarPU looks among its own */
    if (!policy) { policy = find_in(starpu_sched_get_predefined_policies(), name); }
    if (!policy) { return NULL; }
    mot_trace_transfers_watch();
    recorded = *mot_trace_policy(policy, NULL);
    inner_init = recorded.init_sched;
    inner_deinit = recorded.deinit_sched;
    recorded.init_sched = begin;
    recorded.deinit_sched = end;
    return &recorded;
}

MOT_EXPORT struct starpu_sched_policy **starpu_get_sched_lib_policies(void)
{
    return (struct starpu_sched_policy **)mot_policies; /* StarPU only reads it */
}
