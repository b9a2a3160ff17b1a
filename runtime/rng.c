/* rng: Philox4x32-10 and what is drawn from it.  See rng.h. */
#include "rng.h"
#include <math.h>

void mot_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static void draw(uint64_t seed, enum mot_rng_stream stream, uint32_t a, uint32_t b, uint32_t c,
                 uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)stream, a, b, c};
    mot_philox(seed, counter, out);
}

float mot_uniform(uint64_t seed, enum mot_rng_stream stream, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t out[4];
    draw(seed, stream, a, b, c, out);
    return (float)(out[0] >> 8) * 0x1p-24f;
}

uint32_t mot_uniform_int(uint64_t seed, enum mot_rng_stream stream, uint32_t a, uint32_t b,
                         uint32_t c, uint32_t bound)
{
    uint32_t out[4];
    draw(seed, stream, a, b, c, out);
    const unsigned __int128 wide = (unsigned __int128)((uint64_t)out[0] << 32 | out[1]) * bound;
    return (uint32_t)(wide >> 64);
}

float mot_normal(uint64_t seed, enum mot_rng_stream stream, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t out[4];
    draw(seed, stream, a, b, c, out);
    const double u = ((double)out[0] + 1.0) * 0x1p-32, v = (double)out[1] * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * v));
}
