/* The transformer's backward, on three kinds of model with random weights:
 *   every tensor's gradient against central differences of the loss along a random direction, on a
 *   batch where answers share a prompt
 *   a prompt shared by its answers has the gradient of the same sequences computed whole, to 1e-5
 *   of each tensor's norm; and two runs give equal bits. */
#include "network.h"
#include "shapes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { PROMPT = 19, ANSWERS = 3, LONGEST = 11, TARGETS = ANSWERS * LONGEST };
static const int length[ANSWERS] = {11, 2, 7};

/* Prompt and answers as a batch with its targets, in one of two layouts. */
struct task {
    struct mot_batch batch;
    struct mot_head_targets targets;
    int32_t row[TARGETS], target[TARGETS];
};

static int32_t id_at(const struct network *net, int sequence, int i)
{
    return (int32_t)mot_uniform_int(8, MOT_RNG_TEST, (uint32_t)sequence, (uint32_t)i, 1,
                                    (uint32_t)net->t.layout.shape.vocab_size);
}

static void task_create(struct network *net, int is_shared, struct task *task)
{
    static int32_t ids[1 + ANSWERS][PROMPT + LONGEST]; /* prompt; prompt + answer */
    for (int s = 0; s <= ANSWERS; s++) {
        for (int i = 0; i < PROMPT; i++) { ids[s][i] = id_at(net, 0, i); }
        for (int i = 0; s > 0 && i < LONGEST; i++) { ids[s][PROMPT + i] = id_at(net, s, i); }
    }
    struct run runs[1 + ANSWERS] = {{.ids = ids[0], .n = PROMPT}};
    int n = 0, first = 0;
    if (is_shared) {
        runs[0].own = network_kv(net, 0, PROMPT);
        first = PROMPT;
    }
    for (int a = 0; a < ANSWERS; a++) {
        const int rows = length[a] - 1; /* the last token predicts nothing */
        if (is_shared) {
            runs[1 + a] = (struct run){ids[1 + a] + PROMPT, rows, PROMPT, runs[0].own, {0}};
        } else {
            runs[a] = (struct run){.ids = ids[1 + a], .n = PROMPT + rows};
            first += PROMPT;
        }
        for (int i = 0; i < length[a]; i++, n++) {
            task->row[n] = is_shared && i == 0 ? PROMPT - 1 : first + i - 1;
            task->target[n] = ids[1 + a][PROMPT + i];
        }
        first += rows;
    }
    task->batch = network_batch(net, runs, is_shared ? 1 + ANSWERS : ANSWERS);
    task->targets = (struct mot_head_targets){n, task->row, task->target, 1.1f, 8};
}

/* Weights of the tokens in the loss. */
static void coef_of(void *context, int first, int n, const float *logprob, const float *entropy,
                    float *coef)
{
    (void)context, (void)logprob, (void)entropy;
    for (int i = 0; i < n; i++) { coef[i] = (float)((first + i) % 5 - 2) * 0.25f; }
}

static double loss_of(struct network *net, const struct task *task)
{
    float logprob[TARGETS], coef[TARGETS];
    const size_t mark = mot_arena_mark(net->e.arena);
    const float *hidden = network_forward(net, &task->batch, NULL);
    mot_head_logprob(&net->e, &net->t, network_weights(net), hidden, &task->targets, logprob, NULL);
    mot_arena_reset(net->e.arena, mark);
    coef_of(NULL, 0, task->targets.n, logprob, NULL, coef);
    double loss = 0.0;
    for (int i = 0; i < task->targets.n; i++) { loss += (double)coef[i] * logprob[i]; }
    return loss;
}

/* The gradient of loss_of into grads, on top of what is there. */
static void backward(struct network *net, const struct task *task, float **grads)
{
    const size_t mark = mot_arena_mark(net->e.arena);
    const size_t floats = (size_t)task->batch.T * (size_t)net->t.layout.shape.hidden_size;
    struct mot_activations *kept;
    const float *hidden = network_forward(net, &task->batch, &kept);
    float *dhidden = mot_arena_take(net->e.arena, floats * sizeof(float));
    memset(dhidden, 0, floats * sizeof(float));
    float logprob[TARGETS], entropy[TARGETS];
    mot_head_loss(&net->e, &net->t, network_weights(net), hidden, &task->targets, coef_of, NULL,
                  logprob, entropy, dhidden, grads);
    mot_transformer_backward(&net->e, &net->t, network_weights(net), &task->batch, kept, dhidden,
                             grads);
    mot_arena_reset(net->e.arena, mark);
}

/* (loss(w + h d) - loss(w - h d)) / 2 h against <gradient, d>, where d has length 1 and half of it
 * points along the gradient, so that what is compared is not small by chance. */
static void check_tensor(struct network *net, const struct task *task, int index)
{
    const struct mot_tensor *t = &net->t.layout.tensors[index];
    const int n = t->rows * t->cols;
    float *w = net->weights[t->group] + t->offset;
    const float *g = net->grads[t->group] + t->offset;
    const double norm = network_norm(g, (size_t)n), h = 2e-3;
    float *at = mot_alloc((size_t)n * sizeof(float)), *d = mot_alloc((size_t)n * sizeof(float));
    double along = 0.0, losses[2];
    for (int i = 0; i < n; i++) {
        const double noise = mot_normal(4, MOT_RNG_TEST, (uint32_t)index, (uint32_t)i, 2);
        d[i] = (float)(0.8 * g[i] / norm + 0.6 * noise / sqrt(n));
        along += (double)d[i] * g[i];
    }
    memcpy(at, w, (size_t)n * sizeof(float));
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < n; i++) { w[i] = at[i] + (float)(side ? h : -h) * d[i]; }
        losses[side] = loss_of(net, task);
    }
    memcpy(w, at, (size_t)n * sizeof(float));
    const double slope = (losses[1] - losses[0]) / (2.0 * h);
    if (!(fabs(slope - along) <= 3e-3 * (norm + 0.05))) {
        fail_msg("%s: slope %.9g, gradient %.9g, norm %.9g", t->name, slope, along, norm);
    }
    free(at);
    free(d);
}

static void check_differences(void **state)
{
    struct network net = network_create(&shapes[*(const int *)*state].shape, NULL, 11);
    struct task task;
    task_create(&net, 1, &task);
    backward(&net, &task, net.grads);
    for (int i = 0; i < net.t.layout.n_tensors; i++) { check_tensor(&net, &task, i); }
    network_destroy(&net);
}

static void check_shared_prompt(void **state)
{
    struct network net = network_create(&shapes[*(const int *)*state].shape, NULL, 12);
    const struct mot_layout *layout = &net.t.layout;
    float **shared = network_groups(layout), **again = network_groups(layout);
    struct task task;
    task_create(&net, 1, &task);
    backward(&net, &task, shared);
    backward(&net, &task, again);
    task_create(&net, 0, &task);
    backward(&net, &task, net.grads);
    for (int i = 0; i < layout->n_tensors; i++) {
        const struct mot_tensor *t = &layout->tensors[i];
        const size_t n = (size_t)t->rows * (size_t)t->cols;
        const float *a = shared[t->group] + t->offset, *b = net.grads[t->group] + t->offset;
        assert_memory_equal(a, again[t->group] + t->offset, n * sizeof(float));
        double difference = 0.0;
        for (size_t k = 0; k < n; k++) { difference += pow((double)a[k] - b[k], 2); }
        if (!(sqrt(difference) <= 1e-5 * (network_norm(b, n) + 0.01))) {
            fail_msg("%s: %.3g apart, norm %.3g", t->name, sqrt(difference), network_norm(b, n));
        }
    }
    network_free_groups(layout, shared);
    network_free_groups(layout, again);
    network_destroy(&net);
}

int main(void)
{
    static int index[] = {0, 1, 2};
    const struct CMUnitTest tests[] = {
        {"differences, llama", check_differences, NULL, NULL, &index[0]},
        {"differences, qwen2", check_differences, NULL, NULL, &index[1]},
        {"differences, qwen3", check_differences, NULL, NULL, &index[2]},
        {"shared prompt, llama", check_shared_prompt, NULL, NULL, &index[0]},
        {"shared prompt, qwen2", check_shared_prompt, NULL, NULL, &index[1]},
        {"shared prompt, qwen3", check_shared_prompt, NULL, NULL, &index[2]},
    };
    return cmocka_run_group_tests_name("transformer_gradients", tests, NULL, NULL);
}
