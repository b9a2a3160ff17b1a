/* One row of logits read once for its maximum and once for the sums of its softmax: the code that
 * sampler and trainer share, so that the same row and temperature give the same bits to both.
 *
 * z = (logit - max) inv_temperature.  Sums run over blocks of 1024 columns: 64 lanes in float
 * within a block, the blocks' sums in double in ascending order. */
#ifndef MOT_SOFTMAX_ROW_H
#define MOT_SOFTMAX_ROW_H

enum { MOT_SOFTMAX_BLOCK = 1024 };

struct mot_softmax_row {
    float max; /* of the logits */
    float inv_temperature;
    double sum;      /* of exp(z) */
    double weighted; /* of exp(z) z; only when asked for */
    float log_sum;   /* log(sum) */
};

/* block_sums (NULL, or V / 1024 rounded up) receives the sum of exp(z) of each block. */
struct mot_softmax_row mot_softmax_row_read(int V, const float *logits, float inv_temperature,
                                            int with_entropy, float *block_sums);
float mot_softmax_row_logprob(const struct mot_softmax_row *row, float logit);
float mot_softmax_row_entropy(const struct mot_softmax_row *row);
#endif
