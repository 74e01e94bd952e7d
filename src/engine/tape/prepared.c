/* A hash table from weights to what was made of them; nothing leaves it before the tape ends. */
#include "tape/prepared.h"

#include "base/memory.h"
#include "tape/tape.h"

enum { FIRST_ENTRIES = 64 };

static td__prepared *entry_of_weights(td__prepared *entries, size_t capacity, const float *weights,
                                      td__prepared_kind kind, size_t bytes) {
    uint64_t hash = ((uint64_t)(uintptr_t)weights + (uint64_t)kind) * 0x9E3779B97F4A7C15u;
    size_t place = (size_t)(hash >> 32) & (capacity - 1);
    for (;; place = (place + 1) & (capacity - 1)) {
        td__prepared *entry = &entries[place];
        if (entry->kind == TD__PREPARED_NOTHING ||
            (entry->weights == weights && entry->kind == kind && entry->bytes == bytes)) {
            return entry;
        }
    }
}

/* Room for one more, with at least half of the places free. */
static bool make_entry_room(td__prepared_table *table) {
    if (2 * (table->count + 1) <= table->capacity) {
        return true;
    }
    size_t capacity = table->capacity ? 2 * table->capacity : FIRST_ENTRIES;
    td__prepared *grown = td__calloc(capacity, sizeof *grown);
    if (!grown) {
        return false;
    }
    for (size_t i = 0; i < table->capacity; i++) {
        const td__prepared *old = &table->entries[i];
        if (old->kind != TD__PREPARED_NOTHING) {
            *entry_of_weights(grown, capacity, old->weights, old->kind, old->bytes) = *old;
        }
    }
    td__free(table->entries);
    table->entries = grown;
    table->capacity = capacity;
    return true;
}

td__prepared *td__prepare(td_tape *tape, const float *weights, td__prepared_kind kind,
                          size_t bytes) {
    td__prepared_table *table = &tape->prepared;
    if (!tape->inference || !table->memory || !make_entry_room(table)) {
        return NULL;
    }
    td__prepared *entry = entry_of_weights(table->entries, table->capacity, weights, kind, bytes);
    if (entry->kind != TD__PREPARED_NOTHING) {
        return entry;
    }
    float *data = td__arena_alloc(table->memory, bytes);
    if (!data) {
        return NULL;
    }
    *entry = (td__prepared){weights, kind, bytes, data, false};
    table->count++;
    return entry;
}

void td__prepared_release(td__prepared_table *table) {
    td__free(table->entries);
    td__arena_unref(table->memory);
    *table = (td__prepared_table){0};
}
