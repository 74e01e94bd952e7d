/* run.db through the store: versions, hostile files, findings, summaries. */
#include "test.h"

#include "base/memory.h"
#include "store/sqlite.h"
#include "store/writer.h"
#include "tapedeck/run.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD TD_TEST_FOLDER "/fixtures/runs/version-1"

static char folder[64];
static td_error error;

static int setup(void **state) {
    (void)state;
    error = (td_error){0};
    strcpy(folder, "/tmp/tapedeck-store-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static void shell(const char *format, const char *a, const char *b) {
    char command[512];
    snprintf(command, sizeof command, format, a, b);
    assert_int_equal(system(command), 0);
}

static int teardown(void **state) {
    (void)state;
    shell("chmod -R u+w %s; rm -rf %s", folder, folder);
    return 0;
}

/* Another program's SQL on the run's database. */
static void execute(const char *sql) {
    char path[128];
    sqlite3 *database;
    snprintf(path, sizeof path, "%s/run.db", folder);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    char *said = NULL;
    if (sqlite3_exec(database, sql, NULL, NULL, &said) != SQLITE_OK) {
        fail_msg("%s: %s", sql, said);
    }
    sqlite3_close(database);
}

/* The names in the folder, sorted, each ended by a space. */
static const char *files(void) {
    static char text[512];
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            strcat(strcat(text, entries[i]->d_name), " ");
        }
        free(entries[i]);
    }
    free(entries);
    return text;
}

static void put(td__writer *writer, const char *signal, int32_t index, int64_t step, double value) {
    td_record record = {.signal = signal,
                        .signal_index = index,
                        .form = TD_SCALAR,
                        .epoch = 1,
                        .step = step,
                        .value = value};
    assert_ok(td__writer_record(writer, &record, &error), error);
}

static void make_run(void) {
    td__store *store;
    td__writer writer;
    assert_ok(td__store_create(folder, &store, &error), error);
    assert_ok(td__writer_init(&writer, store, 0, &error), error);
    static const double values[] = {0.5, 0.25, NAN, 4, 1};
    for (int64_t step = 1; step <= 5; step++) {
        put(&writer, "loss", 0, step, values[step - 1]);
    }
    put(&writer, "loss", 0, 2, 0.25); /* from a trigger's history */
    assert_ok(td__writer_note(&writer, "state", "finished", &error), error);
    assert_ok(td__batch_sync(&writer.batch, &error), error);
    td__writer_release(&writer);
}

static td_extremes extremes_of(const char *signal) {
    td_run *run = td_run_open(folder, &error);
    assert_non_null(run);
    td_extremes e;
    assert_true(td_run_extremes(run, td_run_signal_find(run, signal), &e));
    const char *const *problems;
    assert_int_equal(td_run_problems(run, &problems), 0);
    td_run_close(run);
    return e;
}

static void assert_same(const td_extremes *a, const td_extremes *b) {
    assert_int_equal(a->last_step, b->last_step);
    assert_int_equal(a->least_step, b->least_step);
    assert_int_equal(a->greatest_step, b->greatest_step);
    assert_true(a->last == b->last && a->least == b->least && a->greatest == b->greatest);
}

static void a_summary_is_what_looking_at_all_gives(void **state) {
    (void)state;
    make_run();
    td_extremes kept = extremes_of("loss");
    assert_int_equal(kept.last_step, 5);
    assert_true(kept.last == 1 && kept.least == 0.25 && kept.greatest == 4);
    execute("DELETE FROM summary");
    td_extremes looked_at = extremes_of("loss");
    assert_same(&kept, &looked_at);
}

static void a_run_that_goes_on_corrects_its_summary(void **state) {
    (void)state;
    make_run();
    td__store *store;
    td__writer writer;
    assert_ok(td__store_open(folder, &store, &error), error);
    assert_ok(td__writer_init(&writer, store, 3, &error), error);
    put(&writer, "other", 0, 4, 1);
    put(&writer, "loss", 1, 4, 0.75);
    assert_ok(td__batch_sync(&writer.batch, &error), error);
    td__writer_release(&writer);
    td_extremes kept = extremes_of("loss");
    execute("DELETE FROM summary");
    td_extremes looked_at = extremes_of("loss");
    assert_same(&kept, &looked_at);
    assert_true(kept.greatest == 0.75 && kept.last == 0.75);
}

static void reading_leaves_nothing_behind(void **state) {
    (void)state;
    make_run();
    assert_string_equal(files(), "run.db ");
    (void)extremes_of("loss");
    assert_string_equal(files(), "run.db ");
}

/* A run that was killed has a log; what is in it is read, and it stays. */
static void the_log_of_a_killed_run_is_read_and_left_alone(void **state) {
    (void)state;
    make_run();
    char from[128], to[128];
    sqlite3 *database;
    snprintf(from, sizeof from, "%s/run.db", folder);
    assert_int_equal(sqlite3_open(from, &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, "UPDATE summary SET last = 77", NULL, NULL, NULL), 0);
    snprintf(to, sizeof to, "%s/killed", folder);
    assert_int_equal(mkdir(to, 0777), 0);
    shell("cp %s/run.db* %s/killed", folder, folder);
    shell("rm %s/killed/run.db-shm; chmod -w %s/killed/*", folder, folder);
    sqlite3_close(database);
    strcat(folder, "/killed");
    struct stat before, after;
    snprintf(to, sizeof to, "%s/run.db-wal", folder);
    assert_int_equal(stat(to, &before), 0);
    assert_true(before.st_size > 0);
    assert_true(extremes_of("loss").last == 77);
    assert_string_equal(files(), "run.db run.db-wal ");
    assert_int_equal(stat(to, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    folder[strlen(folder) - strlen("/killed")] = 0;
}

/* ---- Versions ------------------------------------------------------------------------------- */

typedef struct counted {
    int64_t records[16], events, findings;
} counted;

static td_status count_record(void *user, const td_record *record, td_error *reason) {
    (void)reason;
    counted *c = user;
    c->records[__builtin_ctz(record->form)]++;
    return TD_OK;
}

static td_status count_event(void *user, const td_event *event, td_error *reason) {
    (void)reason;
    counted *c = user;
    assert_int_equal(event->kind, TD_EVENT_TRIGGER);
    assert_string_equal(event->text, "loss < 0.5");
    assert_null(event->signal);
    c->events++;
    return TD_OK;
}

static td_status count_finding(void *user, const td_run_finding *finding, td_error *reason) {
    (void)finding, (void)reason;
    ((counted *)user)->findings++;
    return TD_OK;
}

static counted read_all(const char *path) {
    counted c = {0};
    td_run *run = td_run_open(path, &error);
    assert_non_null(run);
    assert_ok(td_run_read(run, NULL, count_record, &c, &error), error);
    assert_ok(td_run_events(run, count_event, &c, &error), error);
    assert_ok(td_run_findings(run, count_finding, &c, &error), error);
    const char *const *problems;
    size_t count = td_run_problems(run, &problems);
    if (count) {
        fail_msg("%s", problems[0]);
    }
    td_run_close(run);
    return c;
}

static void a_run_of_the_first_version_is_read(void **state) {
    (void)state;
    counted c = read_all(OLD);
    static const struct {
        td_form form;
        int64_t count;
    } expected[] = {{TD_SCALAR, 30}, {TD_STATS, 18}, {TD_HISTOGRAM, 10}, {TD_TENSOR, 5},
                    {TD_HASH, 10},   {TD_IMAGE, 2},  {TD_TEXT, 1}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(c.records[__builtin_ctz(expected[i].form)], expected[i].count);
    }
    assert_int_equal(c.events, 8);
    assert_int_equal(c.findings, 0);
    td_run *run = td_run_open(OLD, &error);
    td_extremes e;
    assert_true(td_run_extremes(run, td_run_signal_find(run, "val_accuracy"), &e));
    assert_int_equal(e.last_step, 10);
    assert_true(e.least == 0.1 && e.greatest == 1.0);
    td_run_close(run);
}

static void a_run_of_the_first_version_is_brought_up_to_date_when_it_goes_on(void **state) {
    (void)state;
    shell("cp -r %s/. %s", OLD, folder);
    td__store *store;
    td__writer writer;
    assert_ok(td__store_open(folder, &store, &error), error);
    assert_int_equal(td__sqlite_version((td__sqlite *)store), TD__SCHEMA_VERSION);
    assert_ok(td__writer_init(&writer, store, 9, &error), error);
    put(&writer, "loss", 0, 10, 0.1);
    put(&writer, "val_accuracy", 1, 10, 1);
    put(&writer, "bad\xffname", 2, 10, 10);
    assert_ok(td__batch_sync(&writer.batch, &error), error);
    td__writer_release(&writer);
    counted c = read_all(folder);
    assert_int_equal(c.records[__builtin_ctz(TD_SCALAR)], 30);
    assert_int_equal(c.records[__builtin_ctz(TD_TENSOR)], 4);
    assert_int_equal(c.events, 7);
    td_extremes e = extremes_of("loss");
    assert_true(e.least == 0.1 && e.greatest == 1);
}

static void a_database_of_a_later_version_is_not_written(void **state) {
    (void)state;
    make_run();
    execute("PRAGMA user_version=99");
    td__store *store;
    assert_int_equal(td__store_open(folder, &store, &error), TD_UNSUPPORTED);
    assert_non_null(strstr(error.text, "version 99"));
    assert_true(extremes_of("loss").last == 1); /* tables and columns are only ever added */
}

/* ---- What signals are ----------------------------------------------------------------------- */

static void what_a_signal_is_comes_back(void **state) {
    (void)state;
    const char *const units[] = {"zero", "a \"one\"\n\x01", "z\xc3\xa9ro"};
    td_signal_info given = {.size = sizeof given,
                            .kind = TD_SIGNAL_GRADIENT,
                            .layer = "c1",
                            .parameter = "kernel",
                            .order = 3,
                            .better = TD_BETTER_LARGER,
                            .units = units,
                            .unit_count = 3,
                            .rank = 2,
                            .sequence = 17};
    td_record records[] = {
        {.signal = "anything", .form = TD_SCALAR, .step = 1, .value = 1, .info = &given},
        {.signal = "conv.bias", .signal_index = 1, .form = TD_SCALAR, .step = 1, .value = 1}};
    td__store *store;
    td__writer writer;
    assert_ok(td__store_create(folder, &store, &error), error);
    assert_ok(td__writer_init(&writer, store, 0, &error), error);
    for (size_t i = 0; i < 2; i++) {
        assert_ok(td__writer_record(&writer, &records[i], &error), error);
    }
    assert_ok(td__batch_sync(&writer.batch, &error), error);
    td__writer_release(&writer);
    td_run *run = td_run_open(folder, &error);
    const td_signal_info *info = td_run_signal_find(run, "anything")->info;
    assert_int_equal(info->kind, TD_SIGNAL_GRADIENT);
    assert_string_equal(info->layer, "c1");
    assert_string_equal(info->parameter, "kernel");
    assert_int_equal(info->order, 3);
    assert_int_equal(info->sequence, 17);
    assert_int_equal(info->better, TD_BETTER_LARGER);
    assert_int_equal(info->rank, 2);
    assert_false(info->batched);
    assert_int_equal(info->unit_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(info->units[i], units[i]);
    }
    info = td_run_signal_find(run, "conv.bias")->info; /* guessed: it was not said */
    assert_int_equal(info->kind, TD_SIGNAL_PARAMETER);
    assert_string_equal(info->layer, "conv");
    td_run_close(run);
}

static void what_a_signal_of_an_older_run_is_is_guessed(void **state) {
    (void)state;
    td_run *run = td_run_open(OLD, &error);
    const td_signal_info *info = td_run_signal_find(run, "hidden.error")->info;
    assert_int_equal(info->kind, TD_SIGNAL_ERROR);
    assert_string_equal(info->layer, "hidden");
    assert_int_equal(td_run_signal_find(run, "val_accuracy")->info->better, TD_BETTER_LARGER);
    assert_int_equal(td_run_signal_find(run, "loss")->info->better, TD_BETTER_SMALLER);
    td_run_close(run);
}

/* ---- Findings ------------------------------------------------------------------------------- */

static td_status check_finding(void *user, const td_run_finding *finding, td_error *reason) {
    (void)reason;
    int *count = user;
    assert_string_equal(finding->cause, "dead_units");
    assert_int_equal(finding->unit, *count == 0 ? -1 : 7);
    assert_int_equal(finding->since_step, 30);
    assert_string_equal(finding->symptoms, "[\"zeros\"]");
    assert_null(finding->origin);
    ++*count;
    return TD_OK;
}

static void findings_replace_those_before(void **state) {
    (void)state;
    make_run();
    td_run_finding findings[2] = {{.cause = "dead_units",
                                   .layer = "hidden",
                                   .unit = -1,
                                   .since_step = 30,
                                   .confidence = "sure",
                                   .severity = "warning",
                                   .symptoms = "[\"zeros\"]",
                                   .evidence = "[]",
                                   .remedy = "a smaller learning rate"}};
    findings[1] = findings[0];
    findings[1].unit = 7;
    for (int i = 0; i < 2; i++) {
        assert_ok(td_run_write_findings(folder, findings, 2, &error), error);
    }
    td_run *run = td_run_open(folder, &error);
    int count = 0;
    assert_ok(td_run_findings(run, check_finding, &count, &error), error);
    assert_int_equal(count, 2);
    td_run_close(run);
    assert_ok(td_run_write_findings(folder, NULL, 0, &error), error);
    assert_int_equal(read_all(folder).findings, 0);
    assert_int_equal(td_run_write_findings("/nowhere", findings, 1, &error), TD_NOT_FOUND);
}

/* ---- Files of others ------------------------------------------------------------------------ */

#define ENDLESS                                                                                    \
    " AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS signal,"      \
    " i AS step, i AS id, i AS name, i AS key, i AS value, i AS raw FROM n"

static void views_in_a_file_do_nothing(void **state) {
    (void)state;
    static const char *const tables[] = {"run", "signal", "scalar", "step", "summary", "text"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char sql[512];
        make_run();
        snprintf(sql, sizeof sql, "DROP TABLE %s; CREATE VIEW %s" ENDLESS, tables[i], tables[i]);
        execute(sql);
        td_run *run = td_run_open(folder, &error);
        assert_non_null(run);
        counted c = {0};
        td_extremes e;
        const td_run_signal *loss = td_run_signal_find(run, "loss");
        assert_ok(td_run_read(run, NULL, count_record, &c, &error), error);
        assert_true(!loss || td_run_extremes(run, loss, &e) || !strcmp(tables[i], "scalar"));
        const char *const *problems;
        if (td_run_problems(run, &problems) == 0) {
            fail_msg("nothing is said of a view '%s'", tables[i]);
        }
        td_run_close(run);
        shell("rm %s/run.db%s", folder, "");
    }
}

static void the_view_of_tensors_is_our_own(void **state) {
    (void)state;
    shell("cp -r %s/. %s", OLD, folder);
    execute("DROP VIEW tensor; CREATE VIEW tensor" ENDLESS);
    assert_int_equal(read_all(folder).records[__builtin_ctz(TD_TENSOR)], 5);
}

static void triggers_in_a_file_do_nothing(void **state) {
    (void)state;
    make_run();
    execute("CREATE TRIGGER t AFTER INSERT ON finding BEGIN DELETE FROM scalar; END");
    td_run_finding finding = {.cause = "x"};
    assert_ok(td_run_write_findings(folder, &finding, 1, &error), error);
    assert_true(extremes_of("loss").last == 1);
    execute("DELETE FROM summary");
    assert_true(extremes_of("loss").last == 1);
}

static void computed_tables_and_columns_are_refused(void **state) {
    (void)state;
    static const char *const changes[] = {
        "ALTER TABLE scalar ADD COLUMN x AS (value || value)",
        "CREATE VIRTUAL TABLE words USING fts5(text)",
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        make_run();
        execute(changes[i]);
        assert_null(td_run_open(folder, &error));
        assert_non_null(strstr(error.text, "computed"));
        shell("rm %s/run.db%s", folder, "");
    }
    make_run();
    execute(
        "CREATE TABLE mine(x); CREATE INDEX i ON mine(x)"); /* but a table of one's own is not */
    assert_true(extremes_of("loss").last == 1);
}

static void what_is_no_regular_file_is_not_opened(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/run.db", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_null(td_run_open(folder, &error));
    assert_non_null(strstr(error.text, "not a regular file"));
    unlink(path);
    make_run();
    strcat(path, "-wal");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_null(td_run_open(folder, &error));
}

static void a_link_in_place_of_the_database_is_not_written_through(void **state) {
    (void)state;
    char target[128];
    make_run();
    snprintf(target, sizeof target, "%s/link", folder);
    assert_int_equal(mkdir(target, 0777), 0);
    shell("ln -s ../run.db %s/run.db%s", target, "");
    td__store *store;
    assert_int_equal(td__store_open(target, &store, &error), TD_INVALID);
    assert_non_null(strstr(error.text, "nothing is written"));
    assert_int_equal(td__store_create(target, &store, &error), TD_EXISTS);
}

/* ---- What goes wrong ------------------------------------------------------------------------ */

static td_status write_all_forms(void) {
    static const float values[] = {1, 2};
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(2, 1), .data = values};
    td_stats stats = {.count = 2};
    td_histogram histogram = {.bin_count = 1, .ranges = (const td_range[]){{0, 1, 2}}};
    const char *const units[] = {"a"};
    td_signal_info info = {.size = sizeof info, .units = units, .unit_count = 1};
    td_record record = {.signal = "x\xff",
                        .step = 1,
                        .view = &view,
                        .labels = &view,
                        .stats = &stats,
                        .histogram = &histogram,
                        .text = "t",
                        .text_length = 1,
                        .info = &info};
    td__store *store = NULL;
    td__writer writer = {0};
    td_status status = td__store_create(folder, &store, &error);
    status = status ? status : td__writer_init(&writer, store, 0, &error);
    const td_form forms[] = {TD_SCALAR, TD_STATS, TD_HISTOGRAM, TD_TENSOR,
                             TD_IMAGE,  TD_ROWS,  TD_HASH,      TD_TEXT};
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !status; i++) {
        record.form = forms[i];
        status = td__writer_record(&writer, &record, &error);
    }
    td_event event = {.kind = TD_EVENT_DROP, .count = 1};
    status = status ? status : td__writer_event(&writer, &event, &error);
    status = status ? status : td__batch_sync(&writer.batch, &error);
    td__writer_release(&writer);
    return status;
}

static td_status go_on(void) {
    td__store *store = NULL;
    td__writer writer = {0};
    td_record record = {.signal = "x\xff", .form = TD_SCALAR, .step = 2, .value = 1};
    td_status status = td__store_open(folder, &store, &error);
    status = status ? status : td__writer_init(&writer, store, 1, &error);
    status = status ? status : td__writer_record(&writer, &record, &error);
    status = status ? status : td__batch_sync(&writer.batch, &error);
    td__writer_release(&writer);
    return status;
}

static void every_allocation_of_writing_may_fail(void **state) {
    (void)state;
    td_status (*const attempts[])(void) = {write_all_forms, go_on};
    for (size_t k = 0; k < 2; k++) {
        bool failed = true;
        for (uint64_t n = 1; failed; n++) {
            if (k == 0) {
                shell("rm -f %s/run.db* %s/.run.db*", folder, folder);
            }
            error = (td_error){0};
            uint64_t before = td__allocation_count();
            td__allocation_fail_at(n);
            td_status status = attempts[k]();
            failed = td__allocation_count() - before >= n;
            td__allocation_fail_at(0);
            if (failed && status) {
                assert_true(status == TD_MEMORY || error.status == TD_MEMORY);
            } else if (!failed) {
                assert_ok(status, error);
            }
        }
    }
    td_run *run = td_run_open(folder, &error);
    const td_run_signal *x = td_run_signal_find(run, "x%FF");
    assert_int_equal(x->forms, TD_SCALAR | TD_STATS | TD_HISTOGRAM | TD_TENSOR | TD_IMAGE |
                                   TD_ROWS | TD_HASH | TD_TEXT);
    td_run_close(run);
}

static void what_cannot_be_stored_is_said(void **state) {
    (void)state;
    td__store *store = NULL;
    td__writer writer;
    assert_ok(td__store_temporary(&store, &error), error);
    assert_ok(td__writer_init(&writer, store, 0, &error), error);
    td_record record = {.signal = "x", .form = TD_LONG, .step = 1};
    assert_int_equal(td__writer_record(&writer, &record, &error), TD_UNSUPPORTED);
    td__writer_release(&writer);
    char name[5000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    bool damaged;
    assert_int_equal(td__store_create(name, &store, &error), TD_INVALID);
    assert_int_equal(td__store_open(name, &store, &error), TD_INVALID);
    assert_int_equal(td__store_read(name, false, &store, &damaged, &error), TD_INVALID);
    assert_int_equal(td__store_create("/nowhere", &store, &error), TD_IO);
    assert_int_equal(td__store_open("/nowhere", &store, &error), TD_NOT_FOUND);
    assert_int_equal(td__store_read("/nowhere", false, &store, &damaged, &error), TD_IO);
    shell("echo no database, but a file of some length ............... > %s/run.db%s", folder, "");
    assert_true(td__store_open(folder, &store, &error) != TD_OK);
    assert_int_equal(td__store_read(folder, true, &store, &damaged, &error), TD_FORMAT);
}

/* Trees that lead back into themselves, and whatever else takes longer than a file of its size can. */
static void reading_that_would_not_end_is_ended(void **state) {
    (void)state;
    td__store *store = NULL;
    td__writer writer;
    assert_ok(td__store_create(folder, &store, &error), error);
    assert_ok(td__writer_init(&writer, store, 0, &error), error);
    for (int64_t step = 1; step <= 20000; step++) {
        put(&writer, "loss", 0, step, 1);
    }
    assert_ok(td__batch_sync(&writer.batch, &error), error);
    td__writer_release(&writer);
    bool damaged;
    assert_ok(td__store_read(folder, false, &store, &damaged, &error), error);
    td__rows *rows = store->class->select(store, &(td__query){.source = TD__SCALARS}, &error);
    td__rows_bind(rows, 1, INT64_MIN, INT64_MAX, -1);
    ((td__sqlite *)store)->budget = 30000; /* instructions; enough for a few thousand rows */
    int count = 0, next;
    while ((next = td__rows_next(rows, &error)) > 0) {
        count++;
    }
    assert_int_equal(next, -1);
    assert_true(count < 20000);
    assert_non_null(strstr(error.text, "would not end"));
    td__rows_end(rows);
    rows = store->class->select(store, &(td__query){.source = TD__SCALARS}, &error);
    td__rows_bind(rows, 1, INT64_MIN, INT64_MAX, -1); /* a new reading has all it needs */
    for (count = 0; (next = td__rows_next(rows, &error)) > 0;) {
        count++;
    }
    assert_int_equal(count, 20000);
    td__rows_end(rows);
    td__store_close(store);
}

/* A file that was cut is read as far as it goes, and that is said. */
static void a_database_that_is_cut_short_is_read(void **state) {
    (void)state;
    shell("cp -r %s/. %s", OLD, folder);
    shell("truncate -s -4096 %s/run.db%s", folder, "");
    td_run *run = td_run_open(folder, &error);
    assert_non_null(run);
    const char *const *problems;
    assert_true(td_run_problems(run, &problems) > 0);
    assert_non_null(strstr(problems[0], "cut short"));
    td_run_close(run);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_summary_is_what_looking_at_all_gives),
        TEST(a_run_that_goes_on_corrects_its_summary),
        TEST(reading_leaves_nothing_behind),
        TEST(the_log_of_a_killed_run_is_read_and_left_alone),
        TEST(a_run_of_the_first_version_is_read),
        TEST(a_run_of_the_first_version_is_brought_up_to_date_when_it_goes_on),
        TEST(a_database_of_a_later_version_is_not_written),
        TEST(what_a_signal_is_comes_back),
        TEST(what_a_signal_of_an_older_run_is_is_guessed),
        TEST(findings_replace_those_before),
        TEST(views_in_a_file_do_nothing),
        TEST(the_view_of_tensors_is_our_own),
        TEST(triggers_in_a_file_do_nothing),
        TEST(computed_tables_and_columns_are_refused),
        TEST(what_is_no_regular_file_is_not_opened),
        TEST(a_link_in_place_of_the_database_is_not_written_through),
        TEST(every_allocation_of_writing_may_fail),
        TEST(what_cannot_be_stored_is_said),
        TEST(reading_that_would_not_end_is_ended),
        TEST(a_database_that_is_cut_short_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
