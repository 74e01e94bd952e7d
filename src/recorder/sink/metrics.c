/* metrics.csv; see metrics.h. */
#include "sink/metrics.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "deck/reach.h"
#include "sink/resume.h"
#include "sink/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "metrics.csv"
#define START "epoch,step"

enum { MAXIMUM = 1 << 24 };

static td_status out_of_memory(td_error *error) {
    return td_error_set(error, TD_MEMORY, FILE_NAME ": out of memory");
}

/* The name as a header's cell, to be freed; NULL when memory is exhausted. */
static char *make_cell(const char *name) {
    size_t length = strlen(name);
    char *cell = td__calloc(TD__CSV_CELL(length) + 1, 1);
    if (cell) {
        size_t size = td__csv_cell(cell, name, length);
        cell[size] = 0;
    }
    return cell;
}

/* Adds it as column `at`, and moves those behind. Takes cell, whatever it returns. */
static td_status add_column(td__metrics *metrics, char *cell, size_t at, td_error *error) {
    if (!cell || !td__grow(&metrics->columns, &metrics->capacity, metrics->count + 1, MAXIMUM,
                           sizeof *metrics->columns)) {
        td__free(cell);
        return out_of_memory(error);
    }
    td__metric *column = &metrics->columns[at];
    memmove(column + 1, column, (metrics->count++ - at) * sizeof *column);
    *column = (td__metric){.cell = cell};
    for (size_t i = 0; i < metrics->signal_count; i++) {
        metrics->by_signal[i] += metrics->by_signal[i] > (int32_t)at;
    }
    return TD_OK;
}

/* The column of that name, which is added as column `fresh` where there is none. */
static td_status find_column(td__metrics *metrics, const char *name, size_t fresh, size_t *column,
                             td_error *error) {
    char *cell = make_cell(name);
    for (size_t i = 0; cell && i < metrics->count; i++) {
        if (strcmp(metrics->columns[i].cell, cell) == 0) {
            td__free(cell);
            *column = i;
            return TD_OK;
        }
    }
    *column = fresh;
    return add_column(metrics, cell, fresh, error);
}

td_status td__metrics_expect(td__metrics *metrics, const char *name, td_error *error) {
    size_t column;
    td_status status = find_column(metrics, name, metrics->expected, &column, error);
    if (!status && column >= metrics->expected) {
        metrics->expected = column + 1;
    }
    return status;
}

/* Looked up by name once, by index from then on. */
static td_status column_of_signal(td__metrics *metrics, const char *name, int32_t signal,
                                  size_t *column, td_error *error) {
    if (!td__signals_reach(&metrics->by_signal, &metrics->signal_count, signal, sizeof(int32_t))) {
        return out_of_memory(error);
    }
    int32_t *known = &metrics->by_signal[signal];
    if (*known == 0) {
        td_status status = find_column(metrics, name, metrics->count, column, error);
        if (status) {
            return status;
        }
        *known = (int32_t)*column + 1;
    }
    *column = (size_t)*known - 1;
    return TD_OK;
}

td_status td__metrics_put(td__metrics *metrics, const char *name, int32_t signal, int64_t epoch,
                          int64_t step, double value, td_error *error) {
    size_t column;
    td_status status = column_of_signal(metrics, name, signal, &column, error);
    if (status) {
        return status;
    }
    if (metrics->gathering &&
        (metrics->step != step || metrics->epoch != epoch || metrics->columns[column].present)) {
        status = td__metrics_end_row(metrics, error);
        if (status) {
            return status;
        }
    }
    metrics->gathering = true;
    metrics->epoch = epoch;
    metrics->step = step;
    metrics->columns[column].value = value;
    metrics->columns[column].present = true;
    *metrics->set->held += 1;
    metrics->widening |= !metrics->columns[column].in_file;
    return TD_OK;
}

static bool is_column(const td__metric *column) {
    return column->in_file || column->present;
}

/* The header the file is to have, to be freed; NULL when memory is exhausted. */
static char *make_header(const td__metrics *metrics, size_t *size) {
    size_t room = sizeof START + 1;
    for (size_t i = 0; i < metrics->count; i++) {
        room += 1 + strlen(metrics->columns[i].cell);
    }
    char *header = td__calloc(room, 1);
    if (!header) {
        return NULL;
    }
    char *end = stpcpy(header, START);
    for (size_t i = 0; i < metrics->count; i++) {
        if (is_column(&metrics->columns[i])) {
            *end++ = ',';
            end = stpcpy(end, metrics->columns[i].cell);
        }
    }
    *end++ = '\n';
    *size = (size_t)(end - header);
    return header;
}

/* Whether every row from `rows` on is whole: epoch, step and a cell for each of `columns`, numbers
 * only, so that every comma parts two cells. What else is in the file, this program did not write.
 */
static bool rows_are_ours(const char *rows, size_t size, size_t columns) {
    size_t commas = 0;
    bool begun = false;
    for (const char *at = rows; at < rows + size; at++) {
        if (*at == '\n' && commas != columns + 1) {
            return false;
        }
        if (*at != '\n' && !strchr("0123456789+-.,eEinfa", *at)) { /* and nan, inf */
            return false;
        }
        begun = *at != '\n';
        commas = *at == '\n' ? 0 : commas + (*at == ',');
    }
    return !begun;
}

/* One row of the old file with empty cells for the new columns. Returns the end of out and moves
 * *row behind the line. */
static char *widen_row(char *out, const char **row, const td__metrics *metrics) {
    const char *at = *row;
    for (int commas = 0; *at != '\n' && !(*at == ',' && commas == 1); at++) {
        commas += *at == ',';
        *out++ = *at;
    }
    for (size_t i = 0; i < metrics->count; i++) {
        if (metrics->columns[i].in_file) {
            *out++ = *at++;
            while (*at != ',' && *at != '\n') {
                *out++ = *at++;
            }
        } else if (metrics->columns[i].present) {
            *out++ = ',';
        }
    }
    *out++ = '\n';
    *row = at + 1;
    return out;
}

/* The file is not what was written: from the next row on there is a new one. */
static td_status set_aside(td__metrics *metrics, td_error *error) {
    char aside[TD__ASIDE_SIZE];
    td_status status = td__file_set_aside(metrics->set->folder, FILE_NAME, aside, error);
    if (status) {
        return status;
    }
    if (metrics->file) {
        td__append_forget(metrics->file);
    }
    metrics->file = NULL;
    for (size_t i = 0; i < metrics->count; i++) {
        metrics->columns[i].in_file = false;
    }
    td_error problem = {0};
    td_error_set(&problem, TD_FORMAT,
                 FILE_NAME " is not as this run wrote it; it is set aside as %s", aside);
    td__append_report(metrics->set, &problem);
    return TD_OK;
}

/* The file's rows, to be freed; NULL, with error, on failure. */
static char *read_metric_rows(const td__metrics *metrics, size_t size, td_error *error) {
    char *rows = td__calloc(size, 1);
    int fd = td__file_open(metrics->set->folder, FILE_NAME, O_RDONLY | O_NOFOLLOW);
    if (!rows) {
        out_of_memory(error);
    } else if (fd < 0 || !td__read_all(fd, rows, size, (off_t)metrics->header_size)) {
        td__file_error(error, FILE_NAME, "read");
        td__free(rows);
        rows = NULL;
    }
    if (fd >= 0) {
        close(fd);
    }
    return rows;
}

/* The file as it is, with the new header and columns; or none, when it is set aside. */
static td_status widen_table(td__metrics *metrics, const char *header, size_t header_size,
                             td_error *error) {
    td__append *file = metrics->file;
    td_status status = td__append_commit(file, error); /* rows in memory have the old width */
    if (status) {
        return status;
    }
    size_t size = (size_t)file->end - metrics->header_size, lines = 0, added = 0, columns = 0;
    char *rows = read_metric_rows(metrics, size, error);
    if (!rows) {
        return TD_IO;
    }
    for (size_t i = 0; i < size; i++) {
        lines += rows[i] == '\n';
    }
    for (size_t i = 0; i < metrics->count; i++) {
        columns += metrics->columns[i].in_file;
        added += metrics->columns[i].present && !metrics->columns[i].in_file;
    }
    if (!rows_are_ours(rows, size, columns)) {
        td__free(rows);
        return set_aside(metrics, error);
    }
    char *whole = td__calloc(header_size + size + lines * added, 1);
    if (whole) {
        memcpy(whole, header, header_size);
        char *end = whole + header_size;
        for (const char *row = rows; row < rows + size;) {
            end = widen_row(end, &row, metrics);
        }
        status = td__append_replace(file, whole, (size_t)(end - whole), error);
    } else {
        status = out_of_memory(error);
    }
    td__free(whole);
    td__free(rows);
    return status;
}

/* The file has a column for everything in the row. */
static td_status fit_header(td__metrics *metrics, td_error *error) {
    if (metrics->file && !metrics->widening) {
        return TD_OK;
    }
    size_t size;
    char *header = make_header(metrics, &size);
    if (!header) {
        return out_of_memory(error);
    }
    td_status status = metrics->file ? widen_table(metrics, header, size, error)
                                     : td__append_create(metrics->set, FILE_NAME, TD__APPEND_LINES,
                                                         header, size, &metrics->file, error);
    if (!status && !metrics->file) {
        td__free(header);
        return fit_header(metrics, error); /* a file of its own now */
    }
    if (!status) {
        metrics->header_size = size;
        metrics->widening = false;
        for (size_t i = 0; i < metrics->count; i++) {
            metrics->columns[i].in_file |= metrics->columns[i].present;
        }
    }
    td__free(header);
    return status;
}

td_status td__metrics_end_row(td__metrics *metrics, td_error *error) {
    if (!metrics->gathering) {
        return TD_OK;
    }
    td_status status = fit_header(metrics, error);
    if (status) {
        return status; /* the row stays and is tried again */
    }
    td__append *file = metrics->file;
    size_t cell = TD__NUMBER_TEXT + 1;
    int64_t values = 0;
    td__append_begin(file);
    char *start = td__append_room(file, cell * (metrics->count + 2) + TD__NUMBER_ROOM);
    if (!start) {
        return out_of_memory(error);
    }
    char *end = start + td__format_int(start, metrics->epoch);
    *end++ = ',';
    end += td__format_int(end, metrics->step);
    for (size_t i = 0; i < metrics->count; i++) {
        if (metrics->columns[i].in_file) {
            *end++ = ',';
        }
        if (metrics->columns[i].present) {
            end += td__format_value(end, metrics->columns[i].value);
            values++;
        }
    }
    *end++ = '\n';
    td__append_advance(file, (size_t)(end - start));
    status = td__append_end(file, values, error);
    if (!status) {
        *metrics->set->held -= values; /* the file's now */
        metrics->gathering = false;
        for (size_t i = 0; i < metrics->count; i++) {
            metrics->columns[i].present = false;
        }
    }
    return status;
}

/* The end of a header's cell: the ',' or '\n' behind it, or end when there is neither. */
static const char *cell_end(const char *cell, const char *end) {
    for (bool quoted = false; cell < end && (quoted || (*cell != ',' && *cell != '\n')); cell++) {
        quoted ^= *cell == '"';
    }
    return cell;
}

/* The columns of a header that ends at end with its '\n'; *ours: it is one that was written here. */
static td_status read_columns(td__metrics *metrics, const char *header, const char *end, bool *ours,
                              td_error *error) {
    size_t length = strlen(START);
    *ours = (size_t)(end - header) > length + 1 && memcmp(header, START, length) == 0 &&
            end[-1] == '\n';
    const char *at = header + length;
    while (*ours && *at == ',') {
        const char *next = cell_end(at + 1, end);
        char *cell = td__calloc((size_t)(next - at), 1);
        if (cell) {
            memcpy(cell, at + 1, (size_t)(next - at - 1));
        }
        td_status status = add_column(metrics, cell, metrics->count, error);
        if (status) {
            return status;
        }
        metrics->columns[metrics->count - 1].in_file = true;
        *ours = next < end;
        at = next;
    }
    *ours = *ours && *at == '\n';
    return TD_OK;
}

static td_status take_up(td__metrics *metrics, const char *text, size_t size, td_error *error) {
    const char *end = td__csv_line_end(text, text + size);
    size_t length = (size_t)(end - text);
    bool ours;
    td_status status = read_columns(metrics, text, end, &ours, error);
    if (status) {
        return status;
    }
    if (!ours || !rows_are_ours(end, size - length, metrics->count)) {
        while (metrics->count > 0) {
            td__free(metrics->columns[--metrics->count].cell);
        }
        return set_aside(metrics, error);
    }
    metrics->header_size = length;
    return td__append_adopt(metrics->set, FILE_NAME, TD__APPEND_LINES, text, length, &metrics->file,
                            error);
}

td_status td__metrics_resume(td__metrics *metrics, td_error *error) {
    int fd = td__file_open(metrics->set->folder, FILE_NAME, O_RDONLY | O_NOFOLLOW);
    if (fd < 0) {
        return errno == ENOENT ? TD_OK : td__file_error(error, FILE_NAME, "open");
    }
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = td__calloc(size > 0 ? (size_t)size : 1, 1);
    td_status status = text ? TD_OK : out_of_memory(error);
    if (!status && !td__read_all(fd, text, (size_t)size, 0)) {
        status = td__file_error(error, FILE_NAME, "read");
    }
    close(fd);
    status = status ? status : take_up(metrics, text, (size_t)size, error);
    td__free(text);
    return status;
}

void td__metrics_release(td__metrics *metrics) {
    for (size_t i = 0; i < metrics->count; i++) {
        td__free(metrics->columns[i].cell);
    }
    td__free(metrics->columns);
    td__free(metrics->by_signal);
}
