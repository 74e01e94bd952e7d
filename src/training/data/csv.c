/* The rows of a CSV file. */
#include "data/csv.h"
#include "base/memory.h"
#include "base/parse.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

td__csv_outcome td__csv_fail(td__csv *csv, td_status status, const char *format, ...) {
    char text[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    csv->status = td_error_set(csv->error, status, "%s", text);
    return TD__CSV_FAILED;
}

td__csv_outcome td__csv_fill(td__csv *csv) {
    size_t kept = csv->buffer ? (size_t)(csv->end - csv->next) : 0;
    if (!csv->buffer || kept == csv->capacity) {
        size_t capacity = csv->buffer ? csv->capacity * 2 : csv->capacity;
        if (capacity > TD__CSV_RECORD_MAXIMUM) {
            return td__csv_fail(csv, TD_RANGE,
                                "%s line %lld: a row of more than %d MiB; is a quote not closed?",
                                csv->path, (long long)csv->line, TD__CSV_RECORD_MAXIMUM >> 20);
        }
        size_t next = csv->buffer ? (size_t)(csv->next - csv->buffer) : 0;
        char *buffer = td__realloc(csv->buffer, capacity + TD__CSV_PADDING, 1);
        if (!buffer) {
            return td__csv_fail(csv, TD_MEMORY, "%s: no memory", csv->path);
        }
        csv->buffer = buffer;
        csv->capacity = capacity;
        csv->next = buffer + next;
    }
    memmove(csv->buffer, csv->next, kept);
    size_t got = 0;
    csv->status =
        td__input_read(csv->input, csv->buffer + kept, csv->capacity - kept, &got, csv->error);
    csv->next = csv->buffer;
    csv->end = csv->buffer + kept + got;
    csv->read += (int64_t)got;
    memset(csv->end, '\n', TD__CSV_PADDING);
    csv->finished = got < csv->capacity - kept;
    return csv->status ? TD__CSV_FAILED : TD__CSV_RECORD;
}

td__csv_outcome td__csv_skip_empty(const td__csv *csv, char **next, int64_t *line) {
    for (;; ++*line) {
        char *p = *next;
        if (p == csv->end) {
            return csv->finished ? TD__CSV_END : TD__CSV_INCOMPLETE;
        }
        bool empty = *p == '\n' || (*p == '\r' && p[1] == '\n');
        if (!empty) {
            return TD__CSV_RECORD;
        }
        if (*p == '\r' && p + 1 == csv->end && !csv->finished) {
            return TD__CSV_INCOMPLETE;
        }
        *next = td__csv_behind_line(csv, p);
    }
}

static inline bool is_blank(const td__csv *csv, char c) {
    return c == ' ' || c == csv->blank;
}

/* From behind the opening quote to the closing one. */
static td__csv_outcome scan_quoted(td__csv *csv, char *from, td__csv_cell *cell) {
    char *p = from;
    csv->quotes_seen = true;
    for (;;) {
        p = memchr(p, '"', (size_t)(csv->end - p));
        if (!p || p + 1 == csv->end) {
            if (!csv->finished) {
                return TD__CSV_INCOMPLETE;
            }
            if (!p) {
                td__csv_fail(csv, TD_FORMAT, "%s line %lld: a quote is opened and never closed",
                             csv->path, (long long)csv->line);
                return TD__CSV_FAILED;
            }
            break;
        }
        if (p[1] != '"') {
            break;
        }
        p += 2;
    }
    *cell = (td__csv_cell){from, (size_t)(p - from), true, p + 1};
    return TD__CSV_RECORD;
}

td__csv_outcome td__csv_scan(td__csv *csv, char *from, td__csv_cell *cell) {
    char *p = from;
    while (is_blank(csv, *p)) {
        p++;
    }
    if (*p == '"') {
        td__csv_outcome outcome = scan_quoted(csv, p + 1, cell);
        if (outcome != TD__CSV_RECORD) {
            return outcome;
        }
        p = cell->behind;
        while (is_blank(csv, *p)) {
            p++;
        }
    } else {
        *cell = (td__csv_cell){.text = p};
        while (!td__csv_is_cell_end(p, csv->separator)) {
            p++;
        }
        cell->length = (size_t)(p - cell->text);
        if (memchr(cell->text, '\r', cell->length) && (p < csv->end || csv->finished)) {
            return td__csv_fail(csv, TD_FORMAT,
                                "%s line %lld: a carriage return without a line feed; lines end in "
                                "LF or CRLF",
                                csv->path, (long long)csv->line);
        }
        while (cell->length > 0 && is_blank(csv, cell->text[cell->length - 1])) {
            cell->length--;
        }
    }
    /* A line end at the buffer's end may not be one; nor may a CR just before it. */
    if (p + (*p == '\r') >= csv->end && !csv->finished) {
        return TD__CSV_INCOMPLETE;
    }
    if (!td__csv_is_cell_end(p, csv->separator)) {
        return td__csv_fail(csv, TD_FORMAT,
                            "%s line %lld: text behind a closing quote; double the quotes inside "
                            "a quoted field",
                            csv->path, (long long)csv->line);
    }
    cell->behind = p;
    return TD__CSV_RECORD;
}

bool td__csv_text(const td__csv_cell *cell, char *text, size_t size) {
    size_t length = 0, i = 0;
    for (; i < cell->length && length + 1 < size; i++) {
        char c = cell->text[i];
        text[length++] = c ? c : ' ';
        i += cell->quoted && c == '"'; /* the second of a pair */
    }
    text[length] = 0;
    return i >= cell->length;
}

bool td__csv_name(const td__csv_cell *cell, char *name, size_t size) {
    char text[TD__NAME_LENGTH_MAXIMUM + 1];
    bool whole = td__csv_text(cell, text, sizeof text);
    return td__name_clean(name, size, text) && whole;
}

bool td__csv_is_number(const td__csv_cell *cell, float *value) {
    char text[512];
    if (!td__csv_text(cell, text, sizeof text)) {
        return false;
    }
    const char *p = text + strspn(text, " \t");
    const char *end = td__parse_float32(p, value);
    end = end ? end + strspn(end, " \t") : NULL;
    return end && *end == 0;
}

const char *td__csv_place(const td__csv *csv, int64_t column, char *text, size_t size) {
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)column);
    snprintf(text, size, "%s line %lld (row %lld), column '%.100s'", csv->path,
             (long long)csv->line, (long long)csv->rows + 1,
             csv->names ? csv->names[column] : number);
    return text;
}

bool td__csv_is_missing(const char *text) {
    static const char *const words[] = {"", "na", "n/a", "nan", "null", "?"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

static td__csv_outcome bad_number(td__csv *csv, int64_t column, const td__csv_cell *cell) {
    char where[512], text[64];
    bool whole = td__csv_text(cell, text, sizeof text);
    td__csv_place(csv, column, where, sizeof where);
    float value;
    if (td__csv_is_number(cell, &value)) {
        return td__csv_fail(csv, TD_RANGE, "%s: '%s' is not a finite float32", where, text);
    }
    static const char *const commas[] = {
        [TD__COMMA_DECIMAL] =
            "a decimal comma; numbers have a point here, as in 1.5 (sed 's/,/./g')",
        [TD__COMMA_THOUSANDS] = "commas between thousands; numbers have none here, as in 1234.5",
        [TD__COMMA_EITHER] = "a comma between thousands, or a decimal comma; numbers are written "
                             "1234 or 1.234 here",
    };
    td__csv_comma comma = whole ? td__csv_find_comma(text) : TD__COMMA_NONE;
    if (comma) {
        return td__csv_fail(csv, TD_FORMAT, "%s: '%s' has %s", where, text, commas[comma]);
    }
    return td__csv_fail(csv, TD_FORMAT,
                        "%s: a number was expected, found '%s%s'; `ignore` the column, name it as "
                        "the `label`, or in `categories`",
                        where, text, whole ? "" : "…");
}

/* A missing value is NaN, which no cell can be otherwise. */
static bool is_missing_cell(td__csv *csv, const td__csv_cell *cell) {
    char text[16];
    bool missing = td__csv_text(cell, text, sizeof text) && td__csv_is_missing(text);
    csv->value_missing = csv->value_missing || missing;
    return missing;
}

/* A cell that the fast path could not take: quoted, cut off by the buffer's end, missing or wrong. */
static td__csv_outcome number_slowly(td__csv *csv, char **p, int64_t column, float *value) {
    td__csv_cell cell;
    td__csv_outcome outcome = td__csv_scan(csv, *p, &cell);
    if (outcome != TD__CSV_RECORD) {
        return outcome;
    }
    if (is_missing_cell(csv, &cell)) {
        *value = NAN;
    } else if (!td__csv_is_number(&cell, value) || !isfinite(*value)) {
        return bad_number(csv, column, &cell);
    }
    *p = cell.behind;
    return TD__CSV_RECORD;
}

static td__csv_outcome class_of(td__csv *csv, char **p, int64_t column, float *value) {
    td__csv_cell cell;
    td__csv_outcome outcome = td__csv_scan(csv, *p, &cell);
    if (outcome != TD__CSV_RECORD) {
        return outcome;
    }
    char text[TD__NAME_LENGTH_MAXIMUM + 1], where[512];
    *p = cell.behind;
    /* A text that is a class already is not missing, is no number that would be refused, and is
     * clean. */
    int64_t known =
        td__csv_text(&cell, text, sizeof text) ? td__names_find(&csv->classes, text) : -1;
    if (known >= 0) {
        *value = (float)known;
        return TD__CSV_RECORD;
    }
    bool whole = td__csv_name(&cell, text, sizeof text);
    if (is_missing_cell(csv, &cell)) {
        *value = NAN;
        return TD__CSV_RECORD;
    }
    if (!csv->text_labels && td__csv_is_number(&cell, value) && isfinite(*value)) {
        return td__csv_fail(csv, TD_FORMAT,
                            "%s: a class name was expected, as in the first row, found the number "
                            "'%s'",
                            td__csv_place(csv, column, where, sizeof where), text);
    }
    if (!whole) {
        return td__csv_fail(csv, TD_RANGE, "%s: a class name of more than %d bytes",
                            td__csv_place(csv, column, where, sizeof where),
                            TD__NAME_LENGTH_MAXIMUM);
    }
    int64_t number = td__names_add(&csv->classes, text);
    if (number < 0) {
        bool full = csv->classes.count == TD__NAMES_MAXIMUM;
        return td__csv_fail(csv, full ? TD_RANGE : TD_MEMORY,
                            full ? "%s: more than %d different classes" : "%s: no memory",
                            td__csv_place(csv, column, where, sizeof where), TD__NAMES_MAXIMUM);
    }
    *value = (float)number;
    return TD__CSV_RECORD;
}

static td__csv_outcome unknown_category(td__csv *csv, int64_t column, const char *text) {
    const td__names *known = &csv->categories[csv->columns[column].category];
    char where[512];
    return td__csv_fail(csv, TD_FORMAT,
                        "%s: '%.60s' is none of the %zu categories of training ('%.60s', …)",
                        td__csv_place(csv, column, where, sizeof where), text, known->count,
                        known->count ? known->items[0] : "");
}

/* 1 for the text's own input, 0 for those of the others. */
static td__csv_outcome category_of(td__csv *csv, char **p, int64_t column, float *values) {
    td__names *known = &csv->categories[csv->columns[column].category];
    td__csv_cell cell;
    char text[TD__NAME_LENGTH_MAXIMUM + 1], where[512];
    td__csv_outcome outcome = td__csv_scan(csv, *p, &cell);
    if (outcome != TD__CSV_RECORD) {
        return outcome;
    }
    *p = cell.behind;
    bool missing = is_missing_cell(csv, &cell);
    if (!td__csv_name(&cell, text, sizeof text)) {
        return td__csv_fail(csv, TD_RANGE, "%s: a category of more than %d bytes",
                            td__csv_place(csv, column, where, sizeof where),
                            TD__NAME_LENGTH_MAXIMUM);
    }
    if (csv->survey) {
        bool room = missing || td__names_add(known, text) >= 0;
        return room ? TD__CSV_RECORD
                    : td__csv_fail(csv, TD_RANGE, "%s: no memory, or more than %d categories",
                                   td__csv_place(csv, column, where, sizeof where),
                                   TD__NAMES_MAXIMUM);
    }
    int64_t number = missing ? -1 : td__names_find(known, text);
    for (size_t i = 0; i < known->count; i++) {
        values[i] = missing ? NAN : (int64_t)i == number;
    }
    return missing || number >= 0 ? TD__CSV_RECORD : unknown_category(csv, column, text);
}

/* Of a cell that is only looked at as a whole. */
static td__csv_outcome whole_cell(td__csv *csv, char **p, int64_t column, float *values) {
    td__csv_cell cell;
    td__csv_outcome outcome = td__csv_scan(csv, *p, &cell);
    if (outcome != TD__CSV_RECORD) {
        return outcome;
    }
    *p = cell.behind;
    return csv->columns[column].use == TD__CSV_GROUP
               ? td__csv_read_group(csv, &cell, column, values)
           : csv->columns[column].use == TD__CSV_DATE
               ? td__csv_read_date(csv, &cell, column, csv->survey ? NULL : values)
           : csv->columns[column].use == TD__CSV_PATH
               ? td__csv_read_path(csv, &cell, column)
               : td__csv_read_text(csv, &cell, column, csv->survey ? NULL : values);
}

static td__csv_outcome wrong_width(td__csv *csv, int64_t found, bool more) {
    return td__csv_fail(
        csv, TD_FORMAT, "%s line %lld (row %lld): %lld field%s%s, but the %s has %lld", csv->path,
        (long long)csv->line, (long long)csv->rows + 1, (long long)found, found == 1 ? "" : "s",
        more ? " or more" : "", csv->names ? "header" : "first row", (long long)csv->column_count);
}

/* One or two digits and a separator, without a branch on which: the bulk of image data. */
static inline bool parse_tiny(char **p, char separator, float *value) {
    const char *c = *p;
    unsigned a = (unsigned char)c[0] - (unsigned)'0', b = (unsigned char)c[1] - (unsigned)'0';
    bool one = c[1] == separator, two = b < 10 && c[2] == separator;
    if (a >= 10 || !(one | two)) {
        return false;
    }
    *value = (float)(one ? a : a * 10 + b);
    *p += 2 - one;
    return true;
}

static inline td__csv_outcome parse_number(td__csv *csv, char **p, int64_t column, float *value) {
    if (parse_tiny(p, csv->separator, value)) {
        return TD__CSV_RECORD;
    }
    char *from = *p;
    while (is_blank(csv, *from)) {
        from++;
    }
    bool quoted = *from == '"';
    char *end = (char *)(uintptr_t)td__parse_float32(from + quoted, value);
    if (end && quoted) {
        end = *end == '"' ? end + 1 : NULL;
    }
    while (end && is_blank(csv, *end)) {
        end++;
    }
    if (!end || !td__csv_is_cell_end(end, csv->separator) || !isfinite(*value)) {
        return number_slowly(csv, p, column, value);
    }
    *p = end;
    return TD__CSV_RECORD;
}

/* As a number, unless that would make one class of two texts: the file is then to be read again. */
static td__csv_outcome class_number(td__csv *csv, char **p, int64_t column, float *value) {
    const char *from = *p;
    while (is_blank(csv, *from)) {
        from++;
    }
    if (td__csv_is_padded(from + (*from == '"'))) {
        csv->text_labels = true;
        return td__csv_fail(csv, TD_FORMAT, "%s line %lld: a class with leading zeros", csv->path,
                            (long long)csv->line);
    }
    return parse_number(csv, p, column, value);
}

static td__csv_outcome parse_cell(td__csv *csv, char **p, int64_t column) {
    const td__csv_column *c = &csv->columns[column];
    float *value = &csv->values[c->slot];
    if (c->use == TD__CSV_NUMBER) {
        return parse_number(csv, p, column, value);
    }
    if (c->use == TD__CSV_CLASS_NUMBER) {
        return class_number(csv, p, column, value);
    }
    if (c->use == TD__CSV_CLASS) {
        return class_of(csv, p, column, value);
    }
    if (c->use == TD__CSV_CATEGORY) {
        return category_of(csv, p, column, value);
    }
    if (c->use == TD__CSV_TEXT || c->use == TD__CSV_DATE || c->use == TD__CSV_PATH ||
        c->use == TD__CSV_GROUP) {
        return whole_cell(csv, p, column, value);
    }
    td__csv_cell cell;
    td__csv_outcome outcome = td__csv_scan(csv, *p, &cell);
    *p = outcome == TD__CSV_RECORD ? cell.behind : *p;
    return outcome;
}

td__csv_outcome td__csv_parse_cell(td__csv *csv, char **p, int64_t column) {
    return parse_cell(csv, p, column);
}

/* Whether all of the record is in the buffer: for cells that are counted, and that only once. */
static td__csv_outcome scan_record(td__csv *csv) {
    td__csv_cell cell = {.behind = csv->next - 1};
    td__csv_outcome outcome;
    do {
        outcome = td__csv_scan(csv, cell.behind + 1, &cell);
    } while (outcome == TD__CSV_RECORD && *cell.behind == csv->separator);
    return outcome;
}

static td__csv_outcome parse_record(td__csv *csv) {
    td__csv_outcome outcome = td__csv_skip_empty(csv, &csv->next, &csv->line);
    if (outcome == TD__CSV_RECORD && csv->counts_cells && !csv->finished) {
        outcome = scan_record(csv);
    }
    if (outcome != TD__CSV_RECORD) {
        return outcome;
    }
    char *p = csv->next;
    int64_t last = csv->column_count - 1;
    csv->value_missing = false;
    csv->record_line = csv->line;
    for (int64_t column = 0;; column++) {
        outcome = parse_cell(csv, &p, column);
        if (outcome != TD__CSV_RECORD) {
            return outcome;
        }
        if (*p == csv->separator && column < last) {
            p++;
            continue;
        }
        if (p + (*p == '\r') >= csv->end && !csv->finished) {
            return TD__CSV_INCOMPLETE;
        }
        bool more = *p == csv->separator;
        if (more || column < last) {
            return wrong_width(csv, more ? column + 2 : column + 1, more);
        }
        break;
    }
    char *behind = td__csv_behind_line(csv, p);
    csv->line++;
    if (csv->quotes_seen) {
        for (const char *q = csv->next; (q = memchr(q, '\n', (size_t)(p - q))); q++) {
            csv->line++;
        }
    }
    csv->next = behind;
    return TD__CSV_RECORD;
}

td__csv_outcome td__csv_parse_record(td__csv *csv) {
    return parse_record(csv);
}

int64_t td__csv_line(const char *path, bool header, char separator, int64_t row) {
    td_data_options options = {.header = header ? TD_HEADER_YES : TD_HEADER_NO,
                               .separator = separator};
    td_error unused;
    td__csv csv = {.options = &options, .error = &unused, .survey = true};
    if (td__input_open(&csv.input, path, &unused)) {
        return 0;
    }
    bool going = td__csv_start(&csv) == TD_OK;
    for (int64_t i = 0; going && i < csv.column_count; i++) {
        csv.columns[i].use = TD__CSV_IGNORED;
    }
    for (int64_t i = 0; going && i <= row;) {
        td__csv_outcome outcome = parse_record(&csv);
        i += outcome == TD__CSV_RECORD;
        going = outcome == TD__CSV_RECORD ||
                (outcome == TD__CSV_INCOMPLETE && td__csv_fill(&csv) == TD__CSV_RECORD);
    }
    int64_t line = going ? csv.record_line : 0;
    td__input *input = csv.input;
    td__csv_release(&csv);
    td__input_close(input);
    return line;
}

/* Which columns of a row that is complete have no value. */
static void count_missing(td__csv *csv) {
    for (int64_t i = 0; i < csv->column_count; i++) {
        td__csv_column *c = &csv->columns[i];
        bool used = c->use == TD__CSV_NUMBER || c->use == TD__CSV_CLASS ||
                    c->use == TD__CSV_CLASS_NUMBER || c->use == TD__CSV_CATEGORY ||
                    c->use == TD__CSV_DATE;
        if (used && isnan(csv->values[c->slot])) {
            c->missing_line = c->missing++ ? c->missing_line : csv->record_line;
        }
    }
    csv->any_missing = true;
}

/* A row goes into the store, unless the file is refused in the end. */
static td_status take_row(td__csv *csv, td__row_store *store) {
    csv->rows++;
    if (csv->survey) {
        return TD_OK;
    }
    if (csv->value_missing) {
        count_missing(csv);
    }
    if (!store || (csv->any_missing && csv->options->missing == TD_MISSING_REFUSED)) {
        return TD_OK;
    }
    return csv->status =
               td__row_store_add(store, csv->values, (size_t)csv->input_count,
                                 csv->values + csv->input_count, td__csv_behind(csv), csv->error);
}

td_status td__csv_parse(td__csv *csv, td__row_store *store) {
    for (;;) {
        td__csv_outcome outcome =
            csv->limit ? td__csv_skip_empty(csv, &csv->next, &csv->line) : TD__CSV_RECORD;
        if (csv->limit && outcome == TD__CSV_RECORD && td__csv_position(csv) >= csv->limit) {
            break;
        }
        outcome = outcome == TD__CSV_RECORD ? parse_record(csv) : outcome;
        if (outcome == TD__CSV_INCOMPLETE) {
            outcome = td__csv_fill(csv);
            if (outcome == TD__CSV_RECORD) {
                continue;
            }
        }
        if (outcome == TD__CSV_FAILED) {
            return csv->status;
        }
        if (outcome == TD__CSV_END) {
            break;
        }
        if (take_row(csv, store)) {
            return csv->status;
        }
    }
    if (csv->rows == 0 && !csv->limit) {
        csv->status = td_error_set(csv->error, TD_FORMAT, "%s has a header but no rows", csv->path);
    }
    td_status status = csv->status ? csv->status : td__csv_check_missing(csv);
    return status || csv->survey ? status : td__csv_remark_cells(csv);
}
