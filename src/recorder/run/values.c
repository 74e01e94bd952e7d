/* A signal's numbers as they were recorded: step by step, and example by example. */
#include "base/memory.h"
#include "base/parse.h"
#include "run/run.h"

#include <math.h>
#include <string.h>

static const size_t max_numbers = (size_t)1 << 24;

/* ---- Steps ---------------------------------------------------------------------------------- */

size_t td_run_values(td_run *run, const td_run_signal *signal, const char *statistic, int64_t first,
                     int64_t last, td_run_value *values, size_t max) {
    td__query query = {.source = statistic ? TD__STATISTICS : TD__SCALARS, .column = statistic};
    td__rows *rows = td__run_select(run, &query);
    if (!rows) {
        return 0;
    }
    td__rows_bind(rows, signal->id, first, last, (int64_t)(max < INT64_MAX ? max : INT64_MAX));
    size_t count = 0;
    while (count < max && td__run_next(run, rows)) {
        td_run_value v = {.step = td__rows_integer(rows, 0), .value = td__rows_real(rows, 1)};
        v.nonfinite = statistic ? td__rows_integer(rows, 2) : !isfinite(v.value);
        values[count++] = v;
    }
    td__rows_end(rows);
    return count;
}

bool td_run_when(td_run *run, int64_t step, td_run_step *when) {
    bool found = false;
    for (int later = 0; !found && later < 2; later++) {
        td__rows *rows =
            td__run_select(run, &(td__query){.source = TD__STEPS, .backwards = !later});
        if (rows) {
            td__rows_bind(rows, 0, later ? step : INT64_MIN, later ? INT64_MAX : step, 1);
        }
        found = td__run_next(run, rows);
        if (found) {
            *when = (td_run_step){td__rows_integer(rows, 0), td__rows_integer(rows, 1),
                                  td__rows_real(rows, 2)};
        }
        td__rows_end(rows);
    }
    return found;
}

int64_t td_run_count_steps(td_run *run, int64_t first, int64_t last) {
    int64_t count = 0;
    td__rows *rows = td__run_select(run, &(td__query){.source = TD__STEPS});
    if (rows) {
        td__rows_bind(rows, 0, first, last, -1);
    }
    while (td__run_next(run, rows)) {
        count++;
    }
    td__rows_end(rows);
    return count;
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
        if (!end || !td__grow(numbers, capacity, count + 1, max_numbers, sizeof **numbers)) {
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

/* A label that is one number. */
static double label_of(td__rows *row) {
    const char *text = td__run_text(row, 2);
    return strchr("-.0123456789I", *text) && *text ? td__rows_real(row, 2) : NAN;
}

static td_status read_examples(td_run *run, const td_run_signal *signal, td__rows *rows,
                               td_example_function *each, void *user, td_error *error) {
    double *numbers = NULL;
    size_t capacity = 0;
    td_status status = TD_OK;
    while (!status && td__run_next(run, rows)) {
        size_t count = parse_numbers(td__run_text(rows, 3), &numbers, &capacity);
        if (count == SIZE_MAX) {
            td__run_problem(&run->problems, "run.db: %s: an example is damaged", signal->name);
            continue;
        }
        td_example example = {td__rows_integer(rows, 0), td__rows_integer(rows, 1), label_of(rows),
                              numbers, count};
        status = each(user, &example, error);
    }
    td__free(numbers);
    return status;
}

td_status td_run_examples(td_run *run, const td_run_signal *signal, int64_t step,
                          td_example_function *each, void *user, td_error *error) {
    td__rows *last = td__run_select(run, &(td__query){.source = TD__EXAMPLES, .backwards = true});
    if (last) {
        td__rows_bind(last, signal->id, INT64_MIN, step, 1);
    }
    bool found = td__run_next(run, last);
    int64_t at = found ? td__rows_integer(last, 0) : 0;
    td__rows_end(last);
    if (!found) {
        return td_error_set(error, TD_NOT_FOUND, "%s has no examples at or before step %lld",
                            signal->name, (long long)step);
    }
    td__rows *rows = td__run_select(run, &(td__query){.source = TD__EXAMPLES});
    if (rows) {
        td__rows_bind(rows, signal->id, at, at, -1);
    }
    td_status status = read_examples(run, signal, rows, each, user, error);
    td__rows_end(rows);
    return status;
}
