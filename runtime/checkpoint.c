/* Checkpoint directories: begin, commit, find, prune.  See checkpoint.h.
 *
 * The order of a commit is what makes it safe: contents, manifest, fsync of each, then the one
 * rename that makes it visible, and only then the removal of what it replaces.  CRC-32 is here to
 * find torn and decayed files, not forged ones. */
#include "checkpoint.h"
#include "checkpoint_manifest.h"
#include "error.h"
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a name in the directory stands for. */
enum kind { OTHER, WHOLE, OLD, UNFINISHED };

struct entry {
    enum kind kind;
    int64_t step;
};

struct entries {
    struct entry *entry; /* newest step first; of one step WHOLE before OLD */
    int n;
};

static const char *const prefixes[] = {
    [WHOLE] = "step-", [OLD] = ".old-step-", [UNFINISHED] = ".tmp-step-"};

static char *path_of(const char *directory, enum kind kind, int64_t step)
{
    return mot_format("%s/%s%" PRId64, directory, prefixes[kind], step);
}

/* Prefix and a step as we write it: digits without leading zeros. */
static struct entry entry_of(const char *name)
{
    for (int kind = WHOLE; kind <= UNFINISHED; kind++) {
        const size_t n = strlen(prefixes[kind]);
        if (strncmp(name, prefixes[kind], n) != 0) { continue; }
        const int64_t step = strtoll(name + n, NULL, 10);
        char again[64];
        snprintf(again, sizeof(again), "%s%" PRId64, prefixes[kind], step);
        if (step >= 0 && strcmp(again, name) == 0) { return (struct entry){kind, step}; }
    }
    return (struct entry){OTHER, 0};
}

static int newer_first(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->step != b->step) { return a->step < b->step ? 1 : -1; }
    return (int)a->kind - (int)b->kind;
}

/* Ours among the names of directory; a directory that is not there holds none. */
static int list_entries(const char *directory, struct entries *entries)
{
    *entries = (struct entries){NULL, 0};
    DIR *open_directory = opendir(directory);
    if (!open_directory) {
        if (errno == ENOENT) { return 0; }
        return mot_fail(errno, "cannot read the directory %s: %s", directory, strerror(errno));
    }
    for (const struct dirent *d; (d = readdir(open_directory));) {
        const struct entry entry = entry_of(d->d_name);
        if (entry.kind == OTHER) { continue; }
        entries->entry =
            mot_realloc(entries->entry, ((size_t)entries->n + 1) * sizeof(entries->entry[0]));
        entries->entry[entries->n++] = entry;
    }
    closedir(open_directory);
    if (entries->n) {
        qsort(entries->entry, (size_t)entries->n, sizeof(entries->entry[0]), newer_first);
    }
    return 0;
}

int mot_checkpoint_check_space(const char *directory, int64_t bytes)
{
    const int64_t free_bytes = mot_free_disk_bytes(directory);
    if (free_bytes < 0) { return (int)free_bytes; }
    if (free_bytes >= bytes) { return 0; }
    return mot_fail(ENOSPC,
                    "%s: checkpoints need %.1f MB and the disk has %.1f MB free; free some space "
                    "or choose another output directory",
                    directory, (double)bytes / 1e6, (double)free_bytes / 1e6);
}

/* Unfinished saves go; a replaced checkpoint goes, or comes back where its successor never came. */
static int remove_leftovers(const char *directory)
{
    struct entries entries;
    int status = list_entries(directory, &entries);
    for (int i = 0; i < entries.n && !status; i++) {
        const struct entry *e = &entries.entry[i];
        if (e->kind == WHOLE) { continue; }
        char *path = path_of(directory, e->kind, e->step);
        char *whole = path_of(directory, WHOLE, e->step);
        if (e->kind == UNFINISHED || access(whole, F_OK) == 0 || rename(path, whole) < 0) {
            status = mot_remove_tree(path);
        }
        free(whole);
        free(path);
    }
    free(entries.entry);
    return status;
}

int mot_checkpoint_begin(const char *directory, int64_t step, char **path)
{
    MOT_ASSERT(step >= 0);
    int status = mot_make_directories(directory);
    if (!status) { status = remove_leftovers(directory); }
    if (status) { return status; }
    char *temporary = path_of(directory, UNFINISHED, step);
    status = mot_make_directories(temporary);
    if (status) {
        free(temporary);
        return status;
    }
    *path = temporary;
    return 0;
}

void mot_checkpoint_abort(char *path)
{
    mot_remove_tree(path);
    free(path);
}

/* Makes the directory `path` visible as `whole`; an old one of that name is at *replaced afterwards
 * (to free; NULL: there was none).  0 or errno. */
static int publish(const char *directory, int64_t step, const char *path, const char *whole,
                   char **replaced)
{
    *replaced = NULL;
    if (access(whole, F_OK) < 0) { return rename(path, whole) < 0 ? errno : 0; }
    if (renameat2(AT_FDCWD, path, AT_FDCWD, whole, RENAME_EXCHANGE) == 0) {
        *replaced = mot_strdup(path);
        return 0;
    }
    char *old = path_of(directory, OLD, step); /* the file system cannot exchange */
    int error = mot_remove_tree(old) ? EIO : rename(whole, old) < 0 ? errno : 0;
    if (!error && rename(path, whole) < 0) {
        error = errno;
        if (rename(old, whole) < 0) { mot_warn("the checkpoint %s stays under that name", old); }
    }
    if (error) {
        free(old);
        return error;
    }
    *replaced = old;
    return 0;
}

/* Removes whole checkpoints but the one of `step` and the newest keep - 1 others that verify. */
static int prune(const char *directory, int64_t step, int keep)
{
    struct entries entries;
    int status = list_entries(directory, &entries);
    int kept = 1;
    for (int i = 0; i < entries.n && !status; i++) {
        const struct entry *e = &entries.entry[i];
        if (e->kind != WHOLE || e->step == step) { continue; }
        char *path = path_of(directory, WHOLE, e->step);
        char why[MOT_MANIFEST_WHY_BYTES];
        /* One newer than ours was passed over when this run resumed, so it may be damaged inside:
         * it must not push out a good one.  Older ones were whole when they were written. */
        const int only_sizes = e->step < step;
        if (kept < keep && mot_manifest_check(path, only_sizes, why) == 0) {
            kept++;
        } else {
            status = mot_remove_tree(path);
        }
        free(path);
    }
    free(entries.entry);
    return status;
}

int mot_checkpoint_commit(const char *directory, int64_t step, char *path, int keep)
{
    int status = mot_manifest_write(path, step);
    if (status) {
        mot_checkpoint_abort(path);
        return status;
    }
    char *whole = path_of(directory, WHOLE, step), *replaced;
    const int error = publish(directory, step, path, whole, &replaced);
    if (error) {
        status = mot_fail(error, "cannot rename %s to %s: %s", path, whole, strerror(error));
        mot_remove_tree(path);
    }
    if (!status) { status = mot_file_sync(directory); }
    if (!status && replaced) { status = mot_remove_tree(replaced); }
    if (!status && keep > 0) { status = prune(directory, step, keep); }
    free(replaced);
    free(whole);
    free(path);
    return status;
}

int mot_checkpoint_verify(const char *path)
{
    char why[MOT_MANIFEST_WHY_BYTES];
    return mot_manifest_check(path, 0, why) == 0 ? 0 : mot_fail(EBADMSG, "%s", why);
}

int mot_checkpoint_newest(const char *directory, char **path, int64_t *step)
{
    struct entries entries;
    int status = list_entries(directory, &entries);
    for (int i = 0; i < entries.n && status == 0; i++) {
        const struct entry *e = &entries.entry[i];
        if (e->kind == UNFINISHED) { continue; }
        char *candidate = path_of(directory, e->kind, e->step);
        char why[MOT_MANIFEST_WHY_BYTES];
        if (mot_manifest_check(candidate, 0, why) == 0) {
            *path = candidate;
            *step = e->step;
            status = 1;
        } else {
            mot_warn("%s; this checkpoint is passed over", why);
            free(candidate);
        }
    }
    free(entries.entry);
    return status;
}
