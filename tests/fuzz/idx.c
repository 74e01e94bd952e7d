/* IDX: what the parser accepts can be read to its last element. */
#include "array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td__bytes bytes = {data, size, true};
    td__array array = {0};
    int64_t rows = 0;
    td_error error = {0};
    td_status status = td__idx_parse(&array, &rows, &bytes, "fuzz", &error);
    if (status != error.status) {
        abort();
    }
    if (!status) {
        read_all(&array, rows);
    }
    td__array_release(&array);
    return 0;
}
