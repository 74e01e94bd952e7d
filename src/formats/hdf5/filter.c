/* Deflate, shuffle (all first bytes, then all second bytes, …) and the Fletcher checksum. The one
 * place of this folder that uses zlib. */
#include "hdf5/filter.h"

#include <zlib.h>

enum { DEFLATE = 1, SHUFFLE = 2, FLETCHER32 = 3 };

bool td__h5_pipeline_read(td__h5_cursor body, td__h5_pipeline *pipeline) {
    *pipeline = (td__h5_pipeline){0};
    if (!body.at) {
        return true;
    }
    unsigned version = td__h5_byte(&body), count = td__h5_byte(&body);
    td__h5_skip(&body, version == 1 ? 6 : 0);
    if (count > TD__H5_FILTERS_MAXIMUM || version < 1 || version > 2) {
        return false;
    }
    pipeline->count = count;
    for (unsigned i = 0; i < count; i++) {
        unsigned id = (unsigned)td__h5_number(&body, 2);
        uint64_t name = version == 1 || id >= 256 ? td__h5_number(&body, 2) : 0;
        td__h5_skip(&body, 2); /* flags */
        uint64_t values = td__h5_number(&body, 2);
        td__h5_skip(&body, version == 1 ? (name + 7) / 8 * 8 : name);
        td__h5_skip(&body, 4 * values + (version == 1 && values % 2 ? 4 : 0));
        pipeline->ids[i] = id;
        if (id < DEFLATE || id > FLETCHER32) {
            pipeline->unsupported = "a filter other than deflate, shuffle and Fletcher's checksum";
        }
    }
    return !body.bad;
}

static bool inflate_bytes(const uint8_t *from, size_t size, uint8_t *to, size_t room,
                          size_t *made) {
    uLongf length = room;
    if (uncompress(to, &length, from, size) != Z_OK) {
        return false;
    }
    *made = length;
    return true;
}

static void unshuffle(const uint8_t *from, size_t size, size_t element, uint8_t *to) {
    size_t count = size / element;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < element; k++) {
            to[i * element + k] = from[k * count + i];
        }
    }
    memcpy(to + count * element, from + count * element, size - count * element);
}

/* Sums of big-endian 16-bit words; an odd byte at the end is the high half of one. */
static uint32_t fletcher32(const uint8_t *bytes, size_t size) {
    uint64_t low = 0, high = 0;
    for (size_t i = 0; i < size; i += 2) {
        low += (uint32_t)bytes[i] << 8 | (i + 1 < size ? bytes[i + 1] : 0u);
        low = (low & 0xffff) + (low >> 16);
        high += low;
        high = (high & 0xffff) + (high >> 16);
    }
    return (uint32_t)(high << 16 | low);
}

static bool check_fletcher32(const uint8_t *bytes, size_t size) {
    if (size < 4) {
        return false;
    }
    const uint8_t *sum = bytes + size - 4;
    uint32_t stored =
        sum[0] | (uint32_t)sum[1] << 8 | (uint32_t)sum[2] << 16 | (uint32_t)sum[3] << 24;
    return fletcher32(bytes, size - 4) == stored;
}

bool td__h5_pipeline_undo(const td__h5_pipeline *pipeline, uint32_t mask, size_t element,
                          const uint8_t *packed, size_t size, uint8_t *const scratch[2],
                          size_t room, const uint8_t **unpacked, size_t *unpacked_size) {
    const uint8_t *at = packed;
    for (unsigned i = pipeline->count; i-- > 0;) {
        uint8_t *to = scratch[at == scratch[0]];
        if (mask >> i & 1) {
            continue;
        }
        if (pipeline->ids[i] == FLETCHER32) {
            if (!check_fletcher32(at, size)) {
                return false;
            }
            size -= 4;
            continue;
        }
        if (pipeline->ids[i] == DEFLATE) {
            if (!inflate_bytes(at, size, to, room, &size)) {
                return false;
            }
        } else {
            if (size > room) {
                return false;
            }
            unshuffle(at, size, element, to);
        }
        at = to;
    }
    *unpacked = at;
    *unpacked_size = size;
    return true;
}
