/* boxed: 1 when the inside of the completion's last balanced \boxed{...} equals the answer, else 0.
 *
 * The answer may be the bare value, a solution with a \boxed{...} of its own (as MATH's are), or
 * one that ends in "#### n".  Two numbers are compared as decimals; anything else as text after the
 * notation that does not change the value is taken out: white space, $, %, \left and \right, thin
 * spaces, \text{} and its kin, \dfrac for \frac, a final full stop.  No algebra: 1/2, \frac{1}{2}
 * and 0.5 are three answers.
 * Source of the notation list: the normalisation of MATH (Hendrycks et al. 2021,
 * arXiv:2103.03874). */
#include "answer_text.h"
#include "error.h"
#include "reward.h"
#include <stdlib.h>
#include <string.h>

/* LaTeX as written and what stands for it.  A longer name comes before its own beginning. */
static const struct {
    const char *from, *to;
} notation[] = {
    {"\\left", ""},   {"\\right", ""},  {"\\!", ""},           {"\\,", ""},
    {"\\;", ""},      {"\\:", ""},      {"\\ ", ""},           {"\\$", ""},
    {"\\%", ""},      {"{,}", ","},     {"\\dfrac", "\\frac"}, {"\\tfrac", "\\frac"},
    {"\\textbf", ""}, {"\\textit", ""}, {"\\textrm", ""},      {"\\text", ""},
    {"\\mathrm", ""}, {"\\mathbf", ""}, {"\\mbox", ""},        {"^{\\circ}", ""},
    {"^\\circ", ""},  {"\xc2\xb0", ""}, {"\xe2\x88\x92", "-"},
};

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The row of the notation table that matches at text, or -1.  A command's name must end where the
 * row's does: \left is not the beginning of \leftarrow. */
static int notation_at(const char *text, size_t n)
{
    for (size_t i = 0; i < sizeof(notation) / sizeof(notation[0]); i++) {
        const size_t length = strlen(notation[i].from);
        if (length > n || memcmp(text, notation[i].from, length) != 0) { continue; }
        const int is_command = is_letter(notation[i].from[length - 1]);
        if (is_command && length < n && is_letter(text[length])) { continue; }
        return (int)i;
    }
    return -1;
}

/* Writes text without the notation to out, which has room for n bytes; returns how many it wrote.
 * No row's replacement is longer than what it replaces. */
static size_t normalise(const char *text, size_t n, char *out)
{
    size_t n_out = 0;
    for (size_t at = 0; at < n;) {
        const char c = text[at];
        const int row =
            c == '\\' || c == '{' || c == '^' || (c & 0x80) ? notation_at(text + at, n - at) : -1;
        if (row >= 0) {
            const size_t length = strlen(notation[row].to);
            memcpy(out + n_out, notation[row].to, length);
            n_out += length;
            at += strlen(notation[row].from);
            continue;
        }
        if (c == '\0' || !strchr(" \t\n\v\f\r$%~", c)) { out[n_out++] = c; }
        at++;
    }
    if (n_out > 1 && out[n_out - 1] == '.') { n_out--; }
    /* \text{red} has become {red}: one pair of braces around everything says nothing. */
    if (n_out >= 2 && out[0] == '{' && memchr(out, '}', n_out) == out + n_out - 1) {
        memmove(out, out + 1, n_out - 2);
        n_out -= 2;
    }
    return n_out;
}

static int equal(const char *a, size_t n_a, const char *b, size_t n_b)
{
    char *x = mot_alloc(n_a + n_b + 1);
    char *y = x + n_a;
    n_a = normalise(a, n_a, x);
    n_b = normalise(b, n_b, y);
    struct mot_number x_number, y_number;
    int result;
    if (mot_number_whole(x, n_a, &x_number) && mot_number_whole(y, n_b, &y_number)) {
        result = mot_numbers_equal(&x_number, &y_number);
    } else {
        result = n_a == n_b && memcmp(x, y, n_a) == 0;
    }
    free(x);
    return result;
}

static void boxed_score(void *state, const struct mot_reward_input *input, struct mot_score *score)
{
    (void)state;
    *score = (struct mot_score){.error = !input->answer};
    if (score->error) { return; }
    const char *answer = input->answer;
    size_t n_answer = strlen(answer);
    struct mot_number number;
    if (!mot_boxed_last(answer, n_answer, &answer, &n_answer)
        && mot_number_marked(answer, n_answer, &number)) {
        /* From the mark to the end: the sign stays. */
        const char *mark = answer;
        for (const char *next = answer; (next = strstr(next, "####")); next++) { mark = next + 4; }
        n_answer -= (size_t)(mark - answer);
        answer = mark;
    }
    const char *inside;
    size_t n_inside;
    if (!mot_boxed_last(input->completion, input->completion_bytes, &inside, &n_inside)) { return; }
    score->value = equal(inside, n_inside, answer, n_answer);
}

const struct mot_reward mot_reward_boxed = {
    .name = "boxed",
    .help = "1 when the last \\boxed{...} of the completion equals the answer, as number or text",
    .score = boxed_score,
};
