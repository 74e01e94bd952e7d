/* safetensors: what is written reads back; what is malformed is refused and says why. */
#include "test.h"

#include "base/memory.h"
#include "model/weights.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static char folder[] = "/tmp/td_safetensors_XXXXXX";
static char path[64];

static int make_folder(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* A file with this header and `data` bytes, in memory. */
static td__safetensors *parse(const char *header, size_t data, td_error *error) {
    static unsigned char bytes[4096];
    size_t length = strlen(header);
    memset(bytes, 0, sizeof bytes);
    bytes[0] = (unsigned char)length;
    bytes[1] = (unsigned char)(length >> 8);
    memcpy(bytes + 8, header, length);
    return td__safetensors_parse("x", bytes, 8 + length + data, error);
}

static void assert_refused(const char *header, size_t data, const char *message) {
    td_error error = {0};
    td__safetensors *file = parse(header, data, &error);
    assert_null(file);
    if (!strstr(error.text, message)) {
        fail_msg("'%s' does not have '%s'", error.text, message);
    }
}

static void tensors_and_texts_read_back(void **state) {
    (void)state;
    td_error error = {0};
    const float kernel[6] = {1, -2, 3.5f, 0, 1e-30f, 7};
    const int64_t steps = 120;
    const td__named_view tensors[] = {
        {"hidden.kernel", {TD_FLOAT32, TD_SHAPE(2, 3), kernel, NULL, NULL}},
        {"training/counters", {TD_INT64, {0}, &steps, NULL, NULL}},
        {"nothing", {TD_FLOAT32, TD_SHAPE(0, 3), kernel, NULL, NULL}},
    };
    const td__text_pair texts[] = {{"name", "a \"quoted\" näme"}};
    assert_ok(td__safetensors_write(path, 3, tensors, 1, texts, &error), error);
    td__safetensors *file = td__safetensors_open(path, &error);
    assert_non_null(file);
    assert_int_equal(td__safetensors_count(file), 3);
    const td__named_view *found = td__safetensors_find(file, "hidden.kernel");
    assert_true(td_shape_equal(&found->view.shape, &tensors[0].view.shape));
    assert_memory_equal(found->view.data, kernel, sizeof kernel);
    assert_int_equal((uintptr_t)found->view.data % 64, 0);
    assert_memory_equal(td__safetensors_find(file, "training/counters")->view.data, &steps, 8);
    assert_null(td__safetensors_find(file, "hidden"));
    assert_string_equal(td__safetensors_text(file, "name"), "a \"quoted\" näme");
    assert_null(td__safetensors_text(file, "other"));
    td__safetensors_close(file);
}

static void malformed_files_are_refused(void **state) {
    (void)state;
#define ENTRY(shape, from, to)                                                                     \
    "{\"x\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}}"
    td_error error = {0};
    td__safetensors *good = parse(ENTRY("[2]", "0", "8"), 8, &error);
    assert_non_null(good);
    td__safetensors_close(good);
    assert_refused(ENTRY("[2]", "0", "8"), 9, "bytes after the last tensor");
    assert_refused(ENTRY("[2]", "0", "8"), 7, "do not fit");
    assert_refused(ENTRY("[3]", "0", "8"), 8, "do not fit");
    assert_refused(ENTRY("[1]", "4", "8"), 8, "a hole");
    assert_refused(ENTRY("[-2]", "0", "8"), 8, "a dimension");
    assert_refused(ENTRY("[1.5]", "0", "8"), 8, "a dimension");
    assert_refused(ENTRY("[4611686018427387904,4]", "0", "8"), 8, "too large");
    assert_refused(ENTRY("[1,1,1,1,1,1,1,1,2]", "0", "8"), 8, "at most 8");
    assert_refused("{\"x\":{\"dtype\":\"C64\",\"shape\":[2],\"data_offsets\":[0,16]}}", 16, "C64");
    assert_refused("{\"x\":1}", 0, "expected dtype");
    assert_refused("{\"__metadata__\":{\"a\":1}}", 0, "texts only");
    assert_refused("[]", 0, "no header");
    assert_refused("{\"x\":", 0, "x: not a sound");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                   1, "an overlap");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                   1, "x: not a sound");
    assert_int_equal(td__safetensors_parse("x", "12345", 5, &error) == NULL, 1);
    assert_null(td__safetensors_open("/nowhere/x.safetensors", &error));
    assert_int_equal(error.status, TD_NOT_FOUND);
}

static void texts_of_other_programs_may_hold_any_character(void **state) {
    (void)state;
    td_error error = {0};
    td__safetensors *file = parse("{\"__metadata__\":{\"notes\":\"a\\u0000b\"},"
                                  "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                                  1, &error);
    assert_non_null(file);
    td__safetensors_close(file);
    assert_refused("{\"__metadata__\":{\"tapedeck.model\":\"a\\u0000b\"}}", 0,
                   "a text with the character");
    assert_refused("{\"x\":{\"dtype\":\"U8\\u0000\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
                   "dtype is missing");
    assert_refused("{\"x\\u0000\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
                   "x: not a sound");
}

static void halves_become_floats(void **state) {
    (void)state;
    td_error error = {0};
    unsigned char bytes[256] = {0};
    static const char header[] =
        "{\"h\":{\"dtype\":\"F16\",\"shape\":[7],\"data_offsets\":[0,14]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[14,20]}}";
    /* 1, -2, 65504, the least subnormal, the least normal, -infinity, NaN; 1, -2, infinity */
    static const uint16_t halves[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400,
                                      0xfc00, 0x7e00, 0x3f80, 0xc000, 0x7f80};
    bytes[0] = sizeof header - 1;
    memcpy(bytes + 8, header, sizeof header - 1);
    for (size_t i = 0; i < 10; i++) {
        bytes[8 + sizeof header - 1 + 2 * i] = (unsigned char)halves[i];
        bytes[8 + sizeof header + 2 * i] = (unsigned char)(halves[i] >> 8);
    }
    td__safetensors *file = td__safetensors_parse("x", bytes, 8 + sizeof header - 1 + 20, &error);
    assert_non_null(file);
    assert_int_equal(td__safetensors_elements(file), 10);
    float floats[7];
    td__copy_floats(floats, &td__safetensors_find(file, "h")->view, 0, 7);
    const float want[] = {1, -2, 65504, 0x1p-24f, 0x1p-14f, -INFINITY};
    assert_memory_equal(floats, want, sizeof want);
    assert_true(isnan(floats[6]));
    td__copy_floats(floats, &td__safetensors_find(file, "b")->view, 1, 2);
    assert_true(floats[0] == -2 && isinf(floats[1]));
    td__safetensors_close(file);
}

static void a_failed_write_leaves_the_old_file(void **state) {
    (void)state;
    td_error error = {0};
    const float one = 1;
    const td__named_view tensor = {"x", {TD_FLOAT32, TD_SHAPE(1), &one, NULL, NULL}};
    assert_ok(td__safetensors_write(path, 1, &tensor, 0, NULL, &error), error);
    td__allocation_fail_at(1);
    assert_int_equal(td__safetensors_write(path, 0, NULL, 0, NULL, &error), TD_MEMORY);
    td__allocation_fail_at(0);
    td__safetensors *file = td__safetensors_open(path, &error);
    assert_int_equal(td__safetensors_count(file), 1);
    td__safetensors_close(file);
    assert_int_equal(td__safetensors_write("/nowhere/x", 1, &tensor, 0, NULL, &error), TD_IO);
}

/* Pages of this program that are in memory. */
static long resident_pages(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &all, &resident), 2);
    (void)fclose(file);
    return resident;
}

/* A checkpoint is as large as a model and its optimizer: it is written from where the tensors lie and
 * need not stay in memory once it is read. */
static void a_file_takes_no_memory_of_its_size(void **state) {
    (void)state;
    enum { BYTES = 64 << 20 };
    td_error error = {0};
    long page = sysconf(_SC_PAGESIZE), most = BYTES / 4 / page;
    void *zeros = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(zeros != MAP_FAILED);
    const td__named_view tensor = {"x", {TD_UINT8, TD_SHAPE(BYTES), zeros, NULL, NULL}};
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    assert_ok(td__safetensors_write(path, 1, &tensor, 0, NULL, &error), error);
    getrusage(RUSAGE_SELF, &after);
    assert_true((after.ru_maxrss - before.ru_maxrss) * 1024 / page < most);

    td__safetensors *file = td__safetensors_open(path, &error);
    assert_non_null(file);
    const td__named_view *found = td__safetensors_find(file, "x");
    long first = resident_pages();
    assert_memory_equal(found->view.data, zeros, BYTES);
    assert_true(resident_pages() - first > 2 * most);
    td__safetensors_unmap(file, found);
    assert_true(resident_pages() - first < most);
    assert_memory_equal(found->view.data, zeros, BYTES);
    td__safetensors_close(file);
    munmap(zeros, BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_and_texts_read_back),
        cmocka_unit_test(malformed_files_are_refused),
        cmocka_unit_test(texts_of_other_programs_may_hold_any_character),
        cmocka_unit_test(halves_become_floats),
        cmocka_unit_test(a_failed_write_leaves_the_old_file),
        cmocka_unit_test(a_file_takes_no_memory_of_its_size),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
