/* Every policy of ours, and the template, runs 200 random graphs (layers, fork and join, chains,
 * trees that grow from callbacks, no order at all) on four workers that differ, with tasks pinned
 * to workers or kept from some, two implementations, any priorities, and estimates that are absent,
 * NAN, 0, huge or wrong by a factor of 100: each task runs exactly once, after those it waits for,
 * on a worker and by an implementation that may run it; nothing hangs; nothing leaks (under the
 * address sanitizer).  A policy that cannot do it is a policy the test fails.
 * Run it alone: ./test_sched_conformance [POLICY] */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "child.h"
#include "graphs.h"
#include "motley.h"
#include "policies.h"
#include <cmocka.h>
#include <signal.h>
#include <stdatomic.h>

extern struct starpu_sched_policy mot_sched_template; /* policies/sched_template.c */

/* StarPU keeps the list of tasks pinned to a worker, one for each priority, for good. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:_starpu_push_local_task\n";
}

enum { GRAPHS = 200, WORKERS = 4, TASKS_MAX = 40, BEFORE_MAX = 4, HANG_S = 60 };
enum shape { LAYERS, FORK_JOIN, CHAINS, CALLBACKS, UNORDERED, SHAPES };

struct job {
    int n_before, before[BEFORE_MAX];
    int may[WORKERS]; /* bit i: implementation i may run it there */
    int pinned;       /* worker; -1: none */
    int only;         /* bits of workers; 0: no mask */
    int priority;
    double estimate_us[WORKERS][2];
    int spin;
    int n_children, child[3]; /* submitted when it ends */
    starpu_data_handle_t handle;
    int depth; /* what the handle holds: 1 + the greatest of those before */
    atomic_int runs, wrong;
};
static struct job jobs[TASKS_MAX];
static int n_jobs;

/* ---- Tasks ----------------------------------------------------------------------------------- */

static void run(void *buffers[], struct job *job, int implementation)
{
    const int worker = starpu_worker_get_id();
    int depth = 0;
    for (int i = 0; i < job->n_before; i++) {
        const int d = *(const int *)STARPU_VARIABLE_GET_PTR(buffers[i + 1]);
        depth = d > depth ? d : depth;
    }
    *(int *)STARPU_VARIABLE_GET_PTR(buffers[0]) = depth + 1;
    if (!(job->may[worker] >> implementation & 1) || (job->pinned >= 0 && job->pinned != worker)
        || (job->only && !(job->only >> worker & 1))) {
        job->wrong++;
    }
    for (volatile int i = 0; i < job->spin;) { i = i + 1; }
    job->runs++;
}
static void first_cpu(void *buffers[], void *argument)
{
    run(buffers, argument, 0);
}
static void second_cpu(void *buffers[], void *argument)
{
    run(buffers, argument, 1);
}

static int can_execute(unsigned worker, struct starpu_task *task, unsigned implementation)
{
    const struct job *job = task->cl_arg;
    return worker < WORKERS && implementation < 2 && (job->may[worker] >> implementation & 1);
}

static double cost_us(struct starpu_task *task, unsigned worker, unsigned implementation)
{
    const struct job *job = task->cl_arg;
    return job->estimate_us[worker % WORKERS][implementation % 2];
}
static struct starpu_perfmodel model = {
    .type = STARPU_PER_WORKER, .worker_cost_function = cost_us, .symbol = "conformance"};

/* With a model and without. */
static struct starpu_codelet codelets[2] = {
    {.cpu_funcs = {first_cpu, second_cpu},
     .can_execute = can_execute,
     .nbuffers = STARPU_VARIABLE_NBUFFERS,
     .model = &model,
     .name = "estimated"},
    {.cpu_funcs = {first_cpu, second_cpu},
     .can_execute = can_execute,
     .nbuffers = STARPU_VARIABLE_NBUFFERS,
     .name = "unknown"},
};

static void submit(int j);

static void submit_children(void *argument)
{
    const struct job *job = argument;
    for (int i = 0; i < job->n_children; i++) { submit(job->child[i]); }
}

static void submit(int j)
{
    struct job *job = &jobs[j];
    struct starpu_task *task = starpu_task_create();
    task->cl = &codelets[j % 5 == 0];
    task->cl_arg = job;
    task->nbuffers = 1 + job->n_before;
    task->handles[0] = job->handle;
    task->modes[0] = STARPU_W;
    for (int i = 0; i < job->n_before; i++) {
        task->handles[1 + i] = jobs[job->before[i]].handle;
        task->modes[1 + i] = STARPU_R;
    }
    task->priority = job->priority;
    task->callback_func = submit_children;
    task->callback_arg = job;
    if (job->pinned >= 0) {
        task->execute_on_a_specific_worker = 1;
        task->workerid = (unsigned)job->pinned;
    }
    static uint32_t masks[TASKS_MAX];
    if (job->only) {
        masks[j] = (uint32_t)job->only;
        task->workerids = &masks[j];
        task->workerids_len = 1;
    }
    if (starpu_task_submit(task) != 0) { job->wrong++; }
}

/* ---- Random graphs --------------------------------------------------------------------------- */

static double draw_estimate(int kind)
{
    const double us = graph_draw(1, 50);
    switch (kind) {
    case 0:
        return NAN;
    case 1:
        return 0.0;
    case 2:
        return 1e18;
    case 3:
        return us * 100.0;
    case 4:
        return us / 100.0;
    default:
        return us;
    }
}

/* Where it may run: everywhere, or with holes, but at least by one worker. */
static void draw_workers(struct job *job)
{
    const int holes = graph_draw(0, 2) == 0, sure = graph_draw(0, WORKERS - 1);
    for (int w = 0; w < WORKERS; w++) {
        job->may[w] = holes ? graph_draw(0, 3) : 3;
        if (w == sure && job->may[w] == 0) { job->may[w] = 1 + graph_draw(0, 1); }
    }
    job->pinned = graph_draw(0, 7) == 0 ? sure : -1;
    if (job->pinned >= 0) {
        job->may[sure] |= 1;
    } /* StarPU asks for the first only, and takes it */
    job->only = graph_draw(0, 7) == 0 ? 1 << sure | graph_draw(0, 15) : 0;
    if (job->only && job->pinned >= 0) { job->only = 0; }
}

static void add_before(struct job *job, int j)
{
    if (job->n_before < BEFORE_MAX) { job->before[job->n_before++] = j; }
}

static void draw_order(int j, enum shape shape)
{
    struct job *job = &jobs[j];
    if (j == 0) { return; }
    switch (shape) {
    case LAYERS:
        for (int i = 0; j >= 5 && i < 2; i++) { add_before(job, j - j % 5 - 5 + graph_draw(0, 4)); }
        break;
    case FORK_JOIN: /* every sixth joins those since the last, which wait for the one before */
        if (j % 6) {
            if (j > 6) { add_before(job, j - j % 6); }
        } else {
            for (int i = 1; i <= BEFORE_MAX; i++) { add_before(job, j - i); }
        }
        break;
    case CHAINS:
        if (j >= 3) { add_before(job, j - 3); }
        break;
    case CALLBACKS: {
        struct job *parent = &jobs[(j - 1) / 3];
        parent->child[parent->n_children++] = j;
        add_before(job, (j - 1) / 3);
        break;
    }
    default:
        break;
    }
}

static void draw_graph(uint32_t number, enum shape shape)
{
    graph_number = number;
    graph_draws = 0;
    n_jobs = graph_draw(5, TASKS_MAX);
    const int kind = graph_draw(0, 9); /* of estimates; >= 6: of each task's own */
    memset(jobs, 0, sizeof(jobs));
    for (int j = 0; j < n_jobs; j++) {
        struct job *job = &jobs[j];
        draw_workers(job);
        draw_order(j, shape);
        job->priority = graph_draw(-5, 5);
        job->spin = graph_draw(0, 9) == 0 ? 20000 : graph_draw(0, 500);
        for (int w = 0; w < WORKERS; w++) {
            for (int i = 0; i < 2; i++) {
                job->estimate_us[w][i] = draw_estimate(kind < 6 ? kind : graph_draw(0, 9));
            }
        }
    }
}

/* ---- One policy ------------------------------------------------------------------------------ */

static const char *policy;
static uint32_t graph_at;

static void bark(int signal)
{
    (void)signal;
    char text[160];
    const int n = snprintf(text, sizeof(text), "%s hangs at graph %u\n", policy, graph_at);
    if (write(2, text, (size_t)n) > 0) { _exit(3); }
    _exit(3);
}

static int check(void)
{
    int bad = 0;
    for (int j = 0; j < n_jobs; j++) {
        int depth = 0;
        for (int i = 0; i < jobs[j].n_before; i++) {
            depth = jobs[jobs[j].before[i]].depth > depth ? jobs[jobs[j].before[i]].depth : depth;
        }
        if (jobs[j].runs == 1 && jobs[j].wrong == 0 && jobs[j].depth == depth + 1) { continue; }
        fprintf(stderr, "%s, graph %u, task %d: ran %d times, %d wrong, depth %d\n", policy,
                graph_at, j, jobs[j].runs, jobs[j].wrong, jobs[j].depth);
        bad = 1;
    }
    return bad;
}

static int run_graph(enum shape shape)
{
    draw_graph(graph_at, shape);
    for (int j = 0; j < n_jobs; j++) {
        starpu_variable_data_register(&jobs[j].handle, STARPU_MAIN_RAM, (uintptr_t)&jobs[j].depth,
                                      sizeof(int));
    }
    for (int j = 0; j < n_jobs; j++) {
        if (shape != CALLBACKS || j == 0) { submit(j); }
    }
    starpu_task_wait_for_all();
    for (int j = 0; j < n_jobs; j++) { starpu_data_unregister(jobs[j].handle); }
    return check();
}

/* All graphs, StarPU started anew three times: a policy begins and ends, too. */
static int run_policy(void)
{
    struct starpu_sched_policy *list[64] = {&mot_sched_template};
    for (int i = 0; mot_policies[i]; i++) { list[i + 1] = mot_policies[i]; }
    signal(SIGALRM, bark);
    int bad = 0;
    for (int start = 0; start < 3 && !bad; start++) {
        const struct mot_start_options options = {
            .workers = WORKERS, .cores_per_worker = 1, .policy = policy, .policies = list};
        if (mot_start(&options)) { return 2; }
        for (graph_at = (uint32_t)start; graph_at < GRAPHS && !bad; graph_at += 3) {
            alarm(HANG_S);
            bad = run_graph((enum shape)(graph_at % SHAPES));
        }
        alarm(HANG_S);
        mot_stop();
    }
    alarm(0);
    return bad;
}

static void check_policy(const char *name)
{
    char text[16384];
    policy = name;
    const int code = child_run(run_policy, text, sizeof(text));
    if (code != 0) { print_error("%s: exit %d\n%s\n", name, code, text); }
    assert_int_equal(code, 0);
}

static const char *wanted; /* NULL: all */

static void test_ours(void **state)
{
    (void)state;
    int n = 0;
    for (int i = 0; mot_policies[i]; i++) {
        if (wanted && strcmp(wanted, mot_policies[i]->policy_name) != 0) { continue; }
        check_policy(mot_policies[i]->policy_name);
        n++;
    }
    assert_true(n > 0 || wanted);
}

static void test_template(void **state)
{
    (void)state;
    if (!wanted || strcmp(wanted, "template") == 0) { check_policy("template"); }
}

int main(int argc, char **argv)
{
    wanted = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ours),
                                       cmocka_unit_test(test_template)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
