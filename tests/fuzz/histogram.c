/* Histograms of run.db: what is taken has bins in increasing order, and is written as it was read. */
#include "store/bins.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    td__bins bins = {0};
    td_histogram histogram = {0};
    memcpy(text, data, size);
    text[size] = 0;
    if (td__bins_unpack(&bins, text, size, &histogram) && !histogram.ranges) {
        for (int32_t i = 0; i < histogram.bin_count; i++) {
            const td_bin *bin = &histogram.bins[i];
            if (bin->index < (i ? bin[-1].index + 1 : 0) || bin->index >= TD_HISTOGRAM_BINS ||
                bin->count <= 0) {
                abort();
            }
        }
        char *packed = malloc(td__bins_room(&histogram));
        size_t length = td__bins_pack(&histogram, packed);
        td_histogram again;
        td__bins second = {0};
        if (length > size || !td__bins_unpack(&second, packed, length, &again) ||
            again.bin_count != histogram.bin_count) {
            abort();
        }
        td__bins_release(&second);
        free(packed);
    }
    td__bins_release(&bins);
    free(text);
    return 0;
}
