/* Event files: bytes as a file, and as the one event of a file whose frame is right. Read at once
 * and in pieces, they must give the same. */
#include "run/events.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct source {
    const uint8_t *data;
    size_t size, piece;
} source;

static ssize_t read_source(void *user, void *buffer, size_t size) {
    source *s = user;
    size = size < s->piece ? size : s->piece;
    size = size < s->size ? size : s->size;
    memcpy(buffer, s->data, size);
    s->data += size;
    s->size -= size;
    return (ssize_t)size;
}

/* Everything a record points to can be read. */
static td_status touch(void *user, const td_record *record, td_error *error) {
    (void)error;
    volatile size_t *sum = user;
    *sum += strlen(record->signal);
    if (record->form == TD_HISTOGRAM) {
        for (int32_t i = 0; i < record->histogram->bin_count; i++) {
            *sum += td_histogram_range(record->histogram, i).count > 0;
        }
    } else if (record->form == TD_TENSOR) {
        td_stats stats;
        if (td_stats_of(record->view, &stats, NULL) == TD_OK) {
            *sum += (size_t)stats.zeros;
        }
    } else if (record->form == TD_TEXT) {
        *sum += strlen(record->text);
    } else if (record->form == TD_IMAGE) {
        *sum += ((const uint8_t *)record->png)[record->png_size - 1];
    }
    return TD_OK;
}

static int64_t read_all(const uint8_t *data, size_t size, size_t piece, bool framed) {
    size_t sum = 0;
    td__problems problems = {0};
    td__decoder decoder = {.each = touch,
                           .user = &sum,
                           .first_step = INT64_MIN,
                           .last_step = INT64_MAX,
                           .problems = &problems};
    source s = {data, size, piece};
    td_error error = {0};
    td_status status = framed ? td__events_read(&decoder, "fuzz", read_source, &s, &error)
                              : td__decode_event(&decoder, data, size, &error);
    if (status != error.status || (framed && status)) {
        abort();
    }
    int64_t records = decoder.records;
    td__decoder_release(&decoder);
    td__problems_release(&problems);
    return records;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)read_all(data, size, 0, false);
    if (read_all(data, size, SIZE_MAX, true) != read_all(data, size, 5, true)) {
        abort();
    }
    return 0;
}
