/* The number formats of GGUF tensors that we read, one function and one table line each.
 * Source: block layouts of ggml-common.h; to the bit as gguf-py's dequantize. */
#include "dtype.h"
#include "gguf.h"

/* A half-precision number at any alignment. */
static float half_at(const unsigned char *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof(bits));
    return mot_f32_from_f16(bits);
}

static void f32_to_f32(float *to, const unsigned char *from, size_t n)
{
    mot_to_f32(to, from, MOT_F32, n);
}

static void f16_to_f32(float *to, const unsigned char *from, size_t n)
{
    mot_to_f32(to, from, MOT_F16, n);
}

static void bf16_to_f32(float *to, const unsigned char *from, size_t n)
{
    mot_to_f32(to, from, MOT_BF16, n);
}

/* Block: half d, then 32 int8 q; a number is d q. */
static void q8_0_to_f32(float *to, const unsigned char *from, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, from += 34, to += 32) {
        const float d = half_at(from);
        for (int i = 0; i < 32; i++) { to[i] = d * (float)(signed char)from[2 + i]; }
    }
}

/* Block: half d, then 16 bytes of two 4-bit q: low nibbles are numbers 0-15, high ones 16-31; a
 * number is d (q - 8). */
static void q4_0_to_f32(float *to, const unsigned char *from, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, from += 18, to += 32) {
        const float d = half_at(from);
        for (int i = 0; i < 16; i++) {
            to[i] = d * (float)((from[2 + i] & 15) - 8);
            to[i + 16] = d * (float)((from[2 + i] >> 4) - 8);
        }
    }
}

/* Block: half d, half m, then 16 bytes as in Q4_0; a number is d q + m. */
static void q4_1_to_f32(float *to, const unsigned char *from, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, from += 20, to += 32) {
        const float d = half_at(from), m = half_at(from + 2);
        for (int i = 0; i < 16; i++) {
            to[i] = d * (float)(from[4 + i] & 15) + m;
            to[i + 16] = d * (float)(from[4 + i] >> 4) + m;
        }
    }
}

static const struct mot_gguf_type types[] = {
    /* id name numbers bytes of a block */
    {0, "F32", 1, 4, f32_to_f32},     {1, "F16", 1, 2, f16_to_f32},
    {2, "Q4_0", 32, 18, q4_0_to_f32}, {3, "Q4_1", 32, 20, q4_1_to_f32},
    {8, "Q8_0", 32, 34, q8_0_to_f32}, {30, "BF16", 1, 2, bf16_to_f32},
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

const struct mot_gguf_type *mot_gguf_type_find(uint32_t id)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (types[i].id == id) { return &types[i]; }
    }
    return NULL;
}

/* The ids of enum ggml_type, so that an error can name what it cannot read; NULL: retired. */
static const char *const names[] = {
    "F32",    "F16",   "Q4_0",  "Q4_1",   NULL,    NULL,    "Q5_0",    "Q5_1",   "Q8_0",    "Q8_1",
    "Q2_K",   "Q3_K",  "Q4_K",  "Q5_K",   "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",
    "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",    "I16",   "I32",     "I64",    "F64",     "IQ1_M",
    "BF16",   NULL,    NULL,    NULL,     "TQ1_0", "TQ2_0", NULL,      NULL,     NULL,      "MXFP4",
};

const char *mot_gguf_type_name(uint32_t id)
{
    const char *name = id < sizeof(names) / sizeof(names[0]) ? names[id] : NULL;
    return name ? name : "unknown";
}
