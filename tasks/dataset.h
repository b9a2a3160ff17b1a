/* Training and test data: JSON lines.  A row has `prompt` (string, or array of messages) or
 * `question`; optionally `answer` or `ground_truth`; for sft `completion` (or `answer`) or
 * `input_ids`; all columns are handed to rewards.  A row with `input_ids` has its first id as
 * the prompt and the others as the completion. */
#ifndef MOT_DATASET_H
#define MOT_DATASET_H
#include "chat_template.h"
#include "tokenizer.h"
#include <jansson.h>
#include <stdint.h>

struct mot_example {
    struct mot_ids prompt; /* rendered by the chat template and encoded; exactly one BOS or none */
    char *prompt_text;     /* as rendered */
    struct mot_ids completion; /* sft only: answer ids with the end-of-turn; empty otherwise */
    char *answer;    /* `ground_truth`, else `answer`: a string, or a number as text; or NULL */
    json_t *columns; /* the row as it was */
};

struct mot_dataset {
    char *path;
    int n;
    struct mot_example *examples;
    uint32_t crc32; /* of the rows as they stood in the file; 0: embedded */
};

struct mot_dataset_options {
    const struct mot_tokenizer *tokenizer;
    const struct mot_chat_template *chat; /* "none": the prompt string as it is */
    const char
        *system_prompt;  /* NULL: none; put before messages that begin with no system message */
    int with_completion; /* sft */
    /* Prompt (and completion) longer than this: an error with the line; 0: no limit. */
    int max_tokens;
    int limit;          /* at most so many rows; 0: all */
    const char *called; /* the rows in messages; NULL: the path */
};

/* 0, or a negative errno with "file:line: ..." ; an empty data set is an error. */
int mot_dataset_load(const char *path, const struct mot_dataset_options *options,
                     struct mot_dataset *dataset);
void mot_dataset_destroy(struct mot_dataset *dataset);

/* The example that stands at `position` (0, 1, 2, ... without end) of the training order: epoch
 * position / n, shuffled by MOT_RNG_SHUFFLE with the seed, or file order when shuffle is 0. */
int mot_dataset_at(const struct mot_dataset *dataset, uint64_t seed, int shuffle, int64_t position);
#endif
