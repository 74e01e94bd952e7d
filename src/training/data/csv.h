/* Reading CSV (RFC 4180): the parser's state, shared by its parts.
 *
 * The text passes through one buffer, a record (row) at a time. A record that is not all in the
 * buffer yet is INCOMPLETE: the buffer is filled up, and the record parsed again from its start. A
 * few line ends stand behind the buffer's last byte, so that loops over digits need no bounds
 * check. */
#ifndef TAPEDECK_DATA_CSV_H
#define TAPEDECK_DATA_CSV_H

#include "data/date.h"
#include "data/store.h"
#include "data/table.h"
#include "data/text.h"
#include "tapedeck/group.h"

enum {
    TD__CSV_BUFFER = 1 << 20,         /* bytes at first, unless capacity is set */
    TD__CSV_RECORD_MAXIMUM = 1 << 26, /* bytes; a longer row is an error */
    TD__CSV_COLUMN_MAXIMUM = 1 << 20,
    TD__CSV_PADDING = 3, /* line ends behind the text */
};

typedef enum td__csv_outcome {
    TD__CSV_RECORD,
    TD__CSV_INCOMPLETE,
    TD__CSV_END,
    TD__CSV_FAILED, /* status and error are set */
} td__csv_outcome;

typedef enum td__csv_use {
    TD__CSV_NUMBER,
    TD__CSV_CLASS,
    TD__CSV_CLASS_NUMBER, /* a label; text after all where one is written with leading zeros */
    TD__CSV_IGNORED,
    TD__CSV_CATEGORY, /* an input for each text */
    TD__CSV_TEXT,     /* an input for each id */
    TD__CSV_DATE,     /* an input for each part */
    TD__CSV_LABEL,    /* not yet known which of these */
    TD__CSV_WEIGHT,   /* of the example; becomes a NUMBER behind the labels */
    TD__CSV_PATH,     /* of an image */
    TD__CSV_GROUP,    /* of the example: a number for each text, behind the weight */
    TD__CSV_SKIPPED,  /* an input that a survey does not look at */
} td__csv_use;

typedef struct td__csv_column {
    td__csv_use use;
    int32_t slot;     /* in values; the first of a category's */
    int32_t category; /* in categories, in texts, in dates */
    int64_t missing;  /* values so far */
    int64_t missing_line;
} td__csv_column;

enum { TD__DATE_PARTS_MAXIMUM = 32 };

/* A column of dates, and what a survey has seen of it. */
typedef struct td__date_column {
    td_date how; /* column and parts are not looked at */
    int parts[TD__DATE_PARTS_MAXIMUM];
    int64_t part_count;
    bool has_times, is_open, first_above, second_above; /* a number above 12 */
    double earliest[2];                                 /* the day first, the month first */
    int64_t zoned, plain;                               /* with and without a time zone */
} td__date_column;

typedef struct td__csv {
    const td_data_options *options; /* label, ignore and header are used */
    td_names inputs, named_labels;  /* borrowed: what they are called, in their order; or none */
    td__input *input;
    const char *path;
    td_error *error;
    td_status status;

    char *buffer; /* capacity + TD__CSV_PADDING bytes */
    size_t capacity;
    char *next;   /* the next record */
    char *end;    /* of what was read; line ends stand here */
    int64_t read; /* bytes of the input, up to end */
    bool finished;
    char separator;
    char blank;          /* beside the space: the tab, unless it is the separator */
    int64_t line;        /* of the next record, from 1 */
    int64_t record_line; /* of the record that was parsed last */
    bool quotes_seen;    /* so a record may span lines */

    char **names;            /* from the header; NULL without */
    td__csv_column *columns; /* column_count of each */
    int64_t column_count;
    int64_t input_count, label_count;
    bool weighted;     /* there is a column of weights */
    bool grouped;      /* there is a column of groups */
    float *values;     /* a row: inputs, labels, weight, group */
    int64_t rows;      /* so far */
    td__names classes; /* texts of the label column */
    td__names groups;  /* texts of the column of groups */
    char **paths;      /* of images, one a row */
    size_t path_count, path_room;
    td__names input_names, label_names; /* one for each, or none */
    td__names remarks;
    td__names *categories;  /* the texts of each column that is one; as many as the options name */
    const td__names *words; /* borrowed: vocabularies of texts; NULL in a survey that makes them */
    td__text_column *texts; /* as many as the options name */
    size_t text_count;
    const td_date
        *known_dates;       /* borrowed: what is known of dates beside the options; may be NULL */
    td__date_column *dates; /* as many as the options name */
    size_t date_count;
    bool counts_cells; /* parsing a cell twice would show */
    bool survey;      /* only categories and texts are looked at, to find what inputs they become */
    bool surveyed;    /* inputs come from a survey of this file */
    bool chosen;      /* they are all that is to be taken of it */
    bool text_labels; /* labels are texts though they look like numbers: 01 is not 1 */
    bool value_missing; /* in the row that is being parsed */
    bool any_missing;   /* in the file */
    int64_t limit;      /* rows that begin from this byte on are not parsed; 0: all rows are */
} td__csv;

/* A cell as it stands in the buffer. */
typedef struct td__csv_cell {
    const char *text; /* without quotes and surrounding blanks */
    size_t length;
    bool quoted;  /* text may hold doubled quotes and line ends */
    char *behind; /* the separator or line end behind it */
} td__csv_cell;

/* Zero-initialised but for options, input, error and, if it should not be
 * TD__CSV_BUFFER, capacity. */
td_status td__csv_start(td__csv *csv);
/* All rows into store; NULL: they are checked. */
td_status td__csv_parse(td__csv *csv, td__row_store *store);
void td__csv_release(td__csv *csv);
/* Where the next record, or empty lines before it, stand in the file. */
static inline int64_t td__csv_position(const td__csv *csv) {
    return csv->read - (csv->end - csv->next);
}
/* What the parser found out moves into the table. */
void td__csv_findings(td__table *table, td__csv *csv);
struct td__cache;
/* Makes table of a file that is parsed while it is in use: when more than few bytes come out of it,
 * and nothing speaks against it so far. Else table stays empty. like is a parser before
 * td__csv_start; cache is taken if table is made. */
td_status td__csv_stream(td__table *table, const td__csv *like, struct td__cache *cache,
                         int64_t few, td_error *error);
/* The line that a row (from 0) begins in; 0 when the file cannot be read. */
int64_t td__csv_line(const char *path, bool header, char separator, int64_t row);

/* Where the rows of a file are. */
typedef struct td__csv_index {
    int64_t *offsets; /* of the first row of each block, and of the end */
    size_t count, capacity;
    int64_t rows_in_block;
} td__csv_index;

/* Finds all rows, and reads their labels and weights alone, into store: many times as fast as
 * reading it all. rows_in_block is given. False: some row is not as it should be, or memory is
 * exhausted; reading all of it shows more. */
bool td__csv_skim(td__csv *csv, td__csv_index *index, td__row_store *store);

/* --- csv_expand.c: columns that become several inputs ----------------------------------------- */

typedef struct td__csv_expansion {
    td__csv_use use;
    int32_t index; /* among those of its kind */
    const char *column;
    char mark; /* behind the column's name, in the names of its inputs */
} td__csv_expansion;

size_t td__csv_expansion_count(const td_data_options *options);
td__csv_expansion td__csv_expansion_at(const td_data_options *options, size_t i);
/* The one that an input belongs to, -1 for none; rest receives what stands behind the mark. */
ptrdiff_t td__csv_expansion_of(const td_data_options *options, const char *input,
                               const char **rest);
/* Of the i-th expansion the next input, and whether it is its first: false unless it may be. */
bool td__csv_take_input(td__csv *csv, size_t i, const char *rest, bool first);
bool td__csv_make_expansions(td__csv *csv);
void td__csv_release_expansions(td__csv *csv);
/* The names of all inputs of a file that has such columns, found by reading it through, and the vocabularies of texts
 * that are not given. like is a parser before td__csv_start, with input and error. together: by the processes of
 * options->group. */
td_status td__csv_survey(const td__csv *like, bool together, td__names *inputs, td__names *words,
                         td_date *dates);
/* The column that an input comes from. */
const char *td__csv_base(const td_data_options *options, const char *input);
/* Adds the inputs that a column became in a survey; the column itself, when it was not found. */
bool td__csv_expand(const td_data_options *options, const td__names *found, const char *column,
                    td__names *inputs);
/* Remarks on texts that were cut and the like. */
td_status td__csv_remark_cells(td__csv *csv);
bool td__csv_add_unique(td__names *names, const char *name);
/* How a message names a column; text has TD__NAME_LENGTH_MAXIMUM + 1 bytes. */
const char *td__csv_column_name(const td__csv *csv, int64_t column, char *text);

/* --- csv_together.c: a file that the processes of options->group parse together ---------------- */

/* The rows that this process parsed. */
typedef struct td__csv_part {
    int64_t first, total; /* the first one's number; rows of the whole file */
    int32_t *class_of; /* owned: by this process's number of a class, the number of all; or NULL */
} td__csv_part;

/* Whether all processes can do that. *loaded: of this process, whether it has the table already; then of all. */
TD_NODISCARD td_status td__csv_can_share(const td_data_options *options, const td__input *input,
                                         const struct td__cache *cache, bool wanted, bool *loaded,
                                         bool *can, td_error *error);
/* td__csv_start and td__csv_parse of this process's part of the file's bytes. csv is one before td__csv_start;
 * afterwards its rows, texts and categories are those of the whole file. The status is the same in all processes:
 * TD_FORMAT, if anything is wrong with a row of any; who reads the file in order learns what. */
TD_NODISCARD td_status td__csv_parse_part(td__csv *csv, td__row_store *store, td__csv_part *part,
                                          td_error *error);
/* Puts the parts together in the cache files of all machines, and opens table from there. csv has parsed its part. */
TD_NODISCARD td_status td__csv_join_parts(td__csv *csv, td__row_store *store,
                                          const td__csv_part *part, const struct td__cache *cache,
                                          td__table *table, td_error *error);

/* --- shared by csv.c, csv_header.c and csv_columns.c ------------------------------------------ */

/* Gives every column its use and its place in a row's values. texts and numbers are the first row of
 * data: its cells, and whether each is a number. */
td_status td__csv_assign(td__csv *csv, char *const *texts, const bool *numbers, size_t count);

td__csv_outcome td__csv_fail(td__csv *csv, td_status status, const char *format, ...)
    TD_PRINTF(3, 4);
/* The next row into values: RECORD, or why not. */
td__csv_outcome td__csv_parse_record(td__csv *csv);
/* "digits.csv line 3 (row 2), column 'age'" */
const char *td__csv_place(const td__csv *csv, int64_t column, char *text, size_t size);
/* csv_cells.c: a cell that becomes values. */
td__csv_outcome td__csv_read_text(td__csv *csv, const td__csv_cell *cell, int64_t column,
                                  float *values);
td__csv_outcome td__csv_read_date(td__csv *csv, const td__csv_cell *cell, int64_t column,
                                  float *values);
td__csv_outcome td__csv_read_path(td__csv *csv, const td__csv_cell *cell, int64_t column);
td__csv_outcome td__csv_read_group(td__csv *csv, const td__csv_cell *cell, int64_t column,
                                   float *value);
/* How many values a row has behind its inputs. */
static inline size_t td__csv_behind(const td__csv *csv) {
    return (size_t)(csv->label_count + csv->weighted + csv->grouped);
}
/* One cell, whatever its column is for; p moves to the separator or line end behind it. */
td__csv_outcome td__csv_parse_cell(td__csv *csv, char **p, int64_t column);
/* RECORD or INCOMPLETE, or FAILED for a quote that is never closed and the like. */
td__csv_outcome td__csv_scan(td__csv *csv, char *from, td__csv_cell *cell);
/* The cell's text with doubled quotes made single, cut at size - 1 bytes; false when it was cut. */
bool td__csv_text(const td__csv_cell *cell, char *text, size_t size);
/* The same as a name (td__name_clean), of TD__NAME_LENGTH_MAXIMUM bytes at most. */
bool td__csv_name(const td__csv_cell *cell, char *name, size_t size);
bool td__csv_is_number(const td__csv_cell *cell, float *value);
/* Reads more; FAILED when the record is too long or reading fails. */
td__csv_outcome td__csv_fill(td__csv *csv);
/* Moves next past empty lines, counting them: RECORD, INCOMPLETE or END. */
td__csv_outcome td__csv_skip_empty(const td__csv *csv, char **next, int64_t *line);
/* Whether a cell ends at p: separator, LF or CRLF. */
static inline bool td__csv_is_cell_end(const char *p, char separator) {
    return *p == separator || *p == '\n' || (*p == '\r' && p[1] == '\n');
}
/* What stands for a missing value: nothing, NA, NaN, … */
bool td__csv_is_missing(const char *text);
/* Whether text is a number with a decimal comma, with commas between thousands, or either (1,234). */
typedef enum td__csv_comma {
    TD__COMMA_NONE,
    TD__COMMA_DECIMAL,
    TD__COMMA_THOUSANDS,
    TD__COMMA_EITHER
} td__csv_comma;
td__csv_comma td__csv_find_comma(const char *text);
/* Whether a class is written as a number with leading zeros, which is not the same text as the
 * number. */
static inline bool td__csv_is_padded(const char *text) {
    return text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}
/* An error that counts the values that are missing in each column and may not be. */
td_status td__csv_check_missing(td__csv *csv);
/* Behind the line end at p, at most end. */
static inline char *td__csv_behind_line(const td__csv *csv, char *p) {
    p += 1 + (*p == '\r');
    return p < csv->end ? p : csv->end;
}

#endif
