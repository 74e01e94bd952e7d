/* A signal's numbers over time, few enough to be drawn. */
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A page looks at so many rows at most; of more, a share from each part of the time. */
enum { MOST_ROWS = 400000 };

static const char *const statistics[] = {"count", "mean",  "std", "min", "max",
                                         "norm",  "zeros", "nan", "inf"};

/* Rows of one signal, by step. NULL when there is no such statistic. */
static sqlite3_stmt *prepare(td_run *run, const td_run_signal *signal, const char *statistic) {
    const char *column = "value";
    for (size_t i = 0; statistic && i < sizeof statistics / sizeof *statistics; i++) {
        column = strcmp(statistic, statistics[i]) == 0 ? statistics[i] : column;
    }
    if (statistic && strcmp(column, "value") == 0) {
        return NULL;
    }
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "SELECT step, %s FROM %s WHERE signal=?1 AND step>=?2 AND step<=?3 ORDER BY step"
                   " LIMIT ?4",
                   column, statistic ? "stats" : "scalar");
    sqlite3_stmt *rows = td__run_prepare(run, sql);
    if (rows) {
        sqlite3_bind_int64(rows, 1, signal->id);
    }
    return rows;
}

static void add(td_point *point, bool first, int64_t step, double value) {
    point->step = step;
    point->value = value;
    point->low = first ? value : fmin(point->low, value);
    point->high = first ? value : fmax(point->high, value);
}

size_t td_run_points(td_run *run, const td_run_signal *signal, const char *statistic, int64_t first,
                     int64_t last, td_point *points, size_t most, bool *sampled) {
    first = first > signal->first_step ? first : signal->first_step;
    last = last < signal->last_step ? last : signal->last_step;
    sqlite3_stmt *rows = first <= last && most > 0 ? prepare(run, signal, statistic) : NULL;
    size_t count = 0;
    if (sampled) {
        *sampled = false;
    }
    double span = ((double)last - (double)first + 1) / (double)most;
    int64_t share = MOST_ROWS / (int64_t)(most ? most : 1) + 1;
    for (size_t i = 0; rows && i < most; i++) {
        int64_t from = first + (int64_t)floor((double)i * span);
        int64_t to = i + 1 < most ? first + (int64_t)floor((double)(i + 1) * span) - 1 : last;
        if (from > to) {
            continue;
        }
        sqlite3_bind_int64(rows, 2, from);
        sqlite3_bind_int64(rows, 3, to);
        sqlite3_bind_int64(rows, 4, share);
        int64_t seen = 0;
        for (; td__run_next(run, rows); seen++) {
            add(&points[count], seen == 0, sqlite3_column_int64(rows, 0),
                td__column_number(rows, 1));
        }
        sqlite3_reset(rows);
        count += seen > 0;
        if (sampled && seen == share && points[count - 1].step < to) {
            *sampled = true;
        }
    }
    sqlite3_finalize(rows);
    return count;
}

bool td_run_extremes(td_run *run, const td_run_signal *signal, td_extremes *extremes) {
    td_extremes e = {.least = NAN, .greatest = NAN};
    sqlite3_stmt *rows =
        td__run_prepare(run, "SELECT step, value FROM scalar WHERE signal=? ORDER BY step");
    if (!rows) {
        return false;
    }
    sqlite3_bind_int64(rows, 1, signal->id);
    while (td__run_next(run, rows)) {
        e.count++;
        e.last_step = sqlite3_column_int64(rows, 0);
        e.last = td__column_number(rows, 1);
        if (!(e.last >= e.least)) {
            e.least_step = isnan(e.last) ? e.least_step : e.last_step;
            e.least = isnan(e.last) ? e.least : e.last;
        }
        if (!(e.last <= e.greatest)) {
            e.greatest_step = isnan(e.last) ? e.greatest_step : e.last_step;
            e.greatest = isnan(e.last) ? e.greatest : e.last;
        }
    }
    sqlite3_finalize(rows);
    *extremes = e;
    return e.count > 0;
}
