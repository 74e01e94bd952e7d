/* Files that lie about themselves. */
#include "support.h"

#include <zlib.h>

/* An NPY file of version 1 with this dictionary and size bytes of zeros behind it. */
static const char *write_npy(const char *dictionary, size_t size) {
    static char bytes[65536 + 4096];
    size_t length = strlen(dictionary);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    bytes[8] = (char)(length & 255);
    bytes[9] = (char)(length >> 8);
    memcpy(bytes + 10, dictionary, length);
    return write_bytes("hostile.npy", bytes, 10 + length + size);
}

static void npy_shapes_larger_than_the_file_are_refused(void **state) {
    (void)state;
    const char *path =
        write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n", 47);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "hostile.npy", "(3, 4)", "47 bytes",
                   "cut short");
    path = write_npy("{'descr': '<f8', 'fortran_order': False, "
                     "'shape': (4294967296, 4294967296, 2), }\n",
                     64);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "too large");
    path = write_npy("{'descr': '<f8', 'fortran_order': True, 'shape': (1152921504606846976, 2)}\n",
                     64);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "cut short");
    path = write_npy("{'descr': '<f4', 'fortran_order': False, "
                     "'shape': (99999999999999999999999,), }\n",
                     64);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "dimension");
    path =
        write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}\n", 64);
    assert_refused(TD_DATA(.train = path), TD_UNSUPPORTED, "8 dimensions");
}

static void npy_headers_that_are_not_dictionaries_are_refused(void **state) {
    (void)state;
    static const char *const dictionaries[] = {
        "",
        "{",
        "{}",
        "{'descr'",
        "{'descr': ",
        "{'descr': '<f4'",
        "{'descr': '<f4',}",
        "{'shape': (3,), 'shape': (3,), 'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} os.system('x')",
        "{'descr': <f4, 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '', 'fortran_order': False, 'shape': (3,)}"};
    for (size_t i = 0; i < sizeof dictionaries / sizeof *dictionaries; i++) {
        assert_refused(TD_DATA(.train = write_npy(dictionaries[i], 64)), TD_FORMAT, "hostile.npy");
    }
    const char *path = write_bytes("short.npy", "\x93NUMPY\1\0\xFF\xFF{", 11);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "65535 bytes");
    path = write_bytes("short.npy", "\x93NUMPY\2\0\xFF\xFF\xFF\x7F", 12);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "cut short");
    path = write_bytes("short.npy", "\x93NUMPY\7\0\1\0", 10);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "version");
}

static void npy_keys_may_come_in_any_order(void **state) {
    (void)state;
    const char *path = write_npy("{\"shape\":(3L,2L),'fortran_order':False,'descr':'|u1'}", 6);
    td_dataset *data = open_data(TD_DATA(.train = path));
    assert_int_equal(td_dataset_info(data)->training, 3);
    td_dataset_close(data);
}

static void idx_sizes_larger_than_the_file_are_refused(void **state) {
    (void)state;
    const char *path =
        write_bytes("a.idx", "\0\0\x08\3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\0\2", 16);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "a.idx", "too large");
    path = write_bytes("a.idx", "\0\0\x0D\2\0\0\0\2\0\0\0\2\1\2\3\4", 16);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "(2, 2)", "4 bytes");
    path = write_bytes("a.idx", "\0\0\x08\3\0\0\0\1", 8);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "3 dimensions");
    path = write_bytes("a.idx", "\0\0\x08\x7F\0\0\0\1", 8);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "127 dimensions");
    path = write_bytes("a.idx", "\0\0\x0A\1\0\0\0\1\0", 9);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "0x0a");
}

/* size bytes of text, packed. */
static const char *write_packed(const char *name, const void *data, size_t size, size_t cut) {
    static uint8_t packed[1 << 20];
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)data,
                       .avail_in = (uInt)size,
                       .next_out = packed,
                       .avail_out = sizeof packed};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t length = stream.total_out;
    deflateEnd(&stream);
    return write_bytes(name, packed, length - cut);
}

static void a_gzip_file_that_is_cut_or_changed_is_refused(void **state) {
    (void)state;
    char text[4000];
    for (size_t i = 0; i + 4 <= sizeof text; i += 4) {
        memcpy(text + i, "1,2\n", 4);
    }
    assert_refused(TD_DATA(.train = write_packed("cut.csv.gz", text, sizeof text, 9)), TD_FORMAT,
                   "cut.csv.gz", "gzip", "ends too early");
    const char *path = write_packed("changed.csv.gz", text, sizeof text, 0);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -6, SEEK_END), 0);
    fputc(0x55, file);
    fclose(file);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "changed.csv.gz", "gzip");
}

static void a_gzip_bomb_is_refused(void **state) {
    (void)state;
    size_t size = (size_t)32 << 20;
    uint8_t *zeros = calloc(size, 1);
    assert_non_null(zeros);
    memcpy(zeros, "\0\0\x08\2\0\x1f\xff\xff\0\0\0\x10", 12);
    const char *path = write_packed("bomb.gz", zeros, size, 0);
    free(zeros);
    assert_refused(TD_DATA(.train = path, .memory = 1 << 20), TD_RANGE, "bomb.gz", "1048576 bytes",
                   "`memory`");
    td_dataset *data = open_data(TD_DATA(.train = path));
    assert_int_equal(td_dataset_info(data)->training, 0x1fffff);
    td_dataset_close(data);
}

static void a_file_of_just_the_most_memory_is_read(void **state) {
    (void)state;
    uint8_t bytes[108] = "\0\0\x08\1\0\0\0\x64";
    const char *path = write_packed("just.gz", bytes, sizeof bytes, 0);
    td_dataset *data = open_data(TD_DATA(.train = path, .memory = sizeof bytes));
    assert_int_equal(td_dataset_info(data)->training, 100);
    td_dataset_close(data);
    assert_refused(TD_DATA(.train = path, .memory = sizeof bytes - 1), TD_RANGE, "just.gz");
}

static void damaged_archives_are_refused(void **state) {
    (void)state;
    const char *path = write_bytes("damaged.npz", "PK\3\4rubbish", 11);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "damaged.npz");
    path = write_bytes("empty.npz", "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
    assert_refused(TD_DATA(.train = path), TD_NOT_FOUND, "empty.npz", "without arrays");
    assert_refused(TD_DATA(.train = TD_TEST_FOLDER "/fixtures/data/npz/packed.npz", .memory = 100),
                   TD_RANGE, "packed.npz", "100 bytes", "`memory`");
}

static void unknown_formats_are_refused(void **state) {
    (void)state;
    const char *path = write_bytes("what.bin", "\1\2\3\0\4\5", 6);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "what.bin", "neither CSV");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_shapes_larger_than_the_file_are_refused),
        cmocka_unit_test(npy_headers_that_are_not_dictionaries_are_refused),
        cmocka_unit_test(npy_keys_may_come_in_any_order),
        cmocka_unit_test(idx_sizes_larger_than_the_file_are_refused),
        cmocka_unit_test(a_gzip_file_that_is_cut_or_changed_is_refused),
        cmocka_unit_test(a_gzip_bomb_is_refused),
        cmocka_unit_test(a_file_of_just_the_most_memory_is_read),
        cmocka_unit_test(damaged_archives_are_refused),
        cmocka_unit_test(unknown_formats_are_refused),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
