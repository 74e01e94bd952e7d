/* embedding: y[i, :] = table[indices[i], :]; dtable[k, :] = sum of g[i, :] over i with index k
 *
 * On the way back each thread owns a range of the table's rows and looks for their indices, so that
 * sums run in the order of the indices whatever the number of threads.
 */
#include "tape/kernels.h"
#include "tape/op.h"
#include "tape/parallel.h"

#include <string.h>

typedef struct embedding_work {
    const int64_t *rows; /* (count,), checked */
    int64_t count, width;
    const float *from;
    float *to;
    bool add;
} embedding_work;

static void gather_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const embedding_work *w = context;
    for (int64_t i = begin; i < end; i++) {
        memcpy(w->to + i * w->width, w->from + w->rows[i] * w->width,
               (size_t)w->width * sizeof *w->to);
    }
}

static void scatter_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const embedding_work *w = context;
    if (!w->add) {
        memset(w->to + begin * w->width, 0, (size_t)((end - begin) * w->width) * sizeof *w->to);
    }
    for (int64_t i = 0; i < w->count; i++) {
        if (w->rows[i] >= begin && w->rows[i] < end) {
            float *to = w->to + w->rows[i] * w->width;
            td__kernels()->add(w->width, to, w->from + i * w->width, to);
        }
    }
}

static td_status embedding_backward(td_tape *tape, td__node *node) {
    const td_tensor *table = node->inputs[0].tensor;
    embedding_work work = {.rows = node->saved,
                           .count = node->inputs[1].tensor->count,
                           .width = table->shape.dims[1],
                           .from = td__output_gradient(tape, node)};
    work.to = td__gradient(tape, node, 0, &work.add);
    if (!work.to) {
        return TD_MEMORY;
    }
    td__parallel(table->shape.dims[0], 1, TD__GRAIN / (work.width + 1) + 1, scatter_part, &work);
    return TD_OK;
}

static const td__op embedding_op = {.name = "embedding", .backward = embedding_backward};

/* The indices as numbers of rows; NULL (and the tape's error) when one is not in the table. */
static int64_t *checked_rows(td_tape *tape, const td_tensor *table, const td_tensor *indices) {
    int64_t *rows = td__scratch(tape, (size_t)indices->count * sizeof *rows);
    for (int64_t i = 0; rows && i < indices->count; i++) {
        rows[i] = indices->dtype == TD_INT32 ? ((const int32_t *)indices->data)[i]
                                             : ((const int64_t *)indices->data)[i];
        if (rows[i] < 0 || rows[i] >= table->shape.dims[0]) {
            char text[TD_SHAPE_TEXT_SIZE];
            td__fail(tape, TD_RANGE,
                     "embedding: index %lld at position %lld is not a row of table %s",
                     (long long)rows[i], (long long)i, td_shape_text(&table->shape, text));
            return NULL;
        }
    }
    return rows;
}

td_tensor *td_embedding(td_tape *tape, td_tensor *table, td_tensor *indices) {
    if (!td__check_float(tape, "embedding", "table", table) ||
        !td__check_usable(tape, "embedding", "indices", indices)) {
        return NULL;
    }
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    if (indices->dtype != TD_INT32 && indices->dtype != TD_INT64) {
        return td__fail(tape, TD_DTYPE,
                        "embedding: indices '%s' are %s; they must be int32 or int64",
                        indices->name, td_dtype_name(indices->dtype));
    }
    td_shape shape = indices->shape;
    if (table->shape.rank != 2 || shape.rank == TD_MAX_RANK) {
        return td__fail(tape, TD_BAD_SHAPE,
                        "embedding: table %s and indices %s do not fit: the table must be "
                        "(vocabulary, width), the indices of rank %d at most",
                        td_shape_text(&table->shape, a), td_shape_text(&shape, b), TD_MAX_RANK - 1);
    }
    shape.dims[shape.rank++] = table->shape.dims[1];
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    int64_t *rows = y ? checked_rows(tape, table, indices) : NULL;
    if (!rows) {
        return NULL;
    }
    embedding_work work = {.rows = rows,
                           .count = indices->count,
                           .width = table->shape.dims[1],
                           .from = td__floats(table),
                           .to = td__floats(y)};
    td__parallel(work.count, 1, TD__GRAIN / (work.width + 1) + 1, gather_part, &work);
    return td__record(tape, &embedding_op, y, 2, (td_tensor *[]){table, indices}, rows);
}
