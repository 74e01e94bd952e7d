/* The signals of a run that several processes wrote, and which processes hold the same of them. */
#include "run/ranks_store.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* ---- Placement ------------------------------------------------------------------------------ */

/* The word for a mesh dimension in "dp=batch,tp=shard:1", or the one without a dimension. */
static const char *find_word(const char *placement, const char *dimension, size_t length) {
    for (const char *at = placement; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t key = strcspn(at, "=,");
        if (at[key] != '=') {
            return at;
        }
        if (key == length && strncmp(at, dimension, length) == 0) {
            return at + key + 1;
        }
    }
    return "";
}

static bool is_replicated(const td__rank_signal *signal, const char *word) {
    return *word ? strncmp(word, "replicated", 10) == 0 : !signal->batched;
}

/* Text that is equal in ranks that hold the same: coordinates of the dimensions that are not replicated. */
static void name_group(const td__rank_signal *signal, const td__rank_source *s, char *out,
                       size_t size) {
    size_t length = 0;
    out[0] = 0;
    if (!s->mesh[0]) {
        if (!is_replicated(signal, find_word(signal->placement, "", 0))) {
            (void)snprintf(out, size, "%lld", (long long)s->rank);
        }
        return;
    }
    for (const char *at = s->mesh; *at && length < size; at += strcspn(at, ","), at += *at == ',') {
        size_t key = strcspn(at, "=,");
        if (!is_replicated(signal, find_word(signal->placement, at, key))) {
            length +=
                (size_t)snprintf(out + length, size - length, "%.*s,", (int)strcspn(at, ","), at);
        }
    }
}

static td_status group_sources(td__ranks_store *store, td__rank_signal *signal) {
    enum { NAME = 300 };
    char(*names)[NAME] = td__calloc(store->count + 1, sizeof *names);
    if (!names) {
        return TD_MEMORY;
    }
    uint32_t groups = 0;
    bool one = true;
    for (size_t i = 0; i < store->count; i++) {
        name_group(signal, &store->sources[i], names[i], NAME);
        size_t k = 0;
        bool whole = names[i][0] != 0;
        /* Without parts all are one group; with them the first rank of the same coordinates. */
        while (k < i && whole && strcmp(names[k], names[i]) != 0) {
            k++;
        }
        signal->groups[i] = !whole ? 0 : k < i ? signal->groups[k] : ++groups;
        one &= signal->groups[i] == 0;
    }
    signal->replicated = one;
    signal->partial = !store->one_rank && strstr(signal->placement, "partial");
    store->partial_count += signal->partial;
    td__free(names);
    return TD_OK;
}

/* ---- Signals -------------------------------------------------------------------------------- */

static size_t hash_name(const char *name) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    }
    return (size_t)hash;
}

static uint32_t *find_slot(td__ranks_store *store, const char *name) {
    size_t i = hash_name(name) & (store->slot_count - 1);
    while (store->slots[i] && strcmp(store->signals[store->slots[i] - 1].name, name) != 0) {
        i = (i + 1) & (store->slot_count - 1);
    }
    return &store->slots[i];
}

static bool grow_slots(td__ranks_store *store) {
    if (store->slot_count > 2 * (store->signal_count + 1)) {
        return true;
    }
    size_t count = store->slot_count ? store->slot_count * 2 : 1024;
    uint32_t *old = store->slots, *slots = td__calloc(count, sizeof *slots);
    if (!slots) {
        return false;
    }
    store->slots = slots;
    store->slot_count = count;
    for (size_t i = 0; i < store->signal_count; i++) {
        *find_slot(store, store->signals[i].name) = (uint32_t)i + 1;
    }
    td__free(old);
    return true;
}

static td__rank_signal *add_signal(td__ranks_store *store, td__rows *row, size_t origin) {
    enum { MAX_SIGNALS = 1 << 24 };
    const char *name = td__rows_text(row, 1, NULL), *placement = td__rows_text(row, 13, NULL);
    td__rank_signal made = {.name = td__strdup(name ? name : ""),
                            .placement = td__strdup(placement ? placement : ""),
                            .batched = td__rows_integer(row, 7) != 0,
                            .defined = origin,
                            .ids = td__calloc(store->count, sizeof *made.ids),
                            .groups = td__calloc(store->count, sizeof *made.groups)};
    if (!made.name || !made.placement || !made.ids || !made.groups ||
        group_sources(store, &made) != TD_OK || !grow_slots(store) ||
        !td__grow(&store->signals, &store->signal_capacity, store->signal_count + 1, MAX_SIGNALS,
                  sizeof made)) {
        td__free(made.name);
        td__free(made.placement);
        td__free(made.ids);
        td__free(made.groups);
        return NULL;
    }
    store->signals[store->signal_count] = made;
    *find_slot(store, made.name) = (uint32_t)++store->signal_count;
    return &store->signals[store->signal_count - 1];
}

td_status td__ranks_list_signals(td__ranks_store *store, td_error *error) {
    td_status status = grow_slots(store) ? TD_OK : TD_MEMORY;
    for (size_t i = 0; i < store->count && !status; i++) {
        td__store *from = store->sources[i].store;
        td__rows *rows = from->class->select(from, &(td__query){.source = TD__SIGNALS}, error);
        int more = 0;
        if (rows) {
            td__rows_bind(rows, 0, INT64_MIN, INT64_MAX, -1);
        }
        while (!status && rows && (more = td__rows_next(rows, error)) > 0) {
            const char *name = td__rows_text(rows, 1, NULL);
            uint32_t known = *find_slot(store, name ? name : "");
            td__rank_signal *signal =
                known ? &store->signals[known - 1] : add_signal(store, rows, i);
            status = signal ? TD_OK : TD_MEMORY;
            if (signal) {
                signal->ids[i] = td__rows_integer(rows, 0);
            }
        }
        td__rows_end(rows);
        status = !status && (!rows || more < 0) ? TD_FORMAT : status;
    }
    return status == TD_MEMORY ? td_error_set(error, TD_MEMORY, "out of memory for a run's ranks")
                               : status;
}

const td__rank_signal *td__ranks_find_signal(td__ranks_store *store, const char *name) {
    uint32_t number = *find_slot(store, name);
    return number ? &store->signals[number - 1] : NULL;
}

void td__ranks_forget_signals(td__ranks_store *store) {
    for (size_t i = 0; i < store->signal_count; i++) {
        td__free(store->signals[i].name);
        td__free(store->signals[i].placement);
        td__free(store->signals[i].ids);
        td__free(store->signals[i].groups);
    }
    td__free(store->signals);
    td__free(store->slots);
}
