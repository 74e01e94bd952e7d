/* Snappy: a length, then literals and copies of what was unpacked before. */
#include "base/memory.h"
#include "base/proto.h"
#include "tensorflow/sorted.h"

typedef struct unpacking {
    const unsigned char *at, *end;
    unsigned char *out;
    size_t used, size;
} unpacking;

static bool read_bytes(unpacking *u, unsigned count, size_t *number) {
    if ((size_t)(u->end - u->at) < count) {
        return false;
    }
    *number = 0;
    for (unsigned i = count; i-- > 0;) {
        *number = *number << 8 | u->at[i];
    }
    u->at += count;
    return true;
}

/* A length up to 60 stands in the tag, a larger one behind it. */
static bool literal(unpacking *u, unsigned tag) {
    size_t length = tag >> 2;
    if (length >= 60 && !read_bytes(u, (unsigned)length - 59, &length)) {
        return false;
    }
    length++;
    if (length > (size_t)(u->end - u->at) || length > u->size - u->used) {
        return false;
    }
    memcpy(u->out + u->used, u->at, length);
    u->at += length;
    u->used += length;
    return true;
}

/* A copy may overlap what it makes. */
static bool copy(unpacking *u, unsigned tag) {
    static const unsigned widths[] = {0, 1, 2, 4};
    size_t offset, length = (tag >> 2) + 1;
    if (!read_bytes(u, widths[tag & 3], &offset)) {
        return false;
    }
    if ((tag & 3) == 1) {
        length = (tag >> 2 & 7) + 4;
        offset |= (size_t)(tag >> 5) << 8;
    }
    if (!offset || offset > u->used || length > u->size - u->used) {
        return false;
    }
    for (size_t i = 0; i < length; i++, u->used++) {
        u->out[u->used] = u->out[u->used - offset];
    }
    return true;
}

unsigned char *td__snappy_unpack(const unsigned char *packed, size_t size, size_t max,
                                 size_t *unpacked) {
    td__proto head = td__proto_of(packed, size);
    uint64_t length;
    if (!td__proto_varint(&head, &length) || length > max) {
        return NULL;
    }
    unpacking u = {.at = head.p, .end = head.end, .size = (size_t)length};
    u.out = td__calloc(u.size + 1, 1);
    bool good = u.out;
    while (good && u.at < u.end) {
        unsigned tag = *u.at++;
        good = tag & 3 ? copy(&u, tag) : literal(&u, tag);
    }
    if (!good || u.used != u.size) {
        td__free(u.out);
        return NULL;
    }
    *unpacked = u.size;
    return u.out;
}
