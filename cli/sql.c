/* tapedeck sql: a query over runs, as a table, CSV or JSON. */
#include "json.h"
#include "options.h"
#include "reading.h"
#include "terminal.h"

#include "tapedeck/sql.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "tapedeck sql RUN… STATEMENT [--json | --csv] [--seconds S]\n"
    "tapedeck sql --tables\n"
    "\n"
    "Runs one query, in SQLite's SQL, over runs (folders, run.db, event files, or folders with "
    "runs\n"
    "below them). It only reads: any other statement is refused, and a run's own views and "
    "triggers "
    "are\n"
    "never run. These tables are there, each with a column `run`:\n"
    "\n"
    "  runs        folder, state, started, last_step, last_epoch, bytes, dropped, error, …\n"
    "  signals     signal, kind, layer, parameter, forms, first_step, last_step, …\n"
    "  scalars     signal, step, value\n"
    "  stats       signal, layer, kind, step, count, mean, std, min, max, norm, zeros, nan, inf, "
    "…\n"
    "  histograms  signal, step, low, high, count: a row for each bin that holds something\n"
    "  findings    cause, layer, since_step, confidence, severity, evidence, remedy, …\n"
    "  events      kind, step, wall_time, count, signal, text\n"
    "  config      key, value: what the experiment was\n"
    "  notes, environment       key, value: facts about the run and its machine\n"
    "  steps, tensors, examples, texts\n"
    "\n"
    "  --tables      print all tables with their columns\n"
    "  --json        a list of objects; NaN and infinity are null\n"
    "  --csv         with a header, quoted as RFC 4180 has it\n"
    "  --rank N      of trainings of several processes, what this one recorded\n"
    "  --seconds S   of processor time that the statement may take (default 60)\n"
    "\n"
    "Exit status 1 when the statement failed, or when something of a run could not be read: rows "
    "are\n"
    "printed all the same, and stderr says what is missing.\n"
    "\n"
    "Examples\n"
    "  tapedeck sql runs/demo \"select step, value from scalars where signal = 'val_loss'\"\n"
    "  tapedeck sql runs \"select run, min(value) from scalars where signal = 'val_loss' group by "
    "run\"\n"
    "  tapedeck sql runs/demo --csv \"select * from stats where kind = 'gradient'\" > "
    "gradients.csv\n"
    "  tapedeck sql runs \"select run, signal, min(step) from stats where nan > 0 group by 1, "
    "2\"\n";

static const char tables[] = "select l.name as \"table\", group_concat(i.name || rtrim(' ' || "
                             "lower(i.type)), ', ') as columns"
                             " from pragma_table_list l join pragma_table_info(l.name) i"
                             " where l.type = 'virtual' group by l.name";

/* ---- Values as text ------------------------------------------------------------------------- */

/* A number that reads back to the same value, as short as that allows; out has 32 bytes. */
static void write_real(char *out, double value) {
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value) {
            break;
        }
    }
}

/* The cell as text, for free(); NULL when memory is exhausted. */
static char *cell_text(const td_cell *cell) {
    char number[32] = "";
    switch (cell->kind) {
    case TD_CELL_INTEGER:
        (void)snprintf(number, sizeof number, "%lld", (long long)cell->integer);
        break;
    case TD_CELL_REAL:
        write_real(number, cell->real);
        break;
    case TD_CELL_TEXT:
        return strdup(cell->text);
    case TD_CELL_BYTES: {
        char *hex = malloc(2 * cell->length + 1);
        for (size_t i = 0; hex && i < cell->length; i++) {
            (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned char)cell->text[i]);
        }
        if (hex) {
            hex[2 * cell->length] = 0;
        }
        return hex;
    }
    default:
        break;
    }
    return strdup(number);
}

/* ---- JSON and CSV: row by row --------------------------------------------------------------- */

typedef struct listing {
    td_sql *sql;
    const char *const *names;
    size_t columns;
    bool json;
} listing;

static void print_json_cell(const td_cell *cell) {
    char *text;
    char number[32];
    switch (cell->kind) {
    case TD_CELL_INTEGER:
        printf("%lld", (long long)cell->integer);
        break;
    case TD_CELL_REAL:
        write_real(number, cell->real);
        (void)fputs(isfinite(cell->real) ? number : "null", stdout);
        break;
    case TD_CELL_NULL:
        (void)fputs("null", stdout);
        break;
    default:
        text = cell_text(cell);
        print_json_text(text ? text : "");
        free(text);
        break;
    }
}

static void print_json_row(const listing *l, const td_cell *cells, int64_t row) {
    (void)fputs(row ? ",\n " : "", stdout);
    for (size_t i = 0; i < l->columns; i++) {
        (void)fputs(i ? ", " : "{", stdout);
        print_json_text(l->names[i]);
        (void)fputs(": ", stdout);
        print_json_cell(&cells[i]);
    }
    (void)fputs("}", stdout);
}

static void print_csv_row(const listing *l, const td_cell *cells, int64_t row) {
    for (size_t i = 0; row == 0 && i < l->columns; i++) {
        (void)fputs(i ? "," : "", stdout);
        print_csv_field(l->names[i]);
    }
    (void)fputs(row == 0 ? "\n" : "", stdout);
    for (size_t i = 0; cells && i < l->columns; i++) {
        char *text = cell_text(&cells[i]);
        (void)fputs(i ? "," : "", stdout);
        print_csv_field(text ? text : "");
        free(text);
    }
    (void)fputs(cells ? "\n" : "", stdout);
}

static int print_rows(const listing *l, td_error *error) {
    const td_cell *cells;
    int64_t rows = 0;
    int next;
    (void)fputs(l->json ? "[" : "", stdout);
    while ((next = td_sql_next(l->sql, &cells, error)) > 0) {
        (l->json ? print_json_row : print_csv_row)(l, cells, rows++);
    }
    if (rows == 0 && !l->json) {
        print_csv_row(l, NULL, 0); /* the header */
    }
    (void)fputs(l->json ? "]\n" : "", stdout);
    return next;
}

/* ---- A table: all rows are needed for its columns' widths ----------------------------------- */

enum { MAX_TABLE_ROWS = 10000 };

typedef struct grid {
    char **texts; /* as printed, row by row; the first row has the names */
    bool *numbers;
    size_t count, capacity;
} grid;

static bool grow(grid *g) {
    size_t capacity = g->capacity ? 2 * g->capacity : 256;
    char **texts = realloc(g->texts, capacity * sizeof *texts);
    if (!texts) {
        return false;
    }
    g->texts = texts;
    bool *numbers = realloc(g->numbers, capacity * sizeof *numbers);
    if (!numbers) {
        return false;
    }
    g->numbers = numbers;
    g->capacity = capacity;
    return true;
}

static bool add_text(grid *g, char *text, bool number) {
    if (!text || (g->count == g->capacity && !grow(g))) {
        free(text);
        return false;
    }
    g->numbers[g->count] = number;
    g->texts[g->count++] = text;
    return true;
}

/* What may be printed of any bytes: one line, nothing hidden. */
static char *visible(char *text) {
    size_t length = text ? strlen(text) : 0;
    char *out = text ? malloc(TD_VISIBLE_SIZE(length)) : NULL;
    if (out) {
        td_visible(out, text, length, false);
    }
    free(text);
    return out;
}

static void print_grid(const grid *g, size_t columns) {
    int *widths = calloc(columns, sizeof *widths);
    for (size_t i = 0; widths && i < g->count; i++) {
        int width = terminal_columns(g->texts[i]);
        widths[i % columns] = width > widths[i % columns] ? width : widths[i % columns];
    }
    for (size_t i = 0; widths && i < g->count; i++) {
        size_t column = i % columns;
        bool last = column + 1 == columns;
        /* A name stands over its column as the values do. */
        bool right = i < columns ? g->count > columns && g->numbers[i + columns] : g->numbers[i];
        if (right) {
            printf("%*s", widths[column] - terminal_columns(g->texts[i]), "");
        }
        if (right || last) {
            (void)fputs(g->texts[i], stdout);
        } else {
            terminal_print_padded(g->texts[i], widths[column]);
        }
        (void)fputs(last ? "\n" : "  ", stdout);
    }
    free(widths);
}

static int print_table(const listing *l, td_error *error) {
    grid g = {0};
    const td_cell *cells;
    size_t rows = 0;
    int next = 0;
    bool good = true;
    for (size_t i = 0; i < l->columns && good; i++) {
        good = add_text(&g, visible(strdup(l->names[i])), false);
    }
    while (good && (next = td_sql_next(l->sql, &cells, error)) > 0 && rows < MAX_TABLE_ROWS) {
        for (size_t i = 0; i < l->columns && good; i++) {
            good = add_text(&g, visible(cell_text(&cells[i])),
                            cells[i].kind == TD_CELL_INTEGER || cells[i].kind == TD_CELL_REAL);
        }
        rows++;
    }
    if (good) {
        print_grid(&g, l->columns);
    } else {
        next = -1;
        td_error_set(error, TD_MEMORY, "out of memory");
    }
    if (next > 0) {
        next = -1;
        td_error_set(error, TD_RANGE,
                     "only the first %d rows are printed; --csv and --json print all",
                     MAX_TABLE_ROWS);
    }
    for (size_t i = 0; i < g.count; i++) {
        free(g.texts[i]);
    }
    free(g.texts);
    free(g.numbers);
    return next;
}

/* ---- The command ---------------------------------------------------------------------------- */

static int run_statement(const char *const *runs, size_t count, const char *statement,
                         double seconds, bool json, bool csv) {
    td_error error = {0};
    td_sql_options options = {.size = sizeof options, .seconds = seconds};
    listing l = {.sql = td_sql_open(runs, count, statement, &options, &error), .json = json};
    if (!l.sql) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    l.columns = td_sql_columns(l.sql, &l.names);
    int end = json || csv ? print_rows(&l, &error) : print_table(&l, &error);
    const char *const *problems;
    size_t problem_count = td_sql_problems(l.sql, &problems);
    for (size_t i = 0; i < problem_count; i++) {
        complain("%s", problems[i]);
    }
    td_sql_close(l.sql);
    return end < 0 ? fail(EXIT_BAD, "%s", error.text) : problem_count ? EXIT_BAD : EXIT_GOOD;
}

static int run_sql(int count, char **arguments) {
    bool json = false, csv = false, list = false;
    const char *seconds_text = NULL, *rank = NULL;
    const option options[] = {{.name = "json", .flag = &json},
                              {.name = "csv", .flag = &csv},
                              {.name = "tables", .flag = &list},
                              {.name = "rank", .text = &rank},
                              {.name = "seconds", .text = &seconds_text}};
    if (!parse_options(&command_sql, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    double seconds = 60;
    if (seconds_text && (!plain_number(seconds_text, &seconds) || seconds < 0)) {
        return misuse(&command_sql, "--seconds %s: expected a number above 0", seconds_text);
    }
    if (json && csv) {
        return misuse(&command_sql, "--json or --csv, not both");
    }
    if (list) {
        return count ? misuse(&command_sql, "--tables takes neither runs nor a statement")
                     : run_statement(NULL, 0, tables, seconds, json, csv);
    }
    if (count < 2) {
        return misuse(&command_sql, "expected runs and then a statement");
    }
    if (!choose_rank(&command_sql, rank, count - 1, (const char **)arguments)) {
        return EXIT_BAD;
    }
    return run_statement((const char *const *)arguments, (size_t)count - 1, arguments[count - 1],
                         seconds, json, csv);
}

const command command_sql = {
    .name = "sql",
    .summary = "query one or many runs in SQL: scalars, statistics, findings, configuration",
    .help = help,
    .run = run_sql,
};
