/* Prints tensors as numpy does: aligned columns, and "..." in the middle of large dimensions. */
#include "tensor/tensor.h"

#include "base/text.h"
#include "tensor/element.h"

#include <math.h>
#include <string.h>

enum {
    SUMMARISE_ABOVE = 1000, /* elements */
    EDGE = 3,               /* elements kept at each end of a summarised dimension */
    CELL_SIZE = 40,
    LINE_WIDTH = 88
};

typedef struct printer {
    FILE *stream;
    const td_tensor *tensor;
    bool summarise;
    bool scientific;
    int precision; /* digits after the point */
    int width;     /* of a cell */
    int column;    /* where the current line stands */
} printer;

static bool is_floating(const td_tensor *tensor) {
    return tensor->dtype == TD_FLOAT32 || tensor->dtype == TD_FLOAT64 ||
           tensor->dtype == TD_FLOAT16 || tensor->dtype == TD_BFLOAT16;
}

static double element_as_double(const td_tensor *tensor, int64_t index) {
    td_view view = td__view_of(tensor);
    return td__element(&view, index);
}

static void format_integer(const td_tensor *tensor, int64_t index, char cell[CELL_SIZE]) {
    if (tensor->dtype == TD_INT64) {
        snprintf(cell, CELL_SIZE, "%lld", (long long)((const int64_t *)tensor->data)[index]);
    } else if (tensor->dtype == TD_UINT64) {
        snprintf(cell, CELL_SIZE, "%llu",
                 (unsigned long long)((const uint64_t *)tensor->data)[index]);
    } else {
        snprintf(cell, CELL_SIZE, "%.0f", element_as_double(tensor, index));
    }
}

static void format_cell(const printer *out, int64_t index, char cell[CELL_SIZE]) {
    if (!is_floating(out->tensor)) {
        format_integer(out->tensor, index, cell);
        return;
    }
    double value = element_as_double(out->tensor, index);
    if (isnan(value)) {
        snprintf(cell, CELL_SIZE, "nan");
    } else if (isinf(value)) {
        snprintf(cell, CELL_SIZE, value < 0 ? "-inf" : "inf");
    } else {
        snprintf(cell, CELL_SIZE, out->scientific ? "%.*e" : "%.*f", out->precision, value);
    }
}

static int64_t stride_of(const td_shape *shape, int32_t axis) {
    int64_t stride = td__elements_from(shape, axis + 1);
    return stride;
}

/* Calls visit for every element that will be shown, in order. */
static void each_shown(printer *out, int32_t axis, int64_t offset,
                       void (*visit)(printer *out, int64_t index, void *state), void *state) {
    const td_shape *shape = &out->tensor->shape;
    if (axis == shape->rank) {
        visit(out, offset, state);
        return;
    }
    int64_t stride = stride_of(shape, axis);
    int64_t size = shape->dims[axis];
    bool cut = out->summarise && size > 2 * EDGE;
    for (int64_t i = 0; i < size; i++) {
        if (cut && i == EDGE) {
            i = size - EDGE;
        }
        each_shown(out, axis + 1, offset + i * stride, visit, state);
    }
}

typedef struct range {
    double smallest, largest; /* of the finite non-zero magnitudes */
    bool any;
} range;

static void measure_range(printer *out, int64_t index, void *state) {
    range *seen = state;
    double value = fabs(element_as_double(out->tensor, index));
    if (value > 0 && isfinite(value)) {
        seen->smallest = seen->any && seen->smallest < value ? seen->smallest : value;
        seen->largest = seen->any && seen->largest > value ? seen->largest : value;
        seen->any = true;
    }
}

static void measure_width(printer *out, int64_t index, void *state) {
    (void)state;
    char cell[CELL_SIZE];
    format_cell(out, index, cell);
    int width = (int)strlen(cell);
    out->width = width > out->width ? width : out->width;
}

static void put_text(printer *out, const char *text) {
    fputs(text, out->stream);
    out->column += (int)strlen(text);
}

static void new_line(printer *out, int indent) {
    fprintf(out->stream, "\n%*s", indent, "");
    out->column = indent;
}

/* What stands between two items of an axis: a space, a line break, or blank lines
 * between matrices. */
static void put_separator(printer *out, int32_t axis, int indent) {
    const td_shape *shape = &out->tensor->shape;
    if (axis == shape->rank - 1) {
        if (out->column + 1 + out->width <= LINE_WIDTH) {
            put_text(out, " ");
            return;
        }
    } else {
        for (int32_t k = axis + 2; k < shape->rank; k++) {
            fputc('\n', out->stream);
        }
    }
    new_line(out, indent);
}

static void print_axis(printer *out, int32_t axis, int64_t offset, int indent) {
    const td_shape *shape = &out->tensor->shape;
    int64_t size = shape->dims[axis];
    int64_t stride = stride_of(shape, axis);
    bool cut = out->summarise && size > 2 * EDGE;
    put_text(out, "[");
    for (int64_t i = 0; i < size; i++) {
        if (i > 0) {
            put_separator(out, axis, indent + 1);
        }
        if (cut && i == EDGE) {
            put_text(out, "...");
            i = size - EDGE - 1;
        } else if (axis == shape->rank - 1) {
            char cell[CELL_SIZE], padded[2 * CELL_SIZE];
            format_cell(out, offset + i, cell);
            snprintf(padded, sizeof padded, "%*s", out->width, cell);
            put_text(out, padded);
        } else {
            print_axis(out, axis + 1, offset + i * stride, indent + 1);
        }
    }
    put_text(out, "]");
}

static void choose_format(printer *out) {
    if (is_floating(out->tensor)) {
        range seen = {0};
        each_shown(out, 0, 0, measure_range, &seen);
        /* numpy's rule: six digits behind the point would leave too little of the smallest. */
        out->scientific = seen.any && (seen.largest >= 1e8 || seen.smallest < 1e-4 ||
                                       seen.largest / seen.smallest > 1e3);
        out->precision = out->scientific ? 4 : 6;
    }
    each_shown(out, 0, 0, measure_width, NULL);
}

static void print_name(const td_tensor *tensor, FILE *stream) {
    bool named = tensor->gradient && tensor->gradient_name; /* with a name of its own */
    const char *name = named ? tensor->gradient_name : tensor->name;
    td__print_visible(stream, name, strlen(name));
    if (tensor->gradient && !named) {
        fprintf(stream, "%sgradient ", *name ? "." : "");
    } else {
        fputs(*name ? " " : "", stream);
    }
}

td_status td_tensor_print(const td_tensor *tensor, FILE *stream) {
    printer out = {
        .stream = stream, .tensor = tensor, .summarise = tensor->count > SUMMARISE_ABOVE};
    char shape[TD_SHAPE_TEXT_SIZE];
    print_name(tensor, stream);
    fprintf(stream, "%s %s%s\n", td_shape_text(&tensor->shape, shape), td_dtype_name(tensor->dtype),
            tensor->disconnected ? " (zero: the loss does not depend on it)" : "");
    if (tensor->count == 0) {
        fputs("[]", stream);
    } else {
        choose_format(&out);
        if (tensor->shape.rank == 0) {
            char cell[CELL_SIZE];
            format_cell(&out, 0, cell);
            put_text(&out, cell);
        } else {
            print_axis(&out, 0, 0, 0);
        }
    }
    fputc('\n', stream);
    return ferror(stream) ? TD_IO : TD_OK;
}
