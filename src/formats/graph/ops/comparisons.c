/* Comparisons, logic, bits and remainders; conversion between types. */
#include "base/half.h"
#include "base/number.h"
#include "base/parse.h"
#include "graph/host.h"
#include "graph/ops/common.h"
#include "tape/broadcast.h"

#include <math.h>
#include <string.h>

/* --- of two operands ---------------------------------------------------------------------- */

/* Floats are compared as doubles, which hold them exactly. */
typedef struct pair_function {
    bool (*compare)(double a, double b);
    bool (*compare_integers)(int64_t a, int64_t b);
    int64_t (*integer)(int64_t a, int64_t b); /* instead: a result of the operands' type */
    double (*real)(double a, double b);
} pair_function;

static int64_t combine_integers(const pair_function *f, int64_t a, int64_t b) {
    return f->compare_integers ? f->compare_integers(a, b) : f->integer(a, b);
}

static bool apply(td__graph_call *call, const pair_function *f) {
    td_tensor *x[2];
    td__broadcast_rows rows;
    if (!td__graph_plains(call, 2, true, x) || !(x[1] = td__graph_at_axis(call, x[0], x[1])) ||
        !td__broadcast_rows_init(call->tape, call->node->op_type, 2, x, &rows)) {
        return false;
    }
    bool integers = td__graph_is_integer(x[0]);
    if (integers ? !f->compare_integers && !f->integer : !f->compare && !f->real) {
        return td__graph_fail(call, TD_UNSUPPORTED, "not of type %s",
                              td__graph_type_name(td__graph_input(call, 0)->type));
    }
    td__graph_type type =
        f->compare || f->compare_integers ? TD__GRAPH_BOOL : td__graph_input(call, 0)->type;
    td_tensor *y = td__graph_new(call, type, rows.shape);
    while (y && td__broadcast_next_row(&rows)) {
        for (int64_t i = 0; i < rows.width; i++) {
            int64_t at = rows.at[0] + i * rows.step[0], bt = rows.at[1] + i * rows.step[1];
            if (integers) {
                td__graph_put_integer(
                    y, rows.y + i,
                    combine_integers(f, td__graph_integer(x[0], at), td__graph_integer(x[1], bt)));
            } else if (f->compare) {
                td__graph_put_integer(
                    y, rows.y + i, f->compare(td__graph_real(x[0], at), td__graph_real(x[1], bt)));
            } else {
                td__graph_put_real(y, rows.y + i,
                                   f->real(td__graph_real(x[0], at), td__graph_real(x[1], bt)));
            }
        }
    }
    return td__graph_output(call, 0, type, y);
}

#define COMPARISON(name, expression)                                                               \
    static bool name##_reals(double a, double b) {                                                 \
        return expression;                                                                         \
    }                                                                                              \
    static bool name##_integers(int64_t a, int64_t b) {                                            \
        return expression;                                                                         \
    }                                                                                              \
    static bool name(td__graph_call *call) {                                                       \
        return apply(                                                                              \
            call, &(pair_function){.compare = name##_reals, .compare_integers = name##_integers}); \
    }
COMPARISON(equal_numbers, a == b)
COMPARISON(less, a < b)
COMPARISON(less_or_equal, a <= b)
COMPARISON(greater, a > b)
COMPARISON(greater_or_equal, a >= b)

static bool equal(td__graph_call *call) {
    td_tensor *x[2];
    td__broadcast_rows rows;
    if (td__graph_input(call, 0)->type != TD__GRAPH_STRING) {
        return equal_numbers(call);
    }
    if (!td__graph_plains(call, 2, true, x) ||
        !td__broadcast_rows_init(call->tape, call->node->op_type, 2, x, &rows)) {
        return false;
    }
    td_tensor *y = td__graph_new(call, TD__GRAPH_BOOL, rows.shape);
    while (y && td__broadcast_next_row(&rows)) {
        for (int64_t i = 0; i < rows.width; i++) {
            const char *a = td__graph_text_at(x[0], rows.at[0] + i * rows.step[0]);
            const char *b = td__graph_text_at(x[1], rows.at[1] + i * rows.step[1]);
            td__graph_put_integer(y, rows.y + i, strcmp(a, b) == 0);
        }
    }
    return td__graph_output(call, 0, TD__GRAPH_BOOL, y);
}

#define BITS(name, expression)                                                                     \
    static int64_t name##_integers(int64_t a, int64_t b) {                                         \
        return expression;                                                                         \
    }                                                                                              \
    static bool name(td__graph_call *call) {                                                       \
        return apply(call, &(pair_function){.integer = name##_integers});                          \
    }
BITS(bits_and, a &b)
BITS(bits_or, a | b)
BITS(bits_xor, a ^ b)

/* Of bool the bits are the logic. */
static int64_t shift_left(int64_t a, int64_t b) {
    return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}

/* The sign stays. */
static int64_t shift_right(int64_t a, int64_t b) {
    return b < 0 || b > 62 ? (a < 0 ? -1 : 0) : a >> b;
}

static bool bit_shift(td__graph_call *call) {
    bool left = *td__graph_text(call->node, "direction", "") == 'L';
    return apply(call, &(pair_function){.integer = left ? shift_left : shift_right});
}

/* The remainder has the divisor's sign; of fmod, the dividend's. By 0 it is 0, as in numpy. */
static int64_t remainder_of(int64_t a, int64_t b) {
    int64_t r = b == 0 || b == -1 ? 0 : a % b;
    return r && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t fmod_of(int64_t a, int64_t b) {
    return b == 0 || b == -1 ? 0 : a % b;
}

static double real_remainder(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static bool mod(td__graph_call *call) {
    bool c = td__graph_int(call->node, "fmod", 0);
    return apply(call, &(pair_function){.integer = c ? fmod_of : remainder_of,
                                        .real = c ? fmod : real_remainder});
}

/* --- of one operand ----------------------------------------------------------------------- */

static bool invert(td__graph_call *call) {
    td_tensor *x;
    if (!td__graph_plains(call, 1, true, &x)) {
        return false;
    }
    if (!td__graph_is_integer(x)) {
        return td__graph_fail(call, TD_DTYPE, "its input is no bool");
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *y = td__graph_new(call, type, x->shape);
    for (int64_t i = 0; y && i < x->count; i++) {
        int64_t value = td__graph_integer(x, i);
        td__graph_put_integer(y, i, type == TD__GRAPH_BOOL ? !value : ~value);
    }
    return td__graph_output(call, 0, type, y);
}

static bool classify(td__graph_call *call, bool (*is)(td__graph_call *call, double value)) {
    td_tensor *x;
    td_tensor *y =
        td__graph_plains(call, 1, true, &x) ? td__graph_new(call, TD__GRAPH_BOOL, x->shape) : NULL;
    for (int64_t i = 0; y && i < x->count; i++) {
        td__graph_put_integer(y, i, is(call, td__graph_real(x, i)));
    }
    return td__graph_output(call, 0, TD__GRAPH_BOOL, y);
}

static bool nan_test(td__graph_call *call, double value) {
    (void)call;
    return isnan(value);
}

static bool is_nan(td__graph_call *call) {
    return classify(call, nan_test);
}

static bool infinity_test(td__graph_call *call, double value) {
    return isinf(value) &&
           td__graph_int(call->node, value > 0 ? "detect_positive" : "detect_negative", 1);
}

static bool is_infinite(td__graph_call *call) {
    return classify(call, infinity_test);
}

/* --- conversion --------------------------------------------------------------------------- */

/* As numpy writes them: the shortest text that reads back to the same number. */
static const char *text_of(td__graph_call *call, const td_tensor *x, int64_t i) {
    char room[TD__NUMBER_ROOM];
    size_t length = x->dtype == TD_FLOAT32   ? td__format_float(room, ((const float *)x->data)[i])
                    : x->dtype == TD_FLOAT64 ? td__format_double(room, ((const double *)x->data)[i])
                                             : td__format_int(room, ((const int64_t *)x->data)[i]);
    bool whole = x->dtype != TD_INT64 && !memchr(room, '.', length) && !memchr(room, 'e', length) &&
                 !memchr(room, 'n', length);
    char *text = td__scratch(call->tape, length + 3);
    if (text) {
        memcpy(text, room, length);
        memcpy(text + length, whole ? ".0" : "", whole ? 3 : 1);
    }
    return text;
}

static bool to_text(td__graph_call *call) {
    if (td__graph_input(call, 0)->type == TD__GRAPH_STRING) {
        return td__graph_pass(call, 0, 0);
    }
    td_tensor *x = td__graph_plain(call, 0);
    td_tensor *y = x ? td__output(call->tape, TD_INT64, &x->shape) : NULL;
    for (int64_t i = 0; y && i < x->count; i++) {
        const char *text = text_of(call, x, i);
        if (!text) {
            return false;
        }
        td__graph_put_text(y, i, text);
    }
    return td__graph_output(call, 0, TD__GRAPH_STRING, y);
}

static bool from_text(td__graph_call *call, td__graph_type type) {
    td_tensor *x = td__graph_plain(call, 0);
    td_tensor *y = x ? td__graph_new(call, type, x->shape) : NULL;
    for (int64_t i = 0; y && i < x->count; i++) {
        const char *text = td__graph_text_at(x, i);
        double value;
        const char *end = td__parse_float64(text, &value);
        if (!end || *end) {
            return td__graph_fail(call, TD_FORMAT, "'%.60s' is no number", text);
        }
        td__graph_put_real(y, i, value);
    }
    return td__graph_output(call, 0, type, y);
}

/* What is too large for a float of few bits is its largest, unless the node says otherwise. */
static bool output_rounded(td__graph_call *call, td__graph_type type, td_tensor *y, bool last) {
    const char *mode = td__graph_text(call->node, "round_mode", "up");
    bool saturate = td__graph_int(call->node, "saturate", 1) != 0;
    for (int64_t i = 0; y && td__graph_is_small(type) && i < y->count; i++) {
        float *at = td__floats(y) + i;
        *at = td__graph_small_round(type, *at, saturate, mode[0]);
    }
    return td__graph_output_either(call, 0, type, y, last);
}

static bool cast_input(td__graph_call *call, int64_t to) {
    td__graph_type from = td__graph_input(call, 0)->type, type = (td__graph_type)to;
    if (to == TD__GRAPH_STRING) {
        return to_text(call);
    }
    if (to < 0 || to > INT32_MAX || !td__graph_is_stored(type)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "to type %s (%lld)",
                              to < 0 || to > INT32_MAX ? "unknown" : td__graph_type_name(type),
                              (long long)to);
    }
    if (from == TD__GRAPH_STRING) {
        return from_text(call, type);
    }
    if (td__graph_is_float(call, 0) && td__graph_storage(type) == TD_FLOAT32) {
        /* The gradient flows on; what is rounded is a copy. */
        bool last, same = from == type || type == TD__GRAPH_FLOAT;
        td_tensor *x = td__graph_either(call, 0, &last);
        return same ? td__graph_output_either(call, 0, type, x, last)
                    : output_rounded(call, type, td_affine(call->tape, x, 1, 0), last);
    }
    td_tensor *x = td__graph_plain(call, 0);
    td_tensor *y = x ? td__graph_new(call, type, x->shape) : NULL;
    for (int64_t i = 0; y && i < x->count; i++) {
        if (type == TD__GRAPH_BOOL) {
            td__graph_put_integer(y, i, td__graph_real(x, i) != 0);
        } else if (td__graph_is_integer(x)) {
            td__graph_put_integer(y, i, td__graph_integer(x, i));
        } else {
            td__graph_put_real(y, i, td__graph_real(x, i));
        }
    }
    return output_rounded(call, type, y, false);
}

static bool cast(td__graph_call *call) {
    return cast_input(call, td__graph_int(call->node, "to", TD__GRAPH_UNDEFINED));
}

static bool cast_like(td__graph_call *call) {
    return cast_input(call, td__graph_input(call, 1)->type);
}

/* --- BitCast -------------------------------------------------------------------------------- */

static const struct {
    td__graph_type type;
    int bits;
    bool negative;
} layouts[] = {{TD__GRAPH_FLOAT, 32, false},  {TD__GRAPH_DOUBLE, 64, false},
               {TD__GRAPH_INT8, 8, true},     {TD__GRAPH_INT16, 16, true},
               {TD__GRAPH_INT32, 32, true},   {TD__GRAPH_INT64, 64, true},
               {TD__GRAPH_UINT8, 8, false},   {TD__GRAPH_UINT16, 16, false},
               {TD__GRAPH_UINT32, 32, false}, {TD__GRAPH_BOOL, 8, false}};

/* Its place among them; SIZE_MAX: other types. */
static size_t layout_of(int64_t type) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if ((int64_t)layouts[i].type == type) {
            return i;
        }
    }
    return SIZE_MAX;
}

static uint64_t bits_at(const td_tensor *x, int64_t i) {
    uint64_t bits;
    if (x->dtype == TD_FLOAT32) {
        return td__bits_of(td__floats(x)[i]);
    }
    memcpy(&bits, (const char *)x->data + (size_t)i * sizeof bits, sizeof bits);
    return bits;
}

static void put_bits(td_tensor *y, int64_t i, uint64_t bits, int width, bool negative) {
    if (y->dtype == TD_FLOAT32) {
        td__floats(y)[i] = td__float_of((uint32_t)bits);
        return;
    }
    uint64_t kept = width == 64 ? bits : bits & ((UINT64_C(1) << width) - 1);
    bool minus = negative && width < 64 && kept >> (width - 1);
    kept = minus ? kept | ~((UINT64_C(1) << width) - 1) : kept;
    memcpy((char *)y->data + (size_t)i * sizeof kept, &kept, sizeof kept);
}

/* The same bits as a number of another type that has as many. */
static bool bit_cast(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    size_t from = x ? layout_of(td__graph_input(call, 0)->type) : SIZE_MAX;
    size_t to = layout_of(td__graph_int(call->node, "to", 0));
    if (!x || from == SIZE_MAX || to == SIZE_MAX || layouts[from].bits != layouts[to].bits) {
        return x ? td__graph_fail(call, TD_UNSUPPORTED, "of %s to type %lld",
                                  td__graph_type_name(td__graph_input(call, 0)->type),
                                  (long long)td__graph_int(call->node, "to", 0))
                 : false;
    }
    td_tensor *y = td__graph_new(call, layouts[to].type, x->shape);
    for (int64_t i = 0; y && i < x->count; i++) {
        put_bits(y, i, bits_at(x, i), layouts[to].bits, layouts[to].negative);
    }
    return td__graph_output(call, 0, layouts[to].type, y);
}

const td__graph_operator td__graph_comparisons[] = {
    {"And", bits_and, 2, 2, 1, 0, 0, td__graph_infer_compared},
    {"BitCast", bit_cast, 1, 1, 1, 26, 0, td__graph_infer_cast},
    {"BitShift", bit_shift, 2, 2, 1, 11, 0, td__graph_infer_broadcast},
    {"BitwiseAnd", bits_and, 2, 2, 1, 18, 0, td__graph_infer_broadcast},
    {"BitwiseNot", invert, 1, 1, 1, 18, 0, td__graph_infer_same},
    {"BitwiseOr", bits_or, 2, 2, 1, 18, 0, td__graph_infer_broadcast},
    {"BitwiseXor", bits_xor, 2, 2, 1, 18, 0, td__graph_infer_broadcast},
    {"Cast", cast, 1, 1, 1, 6, 0, td__graph_infer_cast},
    {"CastLike", cast_like, 2, 2, 1, 15, 0, td__graph_infer_cast},
    {"Equal", equal, 2, 2, 1, 0, 0, td__graph_infer_compared},
    {"Greater", greater, 2, 2, 1, 0, 0, td__graph_infer_compared},
    {"GreaterOrEqual", greater_or_equal, 2, 2, 1, 12, 0, td__graph_infer_compared},
    {"IsInf", is_infinite, 1, 1, 1, 10, 0, td__graph_infer_boolean},
    {"IsNaN", is_nan, 1, 1, 1, 9, 0, td__graph_infer_boolean},
    {"Less", less, 2, 2, 1, 0, 0, td__graph_infer_compared},
    {"LessOrEqual", less_or_equal, 2, 2, 1, 12, 0, td__graph_infer_compared},
    {"Mod", mod, 2, 2, 1, 10, 0, td__graph_infer_broadcast},
    {"Not", invert, 1, 1, 1, 0, 0, td__graph_infer_boolean},
    {"Or", bits_or, 2, 2, 1, 0, 0, td__graph_infer_compared},
    {"Xor", bits_xor, 2, 2, 1, 0, 0, td__graph_infer_compared},
    {0},
};
