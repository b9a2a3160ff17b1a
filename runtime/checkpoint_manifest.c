/* The manifest of a checkpoint directory.  See checkpoint_manifest.h. */
#include "checkpoint_manifest.h"
#include "error.h"
#include "file.h"
#include "json.h"
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, MANIFEST_BYTES_MAX = 16 << 20 };

/* CRC and length of an open file's bytes; 0 or errno. */
static int crc_of(int fd, uint32_t *crc, int64_t *bytes)
{
    char *piece = mot_alloc(PIECE_BYTES);
    int error = 0;
    *crc = 0;
    *bytes = 0;
    for (;;) {
        const ssize_t got = read(fd, piece, PIECE_BYTES);
        if (got < 0 && errno == EINTR) { continue; }
        if (got < 0) { error = errno; }
        if (got <= 0) { break; }
        *crc = mot_crc32(*crc, piece, (size_t)got);
        *bytes += got;
    }
    free(piece);
    return error;
}

/* fsync of one file, and its row of the manifest. */
static int add_file(json_t *files, const char *path, const char *name)
{
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) { return mot_fail(errno, "cannot open %s: %s", path, strerror(errno)); }
    uint32_t crc;
    int64_t bytes;
    int error = fsync(fd) < 0 ? errno : 0;
    if (!error) { error = crc_of(fd, &crc, &bytes); }
    close(fd);
    if (error) { return mot_fail(error, "cannot write %s to disk: %s", path, strerror(error)); }
    json_t *row = json_pack("{s:s, s:I, s:I}", "name", name, "bytes", (json_int_t)bytes, "crc32",
                            (json_int_t)crc);
    if (!row) { return mot_fail(EINVAL, "%s: the file's name is not UTF-8", path); }
    MOT_ASSERT(json_array_append_new(files, row) == 0);
    return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* One step of the walk: files get their row, a directory is fsynced after all it holds. */
static int add_entry(json_t *files, const FTSENT *entry, size_t n_root)
{
    const char *name = entry->fts_path + n_root;
    switch (entry->fts_info) {
    case FTS_D:
        return 0;
    case FTS_DP:
        return mot_file_sync(entry->fts_path);
    case FTS_F:
        if (strcmp(name, "manifest.json") == 0) { return 0; } /* of an earlier try */
        return add_file(files, entry->fts_path, name);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return mot_fail(entry->fts_errno, "cannot read %s: %s", entry->fts_path,
                        strerror(entry->fts_errno));
    default:
        break;
    }
    return mot_fail(EINVAL, "%s: only files and directories can be in a checkpoint",
                    entry->fts_path);
}

static int add_all(json_t *files, const char *path)
{
    char *roots[] = {(char *)path, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (!walk) { return mot_fail(errno, "cannot read %s: %s", path, strerror(errno)); }
    int status = 0;
    for (const FTSENT *entry; !status && (entry = fts_read(walk));) {
        status = add_entry(files, entry, strlen(path) + 1);
    }
    fts_close(walk);
    return status;
}

int mot_manifest_write(const char *path, int64_t step)
{
    json_t *files = json_array();
    int status = add_all(files, path);
    if (!status) {
        json_t *manifest = json_pack("{s:I, s:O}", "step", (json_int_t)step, "files", files);
        char *text = json_dumps(manifest, JSON_INDENT(1));
        MOT_ASSERT(text);
        char *file = mot_format("%s/manifest.json", path);
        status = mot_file_write(file, text, strlen(text));
        free(file);
        free(text);
        json_decref(manifest);
    }
    json_decref(files);
    return status;
}

/* A manifest may not lead out of its directory. */
static int is_inside(const char *name)
{
    if (*name == 0 || *name == '/') { return 0; }
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        const size_t n = strcspn(part, "/");
        if (n == 2 && part[0] == '.' && part[1] == '.') { return 0; }
    }
    return 1;
}

/* One file against its row; 0, or -1 and why. */
static int check_file(const char *path, const json_t *row, int only_sizes, char *why)
{
    const json_t *name = json_object_get(row, "name");
    const json_t *bytes = json_object_get(row, "bytes");
    const json_t *crc = json_object_get(row, "crc32");
    if (!json_is_string(name) || !is_inside(json_string_value(name)) || !json_is_integer(bytes)
        || !json_is_integer(crc)) {
        snprintf(why, MOT_MANIFEST_WHY_BYTES, "%s/manifest.json: a row is not as written", path);
        return -1;
    }
    char *file = mot_format("%s/%s", path, json_string_value(name));
    const int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    uint32_t found_crc = 0;
    int64_t found_bytes = 0;
    int error = fd < 0 || fstat(fd, &info) < 0 ? errno : 0;
    const char *wrong = NULL;
    if (error) {
        wrong = strerror(error);
    } else if (!S_ISREG(info.st_mode) || info.st_size != json_integer_value(bytes)) {
        wrong = "the size is not that of the manifest";
    } else if (!only_sizes) {
        error = crc_of(fd, &found_crc, &found_bytes);
        const int equal = found_crc == json_integer_value(crc) && found_bytes == info.st_size;
        wrong = error ? strerror(error) : equal ? NULL : "the bytes are damaged (CRC-32 differs)";
    }
    if (fd >= 0) { close(fd); }
    if (wrong) { snprintf(why, MOT_MANIFEST_WHY_BYTES, "%s: %s", file, wrong); }
    free(file);
    return wrong ? -1 : 0;
}

/* The manifest's bytes, or NULL and why. */
static char *read_manifest(const char *file, size_t *n, char *why)
{
    const int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* not to wait at a named pipe */
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");
    char *bytes = stream ? mot_alloc(MANIFEST_BYTES_MAX) : NULL;
    if (stream) { *n = fread(bytes, 1, MANIFEST_BYTES_MAX, stream); }
    const int failed = !stream || ferror(stream) || *n == MANIFEST_BYTES_MAX;
    if (failed) {
        snprintf(why, MOT_MANIFEST_WHY_BYTES, "%s: %s", file,
                 !stream || ferror(stream) ? strerror(errno) : "too large");
        free(bytes);
    }
    if (stream) { fclose(stream); }
    return failed ? NULL : bytes;
}

int mot_manifest_check(const char *path, int only_sizes, char why[MOT_MANIFEST_WHY_BYTES])
{
    char *file = mot_format("%s/manifest.json", path);
    size_t n = 0;
    char reason[256];
    char *bytes = read_manifest(file, &n, why);
    json_t *manifest = bytes ? mot_json_decode(bytes, n, reason, sizeof(reason)) : NULL;
    const json_t *files = json_object_get(manifest, "files");
    int status = json_is_array(files) && json_array_size(files) > 0 ? 0 : -1;
    if (bytes && status) {
        snprintf(why, MOT_MANIFEST_WHY_BYTES, "%s: %s", file, manifest ? "lists no files" : reason);
    }
    for (size_t i = 0; !status && i < json_array_size(files); i++) {
        status = check_file(path, json_array_get(files, i), only_sizes, why);
    }
    json_decref(manifest);
    free(bytes);
    free(file);
    return status;
}
