/* Numbers, marks and boxes in text; see answer_text.h for what counts as a number and why.
 * The rules are those of GSM8K's own grader (Cobbe et al. 2021, arXiv:2110.14168: "####", commas
 * dropped) and of MATH's last_boxed_only_string (Hendrycks et al. 2021, arXiv:2103.03874), made
 * stricter where these join list items ("1,2,3") or take a dash for a sign ("10-5"). */
#include "answer_text.h"
#include <string.h>

/* ctype.h depends on the locale. */
static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

void mot_text_trim(const char **text, size_t *n)
{
    while (*n > 0 && is_space((*text)[*n - 1])) { (*n)--; }
    while (*n > 0 && is_space(**text)) {
        (*text)++;
        (*n)--;
    }
}

/* Bytes of the minus sign (ASCII or U+2212) that ends right before text + at, or 0. */
static size_t minus_before(const char *text, size_t at)
{
    if (at >= 1 && text[at - 1] == '-') { return 1; }
    return at >= 3 && memcmp(text + at - 3, "\xe2\x88\x92", 3) == 0 ? 3 : 0;
}

/* Bytes of the currency sign that ends right before text + at, with LaTeX's backslash, or 0. */
static size_t currency_before(const char *text, size_t at)
{
    if (at >= 1 && text[at - 1] == '$') { return at >= 2 && text[at - 2] == '\\' ? 2 : 1; }
    if (at >= 2 && memcmp(text + at - 2, "\xc2\xa3", 2) == 0) { return 2; }  /* pound */
    return at >= 3 && memcmp(text + at - 3, "\xe2\x82\xac", 3) == 0 ? 3 : 0; /* euro */
}

/* Whether a dash that starts at text + at can be the sign of what follows. */
static int dash_is_sign(const char *text, size_t at)
{
    if (at == 0) { return 1; }
    const char c = text[at - 1];
    if (is_digit(c) || is_letter(c) || (c != '\0' && strchr(")]}%", c))) { return 0; }
    return minus_before(text, at) == 0;
}

/* Where digits start at text + at: whether a minus stands before them, with a currency sign between
 * or not ("-$5"; in "$-5" the dash is next to the digits anyway). */
static int is_negative(const char *text, size_t at)
{
    size_t minus = minus_before(text, at);
    if (minus == 0) {
        at -= currency_before(text, at);
        minus = minus_before(text, at);
    }
    return minus > 0 && dash_is_sign(text, at - minus);
}

/* Whether exactly three digits stand at text + at. */
static int is_group(const char *text, size_t n, size_t at)
{
    if (n - at < 3) { return 0; }
    const int three = is_digit(text[at]) && is_digit(text[at + 1]) && is_digit(text[at + 2]);
    return three && (n - at == 3 || !is_digit(text[at + 3]));
}

/* The end of the digits, separators and fraction that start at text + at. */
static size_t number_end(const char *text, size_t n, size_t at)
{
    const size_t start = at;
    while (at < n && is_digit(text[at])) { at++; }
    if (at > start && at - start <= 3) {
        while (at < n && text[at] == ',' && is_group(text, n, at + 1)) { at += 4; }
    }
    if (n - at >= 2 && text[at] == '.' && is_digit(text[at + 1])) {
        at++;
        while (at < n && is_digit(text[at])) { at++; }
    }
    return at;
}

/* Whether a number's digits start at text + at: a digit, or a point before one that ends
 * nothing. */
static int starts_digits(const char *text, size_t n, size_t at)
{
    if (is_digit(text[at])) { return 1; }
    const int point = text[at] == '.' && n - at >= 2 && is_digit(text[at + 1]);
    return point && (at == 0 || !(is_digit(text[at - 1]) || is_letter(text[at - 1])));
}

int mot_number_last(const char *text, size_t n, struct mot_number *number)
{
    size_t start = 0, end = 0;
    for (size_t at = 0; at < n;) {
        if (starts_digits(text, n, at)) {
            start = at;
            end = at = number_end(text, n, at);
        } else {
            at++;
        }
    }
    if (end == 0) { return 0; }
    *number = (struct mot_number){text + start, end - start, is_negative(text, start)};
    return 1;
}

/* Bytes of a sign, plus or minus, at text + at; or 0. */
static size_t sign_at(const char *text, size_t n, size_t at)
{
    if (at < n && (text[at] == '-' || text[at] == '+')) { return 1; }
    return n - at >= 3 && minus_before(text, at + 3) == 3 ? 3 : 0;
}

/* Bytes of a currency sign at text + at, or 0. */
static size_t currency_at(const char *text, size_t n, size_t at)
{
    for (size_t bytes = 1; bytes <= 3 && bytes <= n - at; bytes++) {
        if (currency_before(text + at, bytes) == bytes) { return bytes; }
    }
    return 0;
}

/* Steps over what may stand between a mark and its digits: one sign and one currency sign. */
static size_t skip_sign(const char *text, size_t n, size_t at)
{
    const size_t sign = sign_at(text, n, at);
    at += sign;
    at += currency_at(text, n, at);
    return sign > 0 ? at : at + sign_at(text, n, at);
}

int mot_number_marked(const char *text, size_t n, struct mot_number *number)
{
    int found = 0;
    for (size_t at = 0; n - at >= 4; at++) {
        if (memcmp(text + at, "####", 4) != 0) { continue; }
        size_t start = at + 4;
        while (start < n && (text[start] == ' ' || text[start] == '\t')) { start++; }
        start = skip_sign(text, n, start);
        if (start == n || !starts_digits(text, n, start)) { continue; }
        const size_t end = number_end(text, n, start);
        *number = (struct mot_number){text + start, end - start, is_negative(text, start)};
        found = 1;
    }
    return found;
}

int mot_number_whole(const char *text, size_t n, struct mot_number *number)
{
    mot_text_trim(&text, &n);
    const size_t start = skip_sign(text, n, 0);
    if (start >= n || !starts_digits(text, n, start)) { return 0; }
    const size_t end = number_end(text, n, start);
    size_t rest = end;
    while (rest < n && is_space(text[rest])) { rest++; }
    if (n - rest >= 2 && text[rest] == '\\' && text[rest + 1] == '%') { rest++; }
    if (rest < n && text[rest] == '%') { rest++; }
    if (rest < n && text[rest] == '.') { rest++; }
    if (rest < n) { return 0; }
    *number = (struct mot_number){text + start, end - start, is_negative(text, start)};
    return 1;
}

int mot_number_of_answer(const char *answer, struct mot_number *number)
{
    if (!answer) { return 0; }
    const size_t n = strlen(answer);
    return mot_number_marked(answer, n, number) || mot_number_last(answer, n, number);
}

/* The digits of a number one by one. */
struct digits {
    const char *next, *end;
};

static int is_integer_digit(const struct digits *d)
{
    return d->next < d->end && is_digit(*d->next);
}

static void skip_commas(struct digits *d)
{
    while (d->next < d->end && *d->next == ',') { d->next++; }
}

/* At the first digit that is not a leading zero, or at the point, or at the end. */
static struct digits digits_open(const struct mot_number *number)
{
    struct digits d = {number->digits, number->digits + number->n};
    while (d.next < d.end && (*d.next == '0' || *d.next == ',')) { d.next++; }
    return d;
}

/* The next digit after the point; endless zeros after the last. */
static char next_fraction(struct digits *d)
{
    return d->next < d->end ? *d->next++ : '0';
}

int mot_numbers_equal(const struct mot_number *a, const struct mot_number *b)
{
    struct digits x = digits_open(a), y = digits_open(b);
    int is_zero = 1;
    while (is_integer_digit(&x) && is_integer_digit(&y)) {
        if (*x.next++ != *y.next++) { return 0; }
        is_zero = 0;
        skip_commas(&x);
        skip_commas(&y);
    }
    if (is_integer_digit(&x) || is_integer_digit(&y)) { return 0; }
    if (x.next < x.end) { x.next++; } /* the point */
    if (y.next < y.end) { y.next++; }
    while (x.next < x.end || y.next < y.end) {
        const char digit = next_fraction(&x);
        if (digit != next_fraction(&y)) { return 0; }
        is_zero &= digit == '0';
    }
    return is_zero || a->negative == b->negative;
}

/* Whether the sign at text + at stands after an odd number of backslashes. */
static int is_escaped(const char *text, size_t at)
{
    size_t backslashes = 0;
    while (backslashes < at && text[at - 1 - backslashes] == '\\') { backslashes++; }
    return backslashes % 2 == 1;
}

/* +1 for an opening brace at text + at, -1 for a closing one, 0 for anything else. */
static int brace(const char *text, size_t at)
{
    if (text[at] != '{' && text[at] != '}') { return 0; }
    if (is_escaped(text, at)) { return 0; }
    return text[at] == '{' ? 1 : -1;
}

/* Whether \boxed or \fbox, and blanks, end right before text + at. */
static int boxes(const char *text, size_t at)
{
    while (at > 0 && text[at - 1] == ' ') { at--; }
    return (at >= 6 && memcmp(text + at - 6, "\\boxed", 6) == 0)
           || (at >= 5 && memcmp(text + at - 5, "\\fbox", 5) == 0);
}

/* An opening brace is balanced when the depth comes back, at or after it, to what it was before.
 * Going backwards, the lowest depth so far tells this in one pass, however deep the nesting. */
int mot_boxed_last(const char *text, size_t n, const char **inside, size_t *inside_n)
{
    ptrdiff_t depth = 0; /* after text + at, counted from the end of the text */
    ptrdiff_t lowest = 0;
    for (size_t at = n; at-- > 0;) {
        const int step = brace(text, at);
        if (depth < lowest) { lowest = depth; }
        depth -= step; /* now before text + at */
        if (step != 1 || lowest > depth || !boxes(text, at)) { continue; }
        size_t end = at;
        for (ptrdiff_t open = 0; (open += brace(text, end)) > 0;) { end++; }
        *inside = text + at + 1;
        *inside_n = end - at - 1;
        return 1;
    }
    return 0;
}
