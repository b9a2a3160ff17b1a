/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef MOT_UTF8_H
#define MOT_UTF8_H
#include <stddef.h>

/* Bytes of the character that text begins with, 1 to 4; 0 when none is well-formed there within n
 * bytes, or n is 0. */
int mot_utf8_length(const char *text, size_t n);
/* 1 when all n bytes are well-formed characters. */
int mot_utf8_is_valid(const char *text, size_t n);
#endif
