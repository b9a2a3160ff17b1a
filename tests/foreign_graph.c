/* A StarPU program that knows nothing of Motley, for test_policy_library: a vector is filled, eight
 * tasks read it and write a number each, one adds them up; ten times over.  Prints the policy's
 * name and the sum. */
#include <starpu.h>
#include <stdio.h>

enum { NUMBERS = 8, LENGTH = 1000, ROUNDS = 10 };

static void fill_cpu(void *buffers[], void *argument)
{
    int *x = (int *)STARPU_VECTOR_GET_PTR(buffers[0]);
    (void)argument;
    for (int i = 0; i < LENGTH; i++) { x[i] = i; }
}
static void sum_cpu(void *buffers[], void *argument)
{
    const int *x = (const int *)STARPU_VECTOR_GET_PTR(buffers[0]);
    int sum = 0;
    (void)argument;
    for (int i = 0; i < LENGTH; i++) { sum += x[i]; }
    *(int *)STARPU_VARIABLE_GET_PTR(buffers[1]) = sum;
}
static void add_cpu(void *buffers[], void *argument)
{
    (void)argument;
    *(int *)STARPU_VARIABLE_GET_PTR(buffers[1]) += *(int *)STARPU_VARIABLE_GET_PTR(buffers[0]);
}
static struct starpu_codelet fill = {
    .cpu_funcs = {fill_cpu}, .nbuffers = 1, .modes = {STARPU_W}, .name = "fill"};
static struct starpu_codelet sum = {
    .cpu_funcs = {sum_cpu}, .nbuffers = 2, .modes = {STARPU_R, STARPU_W}, .name = "sum"};
static struct starpu_codelet add = {
    .cpu_funcs = {add_cpu}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}, .name = "add"};

int main(void)
{
    if (starpu_init(NULL)) { return 2; }
    static int vectors[ROUNDS][LENGTH], numbers[ROUNDS][NUMBERS];
    int total = 0, refused = 0;
    starpu_data_handle_t all;
    starpu_variable_data_register(&all, STARPU_MAIN_RAM, (uintptr_t)&total, sizeof(total));
    for (int round = 0; round < ROUNDS && !refused; round++) {
        starpu_data_handle_t vector, number[NUMBERS];
        starpu_vector_data_register(&vector, STARPU_MAIN_RAM, (uintptr_t)vectors[round], LENGTH,
                                    sizeof(int));
        refused |= starpu_task_insert(&fill, STARPU_W, vector, 0);
        for (int i = 0; i < NUMBERS && !refused; i++) {
            starpu_variable_data_register(&number[i], STARPU_MAIN_RAM,
                                          (uintptr_t)&numbers[round][i], sizeof(int));
            refused |= starpu_task_insert(&sum, STARPU_R, vector, STARPU_W, number[i], 0);
            refused |= starpu_task_insert(&add, STARPU_R, number[i], STARPU_RW, all, 0);
            starpu_data_unregister_submit(number[i]);
        }
        starpu_data_unregister_submit(vector);
    }
    starpu_task_wait_for_all();
    starpu_data_unregister(all);
    printf("%s %d\n", starpu_sched_get_sched_policy()->policy_name, total);
    starpu_shutdown();
    return refused != 0;
}
