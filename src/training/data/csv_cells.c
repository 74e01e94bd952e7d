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
        return td__csv_fail(csv, TD_FORMAT,
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
