/* grpo_pack: answers as a micro-batch.  See grpo_pack.h. */
#include "grpo_pack.h"
#include <stdlib.h>

static int is_masked(const struct mot_grpo *grpo, const struct mot_row *row)
{
    return grpo->mask_truncated_completions && row->end == MOT_ROW_LENGTH;
}

static const struct mot_row *row_of(const struct mot_grpo *grpo, const struct mot_rollout *rollout,
                                    int answer)
{
    const int G = grpo->num_generations;
    return &rollout->groups[answer / G].rows[answer % G];
}

struct mot_pack *mot_grpo_pack(const struct mot_grpo *grpo, const struct mot_rollout *rollout,
                               int first, int n, struct mot_loss_counts *counts)
{
    const int G = grpo->num_generations, first_group = first / G;
    const int n_prompts = (first + n - 1) / G - first_group + 1;
    struct mot_pack_prompt *prompts = mot_alloc((size_t)n_prompts * sizeof(*prompts));
    struct mot_pack_answer *answers = mot_alloc((size_t)n * sizeof(*answers));
    for (int p = 0; p < n_prompts; p++) {
        const struct mot_group *g = &rollout->groups[first_group + p];
        prompts[p] = (struct mot_pack_prompt){.n = g->prompt_tokens, .ids = g->prompt};
    }
    int valid_tokens = 0, valid_answers = 0;
    for (int i = 0; i < n; i++) {
        const struct mot_row *row = row_of(grpo, rollout, first + i);
        valid_tokens += is_masked(grpo, row) ? 0 : row->n;
        valid_answers += !is_masked(grpo, row);
    }
    for (int i = 0; i < n; i++) {
        const struct mot_row *row = row_of(grpo, rollout, first + i);
        const int p = row->group->index - first_group;
        const double weight =
            is_masked(grpo, row) ? 0.0 : grpo->loss.type->token_weight(row->n, valid_tokens);
        answers[i] = (struct mot_pack_answer){.prompt = p,
                                              .n = row->n,
                                              .ids = row->ids,
                                              .old = row->logprob,
                                              .weight = (float)weight,
                                              .advantage_buffer = p,
                                              .advantage_index = row->sample};
    }
    if (counts != NULL) {
        counts->tokens += valid_tokens;
        counts->answers += valid_answers;
        counts->micro_batches += valid_tokens > 0;
    }
    struct mot_pack *pack = mot_pack_create(prompts, n_prompts, answers, n);
    free(prompts);
    free(answers);
    return pack;
}
