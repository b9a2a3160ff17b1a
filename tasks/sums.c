/* Sums: pairs a <= b, shuffled (Fisher and Yates; Durstenfeld 1964, CACM algorithm 235), cut in
 * two, each pair then one row, or two where a < b.  See sums.h. */
#include "sums.h"
#include "error.h"
#include "rng.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    int a, b;
};

/* All pairs low <= a <= b <= high in an order that the seed gives; *n of them; mot_alloc'ed. */
static struct pair *shuffled_pairs(const struct mot_sums *sums, int *n)
{
    const int width = sums->high - sums->low + 1;
    struct pair *pairs = mot_alloc((size_t)width * (size_t)(width + 1) / 2 * sizeof(*pairs));
    *n = 0;
    for (int a = sums->low; a <= sums->high; a++) {
        for (int b = a; b <= sums->high; b++) { pairs[(*n)++] = (struct pair){a, b}; }
    }
    for (int i = *n - 1; i > 0; i--) {
        const uint32_t bound = (uint32_t)i + 1;
        const uint32_t j = mot_uniform_int(sums->seed, MOT_RNG_DATA, (uint32_t)i, 0, 0, bound);
        const struct pair kept = pairs[i];
        pairs[i] = pairs[j];
        pairs[j] = kept;
    }
    return pairs;
}

/* Encodes text and, where end >= 0, that id after it. */
static int encode(const struct mot_tokenizer *tokenizer, const char *text, int32_t end,
                  struct mot_ids *ids)
{
    const int result = mot_tokenizer_encode(tokenizer, text, strlen(text), 0, ids);
    if (result < 0 || end < 0) { return result; }
    ids->id = mot_realloc(ids->id, (ids->n + 1) * sizeof(*ids->id));
    ids->id[ids->n++] = end;
    return 0;
}

/* Appends the row a+b=.  0 or a negative errno; the data set can be destroyed either way. */
static int add_row(struct mot_dataset *dataset, int a, int b, const struct mot_tokenizer *tokenizer)
{
    struct mot_example *example = &dataset->examples[dataset->n++];
    *example = (struct mot_example){.prompt_text = mot_format("%d+%d=", a, b),
                                    .answer = mot_format("%d", a + b)};
    example->columns =
        json_pack("{s:s, s:s}", "prompt", example->prompt_text, "answer", example->answer);
    MOT_ASSERT(example->columns);
    const int result = encode(tokenizer, example->prompt_text, -1, &example->prompt);
    if (result < 0) { return result; }
    return encode(tokenizer, example->answer, mot_tokenizer_eos(tokenizer), &example->completion);
}

static int fill(struct mot_dataset *dataset, const char *name, const struct pair *pairs, int n,
                const struct mot_tokenizer *tokenizer)
{
    *dataset = (struct mot_dataset){
        .path = mot_strdup(name),
        .examples = mot_alloc_zeroed(2 * (size_t)n, sizeof(*dataset->examples)),
    };
    for (int i = 0; i < n; i++) {
        int result = add_row(dataset, pairs[i].a, pairs[i].b, tokenizer);
        if (result == 0 && pairs[i].a != pairs[i].b) {
            result = add_row(dataset, pairs[i].b, pairs[i].a, tokenizer);
        }
        if (result < 0) { return result; }
    }
    return 0;
}

static int check(const struct mot_sums *sums)
{
    const int in_order = 0 <= sums->low && sums->low <= sums->high && sums->high <= 1000 * 1000;
    if (!in_order || sums->high - sums->low >= 1000) {
        return mot_fail(EINVAL,
                        "sums: operands from %d to %d: the range must hold 1 to 1000 numbers "
                        "between 0 and 1000000",
                        sums->low, sums->high);
    }
    if (!(sums->held_out > 0.0 && sums->held_out < 1.0)) {
        return mot_fail(EINVAL, "sums: the held-out share is %g, must lie between 0 and 1",
                        sums->held_out);
    }
    return 0;
}

int mot_sums_create(const struct mot_sums *sums, const struct mot_tokenizer *tokenizer,
                    struct mot_dataset *train, struct mot_dataset *held_out)
{
    int result = check(sums);
    if (result < 0) { return result; }
    int n;
    struct pair *pairs = shuffled_pairs(sums, &n);
    const int n_held_out = (int)(sums->held_out * n + 0.5);
    if (n_held_out == 0 || n_held_out == n) {
        free(pairs);
        return mot_fail(EINVAL, "sums: of %d pairs a share of %g leaves nothing to %s", n,
                        sums->held_out, n_held_out ? "train on" : "hold out");
    }
    struct mot_dataset part[2] = {{0}};
    result = fill(&part[0], "sums (held out)", pairs, n_held_out, tokenizer);
    if (result == 0) {
        result = fill(&part[1], "sums", pairs + n_held_out, n - n_held_out, tokenizer);
    }
    free(pairs);
    if (result < 0) {
        mot_dataset_destroy(&part[0]);
        mot_dataset_destroy(&part[1]);
        return result;
    }
    *held_out = part[0];
    *train = part[1];
    return 0;
}

int mot_sums_write(const struct mot_dataset *dataset, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) { return mot_fail(errno, "%s: cannot be written: %s", path, strerror(errno)); }
    int failed = 0;
    for (int i = 0; i < dataset->n && !failed; i++) {
        failed = json_dumpf(dataset->examples[i].columns, file, JSON_COMPACT) < 0
                 || fputc('\n', file) == EOF;
    }
    failed |= fclose(file) != 0;
    return failed ? mot_fail(errno ? errno : EIO, "%s: cannot be written: %s", path,
                             strerror(errno ? errno : EIO))
                  : 0;
}
