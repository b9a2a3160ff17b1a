/* gradient: CPU variant and submission.  See gradient.h. */
#include "gradient.h"
#include <string.h>

struct arguments {
    const struct mot_stage_context *context;
    const struct mot_pack *pack;
    const struct mot_policy_loss_options *loss;
    enum mot_loss_kind kind;
    int zero_lane, n_advantages, has_reference, has_proximal;
};

struct nll_loss { /* the context of nll_coef */
    const float *weight;
    struct mot_policy_loss_metrics metrics;
};

static void nll_coef(void *context, int first, int n, const float *logprob, const float *entropy,
                     float *coef)
{
    struct nll_loss *l = context;
    for (int i = 0; i < n; i++) {
        const float weight = l->weight[first + i];
        coef[i] = 0.0f;
        if (!(weight > 0.0f)) { continue; }
        coef[i] = -weight;
        l->metrics.tokens += 1.0;
        l->metrics.loss -= (double)weight * logprob[i];
        l->metrics.entropy_sum += entropy[i];
    }
}

/* Each target's advantage, from its answer's. */
static float *spread_advantages(const struct arguments *a, void *buffers[], struct mot_arena *arena)
{
    const struct mot_pack *pack = a->pack;
    float *advantage = mot_arena_take(arena, (size_t)pack->n_targets * sizeof(float));
    for (int t = 0; t < pack->n_targets; t++) {
        const struct mot_pack_answer *answer = &pack->answers[pack->answer_of[t]];
        MOT_ASSERT(answer->advantage_buffer >= 0 && answer->advantage_buffer < a->n_advantages);
        const void *buffer = buffers[answer->advantage_buffer];
        MOT_ASSERT((size_t)answer->advantage_index < STARPU_VECTOR_GET_NX(buffer));
        advantage[t] = ((const float *)STARPU_VECTOR_GET_PTR(buffer))[answer->advantage_index];
    }
    return advantage;
}

/* buffers: those behind the metrics.  The head's part: log-probs, loss, dhidden and its
 * gradients. */
static void head(const struct arguments *a, struct mot_exec *e, const float *const *weights,
                 const float *hidden, float *dhidden, float *const *grads, void *buffers[],
                 struct mot_policy_loss_metrics *metrics)
{
    const struct mot_pack *pack = a->pack;
    const struct mot_head_targets targets = {
        .n = pack->n_targets,
        .row = pack->row,
        .target = pack->target,
        .inv_temperature = a->context->inv_temperature,
        .chunk = a->context->head_chunk,
    };
    const size_t bytes = (size_t)pack->n_targets * sizeof(float);
    float *logprob = mot_arena_take(e->arena, bytes);
    float *entropy = mot_arena_take(e->arena, bytes);
    if (a->kind == MOT_LOSS_NLL) {
        struct nll_loss nll = {.weight = pack->weight};
        mot_head_loss(e, a->context->transformer, weights, hidden, &targets, nll_coef, &nll,
                      logprob, entropy, dhidden, grads);
        *metrics = nll.metrics;
        return;
    }
    void *const *more = buffers + a->n_advantages;
    struct mot_policy_loss policy = {
        .options = a->loss,
        .advantage = spread_advantages(a, buffers, e->arena),
        .old = pack->old,
        .weight = pack->weight,
        .answer_of = pack->answer_of,
    };
    if (a->has_reference) { policy.reference = (const float *)STARPU_VECTOR_GET_PTR(*more++); }
    if (a->has_proximal) {
        float *factor = mot_arena_take(e->arena, bytes);
        policy.behaviour = pack->old;
        policy.old = (const float *)STARPU_VECTOR_GET_PTR(*more);
        policy.factor = factor;
        mot_importance(&a->loss->importance, pack->n_targets, pack->answer_of, policy.old,
                       policy.behaviour, pack->weight, factor, &policy.metrics.importance);
    }
    mot_head_loss(e, a->context->transformer, weights, hidden, &targets, mot_policy_loss_coef,
                  &policy, logprob, entropy, dhidden, grads);
    mot_policy_loss_end(&policy);
    *metrics = policy.metrics;
}

static void gradient_cpu(void *buffers[], void *cl_arg)
{
    const struct arguments *a = cl_arg;
    const struct mot_transformer *t = a->context->transformer;
    const struct mot_pack *pack = a->pack;
    const int n_groups = t->layout.n_groups;
    struct mot_exec *e = mot_cpu_exec();
    float **weights = mot_arena_take(e->arena, (size_t)n_groups * sizeof(*weights));
    float **grads = mot_arena_take(e->arena, (size_t)n_groups * sizeof(*grads));
    mot_stage_pointers(buffers, n_groups, weights);
    mot_stage_pointers(buffers + n_groups, n_groups, grads);
    for (int g = 0; g < n_groups && a->zero_lane; g++) {
        e->kernels->zero(e, t->layout.group_floats[g], grads[g]);
    }

    const struct mot_batch batch = {
        .T = pack->T,
        .n_segments = pack->n_segments,
        .ids = pack->ids,
        .position = pack->position,
        .segments = mot_pack_bind(pack, &t->layout.shape, e->arena),
    };
    const size_t numbers = (size_t)pack->T * (size_t)t->layout.shape.hidden_size;
    float *hidden = mot_arena_take(e->arena, numbers * sizeof(float));
    float *dhidden = mot_arena_take(e->arena, numbers * sizeof(float));
    struct mot_activations *kept;
    const float *const *w = (const float *const *)weights;
    mot_transformer_forward(e, t, w, &batch, hidden, &kept);
    e->kernels->zero(e, numbers, dhidden);

    struct mot_gradient_metrics metrics = {
        .prompt_tokens = pack->prompt_tokens,
        .forward_tokens = pack->T,
    };
    head(a, e, w, hidden, dhidden, grads, buffers + 2 * n_groups + 1, &metrics.loss);
    mot_transformer_backward(e, t, w, &batch, kept, dhidden, grads);
    memcpy((void *)STARPU_VARIABLE_GET_PTR(buffers[2 * n_groups]), &metrics, sizeof(metrics));
}

static struct starpu_perfmodel gradient_model = MOT_STAGE_MODEL("motley_gradient");
static struct starpu_codelet gradient_codelet = {
    .name = "gradient",
    .cpu_funcs = {gradient_cpu},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .model = &gradient_model,
};

static enum starpu_data_access_mode lane_mode(enum mot_lane_access access)
{
    if (access == MOT_LANE_FIRST) { return STARPU_W; }
    return access == MOT_LANE_ORDERED ? STARPU_RW : STARPU_RW | STARPU_COMMUTE;
}

int mot_insert_gradient(const struct mot_gradient_task *task)
{
    const struct mot_layout *layout = &task->context->transformer->layout;
    const int policy = task->kind == MOT_LOSS_POLICY;
    MOT_ASSERT(policy == (task->loss != NULL));
    MOT_ASSERT(!policy || task->loss->beta == 0.0 || task->reference != NULL);
    struct mot_buffers b = {0};
    mot_buffers_add_all(&b, task->weights, layout->n_groups, STARPU_R);
    mot_buffers_add_all(&b, task->lane, layout->n_groups, lane_mode(task->access));
    mot_buffers_add(&b, task->metrics, STARPU_W);
    mot_buffers_add_all(&b, task->advantages, task->n_advantages, STARPU_R);
    if (task->reference) { mot_buffers_add(&b, task->reference, STARPU_R); }
    if (task->proximal) { mot_buffers_add(&b, task->proximal, STARPU_R); }

    struct arguments a = {
        .context = task->context,
        .pack = task->pack,
        .loss = task->loss,
        .kind = task->kind,
        .zero_lane = task->access == MOT_LANE_FIRST,
        .n_advantages = task->n_advantages,
        .has_reference = task->reference != NULL,
        .has_proximal = task->proximal != NULL,
    };
    struct mot_task insert = {
        .codelet = &gradient_codelet,
        .name = "train.gradient",
        .hint = task->hint,
        .done = task->done,
        .argument_done = task->argument,
    };
    insert.hint.flop = 3.0 * mot_pack_forward_flop(task->pack, &layout->shape);
    /* weights twice, for forward and backward, and the lane */
    insert.hint.bytes =
        (2.0 * task->context->number_bytes + sizeof(float)) * (double)layout->parameters;
    insert.hint.rows = task->pack->n_answers;
    insert.hint.tokens = task->pack->T;
    return mot_stage_insert(&insert, &b, &a, sizeof(a));
}
