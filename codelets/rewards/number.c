/* number: 1 when the last number of the completion equals the answer's, else 0.
 * The answer's number is the one after its last "####", where there is one, else its last.
 * Compared as decimals, exactly; what counts as a number is in answer_text.h.  An answer without
 * any number is an error, a completion without one a plain 0. */
#include "answer_text.h"
#include "reward.h"

static void number_score(void *state, const struct mot_reward_input *input, struct mot_score *score)
{
    (void)state;
    struct mot_number found, expected;
    *score = (struct mot_score){.error = !mot_number_of_answer(input->answer, &expected)};
    if (score->error) { return; }
    score->value = mot_number_last(input->completion, input->completion_bytes, &found)
                   && mot_numbers_equal(&found, &expected);
}

const struct mot_reward mot_reward_number = {
    .name = "number",
    .help = "1 when the last number of the completion equals the answer's number",
    .score = number_score,
};
