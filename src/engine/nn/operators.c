/* The protocol buffers of an ONNX file; see operators.h. */
#include "nn/operators.h"

#include "base/little.h"
#include "nn/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { OPSET = 17, IR_VERSION = 8, FLOAT = 1, INT64 = 7 };
#define LARGEST ((size_t)INT32_MAX) /* of a message: protocol buffers have no longer ones */

/* Bytes that grow. */
typedef struct message {
    uint8_t *data;
    size_t size, capacity;
} message;

typedef struct name {
    struct name *next;
    char text[];
} name;

struct td__operators {
    message nodes, initializers, values, notes;
    name *names;
    const char *prefix; /* of the names of what is made */
    size_t made;        /* nodes so far */
    bool exhausted;
    char reason[160];
};

td__operators *td__operators_create(void) {
    td__operators *to = td__calloc(1, sizeof *to);
    if (to) {
        to->prefix = "";
    }
    return to;
}

void td__operators_destroy(td__operators *to) {
    if (!to) {
        return;
    }
    for (name *next, *n = to->names; n; n = next) {
        next = n->next;
        td__free(n);
    }
    td__free(to->nodes.data);
    td__free(to->initializers.data);
    td__free(to->values.data);
    td__free(to->notes.data);
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

/* --- protocol buffers --------------------------------------------------------------------- */

static void put(td__operators *to, message *m, const void *data, size_t size) {
    if (to->exhausted || m->size + size > LARGEST ||
        !td__grow(&m->data, &m->capacity, m->size + size + 1, LARGEST + 1, 1)) {
        to->exhausted = true;
        return;
    }
    if (size) {
        memcpy(m->data + m->size, data, size);
    }
    m->size += size;
}

static void put_varint(td__operators *to, message *m, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(to, m, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_int(td__operators *to, message *m, uint32_t field, int64_t value) {
    put_varint(to, m, (uint64_t)field << 3);
    put_varint(to, m, (uint64_t)value);
}

static void put_float(td__operators *to, message *m, uint32_t field, float value) {
    put_varint(to, m, (uint64_t)field << 3 | 5);
    td__little_copy(&value, &value, sizeof value, sizeof value);
    put(to, m, &value, sizeof value);
}

static void put_bytes(td__operators *to, message *m, uint32_t field, const void *data,
                      size_t size) {
    put_varint(to, m, (uint64_t)field << 3 | 2);
    put_varint(to, m, size);
    put(to, m, data, size);
}

static void put_text(td__operators *to, message *m, uint32_t field, const char *text) {
    put_bytes(to, m, field, text, strlen(text));
}

/* A message inside another; it is used up. */
static void put_message(td__operators *to, message *m, uint32_t field, message *inside) {
    put_bytes(to, m, field, inside->data, inside->size);
    td__free(inside->data);
    *inside = (message){0};
}

/* TensorProto, but for its name. */
static void put_tensor(td__operators *to, message *m, int type, size_t rank, const int64_t *dims,
                       const void *data, size_t size) {
    for (size_t i = 0; i < rank; i++) {
        put_int(to, m, 1, dims[i]);
    }
    put_int(to, m, 2, type);
    put_bytes(to, m, 9, data, size);
    if (!to->exhausted) {
        void *raw = m->data + m->size - size;
        td__little_copy(raw, raw, size, type == INT64 ? 8 : 4);
    }
}

/* --- nodes -------------------------------------------------------------------------------- */

static const char *keep_name(td__operators *to, const char *format, ...) TD_PRINTF(2, 3);
static const char *keep_name(td__operators *to, const char *format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    name *kept = td__calloc(1, sizeof *kept + strlen(text) + 1);
    if (!kept) {
        to->exhausted = true;
        return NULL;
    }
    memcpy(kept->text, text, strlen(text) + 1);
    kept->next = to->names;
    to->names = kept;
    return kept->text;
}

const char *td__operator_refuse(td__operators *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(to->reason, sizeof to->reason, format, arguments);
    va_end(arguments);
    return NULL;
}

static void put_attribute(td__operators *to, message *node, const td__attribute *a) {
    static const int types[] = {
        [TD__INT] = 2,   [TD__REAL] = 1,    [TD__STRING] = 3, [TD__INTS] = 7,
        [TD__REALS] = 6, [TD__STRINGS] = 8, [TD__TENSOR] = 4};
    message m = {0}, tensor = {0};
    put_text(to, &m, 1, a->name);
    switch (a->type) {
    case TD__INT:
        put_int(to, &m, 3, a->integer);
        break;
    case TD__REAL:
        put_float(to, &m, 2, a->number);
        break;
    case TD__STRING:
        put_text(to, &m, 4, a->text);
        break;
    case TD__INTS:
        for (size_t i = 0; i < a->count; i++) {
            put_int(to, &m, 8, a->integers[i]);
        }
        break;
    case TD__REALS:
        for (size_t i = 0; i < a->count; i++) {
            put_float(to, &m, 7, a->numbers[i]);
        }
        break;
    case TD__STRINGS:
        for (size_t i = 0; i < a->count; i++) {
            put_text(to, &m, 9, a->texts[i]);
        }
        break;
    case TD__TENSOR:
        put_tensor(to, &tensor, FLOAT, 1, (const int64_t[]){1}, &a->number, sizeof a->number);
        put_message(to, &m, 5, &tensor);
        break;
    }
    put_int(to, &m, 20, types[a->type]);
    put_message(to, node, 5, &m);
}

void td__operator_outputs(td__operators *to, const char *type, size_t input_count,
                          const char *const *inputs, size_t attribute_count,
                          const td__attribute *attributes, size_t output_count,
                          const char **outputs) {
    bool whole = true;
    for (size_t i = 0; i < input_count; i++) {
        whole = whole && inputs[i];
    }
    message node = {0};
    for (size_t i = 0; whole && i < input_count; i++) {
        put_text(to, &node, 1, inputs[i]);
    }
    size_t number = to->made++;
    for (size_t i = 0; i < output_count; i++) {
        outputs[i] =
            whole ? keep_name(to, "%s/%s_%zu%s%.0zu", to->prefix, type, number, i ? "." : "", i)
                  : NULL;
        whole = outputs[i];
        if (whole) {
            put_text(to, &node, 2, outputs[i]);
        }
    }
    if (whole) {
        put_text(to, &node, 3, outputs[0]);
        put_text(to, &node, 4, type);
        for (size_t i = 0; i < attribute_count; i++) {
            put_attribute(to, &node, &attributes[i]);
        }
        put_message(to, &to->nodes, 1, &node);
    }
    td__free(node.data);
}

const char *td__operator(td__operators *to, const char *type, size_t input_count,
                         const char *const *inputs, size_t attribute_count,
                         const td__attribute *attributes) {
    const char *output = NULL;
    td__operator_outputs(to, type, input_count, inputs, attribute_count, attributes, 1, &output);
    return output;
}

/* --- tensors ------------------------------------------------------------------------------ */

const char *td__operator_parameter(td__operators *to, const td__layer *layer, int slot) {
    const td_tensor *tensor = layer->slot[slot];
    if (!tensor) {
        return NULL;
    }
    if (layer->info.shares >= 0) {
        return tensor->name; /* written with the layer's first use */
    }
    const int64_t one = 1; /* scalars are no parameters: a single number is a vector */
    bool scalar = tensor->shape.rank == 0;
    return td__operators_tensor(to, tensor->name, FLOAT, scalar ? 1 : (size_t)tensor->shape.rank,
                                scalar ? &one : tensor->shape.dims, tensor->data,
                                (size_t)tensor->count * sizeof(float));
}

const char *td__operators_tensor(td__operators *to, const char *called, int type, size_t rank,
                                 const int64_t *dims, const void *data, size_t size) {
    message m = {0};
    put_tensor(to, &m, type, rank, dims, data, size);
    put_text(to, &m, 8, called);
    put_message(to, &to->initializers, 5, &m);
    return to->exhausted ? NULL : called;
}

const char *td__operators_name(td__operators *to, const char *text) {
    return keep_name(to, "%s", text);
}

static const char *constant(td__operators *to, int type, size_t rank, size_t count,
                            const void *data, size_t size) {
    const char *called = keep_name(to, "%s/constant_%zu", to->prefix, to->made++);
    return called ? td__operators_tensor(to, called, type, rank, (const int64_t[]){(int64_t)count},
                                         data, size)
                  : NULL;
}

const char *td__operator_integers(td__operators *to, size_t count, const int64_t *values) {
    return constant(to, INT64, 1, count, values, count * sizeof *values);
}

const char *td__operator_number(td__operators *to, double value) {
    float number = (float)value;
    return constant(to, FLOAT, 0, 1, &number, sizeof number);
}

const char *td__operator_filled(td__operators *to, int64_t count, float value) {
    td__attribute with = {.name = "value", .type = TD__TENSOR, .number = value};
    const char *shape = td__operator_integers(to, 1, &count);
    return td__operator(to, "ConstantOfShape", 1, &shape, 1, &with);
}

const char *td__operator_transpose(td__operators *to, const char *x, size_t rank,
                                   const int64_t *order) {
    td__attribute perm = {.name = "perm", .type = TD__INTS, .integers = order, .count = rank};
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
    w->attributes[used++] = (td__attribute){
        .name = "kernel_shape", .type = TD__INTS, .integers = w->kernel, .count = spatial};
    w->attributes[used++] = (td__attribute){
        .name = "strides", .type = TD__INTS, .integers = w->stride, .count = spatial};
    w->attributes[used++] =
        known ? (td__attribute){.name = "pads",
                                .type = TD__INTS,
                                .integers = w->pads,
                                .count = 2 * spatial}
              : (td__attribute){.name = "auto_pad", .type = TD__STRING, .text = "SAME_UPPER"};
    for (size_t i = 0; i < spatial; i++) {
        if (w->dilation[i] != 1) {
            w->attributes[used++] = (td__attribute){
                .name = "dilations", .type = TD__INTS, .integers = w->dilation, .count = spatial};
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
        window->attributes[used++] =
            (td__attribute){.name = "group", .type = TD__INT, .integer = groups};
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
    enum { BOOL = 9 };
    const td__attribute upper = {.name = "upper", .type = TD__INT, .integer = 1};
    const td__attribute one = {.name = "value", .type = TD__TENSOR, .number = 1};
    const td__attribute type = {.name = "to", .type = TD__INT, .integer = BOOL};
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

/* --- the file ----------------------------------------------------------------------------- */

void td__operators_value(td__operators *to, bool output, const char *called, int type,
                         const td_shape *shape) {
    message value = {0}, outer = {0}, tensor = {0}, dims = {0};
    for (int32_t i = 0; i < shape->rank; i++) {
        message dim = {0};
        char symbol[32] = "batch";
        if (i > 0) {
            (void)snprintf(symbol, sizeof symbol, "size_%d", (int)i);
        }
        if (shape->dims[i] >= 0) {
            put_int(to, &dim, 1, shape->dims[i]);
        } else {
            put_text(to, &dim, 2, symbol);
        }
        put_message(to, &dims, 1, &dim);
    }
    put_int(to, &tensor, 1, type);
    put_message(to, &tensor, 2, &dims);
    put_message(to, &outer, 1, &tensor);
    put_text(to, &value, 1, called);
    put_message(to, &value, 2, &outer);
    put_message(to, &to->values, output ? 12 : 11, &value);
}

void td__operators_rename(td__operators *to, const char *from, const char *called) {
    message identity = {0};
    put_text(to, &identity, 1, from);
    put_text(to, &identity, 2, called);
    put_text(to, &identity, 3, called);
    put_text(to, &identity, 4, "Identity");
    put_message(to, &to->nodes, 1, &identity);
}

void td__operators_note(td__operators *to, const char *key, const char *value) {
    message property = {0};
    put_text(to, &property, 1, key);
    put_text(to, &property, 2, value);
    put_message(to, &to->notes, 14, &property);
}

td_status td__operators_finish(td__operators *to, const char *called, uint8_t **bytes, size_t *size,
                               td_error *error) {
    message file = {0}, graph = {0}, opset = {0};
    put(to, &graph, to->nodes.data, to->nodes.size);
    put_text(to, &graph, 2, *called ? called : "model");
    put(to, &graph, to->initializers.data, to->initializers.size);
    put(to, &graph, to->values.data, to->values.size);
    put_int(to, &file, 1, IR_VERSION);
    put_text(to, &file, 2, "tapedeck");
    put_text(to, &file, 3, td_version());
    put_message(to, &file, 7, &graph);
    put_text(to, &opset, 1, "");
    put_int(to, &opset, 2, OPSET);
    put_message(to, &file, 8, &opset);
    put(to, &file, to->notes.data, to->notes.size);
    if (to->exhausted) {
        td__free(file.data);
        return td_error_set(error, TD_MEMORY, "out of memory, or more than the 2 GiB of a file");
    }
    *bytes = file.data;
    *size = file.size;
    return TD_OK;
}
