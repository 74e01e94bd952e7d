/* A run that several processes wrote, read as one: a store whose rows are merged from those of the ranks.
 *
 * Rows of a signal come by step. Of one step the rows of all ranks are merged as the signal's placement
 * says: of ranks that hold the same, the first one's; parts of a batch and shards are put together in rank
 * order; what is partial is left out. A later attempt replaces all steps from its first one on. */
#include "run/ranks.h"

#include "base/memory.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SOURCES = 1 << 17, CELLS = 11, PATH_ROOM = 4096 };

typedef struct source {
    td__store *store;
    char *folder; /* below the run's: "rank-00003", "attempt-2/rank-00003" */
    char mesh[256];
    int64_t rank, attempt;
    int64_t last; /* the last step that no later attempt replaces */
} source;

/* A signal of the run: its number in each source (0: it has none), and which sources hold the same. */
typedef struct merged_signal {
    char *name, *placement;
    bool batched, partial, replicated;
    size_t defined; /* the first source that has it */
    int64_t *ids;
    uint32_t *groups;
} merged_signal;

typedef struct ranks_store {
    td__store base;
    source *sources;
    size_t count, capacity;
    merged_signal *signals;
    size_t signal_count, signal_capacity;
    uint32_t *slots; /* signal number + 1, by hash of the name */
    size_t slot_count, partial_count;
} ranks_store;

typedef struct cell {
    int64_t integer;
    double real;
    const char *text; /* NULL: the cell is empty */
    size_t length;
} cell;

typedef struct ranks_rows {
    td__rows base;
    ranks_store *store;
    td__query query;
    td__rows **parts; /* one for each source; NULL: not needed */
    bool *live;       /* the part is on a row */
    int64_t *steps;   /* of that row */
    uint32_t *taken;  /* of each group: the serial number of the row that took it */
    uint32_t serial;
    const merged_signal *signal;
    int64_t left; /* rows that may still come; negative: any number */
    bool started;
    size_t at; /* rows that are passed on: the part; of signals also the source */
    cell cells[CELLS];
    td__bins bins[2];
    td_bin *merged[2];
    char *text;
    size_t text_capacity;
} ranks_rows;

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

static bool is_replicated(const merged_signal *signal, const char *word) {
    return *word ? strncmp(word, "replicated", 10) == 0 : !signal->batched;
}

/* Text that is equal in ranks that hold the same: coordinates of the dimensions that are not replicated. */
static void name_group(const merged_signal *signal, const source *s, char *out, size_t size) {
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

static td_status group_sources(ranks_store *store, merged_signal *signal) {
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
    signal->partial = strstr(signal->placement, "partial") != NULL;
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

static uint32_t *find_slot(ranks_store *store, const char *name) {
    size_t i = hash_name(name) & (store->slot_count - 1);
    while (store->slots[i] && strcmp(store->signals[store->slots[i] - 1].name, name) != 0) {
        i = (i + 1) & (store->slot_count - 1);
    }
    return &store->slots[i];
}

static bool grow_slots(ranks_store *store) {
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

static merged_signal *add_signal(ranks_store *store, td__rows *row, size_t origin) {
    enum { MAX_SIGNALS = 1 << 24 };
    const char *name = td__rows_text(row, 1, NULL), *placement = td__rows_text(row, 13, NULL);
    merged_signal made = {.name = td__strdup(name ? name : ""),
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

static td_status list_signals(ranks_store *store, td_error *error) {
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
            merged_signal *signal = known ? &store->signals[known - 1] : add_signal(store, rows, i);
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

/* ---- Rows that are merged ------------------------------------------------------------------- */

static bool is_merged(td__source kind) {
    return kind == TD__SCALARS || kind == TD__STATISTICS || kind == TD__HISTOGRAMS ||
           kind == TD__HASHES || kind == TD__STEPS;
}

static bool is_by_step(td__source kind) {
    return kind <= TD__STEPS;
}

static void set_integer(cell *c, int64_t value) {
    *c = (cell){.integer = value, .real = (double)value, .text = ""};
}

static void set_real(cell *c, double value) {
    *c = (cell){.real = value, .text = isnan(value) ? NULL : ""};
}

static td_stats stats_of(td__rows *row) {
    return (td_stats){.count = td__rows_integer(row, 1),
                      .mean = td__rows_real(row, 2),
                      .std = td__rows_real(row, 3),
                      .min = td__rows_real(row, 4),
                      .max = td__rows_real(row, 5),
                      .norm = td__rows_real(row, 6),
                      .zeros = td__rows_integer(row, 7),
                      .nan = td__rows_integer(row, 8),
                      .inf = td__rows_integer(row, 9),
                      .first_nonfinite = td__rows_integer(row, 10)};
}

static void put_stats(ranks_rows *r, const td_stats *s) {
    static const char *const names[] = {"count", "mean",  "std", "min", "max",
                                        "norm",  "zeros", "nan", "inf"};
    cell *c = r->cells;
    const double reals[] = {s->mean, s->std, s->min, s->max, s->norm};
    set_integer(&c[1], s->count);
    for (int i = 0; i < 5; i++) {
        set_real(&c[2 + i], reals[i]);
    }
    set_integer(&c[7], s->zeros);
    set_integer(&c[8], s->nan);
    set_integer(&c[9], s->inf);
    set_integer(&c[10], s->first_nonfinite);
    for (int i = 0; r->query.column && i < 9; i++) {
        if (strcmp(names[i], r->query.column) == 0) {
            c[1] = c[1 + i];
            set_integer(&c[2], s->nan + s->inf);
            return;
        }
    }
}

/* Whether the part is the first of its group on this row. */
static bool takes_part(ranks_rows *r, size_t part) {
    uint32_t *taken = &r->taken[r->signal ? r->signal->groups[part] : 0];
    bool first = *taken != r->serial;
    *taken = r->serial;
    return first;
}

static bool add_bins(ranks_rows *r, td__rows *row, td_histogram *all, size_t count) {
    size_t size = 0;
    td_histogram more = {0}, both;
    const char *packed = td__rows_text(row, 1, &size);
    if (!packed || !td__bins_unpack(&r->bins[count > 0], packed, size, &more) || more.ranges) {
        return false;
    }
    if (count == 0) {
        *all = more;
        return true;
    }
    td_bin **into = &r->merged[count % 2];
    *into = *into ? *into : td__calloc(TD_HISTOGRAM_BINS, sizeof **into);
    if (!*into) {
        return false;
    }
    td_histogram_merge(all, &more, *into, &both);
    *all = both;
    return true;
}

static bool put_bins(ranks_rows *r, const td_histogram *all) {
    if (!td__grow(&r->text, &r->text_capacity, td__bins_room(all) + 1, (size_t)1 << 30, 1)) {
        return false;
    }
    size_t size = td__bins_pack(all, r->text);
    r->text[size] = 0;
    r->cells[1] = (cell){.text = r->text, .length = size};
    return true;
}

/* Merges the rows of one step; 1, or -1 with an error. */
static int merge_step(ranks_rows *r, int64_t step, td_error *error) {
    td__source kind = r->query.source;
    td_stats stats = {0};
    td_histogram bins = {0};
    double mean = 0;
    size_t count = 0;
    bool good = true;
    r->serial++;
    set_integer(&r->cells[0], step);
    for (size_t i = 0; i < r->store->count && good; i++) {
        if (!r->live[i] || r->steps[i] != step) {
            continue;
        }
        td__rows *row = r->parts[i];
        if (kind == TD__STEPS) { /* a step ends when its last rank has ended it */
            double when = td__rows_real(row, 2);
            set_integer(&r->cells[1], count ? r->cells[1].integer : td__rows_integer(row, 1));
            set_real(&r->cells[2], count && r->cells[2].real > when ? r->cells[2].real : when);
        } else if (!takes_part(r, i)) {
            continue;
        } else if (kind == TD__SCALARS) {
            double value = td__rows_real(row, 1); /* the mean of equal values is that value */
            mean = count ? mean + (value - mean) / (double)(count + 1) : value;
            set_real(&r->cells[1], mean);
        } else if (kind == TD__STATISTICS) {
            td_stats more = stats_of(row);
            if (count) {
                td_stats_merge(&stats, &more);
            } else {
                stats = more;
            }
            put_stats(r, &stats);
        } else if (kind == TD__HISTOGRAMS) {
            good = add_bins(r, row, &bins, count);
        } else if (count == 0) {
            r->cells[1].text = td__rows_text(row, 1, &r->cells[1].length);
        }
        count++;
    }
    good = good && (kind != TD__HISTOGRAMS || put_bins(r, &bins));
    if (!good) {
        td_error_set(error, TD_FORMAT, "%s, step %lld: a histogram is damaged, or memory is short",
                     r->signal ? r->signal->name : "", (long long)step);
    }
    return good ? 1 : -1;
}

static int advance_part(ranks_rows *r, size_t i, td_error *error) {
    int more = td__rows_next(r->parts[i], error);
    r->live[i] = more > 0;
    r->steps[i] = more > 0 && is_by_step(r->query.source) ? td__rows_integer(r->parts[i], 0) : 0;
    return more;
}

/* The parts that are behind the row given last go to their next ones. */
static int advance_parts(ranks_rows *r, td_error *error) {
    bool merged = is_merged(r->query.source);
    for (size_t i = 0; i < r->store->count; i++) {
        bool used = merged ? r->live[i] && r->steps[i] == r->cells[0].integer : i == r->at;
        if (r->parts[i] && (r->started ? used && r->live[i] : true) &&
            advance_part(r, i, error) < 0) {
            return -1;
        }
    }
    r->started = true;
    return 1;
}

/* The part whose row comes next; the number of sources when there is none. */
static size_t next_part(const ranks_rows *r) {
    size_t best = r->store->count;
    for (size_t i = 0; i < r->store->count; i++) {
        if (!r->live[i]) {
            continue;
        }
        bool first = best == r->store->count;
        if (!first && r->query.source == TD__EVENTS) {
            first = td__rows_real(r->parts[i], 3) < td__rows_real(r->parts[best], 3);
        } else if (!first && is_by_step(r->query.source)) {
            first =
                r->query.backwards ? r->steps[i] > r->steps[best] : r->steps[i] < r->steps[best];
        }
        best = first ? i : best;
    }
    return best;
}

static int next_ends(ranks_rows *r, td_error *error) {
    bool any = false;
    memset(r->cells, 0, sizeof r->cells);
    for (size_t i = 0; i < r->store->count && !r->started; i++) {
        if (!r->parts[i]) {
            continue;
        }
        int more = td__rows_next(r->parts[i], error);
        if (more < 0) {
            return -1;
        }
        if (more == 0 || !td__rows_text(r->parts[i], 0, NULL)) {
            continue;
        }
        int64_t first = td__rows_integer(r->parts[i], 0), last = td__rows_integer(r->parts[i], 1);
        int64_t visible = r->store->sources[i].last;
        if (first > visible) {
            continue;
        }
        last = last < visible ? last : visible;
        set_integer(&r->cells[0], any && r->cells[0].integer < first ? r->cells[0].integer : first);
        set_integer(&r->cells[1], any && r->cells[1].integer > last ? r->cells[1].integer : last);
        for (int k = 2; k < 4 && r->query.source == TD__TENSORS; k++) {
            set_integer(&r->cells[k], r->cells[k].integer | td__rows_integer(r->parts[i], k));
        }
        any = true;
    }
    bool given = r->started;
    r->started = true;
    return given ? 0 : 1;
}

/* ---- Rows that are passed on ---------------------------------------------------------------- */

/* A text of the part's row with words before it. */
static bool put_before(ranks_rows *r, int column, const char *before) {
    const char *text = td__rows_text(r->parts[r->at], column, NULL);
    size_t size = strlen(before) + strlen(text ? text : "") + 1;
    if (!td__grow(&r->text, &r->text_capacity, size, (size_t)1 << 30, 1)) {
        return false;
    }
    int length = snprintf(r->text, size, "%s%s", before, text ? text : "");
    r->cells[column] = (cell){.text = r->text, .length = (size_t)length};
    return true;
}

/* Whether the part's row is one of the run's; fills in the cell of own_column. */
static bool pass_row(ranks_rows *r) {
    const source *s = &r->store->sources[r->at];
    char before[PATH_ROOM];
    if (r->query.source == TD__SIGNALS) {
        const char *name = td__rows_text(r->parts[r->at], 1, NULL);
        uint32_t number = *find_slot(r->store, name ? name : "");
        const merged_signal *signal = number ? &r->store->signals[number - 1] : NULL;
        set_integer(&r->cells[0], number);
        return signal && signal->defined == r->at && !signal->partial;
    }
    if (r->query.source == TD__EVENTS) {
        (void)snprintf(before, sizeof before, "rank %lld: ", (long long)s->rank);
        return put_before(r, 6, before);
    }
    if (r->query.source == TD__TENSORS) {
        (void)snprintf(before, sizeof before, "%s/", s->folder);
        return put_before(r, 2, before);
    }
    return true;
}

/* The column whose cell is ours and not the part's; -1: none. */
static int own_column(const ranks_rows *r) {
    switch (r->query.source) {
    case TD__SIGNALS:
        return 0;
    case TD__TENSORS:
        return 2;
    case TD__EVENTS:
        return 6;
    default:
        return -1;
    }
}

static int next_passed(ranks_rows *r, td_error *error) {
    for (;;) {
        if (advance_parts(r, error) < 0) {
            return -1;
        }
        r->at = next_part(r);
        if (r->at == r->store->count) {
            return 0;
        }
        if (pass_row(r)) {
            return 1;
        }
    }
}

/* ---- The interface -------------------------------------------------------------------------- */

static void end_rows(td__rows *base) {
    ranks_rows *r = (ranks_rows *)base;
    for (size_t i = 0; r && r->parts && i < r->store->count; i++) {
        td__rows_end(r->parts[i]);
    }
    if (r) {
        td__free(r->parts);
        td__free(r->live);
        td__free(r->steps);
        td__free(r->taken);
        td__bins_release(&r->bins[0]);
        td__bins_release(&r->bins[1]);
        td__free(r->merged[0]);
        td__free(r->merged[1]);
        td__free(r->text);
    }
    td__free(r);
}

/* Whether an earlier rank of the same attempt holds the same. */
static bool is_copy(const ranks_rows *r, size_t index) {
    const merged_signal *signal = r->signal;
    const source *sources = r->store->sources;
    for (size_t k = 0; k < index; k++) {
        if (signal->ids[k] && signal->groups[k] == signal->groups[index] &&
            sources[k].attempt == sources[index].attempt) {
            return true;
        }
    }
    return false;
}

static void bind_rows(td__rows *base, int64_t signal, int64_t first, int64_t last, int64_t limit) {
    ranks_rows *r = (ranks_rows *)base;
    bool by_signal = r->query.source < TD__STEPS;
    r->signal = by_signal && signal > 0 && (size_t)signal <= r->store->signal_count
                    ? &r->store->signals[signal - 1]
                    : NULL;
    r->left = limit;
    r->started = false;
    r->at = r->store->count;
    r->serial = 0;
    memset(r->taken, 0, (r->store->count + 1) * sizeof *r->taken);
    for (size_t i = 0; i < r->store->count; i++) {
        const source *s = &r->store->sources[i];
        int64_t id = r->signal ? r->signal->ids[i] : by_signal ? 0 : signal;
        id = r->signal && !is_merged(r->query.source) && is_copy(r, i) ? 0 : id;
        int64_t until = last < s->last ? last : s->last;
        r->live[i] = false;
        r->steps[i] = 0;
        if (r->parts[i]) {
            td__rows_bind(r->parts[i], id, first, until, -1);
        }
    }
}

static int next_row(td__rows *base, td_error *error) {
    ranks_rows *r = (ranks_rows *)base;
    bool whole = !r->signal || r->query.source != TD__HASHES || r->signal->replicated;
    if (r->query.source >= TD__SUMMARIES && r->query.source <= TD__METRICS) {
        return 0; /* the extremes of what is merged are those of no rank: readers look at all steps */
    }
    if (!whole) {
        return 0; /* a fingerprint of parts is none of the whole */
    }
    if (r->query.ends) {
        return next_ends(r, error);
    }
    if (r->left == 0) {
        return 0;
    }
    int more;
    if (is_merged(r->query.source)) {
        more = advance_parts(r, error);
        size_t next = more > 0 ? next_part(r) : r->store->count;
        more = more < 0 ? -1 : next == r->store->count ? 0 : merge_step(r, r->steps[next], error);
    } else {
        more = next_passed(r, error);
    }
    r->left -= more > 0 && r->left > 0;
    return more;
}

static bool has_cell(const ranks_rows *r, int column) {
    return r->query.ends || is_merged(r->query.source) || own_column(r) == column;
}

static int64_t integer_of(td__rows *base, int column) {
    ranks_rows *r = (ranks_rows *)base;
    return has_cell(r, column) ? r->cells[column].integer
                               : td__rows_integer(r->parts[r->at], column);
}

static double real_of(td__rows *base, int column) {
    ranks_rows *r = (ranks_rows *)base;
    return !has_cell(r, column)    ? td__rows_real(r->parts[r->at], column)
           : r->cells[column].text ? r->cells[column].real
                                   : (double)NAN;
}

static const char *text_of(td__rows *base, int column, size_t *length) {
    ranks_rows *r = (ranks_rows *)base;
    if (!has_cell(r, column)) {
        return td__rows_text(r->parts[r->at], column, length);
    }
    if (length) {
        *length = r->cells[column].length;
    }
    return r->cells[column].text;
}

/* Facts about the run as a whole are those of its first rank. */
static bool needs_source(const td__query *query, size_t index) {
    return index == 0 || query->source <= TD__STEPS || query->source == TD__SIGNALS ||
           query->source == TD__EVENTS;
}

static td__rows *select_rows(td__store *base, const td__query *query, td_error *error);

static void close_store(td__store *base) {
    ranks_store *store = (ranks_store *)base;
    for (size_t i = 0; i < store->count; i++) {
        td__store_close(store->sources[i].store);
        td__free(store->sources[i].folder);
    }
    for (size_t i = 0; i < store->signal_count; i++) {
        td__free(store->signals[i].name);
        td__free(store->signals[i].placement);
        td__free(store->signals[i].ids);
        td__free(store->signals[i].groups);
    }
    td__free(store->sources);
    td__free(store->signals);
    td__free(store->slots);
    td__free(store);
}

static const td__store_class ranks_class = {.select = select_rows,
                                            .bind = bind_rows,
                                            .next = next_row,
                                            .integer = integer_of,
                                            .real = real_of,
                                            .text = text_of,
                                            .end = end_rows,
                                            .close = close_store};

static td__rows *select_rows(td__store *base, const td__query *query, td_error *error) {
    ranks_store *store = (ranks_store *)base;
    ranks_rows *r = td__calloc(1, sizeof *r);
    if (r) {
        r->base.class = &ranks_class;
        r->store = store;
        r->query = *query;
        r->parts = td__calloc(store->count + 1, sizeof *r->parts);
        r->live = td__calloc(store->count + 1, sizeof *r->live);
        r->steps = td__calloc(store->count + 1, sizeof *r->steps);
        r->taken = td__calloc(store->count + 1, sizeof *r->taken);
    }
    if (!r || !r->parts || !r->live || !r->steps || !r->taken) {
        td_error_set(error, TD_MEMORY, "out of memory for a run's ranks");
        end_rows((td__rows *)r);
        return NULL;
    }
    td__query inside = *query;
    inside.column = NULL; /* moments are merged from all columns */
    for (size_t i = 0; i < store->count; i++) {
        td__store *from = store->sources[i].store;
        from->cpu_until = base->cpu_until;
        r->parts[i] = needs_source(query, i) ? from->class->select(from, &inside, error) : NULL;
        if (needs_source(query, i) && !r->parts[i]) {
            end_rows(&r->base);
            return NULL;
        }
    }
    return &r->base;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static bool is_numbered(const char *name, const char *word) {
    size_t length = strlen(word);
    return strncmp(name, word, length) == 0 && name[length] &&
           strspn(name + length, "0123456789") == strlen(name + length);
}

static int is_rank(const struct dirent *entry) {
    return is_numbered(entry->d_name, "rank-");
}

static int is_rank_or_attempt(const struct dirent *entry) {
    return is_rank(entry) || is_numbered(entry->d_name, "attempt-");
}

static bool has_database(const char *folder, const char *below) {
    char path[PATH_ROOM];
    return (size_t)snprintf(path, sizeof path, "%s/%s/run.db", folder, below) < sizeof path &&
           access(path, F_OK) == 0;
}

bool td__ranks_are_in(const char *folder) {
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_rank, versionsort);
    bool found = false;
    for (int i = 0; i < count; i++) {
        found = found || has_database(folder, entries[i]->d_name);
        free(entries[i]); // NOLINT: scandir's own
    }
    free(entries); // NOLINT
    return found;
}

/* A note of a rank; "" where there is none. */
static void read_note(source *s, const char *key, char *out, size_t size) {
    td__rows *notes =
        s->store->class->select(s->store, &(td__query){.source = TD__RUN_NOTES}, NULL);
    out[0] = 0;
    if (notes) {
        td__rows_bind(notes, 0, INT64_MIN, INT64_MAX, -1);
    }
    while (notes && td__rows_next(notes, NULL) > 0) {
        if (strcmp(td__run_text(notes, 0), key) == 0) {
            (void)snprintf(out, size, "%s", td__run_text(notes, 1));
        }
    }
    td__rows_end(notes);
}

static td_status add_source(td_run *run, ranks_store *store, const char *below, int64_t attempt,
                            td_error *error) {
    char path[PATH_ROOM], ended[TD__ENDED];
    td_error reason = {0};
    bool damaged = false;
    source made = {.attempt = attempt, .last = INT64_MAX};
    const char *number = strrchr(below, '-');
    made.rank = number ? strtoll(number + 1, NULL, 10) : 0;
    (void)snprintf(path, sizeof path, "%s/%s", run->folder, below);
    if (td__store_read(path, td__run_written_by(path, ended) == TD__LOCK_HOLDER, &made.store,
                       &damaged, &reason) ||
        damaged) {
        td__run_problem(&run->problems, "%s: %s", below,
                        damaged ? "its run.db is damaged; some of it is missing" : reason.text);
    }
    if (!made.store) {
        return TD_OK; /* the others are read */
    }
    made.folder = td__strdup(below);
    if (!made.folder ||
        !td__grow(&store->sources, &store->capacity, store->count + 1, MAX_SOURCES, sizeof made)) {
        td__free(made.folder);
        td__store_close(made.store);
        return td_error_set(error, TD_MEMORY, "out of memory for a run's ranks");
    }
    read_note(&made, "mesh", made.mesh, sizeof made.mesh);
    store->sources[store->count++] = made;
    return TD_OK;
}

static td_status add_sources(td_run *run, ranks_store *store, const char *below, int64_t attempt,
                             td_error *error) {
    char path[PATH_ROOM];
    struct dirent **entries = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", run->folder, below);
    int count = scandir(path, &entries, attempt > 1 ? is_rank : is_rank_or_attempt, versionsort);
    td_status status = TD_OK;
    for (int pass = 0; pass < 2 && !status; pass++) { /* ranks first, then later attempts */
        for (int i = 0; i < count && !status; i++) {
            char name[600];
            (void)snprintf(name, sizeof name, "%s%s%s", below, *below ? "/" : "",
                           entries[i]->d_name);
            if (is_rank(entries[i]) && pass == 0 && has_database(run->folder, name)) {
                status = add_source(run, store, name, attempt, error);
            } else if (!is_rank(entries[i]) && pass == 1) {
                status =
                    add_sources(run, store, name, strtoll(strrchr(name, '-') + 1, NULL, 10), error);
            }
        }
    }
    for (int i = 0; i < count; i++) {
        free(entries[i]); // NOLINT: scandir's own
    }
    free(entries); // NOLINT
    return status;
}

/* The first (or last) step of a source; false when it has none. */
static bool end_step(td__store *store, bool last, int64_t *step) {
    td__rows *rows =
        store->class->select(store, &(td__query){.source = TD__STEPS, .backwards = last}, NULL);
    if (rows) {
        td__rows_bind(rows, 0, INT64_MIN, INT64_MAX, 1);
    }
    bool found = rows && td__rows_next(rows, NULL) > 0;
    *step = found ? td__rows_integer(rows, 0) : 0;
    td__rows_end(rows);
    return found;
}

static void replace_attempts(ranks_store *store) {
    for (size_t i = 0; i < store->count; i++) {
        int64_t first;
        if (store->sources[i].attempt < 2 || !end_step(store->sources[i].store, false, &first)) {
            continue;
        }
        for (size_t k = 0; k < store->count; k++) {
            source *s = &store->sources[k];
            if (s->attempt < store->sources[i].attempt && s->last >= first) {
                s->last = first - 1;
            }
        }
    }
}

td_status td__ranks_open(td_run *run, td__store **opened, td_error *error) {
    ranks_store *store = td__calloc(1, sizeof *store);
    if (!store) {
        return td_error_set(error, TD_MEMORY, "out of memory for a run's ranks");
    }
    store->base.class = &ranks_class;
    store->base.version = 1; /* it has no summaries */
    td_status status = add_sources(run, store, "", 1, error);
    if (!status && store->count == 0) {
        status = td_error_set(error, TD_FORMAT, "%s: no rank of it can be read", run->folder);
    }
    if (!status) {
        replace_attempts(store);
        status = list_signals(store, error);
    }
    if (status) {
        close_store(&store->base);
        return status;
    }
    if (store->partial_count) {
        td__run_problem(&run->problems,
                        "%zu signals have the placement partial and are not merged: "
                        "open the folder of a rank to read them",
                        store->partial_count);
    }
    *opened = &store->base;
    return TD_OK;
}

/* ---- How it is doing ------------------------------------------------------------------------ */

td_run_state td__ranks_state(td_run *run) {
    ranks_store *store = (ranks_store *)run->store;
    int64_t attempt = store->sources[store->count - 1].attempt;
    td_run_state worst = TD_RUN_FINISHED;
    bool running = false;
    for (size_t i = 0; i < store->count; i++) {
        source *s = &store->sources[i];
        char path[PATH_ROOM], noted[32];
        (void)snprintf(path, sizeof path, "%s/%s", run->folder, s->folder);
        read_note(s, "state", noted, sizeof noted);
        td_run_state state = td__run_state_of(path, noted);
        running |= state == TD_RUN_RUNNING;
        if (state == TD_RUN_CRASHED && s->attempt == attempt) { /* else another attempt went on */
            int64_t last;
            (void)end_step(s->store, true, &last);
            td__run_problem(
                &run->problems,
                "rank %lld ended without closing its run%s%s: its last recorded step is "
                "%lld",
                (long long)s->rank, s->attempt > 1 ? ", in " : "", s->attempt > 1 ? s->folder : "",
                (long long)last);
        }
        worst = s->attempt == attempt && state > worst ? state : worst;
    }
    return running ? TD_RUN_RUNNING : worst;
}
