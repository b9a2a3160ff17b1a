/* The actor on disk: the model as mot_model_save writes it, and optimizer.safetensors: "updates"
 * and for each tensor NAME of the model "m.NAME" and "v.NAME", float32.  See actor.h. */
#include "actor.h"
#include "safetensors.h"
#include <stdlib.h>
#include <string.h>

static const char file_name[] = "optimizer.safetensors";
/* Up to here float32 counts exactly. */
enum { UPDATES_MAX = 1 << 24 };

static size_t numbers_of(const struct mot_tensor *tensor)
{
    return (size_t)tensor->rows * (size_t)tensor->cols;
}

static struct mot_safetensors_entry entry(char *name, const struct mot_tensor *tensor)
{
    const int matrix = tensor->dimensions > 1;
    return (struct mot_safetensors_entry){
        .name = name,
        .dtype = MOT_F32,
        .n_dimensions = matrix ? 2 : 1,
        .size = {(size_t)(matrix ? tensor->rows : tensor->cols), (size_t)tensor->cols},
    };
}

/* The file's directory: updates, all m, all v. */
static struct mot_safetensors_entry *make_entries(const struct mot_layout *layout, size_t *n)
{
    const size_t tensors = (size_t)layout->n_tensors;
    struct mot_safetensors_entry *entries = mot_alloc_zeroed(2 * tensors + 1, sizeof(*entries));
    entries[0] = (struct mot_safetensors_entry){
        .name = mot_strdup("updates"), .dtype = MOT_F32, .n_dimensions = 1, .size = {1}};
    for (size_t i = 0; i < tensors; i++) {
        const struct mot_tensor *t = &layout->tensors[i];
        entries[1 + i] = entry(mot_format("m.%s", t->name), t);
        entries[1 + tensors + i] = entry(mot_format("v.%s", t->name), t);
    }
    *n = 2 * tensors + 1;
    return entries;
}

static int append_all(struct mot_safetensors_writer *writer, const struct mot_layout *layout,
                      float **groups)
{
    int status = 0;
    for (int i = 0; i < layout->n_tensors && status == 0; i++) {
        const struct mot_tensor *t = &layout->tensors[i];
        status = mot_safetensors_append(writer, groups[t->group] + t->offset,
                                        numbers_of(t) * sizeof(float));
    }
    return status;
}

static int save_optimizer(const struct mot_actor *actor, const char *path,
                          const struct mot_actor_host *host)
{
    const struct mot_layout *layout = &actor->transformer.layout;
    size_t n;
    struct mot_safetensors_entry *entries = make_entries(layout, &n);
    struct mot_safetensors_writer *writer;
    const float updates = (float)actor->updates;
    MOT_ASSERT(actor->updates <= UPDATES_MAX);
    int status = mot_safetensors_create(path, entries, n, &writer);
    if (status == 0) {
        status = mot_safetensors_append(writer, &updates, sizeof(updates));
        if (status == 0) { status = append_all(writer, layout, host->m); }
        if (status == 0) { status = append_all(writer, layout, host->v); }
        if (status == 0) {
            status = mot_safetensors_finish(writer);
        } else {
            mot_safetensors_abort(writer);
        }
    }
    for (size_t i = 0; i < n; i++) { free((char *)entries[i].name); }
    free(entries);
    return status;
}

int mot_actor_save(struct mot_actor *actor, const char *directory, int with_optimizer)
{
    struct mot_actor_host host;
    mot_actor_acquire(actor, &host);
    int status = mot_model_save(directory, &actor->info, &actor->transformer.layout, host.weights);
    if (status == 0 && with_optimizer) {
        MOT_ASSERT(host.m != NULL);
        char *path = mot_format("%s/%s", directory, file_name);
        status = save_optimizer(actor, path, &host);
        free(path);
    }
    mot_actor_release(actor, &host);
    return status;
}

/* "m.NAME" or "v.NAME" of the right size, into its place. */
static int load_tensor(const struct mot_safetensors *file, const char *path, char kind,
                       const struct mot_tensor *t, float **groups)
{
    char *name = mot_format("%c.%s", kind, t->name);
    const struct mot_safetensor *found = mot_safetensors_find(file, name);
    int status;
    if (found == NULL) {
        status = mot_fail(EINVAL, "%s: no tensor %s", path, name);
    } else if (found->dtype != MOT_F32 || found->numbers != numbers_of(t)) {
        status =
            mot_fail(EINVAL, "%s: tensor %s is not %zu float32 numbers", path, name, numbers_of(t));
    } else {
        status = mot_safetensors_read(found, groups[t->group] + t->offset);
    }
    free(name);
    return status;
}

static int load_all(struct mot_actor *actor, const struct mot_safetensors *file, const char *path,
                    struct mot_actor_host *host)
{
    const struct mot_layout *layout = &actor->transformer.layout;
    const struct mot_safetensor *found = mot_safetensors_find(file, "updates");
    float updates = -1.0f;
    if (found && found->numbers == 1 && mot_safetensors_read(found, &updates) < 0) {
        return -EINVAL;
    }
    if (!(updates >= 0.0f && updates <= UPDATES_MAX)) {
        return mot_fail(EINVAL, "%s: tensor updates is not a number of steps", path);
    }
    int status = 0;
    for (int i = 0; i < layout->n_tensors && status == 0; i++) {
        status = load_tensor(file, path, 'm', &layout->tensors[i], host->m);
        if (status == 0) { status = load_tensor(file, path, 'v', &layout->tensors[i], host->v); }
    }
    if (status == 0) {
        actor->updates = actor->current->number = (int)updates;
        actor->versions_made = actor->updates + 1;
    }
    return status;
}

int mot_actor_load_optimizer(struct mot_actor *actor, const char *directory)
{
    MOT_ASSERT(actor->options.lanes > 0);
    char *path = mot_format("%s/%s", directory, file_name);
    struct mot_safetensors *file;
    int status = mot_safetensors_open(path, &file);
    if (status == 0) {
        struct mot_actor_host host;
        mot_actor_acquire(actor, &host);
        status = load_all(actor, file, path, &host);
        mot_actor_release(actor, &host);
        mot_safetensors_close(file);
    }
    free(path);
    return status;
}
