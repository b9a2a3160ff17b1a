/* Whole-file reading and writing, directories, free space.  See file.h. */
#include "file.h"
#include "error.h"
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

static int fail(int error, const char *what, const char *path)
{
    return mot_fail(error, "cannot %s %s: %s", what, path, strerror(error));
}

/* The folder that holds path, as text to free. */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) { return mot_strdup("."); }
    const size_t n = slash == path ? 1 : (size_t)(slash - path);
    return mot_format("%.*s", (int)n, path);
}

/* All n bytes to fd; 0 or errno. */
static int write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t written = write(fd, bytes, n);
        if (written < 0 && errno == EINTR) { continue; }
        if (written < 0) { return errno; }
        bytes += written;
        n -= (size_t)written;
    }
    return 0;
}

int mot_file_open_output(const char *path, int append)
{
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (append ? O_APPEND : O_TRUNC);
    const int fd = open(path, flags, 0666);
    if (fd < 0) {
        return mot_fail(errno, "%s: cannot write: %s", path,
                        errno == ENXIO ? "a named pipe that nobody reads" : strerror(errno));
    }
    MOT_ASSERT(fcntl(fd, F_SETFL, append ? O_APPEND : 0) == 0); /* writing may block */
    return fd;
}

/* Whether there is something that is not to be replaced by a file. */
static int is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

static int write_into(const char *path, const void *bytes, size_t n)
{
    const int fd = mot_file_open_output(path, 0);
    if (fd < 0) { return fd; }
    int error = write_all(fd, bytes, n);
    if (close(fd) < 0 && !error) { error = errno; }
    return error ? fail(error, "write", path) : 0;
}

/* A new file with these bytes, on the disk before this returns; 0 or errno. */
static int write_and_sync(const char *path, const void *bytes, size_t n)
{
    if (unlink(path) < 0 && errno != ENOENT) { return errno; } /* of a killed run */
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) { return errno; }
    int error = write_all(fd, bytes, n);
    if (!error && fsync(fd) < 0) { error = errno; }
    if (close(fd) < 0 && !error) { error = errno; }
    return error;
}

int mot_file_write(const char *path, const void *bytes, size_t n)
{
    if (is_special(path)) { return write_into(path, bytes, n); }
    char *temporary = mot_format("%s.tmp", path);
    char *parent = parent_of(path);
    int status = 0;
    int error = write_and_sync(temporary, bytes, n);
    if (!error && rename(temporary, path) < 0) { error = errno; }
    if (error) {
        unlink(temporary);
        status = fail(error, "write", path);
    } else {
        status = mot_file_sync(parent);
    }
    free(parent);
    free(temporary);
    return status;
}

int mot_file_check_output(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) { return fail(EISDIR, "write", path); }
    char *parent = parent_of(path);
    const char *needed = is_special(path) ? path : parent;
    const int mode = is_special(path) ? W_OK : W_OK | X_OK;
    const int status = access(needed, mode) == 0 ? 0 : fail(errno, "write", path);
    free(parent);
    return status;
}

int mot_file_append_line(int fd, const char *line)
{
    char *text = mot_format("%s\n", line);
    const int error = write_all(fd, text, strlen(text));
    free(text);
    if (!error) { return 0; }
    char link[64], name[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, name, sizeof(name) - 1);
    name[length > 0 ? length : 0] = 0;
    return fail(error, "append a line to", length > 0 ? name : "a file");
}

/* Reads fd to its end into *bytes (n of them, a zero added); 0 or errno. */
static int read_all(int fd, size_t expected, size_t max_bytes, char **bytes, size_t *n)
{
    size_t capacity = expected + 1, used = 0;
    char *buffer = mot_alloc(capacity + 1);
    for (;;) {
        const ssize_t got = read(fd, buffer + used, capacity - used);
        if (got < 0 && errno == EINTR) { continue; }
        if (got <= 0 || used + (size_t)got > max_bytes) {
            const int error = got < 0 ? errno : got > 0 ? EFBIG : 0;
            if (error) {
                free(buffer);
                return error;
            }
            buffer[used] = 0;
            *bytes = buffer;
            *n = used;
            return 0;
        }
        used += (size_t)got;
        if (used == capacity) {
            capacity = capacity + capacity / 2 + 4096;
            buffer = mot_realloc(buffer, capacity + 1);
        }
    }
}

static int is_open_descriptor(const char *path)
{
    return strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0
           || strncmp(path, "/proc/self/fd/", 14) == 0;
}

int mot_file_open_input(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) { return fail(errno, "open", path); }
    struct stat info;
    int error = fstat(fd, &info) < 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
    if (!error && !S_ISREG(info.st_mode)) {
        const int pipe = (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
        if (!pipe || !is_open_descriptor(path)) {
            close(fd);
            return mot_fail(EINVAL, "%s: no file, but a %s", path,
                            S_ISFIFO(info.st_mode) ? "named pipe" : "device");
        }
        if (fcntl(fd, F_SETFL, 0) < 0) { error = errno; } /* reading may block */
    }
    if (!error) { return fd; }
    close(fd);
    return fail(error, "read", path);
}

int mot_file_read(const char *path, size_t max_bytes, char **bytes, size_t *n)
{
    const int fd = mot_file_open_input(path);
    if (fd < 0) { return fd; }
    struct stat info;
    int error = fstat(fd, &info) < 0 ? errno : 0;
    const size_t expected = !error && S_ISREG(info.st_mode) ? (size_t)info.st_size : 0;
    if (!error && expected > max_bytes) { error = EFBIG; }
    if (!error) { error = read_all(fd, expected, max_bytes, bytes, n); }
    close(fd);
    if (error == EFBIG) {
        return mot_fail(EFBIG, "%s: too large, at most %zu bytes are read", path, max_bytes);
    }
    return error ? fail(error, "read", path) : 0;
}

int mot_file_sync(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) { return fail(errno, "open", path); }
    const int error = fsync(fd) < 0 ? errno : 0;
    close(fd);
    return error ? fail(error, "write to disk", path) : 0;
}

/* One level; a folder that is there already is fine. */
static int make_directory(const char *path)
{
    if (mkdir(path, 0777) == 0) { return 0; }
    const int error = errno;
    struct stat info;
    if (stat(path, &info) == 0) {
        return S_ISDIR(info.st_mode) ? 0 : fail(ENOTDIR, "make the directory", path);
    }
    return fail(error, "make the directory", path);
}

int mot_make_directories(const char *path)
{
    char *prefix = mot_strdup(path);
    int status = 0;
    for (char *c = prefix; *c && !status; c++) {
        if (*c == '/' && c != prefix && c[-1] != '/') {
            *c = 0;
            status = make_directory(prefix);
            *c = '/';
        }
    }
    if (!status) { status = make_directory(prefix); }
    free(prefix);
    return status;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path) < 0 && errno != ENOENT ? fail(errno, "remove", path) : 0;
}

int mot_remove_tree(const char *path)
{
    struct stat info;
    if (lstat(path, &info) < 0 && errno == ENOENT) { return 0; }
    const int status = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return status == -1 && errno ? fail(errno, "remove", path) : status;
}

uint32_t mot_crc32(uint32_t crc, const void *bytes, size_t n)
{
    return (uint32_t)crc32_z(crc, bytes, n);
}

int64_t mot_free_disk_bytes(const char *path)
{
    struct statvfs info;
    char *place = mot_strdup(path);
    int error = 0;
    while (statvfs(place, &info) < 0) {
        error = errno;
        if (error != ENOENT || strcmp(place, "/") == 0 || strcmp(place, ".") == 0) { break; }
        char *parent = parent_of(place);
        free(place);
        place = parent;
        error = 0;
    }
    free(place);
    if (error) { return fail(error, "ask for the free space at", path); }
    return (int64_t)((uint64_t)info.f_bavail * info.f_frsize);
}
