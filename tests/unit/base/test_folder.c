#include "folder.h"

#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static void an_ending_is_shorter_than_the_name(void **state) {
    (void)state;
    assert_true(td__ends_in("a.csv", ".csv"));
    assert_false(td__ends_in(".csv", ".csv"));
    assert_false(td__ends_in("a.csv.gz", ".csv"));
    assert_false(td__ends_in("v", ".csv"));
}

/* The names in the folder that are not hidden. */
static int count_names(void) {
    int opened = open(folder, O_RDONLY | O_DIRECTORY), count = 0;
    DIR *entries = td__folder_list(opened);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(entries);
    assert_int_equal(fcntl(opened, F_GETFD) >= 0, 1); /* it stays open */
    close(opened);
    return count;
}

static td_status write_text(void *context, int file, td_error *error) {
    (void)error;
    const char *text = context;
    return td__write_all(file, text, strlen(text), 0) ? TD_OK : TD_IO;
}

static td_status refuse(void *context, int file, td_error *error) {
    assert_true(td__write_all(file, "half", 4, 0));
    return td_error_set(error, TD_RANGE, "%s", (const char *)context);
}

static td_status fail_to_write(void *context, int file, td_error *error) {
    (void)context, (void)file, (void)error;
    errno = ENOSPC;
    return TD_IO;
}

static void assert_text(const char *path, const char *text) {
    char found[16] = "";
    int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    assert_int_equal(read(file, found, sizeof found - 1), strlen(text));
    assert_string_equal(found, text);
    close(file);
}

static void a_file_is_written_whole_or_stays_as_it_was(void **state) {
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/model.npz", folder);
    td_error error = {0};
    assert_int_equal(td__draft_write(path, true, write_text, "first", &error), TD_OK);
    assert_int_equal(td__draft_write(path, false, refuse, "a reason", &error), TD_RANGE);
    assert_string_equal(error.text, "a reason");
    assert_text(path, "first");
    assert_int_equal(td__draft_write(path, false, fail_to_write, NULL, &error), TD_IO);
    assert_non_null(strstr(error.text, "model.npz"));
    assert_non_null(strstr(error.text, strerror(ENOSPC)));
    assert_text(path, "first");
    assert_int_equal(td__draft_write(path, false, write_text, "second", &error), TD_OK);
    assert_text(path, "second");
    assert_int_equal(count_names(), 1); /* no draft is left behind */
}

static void what_is_no_folder_is_an_error(void **state) {
    (void)state;
    assert_null(td__folder_list(-1));
    td_error error = {0};
    assert_int_equal(td__draft_write("/nowhere/at/all", false, write_text, "", &error), TD_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ending_is_shorter_than_the_name),
        cmocka_unit_test(a_file_is_written_whole_or_stays_as_it_was),
        cmocka_unit_test(what_is_no_folder_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
