/* Duration models between runs.  See sched_models.h. */
#include "sched_models.h"
#include "error.h"
#include "file.h"
#include "json.h"
#include "motley.h"
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Absent in the library for foreign programs. */
#pragma weak mot_cores_per_worker

enum { VERSION = 1, BYTES_MAX = 64 << 20, TASKS_MAX = 1000, ALARMS_MAX = 8 };
static const char format[] = "motley models";

struct mot_models {
    char *path;
    json_t *file;
    int is_newer; /* another version's: not to be written */
    int alarms;
};

/* ---- The file -------------------------------------------------------------------------------- */

/* To free; NULL: none. */
static char *path_of_file(void)
{
    const char *named = getenv("MOTLEY_MODELS");
    if (named) { return *named ? mot_strdup(named) : NULL; }
#ifdef STARPU_SIMGRID
    return NULL;
#else
    char host[256] = "";
    const char *home = getenv("STARPU_HOME"), *below = "";
    const char *name = getenv("STARPU_HOSTNAME");
    if (!home && (home = getenv("XDG_CACHE_HOME"))) { below = "/motley"; }
    if (!home && (home = getenv("HOME"))) { below = "/.cache/motley"; }
    if (!home || home[0] != '/') { return NULL; }
    if (!name && gethostname(host, sizeof(host) - 1) == 0) { name = host; }
    return mot_format("%s%s/motley-models-%s.json", home, below, name && *name ? name : "host");
#endif
}

static json_t *empty(void)
{
    json_t *file = json_object();
    json_object_set_new(file, "format", json_string(format));
    json_object_set_new(file, "version", json_integer(VERSION));
    json_object_set_new(file, "classes", json_object());
    return file;
}

/* What the path holds, else an empty file; whatever is wrong is a warning.  A new reference. */
static json_t *read_file(const char *path, int *is_newer)
{
    char *bytes = NULL, why[200];
    size_t n = 0;
    *is_newer = 0;
    if (access(path, F_OK) != 0 || mot_file_read(path, BYTES_MAX, &bytes, &n) != 0) {
        return empty();
    }
    json_t *file = mot_json_decode(bytes, n, why, sizeof(why));
    free(bytes);
    const char *said = json_string_value(json_object_get(file, "format"));
    const json_int_t version = json_integer_value(json_object_get(file, "version"));
    if (said && strcmp(said, format) == 0 && version > VERSION) {
        *is_newer = 1;
        mot_warn("%s: version %d of the measured times is newer than this program; left alone",
                 path, (int)version);
    } else if (!said || strcmp(said, format) != 0 || version != VERSION
               || !json_is_object(json_object_get(file, "classes"))) {
        mot_warn("%s: no file of measured times (%s); they are learned anew", path,
                 file ? "not ours" : why);
    } else {
        return file;
    }
    json_decref(file);
    return empty();
}

void mot_models_load(struct mot_sched *s)
{
    struct mot_models *m = mot_alloc_zeroed(1, sizeof(*m));
    m->path = path_of_file();
    m->file = m->path ? read_file(m->path, &m->is_newer) : NULL;
    s->models = m;
}

void mot_models_free(struct mot_sched *s)
{
    json_decref(s->models->file);
    free(s->models->path);
    free(s->models);
}

json_t *mot_models_read(char **path)
{
    int is_newer;
    *path = path_of_file();
    if (!*path || access(*path, F_OK) != 0) {
        free(*path);
        *path = NULL;
        return NULL;
    }
    json_t *file = read_file(*path, &is_newer);
    json_t *classes = json_incref(json_object_get(file, "classes"));
    json_decref(file);
    return classes;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void name_class(const struct mot_sched_class *class, char *text, size_t bytes)
{
    if (starpu_worker_get_type(class->first) != STARPU_CPU_WORKER) {
        snprintf(text, bytes, "%s", class->name);
        return;
    }
    snprintf(text, bytes, "CPU x%d, %d cores each",
             starpu_worker_get_count_by_type(STARPU_CPU_WORKER),
             mot_cores_per_worker ? mot_cores_per_worker() : 1);
}

static void name_cell(const struct mot_sched_cell *cell, char *text, size_t bytes)
{
    snprintf(text, bytes, "%u.%u%s", cell->size, cell->implementation,
             cell->is_relative ? "r" : "");
}

static json_t *class_of(json_t *file, const struct mot_sched_class *class)
{
    char name[128];
    name_class(class, name, sizeof(name));
    return json_object_get(json_object_get(file, "classes"), name);
}

/* The object of that key, made where it is not. */
static json_t *make(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (json_is_object(value)) { return value; }
    json_object_set_new(object, key, value = json_object());
    return value;
}

/* ---- Before and in a run --------------------------------------------------------------------- */

void mot_models_fill(const struct mot_sched *s, struct mot_sched_cell *cell)
{
    const char *task = s->kind_name[cell->kind];
    if (!s->models->file || !task) { return; }
    char name[64];
    name_cell(cell, name, sizeof(name));
    const json_t *tasks =
        json_object_get(class_of(s->models->file, &s->class[cell->class]), "tasks");
    const json_t *entry = json_object_get(json_object_get(tasks, task), name);
    const json_t *list = json_object_get(entry, "samples");
    double samples[MOT_SCHED_SAMPLES];
    int n = 0;
    for (size_t i = 0; i < json_array_size(list) && n < MOT_SCHED_SAMPLES; i++) {
        const double x = json_number_value(json_array_get(list, i));
        if (isfinite(x) && x > 0.0) { samples[n++] = x; }
    }
    if (n == 0) { return; }
    mot_sched_cell_set(cell, samples, n);
    cell->n_loaded = n;
    cell->loaded_p50 = cell->p50;
    cell->loaded_p90 = cell->p90;
}

void mot_models_fill_class(const struct mot_sched *s, struct mot_sched_class *class)
{
    const json_t *saved = s->models->file ? class_of(s->models->file, class) : NULL;
    class->flop_per_us = fmax(0.0, json_number_value(json_object_get(saved, "flop_per_us")));
    class->bytes_per_us = fmax(0.0, json_number_value(json_object_get(saved, "bytes_per_us")));
}

void mot_models_check(struct mot_sched *s, struct mot_sched_cell *cell, double x)
{
    if (cell->n_loaded == 0 || cell->n_latest == MOT_SCHED_LATEST) { return; }
    cell->latest[cell->n_latest++] = x;
    if (cell->n_latest < MOT_SCHED_LATEST) { return; }
    const double before = cell->loaded_p50, spread = cell->loaded_p90 / before;
    double latest[MOT_SCHED_LATEST];
    memcpy(latest, cell->latest, sizeof(latest));
    struct mot_sched_cell now = *cell;
    mot_sched_cell_set(&now, latest, MOT_SCHED_LATEST);
    const double factor = now.p50 / before;
    if (fmax(factor, 1.0 / factor) <= fmax(1.5, spread)) { return; }
    mot_sched_cell_set(cell, latest, MOT_SCHED_LATEST);
    for (int w = 0; w < s->n_workers; w++) { /* what they were late by, it was by the old times */
        if (s->worker[w].class != cell->class) { continue; }
        s->worker[w].n_late = 0;
        s->worker[w].slow = 1.0;
    }
    if (s->models->alarms++ >= ALARMS_MAX) { return; }
    mot_warn("%s takes %.2g times what earlier runs measured on %s; its times are learned anew",
             s->kind_name[cell->kind], factor, s->class[cell->class].name);
}

/* ---- After a run ----------------------------------------------------------------------------- */

static void put_cell(json_t *tasks, const char *task, const struct mot_sched_cell *cell)
{
    if (!json_object_get(tasks, task) && json_object_size(tasks) >= TASKS_MAX) { return; }
    char name[64];
    name_cell(cell, name, sizeof(name));
    json_t *entry = make(make(tasks, task), name), *samples = json_array();
    const json_int_t before = json_integer_value(json_object_get(entry, "seen"));
    for (int i = 0; i < cell->n; i++) {
        json_array_append_new(samples, mot_json_number(cell->sample[i]));
    }
    json_object_set_new(entry, "seen", json_integer(before + cell->seen));
    json_object_set_new(entry, "samples", samples);
}

static void put_all(const struct mot_sched *s, json_t *file)
{
    json_t *classes = json_object_get(file, "classes");
    for (const struct mot_sched_cell *cell = s->all_cells; cell; cell = cell->next) {
        const char *task = s->kind_name[cell->kind];
        if (cell->seen == 0 || !task) { continue; }
        const struct mot_sched_class *class = &s->class[cell->class];
        char name[128];
        name_class(class, name, sizeof(name));
        json_t *saved = make(classes, name);
        json_object_set_new(saved, "flop_per_us", mot_json_number(class->flop_per_us));
        json_object_set_new(saved, "bytes_per_us", mot_json_number(class->bytes_per_us));
        put_cell(make(saved, "tasks"), task, cell);
    }
}

static int has_news(const struct mot_sched *s)
{
    const struct mot_sched_cell *cell = s->all_cells;
    while (cell && (cell->seen == 0 || !s->kind_name[cell->kind])) { cell = cell->next; }
    return cell != NULL;
}

static int make_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? mot_format("%.*s", (int)(slash - path) + 1, path) : mot_strdup("./");
    const int error = mot_make_directories(folder);
    free(folder);
    return error;
}

void mot_models_save(struct mot_sched *s)
{
    struct mot_models *m = s->models;
    if (!m->file || m->is_newer || !has_news(s) || make_folder(m->path) != 0) { return; }
    char *lock_path = mot_format("%s.lock", m->path);
    const int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (lock < 0 || flock(lock, LOCK_EX) != 0) {
        mot_warn("%s: %s; what was measured is not kept", lock_path, strerror(errno));
    } else {
        json_t *file = read_file(m->path, &m->is_newer);
        put_all(s, file);
        char *text = mot_json_text(file);
        if (!m->is_newer) { (void)mot_file_write(m->path, text, strlen(text)); }
        free(text);
        json_decref(file);
    }
    if (lock >= 0) { close(lock); }
    free(lock_path);
}
