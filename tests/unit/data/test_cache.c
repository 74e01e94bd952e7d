/* A CSV file too large for memory's share, and the cache file it leaves. */
#include "support.h"

#include "data/store.h"

#include <dirent.h>

/* Just more values than a store keeps in memory. */
enum { COLUMNS = 512, ROWS = (int)(TD__ROW_STORE_MEMORY / COLUMNS) + 10 };

/* Row r: r % 100 in the first column, then ones; the last column is a class name. */
static const char *write_large(int extra) {
    static char text[(size_t)ROWS * (2 * COLUMNS + 8) + 4096];
    char *p = text;
    for (int row = 0; row < ROWS + extra; row++) {
        p += sprintf(p, "%d,", row % 100);
        for (int i = 1; i < COLUMNS; i++) {
            *p++ = '1';
            *p++ = ',';
        }
        p += sprintf(p, "%s\n", row % 3 ? "odd" : "even");
    }
    return write_bytes("large.csv", text, (size_t)(p - text));
}

/* The names of files in the cache folder: at most one cache file, and nothing half-written. */
static bool find_cache(char *path, size_t size) {
    DIR *folder = opendir(scratch);
    bool found = false;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        assert_null(strstr(entry->d_name, "parsing"));
        if (strstr(entry->d_name, ".csv-cache")) {
            assert_false(found);
            found = true;
            snprintf(path, size, "%s/%s", scratch, entry->d_name);
        }
    }
    closedir(folder);
    return found;
}

static void check_large(const char *path, int64_t rows) {
    td_dataset *data = open_data(TD_DATA(.train = path, .label = TD_NAMES("last")));
    assert_int_equal(td_dataset_info(data)->training, rows);
    assert_int_equal(td_dataset_info(data)->classes, 2);
    assert_string_equal(td_dataset_info(data)->class_names[1], "odd");
    for (int64_t row = 0; row < rows; row += 997) {
        float input[COLUMNS];
        int32_t class;
        td_error error = {0};
        assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, input, &class, &error), error);
        assert_true(input[0] == (float)(row % 100) && input[COLUMNS - 1] == 1);
        assert_int_equal(class, row % 3 != 0);
    }
    td_dataset_close(data);
}

static ino_t file_number(const char *path) {
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_ino;
}

static void a_large_csv_is_parsed_once(void **state) {
    (void)state;
    char cache[512];
    const char *path = write_large(0);
    assert_false(find_cache(cache, sizeof cache));
    check_large(path, ROWS);
    assert_true(find_cache(cache, sizeof cache));
    ino_t number = file_number(cache);
    check_large(path, ROWS);
    assert_int_equal(file_number(cache), number);
}

static void a_changed_source_is_parsed_again(void **state) {
    (void)state;
    char cache[512];
    const char *path = write_large(1);
    check_large(path, ROWS + 1);
    assert_true(find_cache(cache, sizeof cache));
    check_large(path, ROWS + 1);
}

static void overwrite(const char *path, long offset, int byte) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, offset < 0 ? SEEK_END : SEEK_SET), 0);
    fputc(byte, file);
    assert_int_equal(fclose(file), 0);
}

static void a_damaged_cache_is_not_used(void **state) {
    (void)state;
    char cache[512];
    const char *path = write_large(0);
    check_large(path, ROWS);
    assert_true(find_cache(cache, sizeof cache));
    static const long offsets[] = {0, 9, 33, 41, 57, 65, 73, -3};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        if (i % 4 == 3) { /* one in four also by truncation: a parse of the source each */
            assert_int_equal(truncate(cache, 5000), 0);
        } else {
            overwrite(cache, offsets[i], 0x5A);
        }
        ino_t number = file_number(cache);
        check_large(path, ROWS);
        assert_true(find_cache(cache, sizeof cache));
        assert_int_not_equal(file_number(cache), number);
    }
}

static void a_malformed_large_file_leaves_nothing(void **state) {
    (void)state;
    char cache[512];
    const char *path = write_large(0);
    if (find_cache(cache, sizeof cache)) {
        unlink(cache);
    }
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    fputs("1,2,3\n", file);
    assert_int_equal(fclose(file), 0);
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("last")), TD_FORMAT, "3 fields");
    assert_false(find_cache(cache, sizeof cache));
}

static void a_folder_that_cannot_be_written_is_named(void **state) {
    (void)state;
    const char *path = write_large(0);
    assert_refused(
        TD_DATA(.train = path, .label = TD_NAMES("last"), .cache = "/proc/nowhere/cache"), TD_IO,
        "/proc/nowhere/cache", "TAPEDECK_CACHE");
}

static void a_small_csv_needs_no_cache(void **state) {
    (void)state;
    char cache[512];
    if (find_cache(cache, sizeof cache)) {
        unlink(cache);
    }
    const char *path = write_text("small.csv", "a,b\n1,2\n");
    td_dataset_close(open_data(TD_DATA(.train = path)));
    assert_false(find_cache(cache, sizeof cache));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_csv_is_parsed_once),
        cmocka_unit_test(a_changed_source_is_parsed_again),
        cmocka_unit_test(a_damaged_cache_is_not_used),
        cmocka_unit_test(a_malformed_large_file_leaves_nothing),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_named),
        cmocka_unit_test(a_small_csv_needs_no_cache),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
