/* gsm8k:flexible agrees with all labels of the data set's own graded model solutions
 * (example_model_solutions.jsonl of openai/grade-school-math: 1319 questions, 4 solutions each),
 * and gsm8k:strict finds the answer of every training and test solution (peers row 16).
 * Needs the folder gsm8k under MOTLEY_DATA; skipped without. */
#include "error.h"
#include "reward.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_scored, n_wrong;

static void check(const char *option, const char *completion, const char *answer, int expected)
{
    const struct mot_reward *reward;
    const char *settings;
    void *state = NULL;
    if (mot_reward_find(option, &reward, &settings) < 0) { exit(1); }
    if (reward->open(settings, &state) < 0) { exit(1); }
    const struct mot_reward_input input = {
        .completion = completion, .completion_bytes = strlen(completion), .answer = answer};
    struct mot_score score;
    reward->score(state, &input, &score);
    n_scored++;
    if (score.error || score.value != expected) {
        n_wrong++;
        printf("%s: want %d, got %g (error %d)\n  %s\n  %s\n", option, expected, score.value,
               score.error, completion, answer);
    }
}

static void check_solutions(const json_t *row)
{
    static const char *const models[] = {"6b_finetuning", "6b_verification", "175b_finetuning",
                                         "175b_verification"};
    const char *answer = json_string_value(json_object_get(row, "ground_truth"));
    for (int i = 0; i < 4; i++) {
        const json_t *solution = json_object_get(row, models[i]);
        const char *text = json_string_value(json_object_get(solution, "solution"));
        if (!answer || !text) { exit(1); }
        check("gsm8k:flexible", text, answer,
              json_is_true(json_object_get(solution, "is_correct")));
    }
}

static void check_answer(const json_t *row)
{
    const char *answer = json_string_value(json_object_get(row, "answer"));
    if (!answer) { exit(1); }
    const char *mark = strstr(answer, "#### ");
    check("gsm8k", answer, mark + 5, 1);
    check("gsm8k:flexible", answer, answer, 1);
    check("gsm8k", mark + 5, answer, 0); /* no mark in the completion */
}

/* Calls check_row for each line of MOTLEY_DATA/gsm8k/name; 0, or 77 when there is no such file. */
static int for_each_row(const char *folder, const char *name, void (*check_row)(const json_t *))
{
    char *path = mot_format("%s/gsm8k/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file) { printf("skipped: no %s\n", path); }
    free(path);
    if (!file) { return 77; }
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        if (!row) { exit(1); }
        check_row(row);
        json_decref(row);
    }
    free(line);
    fclose(file);
    return 0;
}

int main(void)
{
    const char *folder = getenv("MOTLEY_DATA");
    if (!folder) {
        printf("skipped: MOTLEY_DATA is not set\n");
        return 77;
    }
    const int skipped = for_each_row(folder, "example_model_solutions.jsonl", check_solutions)
                        | for_each_row(folder, "train.jsonl", check_answer)
                        | for_each_row(folder, "test.jsonl", check_answer);
    printf("%d scores, %d wrong\n", n_scored, n_wrong);
    if (n_wrong > 0) { return 1; }
    return skipped ? 77 : n_scored == 5276 + 3 * (7473 + 1319) ? 0 : 1;
}
