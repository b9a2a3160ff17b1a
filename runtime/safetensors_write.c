/* Safetensors, writing.  See safetensors.h. */
#include "error.h"
#include "safetensors.h"
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_ALIGNMENT = 8 };

struct mot_safetensors_writer {
    char *path, *temporary;
    int fd;
    size_t left; /* bytes of data still to come */
};

static int fail_errno(const struct mot_safetensors_writer *writer, const char *what)
{
    const int error = errno;
    return mot_fail(error, "%s: cannot be %s: %s", writer->path, what, strerror(error));
}

static int write_all(const struct mot_safetensors_writer *writer, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const size_t portion = bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30;
        const ssize_t n = write(writer->fd, at, portion);
        if (n < 0 && errno == EINTR) { continue; }
        if (n < 0) { return fail_errno(writer, "written"); }
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* The JSON header, padded with spaces so that the data begins at a multiple of 8. */
static char *make_header(const struct mot_safetensors_entry *entries, size_t n, size_t *data_bytes)
{
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    size_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        const struct mot_safetensors_entry *entry = &entries[i];
        size_t end = mot_dtype_bytes(entry->dtype);
        json_t *shape = json_array();
        for (int d = 0; d < entry->n_dimensions; d++) {
            end *= entry->size[d];
            json_array_append_new(shape, json_integer((json_int_t)entry->size[d]));
        }
        end += begin;
        json_object_set_new(root, entry->name,
                            json_pack("{s:s,s:o,s:[I,I]}", "dtype",
                                      entry->dtype == MOT_F32   ? "F32"
                                      : entry->dtype == MOT_F16 ? "F16"
                                                                : "BF16",
                                      "shape", shape, "data_offsets", (json_int_t)begin,
                                      (json_int_t)end));
        begin = end;
    }
    *data_bytes = begin;
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    MOT_ASSERT(text);
    const size_t length = strlen(text);
    const size_t padding = (HEADER_ALIGNMENT - length % HEADER_ALIGNMENT) % HEADER_ALIGNMENT;
    char *header = mot_format("%s%*s", text, (int)padding, "");
    free(text);
    return header;
}

int mot_safetensors_create(const char *path, const struct mot_safetensors_entry *entries, size_t n,
                           struct mot_safetensors_writer **writer)
{
    struct mot_safetensors_writer *w = mot_alloc_zeroed(1, sizeof(*w));
    w->path = mot_strdup(path);
    w->temporary = mot_format("%s.tmp", path);
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int result = w->fd < 0 ? fail_errno(w, "created") : 0;
    if (result == 0) {
        char *header = make_header(entries, n, &w->left);
        const uint64_t length = strlen(header);
        result = write_all(w, &length, sizeof(length));
        if (result == 0) { result = write_all(w, header, (size_t)length); }
        free(header);
    }
    if (result != 0) {
        mot_safetensors_abort(w);
        return result;
    }
    *writer = w;
    return 0;
}

int mot_safetensors_append(struct mot_safetensors_writer *writer, const void *data, size_t bytes)
{
    MOT_ASSERT(bytes <= writer->left);
    writer->left -= bytes;
    return write_all(writer, data, bytes);
}

static void destroy(struct mot_safetensors_writer *writer)
{
    if (writer->fd >= 0) { close(writer->fd); }
    free(writer->path);
    free(writer->temporary);
    free(writer);
}

void mot_safetensors_abort(struct mot_safetensors_writer *writer)
{
    if (writer->fd >= 0) { unlink(writer->temporary); }
    destroy(writer);
}

int mot_safetensors_finish(struct mot_safetensors_writer *writer)
{
    MOT_ASSERT(writer->left == 0);
    int result = 0;
    if (fsync(writer->fd) != 0) {
        result = fail_errno(writer, "synced");
    } else if (rename(writer->temporary, writer->path) != 0) {
        result = fail_errno(writer, "renamed into place");
    }
    if (result != 0) {
        mot_safetensors_abort(writer);
        return result;
    }
    destroy(writer);
    return 0;
}
