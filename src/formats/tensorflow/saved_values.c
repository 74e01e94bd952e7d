/* Values of a SavedModel while it is converted: variables, constants, lists of tensors. */
#include "tensorflow/saved_values.h"
#include "base/memory.h"
#include "tensor/element.h"
#include "tensor/order.h"

#include <stdio.h>
#include <string.h>

void td__saved_refuse(td__saved_converter *c, const char *op) {
    const char *reason = td__operators_reason(c->to);
    size_t length = strlen(c->missing);
    if (!strstr(c->missing, op) && length + strlen(op) + 60 < TD__SAVED_MISSING) {
        (void)snprintf(c->missing + length, TD__SAVED_MISSING - length, "%s%s%s%.100s%s",
                       length ? ", " : "", op, *reason ? " (" : "", reason, *reason ? ")" : "");
    }
    c->refused = true;
}

void td__saved_fail(td__saved_converter *c, td_status status, const char *what) {
    if (!c->status) {
        c->status = td_error_set(c->error, status, "%s: %s", c->file.path, what);
    }
}

/* --- variables and constants -------------------------------------------------------------- */

/* A tensor's elements as float or int64, as the graph keeps them. Takes td__saved_nothing; NULL: not of numbers. */
static td_tensor *widen_view(const td_view *view, const char *name, td_dtype *kind) {
    int64_t count;
    bool real = view->dtype == TD_FLOAT32 || view->dtype == TD_FLOAT64 ||
                view->dtype == TD_FLOAT16 || view->dtype == TD_BFLOAT16;
    *kind = real ? TD_FLOAT32 : view->dtype == TD_BOOL ? TD_BOOL : TD_INT64;
    if (td_shape_check(&view->shape, TD_INT64, &count, NULL)) {
        return NULL;
    }
    td_tensor *tensor = td_tensor_create(name, real ? TD_FLOAT32 : TD_INT64, view->shape, NULL);
    for (int64_t i = 0; tensor && i < count; i++) {
        double number = td__element(view, i);
        if (real) {
            ((float *)td_tensor_data(tensor))[i] = (float)number;
        } else {
            ((int64_t *)td_tensor_data(tensor))[i] = (int64_t)number;
        }
    }
    return tensor;
}

/* "sequential/dense/kernel" as "dense.kernel". */
static void short_name(const char *name, char called[600]) {
    const char *slash = strrchr(name, '/'), *first = slash;
    while (first && first > name && first[-1] != '/') {
        first--;
    }
    (void)snprintf(called, 600, "%.500s", first ? first : name);
    for (char *at = strrchr(called, '/'); at; at = strrchr(called, '/')) {
        *at = '.';
    }
}

/* A kernel (…spatial, in, out) as a convolution of ONNX has it, (out, in, …spatial); of one by channels,
 * (h, w, in, multiplier), as (in multiplier, 1, h, w). Takes the tensor. */
static td_tensor *turn_kernel(td_tensor *kernel, bool by_channels) {
    td_shape from = td_tensor_shape(kernel), to = {.rank = from.rank};
    int32_t spatial = from.rank - 2;
    int64_t in = from.dims[spatial], out = from.dims[spatial + 1], area = 1;
    for (int32_t i = 0; i < spatial; i++) {
        to.dims[i + 2] = from.dims[i];
        area *= from.dims[i];
    }
    to.dims[0] = by_channels ? in * out : out;
    to.dims[1] = by_channels ? 1 : in;
    td_tensor *turned = td_tensor_create("kernel", TD_FLOAT32, to, NULL);
    const float *source = td_tensor_data(kernel);
    for (int64_t a = 0; turned && a < area; a++) {
        for (int64_t i = 0; i < in; i++) {
            for (int64_t o = 0; o < out; o++) {
                int64_t row = by_channels ? i * out + o : o * in + i;
                ((float *)td_tensor_data(turned))[row * area + a] = source[(a * in + i) * out + o];
            }
        }
    }
    td_tensor_destroy(kernel);
    return turned;
}

/* As it is ('v'), or as a kernel ('k', 'd'). */
const char *td__saved_variable(td__saved_converter *c, int64_t variable, char form) {
    char number[24], called[600], which[32];
    (void)snprintf(number, sizeof number, "%lld", (long long)variable);
    (void)snprintf(which, sizeof which, "%c%s", form, number);
    const char *known = json_string_value(json_object_get(c->read, which));
    const json_t *key = json_object_get(c->file.keys, number);
    if (known) {
        return known;
    }
    const char *path = json_string_value(json_array_get(key, 0));
    const char *name = json_string_value(json_array_get(key, 1));
    const td__bundle_entry *entry = path ? td__bundle_find(c->bundle, path) : NULL;
    if (!entry || !name) {
        return td__operator_refuse(c->to, "a variable that the checkpoint does not have");
    }
    td_view view;
    td_error reason = {0};
    if (td__bundle_view(c->bundle, entry, &view, &reason)) {
        td__saved_fail(c, reason.status, reason.text);
        return NULL;
    }
    char plain[600];
    short_name(name, plain);
    (void)snprintf(called, sizeof called, "%s", plain);
    for (int again = 1; json_object_get(c->read, called) && again < 10000; again++) {
        (void)snprintf(called, sizeof called, "%.500s_%d", plain, again); /* of another layer */
    }
    td_dtype kind;
    int64_t count = 0;
    bool room = !td_shape_check(&view.shape, TD_INT64, &count, NULL) &&
                (size_t)count * sizeof(int64_t) <= c->left;
    td_tensor *tensor = room ? widen_view(&view, called, &kind) : NULL;
    td__view_release(&view);
    if (!tensor) {
        td__saved_fail(c, TD_MEMORY, "its variables take more memory than its file has bytes for");
        return NULL;
    }
    c->left -= (size_t)count * sizeof(int64_t);
    bool fits = kind == TD_FLOAT32 && td_tensor_shape(tensor).rank > 2;
    tensor = form != 'v' && fits ? turn_kernel(tensor, form == 'd') : tensor;
    const char *made = td__operators_tensor(c->to, called, kind, tensor);
    (void)json_object_set_new(c->read, called, json_true());
    (void)json_object_set_new(c->read, which, json_string(made ? made : ""));
    return made;
}

/* TensorProto: its elements are bytes, a list, or one for all. */
static td_tensor *read_tensor(td__proto message, int64_t *type, const char *name, size_t left) {
    enum { TYPE = 1, SHAPE = 2, CONTENT = 4 };
    static const struct {
        uint8_t type, size, field;
    } kinds[] = {{1, 4, 5}, {2, 8, 6}, {3, 4, 7}, {9, 8, 10}, {10, 1, 11}};
    td__proto again = message;
    td__proto_field field, content = {0};
    td_shape shape = {0};
    int64_t count;
    while (td__proto_next(&again, &field)) {
        *type = field.number == TYPE && field.wire == TD__VARINT ? (int64_t)field.bits : *type;
        content = field.number == CONTENT && field.wire == TD__BYTES ? field : content;
        if (field.number == SHAPE && field.wire == TD__BYTES &&
            !td__saved_read_shape(td__proto_in(&field), &shape)) {
            return NULL;
        }
    }
    size_t k = 0;
    for (; k < sizeof kinds / sizeof *kinds && kinds[k].type != *type; k++) {
    }
    if (k == sizeof kinds / sizeof *kinds || td_shape_check(&shape, TD_INT64, &count, NULL) ||
        (size_t)count > left / sizeof(int64_t)) {
        return NULL;
    }
    bool real = *type < 3;
    td_tensor *tensor = td_tensor_create(name, real ? TD_FLOAT32 : TD_INT64, shape, NULL);
    double last = 0;
    size_t size = kinds[k].size;
    again = message;
    td__proto packed = td__proto_of(NULL, 0);
    for (int64_t i = 0; tensor && i < count; i++) {
        uint64_t bits = 0;
        bool has = false;
        if (content.size >= (size_t)(i + 1) * size) {
            const uint8_t *at = content.data + (size_t)i * size;
            bits = size == 8 ? td__load64(at) : size == 4 ? td__load32(at) : *at;
            bits = *type == 3 ? (uint64_t)(int64_t)(int32_t)bits : bits;
            has = true;
        }
        while (!has && (packed.p < packed.end || td__proto_next(&again, &field))) {
            if (packed.p < packed.end) {
                if (real && (size_t)(packed.end - packed.p) >= size) {
                    bits = size == 8 ? td__load64(packed.p) : td__load32(packed.p);
                    packed.p += size;
                    has = true;
                } else if (!real && td__proto_varint(&packed, &bits)) {
                    has = true;
                } else {
                    packed = td__proto_of(NULL, 0);
                }
            } else if (field.number == kinds[k].field && field.wire == TD__BYTES) {
                packed = td__proto_in(&field);
            } else if (field.number == kinds[k].field) {
                bits = field.bits;
                has = true;
            }
        }
        if (has && real) {
            last = size == 8 ? td__double_of(bits) : (double)td__float_of((uint32_t)bits);
        } else if (has) {
            last = (double)(int64_t)bits;
        }
        if (real) {
            ((float *)td_tensor_data(tensor))[i] = (float)last; /* the last is for the rest */
        } else {
            ((int64_t *)td_tensor_data(tensor))[i] = has ? (int64_t)bits : (int64_t)last;
        }
    }
    return tensor;
}

void td__saved_constant(td__saved_converter *c, const td__saved_node *node, td__saved_value *out) {
    td__proto value, tensor;
    td__proto_field field;
    char called[600];
    bool found = false;
    if (td__saved_attribute(node, "value", &value)) {
        while (!found && td__proto_next(&value, &field)) {
            found = field.number == 8 && field.wire == TD__BYTES;
        }
    }
    if (!found) {
        return;
    }
    tensor = td__proto_in(&field);
    (void)snprintf(called, sizeof called, "%.500s/%zu", node->name, c->made);
    td_tensor *made = read_tensor(tensor, &out->type, called, c->left);
    if (!made) {
        return; /* texts: who reads it is refused */
    }
    c->left -= (size_t)td_tensor_count(made) * sizeof(int64_t);
    out->shape = td_tensor_shape(made);
    out->ranked = true;
    bool whole = td_tensor_dtype(made) == TD_INT64;
    if (whole && td_tensor_count(made) <= TD__SAVED_KNOWN) {
        out->known = true;
        out->count = (size_t)td_tensor_count(made);
        memcpy(out->numbers, td_tensor_data(made), out->count * sizeof *out->numbers);
    }
    td_dtype kind = out->type == 10 ? TD_BOOL : whole ? TD_INT64 : TD_FLOAT32;
    out->name = td__operators_tensor(c->to, called, kind, made);
}

/* --- lists of tensors --------------------------------------------------------------------- */

static int64_t new_list(td__saved_converter *c, size_t count, bool items) {
    if (count > TD__SAVED_STEPS ||
        !td__grow(&c->lists, &c->list_capacity, c->list_count + 1, 1 << 20, sizeof *c->lists)) {
        return -1;
    }
    td__saved_list *made = &c->lists[c->list_count++];
    *made = (td__saved_list){.count = count,
                             .items = items ? td__calloc(count + 1, sizeof(char *)) : NULL};
    return items && !made->items ? -1 : (int64_t)c->list_count - 1;
}

static const char *place_of(td__saved_converter *c, int64_t i) {
    return TD__OPERATOR(c->to, "Squeeze", td__operator_integers(c->to, 1, &i));
}

static const char *take_item(td__saved_converter *c, int64_t at, int64_t i) {
    if (at < 0 || i < 0 || (size_t)i >= c->lists[at].count) {
        return td__operator_refuse(c->to, "of an element that is not known");
    }
    const td__saved_list *from = &c->lists[at];
    const char *own = from->items ? from->items[i] : NULL;
    if (own || !from->stacked) {
        return own ? own : td__operator_refuse(c->to, "of an element that was not set");
    }
    const char *inputs[2] = {from->stacked, place_of(c, i)};
    return td__operator(c->to, "Gather", 2, inputs, 1, &TD__NAMED_INT("axis", 0));
}

static const char *stack_items(td__saved_converter *c, int64_t at) {
    if (at < 0) {
        return td__operator_refuse(c->to, "of a list that is not known");
    }
    td__saved_list from = c->lists[at];
    if (!from.items) {
        return from.stacked;
    }
    const char **parts = td__calloc(from.count + 1, sizeof *parts);
    const char *first = td__operator_integers(c->to, 1, (int64_t[]){0});
    bool good = parts && from.count;
    for (size_t i = 0; good && i < from.count; i++) {
        const char *item = take_item(c, at, (int64_t)i);
        good = item;
        parts[i] = item ? TD__OPERATOR(c->to, "Unsqueeze", item, first) : NULL;
    }
    const char *y =
        good ? td__operator(c->to, "Concat", from.count, parts, 1, &TD__NAMED_INT("axis", 0))
             : NULL;
    td__free(parts);
    return y;
}

/* Whether the node is one of lists; out is what it makes. */
bool td__saved_list_node(td__saved_converter *c, const td__saved_node *node,
                         const td__saved_value *in, size_t count, td__saved_value *out) {
    const char *op = node->op;
    bool index = count > 1 && in[1].known && in[1].count;
    if (strncmp(op, "TensorList", 10) != 0 || count == 0) {
        return false;
    }
    if (!strcmp(op, "TensorListFromTensor")) {
        bool sized = in[0].ranked && in[0].shape.rank && in[0].shape.dims[0] >= 0;
        out->list = sized ? new_list(c, (size_t)in[0].shape.dims[0], false) : -1;
        if (out->list >= 0) {
            c->lists[out->list].stacked = in[0].name;
        }
    } else if (!strcmp(op, "TensorListReserve")) {
        out->list =
            index && in[1].numbers[0] >= 0 ? new_list(c, (size_t)in[1].numbers[0], true) : -1;
    } else if (!strcmp(op, "TensorListGetItem")) {
        out->name = take_item(c, in[0].list, index ? in[1].numbers[0] : -1);
    } else if (!strcmp(op, "TensorListStack")) {
        out->name = stack_items(c, in[0].list);
    } else if (!strcmp(op, "TensorListSetItem") && count > 2 && in[0].list >= 0 && index &&
               in[1].numbers[0] >= 0 && (size_t)in[1].numbers[0] < c->lists[in[0].list].count) {
        out->list = new_list(c, c->lists[in[0].list].count, true);
        const td__saved_list *from = &c->lists[in[0].list];
        if (out->list >= 0) {
            td__saved_list *made = &c->lists[out->list];
            made->stacked = from->stacked;
            for (size_t i = 0; from->items && i < from->count; i++) {
                made->items[i] = from->items[i];
            }
            made->items[in[1].numbers[0]] = in[2].name;
        }
    }
    if (!out->name && out->list < 0) {
        (void)td__operator_refuse(c->to, "whose length or place depends on the data");
        td__saved_refuse(c, op);
    }
    return true;
}
