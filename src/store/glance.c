/* run.db at a glance: a store of the few sources that a list of runs needs, read without SQLite. It is
 * for a file at rest that has the tables of this version and nothing else; SQLite reads all others. */
#include "base/memory.h"
#include "store/btree.h"
#include "store/schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const td__store_class glance_class;

/* The columns of a source: which of the table's they are, and their types as in TD__TABLE_LIST. The
 * first one that is `r` is the row's id. */
typedef struct shape {
    td__source source;
    td__store_table table;
    int columns[7];
    const char *types;
} shape;

static const shape shapes[] = {
    {TD__RUN_NOTES, TD__RUN_ROW, {0, 1}, "tt"},
    {TD__EXPERIMENT, TD__EXPERIMENT_ROW, {0, 1}, "tt"},
    {TD__EVENTS, TD__EVENT_ROW, {1, 2, 3, 4, 5, 6, 7}, "tiiditt"},
    {TD__STEPS, TD__STEP_ROW, {0, 1, 2}, "rid"},
    {TD__METRICS, TD__SUMMARY_ROW, {0, 1, 2, 3, 4, 5, 6}, "rididid"},
};
/* name, kind, better */
static const shape of_signal = {TD__METRICS, TD__SIGNAL_ROW, {1, 3, 8}, "ttt"};

typedef struct glance {
    td__store store;
    td__btree_file file;
    uint32_t roots[TD__TABLES]; /* pages; 0: none */
} glance;

enum { MOST = 9 };

typedef struct rows {
    td__rows base;
    glance *from;
    const shape *shape;
    td__btree_cursor cursor, signal;
    bool last_only, ended;
    td__value values[MOST];
} rows;

/* ---- The tables ----------------------------------------------------------------------------- */

/* Whether it is one of the statements that make our tables, whole. */
static bool is_ours(const td__value *sql) {
    const char *found = sql->type == TD__VALUE_TEXT ? strstr(td__schema, sql->bytes) : NULL;
    return found && sql->size == strlen(sql->bytes) && sql->size > 0 && found[sql->size] == ';';
}

/* sqlite_schema: type, name, tbl_name, rootpage, sql. */
static bool read_roots(glance *g) {
    td__btree_cursor schema = {0};
    bool good = td__btree_begin(&schema, &g->file, 1);
    int next = 0;
    while (good && (next = td__btree_next(&schema)) > 0) {
        const td__value *v = schema.values;
        good = schema.count == 5 && is_ours(&v[4]) && v[0].type == TD__VALUE_TEXT &&
               v[1].type == TD__VALUE_TEXT && v[3].type == TD__VALUE_INTEGER;
        for (int i = 0; good && i < TD__TABLES && strcmp(v[0].bytes, "table") == 0; i++) {
            if (strcmp(v[1].bytes, td__tables[i].name) == 0) {
                g->roots[i] = (uint32_t)v[3].integer;
            }
        }
    }
    td__btree_release(&schema);
    return good && next == 0;
}

static bool is_there(const char *folder, const char *name) {
    char path[4096];
    struct stat about;
    return (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path ||
           stat(path, &about) == 0;
}

static void close_glance(td__store *store) {
    glance *g = (glance *)store;
    td__btree_close(&g->file);
    td__free(g);
}

td__store *td__store_glance(const char *folder) {
    char path[4096];
    if (is_there(folder, "run.db-wal") || is_there(folder, "run.db-journal") ||
        (size_t)snprintf(path, sizeof path, "%s/run.db", folder) >= sizeof path) {
        return NULL;
    }
    glance *g = td__calloc(1, sizeof *g);
    if (!g) {
        return NULL;
    }
    g->store = (td__store){.class = &glance_class, .version = TD__SCHEMA_VERSION};
    if (td__btree_open(&g->file, path) && g->file.user_version == TD__SCHEMA_VERSION &&
        read_roots(g)) {
        return &g->store;
    }
    close_glance(&g->store);
    return NULL;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static td__rows *select_rows(td__store *store, const td__query *query, td_error *error) {
    const shape *found = NULL;
    for (size_t i = 0; i < TD__COUNT(shapes); i++) {
        found = shapes[i].source == query->source ? &shapes[i] : found;
    }
    if (!found || query->ends || (query->backwards && found->source != TD__STEPS)) {
        td_error_set(error, TD_UNSUPPORTED, "run.db: this needs SQLite");
        return NULL;
    }
    rows *made = td__calloc(1, sizeof *made);
    if (!made) {
        td_error_set(error, TD_MEMORY, "run.db: out of memory");
        return NULL;
    }
    made->base.class = &glance_class;
    made->from = (glance *)store;
    made->shape = found;
    made->last_only = query->backwards;
    return &made->base;
}

/* From the first, or of the last alone: no list of runs asks for others. */
static void bind_rows(td__rows *base, int64_t signal, int64_t first, int64_t last, int64_t limit) {
    rows *r = (rows *)base;
    (void)signal, (void)first, (void)last, (void)limit;
    r->ended = !r->last_only &&
               !td__btree_begin(&r->cursor, &r->from->file, r->from->roots[r->shape->table]);
}

/* Takes a source's columns out of a row; false when a value has another type than we write. */
static bool take(const shape *of, const td__btree_cursor *cursor, td__value *values) {
    if (cursor->count != (int)strlen(td__tables[of->table].types)) {
        return false;
    }
    for (int i = 0; of->types[i]; i++) {
        const td__value *v = &cursor->values[of->columns[i]];
        td__value_type type = v->type;
        bool good = type == TD__VALUE_NULL ||
                    (of->types[i] == 't'   ? type == TD__VALUE_TEXT
                     : of->types[i] == 'i' ? type == TD__VALUE_INTEGER
                     : of->types[i] == 'd' ? type == TD__VALUE_INTEGER || type == TD__VALUE_REAL
                                           : false);
        values[i] = *v;
        if (of->types[i] == 'r') {
            values[i] = (td__value){.type = TD__VALUE_INTEGER, .integer = cursor->rowid};
        }
        if (!good) {
            return false;
        }
    }
    return true;
}

/* Joins a summary with its signal: 1, 0 when it has none, -1. */
static int join_signal(rows *r) {
    const glance *g = r->from;
    td__value summary[MOST];
    int found =
        take(r->shape, &r->cursor, summary)
            ? td__btree_find(&r->signal, &g->file, g->roots[TD__SIGNAL_ROW], summary[0].integer)
            : -1;
    if (found > 0) {
        found = take(&of_signal, &r->signal, r->values) ? 1 : -1;
        memcpy(&r->values[3], &summary[1], 6 * sizeof *summary);
    }
    return found;
}

static int next_row(rows *r) {
    const glance *g = r->from;
    if (r->last_only) {
        int found = td__btree_last(&r->cursor, &g->file, g->roots[r->shape->table]);
        return found > 0 && !take(r->shape, &r->cursor, r->values) ? -1 : found;
    }
    int found;
    while ((found = td__btree_next(&r->cursor)) > 0) {
        found = r->shape->source == TD__METRICS         ? join_signal(r)
                : take(r->shape, &r->cursor, r->values) ? 1
                                                        : -1;
        if (found != 0) {
            break;
        }
    }
    return found;
}

static int advance(td__rows *base, td_error *error) {
    rows *r = (rows *)base;
    int found = r->ended && !r->last_only ? -1 : r->ended ? 0 : next_row(r);
    r->ended = r->ended || r->last_only;
    if (found < 0) {
        td_error_set(error, TD_UNSUPPORTED, "run.db: this needs SQLite");
    }
    return found;
}

static int64_t integer_of(td__rows *base, int column) {
    return ((rows *)base)->values[column].integer;
}

static double real_of(td__rows *base, int column) {
    const td__value *value = &((rows *)base)->values[column];
    return value->type == TD__VALUE_NULL ? NAN : value->real;
}

static const char *text_of(td__rows *base, int column, size_t *length) {
    const td__value *value = &((rows *)base)->values[column];
    if (length) {
        *length = value->size;
    }
    return value->type == TD__VALUE_TEXT ? value->bytes : NULL;
}

static void end_rows(td__rows *base) {
    rows *r = (rows *)base;
    td__btree_release(&r->cursor);
    td__btree_release(&r->signal);
    td__free(r);
}

static const td__store_class glance_class = {
    .select = select_rows,
    .bind = bind_rows,
    .next = advance,
    .integer = integer_of,
    .real = real_of,
    .text = text_of,
    .end = end_rows,
    .close = close_glance,
};
