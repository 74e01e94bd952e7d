/* Tables of sorted strings: as TensorFlow writes them, packed, and damaged in every way. */
#include "test.h"

#include "base/crc32c.h"
#include "base/memory.h"
#include "tensorflow/bundle.h"
#include "tensorflow/sorted.h"

#include <stdio.h>
#include <string.h>

typedef struct writing {
    unsigned char bytes[4096];
    size_t size;
} writing;

static void put(writing *w, const void *bytes, size_t size) {
    memcpy(w->bytes + w->size, bytes, size);
    w->size += size;
}

static void put_byte(writing *w, unsigned value) {
    unsigned char byte = (unsigned char)value;
    put(w, &byte, 1);
}

static void put_word(writing *w, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        put_byte(w, value >> (8 * i) & 0xff);
    }
}

/* An entry of a block; all numbers fit a byte. */
static void put_entry(writing *w, unsigned shared, const char *more, const void *value,
                      size_t size) {
    put_byte(w, shared);
    put_byte(w, (unsigned)strlen(more));
    put_byte(w, (unsigned)size);
    put(w, more, strlen(more));
    put(w, value, size);
}

/* Ends a block that began at start: its restarts, and unless packed its type and checksum. */
static void end_block(writing *w, size_t start, unsigned type) {
    put_byte(w, type);
    uint32_t crc = td__crc32c(0, w->bytes + start, w->size - start);
    put_word(w, (crc >> 15 | crc << 17) + 0xa282ead8u);
}

static void put_restarts(writing *w) {
    put_word(w, 0);
    put_word(w, 1);
}

/* The index block and the footer of a file whose only block is the first size bytes. */
static void finish(writing *w, size_t size) {
    const unsigned char handle[] = {0, (unsigned char)size};
    size_t index = w->size;
    put_entry(w, 0, "z", handle, 2);
    put_restarts(w);
    size_t length = w->size - index;
    end_block(w, index, 0);
    size_t footer = w->size;
    put_byte(w, 0);
    put_byte(w, 0);
    put_byte(w, (unsigned)index);
    put_byte(w, (unsigned)length);
    memset(w->bytes + w->size, 0, 40);
    w->size = footer + 40;
    put(w, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);
}

typedef struct seen {
    char text[256];
} seen;

static td_status see(void *user, const char *key, size_t key_size, const unsigned char *value,
                     size_t value_size, td_error *error) {
    seen *s = user;
    (void)error;
    size_t used = strlen(s->text);
    (void)snprintf(s->text + used, sizeof s->text - used, "%.*s=%.*s;", (int)key_size, key,
                   (int)value_size, (const char *)value);
    return TD_OK;
}

static td_status read_all(const writing *w, seen *s, td_error *error) {
    *s = (seen){""};
    return td__sorted_read(w->bytes, w->size, "file", see, s, error);
}

static void sound_file(writing *w) {
    *w = (writing){.size = 0};
    put_entry(w, 0, "alpha", "1", 1);
    put_entry(w, 3, "ine", "22", 2);
    put_entry(w, 0, "beta", "", 0);
    put_restarts(w);
    size_t size = w->size;
    end_block(w, 0, 0);
    finish(w, size);
}

static void test_keys_share_their_beginnings(void **state) {
    (void)state;
    writing w;
    seen s;
    td_error error = {0};
    sound_file(&w);
    assert_int_equal(read_all(&w, &s, &error), TD_OK);
    assert_string_equal(s.text, "alpha=1;alpine=22;beta=;");
}

static void test_snappy_blocks(void **state) {
    (void)state;
    writing w = {.size = 0}, plain = {.size = 0};
    seen s;
    td_error error = {0};
    put_entry(&plain, 0, "aaaaaaaaaaaa", "x", 1);
    put_restarts(&plain);
    /* 24 bytes: 4 as they are, 11 from one before, the rest as it is. */
    put_byte(&w, (unsigned)plain.size);
    put_byte(&w, 3 << 2);
    put(&w, plain.bytes, 4);
    put_byte(&w, (11 - 4) << 2 | 1);
    put_byte(&w, 1);
    put_byte(&w, (unsigned)(plain.size - 15 - 1) << 2);
    put(&w, plain.bytes + 15, plain.size - 15);
    size_t size = w.size;
    end_block(&w, 0, 1);
    finish(&w, size);
    assert_int_equal(read_all(&w, &s, &error), TD_OK);
    assert_string_equal(s.text, "aaaaaaaaaaaa=x;");
}

static void test_snappy_stays_inside(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } bad[] = {
        {"\x05\x05\x01", 3},      /* a copy of nothing */
        {"\x05\x00q\x01\x00", 5}, /* from 0 before */
        {"\x05\xf0\xff"
         "abc",
         6}, /* a literal longer than the file */
        {"\x02\x08"
         "abc",
         5},                         /* than the text */
        {"\xff\xff\xff\xff\x0f", 5}, /* larger than allowed */
        {"\x05\x00q", 3},            /* ends early */
        {"", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t size;
        assert_null(
            td__snappy_unpack((const unsigned char *)bad[i].bytes, bad[i].size, 1000, &size));
    }
}

static void test_damage_is_an_error(void **state) {
    (void)state;
    writing w;
    seen s;
    sound_file(&w);
    for (size_t i = 0; i < w.size; i++) {
        td_error error = {0};
        writing cut = w;
        cut.size = i;
        assert_int_not_equal(read_all(&cut, &s, &error), TD_OK);
        assert_true(error.text[0]);
    }
    size_t padding = w.size - 8 - 36, checked = 0;
    for (size_t i = 0; i < w.size; i++) {
        if (i >= padding - 2 && i < w.size - 8) {
            continue; /* the footer's first handle and its padding are not used */
        }
        td_error error = {0};
        writing changed = w;
        changed.bytes[i] ^= 4;
        checked += read_all(&changed, &s, &error) != TD_OK;
    }
    assert_true(checked >= w.size - 48);
}

/* An index that claims what its data does not have. */
static void test_entries_lie_in_the_data(void **state) {
    (void)state;
    static const unsigned char header[] = {8, 1},          /* one shard */
        entry[] = {8, 1, 0x12, 4, 0x12, 2, 8, 2, 0x28, 8}; /* float32, (2,), 8 bytes at 0 */
    writing w = {.size = 0};
    put_entry(&w, 0, "", header, sizeof header);
    put_entry(&w, 0, "w", entry, sizeof entry);
    put_restarts(&w);
    size_t size = w.size;
    end_block(&w, 0, 0);
    finish(&w, size);
    td_error error = {0};
    td__bundle bundle;
    td_view view;
    assert_int_equal(td__bundle_parse(&bundle, "x", w.bytes, w.size, "1234", 4, &error), TD_OK);
    const td__bundle_entry *found = td__bundle_find(&bundle, "w");
    assert_non_null(found);
    assert_int_equal(found->shape.dims[0], 2);
    assert_int_equal(td__bundle_view(&bundle, found, &view, &error), TD_FORMAT);
    assert_non_null(strstr(error.text, "do not fit its shape or the file"));
    td__bundle_release(&bundle);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_share_their_beginnings),
        cmocka_unit_test(test_snappy_blocks),
        cmocka_unit_test(test_snappy_stays_inside),
        cmocka_unit_test(test_damage_is_an_error),
        cmocka_unit_test(test_entries_lie_in_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
