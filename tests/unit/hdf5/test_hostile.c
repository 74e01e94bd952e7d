/* Files that are cut short, damaged, or made to mislead: a sentence each, no crash, no endless
 * walk, no memory that the file does not justify. */
#include "support.h"

#include "hdf5/file.h"

static const char *const fixtures[] = {"earliest.h5", "latest.h5", "chunked.h5", "outside.h5",
                                       "loops.h5"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static void put(uint8_t *at, uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; i++) {
        at[i] = (uint8_t)(value >> 8 * i);
    }
}

/* Makes the superblock say another size of the file. */
static void tell_size(uint8_t *bytes, size_t size) {
    if (size < 96) {
        return;
    }
    if (bytes[8] == 0) {
        put(bytes + 40, size, 8);
    } else {
        put(bytes + 28, size, 8);
        put(bytes + 44, td__h5_checksum(bytes, 44), 4);
    }
}

static void cut_at_every_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        image whole = load_fixture(fixtures[i]);
        for (size_t size = 0; size < whole.size; size++) {
            uint8_t *cut = malloc(size ? size : 1);
            memcpy(cut, whole.bytes, size);
            census all = take_census(cut, size);
            assert_int_equal(all.first.status, TD_FORMAT);
            assert_true(size < 96 || strstr(all.first.text, "cut short"));
            tell_size(cut, size);
            (void)take_census(cut, size);
            free(cut);
        }
        free(whole.bytes);
    }
}

static void every_byte_changed(void **state) {
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        image file = load_fixture(fixtures[i]);
        for (size_t at = 0; at < file.size; at++) {
            uint8_t before = file.bytes[at];
            const uint8_t changed[] = {0xff, (uint8_t)(before ^ 1 << at % 8)};
            for (size_t k = 0; k < sizeof changed; k++) {
                file.bytes[at] = changed[k];
                (void)take_census(file.bytes, file.size);
            }
            file.bytes[at] = before;
        }
        free(file.bytes);
    }
}

static void changed_headers_fail_their_checksum(void **state) {
    (void)state;
    image file = load_fixture("latest.h5");
    uint8_t *root = memmem(file.bytes, file.size, "OHDR", 4);
    assert_non_null(root);
    root[20] ^= 1; /* one of its times */
    census all = take_census(file.bytes, file.size);
    assert_int_equal(all.failures > 0 && all.groups == 0, 1);
    assert_non_null(strstr(all.first.text, "checksum"));
    free(file.bytes);
}

/* ---- Files of ours, with something made wrong ------------------------------------------------ */

static const float values[4] = {1, 2, 3, 4};

static image one_array(void) {
    td__hdf5_maker *maker = td__hdf5_make();
    td__hdf5_add_array(maker, "x",
                       (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(4), .data = values});
    return finish(maker);
}

static uint64_t get(const uint8_t *at) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) {
        value = value << 8 | at[i];
    }
    return value;
}

static void assert_damaged(image file, const char *text) {
    census all = take_census(file.bytes, file.size);
    assert_true(all.failures > 0);
    if (!strstr(all.first.text, text)) {
        fail_msg("'%s' does not have '%s'", all.first.text, text);
    }
    free(file.bytes);
}

/* The first dimension of x in one_array. */
static uint8_t *dimension(const image *file) {
    static const uint8_t space[] = {1, 0, 16, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 4};
    uint8_t *found = memmem(file->bytes, file->size, space, sizeof space);
    assert_non_null(found);
    return found + 16;
}

static void shapes_that_the_file_cannot_hold(void **state) {
    (void)state;
    static const struct {
        uint64_t size;
        const char *text;
    } cases[] = {{5, "x: damaged dataset: its values are not in the file"},
                 {1ull << 40, "x: damaged dataset: its values are not in the file"},
                 {1ull << 61, "x: damaged dataset: its shape is too large"},
                 {UINT64_MAX, "damaged HDF5 file: a dataspace"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        image file = one_array();
        put(dimension(&file), cases[i].size, 8);
        assert_damaged(file, cases[i].text);
    }
}

static void values_that_are_nowhere_take_no_more_than_is_reasonable(void **state) {
    (void)state;
    image file = one_array();
    uint8_t *where = memmem(file.bytes, file.size, "\3\1", 2);
    put(where + 2, UINT64_MAX, 8);
    census all = take_census(file.bytes, file.size);
    assert_int_equal(all.failures, 0); /* four zeros */
    assert_int_equal(all.sum, 0);
    put(dimension(&file), 1ull << 40, 8);
    assert_damaged(file, "more than 16 MiB and twice the file");
}

static void a_tree_whose_nodes_are_shared_ends(void **state) {
    (void)state;
    td__hdf5_maker *maker = td__hdf5_make();
    char path[32];
    for (int i = 0; i < 300; i++) { /* two levels */
        snprintf(path, sizeof path, "%03d", i);
        td__hdf5_add_group(maker, path);
    }
    image file = finish(maker);
    uint8_t *tree = file.bytes + get(file.bytes + 80);
    assert_memory_equal(tree, "TREE\0\1", 6);
    uint8_t *whole = malloc(file.size);
    memcpy(whole, file.bytes, file.size);
    uint64_t child = get(tree + 32);
    put(tree + 6, 32, 2);
    for (int i = 0; i < 32; i++) {
        put(tree + 32 + 16 * i, child, 8);
    }
    assert_damaged(file, "damaged HDF5 file: a");
    file.bytes = whole;
    tree = whole + get(whole + 80);
    put(tree + 32, (uint64_t)(tree - whole), 8); /* its own child */
    assert_damaged(file, "damaged HDF5 file: a B-tree");
}

/* The file with size more bytes, all zero. */
static image extended(image file, size_t size) {
    image longer = {.bytes = calloc(1, file.size + size), .size = file.size + size};
    memcpy(longer.bytes, file.bytes, file.size);
    free(file.bytes);
    return longer;
}

static void put_node(uint8_t *at, unsigned level, unsigned count, uint64_t child) {
    memcpy(at, "TREE", 4);
    put(at + 5, level, 1);
    put(at + 6, count, 2);
    for (unsigned i = 0; i < count; i++) {
        put(at + 32 + 16 * i, child, 8);
    }
}

static void a_tree_that_multiplies_ends(void **state) {
    (void)state;
    enum { LEVELS = 31, CHILDREN = 8, NODE = 32 + 16 * CHILDREN };
    image file = one_array();
    size_t at = file.size;
    file = extended(file, (LEVELS + 1) * NODE);
    for (unsigned level = 0; level <= LEVELS;
         level++) { /* each node with the one before as child */
        put_node(file.bytes + at + level * NODE, level, level ? CHILDREN : 0,
                 at + (level - 1) * NODE);
    }
    put(file.bytes + get(file.bytes + 64) + 24, at + LEVELS * NODE, 8);
    assert_damaged(file, "damaged HDF5 file: a B-tree");
}

static void a_tree_of_many_levels_does_not_exhaust_the_stack(void **state) {
    (void)state;
    image file = one_array();
    size_t at = file.size;
    file = extended(file, 64 << 20); /* which would justify a million nodes */
    put_node(file.bytes + at, 1, 1, at);
    put(file.bytes + get(file.bytes + 64) + 24, at, 8);
    assert_damaged(file, "damaged HDF5 file: a B-tree");
}

/* The same for the trees of version 2: nodes of 512 bytes, records of 11, in which a number of
 * records has one byte, and one of all records below a node as many as it needs. */
static void a_dense_index_that_multiplies_ends(void **state) {
    (void)state;
    enum { LEVELS = 8, RECORDS = 15, NODE = 512, RECORD = 11 };
    image file = load_fixture("latest.h5");
    uint8_t *head = memmem(file.bytes, file.size, "BTHD\0\5", 6);
    assert_non_null(head);
    const uint8_t *leaf = file.bytes + get(head + 16);
    assert_memory_equal(leaf, "BTLF\0\5", 6);
    size_t at = file.size, head_at = (size_t)(head - file.bytes);
    uint8_t record[RECORD];
    memcpy(record, leaf + 6, RECORD);
    file = extended(file, LEVELS * NODE);
    uint64_t child = get(file.bytes + head_at + 16), total = (NODE - 10) / RECORD;
    unsigned width = 0;
    for (unsigned level = 1; level <= LEVELS; level++) {
        uint8_t *node = file.bytes + at, *to = node + 6;
        memcpy(node, "BTIN\0\5", 6);
        for (unsigned i = 0; i < RECORDS; i++, to += RECORD) {
            memcpy(to, record, RECORD);
        }
        for (unsigned i = 0; i <= RECORDS; i++, to += 9 + width) {
            put(to, child, 8);
            to[8] = level == 1 ? 1 : RECORDS;
        }
        put(to, td__h5_checksum(node, (size_t)(to - node)), 4);
        uint64_t most = (NODE - 10 - 9 - width) / (RECORD + 9 + width);
        total = (most + 1) * total + most;
        for (width = 1; total >> 8 * width; width++) {
        }
        child = at;
        at += NODE;
    }
    head = file.bytes + head_at;
    put(head + 12, LEVELS, 2);
    put(head + 16, child, 8);
    put(head + 24, RECORDS, 2);
    put(head + 34, td__h5_checksum(head, 34), 4);
    assert_damaged(file, "damaged HDF5 file: a dense index");
}

static void a_header_that_continues_in_itself_ends(void **state) {
    (void)state;
    image file = one_array();
    uint64_t root = get(file.bytes + 64);
    uint8_t *message = file.bytes + root + 16;
    assert_int_equal(message[0], 0x11);
    message[0] = 0x10;
    put(message + 8, root + 16, 8);
    put(message + 16, 24, 8);
    assert_damaged(file, "a continued object header");
}

static void texts_that_are_shared_do_not_multiply(void **state) {
    (void)state;
    enum { COUNT = 4000, LENGTH = 50000 };
    char *text = malloc(LENGTH + 1);
    memset(text, 'x', LENGTH);
    text[LENGTH] = 0;
    const char **texts = calloc(COUNT, sizeof *texts);
    for (int i = 0; i < COUNT; i++) {
        texts[i] = i ? "y" : text;
    }
    td__hdf5_maker *maker = td__hdf5_make();
    td__hdf5_add_texts(maker, "", "names", COUNT, texts);
    image file = finish(maker);
    assert_int_equal(take_census(file.bytes, file.size).texts, COUNT);
    uint8_t first[16];
    put(first, LENGTH, 4);
    put(first + 4, 96, 8);
    put(first + 12, 1, 4);
    uint8_t *references = memmem(file.bytes, file.size, first, sizeof first);
    assert_non_null(references);
    for (int i = 1; i < COUNT; i++) {
        memcpy(references + 16 * i, first, sizeof first);
    }
    free(texts);
    free(text);
    assert_damaged(file, "an attribute's texts");
}

static void exhausted_memory_is_told(void **state) {
    (void)state;
    for (size_t i = 0; i < FIXTURES; i++) {
        image file = load_fixture(fixtures[i]);
        census good = take_census(file.bytes, file.size);
        for (uint64_t n = 1;; n++) {
            uint64_t before = td__allocation_count();
            td__allocation_fail_at(n);
            census all = take_census(file.bytes, file.size);
            td__allocation_fail_at(0);
            if (td__allocation_count() - before < n) {
                assert_int_equal(all.failures, good.failures);
                break;
            }
            assert_true(all.failures > 0 && all.first.status == TD_MEMORY);
        }
        free(file.bytes);
    }
}

static void other_files_are_not_hdf5(void **state) {
    (void)state;
    static const uint8_t newer[64] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n', 4};
    td_error error = {0};
    assert_null(td__hdf5_open("PK\3\4 and more", 13, "x.zip", &error));
    assert_string_equal(error.text, "x.zip: not an HDF5 file");
    assert_null(td__hdf5_open("", 0, "empty", &error));
    assert_int_equal(error.status, TD_FORMAT);
    assert_null(td__hdf5_open(newer, sizeof newer, "x.h5", &error));
    assert_int_equal(error.status, TD_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(every_byte_changed),
        cmocka_unit_test(changed_headers_fail_their_checksum),
        cmocka_unit_test(shapes_that_the_file_cannot_hold),
        cmocka_unit_test(values_that_are_nowhere_take_no_more_than_is_reasonable),
        cmocka_unit_test(a_tree_whose_nodes_are_shared_ends),
        cmocka_unit_test(a_tree_that_multiplies_ends),
        cmocka_unit_test(a_tree_of_many_levels_does_not_exhaust_the_stack),
        cmocka_unit_test(a_dense_index_that_multiplies_ends),
        cmocka_unit_test(a_header_that_continues_in_itself_ends),
        cmocka_unit_test(texts_that_are_shared_do_not_multiply),
        cmocka_unit_test(exhausted_memory_is_told),
        cmocka_unit_test(other_files_are_not_hdf5),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
