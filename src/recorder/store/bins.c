#include "store/bins.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/parse.h"

#include <string.h>

enum { PACKED = 1, VARINT = 10, LOW = 0x7f, MORE = 0x80 };

/* ---- Writing -------------------------------------------------------------------------------- */

size_t td__bins_room(const td_histogram *histogram) {
    size_t a_bin = histogram->ranges ? 3 * (TD__NUMBER_TEXT + 2) : 2 * VARINT;
    return (size_t)histogram->bin_count * a_bin + TD__NUMBER_ROOM;
}

static char *put_number(uint64_t number, char *out) {
    for (; number >= MORE; number >>= 7) {
        *out++ = (char)(number | MORE);
    }
    *out++ = (char)number;
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

static char *put_ranges(const td_histogram *histogram, char *at) {
    *at++ = '[';
    for (int32_t i = 0; i < histogram->bin_count; i++) {
        at = put_range(histogram->ranges[i], at);
        *at++ = ',';
    }
    at -= histogram->bin_count > 0;
    *at++ = ']';
    return at;
}

size_t td__bins_pack(const td_histogram *histogram, char *out) {
    if (histogram->ranges) {
        return (size_t)(put_ranges(histogram, out) - out);
    }
    char *at = out;
    int32_t next = 0;
    *at++ = PACKED;
    for (int32_t i = 0; i < histogram->bin_count; i++) {
        td_bin bin = histogram->bins[i];
        at = put_number((uint64_t)(bin.index - next), at);
        at = put_number((uint64_t)bin.count, at);
        next = bin.index + 1;
    }
    return (size_t)(at - out);
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* Where the number ends, which is at most INT64_MAX; NULL when it does not, or is more. */
static const char *take_number(const char *at, const char *end, int64_t *number) {
    uint64_t value = 0;
    for (int shift = 0; at < end && shift < 63; shift += 7) {
        uint8_t byte = (uint8_t)*at++;
        value |= (uint64_t)(byte & LOW) << shift;
        if (!(byte & MORE)) {
            *number = (int64_t)value;
            return at;
        }
    }
    return NULL;
}

static bool unpack_bins(td__bins *bins, const char *at, const char *end, td_histogram *histogram) {
    if (!td__grow(&bins->bins, &bins->bin_capacity, TD_HISTOGRAM_BINS, TD_HISTOGRAM_BINS,
                  sizeof *bins->bins)) {
        return false;
    }
    int32_t count = 0;
    for (int64_t index = -1, empty, held; at < end; count++) {
        at = take_number(at, end, &empty);
        at = at ? take_number(at, end, &held) : NULL;
        if (!at || empty >= TD_HISTOGRAM_BINS - 1 - index || held == 0) {
            return false;
        }
        index += empty + 1;
        bins->bins[count] = (td_bin){.index = (int32_t)index, .count = held};
    }
    *histogram = (td_histogram){.bins = bins->bins, .bin_count = count};
    return true;
}

static bool parse_ranges(td__bins *bins, const char *text, td_histogram *histogram) {
    static const size_t max = (size_t)1 << 24;
    int32_t count = 0;
    if (*text++ != '[' ||
        !td__grow(&bins->ranges, &bins->range_capacity, 1, max, sizeof *bins->ranges)) {
        return false;
    }
    while (*text == '[' || *text == ',') {
        text += *text == ',';
        double numbers[3];
        for (int i = 0; i < 3; i++) {
            const char *end =
                *text == (i ? ',' : '[') ? td__parse_float64(text + 1, &numbers[i]) : NULL;
            if (!end) {
                return false;
            }
            text = end;
        }
        if (*text++ != ']' || !td__grow(&bins->ranges, &bins->range_capacity, (size_t)count + 1,
                                        max, sizeof *bins->ranges)) {
            return false;
        }
        bins->ranges[count++] = (td_range){numbers[0], numbers[1], numbers[2]};
    }
    *histogram = (td_histogram){.ranges = bins->ranges, .bin_count = count};
    return *text == ']';
}

bool td__bins_unpack(td__bins *bins, const char *text, size_t size, td_histogram *histogram) {
    if (size > 0 && *text == PACKED) {
        return unpack_bins(bins, text + 1, text + size, histogram);
    }
    return size > 0 && parse_ranges(bins, text, histogram);
}

void td__bins_release(td__bins *bins) {
    td__free(bins->bins);
    td__free(bins->ranges);
}
