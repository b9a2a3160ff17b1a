/* The matrix product under linear, linear_grad_input and linear_grad_weight.
 *
 *   c (m, n) = a (m, k) b (k, n), or += with accumulate
 *
 * Element (i, j) of a lies at a[i * a_row + j * a_col], b and c likewise (c_col is 1); one of a_row
 * and a_col is 1.  A row of c depends on its row of a and on b alone, bit for bit, whatever m and
 * the number of threads are: see mot_matmul_self_test. */
#ifndef MOT_MATMUL_H
#define MOT_MATMUL_H
#include "arena.h"
#include <stddef.h>

struct mot_product {
    int m, n, k;
    int a_row, a_col, b_row, b_col, c_row;
    int accumulate;
};

void mot_matmul(struct mot_arena *arena, const struct mot_product *p, const float *a,
                const float *b, float *c);
#endif
