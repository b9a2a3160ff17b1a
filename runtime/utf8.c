/* Well-formed UTF-8.  See utf8.h. */
#include "utf8.h"
#include <stdint.h>

int mot_utf8_length(const char *text, size_t n)
{
    const unsigned char *c = (const unsigned char *)text;
    if (n == 0) { return 0; }
    if (c[0] < 0x80) { return 1; }
    if (c[0] < 0xc2 || c[0] > 0xf4) { return 0; }
    const int length = c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if ((size_t)length > n) { return 0; }
    uint32_t code = c[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((c[i] & 0xc0) != 0x80) { return 0; }
        code = code << 6 | (c[i] & 0x3fu);
    }
    const int overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    const int surrogate = code >= 0xd800 && code < 0xe000;
    return overlong || surrogate || code > 0x10ffff ? 0 : length;
}

int mot_utf8_is_valid(const char *text, size_t n)
{
    while (n > 0) {
        const int length = mot_utf8_length(text, n);
        if (length == 0) { return 0; }
        text += length;
        n -= (size_t)length;
    }
    return 1;
}
