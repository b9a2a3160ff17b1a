/* machine: durations.  machine_read.c reads the files.  See machine.h. */
#include "machine.h"
#include "error.h"
#include "rng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mot_machine_free(struct mot_machine *m)
{
    for (int i = 0; i < m->n_nodes; i++) { free(m->nodes[i].name); }
    for (int i = 0; i < m->n_links; i++) { free(m->links[i].name); }
    for (int i = 0; i < m->n_truths; i++) { free(m->truths[i].stage); }
    for (int i = 0; i < m->n_classes; i++) {
        struct mot_machine_class *c = &m->classes[i];
        for (int k = 0; k < c->n_stages; k++) { free(c->stages[k].name); }
        free(c->stages);
        free(c->name);
    }
    free(m->nodes);
    free(m->links);
    free(m->truths);
    free(m->classes);
    free(m->devices);
    free(m->name);
    free(m->path);
    memset(m, 0, sizeof(*m));
}

void mot_machine_device_name(const struct mot_machine *m, int device, char *name, size_t bytes)
{
    MOT_ASSERT(device >= 0 && device < m->n_devices);
    const struct mot_machine_device *d = &m->devices[device];
    snprintf(name, bytes, "%s-%d", m->classes[d->class].name, d->number);
}

static const struct mot_machine_stage *find_stage(const struct mot_machine_class *c,
                                                  const char *name)
{
    for (int i = 0; name != NULL && i < c->n_stages; i++) {
        if (strcmp(c->stages[i].name, name) == 0) { return &c->stages[i]; }
    }
    return NULL;
}

static double measured_s(const struct mot_machine_stage *s, const struct mot_machine_work *work)
{
    const double compute = s->flop_per_s > 0.0 ? work->flop / s->flop_per_s : 0.0;
    const double move = s->bytes_per_s > 0.0 ? work->bytes / s->bytes_per_s : 0.0;
    return s->s + s->s_per_token * work->tokens + s->s_per_row * work->rows + fmax(compute, move);
}

double mot_machine_expected_s(const struct mot_machine *m, int class,
                              const struct mot_machine_work *work)
{
    const struct mot_machine_class *c = &m->classes[class];
    const struct mot_machine_stage *stage = find_stage(c, work->task);
    if (stage == NULL) { stage = find_stage(c, work->stage); }
    if (stage != NULL) { return stage->never ? INFINITY : c->start_s + measured_s(stage, work); }
    double peak = c->flop_per_s[work->dtype];
    if (peak == 0.0) { peak = c->flop_per_s[MOT_F32]; }
    const double compute = work->flop / (peak * c->flop_efficiency);
    return c->start_s + fmax(compute, work->bytes / (c->bytes_per_s * c->bandwidth_efficiency));
}

double mot_machine_truth_factor(const struct mot_machine *m, int device, const char *stage,
                                double now_s, uint64_t seed, uint64_t key)
{
    const struct mot_machine_device *d = &m->devices[device];
    const uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    double factor = 1.0;
    for (int i = 0; i < m->n_truths; i++) {
        const struct mot_machine_truth *t = &m->truths[i];
        if ((t->class >= 0 && t->class != d->class) || (t->device >= 0 && t->device != d->number)
            || (t->stage != NULL && (stage == NULL || strcmp(t->stage, stage) != 0))
            || now_s < t->from_s) {
            continue;
        }
        if (t->probability < 1.0
            && mot_uniform(seed, MOT_RNG_SIMULATED, low, high, 2 * (uint32_t)i) >= t->probability) {
            continue;
        }
        factor *= t->factor;
        if (t->sigma > 0.0) {
            const double z = mot_normal(seed, MOT_RNG_SIMULATED, low, high, 2 * (uint32_t)i + 1);
            factor *= exp(t->sigma * z - 0.5 * t->sigma * t->sigma);
        }
    }
    return factor;
}

double mot_machine_least_factor(const struct mot_machine *m, int class, const char *stage,
                                uint64_t seed, uint64_t key)
{
    double least = m->n_truths > 0 ? INFINITY : 1.0;
    for (int d = 0; d < m->n_devices && m->n_truths > 0; d++) {
        if (m->devices[d].class != class) { continue; }
        for (int i = -1; i < m->n_truths; i++) { /* before and after each change */
            const double now_s = i < 0 ? 0.0 : m->truths[i].from_s;
            if (i >= 0 && now_s == 0.0) { continue; }
            least = fmin(least, mot_machine_truth_factor(m, d, stage, now_s, seed, key));
        }
    }
    return least;
}

int mot_machine_class_devices(const struct mot_machine *m, int class)
{
    int n = 0;
    for (int d = 0; d < m->n_devices; d++) { n += m->devices[d].class == class; }
    return n;
}
