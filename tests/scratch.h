/* For tests that read and write files: a directory of the test's own, whole files in and out,
 * growing byte strings, and a catcher of the lines written to standard error. */
#ifndef MOT_SCRATCH_H
#define MOT_SCRATCH_H
#include "error.h"
#include "file.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Files --------------------------------------------------------------------------------- */

static char scratch_directory[512];

static void scratch_remove(void)
{
    mot_remove_tree(scratch_directory);
}

/* Makes the directory, which goes when the program ends. */
static inline void scratch_begin(const char *test)
{
    snprintf(scratch_directory, sizeof(scratch_directory), "%s/%s.XXXXXX", MOT_BINARY_DIR, test);
    MOT_ASSERT(mkdtemp(scratch_directory));
    atexit(scratch_remove);
}

/* A path in the directory; free() it. */
static inline char *scratch_path(const char *name)
{
    return mot_format("%s/%s", scratch_directory, name);
}

/* Not durable, so that thousands a second are possible; never cut to nothing first, which ext4
 * answers with a flush. */
static inline void scratch_write(const char *path, const void *bytes, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    MOT_ASSERT(fd >= 0 && pwrite(fd, bytes, n, 0) == (ssize_t)n && ftruncate(fd, (off_t)n) == 0);
    close(fd);
}

static inline char *scratch_read(const char *path, size_t *n)
{
    char *bytes;
    MOT_ASSERT(mot_file_read(path, (size_t)1 << 30, &bytes, n) == 0);
    return bytes;
}

/* ---- Growing byte strings ------------------------------------------------------------------ */

struct bytes {
    unsigned char *at;
    size_t n, capacity;
};

static inline void bytes_put(struct bytes *to, const void *from, size_t n)
{
    if (to->n + n > to->capacity) {
        to->capacity = 2 * (to->n + n) + 64;
        to->at = mot_realloc(to->at, to->capacity);
    }
    memcpy(to->at + to->n, from, n);
    to->n += n;
}

static inline void bytes_put_u32(struct bytes *to, uint32_t value)
{
    bytes_put(to, &value, sizeof(value));
}

static inline void bytes_put_u64(struct bytes *to, uint64_t value)
{
    bytes_put(to, &value, sizeof(value));
}

/* A string as GGUF has it. */
static inline void bytes_put_text(struct bytes *to, const char *text)
{
    bytes_put_u64(to, strlen(text));
    bytes_put(to, text, strlen(text));
}

/* Zeros up to a multiple of alignment. */
static inline void bytes_align(struct bytes *to, size_t alignment)
{
    while (to->n % alignment != 0) { bytes_put(to, "", 1); }
}

static inline void bytes_free(struct bytes *bytes)
{
    free(bytes->at);
    memset(bytes, 0, sizeof(*bytes));
}

/* ---- Standard error ------------------------------------------------------------------------ */

static int caught_fd = -1, real_stderr = -1;
static char caught_text[16384]; /* what catch_end found */

/* Sanitizers must go on reporting to the real standard error. */
void __sanitizer_set_report_fd(void *fd) __attribute__((weak));

static inline void catch_begin(void)
{
    if (caught_fd < 0) {
        caught_fd = memfd_create("caught", MFD_CLOEXEC);
        real_stderr = dup(STDERR_FILENO);
        MOT_ASSERT(caught_fd >= 0 && real_stderr >= 0);
        if (__sanitizer_set_report_fd) { __sanitizer_set_report_fd((void *)(intptr_t)real_stderr); }
    }
    MOT_ASSERT(ftruncate(caught_fd, 0) == 0 && lseek(caught_fd, 0, SEEK_SET) == 0);
    dup2(caught_fd, STDERR_FILENO);
}

/* How many lines were written since catch_begin. */
static inline int catch_end(void)
{
    dup2(real_stderr, STDERR_FILENO);
    const ssize_t n = pread(caught_fd, caught_text, sizeof(caught_text) - 1, 0);
    caught_text[n > 0 ? n : 0] = 0;
    int lines = 0;
    for (const char *c = caught_text; *c; c++) { lines += *c == '\n'; }
    return lines;
}

/* A call has failed as it must: negative, and one line that has both words in it. */
static inline int failed_well(int status, int lines, const char *file, const char *word)
{
    const int good = status < 0 && lines == 1 && strncmp(caught_text, "motley: ", 8) == 0
                     && strstr(caught_text, file) && strstr(caught_text, word);
    if (!good) {
        printf("status %d, %d lines, expected \"%s\" and \"%s\" in: %s\n", status, lines, file,
               word, caught_text);
    }
    return good;
}
#endif
