#include "store/tags.h"

#include "base/memory.h"

#include <string.h>

enum { MAX_TAGS = 1 << 24 };

/* Eight bytes at a time; the table does not leave this process. */
static uint64_t hash_of(const char *name, size_t length) {
    uint64_t hash = length * 0x9E3779B97F4A7C15u, word = 0;
    for (; length >= 8; length -= 8, name += 8) {
        memcpy(&word, name, 8);
        hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, name, length);
    hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
    return hash ^ hash >> 29;
}

/* Zeros cannot be in a C string. */
static char *copy_name(const char *name, size_t length) {
    size_t zeros = 0;
    for (size_t i = 0; i < length; i++) {
        zeros += name[i] == 0;
    }
    char *copy = td__calloc(length + 2 * zeros + 1, 1), *out = copy;
    for (size_t i = 0; copy && i < length; i++) {
        if (name[i]) {
            *out++ = name[i];
        } else {
            memcpy(out, "%00", 3);
            out += 3;
        }
    }
    return copy;
}

static bool is_named(const td__tag *tag, const char *name, size_t length) {
    return tag->length == length && memcmp(tag->name, name, length) == 0;
}

static bool rehash_tags(td__tags *tags) {
    size_t size = tags->table_size ? 2 * tags->table_size : 64;
    uint32_t *table = td__calloc(size, sizeof *table);
    if (!table) {
        return false;
    }
    for (size_t i = 0; i < tags->count; i++) {
        size_t slot = tags->tags[i].hash & (size - 1);
        while (table[slot]) {
            slot = (slot + 1) & (size - 1);
        }
        table[slot] = (uint32_t)i + 1;
    }
    td__free(tags->table);
    tags->table = table;
    tags->table_size = size;
    return true;
}

static td__tag *find_tag(td__tags *tags, const char *name, size_t length, uint64_t hash,
                         uint32_t **slot) {
    size_t mask = tags->table_size - 1, at = hash & mask;
    for (; tags->table[at]; at = (at + 1) & mask) {
        td__tag *tag = &tags->tags[tags->table[at] - 1];
        if (tag->hash == hash && is_named(tag, name, length)) {
            return tag;
        }
    }
    *slot = &tags->table[at];
    return NULL;
}

td__tag *td__tags_find(td__tags *tags, const char *name, size_t length) {
    if (2 * (tags->count + 1) > tags->table_size && !rehash_tags(tags)) {
        return NULL;
    }
    uint32_t *slot = NULL;
    uint64_t hash = hash_of(name, length);
    td__tag *known = find_tag(tags, name, length, hash, &slot);
    if (known) {
        return known;
    }
    if (memchr(name, 0, length)) {
        char *clean = copy_name(name, length);
        td__tag *tag = clean ? td__tags_find(tags, clean, strlen(clean)) : NULL;
        td__free(clean);
        return tag;
    }
    if (!td__grow(&tags->tags, &tags->capacity, tags->count + 1, MAX_TAGS, sizeof *tags->tags)) {
        return NULL;
    }
    char *copy = copy_name(name, length);
    if (!copy) {
        return NULL;
    }
    tags->tags[tags->count] = (td__tag){.name = copy, .length = length, .hash = hash};
    *slot = (uint32_t)++tags->count;
    return &tags->tags[tags->count - 1];
}

void td__tags_release(td__tags *tags) {
    for (size_t i = 0; i < tags->count; i++) {
        td__free(tags->tags[i].name);
    }
    td__free(tags->tags);
    td__free(tags->table);
    *tags = (td__tags){0};
}
