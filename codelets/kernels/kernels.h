/* The kernel table: what a device must be able to compute so that codelets/transformer.c runs on
 * it.  One table per device kind; the transformer's forward and backward are written once over it.
 *
 * All numbers are float32 and row-major; T, C, S, ... as in model_layout.h.  "=" overwrites its
 * output, "+=" accumulates into it.  Buffers do not overlap unless a line says so.
 *
 * Bits (CPU): every output row depends on its own inputs only: not on how many rows the call has,
 * where in the batch it stands, how many threads run, or what ran before.  Sums over rows (the
 * weight gradients) have a fixed order given by the rows of the call.  This makes sampler and
 * trainer agree exactly, and checkpoints independent of scheduling.  tests/test_kernel_bits.c. */
#ifndef MOT_KERNELS_H
#define MOT_KERNELS_H
#include "arena.h"
#include "model_layout.h"
#include <stddef.h>
#include <stdint.h>

struct mot_kernels;

/* Where a codelet computes: handed to every kernel. */
struct mot_exec {
    const struct mot_kernels *kernels;
    struct mot_arena *arena; /* scratch memory of this worker */
    void *stream;            /* CUDA/HIP stream or OpenCL queue; NULL on the CPU */
};

/* Keys and values of one sequence (or of the prompt its answers share), all layers:
 * data[layer][0 key, 1 value][kv head][slot][D], slot 0 holding position first_position. */
struct mot_kv {
    float *data;
    int capacity;       /* slots */
    int first_position; /* absolute position of slot 0 */
};

/* A run of token rows of one sequence inside a packed batch.  Row `first + i` has the absolute
 * position `position + i` and attends to the keys of positions 0 .. position + i: those before
 * own.first_position are read from prefix, the others from own, which also receives this run's own
 * keys and values before attention reads them. */
struct mot_segment {
    int first, count;     /* rows of the packed batch */
    int position;         /* of the first row */
    struct mot_kv prefix; /* data NULL: none; read only */
    struct mot_kv own;
    /* Backward only: gradients of the keys and values, same layout, += (zeroed by the caller).
     * Segments that share a prefix share prefix_grad: they are taken in the order of the array. */
    float *prefix_grad, *own_grad;
};

/* How ids are drawn from logits. */
struct mot_sampling {
    float temperature; /* 0: greedy; log-probs are then those of temperature 1 */
    int top_k;         /* 0: all */
    float top_p;       /* 1: all */
    float min_p;       /* 0: all */
};

struct mot_sampled {
    int32_t id;
    float logprob;      /* of the full softmax(logits / temperature) */
    float logprob_kept; /* of the distribution renormalised over what top_k/top_p/min_p kept */
    float entropy;      /* nats, of the full softmax(logits / temperature) */
};

struct mot_adamw {
    double learning_rate, beta1, beta2, eps, weight_decay; /* 1 - 0.999f is not 0.001 */
    int step;                                              /* 1 for the first update */
    float grad_scale; /* multiplies every gradient: 1/denominator times the clip factor */
};

struct mot_kernels {
    const char *name; /* "cpu" */

    /* y (M, N) = x (M, K) w^T (N, K) + bias (N, or NULL).  bias is added after the whole sum. */
    void (*linear)(struct mot_exec *e, int M, int N, int K, const float *x, const float *w,
                   const float *bias, float *y);
    /* Packed weights: w rearranged once, so that products of few rows need not do it each time.
     * linear_pack_bytes: size of packed, a multiple of 64; 0: none here.  linear_packed gives the
     * bits of linear. */
    size_t (*linear_pack_bytes)(int N, int K);
    void (*linear_pack)(struct mot_exec *e, int N, int K, const float *w, float *packed);
    void (*linear_packed)(struct mot_exec *e, int M, int N, int K, const float *x,
                          const float *packed, const float *bias, float *y);
    /* dx (M, K) = dy (M, N) w (N, K), or += when accumulate is 1. */
    void (*linear_grad_input)(struct mot_exec *e, int M, int N, int K, const float *dy,
                              const float *w, float *dx, int accumulate);
    /* dw (N, K) += dy^T x; dbias (N, or NULL) += column sums of dy, rows in ascending order. */
    void (*linear_grad_weight)(struct mot_exec *e, int M, int N, int K, const float *dy,
                               const float *x, float *dw, float *dbias);

    /* y[r] = x[r] * rstd[r] * w over rows of C numbers, rstd = 1/sqrt(mean(x^2) + eps).
     * rstd (rows) may be NULL.  Row r of x and y starts at r * stride (stride >= C); y may be x. */
    void (*rmsnorm)(struct mot_exec *e, int rows, int C, int stride, const float *x, const float *w,
                    float eps, float *y, float *rstd);
    /* dx = gradient (or += with accumulate 1), dw (C) += sum over rows in ascending order.
     * x, dy and dx all have row stride `stride`; dx may be dy. */
    void (*rmsnorm_grad)(struct mot_exec *e, int rows, int C, int stride, const float *x,
                         const float *w, const float *rstd, const float *dy, float *dx,
                         int accumulate, float *dw);

    /* Rotates in place the first H + K heads of each fused q,k,v row (T, S): pair (i, i + D/2) of a
     * head by the angle position * theta^(-2i/D) (HF's rotate_half order).  table (positions, D/2,
     * {cos, sin}) from mot_rope_table_fill; position[t] is the row's.  inverse 1 rotates back (the
     * gradient). */
    void (*rope)(struct mot_exec *e, int T, const struct mot_model_shape *shape,
                 const int32_t *position, const float *table, float *qkv, int inverse);

    /* Stores each row's k and v (from qkv, rotated) into its segment's own cache, then
     * out (T, H D) = softmax(q k^T / sqrt(D)) v, causal, over prefix and own keys: online softmax
     * in blocks of keys at absolute positions, one order for prefill, decode and training.  lse
     * (T, H) may be NULL: log-sum-exp of the scaled scores, for the gradient. */
    void (*attention)(struct mot_exec *e, const struct mot_model_shape *shape, int layer,
                      const struct mot_segment *segments, int n_segments, const float *qkv,
                      float *out, float *lse);
    /* dqkv (T, S) = gradient with respect to the rotated q, k, v rows.  A segment's k and v gather
     * gradient in own_grad from its own rows and from the segments that have it as prefix, so the
     * segments with a prefix are taken first, then those without, each in array order; the k, v
     * columns of a segment's rows of dqkv are then read out of its own_grad.  (A prefix has no
     * prefix itself.)  out, lse as the forward left them; dout (T, H D). */
    void (*attention_grad)(struct mot_exec *e, const struct mot_model_shape *shape, int layer,
                           const struct mot_segment *segments, int n_segments, const float *qkv,
                           const float *out, const float *lse, const float *dout, float *dqkv);

    /* y (T, I) = silu(gate) * up, gate_up (T, 2 I). */
    void (*swiglu)(struct mot_exec *e, int T, int I, const float *gate_up, float *y);
    /* dgate_up (T, 2 I) = gradient; may be gate_up itself. */
    void (*swiglu_grad)(struct mot_exec *e, int T, int I, const float *gate_up, const float *dy,
                        float *dgate_up);

    /* x (T, C) = table[ids]. */
    void (*embed)(struct mot_exec *e, int T, int C, const int32_t *ids, const float *table,
                  float *x);
    /* dtable[ids[t]] += dx[t], rows in ascending order. */
    void (*embed_grad)(struct mot_exec *e, int T, int C, const int32_t *ids, const float *dx,
                       float *dtable);

    /* Rows of logits (R, V): logprob[r] = log softmax(logits[r] * inv_temperature)[target[r]];
     * entropy[r] (may be NULL) in nats of the same distribution; lse[r] (may be NULL) its
     * log-sum-exp, for logprob_grad. */
    void (*logprob)(struct mot_exec *e, int R, int V, const float *logits, const int32_t *target,
                    float inv_temperature, float *logprob, float *entropy, float *lse);
    /* logits (R, V) are replaced by the gradient of sum_r coef[r] * logprob[r]:
     * coef[r] * inv_temperature * (onehot(target[r]) - softmax). */
    void (*logprob_grad)(struct mot_exec *e, int R, int V, float *logits, const int32_t *target,
                         float inv_temperature, const float *lse, const float *coef);
    /* One id per row of logits (R, V); uniform[r] in [0, 1).  Ids are tried in descending order of
     * probability where anything is cut off, in id order otherwise; ties by lower id.  The log-prob
     * is computed by the same code as logprob's: equal bits.  Greedy, or nothing cut off:
     * logprob_kept is logprob.  A row with NaN gives some valid id and NaN log-probs. */
    void (*sample)(struct mot_exec *e, int R, int V, const float *logits,
                   const struct mot_sampling *sampling, const float *uniform,
                   struct mot_sampled *out);

    /* y[i] += x[i] (accumulate), y[i] = x[i] + z[i] (add; y may be x or z), fill with 0. */
    void (*accumulate)(struct mot_exec *e, size_t n, const float *x, float *y);
    void (*add)(struct mot_exec *e, size_t n, const float *x, const float *z, float *y);
    void (*zero)(struct mot_exec *e, size_t n, float *y);
    /* to[r] = from[index[r]] over rows of C; and dto[index[r]] += dfrom[r] in ascending r. */
    void (*gather_rows)(struct mot_exec *e, int rows, int C, const int32_t *index,
                        const float *from, float *to);
    void (*scatter_add_rows)(struct mot_exec *e, int rows, int C, const int32_t *index,
                             const float *from, float *to);
    /* Sum of squares in double, blocks of 4096 added in ascending order. */
    double (*sum_of_squares)(struct mot_exec *e, size_t n, const float *x);
    /* Decoupled weight decay first, then Adam's update (Loshchilov & Hutter 2019, algorithm 2, as
     * torch.optim.AdamW orders it); p, m, v (n) in place. */
    void (*adamw)(struct mot_exec *e, size_t n, const struct mot_adamw *options, const float *grad,
                  float *p, float *m, float *v);
    /* to[i] = from[i] rounded to bfloat16 and widened again. */
    void (*round_bf16)(struct mot_exec *e, size_t n, const float *from, float *to);
};

extern const struct mot_kernels mot_kernels_cpu;

/* cos and sin of position * theta^(-2i/D): table (positions, D/2, 2). */
void mot_rope_table_fill(float *table, int positions, int head_dim, double theta);

/* Checks on this machine, for the shapes of this model, that GEMM rows are independent of the batch
 * and of the number of threads, and chooses the path (the primitive as it is, fixed row blocks, or
 * our own kernel) that makes it so; and that packed weights give the same bits, else there are
 * none. Once per process and shape; 0, or -ENOTSUP with a message. */
int mot_matmul_self_test(const struct mot_model_shape *shape);
const char *mot_matmul_describe(void); /* "oneDNN 2.6.3 matmul (brg:avx512_core)" */
/* GEMM peak of the calling thread's team, FLOP/s: the best of a few square products. */
double mot_matmul_peak_flop_per_s(void);
#endif
