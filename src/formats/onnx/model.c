/* Models from ONNX files, and from what is kept of one. */
#include "onnx/parse.h"

#include "base/memory.h"
#include "graph/model.h"
#include "onnx/write.h"

td_model *td__onnx_model(const void *bytes, size_t size, const char *path, td__model_for *data,
                         td_error *error) {
    td__graph *graph = td__onnx_parse_lent(bytes, size, path, error);
    const td__graph_origin origin = {
        .path = path ? path : "ONNX model", .name = path ? NULL : "model", .bytes = size};
    td_model *model = graph ? td__graph_model(graph, &origin, data, error) : NULL;
    if (model && td__onnx_keep_file(model, bytes, size)) {
        (void)td_error_set(error, TD_MEMORY, "%s: out of memory", origin.path);
        td_model_destroy(model);
        return NULL;
    }
    return model;
}

td_model *td__onnx_restore(const void *bytes, size_t size, int64_t max_elements, const char *name,
                           const char *path, td_error *error) {
    /* Twice: two biases of a recurrent layer are one parameter. */
    size_t weights = 2 * (size_t)max_elements * sizeof(float);
    td__graph *graph = td__onnx_parse_stripped(bytes, size, weights, path, error);
    const td__graph_origin origin = {
        .path = path, .name = name, .bytes = size + weights, .stripped = true};
    td_model *model = graph ? td__graph_model(graph, &origin, NULL, error) : NULL;
    if (model && td__onnx_keep_file(model, bytes, size)) {
        (void)td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        td_model_destroy(model);
        return NULL;
    }
    return model;
}

/* ModelProto, written in the order of its fields as everybody does: ir_version, a small number, and
 * then one of the fields 2 (producer_name) to 8 (opset_import), of which 5 is a number too. */
bool td__onnx_recognise(const unsigned char *head, size_t size) {
    if (size < 4 || head[0] != (1 << 3 | TD__VARINT) || head[1] < 1 || head[1] > 31) {
        return false;
    }
    int number = head[2] >> 3, wire = head[2] & 7;
    return number >= 2 && number <= 8 && wire == (number == 5 ? TD__VARINT : TD__BYTES);
}
