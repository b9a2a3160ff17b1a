/* scoring: score buffers, score tasks, opened reward functions.  See scoring.h. */
#include "scoring.h"
#include "stages.h"
#include <stdio.h>
#include <stdlib.h>

static void register_in_memory(starpu_data_handle_t *handle, float *floats, int n)
{
    starpu_vector_data_register(handle, STARPU_MAIN_RAM, (uintptr_t)floats, (uint32_t)n,
                                sizeof(float));
}

struct mot_scored_group *mot_scoring_create(int n_groups, int n_rows, int n_functions)
{
    MOT_ASSERT(n_groups >= 1 && n_rows >= 1 && n_functions >= 1);
    const size_t P = (size_t)n_groups, G = (size_t)n_rows, F = (size_t)n_functions;
    float *rewards = mot_alloc_zeroed(P * G, sizeof(float));
    struct mot_scored_group *groups = mot_alloc_zeroed(P, sizeof(*groups));
    for (size_t p = 0; p < P; p++) {
        struct mot_scored_group *g = &groups[p];
        g->inputs = mot_alloc_zeroed(G, sizeof(*g->inputs));
        g->scores = mot_alloc_zeroed(G * 2 * F, sizeof(float));
        g->rewards = rewards + p * G;
        g->advantages = mot_alloc_zeroed(G, sizeof(float));
        g->score_handles = mot_alloc_zeroed(G, sizeof(*g->score_handles));
        for (size_t k = 0; k < G; k++) {
            register_in_memory(&g->score_handles[k], g->scores + k * 2 * F, 2 * n_functions);
            mot_data_name(g->score_handles[k], "scores %zu.%zu", p, k);
        }
        register_in_memory(&g->advantage_handle, g->advantages, n_rows);
        mot_data_name(g->advantage_handle, "advantages %zu", p);
    }
    return groups;
}

void mot_scoring_destroy(struct mot_scored_group *groups, int n_groups, int n_rows)
{
    if (groups == NULL) { return; }
    for (int p = 0; p < n_groups; p++) {
        struct mot_scored_group *g = &groups[p];
        for (int k = 0; k < n_rows; k++) { starpu_data_unregister(g->score_handles[k]); }
        starpu_data_unregister(g->advantage_handle);
        free(g->inputs);
        free(g->scores);
        free(g->advantages);
        free(g->score_handles);
    }
    free(groups[0].rewards);
    free(groups);
}

int mot_scoring_submit(struct mot_scored_group *group, const struct mot_row *row,
                       const struct mot_example *example,
                       const struct mot_reward_function *functions, int n_functions, int step)
{
    struct mot_reward_input *input = &group->inputs[row->sample];
    *input = (struct mot_reward_input){.prompt = example->prompt_text,
                                       .completion = row->text,
                                       .completion_bytes = row->text_bytes,
                                       .answer = example->answer,
                                       .columns = example->columns,
                                       .ids = row->ids,
                                       .n_ids = row->n,
                                       .ended = row->end != MOT_ROW_LENGTH};
    const struct mot_score_insert score = {
        .functions = functions,
        .n_functions = n_functions,
        .input = input,
        .scores = group->score_handles[row->sample],
        .hint = {
            .stage = MOT_STAGE_REWARD, .step = step, .group = row->group->index, .version = -1}};
    return mot_insert_score(&score);
}

int mot_reward_functions_open(char *const *names, int n, const double *weights, int n_weights,
                              struct mot_reward_function **functions)
{
    if (n < 1) { return mot_fail(EINVAL, "reward_funcs: at least one reward is needed"); }
    if (n_weights != 0 && n_weights != n) {
        return mot_fail(EINVAL, "reward_weights has %d numbers for %d reward_funcs", n_weights, n);
    }
    struct mot_reward_function *opened = mot_alloc_zeroed((size_t)n, sizeof(*opened));
    for (int i = 0; i < n; i++) {
        const char *settings;
        int error = mot_reward_find(names[i], &opened[i].reward, &settings);
        if (error == 0 && opened[i].reward->open != NULL) {
            error = opened[i].reward->open(settings, &opened[i].state);
        } else if (error == 0 && settings != NULL) {
            error = mot_fail(EINVAL, "reward '%s' takes no settings", opened[i].reward->name);
        }
        if (error) {
            mot_reward_functions_close(opened, i);
            return error;
        }
        opened[i].weight = n_weights > 0 ? weights[i] : 1.0;
        int same = 1;
        for (int k = 0; k < i; k++) { same += opened[k].reward == opened[i].reward; }
        const char *name = opened[i].reward->name;
        if (same == 1) {
            snprintf(opened[i].label, sizeof(opened[i].label), "%s", name);
        } else {
            snprintf(opened[i].label, sizeof(opened[i].label), "%s_%d", name, same);
        }
    }
    *functions = opened;
    return 0;
}

void mot_reward_functions_close(struct mot_reward_function *functions, int n)
{
    for (int i = 0; i < n; i++) {
        if (functions[i].reward->close != NULL) { functions[i].reward->close(functions[i].state); }
    }
    free(functions);
}
