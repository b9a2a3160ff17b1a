/* How long a task takes: StarPU's model where it says something, corrected by what was measured;
 * else what was measured; else what the task takes elsewhere.  See sched_core.h.
 *
 * StarPU's own history drops samples that are far from its mean, and its policies stop comparing
 * workers once one estimate is missing (scheduling.md 1.2, F3 and F7): here the tail is kept, and a
 * class without an estimate gets one from the others. */
#include "error.h"
#include "sched_models.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double longest_us = 1e15, unknown_us = 1000.0;

/* ---- What was measured ----------------------------------------------------------------------- */

static uint64_t key_of(const struct mot_sched *s, const struct mot_sched_cell *cell)
{
    uint64_t key = s->kind_key[cell->kind] ^ (uint64_t)cell->size << 32 ^ (uint64_t)cell->class << 8
                   ^ (uint64_t)cell->implementation << 1 ^ (uint64_t)cell->is_relative;
    key = (key ^ key >> 31) * 0x9e3779b97f4a7c15u;
    return key ^ key >> 29;
}

static struct mot_sched_cell **place_of(const struct mot_sched *s, uint64_t key)
{
    size_t at = key & (s->cell_room - 1);
    while (s->cells[at] && s->cells[at]->key != key) { at = (at + 1) & (s->cell_room - 1); }
    return &s->cells[at];
}

static struct mot_sched_cell *cell_of(struct mot_sched *s, const struct mot_sched_cell *as)
{
    const uint64_t key = key_of(s, as);
    if (2 * (s->n_cells + 1) > s->cell_room) {
        free(s->cells);
        s->cell_room = s->cell_room ? 2 * s->cell_room : 256;
        s->cells = mot_alloc_zeroed(s->cell_room, sizeof(struct mot_sched_cell *));
        for (struct mot_sched_cell *c = s->all_cells; c; c = c->next) { *place_of(s, c->key) = c; }
    }
    struct mot_sched_cell **place = place_of(s, key);
    if (!*place) {
        struct mot_sched_cell *cell = mot_alloc_zeroed(1, sizeof(*cell));
        *cell = *as;
        cell->key = key;
        cell->p50 = cell->p90 = cell->mean = 1.0;
        cell->next = s->all_cells;
        mot_models_fill(s, cell);
        s->all_cells = *place = cell;
        s->n_cells++;
    }
    return *place;
}

void mot_sched_cells_free(struct mot_sched *s)
{
    for (struct mot_sched_cell *c = s->all_cells, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(s->cells);
}

static double quantile(const struct mot_sched_cell *c, double q)
{
    return c->sample[(int)(q * (c->n - 1) + 0.5)];
}

static void summarise(struct mot_sched_cell *c)
{
    c->mean = 0.0;
    for (int i = 0; i < c->n; i++) { c->mean += c->sample[i] / c->n; }
    c->p50 = quantile(c, 0.5);
    c->p90 = quantile(c, 0.9);
}

static void insert(struct mot_sched_cell *c, double x)
{
    int at = c->n++;
    for (; at > 0 && c->sample[at - 1] > x; at--) { c->sample[at] = c->sample[at - 1]; }
    c->sample[at] = x;
}

void mot_sched_cell_set(struct mot_sched_cell *c, const double *samples, int n)
{
    c->n = 0;
    for (int i = 0; i < n; i++) { insert(c, samples[i]); }
    summarise(c);
}

/* Algorithm R, but for what it forgets: of the last REMEMBERED samples each is kept as likely. */
static void add_sample(struct mot_sched *s, struct mot_sched_cell *c, double x)
{
    enum { REMEMBERED = 128 };
    c->seen++;
    if (c->n == MOT_SCHED_SAMPLES) {
        s->random = s->random * 6364136223846793005u + 1442695040888963407u;
        const int among = c->seen < REMEMBERED ? c->seen : REMEMBERED;
        if ((int)((s->random >> 33) % (uint64_t)among) >= MOT_SCHED_SAMPLES) { return; }
        const int gone = (int)((s->random >> 20) % MOT_SCHED_SAMPLES);
        c->n--;
        memmove(&c->sample[gone], &c->sample[gone + 1], (size_t)(c->n - gone) * sizeof(double));
    }
    insert(c, x);
    summarise(c);
}

/* What a class reaches, of the roofline's two slopes. */
static void learn_rates(struct mot_sched_class *class, const struct mot_sched_task *t, double us)
{
    if (us < 10.0) { return; } /* no more than the clock and the caches */
    class->flop_per_us = fmax(class->flop_per_us, t->flop / us);
    class->bytes_per_us = fmax(class->bytes_per_us, t->bytes / us);
}

/* A worker is slower than its class when the median of what it was late by lately is beyond what
 * the kind varies by (sigma of a log-normal; the error of a median of n is 1.25 sigma /
 * sqrt(n)). */
static void judge_worker(struct mot_sched_worker *w, const struct mot_sched_cell *kind, double x)
{
    w->late[w->n_late++ % MOT_SCHED_LATEST] = x;
    const int n = w->n_late < MOT_SCHED_LATEST ? w->n_late : MOT_SCHED_LATEST;
    double sorted[MOT_SCHED_LATEST];
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > w->late[i]; at--) { sorted[at] = sorted[at - 1]; }
        sorted[at] = w->late[i];
    }
    const double sigma = kind->n > 0 ? log(kind->p90 / kind->p50) / 1.28 : 0.0;
    const double beyond = fmax(log(1.5), 2.5 * sigma / sqrt(n));
    const double median = sorted[n / 2];
    w->slow = n >= 4 && median > beyond ? exp(median) : 1.0;
}

void mot_sched_learn(struct mot_sched *s, struct mot_sched_task *t, double us)
{
    const struct mot_sched_guess *g =
        &t->guess[s->worker[t->worker < 0 ? 0 : t->worker].class * STARPU_MAXIMPLEMENTATIONS
                  + t->implementation];
    if (t->worker < 0 || !g->cell) { return; }
    if (!isnan(g->model_us) || g->cell->n > 0) {
        const double x = fmax(us, 1e-3) / fmax(t->expected_us / t->slow, 1e-3);
        add_sample(s, &s->kind_error[t->kind], x / t->slow);
        judge_worker(&s->worker[t->worker], &s->kind_error[t->kind], log(x));
    }
    const double unit_us = isnan(g->model_us) ? 1.0 : g->model_us;
    add_sample(s, g->cell, fmax(us / t->slow, 1e-3) / unit_us);
    learn_rates(&s->class[s->worker[t->worker].class], t, us);
    mot_models_check(s, g->cell, fmax(us, 1e-3) / unit_us);
}

double mot_sched_spread(const struct mot_sched *s, const struct mot_sched_task *t, double slower)
{
    const double samples = 4.0, unknown = fmin(3.0, 1.0 + (slower - 1.0) / 20.0);
    const struct mot_sched_cell *c = &s->kind_error[t->kind];
    const double trust = c->n / (c->n + samples);
    return pow(unknown, 1.0 - trust) * pow(c->n > 0 ? c->p90 / c->p50 : 1.0, trust);
}

/* ---- A task that waits ----------------------------------------------------------------------- */

/* Of a worker of the class that can run the task, StarPU's estimates. */
void mot_sched_guess(struct mot_sched *s, struct mot_sched_task *t)
{
    const size_t n = (size_t)s->n_classes * STARPU_MAXIMPLEMENTATIONS;
    t->guess = mot_realloc(t->guess, n * sizeof(*t->guess));
    t->epoch = s->epoch;
    for (size_t i = 0; i < n; i++) { t->guess[i] = (struct mot_sched_guess){.model_us = INFINITY}; }
    unsigned done = 0;
    for (int w = 0; w < s->n_workers; w++) {
        const int class = s->worker[w].class;
        unsigned mask;
        if (!s->worker[w].is_used || done >> class & 1
            || !starpu_worker_can_execute_task_impl((unsigned)w, t->task, &mask)) {
            continue;
        }
        done |= 1u << class;
        for (unsigned i = 0; i < STARPU_MAXIMPLEMENTATIONS; i++) {
            if (!(mask >> i & 1)) { continue; }
            const double us =
                starpu_task_worker_expected_length(t->task, (unsigned)w, s->context, i);
            const int is_sane = isfinite(us) && us > 0.0;
            t->guess[(size_t) class * STARPU_MAXIMPLEMENTATIONS + i] = (struct mot_sched_guess){
                .model_us = is_sane ? fmin(us, longest_us) : NAN,
                .cell = cell_of(s, &(struct mot_sched_cell){.kind = t->kind,
                                                            .class = class,
                                                            .size = t->size,
                                                            .implementation = i,
                                                            .is_relative = is_sane})};
        }
    }
}

/* By one implementation; not known: all NAN. */
static struct mot_estimate by_one(const struct mot_sched_guess *g, int implementation)
{
    const struct mot_sched_cell *c = g->cell;
    struct mot_estimate e = {.implementation = implementation, .outstanding = c->outstanding};
    if (isnan(g->model_us)) {
        e.is_known = c->n > 0;
        e.p50_us = e.is_known ? c->p50 : NAN;
        e.p90_us = e.is_known ? c->p90 : NAN;
        e.mean_us = e.is_known ? c->mean : NAN;
        return e;
    }
    /* A model is believed like one sample that agrees with it. */
    const double p50 = pow(c->p50, c->n / (c->n + 1.0));
    e.is_known = 1;
    e.p50_us = g->model_us * p50;
    e.p90_us = e.p50_us * fmax(1.0, c->p90 / c->p50);
    e.mean_us = e.p50_us * fmax(1.0, c->mean / c->p50);
    return e;
}

/* By the best of these implementations; one of which nothing is known is tried once.  Not known:
 * p50_us is NAN. */
static struct mot_estimate by_best(const struct mot_sched_task *t, int class, unsigned mask)
{
    struct mot_estimate best = {.p50_us = INFINITY, .p90_us = INFINITY, .mean_us = INFINITY};
    int found = 0;
    for (int i = 0; i < STARPU_MAXIMPLEMENTATIONS; i++) {
        const struct mot_sched_guess *g = &t->guess[class * STARPU_MAXIMPLEMENTATIONS + i];
        if (!g->cell || !(mask >> i & 1)) { continue; }
        const struct mot_estimate e = by_one(g, i);
        if (!e.is_known && e.outstanding == 0) { return e; }
        if (!found || e.p50_us < best.p50_us || isnan(best.p50_us)) { best = e; }
        found = 1;
    }
    return best;
}

/* Times of the same task in other classes, as they would be in this one; NAN without any. */
static double from_others(const struct mot_sched *s, const struct mot_sched_task *t, int class)
{
    double us[MOT_SCHED_CLASSES_MAX];
    int n = 0;
    for (int c = 0; c < s->n_classes; c++) {
        if (c == class) { continue; }
        const struct mot_estimate e = by_best(t, c, ~0u);
        if (!e.is_known || !isfinite(e.p50_us)) { continue; }
        const double x = e.p50_us * exp(s->class[class].log_speed - s->class[c].log_speed);
        int at = n++;
        for (; at > 0 && us[at - 1] > x; at--) { us[at] = us[at - 1]; }
        us[at] = x;
    }
    return n == 0 ? NAN : n % 2 ? us[n / 2] : 0.5 * (us[n / 2 - 1] + us[n / 2]);
}

/* By the roofline of what the class has reached; NAN: nothing is known of it, or of the task. */
static double by_roofline(const struct mot_sched_class *class, const struct mot_sched_task *t)
{
    const double compute = class->flop_per_us > 0.0 ? t->flop / class->flop_per_us : 0.0;
    const double memory = class->bytes_per_us > 0.0 ? t->bytes / class->bytes_per_us : 0.0;
    const double us = fmax(compute, memory);
    return us > 0.0 ? us : NAN;
}

struct mot_estimate mot_sched_estimate(struct mot_sched *s, struct mot_sched_task *t, int class)
{
    if (t->epoch != s->epoch && t->worker < 0) { mot_sched_guess(s, t); }
    struct mot_estimate e = by_best(t, class, ~0u);
    if (isinf(e.p50_us) || e.is_known) { return e; }
    double us = from_others(s, t, class);
    if (isnan(us)) { us = by_roofline(&s->class[class], t); }
    e.p50_us = e.p90_us = e.mean_us = isnan(us) ? unknown_us : us;
    return e;
}

int mot_sched_implementation(const struct mot_sched_task *t, int worker, int class)
{
    unsigned mask = 0;
    if (!starpu_worker_can_execute_task_impl((unsigned)worker, t->task, &mask)) { return 0; }
    const struct mot_estimate e = by_best(t, class, mask);
    return isinf(e.p50_us) ? __builtin_ctz(mask) : e.implementation;
}

/* ---- A task that runs ------------------------------------------------------------------------ */

double mot_sched_left_us(const struct mot_sched_task *t, double now_us)
{
    if (t->start_us <= 0.0) {
        return t->expected_us + fmax(0.0, t->taken_us + t->wait_us - now_us);
    }
    /* Late by a little: it ends soon.  Late by much: the longer it has run, the longer it will (of
     * a Pareto tail of exponent 2 the mean that is left is the age). */
    const double age = now_us - t->start_us, late = age - t->expected_us;
    if (late <= 0.0) { return -late; }
    return fmin(age, 4.0 * late + 0.02 * t->expected_us);
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* From the best copy there is. */
static double handle_us(starpu_data_handle_t handle, unsigned node)
{
    int valid = 0, any = 0;
    starpu_data_query_status2(handle, (int)node, NULL, &valid, NULL, NULL);
    if (valid) { return 0.0; }
    double best = INFINITY;
    for (unsigned from = 0; from < starpu_memory_nodes_get_count(); from++) {
        starpu_data_query_status2(handle, (int)from, NULL, &valid, NULL, NULL);
        if (!valid) { continue; }
        any = 1;
        const double bandwidth = starpu_transfer_bandwidth(from, node); /* bytes in a us */
        const double latency = starpu_transfer_latency(from, node);
        if (!(bandwidth > 0.0)) { continue; }
        best = fmin(best, (double)starpu_data_get_size(handle) / bandwidth
                              + (latency > 0.0 ? latency : 0.0));
    }
    return any && isfinite(best) ? best : 0.0;
}

double mot_sched_transfer_us(struct mot_sched_task *t, unsigned node, double now_us)
{
    /* A copy that was there is believed to stay; one that was not is looked for again after the
     * time it would have taken. */
    if (t->transfer_at_us[node] > 0.0
        && now_us - t->transfer_at_us[node] <= fmax(t->transfer_us[node], 1.0)) {
        return t->transfer_us[node];
    }
    double us = 0.0;
    for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(t->task); i++) {
        if (!(STARPU_TASK_GET_MODE(t->task, i) & STARPU_R)) { continue; }
        us += handle_us(STARPU_TASK_GET_HANDLE(t->task, i), node);
    }
    t->transfer_us[node] = us;
    t->transfer_at_us[node] = now_us;
    return us;
}
