/* motley demo, the README's first command, does what it says: supervised fitting stops with 30 to
 * 60 % of the held-out sums right, GRPO ends above 90 %, and no prompt that was trained on is held
 * out, in either order of its operands.  A minute or two; not in the sanitizers' trees.
 * Run it alone: ./test_demo */
#include "program.h"
#include "sums.h"

static char *last_line_of(const char *name)
{
    size_t n;
    char *path = scratch_path(name), *text = scratch_read(path, &n);
    while (n > 0 && text[n - 1] == '\n') { text[--n] = '\0'; }
    const char *newline = strrchr(text, '\n');
    char *line = mot_strdup(newline ? newline + 1 : text);
    free(text);
    free(path);
    return line;
}

static int is_held_out(const struct mot_dataset *held_out, const char *prompt)
{
    int a, b;
    check(sscanf(prompt, "%d+%d=", &a, &b) == 2, "'%s' is no sum", prompt);
    char swapped[32];
    snprintf(swapped, sizeof(swapped), "%d+%d=", b, a);
    for (int i = 0; i < held_out->n; i++) {
        const char *text = held_out->examples[i].prompt_text;
        if (strcmp(text, prompt) == 0 || strcmp(text, swapped) == 0) { return 1; }
    }
    return 0;
}

static void test_nothing_held_out_was_trained_on(void)
{
    const struct mot_sums sums = {.low = 10, .high = 99, .held_out = 0.1, .seed = 1};
    struct mot_tokenizer *tokenizer = mot_tokenizer_bytes();
    struct mot_dataset train, held_out;
    MOT_ASSERT(mot_sums_create(&sums, tokenizer, &train, &held_out) == 0);
    char *path = scratch_path("demo/grpo/completions.jsonl"), *line = NULL;
    FILE *file = fopen(path, "r"); /* too long to be held as a whole */
    MOT_ASSERT(file);
    size_t capacity = 0, answers = 0;
    static const char key[] = "\"prompt\":\"";
    while (getline(&line, &capacity, file) > 0) {
        char *prompt = strstr(line, key);
        MOT_ASSERT(prompt);
        prompt += strlen(key);
        prompt[strcspn(prompt, "\"")] = '\0';
        answers++;
        if (is_held_out(&held_out, prompt)) {
            check(0, "'%s' was trained on and is held out", prompt);
            break;
        }
    }
    check(answers > 1000, "only %zu answers were written", answers);
    fclose(file);
    free(line);
    free(path);
    mot_dataset_destroy(&train);
    mot_dataset_destroy(&held_out);
    mot_tokenizer_destroy(tokenizer);
}

int main(void)
{
    scratch_begin("test_demo");
    program_must(0, "demo --seed 1 --output_dir @/demo");
    char *line = last_line_of("stdout");
    double before, after;
    check(sscanf(line, "held-out accuracy %lf %% -> %lf %%", &before, &after) == 2,
          "the last line is '%s'", line);
    printf("%s\n", line);
    check(before >= 30.0 && before <= 60.0, "GRPO began at %.1f %%", before);
    check(after > 90.0, "GRPO ended at %.1f %%", after);
    free(line);
    test_nothing_held_out_was_trained_on();
    return failures > 0;
}
