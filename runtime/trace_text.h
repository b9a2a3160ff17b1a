/* Growing text for the recorder's writer: JSON is put together here, since printf would be most of
 * the writer's time.  Private to trace_write*.c. */
#ifndef MOT_TRACE_TEXT_H
#define MOT_TRACE_TEXT_H
#include "error.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct text {
    char *at;
    size_t n, capacity;
};

static inline char *text_room(struct text *t, size_t n)
{
    if (t->n + n > t->capacity) {
        t->capacity = 2 * (t->n + n) + 4096;
        t->at = mot_realloc(t->at, t->capacity);
    }
    return t->at + t->n;
}

static inline void put(struct text *t, const char *words)
{
    const size_t n = strlen(words);
    memcpy(text_room(t, n), words, n);
    t->n += n;
}

static inline void put_int(struct text *t, int64_t value)
{
    char digits[24], *d = digits + sizeof(digits);
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--d = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) { *--d = '-'; }
    const size_t n = (size_t)(digits + sizeof(digits) - d);
    memcpy(text_room(t, n), d, n);
    t->n += n;
}

/* Microseconds, to the nanosecond. */
static inline void put_us(struct text *t, double us)
{
    const int64_t ns = llround(us * 1000.0), rest = ns < 0 ? -ns : ns;
    if (ns < 0) { put(t, "-"); }
    put_int(t, rest / 1000);
    char *to = text_room(t, 4);
    to[0] = '.';
    to[1] = (char)('0' + rest / 100 % 10);
    to[2] = (char)('0' + rest / 10 % 10);
    to[3] = (char)('0' + rest % 10);
    t->n += 4;
}

static inline void put_number(struct text *t, double value)
{
    if (!isfinite(value)) {
        put(t, "null");
    } else if (fabs(value) < 1e15 && value == nearbyint(value)) {
        put_int(t, (int64_t)value);
    } else {
        t->n += (size_t)snprintf(text_room(t, 32), 32, "%.9g", value);
    }
}

/* A JSON string of what may be any bytes: what is not printable ASCII becomes '?'. */
static inline void put_string(struct text *t, const char *words, size_t n)
{
    char *to = text_room(t, 2 * n + 2), *start = to;
    *to++ = '"';
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)words[i];
        if (c == '"' || c == '\\') { *to++ = '\\'; }
        *to++ = c < 0x20 || c > 0x7e ? '?' : (char)c;
    }
    *to++ = '"';
    t->n += (size_t)(to - start);
}

static inline void put_text(struct text *t, const char *words)
{
    put_string(t, words, strlen(words));
}
#endif
