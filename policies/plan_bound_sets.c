/* plan_bound_sets: tasks that can only run between a head and a tail, and heads and tails that
 * count work.
 *
 * Prices make the search for good sets cheap: for prices a_c >= 0 with sum m_c a_c = 1, the work
 * sum over the set of min_c(a_c p_tc) is at most its area (the dual of the area program).  Heads:
 * all ancestors of a task that start at h or later run between h and its start; so do descendants
 * between its end and their least tail. */
#include "error.h"
#include "plan_bound_internal.h"
#include "plan_list.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { THRESHOLDS_MAX = 24, KINDS_MAX = 8 };
static const double EFFORT = 3e8; /* tasks x prices looked at, in all */

/* ---- Prices ---------------------------------------------------------------------------------- */

static void add_price(struct bound_problem *p, const char *set)
{
    double *price = mot_alloc((size_t)p->C * sizeof(*price)), sum = 0.0, off = INFINITY;
    if (p->K < BOUND_PRICES && isfinite(bound_area(p, set, 0, price))) {
        for (int c = 0; c < p->C; c++) { sum += price[c] * p->graph->classes[c].workers; }
        for (int c = 0; c < p->C && sum > 0.0; c++) { price[c] /= sum; }
        for (int k = 0; k < p->K; k++) {
            double difference = 0.0;
            for (int c = 0; c < p->C; c++) {
                difference = fmax(difference, fabs(p->price[k * p->C + c] - price[c]));
            }
            off = fmin(off, difference);
        }
        if (sum > 0.0 && off > 1e-4) {
            memcpy(p->price + p->K++ * p->C, price, (size_t)p->C * sizeof(*price));
        }
    }
    free(price);
}

/* The kinds of tasks, at most KINDS_MAX; kind (n) their index, KINDS_MAX for those beyond. */
static int find_kinds(const struct bound_problem *p, int *kind)
{
    const char *names[KINDS_MAX];
    int kinds = 0;
    for (int t = 0; t < p->n; t++) {
        const char *name = p->graph->tasks[t].kind ? p->graph->tasks[t].kind : "";
        int k = 0;
        while (k < kinds && strcmp(names[k], name) != 0) { k++; }
        if (k == kinds && kinds < KINDS_MAX) { names[kinds++] = name; }
        kind[t] = k;
    }
    return kinds;
}

/* From the whole graph, each kind, and what has little head or tail. */
static void make_prices(struct bound_problem *p, const int *kind, int kinds, double path)
{
    p->price = mot_alloc_zeroed((size_t)BOUND_PRICES * (size_t)p->C, sizeof(double));
    char *set = mot_alloc((size_t)p->n);
    add_price(p, NULL);
    for (int i = 0; i < kinds + 6 && p->C > 1; i++) {
        int some = 0;
        for (int t = 0; t < p->n; t++) {
            const double part = path * ((i - kinds) % 3 + 1) / 4.0;
            set[t] = (char)(i < kinds       ? kind[t] == i
                            : i < kinds + 3 ? p->head[t] >= part
                                            : p->tail[t] >= part);
            some |= set[t];
        }
        if (some) { add_price(p, set); }
    }
    free(set);
}

static void make_work(struct bound_problem *p)
{
    p->work = mot_alloc_zeroed((size_t)p->n * (size_t)p->K + 1, sizeof(double));
    for (int t = 0; t < p->n; t++) {
        for (int k = 0; k < p->K; k++) {
            double least = INFINITY;
            for (int c = 0; c < p->C; c++) {
                const double ms = p->ms[(size_t)t * (size_t)p->C + (size_t)c];
                if (isfinite(ms)) { least = fmin(least, p->price[k * p->C + c] * ms); }
            }
            p->work[(size_t)t * (size_t)p->K + (size_t)k] = least;
        }
    }
}

/* ---- Heads and tails that count work --------------------------------------------------------- */

struct keyed {
    double key;
    int task;
};

static int compare_falling(const void *a, const void *b)
{
    const double x = ((const struct keyed *)a)->key, y = ((const struct keyed *)b)->key;
    return (x < y) - (x > y);
}

/* max over thresholds of key + work of the m tasks from that key on. */
static double work_beyond(const struct bound_problem *p, struct keyed *item, int m)
{
    double work[BOUND_PRICES] = {0}, best = 0.0;
    qsort(item, (size_t)m, sizeof(*item), compare_falling);
    for (int i = 0; i < m; i++) {
        const double *own = p->work + (size_t)item[i].task * (size_t)p->K;
        for (int k = 0; k < p->K; k++) {
            work[k] += own[k];
            best = fmax(best, item[i].key + work[k]);
        }
    }
    return best;
}

static void make_closure(struct bound_problem *p)
{
    if (p->n > BOUND_CLOSURE_MAX) { return; }
    p->words = (p->n + 63) / 64;
    p->above = mot_alloc_zeroed((size_t)p->n * (size_t)p->words, sizeof(*p->above));
    for (int i = 0; i < p->n; i++) {
        const int t = p->order[i];
        uint64_t *row = p->above + (size_t)t * (size_t)p->words;
        for (int j = p->in.start[t]; j < p->in.start[t + 1]; j++) {
            const int before = p->graph->edges[p->in.edge[j]].before;
            const uint64_t *other = p->above + (size_t)before * (size_t)p->words;
            for (int w = 0; w < p->words; w++) { row[w] |= other[w]; }
            row[before / 64] |= (uint64_t)1 << (before % 64);
        }
    }
}

/* The tasks of a row of bits, with their keys; their number. */
static int gather(const uint64_t *row, int words, const double *key, struct keyed *item)
{
    int m = 0;
    for (int w = 0; w < words; w++) {
        for (uint64_t set = row[w]; set; set &= set - 1) {
            const int t = 64 * w + __builtin_ctzll(set);
            item[m++] = (struct keyed){key[t], t};
        }
    }
    return m;
}

/* Tasks with one neighbour add nothing that the way through it does not have already: the work of
 * that neighbour and its own ancestors is in the neighbour's head. */
static void strengthen_heads(struct bound_problem *p, struct keyed *item)
{
    for (int i = 0; i < p->n; i++) {
        const int t = p->order[i];
        for (int j = p->in.start[t]; j < p->in.start[t + 1]; j++) {
            const int a = p->graph->edges[p->in.edge[j]].before;
            p->head[t] = fmax(p->head[t], p->head[a] + p->fastest[a]);
        }
        if (p->in.start[t + 1] - p->in.start[t] > 1) {
            const int m = gather(p->above + (size_t)t * (size_t)p->words, p->words, p->head, item);
            p->head[t] = fmax(p->head[t], work_beyond(p, item, m));
        }
    }
}

static void strengthen_tails(struct bound_problem *p, struct keyed *item)
{
    const size_t words = (size_t)p->words;
    uint64_t *below = mot_alloc_zeroed((size_t)p->n * words, sizeof(*below));
    for (int i = p->n - 1; i >= 0; i--) {
        const int t = p->order[i];
        uint64_t *row = below + (size_t)t * words;
        for (int j = p->out.start[t]; j < p->out.start[t + 1]; j++) {
            const int b = p->graph->edges[p->out.edge[j]].after;
            for (size_t w = 0; w < words; w++) { row[w] |= below[(size_t)b * words + w]; }
            row[b / 64] |= (uint64_t)1 << (b % 64);
            p->tail[t] = fmax(p->tail[t], p->fastest[b] + p->tail[b]);
        }
        if (p->out.start[t + 1] - p->out.start[t] > 1) {
            const int m = gather(row, p->words, p->tail, item);
            p->tail[t] = fmax(p->tail[t], work_beyond(p, item, m));
        }
    }
    free(below);
}

/* ---- Sets ------------------------------------------------------------------------------------ */

/* A set by its rule: tasks of a kind (-1: all) with at least this head and tail. */
struct rule {
    int kind;
    double head, tail, value;
};

/* The rule's priced bound, with the least head and tail that its tasks have. */
static void evaluate(const struct bound_problem *p, const int *kind, struct rule *rule)
{
    double work[BOUND_PRICES] = {0}, head = INFINITY, tail = INFINITY;
    for (int t = 0; t < p->n; t++) {
        if (p->head[t] < rule->head || p->tail[t] < rule->tail) { continue; }
        if (rule->kind >= 0 && kind[t] != rule->kind) { continue; }
        head = fmin(head, p->head[t]);
        tail = fmin(tail, p->tail[t]);
        for (int k = 0; k < p->K; k++) { work[k] += p->work[(size_t)t * (size_t)p->K + (size_t)k]; }
    }
    rule->value = -1.0;
    if (!isfinite(head)) { return; }
    for (int k = 0; k < p->K; k++) { rule->value = fmax(rule->value, head + work[k] + tail); }
    rule->head = head;
    rule->tail = tail;
}

/* count values of key (n), evenly spread in rank from the least on; equal ones once. */
static int spread(const double *key, int n, int count, double *value)
{
    struct keyed *item = mot_alloc((size_t)n * sizeof(*item));
    for (int t = 0; t < n; t++) { item[t] = (struct keyed){key[t], t}; }
    qsort(item, (size_t)n, sizeof(*item), compare_falling);
    int different = 0;
    for (int i = 0; i < n; i++) {
        if (i == 0 || item[i].key != item[different - 1].key) { item[different++] = item[i]; }
    }
    const int m = different < count ? different : count;
    for (int i = 0; i < m; i++) {
        value[i] = item[m > 1 ? (int)((int64_t)i * (different - 1) / (m - 1)) : 0].key;
    }
    free(item);
    return m;
}

/* Keeps the BOUND_SETS best of different rules, best first. */
static void offer(struct rule *best, int *n, const struct rule *rule)
{
    for (int i = 0; i < *n; i++) {
        if (best[i].kind == rule->kind && best[i].head == rule->head
            && best[i].tail == rule->tail) {
            return;
        }
    }
    int at = *n < BOUND_SETS ? (*n)++ : BOUND_SETS;
    while (at > 0 && best[at - 1].value < rule->value) {
        if (at < BOUND_SETS) { best[at] = best[at - 1]; }
        at--;
    }
    if (at < BOUND_SETS) { best[at] = *rule; }
}

static int find_rules(const struct bound_problem *p, const int *kind, int kinds,
                      struct rule best[BOUND_SETS])
{
    double head[THRESHOLDS_MAX], tail[THRESHOLDS_MAX];
    const int groups = kinds > 1 ? kinds + 1 : 1;
    int count = (int)sqrt(EFFORT / ((double)p->n * p->K * groups));
    count = count < 3 ? 3 : count > THRESHOLDS_MAX ? THRESHOLDS_MAX : count;
    const int heads = spread(p->head, p->n, count, head);
    const int tails = spread(p->tail, p->n, count, tail);
    int n = 0;
    for (int g = 0; g < groups; g++) {
        for (int i = 0; i < heads; i++) {
            for (int j = 0; j < tails; j++) {
                struct rule rule = {g - 1, head[i], tail[j], 0.0};
                evaluate(p, kind, &rule);
                if (rule.value > 0.0) { offer(best, &n, &rule); }
            }
        }
    }
    return n;
}

/* Classes in which a task would outlast a schedule that is known: no shorter one uses them.  The
 * schedule knows no transfers. */
static void leave_out_slow(struct bound_problem *p)
{
    struct mot_schedule known;
    if (bound_has_links(p)) { return; }
    mot_plan_list(p->graph, 0, &known);
    for (int t = 0; t < p->n; t++) {
        for (int c = 0; c < p->C; c++) {
            double *ms = &p->ms[(size_t)t * (size_t)p->C + (size_t)c];
            if (p->head[t] + *ms + p->tail[t] > known.makespan_ms * (1.0 + 1e-9)) {
                *ms = INFINITY;
            }
        }
    }
    mot_schedule_free(&known);
    bound_groups(p);
}

double bound_sets(struct bound_problem *p)
{
    int *kind = mot_alloc((size_t)p->n * sizeof(*kind));
    const int kinds = find_kinds(p, kind);
    double path = 0.0, best = 0.0;
    for (int t = 0; t < p->n; t++) { path = fmax(path, p->head[t] + p->fastest[t] + p->tail[t]); }
    leave_out_slow(p);
    make_prices(p, kind, kinds, path);
    make_work(p);
    make_closure(p);
    if (p->words > 0) {
        struct keyed *item = mot_alloc((size_t)p->n * sizeof(*item));
        strengthen_heads(p, item);
        strengthen_tails(p, item);
        free(item);
    }
    for (int t = 0; t < p->n; t++) { best = fmax(best, p->head[t] + p->fastest[t] + p->tail[t]); }
    struct rule rule[BOUND_SETS];
    const int n = p->K > 0 ? find_rules(p, kind, kinds, rule) : 0;
    for (int i = 0; i < n; i++) {
        struct bound_set *set = &p->set[p->n_sets++];
        *set = (struct bound_set){mot_alloc((size_t)p->n), rule[i].head, rule[i].tail, 0.0};
        for (int t = 0; t < p->n; t++) {
            set->in[t] = (char)((rule[i].kind < 0 || kind[t] == rule[i].kind)
                                && p->head[t] >= set->head && p->tail[t] >= set->tail);
        }
        set->ms = set->head + bound_area(p, set->in, 1, NULL) + set->tail;
        if (set->ms > best) { best = set->ms; }
    }
    free(kind);
    return best;
}
