/* Inference over a whole graph: what is known before, node after node, and the facts that follow. */
#include "graph/infer.h"

#include "base/memory.h"
#include "graph/source.h"

#include <math.h>
#include <string.h>

/* --- what functions of operators call ------------------------------------------------------- */

const td__graph_extent *td__graph_extent_in(const td__graph_inference *node, size_t i) {
    int32_t v = i < node->node->input_count ? node->node->inputs[i] : -1;
    return v >= 0 && node->extents[v].known ? &node->extents[v] : NULL;
}

td__graph_type td__graph_type_in(const td__graph_inference *node, size_t i) {
    int32_t v = i < node->node->input_count ? node->node->inputs[i] : -1;
    return v >= 0 ? node->extents[v].type : TD__GRAPH_UNDEFINED;
}

td__graph_extent *td__graph_extent_out(td__graph_inference *node, size_t i, td__graph_type type,
                                       int64_t rank) {
    int32_t v = i < node->node->output_count ? node->node->outputs[i] : -1;
    td__graph_extent *out = v < 0 ? &node->unread : &node->extents[v];
    td__free(out->numbers);
    *out = (td__graph_extent){.type = type};
    if (rank >= 0 && rank <= TD_MAX_RANK) {
        out->known = true;
        out->rank = (int32_t)rank;
    }
    for (int32_t k = 0; k < out->rank; k++) {
        out->dims[k] = td__graph_any_size(node->sizes);
    }
    return out;
}

void td__graph_put_numbers(td__graph_extent *out, const td__graph_numbers *numbers) {
    out->numbers = out->numbers ? out->numbers : td__calloc(1, sizeof *out->numbers);
    if (out->numbers) {
        *out->numbers = *numbers;
    }
}

bool td__graph_numbers_in(td__graph_inference *node, size_t i, td__graph_numbers *numbers) {
    const td__graph_extent *in = td__graph_extent_in(node, i);
    if (!in || in->rank > 1 ||
        (in->rank == 1 && !(td__graph_is_number(in->dims[0]) && in->dims[0].plus >= 0 &&
                            in->dims[0].plus <= TD__GRAPH_MAX_NUMBERS))) {
        return false;
    }
    size_t count = in->rank ? (size_t)in->dims[0].plus : 1;
    if (in->numbers && in->numbers->count == count) {
        *numbers = *in->numbers;
        return true;
    }
    numbers->count = count;
    for (size_t k = 0; k < count; k++) {
        numbers->all[k] = td__graph_any_size(node->sizes);
    }
    return true;
}

bool td__graph_constants_in(td__graph_inference *node, size_t i, int64_t *out, size_t room,
                            size_t *count) {
    td__graph_numbers numbers;
    if (!td__graph_numbers_in(node, i, &numbers) || numbers.count > room) {
        return false;
    }
    bool all = true;
    for (size_t k = 0; k < numbers.count; k++) {
        all = all && td__graph_is_number(numbers.all[k]);
        out[k] = numbers.all[k].plus;
    }
    *count = numbers.count;
    return all;
}

const td_tensor *td__graph_known_tensor(const td__graph_inference *node, int32_t value) {
    const td__graph_fact *fact = &node->source->facts[value];
    return fact->constant && !fact->parameter ? td__graph_run_value(node->source->run, value)->plain
                                              : NULL;
}

/* A number other than 1 is the size; of two symbols either may be 1. */
bool td__graph_broadcast_sizes(td__graph_inference *node, td__graph_size a, td__graph_size b,
                               td__graph_size *out) {
    bool one = td__graph_is_size(a, 1), other = td__graph_is_size(b, 1);
    *out = one || td__graph_same_size(a, b) ? b
           : other                          ? a
           : td__graph_is_number(a)         ? a
           : td__graph_is_number(b)         ? b
                                            : td__graph_any_size(node->sizes);
    bool batch = td__graph_same_size(a, node->batch) || td__graph_same_size(b, node->batch);
    bool number = td__graph_is_number(a) || td__graph_is_number(b);
    bool fits = one || other || td__graph_same_size(a, b) || !number;
    if (batch && !number) { /* what else is open is the batch, too, or 1 */
        *out = node->batch;
    }
    return fits || !(batch || (td__graph_is_number(a) && td__graph_is_number(b)));
}

bool td__graph_broadcast_dims(td__graph_inference *node, const td__graph_extent *a,
                              const td__graph_extent *b, td__graph_extent *out) {
    bool fits = true;
    for (int32_t i = 0; i < out->rank; i++) {
        int32_t from = i - (out->rank - a->rank), beside = i - (out->rank - b->rank);
        td__graph_size one = td__onnx_number(1);
        td__graph_size own = from < 0 ? one : a->dims[from];
        td__graph_size other = beside < 0 ? one : b->dims[beside];
        fits = td__graph_broadcast_sizes(node, own, other, &out->dims[i]) && fits;
    }
    return fits;
}

/* --- before the nodes ----------------------------------------------------------------------- */

/* The numbers of a small constant, if they are whole. */
static void know_numbers(td__graph_extent *extent, const td_tensor *tensor) {
    td__graph_numbers numbers = {0};
    bool whole = tensor->data && tensor->shape.rank <= 1 && tensor->count <= TD__GRAPH_MAX_NUMBERS;
    for (int64_t i = 0; whole && i < tensor->count; i++) {
        double value = tensor->dtype == TD_FLOAT32   ? (double)((const float *)tensor->data)[i]
                       : tensor->dtype == TD_FLOAT64 ? ((const double *)tensor->data)[i]
                                                     : 0;
        whole = value == floor(value) && fabs(value) < 0x1p31;
        numbers.all[numbers.count++] =
            td__onnx_number(tensor->dtype == TD_INT64 ? ((const int64_t *)tensor->data)[i]
                            : whole                   ? (int64_t)value
                                                      : 0);
    }
    if (whole) {
        td__graph_put_numbers(extent, &numbers);
    }
}

/* Of a stripped file parameters have no values. */
static void know_constants(td__graph_inference *p) {
    const td__graph *graph = p->source->graph;
    td__graph_run_begin(p->source->run);
    for (size_t v = 0; v < graph->value_count; v++) {
        const td__graph_constant *constant = &graph->values[v].constant;
        const td__graph_value *given = td__graph_run_value(p->source->run, (int32_t)v);
        const td_tensor *tensor = constant->tensor               ? constant->tensor
                                  : p->source->facts[v].constant ? given->plain
                                                                 : NULL;
        td__graph_extent *extent = &p->extents[v];
        if (!tensor) {
            continue;
        }
        *extent = (td__graph_extent){.known = true,
                                     .type = constant->tensor ? constant->type : given->type,
                                     .rank = tensor->shape.rank};
        for (int32_t i = 0; i < extent->rank; i++) {
            extent->dims[i] = td__onnx_number(tensor->shape.dims[i]);
        }
        if (!p->source->facts[v].parameter && extent->type != TD__GRAPH_STRING) {
            know_numbers(extent, tensor);
        }
    }
}

static void know_input(td__graph_inference *p) {
    const td__graph *graph = p->source->graph;
    const td__graph_info *info = &graph->values[graph->inputs[0]];
    td__graph_extent *extent = &p->extents[graph->inputs[0]];
    *extent = (td__graph_extent){.known = true,
                                 .last = p->source->input_last,
                                 .type = info->type,
                                 .rank = info->shape.rank,
                                 .dims = {p->batch}};
    for (int32_t i = 1; i < extent->rank; i++) {
        extent->dims[i] = info->shape.dims[i] < 0 ? td__graph_any_size(p->sizes)
                                                  : td__onnx_number(info->shape.dims[i]);
    }
}

/* --- node after node ------------------------------------------------------------------------ */

/* What the file says of an axis, where it says more than was inferred. */
static td__graph_size consult_axis(td__graph_inference *p, const td__graph_extent *extent,
                                   int32_t i, int64_t stated, bool output) {
    bool known = extent->known, batch = i == 0 && (stated < 0 ? output : stated == p->declared);
    if (known &&
        (td__graph_is_number(extent->dims[i]) || td__graph_same_size(extent->dims[i], p->batch))) {
        return extent->dims[i];
    }
    return batch && (!known || p->trusting) ? p->batch
           : stated >= 0                    ? td__onnx_number(stated)
           : known                          ? extent->dims[i]
                                            : td__graph_any_size(p->sizes);
}

static void consult_file(td__graph_inference *p, int32_t value) {
    const td__graph_info *info = &p->source->graph->values[value];
    td__graph_extent *extent = &p->extents[value];
    bool output = p->source->facts[value].user == INT32_MAX;
    if (!info->has_shape || info->kind > TD__GRAPH_KIND_TENSOR ||
        (extent->known && extent->rank != info->shape.rank)) {
        return;
    }
    extent->type = extent->type == TD__GRAPH_UNDEFINED ? info->type : extent->type;
    for (int32_t i = 0; i < info->shape.rank; i++) {
        extent->dims[i] = consult_axis(p, extent, i, info->shape.dims[i], output);
    }
    extent->known = true;
    extent->rank = info->shape.rank;
}

static bool infer_nodes(td__graph_inference *p) {
    const td__graph_source *source = p->source;
    const td__graph *graph = source->graph;
    bool fits = true;
    for (size_t n = 0; n < graph->node_count && fits; n++) {
        const td__graph_node *node = p->node = &graph->nodes[n];
        if (source->skip[n]) {
            continue;
        }
        for (size_t i = 0; i < node->output_count; i++) {
            (void)td__graph_extent_out(p, i, TD__GRAPH_UNDEFINED, -1);
        }
        const td__graph_operator *known =
            td__graph_find_operator(node->domain, node->op_type, graph->opset);
        fits = !known || !known->infer || known->infer(p);
        for (size_t i = 0; i < node->output_count; i++) {
            if (node->outputs[i] >= 0) {
                consult_file(p, node->outputs[i]);
            }
        }
    }
    return fits;
}

/* --- facts ---------------------------------------------------------------------------------- */

static void store_shape(const td__graph_inference *p, int32_t value) {
    const td__graph_extent *extent = &p->extents[value];
    td__graph_fact *fact = &p->source->facts[value];
    bool real = extent->known && td__graph_is_stored(extent->type) &&
                td__graph_storage(extent->type) == TD_FLOAT32;
    int32_t rank = extent->known ? extent->rank : 0;
    fact->type = extent->type;
    fact->last = real && extent->last && rank >= 3;
    fact->batch = real && rank > 0 && td__graph_same_size(extent->dims[0], p->batch);
    fact->batch_second =
        real && !fact->last && rank > 1 && td__graph_same_size(extent->dims[1], p->batch);
    fact->shape = (td_shape){.rank = rank};
    for (int32_t i = 0; i < rank; i++) {
        int32_t to = !fact->last ? i : i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
        bool number = td__graph_is_number(extent->dims[i]) && extent->dims[i].plus >= 0;
        fact->shape.dims[to] = number ? extent->dims[i].plus : -1;
    }
}

static bool infer_with(td__graph_source *source, td__graph_inference *p, td__graph_size batch) {
    const td__graph *graph = source->graph;
    p->batch = batch;
    for (size_t v = 0; v < graph->value_count; v++) {
        td__free(p->extents[v].numbers);
        p->extents[v] = (td__graph_extent){0};
    }
    know_constants(p);
    know_input(p);
    if (!infer_nodes(p)) {
        return false;
    }
    for (size_t v = 0; v < graph->value_count; v++) {
        if (!source->facts[v].constant) {
            store_shape(p, (int32_t)v);
        }
    }
    const td__graph_fact *result = &source->facts[graph->outputs[0]];
    return result->batch || result->batch_second;
}

td_status td__graph_infer(td__graph_source *source, bool trusting, bool *complete,
                          td_error *error) {
    const td__graph *graph = source->graph;
    td__graph_sizes *sizes = td__calloc(1, sizeof *sizes);
    td__graph_inference p = {.source = source,
                             .opset = graph->opset,
                             .trusting = trusting,
                             .sizes = sizes,
                             .extents = td__calloc(graph->value_count + 1, sizeof *p.extents),
                             .declared = graph->values[graph->inputs[0]].shape.dims[0]};
    td_status status = sizes && p.extents ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    *complete = !status && infer_with(source, &p, td__graph_any_size(sizes));
    if (!status && !*complete && p.declared > 0) {
        *complete = infer_with(source, &p, td__onnx_number(p.declared));
        source->fixed_batch = *complete ? p.declared : 0;
    }
    for (size_t v = 0; p.extents && v < graph->value_count; v++) {
        td__free(p.extents[v].numbers);
    }
    td__free(p.unread.numbers);
    td__free(p.extents);
    td__free(sizes);
    return status;
}
