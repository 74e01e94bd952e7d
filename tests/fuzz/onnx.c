/* Any bytes as an ONNX model; one that can be run is, on ones and zeros, in a few megabytes. */
#include "onnx/onnx.h"
#include "graph/run.h"
#include "tape/tape.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_INPUTS = 8, MOST_ELEMENTS = 4096, MOST_NODES = 256, MEMORY = 4 << 20, WORK = 1 << 26 };

/* The value of an input, where the graph says what it is; sizes that are not said are 1. */
static td_tensor *value_of(const td__graph_info *info) {
    td_shape shape = info->shape;
    int64_t count;
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dims[i] = shape.dims[i] < 0 ? 1 : shape.dims[i];
    }
    td_dtype dtype = td__graph_storage(info->type);
    if (!info->has_shape || !td__graph_is_stored(info->type) ||
        td_shape_check(&shape, dtype, &count, NULL) || count > MOST_ELEMENTS) {
        return NULL;
    }
    td_tensor *value = td_tensor_create("input", dtype, shape, NULL);
    for (int64_t i = 0; value && i < count; i += 2) {
        switch (dtype) {
        case TD_FLOAT32:
            ((float *)td_tensor_data(value))[i] = 1;
            break;
        case TD_FLOAT64:
            ((double *)td_tensor_data(value))[i] = 1;
            break;
        default:
            ((int64_t *)td_tensor_data(value))[i] = 1;
        }
    }
    return value;
}

static void run_graph(const td__graph *graph, td__graph_run *run, td_tape *tape) {
    td_tensor *inputs[MOST_INPUTS] = {0};
    bool ready = graph->input_count <= MOST_INPUTS && graph->node_count <= MOST_NODES;
    td__graph_run_begin(run);
    for (size_t i = 0; ready && i < graph->input_count; i++) {
        const td__graph_info *info = &graph->values[graph->inputs[i]];
        inputs[i] = value_of(info);
        ready = inputs[i];
        td__graph_run_set(run, i, info->type, inputs[i]);
    }
    td__tape_limit(tape, MEMORY);
    td__graph_run_set_work(run, WORK);
    if (ready && !td__graph_run_nodes(run, tape, 0, graph->node_count) &&
        td_tape_status(tape, NULL) == TD_OK) {
        abort(); /* a failure without a reason */
    }
    td_tape_reset(tape);
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        td_tensor_destroy(inputs[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td_error error = {0};
    td__graph *graph = td__onnx_parse(data, size, NULL, &error);
    if (!graph) {
        return error.text[0] ? 0 : -1;
    }
    td__graph_run *run = td__graph_run_create(graph, &error);
    td_tape *tape = run ? td_tape_create(NULL, &error) : NULL;
    if (tape) {
        run_graph(graph, run, tape);
    } else if (!error.text[0]) {
        abort();
    }
    td_tape_destroy(tape);
    td__graph_run_destroy(run);
    td__graph_destroy(graph);
    return 0;
}
