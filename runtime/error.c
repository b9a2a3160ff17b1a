/* error: one-line messages, assertions and allocations that cannot fail.  See error.h. */
#include "error.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_BYTES_MAX = 2048 };
static _Thread_local char last_message[MESSAGE_BYTES_MAX];
static atomic_int quiet;
static void (*_Atomic message_hook)(int before);

void mot_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "motley: bug: %s does not hold at %s:%d\n", condition, file, line);
    fflush(stderr);
    abort();
}

/* Control characters of the text become "\xNN", so that a message stays one line whatever a file
 * name or a token holds. */
static void write_line(const char *text)
{
    char line[4 * MESSAGE_BYTES_MAX + 16];
    size_t n = (size_t)snprintf(line, sizeof(line), "motley: ");
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            n += (size_t)snprintf(line + n, sizeof(line) - n, "\\x%02x", (unsigned char)*c);
        } else {
            line[n++] = *c;
        }
    }
    line[n++] = '\n';
    void (*hook)(int) = atomic_load(&message_hook);
    if (hook) { hook(1); }
    fwrite(line, 1, n, stderr); /* one call: lines of several threads do not mix */
    if (hook) { hook(0); }
}

int mot_fail(int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_message, sizeof(last_message), format, args);
    va_end(args);
    write_line(last_message);
    return -error;
}

void mot_warn(const char *format, ...)
{
    char text[MESSAGE_BYTES_MAX - 16];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(last_message, sizeof(last_message), "warning: %s", text);
    write_line(last_message);
}

void mot_info(const char *format, ...)
{
    if (atomic_load(&quiet)) { return; }
    char text[MESSAGE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    write_line(text);
}

void mot_set_quiet(int on)
{
    atomic_store(&quiet, on);
}

int mot_is_quiet(void)
{
    return atomic_load(&quiet);
}

void mot_set_message_hook(void (*hook)(int before))
{
    atomic_store(&message_hook, hook);
}

const char *mot_last_message(void)
{
    return last_message;
}

static void *checked(void *memory, size_t bytes)
{
    if (memory == NULL && bytes > 0) {
        fprintf(stderr, "motley: out of memory: %zu bytes could not be had\n", bytes);
        fflush(NULL);
        _exit(1); /* not exit: other threads may be at work, this may be one of StarPU's */
    }
    return memory;
}

void *mot_alloc(size_t bytes)
{
    return checked(malloc(bytes ? bytes : 1), bytes);
}

void *mot_alloc_zeroed(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size ? size : 1), count);
}

void *mot_realloc(void *old, size_t bytes)
{
    return checked(realloc(old, bytes ? bytes : 1), bytes);
}

void *mot_alloc_aligned(size_t bytes)
{
    const size_t rounded = (bytes + 63) / 64 * 64;
    return checked(aligned_alloc(64, rounded ? rounded : 64), bytes);
}

char *mot_strdup(const char *text)
{
    return checked(strdup(text), strlen(text) + 1);
}

char *mot_format(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int n = vasprintf(&text, format, args);
    va_end(args);
    return checked(n < 0 ? NULL : text, 1);
}
