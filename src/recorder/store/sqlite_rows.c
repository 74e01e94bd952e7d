/* Rows that come out of run.db. */
#include "base/memory.h"
#include "store/sqlite.h"

#include <math.h>

typedef struct rows {
    td__rows base;
    td__sqlite *store;
    sqlite3_stmt *statement;
} rows;

/* The budget is refilled when nothing is being read. It ends a statement that would run forever in a
 * hostile or damaged file, but not one that reads every row of a large run. */
static void refill_budget(td__sqlite *store) {
    enum { LEAST = 50000000, A_BYTE = 64 };
    store->budget = LEAST + A_BYTE * store->bytes;
}

td__rows *td__sqlite_select(td__store *base, const td__query *query, td_error *error) {
    td__sqlite *store = (td__sqlite *)base;
    char sql[512];
    if (!td__schema_select(sql, sizeof sql, query)) {
        td_error_set(error, TD_INVALID, "run.db has no column '%s'", query->column);
        return NULL;
    }
    if (query->source == TD__TENSORS && !query->ends && td__sqlite_need_view(store, error)) {
        return NULL;
    }
    rows *made = td__calloc(1, sizeof *made);
    if (!made) {
        td_error_set(error, TD_MEMORY, "run.db: out of memory");
        return NULL;
    }
    if (store->open_statements == 0) {
        refill_budget(store);
    }
    if (sqlite3_prepare_v2(store->database, sql, -1, &made->statement, NULL) != SQLITE_OK) {
        td_error_set(error, TD_FORMAT, "run.db: %s", sqlite3_errmsg(store->database));
        td__free(made);
        return NULL;
    }
    store->open_statements++;
    made->base.class = &td__sqlite_class;
    made->store = store;
    return &made->base;
}

void td__sqlite_bind(td__rows *base, int64_t signal, int64_t first, int64_t last, int64_t limit) {
    sqlite3_stmt *statement = ((rows *)base)->statement;
    const int64_t values[] = {signal, first, last, limit};
    sqlite3_reset(statement);
    int count = sqlite3_bind_parameter_count(statement);
    for (int i = 0; i < count; i++) {
        sqlite3_bind_int64(statement, i + 1, values[i]);
    }
}

int td__sqlite_next(td__rows *base, td_error *error) {
    rows *r = (rows *)base;
    int code = sqlite3_step(r->statement);
    if (code == SQLITE_ROW || code == SQLITE_DONE) {
        return code == SQLITE_ROW;
    }
    td_error_set(error, TD_FORMAT, "run.db: %s; what lies behind the damage is missing",
                 code == SQLITE_INTERRUPT ? "reading it would not end"
                                          : sqlite3_errmsg(r->store->database));
    return -1;
}

int64_t td__sqlite_integer(td__rows *base, int column) {
    return sqlite3_column_int64(((rows *)base)->statement, column);
}

double td__sqlite_real(td__rows *base, int column) {
    sqlite3_stmt *statement = ((rows *)base)->statement;
    double value = sqlite3_column_double(statement, column);
    bool none = value == 0 && sqlite3_column_type(statement, column) == SQLITE_NULL;
    return none ? NAN : value;
}

const char *td__sqlite_text(td__rows *base, int column, size_t *length) {
    sqlite3_stmt *statement = ((rows *)base)->statement;
    const char *text = (const char *)sqlite3_column_text(statement, column);
    if (length) {
        *length = (size_t)sqlite3_column_bytes(statement, column);
    }
    return text;
}

void td__sqlite_end(td__rows *base) {
    rows *r = (rows *)base;
    sqlite3_finalize(r->statement);
    r->store->open_statements--;
    td__free(r);
}
