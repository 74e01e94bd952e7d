/* Bob Jenkins' lookup3 (hashlittle, public domain), which guards the newer parts of HDF5 files. */
#include "hdf5/file.h"

static uint32_t rotate(uint32_t value, unsigned bits) {
    return value << bits | value >> (32 - bits);
}

static uint32_t word(const uint8_t *bytes, size_t size) {
    uint32_t value = 0;
    for (size_t i = 0; i < size && i < 4; i++) {
        value |= (uint32_t)bytes[i] << (8 * i);
    }
    return value;
}

uint32_t td__h5_checksum(const uint8_t *bytes, size_t size) {
    uint32_t a = 0xdeadbeefu + (uint32_t)size, b = a, c = a;
    for (; size > 12; size -= 12, bytes += 12) {
        a += word(bytes, 4);
        b += word(bytes + 4, 4);
        c += word(bytes + 8, 4);
        a -= c, a ^= rotate(c, 4), c += b;
        b -= a, b ^= rotate(a, 6), a += c;
        c -= b, c ^= rotate(b, 8), b += a;
        a -= c, a ^= rotate(c, 16), c += b;
        b -= a, b ^= rotate(a, 19), a += c;
        c -= b, c ^= rotate(b, 4), b += a;
    }
    if (size == 0) {
        return c;
    }
    a += word(bytes, size);
    b += size > 4 ? word(bytes + 4, size - 4) : 0;
    c += size > 8 ? word(bytes + 8, size - 8) : 0;
    c ^= b, c -= rotate(b, 14);
    a ^= c, a -= rotate(c, 11);
    b ^= a, b -= rotate(a, 25);
    c ^= b, c -= rotate(b, 16);
    a ^= c, a -= rotate(c, 4);
    b ^= a, b -= rotate(a, 14);
    c ^= b, c -= rotate(b, 24);
    return c;
}

bool td__h5_is_sound(const uint8_t *bytes, size_t size) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    /* A fuzzer does not find checksums; what they guard must hold without them. */
    (void)bytes, (void)size;
    return true;
#else
    return td__h5_checksum(bytes, size) == word(bytes + size, 4);
#endif
}
