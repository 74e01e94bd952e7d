/* The graph of a file run once over whole arrays, by the names of its inputs and outputs: for models that a
 * batch of examples does not describe. */
#include "base/folder.h"
#include "base/memory.h"
#include "data/npy.h"
#include "graph/run.h"
#include "model/format.h"
#include "tape/tape.h"
#include "tapedeck/apply.h"
#include "tensor/order.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct graph_run {
    td__graph *graph;
    td__graph_run *run;
    td_tape *tape;
    td_tensor **inputs; /* of the graph's inputs; owned */
} graph_run;

/* ---- Names ----------------------------------------------------------------------------------- */

/* "a, b, c" of values, as long as there is room. */
static void list_names(const td__graph *graph, const int32_t *values, size_t count, char *text,
                       size_t size) {
    size_t used = 0;
    *text = 0;
    for (size_t i = 0; i < count && used < size; i++) {
        int length = snprintf(text + used, size - used, "%s%.60s", i ? ", " : "",
                              graph->values[values[i]].name);
        used += length > 0 ? (size_t)length : 0;
    }
}

/* Where a value of that name is; -1, with the error set, when it is not there. */
static ptrdiff_t find_graph_value(const td__graph *graph, const int32_t *values, size_t count,
                                  const char *name, const char *what, td_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(graph->values[values[i]].name, name)) {
            return (ptrdiff_t)i;
        }
    }
    char list[400];
    list_names(graph, values, count, list, sizeof list);
    (void)td_error_set(error, TD_NOT_FOUND, "the graph has no %s '%s'; it has: %s", what, name,
                       list);
    return -1;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

static td_status check_shape(const td__graph_info *info, const td_shape *found, const char *path,
                             td_error *error) {
    bool fits = !info->has_shape || info->shape.rank == found->rank;
    for (int32_t i = 0; fits && info->has_shape && i < found->rank; i++) {
        fits = info->shape.dims[i] < 0 || info->shape.dims[i] == found->dims[i];
    }
    char has[TD_SHAPE_TEXT_SIZE], takes[TD_SHAPE_TEXT_SIZE];
    return fits ? TD_OK
                : td_error_set(error, TD_BAD_SHAPE, "%s: input '%.100s' takes %s (-1: any), got %s",
                               path, info->name, td_shape_text(&info->shape, takes),
                               td_shape_text(found, has));
}

/* Whole numbers are only taken from whole numbers. */
static void convert_array(const td__array *array, int64_t rows, td_tensor *to) {
    td_dtype dtype = td_tensor_dtype(to);
    void *data = td_tensor_data(to);
    for (int64_t row = 0, at = 0; row < rows; row++) {
        for (int64_t i = 0; i < array->count; i++, at++) {
            double value = td__array_value(array, row, i);
            if (dtype == TD_FLOAT32) {
                ((float *)data)[at] = (float)value;
            } else if (dtype == TD_FLOAT64) {
                ((double *)data)[at] = value;
            } else {
                ((int64_t *)data)[at] = td__array_integer(array, row, i);
            }
        }
    }
}

static td_status read_input(const td__graph_info *info, const char *path, td_tensor **made,
                            td_error *error) {
    td__bytes bytes = {0};
    td__array array = {0};
    td_shape shape = {0};
    int64_t rows = 0;
    if (!td__graph_is_stored(info->type)) {
        return td_error_set(error, TD_UNSUPPORTED, "input '%.100s' is of type %s", info->name,
                            td__graph_type_name(info->type));
    }
    td_dtype dtype = td__graph_storage(info->type);
    td_status status = td__bytes_map(&bytes, path, error);
    status = status ? status : td__npy_parse_whole(&array, &rows, &shape, &bytes, path, error);
    status = status ? status : check_shape(info, &shape, path, error);
    if (!status && dtype == TD_INT64 && td__element_is_float(array.element)) {
        status = td_error_set(error, TD_DTYPE,
                              "%s: input '%.100s' is of type %s, the file has "
                              "fractions",
                              path, info->name, td__graph_type_name(info->type));
    }
    if (!status) {
        *made = td_tensor_create(info->name, dtype, shape, error);
        status = *made ? TD_OK : TD_MEMORY;
    }
    if (!status) {
        convert_array(&array, rows, *made);
        td__graph_settle(info->type, td_tensor_count(*made), td_tensor_data(*made));
    }
    td__array_release(&array);
    td__bytes_release(&bytes);
    return status;
}

static td_status read_inputs(graph_run *g, size_t count, const td_named_file *files,
                             td_error *error) {
    const td__graph *graph = g->graph;
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < count; i++) {
        ptrdiff_t at = find_graph_value(graph, graph->inputs, graph->input_count, files[i].name,
                                        "input", error);
        if (at < 0) {
            return TD_NOT_FOUND;
        }
        if (g->inputs[at]) {
            return td_error_set(error, TD_INVALID, "input '%s' is given twice", files[i].name);
        }
        status =
            read_input(&graph->values[graph->inputs[at]], files[i].path, &g->inputs[at], error);
    }
    for (size_t i = 0; !status && i < graph->input_count; i++) {
        const td__graph_info *info = &graph->values[graph->inputs[i]];
        char text[TD_SHAPE_TEXT_SIZE];
        if (!g->inputs[i]) {
            status =
                td_error_set(error, TD_NOT_FOUND, "input '%.100s', %s %s, is not given", info->name,
                             td__graph_type_name(info->type),
                             info->has_shape ? td_shape_text(&info->shape, text) : "of any shape");
        }
    }
    return status;
}

/* ---- Outputs --------------------------------------------------------------------------------- */

/* The type that an array has in a file; smaller ones than numpy has are written as what
 * they are kept in, or in a byte. */
static td_dtype written_type(td__graph_type type) {
    static const td_dtype types[] = {[TD__GRAPH_UINT8] = TD_UINT8,   [TD__GRAPH_INT8] = TD_INT8,
                                     [TD__GRAPH_UINT16] = TD_UINT16, [TD__GRAPH_INT16] = TD_INT16,
                                     [TD__GRAPH_INT32] = TD_INT32,   [TD__GRAPH_INT64] = TD_INT64,
                                     [TD__GRAPH_BOOL] = TD_BOOL,     [TD__GRAPH_UINT32] = TD_UINT32,
                                     [TD__GRAPH_UINT64] = TD_UINT64, [TD__GRAPH_UINT4] = TD_UINT8,
                                     [TD__GRAPH_INT4] = TD_INT8,     [TD__GRAPH_UINT2] = TD_UINT8,
                                     [TD__GRAPH_INT2] = TD_INT8};
    td_dtype storage = td__graph_storage(type);
    return storage == TD_INT64 ? types[type] : storage;
}

/* Numbers of fewer bytes are kept as int64. */
static bool write_values(int file, const td_tensor *tensor, td_dtype dtype, off_t at) {
    size_t size = td_dtype_size(dtype), count = (size_t)td_tensor_count(tensor);
    const char *data = td_tensor_data((td_tensor *)tensor);
    if (size == td_dtype_size(td_tensor_dtype(tensor))) {
        td_view own = td_view_of(tensor), little = {0};
        bool written = td__view_to_file(&own, &little, NULL) == TD_OK &&
                       td__write_all(file, little.data, count * size, at);
        td__view_release(&little);
        return written;
    }
    enum { PIECE = 4096 };
    char piece[PIECE * sizeof(int32_t)];
    bool good = true;
    for (size_t i = 0; good && i < count;) {
        size_t some = count - i < PIECE ? count - i : PIECE;
        for (size_t k = 0; k < some; k++) {
            uint64_t bits = (uint64_t)((const int64_t *)(const void *)data)[i + k];
            for (size_t b = 0; b < size; b++) {
                piece[k * size + b] = (char)(bits >> (8 * b));
            }
        }
        good = td__write_all(file, piece, some * size, at);
        at += (off_t)(some * size);
        i += some;
    }
    return good;
}

typedef struct array {
    td_dtype type; /* that it is written as */
    const td_tensor *tensor;
} array;

static td_status write_array(void *context, int file, td_error *error) {
    (void)error;
    const array *a = context;
    char header[TD__NPY_HEADER];
    td_shape shape = td_tensor_shape(a->tensor);
    size_t head = td__npy_header(header, a->type, &shape);
    return td__write_all(file, header, head, 0) &&
                   write_values(file, a->tensor, a->type, (off_t)head)
               ? TD_OK
               : TD_IO;
}

static td_status write_outputs(graph_run *g, size_t count, const td_named_file *files,
                               td_error *error) {
    const td__graph *graph = g->graph;
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < count; i++) {
        ptrdiff_t at = find_graph_value(graph, graph->outputs, graph->output_count, files[i].name,
                                        "output", error);
        if (at < 0) {
            return TD_NOT_FOUND;
        }
        int32_t value = graph->outputs[at];
        const td__graph_value *made = td__graph_run_value(g->run, value);
        if (made->list || made->none || made->type == TD__GRAPH_STRING) {
            return td_error_set(error, TD_UNSUPPORTED, "output '%.100s' is %s, no array of numbers",
                                files[i].name,
                                made->list   ? "a sequence"
                                : made->none ? "an optional value that is not there"
                                             : "text");
        }
        const td_tensor *tensor = td__graph_run_plain(g->run, g->tape, value);
        status = tensor ? td__draft_write(files[i].path, false, write_array,
                                          &(array){written_type(made->type), tensor}, error)
                        : td_tape_status(g->tape, error);
    }
    return status;
}

/* ---- Running --------------------------------------------------------------------------------- */

static td_status run_graph(graph_run *g, td_error *error) {
    td__graph_run_begin(g->run);
    for (size_t i = 0; i < g->graph->input_count; i++) {
        td__graph_run_set(g->run, i, g->graph->values[g->graph->inputs[i]].type, g->inputs[i]);
    }
    return td__graph_run_nodes(g->run, g->tape, 0, g->graph->node_count)
               ? TD_OK
               : td_tape_status(g->tape, error);
}

static td_status open_graph(graph_run *g, const char *model, int64_t memory, td_error *error) {
    td__model_file *file = td__model_file_open(model, error);
    td_status status = file ? TD_OK : TD_FORMAT;
    if (file && !file->format->graph) {
        status = td_error_set(error, TD_UNSUPPORTED,
                              "arrays for inputs and outputs by name are for files of ONNX, "
                              "TensorFlow Lite and torch.export");
    }
    if (!status) {
        g->graph = file->format->graph(file, error);
        g->run = g->graph ? td__graph_run_create(g->graph, error) : NULL;
        status = g->run ? TD_OK : TD_FORMAT;
    }
    td__model_file_close(file);
    if (!status) {
        g->tape = td_tape_create(
            &(td_tape_options){.size = sizeof(td_tape_options), .inference = true}, error);
        g->inputs = td__calloc(g->graph->input_count + 1, sizeof(td_tensor *));
        status = g->tape && g->inputs ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    }
    if (!status) {
        td__tape_limit(g->tape, memory > 0 ? (size_t)memory : td__memory_half());
    }
    return status;
}

td_status td_predict_named(const char *model, size_t input_count, const td_named_file *inputs,
                           size_t output_count, const td_named_file *outputs, int64_t memory,
                           td_error *error) {
    graph_run g = {0};
    td_error reason = {0};
    td_status status = open_graph(&g, model, memory, &reason);
    status = status ? status : read_inputs(&g, input_count, inputs, &reason);
    for (size_t i = 0; !status && i < output_count; i++) { /* before the work, not after */
        status = find_graph_value(g.graph, g.graph->outputs, g.graph->output_count, outputs[i].name,
                                  "output", &reason) < 0
                     ? TD_NOT_FOUND
                     : TD_OK;
    }
    status = status ? status : run_graph(&g, &reason);
    status = status ? status : write_outputs(&g, output_count, outputs, &reason);
    for (size_t i = 0; g.inputs && i < g.graph->input_count; i++) {
        td_tensor_destroy(g.inputs[i]);
    }
    td__free(g.inputs);
    td_tape_destroy(g.tape);
    td__graph_run_destroy(g.run);
    td__graph_destroy(g.graph);
    bool named = !strncmp(reason.text, model, strlen(model));
    return status ? td_error_set(error, reason.status ? reason.status : status, "%s%s%s",
                                 named ? "" : model, named ? "" : ": ", reason.text)
                  : TD_OK;
}
