/* A signal's numbers as they were recorded: step by step, and example by example. */
#include "base/memory.h"
#include "base/parse.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const size_t most_numbers = (size_t)1 << 24;

/* ---- Steps ---------------------------------------------------------------------------------- */

/* NULL when there is no such statistic. */
static sqlite3_stmt *prepare(td_run *run, const char *statistic) {
    static const char *const statistics[] = {"count", "mean",  "std", "min", "max",
                                             "norm",  "zeros", "nan", "inf"};
    if (!statistic) {
        return td__run_prepare(run, "SELECT step, value, 0 FROM scalar WHERE signal=?1"
                                    " AND step>=?2 AND step<=?3 ORDER BY step LIMIT ?4");
    }
    for (size_t i = 0; i < sizeof statistics / sizeof *statistics; i++) {
        if (strcmp(statistic, statistics[i]) == 0) {
            char sql[160];
            (void)snprintf(sql, sizeof sql,
                           "SELECT step, %s, nan + inf FROM stats WHERE signal=?1"
                           " AND step>=?2 AND step<=?3 ORDER BY step LIMIT ?4",
                           statistics[i]);
            return td__run_prepare(run, sql);
        }
    }
    return NULL;
}

size_t td_run_values(td_run *run, const td_run_signal *signal, const char *statistic, int64_t first,
                     int64_t last, td_value *values, size_t most) {
    sqlite3_stmt *rows = prepare(run, statistic);
    if (!rows) {
        return 0;
    }
    sqlite3_bind_int64(rows, 1, signal->id);
    sqlite3_bind_int64(rows, 2, first);
    sqlite3_bind_int64(rows, 3, last);
    sqlite3_bind_int64(rows, 4, (int64_t)(most < INT64_MAX ? most : INT64_MAX));
    size_t count = 0;
    while (count < most && td__run_next(run, rows)) {
        td_value v = {sqlite3_column_int64(rows, 0), td__column_number(rows, 1),
                      sqlite3_column_int64(rows, 2)};
        v.nonfinite = statistic ? v.nonfinite : !isfinite(v.value);
        values[count++] = v;
    }
    sqlite3_finalize(rows);
    return count;
}

bool td_run_when(td_run *run, int64_t step, td_run_step *when) {
    static const char *const queries[] = {
        "SELECT step, epoch, wall_time FROM step WHERE step<=? ORDER BY step DESC LIMIT 1",
        "SELECT step, epoch, wall_time FROM step WHERE step>? ORDER BY step LIMIT 1"};
    bool found = false;
    for (size_t i = 0; !found && i < sizeof queries / sizeof *queries; i++) {
        sqlite3_stmt *rows = td__run_prepare(run, queries[i]);
        if (rows) {
            sqlite3_bind_int64(rows, 1, step);
        }
        found = td__run_next(run, rows);
        if (found) {
            *when = (td_run_step){sqlite3_column_int64(rows, 0), sqlite3_column_int64(rows, 1),
                                  sqlite3_column_double(rows, 2)};
        }
        sqlite3_finalize(rows);
    }
    return found;
}

/* ---- Examples ------------------------------------------------------------------------------- */

/* [1.5,null,…] into a growing list; SIZE_MAX when it is none. */
static size_t parse_numbers(const char *text, double **numbers, size_t *capacity) {
    size_t count = 0;
    if (*text++ != '[') {
        return SIZE_MAX;
    }
    while (*text != ']') {
        double number = NAN;
        const char *end =
            strncmp(text, "null", 4) == 0 ? text + 4 : td__parse_float64(text, &number);
        if (!end || !td__grow(numbers, capacity, count + 1, most_numbers, sizeof **numbers)) {
            return SIZE_MAX;
        }
        (*numbers)[count++] = number;
        text = end + (*end == ',');
        if (*end != ',' && *end != ']') {
            return SIZE_MAX;
        }
    }
    return count;
}

static td_status read_examples(td_run *run, const td_run_signal *signal, sqlite3_stmt *rows,
                               td_example_function *each, void *user, td_error *error) {
    double *numbers = NULL;
    size_t capacity = 0;
    td_status status = TD_OK;
    while (!status && td__run_next(run, rows)) {
        const char *text = (const char *)sqlite3_column_text(rows, 3);
        int type = sqlite3_column_type(rows, 2);
        bool labelled = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
        size_t count = parse_numbers(text ? text : "", &numbers, &capacity);
        if (count == SIZE_MAX) {
            td__run_problem(&run->problems, "run.db: %s: an example is damaged", signal->name);
            continue;
        }
        td_example example = {sqlite3_column_int64(rows, 0), sqlite3_column_int64(rows, 1),
                              labelled ? sqlite3_column_double(rows, 2) : NAN, numbers, count};
        status = each(user, &example, error);
    }
    td__free(numbers);
    return status;
}

td_status td_run_examples(td_run *run, const td_run_signal *signal, int64_t step,
                          td_example_function *each, void *user, td_error *error) {
    sqlite3_stmt *last =
        td__run_prepare(run, "SELECT max(step) FROM example WHERE signal=? AND step<=?");
    if (last) {
        sqlite3_bind_int64(last, 1, signal->id);
        sqlite3_bind_int64(last, 2, step);
    }
    bool found = td__run_next(run, last) && sqlite3_column_type(last, 0) != SQLITE_NULL;
    int64_t at = found ? sqlite3_column_int64(last, 0) : 0;
    sqlite3_finalize(last);
    if (!found) {
        return td_error_set(error, TD_NOT_FOUND, "%s has no examples at or before step %lld",
                            signal->name, (long long)step);
    }
    sqlite3_stmt *rows = td__run_prepare(
        run, "SELECT step, sample, label, value FROM example WHERE signal=? AND step=?"
             " ORDER BY sample");
    if (rows) {
        sqlite3_bind_int64(rows, 1, signal->id);
        sqlite3_bind_int64(rows, 2, at);
    }
    td_status status = read_examples(run, signal, rows, each, user, error);
    sqlite3_finalize(rows);
    return status;
}
