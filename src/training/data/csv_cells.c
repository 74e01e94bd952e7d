/* Cells that become several inputs. */
#include "data/csv.h"

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
