/* Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
 * easy as 1, 2, 3", section 3.3).  A number is a function of what it is for, never of who drew
 * before, so where and when a task runs does not change what it draws. */
#ifndef MOT_RNG_H
#define MOT_RNG_H
#include <stdint.h>

/* What a number is for; the first word of the counter, so streams never meet. */
enum mot_rng_stream {
    MOT_RNG_SAMPLE,
    MOT_RNG_SHUFFLE,
    MOT_RNG_INIT,
    MOT_RNG_DATA,
    MOT_RNG_TEST,
    MOT_RNG_SIMULATED
};

/* Four 32-bit words from a 64-bit key and a 128-bit counter. */
void mot_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);

/* Uniform in [0, 1), 24 random bits: a function of its arguments alone. */
float mot_uniform(uint64_t seed, enum mot_rng_stream stream, uint32_t a, uint32_t b, uint32_t c);
/* Uniform integer in [0, bound), bound >= 1, without modulo bias worth the name (64-bit
 * product). */
uint32_t mot_uniform_int(uint64_t seed, enum mot_rng_stream stream, uint32_t a, uint32_t b,
                         uint32_t c, uint32_t bound);
/* Standard normal (Box-Muller on two words of one Philox block). */
float mot_normal(uint64_t seed, enum mot_rng_stream stream, uint32_t a, uint32_t b, uint32_t c);
#endif
