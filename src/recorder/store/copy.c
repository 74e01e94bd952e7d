#include "store/copy.h"

#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const size_t max_bytes = (size_t)1 << 30;

static uint8_t *room_for(td__pg_bytes *bytes, size_t size) {
    if (bytes->size + size > bytes->capacity &&
        !td__grow(&bytes->data, &bytes->capacity, bytes->size + size, max_bytes, 1)) {
        bytes->full = true;
        return NULL;
    }
    uint8_t *at = bytes->data + bytes->size;
    bytes->size += size;
    return at;
}

static void put_big(td__pg_bytes *bytes, uint64_t value, int size) {
    uint8_t *at = room_for(bytes, (size_t)size);
    for (int i = 0; at && i < size; i++) {
        at[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
    }
}

void td__pg_put16(td__pg_bytes *bytes, int value) {
    put_big(bytes, (uint64_t)value, 2);
}
void td__pg_put32(td__pg_bytes *bytes, int64_t value) {
    put_big(bytes, (uint64_t)value, 4);
}
void td__pg_put_none(td__pg_bytes *bytes) {
    td__pg_put32(bytes, -1);
}
void td__pg_put_integer(td__pg_bytes *bytes, int64_t value) {
    uint8_t *at = room_for(bytes, 12);
    if (at) {
        uint64_t big = __builtin_bswap64((uint64_t)value);
        memcpy(at, "\0\0\0\10", 4);
        memcpy(at + 4, &big, sizeof big);
    }
}
void td__pg_put_int32(td__pg_bytes *bytes, int64_t value) {
    td__pg_put32(bytes, 4);
    td__pg_put32(bytes, value);
}
void td__pg_put_real(td__pg_bytes *bytes, double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) {
        td__pg_put_none(bytes);
    } else {
        td__pg_put_integer(bytes, bits);
    }
}
void td__pg_put_blob(td__pg_bytes *bytes, const void *data, size_t size) {
    td__pg_put32(bytes, (int64_t)size);
    uint8_t *at = room_for(bytes, size);
    if (at && size) {
        memcpy(at, data, size);
    }
}

static bool is_clean(const char *text, size_t length) {
    for (size_t i = 0; i < length;) {
        size_t size = td__character(text + i, length - i);
        if (size == 0) {
            return false;
        }
        i += size;
    }
    return true;
}

void td__pg_put_text(td__pg_bytes *bytes, const char *text, size_t length) {
    if (!text) {
        td__pg_put_none(bytes);
    } else if (is_clean(text, length)) {
        td__pg_put_blob(bytes, text, length);
    } else {
        size_t start = bytes->size;
        uint8_t *at = room_for(bytes, 4 + 3 * length);
        if (at) {
            size_t size = td__clean_text((char *)at + 4, text, length);
            bytes->size = start;
            td__pg_put32(bytes, (int64_t)size);
            bytes->size += size;
        }
    }
}

/* One dimension from 1, whose elements may be NULL, and the elements' type by PostgreSQL's number. */
void td__pg_put_array(td__pg_bytes *bytes, const td__pg_bytes *values, size_t count, char type) {
    enum { HEADER = 20, INT8 = 20, FLOAT8 = 701, TEXT = 25, BYTEA = 17 };
    td__pg_put32(bytes, (int64_t)(HEADER + values->size));
    td__pg_put32(bytes, 1);
    td__pg_put32(bytes, 1);
    td__pg_put32(bytes, type == 'i' ? INT8 : type == 'd' ? FLOAT8 : type == 't' ? TEXT : BYTEA);
    td__pg_put32(bytes, (int64_t)count);
    td__pg_put32(bytes, 1);
    uint8_t *at = room_for(bytes, values->size);
    if (at) {
        memcpy(at, values->data, values->size);
    }
    bytes->full |= values->full;
}

void td__pg_put_cell(td__pg_bytes *bytes, td__rows *row, int column, char type) {
    size_t length = 0;
    if (type == 'i') {
        td__pg_put_integer(bytes, td__rows_integer(row, column));
    } else if (type == 'd') {
        td__pg_put_real(bytes, td__rows_real(row, column));
    } else {
        const char *text = td__rows_text(row, column, &length);
        if (!text) {
            td__pg_put_none(bytes);
        } else if (type == 'o') {
            td__pg_put_integer(bytes, td__rows_integer(row, column));
        } else if (type == 'b') {
            td__pg_put_blob(bytes, text, length);
        } else {
            td__pg_put_text(bytes, text, length);
        }
    }
}

td_status td__pg_copy(td__pg *pg, const char *table, const td__pg_bytes *rows, td_error *error) {
    static const uint8_t head[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0", end[] = {0xff, 0xff};
    enum { HEAD = 19, PIECE = 1 << 20 };
    char sql[480];
    if (rows->full) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory for rows of a run", pg->url);
    }
    (void)snprintf(sql, sizeof sql, "COPY %s FROM STDIN (FORMAT binary)", table);
    td_status status = td__pg_run(pg, sql, 0, NULL, NULL, NULL, error);
    status = status ? status : td__pg_put(pg, head, HEAD, error);
    for (size_t at = 0; at < rows->size && !status; at += PIECE) {
        size_t left = rows->size - at;
        status = td__pg_put(pg, rows->data + at, left < PIECE ? left : PIECE, error);
    }
    status = status ? status : td__pg_put(pg, end, sizeof end, error);
    return status ? status : td__pg_finish(pg, error);
}
