/* exact: 1 when the completion is the answer, white space at either end aside; else 0.
 * "exact:ignore_case" takes A-Z for a-z (no other letters: what case means elsewhere depends on the
 * language). */
#include "answer_text.h"
#include "error.h"
#include "reward.h"
#include <string.h>

static const char ignore_case; /* its address is the state of exact:ignore_case */

static int exact_open(const char *settings, void **state)
{
    if (settings && strcmp(settings, "ignore_case") != 0) {
        return mot_fail(EINVAL, "reward exact: unknown setting \"%.60s\"; there is: ignore_case",
                        settings);
    }
    *state = settings ? (void *)&ignore_case : NULL;
    return 0;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int equal_but_case(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lower(a[i]) != lower(b[i])) { return 0; }
    }
    return 1;
}

static void exact_score(void *state, const struct mot_reward_input *input, struct mot_score *score)
{
    *score = (struct mot_score){.error = !input->answer};
    if (score->error) { return; }
    const char *text = input->completion, *answer = input->answer;
    size_t n = input->completion_bytes, n_answer = strlen(answer);
    mot_text_trim(&text, &n);
    mot_text_trim(&answer, &n_answer);
    if (n != n_answer) { return; }
    score->value = state ? equal_but_case(text, answer, n) : memcmp(text, answer, n) == 0;
}

const struct mot_reward mot_reward_exact = {
    .name = "exact",
    .help = "1 when the completion is the answer, white space around it aside; exact:ignore_case",
    .open = exact_open,
    .score = exact_score,
};
