/* SwiGLU (Shazeer 2020, arXiv:2002.05202) over fused rows gate | up; see kernels.h.
 *
 *   s = 1 / (1 + exp(-gate)),  y = gate s up
 *   dgate = dy up s (1 + gate (1 - s)),  dup = dy gate s */
#include "cpu_kernels.h"
#include "fast_math.h"
#include "parallel.h"

static inline v16 sigmoid(v16 x)
{
    return v16_all(1.0f) / (v16_all(1.0f) + v16_exp(-x));
}

/* n numbers, 1 .. 16. */
static inline void forward_lanes(const float *gate, const float *up, float *y, int n)
{
    const v16 g = v16_load_n(gate, n);
    v16_store_n(y, g * sigmoid(g) * v16_load_n(up, n), n);
}

static inline void backward_lanes(const float *gate, const float *up, const float *dy, float *dgate,
                                  float *dup, int n)
{
    const v16 g = v16_load_n(gate, n), d = v16_load_n(dy, n), u = v16_load_n(up, n);
    const v16 s = sigmoid(g), one = v16_all(1.0f);
    v16_store_n(dgate, d * u * s * v16_fma(g, one - s, one), n);
    v16_store_n(dup, d * g * s, n);
}

void mot_cpu_swiglu(struct mot_exec *e, int T, int I, const float *gate_up, float *y)
{
    (void)e;
    MOT_PARALLEL_FOR((size_t)T * I > MOT_WORTH_A_TEAM / 4)
    for (int t = 0; t < T; t++) {
        const float *gate = gate_up + (size_t)t * 2 * I;
        for (int i = 0; i < I; i += 16) {
            forward_lanes(gate + i, gate + I + i, y + (size_t)t * I + i, mot_min(16, I - i));
        }
    }
}

void mot_cpu_swiglu_grad(struct mot_exec *e, int T, int I, const float *gate_up, const float *dy,
                         float *dgate_up)
{
    (void)e;
    MOT_PARALLEL_FOR((size_t)T * I > MOT_WORTH_A_TEAM / 4)
    for (int t = 0; t < T; t++) {
        const float *gate = gate_up + (size_t)t * 2 * I;
        float *dgate = dgate_up + (size_t)t * 2 * I;
        for (int i = 0; i < I; i += 16) {
            backward_lanes(gate + i, gate + I + i, dy + (size_t)t * I + i, dgate + i, dgate + I + i,
                           mot_min(16, I - i));
        }
    }
}
