/* Lays prompts and answers out as packed rows.  See pack.h. */
#include "pack.h"
#include "error.h"
#include <stdlib.h>
#include <string.h>

static void count_rows(struct mot_pack *pack, const struct mot_pack_prompt *prompts,
                       const struct mot_pack_answer *answers)
{
    for (int p = 0; p < pack->n_prompts; p++) {
        MOT_ASSERT(prompts[p].n >= 1);
        pack->prompt_tokens += prompts[p].n;
    }
    pack->T = pack->prompt_tokens;
    pack->n_segments = pack->n_prompts;
    for (int a = 0; a < pack->n_answers; a++) {
        MOT_ASSERT(answers[a].n >= 1);
        MOT_ASSERT(answers[a].prompt >= 0 && answers[a].prompt < pack->n_prompts);
        pack->T += answers[a].n - 1;
        pack->n_segments += answers[a].n > 1;
        pack->n_targets += answers[a].n;
    }
}

static void allocate(struct mot_pack *pack)
{
    const size_t T = (size_t)pack->T, S = (size_t)pack->n_segments, N = (size_t)pack->n_targets;
    pack->ids = mot_alloc_zeroed(T, sizeof(*pack->ids));
    pack->position = mot_alloc_zeroed(T, sizeof(*pack->position));
    pack->segments = mot_alloc_zeroed(S, sizeof(*pack->segments));
    pack->prefix_of = mot_alloc_zeroed(S, sizeof(*pack->prefix_of));
    pack->row = mot_alloc_zeroed(N, sizeof(*pack->row));
    pack->target = mot_alloc_zeroed(N, sizeof(*pack->target));
    pack->answer_of = mot_alloc_zeroed(N, sizeof(*pack->answer_of));
    pack->old = mot_alloc_zeroed(N, sizeof(*pack->old));
    pack->weight = mot_alloc_zeroed(N, sizeof(*pack->weight));
    pack->answers = mot_alloc_zeroed((size_t)pack->n_answers, sizeof(*pack->answers));
}

/* n rows of ids from a position on, as segment s that starts at row `first`. */
static void place_segment(struct mot_pack *pack, int s, int first, const int32_t *ids, int n,
                          int position, int prefix)
{
    pack->segments[s] = (struct mot_segment){
        .first = first,
        .count = n,
        .position = position,
        .own = {.capacity = n, .first_position = position},
    };
    pack->prefix_of[s] = prefix;
    for (int i = 0; i < n; i++) {
        pack->ids[first + i] = ids[i];
        pack->position[first + i] = position + i;
    }
}

/* first_row[a]: row of answer a's token 0; prompt_end[p]: last row of prompt p. */
static void place_rows(struct mot_pack *pack, const struct mot_pack_prompt *prompts,
                       const struct mot_pack_answer *answers, int *first_row, int *prompt_end)
{
    int row = 0, s = 0;
    for (int p = 0; p < pack->n_prompts; p++) {
        const int own = s;
        place_segment(pack, s++, row, prompts[p].ids, prompts[p].n, 0, -1);
        row += prompts[p].n;
        prompt_end[p] = row - 1;
        for (int a = 0; a < pack->n_answers; a++) {
            if (answers[a].prompt != p) { continue; }
            first_row[a] = row;
            if (answers[a].n == 1) { continue; }
            place_segment(pack, s++, row, answers[a].ids, answers[a].n - 1, prompts[p].n, own);
            row += answers[a].n - 1;
        }
    }
    MOT_ASSERT(row == pack->T && s == pack->n_segments);
}

static void place_targets(struct mot_pack *pack, const struct mot_pack_answer *answers,
                          const int *first_row, const int *prompt_end)
{
    int t = 0;
    for (int a = 0; a < pack->n_answers; a++) {
        pack->answers[a] = answers[a];
        pack->answers[a].ids = NULL;
        pack->answers[a].old = NULL;
        for (int i = 0; i < answers[a].n; i++, t++) {
            pack->row[t] = i == 0 ? prompt_end[answers[a].prompt] : first_row[a] + i - 1;
            pack->target[t] = answers[a].ids[i];
            pack->answer_of[t] = a;
            pack->old[t] = answers[a].old ? answers[a].old[i] : 0.0f;
            pack->weight[t] = answers[a].weight;
        }
    }
    MOT_ASSERT(t == pack->n_targets);
}

struct mot_pack *mot_pack_create(const struct mot_pack_prompt *prompts, int n_prompts,
                                 const struct mot_pack_answer *answers, int n_answers)
{
    MOT_ASSERT(n_prompts >= 1 && n_answers >= 1);
    struct mot_pack *pack = mot_alloc_zeroed(1, sizeof(*pack));
    pack->n_prompts = n_prompts;
    pack->n_answers = n_answers;
    count_rows(pack, prompts, answers);
    allocate(pack);

    int *first_row = mot_alloc_zeroed((size_t)n_answers, sizeof(*first_row));
    int *prompt_end = mot_alloc_zeroed((size_t)n_prompts, sizeof(*prompt_end));
    place_rows(pack, prompts, answers, first_row, prompt_end);
    place_targets(pack, answers, first_row, prompt_end);
    free(first_row);
    free(prompt_end);
    return pack;
}

void mot_pack_destroy(struct mot_pack *pack)
{
    if (pack == NULL) { return; }
    free(pack->ids);
    free(pack->position);
    free(pack->segments);
    free(pack->prefix_of);
    free(pack->row);
    free(pack->target);
    free(pack->answer_of);
    free(pack->old);
    free(pack->weight);
    free(pack->answers);
    free(pack);
}

struct mot_segment *mot_pack_bind(const struct mot_pack *pack, const struct mot_model_shape *shape,
                                  struct mot_arena *arena)
{
    const size_t bytes = (size_t)pack->n_segments * sizeof(struct mot_segment);
    struct mot_segment *segments = mot_arena_take(arena, bytes);
    memcpy(segments, pack->segments, bytes);
    for (int s = 0; s < pack->n_segments; s++) {
        struct mot_kv *own = &segments[s].own;
        own->data = mot_arena_take(arena, mot_kv_bytes(shape, own->capacity));
        if (pack->prefix_of[s] >= 0) { segments[s].prefix = segments[pack->prefix_of[s]].own; }
    }
    return segments;
}

double mot_pack_forward_flop(const struct mot_pack *pack, const struct mot_model_shape *shape)
{
    double flop = pack->n_targets * mot_head_flop_per_token(shape);
    for (int t = 0; t < pack->T; t++) {
        flop += mot_layer_flop_per_token(shape, pack->position[t] + 1.0);
    }
    return flop;
}
