/* The one exp and the one log of the CPU kernels: sampler, trainer, softmax and SwiGLU all use
 * these, so equal arguments give equal bits everywhere.  No table, no branch, no library.
 *
 * exp: x = n ln2 + r, |r| <= ln2/2, ln2 in two parts (Cody & Waite); e^r by its Taylor series to
 * r^7, whose remainder is below 2^-27 there; then 2^n in two factors, so results below 2^-126 round
 * once.  At most 1.5 ulp; exp(x > 88.73) = inf, exp(x < -104) = 0, NaN stays NaN.
 * log: x = 2^n m, sqrt(1/2) <= m < sqrt(2), log m = 2 atanh(s), s = (m-1)/(m+1), by its series to
 * s^11.  At most 2 ulp for normal x; log(0) = -inf, log(x < 0) = NaN, log(inf) = inf. */
#ifndef MOT_FAST_MATH_H
#define MOT_FAST_MATH_H
#include "vec16.h"

#define MOT_LN2_HIGH 0x1.62e4p-1f /* 13 bits: n * MOT_LN2_HIGH is exact for |n| < 2^11 */
#define MOT_LN2_LOW  0x1.7f7d1cp-20f

V16_INLINE v16 v16_exp(v16 x)
{
    /* Clamped, so that n stays in range; written so that NaN passes through.  What gives 0 is kept
     * out of the products: a processor may take a hundred cycles for one that underflows, and
     * attention has many such arguments, its masked keys. */
    const v16 high = v16_all(89.0f);
    const i16 is_zero = x < v16_all(-104.0f);
    x = v16_select(is_zero, v16_all(0.0f), x);
    x = v16_select(x > high, high, x);
    const v16 shift = v16_all(0x1.8p23f); /* adding it rounds to an integer in the low bits */
    const v16 shifted = v16_fma(x, v16_all(0x1.715476p0f), shift);
    const v16 n = shifted - shift;
    v16 r = v16_fma(n, v16_all(-MOT_LN2_HIGH), x);
    r = v16_fma(n, v16_all(-MOT_LN2_LOW), r);
    v16 p = v16_all(1.0f / 5040);
    p = v16_fma(p, r, v16_all(1.0f / 720));
    p = v16_fma(p, r, v16_all(1.0f / 120));
    p = v16_fma(p, r, v16_all(1.0f / 24));
    p = v16_fma(p, r, v16_all(1.0f / 6));
    p = v16_fma(p, r, v16_all(0.5f));
    p = v16_fma(p, r, v16_all(1.0f));
    p = v16_fma(p, r, v16_all(1.0f));
    const i16 exponent = (i16)shifted - (i16)shift;
    const i16 half = exponent >> 1;
    const v16 first = (v16)((half + 127) << 23);
    const v16 second = (v16)((exponent - half + 127) << 23);
    return v16_select(is_zero, v16_all(0.0f), (p * first) * second);
}

V16_INLINE v16 v16_log(v16 x)
{
    const v16 tiny = v16_all(0x1p-126f), inf = v16_all(__builtin_inff());
    const v16 zero = v16_all(0.0f), one = v16_all(1.0f);
    const i16 is_small = x < tiny;
    const v16 normal = v16_select(is_small, x * v16_all(0x1p24f), x);
    const i16 bits = (i16)normal - 0x3f3504f3; /* sqrt(1/2): the mantissa wraps there */
    const i16 exponent = (bits >> 23) + (is_small & -24);
    const v16 m = (v16)((bits & 0x007fffff) + 0x3f3504f3);
    const v16 n = __builtin_convertvector(exponent, v16);
    const v16 f = m - one;
    const v16 s = f / (f + v16_all(2.0f));
    const v16 z = s * s;
    v16 p = v16_all(2.0f / 11);
    p = v16_fma(p, z, v16_all(2.0f / 9));
    p = v16_fma(p, z, v16_all(2.0f / 7));
    p = v16_fma(p, z, v16_all(2.0f / 5));
    p = v16_fma(p, z, v16_all(2.0f / 3));
    /* log m = f - f^2/2 + s (f^2/2 + z p): the large term f is exact (Tang; as in fdlibm). */
    const v16 half_square = v16_all(0.5f) * f * f;
    const v16 tail = v16_fma(n, v16_all(MOT_LN2_LOW), s * v16_fma(z, p, half_square));
    v16 y = v16_fma(n, v16_all(MOT_LN2_HIGH), f - (half_square - tail));
    y = v16_select(x == inf, inf, y);
    y = v16_select(x == zero, -inf, y);
    return v16_select((x >= zero) | (x != x), v16_select(x != x, x, y),
                      v16_all(__builtin_nanf("")));
}

static inline float mot_exp(float x)
{
    return v16_exp(v16_all(x))[0];
}

static inline float mot_log(float x)
{
    return v16_log(v16_all(x))[0];
}
#endif
