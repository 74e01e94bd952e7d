/* Bytes of ONNX files on their way out. Each message is measured before it is written, because its length comes
 * first: everything is called once with an output that only counts, and once with one that has memory. */
#ifndef TAPEDECK_ONNX_WRITE_H
#define TAPEDECK_ONNX_WRITE_H

#include "graph/source.h"
#include "onnx/onnx.h"

/* Where bytes go; without memory they are only counted. */
typedef struct td__onnx_output {
    uint8_t *memory;
    size_t size;
} td__onnx_output;

/* What is written. */
typedef struct td__onnx_writing {
    const td__graph_source *source; /* of a model that was made from a graph; or NULL */
    const td_model *model;          /* whose parameters' values are written; NULL: none are */
    float *room;                    /* for the largest parameter */
    size_t next;                    /* the parameter that probably comes next */
    const td__graph *graph;
    size_t note_count;
    const td_model_note *notes;
} td__onnx_writing;

/* Writes the inside of a message. */
typedef void td__onnx_put_function(td__onnx_writing *w, const void *subject, td__onnx_output *out);

void td__onnx_put(td__onnx_output *out, const void *data, size_t size);
void td__onnx_put_varint(td__onnx_output *out, uint64_t value);
/* The beginning of field `number` with that many bytes. */
void td__onnx_put_header(td__onnx_output *out, uint32_t number, size_t size);
/* Field `number`, a message with what put writes. */
void td__onnx_put_message(td__onnx_writing *w, uint32_t number, td__onnx_put_function *put,
                          const void *subject, td__onnx_output *out);
/* raw_data of a TensorProto: the values of a parameter. */
void td__onnx_put_parameter(td__onnx_writing *w, const td__graph_parameter *parameter,
                            td__onnx_output *out);

/* ModelProto of w->graph (write_graph.c). */
void td__onnx_put_graph_file(td__onnx_writing *w, td__onnx_output *out);
/* The source's file with the values of w->model's parameters, or without (rewrite.c). */
void td__onnx_put_source_file(td__onnx_writing *w, const void *bytes, size_t size,
                              td__onnx_output *out);

/* Keeps the file that a model was made from, without its parameters' values; TD_MEMORY. */
TD_NODISCARD td_status td__onnx_keep_file(const td_model *model, const void *bytes, size_t size);

#endif
