/* Rows on their way into PostgreSQL: COPY … (FORMAT binary). */
#ifndef TAPEDECK_STORE_COPY_H
#define TAPEDECK_STORE_COPY_H

#include "store/postgresql.h"

/* Bytes that are built. All zero at first. */
typedef struct td__pg_bytes {
    uint8_t *data;
    size_t size, capacity;
    bool full; /* something did not fit */
} td__pg_bytes;

/* Numbers in PostgreSQL's order. */
void td__pg_put16(td__pg_bytes *bytes, int value);
void td__pg_put32(td__pg_bytes *bytes, int64_t value);
/* A value with its length in front; NaN is NULL. */
void td__pg_put_none(td__pg_bytes *bytes);
void td__pg_put_integer(td__pg_bytes *bytes, int64_t value);
void td__pg_put_int32(td__pg_bytes *bytes, int64_t value);
void td__pg_put_real(td__pg_bytes *bytes, double value);
void td__pg_put_blob(td__pg_bytes *bytes, const void *data, size_t size);
/* What is no UTF-8, and zeros, become %XX; NULL is NULL. */
void td__pg_put_text(td__pg_bytes *bytes, const char *text, size_t length);
/* An array of `count` values that have been put into `values`; type: i, d, t or b. */
void td__pg_put_array(td__pg_bytes *bytes, const td__pg_bytes *values, size_t count, char type);
/* A row's column of type i, o, d, t or b. */
void td__pg_put_cell(td__pg_bytes *bytes, td__rows *row, int column, char type);

/* Sends rows (each begins with td__pg_put16 of its columns) into a table. */
TD_NODISCARD td_status td__pg_copy(td__pg *pg, const char *table, const td__pg_bytes *rows,
                                   td_error *error);

#endif
