/* A chunk has about CHUNK_ROWS rows of a signal, by step; rows of one step are never in two. The same rows make the same
 * chunks, so what is there is compared by a digest. */
#include "store/send_series.h"

#include "base/hash.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_ROWS = 1024, CHUNK_BYTES = 1 << 20, COPY_BYTES = 16 << 20, MAX_SIGNALS = 1 << 24 };

/* ---- Chunks --------------------------------------------------------------------------------- */

typedef struct chunk {
    int64_t signal, first, last, every;
    size_t count;
    bool regular; /* steps are `every` apart: they need no array */
    double min, max, sum;
    size_t numbers; /* finite ones */
} chunk;

static void clear_chunk(td__sender *s, chunk *c) {
    int64_t signal = c->signal;
    *c = (chunk){.signal = signal, .every = 1, .regular = true, .min = NAN, .max = NAN};
    for (size_t i = 0; i < TD__COUNT(s->columns); i++) {
        s->columns[i].size = 0;
    }
    s->steps.size = 0;
}

static void add_row(td__sender *s, const td__pg_series *series, chunk *c, td__rows *row) {
    int64_t step = td__rows_integer(row, 0);
    if (c->count == 0) {
        c->first = step;
    } else if (c->count == 1) {
        c->every = step - c->last;
    }
    c->regular = c->regular && (c->count == 0 || (step - c->last == c->every && c->every > 0));
    c->last = step;
    c->count++;
    td__pg_put_integer(&s->steps, step);
    for (int i = 0; i < series->columns; i++) {
        td__pg_put_cell(&s->columns[i], row, i + 1, series->types[i]);
    }
    double value = series->source == TD__SCALARS ? td__rows_real(row, 1) : NAN;
    if (isfinite(value)) {
        c->min = c->min <= value ? c->min : value;
        c->max = c->max >= value ? c->max : value;
        c->sum += value;
        c->numbers++;
    }
}

static bool is_full(const td__sender *s, const chunk *c) {
    size_t bytes = 0;
    for (size_t i = 0; i < TD__COUNT(s->columns); i++) {
        bytes += s->columns[i].size;
    }
    return c->count >= CHUNK_ROWS || bytes >= CHUNK_BYTES;
}

static int64_t digest_of(const td__sender *s, const td__pg_series *series) {
    uint64_t hash = td__hash_bytes(TD__HASH_START, s->steps.data, s->steps.size);
    for (int i = 0; i < series->columns; i++) {
        hash = td__hash_bytes(hash, s->columns[i].data, s->columns[i].size);
    }
    return (int64_t)hash;
}

/* What each chunk is given to; false ends the reading without an error. */
typedef td_status take_chunk(void *user, const chunk *c, bool *go_on, td_error *error);

static td_status each_chunk(td__sender *s, td__rows *rows, const td__pg_series *series,
                            int64_t signal, int64_t from, take_chunk *take, void *user,
                            td_error *error) {
    chunk c = {.signal = signal};
    bool go_on = true;
    td_status status = TD_OK;
    int next = 0;
    clear_chunk(s, &c);
    td__rows_bind(rows, signal, from, INT64_MAX, -1);
    while (!status && go_on && (next = td__rows_next(rows, error)) > 0) {
        if (c.count && td__rows_integer(rows, 0) != c.last && is_full(s, &c)) {
            status = take(user, &c, &go_on, error);
            clear_chunk(s, &c);
        }
        if (!status && go_on) {
            add_row(s, series, &c, rows);
        }
    }
    if (!status && next < 0) {
        return TD_FORMAT;
    }
    return status || !go_on || c.count == 0 ? status : take(user, &c, &go_on, error);
}

/* ---- Where they differ ---------------------------------------------------------------------- */

/* From which step on a signal's chunks are sent. */
typedef struct start {
    int64_t signal, step;
} start;

typedef struct starts {
    start *items;
    size_t count, capacity;
} starts;

static td_status add_start(starts *list, int64_t signal, int64_t step, td_error *error) {
    if (!td__grow(&list->items, &list->capacity, list->count + 1, MAX_SIGNALS,
                  sizeof *list->items)) {
        return td_error_set(error, TD_MEMORY, "out of memory for signals that changed");
    }
    list->items[list->count++] = (start){signal, step};
    return TD_OK;
}

/* Compares a signal's chunks with those that the server has, which are rows of an answer. */
typedef struct comparison {
    td__sender *sender;
    const td__pg_series *series;
    const td__pg_answer *there;
    size_t at, end;
    bool differs;
    int64_t step; /* from which on */
} comparison;

static int64_t integer_at(const td__pg_answer *answer, size_t row, int column) {
    td__pg_cell cell = td__pg_cell_of(answer, row, column);
    return td__pg_integer(&cell);
}

static td_status compare_chunk(void *user, const chunk *c, bool *go_on, td_error *error) {
    (void)error;
    comparison *m = user;
    bool same = m->at < m->end && integer_at(m->there, m->at, 1) == c->first &&
                integer_at(m->there, m->at, 2) == digest_of(m->sender, m->series);
    if (!same) {
        int64_t there = m->at < m->end ? integer_at(m->there, m->at, 1) : INT64_MAX;
        m->differs = true;
        m->step = there < c->first ? there : c->first;
        *go_on = false;
    }
    m->at += same;
    return TD_OK;
}

static td_status find_differences(td__sender *s, td__rows *rows, const td__pg_series *series,
                                  const int64_t *signals, size_t count, starts *list,
                                  td_error *error) {
    char sql[160];
    td__pg_answer there = {0};
    const char *const values[] = {s->run};
    (void)snprintf(sql, sizeof sql,
                   "SELECT signal, \"first\", digest FROM tapedeck.%s WHERE run = $1"
                   " ORDER BY signal, \"first\"",
                   series->name);
    td_status status = td__pg_run(s->pg, sql, 1, values, td__pg_keep, &there, error);
    size_t at = 0;
    for (size_t i = 0; i < count && !status; i++) { /* signals are sorted */
        while (at < there.count && integer_at(&there, at, 0) < signals[i]) {
            at++;
        }
        comparison m = {.sender = s, .series = series, .there = &there, .at = at};
        for (m.end = at; m.end < there.count && integer_at(&there, m.end, 0) == signals[i];) {
            m.end++;
        }
        at = m.end;
        status = each_chunk(s, rows, series, signals[i], INT64_MIN, compare_chunk, &m, error);
        if (!status && !m.differs && m.at < m.end) { /* the server has more */
            m.differs = true;
            m.step = integer_at(&there, m.at, 1);
        }
        status = status || !m.differs ? status : add_start(list, signals[i], m.step, error);
    }
    td__pg_answer_release(&there);
    return status;
}

/* "{1,2,3}": a column of the list as an array; NULL when memory is exhausted. */
static char *list_text(const starts *list, bool steps) {
    enum { NUMBER = 22 };
    size_t room = list->count * NUMBER + 3, used = 1;
    char *text = td__calloc(room, 1);
    for (size_t i = 0; text && i < list->count; i++) {
        used += (size_t)snprintf(text + used, room - used, "%s%" PRId64, i ? "," : "",
                                 steps ? list->items[i].step : list->items[i].signal);
    }
    if (text) {
        text[0] = '{';
        text[used] = '}';
    }
    return text;
}

/* Runs a statement whose parameters are the run, the signals and the steps of the list. */
static td_status run_with_list(td__sender *s, const char *sql, const starts *list,
                               td__pg_answer *answer, td_error *error) {
    char *signals = list_text(list, false), *steps = list_text(list, true);
    const char *const values[] = {s->run, signals, steps};
    td_status status =
        signals && steps
            ? td__pg_run(s->pg, sql, 3, values, answer ? td__pg_keep : NULL, answer, error)
            : td_error_set(error, TD_MEMORY, "out of memory for a statement");
    td__free(signals);
    td__free(steps);
    return status;
}

/* Where the chunks begin that the changed steps are in: those are sent anew. Behind a full one nothing is. */
static td_status find_chunks(td__sender *s, const td__pg_series *series, starts *list,
                             td_error *error) {
    char sql[400];
    td__pg_answer found = {0};
    (void)snprintf(sql, sizeof sql,
                   "SELECT d.signal, CASE WHEN c.\"last\" < d.step AND c.count >= %d THEN d.step"
                   " ELSE coalesce(c.\"first\", d.step) END FROM unnest($2::bigint[], $3::bigint[])"
                   " AS d(signal, step) LEFT JOIN LATERAL (SELECT * FROM tapedeck.%s c"
                   " WHERE c.run = $1 AND c.signal = d.signal AND c.\"first\" <= d.step"
                   " ORDER BY c.\"first\" DESC LIMIT 1) c ON true ORDER BY 1",
                   CHUNK_ROWS, series->name);
    td_status status = run_with_list(s, sql, list, &found, error);
    list->count = 0;
    for (size_t i = 0; i < found.count && !status; i++) {
        status = add_start(list, integer_at(&found, i, 0), integer_at(&found, i, 1), error);
    }
    td__pg_answer_release(&found);
    return status;
}

/* ---- Sending -------------------------------------------------------------------------------- */

typedef struct sending {
    td__sender *sender;
    const td__pg_series *series;
    char table[400]; /* with its columns */
} sending;

static td_status flush_rows(sending *m, td_error *error) {
    td__sender *s = m->sender;
    td_status status = s->out.size ? td__pg_copy(s->pg, m->table, &s->out, error) : TD_OK;
    s->out.size = 0;
    return status;
}

static td_status send_chunk(void *user, const chunk *c, bool *go_on, td_error *error) {
    enum { COLUMNS = 8, OF_SCALARS = 3 };
    (void)go_on;
    sending *m = user;
    td__sender *s = m->sender;
    td__pg_bytes *out = &s->out;
    bool scalars = m->series->source == TD__SCALARS;
    td__pg_put16(out, COLUMNS + (scalars ? OF_SCALARS : 0) + m->series->columns);
    td__pg_put_integer(out, strtoll(s->run, NULL, 10));
    td__pg_put_integer(out, c->signal);
    td__pg_put_integer(out, c->first);
    td__pg_put_integer(out, c->last);
    td__pg_put_integer(out, c->regular ? c->every : 1);
    td__pg_put_int32(out, (int64_t)c->count);
    td__pg_put_integer(out, digest_of(s, m->series));
    if (c->regular) {
        td__pg_put_none(out);
    } else {
        td__pg_put_array(out, &s->steps, c->count, 'i');
    }
    if (scalars) {
        td__pg_put_real(out, c->min);
        td__pg_put_real(out, c->max);
        td__pg_put_real(out, c->numbers ? c->sum / (double)c->numbers : NAN);
    }
    for (int i = 0; i < m->series->columns; i++) {
        td__pg_put_array(out, &s->columns[i], c->count, m->series->types[i]);
    }
    s->rows += (int64_t)c->count;
    return out->full                 ? td_error_set(error, TD_MEMORY, "out of memory for a chunk")
           : out->size >= COPY_BYTES ? flush_rows(m, error)
                                     : TD_OK;
}

static void name_columns(sending *m) {
    bool scalars = m->series->source == TD__SCALARS;
    int used =
        snprintf(m->table, sizeof m->table,
                 "tapedeck.%s(run, signal, \"first\", \"last\", every, count, digest, step%s",
                 m->series->name, scalars ? ", min, max, mean" : "");
    for (int i = 0; i < m->series->columns; i++) {
        used +=
            snprintf(m->table + used, sizeof m->table - (size_t)used, ", %s", m->series->names[i]);
    }
    (void)snprintf(m->table + used, sizeof m->table - (size_t)used, ")");
}

static td_status list_changes(const td__changes *changes, td__store_table table, starts *list,
                              td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; i < changes->counts[table] && !status; i++) {
        if (changes->steps[table][i] != TD__NO_STEP) {
            status = add_start(list, (int64_t)i, changes->steps[table][i], error);
        }
    }
    return status;
}

td_status td__send_series(td__sender *s, td__store *from, const td__pg_series *series,
                          const td__changes *changes, const int64_t *signals, size_t count,
                          td_error *error) {
    static const int64_t none = 0; /* steps are of no signal */
    starts list = {0};
    sending m = {.sender = s, .series = series};
    bool steps = series->source == TD__STEPS;
    char sql[256];
    td__rows *rows = from->class->select(from, &(td__query){.source = series->source}, error);
    td_status status = !rows     ? TD_FORMAT
                       : changes ? list_changes(changes, series->table, &list, error)
                                 : find_differences(s, rows, series, steps ? &none : signals,
                                                    steps ? 1 : count, &list, error);
    if (!status && changes && list.count) {
        status = find_chunks(s, series, &list, error);
    }
    (void)snprintf(sql, sizeof sql,
                   "DELETE FROM tapedeck.%s t USING unnest($2::bigint[], $3::bigint[])"
                   " AS d(signal, step) WHERE t.run = $1 AND t.signal = d.signal"
                   " AND t.\"first\" >= d.step",
                   series->name);
    status = status || !list.count ? status : run_with_list(s, sql, &list, NULL, error);
    name_columns(&m);
    s->out.size = 0;
    for (size_t i = 0; i < list.count && !status; i++) {
        status = each_chunk(s, rows, series, list.items[i].signal, list.items[i].step, send_chunk,
                            &m, error);
    }
    status = status ? status : flush_rows(&m, error);
    td__rows_end(rows);
    td__free(list.items);
    return status;
}
