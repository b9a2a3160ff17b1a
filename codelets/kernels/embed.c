/* Rows taken from a table and added back to it: the embedding, and the gather and scatter of rows;
 * see kernels.h.  Adding back runs over blocks of columns, so that each element of the table takes
 * its rows in ascending order whatever the number of threads. */
#include "cpu_kernels.h"
#include "parallel.h"
#include <string.h>

enum { COLUMNS = 64 }; /* of one iteration of the adding loops */

void mot_cpu_gather_rows(struct mot_exec *e, int rows, int C, const int32_t *index,
                         const float *from, float *to)
{
    (void)e;
    MOT_PARALLEL_FOR((size_t)rows * C > MOT_WORTH_A_TEAM)
    for (int r = 0; r < rows; r++) {
        memcpy(to + (size_t)r * C, from + (size_t)index[r] * C, (size_t)C * sizeof(float));
    }
}

void mot_cpu_scatter_add_rows(struct mot_exec *e, int rows, int C, const int32_t *index,
                              const float *from, float *to)
{
    (void)e;
    MOT_PARALLEL_FOR((size_t)rows * C > MOT_WORTH_A_TEAM)
    for (int c = 0; c < C; c += COLUMNS) {
        const int n = mot_min(COLUMNS, C - c);
        for (int r = 0; r < rows; r++) {
            const float *source = from + (size_t)r * C + c;
            float *target = to + (size_t)index[r] * C + c;
            for (int i = 0; i < n; i++) { target[i] += source[i]; }
        }
    }
}

void mot_cpu_embed(struct mot_exec *e, int T, int C, const int32_t *ids, const float *table,
                   float *x)
{
    mot_cpu_gather_rows(e, T, C, ids, table, x);
}

void mot_cpu_embed_grad(struct mot_exec *e, int T, int C, const int32_t *ids, const float *dx,
                        float *dtable)
{
    mot_cpu_scatter_add_rows(e, T, C, ids, dx, dtable);
}
