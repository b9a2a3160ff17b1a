/* Workloads as text: what a simulated run trains.  tests/workloads/ has examples, README.md there
 * says every key.  The graph is built by the same code as a real run's (grpo_window.h): only
 * answers are lengths instead of tokens, and weights are sizes instead of numbers. */
#ifndef MOT_WORKLOAD_H
#define MOT_WORKLOAD_H
#include "graph.h"
#include "grpo_step.h"
#include "machine.h"

/* How long prompts and answers are: drawn from a list (a recorded completions.jsonl), or
 * log-normal: mean exp(sigma z - sigma^2 / 2), z normal. */
struct mot_lengths {
    int n;
    int *list; /* (n) */
    double mean, sigma;
    int max; /* tokens; longer ones end there */
};

/* Steps as a graph of four stages, all of it submitted at the start: `answers` generate tasks, a
 * reward for each, a gradient for each micro-batch, an update; generation of step s reads the
 * weights of the update of step s - 1 - staleness, gradients and the update those of step s - 1.
 * Answers have log-normal lengths of which policies know a part; the machine's ms_per_token says
 * what they take.  With by_rand they are drawn by rand(3) after srand(seed), answer by answer, the
 * known part first. */
struct mot_stage_graph {
    int steps, answers, micro_batch, staleness, by_rand;
    double mean, sigma, unknown_sigma; /* of answers, in tokens */
    double weight_bytes, answer_bytes, gradient_bytes;
};

struct mot_workload {
    char *path, *name;
    /* A task graph of its own instead of all that follows: a file for mot_graphs_read, and which of
     * its graphs; NULL: the first. */
    char *dag, *graph;
    struct mot_stage_graph stages; /* or this, where steps > 0 */
    struct mot_model_shape shape;
    enum mot_dtype dtype;
    int steps, prompts_per_step, group_size;
    struct mot_lengths prompts, answers;
    /* Policies know an answer's length beforehand, but for a log-normal factor of mean 1. */
    int lengths_known;
    double unknown_sigma;
    int micro_batch;                     /* answers */
    int micro_batches_per_update, lanes; /* 0 updates: all of a step */
    int rows_per_task, chunk, max_tasks; /* max_tasks 0: one for each device */
    int staleness;
    enum mot_staleness_mode staleness_mode;
    int reference; /* a frozen model's log-probs too (beta above 0) */
};

/* 0, or a negative errno with "file:line: ...". */
int mot_workload_load(const char *path, struct mot_workload *workload);
void mot_workload_free(struct mot_workload *workload);
/* Names that stages have in machine files, ended by NULL. */
const char *const *mot_workload_stages(void);

/* The graph of workload->stages on that machine, which must say how long each stage takes.  0 or
 * -EINVAL with a message; *graph to free. */
int mot_workload_graph(const struct mot_workload *workload, const struct mot_machine *machine,
                       uint64_t seed, struct mot_graph *graph);

/* Tokens of one of them: a function of its arguments alone. */
int mot_lengths_draw(const struct mot_lengths *lengths, uint64_t seed, int what, int step,
                     int prompt, int sample);

/* What a simulated run came to. */
struct mot_workload_step {
    double end_s; /* of its last update */
    double generate_s;
    int64_t prompt_tokens, answer_tokens;
    int staleness_max;
    double staleness_mean; /* over prompts: steps between the weights that answer and the step */
};
struct mot_workload_result {
    double makespan_s;
    int n_steps;
    struct mot_workload_step *steps;
    int generate_tasks;
};
/* Runs it; StarPU has been started, in a simulation.  0 or a negative errno with a message; *result
 * to free (steps). */
int mot_workload_run(const struct mot_workload *workload, uint64_t seed,
                     struct mot_workload_result *result);
#endif
