/* dtype: names, sizes and conversions.  See dtype.h. */
#include "dtype.h"
#include <errno.h>
#include <strings.h>

static const struct {
    const char *name, *alias, *file_name; /* TRL's word, short form, safetensors' word */
    size_t bytes;
} dtypes[] = {
    [MOT_F32] = {"float32", "fp32", "F32", 4},
    [MOT_F16] = {"float16", "fp16", "F16", 2},
    [MOT_BF16] = {"bfloat16", "bf16", "BF16", 2},
};

size_t mot_dtype_bytes(enum mot_dtype dtype)
{
    return dtypes[dtype].bytes;
}

const char *mot_dtype_name(enum mot_dtype dtype)
{
    return dtypes[dtype].name;
}

int mot_dtype_parse(const char *name, enum mot_dtype *dtype)
{
    for (int d = MOT_F32; d <= MOT_BF16; d++) {
        if (strcasecmp(name, dtypes[d].name) == 0 || strcasecmp(name, dtypes[d].alias) == 0
            || strcasecmp(name, dtypes[d].file_name) == 0) {
            *dtype = (enum mot_dtype)d;
            return 0;
        }
    }
    return -EINVAL;
}

float mot_f32_from_f16(uint16_t value)
{
    const uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    uint32_t exponent = (value >> 10) & 0x1fu, mantissa = value & 0x3ffu, bits;
    if (exponent == 0x1fu) { /* infinity, NaN */
        bits = sign | 0x7f800000u | mantissa << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112u) << 23 | mantissa << 13;
    } else if (mantissa == 0) {
        bits = sign;
    } else { /* subnormal: shift until the leading one is the hidden bit */
        exponent = 113u;
        while ((mantissa & 0x400u) == 0) {
            mantissa <<= 1;
            exponent--;
        }
        bits = sign | exponent << 23 | (mantissa & 0x3ffu) << 13;
    }
    float result;
    memcpy(&result, &bits, sizeof(result));
    return result;
}

uint16_t mot_f16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) { return (uint16_t)(sign | 0x7e00u); }
    if (bits >= 0x477ff000u) { return (uint16_t)(sign | 0x7c00u); } /* rounds to infinity */
    if (bits < 0x38800000u) { /* subnormal: the sum with 0.5 rounds at the right bit */
        float magnitude, half = 0.5f;
        memcpy(&magnitude, &bits, sizeof(magnitude));
        magnitude += half;
        memcpy(&bits, &magnitude, sizeof(bits));
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    bits += 0xfffu + (bits >> 13 & 1u);
    return (uint16_t)(sign | (bits - 0x38000000u) >> 13);
}

void mot_to_f32(float *to, const void *from, enum mot_dtype dtype, size_t count)
{
    if (dtype == MOT_F32) {
        memcpy(to, from, count * sizeof(float));
        return;
    }
    const char *bytes = from;
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof(half));
        to[i] = dtype == MOT_F16 ? mot_f32_from_f16(half) : mot_f32_from_bf16(half);
    }
}
