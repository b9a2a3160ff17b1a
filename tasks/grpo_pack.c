/* grpo_pack: answers as a micro-batch.  See grpo_pack.h. */
#include "grpo_pack.h"
#include <math.h>
#include <stdlib.h>

/* No two of the group's rewards differ. */
static int is_flat(const struct mot_scored_group *group, int n)
{
    float any = NAN;
    for (int i = 0; i < n; i++) {
        const float reward = group->rewards[i];
        if (isnan(reward)) { continue; } /* abstained */
        if (!isnan(any) && reward != any) { return 0; }
        any = reward;
    }
    return 1;
}

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
                               const struct mot_scored_group *groups, int first, int n,
                               struct mot_loss_counts *counts)
{
    const int G = grpo->num_generations, first_group = first / G;
    const int n_prompts = (first + n - 1) / G - first_group + 1;
    struct mot_pack_prompt *prompts = mot_alloc((size_t)n_prompts * sizeof(*prompts));
    struct mot_pack_answer *answers = mot_alloc((size_t)n * sizeof(*answers));
    int *dropped = mot_alloc((size_t)n_prompts * sizeof(*dropped));
    for (int p = 0; p < n_prompts; p++) {
        const struct mot_group *g = &rollout->groups[first_group + p];
        prompts[p] = (struct mot_pack_prompt){.n = g->prompt_tokens, .ids = g->prompt};
        dropped[p] = groups && grpo->drop_zero_std_groups && is_flat(&groups[first_group + p], G);
    }
    int valid_tokens = 0, valid_answers = 0;
    for (int i = 0; i < n; i++) {
        const struct mot_row *row = row_of(grpo, rollout, first + i);
        const int masked = is_masked(grpo, row) || dropped[row->group->index - first_group];
        valid_tokens += masked ? 0 : row->n;
        valid_answers += !masked;
    }
    for (int i = 0; i < n; i++) {
        const struct mot_row *row = row_of(grpo, rollout, first + i);
        const int p = row->group->index - first_group;
        const double weight = is_masked(grpo, row) || dropped[p]
                                  ? 0.0
                                  : grpo->loss.type->token_weight(row->n, valid_tokens);
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
    free(dropped);
    return pack;
}
