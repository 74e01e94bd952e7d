/* Where a run's records are kept: run.db, an SQLite database (docs/run-db.md), or PostgreSQL (docs/team.md).
 *
 * A store takes rows of tables and gives rows of sources. Nothing outside of this module speaks
 * SQL; another database is another td__store_class and a way to open it. Each class has a struct of
 * its own that begins with a td__store, and likewise for its rows. */
#ifndef TAPEDECK_STORE_STORE_H
#define TAPEDECK_STORE_STORE_H

#include "tapedeck/base.h"

typedef struct td__store td__store;
typedef struct td__rows td__rows;

/* ---- Rows that go in ------------------------------------------------------------------------ */

/* Names, what happens to a row that is there already, and the types of columns: n none yet (the
 * store numbers rows), i integer, o integer (negative is NULL), d real (NaN is NULL), t text, b bytes. */
#define TD__TABLE_LIST(X)                                                                          \
    X(SIGNAL, "signal", "OR REPLACE", "itbtttoittitot")                                            \
    X(STEP, "step", "OR IGNORE", "iid")                                                            \
    X(SCALAR, "scalar", "OR REPLACE", "iid")                                                       \
    X(SUMMARY, "summary", "OR REPLACE", "iididid")                                                 \
    X(STATS, "stats", "OR REPLACE", "iiidddddiiii")                                                \
    X(HISTOGRAM, "histogram_packed", "OR REPLACE", "iib")                                          \
    X(TENSOR_SERIES, "tensor_series", "OR REPLACE", "iiiitttti")                                   \
    X(EXAMPLE, "example", "OR REPLACE", "iiitt")                                                   \
    X(HASH, "hash", "OR REPLACE", "iit")                                                           \
    X(REPLAYED, "replayed", "OR REPLACE", "iit")                                                   \
    X(TEXT, "text", "", "iit")                                                                     \
    X(EVENT, "event", "", "ntiiditt")                                                              \
    X(FINDING, "finding", "", "nttoitttttt")                                                       \
    X(RUN, "run", "OR REPLACE", "tt")                                                              \
    X(ENVIRONMENT, "environment", "OR REPLACE", "tt")                                              \
    X(EXPERIMENT, "experiment", "OR REPLACE", "tt")

typedef enum td__store_table {
#define TD__TABLE_MEMBER(name, text, conflict, types) TD__##name##_ROW,
    TD__TABLE_LIST(TD__TABLE_MEMBER)
#undef TD__TABLE_MEMBER
        TD__TABLES
} td__store_table;

/* ---- Rows that come out --------------------------------------------------------------------- */

/* Their columns. The first seven have the rows of one signal, by step. */
typedef enum td__source {
    TD__SCALARS,     /* step, value */
    TD__STATISTICS,  /* step, count, mean, std, min, max, norm, zeros, nan, inf, first_nonfinite */
    TD__HISTOGRAMS,  /* step, bins: as bins.h has them */
    TD__TENSORS,     /* step, form, file, record */
    TD__HASHES,      /* step, hash */
    TD__TEXTS,       /* step, text */
    TD__EXAMPLES,    /* step, sample, label, value: by step and sample */
    TD__STEPS,       /* step, epoch, wall_time: by step */
    TD__SUMMARIES,   /* last_step, last, least_step, least, greatest_step, greatest: of a signal */
    TD__METRICS,     /* name, kind, better, then as TD__SUMMARIES: by signal */
    TD__SIGNALS,     /* id, name, raw, kind, layer, …: as table signal has them; by id */
    TD__EVENTS,      /* kind, epoch, step, wall_time, count, signal, text: in their order */
    TD__FINDINGS,    /* cause, layer, …: as table finding has them, in their order */
    TD__RUN_NOTES,   /* key, value: by key */
    TD__ENVIRONMENT, /* likewise */
    TD__EXPERIMENT,
    /* Tables as they are, for copying a run. */
    TD__ALL_SUMMARIES, /* signal, then as TD__SUMMARIES */
    TD__TENSOR_SERIES, /* signal, step, last, every, form, dtype, shape, file, record */
    TD__REPLAYED_ROWS, /* signal, step, form */
    TD__SOURCES
} td__source;

typedef struct td__query {
    td__source source;
    const char *column; /* of TD__STATISTICS: step, this one, and nan + inf (NULL: all) */
    bool ends;          /* instead of rows one: the first and last step of the signal, NULL without
                         * any; of TD__TENSORS then whether there are tensors, and pictures */
    bool backwards;     /* the last first */
    const char *form;   /* of TD__TENSORS: "tensor" or "image" only (NULL: both) */
    /* Of a run that several processes wrote (run/ranks.h): */
    int64_t rank; /* only this rank's, plus 1 (0: all) */
    bool
        spread; /* of TD__SCALARS, and TD__STATISTICS of a column: the columns are td__spread_column */
} td__query;

/* A step's values over the ranks. NaN is not counted in mean, least and greatest; a rank is -1 when there is none. */
enum td__spread_column {
    TD__SPREAD_STEP,
    TD__SPREAD_MIN,
    TD__SPREAD_MEAN,
    TD__SPREAD_MAX,
    TD__SPREAD_RANKS,
    TD__SPREAD_MIN_RANK,
    TD__SPREAD_MAX_RANK,
    TD__SPREAD_BROKEN_RANK, /* the first one that has NaN or infinities */
};

/* ---- The interface -------------------------------------------------------------------------- */

typedef struct td__store_class {
    /* Puts the rows of a batch (batch.h has their layout) in, all of them or none. TD_BUSY when
     * another program holds the store. */
    td_status (*insert)(td__store *store, const uint8_t *rows, size_t size, td_error *error);
    /* Once it returns TD_OK, what was put in survives loss of power. */
    td_status (*sync)(td__store *store, td_error *error);
    /* Removes what is of later steps. */
    td_status (*rewind)(td__store *store, int64_t step, td_error *error);
    /* Removes what it has of records of an array behind the first `count`. */
    td_status (*forget)(td__store *store, const char *file, int64_t count, td_error *error);

    /* The rows of a source, before the first; NULL with an error. To be bound first. */
    td__rows *(*select)(td__store *store, const td__query *query, td_error *error);
    /* Starts (again) with a signal's rows of steps first … last, limit at most. */
    void (*bind)(td__rows *rows, int64_t signal, int64_t first, int64_t last, int64_t limit);
    /* Goes to the next row: 1, or 0 at the end, or -1 with an error, which ends them too. */
    int (*next)(td__rows *rows, td_error *error);
    int64_t (*integer)(td__rows *rows, int column);
    double (*real)(td__rows *rows, int column); /* NULL is NaN */
    /* NULL is NULL; valid until next. length may be NULL. */
    const char *(*text)(td__rows *rows, int column, size_t *length);
    void (*end)(td__rows *rows); /* accepts NULL */

    void (*close)(td__store *store);
} td__store_class;

/* What a database has about a run beside its rows. */
typedef struct td__remote {
    int64_t number;     /* of the run there */
    bool writing;       /* a deck has sent something in the last minute, and did not end */
    int64_t bytes;      /* of the run's folder */
    const char *folder; /* where it is, on the machine that wrote it */
} td__remote;

struct td__store {
    const td__store_class *class;
    const td__remote *remote;    /* of a database; NULL: run.db in the run's folder */
    struct td__changes *changes; /* gets what is committed (changes.h); NULL: nobody wants it */
    bool slow;                   /* a commit waits for a server: fewer of them */
    int version;                 /* that it was written in; 0: not known */
    int generation;              /* changes when the store has replaced its files by itself */
    /* Of one that is not trusted: until when it may be read, in the thread's processor time
     * (td__cpu_seconds); what takes longer ends with an error. 0: as long as its size allows. */
    double cpu_until;
};
struct td__rows {
    const td__store_class *class;
};

static inline void td__store_close(td__store *store) {
    if (store) {
        store->class->close(store);
    }
}
static inline void td__rows_bind(td__rows *rows, int64_t signal, int64_t first, int64_t last,
                                 int64_t limit) {
    rows->class->bind(rows, signal, first, last, limit);
}
static inline int td__rows_next(td__rows *rows, td_error *error) {
    return rows->class->next(rows, error);
}
static inline int64_t td__rows_integer(td__rows *rows, int column) {
    return rows->class->integer(rows, column);
}
static inline double td__rows_real(td__rows *rows, int column) {
    return rows->class->real(rows, column);
}
static inline const char *td__rows_text(td__rows *rows, int column, size_t *length) {
    return rows->class->text(rows, column, length);
}
static inline void td__rows_end(td__rows *rows) {
    if (rows) {
        rows->class->end(rows);
    }
}

/* ---- SQLite --------------------------------------------------------------------------------- */

/* Makes FOLDER/run.db with its tables. TD_EXISTS when there is one. */
TD_NODISCARD td_status td__store_create(const char *folder, td__store **store, td_error *error);
/* FOLDER/run.db, brought to this version when it is older. TD_NOT_FOUND when there is none. */
TD_NODISCARD td_status td__store_open(const char *folder, td__store **store, td_error *error);
/* A run for reading only. Of a folder, FOLDER/run.db: nothing is changed, nothing is left beside it, and nothing in it
 * is trusted. writing: a deck writes it now. damaged: it is shorter than its header claims. Of a database, URL#NAME.
 * TD_NOT_FOUND, TD_BUSY, TD_FORMAT. */
TD_NODISCARD td_status td__store_read(const char *place, bool writing, td__store **store,
                                      bool *damaged, td_error *error);
/* A private store that is deleted when it is closed. */
TD_NODISCARD td_status td__store_temporary(td__store **store, td_error *error);

/* Bytes of all files of a folder and below. */
int64_t td__folder_bytes(const char *folder);
/* Copies a run into a store that has none. */
TD_NODISCARD td_status td__store_copy(td__store *from, td__store *to, td_error *error);

/* Files beside run.db that a database has (tensors=database in its URL), by their path in the run's folder; TD_NOT_FOUND
 * where it has none of that name, and of every other store. */
TD_NODISCARD td_status td__store_file_size(td__store *store, const char *name, int64_t *size,
                                           td_error *error);
TD_NODISCARD td_status td__store_file_read(td__store *store, const char *name, int64_t offset,
                                           size_t size, void *out, td_error *error);
typedef td_status td__file_function(void *user, const char *name, td_error *error);
TD_NODISCARD td_status td__store_files(td__store *store, td__file_function *each, void *user,
                                       td_error *error);
/* Whether a path does not lead out of the folder that it is in. */
bool td__store_file_inside(const char *name);

/* ---- Databases ------------------------------------------------------------------------------ */

/* The runs of a database. */
typedef struct td__listing td__listing;
/* url may have the name of a run behind a '#', and is then that run alone. summaries: with what a list of runs shows of
 * each, in a few statements for all of them. */
TD_NODISCARD td_status td__listing_open(const char *url, bool summaries, td__listing **listing,
                                        td_error *error);
void td__listing_close(td__listing *listing); /* accepts NULL; after the stores of its runs */
size_t td__listing_count(const td__listing *listing);
/* URL#NAME, without a password, by name as a list of folders; and NAME. A run of several processes is there once. */
const char *td__listing_place(const td__listing *listing, size_t index);
const char *td__listing_name(const td__listing *listing, size_t index);
/* The parts of a run of several processes: "rank-00000", "attempt-2/rank-00000", …; 0: one process wrote it. */
size_t td__listing_part_count(const td__listing *listing, size_t index);
const char *td__listing_part(const td__listing *listing, size_t index, size_t part);
/* A store of a run that one process wrote, which answers what a list shows without asking the server again. */
TD_NODISCARD td_status td__listing_store(td__listing *listing, size_t index, td__store **store,
                                         td_error *error);

/* A note that people keep with the run URL#NAME, which sending the run again leaves. TD_NOT_FOUND. */
TD_NODISCARD td_status td__pg_remark(const char *place, const char *key, const char *value,
                                     td_error *error);
/* All of the run. TD_BUSY while it is written. */
TD_NODISCARD td_status td__pg_remove(const char *place, td_error *error);

#endif
