/* grpo_report: metrics and completions of a step.  See grpo_report.h. */
#include "grpo_report.h"
#include "json.h"
#include <math.h>
#include <string.h>
#include <sys/resource.h>

/* Mean, deviation (n - 1), least and most of numbers added one by one; NaN are left out. */
struct spread {
    double n, sum, sq, min, max;
};

static void spread_add(struct spread *s, double x)
{
    if (isnan(x)) { return; }
    s->min = s->n == 0 || x < s->min ? x : s->min;
    s->max = s->n == 0 || x > s->max ? x : s->max;
    s->n += 1;
    s->sum += x;
    s->sq += x * x;
}

static double spread_mean(const struct spread *s)
{
    return s->n > 0 ? s->sum / s->n : NAN;
}

static double spread_std(const struct spread *s)
{
    if (s->n < 2) { return 0.0; }
    const double var = (s->sq - s->sum * s->sum / s->n) / (s->n - 1);
    return sqrt(var > 0 ? var : 0);
}

static void put(json_t *o, const char *name, double value)
{
    json_object_set_new(o, name, mot_json_number(value));
}

static void put_of(json_t *o, const char *scope, const char *name, const char *what, double value)
{
    char key[160];
    snprintf(key, sizeof(key), "%s/%s%s%s", scope, name, what[0] ? "/" : "", what);
    json_object_set_new(o, key, mot_json_number(value));
}

static const float *scores_of(const struct mot_grpo *grpo, const struct mot_grpo_result *r,
                              int group, int sample)
{
    return r->groups[group].scores + (size_t)(sample * 2 * grpo->n_functions);
}

static void put_rewards(json_t *o, const struct mot_grpo *grpo, const struct mot_grpo_result *r)
{
    const int P = r->rollout->n_groups, G = grpo->num_generations;
    struct mot_advantage_sums sums = {0};
    double errors = 0.0;
    for (int p = 0; p < P; p++) {
        const struct mot_advantage_sums *s = &r->groups[p].sums;
        sums.rewards += s->rewards;
        sums.reward_sum += s->reward_sum;
        sums.abstained += s->abstained;
        sums.groups += s->groups;
        sums.groups_zero_std += s->groups_zero_std;
        sums.group_std_sum += s->group_std_sum;
        sums.groups_with_std += s->groups_with_std;
    }
    put(o, "reward", sums.rewards > 0 ? sums.reward_sum / sums.rewards : NAN);
    put(o, "reward_std",
        sums.groups_with_std > 0 ? sums.group_std_sum / sums.groups_with_std : 0.0);
    put(o, "frac_reward_zero_std", sums.groups > 0 ? sums.groups_zero_std / sums.groups : NAN);
    for (int f = 0; f < grpo->n_functions; f++) {
        struct spread of_function = {0};
        for (int i = 0; i < P * G; i++) {
            const float *scores = scores_of(grpo, r, i / G, i % G);
            spread_add(&of_function, scores[f]);
            errors += scores[grpo->n_functions + f];
        }
        const char *name = grpo->functions[f].label;
        put_of(o, "rewards", name, "mean", spread_mean(&of_function));
        put_of(o, "rewards", name, "std", spread_std(&of_function));
    }
    put(o, "reward/abstained", sums.abstained);
    put(o, "reward/errors", errors);
}

static void put_lengths(json_t *o, const struct mot_grpo *grpo, const struct mot_grpo_result *r)
{
    struct spread all = {0}, ended = {0};
    const int G = grpo->num_generations, n = r->rollout->n_groups * G;
    double clipped = 0;
    for (int i = 0; i < n; i++) {
        const struct mot_row *row = &r->rollout->groups[i / G].rows[i % G];
        spread_add(&all, row->n);
        if (row->end == MOT_ROW_LENGTH) {
            clipped += 1;
        } else {
            spread_add(&ended, row->n);
        }
    }
    put(o, "completions/mean_length", spread_mean(&all));
    put(o, "completions/min_length", all.min);
    put(o, "completions/max_length", all.max);
    put(o, "completions/mean_terminated_length", ended.n > 0 ? spread_mean(&ended) : 0.0);
    put(o, "completions/min_terminated_length", ended.min);
    put(o, "completions/max_terminated_length", ended.max);
    put(o, "completions/clipped_ratio", clipped / n);
}

/* Steps by which the weights that drew a token are behind those it trains. */
static void put_staleness(json_t *o, const struct mot_grpo_result *r)
{
    struct spread all = {0};
    for (int p = 0; p < r->rollout->n_groups; p++) {
        const struct mot_group *g = &r->rollout->groups[p];
        for (int k = 0; k < g->n_rows; k++) {
            for (int t = 0; t < g->rows[k].n; t++) {
                spread_add(&all, (double)(r->step - g->version_step));
            }
        }
    }
    put(o, "staleness/min", all.min);
    put(o, "staleness/mean", spread_mean(&all));
    put(o, "staleness/max", all.max);
}

/* The optimiser steps of the step: means over their tokens (masked answers have none), the last
 * one's learning rate.  clip_ratio/low_min and high_max: means over the optimiser steps. */
static void put_updates(json_t *o, const struct mot_grpo_result *r)
{
    struct mot_train_metrics sum = {0};
    struct spread low_min = {0}, high_max = {0};
    double loss = 0, norm = 0, min = INFINITY, max = -INFINITY;
    for (int i = 0; i < r->n_updates; i++) {
        const struct mot_train_metrics *m = &r->updates[i];
        loss += m->loss / r->n_updates;
        norm += m->grad_norm / r->n_updates;
        sum.tokens += m->tokens;
        sum.entropy_sum += m->entropy_sum;
        sum.kl_sum += m->kl_sum;
        sum.clip_low += m->clip_low;
        sum.clip_high += m->clip_high;
        sum.clip_region += m->clip_region;
        sum.ratio_sum += m->ratio_sum;
        sum.ratio_sq_sum += m->ratio_sq_sum;
        spread_add(&low_min, m->answers > 0 ? m->clip_low_min : NAN);
        spread_add(&high_max, m->answers > 0 ? m->clip_high_max : NAN);
        sum.skipped += m->skipped != 0;
        min = m->tokens > 0 && m->ratio_min < min ? m->ratio_min : min;
        max = m->tokens > 0 && m->ratio_max > max ? m->ratio_max : max;
    }
    const double n = sum.tokens > 0 ? sum.tokens : NAN;
    const double mean = sum.ratio_sum / n, var = sum.ratio_sq_sum / n - mean * mean;
    put(o, "loss", loss);
    put(o, "grad_norm", norm);
    put(o, "learning_rate", r->updates[r->n_updates - 1].learning_rate);
    put(o, "entropy", sum.entropy_sum / n);
    put(o, "kl", sum.kl_sum / n);
    put(o, "clip_ratio/low_mean", sum.clip_low / n);
    put(o, "clip_ratio/low_min", spread_mean(&low_min));
    put(o, "clip_ratio/high_mean", sum.clip_high / n);
    put(o, "clip_ratio/high_max", spread_mean(&high_max));
    put(o, "clip_ratio/region_mean", sum.clip_region / n);
    put(o, "ratio/mean", mean);
    put(o, "ratio/std", sqrt(var > 0 ? var : 0));
    put(o, "ratio/min", min);
    put(o, "ratio/max", max);
    put(o, "optim/skipped_updates", sum.skipped);
}

/* The sampler against the policy at the start of the updates.  That is the trainer's before the
 * first update, which without staleness has the sampler's weights (then this is pure numerics);
 * with proximal log-probs it stays the same over the whole first iteration. */
static void put_sampler(json_t *o, const struct mot_grpo *grpo, const struct mot_grpo_result *r)
{
    const int has_proximal = grpo->max_staleness > 0 && grpo->correct_importance;
    const int n = has_proximal ? r->n_updates / grpo->num_iterations : 1;
    struct mot_importance_sums sums = {0};
    double tokens = 0, difference = 0, most = 0;
    for (int i = 0; i < n; i++) {
        const struct mot_train_metrics *m = &r->updates[i];
        tokens += m->tokens;
        difference += m->logprob_difference_sum;
        most = fmax(most, m->logprob_difference_max);
        mot_importance_sums_add(&sums, &m->importance);
    }
    put(o, "sampling/sampling_logp_difference/mean", tokens > 0 ? difference / tokens : NAN);
    put(o, "sampling/sampling_logp_difference/max", most);
    if (sums.n > 0) {
        put(o, "sampling/importance_sampling_ratio/min", sums.min);
        put(o, "sampling/importance_sampling_ratio/mean", sums.sum / sums.n);
        put(o, "sampling/importance_sampling_ratio/max", sums.max);
    }
}

static void put_speed(json_t *o, const struct mot_grpo_result *r)
{
    double forwarded = 0, prompt = 0;
    for (int i = 0; i < r->n_updates; i++) {
        forwarded += r->updates[i].forward_tokens;
        prompt += r->updates[i].prompt_tokens;
    }
    const struct mot_rollout *rollout = r->rollout;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    put(o, "step_time", r->seconds);
    put(o, "timing_s/step", r->seconds);
    put(o, "timing_s/gen", r->generate_seconds);
    put(o, "perf/total_num_tokens", (double)rollout->generated_tokens);
    put(o, "perf/throughput", (double)rollout->generated_tokens / r->seconds);
    put(o, "perf/prompt_tokens_prefilled", (double)rollout->prompt_tokens);
    put(o, "perf/prompt_tokens_trained", prompt);
    put(o, "perf/tokens_trained", forwarded);
    put(o, "perf/generate_tasks", rollout->generate_tasks);
    put(o, "perf/max_memory_allocated_gb", (double)usage.ru_maxrss / (1 << 20));
}

double mot_grpo_tokens(const struct mot_grpo_result *r)
{
    double tokens = 0;
    for (int p = 0; p < r->rollout->n_groups; p++) {
        const struct mot_group *g = &r->rollout->groups[p];
        for (int k = 0; k < g->n_rows; k++) { tokens += g->prompt_tokens + g->rows[k].n; }
    }
    return tokens;
}

json_t *mot_grpo_metrics(const struct mot_grpo *grpo, int step,
                         const struct mot_grpo_result *result)
{
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(step + 1));
    const double per_epoch = (double)grpo->dataset->n / grpo->prompts_per_step;
    put(o, "epoch", (step + 1) / per_epoch);
    put_updates(o, result);
    put_sampler(o, grpo, result);
    put_rewards(o, grpo, result);
    put_lengths(o, grpo, result);
    put_staleness(o, result);
    put_speed(o, result);
    return o;
}

static json_t *ids_array(const int32_t *ids, int n)
{
    json_t *array = json_array();
    for (int i = 0; i < n; i++) { json_array_append_new(array, json_integer(ids[i])); }
    return array;
}

json_t *mot_grpo_completion(const struct mot_grpo *grpo, int step,
                            const struct mot_grpo_result *result, int answer)
{
    const int G = grpo->num_generations, group = answer / G, sample = answer % G;
    const struct mot_group *g = &result->rollout->groups[group];
    const struct mot_row *row = &g->rows[sample];
    const struct mot_example *example = &grpo->dataset->examples[g->example];
    json_t *o = json_object(), *logprob = json_array(), *version = json_array();
    for (int i = 0; i < row->n; i++) {
        json_array_append_new(logprob, json_real(row->logprob[i]));
        json_array_append_new(version, json_integer(row->version[i]));
    }
    json_object_set_new(o, "step", json_integer(step + 1));
    json_object_set_new(o, "group", json_integer(group));
    json_object_set_new(o, "sample", json_integer(sample));
    json_object_set_new(o, "example", json_integer(g->example));
    json_object_set_new(o, "prompt",
                        mot_json_string(example->prompt_text, strlen(example->prompt_text)));
    json_object_set_new(o, "completion", mot_json_string(row->text, row->text_bytes));
    if (example->answer != NULL) {
        json_object_set_new(o, "answer", mot_json_string(example->answer, strlen(example->answer)));
    }
    put(o, "reward", result->groups[group].rewards[sample]);
    put(o, "advantage", result->groups[group].advantages[sample]);
    for (int f = 0; f < grpo->n_functions; f++) {
        put_of(o, "rewards", grpo->functions[f].label, "",
               scores_of(grpo, result, group, sample)[f]);
    }
    json_object_set_new(o, "end", json_string(mot_row_end_name(row->end)));
    json_object_set_new(o, "prompt_ids", ids_array(g->prompt, g->prompt_tokens));
    json_object_set_new(o, "completion_ids", ids_array(row->ids, row->n));
    json_object_set_new(o, "logprob", logprob);
    json_object_set_new(o, "version", version);
    return o;
}
