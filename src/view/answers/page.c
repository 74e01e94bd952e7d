#include "answers/page.h"

#include "base/memory.h"

#include <string.h>
#include <zlib.h>

const td__page_file *td__page_find(const char *path) {
    for (size_t i = 0; i < td__page_file_count; i++) {
        if (strcmp(td__page_files[i].path, path) == 0) {
            return &td__page_files[i];
        }
    }
    return NULL;
}

bool td__page_text(const td__page_file *file, td__output *out) {
    enum { GZIP = 16 + MAX_WBITS };
    uint8_t *text = td__calloc(file->plain_size + 1, 1);
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)file->data,
                       .avail_in = (uInt)file->size,
                       .next_out = text,
                       .avail_out = (uInt)file->plain_size};
    bool good = text && inflateInit2(&stream, GZIP) == Z_OK;
    if (good) {
        good = inflate(&stream, Z_FINISH) == Z_STREAM_END;
        inflateEnd(&stream);
    }
    if (good) {
        td__put(out, text, file->plain_size);
    }
    td__free(text);
    return good && !out->failed;
}
