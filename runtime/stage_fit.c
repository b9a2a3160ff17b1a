/* stage_fit: least squares over sizes of tasks.  See stage_fit.h.
 *
 * A stage's time is s + s_per_token tokens + s_per_row rows + the longer of operations / flop_per_s
 * and bytes / bytes_per_s.  With the ratio of the two rates given, that is linear; the ratio is
 * searched on a grid.  There are few terms, so that every subset of them is tried, and the best of
 * those without a negative coefficient taken: that is the constrained optimum. */
#include "stage_fit.h"
#include "error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS = 4 }; /* 1, tokens, rows, roofline */

/* Tasks of one name and size. */
struct size {
    double flop, bytes, tokens, rows;
    double s; /* median */
    int tasks;
    double weight; /* in the sum of squares */
};

struct sample {
    const char *name;
    double flop, bytes, tokens, rows, s;
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_size(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    const int names = strcmp(x->name, y->name);
    if (names) { return names; }
    const double p[] = {x->flop, x->bytes, x->tokens, x->rows, x->s};
    const double q[] = {y->flop, y->bytes, y->tokens, y->rows, y->s};
    for (int i = 0; i < 5; i++) {
        if (p[i] != q[i]) { return p[i] < q[i] ? -1 : 1; }
    }
    return 0;
}

static int same_size(const struct sample *x, const struct sample *y)
{
    return strcmp(x->name, y->name) == 0 && x->flop == y->flop && x->bytes == y->bytes
           && x->tokens == y->tokens && x->rows == y->rows;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
    const struct mot_recorded_task *x = *(const struct mot_recorded_task *const *)a;
    const struct mot_recorded_task *y = *(const struct mot_recorded_task *const *)b;
    return (x->start_us > y->start_us) - (x->start_us < y->start_us);
}

/* Appends those of one recording; returns how many there are then. */
static int gather(const struct mot_recording *r, struct sample *samples, int n)
{
    const struct mot_recorded_task **order =
        mot_alloc((size_t)r->n_tasks * sizeof(struct mot_recorded_task *));
    double *free_us = mot_alloc_zeroed((size_t)r->n_workers, sizeof(double));
    for (int i = 0; i < r->n_tasks; i++) { order[i] = &r->tasks[i]; }
    qsort(order, (size_t)r->n_tasks, sizeof(struct mot_recorded_task *), by_start);
    for (int i = 0; i < r->n_tasks; i++) {
        const struct mot_recorded_task *t = order[i];
        if (t->worker < 0 || t->worker >= r->n_workers) { continue; }
        const double from_us = fmin(fmax(t->ready_us, free_us[t->worker]), t->start_us);
        free_us[t->worker] = fmax(free_us[t->worker], t->end_us);
        if (t->stage == NULL || strcmp(r->workers[t->worker].kind, "CPU") != 0) { continue; }
        samples[n++] = (struct sample){.name = t->name,
                                       .flop = t->flop,
                                       .bytes = t->bytes,
                                       .tokens = t->tokens,
                                       .rows = t->rows,
                                       .s = fmax(1e-6 * (t->end_us - from_us), 1e-6)};
    }
    free(free_us);
    free(order);
    return n;
}

/* ---- Least squares --------------------------------------------------------------------------- */

/* Solves the normal equations of the terms in `set` by elimination; 0 where they depend on each
 * other.  a (TERMS, TERMS + 1) is destroyed. */
static int solve(double a[TERMS][TERMS + 1], unsigned set, double x[TERMS])
{
    for (int p = 0; p < TERMS; p++) {
        x[p] = 0.0;
        if (!(set & 1u << p)) { continue; }
        if (!(a[p][p] > 1e-9)) { return 0; }
        for (int i = 0; i < TERMS; i++) {
            if (i == p || !(set & 1u << i)) { continue; }
            const double factor = a[i][p] / a[p][p];
            for (int j = 0; j <= TERMS; j++) { a[i][j] -= factor * a[p][j]; }
        }
    }
    for (int p = 0; p < TERMS; p++) {
        if (set & 1u << p) { x[p] = a[p][TERMS] / a[p][p]; }
    }
    return 1;
}

static void terms_of(const struct size *size, double bytes_weight, double t[TERMS])
{
    t[0] = 1.0;
    t[1] = size->tokens;
    t[2] = size->rows;
    t[3] = fmax(size->flop, bytes_weight * size->bytes);
}

/* The best coefficients for one ratio of the rates; returns the sum of squared relative errors.
 * Terms are scaled by their largest value, so that the equations are of one magnitude. */
static double fit_ratio(const struct size *sizes, int n, double bytes_weight, double best[TERMS])
{
    double scale[TERMS] = {0}, normal[TERMS][TERMS + 1] = {0}, total = 0.0, t[TERMS];
    for (int i = 0; i < n; i++) {
        terms_of(&sizes[i], bytes_weight, t);
        for (int p = 0; p < TERMS; p++) { scale[p] = fmax(scale[p], t[p] / sizes[i].s); }
    }
    for (int i = 0; i < n; i++) {
        terms_of(&sizes[i], bytes_weight, t);
        for (int p = 0; p < TERMS; p++) {
            t[p] = scale[p] > 0.0 ? t[p] / sizes[i].s / scale[p] : 0.0;
        }
        const double weight = sizes[i].weight;
        for (int p = 0; p < TERMS; p++) {
            for (int q = 0; q < TERMS; q++) { normal[p][q] += weight * t[p] * t[q]; }
            normal[p][TERMS] += weight * t[p];
        }
        total += weight;
    }
    double least = INFINITY;
    for (unsigned set = 1; set < 1u << TERMS; set++) {
        double a[TERMS][TERMS + 1], x[TERMS], gain = 0.0;
        memcpy(a, normal, sizeof(a));
        int allowed = solve(a, set, x), used = 0;
        for (int p = 0; p < TERMS; p++) {
            allowed = allowed && x[p] >= 0.0;
            gain += x[p] * normal[p][TERMS];
            used += x[p] > 0.0;
        }
        /* A term that brings next to nothing is noise: extrapolating it is worse than not. */
        const double sum = fmax(total - gain, 0.0) + 1e-4 * total * used;
        if (!allowed || !(sum < least)) { continue; }
        least = sum;
        for (int p = 0; p < TERMS; p++) { best[p] = scale[p] > 0.0 ? x[p] / scale[p] : 0.0; }
    }
    return least;
}

static double fitted_s(const struct mot_machine_stage *m, const struct size *size)
{
    const double compute = m->flop_per_s > 0.0 ? size->flop / m->flop_per_s : 0.0;
    const double memory = m->bytes_per_s > 0.0 ? size->bytes / m->bytes_per_s : 0.0;
    return m->s + m->s_per_token * size->tokens + m->s_per_row * size->rows + fmax(compute, memory);
}

static double median_error(const struct mot_machine_stage *m, const struct size *sizes, int n)
{
    double *errors = mot_alloc((size_t)n * sizeof(double));
    for (int i = 0; i < n; i++) {
        errors[i] = fabs(fitted_s(m, &sizes[i]) - sizes[i].s) / sizes[i].s;
    }
    qsort(errors, (size_t)n, sizeof(double), by_value);
    const double median = errors[n / 2];
    free(errors);
    return median;
}

static struct mot_machine_stage fit_times(const struct size *sizes, int n)
{
    double least = INFINITY, best[TERMS] = {0}, bytes_weight = 0.0;
    for (int k = -1; k <= 20; k++) { /* operations a byte, from 2^-2 to 2^8 */
        const double weight = k < 0 ? 0.0 : exp2(0.5 * k - 2.0);
        double x[TERMS];
        const double sum = fit_ratio(sizes, n, weight, x);
        if (!(sum < 0.999 * least)) { continue; }
        least = sum;
        bytes_weight = weight;
        memcpy(best, x, sizeof(best));
    }
    struct mot_machine_stage m = {.s = best[0], .s_per_token = best[1], .s_per_row = best[2]};
    if (best[3] > 0.0) {
        m.flop_per_s = 1.0 / best[3];
        m.bytes_per_s = bytes_weight > 0.0 ? 1.0 / (best[3] * bytes_weight) : 0.0;
    }
    return m;
}

/* Squares divided by their root sum to absolute values: what another program on the machine has
 * slowed down for a while then counts as one size among many. */
static struct mot_stage_fit fit(const char *name, struct size *sizes, int n)
{
    enum { ROUNDS = 8 };
    struct mot_stage_fit f = {.sizes = n};
    for (int i = 0; i < n; i++) {
        f.tasks += sizes[i].tasks;
        sizes[i].weight = sizes[i].tasks;
    }
    for (int round = 0; round < ROUNDS; round++) {
        f.times = fit_times(sizes, n);
        for (int i = 0; i < n; i++) {
            const double error = fabs(fitted_s(&f.times, &sizes[i]) / sizes[i].s - 1.0);
            sizes[i].weight = sizes[i].tasks / fmax(error, 0.01);
        }
    }
    f.error = median_error(&f.times, sizes, n);
    f.times.name = mot_strdup(name);
    return f;
}

void mot_stage_fit(const struct mot_recording *const *recordings, int n,
                   struct mot_stage_fits *fits)
{
    size_t most = 0;
    for (int i = 0; i < n; i++) { most += (size_t)recordings[i]->n_tasks; }
    struct sample *samples = mot_alloc((most + 1) * sizeof(*samples));
    struct size *sizes = mot_alloc((most + 1) * sizeof(*sizes));
    int n_samples = 0;
    for (int i = 0; i < n; i++) { n_samples = gather(recordings[i], samples, n_samples); }
    qsort(samples, (size_t)n_samples, sizeof(*samples), by_size);
    *fits = (struct mot_stage_fits){0};
    for (int i = 0; i < n_samples;) {
        const char *name = samples[i].name;
        int n_sizes = 0;
        while (i < n_samples && strcmp(samples[i].name, name) == 0) {
            int end = i;
            while (end < n_samples && same_size(&samples[i], &samples[end])) { end++; }
            const struct sample *middle = &samples[i + (end - i) / 2]; /* they are in order of s */
            sizes[n_sizes++] = (struct size){.flop = middle->flop,
                                             .bytes = middle->bytes,
                                             .tokens = middle->tokens,
                                             .rows = middle->rows,
                                             .s = middle->s,
                                             .tasks = end - i};
            i = end;
        }
        fits->fit = mot_realloc(fits->fit, (size_t)(fits->n + 1) * sizeof(*fits->fit));
        fits->fit[fits->n++] = fit(name, sizes, n_sizes);
    }
    free(sizes);
    free(samples);
}

void mot_stage_fits_free(struct mot_stage_fits *fits)
{
    for (int i = 0; i < fits->n; i++) { free(fits->fit[i].times.name); }
    free(fits->fit);
    *fits = (struct mot_stage_fits){0};
}

void mot_stage_fits_write(const struct mot_stage_fits *fits, int indent, FILE *file)
{
    for (int i = 0; i < fits->n; i++) {
        const struct mot_machine_stage *m = &fits->fit[i].times;
        fprintf(file, "%*s%s: {ms: %.6g", indent, "", m->name, 1e3 * m->s);
        if (m->s_per_token > 0.0) { fprintf(file, ", ms_per_token: %.6g", 1e3 * m->s_per_token); }
        if (m->s_per_row > 0.0) { fprintf(file, ", ms_per_row: %.6g", 1e3 * m->s_per_row); }
        if (m->flop_per_s > 0.0) { fprintf(file, ", tflop_s: %.6g", 1e-12 * m->flop_per_s); }
        if (m->bytes_per_s > 0.0) { fprintf(file, ", gb_s: %.6g", 1e-9 * m->bytes_per_s); }
        fputs("}\n", file);
    }
}
