/* simple_rnn, lstm and gru */
#include "gradient/op_table.h"

typedef struct setting {
    bool sequences, backwards, reset_after;
    td_number activation, gates;
} setting;

static td_recurrent_options options_of(const setting *s, td_tensor *const in[]) {
    return (td_recurrent_options){.size = sizeof(td_recurrent_options),
                                  .return_sequences = s->sequences,
                                  .go_backwards = s->backwards,
                                  .activation = s->activation,
                                  .recurrent_activation = s->gates,
                                  .initial_state = in[4],
                                  .initial_cell = in[5]};
}

static td_tensor *build_simple_rnn(td_tape *tape, td_tensor *const in[], const void *options) {
    td_recurrent_options o = options_of(options, in);
    return td_simple_rnn(tape, in[0], in[1], in[2], in[3], &o);
}
static td_tensor *build_lstm(td_tape *tape, td_tensor *const in[], const void *options) {
    td_recurrent_options o = options_of(options, in);
    return td_lstm(tape, in[0], in[1], in[2], in[3], &o);
}
static td_tensor *build_gru(td_tape *tape, td_tensor *const in[], const void *options) {
    const setting *s = options;
    td_recurrent_options o = options_of(s, in);
    return td_gru(tape, in[0], in[1], in[2], in[3], s->reset_after, &o);
}

static double activated(td_number activation, td_activation by_default, double x) {
    switch (activation.set ? (td_activation)activation.value : by_default) {
    case TD_LINEAR:
        return x;
    case TD_RELU:
        return fmax(x, 0);
    case TD_SIGMOID:
        return 1 / (1 + exp(-x));
    case TD_SWISH:
        return x / (1 + exp(-x));
    case TD_HARD_SIGMOID:
        return fmin(fmax(x / 6 + 0.5, 0), 1);
    default:
        return tanh(x);
    }
}
#define ACTIVATION(x) activated(s->activation, TD_TANH, x)
#define GATE(x) activated(s->gates, TD_SIGMOID, x)

enum { MOST_UNITS = 64 };

/* Column j of (row matrix): sum over i of row[i] matrix[i, j]. */
static double product(const double *row, const op_array *matrix, int64_t j) {
    double sum = 0;
    for (int64_t i = 0; i < matrix->shape.dims[0]; i++) {
        sum += row[i] * matrix->values[i * matrix->shape.dims[1] + j];
    }
    return sum;
}

static double bias_at(const op_array *bias, int64_t row, int64_t j) {
    int64_t width = bias->shape.rank ? bias->shape.dims[bias->shape.rank - 1] : 0;
    return row * width + j < bias->count && bias->shape.rank ? bias->values[row * width + j] : 0;
}

typedef void step(const op_array in[], const setting *s, const double *x, double *h, double *c);

static void step_simple_rnn(const op_array in[], const setting *s, const double *x, double *h,
                            double *c) {
    (void)c;
    double before[MOST_UNITS];
    int64_t units = in[2].shape.dims[0];
    memcpy(before, h, (size_t)units * sizeof *h);
    for (int64_t j = 0; j < units; j++) {
        h[j] =
            ACTIVATION(product(x, &in[1], j) + product(before, &in[2], j) + bias_at(&in[3], 0, j));
    }
}

static void step_lstm(const op_array in[], const setting *s, const double *x, double *h,
                      double *c) {
    double before[MOST_UNITS];
    int64_t units = in[2].shape.dims[0];
    memcpy(before, h, (size_t)units * sizeof *h);
    for (int64_t j = 0; j < units; j++) {
        double z[4];
        for (int64_t gate = 0; gate < 4; gate++) {
            int64_t column = gate * units + j;
            z[gate] = product(x, &in[1], column) + product(before, &in[2], column) +
                      bias_at(&in[3], 0, column);
        }
        c[j] = GATE(z[1]) * c[j] + GATE(z[0]) * ACTIVATION(z[2]);
        h[j] = GATE(z[3]) * ACTIVATION(c[j]);
    }
}

static void step_gru(const op_array in[], const setting *s, const double *x, double *h, double *c) {
    (void)c;
    double before[MOST_UNITS], reset[MOST_UNITS];
    int64_t units = in[2].shape.dims[0];
    bool after = in[3].shape.rank ? in[3].shape.rank == 2 : s->reset_after;
    memcpy(before, h, (size_t)units * sizeof *h);
    double r[MOST_UNITS];
    for (int64_t j = 0; j < units; j++) {
        int64_t column = units + j;
        r[j] = GATE(product(x, &in[1], column) + product(before, &in[2], column) +
                    bias_at(&in[3], 0, column) + (after ? bias_at(&in[3], 1, column) : 0));
        reset[j] = r[j] * before[j];
    }
    for (int64_t j = 0; j < units; j++) {
        int64_t column = 2 * units + j;
        double z = GATE(product(x, &in[1], j) + product(before, &in[2], j) + bias_at(&in[3], 0, j) +
                        (after ? bias_at(&in[3], 1, j) : 0));
        double inner = after ? r[j] * (product(before, &in[2], column) + bias_at(&in[3], 1, column))
                             : product(reset, &in[2], column);
        double candidate =
            ACTIVATION(product(x, &in[1], column) + bias_at(&in[3], 0, column) + inner);
        h[j] = z * before[j] + (1 - z) * candidate;
    }
}

static void run(const op_array in[], op_array *out, const setting *s, step *take) {
    const int64_t *dims = in[0].shape.dims;
    int64_t units = in[2].shape.dims[0];
    for (int64_t b = 0; b < dims[0]; b++) {
        double h[MOST_UNITS], c[MOST_UNITS];
        for (int64_t j = 0; j < units; j++) {
            h[j] = in[4].shape.rank ? in[4].values[b * units + j] : 0;
            c[j] = in[5].shape.rank ? in[5].values[b * units + j] : 0;
        }
        for (int64_t t = 0; t < dims[1]; t++) {
            int64_t place = s->backwards ? dims[1] - 1 - t : t;
            take(in, s, in[0].values + (b * dims[1] + place) * dims[2], h, c);
            memcpy(out->values + (s->sequences ? b * dims[1] + t : b) * units, h,
                   (size_t)units * sizeof *h);
        }
    }
}

static void simple_rnn(const op_array in[], op_array *out, const void *options) {
    run(in, out, options, step_simple_rnn);
}
static void lstm(const op_array in[], op_array *out, const void *options) {
    run(in, out, options, step_lstm);
}
static void gru(const op_array in[], op_array *out, const void *options) {
    run(in, out, options, step_gru);
}

static const setting last = {0}, sequences = {.sequences = true}, backwards = {.backwards = true};
static const setting both = {.sequences = true, .backwards = true};
static const setting after = {.reset_after = true};
static const setting after_both = {.reset_after = true, .sequences = true, .backwards = true};
static const setting linear = {.activation = TD_SET(TD_LINEAR), .gates = TD_SET(TD_HARD_SIGMOID)};
static const setting swish = {.sequences = true, .activation = TD_SET(TD_SWISH)};
static const setting after_swish = {
    .sequences = true, .reset_after = true, .gates = TD_SET(TD_SWISH)};
static const setting log_softmax = {.activation = TD_SET(TD_LOG_SOFTMAX)};

#define NONE                                                                                       \
    { .optional = true }
#define SMALL(...)                                                                                 \
    { .shape = TD_SHAPE(__VA_ARGS__), .low = -0.7, .high = 0.7 }
#define CASE(op, what, options_, x, kernel, recurrent, bias, state, cell, y)                       \
    {                                                                                              \
        .name = #op ", " what,                                                                     \
        .inputs = {{.shape = TD_SHAPE x}, SMALL kernel, SMALL recurrent, bias, state, cell},       \
        .input_count = 6, .output = TD_SHAPE y, .build = build_##op, .reference = op,              \
        .options = options_                                                                        \
    }

static const op_case cases[] = {
    CASE(simple_rnn, "last", &last, (2, 4, 3), (3, 5), (5, 5), SMALL(5), NONE, NONE, (2, 5)),
    CASE(simple_rnn, "one step", &last, (1, 1, 1), (1, 1), (1, 1), NONE, NONE, NONE, (1, 1)),
    CASE(simple_rnn, "sequences", &both, (2, 4, 3), (3, 5), (5, 5), SMALL(5), SMALL(2, 5), NONE,
         (2, 4, 5)),
    CASE(simple_rnn, "swish", &swish, (2, 4, 3), (3, 5), (5, 5), SMALL(5), NONE, NONE, (2, 4, 5)),
    CASE(simple_rnn, "linear", &linear, (2, 4, 3), (3, 5), (5, 5), NONE, NONE, NONE, (2, 5)),
    CASE(lstm, "last", &last, (2, 4, 3), (3, 20), (5, 20), SMALL(20), NONE, NONE, (2, 5)),
    CASE(lstm, "one step", &last, (1, 1, 1), (1, 4), (1, 4), NONE, NONE, NONE, (1, 1)),
    CASE(lstm, "sequences", &sequences, (2, 4, 3), (3, 20), (5, 20), SMALL(20), NONE, NONE,
         (2, 4, 5)),
    CASE(lstm, "backwards", &backwards, (2, 4, 3), (3, 20), (5, 20), SMALL(20), NONE, NONE, (2, 5)),
    CASE(lstm, "initial states", &both, (2, 4, 3), (3, 20), (5, 20), NONE, SMALL(2, 5), SMALL(2, 5),
         (2, 4, 5)),
    CASE(lstm, "swish", &swish, (2, 4, 3), (3, 20), (5, 20), SMALL(20), NONE, NONE, (2, 4, 5)),
    CASE(lstm, "linear", &linear, (2, 4, 3), (3, 20), (5, 20), SMALL(20), NONE, NONE, (2, 5)),
    CASE(lstm, "many units", &sequences, (9, 6, 12), (12, 132), (33, 132), SMALL(132), NONE, NONE,
         (9, 6, 33)),
    CASE(gru, "reset after", &last, (2, 4, 3), (3, 15), (5, 15), SMALL(2, 15), NONE, NONE, (2, 5)),
    CASE(gru, "reset after, no bias", &after_both, (2, 4, 3), (3, 15), (5, 15), NONE, SMALL(2, 5),
         NONE, (2, 4, 5)),
    CASE(gru, "reset after, last", &after, (2, 4, 3), (3, 15), (5, 15), NONE, NONE, NONE, (2, 5)),
    CASE(gru, "reset before", &last, (2, 4, 3), (3, 15), (5, 15), SMALL(15), NONE, NONE, (2, 5)),
    CASE(gru, "reset before, no bias", &both, (2, 4, 3), (3, 15), (5, 15), NONE, SMALL(2, 5), NONE,
         (2, 4, 5)),
    CASE(gru, "swish", &swish, (2, 4, 3), (3, 15), (5, 15), SMALL(15), NONE, NONE, (2, 4, 5)),
    CASE(gru, "reset after, swish gates", &after_swish, (2, 4, 3), (3, 15), (5, 15), NONE, NONE,
         NONE, (2, 4, 5)),
    CASE(gru, "many units", &sequences, (9, 6, 12), (12, 99), (33, 99), SMALL(2, 99), NONE, NONE,
         (9, 6, 33)),
    CASE(gru, "many units, before", &sequences, (9, 6, 12), (12, 99), (33, 99), SMALL(99), NONE,
         NONE, (9, 6, 33)),
};

#define MISTAKE(op, what, options_, x, kernel, recurrent, bias, state, status_, text_)             \
    {                                                                                              \
        .name = #op ", " what,                                                                     \
        .inputs = {{.shape = TD_SHAPE x}, SMALL kernel, SMALL recurrent, bias, state, NONE},       \
        .input_count = 6, .build = build_##op, .options = options_, .status = status_,             \
        .text = text_                                                                              \
    }

static const op_mistake mistakes[] = {
    MISTAKE(lstm, "rank", &last, (4, 3), (3, 20), (5, 20), NONE, NONE, TD_BAD_SHAPE,
            "lstm: input (4, 3) must be (batch, time, features) with a time step"),
    MISTAKE(lstm, "no steps", &last, (2, 0, 3), (3, 20), (5, 20), NONE, NONE, TD_BAD_SHAPE,
            "lstm: input (2, 0, 3) must be (batch, time, features) with a time step"),
    MISTAKE(lstm, "kernel", &last, (2, 4, 3), (4, 20), (5, 20), NONE, NONE, TD_BAD_SHAPE,
            "lstm: kernel (4, 20) does not fit input (2, 4, 3): it must be (3, 4 * units)"),
    MISTAKE(gru, "gates", &last, (2, 4, 3), (3, 20), (5, 20), NONE, NONE, TD_BAD_SHAPE,
            "gru: kernel (3, 20) does not fit input (2, 4, 3): it must be (3, 3 * units)"),
    MISTAKE(simple_rnn, "recurrent kernel", &last, (2, 4, 3), (3, 5), (4, 5), NONE, NONE,
            TD_BAD_SHAPE,
            "simple_rnn: recurrent kernel (4, 5) does not fit kernel (3, 5): it must be (5, 5)"),
    MISTAKE(lstm, "bias", &last, (2, 4, 3), (3, 20), (5, 20), SMALL(5), NONE, TD_BAD_SHAPE,
            "lstm: bias (5,) does not fit kernel (3, 20): it must be (20,)"),
    MISTAKE(gru, "bias", &last, (2, 4, 3), (3, 15), (5, 15), SMALL(3, 15), NONE, TD_BAD_SHAPE,
            "gru: bias (3, 15) does not fit kernel (3, 15): it must be (2, 15) or (15,)"),
    MISTAKE(lstm, "initial state", &last, (2, 4, 3), (3, 20), (5, 20), NONE, SMALL(1, 5),
            TD_BAD_SHAPE,
            "lstm: initial state (1, 5) does not fit input (2, 4, 3): it must be (2, 5)"),
    MISTAKE(lstm, "log_softmax", &log_softmax, (2, 4, 3), (3, 20), (5, 20), NONE, NONE, TD_INVALID,
            "lstm: activation log_softmax is not one of single elements, nor softmax"),
};

const op_group cases_recurrent = {OP_LIST(cases), OP_LIST(mistakes)};
