/* What is written reads back; what cannot be written is reported once, and fails nothing else. */
#include "support.h"

#include "base/little.h"

static const float values[6] = {1, -2, 3.5f, 0, 1e-30f, 7};

static td_view floats(td_shape shape) {
    return (td_view){.dtype = TD_FLOAT32, .shape = shape, .data = values};
}

static void fill(td__hdf5_maker *maker) {
    td__hdf5_add_array(maker, "layers/dense/vars/0", floats(TD_SHAPE(2, 3)));
    td__hdf5_add_array(maker, "layers/dense/vars/1", floats(TD_SHAPE(3)));
    td__hdf5_add_array(maker, "nothing", floats(TD_SHAPE(0, 3)));
    td__hdf5_add_group(maker, "/layers/empty");
    td__hdf5_add_text(maker, "", "name", "network");
    td__hdf5_add_texts(maker, "layers", "names", 2, (const char *[]){"dense", "empty"});
    char path[32];
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof path, "many/%d", i);
        td__hdf5_add_group(maker, path);
    }
}

static uint64_t number(const uint8_t *at, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = size; i-- > 0;) {
        value = value << 8 | at[i];
    }
    return value;
}

static void what_is_written_reads_back(void **state) {
    (void)state;
    td__hdf5_maker *maker = td__hdf5_make();
    fill(maker);
    image made = finish(maker);
    census all = take_census(made.bytes, made.size);
    assert_int_equal(all.failures, 0);
    assert_int_equal(all.arrays, 3);
    assert_int_equal(all.groups, 306);
    assert_int_equal(all.texts, 3);
    td__hdf5 *file = open_image(&made);
    td_error error = {0};
    td__hdf5_array array = {0};
    assert_ok(td__hdf5_read(file, find(file, "layers/dense/vars/1"), "1", &array, &error), error);
    assert_memory_equal(array.view.data, values, 3 * sizeof *values);
    if (TD__LITTLE_ENDIAN) {
        assert_null(array.owned);
        assert_int_equal(((const uint8_t *)array.view.data - made.bytes) % 8, 0);
    }
    assert_int_not_equal(find(file, "many/299"), 0);
    assert_int_equal(find(file, "many/300"), 0);
    td__hdf5_close(file);
    free(made.bytes);
}

/* Lookups and insertions compare a name with the keys on both sides of a child. */
static void neighbours_in_a_tree_share_a_key(void **state) {
    (void)state;
    td__hdf5_maker *maker = td__hdf5_make();
    fill(maker);
    image made = finish(maker);
    int pairs = 0;
    const uint8_t *at = made.bytes, *end = made.bytes + made.size;
    while ((at = memmem(at, (size_t)(end - at), "TREE\0\0", 6))) {
        size_t count = (size_t)number(at + 6, 2);
        uint64_t right = number(at + 16, 8);
        if (right != UINT64_MAX) {
            assert_int_equal(count, 32);
            assert_int_equal(number(at + 24 + 16 * count, 8), number(made.bytes + right + 24, 8));
            pairs++;
        }
        at += 24;
    }
    assert_int_equal(pairs, 1);
    free(made.bytes);
}

static void texts_beyond_what_one_heap_holds(void **state) {
    (void)state;
    enum { LISTS = 20, COUNT = 4000 };
    td__hdf5_maker *maker = td__hdf5_make();
    const char **texts = calloc(COUNT, sizeof *texts);
    char text[16], name[16];
    for (int i = 0; i < LISTS; i++) {
        snprintf(text, sizeof text, "%d", i);
        snprintf(name, sizeof name, "list %d", i);
        for (int k = 0; k < COUNT; k++) {
            texts[k] = text;
        }
        td__hdf5_add_texts(maker, "", name, COUNT, texts);
    }
    image made = finish(maker);
    td__hdf5 *file = open_image(&made);
    for (int i = 0; i < LISTS; i++) {
        char **found = NULL;
        size_t count = 0;
        td_error error = {0};
        snprintf(text, sizeof text, "%d", i);
        snprintf(name, sizeof name, "list %d", i);
        assert_ok(td__hdf5_texts(file, td__hdf5_root(file), name, &found, &count, &error), error);
        assert_int_equal(count, COUNT);
        assert_string_equal(found[0], text);
        assert_string_equal(found[COUNT - 1], text);
        td__free(found);
    }
    td__hdf5_close(file);
    free(made.bytes);
    free(texts);
}

/* The first failure of what add does, as the size shows it. */
static void assert_fails(td__hdf5_maker *maker, td_status status, const char *text) {
    td_error error = {0};
    uint64_t size = 0;
    image none = {0};
    assert_int_equal(td__hdf5_size(maker, &size, &error), status);
    assert_string_equal(error.text, text);
    assert_int_equal(td__hdf5_finish(maker, append, &none, &error), status);
    assert_int_equal(size, 0);
    td__hdf5_drop(maker);
}

static void what_cannot_be_written_is_told(void **state) {
    (void)state;
    td__hdf5_maker *maker = td__hdf5_make();
    td__hdf5_add_array(maker, "a", floats(TD_SHAPE(2)));
    td__hdf5_add_array(maker, "a", floats(TD_SHAPE(2)));
    td__hdf5_add_array(maker, "a/b", floats(TD_SHAPE(2)));
    assert_fails(maker, TD_EXISTS, "'a': there is something of this name already");
    maker = td__hdf5_make();
    td__hdf5_add_array(maker, "a", floats(TD_SHAPE(2)));
    td__hdf5_add_array(maker, "a/b", floats(TD_SHAPE(2)));
    assert_fails(maker, TD_INVALID, "'a/b': an array has nothing below it");
    maker = td__hdf5_make();
    td__hdf5_add_array(maker, "a", floats(TD_SHAPE(2)));
    td__hdf5_add_group(maker, "a");
    assert_fails(maker, TD_EXISTS, "'a': there is an array of this name");
    maker = td__hdf5_make();
    td__hdf5_add_group(maker, "a/./b");
    assert_fails(maker, TD_INVALID, "'a/./b': no such path can be written");
    maker = td__hdf5_make();
    td__hdf5_add_array(maker, "a", floats(TD_SHAPE(-1)));
    assert_fails(maker, TD_BAD_SHAPE, "'a': not a shape that can be written");
    maker = td__hdf5_make();
    td__hdf5_add_text(maker, "a", "name", "x");
    td__hdf5_add_text(maker, "a", "name", "y");
    assert_fails(maker, TD_EXISTS, "'a': it has an attribute of this name already");
    maker = td__hdf5_make();
    const char **texts = calloc(4063, sizeof *texts);
    for (int i = 0; i < 4063; i++) {
        texts[i] = "x";
    }
    td__hdf5_add_texts(maker, "a", "names", 4063, texts);
    assert_fails(maker, TD_RANGE, "'a': an attribute has at most 4062 texts and 255 bytes of name");
    maker = td__hdf5_make();
    td__hdf5_add_texts(maker, "a", "names", 4062, texts);
    image made = finish(maker);
    assert_int_equal(take_census(made.bytes, made.size).texts, 4062);
    free(made.bytes);
    free(texts);
}

static void nothing_is_added_once_the_size_is_told(void **state) {
    (void)state;
    td__hdf5_maker *maker = td__hdf5_make();
    td_error error = {0};
    uint64_t size = 0, again = 0;
    td__hdf5_add_group(maker, "a");
    assert_ok(td__hdf5_size(maker, &size, &error), error);
    assert_ok(td__hdf5_size(maker, &again, &error), error);
    assert_int_equal(size, again);
    td__hdf5_add_group(maker, "b");
    assert_int_equal(td__hdf5_size(maker, &again, &error), TD_STATE);
    td__hdf5_drop(maker);
}

static void a_writer_that_fails_is_believed(void **state) {
    (void)state;
    td__hdf5_maker *maker = td__hdf5_make();
    fill(maker);
    td_error error = {0};
    uint64_t size = 0;
    assert_ok(td__hdf5_size(maker, &size, &error), error);
    image room = {.bytes = malloc(size)};
    for (room.capacity = 0; room.capacity < size; room.capacity += 997) {
        room.size = 0;
        assert_int_equal(td__hdf5_finish(maker, append, &room, &error), TD_IO);
        assert_string_equal(error.text, "full");
    }
    room.capacity = size;
    room.size = 0;
    assert_ok(td__hdf5_finish(maker, append, &room, &error), error);
    td__hdf5_drop(maker);
    free(room.bytes);
}

static void exhausted_memory_is_told(void **state) {
    (void)state;
    for (uint64_t n = 1;; n++) {
        td_error error = {0};
        uint64_t size = 0;
        td__allocation_fail_at(n);
        td__hdf5_maker *maker = td__hdf5_make();
        td_status status = TD_MEMORY;
        if (maker) {
            fill(maker);
            status = td__hdf5_size(maker, &size, &error);
        }
        td__allocation_fail_at(0);
        td__hdf5_drop(maker);
        if (!status) {
            assert_in_range(n, 300, 100000);
            break;
        }
        assert_int_equal(status, TD_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(neighbours_in_a_tree_share_a_key),
        cmocka_unit_test(texts_beyond_what_one_heap_holds),
        cmocka_unit_test(what_cannot_be_written_is_told),
        cmocka_unit_test(nothing_is_added_once_the_size_is_told),
        cmocka_unit_test(a_writer_that_fails_is_believed),
        cmocka_unit_test(exhausted_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
