/* Converting what a SavedModel's signature calls: functions are inlined, loops unrolled. */
#include "tensorflow/saved_graph.h"

#include "base/memory.h"
#include "graph/build.h"
#include "tensor/element.h"
#include "tensor/order.h"
#include "tensorflow/saved.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_DEPTH = 16,   /* of calls */
    MAX_STEPS = 1024, /* of a loop */
    MAX_MADE = 60000, /* nodes converted, those of loops each time */
    MAX_MISSING = 400,
    MAX_BYTES_EACH = 1 << 30
};

typedef struct item_list {
    const char **items; /* NULL: none is set */
    const char *stacked;
    size_t count;
} item_list;

typedef struct converter {
    td__saved_file file;
    const td__bundle *bundle;
    td__operators *to;
    json_t *read; /* by variable: the name of its value */
    item_list *lists;
    size_t list_count, list_capacity, made, left;
    char missing[MAX_MISSING];
    bool refused;
    td_status status; /* of what is no refusal: memory, damage */
    td_error *error;
} converter;

typedef struct frame {
    converter *c;
    const td__saved_function *f;
    td__saved_value **made; /* of each node: its outputs */
    size_t *made_count;
    const td__saved_value *arguments;
    size_t argument_count;
    int depth;
} frame;

static const td__saved_value nothing = {.variable = -1, .list = -1};

static void refuse(converter *c, const char *op) {
    const char *reason = td__operators_reason(c->to);
    size_t length = strlen(c->missing);
    if (!strstr(c->missing, op) && length + strlen(op) + 60 < MAX_MISSING) {
        (void)snprintf(c->missing + length, MAX_MISSING - length, "%s%s%s%.100s%s",
                       length ? ", " : "", op, *reason ? " (" : "", reason, *reason ? ")" : "");
    }
    c->refused = true;
}

static void saved_fail(converter *c, td_status status, const char *what) {
    if (!c->status) {
        c->status = td_error_set(c->error, status, "%s: %s", c->file.path, what);
    }
}

/* --- references --------------------------------------------------------------------------- */

/* "node:output:1", "node:1", "node" or "argument", cut into its parts. */
typedef struct reference {
    char name[512], output[64];
    size_t index;
} reference;

static bool parse_reference(const char *text, reference *r) {
    const char *first = strchr(text, ':'), *last = strrchr(text, ':');
    size_t length = first ? (size_t)(first - text) : strlen(text);
    *r = (reference){.index = 0};
    if (*text == '^' || length >= sizeof r->name) {
        return false;
    }
    memcpy(r->name, text, length);
    r->index = last ? strtoul(last + 1, NULL, 10) : 0;
    if (first && last > first) {
        (void)snprintf(r->output, sizeof r->output, "%.*s", (int)(last - first - 1), first + 1);
    }
    return true;
}

static int64_t node_place(const frame *in, const char *name) {
    const json_t *place = json_object_get(in->f->places, name);
    return place ? (int64_t)json_integer_value(place) : -1;
}

static td__saved_value value_of(const frame *in, const char *text) {
    reference r;
    if (!text || !parse_reference(text, &r)) {
        return nothing;
    }
    for (size_t i = 0; i < in->argument_count && i < in->f->argument_count; i++) {
        if (!strcmp(in->f->arguments[i], r.name)) {
            return in->arguments[i];
        }
    }
    int64_t place = node_place(in, r.name);
    size_t output = !strcmp(r.output, "indices") ? 1 : r.index;
    return place >= 0 && in->made[place] && output < in->made_count[place] ? in->made[place][output]
                                                                           : nothing;
}

/* Input number i of a node, without those that only order; false: no such. */
static bool input_text(const td__saved_node *node, size_t i, char text[640]) {
    enum { INPUT = 3 };
    td__proto message = node->message;
    td__proto_field field;
    while (td__proto_next(&message, &field)) {
        bool data =
            field.number == INPUT && field.wire == TD__BYTES && field.size && field.data[0] != '^';
        if (data && i-- == 0) {
            (void)snprintf(text, 640, "%.*s", (int)(field.size < 600 ? field.size : 600),
                           (const char *)field.data);
            return true;
        }
    }
    return false;
}

static size_t input_count(const td__saved_node *node) {
    enum { INPUT = 3 };
    td__proto message = node->message;
    td__proto_field field;
    size_t count = 0;
    while (td__proto_next(&message, &field)) {
        count +=
            field.number == INPUT && field.wire == TD__BYTES && field.size && field.data[0] != '^';
    }
    return count;
}

/* --- variables and constants -------------------------------------------------------------- */

/* A tensor's elements as float or int64, as the graph keeps them. Takes nothing; NULL: not of numbers. */
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
static const char *read_variable(converter *c, int64_t variable, char form) {
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
        saved_fail(c, reason.status, reason.text);
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
        saved_fail(c, TD_MEMORY, "its variables take more memory than its file has bytes for");
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
    size_t size = kinds[k].size, listed = 0;
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
        listed += has;
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
    (void)listed;
    return tensor;
}

static void make_constant(converter *c, const td__saved_node *node, td__saved_value *out) {
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

static int64_t new_list(converter *c, size_t count, bool items) {
    if (count > MAX_STEPS ||
        !td__grow(&c->lists, &c->list_capacity, c->list_count + 1, 1 << 20, sizeof *c->lists)) {
        return -1;
    }
    item_list *made = &c->lists[c->list_count++];
    *made =
        (item_list){.count = count, .items = items ? td__calloc(count + 1, sizeof(char *)) : NULL};
    return items && !made->items ? -1 : (int64_t)c->list_count - 1;
}

static const char *place_of(converter *c, int64_t i) {
    return TD__OPERATOR(c->to, "Squeeze", td__operator_integers(c->to, 1, &i));
}

static const char *take_item(converter *c, int64_t at, int64_t i) {
    if (at < 0 || i < 0 || (size_t)i >= c->lists[at].count) {
        return td__operator_refuse(c->to, "of an element that is not known");
    }
    const item_list *from = &c->lists[at];
    const char *own = from->items ? from->items[i] : NULL;
    if (own || !from->stacked) {
        return own ? own : td__operator_refuse(c->to, "of an element that was not set");
    }
    const char *inputs[2] = {from->stacked, place_of(c, i)};
    return td__operator(c->to, "Gather", 2, inputs, 1, &TD__NAMED_INT("axis", 0));
}

static const char *stack_items(converter *c, int64_t at) {
    if (at < 0) {
        return td__operator_refuse(c->to, "of a list that is not known");
    }
    item_list from = c->lists[at];
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
static bool convert_list(converter *c, const td__saved_node *node, const td__saved_value *in,
                         size_t count, td__saved_value *out) {
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
        const item_list *from = &c->lists[in[0].list];
        if (out->list >= 0) {
            item_list *made = &c->lists[out->list];
            made->stacked = from->stacked;
            for (size_t i = 0; from->items && i < from->count; i++) {
                made->items[i] = from->items[i];
            }
            made->items[in[1].numbers[0]] = in[2].name;
        }
    }
    if (!out->name && out->list < 0) {
        (void)td__operator_refuse(c->to, "whose length or place depends on the data");
        refuse(c, op);
    }
    return true;
}

/* --- nodes -------------------------------------------------------------------------------- */

static bool run_function(converter *c, const char *name, const td__saved_value *arguments,
                         size_t count, int depth, td__saved_value *results, size_t room,
                         size_t *result_count);

static const char *function_name(converter *c, const td__saved_node *node, const char *attribute) {
    td__proto value;
    td__proto_field field, name;
    if (!td__saved_attribute(node, attribute, &value)) {
        return NULL;
    }
    while (td__proto_next(&value, &field)) {
        td__proto inner = field.wire == TD__BYTES ? td__proto_in(&field) : td__proto_of(NULL, 0);
        if (field.number == 10 && td__proto_next(&inner, &name) && name.number == 1 &&
            name.wire == TD__BYTES && name.size < 500) {
            char text[512];
            (void)snprintf(text, sizeof text, "%.*s", (int)name.size, (const char *)name.data);
            return td__operators_name(c->to, text);
        }
    }
    return NULL;
}

/* Of the graph around all functions, the last arguments are what the function captures. */
static void name_captured(converter *c, const char *function, td__saved_value *in, size_t count) {
    const json_t *list = json_object_get(c->file.captured, function ? function : "");
    size_t captured = json_array_size(list);
    for (size_t i = 0; captured <= count && i < captured; i++) {
        td__saved_value *value = &in[count - captured + i];
        if (!value->name && value->list < 0) {
            value->variable = json_integer_value(json_array_get(list, i));
        }
    }
}

static bool run_loop(converter *c, const td__saved_node *node, td__saved_value *values,
                     size_t count, int depth) {
    const char *condition = function_name(c, node, "cond"), *body = function_name(c, node, "body");
    for (int step = 0; condition && body && step < MAX_STEPS && !c->status; step++) {
        td__saved_value go = nothing;
        size_t got = 0;
        if (!run_function(c, condition, values, count, depth + 1, &go, 1, &got) || !got ||
            !go.known || !go.count) {
            td__operators_begin(c->to, node->name);
            (void)td__operator_refuse(c->to, "whose number of steps depends on the data");
            refuse(c, node->op);
            return false;
        }
        if (!go.numbers[0]) {
            return true;
        }
        td__saved_value *next = td__calloc(count + 1, sizeof *next);
        bool good = next && run_function(c, body, values, count, depth + 1, next, count, &got) &&
                    got == count;
        if (good) {
            memcpy(values, next, count * sizeof *values);
        }
        td__free(next);
        if (!good) {
            return false;
        }
    }
    td__operators_begin(c->to, node->name);
    (void)td__operator_refuse(c->to, "of too many steps");
    refuse(c, node->op);
    return false;
}

/* Inputs that are variables get their values; false after a refusal. */
static bool read_inputs(converter *c, const td__saved_node *node, td__saved_value *in,
                        size_t count) {
    bool convolves = !strncmp(node->op, "Conv2D", 6) || !strncmp(node->op, "Conv3D", 6);
    bool by_channels = !strncmp(node->op, "Depthwise", 9);
    for (size_t i = 0; i < count && strcmp(node->op, "Identity") != 0; i++) {
        if (!in[i].name && in[i].variable >= 0) {
            bool kernel = i == 1 && (convolves || by_channels) && in[1].ranked;
            in[i].name = read_variable(c, in[i].variable, !kernel ? 'v' : by_channels ? 'd' : 'k');
            in[i].turned = kernel;
            if (!in[i].name) {
                return false;
            }
        }
    }
    return true;
}

/* Makes the outputs of a node; in is changed. */
static void convert_inside(frame *f, const td__saved_node *node, td__saved_value *in, size_t count,
                           td__saved_value *out, size_t room, size_t *made) {
    converter *c = f->c;
    const td__saved_operator *row = td__saved_find(node->op);
    *made = 1;
    out[0] = nothing;
    out[0].ranked = td__saved_shape(node, 0, &out[0].shape);
    if (!strcmp(node->op, "VarHandleOp") || !strcmp(node->op, "NoOp")) {
        return;
    }
    if (!strcmp(node->op, "Const")) {
        make_constant(c, node, out);
    } else if (!strcmp(node->op, "ReadVariableOp") && count == 1) {
        out[0].variable = in[0].variable; /* in which form is known where it is used */
        if (in[0].variable < 0) {
            (void)td__operator_refuse(c->to, "of no variable");
            refuse(c, node->op);
        }
    } else if (strstr(node->op, "PartitionedCall")) {
        const char *name = function_name(c, node, "f");
        if (f->depth == 0) {
            name_captured(c, name, in, count);
        }
        if (!run_function(c, name, in, count, f->depth + 1, out, room, made) && !c->refused) {
            refuse(c, node->op);
        }
    } else if (!strcmp(node->op, "While") || !strcmp(node->op, "StatelessWhile")) {
        if (run_loop(c, node, in, count, f->depth)) {
            *made = count < room ? count : room;
            memcpy(out, in, *made * sizeof *out);
        }
    } else if (!read_inputs(c, node, in, count)) {
        refuse(c, node->op);
        out[0].name = "refused";
    } else if (!convert_list(c, node, in, count, out)) {
        bool handle = count == 1 && !in[0].name && (in[0].list >= 0 || in[0].variable >= 0);
        if (handle && !strcmp(node->op, "Identity")) {
            out[0] = in[0];
            return;
        }
        td__saved_call call = {.to = c->to, .node = node, .in = in, .count = count, .out = out};
        call.word = row ? row->word : NULL;
        bool whole = true;
        for (size_t i = 0; i < count; i++) {
            whole = whole && in[i].name;
        }
        out[0].name = row && whole ? row->convert(&call) : NULL;
        if (!out[0].name) {
            refuse(c, node->op);
            out[0].name = "refused";
        }
        td__saved_follow(&call);
        for (size_t i = 0; i < call.more_count && i + 1 < room; i++) {
            out[i + 1] = nothing;
            out[i + 1].name = call.more[i];
            out[i + 1].ranked = td__saved_shape(node, i + 1, &out[i + 1].shape);
            *made = i + 2;
        }
    }
}

static bool convert_node(frame *f, size_t place) {
    converter *c = f->c;
    const td__saved_node *node = &f->f->nodes[place];
    if (f->made[place]) {
        return true; /* an input of the model */
    }
    size_t count = input_count(node), made = 0, room = count + TD__SAVED_INPUTS;
    if (++c->made > MAX_MADE || count > 4096) {
        saved_fail(c, TD_UNSUPPORTED, "it has too many nodes, with its loops unrolled");
        return false;
    }
    td__saved_value *in = td__calloc(count + 1, sizeof *in), *out = td__calloc(room, sizeof *out);
    if (!in || !out) {
        td__free(in);
        td__free(out);
        saved_fail(c, TD_MEMORY, "out of memory");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        char text[640];
        in[i] = input_text(node, i, text) ? value_of(f, text) : nothing;
    }
    td__operators_begin(c->to, node->name);
    convert_inside(f, node, in, count, out, room, &made);
    f->made[place] = td__calloc(made + 1, sizeof **f->made);
    if (f->made[place]) {
        memcpy(f->made[place], out, made * sizeof *out);
        f->made_count[place] = made;
    } else {
        saved_fail(c, TD_MEMORY, "out of memory");
    }
    td__free(in);
    td__free(out);
    return !c->status;
}

/* --- functions ---------------------------------------------------------------------------- */

/* Converts a node after what it reads. */
static bool convert_from(frame *f, const char *root) {
    size_t room = f->f->count + 1, depth = 0;
    reference r;
    int64_t place = parse_reference(root, &r) ? node_place(f, r.name) : -1;
    struct step {
        size_t place, next;
    } *stack = td__calloc(room, sizeof *stack);
    bool *open = td__calloc(room, sizeof *open);
    bool good = stack && open;
    if (good && place >= 0 && !f->made[place]) {
        stack[depth++] = (struct step){(size_t)place, 0};
        open[place] = true;
    }
    while (good && depth) {
        struct step *top = &stack[depth - 1];
        char text[640];
        if (!input_text(&f->f->nodes[top->place], top->next++, text)) {
            good = convert_node(f, top->place);
            open[top->place] = false;
            depth--;
            continue;
        }
        int64_t from = parse_reference(text, &r) ? node_place(f, r.name) : -1;
        if (from >= 0 && !f->made[from]) {
            if (open[from] || depth == room) {
                saved_fail(f->c, TD_FORMAT, "a function whose nodes form a circle");
                good = false;
            } else {
                stack[depth++] = (struct step){(size_t)from, 0};
                open[from] = true;
            }
        }
    }
    td__free(stack);
    td__free(open);
    return good;
}

static bool frame_init(frame *f) {
    f->made = td__calloc(f->f->count + 1, sizeof *f->made);
    f->made_count = td__calloc(f->f->count + 1, sizeof *f->made_count);
    return f->made && f->made_count;
}

static void frame_release(frame *f) {
    for (size_t i = 0; f->made && i < f->f->count; i++) {
        td__free(f->made[i]);
    }
    td__free(f->made);
    td__free(f->made_count);
}

static bool run_function(converter *c, const char *name, const td__saved_value *arguments,
                         size_t count, int depth, td__saved_value *results, size_t room,
                         size_t *result_count) {
    const json_t *place = name ? json_object_get(c->file.by_name, name) : NULL;
    *result_count = 0;
    if (!place || depth > MAX_DEPTH) {
        saved_fail(c, TD_FORMAT,
                   place ? "functions that call each other too deep"
                         : "a call of a function that is not there");
        return false;
    }
    frame f = {.c = c,
               .f = &c->file.functions[json_integer_value(place)],
               .arguments = arguments,
               .argument_count = count,
               .depth = depth};
    bool good = frame_init(&f);
    for (size_t i = 0; good && i < f.f->output_count && i < room; i++) {
        const char *from = json_string_value(json_object_get(f.f->results, f.f->outputs[i]));
        good = from && convert_from(&f, from);
        results[i] = good ? value_of(&f, from) : nothing;
        *result_count = i + 1;
    }
    frame_release(&f);
    return good;
}

/* --- the signature ------------------------------------------------------------------------ */

static td_dtype port_type(int64_t type) {
    return type == 1 || type == 2 || type == 14 || type == 19 ? TD_FLOAT32
           : type == 10                                       ? TD_BOOL
                                                              : TD_INT64;
}

static bool put_input(frame *f, const td__saved_port *port) {
    converter *c = f->c;
    reference r;
    int64_t place = parse_reference(port->tensor, &r) ? node_place(f, r.name) : -1;
    if (place < 0 || f->made[place] || !port->known) {
        saved_fail(c, TD_UNSUPPORTED, "an input of any number of axes");
        return false;
    }
    f->made[place] = td__calloc(1, sizeof **f->made);
    if (!f->made[place]) {
        saved_fail(c, TD_MEMORY, "out of memory");
        return false;
    }
    f->made_count[place] = 1;
    td__saved_value value = nothing;
    value.ranked = true;
    value.shape = port->shape;
    value.type = port->type;
    value.name = td__operators_name(c->to, port->name);
    f->made[place][0] = value;
    if (port->type == 7) {
        saved_fail(c, TD_UNSUPPORTED, "an input of texts");
        return false;
    }
    td__operators_port(c->to, false, value.name, port_type(port->type), &port->shape);
    return true;
}

static bool convert_all(converter *c) {
    const td__saved_file *file = &c->file;
    frame f = {.c = c, .f = &file->functions[0]};
    bool good = frame_init(&f);
    for (size_t i = 0; good && i < file->input_count; i++) {
        good = put_input(&f, &file->inputs[i]);
    }
    for (size_t i = 0; good && i < file->output_count; i++) {
        const td__saved_port *port = &file->outputs[i];
        good = convert_from(&f, port->tensor);
        td__saved_value value = good ? value_of(&f, port->tensor) : nothing;
        if (value.variable >= 0 && !value.name) {
            value.name = read_variable(c, value.variable, 'v');
        }
        if (good && !value.name && !c->refused) {
            saved_fail(c, TD_UNSUPPORTED, "an output that is no tensor");
            good = false;
        } else if (good && value.name) {
            char called[600]; /* an input may have the name, too */
            bool taken = false;
            for (size_t k = 0; k < file->input_count; k++) {
                taken = taken || !strcmp(file->inputs[k].name, port->name);
            }
            (void)snprintf(called, sizeof called, "%.500s%s", port->name, taken ? "/output" : "");
            const char *name = td__operators_name(c->to, called);
            td__operators_rename(c->to, value.name, name);
            td_shape shape = port->known ? port->shape : value.shape;
            td__operators_port(c->to, true, name, port_type(port->type), &shape);
        }
    }
    frame_release(&f);
    return good && !c->refused;
}

td__graph *td__saved_graph_open(const char *path, const void *bytes, size_t size, td_error *error) {
    static const char variables[] = "variables/variables";
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0, room = folder + sizeof variables;
    char *name = td__calloc(room, 1);
    td__bundle bundle = {0};
    if (!name) {
        (void)td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        return NULL;
    }
    (void)snprintf(name, room, "%.*s%s", (int)folder, path, variables);
    td_error reason = {0};
    td_status status = td__bundle_open(&bundle, name, &reason);
    bool none = status == TD_NOT_FOUND; /* a graph without variables */
    if (status && !none) {
        (void)td_error_set(error, status, "%s", reason.text);
    }
    td__graph *graph = status && !none ? NULL : td__saved_graph(path, bytes, size, &bundle, error);
    td__bundle_release(&bundle);
    td__free(name);
    return graph;
}

td__graph *td__saved_graph(const char *path, const void *bytes, size_t size,
                           const td__bundle *bundle, td_error *error) {
    converter c = {.file = {.path = path, .to = td__operators_create()},
                   .bundle = bundle,
                   .read = json_object(),
                   .error = error};
    c.to = c.file.to;
    size_t all = size;
    for (uint32_t i = 0; i < bundle->shard_count; i++) {
        all += bundle->shards[i].size;
    }
    c.left = ((size_t)64 << 20) + 4 * (all < SIZE_MAX / 8 ? all : SIZE_MAX / 8);
    c.status = c.to && c.read ? td__saved_file_read(&c.file, bytes, size, bundle, error)
                              : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    bool good = !c.status && convert_all(&c);
    if (!good && !c.status) {
        td_error_set(error, TD_UNSUPPORTED,
                     "%s: operators of TensorFlow that are not supported: %s", path,
                     *c.missing ? c.missing : "none of its outputs can be made");
    }
    td_error reason = {0};
    td__graph *graph = good ? td__graph_build(c.to, "saved_model", &reason) : NULL;
    if (good && !graph) {
        (void)td_error_set(error, reason.status, "%s: %s", path, reason.text);
    }
    for (size_t i = 0; i < c.list_count; i++) {
        td__free(c.lists[i].items);
    }
    td__free(c.lists);
    td__saved_file_release(&c.file);
    json_decref(c.read);
    td__operators_destroy(c.to);
    return graph;
}
