/* Reading tables of sorted strings; see sorted.h.
 *
 *     file   = blocks, then a footer of 48 bytes: two handles (offset, size), padding, magic
 *     block  = entries, the offsets of restarts (4 bytes each), how many; then its type, its checksum
 *     entry  = shared, unshared, size of the value (varints), the key's unshared end, the value
 */
#include "tensorflow/sorted.h"

#include "base/crc32c.h"
#include "base/memory.h"
#include "base/proto.h"

#define MAGIC UINT64_C(0xdb4775248b80fb57)
enum { FOOTER = 48, TRAILER = 5, EXPANSION = 32, PLAIN = 0, SNAPPY = 1 };

typedef struct table {
    const unsigned char *bytes;
    size_t size;
    const char *origin;
    td__sorted_each *each;
    void *user;
} table;

typedef struct block {
    const unsigned char *data;
    size_t size;
    unsigned char *owned;
} block;

static td_status damaged(const table *t, const char *what, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: a damaged checkpoint index: %s", t->origin, what);
}

bool td__sorted_recognise(const void *bytes, size_t size) {
    return size >= FOOTER && td__load64((const unsigned char *)bytes + size - 8) == MAGIC;
}

static bool is_sound(const unsigned char *data, size_t size) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    (void)data;
    (void)size;
    return true;
#else
    uint32_t crc = td__crc32c(0, data, size + 1);
    return td__load32(data + size + 1) == (crc >> 15 | crc << 17) + 0xa282ead8u;
#endif
}

static td_status open_block(const table *t, td__proto *handle, block *b, td_error *error) {
    uint64_t offset, size;
    if (!td__proto_varint(handle, &offset) || !td__proto_varint(handle, &size) ||
        t->size < TRAILER || offset > t->size - TRAILER || size > t->size - TRAILER - offset) {
        return damaged(t, "a block lies outside of it", error);
    }
    *b = (block){.data = t->bytes + offset, .size = (size_t)size};
    if (!is_sound(b->data, b->size)) {
        return damaged(t, "a checksum is wrong", error);
    }
    unsigned type = b->data[size];
    if (type == SNAPPY) {
        b->owned = td__snappy_unpack(b->data, b->size, b->size * EXPANSION + 64, &b->size);
        b->data = b->owned;
    }
    return type == SNAPPY && !b->owned ? damaged(t, "a packed block", error)
           : type > SNAPPY ? td_error_set(error, TD_UNSUPPORTED, "%s: blocks packed with method %u",
                                          t->origin, type)
                           : TD_OK;
}

/* Calls each with the entries of a block. */
static td_status read_block(const table *t, const block *b, td__sorted_each *each, void *user,
                            td_error *error) {
    char key[TD__SORTED_KEY_MAX + 1];
    size_t length = 0;
    uint32_t restarts = b->size >= 4 ? td__load32(b->data + b->size - 4) : 0;
    if (b->size < 4 || restarts > (b->size - 4) / 4) {
        return damaged(t, "a block's restarts", error);
    }
    td__proto at = td__proto_of(b->data, b->size - 4 - (size_t)restarts * 4);
    td_status status = TD_OK;
    while (at.p < at.end && !status) {
        uint64_t shared, more, size;
        if (!td__proto_varint(&at, &shared) || !td__proto_varint(&at, &more) ||
            !td__proto_varint(&at, &size) || shared > length ||
            more > TD__SORTED_KEY_MAX - shared || more > (size_t)(at.end - at.p) ||
            size > (size_t)(at.end - at.p) - more) {
            return damaged(t, "an entry does not fit its block", error);
        }
        memcpy(key + shared, at.p, (size_t)more);
        length = (size_t)(shared + more);
        key[length] = 0;
        status = each(user, key, length, at.p + more, (size_t)size, error);
        at.p += more + size;
    }
    return status;
}

/* An entry of the index: the handle of a block. */
static td_status follow_block(void *user, const char *key, size_t key_size,
                              const unsigned char *value, size_t value_size, td_error *error) {
    const table *t = user;
    td__proto handle = td__proto_of(value, value_size);
    block b = {0};
    (void)key;
    (void)key_size;
    td_status status = open_block(t, &handle, &b, error);
    status = status ? status : read_block(t, &b, t->each, t->user, error);
    td__free(b.owned);
    return status;
}

td_status td__sorted_read(const void *bytes, size_t size, const char *origin, td__sorted_each *each,
                          void *user, td_error *error) {
    table t = {bytes, size, origin, each, user};
    if (!td__sorted_recognise(bytes, size)) {
        return damaged(&t, "it has no end; is it cut short?", error);
    }
    td__proto footer = td__proto_of(t.bytes + size - FOOTER, FOOTER - 8);
    uint64_t unused;
    block index = {0};
    if (!td__proto_varint(&footer, &unused) || !td__proto_varint(&footer, &unused)) {
        return damaged(&t, "its end", error);
    }
    td_status status = open_block(&t, &footer, &index, error);
    status = status ? status : read_block(&t, &index, follow_block, &t, error);
    td__free(index.owned);
    return status;
}
