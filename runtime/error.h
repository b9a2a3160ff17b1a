/* Errors, in three kinds.
 *
 * Programmer error: MOT_ASSERT stops the program with file and line; it is never compiled out.
 * Operating error (a bad file, option, machine): the function that first knows returns a negative
 *   errno through mot_fail(), which writes one line "motley: what, where, what to do" to standard
 *   error.  Callers pass the number up and print nothing.  Outputs are untouched on failure.
 * Device error: stops at the launch, with file and line. */
#ifndef MOT_ERROR_H
#define MOT_ERROR_H
#include <errno.h>
#include <stddef.h>

#define MOT_ASSERT(condition)                                                    \
    do {                                                                         \
        if (!(condition)) { mot_assert_failed(#condition, __FILE__, __LINE__); } \
    } while (0)
void mot_assert_failed(const char *condition, const char *file, int line)
    __attribute__((noreturn, cold));

/* Writes one line and returns -error, so that "return mot_fail(EINVAL, ...)" reads as it acts.
 * Control characters in the message are written escaped.  Thread-safe. */
int mot_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
void mot_warn(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/* Progress and facts, to standard error; silenced by mot_set_quiet(1). */
void mot_info(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
void mot_set_quiet(int quiet);
int mot_is_quiet(void);
/* Called with 1 just before and with 0 just after each line is written, so that a progress line can
 * step aside (progress.c).  NULL: none. */
void mot_set_message_hook(void (*hook)(int before));

/* The text of the calling thread's last mot_fail() or mot_warn(), without "motley: ".  For
 * tests. */
const char *mot_last_message(void);

/* malloc and friends that never return NULL: out of memory is a one-line exit(1). */
void *mot_alloc(size_t bytes) __attribute__((malloc, alloc_size(1)));
void *mot_alloc_zeroed(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));
/* Aligned to 64 bytes, freed with free(). */
void *mot_alloc_aligned(size_t bytes) __attribute__((malloc, alloc_size(1)));
void *mot_realloc(void *old, size_t bytes) __attribute__((alloc_size(2)));
char *mot_strdup(const char *text) __attribute__((malloc));
char *mot_format(const char *format, ...) __attribute__((format(printf, 1, 2), malloc));
#endif
