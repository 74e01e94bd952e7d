/* matmul: batched, transposed, broadcast */
#include "gradient/op_table.h"

static td_tensor *build(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_matmul(tape, in[0], in[1], options);
}

/* Element (row, column) of the matrix of batch `index` (of the result's batches). */
static double element(const op_array *x, const td_shape *out, int64_t index, int64_t row,
                      int64_t column) {
    int64_t rank = x->shape.rank, offset = 0, stride = 1;
    const int64_t *dims = x->shape.dims;
    offset += column + row * dims[rank - 1];
    stride = dims[rank - 1] * dims[rank - 2];
    for (int64_t i = 3; i <= out->rank; i++) {
        int64_t at = index % out->dims[out->rank - i];
        index /= out->dims[out->rank - i];
        if (i <= rank) {
            offset += dims[rank - i] == 1 ? 0 : at * stride;
            stride *= dims[rank - i];
        }
    }
    return x->values[offset];
}

static void reference(const op_array in[], op_array *out, const void *options) {
    const td_matmul_options *o = options;
    bool ta = o && o->transpose_a, tb = o && o->transpose_b;
    int32_t rank = out->shape.rank;
    int64_t m = out->shape.dims[rank - 2], n = out->shape.dims[rank - 1];
    int64_t k = in[0].shape.dims[in[0].shape.rank - (ta ? 2 : 1)];
    for (int64_t i = 0; i < out->count; i++) {
        int64_t column = i % n, row = i / n % m, batch = i / n / m;
        out->values[i] = 0;
        for (int64_t j = 0; j < k; j++) {
            out->values[i] += element(&in[0], &out->shape, batch, ta ? j : row, ta ? row : j) *
                              element(&in[1], &out->shape, batch, tb ? column : j, tb ? j : column);
        }
    }
}

static const td_matmul_options a_transposed = {.size = sizeof a_transposed, .transpose_a = true};
static const td_matmul_options b_transposed = {.size = sizeof b_transposed, .transpose_b = true};
static const td_matmul_options both_transposed = {
    .size = sizeof both_transposed, .transpose_a = true, .transpose_b = true};

#define CASE(what, options_, a, b, c)                                                              \
    {                                                                                              \
        .name = "matmul, " what, .inputs = {{.shape = TD_SHAPE a}, {.shape = TD_SHAPE b}},         \
        .input_count = 2, .output = TD_SHAPE c, .build = build, .reference = reference,            \
        .options = options_                                                                        \
    }

static const op_case cases[] = {
    CASE("one matrix", NULL, (3, 5), (5, 4), (3, 4)),
    CASE("one element", NULL, (1, 1), (1, 1), (1, 1)),
    CASE("a transposed", &a_transposed, (5, 3), (5, 4), (3, 4)),
    CASE("b transposed", &b_transposed, (3, 5), (4, 5), (3, 4)),
    CASE("both transposed", &both_transposed, (5, 3), (4, 5), (3, 4)),
    CASE("nothing to sum", NULL, (2, 0), (0, 3), (2, 3)),
    CASE("batches", NULL, (6, 3, 5), (6, 5, 4), (6, 3, 4)),
    CASE("batches, a transposed", &a_transposed, (6, 5, 3), (6, 5, 4), (6, 3, 4)),
    CASE("batches, b transposed", &b_transposed, (6, 3, 5), (6, 4, 5), (6, 3, 4)),
    CASE("batches, both transposed", &both_transposed, (6, 5, 3), (6, 4, 5), (6, 3, 4)),
    CASE("batches over one b", NULL, (2, 3, 4, 5), (5, 6), (2, 3, 4, 6)),
    CASE("batches over one b, transposed", &a_transposed, (2, 3, 5, 4), (1, 5, 6), (2, 3, 4, 6)),
    CASE("one a over batches", NULL, (4, 5), (2, 3, 5, 6), (2, 3, 4, 6)),
    CASE("crossed batches", NULL, (3, 1, 2, 5), (4, 5, 3), (3, 4, 2, 3)),
    CASE("crossed batches, b transposed", &b_transposed, (3, 1, 2, 5), (1, 4, 3, 5), (3, 4, 2, 3)),
    CASE("no batches", NULL, (0, 2, 5), (1, 5, 3), (0, 2, 3)),
    CASE("heads", &b_transposed, (24, 33, 17), (24, 35, 17), (24, 33, 35)),
    CASE("whole vectors", NULL, (24, 33, 17), (24, 17, 32), (24, 33, 32)),
};

#define MISTAKE(what, options_, a, b, text_)                                                       \
    {                                                                                              \
        .name = "matmul, " what, .inputs = {{.shape = TD_SHAPE a}, {.shape = TD_SHAPE b}},         \
        .input_count = 2, .build = build, .options = options_, .status = TD_BAD_SHAPE,             \
        .text = text_                                                                              \
    }

static const op_mistake mistakes[] = {
    MISTAKE("inner dimensions differ", NULL, (3, 5), (4, 5),
            "matmul: a (3, 5) does not fit b (4, 5): it takes (..., m, k) and (..., k, n), and the "
            "axes before them must be equal or 1"),
    MISTAKE("inner dimensions differ, transposed", &b_transposed, (3, 5), (5, 4),
            "matmul: a (3, 5) does not fit b (5, 4) transposed: it takes (..., m, k) and "
            "(..., k, n), and the axes before them must be equal or 1"),
    MISTAKE("batches differ", NULL, (2, 3, 5), (3, 5, 4),
            "matmul: a (2, 3, 5) does not fit b (3, 5, 4): it takes (..., m, k) and (..., k, n), "
            "and the axes before them must be equal or 1"),
    MISTAKE("a vector", NULL, (5), (5, 4),
            "matmul: a (5,) does not fit b (5, 4): it takes (..., m, k) and (..., k, n), and the "
            "axes before them must be equal or 1"),
};

const op_group cases_matmul = {OP_LIST(cases), OP_LIST(mistakes)};
