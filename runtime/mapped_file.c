/* A whole file as read-only memory: open(2), fstat(2), mmap(2).  See mapped_file.h. */
#include "mapped_file.h"
#include "error.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map(struct mot_mapped_file *file, int fd, const char *path)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        const int error = errno;
        return mot_fail(error, "%s: cannot be examined: %s", path, strerror(error));
    }
    if (!S_ISREG(status.st_mode)) { return mot_fail(EINVAL, "%s: is not a regular file", path); }
    if (status.st_size == 0) { return 0; }
    if ((uint64_t)status.st_size > SIZE_MAX) { return mot_fail(EFBIG, "%s: is too large", path); }
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        const int error = errno;
        return mot_fail(error, "%s: cannot be mapped: %s", path, strerror(error));
    }
    file->bytes = bytes;
    file->n = (size_t)status.st_size;
    return 0;
}

int mot_mapped_file_open(struct mot_mapped_file *file, const char *path)
{
    memset(file, 0, sizeof(*file));
    /* O_NONBLOCK: a FIFO given by mistake must not hang us. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        const int error = errno;
        return mot_fail(error, "%s: cannot be opened: %s", path, strerror(error));
    }
    const int result = map(file, fd, path);
    close(fd);
    if (result == 0) { file->path = mot_strdup(path); }
    return result;
}

void mot_mapped_file_close(struct mot_mapped_file *file)
{
    if (file->bytes) { munmap((void *)(uintptr_t)file->bytes, file->n); }
    free(file->path);
    memset(file, 0, sizeof(*file));
}
