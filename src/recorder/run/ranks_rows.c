/* Rows of a run that several processes wrote.
 *
 * Rows of a signal come by step. Of one step the rows of all ranks are merged, or passed on in rank order. A later
 * attempt replaces all steps from its first one on. */
#include "run/ranks_store.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_by_step(td__source kind) {
    return kind <= TD__STEPS;
}

static int advance_part(td__ranks_rows *r, size_t i, td_error *error) {
    int more = td__rows_next(r->parts[i], error);
    r->live[i] = more > 0;
    r->steps[i] = more > 0 && is_by_step(r->query.source) ? td__rows_integer(r->parts[i], 0) : 0;
    return more;
}

/* The parts that are behind the row given last go to their next ones. */
static int advance_parts(td__ranks_rows *r, td_error *error) {
    bool merged = td__ranks_is_merged(r->query.source);
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
static size_t next_part(const td__ranks_rows *r) {
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

static int next_ends(td__ranks_rows *r, td_error *error) {
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
        td__rank_set_integer(&r->cells[0],
                             any && r->cells[0].integer < first ? r->cells[0].integer : first);
        td__rank_set_integer(&r->cells[1],
                             any && r->cells[1].integer > last ? r->cells[1].integer : last);
        for (int k = 2; k < 4 && r->query.source == TD__TENSORS; k++) {
            td__rank_set_integer(&r->cells[k],
                                 r->cells[k].integer | td__rows_integer(r->parts[i], k));
        }
        any = true;
    }
    bool given = r->started;
    r->started = true;
    return given ? 0 : 1;
}

/* ---- Rows that are passed on ---------------------------------------------------------------- */

/* A text of the part's row with words before it. */
static bool put_before(td__ranks_rows *r, int column, const char *before) {
    const char *text = td__rows_text(r->parts[r->at], column, NULL);
    size_t size = strlen(before) + strlen(text ? text : "") + 1;
    if (!td__grow(&r->text, &r->text_capacity, size, (size_t)1 << 30, 1)) {
        return false;
    }
    int length = snprintf(r->text, size, "%s%s", before, text ? text : "");
    r->cells[column] = (td__rank_cell){.text = r->text, .length = (size_t)length};
    return true;
}

/* Whether the part's row is one of the run's; fills in the cell of own_column. */
static bool pass_row(td__ranks_rows *r) {
    const td__rank_source *s = &r->store->sources[r->at];
    char before[4096];
    if (r->query.source == TD__SIGNALS) {
        const char *name = td__rows_text(r->parts[r->at], 1, NULL);
        const td__rank_signal *signal = td__ranks_find_signal(r->store, name ? name : "");
        td__rank_set_integer(&r->cells[0], signal ? signal - r->store->signals + 1 : 0);
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
static int own_column(const td__ranks_rows *r) {
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

static int next_passed(td__ranks_rows *r, td_error *error) {
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
    td__ranks_rows *r = (td__ranks_rows *)base;
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
static bool is_copy(const td__ranks_rows *r, size_t index) {
    const td__rank_signal *signal = r->signal;
    const td__rank_source *sources = r->store->sources;
    for (size_t k = 0; k < index; k++) {
        if (r->parts[k] && signal->ids[k] && signal->groups[k] == signal->groups[index] &&
            sources[k].attempt == sources[index].attempt) {
            return true;
        }
    }
    return false;
}

static void bind_rows(td__rows *base, int64_t signal, int64_t first, int64_t last, int64_t limit) {
    td__ranks_rows *r = (td__ranks_rows *)base;
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
        const td__rank_source *s = &r->store->sources[i];
        int64_t id = r->signal ? r->signal->ids[i] : by_signal ? 0 : signal;
        id = r->signal && !td__ranks_is_merged(r->query.source) && is_copy(r, i) ? 0 : id;
        int64_t until = last < s->last ? last : s->last;
        r->live[i] = false;
        r->steps[i] = 0;
        if (r->parts[i]) {
            td__rows_bind(r->parts[i], id, first, until, -1);
        }
    }
}

static int next_row(td__rows *base, td_error *error) {
    td__ranks_rows *r = (td__ranks_rows *)base;
    bool whole =
        !r->signal || r->query.source != TD__HASHES || r->signal->replicated || r->query.rank;
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
    if (td__ranks_is_merged(r->query.source)) {
        more = advance_parts(r, error);
        size_t next = more > 0 ? next_part(r) : r->store->count;
        more = more < 0                  ? -1
               : next == r->store->count ? 0
                                         : td__ranks_merge_step(r, r->steps[next], error);
    } else {
        more = next_passed(r, error);
    }
    r->left -= more > 0 && r->left > 0;
    return more;
}

static bool has_cell(const td__ranks_rows *r, int column) {
    return r->query.ends || td__ranks_is_merged(r->query.source) || own_column(r) == column;
}

static int64_t integer_of(td__rows *base, int column) {
    td__ranks_rows *r = (td__ranks_rows *)base;
    return has_cell(r, column) ? r->cells[column].integer
                               : td__rows_integer(r->parts[r->at], column);
}

static double real_of(td__rows *base, int column) {
    td__ranks_rows *r = (td__ranks_rows *)base;
    return !has_cell(r, column)    ? td__rows_real(r->parts[r->at], column)
           : r->cells[column].text ? r->cells[column].real
                                   : (double)NAN;
}

static const char *text_of(td__rows *base, int column, size_t *length) {
    td__ranks_rows *r = (td__ranks_rows *)base;
    if (!has_cell(r, column)) {
        return td__rows_text(r->parts[r->at], column, length);
    }
    if (length) {
        *length = r->cells[column].length;
    }
    return r->cells[column].text;
}

/* Facts about the run as a whole are those of its first rank. */
static bool needs_source(const td__ranks_store *store, const td__query *query, size_t index) {
    if (query->rank && store->sources[index].rank != query->rank - 1) {
        return false;
    }
    return index == 0 || query->source <= TD__STEPS || query->source == TD__SIGNALS ||
           query->source == TD__EVENTS;
}

static td__rows *select_rows(td__store *base, const td__query *query, td_error *error);

static void close_store(td__store *base) {
    td__ranks_store *store = (td__ranks_store *)base;
    for (size_t i = 0; i < store->count; i++) {
        td__store_close(store->sources[i].store);
        td__free(store->sources[i].folder);
    }
    td__ranks_forget_signals(store);
    td__free(store->sources);
    td__free(store->about);
    td__free(store);
}

const td__store_class td__ranks_class = {.select = select_rows,
                                         .bind = bind_rows,
                                         .next = next_row,
                                         .integer = integer_of,
                                         .real = real_of,
                                         .text = text_of,
                                         .end = end_rows,
                                         .close = close_store};

static td__rows *select_rows(td__store *base, const td__query *query, td_error *error) {
    td__ranks_store *store = (td__ranks_store *)base;
    td__ranks_rows *r = td__calloc(1, sizeof *r);
    if (r) {
        r->base.class = &td__ranks_class;
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
        bool needed = needs_source(store, query, i);
        r->parts[i] = needed ? from->class->select(from, &inside, error) : NULL;
        if (needed && !r->parts[i]) {
            end_rows(&r->base);
            return NULL;
        }
    }
    return &r->base;
}
