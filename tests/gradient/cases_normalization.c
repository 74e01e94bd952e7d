/* Batch, layer and group normalisation */
#include "gradient/op_table.h"

#include "tape/op.h"

static const float large_epsilon = 0.5f, usual_epsilon = 1e-3f, no_epsilon = 0;

static td_tensor *build_layer(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_layer_normalization(tape, in[0], in[1], in[2], *(const float *)options);
}

static void layer(const op_array in[], op_array *out, const void *options) {
    double epsilon = (double)*(const float *)options;
    int64_t n = in[0].shape.dims[in[0].shape.rank - 1];
    for (int64_t start = 0; start < in[0].count; start += n) {
        const double *x = in[0].values + start;
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++) {
            mean += x[i] / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            variance += (x[i] - mean) * (x[i] - mean) / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            double gamma = in[1].shape.rank ? in[1].values[i] : 1;
            double beta = in[2].shape.rank ? in[2].values[i] : 0;
            out->values[start + i] = (x[i] - mean) / sqrt(variance + epsilon) * gamma + beta;
        }
    }
}

static td_tensor *build_group(td_tape *tape, td_tensor *const in[], const void *options) {
    return td__group_normalization(tape, in[0], *(const int64_t *)options, in[1], in[2], 0.01f);
}

static void group(const op_array in[], op_array *out, const void *options) {
    int64_t n = in[0].shape.dims[in[0].shape.rank - 1], own = n / *(const int64_t *)options;
    int64_t size = in[0].count ? in[0].count / in[0].shape.dims[0] : 0;
    for (int64_t first = 0; first < in[0].count; first += size) {
        for (int64_t c = 0; c < n; c++) {
            double sum = 0, squares = 0, count = (double)(size / n * own);
            for (int64_t i = 0; i < size; i++) {
                sum += i % n / own == c / own ? in[0].values[first + i] : 0;
            }
            for (int64_t i = 0; i < size; i++) {
                double away = in[0].values[first + i] - sum / count;
                squares += i % n / own == c / own ? away * away : 0;
            }
            double gamma = in[1].shape.rank ? in[1].values[c] : 1;
            double beta = in[2].shape.rank ? in[2].values[c] : 0;
            for (int64_t i = first + c; i < first + size; i += n) {
                out->values[i] = (in[0].values[i] - sum / count) /
                                     sqrt(squares / count + (double)0.01f) * gamma +
                                 beta;
            }
        }
    }
}

static td_tensor *build_batch(td_tape *tape, td_tensor *const in[], const void *options) {
    td_tape_set_training(tape, true);
    return td_batch_normalization(tape, in[0], in[1], in[2], in[3], in[4], options);
}

static td_tensor *build_inference(td_tape *tape, td_tensor *const in[], const void *options) {
    td_tape_set_training(tape, false);
    return td_batch_normalization(tape, in[0], in[1], in[2], in[3], in[4], options);
}

static void channels(const op_array in[], op_array *out, const td_batch_normalization_options *o,
                     bool training) {
    double epsilon = o ? o->epsilon.value : 1e-3;
    int64_t n = in[0].shape.dims[in[0].shape.rank - 1], rows = n ? in[0].count / n : 0;
    for (int64_t c = 0; c < n; c++) {
        double mean = training ? 0 : in[3].values[c], variance = training ? 0 : in[4].values[c];
        for (int64_t r = 0; training && r < rows; r++) {
            mean += in[0].values[r * n + c] / (double)rows;
        }
        for (int64_t r = 0; training && r < rows; r++) {
            variance += pow(in[0].values[r * n + c] - mean, 2) / (double)rows;
        }
        for (int64_t r = 0; r < rows; r++) {
            double gamma = in[1].shape.rank ? in[1].values[c] : 1;
            double beta = in[2].shape.rank ? in[2].values[c] : 0;
            out->values[r * n + c] =
                (in[0].values[r * n + c] - mean) / sqrt(variance + epsilon) * gamma + beta;
        }
    }
}

static void batch(const op_array in[], op_array *out, const void *options) {
    channels(in, out, options, true);
}

static void inference(const op_array in[], op_array *out, const void *options) {
    channels(in, out, options, false);
}

static const td_batch_normalization_options settings = {
    .size = sizeof settings, .momentum = TD_SET(0.9f), .epsilon = TD_SET(0.1f)};

#define LAYER(what, epsilon, x, gamma, beta)                                                       \
    {                                                                                              \
        .name = "layer_normalization, " what, .inputs = {{.shape = TD_SHAPE x}, gamma, beta},      \
        .input_count = 3, .output = TD_SHAPE x, .build = build_layer, .reference = layer,          \
        .options = epsilon                                                                         \
    }
#define BATCH(kind, what, options_, x, n, gamma, beta)                                             \
    {                                                                                              \
        .name = "batch_normalization, " what,                                                      \
        .inputs = {{.shape = TD_SHAPE x},                                                          \
                   gamma,                                                                          \
                   beta,                                                                           \
                   {.shape = TD_SHAPE(n)},                                                         \
                   {.shape = TD_SHAPE(n), .low = 0.5, .high = 2}},                                 \
        .input_count = 5, .output = TD_SHAPE x, .build = build_##kind, .reference = kind,          \
        .options = options_                                                                        \
    }
#define GROUP(what, groups, x, gamma, beta)                                                        \
    {                                                                                              \
        .name = "group_normalization, " what, .inputs = {{.shape = TD_SHAPE x}, gamma, beta},      \
        .input_count = 3, .output = TD_SHAPE x, .build = build_group, .reference = group,          \
        .options = &(const int64_t) {                                                              \
            groups                                                                                 \
        }                                                                                          \
    }
#define OF(n)                                                                                      \
    { .shape = TD_SHAPE(n) }
#define NONE                                                                                       \
    { .optional = true }

static const op_case cases[] = {
    LAYER("plain", &usual_epsilon, (4, 5), OF(5), OF(5)),
    LAYER("rank 1", &usual_epsilon, (7), OF(7), OF(7)),
    {.name = "layer_normalization, one feature", /* always beta */
     .inputs = {{.shape = TD_SHAPE(3, 1), .constant = true}, OF(1), OF(1)},
     .input_count = 3,
     .output = TD_SHAPE(3, 1),
     .build = build_layer,
     .reference = layer,
     .options = &usual_epsilon},
    LAYER("no gamma, no beta", &usual_epsilon, (4, 5), NONE, NONE),
    LAYER("no beta", &usual_epsilon, (2, 3, 5), OF(5), NONE),
    LAYER("epsilon", &large_epsilon, (2, 3, 5), OF(5), OF(5)),
    LAYER("no epsilon", &no_epsilon, (2, 3, 5), OF(5), OF(5)),
    LAYER("many rows", &usual_epsilon, (400, 70), OF(70), OF(70)),
    LAYER("no rows", &usual_epsilon, (0, 4), OF(4), OF(4)),
    GROUP("plain", 2, (3, 5, 6), OF(6), OF(6)),
    GROUP("pixels beside each other", 2, (3, 4, 4, 6), OF(6), OF(6)),
    GROUP("one group", 1, (2, 3, 5), OF(5), OF(5)),
    GROUP("a group for each channel", 5, (2, 7, 5), OF(5), OF(5)),
    GROUP("no gamma, no beta", 2, (2, 3, 4), NONE, NONE),
    GROUP("no gamma", 2, (2, 3, 4), NONE, OF(4)),
    GROUP("no pixels beside", 3, (4, 9), OF(9), OF(9)),
    GROUP("many channels", 13, (3, 5, 130), OF(130), OF(130)),
    GROUP("many examples", 4, (8, 20, 20, 16), OF(16), OF(16)),
    GROUP("no examples", 2, (0, 3, 4), OF(4), OF(4)),
    GROUP("no pixels", 2, (2, 0, 4), OF(4), OF(4)),
    {.name = "group_normalization, one element", /* always beta */
     .inputs = {{.shape = TD_SHAPE(3, 2), .constant = true}, OF(2), OF(2)},
     .input_count = 3,
     .output = TD_SHAPE(3, 2),
     .build = build_group,
     .reference = group,
     .options = &(const int64_t){2}},
    BATCH(batch, "plain", NULL, (9, 3), 3, OF(3), OF(3)),
    BATCH(batch, "images", NULL, (4, 5, 5, 7), 7, OF(7), OF(7)),
    BATCH(batch, "one channel", NULL, (150, 1), 1, OF(1), OF(1)),
    BATCH(batch, "two examples", &settings, (2, 3), 3, OF(3), OF(3)),
    BATCH(batch, "no gamma, no beta", &settings, (9, 3), 3, NONE, NONE),
    BATCH(batch, "no gamma", &settings, (9, 3), 3, NONE, OF(3)),
    BATCH(batch, "many channels", NULL, (12, 130), 130, OF(130), OF(130)),
    BATCH(batch, "many rows", NULL, (6, 30, 30, 16), 16, OF(16), OF(16)),
    BATCH(inference, "inference", NULL, (9, 3), 3, OF(3), OF(3)),
    BATCH(inference, "inference, no gamma", &settings, (2, 4, 4, 66), 66, NONE, OF(66)),
    BATCH(inference, "inference, many rows", NULL, (6, 30, 30, 16), 16, OF(16), OF(16)),
    BATCH(inference, "inference, no rows", NULL, (0, 3), 3, OF(3), OF(3)),
};

static const op_mistake mistakes[] = {
    {.name = "layer_normalization, gamma",
     .inputs = {{.shape = TD_SHAPE(2, 5)}, OF(4), OF(5)},
     .input_count = 3,
     .build = build_layer,
     .options = &usual_epsilon,
     .status = TD_BAD_SHAPE,
     .text = "layer_normalization: gamma (4,) does not fit input (2, 5): it must be (5,)"},
    {.name = "layer_normalization, scalar",
     .inputs = {{.shape = {0}}, NONE, NONE},
     .input_count = 3,
     .build = build_layer,
     .options = &usual_epsilon,
     .status = TD_BAD_SHAPE,
     .text = "layer_normalization: input () has no axis"},
    {.name = "batch_normalization, beta",
     .inputs = {{.shape = TD_SHAPE(2, 5)}, OF(5), {.shape = TD_SHAPE(1, 5)}, OF(5), OF(5)},
     .input_count = 5,
     .build = build_batch,
     .status = TD_BAD_SHAPE,
     .text = "batch_normalization: beta (1, 5) does not fit input (2, 5): it must be (5,)"},
    {.name = "batch_normalization, no moving mean",
     .inputs = {{.shape = TD_SHAPE(2, 5)}, OF(5), OF(5), NONE, OF(5)},
     .input_count = 5,
     .build = build_batch,
     .status = TD_INVALID,
     .text = "batch_normalization: no moving mean given"},
    {.name = "batch_normalization, no examples",
     .inputs = {{.shape = TD_SHAPE(0, 5)}, OF(5), OF(5), OF(5), OF(5)},
     .input_count = 5,
     .build = build_batch,
     .status = TD_BAD_SHAPE,
     .text = "batch_normalization: input (0, 5) has no examples"},
};

const op_group cases_normalization = {OP_LIST(cases), OP_LIST(mistakes)};
