/* Number formats of weights in files and in memory, and conversion to and from float32. */
#ifndef MOT_DTYPE_H
#define MOT_DTYPE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum mot_dtype { MOT_F32, MOT_F16, MOT_BF16 };

size_t mot_dtype_bytes(enum mot_dtype dtype);
const char *mot_dtype_name(enum mot_dtype dtype); /* "float32", "float16", "bfloat16" */
/* "float32", "bf16", "F16"... 0 and *dtype, or -EINVAL without a message. */
int mot_dtype_parse(const char *name, enum mot_dtype *dtype);

/* Round to nearest, ties to even; NaN stays NaN. */
static inline uint16_t mot_bf16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffffu) > 0x7f800000u) { return (uint16_t)((bits >> 16) | 0x40u); }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
static inline float mot_f32_from_bf16(uint16_t value)
{
    const uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof(result));
    return result;
}
float mot_f32_from_f16(uint16_t value);
uint16_t mot_f16_from_f32(float value);
/* count numbers of dtype at from (any alignment) to float32. */
void mot_to_f32(float *to, const void *from, enum mot_dtype dtype, size_t count);
#endif
