/* The steps of GRPO that are under way: with a staleness of eta up to eta + 1 of them, so that
 * answers of steps to come are generated while a step trains.
 *
 *   step s        generate ──────► train ─► weights s + 1
 *   step s + 1       generate ─────────────────► train ─► weights s + 2
 *   step s + eta        generate ...     none begins before weights s are there
 *
 * Answers of step s are of versions s - eta .. s, counted in steps: optimiser steps inside a step
 * make no version for rollouts.  Steps train one after the other, in order.  Each step's updates
 * wait until the step is asked for: between two calls of mot_grpo_window_next the weights are those
 * after the step last returned, and may be evaluated and saved.
 *
 * Bounded staleness is a data dependency: a rollout reads an older version's handles.  At most
 * eta + 2 versions are alive (actor.h asserts it). */
#ifndef MOT_GRPO_WINDOW_H
#define MOT_GRPO_WINDOW_H
#include "grpo_store.h"

/* What a window starts with. */
struct mot_grpo_span {
    int first, end; /* steps first .. end - 1 are to come */
    /* 1: the answers of max_staleness steps more are generated too, to be saved with the last
     * checkpoint: a later run may go on to more steps as if there had been no end. */
    int is_open;
    struct mot_grpo_store *store; /* of the checkpoint before `first`, or NULL; taken over */
};
struct mot_grpo_window;
/* With max_staleness the actor's versions are copies, max_staleness + 2 of them at most.  grpo is
 * borrowed until the window is closed. */
struct mot_grpo_window *mot_grpo_window_open(const struct mot_grpo *grpo,
                                             const struct mot_grpo_span *span);
/* Starts the steps there is room for, and waits for the oldest: *result is valid until the step is
 * released, NULL when there are no more.  0 or a negative errno with a message. */
int mot_grpo_window_next(struct mot_grpo_window *window, const struct mot_grpo_result **result);
/* The step last returned goes. */
void mot_grpo_window_release(struct mot_grpo_window *window);
/* Waits until the answers of all steps under way are there, and writes them into a checkpoint's
 * directory (grpo_store.h); after mot_grpo_window_release.  context: the window. */
int mot_grpo_window_save(void *context, const char *directory);
/* Drops what is under way: rows being generated end with the task they are in.  Returns how many
 * answers were begun, or taken from the store, and not trained.  NULL is allowed. */
int64_t mot_grpo_window_close(struct mot_grpo_window *window);
#endif
