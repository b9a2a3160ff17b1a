/* gsm8k: 1 when the final answer of a GSM8K solution is right, else 0 (Cobbe et al. 2021,
 * arXiv:2110.14168).
 *
 *   gsm8k, gsm8k:strict  the completion must say "#### n", as the data set's solutions do; the last
 *                        such mark counts.
 *   gsm8k:flexible       the last number counts, whatever stands around it.
 *
 * The whole completion is searched: graders that look at its last 300 characters score right
 * answers with a long tail 0.  The answer is a number, or a whole solution that ends in "####
 * n". */
#include "answer_text.h"
#include "error.h"
#include "reward.h"
#include <string.h>

static const char flexible; /* its address is the state of gsm8k:flexible */

static int gsm8k_open(const char *settings, void **state)
{
    const int is_flexible = settings && strcmp(settings, "flexible") == 0;
    if (settings && !is_flexible && strcmp(settings, "strict") != 0) {
        return mot_fail(EINVAL,
                        "reward gsm8k: unknown setting \"%.60s\"; there are: strict, flexible",
                        settings);
    }
    *state = is_flexible ? (void *)&flexible : NULL;
    return 0;
}

static void gsm8k_score(void *state, const struct mot_reward_input *input, struct mot_score *score)
{
    struct mot_number found, expected;
    *score = (struct mot_score){.error = !mot_number_of_answer(input->answer, &expected)};
    if (score->error) { return; }
    const int is_found =
        state ? mot_number_last(input->completion, input->completion_bytes, &found)
              : mot_number_marked(input->completion, input->completion_bytes, &found);
    score->value = is_found && mot_numbers_equal(&found, &expected);
}

const struct mot_reward mot_reward_gsm8k = {
    .name = "gsm8k",
    .help = "1 when the GSM8K answer is right; gsm8k:strict (default) wants \"#### n\", "
            "gsm8k:flexible takes the last number",
    .open = gsm8k_open,
    .score = gsm8k_score,
};
