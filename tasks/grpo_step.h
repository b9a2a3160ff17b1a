/* One step of GRPO as a task graph that grows by callbacks.
 *
 *   prompts ─► rollout ─► score (per answer) ─► advantage (per group) ─┐
 *                └─► logprob (reference, per micro-batch, beta > 0) ───┴─► gradient ─┐
 *                                                           update ◄─ norm ◄─ reduce ◄┘
 *
 * Every arrow is submitted by the callback that completes its last input: a row that ends early is
 * scored while others are generated, and the gradient of a micro-batch starts when its own groups
 * are scored, whatever the rest of the rollout is doing.  The update waits for the end of the
 * rollout, which reads the weights that it changes.  It ends the step; with several iterations or
 * mini-batches the next optimiser step follows.
 *
 * Several steps may be under way (grpo_window.h).  Then a step's gradients start at its turn: when
 * the step before has ended; and its updates when it is waited for, so that whoever waits finds the
 * weights of the step before as long as it likes.
 *
 * Algorithm: Shao et al. 2024, arXiv:2402.03300, section 4.1, with the variants of
 * codelets/policy_loss.h.  Without staleness the log-probs stored by the sampler are those of the
 * policy at the start of the update (old), bit for bit on the CPU, so none are recomputed.  With it
 * train.logprob computes them at the step's turn, and importance.h makes up for the rest. */
#ifndef MOT_GRPO_STEP_H
#define MOT_GRPO_STEP_H
#include "dataset.h"
#include "policy_loss.h"
#include "scoring.h"
#include "train.h"

/* Which version a prompt's answers are generated with.  Exact: that of step max(0, s - eta), so
 * that bits do not depend on timing.  Bounded: the newest there is when the prompt is begun. */
enum mot_staleness_mode { MOT_STALENESS_BOUNDED, MOT_STALENESS_EXACT };

/* What stays the same over the steps of a run; filled by the program, borrowed by every step. */
struct mot_grpo {
    struct mot_actor *actor;
    struct mot_actor *reference; /* frozen; NULL with beta 0 */
    const struct mot_dataset *dataset;
    const struct mot_tokenizer *tokenizer;
    struct mot_rollout_options rollout; /* step is set per step */
    struct mot_policy_loss_options loss;
    struct mot_optimizer_options optimizer;
    int prompts_per_step, num_generations;
    int answers_per_micro_batch;  /* divides num_generations or is a multiple of it */
    int micro_batches_per_update; /* mini-batch = that many micro-batches */
    int num_iterations;
    int mask_truncated_completions;
    int drop_zero_std_groups; /* groups whose rewards are all equal: not in the loss, no KL on them,
                               * not counted in its denominator */
    enum mot_scale_rewards scale_rewards;
    int n_functions;
    const struct mot_reward_function *functions;
    uint64_t seed;
    int shuffle;
    int max_staleness; /* eta: answers of step s are of versions s - eta .. s; with 0 none is older
                        * than the step, and the actor needs no copies */
    enum mot_staleness_mode staleness_mode;
    int max_concurrent_rollouts; /* prompts being generated at once, over all steps; 0: no limit */
    int correct_importance;      /* with staleness: proximal log-probs, loss.importance */
};
/* Optimiser steps in one GRPO step. */
int mot_grpo_updates_per_step(const struct mot_grpo *grpo);

/* What a step leaves behind when it has ended. */
struct mot_grpo_result {
    int step;
    struct mot_rollout *rollout;
    struct mot_scored_group *groups; /* (rollout->n_groups) */
    int n_updates;
    struct mot_train_metrics *updates; /* (n_updates) */
    double seconds;                    /* to the last update, from the start or the step's turn */
    double generate_seconds;           /* from start to the end of the rollout */
};

struct mot_grpo_step;
struct mot_grpo_store;
/* Where a step stands among others under way. */
struct mot_grpo_place {
    struct mot_rollout_line *line;
    struct mot_version
        *version;         /* reference taken over; NULL: the line's newest, prompt by prompt */
    int64_t version_step; /* steps behind that version */
    int waits;            /* for mot_grpo_step_turn */
    const struct mot_grpo_store *store; /* answers that are there already; NULL: none */
    /* In a worker's thread: the step's last update has run, the next one's turn has come. */
    void (*trained)(void *context, int step);
    void *context;
};
/* Starts step `step` (0, 1, ...) on the prompts that stand at its place in the training order.
 * place: NULL: alone, on the current version.  0 or a negative errno with a message. */
int mot_grpo_step_start(const struct mot_grpo *grpo, int step, const struct mot_grpo_place *place,
                        struct mot_grpo_step **started);
/* The step before has ended. */
void mot_grpo_step_turn(struct mot_grpo_step *step);
/* Lets it update the weights and waits for the end; the result is valid until the step is
 * destroyed.  Not from a callback. */
const struct mot_grpo_result *mot_grpo_step_wait(struct mot_grpo_step *step);
/* Its answers, when all are there; may be waited for whatever its turn. */
const struct mot_rollout *mot_grpo_step_answers(struct mot_grpo_step *step);
/* Which example is prompt `index` of a step. */
int mot_grpo_example(const struct mot_grpo *grpo, int step, int index);
/* After mot_grpo_step_wait; or, to drop it, when its line has been cancelled and no task runs. */
void mot_grpo_step_destroy(struct mot_grpo_step *step);
#endif
