/* ATen's operators as those of ONNX: tensors made of numbers, elements picked, put and sorted, recurrent
 * networks, and what only checks. */
#include "exported/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SELF(call) td__aten_value(call, "self")

/* --- of numbers --------------------------------------------------------------------------- */

/* What the row's word says, or the argument. */
static const char *filled(td__aten_call *call, const char *shape) {
    td__aten_kind kind = td__aten_made_kind(call);
    const char *word = call->row->word;
    const char *value = td__aten_argument(call, "fill_value") ? "fill_value" : "value";
    return word ? td__aten_filled(call, *word == 'o', kind, shape)
                : TD__OPERATOR(call->to, "Expand", td__aten_as(call, value, kind), shape);
}

static const char *of_size(td__aten_call *call) {
    return filled(call, td__aten_sizes(call, "size"));
}

static const char *like(td__aten_call *call) {
    return filled(call, TD__OPERATOR(call->to, "Shape", SELF(call)));
}

static const char *scalar_of(td__aten_call *call, const char *name, double fallback,
                             td__aten_kind kind) {
    if (!td__aten_argument(call, name)) {
        const char *number = td__operator_number(call->to, fallback);
        return kind == TD__ATEN_REAL ? number : td__aten_cast(call, number, kind);
    }
    const char *value = td__aten_as(call, name, kind);
    return json_object_get(td__aten_argument(call, name), "as_sym_int")
               ? TD__OPERATOR(call->to, "Squeeze", value)
               : value;
}

/* start + i step of i from 0 to n - 1 */
static const char *steps_from(td__aten_call *call, double start, double n, double step) {
    td__operators *to = call->to;
    const char *at = TD__OPERATOR(to, "Range", td__operator_number(to, 0),
                                  td__operator_number(to, n), td__operator_number(to, 1));
    return TD__OPERATOR(to, "Add", TD__OPERATOR(to, "Mul", at, td__operator_number(to, step)),
                        td__operator_number(to, start));
}

static bool is_real(const td__aten_call *call, const char *name) {
    return td__aten_argument_kind(call, name) == TD__ATEN_REAL;
}

static const char *arange(td__aten_call *call) {
    td__aten_kind kind = td__aten_made_kind(call);
    bool real = is_real(call, "start") || is_real(call, "end") || is_real(call, "step");
    if (real && kind != TD__ATEN_REAL) {
        return td__operator_refuse(call->to, "of whole numbers between others");
    }
    if (real) { /* their number is computed in double precision */
        double start = td__aten_real(call, "start", 0), step = td__aten_real(call, "step", 1);
        double n = ceil((td__aten_real(call, "end", 0) - start) / step);
        return n >= 0 && n < 1 << 24 ? steps_from(call, start, n, step)
                                     : td__operator_refuse(call->to, "of too many numbers");
    }
    return TD__OPERATOR(call->to, "Range", scalar_of(call, "start", 0, kind),
                        scalar_of(call, "end", 0, kind), scalar_of(call, "step", 1, kind));
}

/* start + i (end - start) / (n - 1) */
static const char *linspace(td__aten_call *call) {
    int64_t steps = td__aten_int(call, "steps", 0);
    double start = td__aten_real(call, "start", 0), end = td__aten_real(call, "end", 0);
    double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0;
    return steps_from(call, start, (double)steps, step);
}

static const char *triangle(td__aten_call *call) {
    int64_t diagonal = td__aten_int(call, "diagonal", 0);
    td__aten_kind kind = td__aten_made_kind(call);
    bool truth = kind == TD__ATEN_TRUTH;
    const char *inputs[2] = {
        truth ? td__aten_cast(call, SELF(call), TD__ATEN_WHOLE) : SELF(call),
        TD__OPERATOR(call->to, "Squeeze", td__operator_integers(call->to, 1, &diagonal))};
    const char *y = td__operator(call->to, "Trilu", 2, inputs, 1,
                                 &TD__NAMED_INT("upper", *call->row->word == 'u'));
    return truth ? td__aten_cast(call, y, kind) : y;
}

static const char *scalar_tensor(td__aten_call *call) {
    return td__aten_as(call, "s", td__aten_made_kind(call));
}

/* copy_: spread to the size of what it is written to. */
static const char *copy(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Expand", td__aten_as(call, "src", td__aten_made_kind(call)),
                        TD__OPERATOR(call->to, "Shape", SELF(call)));
}

static const char *nothing(td__aten_call *call) {
    (void)call;
    return "checked";
}

/* --- elements picked and put -------------------------------------------------------------- */

/* Tensors of places for some axes that follow each other. */
static const char *pick(td__aten_call *call) {
    td__operators *to = call->to;
    const char *places[TD__ATEN_PARTS], *x = SELF(call);
    size_t count = td__aten_list(call, "indices", places), first = 0, used = 0;
    td_shape shape;
    int32_t rank = td__aten_shape(call, "self", &shape);
    if (rank < 1 || count > (size_t)rank) {
        return NULL;
    }
    for (; first < count && !places[first]; first++) {
    }
    for (; first + used < count && places[first + used]; used++) {
    }
    for (size_t i = first + used; i < count; i++) {
        if (places[i]) {
            return td__operator_refuse(to, "of axes that do not follow each other");
        }
    }
    const json_t *argument = td__aten_argument(call, "indices");
    const json_t *list = json_object_get(argument, "as_tensors");
    list = list ? list : json_object_get(argument, "as_optional_tensors");
    for (size_t i = first; i < first + used; i++) {
        const json_t *part = json_array_get(list, i), *tensor = json_object_get(part, "as_tensor");
        const char *name = json_string_value(json_object_get(tensor ? tensor : part, "name"));
        const json_t *info = json_object_get(call->tensors, name ? name : "");
        if (td__aten_kind_of(json_integer_value(json_object_get(info, "dtype"))) !=
            TD__ATEN_WHOLE) {
            return td__operator_refuse(to, "by a mask: its size depends on the data");
        }
    }
    if (used == 1) {
        const char *inputs[2] = {x, places[first]};
        return td__operator(to, "Gather", 2, inputs, 1, &TD__NAMED_INT("axis", (int64_t)first));
    }
    if (!used || first) {
        return td__operator_refuse(to, "of several axes that are not the first");
    }
    const char *sum = places[0], *last = td__operator_integers(to, 1, (int64_t[]){-1});
    for (size_t i = 1; i < used; i++) { /* the size that all spread to */
        sum = TD__OPERATOR(to, "Add", sum, places[i]);
    }
    for (size_t i = 0; i < used; i++) {
        places[i] = TD__OPERATOR(to, "Expand", places[i], TD__OPERATOR(to, "Shape", sum));
        places[i] = TD__OPERATOR(to, "Unsqueeze", places[i], last);
    }
    const char *all = td__operator(to, "Concat", used, places, 1, &TD__NAMED_INT("axis", -1));
    return TD__OPERATOR(to, "GatherND", x, all);
}

static const char *index_select(td__aten_call *call) {
    const char *inputs[2] = {SELF(call), td__aten_value(call, "index")};
    return td__operator(call->to, "Gather", 2, inputs, 1,
                        &TD__NAMED_INT("axis", td__aten_int(call, "dim", 0)));
}

static const char *gather(td__aten_call *call) {
    const char *inputs[2] = {SELF(call), td__aten_value(call, "index")};
    return td__operator(call->to, "GatherElements", 2, inputs, 1,
                        &TD__NAMED_INT("axis", td__aten_int(call, "dim", 0)));
}

/* word: "add" where elements are added to. */
static const char *scatter_with(td__aten_call *call, const char *index, const char *values) {
    const char *inputs[3] = {SELF(call), index, values};
    td__attribute attributes[2] = {TD__NAMED_INT("axis", td__aten_int(call, "dim", 0)),
                                   TD__NAMED_TEXT("reduction", "add")};
    return td__operator(call->to, "ScatterElements", 3, inputs, call->row->word ? 2 : 1,
                        attributes);
}

static const char *scatter(td__aten_call *call) {
    const char *index = td__aten_value(call, "index");
    td__aten_kind kind = td__aten_made_kind(call);
    const char *values = td__aten_argument(call, "src")
                             ? td__aten_value(call, "src")
                             : TD__OPERATOR(call->to, "Expand", td__aten_as(call, "value", kind),
                                            TD__OPERATOR(call->to, "Shape", index));
    return scatter_with(call, index, values);
}

/* slice_scatter, select_scatter */
static const char *scatter_part(td__aten_call *call) {
    return td__aten_put_part(call, SELF(call), td__aten_value(call, "src"));
}

/* Slices are added: the places are spread to the size of the source. */
static const char *index_add(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    int64_t spread[TD_MAX_RANK];
    int32_t rank = td__aten_shape(call, "source", &shape);
    int64_t axis = td__aten_axis(call, "source", td__aten_int(call, "dim", 0));
    const char *source = td__aten_value(call, "source");
    double alpha = td__aten_real(call, "alpha", 1);
    if (axis < 0) {
        return NULL;
    }
    for (int32_t i = 0; i < rank; i++) {
        spread[i] = i == axis ? -1 : 1;
    }
    const char *index =
        td__operator_reshape(to, td__aten_value(call, "index"), (size_t)rank, spread);
    index = TD__OPERATOR(to, "Expand", index, TD__OPERATOR(to, "Shape", source));
    return scatter_with(
        call, index,
        alpha == 1 ? source : TD__OPERATOR(to, "Mul", source, td__operator_number(to, alpha)));
}

/* --- in order ----------------------------------------------------------------------------- */

static const char *ordered(td__aten_call *call, const char *count, bool largest) {
    const char *inputs[2] = {SELF(call), count}, *made[2];
    td__attribute attributes[2] = {TD__NAMED_INT("axis", td__aten_int(call, "dim", -1)),
                                   TD__NAMED_INT("largest", largest)};
    td__operator_outputs(call->to, "TopK", 2, inputs, 2, attributes, 2, made);
    if (!strcmp(call->row->target, "aten.argsort.default")) {
        return made[1];
    }
    td__aten_give(call, 1, made[1]);
    return made[0];
}

static const char *top(td__aten_call *call) {
    const json_t *largest = td__aten_argument(call, "largest");
    return ordered(call, td__aten_size(call, "k", 1), !largest || td__aten_bool(call, "largest"));
}

static const char *sort(td__aten_call *call) {
    int64_t axis = td__aten_axis(call, "self", td__aten_int(call, "dim", -1)), end = axis + 1;
    td__operators *to = call->to;
    const char *all =
        TD__OPERATOR(to, "Slice", TD__OPERATOR(to, "Shape", SELF(call)),
                     td__operator_integers(to, 1, &axis), td__operator_integers(to, 1, &end));
    return axis < 0 ? NULL : ordered(call, all, td__aten_bool(call, "descending"));
}

static const char *cumulative(td__aten_call *call) {
    int64_t axis = td__aten_int(call, "dim", 0);
    return TD__OPERATOR(
        call->to, call->row->word, td__aten_as(call, "self", td__aten_made_kind(call)),
        TD__OPERATOR(call->to, "Squeeze", td__operator_integers(call->to, 1, &axis)));
}

/* --- recurrent ---------------------------------------------------------------------------- */

/* PyTorch's order of the gates as ONNX's. */
static const struct {
    const char *word;
    size_t gates;
    int order[4];
} cells[] = {{"LSTM", 4, {0, 3, 1, 2}}, {"GRU", 3, {1, 0, 2}}, {"RNN", 1, {0}}};

/* (gates units, …) in ONNX's order, with an axis for the direction. */
static const char *gates_of(td__operators *to, size_t cell, const char *weight) {
    const char *parts[4], *sorted[4];
    size_t gates = cells[cell].gates;
    const char *y = weight;
    if (gates > 1) {
        td__operator_outputs(to, "Split", 1, &weight, 1, &TD__NAMED_INT("axis", 0), gates, parts);
        for (size_t i = 0; i < gates; i++) {
            sorted[i] = parts[cells[cell].order[i]];
        }
        y = td__operator(to, "Concat", gates, sorted, 1, &TD__NAMED_INT("axis", 0));
    }
    return TD__OPERATOR(to, "Unsqueeze", y, td__operator_integers(to, 1, (int64_t[]){0}));
}

typedef struct network {
    size_t cell, directions, layers, each; /* tensors of a direction: with and without biases */
    int64_t units;
    const char *weights[TD__ATEN_PARTS];
    const char *states[2]; /* (layers directions, batch, units); NULL: zeros */
    bool relu;
} network;

/* [first, first + count) along the first axis */
static const char *rows_of(td__operators *to, const char *x, size_t first, size_t count) {
    int64_t begin = (int64_t)first, end = (int64_t)(first + count);
    return TD__OPERATOR(to, "Slice", x, td__operator_integers(to, 1, &begin),
                        td__operator_integers(to, 1, &end),
                        td__operator_integers(to, 1, (int64_t[]){0}));
}

/* x (steps, batch, …) through one layer; made: its outputs, the last of them states. */
static const char *run_layer(td__operators *to, const network *n, size_t layer, const char *x,
                             const char *made[3]) {
    const char *inputs[7] = {x}, *parts[3][2];
    const td__attribute axis = TD__NAMED_INT("axis", 0);
    for (size_t d = 0; d < n->directions; d++) {
        const char *const *w = n->weights + (layer * n->directions + d) * n->each;
        parts[0][d] = gates_of(to, n->cell, w[0]);
        parts[1][d] = gates_of(to, n->cell, w[1]);
        if (n->each == 4) {
            const char *both[2] = {gates_of(to, n->cell, w[2]), gates_of(to, n->cell, w[3])};
            parts[2][d] = td__operator(to, "Concat", 2, both, 1, &TD__NAMED_INT("axis", 1));
        }
    }
    for (size_t i = 0; i < 3; i++) {
        inputs[i + 1] = i == 2 && n->each != 4 ? ""
                        : n->directions == 1
                            ? parts[i][0]
                            : td__operator(to, "Concat", n->directions, parts[i], 1, &axis);
    }
    inputs[4] = "";
    size_t count = 4;
    for (size_t i = 0; i < 2 && n->states[i]; i++) {
        inputs[count = 5 + i] = rows_of(to, n->states[i], layer * n->directions, n->directions);
        count++;
    }
    static const char *const relus[] = {"Relu", "Relu"};
    td__attribute attributes[3] = {
        TD__NAMED_INT("hidden_size", n->units),
        TD__NAMED_TEXT("direction", n->directions == 2 ? "bidirectional" : "forward")};
    size_t used = 2;
    if (n->cell == 1) {
        attributes[used++] = TD__NAMED_INT("linear_before_reset", 1);
    } else if (n->relu) {
        attributes[used++] = (td__attribute){
            .name = "activations", .type = TD__STRINGS, .texts = relus, .count = n->directions};
    }
    td__operator_outputs(to, cells[n->cell].word, count, inputs, used, attributes, n->cell ? 2 : 3,
                         made);
    /* (steps, directions, batch, units) */
    return n->directions == 1
               ? TD__OPERATOR(to, "Squeeze", made[0], td__operator_integers(to, 1, (int64_t[]){1}))
               : td__operator_reshape(
                     to, td__operator_transpose(to, made[0], 4, (int64_t[]){0, 2, 1, 3}), 3,
                     (int64_t[]){0, 0, 2 * n->units});
}

static size_t cell_of(const char *word) {
    return *word == 'L' ? 0 : *word == 'G' ? 1 : 2;
}

static bool read_network(td__aten_call *call, network *n) {
    const char *states[TD__ATEN_PARTS];
    size_t count = td__aten_list(call, "params", n->weights);
    if (td__aten_bool(call, "train") && td__aten_real(call, "dropout", 0) > 0) {
        (void)td__aten_refuse_training(call);
        return false;
    }
    n->cell = cell_of(call->row->word);
    n->relu = strstr(call->row->target, "relu");
    n->directions = td__aten_bool(call, "bidirectional") ? 2 : 1;
    n->layers = (size_t)td__aten_int(call, "num_layers", 0);
    n->each = td__aten_bool(call, "has_biases") ? 4 : 2;
    const json_t *first =
        json_array_get(json_object_get(td__aten_argument(call, "params"), "as_tensors"), 1);
    const char *name = json_string_value(json_object_get(first, "name"));
    td_shape shape;
    if (count > TD__ATEN_PARTS || n->layers > TD__ATEN_PARTS ||
        count != n->layers * n->directions * n->each || !count || !name ||
        !td__aten_read_sizes(json_object_get(call->tensors, name), &shape) || shape.rank != 2 ||
        shape.dims[1] < 1) {
        (void)td__operator_refuse(call->to, "with projections, or of packed sequences");
        return false;
    }
    n->units = shape.dims[1];
    if (n->cell == 0) {
        count = td__aten_list(call, "hx", states);
        n->states[0] = count == 2 ? states[0] : NULL;
        n->states[1] = count == 2 ? states[1] : NULL;
        return count == 2;
    }
    n->states[0] = td__aten_value(call, "hx");
    return n->states[0];
}

static const char *recurrent(td__aten_call *call) {
    td__operators *to = call->to;
    network n = {0};
    const char *made[3], *ends[2][TD__ATEN_PARTS];
    bool first = td__aten_bool(call, "batch_first");
    if (!read_network(call, &n)) {
        return NULL;
    }
    const int64_t swap[3] = {1, 0, 2};
    const char *x = td__aten_value(call, "input");
    x = first ? td__operator_transpose(to, x, 3, swap) : x;
    for (size_t i = 0; i < n.layers; i++) {
        x = run_layer(to, &n, i, x, made);
        ends[0][i] = made[1];
        ends[1][i] = n.cell == 0 ? made[2] : NULL;
    }
    for (size_t k = 0; k < (n.cell ? 1u : 2u); k++) {
        td__aten_give(call, k + 1,
                      n.layers == 1 ? ends[k][0]
                                    : td__operator(to, "Concat", n.layers, ends[k], 1,
                                                   &TD__NAMED_INT("axis", 0)));
    }
    return first ? td__operator_transpose(to, x, 3, swap) : x;
}

/* One step: a sequence of one. */
static const char *one_step(td__aten_call *call) {
    td__operators *to = call->to;
    network n = {.cell = cell_of(call->row->word), .directions = 1, .layers = 1, .each = 4};
    static const char *const names[4] = {"w_ih", "w_hh", "b_ih", "b_hh"};
    td_shape shape;
    const char *made[3], *zero = td__operator_integers(to, 1, (int64_t[]){0});
    for (size_t i = 0; i < 4; i++) {
        n.each = td__aten_argument(call, names[i]) ? n.each : 2;
        n.weights[i] = td__aten_argument(call, names[i]) ? td__aten_value(call, names[i]) : NULL;
    }
    if (td__aten_shape(call, "w_hh", &shape) != 2 || shape.dims[1] < 1) {
        return NULL;
    }
    n.units = shape.dims[1];
    n.relu = strstr(call->row->target, "relu");
    if (n.cell == 0) {
        const char *states[TD__ATEN_PARTS];
        if (td__aten_list(call, "hx", states) != 2) {
            return NULL;
        }
        n.states[0] = TD__OPERATOR(to, "Unsqueeze", states[0], zero);
        n.states[1] = TD__OPERATOR(to, "Unsqueeze", states[1], zero);
    } else {
        n.states[0] = TD__OPERATOR(to, "Unsqueeze", td__aten_value(call, "hx"), zero);
    }
    (void)run_layer(to, &n, 0, TD__OPERATOR(to, "Unsqueeze", td__aten_value(call, "input"), zero),
                    made);
    if (n.cell == 0) {
        td__aten_give(call, 1, TD__OPERATOR(to, "Squeeze", made[2], zero));
    }
    return TD__OPERATOR(to, "Squeeze", made[1], zero);
}

/* --- the table ---------------------------------------------------------------------------- */

const td__aten_operator td__aten_parts[] = {
    {"_operator.eq", nothing, NULL},
    {"_operator.ge", nothing, NULL},
    {"_operator.gt", nothing, NULL},
    {"_operator.le", nothing, NULL},
    {"_operator.lt", nothing, NULL},
    {"_operator.ne", nothing, NULL},
    {"aten._assert_async.msg", nothing, NULL},
    {"aten._assert_scalar.default", nothing, NULL},
    {"aten._assert_tensor_metadata.default", nothing, NULL},
    {"aten.arange.default", arange, NULL},
    {"aten.arange.start", arange, NULL},
    {"aten.arange.start_step", arange, NULL},
    {"aten.argsort.default", sort, NULL},
    {"aten.copy.default", copy, NULL},
    {"aten.cumprod.default", cumulative, "CumProd"},
    {"aten.cumsum.default", cumulative, "CumSum"},
    {"aten.empty.memory_format", of_size, "zeros"},
    {"aten.empty_like.default", like, "zeros"},
    {"aten.fill.Scalar", like, NULL},
    {"aten.fill.Tensor", like, NULL},
    {"aten.full.default", of_size, NULL},
    {"aten.full_like.default", like, NULL},
    {"aten.gather.default", gather, NULL},
    {"aten.gru.input", recurrent, "GRU"},
    {"aten.gru_cell.default", one_step, "GRU"},
    {"aten.index.Tensor", pick, NULL},
    {"aten.index_add.default", index_add, "add"},
    {"aten.index_select.default", index_select, NULL},
    {"aten.linspace.default", linspace, NULL},
    {"aten.lstm.input", recurrent, "LSTM"},
    {"aten.lstm_cell.default", one_step, "LSTM"},
    {"aten.new_empty.default", of_size, "zeros"},
    {"aten.new_full.default", of_size, NULL},
    {"aten.new_ones.default", of_size, "ones"},
    {"aten.new_zeros.default", of_size, "zeros"},
    {"aten.ones.default", of_size, "ones"},
    {"aten.ones_like.default", like, "ones"},
    {"aten.rnn_relu.input", recurrent, "RNN"},
    {"aten.rnn_relu_cell.default", one_step, "RNN"},
    {"aten.rnn_tanh.input", recurrent, "RNN"},
    {"aten.rnn_tanh_cell.default", one_step, "RNN"},
    {"aten.scalar_tensor.default", scalar_tensor, NULL},
    {"aten.scatter.src", scatter, NULL},
    {"aten.scatter.value", scatter, NULL},
    {"aten.scatter_add.default", scatter, "add"},
    {"aten.select_scatter.default", scatter_part, NULL},
    {"aten.slice_scatter.default", scatter_part, NULL},
    {"aten.sort.default", sort, NULL},
    {"aten.sort.stable", sort, NULL},
    {"aten.sym_constrain_range_for_size.default", nothing, NULL},
    {"aten.topk.default", top, NULL},
    {"aten.tril.default", triangle, "lower"},
    {"aten.triu.default", triangle, "upper"},
    {"aten.zero.default", like, "zeros"},
    {"aten.zeros.default", of_size, "zeros"},
    {"aten.zeros_like.default", like, "zeros"},
    {0},
};

static const td__aten_operator *find_row(const char *target) {
    static const td__aten_operator *const tables[] = {
        td__aten_elements, td__aten_layers, td__aten_parts, td__aten_reductions, td__aten_shapes};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (const td__aten_operator *row = tables[t]; row->target; row++) {
            if (!strcmp(row->target, target)) {
                return row;
            }
        }
    }
    return NULL;
}

const td__aten_operator *td__aten_find(const char *target) {
    const td__aten_operator *row = target ? find_row(target) : NULL;
    const char *dot = target ? strrchr(target, '.') : NULL;
    char plain[64];
    if (!row && dot && dot > target && dot[-1] == '_' && strlen(target) < sizeof plain) {
        (void)snprintf(plain, sizeof plain, "%.*s%s", (int)(dot - 1 - target), target, dot);
        row = find_row(plain);
    }
    return row;
}
