/* Any bytes as the three files of a SavedModel, each behind its length (4 bytes, little-endian): as a
 * model, and its variables as tensors. */
#include "keras/saved_model.h"
#include "saved_parts.h"
#include "tensorflow/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static volatile uint64_t sum;
    const uint8_t *at = data, *end = size ? data + size : data;
    part metadata = take_part(&at, end), index = take_part(&at, end), values = take_part(&at, end);
    td_error error = {0};
    td_model *model = td__keras_saved_parse("fuzz", metadata.data, metadata.size, index.data,
                                            index.size, values.data, values.size, &error);
    if (!model && !error.text[0]) {
        abort();
    }
    td_model_destroy(model);
    td__bundle bundle = {0};
    td__tensor_list list = {0};
    if (!td__bundle_parse(&bundle, "fuzz", index.data, index.size, values.data, values.size,
                          &error) &&
        !td__bundle_list(&bundle, &list, &error)) {
        for (size_t i = 0; i < list.count; i++) {
            const td_view *view = &list.items[i].view;
            int64_t count = 0;
            if (td_shape_check(&view->shape, view->dtype, &count, NULL)) {
                abort();
            }
            for (size_t k = 0; k < (size_t)count * td_dtype_size(view->dtype); k++) {
                sum += ((const uint8_t *)view->data)[k];
            }
        }
    }
    td__tensor_list_release(&list);
    td__bundle_release(&bundle);
    return 0;
}
