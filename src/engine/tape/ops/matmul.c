/* matmul: c = op(a) op(b) over the last two axes; the axes before them are batches and broadcast
 *
 * da = g op(b)^T (or its transpose), db = op(a)^T g; summed over the batches that shared them
 *
 * One matrix at a time over all threads, or, when there are many, one thread per matrix.
 */
#include "base/options.h"
#include "tape/gemm.h"
#include "tape/parallel.h"

#include <string.h>

enum { LARGE_MATRIX = 1 << 23 /* multiply-adds: worth all threads by itself */ };

/* Batches of the result, in row-major order; an operand's stride is 0 where it broadcasts. */
typedef struct matmul_saved {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    int32_t rank; /* of the batch axes */
    int64_t dims[TD_MAX_RANK];
    int64_t a_strides[TD_MAX_RANK], b_strides[TD_MAX_RANK], c_strides[TD_MAX_RANK];
} matmul_saved;

/* A family of products: for each `kept` batch one result, the sum over all `summed` batches. */
typedef struct products {
    int32_t rank;
    int64_t kept[TD_MAX_RANK], summed[TD_MAX_RANK]; /* each axis is 1 in one of the two */
    int64_t kept_count, summed_count;
    const int64_t *a_strides, *b_strides, *c_strides;
    td__gemm_arguments one; /* of the first batch */
    float *packing;         /* packing_size floats for each thread */
    int64_t packing_size;
} products;

static int64_t offset_of(int32_t rank, const int64_t *dims, const int64_t *strides, int64_t index) {
    int64_t offset = 0;
    for (int32_t i = rank - 1; i >= 0; i--) {
        offset += index % dims[i] * strides[i];
        index /= dims[i];
    }
    return offset;
}

static td__gemm_arguments product_of(const products *p, int64_t kept, int64_t summed) {
    td__gemm_arguments one = p->one;
    one.a += offset_of(p->rank, p->kept, p->a_strides, kept) +
             offset_of(p->rank, p->summed, p->a_strides, summed);
    one.b += offset_of(p->rank, p->kept, p->b_strides, kept) +
             offset_of(p->rank, p->summed, p->b_strides, summed);
    one.c += offset_of(p->rank, p->kept, p->c_strides, kept);
    one.flags |= summed ? TD__TILE_ADD : 0;
    return one;
}

static void products_part(void *context, int part, int64_t begin, int64_t end) {
    const products *p = context;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = 0; j < p->summed_count; j++) {
            td__gemm_arguments one = product_of(p, i, j);
            td__gemm_serial(&one, p->packing + part * p->packing_size);
        }
    }
}

/* Batches of which result: those where the strides are not 0 are kept, the others summed. */
static void set_batches(products *p, const matmul_saved *s, const int64_t *result_strides) {
    p->rank = s->rank;
    p->kept_count = p->summed_count = 1;
    for (int32_t i = 0; i < s->rank; i++) {
        bool keep = result_strides[i] != 0;
        p->kept[i] = keep ? s->dims[i] : 1;
        p->summed[i] = keep ? 1 : s->dims[i];
        p->kept_count *= p->kept[i];
        p->summed_count *= p->summed[i];
    }
}

static td_status run_products(td_tape *tape, products *p) {
    const td__gemm_arguments *one = &p->one;
    int64_t work = one->m * one->n * one->k;
    if (p->summed_count == 0 && !(one->flags & TD__TILE_ADD)) { /* the sum of nothing */
        memset(one->c, 0, (size_t)(p->kept_count * one->m * one->n) * sizeof(float));
        return TD_OK;
    }
    if (p->kept_count < td_threads() || work >= LARGE_MATRIX) {
        for (int64_t i = 0; i < p->kept_count; i++) {
            for (int64_t j = 0; j < p->summed_count; j++) {
                td__gemm_arguments each = product_of(p, i, j);
                if (td__gemm(tape, &each)) {
                    return TD_MEMORY;
                }
            }
        }
        return TD_OK;
    }
    size_t bytes = td__panels_bytes(one->n, one->k);
    td__buffer *packing = td__temporary(tape, bytes * (size_t)td_threads());
    if (!packing) {
        return TD_MEMORY;
    }
    p->packing = packing->data;
    p->packing_size = (int64_t)(bytes / sizeof(float));
    int64_t minimum = 200000 / (work * p->summed_count + 1) + 1;
    td__parallel(p->kept_count, 1, minimum, products_part, p);
    td__buffer_drop(tape, packing);
    return TD_OK;
}

/* (m, k) stored as it is or transposed: how far apart its rows are. */
static int64_t leading(int64_t rows, int64_t columns, bool transposed) {
    return transposed ? rows : columns;
}

static td_status gradient_of_a(td_tape *tape, td__node *node, const matmul_saved *s) {
    bool add;
    float *da = td__gradient(tape, node, 0, &add);
    if (!da) {
        return TD_MEMORY;
    }
    const float *b = td__floats(node->inputs[1].tensor), *g = td__output_gradient(tape, node);
    products p = {.a_strides = s->c_strides, .b_strides = s->b_strides, .c_strides = s->a_strides};
    set_batches(&p, s, s->a_strides);
    int64_t ldb = leading(s->k, s->n, s->transpose_b);
    p.one = (td__gemm_arguments){.m = s->m, .n = s->k, .k = s->n, .a = g, .lda = s->n, .b = b};
    p.one.ldb = ldb;
    p.one.transpose_b = !s->transpose_b;
    if (s->transpose_a) { /* da^T = op(b) g^T */
        p.one = (td__gemm_arguments){.m = s->k, .n = s->m, .k = s->n, .a = b, .lda = ldb, .b = g};
        p.one.transpose_a = s->transpose_b;
        p.one.ldb = s->n;
        p.one.transpose_b = true;
        p.a_strides = s->b_strides;
        p.b_strides = s->c_strides;
    }
    p.one.c = da;
    p.one.ldc = p.one.n;
    p.one.flags = add ? TD__TILE_ADD : 0;
    return run_products(tape, &p);
}

static td_status gradient_of_b(td_tape *tape, td__node *node, const matmul_saved *s) {
    bool add;
    float *db = td__gradient(tape, node, 1, &add);
    if (!db) {
        return TD_MEMORY;
    }
    const float *a = td__floats(node->inputs[0].tensor), *g = td__output_gradient(tape, node);
    products p = {.a_strides = s->a_strides, .b_strides = s->c_strides, .c_strides = s->b_strides};
    set_batches(&p, s, s->b_strides);
    int64_t lda = leading(s->m, s->k, s->transpose_a);
    p.one = (td__gemm_arguments){.m = s->k, .n = s->n, .k = s->m, .a = a, .lda = lda, .b = g};
    p.one.transpose_a = !s->transpose_a;
    p.one.ldb = s->n;
    if (s->transpose_b) { /* db^T = g^T op(a) */
        p.one = (td__gemm_arguments){.m = s->n, .n = s->k, .k = s->m, .a = g, .lda = s->n, .b = a};
        p.one.transpose_a = true;
        p.one.ldb = lda;
        p.one.transpose_b = s->transpose_a;
        p.a_strides = s->c_strides;
        p.b_strides = s->a_strides;
    }
    p.one.c = db;
    p.one.ldc = p.one.n;
    p.one.flags = add ? TD__TILE_ADD : 0;
    return run_products(tape, &p);
}

static td_status matmul_backward(td_tape *tape, td__node *node) {
    if (td__wants(tape, node, 0) && gradient_of_a(tape, node, node->saved)) {
        return TD_MEMORY;
    }
    return td__wants(tape, node, 1) ? gradient_of_b(tape, node, node->saved) : TD_OK;
}

static const td__op matmul_op = {.name = "matmul", .backward = matmul_backward};

/* Dimension i of the batch axes, counted so that all shapes end together; 1 where there is none. */
static int64_t batch_dim(const td_shape *shape, int32_t rank, int32_t i) {
    int32_t axis = i - (rank - (shape->rank - 2));
    return axis < 0 ? 1 : shape->dims[axis];
}

static void set_strides(const td_shape *shape, const matmul_saved *s, int64_t matrix,
                        int64_t *strides) {
    for (int32_t i = s->rank - 1; i >= 0; i--) {
        int64_t dim = batch_dim(shape, s->rank, i);
        strides[i] = dim == 1 ? 0 : matrix;
        matrix *= dim;
    }
}

/* Fills in saved and the result's shape; false when the shapes do not fit. */
static bool check_shapes(const td_shape *a, const td_shape *b, matmul_saved *s, td_shape *c) {
    if (a->rank < 2 || b->rank < 2) {
        return false;
    }
    const int64_t *a_last = a->dims + a->rank - 2, *b_last = b->dims + b->rank - 2;
    s->m = a_last[s->transpose_a];
    s->k = a_last[!s->transpose_a];
    s->n = b_last[!s->transpose_b];
    s->rank = (a->rank > b->rank ? a->rank : b->rank) - 2;
    c->rank = s->rank + 2;
    for (int32_t i = 0; i < s->rank; i++) {
        int64_t from_a = batch_dim(a, s->rank, i), from_b = batch_dim(b, s->rank, i);
        if (from_a != from_b && from_a != 1 && from_b != 1) {
            return false;
        }
        c->dims[i] = s->dims[i] = from_a == 1 ? from_b : from_a;
    }
    c->dims[s->rank] = s->m;
    c->dims[s->rank + 1] = s->n;
    return b_last[s->transpose_b] == s->k;
}

/* Batches of a over one b are just more rows. */
static void fold_batches(const td_tensor *a, const td_tensor *b, matmul_saved *s) {
    if (s->transpose_a || s->k == 0 || s->n == 0 || b->count != s->k * s->n) {
        return;
    }
    s->m = a->count / s->k;
    s->rank = 0;
}

td_tensor *td_matmul(td_tape *tape, td_tensor *a, td_tensor *b, const td_matmul_options *options) {
    if (!td__check_float(tape, "matmul", "a", a) || !td__check_float(tape, "matmul", "b", b)) {
        return NULL;
    }
    matmul_saved *saved = td__scratch(tape, sizeof *saved);
    if (!saved) {
        return NULL;
    }
    td_matmul_options given;
    options = td__options(&given, sizeof given, options);
    *saved =
        (matmul_saved){.transpose_a = options->transpose_a, .transpose_b = options->transpose_b};
    td_shape shape = {0};
    if (!check_shapes(&a->shape, &b->shape, saved, &shape)) {
        char at[TD_SHAPE_TEXT_SIZE], bt[TD_SHAPE_TEXT_SIZE];
        return td__fail(
            tape, TD_BAD_SHAPE,
            "matmul: a %s%s does not fit b %s%s: it takes (..., m, k) and (..., k, n), and "
            "the axes before them must be equal or 1",
            td_shape_text(&a->shape, at), saved->transpose_a ? " transposed" : "",
            td_shape_text(&b->shape, bt), saved->transpose_b ? " transposed" : "");
    }
    td_tensor *c = td__output(tape, TD_FLOAT32, &shape);
    if (!c) {
        return NULL;
    }
    fold_batches(a, b, saved);
    set_strides(&a->shape, saved, saved->m * saved->k, saved->a_strides);
    set_strides(&b->shape, saved, saved->k * saved->n, saved->b_strides);
    set_strides(&shape, saved, saved->m * saved->n, saved->c_strides);
    products p = {.a_strides = saved->a_strides,
                  .b_strides = saved->b_strides,
                  .c_strides = saved->c_strides};
    p.one = (td__gemm_arguments){.m = saved->m,
                                 .n = saved->n,
                                 .k = saved->k,
                                 .a = td__floats(a),
                                 .lda = leading(saved->m, saved->k, saved->transpose_a),
                                 .transpose_a = saved->transpose_a,
                                 .b = td__floats(b),
                                 .ldb = leading(saved->k, saved->n, saved->transpose_b),
                                 .transpose_b = saved->transpose_b,
                                 .c = td__floats(c),
                                 .ldc = saved->n};
    set_batches(&p, saved, saved->c_strides);
    if (run_products(tape, &p)) {
        return NULL;
    }
    return td__record(tape, &matmul_op, c, 2, (td_tensor *[]){a, b}, saved);
}
