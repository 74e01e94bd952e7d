/* ONNX files of models; see write.h. */
#include "onnx/write.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/proto.h"
#include "graph/build.h"
#include "tensor/element.h"

#include <stdio.h>
#include <unistd.h>

enum { TENSOR_RAW = 9 };
#define MAX_FILE ((size_t)INT32_MAX) /* of a message: protocol buffers have no longer ones */

/* --- bytes -------------------------------------------------------------------------------- */

void td__onnx_put(td__onnx_output *out, const void *data, size_t size) {
    if (out->memory && size) {
        memcpy(out->memory + out->size, data, size);
    }
    out->size += size;
}

void td__onnx_put_varint(td__onnx_output *out, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        td__onnx_put(out, &byte, 1);
        value >>= 7;
    } while (value);
}

void td__onnx_put_header(td__onnx_output *out, uint32_t number, size_t size) {
    td__onnx_put_varint(out, (uint64_t)number << 3 | TD__BYTES);
    td__onnx_put_varint(out, size);
}

void td__onnx_put_message(td__onnx_writing *w, uint32_t number, td__onnx_put_function *put,
                          const void *subject, td__onnx_output *out) {
    td__onnx_output length = {0};
    put(w, subject, &length);
    td__onnx_put_header(out, number, length.size);
    if (out->memory) {
        put(w, subject, out);
    } else {
        out->size += length.size;
    }
}

void td__onnx_put_parameter(td__onnx_writing *w, const td__graph_parameter *parameter,
                            td__onnx_output *out) {
    size_t bytes = sizeof(float) * (size_t)td__elements_from(&parameter->given, 0);
    td__onnx_put_header(out, TENSOR_RAW, bytes);
    if (out->memory) {
        const td_tensor *tensor =
            td_model_parameter_at(w->model, (size_t)(parameter - w->source->parameters))->tensor;
        td__graph_layout_copy(parameter->node, parameter->form, &parameter->given, w->room, true,
                              td_tensor_data(tensor));
        td__little_copy(w->room, w->room, bytes, sizeof(float));
    }
    td__onnx_put(out, w->room, bytes);
}

/* --- files -------------------------------------------------------------------------------- */

/* The file that the source was read from, or that of the graph. */
static void put_file(td__onnx_writing *w, td__onnx_output *out) {
    if (w->source && w->source->file) {
        td__onnx_put_source_file(w, w->source->file, w->source->file_size, out);
    } else {
        td__onnx_put_graph_file(w, out);
    }
}

/* out->memory NULL: memory is exhausted. */
static td__onnx_output write_file(td__onnx_writing *w) {
    td__onnx_output length = {0};
    put_file(w, &length);
    td__onnx_output out = {.memory = td__calloc(length.size + 1, 1)};
    if (out.memory) {
        put_file(w, &out);
    }
    return out;
}

td_status td__onnx_keep_file(const td_model *model, const void *bytes, size_t size) {
    td__graph_source *source = td__graph_source_of(model);
    td__onnx_writing w = {.source = source};
    td__onnx_output length = {0}, out = {0};
    td__onnx_put_source_file(&w, bytes, size, &length);
    out.memory = td__calloc(length.size + 1, 1);
    if (!out.memory) {
        return TD_MEMORY;
    }
    td__onnx_put_source_file(&w, bytes, size, &out);
    source->file = out.memory;
    source->file_size = out.size;
    return TD_OK;
}

uint8_t *td__onnx_stripped(const td_model *model, size_t *size) {
    const td__graph_source *source = td__graph_source_of(model);
    td__onnx_writing w = {.source = source, .graph = source->graph};
    td__onnx_output out = write_file(&w);
    *size = out.size;
    return out.memory;
}

/* Into the folder of path, or the present one. */
static td_status publish_onnx(const char *path, const td__onnx_output *out, td_error *error) {
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    if (slash && (size_t)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path) >=
                     sizeof folder) {
        return td_error_set(error, TD_INVALID, "%s: the path is too long", path);
    }
    int open_folder = td__folder_open(folder, error);
    if (open_folder < 0) {
        return TD_IO;
    }
    td_status status = td__file_publish(open_folder, slash ? slash + 1 : path, out->memory,
                                        out->size, false, error);
    close(open_folder);
    return status;
}

static td_status write_to(const char *path, td__onnx_writing *w, td_error *error) {
    td__onnx_output length = {0};
    put_file(w, &length);
    if (length.size > MAX_FILE) {
        return td_error_set(error, TD_UNSUPPORTED, "%s: a file of more than 2 GiB", path);
    }
    td__onnx_output out = write_file(w);
    td_status status = out.memory ? publish_onnx(path, &out, error)
                                  : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    td__free(out.memory);
    return status;
}

/* A model of layers, as the operators they are made of. */
static td_status save_layers(const td_model *model, const char *path, size_t count,
                             const td_model_note *notes, td_error *error) {
    td_error reason = {0};
    td__operators *list = td__operators_of_model(model, &reason);
    td__graph *graph = list ? td__graph_build(list, model->name, &reason) : NULL;
    td__operators_destroy(list);
    if (!graph) {
        return td_error_set(error, reason.status, "%s: %s", path, reason.text);
    }
    td__onnx_writing w = {.graph = graph, .note_count = count, .notes = notes};
    td_status status = write_to(path, &w, error);
    td__graph_destroy(graph);
    return status;
}

td_status td__onnx_save(const td_model *model, const char *path, size_t note_count,
                        const td_model_note *notes, td_error *error) {
    const td__graph_source *source = td__graph_source_of(model);
    if (!source) {
        return save_layers(model, path, note_count, notes, error);
    }
    int64_t largest = 1;
    for (size_t i = 0; i < source->parameter_count; i++) {
        int64_t count = td__elements_from(&source->parameters[i].given, 0);
        largest = count > largest ? count : largest;
    }
    td__onnx_writing w = {.source = source,
                          .model = model,
                          .room = td__calloc((size_t)largest, sizeof *w.room),
                          .graph = source->graph};
    td_status status = w.room ? write_to(path, &w, error)
                              : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    td__free(w.room);
    return status;
}
