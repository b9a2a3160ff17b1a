/* sim_platform: SimGrid's platform and StarPU's bus files.  See sim_platform.h.
 *
 * StarPU reads the bandwidth and latency tables with a parser that drops the value before the end
 * of a line: each has one column and one row more than it needs.  The config file must be there;
 * nothing of it is read. */
#include "sim_platform.h"
#include "error.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HOPS_MAX = 4, NAME_BYTES = 64 };

/* The links between two memories, in order; names as in the platform file. */
struct path {
    int n;
    const struct mot_machine_link *link[HOPS_MAX];
    char name[HOPS_MAX][NAME_BYTES];
};

__attribute__((format(printf, 3, 4))) static void
add_link(struct path *p, const struct mot_machine_link *link, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->name[p->n], NAME_BYTES, format, arguments);
    va_end(arguments);
    p->link[p->n++] = link;
}

/* Between main memory and the box of a device: nothing for the first box of all. */
static void add_network(const struct mot_machine *m, int device, const char *way, struct path *p)
{
    const struct mot_machine_device *d = &m->devices[device];
    const struct mot_machine_node *node = &m->nodes[d->node];
    if (d->node == 0 && d->box == 0) { return; }
    const struct mot_machine_link *link = &m->links[node->link];
    if (link->shared) {
        add_link(p, link, "node%d-%s", d->node, way);
    } else {
        add_link(p, link, "node%d-box%d-%s", d->node, d->box, way);
    }
}

/* Between the memory of its box and a device. */
static void add_own(const struct mot_machine *m, int device, const char *way, struct path *p)
{
    const struct mot_machine_device *d = &m->devices[device];
    const struct mot_machine_class *c = &m->classes[d->class];
    if (c->link < 0) { return; } /* the processors of another box */
    const struct mot_machine_link *link = &m->links[c->link];
    if (link->shared) {
        add_link(p, link, "class%d-box%d-%s", d->class, d->box, way);
    } else {
        add_link(p, link, "device%d-%s", device, way);
    }
}

static int has_peer(const struct mot_machine *m, int device)
{
    const struct mot_machine_device *d = &m->devices[device];
    return m->classes[d->class].peer >= 0
           || (!m->classes[d->class].is_cpu && m->nodes[d->node].peer >= 0);
}

static int same_box(const struct mot_machine *m, int a, int b)
{
    return m->devices[a].node == m->devices[b].node && m->devices[a].box == m->devices[b].box;
}

/* The link between two of a box, of their class or else of the node; -1: none. */
static int peer_link(const struct mot_machine *m, int a, int b)
{
    if (!same_box(m, a, b) || !has_peer(m, a) || !has_peer(m, b)) { return -1; }
    const int class = m->devices[a].class;
    const int own = class == m->devices[b].class ? m->classes[class].peer : -1;
    return own >= 0 ? own : m->nodes[m->devices[a].node].peer;
}

static int are_peers(const struct mot_machine *m, int a, int b)
{
    return peer_link(m, a, b) >= 0;
}

/* from, to: devices, -1 main memory; not equal. */
static struct path path_between(const struct mot_machine *m, int from, int to)
{
    struct path p = {0};
    if (from >= 0 && to >= 0) {
        if (are_peers(m, from, to)) {
            add_link(&p, &m->links[peer_link(m, from, to)], "device%d-device%d", from, to);
            return p;
        }
        add_own(m, from, "up", &p);
        if (!same_box(m, from, to)) {
            add_network(m, from, "up", &p);
            add_network(m, to, "down", &p);
        }
        add_own(m, to, "down", &p);
        return p;
    }
    if (from >= 0) {
        add_own(m, from, "up", &p);
        add_network(m, from, "up", &p);
    } else {
        add_network(m, to, "down", &p);
        add_own(m, to, "down", &p);
    }
    return p;
}

void mot_sim_platform_path(const struct mot_machine *m, int from, int to, double *bytes_per_s,
                           double *latency_s)
{
    const struct path p = path_between(m, from, to);
    *bytes_per_s = INFINITY;
    *latency_s = 0.0;
    for (int i = 0; i < p.n; i++) {
        *bytes_per_s = fmin(*bytes_per_s, p.link[i]->bytes_per_s);
        *latency_s += p.link[i]->latency_s;
    }
}

void mot_sim_platform_inflow(const struct mot_machine *m, int device, double *bytes_per_s,
                             double *latency_s)
{
    mot_sim_platform_path(m, -1, device, bytes_per_s, latency_s);
    for (int peer = 0; peer < m->n_devices; peer++) {
        if (peer == device || !are_peers(m, peer, device)) { continue; }
        double more, latency;
        mot_sim_platform_path(m, peer, device, &more, &latency);
        *bytes_per_s += more;
        *latency_s = fmin(*latency_s, latency);
    }
}

/* ---- The platform ---------------------------------------------------------------------------- */

static void write_text(FILE *f, const char *text) /* in an attribute */
{
    for (; *text; text++) {
        if (strchr("<>&\"'", *text)) {
            fprintf(f, "&#%d;", *text);
        } else {
            fputc(*text, f);
        }
    }
}

static void write_hosts(FILE *f, const struct mot_machine *m)
{
    fputs("  <host id=\"MAIN\" speed=\"1f\"/>\n  <host id=\"RAM\" speed=\"1f\"/>\n", f);
    for (int i = 0; i < m->n_devices; i++) {
        const struct mot_machine_class *c = &m->classes[m->devices[i].class];
        if (i < m->n_cpus) {
            fprintf(f, "  <host id=\"CPU%d\" speed=\"1000000000f\"/>\n", i);
            continue;
        }
        fprintf(f, "  <host id=\"CUDA%d\" speed=\"1000000000f\">\n    <prop id=\"model\" value=\"",
                i - m->n_cpus);
        write_text(f, c->name);
        fprintf(f, "\"/>\n    <prop id=\"memsize\" value=\"%.0f\"/>\n", c->memory_bytes);
        fprintf(f, "    <prop id=\"memcpy_peer\" value=\"%d\"/>\n  </host>\n", has_peer(m, i));
    }
}

static void write_link(FILE *f, const char *name, const struct mot_machine_link *l)
{
    fprintf(f, "  <link id=\"%s\" bandwidth=\"%.0fBps\" latency=\"%.12gs\"/>\n", name,
            l->bytes_per_s, l->latency_s);
}

/* A link in both directions, which do not slow each other. */
static void write_ways(FILE *f, const char *name, const struct mot_machine_link *l)
{
    char way[NAME_BYTES + 8];
    snprintf(way, sizeof(way), "%s-up", name);
    write_link(f, way, l);
    snprintf(way, sizeof(way), "%s-down", name);
    write_link(f, way, l);
}

static void write_links(FILE *f, const struct mot_machine *m)
{
    char name[NAME_BYTES];
    for (int i = 0; i < m->n_nodes; i++) {
        if (m->nodes[i].link < 0) { continue; }
        const struct mot_machine_link *l = &m->links[m->nodes[i].link];
        for (int box = 0; box < (l->shared ? 1 : m->nodes[i].count); box++) {
            snprintf(name, sizeof(name), l->shared ? "node%d" : "node%d-box%d", i, box);
            write_ways(f, name, l);
        }
    }
    for (int i = 0; i < m->n_classes; i++) {
        const struct mot_machine_class *c = &m->classes[i];
        if (c->link < 0 || !m->links[c->link].shared) { continue; }
        for (int box = 0; box < m->nodes[c->node].count; box++) {
            snprintf(name, sizeof(name), "class%d-box%d", i, box);
            write_ways(f, name, &m->links[c->link]);
        }
    }
    for (int i = m->n_cpus; i < m->n_devices; i++) {
        const struct mot_machine_class *c = &m->classes[m->devices[i].class];
        if (c->link < 0 || m->links[c->link].shared) { continue; }
        snprintf(name, sizeof(name), "device%d", i);
        write_ways(f, name, &m->links[c->link]);
    }
    for (int i = m->n_cpus; i < m->n_devices; i++) { /* one for each pair of peers, one way */
        for (int k = m->n_cpus; k < m->n_devices; k++) {
            if (i == k || !are_peers(m, i, k)) { continue; }
            const struct path p = path_between(m, i, k);
            write_link(f, p.name[0], p.link[0]);
        }
    }
}

static void write_route(FILE *f, const struct mot_machine *m, int from, int to)
{
    const struct path p = path_between(m, from, to);
    char source[32] = "RAM", target[32] = "RAM";
    if (from >= 0) { snprintf(source, sizeof(source), "CUDA%d", from - m->n_cpus); }
    if (to >= 0) { snprintf(target, sizeof(target), "CUDA%d", to - m->n_cpus); }
    if (p.n == 0) { return; }
    fprintf(f, "  <route src=\"%s\" dst=\"%s\" symmetrical=\"NO\">", source, target);
    for (int i = 0; i < p.n; i++) {
        int again = 0; /* SimGrid takes a link once */
        for (int k = 0; k < i; k++) { again |= strcmp(p.name[k], p.name[i]) == 0; }
        if (!again) { fprintf(f, "<link_ctn id=\"%s\"/>", p.name[i]); }
    }
    fputs("</route>\n", f);
}

static void write_routes(FILE *f, const struct mot_machine *m)
{
    for (int i = m->n_cpus; i < m->n_devices; i++) {
        write_route(f, m, -1, i);
        write_route(f, m, i, -1);
        for (int k = m->n_cpus; k < m->n_devices; k++) {
            if (k != i && (has_peer(m, i) || has_peer(m, k))) { write_route(f, m, i, k); }
        }
    }
}

static void write_platform(FILE *f, const struct mot_machine *m)
{
    fputs("<?xml version='1.0'?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n <config id=\"General\">\n"
          "  <prop id=\"network/TCP-gamma\" value=\"-1\"/>\n"
          "  <prop id=\"network/latency-factor\" value=\"1\"/>\n"
          "  <prop id=\"network/bandwidth-factor\" value=\"1\"/>\n"
          "  <prop id=\"network/weight-S\" value=\"0.0\"/>\n"
          "  <prop id=\"network/crosstraffic\" value=\"0\"/>\n"
          " </config>\n <zone id=\"machine\" routing=\"Full\">\n",
          f);
    write_hosts(f, m);
    write_links(f, m);
    write_routes(f, m);
    fputs(" </zone>\n</platform>\n", f);
}

/* ---- The tables ------------------------------------------------------------------------------ */

static void write_table(FILE *f, const struct mot_machine *m, int latency)
{
    fputs("# main memory, then the devices: us or MB/s\n", f);
    for (int i = m->n_cpus - 1; i < m->n_devices; i++) {
        const int from = i < m->n_cpus ? -1 : i;
        for (int k = m->n_cpus - 1; k < m->n_devices; k++) {
            const int to = k < m->n_cpus ? -1 : k;
            double bytes_per_s = 0.0, latency_s = 0.0;
            if (from != to) { mot_sim_platform_path(m, from, to, &bytes_per_s, &latency_s); }
            if (isinf(bytes_per_s)) { bytes_per_s = 1e15; }
            fprintf(f, "%e\t", latency ? latency_s * 1e6 : bytes_per_s * 1e-6);
        }
        fputs("nan\n", f);
    }
    for (int k = m->n_cpus - 1; k <= m->n_devices; k++) { fputs("nan\t", f); }
    fputc('\n', f);
}

static void write_bandwidth(FILE *f, const struct mot_machine *m)
{
    write_table(f, m, 0);
}

static void write_latency(FILE *f, const struct mot_machine *m)
{
    write_table(f, m, 1);
}

static void write_config(FILE *f, const struct mot_machine *m)
{
    fprintf(f, "# Current configuration\n%d # Number of CPUs\n%d # Number of CUDA devices\n",
            m->n_cpus, m->n_devices - m->n_cpus);
}

int mot_sim_platform_write(const struct mot_machine *machine, const char *directory)
{
    static const struct {
        const char *name;
        void (*write)(FILE *f, const struct mot_machine *m);
    } files[] = {{"platform.v4.xml", write_platform},
                 {"bandwidth", write_bandwidth},
                 {"latency", write_latency},
                 {"config", write_config}};
    char *path = mot_format("%s/bus", directory);
    int error = mkdir(path, 0777) == 0 || errno == EEXIST
                    ? 0
                    : mot_fail(errno, "%s: %s", path, strerror(errno));
    free(path);
    for (size_t i = 0; !error && i < sizeof(files) / sizeof(files[0]); i++) {
        path = mot_format("%s/bus/" MOT_SIM_HOST ".%s", directory, files[i].name);
        FILE *f = fopen(path, "w");
        if (f != NULL) {
            files[i].write(f, machine);
            const int bad = ferror(f);
            if (fclose(f) != 0 || bad) {
                error = mot_fail(errno ? errno : EIO, "%s: cannot be written", path);
            }
        } else {
            error = mot_fail(errno, "%s: %s", path, strerror(errno));
        }
        free(path);
    }
    return error;
}
