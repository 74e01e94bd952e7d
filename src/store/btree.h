/* Tables of an SQLite file, read without SQLite: where one is opened for a handful of rows, parsing
 * its schema is nearly all of the time (https://www.sqlite.org/fileformat2.html).
 *
 * Only a file at rest is read: nobody writes it, and it has no log. Nothing in it is trusted, and
 * whatever is not quite as expected ends reading: the caller asks SQLite instead, which knows. */
#ifndef TAPEDECK_STORE_BTREE_H
#define TAPEDECK_STORE_BTREE_H

#include "tapedeck/base.h"

enum { TD__BTREE_DEPTH = 20, TD__BTREE_COLUMNS = 12 };

typedef struct td__btree_file {
    int file;
    uint32_t page_size, usable, pages; /* usable: bytes of a page */
    uint32_t user_version;
} td__btree_file;

/* False when it cannot be read so. Close with td__btree_close. */
bool td__btree_open(td__btree_file *file, const char *path);
void td__btree_close(td__btree_file *file);

typedef enum td__value_type {
    TD__VALUE_NULL,
    TD__VALUE_INTEGER,
    TD__VALUE_REAL,
    TD__VALUE_TEXT,
    TD__VALUE_BLOB
} td__value_type;

typedef struct td__value {
    td__value_type type;
    int64_t integer;
    double real;       /* of an integer, too */
    const char *bytes; /* of a text, ended by 0; valid until the cursor moves */
    size_t size;
} td__value;

typedef struct td__btree_level {
    uint8_t *page;
    uint32_t start, cells; /* start: of the page's header */
    uint32_t at;           /* 2 i: child or row i is next; 2 i + 1: what lies between i and i + 1 */
    uint8_t type;
} td__btree_level;

/* Goes through a table by rowid, or through one without rowids by its key. */
typedef struct td__btree_cursor {
    const td__btree_file *file;
    td__btree_level levels[TD__BTREE_DEPTH];
    int depth;
    uint64_t budget; /* pages that may still be read: a tree in circles ends */
    int64_t rowid;
    td__value values[TD__BTREE_COLUMNS]; /* those beyond are not looked at */
    int count;
    uint8_t *payload;
    char *texts;
    size_t payload_capacity, texts_capacity;
} td__btree_cursor;

/* All zero is none. */
void td__btree_release(td__btree_cursor *cursor);
/* Before the first row of the tree at root; false when it cannot be read. */
bool td__btree_begin(td__btree_cursor *cursor, const td__btree_file *file, uint32_t root);
/* The next row: 1, 0 at the end, -1 when it cannot be read. */
int td__btree_next(td__btree_cursor *cursor);
/* The last row of a table, or the one with this rowid: likewise. */
int td__btree_last(td__btree_cursor *cursor, const td__btree_file *file, uint32_t root);
int td__btree_find(td__btree_cursor *cursor, const td__btree_file *file, uint32_t root,
                   int64_t rowid);

#endif
