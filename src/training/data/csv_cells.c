/* Cells that are looked at as a whole: what becomes several inputs, groups, paths. */
#include "base/memory.h"
#include "data/csv.h"

#include <math.h>
#include <string.h>

td__csv_outcome td__csv_read_text(td__csv *csv, const td__csv_cell *cell, int64_t column,
                                  float *values) {
    td__text_column *text = &csv->texts[csv->columns[column].category];
    char where[512];
    size_t place = 0;
    if (csv->survey && text->words) {
        return TD__CSV_RECORD; /* its inputs are known */
    }
    if (!td__text_room(text, cell->length)) {
        return td__csv_fail(csv, TD_MEMORY, "%s: no memory", csv->path);
    }
    (void)td__csv_text(cell, text->raw, cell->length + 1);
    td__text_outcome outcome = td__text_take(text, strlen(text->raw), values, &place);
    (void)td__csv_place(csv, column, where, sizeof where);
    switch (outcome) {
    case TD__TEXT_GOOD:
        return TD__CSV_RECORD;
    case TD__TEXT_NOT_UTF8:
        return td__csv_fail(
            csv, TD_FORMAT,
            "%s: byte %zu of the text, 0x%02X, is not UTF-8; convert the file (iconv -f "
            "LATIN1 -t UTF-8), or take `tokens: bytes`",
            where, place + 1, (unsigned)(unsigned char)text->raw[place]);
    case TD__TEXT_TOO_MANY:
        return td__csv_fail(csv, TD_RANGE,
                            "%s: more than %d different tokens, or 256 MiB of them; is it text? "
                            "`tokens: characters` has few",
                            where, TD__TEXT_WORDS_MAXIMUM);
    case TD__TEXT_NO_MEMORY:
        break;
    }
    return td__csv_fail(csv, TD_MEMORY, "%s: no memory", csv->path);
}

/* Texts are numbered as they come; a number stands for its text. */
td__csv_outcome td__csv_read_group(td__csv *csv, const td__csv_cell *cell, int64_t column,
                                   float *value) {
    enum { GROUPS_MAXIMUM = 1 << 24 }; /* whole numbers that a float32 can be */
    char text[TD__NAME_LENGTH_MAXIMUM + 1], where[512];
    bool whole = td__csv_name(cell, text, sizeof text);
    if (!whole || td__csv_is_missing(text)) {
        return td__csv_fail(csv, TD_FORMAT,
                            whole ? "%s: the group is missing"
                                  : "%s: the name of a group has more than 255 bytes",
                            td__csv_place(csv, column, where, sizeof where));
    }
    csv->groups.maximum = GROUPS_MAXIMUM;
    int64_t number = td__names_add(&csv->groups, text);
    if (number < 0) {
        return td__csv_fail(csv, TD_RANGE, "%s: no memory, or more than %d groups",
                            td__csv_place(csv, column, where, sizeof where), GROUPS_MAXIMUM);
    }
    *value = (float)number;
    return TD__CSV_RECORD;
}

/* What a survey sees of a date: which order its numbers have, and when the first was. */
static void survey_date(td__date_column *column, const td__date *date) {
    const td_date_order orders[] = {TD_DATE_DAY_FIRST, TD_DATE_MONTH_FIRST};
    column->has_times = column->has_times || date->has_time;
    column->is_open = column->is_open || date->open;
    column->first_above = column->first_above || (date->open && date->day > 12);
    column->second_above = column->second_above || (date->open && date->month > 12);
    for (int i = 0; i < 2; i++) {
        td__date settled = *date;
        double seconds =
            td__date_settle(&settled, orders[i]) ? td__date_seconds(&settled) : INFINITY;
        column->earliest[i] = seconds < column->earliest[i] ? seconds : column->earliest[i];
    }
}

td__csv_outcome td__csv_read_date(td__csv *csv, const td__csv_cell *cell, int64_t column,
                                  float *values) {
    td__date_column *c = &csv->dates[csv->columns[column].category];
    char text[80], where[512];
    td__date date = {0};
    bool whole = td__csv_text(cell, text, sizeof text);
    if (whole && td__csv_is_missing(text)) {
        csv->value_missing = true;
        for (int64_t i = 0; values && i < c->part_count; i++) {
            values[i] = NAN;
        }
        return TD__CSV_RECORD;
    }
    if (!whole || !td__date_read(&date, text)) {
        return td__csv_fail(
            csv, TD_FORMAT,
            "%s: '%.60s' is no date; dates are written 2024-05-31, 2024-05-31T18:30:00Z, "
            "31.5.2024, 31/5/2024, 31 May 2024 or May 31, 2024, with a time behind",
            td__csv_place(csv, column, where, sizeof where), text);
    }
    c->zoned += date.has_offset;
    c->plain += !date.has_offset;
    if (!values) {
        survey_date(c, &date);
        return TD__CSV_RECORD;
    }
    if (date.open && c->how.order == TD_DATE_ORDER_AUTO) {
        return td__csv_fail(csv, TD_FORMAT,
                            "%s: is '%.60s' a day or a month first? `order: day_first` or `order: "
                            "month_first` decides",
                            td__csv_place(csv, column, where, sizeof where), text);
    }
    if (!td__date_settle(&date, c->how.order)) {
        return td__csv_fail(csv, TD_FORMAT, "%s: '%.60s' is no date, with the %s first",
                            td__csv_place(csv, column, where, sizeof where), text,
                            c->how.order == TD_DATE_DAY_FIRST ? "day" : "month");
    }
    for (int64_t i = 0; i < c->part_count; i++) {
        values[i] = (float)td__date_value(&date, c->parts[i], c->how.since);
    }
    return TD__CSV_RECORD;
}

td__csv_outcome td__csv_read_path(td__csv *csv, const td__csv_cell *cell, int64_t column) {
    enum { PATH_LENGTH_MAXIMUM = 4096, PATHS_MAXIMUM = 1 << 26 };
    char where[512], text[PATH_LENGTH_MAXIMUM];
    bool whole = td__csv_text(cell, text, sizeof text);
    if (!whole || !*text) {
        return td__csv_fail(csv, TD_FORMAT,
                            whole ? "%s: the path is missing" : "%s: the path is too long",
                            td__csv_place(csv, column, where, sizeof where));
    }
    if (!td__grow(&csv->paths, &csv->path_room, csv->path_count + 1, PATHS_MAXIMUM,
                  sizeof *csv->paths) ||
        !(csv->paths[csv->path_count] = td__strdup(text))) {
        return td__csv_fail(csv, TD_MEMORY, "%s: no memory, or more than %d paths", csv->path,
                            PATHS_MAXIMUM);
    }
    csv->path_count++;
    return TD__CSV_RECORD;
}
