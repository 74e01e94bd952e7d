/* SQL, series and layers × time as numbers. */
#include "mcp_values.h"

#include "tapedeck/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 1000, MAX_POINTS = 1000, QUERY_BYTES = 48 << 10 };

/* ---- query ---------------------------------------------------------------------------------- */

static json_t *cell_value(const td_cell *cell) {
    switch (cell->kind) {
    case TD_CELL_INTEGER:
        return json_integer(cell->integer);
    case TD_CELL_REAL:
        return mcp_number(cell->real);
    case TD_CELL_TEXT:
        return mcp_words(cell->text);
    case TD_CELL_BYTES:
        return json_sprintf("(%zu bytes)", cell->length);
    default:
        return json_null();
    }
}

static size_t cell_bytes(const td_cell *cell) {
    return cell->kind == TD_CELL_TEXT && cell->length < MCP_MAX_TEXT ? cell->length + 3
           : cell->kind == TD_CELL_TEXT                              ? MCP_MAX_TEXT
                                                                     : 12;
}

static json_t *read_sql_rows(td_sql *sql, int64_t limit, td_error *error) {
    const char *const *names;
    const td_cell *cells;
    size_t columns = td_sql_columns(sql, &names), bytes = 0;
    json_t *rows = json_array(), *heads = json_array();
    for (size_t i = 0; i < columns; i++) {
        (void)json_array_append_new(heads, mcp_words(names[i]));
    }
    int next;
    bool full = false;
    while (!full && (next = td_sql_next(sql, &cells, error)) > 0) {
        full = (int64_t)json_array_size(rows) >= limit || bytes > QUERY_BYTES;
        json_t *row = full ? NULL : json_array();
        for (size_t i = 0; row && i < columns; i++) {
            (void)json_array_append_new(row, cell_value(&cells[i]));
            bytes += cell_bytes(&cells[i]);
        }
        if (row) {
            (void)json_array_append_new(rows, row);
        }
    }
    json_t *made = json_pack("{s:o, s:o, s:b}", "columns", heads, "rows", rows, "more", full);
    if (next < 0) {
        json_decref(made);
        made = NULL;
    }
    return made;
}

json_t *mcp_query(const char *folder, const json_t *arguments, td_error *error) {
    enum { MAX_NAMED = 50 };
    static char paths[MAX_NAMED][MCP_MAX_PATH];
    const char *runs[MAX_NAMED] = {folder};
    const json_t *named = json_object_get(arguments, "runs");
    size_t count = named ? json_array_size(named) : 0;
    for (size_t i = 0; i < count; i++) {
        if (!mcp_find_run(folder, json_string_value(json_array_get(named, i)), paths[i], error)) {
            return NULL;
        }
        runs[i] = paths[i];
    }
    td_sql_options options = {.size = sizeof options, .seconds = 10};
    td_sql *sql =
        td_sql_open(runs, count ? count : 1, mcp_text(arguments, "sql", ""), &options, error);
    json_t *made = sql ? read_sql_rows(sql, mcp_integer(arguments, "limit", 100), error) : NULL;
    if (made) {
        const char *const *problems;
        size_t problem_count = td_sql_problems(sql, &problems);
        mcp_put_problems(made, problems, problem_count);
    }
    td_sql_close(sql);
    return made;
}

/* ---- series, layers ------------------------------------------------------------------------- */

/* One number of each point, as a list. */
static json_t *point_list(const td_point *points, size_t count, char which) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const td_point *p = &points[i];
        (void)json_array_append_new(list, which == 's'   ? json_integer(p->step)
                                          : which == 'v' ? mcp_number(p->value)
                                          : which == 'l' ? mcp_number(p->low)
                                                         : mcp_number(p->high));
    }
    return list;
}

static json_t *series_of(td_run *run, const td_run_signal *signal, const char *statistic,
                         const json_t *arguments) {
    td_point points[MAX_POINTS];
    size_t max = (size_t)mcp_integer(arguments, "points", 100);
    bool sampled = false;
    size_t count = td_run_points(run, signal, statistic, mcp_integer(arguments, "first", INT64_MIN),
                                 mcp_integer(arguments, "last", INT64_MAX), points, max, &sampled);
    json_t *made = json_object();
    bool grouped = false;
    for (size_t i = 0; i < count; i++) {
        grouped = grouped || points[i].low < points[i].high;
    }
    mcp_put(made, "signal", mcp_words(signal->name));
    mcp_put(made, "statistic", statistic ? json_string(statistic) : json_null());
    mcp_put(made, "steps", point_list(points, count, 's'));
    mcp_put(made, "values", point_list(points, count, 'v'));
    if (grouped) { /* each point stands for several steps */
        mcp_put(made, "low", point_list(points, count, 'l'));
        mcp_put(made, "high", point_list(points, count, 'h'));
    }
    if (sampled) {
        mcp_put(made, "sampled", json_true());
    }
    return made;
}

json_t *mcp_series_of(td_run *run, const json_t *arguments, td_error *error) {
    enum { MAX_SERIES = 20 };
    const char *what = mcp_text(arguments, "signals", "*");
    const char *statistic = mcp_text(arguments, "statistic", NULL);
    json_t *list = json_array();
    size_t left_out = 0, count = td_run_signal_count(run);
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        bool scalar = signal->forms & TD_SCALAR, stats = signal->forms & TD_STATS;
        if (!td_run_matches(what, signal->name) || (statistic ? !stats : !scalar && !stats)) {
            continue;
        }
        if (json_array_size(list) >= MAX_SERIES) {
            left_out++;
        } else {
            const char *statistic_name = statistic ? statistic : scalar ? NULL : "norm";
            (void)json_array_append_new(list, series_of(run, signal, statistic_name, arguments));
        }
    }
    if (json_array_size(list) == 0) {
        json_decref(list);
        td_error_set(error, TD_NOT_FOUND,
                     "no signal that was recorded as numbers or statistics matches %.200s", what);
        return NULL;
    }
    return json_pack("{s:o, s:I}", "series", list, "signals_left_out", (json_int_t)left_out);
}

json_t *mcp_series(const char *folder, const json_t *arguments, td_error *error) {
    td_run *run = mcp_open_run(folder, mcp_text(arguments, "run", ""), error);
    json_t *made = run ? mcp_series_of(run, arguments, error) : NULL;
    td_run_close(run);
    return made;
}

static int by_position(const void *a, const void *b) {
    const td_run_signal *x = *(const td_run_signal *const *)a,
                        *y = *(const td_run_signal *const *)b;
    return x->info->order != y->info->order ? (x->info->order < y->info->order ? -1 : 1)
                                            : strcmp(x->name, y->name);
}

/* The value that counts at each of the steps: the last one at or before it. */
static json_t *row_at(td_run *run, const td_run_signal *signal, const char *statistic,
                      const int64_t *steps, size_t columns) {
    json_t *row = json_array();
    for (size_t i = 0; i < columns; i++) {
        int64_t from = i ? steps[i - 1] + 1 : INT64_MIN;
        td_point point;
        size_t count = td_run_points(run, signal, statistic, from, steps[i], &point, 1, NULL);
        (void)json_array_append_new(row, count ? mcp_number(point.value) : json_null());
    }
    return row;
}

json_t *mcp_layers(const char *folder, const json_t *arguments, td_error *error) {
    enum { MAX_LAYERS = 150, MAX_COLUMNS = 100 };
    td_run *run = mcp_open_run(folder, mcp_text(arguments, "run", ""), error);
    if (!run) {
        return NULL;
    }
    td_signal_kind kind = td_signal_kind_find(mcp_text(arguments, "kind", "gradient"));
    const char *statistic = mcp_text(arguments, "statistic", "norm");
    size_t columns = (size_t)mcp_integer(arguments, "columns", 20), rows = 0, left_out = 0;
    const td_run_signal *chosen[MAX_LAYERS];
    int64_t first = INT64_MAX, last = INT64_MIN, steps[MAX_COLUMNS];
    for (size_t i = 0; i < td_run_signal_count(run); i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        if (signal->info->kind != kind || !(signal->forms & TD_STATS)) {
            continue;
        }
        if (rows == MAX_LAYERS) {
            left_out++;
            continue;
        }
        chosen[rows++] = signal;
        first = signal->first_step < first ? signal->first_step : first;
        last = signal->last_step > last ? signal->last_step : last;
    }
    if (rows == 0) {
        td_error_set(error, TD_NOT_FOUND,
                     "the run has no statistics of that kind; describe_run lists what it recorded");
        td_run_close(run);
        return NULL;
    }
    qsort(chosen, rows, sizeof *chosen, by_position);
    json_t *list = json_array(), *heads = json_array();
    for (size_t i = 0; i < columns; i++) {
        double share = columns > 1 ? (double)i / (double)(columns - 1) : 1;
        steps[i] = i + 1 == columns ? last : first + (int64_t)((double)(last - first) * share);
        (void)json_array_append_new(heads, json_integer(steps[i]));
    }
    for (size_t i = 0; i < rows; i++) {
        (void)json_array_append_new(
            list, json_pack("{s:o, s:o, s:o}", "layer", mcp_words(chosen[i]->info->layer), "signal",
                            mcp_words(chosen[i]->name), "values",
                            row_at(run, chosen[i], statistic, steps, columns)));
    }
    td_run_close(run);
    return json_pack("{s:s, s:o, s:o, s:I}", "statistic", statistic, "steps", heads, "layers", list,
                     "layers_left_out", (json_int_t)left_out);
}
