/* PNG and JPEG: decoded as grey and as colour, with and without transparency, where they claim to
 * be small. */
#include "data/image.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td__bytes bytes = {data, size, true};
    td__image_size image = {0};
    td_error error = {0};
    if (td__image_describe(&bytes, "fuzz", &image, &error) ||
        image.height * image.width > 1 << 16) {
        return 0;
    }
    for (image.channels = 1; image.channels <= 4; image.channels++) {
        uint8_t *pixels = malloc((size_t)(image.height * image.width * image.channels));
        if (!pixels) {
            abort();
        }
        td_status status = td__image_decode(&bytes, "fuzz", &image, pixels, &error);
        (void)status;
        free(pixels);
    }
    return 0;
}
