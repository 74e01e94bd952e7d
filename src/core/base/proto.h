/* Reading protocol buffers where they lie: a cursor over fields, never past its end.
 *
 * A field that does not fit its message ends the message and sets `bad`.
 */
#ifndef TAPEDECK_BASE_PROTO_H
#define TAPEDECK_BASE_PROTO_H

#include "base/half.h"
#include "base/little.h"

enum { TD__VARINT = 0, TD__FIXED64 = 1, TD__BYTES = 2, TD__FIXED32 = 5 };

typedef struct td__proto {
    const uint8_t *p, *end;
    bool bad;
} td__proto;

/* One field; its wire type decides which members are set. */
typedef struct td__proto_field {
    uint32_t number;
    uint32_t wire;
    union {
        uint64_t bits; /* VARINT, FIXED64, FIXED32 */
        size_t size;   /* BYTES */
    };
    const uint8_t *data; /* BYTES */
} td__proto_field;

static inline td__proto td__proto_of(const void *data, size_t size) {
    const uint8_t *p = data;
    return (td__proto){p, size ? p + size : p, false};
}

static inline td__proto td__proto_in(const td__proto_field *field) {
    return td__proto_of(field->data, field->size);
}

static inline double td__double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline bool td__proto_fail(td__proto *message) {
    message->bad = true;
    message->p = message->end;
    return false;
}

static inline bool td__proto_varint(td__proto *message, uint64_t *value) {
    if (message->p < message->end && *message->p < 0x80) { /* most are short */
        *value = *message->p++;
        return true;
    }
    uint64_t made = 0;
    for (unsigned shift = 0; message->p < message->end && shift < 64; shift += 7) {
        uint8_t byte = *message->p++;
        made |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = made;
            return true;
        }
    }
    return td__proto_fail(message);
}

/* The next field; false at the end, and when something is wrong. */
static inline bool td__proto_next(td__proto *message, td__proto_field *field) {
    uint64_t key = 0, length = 0;
    if (message->p == message->end || !td__proto_varint(message, &key)) {
        return false;
    }
    field->number = (uint32_t)(key >> 3);
    field->wire = key & 7;
    field->data = NULL;
    size_t left = (size_t)(message->end - message->p);
    switch (field->wire) {
    case TD__VARINT:
        return td__proto_varint(message, &field->bits);
    case TD__FIXED64:
        if (left < 8) {
            return td__proto_fail(message);
        }
        field->bits = td__load64(message->p);
        message->p += 8;
        return true;
    case TD__FIXED32:
        if (left < 4) {
            return td__proto_fail(message);
        }
        field->bits = td__load32(message->p);
        message->p += 4;
        return true;
    case TD__BYTES:
        if (!td__proto_varint(message, &length) || length > (size_t)(message->end - message->p)) {
            return td__proto_fail(message);
        }
        field->data = message->p;
        field->size = (size_t)length;
        message->p += length;
        return true;
    default:
        return td__proto_fail(message);
    }
}

#endif
