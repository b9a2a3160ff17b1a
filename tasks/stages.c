/* Stage names and the declared plan of the steps alive.  See stages.h. */
#include "stages.h"
#include "error.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[MOT_STAGES] = {
    [MOT_STAGE_GENERATE] = "generate", [MOT_STAGE_LOGPROB] = "logprob",
    [MOT_STAGE_REWARD] = "reward",     [MOT_STAGE_ADVANTAGE] = "advantage",
    [MOT_STAGE_GRADIENT] = "gradient", [MOT_STAGE_REDUCE] = "reduce",
    [MOT_STAGE_UPDATE] = "update",     [MOT_STAGE_CAST] = "cast",
};

/* The steps alive: a handful, so a list. */
struct step_plan {
    int step;
    struct mot_plan_entry entry[MOT_STAGES];
    struct step_plan *next;
};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards steps */
static struct step_plan *steps;

const char *mot_stage_name(int stage)
{
    return stage >= 0 && stage < MOT_STAGES ? names[stage] : "other";
}

/* The place that points to the step's plan, or to the NULL at the end. */
static struct step_plan **find(int step)
{
    struct step_plan **at = &steps;
    while (*at && (*at)->step != step) { at = &(*at)->next; }
    return at;
}

void mot_plan_declare(int step, enum mot_stage stage, int tasks, double flop)
{
    MOT_ASSERT((int)stage >= 0 && stage < MOT_STAGES && tasks >= 0 && flop >= 0.0);
    pthread_mutex_lock(&mutex);
    struct step_plan **at = find(step);
    if (!*at) {
        *at = mot_alloc_zeroed(1, sizeof(**at));
        (*at)->step = step;
    }
    (*at)->entry[stage].tasks += tasks;
    (*at)->entry[stage].flop += flop;
    pthread_mutex_unlock(&mutex);
}

/* Declarations are estimates (how many chunks a row takes): going below zero is no error. */
void mot_plan_submitted(int step, enum mot_stage stage, int tasks, double flop)
{
    MOT_ASSERT((int)stage >= 0 && stage < MOT_STAGES);
    pthread_mutex_lock(&mutex);
    struct step_plan *plan = *find(step);
    if (plan) {
        struct mot_plan_entry *e = &plan->entry[stage];
        e->tasks = e->tasks > tasks ? e->tasks - tasks : 0;
        e->flop = e->tasks > 0 && e->flop > flop ? e->flop - flop : 0.0;
    }
    pthread_mutex_unlock(&mutex);
}

struct mot_plan_entry mot_plan_remaining(enum mot_stage stage)
{
    MOT_ASSERT((int)stage >= 0 && stage < MOT_STAGES);
    struct mot_plan_entry sum = {0};
    pthread_mutex_lock(&mutex);
    for (const struct step_plan *p = steps; p; p = p->next) {
        sum.tasks += p->entry[stage].tasks;
        sum.flop += p->entry[stage].flop;
    }
    pthread_mutex_unlock(&mutex);
    return sum;
}

void mot_plan_end(int step)
{
    pthread_mutex_lock(&mutex);
    struct step_plan **at = find(step);
    struct step_plan *plan = *at;
    if (plan) {
        *at = plan->next;
        free(plan);
    }
    pthread_mutex_unlock(&mutex);
}
