/* evaluate: a rollout over a data set and its scores.  See evaluate.h. */
#include "evaluate.h"
#include <math.h>
#include <stdlib.h>

struct evaluation {
    const struct mot_dataset *dataset;
    const struct mot_evaluate_options *options;
    struct mot_scored_group *groups;
};

static void row_ended(void *context, struct mot_row *row)
{
    struct evaluation *e = context;
    mot_task_must(mot_scoring_submit(
        &e->groups[row->group->index], row, &e->dataset->examples[row->group->example],
        e->options->functions, e->options->n_functions, e->options->rollout.step));
}

/* The weighted sum of a row's scores, waiting for them; NaN where all abstain. */
static double score_of(const struct evaluation *e, const struct mot_row *row)
{
    const struct mot_scored_group *g = &e->groups[row->group->index];
    const int F = e->options->n_functions;
    double sum = 0.0;
    int seen = 0;
    starpu_data_acquire(g->score_handles[row->sample], STARPU_R);
    for (int f = 0; f < F; f++) {
        const float value = g->scores[row->sample * 2 * F + f];
        if (isnan(value)) { continue; }
        sum += e->options->functions[f].weight * value;
        seen = 1;
    }
    starpu_data_release(g->score_handles[row->sample]);
    return seen ? sum : NAN;
}

static void summarise(const struct evaluation *e, const struct mot_rollout *rollout,
                      struct mot_evaluation *r)
{
    double positive = 0.0, sq = 0.0;
    for (int f = 0; f < e->options->n_functions; f++) {
        positive += fmax(e->options->functions[f].weight, 0.0);
    }
    double scored = 0.0;
    for (int i = 0; i < r->n; i++) {
        int right = 0;
        for (int k = 0; k < r->samples; k++) {
            const struct mot_row *row = &rollout->groups[i].rows[k];
            const double score = score_of(e, row);
            if (e->options->answer) { e->options->answer(e->options->context, row, score); }
            r->mean_length += row->n;
            r->truncated += row->end == MOT_ROW_LENGTH;
            right += score > 0.5 * positive; /* NaN is not right */
            if (!isnan(score)) {
                r->score += score;
                scored += 1.0;
            }
        }
        const double share = (double)right / r->samples;
        r->accuracy += share / r->n;
        r->pass_at_k += (right > 0) / (double)r->n;
        sq += share * share;
    }
    const double answers = (double)r->n * r->samples;
    r->score = scored > 0 ? r->score / scored : NAN;
    r->mean_length /= answers;
    r->truncated /= answers;
    const double var = r->n > 1 ? (sq - r->n * r->accuracy * r->accuracy) / (r->n - 1) : 0.0;
    const double half = 1.96 * sqrt(fmax(var, 0.0) / r->n);
    r->low = fmax(r->accuracy - half, 0.0);
    r->high = fmin(r->accuracy + half, 1.0);
}

int mot_evaluate(struct mot_actor *actor, const struct mot_dataset *dataset,
                 const struct mot_evaluate_options *options, struct mot_evaluation *result)
{
    const int all = dataset->n, limit = options->limit;
    struct mot_evaluation r = {.n = limit > 0 && limit < all ? limit : all,
                               .samples = options->samples};
    struct evaluation e = {.dataset = dataset, .options = options};
    int error = mot_rollout_check_counts(r.n, r.samples); /* before anything of that size is made */
    if (error) { return error; }
    struct mot_prompt *prompts = mot_alloc((size_t)r.n * sizeof(*prompts));
    for (int i = 0; i < r.n; i++) {
        const struct mot_ids *ids = &dataset->examples[i].prompt;
        prompts[i] = (struct mot_prompt){.ids = ids->id, .n = (int)ids->n, .example = i};
    }
    e.groups = mot_scoring_create(r.n, r.samples, options->n_functions);
    const struct mot_rollout_listener listener = {.row = row_ended, .context = &e};
    const double start_us = starpu_timing_now();
    struct mot_rollout *rollout;
    error = mot_rollout_start(actor, mot_actor_read(actor), prompts, r.n, r.samples,
                              &options->rollout, &listener, &rollout);
    if (error == 0) {
        mot_rollout_wait(rollout);
        summarise(&e, rollout, &r);
        r.seconds = (starpu_timing_now() - start_us) * 1e-6;
    }
    mot_scoring_destroy(e.groups, r.n, r.samples);
    if (error == 0) {
        mot_rollout_destroy(rollout);
        *result = r;
    }
    free(prompts);
    return error;
}
