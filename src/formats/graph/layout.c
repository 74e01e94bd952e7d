/* Weights between ONNX's layouts and Keras's.
 *
 *   kernel   (out, in, …)                     (…, in, out)
 *   gates    (1, gates * units, in)           (in, gates * units), gates in Keras's order
 *   biases   (1, 2 * gates * units)           (gates * units): the sum of the input's and the
 *            state's; a gru that resets after (2, gates * units), apart
 */
#include "graph/source.h"
#include "tape/parallel.h"
#include "tensor/element.h"

#include <string.h>

/* What is known of a recurrent operator. */
typedef struct cell {
    int64_t gates;
    const int8_t *order; /* gate i of Keras's is gate order[i] of ONNX's */
    bool apart;          /* its biases are two */
} cell;

static cell cell_of(const td__graph_node *node) {
    static const int8_t lstm[] = {0, 2, 3, 1}, others[] = {0, 1, 2};
    if (strcmp(node->op_type, "LSTM") == 0) {
        return (cell){4, lstm, false};
    }
    if (strcmp(node->op_type, "GRU") == 0) {
        return (cell){3, others, td__graph_int(node, "linear_before_reset", 0) != 0};
    }
    return (cell){1, others, false};
}

bool td__graph_layout_fits(const td__graph_node *node, td__graph_form form, const td_shape *shape) {
    const int64_t *d = shape->dims;
    int64_t gates = cell_of(node).gates;
    switch (form) {
    case TD__GRAPH_AS_KERNEL:
        return shape->rank >= 2;
    case TD__GRAPH_AS_GATES:
        return shape->rank == 3 && d[0] == 1 && d[1] % gates == 0;
    case TD__GRAPH_AS_BIASES:
        return shape->rank == 2 && d[0] == 1 && d[1] % (2 * gates) == 0;
    case TD__GRAPH_AS_IT_IS:
        break;
    }
    return true;
}

td_shape td__graph_layout_shape(const td__graph_node *node, td__graph_form form, td_shape shape) {
    const int64_t *d = shape.dims;
    td_shape result = shape;
    switch (form) {
    case TD__GRAPH_AS_KERNEL:
        for (int32_t i = 0; i < shape.rank - 2; i++) {
            result.dims[i] = d[i + 2];
        }
        result.dims[shape.rank - 2] = d[1];
        result.dims[shape.rank - 1] = d[0];
        break;
    case TD__GRAPH_AS_GATES:
        return TD_SHAPE(d[2], d[1]);
    case TD__GRAPH_AS_BIASES:
        return cell_of(node).apart ? TD_SHAPE(2, d[1] / 2) : TD_SHAPE(d[1] / 2);
    case TD__GRAPH_AS_IT_IS:
        break;
    }
    return result;
}

/* One number; theirs may be at any address. */
static inline void copy(float *ours, char *theirs, bool back) {
    memcpy(back ? (void *)theirs : ours, back ? (void *)ours : theirs, sizeof *ours);
}

typedef struct kernel_work {
    int64_t out, in, pixels;
    float *ours;
    char *theirs;
    bool back;
} kernel_work;

enum { TILE = 16 }; /* floats of a cache line */

/* Columns [begin, end) of their matrix (out, in * pixels), in tiles, so that every line of either
 * side is touched once. */
static void copy_columns(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const kernel_work w = *(const kernel_work *)context;
    int64_t width = w.in * w.pixels;
    float tile[TILE][TILE];
    for (int64_t o = 0; o < w.out; o += TILE) {
        int64_t rows = w.out - o < TILE ? w.out - o : TILE;
        for (int64_t k = begin; k < end; k += TILE) {
            int64_t columns = end - k < TILE ? end - k : TILE;
            char *theirs = w.theirs + (size_t)(o * width + k) * sizeof(float);
            for (int64_t i = 0; i < rows && !w.back; i++) {
                memcpy(tile[i], theirs + (size_t)(i * width) * sizeof(float),
                       (size_t)columns * sizeof(float));
            }
            for (int64_t j = 0; j < columns; j++) {
                int64_t row = (k + j) % w.pixels * w.in + (k + j) / w.pixels;
                float *ours = w.ours + row * w.out + o;
                for (int64_t i = 0; i < rows; i++) {
                    *(w.back ? &tile[i][j] : &ours[i]) = w.back ? ours[i] : tile[i][j];
                }
            }
            for (int64_t i = 0; i < rows && w.back; i++) {
                memcpy(theirs + (size_t)(i * width) * sizeof(float), tile[i],
                       (size_t)columns * sizeof(float));
            }
        }
    }
}

static void copy_kernel(const td_shape *shape, int64_t count, char *theirs, bool back,
                        float *ours) {
    int64_t out = shape->dims[0], in = shape->dims[1];
    kernel_work work = {out, in, count / (out * in), ours, theirs, back};
    td__parallel(in * work.pixels, TILE, TD__GRAIN / out + 1, copy_columns, &work);
}

static void copy_gates(const cell *c, const td_shape *shape, char *theirs, bool back, float *ours) {
    int64_t width = shape->dims[1], units = width / c->gates, in = shape->dims[2];
    for (int64_t g = 0; g < c->gates; g++) {
        for (int64_t u = 0; u < units; u++) {
            for (int64_t i = 0; i < in; i++) {
                int64_t from = (c->order[g] * units + u) * in + i;
                copy(&ours[i * width + g * units + u], theirs + (size_t)from * sizeof(float), back);
            }
        }
    }
}

static void copy_biases(const cell *c, const td_shape *shape, char *theirs, bool back,
                        float *ours) {
    int64_t width = shape->dims[1] / 2, units = width / c->gates;
    for (int64_t g = 0; g < c->gates; g++) {
        for (int64_t u = 0; u < units; u++) {
            char *input = theirs + (size_t)(c->order[g] * units + u) * sizeof(float);
            char *state = input + (size_t)width * sizeof(float);
            float *bias = &ours[g * units + u], other = 0;
            copy(bias, input, back);
            if (c->apart) {
                copy(bias + width, state, back);
            } else {
                copy(&other, state, back);
                *bias += back ? 0 : other;
            }
        }
    }
}

void td__graph_layout_copy(const td__graph_node *node, td__graph_form form, const td_shape *shape,
                           void *theirs, bool back, float *ours) {
    int64_t count = td__elements_from(shape, 0);
    cell c = cell_of(node);
    if (count == 0) {
        return;
    }
    switch (form) {
    case TD__GRAPH_AS_KERNEL:
        copy_kernel(shape, count, theirs, back, ours);
        break;
    case TD__GRAPH_AS_GATES:
        copy_gates(&c, shape, theirs, back, ours);
        break;
    case TD__GRAPH_AS_BIASES:
        copy_biases(&c, shape, theirs, back, ours);
        break;
    case TD__GRAPH_AS_IT_IS:
        memcpy(back ? theirs : ours, back ? (void *)ours : theirs, (size_t)count * sizeof *ours);
        break;
    }
}
