/* Bytes and characters: which bytes are UTF-8 (RFC 3629: no surrogates, no overlong forms), white
 * space at the ends, GPT-2's byte alphabet (openai/gpt-2, encoder.py, bytes_to_unicode), and NFC
 * through utf8proc. */
#include "error.h"
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The length of the character at text, 0 when it is none; *c its number. */
static size_t read_character(const char *text, size_t n, uint32_t *c)
{
    const unsigned char *t = (const unsigned char *)text;
    if (n == 0) { return 0; }
    if (t[0] < 0x80) {
        *c = t[0];
        return 1;
    }
    const size_t length = t[0] >= 0xf0 ? 4 : t[0] >= 0xe0 ? 3 : 2;
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (t[0] < 0xc2 || t[0] > 0xf4 || n < length) { return 0; }
    uint32_t value = t[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((t[i] & 0xc0) != 0x80) { return 0; }
        value = value << 6 | (t[i] & 0x3f);
    }
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
        return 0;
    }
    *c = value;
    return length;
}

static size_t write_character(uint32_t c, char *text)
{
    if (c < 0x80) {
        text[0] = (char)c;
        return 1;
    }
    MOT_ASSERT(c < 0x800); /* all the alphabet needs */
    text[0] = (char)(0xc0 | c >> 6);
    text[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

size_t mot_utf8_valid(const char *text, size_t n)
{
    size_t at = 0;
    uint32_t c;
    for (size_t length; at < n && (length = read_character(text + at, n - at, &c)) > 0;) {
        at += length;
    }
    return at;
}

static int is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680
           || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f
           || c == 0x205f || c == 0x3000;
}

size_t mot_utf8_space_after(const char *text, size_t n)
{
    size_t at = 0;
    uint32_t c;
    for (size_t length; (length = read_character(text + at, n - at, &c)) > 0 && is_space(c);) {
        at += length;
    }
    return at;
}

size_t mot_utf8_space_before(const char *text, size_t n)
{
    size_t at = n;
    for (;;) {
        size_t start = at;
        uint32_t c = 0;
        do { /* back to the first byte of a character */
            if (start == 0) { return n - at; }
            start--;
        } while (((unsigned char)text[start] & 0xc0) == 0x80 && at - start < 4);
        if (read_character(text + start, at - start, &c) != at - start || !is_space(c)) {
            return n - at;
        }
        at = start;
    }
}

/* Printable Latin-1 stands for itself; the other 68 bytes, in order, are U+0100 and up. */
static int is_printable(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static uint32_t alphabet_character(unsigned byte)
{
    uint32_t before = 0;
    if (is_printable(byte)) { return byte; }
    for (unsigned b = 0; b < byte; b++) { before += !is_printable(b); }
    return 256 + before;
}

/* The byte of a character of the alphabet, or -1. */
static int alphabet_byte(uint32_t c)
{
    if (c < 256) { return is_printable(c) ? (int)c : -1; }
    if (c >= 256 + 68) { return -1; }
    const uint32_t k = c - 256; /* bytes 0-32, 127-160, 173 */
    return k <= 32 ? (int)k : k <= 66 ? (int)(k - 33 + 127) : 173;
}

long mot_alphabet_decode(const char *text, size_t n, char *bytes)
{
    long count = 0;
    for (size_t at = 0; at < n;) {
        uint32_t c = 0;
        const size_t length = read_character(text + at, n - at, &c);
        const int byte = length ? alphabet_byte(c) : -1;
        if (byte < 0) { return -1; }
        bytes[count++] = (char)byte;
        at += length;
    }
    return count;
}

size_t mot_alphabet_encode(const char *bytes, size_t n, char *text)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        count += write_character(alphabet_character((unsigned char)bytes[i]), text + count);
    }
    text[count] = 0;
    return count;
}

/* Below U+0300 (first bytes below 0xcc) every text is NFC. */
static int is_surely_nfc(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] >= 0xcc) { return 0; }
    }
    return 1;
}

/* utf8proc sorts a run of combining marks in quadratic time, so no text may hold a very long one:
 * the length of the valid UTF-8 at text, cut after that many marks in a row.  No language writes
 * a hundredth of it. */
static size_t nfc_block(const char *text, size_t n)
{
    enum { MARKS_MAX = 1024 };
    size_t at = 0, length;
    uint32_t c;
    int marks = 0;
    while (at < n && marks < MARKS_MAX && (length = read_character(text + at, n - at, &c)) > 0) {
        const int is_mark =
            c >= 0x300 && utf8proc_get_property((utf8proc_int32_t)c)->combining_class != 0;
        marks = is_mark ? marks + 1 : 0;
        at += length;
    }
    return at;
}

char *mot_utf8_nfc(const char *text, size_t n, size_t *n_out)
{
    if (is_surely_nfc(text, n)) { return NULL; }
    size_t count = 0, capacity = n + n / 2 + 64;
    char *out = mot_alloc(capacity);
    for (size_t at = 0; at < n;) {
        const size_t valid = nfc_block(text + at, n - at);
        utf8proc_uint8_t *normal = NULL;
        utf8proc_ssize_t length = 0;
        if (valid > 0) {
            length = utf8proc_map((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)valid,
                                  &normal, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
            MOT_ASSERT(length >= 0);
        }
        const size_t bad = valid == 0; /* one byte that is no UTF-8 */
        if (count + (size_t)length + bad > capacity) {
            capacity = 2 * (count + (size_t)length + bad);
            out = mot_realloc(out, capacity);
        }
        if (length > 0) { memcpy(out + count, normal, (size_t)length); }
        free(normal);
        count += (size_t)length;
        if (bad) { out[count++] = text[at]; }
        at += valid + bad;
    }
    *n_out = count;
    return out;
}
