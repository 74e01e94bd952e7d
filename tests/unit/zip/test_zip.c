/* Archives that are written are read back, small and large ones. */
#include "test.h"

#include "zip/zip.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MEMBERS = 300 };

static void what_is_written_is_read(bool large) {
    static char names[MEMBERS][16];
    int file = memfd_create("archive", MFD_CLOEXEC);
    assert_true(file >= 0);
    td__zip_writer writer = {.file = file, .good = true, .large = large};
    for (int i = 0; i < MEMBERS; i++) {
        snprintf(names[i], sizeof names[i], "%d.npy", i);
        td__zip_begin(&writer, names[i]);
        td__zip_append(&writer, names[i], strlen(names[i]));
        td__zip_append(&writer, "!", 1);
        td__zip_end(&writer);
    }
    td__zip_finish(&writer);
    assert_true(writer.good);
    void *bytes = mmap(NULL, (size_t)writer.at, PROT_READ, MAP_PRIVATE, file, 0);
    assert_true(bytes != MAP_FAILED);
    td__zip zip;
    td_error error = {0};
    assert_ok(td__zip_open(&zip, bytes, (size_t)writer.at, "archive", &error), error);
    assert_int_equal(zip.count, MEMBERS);
    for (int i = 0; i < MEMBERS; i++) {
        td__zip_member member = {0};
        assert_ok(td__zip_read(&zip, names[i], 100, true, &member, &error), error);
        assert_int_equal(member.size, strlen(names[i]) + 1);
        assert_memory_equal(member.data, names[i], member.size - 1);
        td__zip_member_release(&member);
    }
    td__zip_release(&zip);
    munmap(bytes, (size_t)writer.at);
    close(file);
}

static void a_small_archive(void **state) {
    (void)state;
    what_is_written_is_read(false);
}

static void a_large_archive(void **state) {
    (void)state;
    what_is_written_is_read(true);
}

static void a_write_that_fails_sticks(void **state) {
    (void)state;
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    td__zip_writer writer = {.file = file, .good = true};
    td__zip_begin(&writer, "a");
    td__zip_append(&writer, "a", 1);
    td__zip_end(&writer);
    td__zip_finish(&writer);
    assert_false(writer.good);
    close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_archive),
        cmocka_unit_test(a_large_archive),
        cmocka_unit_test(a_write_that_fails_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
