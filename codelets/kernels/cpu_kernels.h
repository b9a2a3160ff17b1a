/* The CPU variants behind mot_kernels_cpu, one file per kernel; contracts in kernels.h. */
#ifndef MOT_CPU_KERNELS_H
#define MOT_CPU_KERNELS_H
#include "kernels.h"

void mot_cpu_linear(struct mot_exec *e, int M, int N, int K, const float *x, const float *w,
                    const float *bias, float *y);
size_t mot_cpu_linear_pack_bytes(int N, int K);
void mot_cpu_linear_pack(struct mot_exec *e, int N, int K, const float *w, float *packed);
void mot_cpu_linear_packed(struct mot_exec *e, int M, int N, int K, const float *x,
                           const float *packed, const float *bias, float *y);
void mot_cpu_linear_grad_input(struct mot_exec *e, int M, int N, int K, const float *dy,
                               const float *w, float *dx, int accumulate);
void mot_cpu_linear_grad_weight(struct mot_exec *e, int M, int N, int K, const float *dy,
                                const float *x, float *dw, float *dbias);
void mot_cpu_rmsnorm(struct mot_exec *e, int rows, int C, int stride, const float *x,
                     const float *w, float eps, float *y, float *rstd);
void mot_cpu_rmsnorm_grad(struct mot_exec *e, int rows, int C, int stride, const float *x,
                          const float *w, const float *rstd, const float *dy, float *dx,
                          int accumulate, float *dw);
void mot_cpu_rope(struct mot_exec *e, int T, const struct mot_model_shape *shape,
                  const int32_t *position, const float *table, float *qkv, int inverse);
void mot_cpu_attention(struct mot_exec *e, const struct mot_model_shape *shape, int layer,
                       const struct mot_segment *segments, int n_segments, const float *qkv,
                       float *out, float *lse);
void mot_cpu_attention_grad(struct mot_exec *e, const struct mot_model_shape *shape, int layer,
                            const struct mot_segment *segments, int n_segments, const float *qkv,
                            const float *out, const float *lse, const float *dout, float *dqkv);
void mot_cpu_swiglu(struct mot_exec *e, int T, int I, const float *gate_up, float *y);
void mot_cpu_swiglu_grad(struct mot_exec *e, int T, int I, const float *gate_up, const float *dy,
                         float *dgate_up);
void mot_cpu_embed(struct mot_exec *e, int T, int C, const int32_t *ids, const float *table,
                   float *x);
void mot_cpu_embed_grad(struct mot_exec *e, int T, int C, const int32_t *ids, const float *dx,
                        float *dtable);
void mot_cpu_logprob(struct mot_exec *e, int R, int V, const float *logits, const int32_t *target,
                     float inv_temperature, float *logprob, float *entropy, float *lse);
void mot_cpu_logprob_grad(struct mot_exec *e, int R, int V, float *logits, const int32_t *target,
                          float inv_temperature, const float *lse, const float *coef);
void mot_cpu_sample(struct mot_exec *e, int R, int V, const float *logits,
                    const struct mot_sampling *sampling, const float *uniform,
                    struct mot_sampled *out);
void mot_cpu_accumulate(struct mot_exec *e, size_t n, const float *x, float *y);
void mot_cpu_add(struct mot_exec *e, size_t n, const float *x, const float *z, float *y);
void mot_cpu_zero(struct mot_exec *e, size_t n, float *y);
void mot_cpu_gather_rows(struct mot_exec *e, int rows, int C, const int32_t *index,
                         const float *from, float *to);
void mot_cpu_scatter_add_rows(struct mot_exec *e, int rows, int C, const int32_t *index,
                              const float *from, float *to);
double mot_cpu_sum_of_squares(struct mot_exec *e, size_t n, const float *x);
void mot_cpu_adamw(struct mot_exec *e, size_t n, const struct mot_adamw *options, const float *grad,
                   float *p, float *m, float *v);
void mot_cpu_round_bf16(struct mot_exec *e, size_t n, const float *from, float *to);
#endif
