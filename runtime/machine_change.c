/* machine_change: other numbers of devices than the file's.  See machine.h. */
#include "error.h"
#include "machine.h"
#include <stdlib.h>
#include <string.h>

int mot_machine_class_find(const struct mot_machine *m, const char *name, size_t length)
{
    for (int c = 0; c < m->n_classes; c++) {
        if (strlen(m->classes[c].name) == length && memcmp(m->classes[c].name, name, length) == 0) {
            return c;
        }
    }
    return -1;
}

/* A class without devices goes, with what is true of it. */
static void remove_class(struct mot_machine *m, int class)
{
    struct mot_machine_class *c = &m->classes[class];
    for (int i = 0; i < c->n_stages; i++) { free(c->stages[i].name); }
    free(c->stages);
    free(c->name);
    memmove(c, c + 1, (size_t)(m->n_classes - class - 1) * sizeof(*c));
    m->n_classes--;
    for (int d = 0; d < m->n_devices; d++) { m->devices[d].class -= m->devices[d].class > class; }
    int n = 0;
    for (int i = 0; i < m->n_truths; i++) {
        struct mot_machine_truth t = m->truths[i];
        if (t.class == class) {
            free(t.stage);
            continue;
        }
        t.class -= t.class > class;
        m->truths[n++] = t;
    }
    m->n_truths = n;
}

int mot_machine_set_count(struct mot_machine *m, int class, int count)
{
    const struct mot_machine_class *c = &m->classes[class];
    struct mot_machine_node *node = &m->nodes[c->node];
    if (c->is_cpu) {
        return mot_fail(EINVAL, "%s: '%s' is a cpu: only numbers of gpus can be changed", m->path,
                        c->name);
    }
    for (int t = 0; t < m->n_truths && count > 0; t++) {
        if (m->truths[t].class == class && m->truths[t].device >= count) {
            return mot_fail(EINVAL, "%s: a truth is of device %d of '%s'; %d devices are left",
                            m->path, m->truths[t].device, c->name, count);
        }
    }
    struct mot_machine_device *devices =
        mot_alloc_zeroed((size_t)m->n_devices + (size_t)count + 1, sizeof(*devices));
    int n = 0;
    for (int d = 0; d < m->n_devices; d++) {
        if (m->devices[d].class != class) { devices[n++] = m->devices[d]; }
    }
    for (int k = 0; k < count; k++) { /* one box holds all, or as many are filled as it takes */
        const int box = node->count > 1 ? k / c->count : 0;
        if (box >= node->count) { node->count = box + 1; }
        devices[n++] =
            (struct mot_machine_device){.class = class, .number = k, .node = c->node, .box = box};
    }
    free(m->devices);
    m->devices = devices;
    m->n_devices = n;
    if (count == 0) { remove_class(m, class); }
    if (n <= MOT_MACHINE_DEVICES_MAX) { return 0; }
    return mot_fail(EINVAL, "%s: more than %d devices", m->path, MOT_MACHINE_DEVICES_MAX);
}

static void copy_stages(const struct mot_machine_class *from, struct mot_machine_class *to)
{
    to->stages = mot_alloc_zeroed((size_t)from->n_stages + 1, sizeof(*to->stages));
    for (int i = 0; i < from->n_stages; i++) {
        to->stages[i] = from->stages[i];
        to->stages[i].name = mot_strdup(from->stages[i].name);
    }
}

/* What is true of the class is true of the part that has become another one. */
static void split_truths(struct mot_machine *m, int class, int part, int left)
{
    const int n = m->n_truths;
    m->truths = mot_realloc(m->truths, 2 * ((size_t)n + 1) * sizeof(*m->truths));
    for (int i = 0; i < n; i++) {
        struct mot_machine_truth *t = &m->truths[i];
        if (t->class != class) { continue; }
        if (t->device >= left) {
            t->class = part;
            t->device -= left;
        } else if (t->device < 0) {
            struct mot_machine_truth copy = *t;
            copy.class = part;
            copy.stage = t->stage ? mot_strdup(t->stage) : NULL;
            m->truths[m->n_truths++] = copy;
        }
    }
}

int mot_machine_split(struct mot_machine *m, int class, int left, const char *name)
{
    const int part = m->n_classes;
    m->classes = mot_realloc(m->classes, ((size_t)part + 1) * sizeof(*m->classes));
    m->n_classes++;
    m->classes[part] = m->classes[class];
    m->classes[part].name = mot_strdup(name);
    copy_stages(&m->classes[class], &m->classes[part]);
    for (int d = 0; d < m->n_devices; d++) {
        struct mot_machine_device *device = &m->devices[d];
        if (device->class != class || device->number < left) { continue; }
        device->class = part;
        device->number -= left;
    }
    split_truths(m, class, part, left);
    return part;
}

void mot_machine_forbid(struct mot_machine *m, int class, const char *name)
{
    struct mot_machine_class *c = &m->classes[class];
    int i = 0;
    while (i < c->n_stages && strcmp(c->stages[i].name, name) != 0) { i++; }
    if (i == c->n_stages) {
        c->stages = mot_realloc(c->stages, ((size_t)i + 1) * sizeof(*c->stages));
        c->stages[i] = (struct mot_machine_stage){.name = mot_strdup(name)};
        c->n_stages++;
    }
    c->stages[i].never = 1;
}
