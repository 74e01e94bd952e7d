/* Rows that come out of PostgreSQL: pages of chunks, whose rows are handed on one by one, or answers as they are.
 * Statements are made of the names in our own tables; everything else is a parameter. */
#include "base/memory.h"
#include "base/parse.h"
#include "store/pg_listing.h"
#include "store/postgresql.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SQL_ROOM = 1024, PAGE_CHUNKS = 16, SMALL_LIMIT = 256, CHUNK_COLUMNS = 4, MAX_ARRAYS = 10 };

typedef struct rows {
    td__rows base;
    td__pg_store *store;
    td__query query;
    const td__pg_series *series; /* chunks; NULL: rows as they were answered */
    char sql[SQL_ROOM];
    char types[MAX_ARRAYS + 1]; /* of the arrays that are selected */
    int arrays;
    /* What was asked for. */
    int64_t signal, first, last, left;
    /* The answer that is being read: its rows from `at` to `end`, and which column is the first one. */
    td__pg_answer own;
    const td__pg_answer *answer;
    size_t at, end;
    int shift;
    bool asked, keyed; /* keyed: of all signals at once, the first column says which */
    bool absent;       /* a row of NULLs: the ends of what is not there */
    /* The chunk that is being read. */
    td__pg_cell *cells;
    int64_t *steps;
    size_t cell_capacity, step_capacity, count, next;
    int64_t after, before; /* where the next page begins, by the first step of a chunk */
    bool more;             /* pages; of keyed answers: it has to be looked for */
    size_t now;            /* the row that is handed on, of the chunk or the answer */
} rows;

/* ---- Statements ----------------------------------------------------------------------------- */

static bool is_statistic(const td__pg_series *series, const char *column, int *index) {
    for (int i = 0; i < series->columns - 1; i++) { /* not first_nonfinite */
        if (strcmp(column, i ? series->names[i] : "count") == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* A column of statistics: it, nan and inf. */
static bool choose_arrays(rows *r, char *names, size_t size) {
    const td__pg_series *s = r->series;
    int chosen[MAX_ARRAYS], statistic;
    for (int i = 0; i < s->columns; i++) {
        chosen[i] = i;
    }
    r->arrays = s->columns;
    if (r->query.column) {
        enum { NAN_COUNT = 7, INF_COUNT = 8 };
        if (!is_statistic(s, r->query.column, &statistic)) {
            return false;
        }
        chosen[0] = statistic;
        chosen[1] = NAN_COUNT;
        chosen[2] = INF_COUNT;
        r->arrays = 3;
    }
    size_t used = 0;
    for (int i = 0; i < r->arrays; i++) {
        used += (size_t)snprintf(names + used, size - used, ", c.%s", s->names[chosen[i]]);
        r->types[i] = s->types[chosen[i]];
    }
    return true;
}

static bool select_chunks(rows *r) {
    char arrays[256];
    if (!choose_arrays(r, arrays, sizeof arrays)) {
        return false;
    }
    (void)snprintf(r->sql, sizeof r->sql,
                   "SELECT c.\"first\", c.every, c.count, c.step%s FROM tapedeck.%s c"
                   " WHERE c.run = $1 AND c.signal = $2 AND c.\"first\" >= $5 AND c.\"first\" <= $4"
                   " AND c.\"first\" >= coalesce((SELECT max(b.\"first\") FROM tapedeck.%s b"
                   " WHERE b.run = $1 AND b.signal = $2 AND b.\"first\" <= $3), $3)"
                   " ORDER BY c.\"first\"%s LIMIT $6",
                   arrays, r->series->name, r->series->name, r->query.backwards ? " DESC" : "");
    return true;
}

/* What of it has each signal, in one statement. */
static void select_ends(rows *r) {
    bool series = r->query.source == TD__TENSORS;
    const char *table = series ? "tensor_series" : td__pg_series_of(r->query.source)->name;
    (void)snprintf(r->sql, sizeof r->sql,
                   "SELECT signal, min(%s), max(\"last\")%s FROM tapedeck.%s WHERE run = $1"
                   " GROUP BY signal ORDER BY signal",
                   series ? "step" : "\"first\"",
                   series ? ", bool_or(form = 'tensor'), bool_or(form = 'image')" : "", table);
    r->keyed = true;
    r->shift = 1;
}

static void select_tensors(rows *r) {
    const char *form = r->query.form;
    (void)snprintf(r->sql, sizeof r->sql,
                   "SELECT step, form, file, record FROM tapedeck.tensor WHERE run = $1"
                   " AND signal = $2%s AND step BETWEEN $3 AND $4"
                   " ORDER BY step%s, form COLLATE \"C\", file COLLATE \"C\", record LIMIT $5",
                   !form                        ? ""
                   : strcmp(form, "image") == 0 ? " AND form = 'image'"
                                                : " AND form = 'tensor'",
                   r->query.backwards ? " DESC" : "");
}

static const td__pg_table *table_of(td__source source) {
    for (size_t i = 0; i < TD__PG_TABLES; i++) {
        if (td__pg_tables[i].source == source) {
            return &td__pg_tables[i];
        }
    }
    return NULL;
}

static void select_table(rows *r) {
    static const char *const metrics =
        "SELECT g.name, g.kind, g.better, s.last_step, s.last, s.least_step, s.least,"
        " s.greatest_step, s.greatest FROM tapedeck.summary s JOIN tapedeck.signal g"
        " ON g.run = s.run AND g.id = s.signal WHERE s.run = $1 ORDER BY g.id";
    static const char *const notes = /* what people say of it stands before what its deck said */
        "SELECT DISTINCT ON (key COLLATE \"C\") key, value FROM tapedeck.note WHERE run = $1"
        " AND kind IN ('run', 'remark') ORDER BY key COLLATE \"C\", kind";
    const td__pg_table *table =
        table_of(r->query.source == TD__SUMMARIES ? TD__ALL_SUMMARIES : r->query.source);
    if (!table || r->query.source == TD__RUN_NOTES) {
        (void)snprintf(r->sql, sizeof r->sql, "%s", table ? notes : metrics);
        return;
    }
    (void)snprintf(r->sql, sizeof r->sql,
                   "SELECT %s FROM tapedeck.%s WHERE run = $1%s%s%s ORDER BY %s", table->columns,
                   table->name, table->kind ? " AND kind = '" : "", table->kind ? table->kind : "",
                   table->kind ? "'" : "", table->order);
    r->keyed = r->query.source == TD__SUMMARIES;
    r->shift = r->keyed;
}

static td__rows *select_rows(td__store *base, const td__query *query, td_error *error) {
    td__pg_store *store = (td__pg_store *)base;
    rows *r = td__calloc(1, sizeof *r);
    if (!r) {
        td_error_set(error, TD_MEMORY, "out of memory for rows of a database");
        return NULL;
    }
    r->base.class = &td__pg_class;
    r->store = store;
    r->query = *query;
    r->answer = &r->own;
    if (store->listing &&
        td__pg_listed(store->listing, store->listed, query, &r->answer, &r->at, &r->end)) {
        r->asked = true;
        r->shift = 1;
        return &r->base;
    }
    r->series = query->ends ? NULL : td__pg_series_of(query->source);
    if (r->series && !select_chunks(r)) {
        td_error_set(error, TD_INVALID, "a run has no statistic '%s'", query->column);
        td__free(r);
        return NULL;
    }
    if (query->ends) {
        select_ends(r);
    } else if (query->source == TD__TENSORS) {
        select_tensors(r);
    } else if (!r->series) {
        select_table(r);
    }
    return &r->base;
}

/* ---- Asking --------------------------------------------------------------------------------- */

/* Whether the chunk that was read last, and those behind it in the answer, have the rows from `first` on: a series is
 * often read in many parts. Then goes there. */
static bool stay_in_chunk(rows *r, int64_t signal, int64_t first) {
    bool inside = r->series && !r->query.backwards && r->signal == signal && r->count > 0 &&
                  r->steps[0] <= first;
    size_t low = 0, high = inside ? r->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->steps[middle] < first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    r->next = low;
    r->more |= inside;
    return inside;
}

static void bind_rows(td__rows *base, int64_t signal, int64_t first, int64_t last, int64_t limit) {
    rows *r = (rows *)base;
    signal = r->query.source == TD__STEPS ? 0 : signal;
    bool stays = stay_in_chunk(r, signal, first);
    r->signal = signal;
    r->first = first;
    r->last = last;
    r->left = limit;
    r->absent = false;
    r->before = last;
    if (stays || r->answer != &r->own) {
        return;
    }
    r->count = r->next = 0;
    r->after = INT64_MIN;
    r->more = true;
    if (!r->keyed) { /* what was answered for all signals is still good */
        r->asked = false;
        r->at = r->end = 0;
    }
}

/* Of an answer about all signals the row of this one. */
static void find_key(rows *r) {
    size_t low = 0, high = r->own.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        td__pg_cell cell = td__pg_cell_of(&r->own, middle, 0);
        if (td__pg_integer(&cell) < r->signal) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    td__pg_cell cell = td__pg_cell_of(&r->own, low, 0);
    bool found = low < r->own.count && td__pg_integer(&cell) == r->signal;
    r->at = low;
    r->end = low + found;
    r->absent = !found && r->query.ends;
}

static td_status ask(rows *r, td_error *error) {
    char signal[TD__PG_NUMBER], first[TD__PG_NUMBER], last[TD__PG_NUMBER], after[TD__PG_NUMBER];
    bool few = r->left >= 0 && r->left <= SMALL_LIMIT;
    (void)td__pg_number(after, r->series ? r->after : r->left < 0 ? INT64_MAX : r->left);
    const char *const values[] = {r->store->number,
                                  td__pg_number(signal, r->signal),
                                  td__pg_number(first, r->first),
                                  td__pg_number(last, r->series ? r->before : r->last),
                                  after,
                                  few ? "1" : "16"};
    int count = r->series ? 6 : r->query.ends ? 1 : r->query.source == TD__TENSORS ? 5 : 1;
    r->at = 0;
    td_status status = td__pg_ask(r->store->pg, r->sql, count, values, &r->own, error);
    r->end = status ? 0 : r->own.count;
    r->more = r->series ? r->end == (few ? 1 : PAGE_CHUNKS) : r->more;
    r->asked = true;
    return status;
}

/* ---- Chunks --------------------------------------------------------------------------------- */

static td_status damaged(const rows *r, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: a chunk of tapedeck.%s is damaged",
                        r->store->pg->url, r->series->name);
}

static bool read_steps(rows *r, const td__pg_cell *array, int64_t first, int64_t every) {
    for (size_t i = 0; i < r->count; i++) {
        int64_t offset;
        if (array->length < 0 && (every < 1 || __builtin_mul_overflow((int64_t)i, every, &offset) ||
                                  __builtin_add_overflow(first, offset, &r->steps[i]))) {
            return false;
        }
    }
    if (array->length >= 0) {
        if (!td__pg_elements(array, r->cells, r->count)) {
            return false;
        }
        for (size_t i = 0; i < r->count; i++) {
            r->steps[i] = td__pg_integer(&r->cells[i]);
        }
    }
    return true;
}

/* A byte behind each element is overwritten by a zero: the length of the next one, which has been read. */
static void end_texts(td__pg_cell *cells, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (cells[i].length >= 0) {
            ((char *)(uintptr_t)cells[i].data)[cells[i].length] = 0;
        }
    }
}

static td_status read_chunk(rows *r, td_error *error) {
    size_t at = r->at++;
    td__pg_cell first = td__pg_cell_of(&r->own, at, 0), every = td__pg_cell_of(&r->own, at, 1),
                count = td__pg_cell_of(&r->own, at, 2), steps = td__pg_cell_of(&r->own, at, 3);
    int64_t number = td__pg_integer(&count);
    td__pg_cell array = td__pg_cell_of(&r->own, at, CHUNK_COLUMNS);
    r->after = td__pg_integer(&first) + (td__pg_integer(&first) < INT64_MAX);
    if (r->query.backwards) {
        r->after = INT64_MIN;
        r->before = td__pg_integer(&first) - (td__pg_integer(&first) > INT64_MIN);
    }
    if (number < 1 || array.length / 4 < number) {
        return damaged(r, error);
    }
    r->count = (size_t)number;
    if (!td__grow(&r->steps, &r->step_capacity, r->count, INT32_MAX, sizeof *r->steps) ||
        !td__grow(&r->cells, &r->cell_capacity, r->count * (size_t)r->arrays, INT32_MAX,
                  sizeof *r->cells)) {
        return td_error_set(error, TD_MEMORY, "out of memory for rows of a database");
    }
    if (!read_steps(r, &steps, td__pg_integer(&first), td__pg_integer(&every))) {
        return damaged(r, error);
    }
    for (int i = 0; i < r->arrays; i++) {
        td__pg_cell *cells = r->cells + (size_t)i * r->count;
        array = td__pg_cell_of(&r->own, at, CHUNK_COLUMNS + i);
        if (!td__pg_elements(&array, cells, r->count)) {
            return damaged(r, error);
        }
        end_texts(cells, r->types[i] == 't' || r->types[i] == 'b' ? r->count : 0);
    }
    r->next = 0;
    return TD_OK;
}

static int next_of_chunks(rows *r, td_error *error) {
    while (r->left != 0) {
        while (r->next < r->count) {
            r->now = r->query.backwards ? r->count - 1 - r->next : r->next;
            if (!r->query.backwards && r->steps[r->now] > r->last) {
                return 0; /* the chunk stays: the next part of the series may be in it */
            }
            r->next++;
            if (r->steps[r->now] >= r->first && r->steps[r->now] <= r->last) {
                r->left -= r->left > 0;
                return 1;
            }
        }
        if (r->at == r->end && !r->more) {
            return 0;
        }
        bool asks = r->at == r->end;
        if (asks) { /* the chunk is in the answer that goes */
            r->count = r->next = 0;
        }
        if (asks ? ask(r, error) : read_chunk(r, error)) {
            r->more = false;
            r->at = r->end;
            r->count = r->next = 0;
            return -1;
        }
    }
    return 0;
}

static int next_row(td__rows *base, td_error *error) {
    rows *r = (rows *)base;
    if (r->series) {
        return next_of_chunks(r, error);
    }
    if (!r->asked && ask(r, error)) {
        return -1;
    }
    if (r->keyed && r->more) {
        r->more = false;
        find_key(r);
        return r->absent || r->at < r->end ? (r->now = r->at++, 1) : 0;
    }
    r->absent = false;
    return r->at < r->end ? (r->now = r->at++, 1) : 0;
}

/* ---- Values --------------------------------------------------------------------------------- */

/* A cell and its type; 0: as the server sent it. */
static td__pg_cell cell_at(const rows *r, int column, char *type) {
    *type = 0;
    if (r->series) {
        *type = r->types[column - 1];
        return r->cells[(size_t)(column - 1) * r->count + r->now];
    }
    return r->absent ? (td__pg_cell){NULL, -1}
                     : td__pg_cell_of(r->answer, r->now, column + r->shift);
}

static int64_t get_integer(td__rows *base, int column) {
    const rows *r = (rows *)base;
    char type;
    if (r->series && column == 0) {
        return r->steps[r->now];
    }
    td__pg_cell cell = cell_at(r, column, &type);
    if (r->query.column && column == 2) { /* nan + inf */
        td__pg_cell inf = cell_at(r, 3, &type);
        int64_t sum;
        return __builtin_add_overflow(td__pg_integer(&cell), td__pg_integer(&inf), &sum) ? INT64_MAX
                                                                                         : sum;
    }
    return type == 't' ? (cell.data ? strtoll(cell.data, NULL, 10) : 0) : td__pg_integer(&cell);
}

static double get_real(td__rows *base, int column) {
    const rows *r = (rows *)base;
    char type;
    if (r->series && column == 0) {
        return (double)r->steps[r->now];
    }
    td__pg_cell cell = cell_at(r, column, &type);
    double value = 0;
    if (cell.length < 0) {
        return NAN;
    }
    if (type == 't') { /* a label: what is no number counts as 0, as SQLite has it */
        return td__parse_float64(cell.data, &value) ? value : 0;
    }
    return type == 'i' ? (double)td__pg_integer(&cell) : td__pg_real(&cell);
}

static const char *get_text(td__rows *base, int column, size_t *length) {
    const rows *r = (rows *)base;
    char type;
    td__pg_cell cell = r->series && column == 0 ? (td__pg_cell){"", 0} : cell_at(r, column, &type);
    if (length) {
        *length = cell.length > 0 ? (size_t)cell.length : 0;
    }
    return cell.length < 0 ? NULL : cell.data;
}

static void end_rows(td__rows *base) {
    rows *r = (rows *)base;
    td__pg_answer_release(&r->own);
    td__free(r->cells);
    td__free(r->steps);
    td__free(r);
}

/* ---- The class ------------------------------------------------------------------------------ */

static void close_store(td__store *base) {
    td__pg_store *store = (td__pg_store *)base;
    if (store->pg) {
        td__pg_unshare(store->pg);
    }
    td__free(store->folder);
    td__free(store);
}

const td__store_class td__pg_class = {
    .select = select_rows,
    .bind = bind_rows,
    .next = next_row,
    .integer = get_integer,
    .real = get_real,
    .text = get_text,
    .end = end_rows,
    .close = close_store,
};
