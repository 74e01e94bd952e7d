/* Archives made to do harm: cut short, changed, overlapping, packed to a million times their size. */
#include "test.h"

#include "keras_archive.h"

#include <sys/resource.h>
#include <zlib.h>

/* A member as an archive may claim it to be. */
typedef struct claim {
    const char *name;
    const void *content; /* as it stands in the archive */
    size_t packed;
    uint64_t size; /* unpacked; packed is claimed as it is */
    unsigned method, flags;
    uint32_t checksum;
    bool zip64;       /* sizes and offset stand in an extra field */
    int64_t offset;   /* of the local header; -1: the true one */
    bool other_local; /* the local header has another name */
} claim;

static unsigned char *put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        *at++ = (unsigned char)(value >> (8 * i));
    }
    return at;
}

/* An archive of such members, made without the library's help. */
static archive forge(const claim *claims, size_t count) {
    size_t room = 1 << 12;
    for (size_t i = 0; i < count; i++) {
        room += claims[i].packed;
    }
    unsigned char *bytes = calloc(room, 1), *at = bytes;
    uint64_t offsets[8];
    for (size_t i = 0; i < count; i++) {
        const claim *c = &claims[i];
        size_t length = strlen(c->name);
        offsets[i] = c->offset >= 0 ? (uint64_t)c->offset : (uint64_t)(at - bytes);
        at = put(put(put(put(at, 0x04034b50, 4), 20, 2), c->flags, 2), c->method, 2);
        at = put(put(put(put(at, 0, 4), c->checksum, 4), c->packed, 4), c->size, 4);
        at = put(put(at, length, 2), 0, 2);
        memcpy(at, c->name, length);
        at[0] = c->other_local ? '?' : at[0];
        memcpy(at + length, c->content, c->packed);
        at += length + c->packed;
    }
    uint64_t begin = (uint64_t)(at - bytes);
    for (size_t i = 0; i < count; i++) {
        const claim *c = &claims[i];
        size_t length = strlen(c->name);
        at = put(put(put(put(put(at, 0x02014b50, 4), 20, 2), 20, 2), c->flags, 2), c->method, 2);
        uint64_t small = c->zip64 ? UINT32_MAX : 0;
        at = put(put(at, 0, 4), c->checksum, 4);
        at = put(put(at, c->packed | small, 4), c->size | small, 4);
        at = put(put(at, length, 2), c->zip64 ? 4 + 4 + 28 : 0, 2);
        at = put(put(put(at, 0, 6), 0, 4), offsets[i] | small, 4);
        memcpy(at, c->name, length);
        at += length;
        if (c->zip64) { /* behind a field that does not matter */
            at = put(put(put(at, 0x7777, 2), 4, 2), 0, 4);
            at = put(put(put(put(at, 1, 2), 24, 2), c->size, 8), c->packed, 8);
            at = put(at, offsets[i], 8);
        }
    }
    uint64_t end = (uint64_t)(at - bytes);
    uint64_t small = 0;
    if (claims[0].zip64) {
        small = UINT32_MAX;
        at = put(put(put(put(at, 0x06064b50, 4), 44, 8), 45, 4), 0, 8);
        at = put(put(put(put(at, count, 8), count, 8), end - begin, 8), begin, 8);
        at = put(put(put(put(at, 0x07064b50, 4), 0, 4), end, 8), 1, 4);
    }
    at = put(put(put(put(at, 0x06054b50, 4), 0, 4), count | small, 2), count | small, 2);
    at = put(put(put(at, (end - begin) | small, 4), begin | small, 4), 0, 2);
    return (archive){bytes, (size_t)(at - bytes)};
}

#define STORED(member, text)                                                                       \
    {                                                                                              \
        .name = (member), .content = (text), .packed = sizeof(text) - 1, .size = sizeof(text) - 1, \
        .checksum = (uint32_t)crc32(0, (const unsigned char *)(text), sizeof(text) - 1),           \
        .offset = -1                                                                               \
    }

static void a_file_cut_short_anywhere_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {"picture.keras", "split.h5"};
    for (size_t k = 0; k < 2; k++) {
        archive whole = read_fixture(names[k]);
        for (size_t size = 0; size < whole.size; size++) {
            unsigned char *part = malloc(size + 1); /* so that a sanitizer sees a read beyond */
            memcpy(part, whole.bytes, size);
            td_error error = {0};
            td_model *model = td__keras_parse("x", part, size, &error);
            free(part);
            if (model || !error.text[0]) {
                fail_msg("%s of %zu bytes is accepted", names[k], size);
            }
            size += size > 2000 && size + 2000 < whole.size ? 12 : 0;
        }
        free(whole.bytes);
    }
}

static void a_changed_byte_anywhere_does_no_harm(void **state) {
    (void)state;
    static const char *const names[] = {"picture.keras", "split.h5"};
    for (size_t k = 0; k < 2; k++) {
        archive whole = read_fixture(names[k]);
        for (size_t i = 0; i < whole.size; i += i < 2000 || i + 2000 > whole.size ? 1 : 5) {
            unsigned char before = whole.bytes[i];
            whole.bytes[i] = (unsigned char)(before ^ (1 << (i % 7) | 0x80));
            td_error error = {0};
            td_model *model = td__keras_parse("x", whole.bytes, whole.size, &error);
            assert_true(model || error.text[0]);
            td_model_destroy(model);
            whole.bytes[i] = before;
        }
        free(whole.bytes);
    }
}

static void archives_that_lie_are_refused(void **state) {
    (void)state;
    claim good[] = {STORED("config.json", "{}"), STORED("model.weights.h5", "HDF")};
    assert_refused(forge(good, 2), TD_FORMAT, "it has no class_name and config");
    assert_refused(forge(good, 1), TD_FORMAT, "no Keras model: it has no model.weights.h5");
    assert_refused(forge(good + 1, 1), TD_FORMAT, "no Keras model: it has no config.json");

    claim large[] = {good[0], good[1]};
    large[0].zip64 = large[1].zip64 = true;
    assert_refused(forge(large, 2), TD_FORMAT, "it has no class_name and config");
    claim twice[] = {good[0], good[0], good[1]};
    assert_refused(forge(twice, 3), TD_FORMAT, "two members have one name");
    claim overlap[] = {good[0], good[1]};
    overlap[1].name = "config.jsom";
    overlap[1].offset = 0;
    overlap[1].other_local = false;
    assert_refused(forge(overlap, 2), TD_FORMAT, "disagree");
    claim same[] = {STORED("config.json", "{}"), STORED("config.json", "{}")};
    same[1].offset = 0;
    assert_refused(forge(same, 2), TD_FORMAT, "members overlap");
    claim outside[] = {good[0], good[1]};
    outside[1].offset = 1 << 20;
    assert_refused(forge(outside, 2), TD_FORMAT, "a member is not where the directory says");
    claim other[] = {good[0], good[1]};
    other[0].other_local = true;
    assert_refused(forge(other, 2), TD_FORMAT, "disagree");
    claim secret[] = {good[0], good[1]};
    secret[0].flags = 1;
    assert_refused(forge(secret, 2), TD_UNSUPPORTED, "its config.json is encrypted");
    claim packed[] = {good[0], good[1]};
    packed[0].method = 12;
    assert_refused(forge(packed, 2), TD_UNSUPPORTED, "packed in a way that is not supported");
    claim damaged[] = {good[0], good[1]};
    damaged[0].checksum++;
    assert_refused(forge(damaged, 2), TD_FORMAT, "its config.json is damaged");
    claim longer[] = {good[0], good[1]};
    longer[0].size = 3;
    assert_refused(forge(longer, 2), TD_FORMAT, "its config.json is damaged");
    claim huge[] = {good[0], good[1]};
    huge[0].size = UINT32_MAX;
    assert_refused(forge(huge, 2), TD_FORMAT, "a member has no size");
}

static long peak_kilobytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Deflates size bytes of c. */
static unsigned char *deflate_many(int c, size_t size, size_t *packed) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
    unsigned char piece[65536], *out = malloc(size / 500 + 1024);
    memset(piece, c, sizeof piece);
    stream.next_out = out;
    stream.avail_out = (uInt)(size / 500 + 1024);
    for (size_t left = size; left > 0;) {
        stream.next_in = piece;
        stream.avail_in = (uInt)(left < sizeof piece ? left : sizeof piece);
        left -= stream.avail_in;
        assert_true(deflate(&stream, left ? Z_NO_FLUSH : Z_FINISH) >= 0);
    }
    *packed = stream.total_out;
    deflateEnd(&stream);
    return out;
}

static void a_zip_bomb_is_refused_within_memory(void **state) {
    (void)state;
    long before = peak_kilobytes();
    static const size_t sizes[] = {(size_t)7 << 20, (size_t)300 << 20};
    for (size_t i = 0; i < 2; i++) {
        for (int lie = 0; lie < 2; lie++) {
            size_t packed = 0;
            unsigned char *bomb = deflate_many('[', sizes[i], &packed);
            claim claims[] = {{.name = "config.json",
                               .content = bomb,
                               .packed = packed,
                               .size = lie ? 1000 : sizes[i],
                               .method = 8,
                               .offset = -1},
                              STORED("model.weights.h5", "HDF")};
            archive made = forge(claims, 2);
            free(bomb);
            td_error error = {0};
            assert_null(td__keras_parse("x.keras", made.bytes, made.size, &error));
            assert_true(error.status == TD_RANGE || error.status == TD_FORMAT);
            free(made.bytes);
        }
    }
    assert_true(peak_kilobytes() - before < 64 << 10);
}

static void a_packed_archive_is_read_too(void **state) {
    (void)state;
    td_error error = {0};
    archive whole = read_fixture("picture.keras");
    td__zip zip;
    assert_ok(td__zip_open(&zip, whole.bytes, whole.size, "x", &error), error);
    static const char *const names[] = {"config.json", "model.weights.h5"};
    claim claims[2];
    unsigned char *packed[2];
    for (size_t i = 0; i < 2; i++) {
        td__zip_member member = {0};
        assert_ok(td__zip_read(&zip, names[i], 0, true, &member, &error), error);
        uLong room = compressBound((uLong)member.size) + 16;
        packed[i] = malloc(room);
        z_stream stream = {.next_in = (unsigned char *)member.data,
                           .avail_in = (uInt)member.size,
                           .next_out = packed[i],
                           .avail_out = (uInt)room};
        assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, 0), Z_OK);
        assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
        claims[i] = (claim){.name = names[i],
                            .content = packed[i],
                            .packed = stream.total_out,
                            .size = member.size,
                            .method = 8,
                            .checksum = (uint32_t)crc32(0, member.data, (uInt)member.size),
                            .offset = -1};
        deflateEnd(&stream);
    }
    archive made = forge(claims, 2);
    td_model *model = td__keras_parse("x.keras", made.bytes, made.size, &error);
    if (!model) {
        fail_msg("%s", error.text);
    }
    td_model_destroy(model);
    free(made.bytes);
    free(packed[0]);
    free(packed[1]);
    td__zip_release(&zip);
    free(whole.bytes);
}

static void weights_in_another_file_are_refused(void **state) {
    (void)state;
    assert_refused(read_fixture("external.h5"), TD_UNSUPPORTED, "extern");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zip_bomb_is_refused_within_memory),
        cmocka_unit_test(a_file_cut_short_anywhere_is_refused),
        cmocka_unit_test(a_changed_byte_anywhere_does_no_harm),
        cmocka_unit_test(archives_that_lie_are_refused),
        cmocka_unit_test(a_packed_archive_is_read_too),
        cmocka_unit_test(weights_in_another_file_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
