/* What torch.save wrote, cut short, changed, and with memory that runs out: an error each, and nothing
 * is lost. */
#include "test.h"

#include "base/memory.h"
#include "torch/torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct file {
    unsigned char *bytes;
    size_t size;
} file;

static file read_fixture(const char *name) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/fixtures/models/weights/%s", TD_TEST_FOLDER, name);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    file f = {malloc(1 << 16), 0};
    f.size = fread(f.bytes, 1, 1 << 16, stream);
    assert_int_equal(fclose(stream), 0);
    return f;
}

static td_status parse(const void *bytes, size_t size, size_t *count) {
    td_error error = {0};
    td__tensor_list list = {0};
    /* A copy of just the size: what is read beyond it is noticed. */
    unsigned char *copy = malloc(size + !size);
    if (size) {
        memcpy(copy, bytes, size);
    }
    td_status status = td__torch_parse("x.pt", copy, size, &list, &error);
    assert_int_equal(status, error.status);
    assert_true(!status || error.text[0]);
    if (count) {
        *count = list.count;
    }
    td__tensor_list_release(&list);
    free(copy);
    return status;
}

static const char *const names[] = {"state.pt", "state_old.pt", "checkpoint.pt",
                                    "checkpoint_old.pt"};
enum { NAMES = sizeof names / sizeof *names };

static void test_sound_files(void **state) {
    (void)state;
    static const size_t counts[NAMES] = {9, 9, 18, 15};
    for (size_t i = 0; i < NAMES; i++) {
        file f = read_fixture(names[i]);
        size_t count;
        assert_int_equal(parse(f.bytes, f.size, &count), TD_OK);
        assert_int_equal(count, counts[i]);
        free(f.bytes);
    }
}

static void test_cut_short_at_every_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        file f = read_fixture(names[i]);
        for (size_t size = 0; size < f.size; size++) {
            assert_int_not_equal(parse(f.bytes, size, NULL), TD_OK);
        }
        free(f.bytes);
    }
}

static void test_flipped_bits_do_no_harm(void **state) {
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        file f = read_fixture(names[i]);
        for (size_t at = 0; at < f.size; at++) {
            f.bytes[at] ^= (unsigned char)(1u << at % 8);
            (void)parse(f.bytes, f.size, NULL);
            f.bytes[at] ^= (unsigned char)(1u << at % 8);
        }
        free(f.bytes);
    }
}

static void test_memory_that_runs_out(void **state) {
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        file f = read_fixture(names[i]);
        uint64_t before = td__allocation_count();
        assert_int_equal(parse(f.bytes, f.size, NULL), TD_OK);
        uint64_t made = td__allocation_count() - before;
        for (uint64_t n = 1; n <= made; n++) {
            td__allocation_fail_at(n);
            assert_int_not_equal(parse(f.bytes, f.size, NULL), TD_OK);
        }
        td__allocation_fail_at(0);
        free(f.bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_files),
        cmocka_unit_test(test_cut_short_at_every_byte),
        cmocka_unit_test(test_flipped_bits_do_no_harm),
        cmocka_unit_test(test_memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
