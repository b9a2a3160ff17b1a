/* The matrix product under linear, linear_grad_input and linear_grad_weight.
 *
 *   c (m, n) = a (m, k) b (k, n), or += with accumulate
 *
 * Element (i, j) of a lies at a[i * a_row + j * a_col], b likewise, and c at c[i * c_row + j]; one
 * of a_row and a_col is 1, and one of b_row and b_col.  A row of c depends on its row of a (and of
 * c, with accumulate) and on b alone, bit for bit, whatever m, its place and the number of threads:
 * mot_matmul_self_test (kernels.h) chooses for each way of use the path that makes it so. */
#ifndef MOT_MATMUL_H
#define MOT_MATMUL_H
#include "arena.h"
#include <stddef.h>

/* The three ways of use; a path is chosen for each. */
enum mot_matmul_use {
    MOT_MATMUL_FORWARD,     /* b_row 1: weights as they lie */
    MOT_MATMUL_GRAD_INPUT,  /* b_col 1 */
    MOT_MATMUL_GRAD_WEIGHT, /* a_row 1: a sum over tokens, accumulated */
    MOT_MATMUL_USES
};

enum mot_matmul_path {
    MOT_MATMUL_PRIMITIVE, /* oneDNN's matmul as it is */
    MOT_MATMUL_PAIRED,    /* the same, a lone row computed as two (oneDNN 3 takes another kernel) */
    MOT_MATMUL_OWN,       /* matmul_own.c */
    MOT_MATMUL_PATHS
};

struct mot_product {
    enum mot_matmul_use use;
    int m, n, k;
    int a_row, a_col, b_row, b_col, c_row;
    int accumulate;
};

/* Rows of one product of the weight gradient.  Above 1024 oneDNN 2.6 lets several threads sum over
 * parts of the rows, so that the result depends on their number (measured); linear_grad_weight
 * therefore adds up products of at most so many rows. */
enum { MOT_MATMUL_SUM_ROWS = 512 };

void mot_matmul(struct mot_arena *arena, const struct mot_product *p, const float *a,
                const float *b, float *c);
/* The same by a path of the caller's choice. */
void mot_matmul_by(enum mot_matmul_path path, struct mot_arena *arena, const struct mot_product *p,
                   const float *a, const float *b, float *c);
void mot_matmul_own(struct mot_arena *arena, const struct mot_product *p, const float *a,
                    const float *b, float *c);

/* Packed weights: b of a FORWARD product in the order in which mot_matmul_packed reads it
 * (matmul_packed.c), which gives the bits of mot_matmul.  The plain b is rearranged in every
 * product, which costs a large part of one of few rows.  pack_bytes: what b of this n and k takes,
 * a multiple of 64; 0: the self-test found other bits, and there is none.  m does not matter. */
size_t mot_matmul_pack_bytes(const struct mot_product *p);
void mot_matmul_pack(const struct mot_product *p, const float *b, float *packed);
void mot_matmul_packed(const struct mot_product *p, const float *a, const float *packed, float *c);
void mot_matmul_forbid_packing(void); /* from here on; the self-test's */

enum mot_matmul_path mot_matmul_path_of(enum mot_matmul_use use);
void mot_matmul_set_path(enum mot_matmul_use use, enum mot_matmul_path path);
/* What oneDNN calls the code it would run for this product, "brg:avx512_core". */
void mot_matmul_implementation(const struct mot_product *p, char *name, size_t bytes);

/* The products of the three uses of a linear layer of M rows, K inputs and N outputs. */
struct mot_product mot_product_forward(int M, int N, int K);
struct mot_product mot_product_grad_input(int M, int N, int K, int accumulate);
struct mot_product mot_product_grad_weight(int M, int N, int K);
#endif
