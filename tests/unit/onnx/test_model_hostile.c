/* Making models from files that are damaged or claim too much, and when memory runs out on the way. */
#include "test.h"

#include "base/memory.h"
#include "onnx/onnx.h"

#include <sys/resource.h>

#define FOLDER TD_TEST_FOLDER "/fixtures/models/onnx/"

typedef struct file_bytes {
    unsigned char *data;
    size_t size;
} file_bytes;

static file_bytes read_file(const char *name) {
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s.onnx", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    file_bytes bytes = {malloc(1 << 20), 0};
    bytes.size = fread(bytes.data, 1, 1 << 20, file);
    (void)fclose(file);
    return bytes;
}

/* Whatever comes of it: a model that can be destroyed, or a reason. */
static void try_model(const unsigned char *data, size_t size) {
    td_error error = {0};
    td_model *model = td__onnx_model(data, size, NULL, NULL, &error);
    if (!model) {
        assert_int_not_equal(error.status, TD_OK);
        assert_true(strlen(error.text) > 0);
    }
    td_model_destroy(model);
}

static const char *const names[] = {"mlp_9", "gru_17", "unet_13", "fixed_11", "paddle_11"};

static void a_flipped_byte_anywhere_does_no_harm(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        file_bytes file = read_file(names[i]);
        for (size_t at = 0; at < file.size; at += 3) {
            unsigned char before = file.data[at];
            file.data[at] ^= (unsigned char)(1 << at % 8);
            try_model(file.data, file.size);
            file.data[at] = before;
        }
        free(file.data);
    }
}

static void a_file_cut_short_anywhere_is_refused(void **state) {
    (void)state;
    file_bytes file = read_file("mlp_9");
    for (size_t size = 0; size < file.size; size++) {
        try_model(file.data, size);
    }
    free(file.data);
}

static void exhausted_memory_is_told_wherever_it_happens(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        file_bytes file = read_file(names[i]);
        uint64_t before = td__allocation_count();
        try_model(file.data, file.size);
        uint64_t all = td__allocation_count() - before, refused = 0;
        for (uint64_t n = 1; n <= all; n += all < 2000 ? 1 : 7) {
            td_error error = {0};
            td__allocation_fail_at(n);
            td_model *model = td__onnx_model(file.data, file.size, NULL, NULL, &error);
            td__allocation_fail_at(0);
            assert_true(model || error.text[0]);
            refused += !model;
            td_model_destroy(model);
        }
        assert_true(refused > 40);
        free(file.data);
    }
}

/* A node that makes something huge out of a few bytes. */
static void what_takes_too_much_memory_is_refused_and_never_taken(void **state) {
    (void)state;
    static const char *const bombs[] = {"refused_fill", "refused_tile", "refused_doubling"};
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        file_bytes file = read_file(bombs[i]);
        td_error error = {0};
        assert_null(td__onnx_model(file.data, file.size, bombs[i], NULL, &error));
        assert_int_equal(error.status, TD_MEMORY);
        free(file.data);
    }
#if !defined(__SANITIZE_ADDRESS__)
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    assert_true(usage.ru_maxrss < 192 * 1024); /* KiB, with the program itself */
#endif
}

/* What stands in a .safetensors file instead of the ONNX file. */
static void a_stripped_file_is_not_believed_either(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        file_bytes file = read_file(names[i]);
        td_error error = {0};
        td_model *model = td__onnx_model(file.data, file.size, NULL, NULL, &error);
        assert_non_null(model);
        size_t size;
        uint8_t *stripped = td__onnx_stripped(model, &size);
        assert_non_null(stripped);
        assert_true(size < file.size);
        memcpy(file.data, stripped, size);
        td__free(stripped);
        td_model_destroy(model);

        model = td__onnx_restore(file.data, size, 100000, "again", "file", &error);
        assert_non_null(model);
        assert_string_equal(td_model_name(model), "again");
        td_model_destroy(model);
        assert_null(td__onnx_restore(file.data, size, 3, "again", "file", &error));
        assert_int_equal(error.status, TD_FORMAT);
        for (size_t at = 0; at < size; at++) {
            unsigned char before = file.data[at];
            file.data[at] ^= (unsigned char)(1 << at % 8);
            error = (td_error){0};
            model = td__onnx_restore(file.data, size, 100000, "again", "file", &error);
            assert_true(model || error.text[0]);
            td_model_destroy(model);
            file.data[at] = before;
        }
        free(file.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_takes_too_much_memory_is_refused_and_never_taken),
        cmocka_unit_test(a_flipped_byte_anywhere_does_no_harm),
        cmocka_unit_test(a_file_cut_short_anywhere_is_refused),
        cmocka_unit_test(exhausted_memory_is_told_wherever_it_happens),
        cmocka_unit_test(a_stripped_file_is_not_believed_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
