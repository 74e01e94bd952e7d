/* Any bytes as the three files of a SavedModel whose graph is read, each behind its length (4 bytes,
 * little-endian). */
#include "tensorflow/saved_graph.h"
#include "graph/build.h"
#include "saved_parts.h"
#include "tensorflow/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *at = data, *end = size ? data + size : data;
    part graph_file = take_part(&at, end), index = take_part(&at, end),
         values = take_part(&at, end);
    td_error error = {0};
    td__bundle bundle = {0};
    if (td__bundle_parse(&bundle, "fuzz", index.data, index.size, values.data, values.size,
                         &error)) {
        td__bundle_release(&bundle); /* without variables */
        bundle = (td__bundle){0};
    }
    error = (td_error){0};
    td__graph *graph = td__saved_graph("fuzz", graph_file.data, graph_file.size, &bundle, &error);
    td_model *model = graph ? td__graph_model_built(graph, "fuzz", &error) : NULL;
    if (!model && !error.text[0]) {
        abort();
    }
    td_model_destroy(model);
    td__bundle_release(&bundle);
    return 0;
}
