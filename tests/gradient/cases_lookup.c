/* embedding and dropout */
#include "gradient/op_table.h"

#include "base/random.h"
#include "tape/op.h"

static td_tensor *build_embedding(td_tape *tape, td_tensor *const in[], const void *options) {
    (void)options;
    return td_embedding(tape, in[0], in[1]);
}

static void embedding(const op_array in[], op_array *out, const void *options) {
    (void)options;
    int64_t width = in[0].shape.dims[1];
    for (int64_t i = 0; i < out->count; i++) {
        out->values[i] = in[0].values[(int64_t)in[1].values[i / width] * width + i % width];
    }
}

static td_tensor *build_dropout(td_tape *tape, td_tensor *const in[], const void *options) {
    td_tape_set_training(tape, true);
    return td_dropout(tape, in[0], *(const float *)options);
}

static td_tensor *build_dropout_unused(td_tape *tape, td_tensor *const in[], const void *options) {
    td_tape_set_training(tape, false);
    return td_dropout(tape, in[0], *(const float *)options);
}

/* Blocks of 64 counters decide 256 elements; word w of counter c decides number 64 w + c. */
static void dropout(const op_array in[], op_array *out, const void *options) {
    double rate = (double)*(const float *)options;
    td_tape *tape = td_tape_create(NULL, NULL);
    assert_non_null(tape);
    td_tape_seed(tape, OP_SEED, 0);
    uint64_t key = td__random_key(tape);
    td_tape_destroy(tape);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t place = i % 256;
        uint32_t words[4];
        td__philox(key, (uint64_t)(i / 256 * 64 + place % 64), words);
        bool kept = (double)words[place / 64] >= floor(rate * 4294967296.0);
        out->values[i] = kept ? in->values[i] / (1 - rate) : 0;
    }
}

static void identity(const op_array in[], op_array *out, const void *options) {
    (void)options;
    for (int64_t i = 0; i < out->count; i++) {
        out->values[i] = in->values[i];
    }
}

static const float half = 0.5f, tenth = 0.1f, none = 0, too_much = 1.5f;

#define EMBEDDING(what, dtype_, vocabulary, table, indices, y)                                     \
    {                                                                                              \
        .name = "embedding, " what, .input_count = 2,                                              \
        .inputs = {{.shape = table},                                                               \
                   {.shape = indices, .dtype = dtype_, .low = 0, .high = vocabulary}},             \
        .output = y, .build = build_embedding, .reference = embedding                              \
    }
#define DROPOUT(what, build_, reference_, rate, ...)                                               \
    {                                                                                              \
        .name = "dropout, " what, .inputs = {{.shape = TD_SHAPE(__VA_ARGS__)}},                    \
        .output = TD_SHAPE(__VA_ARGS__), .build = build_, .reference = reference_, .options = rate \
    }
#define SHAPE(...) TD_SHAPE(__VA_ARGS__)

static const op_case cases[] = {
    EMBEDDING("a word twice", TD_INT32, 4, SHAPE(4, 3), SHAPE(2, 5), SHAPE(2, 5, 3)),
    EMBEDDING("one index", TD_INT64, 4, SHAPE(4, 3), (td_shape){0}, SHAPE(3)),
    EMBEDDING("no index", TD_INT64, 4, SHAPE(4, 3), SHAPE(0), SHAPE(0, 3)),
    EMBEDDING("large", TD_INT32, 500, SHAPE(500, 64), SHAPE(20, 50), SHAPE(20, 50, 64)),
    DROPOUT("half", build_dropout, dropout, &half, 7, 9),
    DROPOUT("a tenth, large", build_dropout, dropout, &tenth, 300, 201),
    DROPOUT("rate 0", build_dropout, identity, &none, 3, 5),
    DROPOUT("not training", build_dropout_unused, identity, &half, 3, 5),
};

#define BAD_EMBEDDING(what, table, dtype_, value, status_, text_)                                  \
    {                                                                                              \
        .name = "embedding, " what, .input_count = 2,                                              \
        .inputs = {{.shape = table},                                                               \
                   {.shape = SHAPE(2), .dtype = dtype_, .values = (const double[]){1, value}}},    \
        .build = build_embedding, .status = status_, .text = text_                                 \
    }

static const op_mistake mistakes[] = {
    BAD_EMBEDDING("index too large", SHAPE(4, 3), TD_INT32, 4, TD_RANGE,
                  "embedding: index 4 at position 1 is not a row of table (4, 3)"),
    BAD_EMBEDDING("negative index", SHAPE(4, 3), TD_INT64, -1, TD_RANGE,
                  "embedding: index -1 at position 1 is not a row of table (4, 3)"),
    BAD_EMBEDDING("float indices", SHAPE(4, 3), TD_FLOAT32, 1, TD_DTYPE,
                  "embedding: indices 'in1' are float32; they must be int32 or int64"),
    BAD_EMBEDDING("table of rank 1", SHAPE(4), TD_INT32, 1, TD_BAD_SHAPE,
                  "embedding: table (4,) and indices (2,) do not fit: the table must be "
                  "(vocabulary, width), the indices of rank 7 at most"),
    {.name = "dropout, rate",
     .inputs = {{.shape = SHAPE(3)}},
     .build = build_dropout,
     .options = &too_much,
     .status = TD_RANGE,
     .text = "dropout: rate 1.5 is not between 0 and 1"},
};

const op_group cases_lookup = {OP_LIST(cases), OP_LIST(mistakes)};
