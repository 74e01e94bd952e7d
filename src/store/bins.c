/* The edges of the logarithmic bins are 4096 numbers and one: each is made into text once. */
#include "store/bins.h"

#include "base/memory.h"
#include "base/number.h"

#include <string.h>

typedef struct td__edge_text {
    uint8_t length; /* 0: not made yet */
    char text[TD__NUMBER_TEXT];
} edge_text;

size_t td__bins_room(const td_histogram *histogram) {
    return (size_t)histogram->bin_count * 3 * (TD__NUMBER_TEXT + 2) + TD__NUMBER_ROOM;
}

/* Where the bin of that index begins; the last one ends where the one after it would. */
static char *put_edge(td__bins *bins, int32_t index, char *out) {
    edge_text *edge = &bins->edges[index];
    if (!edge->length) {
        char made[TD__NUMBER_ROOM];
        double value = index < TD_HISTOGRAM_BINS ? td_bin_left(index) : td_bin_right(index - 1);
        edge->length = (uint8_t)td__format_value(made, value);
        memcpy(edge->text, made, edge->length);
    }
    memcpy(out, edge->text, sizeof edge->text); /* of a fixed size: no call */
    return out + edge->length;
}

static char *put_bin(td__bins *bins, td_bin bin, char *out) {
    *out++ = '[';
    out = put_edge(bins, bin.index, out);
    *out++ = ',';
    out = put_edge(bins, bin.index + 1, out);
    *out++ = ',';
    out += td__format_uint(out, (uint64_t)bin.count);
    *out++ = ']';
    return out;
}

static char *put_range(td_range range, char *out) {
    *out++ = '[';
    out += td__format_double(out, range.left);
    *out++ = ',';
    out += td__format_double(out, range.right);
    *out++ = ',';
    out += td__format_double(out, range.count);
    *out++ = ']';
    return out;
}

size_t td__bins_format(td__bins *bins, const td_histogram *histogram, char *out) {
    if (!bins->edges && !histogram->ranges) {
        bins->edges = td__calloc(TD_HISTOGRAM_BINS + 1, sizeof *bins->edges);
        if (!bins->edges) {
            return 0;
        }
    }
    char *at = out;
    *at++ = '[';
    for (int32_t i = 0; i < histogram->bin_count; i++) {
        at = histogram->ranges ? put_range(histogram->ranges[i], at)
                               : put_bin(bins, histogram->bins[i], at);
        *at++ = ',';
    }
    at -= histogram->bin_count > 0;
    *at++ = ']';
    return (size_t)(at - out);
}

void td__bins_release(td__bins *bins) {
    td__free(bins->edges);
}
