/* Copying a run from one store to another, row by row. */
#include "base/memory.h"
#include "store/batch.h"
#include "store/postgresql.h"

#include <string.h>

/* Values of a row from `column` on. */
static void put_values(td__batch *batch, td__rows *row, int column, const char *types) {
    for (; *types; types++) {
        size_t length = 0;
        if (*types == 'n') {
            continue;
        }
        bool number = *types == 'i' || *types == 'd';
        const char *text = number ? NULL : td__rows_text(row, column, &length);
        if (*types == 'd') {
            td__batch_real(batch, td__rows_real(row, column));
        } else if (*types == 'i' || (*types == 'o' && text)) {
            td__batch_int(batch, td__rows_integer(row, column));
        } else if (*types == 'o') {
            td__batch_int(batch, -1);
        } else {
            td__batch_text(batch, text, length);
        }
        column++;
    }
}

static td_status copy_source(td__store *from, td__source source, td__store_table table,
                             int64_t signal, const char *types, td__batch *batch, td_error *error) {
    td__rows *rows = from->class->select(from, &(td__query){.source = source}, error);
    bool series = td__pg_series_of(source) && source != TD__STEPS;
    td_status status = TD_OK;
    int next = -1;
    if (rows) {
        td__rows_bind(rows, signal, INT64_MIN, INT64_MAX, -1);
    }
    while (rows && !status && (next = td__rows_next(rows, error)) > 0) {
        td__batch_begin(batch, table);
        if (series) {
            td__batch_int(batch, signal);
        }
        put_values(batch, rows, 0, types + series);
        status = td__batch_end(batch, error);
        status = status ? status : td__batch_commit_if_full(batch, error);
    }
    td__rows_end(rows);
    return status || next == 0 ? status : error && error->status ? error->status : TD_FORMAT;
}

/* A series of all signals. */
static td_status copy_series(td__store *from, const td__pg_series *series, const char *types,
                             td__batch *batch, td_error *error) {
    if (series->source == TD__STEPS) {
        return copy_source(from, TD__STEPS, series->table, 0, types, batch, error);
    }
    td__rows *signals = from->class->select(from, &(td__query){.source = TD__SIGNALS}, error);
    td_status status = TD_OK;
    int next = -1;
    if (signals) {
        td__rows_bind(signals, 0, 0, 0, -1);
    }
    while (signals && !status && (next = td__rows_next(signals, error)) > 0) {
        status = copy_source(from, series->source, series->table, td__rows_integer(signals, 0),
                             types, batch, error);
    }
    td__rows_end(signals);
    return status || next == 0 ? status : TD_FORMAT;
}

td_status td__store_copy(td__store *from, td__store *to, td_error *error) {
    static const char *const types[TD__TABLES] = {
#define TYPES(name, text, conflict, types) types,
        TD__TABLE_LIST(TYPES)
#undef TYPES
    };
    td__batch batch = {.store = to};
    td_status status = TD_OK;
    for (size_t i = 0; i < TD__PG_TABLES && !status; i++) {
        const td__pg_table *table = &td__pg_tables[i];
        status =
            copy_source(from, table->source, table->table, 0, types[table->table], &batch, error);
    }
    for (size_t i = 0; i < TD__PG_SERIES && !status; i++) {
        const td__pg_series *series = &td__pg_all_series[i];
        status = copy_series(from, series, types[series->table], &batch, error);
    }
    status = status ? status : td__batch_sync(&batch, error);
    td__batch_release(&batch);
    return status;
}
