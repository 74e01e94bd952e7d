/* A list of different texts with a hash table (FNV-1a, linear probing, at most half full). */
#include "base/hash.h"
#include "base/memory.h"
#include "data/table.h"

#include <stdio.h>
#include <string.h>

size_t td__character_length(const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    size_t length = c[0] < 0x80                   ? 1
                    : c[0] >= 0xC2 && c[0] < 0xE0 ? 2
                    : c[0] >= 0xE0 && c[0] < 0xF0 ? 3
                    : c[0] >= 0xF0 && c[0] < 0xF5 ? 4
                                                  : 0;
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool bad = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] >= 0xA0) ||
               (c[0] == 0xF0 && c[1] < 0x90) || (c[0] == 0xF4 && c[1] >= 0x90);
    return bad ? 0 : length;
}

bool td__name_clean(char *out, size_t size, const char *text) {
    size_t used = 0;
    while (*text) {
        char piece[8];
        size_t length = td__character_length(text);
        int wrote = length ? snprintf(piece, sizeof piece, "%.*s", (int)length, text)
                           : snprintf(piece, sizeof piece, "\\x%02X", (unsigned char)*text);
        if (used + (size_t)wrote >= size) {
            break;
        }
        memcpy(out + used, piece, (size_t)wrote);
        used += (size_t)wrote;
        text += length ? length : 1;
    }
    out[used] = 0;
    return !*text;
}

/* Where the text is, or the free slot where it belongs. */
static size_t find_slot(const td__names *names, const char *text) {
    uint64_t hash = td__hash_text(text);
    size_t slot = (hash ^ hash >> 32) & (names->slot_count - 1);
    while (names->slots[slot] && strcmp(names->items[names->slots[slot] - 1], text) != 0) {
        slot = (slot + 1) & (names->slot_count - 1);
    }
    return slot;
}

static bool grow_slots(td__names *names) {
    td__names larger = *names;
    larger.slot_count = names->slot_count ? names->slot_count * 2 : 32;
    larger.slots = td__calloc(larger.slot_count, sizeof *larger.slots);
    if (!larger.slots) {
        return false;
    }
    for (size_t i = 0; i < names->count; i++) {
        larger.slots[find_slot(&larger, names->items[i])] = (uint32_t)i + 1;
    }
    td__free(names->slots);
    *names = larger;
    return true;
}

int64_t td__names_find(const td__names *names, const char *text) {
    return names->slot_count ? (int64_t)names->slots[find_slot(names, text)] - 1 : -1;
}

int64_t td__names_add(td__names *names, const char *text) {
    int64_t found = td__names_find(names, text);
    if (found >= 0) {
        return found;
    }
    if ((names->count + 1) * 2 > names->slot_count && !grow_slots(names)) {
        return -1;
    }
    size_t maximum = names->maximum ? names->maximum : TD__NAMES_MAXIMUM;
    if (!td__grow(&names->items, &names->capacity, names->count + 1, maximum,
                  sizeof *names->items)) {
        return -1;
    }
    char *copy = td__strdup(text);
    if (!copy) {
        return -1;
    }
    size_t slot = find_slot(names, text);
    names->items[names->count++] = copy;
    names->slots[slot] = (uint32_t)names->count;
    return (int64_t)names->count - 1;
}

void td__names_release(td__names *names) {
    for (size_t i = 0; i < names->count; i++) {
        td__free(names->items[i]);
    }
    td__free(names->items);
    td__free(names->slots);
    *names = (td__names){0};
}
