/* ModelProto of a graph that was built from operators, and of what it consists of: no graphs inside of nodes, no
 * text, and only ONNX's own operators. */
#include "base/little.h"
#include "onnx/parse.h"
#include "onnx/write.h"
#include "tensor/tensor.h"

#include <stdio.h>

enum { IR_VERSION = 8 };

/* --- fields ------------------------------------------------------------------------------- */

static void put_int(td__onnx_output *out, uint32_t field, int64_t value) {
    td__onnx_put_varint(out, (uint64_t)field << 3 | TD__VARINT);
    td__onnx_put_varint(out, (uint64_t)value);
}

static void put_float(td__onnx_output *out, uint32_t field, float value) {
    td__onnx_put_varint(out, (uint64_t)field << 3 | TD__FIXED32);
    td__little_copy(&value, &value, sizeof value, sizeof value);
    td__onnx_put(out, &value, sizeof value);
}

static void put_text(td__onnx_output *out, uint32_t field, const char *text) {
    td__onnx_put_header(out, field, strlen(text));
    td__onnx_put(out, text, strlen(text));
}

/* --- tensors ------------------------------------------------------------------------------ */

/* raw_data. Integers and truth values are kept in 64 bits; files have the low bytes of them. */
static void put_values(td__graph_type type, const td_tensor *tensor, td__onnx_output *out) {
    size_t width = td__onnx_encoding_of(type)->bits / 8, kept = td_dtype_size(tensor->dtype);
    td__onnx_put_header(out, 9, (size_t)tensor->count * width);
    if (width == kept || !out->memory) {
        uint8_t *at = out->memory ? out->memory + out->size : NULL;
        td__onnx_put(out, tensor->data, (size_t)tensor->count * width);
        if (at) {
            td__little_copy(at, at, (size_t)tensor->count * width, width);
        }
        return;
    }
    for (int64_t i = 0; i < tensor->count; i++) {
        uint64_t bits = (uint64_t)((const int64_t *)tensor->data)[i];
        for (size_t k = 0; k < width; k++) {
            td__onnx_put(out, &(uint8_t){(uint8_t)(bits >> 8 * k)}, 1);
        }
    }
}

static void put_shape_and_type(const td_shape *shape, td__graph_type type, td__onnx_output *out) {
    for (int32_t i = 0; i < shape->rank; i++) {
        put_int(out, 1, shape->dims[i]);
    }
    put_int(out, 2, type);
}

/* TensorProto of an attribute. */
static void put_tensor(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    const td__graph_constant *constant = subject;
    (void)w;
    put_shape_and_type(&constant->tensor->shape, constant->type, out);
    put_values(constant->type, constant->tensor, out);
}

static const td__graph_parameter *find_parameter(td__onnx_writing *w, int32_t value) {
    const td__graph_source *source = w->source;
    size_t count = source && source->facts[value].parameter ? source->parameter_count : 0;
    for (size_t i = 0; i < count; i++) {
        const td__graph_parameter *p = &source->parameters[(w->next + i) % count];
        if (p->value == value) {
            w->next = (size_t)(p - source->parameters) + 1;
            return p;
        }
    }
    return NULL;
}

/* TensorProto of a constant; a parameter's values are the model's. */
static void put_initialiser(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    const td__graph_info *info = subject;
    const td__graph_parameter *p = find_parameter(w, (int32_t)(info - w->graph->values));
    if (p) {
        put_shape_and_type(&p->given, TD__GRAPH_FLOAT, out);
        put_text(out, 8, info->name);
        if (w->model) {
            td__onnx_put_parameter(w, p, out);
        }
    } else {
        put_tensor(w, &info->constant, out);
        put_text(out, 8, info->name);
    }
}

/* --- nodes -------------------------------------------------------------------------------- */

static void put_attribute(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    const td__graph_attribute *a = subject;
    put_text(out, 1, a->name);
    switch (a->kind) {
    case TD__GRAPH_ATTRIBUTE_INT:
        put_int(out, 3, a->integer);
        break;
    case TD__GRAPH_ATTRIBUTE_FLOAT:
        put_float(out, 2, a->number);
        break;
    case TD__GRAPH_ATTRIBUTE_TEXT:
        put_text(out, 4, a->text);
        break;
    case TD__GRAPH_ATTRIBUTE_TENSOR:
        td__onnx_put_message(w, 5, put_tensor, &a->constant, out);
        break;
    default:
        for (size_t i = 0; i < a->count; i++) {
            if (a->integers) {
                put_int(out, 8, a->integers[i]);
            } else if (a->numbers) {
                put_float(out, 7, a->numbers[i]);
            } else {
                put_text(out, 9, a->texts[i]);
            }
        }
        break;
    }
    put_int(out, 20, a->kind);
}

static const char *name_of(const td__onnx_writing *w, int32_t value) {
    return value < 0 ? "" : w->graph->values[value].name;
}

static void put_node(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    const td__graph_node *node = subject;
    for (size_t i = 0; i < node->input_count; i++) {
        put_text(out, 1, name_of(w, node->inputs[i]));
    }
    for (size_t i = 0; i < node->output_count; i++) {
        put_text(out, 2, name_of(w, node->outputs[i]));
    }
    put_text(out, 3, node->name);
    put_text(out, 4, node->op_type);
    for (size_t i = 0; i < node->attribute_count; i++) {
        td__onnx_put_message(w, 5, put_attribute, &node->attributes[i], out);
    }
}

/* --- values ------------------------------------------------------------------------------- */

typedef struct dimension {
    int64_t size;
    int32_t axis;
} dimension;

static void put_dimension(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    const dimension *dim = subject;
    char symbol[32] = "batch";
    (void)w;
    if (dim->axis > 0) {
        (void)snprintf(symbol, sizeof symbol, "size_%d", (int)dim->axis);
    }
    if (dim->size >= 0) {
        put_int(out, 1, dim->size);
    } else {
        put_text(out, 2, symbol);
    }
}

static void put_dimensions(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    const td__graph_info *info = subject;
    for (int32_t i = 0; i < info->shape.rank; i++) {
        const dimension dim = {info->shape.dims[i], i};
        td__onnx_put_message(w, 1, put_dimension, &dim, out);
    }
}

static void put_tensor_type(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    put_int(out, 1, ((const td__graph_info *)subject)->type);
    td__onnx_put_message(w, 2, put_dimensions, subject, out);
}

static void put_type(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    td__onnx_put_message(w, 1, put_tensor_type, subject, out);
}

static void put_value(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    put_text(out, 1, ((const td__graph_info *)subject)->name);
    td__onnx_put_message(w, 2, put_type, subject, out);
}

/* --- the file ----------------------------------------------------------------------------- */

/* Values that no node makes are numbered before all others. */
static size_t count_given(const td__graph *graph) {
    size_t given = graph->value_count;
    for (size_t n = 0; n < graph->node_count; n++) {
        for (size_t i = 0; i < graph->nodes[n].output_count; i++) {
            size_t made = (size_t)graph->nodes[n].outputs[i];
            given = graph->nodes[n].outputs[i] >= 0 && made < given ? made : given;
        }
    }
    return given;
}

static void put_graph(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    const td__graph *graph = subject;
    size_t given = count_given(graph);
    for (size_t i = 0; i < graph->node_count; i++) {
        td__onnx_put_message(w, 1, put_node, &graph->nodes[i], out);
    }
    put_text(out, 2, *graph->name ? graph->name : "model");
    for (size_t v = graph->input_count; v < given; v++) { /* inputs come first */
        td__onnx_put_message(w, 5, put_initialiser, &graph->values[v], out);
    }
    for (size_t i = 0; i < graph->input_count; i++) {
        td__onnx_put_message(w, 11, put_value, &graph->values[graph->inputs[i]], out);
    }
    size_t moved = w->source ? w->source->scores_output : 0; /* it was the first's place */
    for (size_t i = 0; i < graph->output_count; i++) {
        size_t from = i == 0 ? moved : i == moved ? 0 : i;
        td__onnx_put_message(w, 12, put_value, &graph->values[graph->outputs[from]], out);
    }
}

static void put_opset(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    (void)w;
    put_text(out, 1, "");
    put_int(out, 2, ((const td__graph *)subject)->opset);
}

static void put_note(td__onnx_writing *w, const void *subject, td__onnx_output *out) {
    const td_model_note *note = subject;
    (void)w;
    put_text(out, 1, note->key);
    put_text(out, 2, note->value);
}

void td__onnx_put_graph_file(td__onnx_writing *w, td__onnx_output *out) {
    put_int(out, 1, IR_VERSION);
    put_text(out, 2, "tapedeck");
    put_text(out, 3, td_version());
    td__onnx_put_message(w, 7, put_graph, w->graph, out);
    td__onnx_put_message(w, 8, put_opset, w->graph, out);
    for (size_t i = 0; i < w->note_count; i++) {
        td__onnx_put_message(w, 14, put_note, &w->notes[i], out);
    }
}
