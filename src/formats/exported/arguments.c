/* Arguments and outputs of a program's nodes. */
#include "exported/convert.h"

#include <math.h>
#include <string.h>

/* --- arguments ---------------------------------------------------------------------------- */

const json_t *td__aten_argument(const td__aten_call *call, const char *name) {
    const json_t *inputs = json_object_get(call->node, "inputs");
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        const json_t *input = json_array_get(inputs, i);
        const char *called = json_string_value(json_object_get(input, "name"));
        if (called && !strcmp(called, name)) {
            const json_t *argument = json_object_get(input, "arg");
            return json_object_get(argument, "as_none") ? NULL : argument;
        }
    }
    return NULL;
}

static const char *value_named(td__aten_call *call, const char *name) {
    name = td__aten_same(call->aliases, name);
    const char *value = json_string_value(json_object_get(call->values, name ? name : ""));
    return value ? value : td__operator_refuse(call->to, "nothing makes '%.60s'", name ? name : "");
}

/* JSON has no infinity: it is a text then. */
static bool is_number(const json_t *argument, double *number) {
    static const struct {
        const char *word;
        double number;
    } words[] = {{"Infinity", HUGE_VAL}, {"-Infinity", -HUGE_VAL}, {"NaN", NAN}};
    const json_t *real = json_object_get(argument, "as_float");
    const json_t *found = real ? real : json_object_get(argument, "as_int");
    const char *text = json_string_value(found);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++) {
        if (!strcmp(words[i].word, text)) {
            *number = words[i].number;
            return true;
        }
    }
    *number = json_is_number(found) ? json_number_value(found) : 0;
    return json_is_number(found);
}

const char *td__aten_value(td__aten_call *call, const char *name) {
    const json_t *argument = td__aten_argument(call, name);
    const json_t *tensor = json_object_get(argument, "as_tensor");
    double number;
    if (tensor) {
        return value_named(call, json_string_value(json_object_get(tensor, "name")));
    }
    return is_number(argument, &number)
               ? td__operator_number(call->to, number)
               : td__operator_refuse(call->to, "its argument '%s' is no tensor", name);
}

/* It is computed, or of another kind than it must be. */
static void refuse_number(const td__aten_call *call, const char *name) {
    (void)td__operator_refuse(call->to, "its argument '%s' is not in the file", name);
}

int64_t td__aten_int(const td__aten_call *call, const char *name, int64_t fallback) {
    const json_t *argument = td__aten_argument(call, name);
    const json_t *found = json_object_get(argument, "as_int");
    if (argument && !json_is_integer(found)) {
        refuse_number(call, name);
    }
    return json_is_integer(found) ? json_integer_value(found) : fallback;
}

double td__aten_real(const td__aten_call *call, const char *name, double fallback) {
    const json_t *argument = td__aten_argument(call, name);
    const json_t *truth = json_object_get(argument, "as_bool");
    double number;
    if (is_number(argument, &number)) {
        return number;
    }
    if (argument && !truth) {
        refuse_number(call, name);
    }
    return truth ? json_is_true(truth) : fallback;
}

const char *td__aten_refuse_training(td__aten_call *call) {
    return td__operator_refuse(call->to, "exported in training mode: call model.eval() first");
}

bool td__aten_bool(const td__aten_call *call, const char *name) {
    return json_is_true(json_object_get(td__aten_argument(call, name), "as_bool"));
}

const char *td__aten_text(const td__aten_call *call, const char *name) {
    return json_string_value(json_object_get(td__aten_argument(call, name), "as_string"));
}

size_t td__aten_ints(td__aten_call *call, const char *name, int64_t out[TD_MAX_RANK]) {
    const json_t *argument = td__aten_argument(call, name);
    const json_t *list = json_object_get(argument, "as_ints");
    list = list ? list : json_object_get(argument, "as_sym_ints");
    const json_t *one = json_object_get(argument, "as_int");
    if (!argument) {
        return 0;
    }
    if (json_is_integer(one)) {
        out[0] = json_integer_value(one);
        return 1;
    }
    if (!json_is_array(list) || json_array_size(list) > TD_MAX_RANK) {
        (void)td__operator_refuse(call->to, "its argument '%s' is not in the file", name);
        return SIZE_MAX;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *size = json_array_get(list, i);
        size = json_is_object(size) ? json_object_get(size, "as_int") : size;
        if (!json_is_integer(size)) {
            (void)td__operator_refuse(call->to, "its argument '%s' is not in the file", name);
            return SIZE_MAX;
        }
        out[i] = json_integer_value(size);
    }
    return json_array_size(list);
}

/* One size: a number, or a value of the graph's. */
static const char *size_value(td__aten_call *call, const json_t *size) {
    const char *name = json_string_value(json_object_get(size, "as_name"));
    const json_t *number = json_is_integer(size) ? size : json_object_get(size, "as_int");
    int64_t value = json_integer_value(number);
    return name ? value_named(call, name)
           : json_is_integer(number)
               ? td__operator_integers(call->to, 1, &value)
               : td__operator_refuse(call->to, "a size that is neither number nor value");
}

const char *td__aten_sizes(td__aten_call *call, const char *name) {
    const json_t *argument = td__aten_argument(call, name);
    const json_t *list = json_object_get(argument, "as_ints");
    list = list ? list : json_object_get(argument, "as_sym_ints");
    if (!list) {
        const json_t *one = json_object_get(argument, "as_sym_int");
        return size_value(call, one ? one : argument);
    }
    size_t count = json_array_size(list);
    const char *parts[TD_MAX_RANK];
    if (count > TD_MAX_RANK) {
        return td__operator_refuse(call->to, "%zu sizes", count);
    }
    if (!count) {
        return td__operator_integers(call->to, 0, (int64_t[]){0});
    }
    for (size_t i = 0; i < count; i++) {
        parts[i] = size_value(call, json_array_get(list, i));
    }
    td__attribute axis = TD__NAMED_INT("axis", 0);
    return count == 1 ? parts[0] : td__operator(call->to, "Concat", count, parts, 1, &axis);
}

/* Sizes of a tensor; -1: open. */
bool td__aten_read_sizes(const json_t *info, td_shape *shape) {
    const json_t *sizes = json_object_get(info, "sizes");
    *shape = (td_shape){0};
    if (!json_is_array(sizes) || json_array_size(sizes) > TD_MAX_RANK) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        const json_t *number = json_object_get(json_array_get(sizes, i), "as_int");
        int64_t size = json_integer_value(number);
        shape->dims[shape->rank++] = json_is_integer(number) && size >= 0 ? size : -1;
    }
    return true;
}

const char *td__aten_size(td__aten_call *call, const char *name, int64_t fallback) {
    const json_t *argument = td__aten_argument(call, name);
    const json_t *open = json_object_get(argument, "as_sym_int");
    return argument ? size_value(call, open ? open : argument)
                    : td__operator_integers(call->to, 1, &fallback);
}

int32_t td__aten_shape(td__aten_call *call, const char *name, td_shape *shape) {
    const char *called = td__aten_tensor_name(call, name);
    if (!called || !td__aten_read_sizes(json_object_get(call->tensors, called), shape)) {
        (void)td__operator_refuse(call->to, "the shape of '%s' is not said", name);
        return -1;
    }
    return shape->rank;
}

int64_t td__aten_axis(td__aten_call *call, const char *tensor, int64_t axis) {
    td_shape shape;
    int32_t rank = td__aten_shape(call, tensor, &shape);
    axis += axis < 0 ? rank : 0;
    if (rank < 0 || axis < 0 || axis >= rank) {
        (void)td__operator_refuse(call->to, "its axes");
        return -1;
    }
    return axis;
}

/* --- kinds -------------------------------------------------------------------------------- */

td__aten_kind td__aten_kind_of(int64_t type) {
    return type == 12                               ? TD__ATEN_TRUTH
           : type >= 1 && type <= 5                 ? TD__ATEN_WHOLE
           : (type >= 6 && type <= 8) || type == 13 ? TD__ATEN_REAL
                                                    : TD__ATEN_NONE;
}

static td__aten_kind tensor_kind(const td__aten_call *call, const char *name) {
    const json_t *info = name ? json_object_get(call->tensors, name) : NULL;
    return td__aten_kind_of(json_integer_value(json_object_get(info, "dtype")));
}

td__aten_kind td__aten_argument_kind(const td__aten_call *call, const char *name) {
    const json_t *argument = td__aten_argument(call, name);
    const char *tensor = td__aten_tensor_name(call, name);
    return tensor                                      ? tensor_kind(call, tensor)
           : json_object_get(argument, "as_float")     ? TD__ATEN_REAL
           : json_object_get(argument, "as_sym_float") ? TD__ATEN_REAL
           : json_object_get(argument, "as_bool")      ? TD__ATEN_TRUTH
           : argument                                  ? TD__ATEN_WHOLE
                                                       : TD__ATEN_NONE;
}

td__aten_kind td__aten_made_kind(const td__aten_call *call) {
    return tensor_kind(call, json_string_value(td__aten_output_at(call, 0)));
}

const char *td__aten_cast(td__aten_call *call, const char *value, td__aten_kind kind) {
    static const td_dtype types[] = {
        [TD__ATEN_TRUTH] = TD_BOOL, [TD__ATEN_WHOLE] = TD_INT64, [TD__ATEN_REAL] = TD_FLOAT32};
    td__attribute to = {.name = "to", .type = TD__DTYPE, .dtype = types[kind]};
    return td__operator(call->to, "Cast", 1, &value, 1, &to);
}

const char *td__aten_as(td__aten_call *call, const char *name, td__aten_kind kind) {
    const json_t *argument = td__aten_argument(call, name);
    td__aten_kind has = td__aten_argument_kind(call, name);
    const json_t *whole = json_object_get(argument, "as_int");
    const json_t *truth = json_object_get(argument, "as_bool");
    int64_t integer = json_integer_value(whole);
    double number = json_is_true(truth);
    const char *value;
    bool exact = integer > -(1 << 24) && integer < 1 << 24; /* as a float */
    if (kind == TD__ATEN_WHOLE && whole && !exact) {
        return td__operator_integers(call->to, 1, &integer);
    }
    if (truth || is_number(argument, &number)) {
        value = td__operator_number(call->to, number);
        has = TD__ATEN_REAL;
    } else if (json_object_get(argument, "as_sym_int")) {
        value = td__aten_size(call, name, 0);
        has = TD__ATEN_WHOLE;
    } else {
        value = td__aten_value(call, name);
    }
    return !value || has == kind || has == TD__ATEN_NONE || kind == TD__ATEN_NONE
               ? value
               : td__aten_cast(call, value, kind);
}

/* --- lists -------------------------------------------------------------------------------- */

const char *td__aten_tensor_name(const td__aten_call *call, const char *name) {
    return json_string_value(
        json_object_get(json_object_get(td__aten_argument(call, name), "as_tensor"), "name"));
}

size_t td__aten_list(td__aten_call *call, const char *name, const char *values[TD__ATEN_PARTS]) {
    const json_t *argument = td__aten_argument(call, name);
    const json_t *list = json_object_get(argument, "as_tensors");
    list = list ? list : json_object_get(argument, "as_optional_tensors");
    if (!json_is_array(list) || json_array_size(list) > TD__ATEN_PARTS) {
        (void)td__operator_refuse(call->to, "its argument '%s' is no list of tensors", name);
        return SIZE_MAX;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *part = json_array_get(list, i);
        const json_t *tensor = json_object_get(part, "as_tensor");
        const char *called = json_string_value(json_object_get(tensor ? tensor : part, "name"));
        values[i] = called ? value_named(call, called) : NULL;
        if (called && !values[i]) {
            return SIZE_MAX;
        }
    }
    return json_array_size(list);
}

/* --- what is made of numbers -------------------------------------------------------------- */

const char *td__aten_filled(td__aten_call *call, double number, td__aten_kind kind,
                            const char *shape) {
    const char *one = td__operator_number(call->to, number);
    one = kind == TD__ATEN_REAL || kind == TD__ATEN_NONE ? one : td__aten_cast(call, one, kind);
    return TD__OPERATOR(call->to, "Expand", one, shape);
}

const char *td__aten_constant(td__aten_call *call, double number, const td_shape *shape) {
    return td__aten_filled(call, number, TD__ATEN_REAL,
                           td__operator_integers(call->to, (size_t)shape->rank, shape->dims));
}

const char *td__aten_places(td__aten_call *call, const char *x, int64_t axis) {
    td__operators *to = call->to;
    int64_t end = axis + 1;
    const char *size =
        TD__OPERATOR(to, "Slice", TD__OPERATOR(to, "Shape", x), td__operator_integers(to, 1, &axis),
                     td__operator_integers(to, 1, &end));
    const char *zero = TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, (int64_t[]){0}));
    const char *one = TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, (int64_t[]){1}));
    return TD__OPERATOR(to, "Range", zero, TD__OPERATOR(to, "Squeeze", size), one);
}

/* --- outputs ------------------------------------------------------------------------------ */

/* One output is a tensor, a list of tensors or a size. */
const json_t *td__aten_output_at(const td__aten_call *call, size_t i) {
    const json_t *outputs = json_object_get(call->node, "outputs");
    const json_t *first = json_array_get(outputs, 0);
    const json_t *list = json_object_get(first, "as_tensors");
    if (list) {
        return json_object_get(json_array_get(list, i), "name");
    }
    const json_t *each = json_array_get(outputs, i);
    const json_t *tensor = json_object_get(each, "as_tensor");
    return tensor ? json_object_get(tensor, "name")
                  : json_object_get(json_object_get(each, "as_sym_int"), "as_name");
}

size_t td__aten_outputs(const td__aten_call *call) {
    const json_t *outputs = json_object_get(call->node, "outputs");
    const json_t *list = json_object_get(json_array_get(outputs, 0), "as_tensors");
    return json_array_size(list ? list : outputs);
}

void td__aten_give(td__aten_call *call, size_t i, const char *value) {
    const char *name = json_string_value(td__aten_output_at(call, i));
    if (name && value) {
        (void)json_object_set_new(call->values, name, json_string(value));
    }
}
