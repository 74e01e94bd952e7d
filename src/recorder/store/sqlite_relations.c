/* Relations as virtual tables of SQLite.
 *
 * The relations' own errors are kept and reported in place of SQLite's, which only knows that one
 * failed. */
#include "store/relations.h"

#include "base/clock.h"
#include "base/memory.h"

#include <ctype.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum { MAX_BYTES = 64 << 20, MAX_STATEMENT = 1 << 20, INSTRUCTIONS = 1000 };

struct td__statement {
    const td__relations *relations;
    void *context;
    sqlite3 *database;
    sqlite3_stmt *statement;
    double until;
    td_error error; /* of a relation */
    size_t column_count;
    const char **names; /* the statement's */
    td_cell *cells;
};

typedef struct table {
    sqlite3_vtab base;
    td__statement *statement;
    const td__relation *relation;
} table;

typedef struct cursor {
    sqlite3_vtab_cursor base;
    void *rows; /* the relation's cursor */
    sqlite3_int64 row;
    bool ended;
} cursor;

/* ---- A relation as a table ------------------------------------------------------------------ */

static int connect_table(sqlite3 *database, void *user, int count, const char *const *arguments,
                         sqlite3_vtab **made, char **message) {
    (void)count, (void)message;
    td__statement *statement = user;
    const td__relation *relation = statement->relations->relations;
    while (strcmp(relation->name, arguments[2]) != 0) { /* CREATE VIRTUAL TABLE names one of them */
        relation++;
    }
    char sql[1024] = "CREATE TABLE x(";
    for (int i = 0; i < TD__RELATION_COLUMNS && relation->columns[i]; i++) {
        size_t used = strlen(sql);
        (void)snprintf(sql + used, sizeof sql - used, "%s%s", i ? "," : "", relation->columns[i]);
    }
    strcat(sql, ")"); // NOLINT: a relation's columns take far less
    int code = sqlite3_declare_vtab(database, sql);
    table *t = code == SQLITE_OK ? sqlite3_malloc(sizeof *t) : NULL;
    if (t) {
        *t = (table){.statement = statement, .relation = relation};
        *made = &t->base;
    }
    return code != SQLITE_OK ? code : t ? SQLITE_OK : SQLITE_NOMEM;
}

static int disconnect_table(sqlite3_vtab *base) {
    sqlite3_free(base);
    return SQLITE_OK;
}

/* Which comparisons a plan hands to begin_rows, as letters of its name, in the order of their values:
 * r run, s signal, = > < step. */
static char filter_letter(const char *column, int comparison) {
    bool equal = comparison == SQLITE_INDEX_CONSTRAINT_EQ;
    if (strcmp(column, "run TEXT") == 0) {
        return equal ? 'r' : 0;
    }
    if (strcmp(column, "signal TEXT") == 0) {
        return equal ? 's' : 0;
    }
    if (strcmp(column, "step INTEGER") != 0) {
        return 0;
    }
    switch (comparison) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return '=';
    case SQLITE_INDEX_CONSTRAINT_GE:
    case SQLITE_INDEX_CONSTRAINT_GT:
        return '>';
    case SQLITE_INDEX_CONSTRAINT_LE:
    case SQLITE_INDEX_CONSTRAINT_LT:
        return '<';
    default:
        return 0;
    }
}

static int plan_rows(sqlite3_vtab *base, sqlite3_index_info *plan) {
    enum { LETTERS = 16 };
    const td__relation *relation = ((table *)base)->relation;
    char letters[LETTERS + 1] = "";
    int used = 0;
    double cost = 1e7;
    for (int i = 0; i < plan->nConstraint && used < LETTERS; i++) {
        int column = plan->aConstraint[i].iColumn;
        char letter = plan->aConstraint[i].usable && column >= 0
                          ? filter_letter(relation->columns[column], plan->aConstraint[i].op)
                          : 0;
        bool text = letter == 'r' || letter == 's';
        if (!letter || (text && strcmp(sqlite3_vtab_collation(plan, i), "BINARY") != 0)) {
            continue;
        }
        letters[used++] = letter;
        plan->aConstraintUsage[i].argvIndex = used;
        cost /= letter == '=' ? 1000 : text ? 30 : 3;
    }
    plan->idxStr = sqlite3_mprintf("%s", letters);
    plan->needToFreeIdxStr = 1;
    plan->estimatedCost = cost;
    plan->estimatedRows = (sqlite3_int64)cost;
    return plan->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **made) {
    table *t = (table *)base;
    cursor *c = sqlite3_malloc(sizeof *c);
    if (!c) {
        return SQLITE_NOMEM;
    }
    *c = (cursor){.rows = t->statement->relations->open(t->statement->context, t->relation),
                  .ended = true};
    if (!c->rows) {
        sqlite3_free(c);
        return SQLITE_NOMEM;
    }
    *made = &c->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    ((table *)base->pVtab)->statement->relations->close(c->rows);
    sqlite3_free(c);
    return SQLITE_OK;
}

static int next_row(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    td__statement *statement = ((table *)base->pVtab)->statement;
    int next = statement->relations->next(c->rows, &statement->error);
    c->ended = next <= 0;
    c->row++;
    return next < 0 ? SQLITE_ERROR : SQLITE_OK;
}

/* A whole number that no step on the wrong side of value lies beyond; false when every step may match. */
static bool bound_of(sqlite3_value *value, bool upper, int64_t *bound) {
    if (sqlite3_value_type(value) == SQLITE_INTEGER) {
        *bound = sqlite3_value_int64(value);
        return true;
    }
    if (sqlite3_value_type(value) != SQLITE_FLOAT) {
        return false;
    }
    double number = upper ? floor(sqlite3_value_double(value)) : ceil(sqlite3_value_double(value));
    bool fits = fabs(number) < 9e18;
    *bound = fits ? (int64_t)number : 0;
    return fits;
}

static int begin_rows(sqlite3_vtab_cursor *base, int number, const char *letters, int count,
                      sqlite3_value **values) {
    (void)number;
    cursor *c = (cursor *)base;
    td__statement *statement = ((table *)base->pVtab)->statement;
    td__filter filter = {.first = INT64_MIN, .last = INT64_MAX};
    for (int i = 0; i < count; i++) {
        int64_t bound;
        if (letters[i] == 'r' || letters[i] == 's') {
            const char *text = sqlite3_value_type(values[i]) == SQLITE_TEXT
                                   ? (const char *)sqlite3_value_text(values[i])
                                   : NULL;
            *(letters[i] == 'r' ? &filter.run : &filter.signal) = text;
            continue;
        }
        if (letters[i] != '<' && bound_of(values[i], false, &bound) && bound > filter.first) {
            filter.first = bound;
        }
        if (letters[i] != '>' && bound_of(values[i], true, &bound) && bound < filter.last) {
            filter.last = bound;
        }
    }
    c->row = 0;
    c->ended = filter.first > filter.last;
    if (c->ended) {
        return SQLITE_OK;
    }
    td_status status = statement->relations->begin(c->rows, &filter, &statement->error);
    return status ? SQLITE_ERROR : next_row(base);
}

static int is_at_end(sqlite3_vtab_cursor *base) {
    return ((cursor *)base)->ended;
}

static int give_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int column) {
    cursor *c = (cursor *)base;
    td_cell cell = {.kind = TD_CELL_NULL};
    ((table *)base->pVtab)->statement->relations->cell(c->rows, column, &cell);
    switch (cell.kind) {
    case TD_CELL_NULL:
        sqlite3_result_null(out);
        break;
    case TD_CELL_INTEGER:
        sqlite3_result_int64(out, cell.integer);
        break;
    case TD_CELL_REAL:
        sqlite3_result_double(out, cell.real);
        break;
    case TD_CELL_TEXT:
        sqlite3_result_text64(out, cell.text, cell.length, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case TD_CELL_BYTES:
        sqlite3_result_blob64(out, cell.text, cell.length, SQLITE_TRANSIENT);
        break;
    }
    return SQLITE_OK;
}

static int give_row(sqlite3_vtab_cursor *base, sqlite3_int64 *row) {
    *row = ((cursor *)base)->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .iVersion = 1,
    .xCreate = connect_table,
    .xConnect = connect_table,
    .xBestIndex = plan_rows,
    .xDisconnect = disconnect_table,
    .xDestroy = disconnect_table,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = begin_rows,
    .xNext = next_row,
    .xEof = is_at_end,
    .xColumn = give_column,
    .xRowid = give_row,
};

/* ---- What a statement may do ---------------------------------------------------------------- */

static int authorize(void *user, int action, const char *first, const char *second,
                     const char *database, const char *trigger) {
    static const char *const pragmas[] = {"table_info", "table_xinfo", "table_list"};
    static const char *const functions[] = {"load_extension", "fts3_tokenizer"};
    (void)user, (void)database, (void)trigger;
    bool allowed = action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE;
    for (size_t i = 0; action == SQLITE_PRAGMA && i < TD__COUNT(pragmas); i++) {
        allowed = allowed || strcmp(first, pragmas[i]) == 0;
    }
    if (action == SQLITE_FUNCTION) {
        allowed = true;
        for (size_t i = 0; i < TD__COUNT(functions); i++) {
            allowed = allowed && strcmp(second, functions[i]) != 0;
        }
    }
    return allowed ? SQLITE_OK : SQLITE_DENY;
}

static int is_late(void *user) {
    return td__cpu_seconds() > ((td__statement *)user)->until;
}

static td_status statement_error(td__statement *statement, int code, td_error *error) {
    const char *text =
        statement->database ? sqlite3_errmsg(statement->database) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_INTERRUPT:
        return td_error_set(error, TD_RANGE, "the statement took longer than it may");
    case SQLITE_NOMEM:
        return td_error_set(error, TD_MEMORY, "out of memory for the statement");
    case SQLITE_AUTH:
        return td_error_set(error, TD_INVALID,
                            "only queries are allowed (SELECT, WITH, VALUES): %s", text);
    case SQLITE_FULL:
    case SQLITE_IOERR:
        return td_error_set(error, TD_IO, "the statement: %s", text);
    default:
        return td_error_set(error, TD_INVALID, "the statement: %s", text);
    }
}

/* Connects SQLite's own tables that a statement may use: once there is an authorizer, it is asked for
 * the right to change the schema when one of them is first named. */
static int connect_own_tables(sqlite3 *database) {
    static const char *const own[] = {"json_each('[]')", "json_tree('[]')", "pragma_table_list",
                                      "pragma_table_info('')", "pragma_table_xinfo('')"};
    int code = SQLITE_OK;
    for (size_t i = 0; i < TD__COUNT(own) && code == SQLITE_OK; i++) {
        char sql[64];
        (void)snprintf(sql, sizeof sql, "SELECT 1 FROM %s LIMIT 0", own[i]);
        code = sqlite3_exec(database, sql, NULL, NULL, NULL);
    }
    return code;
}

static td_status make_tables(td__statement *statement, td_error *error) {
    const td__relations *relations = statement->relations;
    int code = sqlite3_create_module(statement->database, "tapedeck", &module, statement);
    for (size_t i = 0; i < relations->count && code == SQLITE_OK; i++) {
        char sql[128];
        (void)snprintf(sql, sizeof sql, "CREATE VIRTUAL TABLE %s USING tapedeck",
                       relations->relations[i].name);
        code = sqlite3_exec(statement->database, sql, NULL, NULL, NULL);
    }
    code = code == SQLITE_OK ? connect_own_tables(statement->database) : code;
    return code == SQLITE_OK ? TD_OK : statement_error(statement, code, error);
}

/* Whether nothing but blanks, comments and semicolons is left. */
static bool is_all(const char *rest) {
    while (*rest) {
        if (strncmp(rest, "--", 2) == 0) {
            rest += strcspn(rest, "\n");
        } else if (strncmp(rest, "/*", 2) == 0) {
            const char *end = strstr(rest + 2, "*/");
            rest = end ? end + 2 : rest + strlen(rest);
        } else if (*rest == ';' || isspace((unsigned char)*rest)) {
            rest++;
        } else {
            return false;
        }
    }
    return true;
}

static td_status prepare(td__statement *statement, const char *sql, td_error *error) {
    const char *rest = "";
    sqlite3_limit(statement->database, SQLITE_LIMIT_LENGTH, MAX_BYTES);
    sqlite3_limit(statement->database, SQLITE_LIMIT_SQL_LENGTH, MAX_STATEMENT);
    sqlite3_set_authorizer(statement->database, authorize, NULL);
    sqlite3_progress_handler(statement->database, INSTRUCTIONS, is_late, statement);
    int code = sqlite3_prepare_v2(statement->database, sql, -1, &statement->statement, &rest);
    if (code != SQLITE_OK) {
        return statement_error(statement, code, error);
    }
    if (!statement->statement) {
        return td_error_set(error, TD_INVALID, "the statement is empty");
    }
    if (!is_all(rest)) {
        return td_error_set(error, TD_INVALID, "one statement at a time: there is more after ';'");
    }
    statement->column_count = (size_t)sqlite3_column_count(statement->statement);
    if (!sqlite3_stmt_readonly(statement->statement) || statement->column_count == 0) {
        return td_error_set(error, TD_INVALID, "only queries are allowed: SELECT, WITH, VALUES");
    }
    statement->names = td__calloc(statement->column_count, sizeof *statement->names);
    statement->cells = td__calloc(statement->column_count, sizeof *statement->cells);
    if (!statement->names || !statement->cells) {
        return td_error_set(error, TD_MEMORY, "out of memory for the statement");
    }
    for (size_t i = 0; i < statement->column_count; i++) {
        const char *name = sqlite3_column_name(statement->statement, (int)i);
        statement->names[i] = name ? name : "";
    }
    return TD_OK;
}

/* ---- The interface -------------------------------------------------------------------------- */

td_status td__statement_open(const td__relations *relations, void *context, const char *sql,
                             double seconds, td__statement **opened, td_error *error) {
    td__statement *statement = td__calloc(1, sizeof *statement);
    if (!statement) {
        return td_error_set(error, TD_MEMORY, "out of memory for the statement");
    }
    statement->relations = relations;
    statement->context = context;
    statement->until = td__cpu_seconds() + seconds;
    int code =
        sqlite3_open_v2(":memory:", &statement->database,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    td_status status = code == SQLITE_OK ? TD_OK : statement_error(statement, code, error);
    status = status ? status : make_tables(statement, error);
    status = status ? status : prepare(statement, sql, error);
    if (status) {
        td__statement_close(statement);
        return status;
    }
    *opened = statement;
    return TD_OK;
}

void td__statement_close(td__statement *statement) {
    if (!statement) {
        return;
    }
    sqlite3_finalize(statement->statement);
    sqlite3_close_v2(statement->database);
    td__free(statement->names);
    td__free(statement->cells);
    td__free(statement);
}

size_t td__statement_columns(const td__statement *statement, const char *const **names) {
    *names = statement->names;
    return statement->column_count;
}

double td__statement_until(const td__statement *statement) {
    return statement->until;
}

static void read_cell(sqlite3_stmt *row, int column, td_cell *cell) {
    *cell = (td_cell){.kind = TD_CELL_NULL};
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
        cell->kind = TD_CELL_INTEGER;
        cell->integer = sqlite3_column_int64(row, column);
        cell->real = (double)cell->integer;
        break;
    case SQLITE_FLOAT:
        cell->kind = TD_CELL_REAL;
        cell->real = sqlite3_column_double(row, column);
        break;
    case SQLITE_TEXT:
        cell->kind = TD_CELL_TEXT;
        cell->text = (const char *)sqlite3_column_text(row, column);
        break;
    case SQLITE_BLOB:
        cell->kind = TD_CELL_BYTES;
        cell->text = sqlite3_column_blob(row, column);
        break;
    default:
        break;
    }
    if (cell->kind == TD_CELL_TEXT || cell->kind == TD_CELL_BYTES) {
        cell->length = (size_t)sqlite3_column_bytes(row, column);
        cell->text = cell->text ? cell->text : ""; /* an empty blob has no address */
    }
}

int td__statement_next(td__statement *statement, const td_cell **cells, td_error *error) {
    int code = sqlite3_step(statement->statement);
    if (code == SQLITE_DONE) {
        return 0;
    }
    if (code != SQLITE_ROW) {
        if (statement->error.status) {
            td_error_set(error, statement->error.status, "%s", statement->error.text);
        } else {
            (void)!statement_error(statement, code, error);
        }
        return -1;
    }
    for (size_t i = 0; i < statement->column_count; i++) {
        read_cell(statement->statement, (int)i, &statement->cells[i]);
    }
    *cells = statement->cells;
    return 1;
}
