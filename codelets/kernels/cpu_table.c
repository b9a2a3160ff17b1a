/* The kernel table of the CPU. */
#include "cpu_kernels.h"

const struct mot_kernels mot_kernels_cpu = {
    .name = "cpu",
    .linear = mot_cpu_linear,
    .linear_grad_input = mot_cpu_linear_grad_input,
    .linear_grad_weight = mot_cpu_linear_grad_weight,
    .rmsnorm = mot_cpu_rmsnorm,
    .rmsnorm_grad = mot_cpu_rmsnorm_grad,
    .rope = mot_cpu_rope,
    .attention = mot_cpu_attention,
    .attention_grad = mot_cpu_attention_grad,
    .swiglu = mot_cpu_swiglu,
    .swiglu_grad = mot_cpu_swiglu_grad,
    .embed = mot_cpu_embed,
    .embed_grad = mot_cpu_embed_grad,
    .logprob = mot_cpu_logprob,
    .logprob_grad = mot_cpu_logprob_grad,
    .sample = mot_cpu_sample,
    .accumulate = mot_cpu_accumulate,
    .add = mot_cpu_add,
    .zero = mot_cpu_zero,
    .gather_rows = mot_cpu_gather_rows,
    .scatter_add_rows = mot_cpu_scatter_add_rows,
    .sum_of_squares = mot_cpu_sum_of_squares,
    .adamw = mot_cpu_adamw,
    .round_bf16 = mot_cpu_round_bf16,
};
