/* Event files: what TensorFlow's and PyTorch's writers wrote is read back bit for bit; torn and
 * damaged files give all that is intact, and say what is not. */
#include "test.h"

#include "base/crc32c.h"
#include "base/little.h"
#include "base/memory.h"
#include "run/events.h"

#include <zlib.h>

enum { LINE = 1 << 16, LINES = 1024 };

/* What has been read: a line for each record, as fixtures/make_events.py writes them. */
typedef struct seen {
    const char *folder;
    char *lines[LINES];
    size_t count;
} seen;

static size_t put_bits(char *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (size_t)sprintf(out, "%016llx", (unsigned long long)bits);
}

/* Elements of `width` bytes each, as a file has them. */
static size_t put_hex(char *out, const void *data, size_t size, size_t width) {
    for (size_t i = 0; i < size; i += width) {
        uint8_t little[8];
        td__little_copy(little, (const uint8_t *)data + i, width, width);
        for (size_t k = 0; k < width; k++) {
            sprintf(out + 2 * (i + k), "%02x", little[k]);
        }
    }
    return 2 * size;
}

static void put_record(char *out, const td_record *record) {
    char shape[TD_SHAPE_TEXT_SIZE];
    const td_view *view = record->view;
    switch (record->form) {
    case TD_SCALAR:
        out += put_bits(out, record->value);
        break;
    case TD_HISTOGRAM:
        for (int32_t i = 0; i < record->histogram->bin_count; i++) {
            td_range range = td_histogram_range(record->histogram, i);
            const double numbers[] = {range.left, range.right, range.count};
            for (int k = 0; k < 3; k++) {
                out += sprintf(out, "%s", i + k ? " " : "");
                out += put_bits(out, numbers[k]);
            }
        }
        break;
    case TD_IMAGE:
        out += sprintf(out, "%08lx", crc32(0, record->png, (uInt)record->png_size));
        break;
    case TD_TEXT:
        out += put_hex(out, record->text, record->text_length, 1);
        break;
    default:
        out +=
            sprintf(out, "%s %s ", td_dtype_name(view->dtype), td_shape_text(&view->shape, shape));
        out += put_hex(out, view->data,
                       td_dtype_size(view->dtype) *
                           (size_t)(view->shape.dims[0] * view->shape.dims[1]),
                       td_dtype_size(view->dtype));
    }
    *out = 0;
}

static td_status keep(void *user, const td_record *record, td_error *error) {
    (void)error;
    seen *s = user;
    static char line[LINE];
    int length = sprintf(line, "%s\t%s\t%s\t%lld\t", s->folder, td_form_name(record->form),
                         record->signal, (long long)record->step);
    put_record(line + length, record);
    assert_true(s->count < LINES);
    s->lines[s->count++] = strdup(line);
    return TD_OK;
}

static void clear(seen *s) {
    for (size_t i = 0; i < s->count; i++) {
        free(s->lines[i]);
    }
    s->count = 0;
}

static td__decoder decoder_of(seen *s, td__problems *problems) {
    return (td__decoder){.each = keep,
                         .user = s,
                         .first_step = INT64_MIN,
                         .last_step = INT64_MAX,
                         .problems = problems};
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void read_folder(seen *s, const char *folder) {
    char path[1024], **paths;
    size_t count;
    td_error error = {0};
    td__problems problems = {0};
    td__decoder decoder = decoder_of(s, &problems);
    snprintf(path, sizeof path, TD_TEST_FOLDER "/fixtures/events/%s", folder);
    assert_ok(td__events_list(path, &paths, &count, &error), error);
    assert_int_equal(count, 1);
    s->folder = folder;
    assert_ok(td__events_read_file(&decoder, paths[0], &error), error);
    assert_int_equal(problems.count, 0);
    td__decoder_release(&decoder);
    td__free(paths[0]);
    td__free(paths);
}

static void what_other_writers_wrote_is_read_bit_for_bit(void **state) {
    (void)state;
    static const char *const folders[] = {"plugins", "tf1", "tf2", "torch", "torch-new"};
    static seen got, expected;
    static char line[LINE];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        read_folder(&got, folders[i]);
    }
    FILE *file = fopen(TD_TEST_FOLDER "/fixtures/events/expected.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        expected.lines[expected.count++] = strdup(line);
    }
    fclose(file);
    qsort(got.lines, got.count, sizeof *got.lines, by_text);
    qsort(expected.lines, expected.count, sizeof *expected.lines, by_text);
    for (size_t i = 0; i < expected.count && i < got.count; i++) {
        assert_string_equal(got.lines[i], expected.lines[i]);
    }
    assert_int_equal(got.count, expected.count);
    clear(&got);
    clear(&expected);
}

/* ---- A file in memory ----------------------------------------------------------------------- */

typedef struct memory {
    uint8_t bytes[8192];
    size_t size, at, piece;
} memory;

static ssize_t read_memory(void *source, void *buffer, size_t size) {
    memory *m = source;
    size_t left = m->size - m->at;
    size = size < m->piece ? size : m->piece;
    size = size < left ? size : left;
    memcpy(buffer, m->bytes + m->at, size);
    m->at += size;
    return (ssize_t)size;
}

static void put_crc(uint8_t *out, const void *data, size_t size) {
    uint32_t crc = td__crc32c(0, data, size);
    td__store32(out, (crc >> 15 | crc << 17) + 0xa282ead8u);
}

static void add_record(memory *m, const void *data, size_t size) {
    uint8_t *out = m->bytes + m->size;
    td__store64(out, size);
    put_crc(out + 8, out, 8);
    memcpy(out + 12, data, size);
    put_crc(out + 12 + size, data, size);
    m->size += size + 16;
}

enum { RECORD = 14 + 16 };

/* simple_value x = step, ten times */
static memory ten_records(void) {
    memory m = {.piece = SIZE_MAX};
    for (uint8_t step = 1; step <= 10; step++) {
        float value = step;
        uint8_t event[] = {0x10, step, 0x2a, 10, 0x0a, 8, 0x0a, 1, 'x', 0x15, 0, 0, 0, 0};
        td__little_copy(event + 10, &value, 4, 4);
        add_record(&m, event, sizeof event);
    }
    return m;
}

static size_t read_all(memory *m, td__problems *problems) {
    static seen s = {.folder = "m"};
    td_error error = {0};
    td__decoder decoder = decoder_of(&s, problems);
    m->at = 0;
    assert_ok(td__events_read(&decoder, "m", read_memory, m, &error), error);
    td__decoder_release(&decoder);
    size_t count = s.count;
    clear(&s);
    return count;
}

static void a_file_cut_anywhere_gives_every_whole_record(void **state) {
    (void)state;
    for (size_t cut = 0; cut <= 10 * RECORD; cut++) {
        memory m = ten_records();
        m.size = cut;
        m.piece = 7;
        td__problems problems = {0};
        assert_int_equal(read_all(&m, &problems), cut / RECORD);
        assert_int_equal(problems.count, cut % RECORD != 0);
        td__problems_release(&problems);
    }
}

static void any_damaged_byte_costs_one_record_and_is_said(void **state) {
    (void)state;
    for (size_t at = 0; at < 10 * RECORD; at++) {
        memory m = ten_records();
        m.bytes[at] ^= 0x40;
        td__problems problems = {0};
        assert_int_equal(read_all(&m, &problems), 9);
        assert_int_equal(problems.count, 1);
        td__problems_release(&problems);
    }
}

static void damage_is_said_with_its_place(void **state) {
    (void)state;
    memory m = ten_records();
    m.bytes[3 * RECORD] ^= 1;
    m.size -= 5;
    td__problems problems = {0};
    assert_int_equal(read_all(&m, &problems), 8);
    assert_int_equal(problems.count, 2);
    assert_string_equal(problems.texts[0],
                        "m: bytes 90 to 119 are damaged; reading goes on after them");
    assert_string_equal(problems.texts[1],
                        "m: the record at byte 270 is not all there: 25 of 30 bytes");
    td__problems_release(&problems);
}

static void a_length_that_lies_takes_no_memory(void **state) {
    (void)state;
    memory m = {.size = 100, .piece = SIZE_MAX};
    uint64_t length = 1 << 30;
    memcpy(m.bytes, &length, 8);
    put_crc(m.bytes + 8, m.bytes, 8);
    td__problems problems = {0};
    assert_int_equal(read_all(&m, &problems), 0);
    assert_int_equal(problems.count, 1);
    td__problems_release(&problems);
}

static void steps_that_are_not_wanted_are_left_out(void **state) {
    (void)state;
    memory m = ten_records();
    static seen s = {.folder = "m"};
    td__problems problems = {0};
    td_error error = {0};
    td__decoder decoder = decoder_of(&s, &problems);
    decoder.first_step = 3;
    decoder.last_step = 5;
    assert_ok(td__events_read(&decoder, "m", read_memory, &m, &error), error);
    assert_int_equal(s.count, 3);
    td__decoder_release(&decoder);
    clear(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_other_writers_wrote_is_read_bit_for_bit),
        cmocka_unit_test(a_file_cut_anywhere_gives_every_whole_record),
        cmocka_unit_test(any_damaged_byte_costs_one_record_and_is_said),
        cmocka_unit_test(damage_is_said_with_its_place),
        cmocka_unit_test(a_length_that_lies_takes_no_memory),
        cmocka_unit_test(steps_that_are_not_wanted_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
