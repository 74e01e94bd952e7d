/* Tables of metrics: Keras's CSVLogger (a file), and Lightning's CSVLogger (metrics.csv in a folder, settings in
 * hparams.yaml beside it). The first line names the columns, of which one is `step` or `epoch`. */
#include "run/foreign.h"

#include "base/folder.h"
#include "base/memory.h"
#include "base/parse.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PATH = 4096, MAX_COLUMNS = 4096, MAX_HEAD = 1 << 16 };
static const size_t max_file = (size_t)1 << 30;

/* ---- Cells ---------------------------------------------------------------------------------- */

/* Takes the next cell of a row, in place: *at goes behind it. False after the last of a row. */
static bool next_cell(char **at, char separator, char **cell, bool *row_ends) {
    char *from = *at, *to = *at;
    *cell = *at;
    bool quoted = *from == '"';
    from += quoted;
    *cell = to = from;
    for (; *from; from++) {
        if (quoted && *from == '"') {
            if (from[1] != '"') {
                quoted = false;
                continue;
            }
            from++;
        } else if (!quoted && (*from == separator || *from == '\n' || *from == '\r')) {
            break;
        }
        *to++ = *from;
    }
    char end = *from;
    from += end == '\r' && from[1] == '\n';
    *at = end ? from + 1 : from;
    *to = 0;
    *row_ends = end != separator;
    return true;
}

/* The separator of the header: the first of these that it has. */
static char separator_of(const char *head) {
    size_t length = strcspn(head, "\n");
    for (const char *s = ",;\t"; *s; s++) {
        if (memchr(head, *s, length)) {
            return *s;
        }
    }
    return ',';
}

typedef struct table {
    char **names;
    size_t count;
    size_t step, epoch; /* columns; SIZE_MAX: none */
    char separator;
} table;

static char *read_head(char *text, table *t) {
    bool ends = false;
    *t = (table){.step = SIZE_MAX, .epoch = SIZE_MAX, .separator = separator_of(text)};
    t->names = td__calloc(MAX_COLUMNS, sizeof *t->names);
    while (t->names && !ends && t->count < MAX_COLUMNS) {
        char *cell = NULL;
        (void)next_cell(&text, t->separator, &cell, &ends);
        t->step = strcmp(cell, "step") == 0 ? t->count : t->step;
        t->epoch = strcmp(cell, "epoch") == 0 ? t->count : t->epoch;
        t->names[t->count++] = cell;
    }
    return text;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static bool whole_number(const char *text, int64_t *number) {
    double value;
    const char *end = td__parse_float64(text, &value);
    if (!end || *end || !(value >= -9e15 && value <= 9e15)) {
        return false;
    }
    *number = (int64_t)value;
    return true;
}

static td_status take_cell(td__intake *intake, const char *name, const td__moment_of *at,
                           const char *text, td_error *error) {
    double value;
    const char *end = td__parse_float64(text, &value);
    if (!*text || strcmp(text, "NA") == 0 || !*name) { /* nothing was logged */
        return TD_OK;
    }
    return end && !*end ? td__intake_number(intake, name, at, value, error)
                        : td__intake_text(intake, name, at, text, error);
}

static td_status take_row(td__intake *intake, const table *t, char *const *cells, size_t count,
                          int64_t row, td_error *error) {
    size_t by = t->step != SIZE_MAX ? t->step : t->epoch;
    td__moment_of at = {0};
    if (by >= count || !whole_number(cells[by], &at.step)) {
        td__run_problem(intake->problems, "row %lld has no %s and is left out", (long long)row,
                        t->names[by]);
        return TD_OK;
    }
    if (t->epoch < count) {
        (void)whole_number(cells[t->epoch], &at.epoch);
    }
    td_status status = TD_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (i != t->step && i != t->epoch) {
            status = take_cell(intake, t->names[i], &at, cells[i], error);
        }
    }
    return status;
}

static td_status take_rows(td__intake *intake, const table *t, char *text, td_error *error) {
    char **cells = td__calloc(t->count, sizeof *cells);
    td_status status = cells ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (int64_t row = 2; *text && !status; row++) {
        size_t count = 0, extra = 0;
        for (bool ends = false; !ends;) {
            char *cell = NULL;
            (void)next_cell(&text, t->separator, &cell, &ends);
            if (count < t->count) {
                cells[count++] = cell;
            } else {
                extra++;
            }
        }
        if (extra) {
            td__run_problem(intake->problems, "row %lld has more cells than there are columns",
                            (long long)row);
        }
        if (count > 1 || *cells[0]) { /* not an empty line */
            status = take_row(intake, t, cells, count, row, error);
        }
    }
    td__free(cells);
    return status;
}

/* ---- Files ---------------------------------------------------------------------------------- */

/* The table of a path: itself, or metrics.csv in it. */
static const char *table_of(const char *path, char file[MAX_PATH]) {
    struct stat about;
    bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    int length = snprintf(file, MAX_PATH, "%s%s", path, folder ? "/metrics.csv" : "");
    return length > 0 && length < MAX_PATH ? file : NULL;
}

static bool is_table(const char *path) {
    char *head = td__calloc(MAX_HEAD + 1, 1);
    struct stat about;
    bool good = false;
    int file = head ? td__file_open(AT_FDCWD, path, O_RDONLY) : -1;
    if (file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
        size_t size = about.st_size < MAX_HEAD ? (size_t)about.st_size : (size_t)MAX_HEAD;
        table t = {0};
        if (td__read_all(file, head, size, 0) && strchr(head, '\n')) {
            *strchr(head, '\n') = 0;
            (void)read_head(head, &t);
            good = t.count > 1 && (t.step != SIZE_MAX || t.epoch != SIZE_MAX);
        }
        td__free(t.names);
    }
    if (file >= 0) {
        close(file);
    }
    td__free(head);
    return good;
}

static bool is_run(const char *path) {
    char file[MAX_PATH];
    return table_of(path, file) && (td__ends_in(file, ".csv") || td__ends_in(file, ".log")) &&
           is_table(file);
}

typedef struct settings {
    td__intake *intake;
    td_status status;
} settings;

static void take_setting(void *user, const char *key, const char *value) {
    settings *s = user;
    char name[MAX_PATH];
    (void)snprintf(name, sizeof name, "experiment.%s", key);
    s->status = s->status ? s->status : td__intake_note(s->intake, name, value, NULL);
}

/* hparams.yaml, where there is one. */
static td_status read_settings(td__intake *intake, const char *path, td_error *error) {
    char file[MAX_PATH];
    td_error reason = {0};
    settings s = {.intake = intake};
    int length = snprintf(file, sizeof file, "%s/hparams.yaml", path);
    if (length < 0 || (size_t)length >= sizeof file || access(file, R_OK) != 0) {
        return TD_OK;
    }
    if (td__foreign_yaml(file, take_setting, &s, &reason)) {
        td__run_problem(intake->problems, "%s", reason.text);
    }
    return s.status ? td_error_set(error, s.status, "%s: out of memory", file) : TD_OK;
}

static td_status read_run(td__intake *intake, const char *path, td_error *error) {
    char file[MAX_PATH];
    size_t length = 0;
    table t = {0};
    char *text = table_of(path, file) ? td__foreign_load(file, max_file, &length, error) : NULL;
    if (!text) {
        return error->status ? error->status
                             : td_error_set(error, TD_INVALID, "%s: too long", path);
    }
    if (strlen(text) < length) {
        td__run_problem(intake->problems, "%s: what follows a zero byte is left out", file);
    }
    char *rows = read_head(text, &t);
    td_status status = t.names ? take_rows(intake, &t, rows, error)
                               : td_error_set(error, TD_MEMORY, "out of memory");
    status = status ? status : read_settings(intake, path, error);
    td__free(t.names);
    td__free(text);
    return status;
}

const td__foreign td__foreign_csv = {.name = "csv",
                                     .what = "a CSV log of Keras or Lightning",
                                     .mark = "metrics.csv",
                                     .is_run = is_run,
                                     .read = read_run};
