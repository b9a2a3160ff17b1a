/* machine_read: machine files (YAML) into struct mot_machine.  See machine.h. */
#include "error.h"
#include "machine.h"
#include "yaml_tree.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 100000 };
static const double zero = 0.0, one = 1.0, unknown = NAN;
static const int int_one = 1;

struct reader {
    struct mot_machine *m;
    const char *const *known; /* stages */
};

/* The list under key, each item a mapping: *n items of `size` bytes, zeroed. */
static int list_of_maps(struct mot_yaml *root, const char *key, int required, size_t size,
                        struct mot_yaml **list, int *n, void *items)
{
    *list = NULL;
    const int error = mot_yaml_get(root, key, MOT_YAML_LIST, required, list);
    if (error || *list == NULL) { return error; }
    if ((*list)->n == 0 && required) { return mot_yaml_fail(*list, "%s: nothing is listed", key); }
    for (int i = 0; i < (*list)->n; i++) {
        if ((*list)->items[i]->kind != MOT_YAML_MAP) {
            return mot_yaml_fail((*list)->items[i], "%s: a mapping was expected", key);
        }
    }
    *(void **)items = mot_alloc_zeroed((size_t)(*list)->n + 1, size);
    *n = (*list)->n;
    return 0;
}

/* A text's copy. */
static int text_of(struct mot_yaml *map, const char *key, char **copy)
{
    const char *text = NULL;
    const int error = mot_yaml_text(map, key, 1, &text);
    if (error) { return error; }
    *copy = mot_strdup(text);
    return 0;
}

/* key names one of n things whose names stand at the start of each of `size` bytes; -1: not
 * there. */
static int index_of(struct mot_yaml *map, const char *key, const void *things, size_t size, int n,
                    int *index)
{
    const char *text = NULL;
    *index = -1;
    const int error = mot_yaml_text(map, key, 0, &text);
    if (error || text == NULL) { return error; }
    for (int i = 0; i < n; i++) {
        const char *name = *(char *const *)((const char *)things + (size_t)i * size);
        if (name != NULL && strcmp(name, text) == 0) {
            *index = i;
            return 0;
        }
    }
    return mot_yaml_fail(mot_yaml_find(map, key), "%s: there is no '%s'", key, text);
}

/* The name of item i is no other's. */
static int unique(struct mot_yaml *map, const void *things, size_t size, int i)
{
    const char *const *name = (const void *)((const char *)things + (size_t)i * size);
    for (int k = 0; k < i; k++) {
        const char *const *other = (const void *)((const char *)things + (size_t)k * size);
        if (strcmp(*name, *other) == 0) { return mot_yaml_fail(map, "'%s' is there twice", *name); }
    }
    return 0;
}

/* A number times unit. */
static int scaled(struct mot_yaml *map, const char *key, double min, double max,
                  const double *fallback, double unit, double *value)
{
    double number = 0.0;
    const int error = mot_yaml_number(map, key, min, max, fallback, &number);
    if (!error) { *value = number * unit; }
    return error;
}

static int read_links(struct mot_machine *m, struct mot_yaml *root)
{
    static const char *const keys[] = {"name", "gb_s", "latency_us", "shared", NULL};
    struct mot_yaml *list;
    int error = list_of_maps(root, "links", 0, sizeof(*m->links), &list, &m->n_links, &m->links);
    for (int i = 0; !error && i < m->n_links; i++) {
        struct mot_machine_link *l = &m->links[i];
        struct mot_yaml *map = list->items[i];
        error = text_of(map, "name", &l->name);
        if (!error) { error = unique(map, m->links, sizeof(*l), i); }
        if (!error) { error = scaled(map, "gb_s", 1e-6, 1e6, NULL, 1e9, &l->bytes_per_s); }
        if (!error) { error = scaled(map, "latency_us", 0.0, 1e9, &zero, 1e-6, &l->latency_s); }
        if (!error) { error = mot_yaml_bool(map, "shared", 0, &l->shared); }
        if (!error) { error = mot_yaml_finish(map, keys); }
    }
    return error;
}

static int read_nodes(struct mot_machine *m, struct mot_yaml *root)
{
    static const char *const keys[] = {"name", "count", "link", "peer", NULL};
    struct mot_yaml *list;
    int error = list_of_maps(root, "nodes", 0, sizeof(*m->nodes), &list, &m->n_nodes, &m->nodes);
    if (!error && list == NULL) { /* one box */
        m->nodes = mot_alloc_zeroed(1, sizeof(*m->nodes));
        m->n_nodes = 1;
        m->nodes[0] = (struct mot_machine_node){
            .name = mot_strdup("box"), .count = 1, .link = -1, .peer = -1};
        return 0;
    }
    for (int i = 0; !error && i < m->n_nodes; i++) {
        struct mot_machine_node *node = &m->nodes[i];
        struct mot_yaml *map = list->items[i];
        error = text_of(map, "name", &node->name);
        if (!error) { error = unique(map, m->nodes, sizeof(*node), i); }
        if (!error) { error = mot_yaml_int(map, "count", 1, COUNT_MAX, &int_one, &node->count); }
        if (!error) {
            error = index_of(map, "link", m->links, sizeof(*m->links), m->n_links, &node->link);
        }
        if (!error) {
            error = index_of(map, "peer", m->links, sizeof(*m->links), m->n_links, &node->peer);
        }
        if (!error && node->link < 0 && (i > 0 || node->count > 1)) {
            error = mot_yaml_fail(map, "'%s' needs a link to the first box", node->name);
        }
        if (!error) { error = mot_yaml_finish(map, keys); }
    }
    return error;
}

static int read_peaks(struct mot_yaml *map, struct mot_machine_class *c)
{
    struct mot_yaml *peaks = NULL;
    int error = mot_yaml_get(map, "tflop_s", MOT_YAML_MAP, 1, &peaks), any = 0;
    for (int i = 0; !error && i < peaks->n; i++) {
        enum mot_dtype dtype;
        double value = 0.0;
        if (mot_dtype_parse(peaks->items[i]->key, &dtype) != 0) {
            return mot_yaml_fail(peaks->items[i], "tflop_s: '%s' is no dtype",
                                 peaks->items[i]->key);
        }
        error = mot_yaml_value(peaks->items[i], 1e-6, 1e6, &value);
        c->flop_per_s[dtype] = value * 1e12;
        any |= dtype == MOT_F32;
    }
    if (!error && !any) { return mot_yaml_fail(peaks, "tflop_s: float32 is missing"); }
    return error;
}

static int is_stage_name(const struct reader *r, const char *name)
{
    if (strchr(name, '.') != NULL) { return 1; }
    for (int i = 0; r->known[i] != NULL; i++) {
        if (strcmp(r->known[i], name) == 0) { return 1; }
    }
    return 0;
}

static int read_stage(const struct reader *r, struct mot_yaml *value, struct mot_machine_stage *s)
{
    static const char *const keys[] = {"ms", "ms_per_token", "ms_per_row", "tflop_s", "gb_s", NULL};
    if (!is_stage_name(r, value->key)) {
        return mot_yaml_fail(value, "stages: there is no stage '%s'", value->key);
    }
    s->name = mot_strdup(value->key);
    if (value->kind == MOT_YAML_SCALAR && strcmp(value->text, "never") == 0) {
        s->never = 1;
        return 0;
    }
    if (value->kind != MOT_YAML_MAP || value->n == 0) {
        return mot_yaml_fail(value, "%s: times in a mapping, or never, were expected", value->key);
    }
    int error = scaled(value, "ms", 0.0, 1e12, &zero, 1e-3, &s->s);
    if (!error) { error = scaled(value, "ms_per_token", 0, 1e9, &zero, 1e-3, &s->s_per_token); }
    if (!error) { error = scaled(value, "ms_per_row", 0.0, 1e9, &zero, 1e-3, &s->s_per_row); }
    if (!error) { error = scaled(value, "tflop_s", 0.0, 1e6, &zero, 1e12, &s->flop_per_s); }
    if (!error) { error = scaled(value, "gb_s", 0.0, 1e6, &zero, 1e9, &s->bytes_per_s); }
    return error ? error : mot_yaml_finish(value, keys);
}

static int read_stages(const struct reader *r, struct mot_yaml *map, struct mot_machine_class *c)
{
    struct mot_yaml *stages = NULL;
    int error = mot_yaml_get(map, "stages", MOT_YAML_MAP, 0, &stages);
    if (error || stages == NULL) { return error; }
    c->stages = mot_alloc_zeroed((size_t)stages->n + 1, sizeof(*c->stages));
    for (int i = 0; !error && i < stages->n; i++) {
        c->n_stages = i + 1;
        error = read_stage(r, stages->items[i], &c->stages[i]);
    }
    return error;
}

/* Where the class is and what connects it. */
static int read_place(struct mot_machine *m, struct mot_yaml *map, struct mot_machine_class *c)
{
    const char *kind = NULL;
    int error = mot_yaml_text(map, "kind", 1, &kind);
    if (error) { return error; }
    c->is_cpu = strcmp(kind, "cpu") == 0;
    if (!c->is_cpu && strcmp(kind, "gpu") != 0) {
        return mot_yaml_fail(mot_yaml_find(map, "kind"), "kind: '%s' is neither cpu nor gpu", kind);
    }
    error = index_of(map, "node", m->nodes, sizeof(*m->nodes), m->n_nodes, &c->node);
    if (c->node < 0) { c->node = 0; }
    if (!error) {
        error = index_of(map, "link", m->links, sizeof(*m->links), m->n_links, &c->link);
    }
    if (!error) {
        error = index_of(map, "peer", m->links, sizeof(*m->links), m->n_links, &c->peer);
    }
    if (!error && !c->is_cpu && c->link < 0) {
        return mot_yaml_fail(map, "'%s' needs a link to the memory of its box", c->name);
    }
    if (!error && c->is_cpu && (c->link >= 0 || c->peer >= 0)) {
        return mot_yaml_fail(map,
                             "'%s' works in the memory of its box: a cpu has no link and no "
                             "peer",
                             c->name);
    }
    for (int i = 0; !error && c->is_cpu && &m->classes[i] < c; i++) {
        if (m->classes[i].is_cpu && m->classes[i].node == c->node) {
            return mot_yaml_fail(map, "'%s' is the second cpu class in one node", c->name);
        }
    }
    return error;
}

static int read_class(const struct reader *r, struct mot_yaml *map, struct mot_machine_class *c)
{
    static const char *const keys[] = {"name",
                                       "kind",
                                       "node",
                                       "link",
                                       "peer",
                                       "count",
                                       "tflop_s",
                                       "memory_gib",
                                       "memory_gb_s",
                                       "flop_efficiency",
                                       "bandwidth_efficiency",
                                       "start_us",
                                       "price_per_hour",
                                       "watts",
                                       "idle_watts",
                                       "stages",
                                       NULL};
    struct mot_machine *m = r->m;
    c->line = map->line;
    int error = text_of(map, "name", &c->name);
    if (!error) { error = unique(map, m->classes, sizeof(*c), (int)(c - m->classes)); }
    if (!error) { error = read_place(m, map, c); }
    if (!error) { error = mot_yaml_int(map, "count", 1, COUNT_MAX, &int_one, &c->count); }
    if (!error) { error = read_peaks(map, c); }
    if (!error) { error = scaled(map, "memory_gib", 0.01, 1e6, NULL, 1 << 30, &c->memory_bytes); }
    if (!error) { error = scaled(map, "memory_gb_s", 1e-3, 1e6, NULL, 1e9, &c->bytes_per_s); }
    if (!error) {
        error = scaled(map, "flop_efficiency", 1e-3, 1.0, &one, 1.0, &c->flop_efficiency);
    }
    if (!error) {
        error = scaled(map, "bandwidth_efficiency", 1e-3, 1.0, &one, 1.0, &c->bandwidth_efficiency);
    }
    if (!error) { error = scaled(map, "start_us", 0.0, 1e9, &zero, 1e-6, &c->start_s); }
    if (!error) {
        error = scaled(map, "price_per_hour", 0.0, 1e9, &unknown, 1.0, &c->price_per_hour);
    }
    if (!error) { error = scaled(map, "watts", 0.0, 1e9, &unknown, 1.0, &c->watts); }
    if (!error) { error = scaled(map, "idle_watts", 0.0, 1e9, &unknown, 1.0, &c->idle_watts); }
    if (!error && c->idle_watts > c->watts) {
        return mot_yaml_fail(map, "'%s' takes more watts idle than at work", c->name);
    }
    if (!error && isnan(c->watts) != isnan(c->idle_watts)) {
        return mot_yaml_fail(map, "'%s': watts and idle_watts go together", c->name);
    }
    if (!error) { error = read_stages(r, map, c); }
    return error ? error : mot_yaml_finish(map, keys);
}

static int read_truth(const struct reader *r, struct mot_yaml *map, struct mot_machine_truth *t)
{
    static const char *const keys[] = {"class", "device",      "stage",  "factor",
                                       "sigma", "probability", "from_s", NULL};
    struct mot_machine *m = r->m;
    const char *stage = NULL;
    const int all = -1;
    int error = index_of(map, "class", m->classes, sizeof(*m->classes), m->n_classes, &t->class);
    if (!error) { error = mot_yaml_int(map, "device", 0, COUNT_MAX, &all, &t->device); }
    if (!error) { error = mot_yaml_text(map, "stage", 0, &stage); }
    if (error) { return error; }
    if (stage != NULL && !is_stage_name(r, stage)) {
        return mot_yaml_fail(mot_yaml_find(map, "stage"), "there is no stage '%s'", stage);
    }
    if (t->device >= 0 && t->class < 0) {
        return mot_yaml_fail(map, "a device is one of a class: class is missing");
    }
    if (t->device >= 0) {
        const struct mot_machine_class *c = &m->classes[t->class];
        const int devices = c->count * m->nodes[c->node].count;
        if (t->device >= devices) {
            return mot_yaml_fail(mot_yaml_find(map, "device"),
                                 "device: '%s' has %d devices, from 0", c->name, devices);
        }
    }
    t->stage = stage ? mot_strdup(stage) : NULL;
    error = mot_yaml_number(map, "factor", 1e-6, 1e6, &one, &t->factor);
    if (!error) { error = mot_yaml_number(map, "sigma", 0.0, 10.0, &zero, &t->sigma); }
    if (!error) { error = mot_yaml_number(map, "probability", 0.0, 1.0, &one, &t->probability); }
    if (!error) { error = mot_yaml_number(map, "from_s", 0.0, 1e12, &zero, &t->from_s); }
    return error ? error : mot_yaml_finish(map, keys);
}

/* The list of devices: processors of main memory first, then the others in order of classes. */
static int list_devices(struct mot_machine *m, struct mot_yaml *classes)
{
    int n = 0;
    for (int i = 0; i < m->n_classes; i++) {
        n += m->classes[i].count * m->nodes[m->classes[i].node].count;
        if (n > MOT_MACHINE_DEVICES_MAX || m->classes[i].count > MOT_MACHINE_DEVICES_MAX) {
            return mot_yaml_fail(classes->items[i], "more than %d devices",
                                 MOT_MACHINE_DEVICES_MAX);
        }
    }
    m->devices = mot_alloc_zeroed((size_t)n, sizeof(*m->devices));
    for (int far = 0; far < 2; far++) {
        for (int i = 0; i < m->n_classes; i++) {
            const struct mot_machine_class *c = &m->classes[i];
            for (int k = 0; k < c->count * m->nodes[c->node].count; k++) {
                const int box = k / c->count;
                if ((c->is_cpu && c->node == 0 && box == 0) == far) { continue; }
                m->devices[m->n_devices++] = (struct mot_machine_device){
                    .class = i, .number = k, .node = c->node, .box = box};
            }
        }
        if (!far) { m->n_cpus = m->n_devices; }
    }
    if (m->n_cpus > 0) { return 0; }
    return mot_yaml_fail(classes, "no class of kind cpu in the first box: rewards need one");
}

static int read_machine(const struct reader *r, struct mot_yaml *root)
{
    static const char *const keys[] = {"name", "links", "nodes", "classes", "truth", NULL};
    struct mot_machine *m = r->m;
    struct mot_yaml *classes = NULL, *truths = NULL;
    int error = text_of(root, "name", &m->name);
    if (!error) { error = read_links(m, root); }
    if (!error) { error = read_nodes(m, root); }
    if (!error) {
        error = list_of_maps(root, "classes", 1, sizeof(*m->classes), &classes, &m->n_classes,
                             &m->classes);
    }
    if (!error) { m->line = classes->line; }
    for (int i = 0; !error && i < m->n_classes; i++) {
        error = read_class(r, classes->items[i], &m->classes[i]);
    }
    if (!error) { error = list_devices(m, classes); }
    if (!error) {
        error =
            list_of_maps(root, "truth", 0, sizeof(*m->truths), &truths, &m->n_truths, &m->truths);
    }
    for (int i = 0; !error && i < m->n_truths; i++) {
        error = read_truth(r, truths->items[i], &m->truths[i]);
    }
    return error ? error : mot_yaml_finish(root, keys);
}

int mot_machine_load(const char *path, const char *const *known, struct mot_machine *machine)
{
    struct mot_yaml *root;
    int error = mot_yaml_load(path, &root);
    if (error) { return error; }
    struct mot_machine made = {.path = mot_strdup(path)};
    error = read_machine(&(struct reader){.m = &made, .known = known}, root);
    mot_yaml_free(root);
    if (error) {
        mot_machine_free(&made);
        return error;
    }
    *machine = made;
    return 0;
}
