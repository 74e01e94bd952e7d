/* A file of TensorFlow Lite: its tensors and operators found, converted one after another, and made a graph.
 *
 * Whatever a file claims, weights take at most 64 MiB and 8 times its size: tensors may share their bytes.
 */
#include "tflite/tflite.h"

#include "base/memory.h"
#include "graph/build.h"
#include "tensor/element.h"
#include "tflite/convert.h"
#include "tflite/sparse.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_TENSORS = 1 << 16, MAX_OPERATORS = 20000, MAX_MISSING = 400 };
#define WEIGHTS_BASE ((size_t)64 << 20)
#define WEIGHTS_FACTOR 8

bool td__tflite_recognise(const unsigned char *head, size_t size) {
    return size > 8 && !memcmp(head + 4, "TFL3", 4);
}

/* How elements lie in the file. */
static const struct {
    uint8_t bits;
    bool whole;
    td_dtype dtype; /* of an input; INT4 cannot be one */
} types[] = {
    [TD__LITE_FLOAT32] = {32, false, TD_FLOAT32}, [TD__LITE_FLOAT16] = {16, false, TD_FLOAT32},
    [TD__LITE_INT32] = {32, true, TD_INT32},      [TD__LITE_UINT8] = {8, true, TD_UINT8},
    [TD__LITE_INT64] = {64, true, TD_INT64},      [TD__LITE_BOOL] = {8, true, TD_BOOL},
    [TD__LITE_INT16] = {16, true, TD_INT16},      [TD__LITE_INT8] = {8, true, TD_INT8},
    [TD__LITE_INT4] = {4, true, TD_INT8},         [TD__LITE_FLOAT64] = {64, false, TD_FLOAT32},
    [TD__LITE_UINT32] = {32, true, TD_INT64},     [TD__LITE_UINT16] = {16, true, TD_INT64},
};

static bool is_known(int type) {
    return type >= 0 && (size_t)type < sizeof types / sizeof *types && types[type].bits;
}

/* --- tensors ------------------------------------------------------------------------------ */

static bool is_quantized(const td__lite_tensor *t) {
    return types[t->type].whole && t->type != TD__LITE_INT64 && t->type != TD__LITE_BOOL &&
           t->scale_count > 0;
}

static int64_t count_of(const td__lite_tensor *t) {
    int64_t count;
    return td_shape_check(&t->shape, TD_FLOAT32, &count, NULL) ? -1 : count;
}

static int64_t whole_at(const td__lite_tensor *t, int64_t i) {
    const uint8_t *at = t->data + (size_t)i * (types[t->type].bits / 8);
    switch (t->type) {
    case TD__LITE_INT4: {
        unsigned nibble = t->data[i / 2] >> (i % 2 * 4) & 15;
        return (int64_t)(nibble ^ 8) - 8;
    }
    case TD__LITE_UINT8:
        return *at;
    case TD__LITE_BOOL:
        return *at != 0;
    case TD__LITE_INT8:
        return (int8_t)*at;
    case TD__LITE_INT16:
        return (int16_t)(at[0] | at[1] << 8);
    case TD__LITE_UINT16:
        return at[0] | at[1] << 8;
    case TD__LITE_INT32:
        return (int32_t)td__load32(at);
    case TD__LITE_UINT32:
        return (int64_t)td__load32(at);
    default:
        return (int64_t)td__load64(at);
    }
}

/* What number i stands for. */
static float real_at(td__lite *lite, const td__lite_tensor *t, int64_t i, int64_t inner) {
    const uint8_t *at = t->data + (size_t)i * (types[t->type].bits / 8);
    if (t->type == TD__LITE_FLOAT32) {
        return td__float_of(td__load32(at));
    }
    if (t->type == TD__LITE_FLOAT16) {
        return td__from_float16((uint16_t)(at[0] | at[1] << 8));
    }
    if (t->type == TD__LITE_FLOAT64) {
        return (float)td__double_of(td__load64(at));
    }
    size_t place = (size_t)(i / inner % (int64_t)t->scale_count);
    const uint8_t *bytes = lite->flat.bytes;
    float scale = td__float_of(td__load32(bytes + t->scales + 4 * place));
    size_t zero_place = t->zero_count > 1 ? place : 0;
    int64_t zero =
        zero_place < t->zero_count ? (int64_t)td__load64(bytes + t->zeros + 8 * zero_place) : 0;
    return (float)((double)whole_at(t, i) - (double)zero) * scale;
}

/* How many elements are between those of one scale and the next; 0: scales that do not fit. */
static int64_t inner_of(const td__lite_tensor *t) {
    if (t->scale_count < 2) {
        return 1;
    }
    if (t->scale_axis < 0 || t->scale_axis >= t->shape.rank ||
        t->shape.dims[t->scale_axis] != (int64_t)t->scale_count) {
        return 0;
    }
    int64_t inner = td__elements_from(&t->shape, t->scale_axis + 1);
    return inner ? inner : 1;
}

/* A constant's values with its axes in that order, as floats or int64; NULL after a refusal. */
static const char *put_constant(td__lite *lite, const td__lite_tensor *t, const int *order,
                                const char *called) {
    td__operators *to = lite->to;
    bool whole = types[t->type].whole && !is_quantized(t);
    int64_t count = count_of(t), inner = inner_of(t), strides[TD_MAX_RANK];
    size_t element = whole ? sizeof(int64_t) : sizeof(float);
    if (count < 0 || !inner || (size_t)count > lite->left / element) {
        return td__operator_refuse(to,
                                   count < 0 || !inner ? "tensor '%.80s' has no sound shape"
                                                       : "tensor '%.80s' takes too much memory",
                                   t->name);
    }
    lite->left -= (size_t)count * element;
    int32_t rank = t->shape.rank;
    td_shape shape = {.rank = rank};
    for (int64_t i = rank - 1, stride = 1; i >= 0; stride *= t->shape.dims[i--]) {
        strides[i] = stride;
    }
    for (int32_t i = 0; i < rank; i++) {
        shape.dims[i] = t->shape.dims[order ? order[i] : i];
    }
    td_tensor *tensor = td_tensor_create(called, whole ? TD_INT64 : TD_FLOAT32, shape, NULL);
    if (!tensor) {
        return td__operator_refuse(to, "out of memory");
    }
    void *values = td_tensor_data(tensor);
    int64_t index[TD_MAX_RANK] = {0}, from = 0;
    for (int64_t i = 0; i < count; i++) {
        if (whole) {
            ((int64_t *)values)[i] = whole_at(t, from);
        } else {
            ((float *)values)[i] = real_at(lite, t, from, inner);
        }
        for (int32_t axis = rank - 1; axis >= 0; axis--) {
            int64_t step = strides[order ? order[axis] : axis];
            from += step;
            if (++index[axis] < shape.dims[axis]) {
                break;
            }
            from -= step * shape.dims[axis];
            index[axis] = 0;
        }
    }
    td_dtype dtype = t->type == TD__LITE_BOOL ? TD_BOOL : whole ? TD_INT64 : TD_FLOAT32;
    return td__operators_tensor(to, called, dtype, tensor);
}

/* --- what operators ask for --------------------------------------------------------------- */

static td__lite_tensor *tensor_at(td__lite_call *call, size_t vector, size_t count, size_t i) {
    uint32_t index = i < count ? td__flat_u32(&call->lite->flat, vector + 4 * i) : UINT32_MAX;
    return index < call->lite->tensor_count ? &call->lite->tensors[index] : NULL;
}

td__lite_tensor *td__lite_input(td__lite_call *call, size_t i) {
    return tensor_at(call, call->inputs, call->input_count, i);
}

td__lite_tensor *td__lite_output(td__lite_call *call, size_t i) {
    return tensor_at(call, call->outputs, call->output_count, i);
}

static const char *value_of(td__lite *lite, td__lite_tensor *t) {
    if (!t->value && t->data) {
        t->value = put_constant(lite, t, NULL, t->name);
    }
    return t->value ? t->value
                    : td__operator_refuse(lite->to, "nothing makes tensor '%.80s'", t->name);
}

const char *td__lite_value(td__lite_call *call, size_t i) {
    td__lite_tensor *t = td__lite_input(call, i);
    return t ? value_of(call->lite, t) : td__operator_refuse(call->to, "input %zu is missing", i);
}

const char *td__lite_turned(td__lite_call *call, size_t i, const int *order) {
    td__lite_tensor *t = td__lite_input(call, i);
    if (!t) {
        return td__operator_refuse(call->to, "input %zu is missing", i);
    }
    uint32_t by = 1;
    int64_t axes[TD_MAX_RANK];
    for (int32_t k = 0; k < t->shape.rank; k++) {
        by = by * 8 + (uint32_t)order[k];
        axes[k] = order[k];
    }
    if (!t->data) { /* weights that something makes */
        return td__operator_transpose(call->to, td__lite_value(call, i), (size_t)t->shape.rank,
                                      axes);
    }
    if (t->turned && t->turned_by != by) {
        return td__operator_refuse(call->to, "weights '%.80s' are used in two ways", t->name);
    }
    if (!t->turned) {
        char called[600];
        (void)snprintf(called, sizeof called, "%.500s%s", t->name, t->value ? "/turned" : "");
        t->turned_by = by;
        const char *kept = td__operators_name(call->to, called);
        t->turned = kept ? put_constant(call->lite, t, order, kept) : NULL;
    }
    return t->turned;
}

bool td__lite_integers(td__lite_call *call, size_t i, int64_t *out, size_t room, size_t *count) {
    const td__lite_tensor *t = td__lite_input(call, i);
    int64_t elements = t && t->data && types[t->type].whole ? count_of(t) : -1;
    *count = 0;
    if (elements < 0 || elements > (int64_t)room) {
        (void)td__operator_refuse(
            call->to, "input %zu must be in the file, whole numbers, %zu at most", i, room);
        return false;
    }
    for (int64_t k = 0; k < elements; k++) {
        out[k] = whole_at(t, k);
    }
    *count = (size_t)elements;
    return true;
}

/* --- reading ------------------------------------------------------------------------------ */

static td_status tflite_malformed(const char *path, const char *what, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: not a sound file of TensorFlow Lite: %s", path,
                        what);
}

/* Buffer 0 is empty by convention. Large files have a buffer's bytes behind the tables. */
static void find_data(td__lite *lite, size_t buffer, td__lite_tensor *t) {
    td__flat *flat = &lite->flat;
    size_t at = td__flat_vector(flat, buffer, 0, 1, &t->data_size);
    size_t offset = td__flat_field(flat, buffer, 1), size = td__flat_field(flat, buffer, 2);
    if (!at && offset && size && td__flat_has(flat, offset, 8) && td__flat_has(flat, size, 8)) {
        uint64_t begin = td__load64(flat->bytes + offset), bytes = td__load64(flat->bytes + size);
        bool inside = begin > 1 && begin <= flat->size && bytes <= flat->size - begin;
        flat->bad = flat->bad || (begin > 1 && !inside);
        at = inside ? (size_t)begin : 0;
        t->data_size = inside ? (size_t)bytes : 0;
    }
    t->data = at ? flat->bytes + at : NULL;
}

/* Of those that cannot be kept. */
static const char *type_name(int type) {
    static const char *const names[] = {
        [5] = "a tensor of texts (type STRING)", [8] = "a tensor of type COMPLEX64",
        [11] = "a tensor of type COMPLEX128",    [12] = "a tensor of type UINT64",
        [13] = "a tensor that is a RESOURCE",    [14] = "a tensor of type VARIANT",
        [18] = "a tensor of type BFLOAT16"};
    bool known = type > 0 && type < (int)(sizeof names / sizeof *names) && names[type];
    return known ? names[type] : "a tensor of a type that is not known";
}

static const char *read_tensor(td__lite *lite, size_t table, size_t buffers, size_t buffer_count,
                               td__lite_tensor *t) {
    td__flat *flat = &lite->flat;
    size_t count, signed_count, length;
    size_t shape = td__flat_vector(flat, table, 0, 4, &count);
    size_t signature = td__flat_vector(flat, table, 7, 4, &signed_count);
    t->type = td__flat_byte(flat, table, 1, 0);
    size_t text = td__flat_vector(flat, table, 3, 1, &length);
    char called[300] = "tensor";
    if (text) {
        (void)snprintf(called, sizeof called, "%.*s", (int)(length < 200 ? length : 200),
                       (const char *)flat->bytes + text);
        called[strcspn(called, ";")] = 0; /* of operators that were made into one: the first */
    }
    for (char *c = called; *c; c++) {
        *c = *c < 32 || *c > 126 ? '_' : *c;
    }
    t->name = td__operators_name(lite->to, called);
    if (count > TD_MAX_RANK || !is_known(t->type)) {
        return count > TD_MAX_RANK ? "a tensor of more than 8 axes" : type_name(t->type);
    }
    for (size_t i = 0; i < count; i++) {
        bool open = signed_count == count && (int32_t)td__flat_u32(flat, signature + 4 * i) < 0;
        t->shape.dims[t->shape.rank++] = open ? -1 : (int32_t)td__flat_u32(flat, shape + 4 * i);
    }
    uint32_t buffer = (uint32_t)td__flat_int(flat, table, 2, 0);
    if (buffer && buffer < buffer_count) {
        find_data(lite, td__flat_follow(flat, buffers + 4 * (size_t)buffer), t);
    }
    size_t quantization = td__flat_child(flat, table, 4);
    t->scales = td__flat_vector(flat, quantization, 2, 4, &t->scale_count);
    t->zeros = td__flat_vector(flat, quantization, 3, 8, &t->zero_count);
    t->scale_axis = td__flat_int(flat, quantization, 6, 0);
    int64_t elements = t->data ? count_of(t) : 0;
    size_t sparsity = t->data ? td__flat_child(flat, table, 6) : 0;
    if (sparsity && td__flat_child(flat, sparsity, 2)) {
        return td__lite_densify(lite, sparsity, elements, types[t->type].bits / 8, t);
    }
    bool fits = elements >= 0 && ((size_t)elements * types[t->type].bits + 7) / 8 == t->data_size;
    flat->bad = flat->bad || (t->data && !fits);
    return !t->data || fits ? NULL : "a constant has another size than its shape";
}

static int compare_tensors(const void *a, const void *b) {
    const td__lite_tensor *const *x = a, *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);
    return order ? order : (*x > *y) - (*x < *y);
}

/* Of tensors with one name all but the first get their number. */
static bool name_apart(td__lite *lite) {
    size_t count = lite->tensor_count;
    td__lite_tensor **sorted = td__calloc(count, sizeof *sorted);
    const char *before = NULL;
    bool good = sorted != NULL;
    for (size_t i = 0; good && i < count; i++) {
        sorted[i] = &lite->tensors[i];
    }
    if (good) {
        qsort(sorted, count, sizeof *sorted, compare_tensors);
    }
    for (size_t i = 0; good && i < count; i++) {
        char called[300];
        bool again = before && !strcmp(before, sorted[i]->name);
        before = sorted[i]->name;
        (void)snprintf(called, sizeof called, "%.250s:%zu", before,
                       (size_t)(sorted[i] - lite->tensors));
        sorted[i]->name = again ? td__operators_name(lite->to, called) : before;
        good = sorted[i]->name;
    }
    td__free(sorted);
    return good;
}

static td_status read_tensors(td__lite *lite, size_t model, size_t graph, const char *path,
                              td_error *error) {
    td__flat *flat = &lite->flat;
    size_t buffer_count, buffers = td__flat_vector(flat, model, 4, 4, &buffer_count);
    size_t tensors = td__flat_vector(flat, graph, 0, 4, &lite->tensor_count);
    if (lite->tensor_count > MAX_TENSORS || !lite->tensor_count) {
        return tflite_malformed(path, "it has no tensors, or too many", error);
    }
    lite->tensors = td__calloc(lite->tensor_count, sizeof *lite->tensors);
    if (!lite->tensors) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    for (size_t i = 0; i < lite->tensor_count; i++) {
        const char *wrong = read_tensor(lite, td__flat_follow(flat, tensors + 4 * i), buffers,
                                        buffer_count, &lite->tensors[i]);
        if (flat->bad || !lite->tensors[i].name) {
            return tflite_malformed(path, wrong ? wrong : "it is cut off", error);
        }
        if (wrong) { /* a sound file may have it */
            return td_error_set(error, TD_UNSUPPORTED,
                                "%s: not supported of TensorFlow Lite: %s ('%.100s')", path, wrong,
                                lite->tensors[i].name);
        }
    }
    return name_apart(lite) ? TD_OK : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
}

/* --- converting --------------------------------------------------------------------------- */

/* Rounded to what its few bits can say, as a pair of operators that every runtime knows. */
static const char *rounded(td__lite *lite, const td__lite_tensor *t, const char *x) {
    td__operators *to = lite->to;
    if (!x || !is_quantized(t) || t->scale_count != 1 || t->type == TD__LITE_INT32) {
        return x;
    }
    const uint8_t *bytes = lite->flat.bytes;
    int64_t zero = t->zero_count ? (int64_t)td__load64(bytes + t->zeros) : 0;
    char called[400];
    (void)snprintf(called, sizeof called, "%.300s/zero", t->name);
    const char *scale =
        td__operator_number(to, (double)td__float_of(td__load32(bytes + t->scales)));
    const char *point =
        td__operators_tensor(to, called, types[t->type].dtype,
                             td_tensor_from(called, TD_INT64, (td_shape){0}, &zero, NULL));
    const char *q = TD__OPERATOR(to, "QuantizeLinear", x, scale, point);
    return TD__OPERATOR(to, "DequantizeLinear", q, scale, point);
}

/* Inputs of few bits are taken as they are in the file; inside they are what they stand for. */
static td_status convert_inputs(td__lite *lite, size_t graph, const char *path, td_error *error) {
    td__flat *flat = &lite->flat;
    size_t count, at = td__flat_vector(flat, graph, 1, 4, &count);
    for (size_t i = 0; i < count; i++) {
        uint32_t index = td__flat_u32(flat, at + 4 * i);
        td__lite_tensor *t = index < lite->tensor_count ? &lite->tensors[index] : NULL;
        if (!t || t->data || t->value || t->type == TD__LITE_INT4) {
            return tflite_malformed(path, "an input is no tensor of its own", error);
        }
        td__operators_begin(lite->to, t->name);
        td__operators_port(lite->to, false, t->name, types[t->type].dtype, &t->shape);
        t->value = t->name;
        if (is_quantized(t)) {
            td__attribute to_float = {.name = "to", .type = TD__DTYPE, .dtype = TD_FLOAT32};
            const char *codes = td__operator(lite->to, "Cast", 1, &t->value, 1, &to_float);
            const uint8_t *bytes = flat->bytes;
            double scale = (double)td__float_of(td__load32(bytes + t->scales));
            double zero = t->zero_count ? (double)(int64_t)td__load64(bytes + t->zeros) : 0;
            const char *centred =
                TD__OPERATOR(lite->to, "Sub", codes, td__operator_number(lite->to, zero));
            t->value = TD__OPERATOR(lite->to, "Mul", centred, td__operator_number(lite->to, scale));
        } else if (types[t->type].whole && t->type != TD__LITE_BOOL) {
            td__attribute to_int64 = {.name = "to", .type = TD__DTYPE, .dtype = TD_INT64};
            t->value = td__operator(lite->to, "Cast", 1, &t->value, 1, &to_int64);
        }
    }
    return TD_OK;
}

/* Outputs are called as in the file, unless an input, a constant or another output is. */
static void convert_outputs(td__lite *lite, size_t graph) {
    td__flat *flat = &lite->flat;
    size_t count, at = td__flat_vector(flat, graph, 2, 4, &count);
    for (size_t i = 0; i < count; i++) {
        uint32_t index = td__flat_u32(flat, at + 4 * i);
        td__lite_tensor *t = index < lite->tensor_count ? &lite->tensors[index] : NULL;
        const char *value = t ? value_of(lite, t) : NULL;
        char called[400];
        if (value) {
            bool whole = types[t->type].whole && !is_quantized(t);
            bool taken = t->put_out || !strcmp(value, t->name);
            (void)snprintf(called, sizeof called, "%.300s/output_%zu", t->name, i);
            const char *name = taken ? td__operators_name(lite->to, called) : t->name;
            t->put_out = true;
            td__operators_rename(lite->to, value, name ? name : "");
            td__operators_port(lite->to, true, name ? name : "", whole ? TD_INT64 : TD_FLOAT32,
                               &t->shape);
        }
    }
}

/* The number was a byte until there were more than 127 operators. */
static int32_t code_of(td__flat *flat, size_t table) {
    int32_t old = td__flat_byte(flat, table, 0, 0), code = td__flat_int(flat, table, 3, 0);
    return code > old ? code : old;
}

/* Writes into missing why operator i is not supported. */
static void convert_operator(td__lite *lite, size_t table, size_t codes, size_t code_count,
                             size_t i, char missing[MAX_MISSING], size_t *refused) {
    td__flat *flat = &lite->flat;
    td__lite_call call = {.lite = lite, .to = lite->to, .options = td__flat_child(flat, table, 4)};
    uint32_t index = (uint32_t)td__flat_int(flat, table, 0, 0);
    size_t code = index < code_count ? td__flat_follow(flat, codes + 4 * (size_t)index) : 0;
    call.inputs = td__flat_vector(flat, table, 1, 4, &call.input_count);
    call.outputs = td__flat_vector(flat, table, 2, 4, &call.output_count);
    call.row = code ? td__lite_operator_of(code_of(flat, code)) : NULL;
    td__lite_tensor *y = td__lite_output(&call, 0);
    td__operators_begin(lite->to, y ? y->name : "operator");
    const char *made = call.row && call.row->convert && y ? call.row->convert(&call) : NULL;
    if (made && !*made) {
        return;
    }
    if (made) {
        y->value = made;
        for (size_t k = 0; k < call.output_count; k++) {
            td__lite_tensor *each = td__lite_output(&call, k);
            if (each && each->value) {
                each->value = rounded(lite, each, each->value);
            }
        }
        return;
    }
    for (size_t k = 0; k < call.output_count; k++) { /* to go on, for further reasons */
        td__lite_tensor *each = td__lite_output(&call, k);
        if (each) {
            each->value = each->name;
        }
    }
    size_t length = strlen(missing);
    const char *name = call.row ? call.row->name : "an unknown operator";
    const char *reason = td__operators_reason(lite->to);
    if (length + strlen(name) + 60 < MAX_MISSING && !strstr(missing, name)) {
        (void)snprintf(missing + length, MAX_MISSING - length, "%s%s (operator %zu%s%.120s)",
                       *refused ? ", " : "", name, i, *reason ? ": " : "", reason);
    }
    (*refused)++;
}

static td_status convert_nodes(td__lite *lite, const char *path, td_error *error) {
    td__flat *flat = &lite->flat;
    size_t model = td__flat_u32(flat, 0), graph_count, code_count, count;
    if (!td__flat_has(flat, model, 4) || !model) {
        return tflite_malformed(path, "it is cut off", error);
    }
    size_t graphs = td__flat_vector(flat, model, 2, 4, &graph_count);
    size_t codes = td__flat_vector(flat, model, 1, 4, &code_count);
    size_t graph = graphs ? td__flat_follow(flat, graphs) : 0;
    if (!graph || flat->bad) {
        return tflite_malformed(path, "it has no graph", error);
    }
    td_status status = read_tensors(lite, model, graph, path, error);
    status = status ? status : convert_inputs(lite, graph, path, error);
    if (status) {
        return status;
    }
    size_t operators = td__flat_vector(flat, graph, 3, 4, &count), refused = 0;
    char missing[MAX_MISSING] = "";
    if (count > MAX_OPERATORS) {
        return tflite_malformed(path, "it has too many operators", error);
    }
    for (size_t i = 0; i < count && !flat->bad && !td__operators_exhausted(lite->to); i++) {
        convert_operator(lite, td__flat_follow(flat, operators + 4 * i), codes, code_count, i,
                         missing, &refused);
    }
    if (flat->bad) {
        return tflite_malformed(path, "it is cut off", error);
    }
    if (refused) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: operators of TensorFlow Lite that are not supported: %s; "
                            "`python -m tf2onnx.convert --tflite` knows others",
                            path, missing);
    }
    convert_outputs(lite, graph);
    return flat->bad ? tflite_malformed(path, "it is cut off", error) : TD_OK;
}

td__graph *td__tflite_graph(const void *bytes, size_t size, const char *path, td_error *error) {
    td__lite lite = {.flat = {bytes, size, false}, .to = td__operators_create()};
    lite.left = size > (SIZE_MAX - WEIGHTS_BASE) / WEIGHTS_FACTOR
                    ? SIZE_MAX
                    : WEIGHTS_BASE + WEIGHTS_FACTOR * size;
    td_status status = lite.to ? convert_nodes(&lite, path, error)
                               : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    td_error reason = {0};
    td__graph *graph = status ? NULL : td__graph_build(lite.to, "tflite", &reason);
    if (!status && !graph) {
        (void)td_error_set(error, reason.status, "%s: %s", path, reason.text);
    }
    td__operators_destroy(lite.to);
    for (size_t i = 0; lite.tensors && i < lite.tensor_count; i++) {
        td__free(lite.tensors[i].whole);
    }
    td__free(lite.tensors);
    return graph;
}

td_model *td__tflite_model(const void *bytes, size_t size, const char *path, td_error *error) {
    td__graph *graph = td__tflite_graph(bytes, size, path, error);
    return graph ? td__graph_model_built(graph, path, error) : NULL;
}
