/* generate: CPU variant, codelet, submission.  See generate.h. */
#include "generate.h"
#include "packed_weights.h"
#include "prefill.h"
#include "rng.h"
#include "simulate.h"
#include <stdlib.h>
#include <string.h>

size_t mot_drawn_bytes(int n_rows, int tokens_max)
{
    const struct mot_drawn *d = NULL;
    return sizeof(*d) + (size_t)n_rows * sizeof(d->row[0])
           + (size_t)n_rows * (size_t)tokens_max * sizeof(struct mot_sampled);
}

static struct mot_sampled *tokens_of(struct mot_drawn *drawn, int row)
{
    struct mot_sampled *tokens = (struct mot_sampled *)&drawn->row[drawn->n_rows];
    return tokens + (size_t)row * (size_t)drawn->tokens_max;
}

const struct mot_sampled *mot_drawn_tokens(const struct mot_drawn *drawn, int row)
{
    return tokens_of((struct mot_drawn *)drawn, row);
}

/* The task's argument: one block, copied at submission. */
struct argument {
    const struct mot_stage_context *context;
    int n_groups, n_packed; /* buffers before the prompts' */
    int n_prompts, n_rows, tokens_max;
    struct mot_sampling sampling;
    uint64_t seed;
    uint32_t rng_step;
    int n_eos;
    int32_t eos[MOT_EOS_MAX];
    struct mot_generate_row rows[];
};

/* One decoding step over the active rows: arrays of (n_rows), filled anew for each token. */
struct decode {
    struct mot_exec *e;
    const struct argument *a;
    float **pointers; /* all buffers of the task */
    float **packed;   /* those of packed weights; NULL: none */
    float **prompts, **rows;
    struct mot_drawn *drawn;
    int *active; /* rows of the task that go on */
    int n_active;
    struct mot_segment *segments;
    int32_t *ids, *position;
    float *uniform, *hidden, *forwarded;
    struct mot_sampled *sampled;
};

static int tokens_so_far(const struct decode *d, int row)
{
    return d->a->rows[row].n + d->drawn->row[row].n;
}

/* hidden (n_active, C): the state that the next token of each active row is drawn from. */
static void next_hidden(struct decode *d)
{
    const struct argument *a = d->a;
    const struct mot_transformer *transformer = a->context->transformer;
    const struct mot_model_shape *shape = &transformer->layout.shape;
    const size_t C = (size_t)shape->hidden_size;
    int T = 0;
    for (int i = 0; i < d->n_active; i++) {
        const int r = d->active[i], n = tokens_so_far(d, r);
        const struct mot_generate_row *row = &a->rows[r];
        if (n == 0) { continue; } /* drawn from the prompt's own last state */
        const int fresh = d->drawn->row[r].n;
        d->ids[T] = fresh > 0 ? tokens_of(d->drawn, r)[fresh - 1].id : row->last_id;
        d->position[T] = row->prompt_tokens + n - 1;
        float *prompt = d->prompts[row->prompt];
        d->segments[T] = (struct mot_segment){
            .first = T,
            .count = 1,
            .position = d->position[T],
            .prefix = mot_prompt_cache_kv(prompt, row->prompt_tokens),
            .own = {.data = d->rows[r],
                    .capacity = row->capacity,
                    .first_position = row->prompt_tokens},
        };
        T++;
    }
    const struct mot_batch batch = {
        .T = T, .n_segments = T, .ids = d->ids, .position = d->position, .segments = d->segments};
    if (T > 0) {
        mot_transformer_forward_packed(d->e, transformer, (const float *const *)d->pointers,
                                       (const float *const *)d->packed, &batch, d->forwarded);
    }
    const float *from = d->forwarded;
    for (int i = 0; i < d->n_active; i++) {
        const struct mot_generate_row *row = &a->rows[d->active[i]];
        const float *state = from;
        if (tokens_so_far(d, d->active[i]) == 0) {
            state = mot_prompt_cache_hidden(shape, d->prompts[row->prompt], row->prompt_tokens);
        } else {
            from += C;
        }
        memcpy(d->hidden + (size_t)i * C, state, C * sizeof(float));
    }
}

static int is_eos(const struct argument *a, int32_t id)
{
    for (int i = 0; i < a->n_eos; i++) {
        if (a->eos[i] == id) { return 1; }
    }
    return 0;
}

/* Draws one token for each active row and drops the rows that are through. */
static void draw_tokens(struct decode *d)
{
    const struct argument *a = d->a;
    for (int i = 0; i < d->n_active; i++) {
        const struct mot_generate_row *row = &a->rows[d->active[i]];
        d->uniform[i] = mot_uniform(a->seed, MOT_RNG_SAMPLE, a->rng_step,
                                    row->rng_prompt << 16 | row->rng_sample,
                                    (uint32_t)tokens_so_far(d, d->active[i]));
    }
    const float *head = d->packed ? d->packed[a->n_packed - 1] : NULL;
    mot_head_sample(d->e, a->context->transformer, (const float *const *)d->pointers, head,
                    d->hidden, d->n_active, &a->sampling, d->uniform, d->sampled);
    int still = 0;
    for (int i = 0; i < d->n_active; i++) {
        const int r = d->active[i];
        tokens_of(d->drawn, r)[d->drawn->row[r].n++] = d->sampled[i];
        d->drawn->row[r].ended = is_eos(a, d->sampled[i].id);
        if (!d->drawn->row[r].ended && d->drawn->row[r].n < a->tokens_max
            && tokens_so_far(d, r) < a->rows[r].max_tokens) {
            d->active[still++] = r;
        }
    }
    d->n_active = still;
}

static void generate_cpu(void *buffers[], void *cl_arg)
{
    const struct argument *a = cl_arg;
    struct mot_exec *e = mot_cpu_exec();
    const size_t C = (size_t)a->context->transformer->layout.shape.hidden_size;
    const size_t n = (size_t)a->n_rows;
    const int n_buffers = a->n_groups + a->n_packed + a->n_prompts + a->n_rows;
    struct decode d = {.e = e, .a = a, .n_active = a->n_rows};
    d.pointers = mot_arena_take(e->arena, (size_t)n_buffers * sizeof(float *));
    mot_stage_pointers(buffers, n_buffers, d.pointers);
    d.packed = a->n_packed > 0 ? d.pointers + a->n_groups : NULL;
    d.prompts = d.pointers + a->n_groups + a->n_packed;
    d.rows = d.prompts + a->n_prompts;
    d.drawn = (struct mot_drawn *)STARPU_VECTOR_GET_PTR(buffers[n_buffers]);
    d.drawn->n_rows = a->n_rows;
    d.drawn->tokens_max = a->tokens_max;
    d.active = mot_arena_take(e->arena, n * sizeof(int));
    d.segments = mot_arena_take(e->arena, n * sizeof(struct mot_segment));
    d.ids = mot_arena_take(e->arena, n * sizeof(int32_t));
    d.position = mot_arena_take(e->arena, n * sizeof(int32_t));
    d.uniform = mot_arena_take(e->arena, n * sizeof(float));
    d.hidden = mot_arena_take(e->arena, n * C * sizeof(float));
    d.forwarded = mot_arena_take(e->arena, n * C * sizeof(float));
    d.sampled = mot_arena_take(e->arena, n * sizeof(struct mot_sampled));
    for (int r = 0; r < a->n_rows; r++) {
        d.active[r] = r;
        d.drawn->row[r].n = 0;
        d.drawn->row[r].ended = 0;
    }
    while (d.n_active > 0) {
        const size_t mark = mot_arena_mark(e->arena);
        next_hidden(&d);
        draw_tokens(&d);
        mot_arena_reset(e->arena, mark);
    }
}

static struct starpu_perfmodel generate_model = MOT_STAGE_MODEL("motley_generate");

static struct starpu_codelet generate_codelet = {
    .name = "generate",
    .cpu_funcs = {generate_cpu},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &generate_model,
};

int mot_generate_tokens_max(const struct mot_generate *g)
{
    int most = 0;
    for (int r = 0; r < g->n_rows; r++) {
        const int left = g->rows[r].max_tokens - g->rows[r].n;
        if (left > most) { most = left; }
    }
    return g->chunk > 0 && g->chunk < most ? g->chunk : most;
}

/* Of the tokens a row may get, those up to its end at `end`; at least one. */
static int tokens_to(const struct mot_generate_row *row, int end, int tokens_max)
{
    const int left = (end < row->max_tokens ? end : row->max_tokens) - row->n;
    return left < 1 ? 1 : left < tokens_max ? left : tokens_max;
}

static int expected_tokens(const struct mot_generate_row *row, int tokens_max)
{
    return tokens_to(row, row->expected_tokens ? row->expected_tokens : row->max_tokens,
                     tokens_max);
}

int mot_generate_simulated_tokens(const struct mot_generate_row *row, int tokens_max)
{
    return row->simulated_tokens ? tokens_to(row, row->simulated_tokens, tokens_max)
                                 : expected_tokens(row, tokens_max);
}

/* Costs of rows that get so many new tokens each: operations by token; in bytes the weights once
 * for each step of all rows, and each row's keys and values. */
static void fill_hint(const struct mot_generate *g, int tokens_max,
                      int (*tokens_of)(const struct mot_generate_row *row, int tokens_max),
                      struct mot_hint *hint)
{
    const struct mot_layout *layout = &g->context->transformer->layout;
    const double number_bytes = g->context->number_bytes;
    const double key_bytes =
        number_bytes / (double)sizeof(float) * (double)mot_kv_bytes(&layout->shape, 1);
    int steps = 0;
    hint->flop = 0.0;
    hint->bytes = 0.0;
    hint->tokens = 0;
    for (int r = 0; r < g->n_rows; r++) {
        const int tokens = tokens_of(&g->rows[r], tokens_max);
        const double keys = g->rows[r].prompt_tokens + g->rows[r].n + 0.5 * tokens;
        hint->flop += tokens
                      * (mot_layer_flop_per_token(&layout->shape, keys)
                         + mot_head_flop_per_token(&layout->shape));
        hint->bytes += tokens * keys * key_bytes;
        hint->tokens += tokens;
        steps = tokens > steps ? tokens : steps;
    }
    hint->rows = g->n_rows;
    hint->bytes += number_bytes * (double)layout->parameters * steps;
}

int mot_insert_generate(const struct mot_generate *g)
{
    MOT_ASSERT(g->n_rows > 0 && g->n_eos <= MOT_EOS_MAX);
    const struct mot_layout *layout = &g->context->transformer->layout;
    const int n_groups = layout->n_groups;
    const int n_packed = g->packed ? mot_packing_groups(layout) : 0;
    const size_t bytes = sizeof(struct argument) + (size_t)g->n_rows * sizeof(g->rows[0]);
    struct argument *a = mot_alloc(bytes);
    *a = (struct argument){.context = g->context,
                           .n_groups = n_groups,
                           .n_packed = n_packed,
                           .n_prompts = g->n_prompts,
                           .n_rows = g->n_rows,
                           .tokens_max = mot_generate_tokens_max(g),
                           .sampling = g->sampling,
                           .seed = g->seed,
                           .rng_step = g->rng_step,
                           .n_eos = g->n_eos};
    memcpy(a->eos, g->eos, sizeof(a->eos));
    memcpy(a->rows, g->rows, (size_t)g->n_rows * sizeof(g->rows[0]));
    struct mot_buffers b = {0};
    mot_buffers_add_all(&b, g->weights, n_groups, STARPU_R);
    mot_buffers_add_all(&b, g->packed, n_packed, STARPU_R);
    mot_buffers_add_all(&b, g->prompts, g->n_prompts, STARPU_R);
    for (int r = 0; r < g->n_rows; r++) {
        MOT_ASSERT(g->rows[r].n < g->rows[r].max_tokens);
        MOT_ASSERT(g->rows[r].rng_prompt < 65536 && g->rows[r].rng_sample < 65536);
        mot_buffers_add(&b, g->row_caches[r], g->rows[r].n == 0 ? STARPU_W : STARPU_RW);
    }
    mot_buffers_add(&b, g->drawn, STARPU_W);
    struct mot_task task = {.codelet = &generate_codelet,
                            .name = "rollout.generate",
                            .hint = g->hint,
                            .priority = g->priority,
                            .done = g->done,
                            .argument_done = g->argument_done};
    fill_hint(g, a->tokens_max, expected_tokens, &task.hint);
    struct mot_hint truth = task.hint;
    if (MOT_SIMULATES) {
        fill_hint(g, a->tokens_max, mot_generate_simulated_tokens, &truth);
        task.simulated.truth = &truth;
    }
    const int error = mot_stage_insert(&task, &b, a, bytes);
    free(a);
    return error;
}
