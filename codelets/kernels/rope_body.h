/* One rotated pair: (a, b) of a head at angle with cosine c and sine s.  After dialect.h. */
MOT_DEVICE void mot_rope_pair(MOT_GLOBAL float *a, MOT_GLOBAL float *b, float c, float s)
{
    const float x = *a, y = *b;
    *a = x * c - y * s;
    *b = y * c + x * s;
}
