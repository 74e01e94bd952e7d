#include "model/pytorch.h"

#include "base/memory.h"
#include "model/channel_order.h"
#include "tensor/element.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AXES = 5, GATES = 3, NAME_SIZE = 512 };

/* How a tensor LAYER.from becomes (a part of) the parameter LAYER.to. */
typedef struct rule {
    td_layer_kind kind;
    const char *from, *to;
    int32_t rank;           /* of PyTorch's; ours has adjacent axes merged to as many */
    int8_t axes[MOST_AXES]; /* PyTorch's axis for each of ours */
    bool merge_first;       /* the first of our axes, instead of the last */
    int8_t part, parts;     /* of PyTorch's first axis: which of so many; parts 0: all of it */
    int8_t row, rows;       /* of our first axis, likewise */
    bool add;               /* to what an earlier rule put there */
    bool gates;             /* in the order r, z, n there, and z, r, n here */
} rule;

#define VECTOR(kind_, from_, to_)                                                                  \
    { .kind = TD_LAYER_##kind_, .from = (from_), .to = (to_), .rank = 1 }
#define MATRIX(kind_, from_, to_, ...)                                                             \
    {                                                                                              \
        .kind = TD_LAYER_##kind_, .from = (from_), .to = (to_), .rank = 2, .axes = {1, 0},         \
        __VA_ARGS__                                                                                \
    }
static const rule rules[] = {
    MATRIX(DENSE, "weight", "kernel", ), /* (out, in) */
    VECTOR(DENSE, "bias", "bias"),
    {TD_LAYER_CONV1D, "weight", "kernel", .rank = 3, .axes = {2, 1, 0}}, /* (out, in, k) */
    VECTOR(CONV1D, "bias", "bias"),
    {TD_LAYER_CONV2D, "weight", "kernel", .rank = 4, .axes = {2, 3, 1, 0}}, /* (out, in, h, w) */
    VECTOR(CONV2D, "bias", "bias"),
    /* (in, out, h, w) */
    {TD_LAYER_CONV2D_TRANSPOSE, "weight", "kernel", .rank = 4, .axes = {2, 3, 1, 0}},
    VECTOR(CONV2D_TRANSPOSE, "bias", "bias"),
    {TD_LAYER_CONV1D_TRANSPOSE, "weight", "kernel", .rank = 3, .axes = {2, 1, 0}},
    VECTOR(CONV1D_TRANSPOSE, "bias", "bias"),
    {TD_LAYER_CONV3D, "weight", "kernel", .rank = 5, .axes = {2, 3, 4, 1, 0}},
    VECTOR(CONV3D, "bias", "bias"),
    {TD_LAYER_CONV3D_TRANSPOSE, "weight", "kernel", .rank = 5, .axes = {2, 3, 4, 1, 0}},
    VECTOR(CONV3D_TRANSPOSE, "bias", "bias"),
    VECTOR(GROUP_NORMALIZATION, "weight", "gamma"),
    VECTOR(GROUP_NORMALIZATION, "bias", "beta"),
    VECTOR(RMS_NORMALIZATION, "weight", "scale"),
    VECTOR(BATCH_NORMALIZATION, "weight", "gamma"),
    VECTOR(BATCH_NORMALIZATION, "bias", "beta"),
    VECTOR(BATCH_NORMALIZATION, "running_mean", "moving_mean"),
    VECTOR(BATCH_NORMALIZATION, "running_var", "moving_variance"),
    VECTOR(LAYER_NORMALIZATION, "weight", "gamma"),
    VECTOR(LAYER_NORMALIZATION, "bias", "beta"),
    {TD_LAYER_EMBEDDING, "weight", "embeddings", .rank = 2, .axes = {0, 1}},
    MATRIX(SIMPLE_RNN, "weight_ih_l0", "kernel", ),
    MATRIX(SIMPLE_RNN, "weight_hh_l0", "recurrent_kernel", ),
    VECTOR(SIMPLE_RNN, "bias_ih_l0", "bias"),
    {TD_LAYER_SIMPLE_RNN, "bias_hh_l0", "bias", .rank = 1, .add = true},
    MATRIX(LSTM, "weight_ih_l0", "kernel", ), /* i, f, g, o on both sides */
    MATRIX(LSTM, "weight_hh_l0", "recurrent_kernel", ),
    VECTOR(LSTM, "bias_ih_l0", "bias"),
    {TD_LAYER_LSTM, "bias_hh_l0", "bias", .rank = 1, .add = true},
    MATRIX(GRU, "weight_ih_l0", "kernel", .gates = true),
    MATRIX(GRU, "weight_hh_l0", "recurrent_kernel", .gates = true),
    {TD_LAYER_GRU, "bias_ih_l0", "bias", .rank = 1, .row = 0, .rows = 2, .gates = true},
    {TD_LAYER_GRU, "bias_hh_l0", "bias", .rank = 1, .row = 1, .rows = 2, .gates = true},
    MATRIX(MULTI_HEAD_ATTENTION, "in_proj_weight", "query_kernel", .part = 0, .parts = 3),
    MATRIX(MULTI_HEAD_ATTENTION, "in_proj_weight", "key_kernel", .part = 1, .parts = 3),
    MATRIX(MULTI_HEAD_ATTENTION, "in_proj_weight", "value_kernel", .part = 2, .parts = 3),
    {TD_LAYER_MULTI_HEAD_ATTENTION, "in_proj_bias", "query_bias", .rank = 1, .part = 0, .parts = 3},
    {TD_LAYER_MULTI_HEAD_ATTENTION, "in_proj_bias", "key_bias", .rank = 1, .part = 1, .parts = 3},
    {TD_LAYER_MULTI_HEAD_ATTENTION, "in_proj_bias", "value_bias", .rank = 1, .part = 2, .parts = 3},
    MATRIX(MULTI_HEAD_ATTENTION, "out_proj.weight", "attention_output_kernel", .merge_first = true),
    VECTOR(MULTI_HEAD_ATTENTION, "out_proj.bias", "attention_output_bias"),
};
#undef VECTOR
#undef MATRIX
enum { RULES = sizeof rules / sizeof *rules };

/* ---- Names ----------------------------------------------------------------------------------- */

static const char *last_word(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

bool td__pytorch_names(size_t count, const td__named_view *tensors) {
    for (size_t i = 0; i < count; i++) {
        const char *word = last_word(tensors[i].name);
        if (!strcmp(word, "weight") || !strncmp(word, "weight_", 7) ||
            !strcmp(word, "in_proj_weight")) {
            return true;
        }
    }
    return false;
}

/* The tensors sorted by name, and which of them found their place. */
typedef struct shelf {
    const td__named_view **sorted;
    bool *used;
    size_t count;
} shelf;

static int by_name(const void *left, const void *right) {
    return strcmp((*(const td__named_view *const *)left)->name,
                  (*(const td__named_view *const *)right)->name);
}

static bool fill_shelf(shelf *s, size_t count, const td__named_view *tensors) {
    *s = (shelf){td__calloc(count + 1, sizeof *s->sorted), td__calloc(count + 1, 1), count};
    for (size_t i = 0; s->sorted && s->used && i < count; i++) {
        s->sorted[i] = &tensors[i];
    }
    if (s->sorted && s->used) {
        qsort(s->sorted, count, sizeof *s->sorted, by_name);
    }
    return s->sorted && s->used;
}

/* NULL when there is none. */
static const td__named_view *take(const shelf *s, const char *name) {
    const td__named_view key = {.name = name}, *at = &key;
    const td__named_view **found = bsearch(&at, s->sorted, s->count, sizeof *s->sorted, by_name);
    if (!found) {
        return NULL;
    }
    s->used[found - s->sorted] = true;
    return *found;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* One rule at work. */
typedef struct transfer {
    const rule *rule;
    const td__named_view *source;
    td_tensor *target;
    td_shape dims; /* of the target, merged, and of one row of it */
    const td__layer_order *order;
} transfer;

static td_shape merged_shape(const rule *r, td_shape shape) {
    if (r->rows) {
        memmove(shape.dims, shape.dims + 1, (size_t)(shape.rank - 1) * sizeof *shape.dims);
        shape.rank--;
    }
    while (shape.rank > r->rank) {
        int32_t at = r->merge_first ? 0 : shape.rank - 2;
        shape.dims[at] *= shape.dims[at + 1];
        memmove(shape.dims + at + 1, shape.dims + at + 2,
                (size_t)(shape.rank - at - 2) * sizeof *shape.dims);
        shape.rank--;
    }
    return shape;
}

static td_shape pytorch_shape(const rule *r, const td_shape *ours) {
    td_shape shape = {.rank = r->rank};
    for (int32_t i = 0; i < r->rank; i++) {
        shape.dims[r->axes[i]] = ours->dims[i];
    }
    shape.dims[0] *= r->parts ? r->parts : 1;
    return shape;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* PyTorch's index on its axis for an index on ours. */
static int64_t pytorch_index(const transfer *t, int32_t axis, int64_t index) {
    static const int64_t gate[GATES] = {1, 0, 2};
    bool last = axis == t->dims.rank - 1;
    if (t->rule->gates && last) {
        int64_t units = t->dims.dims[axis] / GATES;
        return gate[index / units] * units + index % units;
    }
    if (t->rule->kind == TD_LAYER_DENSE) {
        return td__order_first(last ? t->order->out : t->order->in, index);
    }
    bool normalizes = t->rule->kind == TD_LAYER_BATCH_NORMALIZATION ||
                      t->rule->kind == TD_LAYER_LAYER_NORMALIZATION;
    return normalizes ? td__order_first(t->order->in, index) : index;
}

/* For each of our axes, where in PyTorch's elements each index lies; axes one after the other. */
static int64_t *element_offsets(const transfer *t, int64_t *starts[MOST_AXES]) {
    int64_t room = 0, strides[MOST_AXES], stride = 1;
    for (int32_t i = 0; i < t->dims.rank; i++) {
        room += t->dims.dims[i];
    }
    for (int32_t i = t->source->view.shape.rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= t->source->view.shape.dims[i];
    }
    int64_t *offsets = td__calloc((size_t)room + 1, sizeof *offsets), *at = offsets;
    for (int32_t i = 0; offsets && i < t->dims.rank; i++) {
        starts[i] = at;
        for (int64_t k = 0; k < t->dims.dims[i]; k++) {
            *at++ = pytorch_index(t, i, k) * strides[t->rule->axes[i]];
        }
    }
    return offsets;
}

static void gather(const transfer *t, const float *from, int64_t *const starts[MOST_AXES],
                   float *to) {
    int32_t last = t->dims.rank - 1;
    int64_t index[MOST_AXES] = {0}, count = t->dims.dims[last];
    int64_t rest = td__elements_between(&t->dims, 0, last);
    for (; rest > 0; rest--, to += count) {
        int64_t base = 0;
        for (int32_t i = 0; i < last; i++) {
            base += starts[i][index[i]];
        }
        for (int64_t k = 0; k < count; k++) {
            float value = from[base + starts[last][k]];
            to[k] = t->rule->add ? to[k] + value : value;
        }
        for (int32_t i = last - 1; i >= 0 && ++index[i] == t->dims.dims[i]; i--) {
            index[i] = 0;
        }
    }
}

static td_status run(const transfer *t, td_error *error) {
    int64_t count = td__elements_from(&t->dims, 0); /* of the part and of the row it becomes */
    float *from = td__calloc((size_t)count + 1, sizeof *from);
    int64_t *starts[MOST_AXES];
    int64_t *offsets = element_offsets(t, starts);
    td_status status = from && offsets ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    if (!status && count > 0) {
        td__copy_floats(from, &t->source->view, t->rule->part * count, count);
        gather(t, from, starts, (float *)td_tensor_data(t->target) + t->rule->row * count);
    }
    td__free(offsets);
    td__free(from);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* A GRU that resets before the product has no counterpart. */
static bool resets_before(const td_layer_info *layer) {
    for (size_t i = 0; i < layer->setting_count; i++) {
        if (!strcmp(layer->settings[i].key, "reset_after")) {
            return !layer->settings[i].value.boolean;
        }
    }
    return false;
}

static void plan_rule(const td_model *model, const td_layer_info *layer, const rule *r,
                      const shelf *s, transfer *t, td__reasons *problems) {
    char from[NAME_SIZE], have[TD_SHAPE_TEXT_SIZE], want[TD_SHAPE_TEXT_SIZE];
    t->rule = r;
    t->target = td_model_parameter(model, layer->name, r->to);
    if (!t->target) {
        return;
    }
    (void)snprintf(from, sizeof from, "%s.%s", layer->name, r->from);
    const td__named_view *tensor = take(s, from);
    if (!tensor) {
        td__reasons_add(problems, TD_NOT_FOUND, "%s, for %s, is missing", from,
                        td_tensor_name(t->target));
        return;
    }
    t->source = tensor;
    td_shape ours = td_tensor_shape(t->target);
    t->dims = merged_shape(r, ours);
    td_shape shape = pytorch_shape(r, &t->dims);
    if (!td_shape_equal(&shape, &tensor->view.shape)) {
        char mine[TD_SHAPE_TEXT_SIZE];
        td__reasons_add(problems, TD_BAD_SHAPE, "%s has shape %s; for %s %s it must have %s", from,
                        td_shape_text(&tensor->view.shape, have), td_tensor_name(t->target),
                        td_shape_text(&ours, mine), td_shape_text(&shape, want));
    }
}

/* The transfers of all layers; returns how many. */
static size_t plan_all(const td_model *model, const td__layer_order *orders, const shelf *s,
                       transfer *transfers, td__reasons *problems) {
    size_t count = 0;
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        if (layer->parameter_count && (orders[i].in.channels < 0 || orders[i].out.channels < 0)) {
            td__reasons_add(problems, TD_UNSUPPORTED,
                            "%s reads flattened maps mixed with other features, whose order "
                            "PyTorch's file does not tell",
                            layer->name);
        }
        if (layer->kind == TD_LAYER_GRU && resets_before(layer)) {
            td__reasons_add(problems, TD_UNSUPPORTED,
                            "%s: PyTorch's GRU resets after the product; the layer must have "
                            "reset_after: true",
                            layer->name);
            continue;
        }
        size_t before = count;
        for (size_t k = 0; k < RULES; k++) {
            if (rules[k].kind == layer->kind) {
                transfers[count].order = &orders[i];
                plan_rule(model, layer, &rules[k], s, &transfers[count], problems);
                count += transfers[count].target != NULL;
            }
        }
        if (layer->parameter_count && before == count) {
            td__reasons_add(problems, TD_UNSUPPORTED,
                            "%s: PyTorch has no counterpart of a %s layer", layer->name,
                            td_layer_kind_name(layer->kind));
        }
    }
    for (size_t i = 0; i < s->count; i++) {
        const char *name = s->sorted[i]->name;
        if (!s->used[i] && strcmp(last_word(name), "num_batches_tracked") != 0) {
            td__reasons_add(problems, TD_NOT_FOUND, "the model has no place for %s", name);
        }
    }
    return count;
}

td_status td__pytorch_assign(td_model *model, const char *path, size_t count,
                             const td__named_view *tensors, td_error *error) {
    shelf s = {0};
    td__layer_order *orders = td__channel_orders(model);
    /* At most two tensors make a parameter. */
    transfer *transfers = td__calloc(2 * td_model_parameter_count(model) + 1, sizeof *transfers);
    td_status status = TD_OK;
    size_t planned = 0;
    if (fill_shelf(&s, count, tensors) && orders && transfers) {
        td__reasons problems = {0};
        planned = plan_all(model, orders, &s, transfers, &problems);
        status = td__reasons_report(&problems, path, error);
    } else {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    for (size_t i = 0; !status && i < planned; i++) {
        status = run(&transfers[i], error);
    }
    td__free(transfers);
    td__free(orders);
    td__free(s.used);
    td__free(s.sorted);
    return status;
}
