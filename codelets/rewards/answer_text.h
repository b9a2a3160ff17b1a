/* Finding the answer in a text: numbers as people and models write them, the "#### n" of GSM8K, the
 * \boxed{...} of LaTeX.  Pure functions over (pointer, length): no locale, no state, no allocation;
 * any bytes are allowed, zeros and broken UTF-8 too, and time is linear in the length.
 *
 * A number is digits with an optional sign, separators and fraction:
 *   1234   1,234   12,345,678.90   .5   -3   +3   (minus may be U+2212)   $18.00   -$5   $-5   50%
 * The comma separates thousands only where groups of three follow one to three digits: "1,2,3" is
 * three numbers.  A full stop without a digit after it ends a sentence: "18." is 18.  A dash right
 * after a letter, a digit, a closing bracket, a percent sign or another dash is no sign: "10-5"
 * ends in 5. Currency and percent signs are units: "$50", "50%" and "50" are equal.  There are no
 * exponents and no fractions: "1e3" is 1 and 3, "3/4" is 3 and 4. */
#ifndef MOT_ANSWER_TEXT_H
#define MOT_ANSWER_TEXT_H
#include <stddef.h>

/* A number found in a text; borrows from it. */
struct mot_number {
    const char *digits; /* digits, commas and at most one point; at least one digit */
    size_t n;           /* bytes of digits */
    int negative;
};

/* Each: 1 and *number, or 0 and *number untouched when there is none. */
int mot_number_last(const char *text, size_t n, struct mot_number *number);
/* The number after the last "####" that one follows, with nothing but blanks between. */
int mot_number_marked(const char *text, size_t n, struct mot_number *number);
/* Where the text is one number and nothing else but white space, units and a final full stop. */
int mot_number_whole(const char *text, size_t n, struct mot_number *number);
/* Of a ground truth, zero-terminated, may be NULL: the marked number, else the last one. */
int mot_number_of_answer(const char *answer, struct mot_number *number);

/* Exact, as decimals of any length: 1,000.50 = 1000.5 = 01000.500; -0 = 0. */
int mot_numbers_equal(const struct mot_number *a, const struct mot_number *b);

/* The inside of the last \boxed{...} (or \fbox{...}) whose braces balance: 1 and the part of text
 * it is, or 0.  \{ and \} are signs, not braces. */
int mot_boxed_last(const char *text, size_t n, const char **inside, size_t *inside_n);

/* Moves *text and *n so that no white space is at either end. */
void mot_text_trim(const char **text, size_t *n);
#endif
