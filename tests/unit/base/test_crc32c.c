#include "test.h"

#include "base/crc32c.h"
#include "base/random.h"

static void known_values(void **state) {
    (void)state;
    uint8_t bytes[32] = {0};
    /* RFC 3720, B.4 */
    assert_int_equal(td__crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_int_equal(td__crc32c(0, bytes, 32), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    assert_int_equal(td__crc32c(0, bytes, 32), 0x46dd794e);
    assert_int_equal(td__crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(td__crc32c_portable(0, "123456789", 9), 0xe3069283);
    assert_int_equal(td__crc32c(0, "", 0), 0);
}

/* One bit at a time, straight from the definition. */
static uint32_t slow(uint32_t crc, const uint8_t *bytes, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < 8 * size; i++) {
        crc ^= bytes[i / 8] >> (i % 8) & 1;
        crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void every_length_and_split_agrees_with_the_definition(void **state) {
    (void)state;
    enum { SIZE = 20000 };
    static uint8_t bytes[SIZE + 8];
    td__random random;
    td__random_seed(&random, 4, 0);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)td__random_next(&random);
    }
    for (size_t i = 0; i < 400; i++) {
        size_t offset = td__random_below(&random, 8);
        size_t size = i < 100 ? i : td__random_below(&random, SIZE);
        size_t split = td__random_below(&random, size + 1);
        uint32_t expected = slow(0, bytes + offset, size);
        uint32_t head = td__crc32c(0, bytes + offset, split);
        assert_int_equal(td__crc32c(0, bytes + offset, size), expected);
        assert_int_equal(td__crc32c(head, bytes + offset + split, size - split), expected);
        assert_int_equal(td__crc32c_portable(0, bytes + offset, size), expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(every_length_and_split_agrees_with_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
