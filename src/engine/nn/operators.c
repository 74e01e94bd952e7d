/* A list of operators; see operators.h. */
#include "nn/operators.h"

#include "nn/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of names, attributes and lists. */
#define MAX_MEMORY ((size_t)1 << 30)

enum { MAX_ITEMS = 1 << 24 };

td__operators *td__operators_create(void) {
    td__operators *to = td__calloc(1, sizeof *to);
    if (to) {
        to->prefix = "";
        to->memory.left = MAX_MEMORY;
    }
    return to;
}

void td__operators_destroy(td__operators *to) {
    if (!to) {
        return;
    }
    for (size_t i = 0; i < to->constant_count; i++) {
        td_tensor_destroy(to->constants[i].tensor);
    }
    td__free(to->nodes);
    td__free(to->constants);
    td__free(to->ports);
    td__chunks_free(to->memory.newest);
    td__free(to);
}

void td__operators_begin(td__operators *to, const char *prefix) {
    to->prefix = prefix;
    *to->reason = 0;
}

const char *td__operators_reason(const td__operators *to) {
    return to->reason;
}

bool td__operators_exhausted(const td__operators *to) {
    return to->exhausted;
}

/* --- memory ------------------------------------------------------------------------------- */

/* A copy of an array; NULL when memory is exhausted, or nothing is copied. */
static void *keep_array(td__operators *to, const void *items, size_t count, size_t size) {
    td_status reason;
    void *kept =
        items && count ? td__chunks_take(&to->memory, count, size, sizeof(void *), &reason) : NULL;
    to->exhausted = to->exhausted || (items && count && !kept);
    if (kept) {
        memcpy(kept, items, count * size);
    }
    return kept;
}

static const char *keep_text(td__operators *to, const char *text) {
    return keep_array(to, text, text ? strlen(text) + 1 : 0, 1);
}

static const char *const *keep_texts(td__operators *to, const char *const *texts, size_t count) {
    const char **kept = keep_array(to, texts, count, sizeof *kept);
    for (size_t i = 0; kept && i < count; i++) {
        kept[i] = keep_text(to, kept[i]);
    }
    return kept;
}

static const char *keep_name(td__operators *to, const char *format, ...) TD_PRINTF(2, 3);
static const char *keep_name(td__operators *to, const char *format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return keep_text(to, text);
}

const char *td__operators_name(td__operators *to, const char *text) {
    return keep_name(to, "%s", text);
}

const char *td__operator_refuse(td__operators *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(to->reason, sizeof to->reason, format, arguments);
    va_end(arguments);
    return NULL;
}

/* --- nodes -------------------------------------------------------------------------------- */

static const td__attribute *keep_attributes(td__operators *to, size_t count,
                                            const td__attribute *attributes) {
    td__attribute *kept = keep_array(to, attributes, count, sizeof *kept);
    for (size_t i = 0; kept && i < count; i++) {
        td__attribute *a = &kept[i];
        a->name = keep_text(to, a->name);
        a->text = a->type == TD__STRING ? keep_text(to, a->text) : NULL;
        a->integers =
            a->type == TD__INTS ? keep_array(to, a->integers, a->count, sizeof(int64_t)) : NULL;
        a->numbers =
            a->type == TD__REALS ? keep_array(to, a->numbers, a->count, sizeof(float)) : NULL;
        a->texts = a->type == TD__STRINGS ? keep_texts(to, a->texts, a->count) : NULL;
    }
    return kept;
}

static void add_node(td__operators *to, td__operator_node node) {
    if (to->exhausted || !td__grow(&to->nodes, &to->node_capacity, to->node_count + 1, MAX_ITEMS,
                                   sizeof *to->nodes)) {
        to->exhausted = true;
        return;
    }
    to->nodes[to->node_count++] = node;
}

void td__operator_outputs(td__operators *to, const char *type, size_t input_count,
                          const char *const *inputs, size_t attribute_count,
                          const td__attribute *attributes, size_t output_count,
                          const char **outputs) {
    bool whole = true;
    for (size_t i = 0; i < input_count; i++) {
        whole = whole && inputs[i];
    }
    size_t number = to->made++;
    for (size_t i = 0; i < output_count; i++) {
        outputs[i] =
            whole ? keep_name(to, "%s/%s_%zu%s%.0zu", to->prefix, type, number, i ? "." : "", i)
                  : NULL;
        whole = outputs[i];
    }
    if (whole) {
        add_node(to, (td__operator_node){
                         .type = keep_text(to, type),
                         .inputs = keep_texts(to, inputs, input_count),
                         .input_count = input_count,
                         .outputs = keep_array(to, outputs, output_count, sizeof *outputs),
                         .output_count = output_count,
                         .attributes = keep_attributes(to, attribute_count, attributes),
                         .attribute_count = attribute_count});
    }
}

const char *td__operator(td__operators *to, const char *type, size_t input_count,
                         const char *const *inputs, size_t attribute_count,
                         const td__attribute *attributes) {
    const char *output = NULL;
    td__operator_outputs(to, type, input_count, inputs, attribute_count, attributes, 1, &output);
    return output;
}

void td__operators_rename(td__operators *to, const char *from, const char *called) {
    add_node(to, (td__operator_node){.type = "Identity",
                                     .inputs = keep_texts(to, &from, 1),
                                     .input_count = 1,
                                     .outputs = keep_texts(to, &called, 1),
                                     .output_count = 1});
}

void td__operators_port(td__operators *to, bool output, const char *called, td_dtype dtype,
                        const td_shape *shape) {
    if (to->exhausted || !td__grow(&to->ports, &to->port_capacity, to->port_count + 1, MAX_ITEMS,
                                   sizeof *to->ports)) {
        to->exhausted = true;
        return;
    }
    to->ports[to->port_count++] = (td__operator_port){keep_text(to, called), output, dtype, *shape};
}

/* --- tensors ------------------------------------------------------------------------------ */

const char *td__operators_tensor(td__operators *to, const char *called, td_dtype dtype,
                                 td_tensor *tensor) {
    called = keep_text(to, called);
    if (to->exhausted || !called || !tensor ||
        !td__grow(&to->constants, &to->constant_capacity, to->constant_count + 1, MAX_ITEMS,
                  sizeof *to->constants)) {
        td_tensor_destroy(tensor);
        to->exhausted = true;
        return NULL;
    }
    to->constants[to->constant_count++] = (td__operator_constant){called, dtype, tensor};
    return called;
}

const char *td__operator_parameter(td__operators *to, const td__layer *layer, int slot) {
    const td_tensor *tensor = layer->slot[slot];
    if (!tensor) {
        return NULL;
    }
    if (layer->info.shares >= 0) {
        return tensor->name; /* in the list since the layer's first use */
    }
    /* Scalars are no parameters: a single number is a vector. */
    td_shape shape = tensor->shape.rank ? tensor->shape : TD_SHAPE(1);
    return td__operators_tensor(
        to, tensor->name, TD_FLOAT32,
        td_tensor_borrow(tensor->name, TD_FLOAT32, shape, tensor->data, NULL));
}

static const char *add_constant(td__operators *to, td_dtype dtype, td_shape shape,
                                const void *values) {
    const char *called = keep_name(to, "%s/constant_%zu", to->prefix, to->made++);
    return td__operators_tensor(to, called, dtype,
                                td_tensor_from(called, dtype, shape, values, NULL));
}

const char *td__operator_integers(td__operators *to, size_t count, const int64_t *values) {
    return add_constant(to, TD_INT64, TD_SHAPE((int64_t)count), values);
}

const char *td__operator_number(td__operators *to, double value) {
    float number = (float)value;
    return add_constant(to, TD_FLOAT32, (td_shape){0}, &number);
}

const char *td__operator_filled(td__operators *to, int64_t count, float value) {
    td__attribute with = {.name = "value", .type = TD__TENSOR, .number = value};
    const char *shape = td__operator_integers(to, 1, &count);
    return td__operator(to, "ConstantOfShape", 1, &shape, 1, &with);
}

const char *td__operator_transpose(td__operators *to, const char *x, size_t rank,
                                   const int64_t *order) {
    td__attribute perm = TD__NAMED_INTS("perm", order, rank);
    return td__operator(to, "Transpose", 1, &x, 1, &perm);
}

const char *td__operator_reshape(td__operators *to, const char *x, size_t rank,
                                 const int64_t *shape) {
    return TD__OPERATOR(to, "Reshape", x, td__operator_integers(to, rank, shape));
}

const char *td__operator_channels_first(td__operators *to, const char *x, int spatial) {
    int64_t order[TD_MAX_RANK] = {0, spatial + 1};
    for (int i = 0; i < spatial; i++) {
        order[i + 2] = i + 1;
    }
    return td__operator_transpose(to, x, (size_t)spatial + 2, order);
}

const char *td__operator_channels_last(td__operators *to, const char *x, int spatial) {
    int64_t order[TD_MAX_RANK] = {0};
    for (int i = 0; i < spatial; i++) {
        order[i + 1] = i + 2;
    }
    order[spatial + 1] = 1;
    return td__operator_transpose(to, x, (size_t)spatial + 2, order);
}

size_t td__operator_window(td__window *w, const td_shape *input) {
    size_t spatial = (size_t)w->spatial, used = 0;
    bool known = true;
    for (size_t i = 0; i < spatial; i++) {
        int64_t span = (w->kernel[i] - 1) * w->dilation[i] + 1, size = input->dims[i];
        int64_t out = (size + w->stride[i] - 1) / w->stride[i];
        int64_t missing = (out - 1) * w->stride[i] + span - size;
        missing = w->padding == TD_PADDING_VALID || missing < 0 ? 0 : missing;
        w->pads[i] = w->padding == TD_PADDING_CAUSAL ? span - 1 : missing / 2;
        w->pads[spatial + i] = w->padding == TD_PADDING_CAUSAL ? 0 : missing - missing / 2;
        known = known && (size >= 0 || w->padding != TD_PADDING_SAME);
    }
    w->attributes[used++] = TD__NAMED_INTS("kernel_shape", w->kernel, spatial);
    w->attributes[used++] = TD__NAMED_INTS("strides", w->stride, spatial);
    w->attributes[used++] = known ? TD__NAMED_INTS("pads", w->pads, 2 * spatial)
                                  : TD__NAMED_TEXT("auto_pad", "SAME_UPPER");
    for (size_t i = 0; i < spatial; i++) {
        if (w->dilation[i] != 1) {
            w->attributes[used++] = TD__NAMED_INTS("dilations", w->dilation, spatial);
            break;
        }
    }
    return used;
}

const char *td__operator_convolve(td__operators *to, const char *type, const td__layer *layer,
                                  const char *x, td__window *window, size_t used, int64_t groups) {
    int spatial = window->spatial;
    int64_t order[TD_MAX_RANK] = {spatial + 1, spatial};
    for (int i = 0; i < spatial; i++) {
        order[i + 2] = i;
    }
    if (groups != 1) {
        window->attributes[used++] = TD__NAMED_INT("group", groups);
    }
    const char *kernel = td__operator_transpose(to, td__operator_parameter(to, layer, 0),
                                                (size_t)spatial + 2, order);
    const char *inputs[] = {td__operator_channels_first(to, x, spatial), kernel,
                            td__operator_parameter(to, layer, 1)};
    const char *y =
        td__operator(to, type, layer->slot[1] ? 3 : 2, inputs, used, window->attributes);
    return td__operator_channels_last(to, y, spatial);
}

const char *td__operator_causal(td__operators *to, const char *scores, int64_t rank) {
    const td__attribute upper = TD__NAMED_INT("upper", 1);
    const td__attribute one = {.name = "value", .type = TD__TENSOR, .number = 1};
    const td__attribute type = {.name = "to", .type = TD__DTYPE, .dtype = TD_BOOL};
    const int64_t rows = rank - 2, above = 1;
    const char *shape =
        TD__OPERATOR(to, "Slice", TD__OPERATOR(to, "Shape", scores),
                     td__operator_integers(to, 1, &rows), td__operator_integers(to, 1, &rank));
    const char *all = td__operator(to, "ConstantOfShape", 1, &shape, 1, &one);
    const char *both[] = {all, TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, &above))};
    const char *later = td__operator(to, "Trilu", 2, both, 1, &upper);
    return TD__OPERATOR(to, "Where", td__operator(to, "Cast", 1, &later, 1, &type),
                        td__operator_number(to, -INFINITY), scores);
}
