/* What a reader makes of a file: rows of inputs, rows of labels, and the memory that holds them.
 *
 * Arrays describe memory as the file has it (any number type, byte order and layout) and convert
 * to float32 a row at a time, so that a mapped file is never copied as a whole. */
#ifndef TAPEDECK_DATA_TABLE_H
#define TAPEDECK_DATA_TABLE_H

#include "data/bytes.h"
#include "data/supply.h"
#include "tapedeck/data.h"

/* Number types found in files: name, C type that holds it, unsigned integer of the same size. */
#define TD__ELEMENT_LIST(X)                                                                        \
    X(U8, uint8_t, uint8_t)                                                                        \
    X(I8, int8_t, uint8_t)                                                                         \
    X(U16, uint16_t, uint16_t)                                                                     \
    X(I16, int16_t, uint16_t)                                                                      \
    X(U32, uint32_t, uint32_t)                                                                     \
    X(I32, int32_t, uint32_t)                                                                      \
    X(U64, uint64_t, uint64_t)                                                                     \
    X(I64, int64_t, uint64_t)                                                                      \
    X(F16, uint16_t, uint16_t)                                                                     \
    X(F32, float, uint32_t)                                                                        \
    X(F64, double, uint64_t)

typedef enum td__element_type {
#define TD__ELEMENT_MEMBER(name, type, bits) TD__##name,
    TD__ELEMENT_LIST(TD__ELEMENT_MEMBER)
#undef TD__ELEMENT_MEMBER
        TD__ELEMENT_COUNT
} td__element_type;

size_t td__element_size(td__element_type element);
bool td__element_is_float(td__element_type element);

/* Rows of numbers. Element i of row r is at data + r * row_stride + (offsets ? offsets[i] : i *
 * its size). Or the rows of several arrays, one after the other: parts. */
typedef struct td__array {
    const uint8_t *data; /* borrowed; NULL: no array; of several the first one's */
    td__element_type element;
    bool swap;               /* the file's byte order is not the machine's */
    td_shape shape;          /* of one row */
    int64_t count;           /* elements in a row: the shape's product */
    int64_t row_stride;      /* bytes */
    int64_t *offsets;        /* owned; bytes; NULL: one after the other */
    struct td__array *parts; /* owned; NULL: one array */
    size_t part_count;
} td__array;

/* An array of the given rows, described as files do: type, shape with rows first, order. Checks
 * that it fits size bytes. what names it in messages. */
td_status td__array_describe(td__array *array, int64_t *rows, const uint8_t *data, size_t size,
                             td__element_type element, bool swap, bool fortran,
                             const td_shape *shape, const char *what, td_error *error);
/* Row-major native float32 or int32 in memory. */
td__array td__array_plain(const void *data, td__element_type element, td_shape shape,
                          int64_t count);
/* The row as float32. */
void td__array_read(const td__array *array, int64_t row, float *values);
/* Begins to fetch a row that will be read soon. */
void td__array_prefetch(const td__array *array, int64_t row);
double td__array_value(const td__array *array, int64_t row, int64_t index);
/* The same of an array of whole numbers, all of their digits. */
int64_t td__array_integer(const td__array *array, int64_t row, int64_t index);
/* The first row when all rows are float32 in the machine's order, one after the
 * other; else NULL. */
const float *td__array_floats(const td__array *array);
void td__array_release(td__array *array);

/* Several inputs or labels in a row; names and items are owned. */
typedef struct td__pieces {
    td_data_piece *items;
    size_t count;
} td__pieces;

/* A list of different texts, numbered as they came. */
typedef struct td__names {
    char **items;
    size_t count, capacity;
    uint32_t *slots; /* hash table: number + 1, 0 is free */
    size_t slot_count;
    size_t maximum; /* as many as there can be; 0: TD__NAMES_MAXIMUM */
} td__names;

#define TD__NAMES_MAXIMUM 65536
#define TD__TEXTS_MAXIMUM 8  /* columns of text */
#define TD__DATES_MAXIMUM 16 /* columns of dates */
#define TD__NAME_LENGTH_MAXIMUM 255

/* A text from a file as a name: UTF-8, other bytes as \xE9, cut at size - 1 bytes; false when it was
 * cut. out may not be text. */
bool td__name_clean(char *out, size_t size, const char *text);
/* How many bytes the character at text has; 0 when it is not UTF-8. */
size_t td__character_length(const char *text);
/* The text's number, added if new; -1 when memory is exhausted, or when there are as many texts
 * already as there can be. */
int64_t td__names_add(td__names *names, const char *text);
/* -1 when it is not there. */
int64_t td__names_find(const td__names *names, const char *text);
void td__names_release(td__names *names);

/* A file that a table was read from, still open. */
typedef struct td__read_file {
    char *path;
    int descriptor;
} td__read_file;

/* One file, read. Zero-initialise; td__table_release whatever happened. */
typedef struct td__table {
    int64_t rows;
    td__array input, label; /* label.data is NULL without labels */
    td__array weight;       /* one for each row; data is NULL without */
    td__array group;        /* the same: numbers from 0, in the order of the file */
    td__names classes;      /* of text labels, which then are numbers in it */
    td__names input_names;  /* one for each input, or none */
    td__names label_names;  /* one for each label, or none */
    td__names remarks;      /* what should be said of how it was read */
    /* CSV: "NUMBER ORDER SINCE" of each column of dates; the vocabularies of columns of text. */
    td__names date_facts, words[TD__TEXTS_MAXIMUM];
    bool label_untyped; /* the file does not say whether labels are whole numbers: CSV */
    bool is_csv, has_header;
    char separator;  /* of a CSV file */
    bool is_picture; /* (height, width, channels) by itself */
    char **files;    /* the file of each row, below the folder that was read; NULL: one for all */
    float *floats;   /* input's data when that is plain float32 that may be written */
    td__bytes bytes[2];    /* what input and label point into */
    td__bytes *more_bytes; /* the same of arrays that have parts */
    size_t more_count;
    td__pieces input_pieces, label_pieces;
    td__read_file *read; /* the files that it was read from */
    size_t read_count, read_room;
    int64_t first_row,
        row_step; /* of windows: the last row of the first, and the distance; row_step 0: no windows */
    td__supply *supply; /* makes rows of input that are not there yet; NULL: all are. Labels are */
} td__table;

void td__table_release(td__table *table);
/* Keeps the file open, so that it can be fingerprinted later without being opened again. */
void td__table_keep_file(td__table *table, const td__input *input);
/* The bytes of a file of labels, which is kept too. */
TD_NODISCARD td_status td__table_get_bytes(td__table *table, td__bytes *bytes, const char *path,
                                           int64_t maximum, td_error *error);
/* Returns when input has this row. */
TD_NODISCARD td_status td__table_need(const td__table *table, int64_t row, td_error *error);
/* Labels, and where there are any a weight and a group behind them, in rows of float32 at data. */
void td__table_set_labels(td__table *table, const void *data, int64_t labels, bool weighted,
                          bool grouped);
/* Rows of a large mapped file that were read in order, up to this one, are not needed soon: their
 * pages are released, now and then. *done is 0 at first, and how far that got. */
void td__table_release_rows(const td__table *table, int64_t row, size_t *done);

/* Rows of a mapped file will be read in random order, and it is larger than what the system can keep: what stands beside them is not to be read too. */
void td__table_scatter(const td__table *table);
/* Begins to read all of these rows at once, each of which a disk would else be waited for. */
void td__table_fetch(const td__table *table, const int64_t *rows, int64_t count);

/* What a reader is asked for. */
typedef struct td__request {
    const char *path;
    td__input *input;               /* the file, open, at its beginning; NULL for a folder */
    td_names more;                  /* CSV: files whose rows come behind those of path */
    const char *labels;             /* file of labels, or NULL */
    const td_data_options *options; /* all fields present, memory filled in */
    td_names inputs;                /* what its inputs are called, in their order; or none */
    td_names label_names;           /* its labels, where it has names */
    bool text_labels;               /* CSV: classes are texts, also those that are numbers */
    bool chosen;                    /* inputs are what to take of its columns, and all of it */
    const struct td__table
        *first; /* CSV: whose vocabularies and dates these are; NULL: of the options */
    td_pieces input_pieces, label_pieces;
} td__request;

typedef td_status td__reader(td__table *table, const td__request *request, td_error *error);
/* The rows of a CSV file are images: paths, one for each, as the file has them; they are taken. */
TD_NODISCARD td_status td__images_take(td__table *table, const td__request *request, char **paths,
                                       size_t count, td_error *error);
td__reader td__csv_read, td__npy_read, td__npz_read, td__idx_read, td__images_read;
/* The reader of a file or folder, by what it is. */
td_status td__reader_choose(const char *path, td__reader **reader, td_error *error);
/* The same, and the file open for it, at its beginning; *input is NULL for a folder. */
TD_NODISCARD td_status td__reader_open(const char *path, td__reader **reader, td__input **input,
                                       td_error *error);
/* Examples of several inputs or labels; path may be NULL. */
td__reader td__pieces_read;
void td__pieces_release(td__pieces *pieces);
/* path is not looked at. */
td__reader td__generate;

/* Rows of count standardised values as they were before; mean NULL: nothing was done to them. */
void td__labels_undo(const float *mean, const float *deviation, int64_t count, float *values,
                     int64_t rows);

/* What a table found out of its columns of dates, into copies of the options. */
void td__table_dates(const td__table *table, td_date dates[TD__DATES_MAXIMUM]);

/* Splits the columns of an array of rank-1 rows into input and label, by the options' label names
 * (column numbers, "last"). */
td_status td__table_split_columns(td__table *table, const td__request *request, td_error *error);

/* Finds a column by its name, or by its number where names is NULL. */
td_status td__column_find(const char *const *names, int64_t count, const char *wanted,
                          const char *path, int64_t *column, td_error *error);

#endif
