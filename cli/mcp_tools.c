/* What the tools answer, by the library's public functions. Every list has a maximum; what was left
 * out is counted. */
#include "mcp.h"

#include "tapedeck/diagnose.h"
#include "tapedeck/run.h"
#include "tapedeck/sql.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 2000, MAX_RUNS = 200, MAX_LISTED = 200, MAX_ROWS = 1000, MAX_POINTS = 1000 };
enum { QUERY_BYTES = 48 << 10, MAX_PATH = 4096 };

/* ---- Values --------------------------------------------------------------------------------- */

/* JSON has neither NaN nor infinity. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* Text of others: valid, nothing hidden, and not longer than MAX_TEXT bytes. */
static json_t *words(const char *text) {
    if (!text) {
        return json_null();
    }
    size_t length = strnlen(text, MAX_TEXT);
    bool cut = text[length] != 0;
    while (cut && length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) {
        length--; /* whole characters */
    }
    char *shown = malloc(TD_VISIBLE_SIZE(length) + sizeof "…");
    size_t used = shown ? td_visible(shown, text, length, true) : 0;
    if (shown && cut) {
        memcpy(shown + used, "…", sizeof "…");
    }
    json_t *made = shown ? json_string(shown) : NULL;
    free(shown);
    return made;
}

static const char *text_argument(const json_t *arguments, const char *name, const char *fallback) {
    const char *text = json_string_value(json_object_get(arguments, name));
    return text ? text : fallback;
}

static int64_t integer_argument(const json_t *arguments, const char *name, int64_t fallback) {
    const json_t *value = json_object_get(arguments, name);
    return value ? json_integer_value(value) : fallback;
}

static void put(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value);
}

static void put_problems(json_t *object, const char *const *texts, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, words(texts[i]));
    }
    if (count) {
        put(object, "problems", list);
    } else {
        json_decref(list);
    }
}

/* ---- Runs by name --------------------------------------------------------------------------- */

/* A run's name is its place below the folder; a folder that is a run itself is ".". */
static const char *place_of(const char *folder, const char *path) {
    size_t length = strlen(folder);
    const char *rest = strncmp(folder, path, length) == 0 ? path + length : path;
    rest += strspn(rest, "/");
    return *rest ? rest : ".";
}

typedef struct search {
    const char *folder, *name;
    char path[MAX_PATH];
    int exact, by_end; /* how many there are */
} search;

static td_status try_run(void *user, const char *path, td_error *error) {
    (void)error;
    search *s = user;
    const char *place = place_of(s->folder, path), *slash = strrchr(path, '/');
    bool exact = strcmp(place, s->name) == 0;
    bool by_end = slash && strcmp(slash + 1, s->name) == 0;
    if (exact || (by_end && !s->exact)) {
        (void)snprintf(s->path, sizeof s->path, "%s", path);
    }
    s->exact += exact;
    s->by_end += by_end;
    return TD_OK;
}

/* The folder of the run of that name: nothing outside of the server's folder is looked at. */
static bool find_run(const char *folder, const char *name, char path[MAX_PATH], td_error *error) {
    search s = {.folder = folder, .name = name};
    td_status status = td_runs_find(folder, try_run, &s, error);
    if (!status && !s.exact && s.by_end > 1) {
        status =
            td_error_set(error, TD_INVALID, "%d runs are called %.200s: name one as list_runs does",
                         s.by_end, name);
    } else if (!status && !s.exact && !s.by_end) {
        status =
            td_error_set(error, TD_NOT_FOUND, "there is no run %.200s; list_runs names them", name);
    }
    memcpy(path, s.path, MAX_PATH);
    return !status;
}

/* Open, with its event files read; NULL with an error. */
static td_run *open_named(const char *folder, const char *name, td_error *error) {
    char path[MAX_PATH];
    td_run *run = find_run(folder, name, path, error) ? td_run_open(path, error) : NULL;
    td_run_info info = {.size = sizeof info};
    if (run) {
        td_run_about(run, &info);
    }
    if (run && info.events && td_run_refresh(run, error) != TD_OK) {
        td_run_close(run);
        run = NULL;
    }
    return run;
}

static void put_info(json_t *object, const td_run_info *info) {
    put(object, "state", json_string(info->events ? info->format : td_run_state_name(info->state)));
    put(object, "started", json_integer((json_int_t)info->started));
    put(object, "last_record", json_integer((json_int_t)info->last_record));
    put(object, "step", json_integer(info->last_step));
    put(object, "epoch", json_integer(info->last_epoch));
    put(object, "bytes", json_integer(info->bytes));
    if (info->dropped || info->degraded) {
        put(object, "dropped", json_integer(info->dropped));
        put(object, "degraded", json_integer(info->degraded));
    }
}

/* ---- list_runs ------------------------------------------------------------------------------ */

typedef struct listing {
    const char *folder;
    json_t *list;
    int64_t limit, left_out;
} listing;

static td_status list_one(void *user, const td_run_summary *summary, td_error *error) {
    (void)error;
    listing *l = user;
    if ((int64_t)json_array_size(l->list) >= l->limit) {
        l->left_out++;
        return TD_OK;
    }
    json_t *run = json_object();
    put(run, "run", words(place_of(l->folder, summary->info->folder)));
    if (summary->error) {
        put(run, "error", words(summary->error));
    } else {
        put_info(run, summary->info);
        json_t *metrics = json_object();
        for (size_t i = 0; i < summary->metric_count; i++) {
            const td_run_metric *metric = &summary->metrics[i];
            json_t *name = words(metric->name);
            put(metrics, json_string_value(name),
                json_pack("{s:o, s:o, s:I}", "last", number(metric->values.last), "best",
                          number(metric->best), "best_step", (json_int_t)metric->best_step));
            json_decref(name);
        }
        put(run, "metrics", metrics);
        put_problems(run, summary->problems, summary->problem_count);
    }
    (void)json_array_append_new(l->list, run);
    return TD_OK;
}

static json_t *list_runs(const char *folder, const json_t *arguments, td_error *error) {
    listing l = {
        .folder = folder, .list = json_array(), .limit = integer_argument(arguments, "limit", 50)};
    td_status status = td_runs_list(folder, list_one, &l, error);
    if (status) {
        json_decref(l.list);
        return NULL;
    }
    return json_pack("{s:o, s:o, s:I}", "folder", words(folder), "runs", l.list, "left_out",
                     (json_int_t)l.left_out);
}

/* ---- describe_run --------------------------------------------------------------------------- */

static void put_note(void *user, const char *key, const char *value) {
    json_t *name = words(key);
    if (json_string_value(name) && json_object_size(user) < MAX_LISTED) {
        put(user, json_string_value(name), words(value));
    }
    json_decref(name);
}

static json_t *forms_of(uint32_t forms) {
    json_t *list = json_array();
    for (int bit = 0; bit < 32; bit++) {
        const char *name = forms & 1U << bit ? td_form_name(1U << bit) : NULL;
        if (name) {
            (void)json_array_append_new(list, json_string(name));
        }
    }
    return list;
}

static json_t *signal_facts(const td_run_signal *signal) {
    json_t *facts = json_object();
    put(facts, "signal", words(signal->name));
    if (*td_signal_kind_name(signal->info->kind)) {
        put(facts, "kind", json_string(td_signal_kind_name(signal->info->kind)));
    }
    if (*signal->info->layer) {
        put(facts, "layer", words(signal->info->layer));
    }
    put(facts, "forms", forms_of(signal->forms));
    put(facts, "first_step", json_integer(signal->first_step));
    put(facts, "last_step", json_integer(signal->last_step));
    return facts;
}

static json_t *extremes_of(td_run *run, const td_run_signal *signal) {
    td_extremes e;
    return td_run_extremes(run, signal, &e)
               ? json_pack("{s:o, s:o, s:I, s:o, s:I}", "last", number(e.last), "least",
                           number(e.least), "least_step", (json_int_t)e.least_step, "greatest",
                           number(e.greatest), "greatest_step", (json_int_t)e.greatest_step)
               : json_null();
}

static td_status count_event(void *user, const td_event *event, td_error *error) {
    (void)error;
    json_t *kinds = user;
    const char *kind = td_event_name(event->kind);
    put(kinds, kind, json_integer(1 + json_integer_value(json_object_get(kinds, kind))));
    return TD_OK;
}

static td_status add_finding(void *user, const td_run_finding *finding, td_error *error) {
    (void)error;
    if (json_array_size(user) < 20) {
        (void)json_array_append_new(
            user,
            json_pack("{s:o, s:o, s:I, s:o, s:o}", "cause", words(finding->cause), "layer",
                      words(finding->layer), "since_step", (json_int_t)finding->since_step,
                      "confidence", words(finding->confidence), "remedy", words(finding->remedy)));
    }
    return TD_OK;
}

static void put_signals(json_t *object, td_run *run, int64_t limit) {
    json_t *metrics = json_object(), *signals = json_array();
    size_t count = td_run_signal_count(run), listed = 0;
    for (size_t i = 0; i < count && (int64_t)listed < limit; i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        listed++;
        if (signal->forms == TD_SCALAR) {
            json_t *name = words(signal->name);
            put(metrics, json_string_value(name), extremes_of(run, signal));
            json_decref(name);
        } else {
            (void)json_array_append_new(signals, signal_facts(signal));
        }
    }
    put(object, "metrics", metrics);
    put(object, "signals", signals);
    put(object, "signals_left_out", json_integer((json_int_t)(count - listed)));
}

static json_t *describe_run(const char *folder, const json_t *arguments, td_error *error) {
    td_run *run = open_named(folder, text_argument(arguments, "run", ""), error);
    if (!run) {
        return NULL;
    }
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    json_t *made = json_object(), *events = json_object(), *findings = json_array();
    put(made, "run", words(place_of(folder, info.folder)));
    put_info(made, &info);
    put_signals(made, run, integer_argument(arguments, "limit", 100));
    static const char *const tables[] = {"run", "experiment", "environment"};
    td_status status = TD_OK;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !status; i++) {
        json_t *notes = json_object();
        status = td_run_notes(run, tables[i], put_note, notes, error);
        put(made, i == 0 ? "notes" : i == 1 ? "config" : "environment", notes);
    }
    status = status ? status : td_run_events(run, count_event, events, error);
    status = status ? status : td_run_findings(run, add_finding, findings, error);
    put(made, "events", events);
    put(made, "kept_findings", findings);
    const char *const *problems;
    size_t problem_count = td_run_problems(run, &problems);
    put_problems(made, problems, problem_count);
    td_run_close(run);
    if (status) {
        json_decref(made);
        return NULL;
    }
    return made;
}

/* ---- query ---------------------------------------------------------------------------------- */

static json_t *cell_value(const td_cell *cell) {
    switch (cell->kind) {
    case TD_CELL_INTEGER:
        return json_integer(cell->integer);
    case TD_CELL_REAL:
        return number(cell->real);
    case TD_CELL_TEXT:
        return words(cell->text);
    case TD_CELL_BYTES:
        return json_sprintf("(%zu bytes)", cell->length);
    default:
        return json_null();
    }
}

static size_t cell_bytes(const td_cell *cell) {
    return cell->kind == TD_CELL_TEXT && cell->length < MAX_TEXT ? cell->length + 3
           : cell->kind == TD_CELL_TEXT                          ? MAX_TEXT
                                                                 : 12;
}

static json_t *read_rows(td_sql *sql, int64_t limit, td_error *error) {
    const char *const *names;
    const td_cell *cells;
    size_t columns = td_sql_columns(sql, &names), bytes = 0;
    json_t *rows = json_array(), *heads = json_array();
    for (size_t i = 0; i < columns; i++) {
        (void)json_array_append_new(heads, words(names[i]));
    }
    int next;
    bool full = false;
    while (!full && (next = td_sql_next(sql, &cells, error)) > 0) {
        full = (int64_t)json_array_size(rows) >= limit || bytes > QUERY_BYTES;
        json_t *row = full ? NULL : json_array();
        for (size_t i = 0; row && i < columns; i++) {
            (void)json_array_append_new(row, cell_value(&cells[i]));
            bytes += cell_bytes(&cells[i]);
        }
        if (row) {
            (void)json_array_append_new(rows, row);
        }
    }
    json_t *made = json_pack("{s:o, s:o, s:b}", "columns", heads, "rows", rows, "more", full);
    if (next < 0) {
        json_decref(made);
        made = NULL;
    }
    return made;
}

static json_t *query(const char *folder, const json_t *arguments, td_error *error) {
    enum { MAX_NAMED = 50 };
    static char paths[MAX_NAMED][MAX_PATH];
    const char *runs[MAX_NAMED] = {folder};
    const json_t *named = json_object_get(arguments, "runs");
    size_t count = named ? json_array_size(named) : 0;
    for (size_t i = 0; i < count; i++) {
        if (!find_run(folder, json_string_value(json_array_get(named, i)), paths[i], error)) {
            return NULL;
        }
        runs[i] = paths[i];
    }
    td_sql_options options = {.size = sizeof options, .seconds = 10};
    td_sql *sql =
        td_sql_open(runs, count ? count : 1, text_argument(arguments, "sql", ""), &options, error);
    json_t *made = sql ? read_rows(sql, integer_argument(arguments, "limit", 100), error) : NULL;
    if (made) {
        const char *const *problems;
        size_t problem_count = td_sql_problems(sql, &problems);
        put_problems(made, problems, problem_count);
    }
    td_sql_close(sql);
    return made;
}

/* ---- series, layers ------------------------------------------------------------------------- */

/* One number of each point, as a list. */
static json_t *point_list(const td_point *points, size_t count, char which) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const td_point *p = &points[i];
        (void)json_array_append_new(list, which == 's'   ? json_integer(p->step)
                                          : which == 'v' ? number(p->value)
                                          : which == 'l' ? number(p->low)
                                                         : number(p->high));
    }
    return list;
}

static json_t *series_of(td_run *run, const td_run_signal *signal, const char *statistic,
                         const json_t *arguments) {
    td_point points[MAX_POINTS];
    size_t max = (size_t)integer_argument(arguments, "points", 100);
    bool sampled = false;
    size_t count =
        td_run_points(run, signal, statistic, integer_argument(arguments, "first", INT64_MIN),
                      integer_argument(arguments, "last", INT64_MAX), points, max, &sampled);
    json_t *made = json_object();
    bool grouped = false;
    for (size_t i = 0; i < count; i++) {
        grouped = grouped || points[i].low < points[i].high;
    }
    put(made, "signal", words(signal->name));
    put(made, "statistic", statistic ? json_string(statistic) : json_null());
    put(made, "steps", point_list(points, count, 's'));
    put(made, "values", point_list(points, count, 'v'));
    if (grouped) { /* each point stands for several steps */
        put(made, "low", point_list(points, count, 'l'));
        put(made, "high", point_list(points, count, 'h'));
    }
    if (sampled) {
        put(made, "sampled", json_true());
    }
    return made;
}

static json_t *series(const char *folder, const json_t *arguments, td_error *error) {
    enum { MAX_SERIES = 20 };
    td_run *run = open_named(folder, text_argument(arguments, "run", ""), error);
    if (!run) {
        return NULL;
    }
    const char *what = text_argument(arguments, "signals", "*");
    const char *statistic = text_argument(arguments, "statistic", NULL);
    json_t *list = json_array();
    size_t left_out = 0, count = td_run_signal_count(run);
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        bool scalar = signal->forms & TD_SCALAR, stats = signal->forms & TD_STATS;
        if (!td_run_matches(what, signal->name) || (statistic ? !stats : !scalar && !stats)) {
            continue;
        }
        if (json_array_size(list) >= MAX_SERIES) {
            left_out++;
        } else {
            const char *of = statistic ? statistic : scalar ? NULL : "norm";
            (void)json_array_append_new(list, series_of(run, signal, of, arguments));
        }
    }
    td_run_close(run);
    if (json_array_size(list) == 0) {
        json_decref(list);
        td_error_set(error, TD_NOT_FOUND,
                     "no signal that was recorded as numbers or statistics matches %.200s", what);
        return NULL;
    }
    return json_pack("{s:o, s:I}", "series", list, "signals_left_out", (json_int_t)left_out);
}

static int by_position(const void *a, const void *b) {
    const td_run_signal *x = *(const td_run_signal *const *)a,
                        *y = *(const td_run_signal *const *)b;
    return x->info->order != y->info->order ? (x->info->order < y->info->order ? -1 : 1)
                                            : strcmp(x->name, y->name);
}

/* The value that counts at each of the steps: the last one at or before it. */
static json_t *row_at(td_run *run, const td_run_signal *signal, const char *statistic,
                      const int64_t *steps, size_t columns) {
    json_t *row = json_array();
    for (size_t i = 0; i < columns; i++) {
        int64_t from = i ? steps[i - 1] + 1 : INT64_MIN;
        td_point point;
        size_t count = td_run_points(run, signal, statistic, from, steps[i], &point, 1, NULL);
        (void)json_array_append_new(row, count ? number(point.value) : json_null());
    }
    return row;
}

static json_t *layers(const char *folder, const json_t *arguments, td_error *error) {
    enum { MAX_LAYERS = 150, MAX_COLUMNS = 100 };
    td_run *run = open_named(folder, text_argument(arguments, "run", ""), error);
    if (!run) {
        return NULL;
    }
    td_signal_kind kind = td_signal_kind_find(text_argument(arguments, "kind", "gradient"));
    const char *statistic = text_argument(arguments, "statistic", "norm");
    size_t columns = (size_t)integer_argument(arguments, "columns", 20), rows = 0, left_out = 0;
    const td_run_signal *chosen[MAX_LAYERS];
    int64_t first = INT64_MAX, last = INT64_MIN, steps[MAX_COLUMNS];
    for (size_t i = 0; i < td_run_signal_count(run); i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        if (signal->info->kind != kind || !(signal->forms & TD_STATS)) {
            continue;
        }
        if (rows == MAX_LAYERS) {
            left_out++;
            continue;
        }
        chosen[rows++] = signal;
        first = signal->first_step < first ? signal->first_step : first;
        last = signal->last_step > last ? signal->last_step : last;
    }
    if (rows == 0) {
        td_error_set(error, TD_NOT_FOUND,
                     "the run has no statistics of that kind; describe_run lists what it recorded");
        td_run_close(run);
        return NULL;
    }
    qsort(chosen, rows, sizeof *chosen, by_position);
    json_t *list = json_array(), *heads = json_array();
    for (size_t i = 0; i < columns; i++) {
        double share = columns > 1 ? (double)i / (double)(columns - 1) : 1;
        steps[i] = i + 1 == columns ? last : first + (int64_t)((double)(last - first) * share);
        (void)json_array_append_new(heads, json_integer(steps[i]));
    }
    for (size_t i = 0; i < rows; i++) {
        (void)json_array_append_new(
            list, json_pack("{s:o, s:o, s:o}", "layer", words(chosen[i]->info->layer), "signal",
                            words(chosen[i]->name), "values",
                            row_at(run, chosen[i], statistic, steps, columns)));
    }
    td_run_close(run);
    return json_pack("{s:s, s:o, s:o, s:I}", "statistic", statistic, "steps", heads, "layers", list,
                     "layers_left_out", (json_int_t)left_out);
}

/* ---- compare_runs --------------------------------------------------------------------------- */

static json_t *comparison_answer(const td_comparison *found) {
    enum { SHOWN = 100 };
    json_t *differences = json_array(), *parted = json_array();
    for (size_t i = 0; i < found->difference_count && i < SHOWN; i++) {
        (void)json_array_append_new(
            differences, json_pack("{s:s, s:o}", "only_in", found->differences[i].run ? "b" : "a",
                                   "text", words(found->differences[i].text)));
    }
    for (size_t i = 0; i < found->parting_count && i < SHOWN; i++) {
        const td_parting *p = &found->partings[i];
        (void)json_array_append_new(
            parted, json_pack("{s:o, s:s, s:I, s:o, s:o}", "signal", words(p->signal), "by", p->by,
                              "step", (json_int_t)p->step, "a", number(p->a), "b", number(p->b)));
    }
    return json_pack("{s:I, s:I, s:o, s:I, s:o}", "signals_compared", (json_int_t)found->compared,
                     "signals_parted", (json_int_t)found->parting_count, "parted", parted,
                     "settings_that_differ", (json_int_t)found->difference_count, "settings",
                     differences);
}

static json_t *compare_runs(const char *folder, const json_t *arguments, td_error *error) {
    td_run *a = open_named(folder, text_argument(arguments, "a", ""), error);
    td_run *b = a ? open_named(folder, text_argument(arguments, "b", ""), error) : NULL;
    td_compare_options options = {.size = sizeof options,
                                  .what = text_argument(arguments, "signals", NULL),
                                  .tolerance =
                                      json_number_value(json_object_get(arguments, "tolerance"))};
    td_comparison *found = b ? td_run_compare(a, b, &options, error) : NULL;
    json_t *made = found ? comparison_answer(found) : NULL;
    td_comparison_destroy(found);
    td_run_close(a);
    td_run_close(b);
    return made;
}

/* ---- diagnose_run, assert_run --------------------------------------------------------------- */

static json_t *finding_answer(const td_diagnosis_finding *f) {
    enum { SHOWN = 10 };
    json_t *evidence = json_array(), *edits = json_array();
    for (size_t i = 0; i < f->evidence_count && i < SHOWN; i++) {
        (void)json_array_append_new(evidence, words(f->evidence[i].text));
    }
    for (size_t i = 0; i < f->edit_count && i < SHOWN; i++) {
        (void)json_array_append_new(edits, words(f->edits[i]));
    }
    json_t *made =
        json_pack("{s:o, s:o, s:o, s:I, s:s, s:o, s:o, s:o}", "cause", words(f->cause), "text",
                  words(f->text), "layer", words(f->layer), "since_step", (json_int_t)f->since_step,
                  "confidence", td_confidence_name(f->confidence), "evidence", evidence, "remedy",
                  words(f->remedy), "edits", edits);
    if (f->origin) {
        put(made, "origin",
            json_pack("{s:o, s:o, s:o, s:I, s:I}", "cause", words(f->origin->cause), "layer",
                      words(f->origin->layer), "parameter", words(f->origin->parameter), "row",
                      (json_int_t)f->origin->row, "step", (json_int_t)f->origin->step));
    }
    return made;
}

static json_t *diagnose_run(const char *folder, const json_t *arguments, td_error *error) {
    char path[MAX_PATH];
    td_diagnose_options options = {.size = sizeof options, .no_trial = true};
    td_diagnosis *diagnosis = find_run(folder, text_argument(arguments, "run", ""), path, error)
                                  ? td_diagnose(path, &options, error)
                                  : NULL;
    if (!diagnosis) {
        return NULL;
    }
    json_t *findings = json_array(), *notes = json_array();
    size_t count = td_diagnosis_finding_count(diagnosis);
    for (size_t i = 0; i < count && i < 20; i++) {
        (void)json_array_append_new(findings,
                                    finding_answer(td_diagnosis_finding_at(diagnosis, i)));
    }
    const char *const *texts;
    size_t noted = td_diagnosis_notes(diagnosis, &texts);
    for (size_t i = 0; i < noted && i < 20; i++) {
        (void)json_array_append_new(notes, words(texts[i]));
    }
    json_t *made = json_pack("{s:o, s:I, s:I, s:I, s:o}", "findings", findings, "finding_count",
                             (json_int_t)count, "rules",
                             (json_int_t)td_diagnosis_rule_count(diagnosis), "rules_skipped",
                             (json_int_t)td_diagnosis_skipped_count(diagnosis), "notes", notes);
    td_diagnosis_destroy(diagnosis);
    return made;
}

static void add_term(void *user, const td_term *term) {
    (void)json_array_append_new(user,
                                json_pack("{s:o, s:b, s:o}", "text", words(term->text), "holds",
                                          term->holds, "values", words(term->values)));
}

static json_t *assert_run(const char *folder, const json_t *arguments, td_error *error) {
    td_run *run = open_named(folder, text_argument(arguments, "run", ""), error);
    json_t *terms = json_array();
    bool holds = false;
    td_status status = run ? td_run_assert(run, text_argument(arguments, "expression", ""), &holds,
                                           add_term, terms, error)
                           : TD_NOT_FOUND;
    td_run_close(run);
    if (status) {
        json_decref(terms);
        return NULL;
    }
    return json_pack("{s:b, s:o}", "holds", holds, "terms", terms);
}

/* ---- The tools ------------------------------------------------------------------------------ */

#define RUN_PROPERTY "\"run\":{\"type\":\"string\",\"description\":\"a run as list_runs names it\"}"
#define STATISTICS "[\"count\",\"mean\",\"std\",\"min\",\"max\",\"norm\",\"zeros\",\"nan\",\"inf\"]"

const mcp_tool mcp_tools[] = {
    {"list_runs", "List runs",
     "The runs at and below the server's folder: state (running, finished, crashed, …), step, "
     "epoch, "
     "and the last and best values of their main metrics.",
     "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":200,\"description\":\"default "
     "50\"}",
     "[]", list_runs},
    {"describe_run", "Describe a run",
     "All about one run: its metrics (last, least, greatest), which signals of which layers were "
     "recorded and in which forms, its configuration, notes and environment, events, and the "
     "findings "
     "that were kept.",
     RUN_PROPERTY ",\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":300,\"description\":"
                  "\"of signals; default 100\"}",
     "[\"run\"]", describe_run},
    {"query", "Query runs in SQL",
     "One read-only SQL query (SQLite) over the runs. Tables, each with a column run: runs(folder, "
     "state, started, last_step, last_epoch, bytes, error), signals(signal, kind, layer, "
     "parameter, "
     "position, forms, first_step, last_step), scalars(signal, step, value), stats(signal, layer, "
     "kind, "
     "step, count, mean, std, min, max, norm, zeros, nan, inf), histograms(signal, step, low, "
     "high, "
     "count), steps(step, epoch, wall_time), findings(cause, layer, since_step, confidence, "
     "evidence, "
     "remedy), events(kind, step, wall_time, count, signal, text), config(key, value), notes(key, "
     "value), environment(key, value), tensors(signal, step, form, file, record), examples(signal, "
     "step, sample, label, value), texts(signal, step, text). more: true means that rows were cut "
     "off.",
     "\"sql\":{\"type\":\"string\"},\"runs\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
     "\"maxItems\":50,\"description\":\"only these runs; default all\"},\"limit\":{\"type\":"
     "\"integer\",\"minimum\":1,\"maximum\":1000,\"description\":\"of rows; default 100\"}",
     "[\"sql\"]", query},
    {"series", "Numbers over time",
     "Signals over the steps of a run: metrics as they are, tensors by one of their statistics. "
     "Where a "
     "point stands for several steps, low and high are the extremes in between. At most 20 "
     "signals.",
     RUN_PROPERTY
     ",\"signals\":{\"type\":\"string\",\"description\":\"names or globs, separated by commas: "
     "loss,val_* or *.gradient\"},\"statistic\":{\"type\":\"string\",\"enum\":" STATISTICS
     ",\"description\":\"of tensors; default "
     "norm\"},\"first\":{\"type\":\"integer\",\"description\":"
     "\"step\"},\"last\":{\"type\":\"integer\",\"description\":\"step\"},\"points\":{\"type\":"
     "\"integer\",\"minimum\":1,\"maximum\":1000,\"description\":\"of each signal; default 100\"}",
     "[\"run\",\"signals\"]", series},
    {"layers", "Layers x time",
     "One statistic of every layer (or parameter), in the order of the network, at equally spaced "
     "steps: shows where and when gradients vanish or explode, activations die or weights stop "
     "moving. "
     "A value is the last one recorded since the column before.",
     RUN_PROPERTY
     ",\"kind\":{\"type\":\"string\",\"enum\":[\"error\",\"gradient\",\"output\",\"preactivation\","
     "\"parameter\",\"update\"],\"description\":\"default gradient; error is the gradient at a "
     "layer's output\"},\"statistic\":{\"type\":\"string\",\"enum\":" STATISTICS
     ",\"description\":\"default "
     "norm\"},\"columns\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":"
     "100,\"description\":\"default 20\"}",
     "[\"run\"]", layers},
    {"compare_runs", "Compare two runs",
     "What differs in the settings of two runs, and for each signal that both recorded the first "
     "step "
     "at which they part.",
     "\"a\":{\"type\":\"string\",\"description\":\"a run as list_runs names it\"},\"b\":{\"type\":"
     "\"string\"},\"signals\":{\"type\":\"string\",\"description\":\"names or globs, separated by "
     "commas; default all\"},\"tolerance\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1,"
     "\"description\":\"share of the larger value that is forgiven; default 0\"}",
     "[\"a\",\"b\"]", compare_runs},
    {"diagnose_run", "Diagnose a run",
     "What is wrong with a run, most important first: cause, layer, since which step, confidence, "
     "evidence, what to change, and where the first NaN came from. Only what was recorded is "
     "looked "
     "at; `tapedeck diagnose` also tries remedies out.",
     RUN_PROPERTY, "[\"run\"]", diagnose_run},
    {"assert_run", "Check a condition on a run",
     "Whether an expression holds at the end of a run, term by term: val_accuracy > 0.97 and not "
     "nan(*) and max(*.gradient.norm) < 100. mean(x, n) and delta(x) are over the last values.",
     RUN_PROPERTY ",\"expression\":{\"type\":\"string\"}", "[\"run\",\"expression\"]", assert_run},
};
const size_t mcp_tool_count = sizeof mcp_tools / sizeof *mcp_tools;
