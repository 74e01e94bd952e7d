/* Any bytes as what torch.save wrote: every tensor that is accepted lies inside. */
#include "torch/torch.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static volatile uint64_t sum;
    td_error error = {0};
    td__tensor_list list = {0};
    td_status status = td__torch_parse("fuzz", data, size, &list, &error);
    if (status != error.status || (status && !error.text[0])) {
        abort();
    }
    for (size_t i = 0; i < list.count; i++) {
        const td_view *view = &list.items[i].view;
        int64_t count;
        if (td_shape_check(&view->shape, view->dtype, &count, NULL)) {
            abort();
        }
        for (size_t k = 0; k < (size_t)count * td_dtype_size(view->dtype); k++) {
            sum += ((const uint8_t *)view->data)[k];
        }
    }
    td__tensor_list_release(&list);
    return 0;
}
