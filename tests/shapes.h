/* Small shapes of each kind of model the transformer knows, for tests with random weights. */
#ifndef MOT_TEST_SHAPES_H
#define MOT_TEST_SHAPES_H
#include "model_layout.h"

static const struct {
    const char *name;
    struct mot_model_shape shape;
} shapes[] = {
    {"llama, tied", {2, 48, 80, 6, 2, 8, 96, 256, 1e-5f, 10000.0, 1, 0, 0}},
    {"qwen2, biases, one kv head", {2, 48, 96, 4, 1, 12, 101, 256, 1e-6f, 1e6, 1, 1, 0}},
    {"qwen3, head norms, untied", {2, 40, 72, 4, 2, 16, 96, 256, 1e-6f, 1e6, 0, 0, 1}},
    {"llama, wide MLP", {1, 64, 4864, 4, 4, 16, 200, 256, 1e-5f, 10000.0, 1, 0, 0}},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };
#endif
