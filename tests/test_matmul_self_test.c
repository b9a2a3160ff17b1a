/* The self-test of the matrix product: on this machine as it is, and in children whose oneDNN may
 * only use AVX2 or SSE4.1 and therefore has rows that depend on the batch, the chosen path has rows
 * that do not, with packed weights too.  A self-test that chose nothing must be caught in the
 * children: the raw primitive is shown to fail there.
 * Run it alone: ./test_matmul_self_test        exit 0 pass, 1 fail */
#include "kernel_expect.h"
#include "matmul.h"
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 200, N = 896, K = 640 };

/* Do rows of the forward product stay the same in every cutting? */
static int rows_hold(struct mot_arena *arena, enum mot_matmul_path path)
{
    static const int counts[] = {1, 2, 3, 15, 16, 17, 64, 129, 199};
    float *x = numbers((size_t)ROWS * K, 1), *w = numbers((size_t)N * K, 2);
    float *whole = nans((size_t)ROWS * N), *part = nans((size_t)ROWS * N);
    int hold = 1;
    use_threads(2);
    struct mot_product p = mot_product_forward(ROWS, N, K);
    mot_matmul_by(path, arena, &p, x, w, whole);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        p = mot_product_forward(counts[i], N, K);
        use_threads(1 + (int)(i % 3));
        mot_matmul_by(path, arena, &p, x + K, w, part);
        hold &= memcmp(part, whole + N, (size_t)counts[i] * N * sizeof(float)) == 0;
    }
    free(x), free(w), free(whole), free(part);
    return hold;
}

/* Packed weights, where there are any, give the bits of the chosen path, for one or two chains of
 * k, and whole and partial panels of columns. */
static int packed_holds(struct mot_arena *arena)
{
    static const int sizes[][2] = {{N, K}, {N / 2 + 5, 1100}, {17, 300}};
    int hold = 1;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const int n = sizes[i][0], k = sizes[i][1], rows = 45;
        const struct mot_product p = mot_product_forward(rows, n, k);
        const size_t bytes = mot_matmul_pack_bytes(&p), numbers_of_c = (size_t)rows * n;
        if (bytes == 0) { return hold; }
        float *x = numbers((size_t)rows * k, 1), *w = numbers((size_t)n * k, 2);
        float *plain = nans(numbers_of_c), *got = nans(numbers_of_c);
        float *packed = aligned_alloc(64, bytes);
        mot_matmul(arena, &p, x, w, plain);
        mot_matmul_pack(&p, w, packed);
        mot_matmul_packed(&p, x, packed, got);
        hold &= memcmp(got, plain, numbers_of_c * sizeof(float)) == 0;
        free(x), free(w), free(plain), free(got), free(packed);
    }
    return hold;
}

static int run_here(const char *isa)
{
    const struct mot_model_shape shape = {.hidden_size = K,
                                          .intermediate_size = N,
                                          .n_heads = 4,
                                          .n_kv_heads = 2,
                                          .head_dim = 16,
                                          .vocab_size = 100};
    struct mot_arena *arena = mot_arena_create();
    use_threads(2);
    expect_true("self-test returns 0", mot_matmul_self_test(&shape) == 0);
    expect_true("and again", mot_matmul_self_test(&shape) == 0);
    const int raw = rows_hold(arena, MOT_MATMUL_PRIMITIVE);
    const int chosen = rows_hold(arena, mot_matmul_path_of(MOT_MATMUL_FORWARD));
    printf("%-8s %s: raw primitive %s, chosen path %s\n", isa, mot_matmul_describe(),
           raw ? "holds" : "does not hold", chosen ? "holds" : "DOES NOT HOLD");
    expect_true("the chosen path holds", chosen);
    /* A classic GEMM under the primitive is the case the other path is for. */
    const int is_gemm = strstr(mot_matmul_describe(), "gemm:") != NULL;
    expect_true("a GEMM is replaced",
                !is_gemm || mot_matmul_path_of(MOT_MATMUL_FORWARD) == MOT_MATMUL_OWN);
    if (is_gemm && strcmp(isa, "AVX2") == 0) { expect_true("and has to be", !raw); }
    const struct mot_product product = mot_product_forward(1, N, K);
    expect_true("our own path has packed weights", !is_gemm || mot_matmul_pack_bytes(&product) > 0);
    expect_true("packed weights hold", packed_holds(arena));
    expect_true("peak", mot_matmul_peak_flop_per_s() > 1e7);
    mot_arena_destroy(arena);
    fflush(stdout);
    return failures != 0;
}

static int run_child(const char *program, const char *isa)
{
    const pid_t child = fork();
    if (child == 0) {
        setenv("ONEDNN_MAX_CPU_ISA", isa, 1);
        execl(program, program, isa, (char *)NULL);
        _exit(127);
    }
    int status;
    return child < 0 || waitpid(child, &status, 0) < 0 || status != 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) { return run_here(argv[1]); }
    int bad = run_child(argv[0], "DEFAULT");
    bad |= run_child(argv[0], "AVX2");
    bad |= run_child(argv[0], "SSE41");
    printf(bad ? "FAILED\n" : "all right\n");
    return bad;
}
