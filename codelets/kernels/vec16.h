/* Sixteen floats side by side: the unit in which the CPU kernels count, whatever the machine's
 * registers are.  GCC splits or joins it to what the processor has; lanes never mix except in
 * v16_sum and v16_max, whose tree is fixed, so results are the same on every instruction set.
 * A run whose length is no multiple of 16 ends in one partial vector through the same operations
 * (v16_load_n, v16_store_n): an element's value does not depend on where it stands. */
#ifndef MOT_VEC16_H
#define MOT_VEC16_H
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#    include <immintrin.h>
#endif

typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16 __attribute__((vector_size(64)));
typedef float v16_anywhere __attribute__((vector_size(64), aligned(4), may_alias));
#define V16_INLINE static inline __attribute__((always_inline, unused))

V16_INLINE v16 v16_load(const float *p)
{
    return *(const v16_anywhere *)p;
}

V16_INLINE void v16_store(float *p, v16 x)
{
    *(v16_anywhere *)p = x;
}

/* All lanes a. */
V16_INLINE v16 v16_all(float a)
{
    return (v16){a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a};
}

/* The first n lanes (1 .. 16) from p, the others 0. */
V16_INLINE v16 v16_load_n(const float *p, int n)
{
#if defined(__AVX512F__)
    return (v16)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p);
#else
    v16 x = v16_all(0.0f);
    memcpy(&x, p, (size_t)n * sizeof(float));
    return x;
#endif
}

V16_INLINE void v16_store_n(float *p, v16 x, int n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), (__m512)x);
#else
    memcpy(p, &x, (size_t)n * sizeof(float));
#endif
}

/* a * b + c, rounded once. */
V16_INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
#if defined(__AVX512F__)
    return (v16)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    union {
        v16 v;
        __m256 half[2];
    } x = {a}, y = {b}, z = {c};
    z.half[0] = _mm256_fmadd_ps(x.half[0], y.half[0], z.half[0]);
    z.half[1] = _mm256_fmadd_ps(x.half[1], y.half[1], z.half[1]);
    return z.v;
#else
    for (int i = 0; i < 16; i++) { c[i] = __builtin_fmaf(a[i], b[i], c[i]); }
    return c;
#endif
}

/* Lane by lane yes[i] where mask[i] is -1, no[i] where it is 0. */
V16_INLINE v16 v16_select(i16 mask, v16 yes, v16 no)
{
    return (v16)((mask & (i16)yes) | (~mask & (i16)no));
}

/* The larger one; b where either is NaN. */
V16_INLINE v16 v16_larger(v16 a, v16 b)
{
#if defined(__AVX512F__)
    return (v16)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return v16_select(a > b, a, b);
#endif
}

V16_INLINE i16 v16_lanes(void)
{
    return (i16){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

/* Lanes at and beyond n become fill. */
V16_INLINE v16 v16_keep_n(v16 x, int n, float fill)
{
    const i16 limit = {n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n};
    return v16_select(v16_lanes() < limit, x, v16_all(fill));
}

/* One butterfly of the transposition: lanes whose bit d is set change sides. */
V16_INLINE void v16_swap_lanes(v16 *a, v16 *b, int d)
{
    const i16 lane = v16_lanes(), moved = (lane & d) != 0;
    const i16 first = lane + (moved & (16 - d)), second = lane + (moved & 16) + (~moved & d);
    const v16 x = *a, y = *b;
    *a = __builtin_shuffle(x, y, first);
    *b = __builtin_shuffle(x, y, second);
}

/* to[c * to_stride + r] = from[r * from_stride + c] for r < rows and c < cols, both 1 .. 16. */
V16_INLINE void v16_transpose(const float *from, size_t from_stride, int rows, int cols, float *to,
                              size_t to_stride)
{
    v16 x[16];
#pragma GCC unroll 16
    for (int r = 0; r < 16; r++) {
        x[r] = r < rows ? v16_load_n(from + (size_t)r * from_stride, cols) : v16_all(0.0f);
    }
#pragma GCC unroll 4 /* unrolled, so that x stays in registers */
    for (int d = 8; d > 0; d /= 2) {
#pragma GCC unroll 16
        for (int r = 0; r < 16; r++) {
            if ((r & d) == 0) { v16_swap_lanes(&x[r], &x[r + d], d); }
        }
    }
#pragma GCC unroll 16
    for (int c = 0; c < 16; c++) {
        if (c == cols) { break; }
        v16_store_n(to + (size_t)c * to_stride, x[c], rows);
    }
}

typedef float v8 __attribute__((vector_size(32)));
typedef float v4 __attribute__((vector_size(16)));

/* ((0+8)+(4+12)) + ((2+10)+(6+14)), the same for the odd lanes, then even + odd. */
V16_INLINE float v16_sum(v16 x)
{
    const v8 a = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)
                 + __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
    const v4 b =
        __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
    return (b[0] + b[2]) + (b[1] + b[3]);
}

V16_INLINE float v16_max(v16 x)
{
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)x);
#else
    float a[16];
    v16_store(a, x);
    for (int step = 8; step > 0; step /= 2) {
        for (int i = 0; i < step; i++) { a[i] = a[i] > a[i + step] ? a[i] : a[i + step]; }
    }
    return a[0];
#endif
}
#endif
