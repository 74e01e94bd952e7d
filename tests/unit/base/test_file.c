#include "test.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void plain_names_stay_as_they_are(void **state) {
    (void)state;
    char name[TD__FILE_NAME_SIZE];
    assert_string_equal(td__file_name(name, "hidden.error"), "hidden.error");
    assert_string_equal(td__file_name(name, "conv_1-B.kernel"), "conv_1-B.kernel");
}

static void hostile_names_stay_inside_the_folder(void **state) {
    (void)state;
    static const struct {
        const char *signal, *name;
    } cases[] = {
        {"", "%00"},
        {".", "%2E"},
        {"..", "%2E."},
        {".hidden", "%2Ehidden"},
        {"../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"},
        {"a/b", "a%2Fb"},
        {"a%2Fb", "a%252Fb"},
        {"=1+1", "%3D1%2B1"},
        {"a b\n", "a%20b%0A"},
        {"\xff\x80", "%FF%80"},
        {"ä", "%C3%A4"},
        {"a~b", "a%7Eb"},
        {"a@b", "a%40b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[TD__FILE_NAME_SIZE];
        assert_string_equal(td__file_name(name, cases[i].signal), cases[i].name);
    }
}

static void long_names_are_cut_and_told_apart(void **state) {
    (void)state;
    static char signal[10001];
    char a[TD__FILE_NAME_SIZE], b[TD__FILE_NAME_SIZE];
    memset(signal, 'x', 10000);
    td__file_name(a, signal);
    assert_int_equal(strlen(a), TD__FILE_NAME_LENGTH);
    assert_int_equal(a[TD__FILE_NAME_LENGTH - 17], '~');
    signal[9999] = 'y';
    assert_string_not_equal(a, td__file_name(b, signal));
    signal[TD__FILE_NAME_LENGTH] = 0; /* just fits */
    assert_string_equal(td__file_name(a, signal), signal);
    /* no %XX is cut in two, and the whole never gets longer */
    for (size_t i = 150; i < 220; i++) {
        memset(signal, 'x', 300);
        memset(signal + i, '/', 100);
        signal[400] = 0;
        td__file_name(a, signal);
        const char *tilde = strchr(a, '~');
        assert_non_null(tilde);
        assert_true(strlen(a) <= TD__FILE_NAME_LENGTH && strlen(tilde) == 17);
        assert_true(tilde - a < 3 || (tilde[-1] != '%' && tilde[-2] != '%'));
    }
}

static char folder_name[] = "/tmp/tapedeck-file-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder_name) ? 0 : 1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder_name);
    return system(command);
}

static void published_files_are_whole_and_leave_no_draft(void **state) {
    (void)state;
    td_error error = {0};
    int folder = td__folder_open(folder_name, &error);
    assert_true(folder >= 0);
    for (int round = 0; round < 2; round++) {
        assert_ok(td__file_publish(folder, "a.png", "12345", 5, round, &error), error);
        int file = openat(folder, "a.png", O_RDONLY);
        char text[8] = {0};
        assert_int_equal(read(file, text, sizeof text), 5);
        assert_string_equal(text, "12345");
        close(file);
    }
    assert_int_equal(faccessat(folder, ".a.png.new", F_OK, 0), -1);
    close(folder);
}

static void a_failed_publish_keeps_the_old_file_and_says_why(void **state) {
    (void)state;
    td_error error = {0};
    int folder = td__folder_open(folder_name, &error);
    assert_int_equal(mkdirat(folder, "taken", 0777), 0);
    assert_int_equal(td__file_publish(folder, "taken", "x", 1, false, &error), TD_IO);
    assert_non_null(strstr(error.text, "taken: cannot write: "));
    assert_int_equal(faccessat(folder, ".taken.new", F_OK, 0), -1);
    char name[300];
    memset(name, 'n', 299);
    name[299] = 0;
    assert_int_equal(td__file_publish(folder, name, "x", 1, false, &error), TD_INVALID);
    close(folder);
}

static void folders_are_not_followed_through_links(void **state) {
    (void)state;
    td_error error = {0};
    int folder = td__folder_open(folder_name, &error);
    assert_int_equal(symlinkat("/tmp", folder, "link"), 0);
    assert_int_equal(td__folder_create(folder, "link", &error), -1);
    assert_int_equal(error.status, TD_IO);
    int images = td__folder_create(folder, "images", &error);
    int again = td__folder_create(folder, "images", &error);
    assert_true(images >= 0 && again >= 0);
    close(images);
    close(again);
    close(folder);
    assert_int_equal(td__folder_open("/nonexistent", &error), -1);
}

static void a_stream_becomes_the_file_or_nothing(void **state) {
    (void)state;
    char path[] = "/tmp/tapedeck-draft-XXXXXX", text[16] = "";
    assert_non_null(mkdtemp(path));
    char file[64];
    (void)snprintf(file, sizeof file, "%s/a.csv", path);
    td__draft draft;
    td_error error = {0};
    for (int good = 0; good < 2; good++) {
        FILE *stream = td__draft_open(&draft, file, &error);
        assert_non_null(stream);
        assert_true(fputs("whole", stream) >= 0);
        assert_int_equal(access(file, F_OK), -1);
        assert_int_equal(td__draft_close(&draft, stream, good), good);
        assert_int_equal(access(file, F_OK), good - 1);
    }
    FILE *read = fopen(file, "r");
    assert_true(read && fgets(text, sizeof text, read));
    assert_string_equal(text, "whole");
    assert_int_equal(fclose(read), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(path), 0); /* no draft is left in it */
    assert_null(td__draft_open(&draft, file, &error));
    assert_int_equal(error.status, TD_IO);
}

static int64_t blocks_of(int folder, const char *name) {
    struct stat about;
    return fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 ? about.st_blocks * 512 : -1;
}

static void a_reservation_becomes_the_file(void **state) {
    (void)state;
    enum { ROOM = 1 << 20 };
    char path[] = "/tmp/tapedeck-room-XXXXXX";
    td_error error = {0};
    td__draft draft;
    assert_non_null(mkdtemp(path));
    int folder = td__folder_open(path, &error);
    assert_ok(td__file_reserve(folder, "last", ROOM, &error), error);
    if (blocks_of(folder, ".last.room") < ROOM) {
        skip(); /* a file system that cannot reserve */
    }
    assert_false(td__file_reserved_for(folder, "other", "model"));
    assert_true(td__file_reserved_for(folder, "last", "model"));
    /* A file that goes leaves its room, whatever is in it. */
    for (int round = 0; round < 2; round++) {
        assert_ok(td__draft_create_sized(&draft, folder, "model", 5, &error), error);
        assert_int_equal(blocks_of(folder, ".model.room"), -1);
        assert_true(blocks_of(folder, ".model.new") >= 4096);
        assert_true(td__write_all(draft.file, round ? "other" : "whole", 5, 0));
        assert_ok(td__draft_end(&draft, true, true, &error), error);
        struct stat about;
        assert_int_equal(fstatat(folder, "model", &about, 0), 0);
        assert_int_equal(about.st_size, 5);
        assert_true(about.st_blocks * 512 < ROOM);
        assert_true(round || td__file_recycle(folder, "model", "model"));
    }
    char text[6] = "";
    int file = td__file_open(folder, "model", O_RDONLY);
    assert_true(td__read_all(file, text, 5, 0));
    assert_string_equal(text, "other");
    close(file);
    assert_ok(td__file_reserve(folder, "last", ROOM, &error), error);
    td__file_unreserve(folder, "last");
    assert_int_equal(unlinkat(folder, "model", 0), 0);
    close(folder);
    assert_int_equal(rmdir(path), 0); /* nothing hidden is left */
}

static void an_opened_folder_is_found_under_its_new_name(void **state) {
    (void)state;
    char path[] = "/tmp/tapedeck-old-XXXXXX", moved[64], follow[TD__FOLDER_PATH], file[64];
    td_error error = {0};
    assert_non_null(mkdtemp(path));
    snprintf(moved, sizeof moved, "%s-moved", path);
    int folder = td__folder_open(path, &error);
    assert_true(td__folder_follow(folder, follow));
    assert_int_equal(rename(path, moved), 0);
    char *now = td__folder_whereabouts(folder);
    assert_non_null(now);
    assert_string_equal(now, moved);
    td__free(now);
    snprintf(file, sizeof file, "%s/x", follow);
    close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    snprintf(file, sizeof file, "%s/x", moved);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(moved), 0);
    assert_null(td__folder_whereabouts(folder));
    close(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_names_stay_as_they_are),
        cmocka_unit_test(hostile_names_stay_inside_the_folder),
        cmocka_unit_test(long_names_are_cut_and_told_apart),
        cmocka_unit_test(published_files_are_whole_and_leave_no_draft),
        cmocka_unit_test(a_failed_publish_keeps_the_old_file_and_says_why),
        cmocka_unit_test(folders_are_not_followed_through_links),
        cmocka_unit_test(a_stream_becomes_the_file_or_nothing),
        cmocka_unit_test(a_reservation_becomes_the_file),
        cmocka_unit_test(an_opened_folder_is_found_under_its_new_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
