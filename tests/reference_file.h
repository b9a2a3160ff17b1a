/* For tests: a model beside recorded values from PyTorch (see data/README.md), and the checks of
 * one against the other. */
#ifndef MOT_TEST_REFERENCE_FILE_H
#define MOT_TEST_REFERENCE_FILE_H
#include "model.h"
#include "network.h"
#include "optimiser.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline json_t *reference_json(const char *path)
{
    json_error_t error;
    json_t *value = json_load_file(path, 0, &error);
    if (!value) { fail_msg("%s: %s", path, error.text); }
    return value;
}

static inline double number_at(const json_t *array, size_t i)
{
    return json_number_value(json_array_get(array, i));
}

static inline void near(double got, double expected, double limit, const char *what, int at)
{
    if (!(fabs(got - expected) <= limit)) {
        fail_msg("%s [%d]: got %.9g, expected %.9g within %.3g", what, at, got, expected, limit);
    }
}

/* Right-padded rows of ids, stored without what is beyond their lengths; every token but the last
 * of a row predicts the next one. */
struct rows {
    int n, n_targets;
    int *length;
    int32_t **ids;
};

static inline struct rows reference_rows(const json_t *ids, const json_t *lengths)
{
    struct rows r = {.n = (int)json_array_size(ids)};
    r.length = mot_alloc_zeroed((size_t)r.n, sizeof(int));
    r.ids = mot_alloc_zeroed((size_t)r.n, sizeof(*r.ids));
    for (int b = 0; b < r.n; b++) {
        const json_t *row = json_array_get(ids, (size_t)b);
        r.length[b] = lengths ? (int)number_at(lengths, (size_t)b) : (int)json_array_size(row);
        r.ids[b] = mot_alloc((size_t)r.length[b] * sizeof(int32_t));
        for (int i = 0; i < r.length[b]; i++) { r.ids[b][i] = (int32_t)number_at(row, (size_t)i); }
        r.n_targets += r.length[b] - 1;
    }
    return r;
}

static inline void rows_free(struct rows *r)
{
    for (int b = 0; b < r->n; b++) { free(r->ids[b]); }
    free(r->ids);
    free(r->length);
}

/* The rows as one packed batch, in the arena. */
static inline struct mot_batch rows_batch(struct network *net, const struct rows *r)
{
    struct run *runs = mot_alloc_zeroed((size_t)r->n, sizeof(*runs));
    for (int b = 0; b < r->n; b++) { runs[b] = (struct run){.ids = r->ids[b], .n = r->length[b]}; }
    const struct mot_batch batch = network_batch(net, runs, r->n);
    free(runs);
    return batch;
}

static inline struct mot_head_targets rows_targets(struct network *net, const struct rows *r,
                                                   int chunk)
{
    int32_t *row = mot_arena_take(net->e.arena, sizeof(int32_t) * (size_t)r->n_targets);
    int32_t *target = mot_arena_take(net->e.arena, sizeof(int32_t) * (size_t)r->n_targets);
    int n = 0, first = 0;
    for (int b = 0; b < r->n; b++) {
        for (int i = 0; i + 1 < r->length[b]; i++, n++) {
            row[n] = first + i;
            target[n] = r->ids[b][i + 1];
        }
        first += r->length[b];
    }
    return (struct mot_head_targets){n, row, target, 1.0f, chunk};
}

static inline void rows_logprobs(struct network *net, const struct rows *r, int chunk,
                                 float *logprob, float *entropy)
{
    const size_t mark = mot_arena_mark(net->e.arena);
    const struct mot_batch batch = rows_batch(net, r);
    const float *hidden = network_forward(net, &batch, NULL);
    const struct mot_head_targets targets = rows_targets(net, r, chunk);
    mot_head_logprob(&net->e, &net->t, network_weights(net), hidden, &targets, logprob, entropy);
    mot_arena_reset(net->e.arena, mark);
}

/* values of all targets against expected[row][token]. */
static inline void check_rows(const struct rows *r, const json_t *expected, const float *values,
                              double limit, const char *what)
{
    int n = 0;
    for (int b = 0; b < r->n; b++) {
        const json_t *row = json_array_get(expected, (size_t)b);
        assert_int_equal((int)json_array_size(row), r->length[b] - 1);
        for (int i = 0; i + 1 < r->length[b]; i++, n++) {
            near(values[n], number_at(row, (size_t)i), limit, what, n);
        }
    }
}

static inline struct network reference_network(const char *path)
{
    struct mot_model model;
    if (mot_model_load(path, &model)) { fail_msg("%s does not load", path); }
    struct network net = network_create(&model.layout.shape, model.groups, 0);
    model.groups = NULL;
    mot_model_destroy(&model);
    return net;
}

struct reference {
    struct network net;
    json_t *values;
    struct rows rows;
};
struct reference_limits {
    double logprob;  /* absolute */
    double gradient; /* relative to the tensor's norm */
    double adamw;    /* relative */
    int chunk;       /* rows of logits at a time */
};

/* Model at directory/model, values in data/NAME.json of the tests. */
static inline void reference_open(struct reference *ref, const char *name, const char *directory,
                                  const char *model)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s.json", MOT_TEST_DATA, name);
    ref->values = reference_json(path);
    ref->rows = reference_rows(json_object_get(ref->values, "ids"),
                               json_object_get(ref->values, "lengths"));
    snprintf(path, sizeof(path), "%s%s%s", directory, *directory ? "/" : "", model);
    ref->net = reference_network(path);
}

static inline void reference_close(struct reference *ref)
{
    rows_free(&ref->rows);
    json_decref(ref->values);
    network_destroy(&ref->net);
}

static inline void mean_nll_coef(void *context, int first, int n, const float *logprob,
                                 const float *entropy, float *coef)
{
    (void)first, (void)logprob, (void)entropy;
    for (int i = 0; i < n; i++) { coef[i] = (float)(-1.0 / *(const int *)context); }
}

/* Mean NLL of the rows; its gradient in net.grads. */
static inline double reference_backward(struct reference *ref, int chunk)
{
    struct network *net = &ref->net;
    const size_t C = (size_t)net->t.layout.shape.hidden_size;
    const size_t mark = mot_arena_mark(net->e.arena);
    const struct mot_batch batch = rows_batch(net, &ref->rows);
    struct mot_activations *kept;
    const float *hidden = network_forward(net, &batch, &kept);
    struct mot_head_targets targets = rows_targets(net, &ref->rows, chunk);
    float *dhidden = mot_arena_take(net->e.arena, sizeof(float) * C * (size_t)batch.T);
    float *logprob = mot_arena_take(net->e.arena, sizeof(float) * (size_t)targets.n);
    memset(dhidden, 0, sizeof(float) * C * (size_t)batch.T);
    network_zero_grads(net);
    mot_head_loss(&net->e, &net->t, network_weights(net), hidden, &targets, mean_nll_coef,
                  &targets.n, logprob, NULL, dhidden, net->grads);
    mot_transformer_backward(&net->e, &net->t, network_weights(net), &batch, kept, dhidden,
                             net->grads);
    double sum = 0.0;
    for (int i = 0; i < targets.n; i++) { sum -= logprob[i]; }
    const double mean = sum / targets.n;
    mot_arena_reset(net->e.arena, mark);
    return mean;
}

static inline double reference_grad_norm(const struct network *net)
{
    double sum = 0.0;
    for (int g = 0; g < net->t.layout.n_groups; g++) {
        sum += net->e.kernels->sum_of_squares((struct mot_exec *)&net->e,
                                              net->t.layout.group_floats[g], net->grads[g]);
    }
    return sqrt(sum);
}

static inline void reference_check_forward(struct reference *ref,
                                           const struct reference_limits *limits)
{
    struct network *net = &ref->net;
    const int C = net->t.layout.shape.hidden_size, V = net->t.layout.shape.vocab_size;
    const size_t mark = mot_arena_mark(net->e.arena);
    const size_t bytes = sizeof(float) * (size_t)ref->rows.n_targets;
    float *logprob = mot_arena_take(net->e.arena, bytes);
    float *entropy = mot_arena_take(net->e.arena, bytes);
    rows_logprobs(net, &ref->rows, limits->chunk, logprob, entropy);
    check_rows(&ref->rows, json_object_get(ref->values, "logprob"), logprob, limits->logprob,
               "logprob");
    check_rows(&ref->rows, json_object_get(ref->values, "entropy"), entropy, limits->logprob,
               "entropy");

    const struct mot_batch batch = rows_batch(net, &ref->rows);
    const float *hidden = network_forward(net, &batch, NULL);
    float *logits = mot_arena_take(net->e.arena, sizeof(float) * (size_t)V);
    int last = -1;
    for (int b = 0; b < ref->rows.n; b++) {
        const json_t *expected =
            json_array_get(json_object_get(ref->values, "logits_last_real_token"), (size_t)b);
        last += ref->rows.length[b];
        mot_head_logits(&net->e, &net->t, network_weights(net), hidden + (size_t)last * (size_t)C,
                        1, logits);
        for (size_t i = 0; i < json_array_size(expected); i++) {
            near(logits[i], number_at(expected, i), limits->logprob, "logit", (int)i);
        }
    }
    mot_arena_reset(net->e.arena, mark);
}

static inline void reference_check_gradients(struct reference *ref,
                                             const struct reference_limits *limits)
{
    const struct mot_layout *layout = &ref->net.t.layout;
    const double nll = json_number_value(json_object_get(ref->values, "mean_nll"));
    near(reference_backward(ref, limits->chunk), nll, limits->logprob, "mean NLL", 0);
    const json_t *grads = json_object_get(ref->values, "grads");
    assert_int_equal((int)json_object_size(grads), layout->n_tensors);
    for (int i = 0; i < layout->n_tensors; i++) {
        const struct mot_tensor *t = &layout->tensors[i];
        const float *g = ref->net.grads[t->group] + t->offset;
        const json_t *expected = json_object_get(grads, t->name);
        const json_t *first = json_object_get(expected, "first");
        const double norm = json_number_value(json_object_get(expected, "norm"));
        const double limit = limits->gradient * norm;
        near(network_norm(g, (size_t)t->rows * (size_t)t->cols), norm, limit, t->name, -1);
        for (size_t k = 0; k < json_array_size(first); k++) {
            near(g[k], number_at(first, k), limit, t->name, (int)k);
        }
    }
    const double norm = json_number_value(json_object_get(ref->values, "grad_norm"));
    near(reference_grad_norm(&ref->net), norm, limits->gradient * norm, "gradient norm", 0);
}

static inline void check_after(const struct mot_tensor *t, const json_t *after, float *const *p,
                               float *const *m, float *const *v, double limit)
{
    const json_t *expected = json_object_get(after, t->name), *first;
    const size_t n = (size_t)t->rows * (size_t)t->cols;
    if (strstr(t->name, "k_proj.bias")) { return; } /* its gradient is rounding noise */
    first = json_object_get(expected, "first");
    const struct {
        const char *key;
        const float *x;
    } norms[] = {{"norm", p[t->group] + t->offset},
                 {"m_norm", m[t->group] + t->offset},
                 {"v_norm", v[t->group] + t->offset}};
    for (int k = 0; k < 3; k++) {
        const double norm = json_number_value(json_object_get(expected, norms[k].key));
        /* moments are sums of gradients and of their squares: as rough as those */
        near(network_norm(norms[k].x, n), norm, (k ? 10 : 1) * limit * norm, t->name, -1 - k);
    }
    double largest = 0.0;
    for (size_t k = 0; k < json_array_size(first); k++) {
        largest = fmax(largest, fabs(number_at(first, k)));
    }
    for (size_t k = 0; k < json_array_size(first); k++) {
        near(norms[0].x[k], number_at(first, k), limit * largest, t->name, (int)k);
    }
}

static inline void reference_check_adamw(struct reference *ref,
                                         const struct reference_limits *limits)
{
    struct network *net = &ref->net;
    const struct mot_layout *layout = &net->t.layout;
    const json_t *adamw = json_object_get(ref->values, "adamw");
    const json_t *steps = json_object_get(adamw, "steps");
    const json_t *betas = json_object_get(adamw, "betas");
    const double max_norm = json_number_value(json_object_get(adamw, "max_grad_norm"));
    float **m = network_groups(layout), **v = network_groups(layout);
    for (size_t step = 0; step < json_array_size(steps); step++) {
        const json_t *expected = json_array_get(steps, step);
        const double loss = reference_backward(ref, limits->chunk);
        const double norm = reference_grad_norm(net);
        near(loss, number_at(expected, 0), limits->adamw * loss, "AdamW loss", (int)step);
        near(norm, number_at(expected, 1), limits->adamw * norm, "AdamW norm", (int)step);
        const struct mot_adamw options = {
            .learning_rate = (float)json_number_value(json_object_get(adamw, "lr")),
            .beta1 = (float)number_at(betas, 0),
            .beta2 = (float)number_at(betas, 1),
            .eps = (float)json_number_value(json_object_get(adamw, "eps")),
            .weight_decay = (float)json_number_value(json_object_get(adamw, "weight_decay")),
            .step = (int)step + 1,
            .grad_scale = (float)mot_clip_factor(norm, max_norm)};
        for (int g = 0; g < layout->n_groups; g++) {
            net->e.kernels->adamw(&net->e, layout->group_floats[g], &options, net->grads[g],
                                  net->weights[g], m[g], v[g]);
        }
    }
    const json_t *after = json_object_get(adamw, "after");
    for (int i = 0; i < layout->n_tensors; i++) {
        check_after(&layout->tensors[i], after, net->weights, m, v, limits->adamw);
    }
    network_free_groups(layout, m);
    network_free_groups(layout, v);
}
#endif
