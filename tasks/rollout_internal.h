/* What rollout.c (rollouts and their rows), rollout_feed.c (their tasks) and rollout_line.c (the
 * order among them) share. */
#ifndef MOT_ROLLOUT_INTERNAL_H
#define MOT_ROLLOUT_INTERNAL_H
#include "rollout.h"
#include "stages.h"

/* mutex guards all of it and of the states in it; it is never held while a listener runs. */
struct mot_rollout_line {
    starpu_pthread_mutex_t mutex;
    struct mot_rollout_state *oldest; /* the others follow by next */
    int max_tasks, running;           /* generate tasks submitted and not yet read back */
    int is_limited, cancelled;
    struct mot_admission admission; /* where is_limited */
    struct mot_version *newest;     /* referenced, or NULL */
    int64_t newest_step;
};

/* A rollout under way. */
struct mot_rollout_state {
    struct mot_rollout_line *line;
    struct mot_rollout_state *next;
    int owns_line;
    struct mot_rollout *rollout;
    struct mot_actor *actor;
    struct mot_version *version; /* of all groups; NULL: the line's newest when they are begun */
    int64_t version_step;
    struct mot_rollout_options options;
    struct mot_rollout_listener listener;
    struct mot_row **waiting; /* rows under way that no task holds, oldest first */
    int n_waiting;
    int next_group; /* first group not begun */
    int running;    /* generate tasks submitted and not yet read back */
    int rows_left;
    int pack_pays; /* its tasks win back the time that packing a version's weights takes */
    struct mot_plan_entry declared; /* of the plan: generate tasks not submitted yet */
};

/* Submits what the line admits; the mutex is held. */
void mot_rollout_line_feed(struct mot_rollout_line *line);
/* The same for one of its rollouts. */
void mot_rollout_feed(struct mot_rollout_state *state);
/* Tells a recording how many prompts are under way and how many more staleness and concurrency
 * admit; the mutex is held. */
void mot_rollout_line_tell(const struct mot_rollout_line *line);
/* Appends a rollout to the line and feeds it. */
void mot_rollout_line_enter(struct mot_rollout_state *state);
/* Takes it out; the mutex is held. */
void mot_rollout_line_leave(struct mot_rollout_state *state);
/* Tells the plan what the rollout will take at most; what of that will never come. */
void mot_rollout_declare(struct mot_rollout_state *state);
void mot_rollout_withdraw(struct mot_rollout_state *state);
/* The end of a rollout that has left the line and has no task under way: frees state. */
void mot_rollout_finish(struct mot_rollout_state *state);
#endif
