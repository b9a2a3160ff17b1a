/* The stages of a step, and what a scheduling policy may know of the future: the declared plan.
 * Later stages are submitted by callbacks, so a policy cannot see them as tasks; it sees how many
 * of each are still to come. */
#ifndef MOT_STAGES_H
#define MOT_STAGES_H

/* In data-flow order; the stage word of "<stage>.<codelet>" task names is mot_stage_name(). */
enum mot_stage {
    MOT_STAGE_GENERATE, /* rollout.prefill, rollout.generate */
    MOT_STAGE_LOGPROB,  /* train.logprob: reference or proximal policy */
    MOT_STAGE_REWARD,   /* reward.score */
    MOT_STAGE_ADVANTAGE,
    MOT_STAGE_GRADIENT,
    MOT_STAGE_REDUCE,
    MOT_STAGE_UPDATE,
    MOT_STAGE_CAST,
    MOT_STAGES
};
const char *mot_stage_name(int stage);

/* What is still to come in one step, per stage: tasks not yet submitted and their operations. */
struct mot_plan_entry {
    int tasks;
    double flop;
};

/* Declares and withdraws future work of a step; thread-safe.  A stage's entry goes down as its
 * tasks are submitted (mot_plan_submitted). */
void mot_plan_declare(int step, enum mot_stage stage, int tasks, double flop);
void mot_plan_submitted(int step, enum mot_stage stage, int tasks, double flop);
/* What is declared and not yet submitted over all steps alive. */
struct mot_plan_entry mot_plan_remaining(enum mot_stage stage);
void mot_plan_end(int step); /* forgets the step */
#endif
