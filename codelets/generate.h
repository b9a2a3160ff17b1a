/* generate: continues rows (answers under way) by at most `chunk` tokens each, then yields.
 *
 *   weights  R   (n_groups) one buffer per layer group
 *   packed   R   their packed copies (packed_weights.h), or none
 *   prompts  R   (n_prompts) prompt caches of prefill.h, each once
 *   rows     RW  (n_rows) keys and values of the answer's own tokens (struct mot_kv, capacity
 *                slots, first position = prompt length); W for a row without tokens yet
 *   drawn    W   bytes of mot_drawn_bytes(n_rows, tokens_max): see struct mot_drawn
 *
 * A row's tokens are a function of weights, prompt, sampling, seed, step, prompt and sample index
 * alone: not of its neighbours, of chunk or of the device's timing.  The last token of a row has no
 * keys yet: the next chunk forwards it first.  Ends with EOS (which is the row's last token and
 * counts) or at max_tokens.  Variants: CPU. */
#ifndef MOT_GENERATE_H
#define MOT_GENERATE_H
#include "stage.h"

enum { MOT_EOS_MAX = 8 };

struct mot_generate_row {
    int prompt;                      /* index into the task's prompts */
    int prompt_tokens;               /* of that prompt */
    int capacity;                    /* slots of its cache */
    int n;                           /* own tokens so far */
    int32_t last_id;                 /* the newest of them, when n > 0 */
    int max_tokens;                  /* own tokens at the end, at most; > n */
    int expected_tokens;             /* at the end, for the hint; 0: max_tokens */
    int simulated_tokens;            /* at the end, in a simulation: what is true; 0: as expected */
    uint32_t rng_prompt, rng_sample; /* < 65536 each */
};

/* What a task drew: header, then per row its tokens in order. */
struct mot_drawn {
    int n_rows, tokens_max;
    struct {
        int32_t n;     /* new tokens */
        int32_t ended; /* 1: with EOS */
    } row[];
};
size_t mot_drawn_bytes(int n_rows, int tokens_max);
/* The new tokens of one row, (n). */
const struct mot_sampled *mot_drawn_tokens(const struct mot_drawn *drawn, int row);

struct mot_generate {
    const struct mot_stage_context *context;
    const starpu_data_handle_t *weights;
    const starpu_data_handle_t *packed; /* (mot_packing_groups()) or NULL: without; equal bits */
    int n_prompts, n_rows;
    const starpu_data_handle_t *prompts;    /* (n_prompts) */
    const starpu_data_handle_t *row_caches; /* (n_rows) */
    const struct mot_generate_row *rows;    /* (n_rows) copied */
    starpu_data_handle_t drawn;             /* of mot_drawn_bytes(n_rows, tokens_max) */
    int chunk;                              /* new tokens per row, at most; 0: to the end */
    struct mot_sampling sampling;
    uint64_t seed;
    uint32_t rng_step;
    int n_eos;
    int32_t eos[MOT_EOS_MAX];
    struct mot_hint hint; /* stage, step, group, version */
    int priority;
    void (*done)(void *argument); /* after the task, in the worker's thread */
    void *argument_done;
};
/* New tokens the task's longest row can get: the tokens_max of its drawn buffer. */
int mot_generate_tokens_max(const struct mot_generate *generate);
/* New tokens of a row in a simulated task. */
int mot_generate_simulated_tokens(const struct mot_generate_row *row, int tokens_max);
int mot_insert_generate(const struct mot_generate *generate);
#endif
