#include "model/pytorch.h"

#include "base/memory.h"
#include "model/channel_order.h"
#include "nn/kind.h"
#include "tensor/element.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GATES = 3, NAME_SIZE = 512 };

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
typedef struct tensor_index {
    const td__named_view **sorted;
    bool *used;
    size_t count;
} tensor_index;

static int compare_views(const void *left, const void *right) {
    return strcmp((*(const td__named_view *const *)left)->name,
                  (*(const td__named_view *const *)right)->name);
}

static bool build_tensor_index(tensor_index *s, size_t count, const td__named_view *tensors) {
    *s = (tensor_index){td__calloc(count + 1, sizeof *s->sorted), td__calloc(count + 1, 1), count};
    for (size_t i = 0; s->sorted && s->used && i < count; i++) {
        s->sorted[i] = &tensors[i];
    }
    if (s->sorted && s->used) {
        qsort(s->sorted, count, sizeof *s->sorted, compare_views);
    }
    return s->sorted && s->used;
}

/* NULL when there is none. */
static const td__named_view *take_tensor(const tensor_index *s, const char *name) {
    const td__named_view key = {.name = name}, *at = &key;
    const td__named_view **found =
        bsearch(&at, s->sorted, s->count, sizeof *s->sorted, compare_views);
    if (!found) {
        return NULL;
    }
    s->used[found - s->sorted] = true;
    return *found;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* One rule at work. */
typedef struct transfer {
    const td__torch_weight *rule;
    const td__named_view *source;
    td_tensor *target;
    td_shape dims; /* of the target, merged, and of one row of it */
    const td__layer_order *order;
    td__layer_features features; /* what its layer does with them */
} transfer;

static td_shape merged_shape(const td__torch_weight *r, td_shape shape) {
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

static td_shape pytorch_shape(const td__torch_weight *r, const td_shape *ours) {
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
    if (t->features == TD__FEATURES_MIXED) {
        return td__order_first(last ? t->order->out : t->order->in, index);
    }
    return t->features == TD__FEATURES_KEPT ? td__order_first(t->order->in, index) : index;
}

/* For each of our axes, where in PyTorch's elements each index lies; axes one after the other. */
static int64_t *element_offsets(const transfer *t, int64_t *starts[TD__TORCH_MAX_AXES]) {
    int64_t room = 0, strides[TD__TORCH_MAX_AXES], stride = 1;
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

static void gather_weight(const transfer *t, const float *from,
                          int64_t *const starts[TD__TORCH_MAX_AXES], float *to) {
    int32_t last = t->dims.rank - 1;
    int64_t index[TD__TORCH_MAX_AXES] = {0}, count = t->dims.dims[last];
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

static td_status transfer_weights(const transfer *t, td_error *error) {
    int64_t count = td__elements_from(&t->dims, 0); /* of the part and of the row it becomes */
    float *from = td__calloc((size_t)count + 1, sizeof *from);
    int64_t *starts[TD__TORCH_MAX_AXES];
    int64_t *offsets = element_offsets(t, starts);
    td_status status = from && offsets ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    if (!status && count > 0) {
        td__copy_floats(from, &t->source->view, t->rule->part * count, count);
        gather_weight(t, from, starts, (float *)td_tensor_data(t->target) + t->rule->row * count);
    }
    td__free(offsets);
    td__free(from);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void plan_rule(const td_model *model, const td_layer_info *layer, const td__torch_weight *r,
                      const tensor_index *s, transfer *t, td__reasons *problems) {
    char from[NAME_SIZE], have[TD_SHAPE_TEXT_SIZE], want[TD_SHAPE_TEXT_SIZE];
    t->rule = r;
    t->target = td_model_parameter(model, layer->name, r->to);
    if (!t->target) {
        return;
    }
    (void)snprintf(from, sizeof from, "%s.%s", layer->name, r->from);
    const td__named_view *tensor = take_tensor(s, from);
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
static size_t plan_all(const td_model *model, const td__layer_order *orders, const tensor_index *s,
                       transfer *transfers, td__reasons *problems) {
    size_t count = 0;
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        if (layer->parameter_count && (orders[i].in.channels < 0 || orders[i].out.channels < 0)) {
            td__reasons_add(problems, TD_UNSUPPORTED,
                            "%s reads flattened maps mixed with other features, whose order "
                            "PyTorch's file does not say",
                            layer->name);
        }
        const td_value *reset_after = td__layer_setting(layer, "reset_after");
        if (reset_after && !reset_after->boolean) {
            td__reasons_add(problems, TD_UNSUPPORTED,
                            "%s: PyTorch's GRU resets after the product; the layer must have "
                            "reset_after: true",
                            layer->name);
            continue;
        }
        size_t before = count;
        const td__layer_kind *kind = td__layer_kind_of(layer->kind);
        if (kind->features == TD__FEATURES_GROUPED && orders[i].in.channels > 0) {
            td__reasons_add(problems, TD_UNSUPPORTED,
                            "%s reads flattened maps, of which PyTorch's groups are other features",
                            layer->name);
        }
        for (size_t k = 0; k < kind->torch.weight_count; k++) {
            transfers[count] = (transfer){.order = &orders[i], .features = kind->features};
            plan_rule(model, layer, &kind->torch.weights[k], s, &transfers[count], problems);
            count += transfers[count].target != NULL;
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
    tensor_index s = {0};
    td__layer_order *orders = td__channel_orders(model);
    /* At most two tensors make a parameter. */
    transfer *transfers = td__calloc(2 * td_model_parameter_count(model) + 1, sizeof *transfers);
    td_status status = TD_OK;
    size_t planned = 0;
    if (build_tensor_index(&s, count, tensors) && orders && transfers) {
        td__reasons problems = {0};
        planned = plan_all(model, orders, &s, transfers, &problems);
        status = td__reasons_report(&problems, path, error);
    } else {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    for (size_t i = 0; !status && i < planned; i++) {
        status = transfer_weights(&transfers[i], error);
    }
    td__free(transfers);
    td__free(orders);
    td__free(s.used);
    td__free(s.sorted);
    return status;
}
