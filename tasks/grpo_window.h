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
#include "grpo_step.h"

struct mot_grpo_window;
/* Steps first .. end - 1 to come; with max_staleness the actor's versions are copies, max_staleness
 * + 2 of them at most.  grpo is borrowed until the window is closed. */
struct mot_grpo_window *mot_grpo_window_open(const struct mot_grpo *grpo, int first, int end);
/* Starts the steps there is room for, and waits for the oldest: *result is valid until the step is
 * released, NULL when there are no more.  0 or a negative errno with a message. */
int mot_grpo_window_next(struct mot_grpo_window *window, const struct mot_grpo_result **result);
/* The step last returned goes. */
void mot_grpo_window_release(struct mot_grpo_window *window);
/* Drops what is under way: rows being generated end with the task they are in. */
void mot_grpo_window_close(struct mot_grpo_window *window);
#endif
