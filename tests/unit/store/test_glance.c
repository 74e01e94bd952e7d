/* run.db at a glance is what SQLite says it is, or is left to SQLite. */
#include "test.h"

#include "base/memory.h"
#include "base/random.h"
#include "store/sqlite.h"
#include "tapedeck/run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];
static td_error error;

static void execute(const char *sql) {
    sqlite3 *database;
    char *said = NULL;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    if (sqlite3_exec(database, sql, NULL, NULL, &said) != SQLITE_OK) {
        fail_msg("%s: %s", sql, said);
    }
    sqlite3_close(database);
}

static int setup(void **state) {
    (void)state;
    td__store *store;
    strcpy(folder, "/tmp/tapedeck-glance-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/run.db", folder);
    assert_ok(td__store_create(folder, &store, &error), error);
    td__store_close(store);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

#define COUNT_TO(n)                                                                                \
    "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < " n ") "

/* Trees of several levels, values of every width, texts over several pages. */
static void fill(void) {
    execute(
        "INSERT INTO run VALUES('state', 'finished'), ('started', '2026-01-02T03:04:05Z');"
        "INSERT INTO run VALUES('network', hex(zeroblob(300000))), ('none', NULL);" COUNT_TO("400") "INSERT INTO run SELECT 'key ' || i, hex(zeroblob(i * 7)) FROM c;" COUNT_TO("30000") "INSERT INTO step SELECT i * i * 37, i / 100, i * 0.25 FROM c;" COUNT_TO(
            "5000") "INSERT INTO signal SELECT i, 'signal ' || i, NULL, 'metric', 'l', 'p', i,"
                    " 1, iif(i % 3, 'smaller', NULL), hex(zeroblob(i % 50)), 0 FROM c;"
                    "DELETE FROM signal WHERE id % 10 = 3;" COUNT_TO(
                        "5000") "INSERT INTO summary SELECT i, i << (i % 60), iif(i % 7, i / 3.0,"
                                " NULL), i % 256 - 128, -i, 0, 1e300 FROM c WHERE i % 2;" COUNT_TO(
                                    "9000") "INSERT INTO event SELECT i, 'drop', i, -i, i / 7.0, i,"
                                            " 'loss', hex(zeroblob(i % 90)) FROM c;");
}

static const struct {
    td__source source;
    const char *types;
    bool backwards;
} asked[] = {{TD__RUN_NOTES, "tt", false},
             {TD__EVENTS, "tiiditt", false},
             {TD__STEPS, "iid", false},
             {TD__STEPS, "iid", true},
             {TD__METRICS, "tttididid", false}};

static td__rows *rows_of(td__store *store, size_t which) {
    td__rows *rows = store->class->select(
        store, &(td__query){.source = asked[which].source, .backwards = asked[which].backwards},
        &error);
    assert_non_null(rows);
    td__rows_bind(rows, 0, INT64_MIN, INT64_MAX, asked[which].backwards ? 1 : -1);
    return rows;
}

static void assert_same_value(td__rows *a, td__rows *b, int column, char type) {
    if (type == 'i') {
        assert_int_equal(td__rows_integer(a, column), td__rows_integer(b, column));
    } else if (type == 'd') {
        double left = td__rows_real(a, column), right = td__rows_real(b, column);
        assert_true(left == right || (isnan(left) && isnan(right)));
    } else {
        size_t left_size = 0, right_size = 0;
        const char *left = td__rows_text(a, column, &left_size);
        const char *right = td__rows_text(b, column, &right_size);
        assert_int_equal(left_size, right_size);
        assert_true(left ? right && strcmp(left, right) == 0 : !right);
    }
}

/* How many rows, all of them the same. */
static int64_t compare(size_t which) {
    bool damaged = false;
    td__store *quick = td__store_glance(folder), *slow = NULL;
    assert_non_null(quick);
    assert_ok(td__store_read(folder, false, &slow, &damaged, &error), error);
    td__rows *a = rows_of(quick, which), *b = rows_of(slow, which);
    int64_t count = 0;
    for (;; count++) {
        int left = td__rows_next(a, &error), right = td__rows_next(b, &error);
        assert_int_equal(left, right);
        if (left == 0) {
            break;
        }
        for (int i = 0; asked[which].types[i]; i++) {
            assert_same_value(a, b, i, asked[which].types[i]);
        }
    }
    td__rows_end(a);
    td__rows_end(b);
    td__store_close(quick);
    td__store_close(slow);
    return count;
}

static void rows_are_those_of_sqlite(void **state) {
    (void)state;
    static const int64_t counts[] = {404, 9000, 30000, 1, 2000};
    for (size_t i = 0; i < TD__COUNT(asked); i++) {
        assert_int_equal(compare(i), 0); /* empty tables */
    }
    fill();
    for (size_t i = 0; i < TD__COUNT(asked); i++) {
        assert_int_equal(compare(i), counts[i]);
    }
    execute("PRAGMA journal_mode=DELETE; PRAGMA page_size=512; VACUUM; PRAGMA journal_mode=WAL");
    for (size_t i = 0; i < TD__COUNT(asked); i++) {
        assert_int_equal(compare(i), counts[i]);
    }
}

static void assert_left_to_sqlite(void) {
    assert_null(td__store_glance(folder));
}

static void what_is_not_at_rest_or_not_ours_is_left_to_sqlite(void **state) {
    (void)state;
    sqlite3 *writer;
    assert_int_equal(sqlite3_open(path, &writer), SQLITE_OK);
    assert_int_equal(sqlite3_exec(writer, "INSERT INTO run VALUES('a', 'b')", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_left_to_sqlite(); /* there is a log */
    sqlite3_close(writer);
    td__store *store = td__store_glance(folder);
    assert_non_null(store);
    td__store_close(store);
    execute("CREATE TABLE mine(x)");
    assert_left_to_sqlite();
    execute("DROP TABLE mine; ALTER TABLE run ADD COLUMN more");
    assert_left_to_sqlite();
    execute("ALTER TABLE run DROP COLUMN more; PRAGMA user_version=3");
    assert_left_to_sqlite();
    assert_int_equal(truncate(path, 5000), 0);
    assert_left_to_sqlite();
    assert_int_equal(unlink(path), 0);
    assert_left_to_sqlite();
}

typedef struct told {
    td_run_state state;
    int64_t step;
    double last;
    size_t problems;
} told;

static td_status tell(void *user, const td_run_summary *summary, td_error *reason) {
    (void)reason;
    assert_null(summary->error);
    *(told *)user = (told){summary->info.state, summary->info.last_step,
                           summary->metric_count ? summary->metrics[0].values.last : -1,
                           summary->problem_count};
    return TD_OK;
}

static told list(void) {
    told t = {0};
    assert_ok(td_runs_list(folder, tell, &t, &error), error);
    return t;
}

/* Nothing is kept beside run.db that could be older than it. */
static void a_list_shows_what_another_program_changed(void **state) {
    (void)state;
    execute("INSERT INTO run VALUES('state', 'finished'); INSERT INTO step VALUES(7, 1, 0.5);"
            "INSERT INTO signal VALUES(1, 'loss', NULL, 'metric', NULL, NULL, NULL, 0, 'smaller',"
            " NULL, 0); INSERT INTO summary VALUES(1, 7, 0.25, 7, 0.25, 7, 0.25)");
    told t = list();
    assert_true(t.state == TD_RUN_FINISHED && t.step == 7 && t.last == 0.25);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    execute(
        "UPDATE run SET value = 'failed'; UPDATE step SET step = 8; UPDATE summary SET last = 2");
    struct timespec times[] = {about.st_atim, about.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0); /* as if nothing had happened */
    t = list();
    assert_true(t.state == TD_RUN_FAILED && t.step == 8 && t.last == 2 && t.problems == 0);
    execute("UPDATE summary SET last = 'much'"); /* no number: SQLite decides what it is */
    t = list();
    assert_true(t.state == TD_RUN_FAILED && t.last == 0);
}

/* Whatever is in the file, reading ends, and within the file. */
static void damaged_files_end(void **state) {
    (void)state;
    enum { FILES = 400, CHANGES = 40 };
    static uint8_t sound[1 << 20], bytes[1 << 20];
    execute("PRAGMA journal_mode=DELETE; PRAGMA page_size=512; VACUUM;");
    fill();
    execute("DELETE FROM event WHERE id > 900; DELETE FROM step WHERE epoch > 20;"
            "DELETE FROM summary WHERE signal > 500; DELETE FROM signal WHERE id > 600;"
            "DELETE FROM run WHERE key = 'network' OR length(value) > 1500; VACUUM;");
    FILE *file = fopen(path, "rb");
    size_t size = fread(sound, 1, sizeof sound, file);
    (void)fclose(file);
    assert_true(size > 50000 && size < sizeof sound);
    td__random random;
    td__random_seed(&random, 7, 0);
    int opened = 0;
    for (int i = 0; i < FILES; i++) {
        memcpy(bytes, sound, size);
        for (int k = 0; k < CHANGES; k++) { /* mostly at the head of a page, where its tree is */
            size_t page = td__random_below(&random, size / 512) * 512;
            size_t at = page + td__random_below(&random, k % 4 ? 40 : 512);
            bytes[at < 108 ? 200 : at] = (uint8_t)td__random_below(&random, 256);
        }
        file = fopen(path, "wb");
        assert_int_equal(fwrite(bytes, 1, size, file), size);
        (void)fclose(file);
        td__store *store = td__store_glance(folder);
        opened += store != NULL;
        for (size_t which = 0; store && which < TD__COUNT(asked); which++) {
            td__rows *rows = rows_of(store, which);
            for (int64_t n = 0; td__rows_next(rows, &error) > 0; n++) {
                assert_true(n < 1000000);
            }
            td__rows_end(rows);
        }
        if (store) {
            td__store_close(store);
        }
    }
    assert_true(opened > FILES / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_those_of_sqlite, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_at_rest_or_not_ours_is_left_to_sqlite, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_list_shows_what_another_program_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_files_end, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
