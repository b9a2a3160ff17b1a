/* Lines of a text file.  See line_reader.h. */
#include "line_reader.h"
#include "error.h"
#include "file.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int mot_line_reader_open(struct mot_line_reader *reader, const char *path, size_t max_bytes)
{
    const int is_input = strcmp(path, "-") == 0;
    FILE *file = stdin;
    if (!is_input) {
        const int fd = mot_file_open_input(path);
        if (fd < 0) { return fd; }
        file = fdopen(fd, "rb");
        MOT_ASSERT(file);
    }
    *reader = (struct mot_line_reader){.file = file,
                                       .path = mot_strdup(is_input ? "standard input" : path),
                                       .max_bytes = max_bytes};
    return 0;
}

int mot_line_reader_next(struct mot_line_reader *reader)
{
    reader->n = 0;
    MOT_ASSERT(reader->number < INT_MAX);
    reader->number++;
    for (int c; (c = getc_unlocked(reader->file)) != '\n'; reader->line[reader->n++] = (char)c) {
        if (c == EOF && ferror(reader->file)) {
            const int error = errno;
            return mot_fail(error, "%s:%d: %s", reader->path, reader->number, strerror(error));
        }
        if (c == EOF && reader->n == 0) { return 0; }
        if (c == EOF) { break; }
        if (reader->n == reader->max_bytes) {
            return mot_fail(EFBIG, "%s:%d: a line of more than %zu bytes", reader->path,
                            reader->number, reader->max_bytes);
        }
        if (reader->n + 1 >= reader->capacity) {
            reader->capacity = 2 * reader->capacity + 4096;
            reader->line = mot_realloc(reader->line, reader->capacity);
        }
    }
    if (!reader->line) { reader->line = mot_alloc(reader->capacity = 16); }
    reader->line[reader->n] = 0;
    return 1;
}

void mot_line_reader_close(struct mot_line_reader *reader)
{
    if (reader->file && reader->file != stdin) { fclose(reader->file); }
    free(reader->path);
    free(reader->line);
    *reader = (struct mot_line_reader){.file = NULL};
}
