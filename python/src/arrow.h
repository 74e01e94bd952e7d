/* Tables for other programs by the Arrow C Data and Stream Interface, which needs no library: structs of pointers with
 * a callback that releases them. https://arrow.apache.org/docs/format/CDataInterface.html has the names of the members. */
#ifndef TAPEDECK_PYTHON_ARROW_H
#define TAPEDECK_PYTHON_ARROW_H

#include "native.h"

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

/* Bytes that grow. */
typedef struct tdpy_bytes {
    char *data; /* malloc's */
    size_t used, room;
} tdpy_bytes;

typedef enum tdpy_layout {
    TDPY_PLAIN, /* an element a row */
    TDPY_TEXT,  /* bytes of a text a row: offsets say where each ends */
    TDPY_LIST,  /* any number of elements a row: offsets likewise */
    TDPY_FIXED, /* `width` elements a row */
    TDPY_WORDS, /* a row's index into words */
} tdpy_layout;

/* A column, while it is filled. */
typedef struct tdpy_column {
    const char *name;
    tdpy_layout layout;
    const char *format;     /* of an element, as Arrow spells it: "g" is a double */
    int64_t width;          /* of TDPY_FIXED */
    td_shape shape;         /* of TDPY_FIXED: a row's, where it has one */
    tdpy_bytes values;      /* elements, or indices of 4 bytes */
    tdpy_bytes offsets;     /* int64_t: the end of each row so far; the first, 0, is added */
    tdpy_bytes valid;       /* a byte a row, 0: the row is null; empty: none is */
    tdpy_bytes words, ends; /* of TDPY_WORDS: the texts, one after another, and their ends */
    td_view kept; /* the elements, when they are in memory of somebody else's; or no data */
} tdpy_column;

enum { TDPY_COLUMNS = 16 };
typedef struct tdpy_table {
    tdpy_column columns[TDPY_COLUMNS];
    int count;
    int64_t rows;
} tdpy_table;

/* Appends; false when memory is exhausted. */
bool tdpy_bytes_add(tdpy_bytes *bytes, const void *data, size_t size);

/* A new column. */
tdpy_column *tdpy_table_add(tdpy_table *table, const char *name, tdpy_layout layout,
                            const char *format);
void tdpy_table_release(tdpy_table *table);

/* A capsule "arrow_array_stream" of one batch, which takes the table's memory over. NULL with an exception set. The
 * table is to be released in either case. */
PyObject *tdpy_table_stream(tdpy_table *table);

/* arrow(what, form, values): Run's method. */
PyObject *tdpy_run_arrow(PyObject *object, PyObject *arguments);

#endif
