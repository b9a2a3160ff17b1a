/* The smallest program of a newcomer's own: a task graph that needs nothing of Motley but motley.h.
 *
 * One million numbers in four blocks: each block is filled by a task and summed by a task, then one
 * last task adds up the four sums.  StarPU finds the order from which data a task reads and writes;
 * the stage in each hint is ours, for policies, recordings and messages.
 *
 *   hello_graph                              prints the sum
 *   STARPU_SCHED=dmda hello_graph            under another scheduling policy
 *   STARPU_SCHED=x hello_graph               lists the policies there are, exit 2
 *   MOTLEY_TRACE=t.json.gz hello_graph       records which task ran where and when, for Perfetto */
#include "motley.h"
#include <stdio.h>

enum { BLOCKS = 4, NUMBERS = 250000 };
enum stage { FILL, SUM, JOIN };

static const char *stage_name(int stage)
{
    return (const char *const[]){"fill", "sum", "join"}[stage];
}

/* buffer 0: W (NUMBERS) double; argument: the first number, double */
static void fill_cpu(void *buffers[], void *argument)
{
    double *x = (double *)STARPU_VECTOR_GET_PTR(buffers[0]);
    const double first = *(const double *)argument;
    for (int i = 0; i < NUMBERS; i++) { x[i] = first + i; }
}

/* buffers 0 to n-2: R (any) double; buffer n-1: W (1) double, their sum; argument: n, int */
static void sum_cpu(void *buffers[], void *argument)
{
    const int n = *(const int *)argument;
    double sum = 0.0;
    for (int b = 0; b < n - 1; b++) {
        const double *x = (const double *)STARPU_VECTOR_GET_PTR(buffers[b]);
        const size_t count = STARPU_VECTOR_GET_NX(buffers[b]);
        for (size_t i = 0; i < count; i++) { sum += x[i]; }
    }
    *(double *)STARPU_VECTOR_GET_PTR(buffers[n - 1]) = sum;
}

static struct starpu_codelet fill = {.cpu_funcs = {fill_cpu}, .nbuffers = 1, .modes = {STARPU_W}};
static struct starpu_codelet sum = {.cpu_funcs = {sum_cpu}, .nbuffers = STARPU_VARIABLE_NBUFFERS};

static int insert_fill(starpu_data_handle_t block, int b)
{
    double first = (double)b * NUMBERS;
    return mot_task_insert(&(struct mot_task){.codelet = &fill,
                                              .name = "fill.block",
                                              .hint = {.stage = FILL, .group = b, .flop = NUMBERS},
                                              .n_buffers = 1,
                                              .handles = &block,
                                              .argument = &first,
                                              .argument_bytes = sizeof(first)});
}

/* The sum of n - 1 handles into the last one. */
static int insert_sum(const starpu_data_handle_t *handles, int n, enum stage stage, int b)
{
    const enum starpu_data_access_mode modes[] = {STARPU_R, STARPU_R, STARPU_R, STARPU_R, STARPU_W};
    return mot_task_insert(&(struct mot_task){.codelet = &sum,
                                              .name = stage == SUM ? "sum.block" : "join.blocks",
                                              .hint = {.stage = stage, .group = b},
                                              .n_buffers = n,
                                              .handles = handles,
                                              .modes = modes + BLOCKS + 1 - n,
                                              .argument = &n,
                                              .argument_bytes = sizeof(n)});
}

int main(int argc, char **argv)
{
    (void)argc;
    mot_program_begin(argv);
    const struct mot_start_options options = {.watchdog_s = 60, .stage_name = stage_name};
    if (mot_start(&options)) { return 2; }
    int failed = 0;

    double total = 0.0;
    starpu_data_handle_t block[BLOCKS], sums[BLOCKS + 1]; /* memory: StarPU's own, where needed */
    for (int b = 0; b < BLOCKS; b++) {
        starpu_vector_data_register(&block[b], -1, 0, NUMBERS, sizeof(double));
        starpu_vector_data_register(&sums[b], -1, 0, 1, sizeof(double));
        mot_data_name(block[b], "block %d", b);
    }
    starpu_vector_data_register(&sums[BLOCKS], STARPU_MAIN_RAM, (uintptr_t)&total, 1,
                                sizeof(total));
    for (int b = 0; b < BLOCKS && !failed; b++) {
        const starpu_data_handle_t pair[] = {block[b], sums[b]};
        failed = insert_fill(block[b], b) || insert_sum(pair, 2, SUM, b);
    }
    if (!failed) { failed = insert_sum(sums, BLOCKS + 1, JOIN, -1) != 0; }

    for (int b = 0; b < BLOCKS; b++) { starpu_data_unregister(block[b]); }
    for (int b = 0; b <= BLOCKS; b++) { starpu_data_unregister(sums[b]); } /* waits; fills total */
    if (!failed) { printf("sum: %.0f (policy %s)\n", total, mot_policy_name()); }
    return mot_stop() != 0 || failed;
}
