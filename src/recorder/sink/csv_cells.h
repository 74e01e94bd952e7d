/* Numbers as cells of a CSV file, each followed by a comma; and rows of them. */
#ifndef TAPEDECK_SINK_CSV_CELLS_H
#define TAPEDECK_SINK_CSV_CELLS_H

#include "base/number.h"
#include "sink/append.h"

/* The most that a number takes, with its comma. */
#define TD__CELL (TD__NUMBER_TEXT + 1)
/* … that epoch and step take. */
#define TD__WHEN (2 * TD__CELL)

/* count elements from first on; returns the end. */
typedef char *td__csv_cells_function(char *out, const void *data, int64_t first, int64_t count);
extern td__csv_cells_function *const td__csv_cells[TD_DTYPE_COUNT];

static inline char *td__cell_int(char *out, int64_t value) {
    out += td__format_int(out, value);
    *out++ = ',';
    return out;
}

static inline char *td__cell_value(char *out, double value) {
    out += td__format_value(out, value);
    *out++ = ',';
    return out;
}

/* epoch,step, as every table begins. */
static inline char *td__cells_when(char *out, const td_record *record) {
    return td__cell_int(td__cell_int(out, record->epoch), record->step);
}

/* Room for a row of at most size bytes (and what the last number's formatting may touch). */
static inline char *td__row_room(td__append *file, size_t size, td_error *error) {
    char *room = td__append_room(file, size + TD__NUMBER_ROOM);
    if (!room) {
        td_error_set(error, TD_MEMORY, "%s: out of memory for a row", file->name);
    }
    return room;
}

/* The row from start to end, where a comma becomes the line's end. */
static inline void td__row_done(td__append *file, const char *start, char *end) {
    end[-1] = '\n';
    td__append_advance(file, (size_t)(end - start));
}

#endif
