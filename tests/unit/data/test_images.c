#include "support.h"

#include <png.h>
#include <turbojpeg.h>

enum { SIDE = 16 };

static void make_folder(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

/* A smooth image, as JPEG likes it. */
static int pixel(int x, int y, int channel) {
    return 40 + 8 * x + (channel == 1 ? 0 : 3 * y) + 10 * channel;
}

static const char *write_jpeg(const char *name, int width, int channels) {
    uint8_t pixels[2 * SIDE * SIDE * 3];
    for (int i = 0; i < width * SIDE; i++) {
        for (int c = 0; c < channels; c++) {
            pixels[i * channels + c] = (uint8_t)pixel(i % width, i / width, c);
        }
    }
    unsigned char *packed = NULL;
    unsigned long size = 0;
    tjhandle handle = tjInitCompress();
    assert_int_equal(tjCompress2(handle, pixels, width, 0, SIDE,
                                 channels == 1 ? TJPF_GRAY : TJPF_RGB, &packed, &size,
                                 channels == 1 ? TJSAMP_GRAY : TJSAMP_444, 100, 0),
                     0);
    const char *path = write_bytes(name, packed, size);
    tjFree(packed);
    tjDestroy(handle);
    return path;
}

static void check_pixels(int channels, const char *folder) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", scratch, folder);
    td_dataset *data = open_data(TD_DATA(.train = path));
    assert_int_equal(td_dataset_info(data)->input.dims[2], channels);
    float input[SIDE * SIDE * 3];
    int32_t class;
    int64_t row = 1;
    td_error error = {0};
    assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, input, &class, &error), error);
    for (int i = 0; i < SIDE * SIDE; i++) {
        for (int c = 0; c < channels; c++) {
            assert_close(input[i * channels + c], pixel(i % SIDE, i / SIDE, c), 0, 3);
        }
    }
    assert_int_equal(class, 1);
    assert_string_equal(td_dataset_info(data)->class_names[0], "0");
    td_dataset_close(data);
}

static void jpeg_images_are_decoded(void **state) {
    (void)state;
    make_folder("jpeg");
    make_folder("jpeg/0");
    make_folder("jpeg/1");
    write_jpeg("jpeg/0/a.JPG", SIDE, 3);
    write_jpeg("jpeg/1/a.jpeg", SIDE, 3);
    write_text("jpeg/1/notes.txt", "not an image");
    check_pixels(3, "jpeg");
    make_folder("grey");
    make_folder("grey/0");
    make_folder("grey/1");
    write_jpeg("grey/0/a.jpg", SIDE, 1);
    write_jpeg("grey/1/a.jpg", SIDE, 1);
    check_pixels(1, "grey");
}

static void images_of_another_size_or_kind_are_named(void **state) {
    (void)state;
    char path[512];
    make_folder("mixed");
    make_folder("mixed/a");
    snprintf(path, sizeof path, "%s/mixed", scratch);
    write_jpeg("mixed/a/0.jpg", SIDE, 3);
    write_jpeg("mixed/a/1.jpg", 2 * SIDE, 3);
    assert_refused(TD_DATA(.train = path), TD_BAD_SHAPE, "mixed/a/1.jpg has 32 x 16",
                   "mixed/a/0.jpg", "16 x 16");
    write_jpeg("mixed/a/1.jpg", SIDE, 1);
    assert_refused(TD_DATA(.train = path), TD_BAD_SHAPE, "mixed/a/1.jpg is grey",
                   "0.jpg is in colour", "input: [16, 16, 1]");
    td_dataset_close(open_data(TD_DATA(.train = path, .input = TD_SHAPE(SIDE, SIDE, 1))));
    assert_refused(TD_DATA(.train = path, .input = TD_SHAPE(SIDE, SIDE, 5)), TD_BAD_SHAPE,
                   "5 channels");
}

/* 2 x 1 pixels: 10, 20, 30 with an alpha of 40, and so on. */
static void write_png(const char *name, uint32_t format) {
    static const uint8_t pixels[] = {10, 20, 30, 40, 50, 60, 70, 80};
    char path[512];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    png_image image = {.version = PNG_IMAGE_VERSION, .width = 2, .height = 1, .format = format};
    assert_true(png_image_write_to_file(&image, path, 0, pixels, 0, NULL));
}

static void check_row(const char *path, int64_t channels, int64_t row, const float *expected) {
    td_dataset *data = open_data(
        TD_DATA(.train = path, .input = channels ? TD_SHAPE(1, 2, channels) : (td_shape){0}));
    float input[8];
    td_error error = {0};
    int64_t count = 2 * td_dataset_info(data)->input.dims[2];
    assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, input, NULL, &error), error);
    assert_memory_equal(input, expected, (size_t)count * sizeof *input);
    td_dataset_close(data);
}

static void transparency_is_a_channel_where_it_is_asked_for(void **state) {
    (void)state;
    char path[512];
    make_folder("alpha");
    snprintf(path, sizeof path, "%s/alpha", scratch);
    write_png("alpha/0.png", PNG_FORMAT_RGBA);
    td_dataset *data = open_data(TD_DATA(.train = path));
    assert_int_equal(td_dataset_info(data)->input.dims[2], 3);
    assert_int_equal(td_dataset_info(data)->remarks.count, 1);
    assert_non_null(
        strstr(td_dataset_info(data)->remarks.items[0],
               "0.png has transparency (1 of 1 images), which is left out; `input: [1, 2, 4]`"));
    td_dataset_close(data);
    check_row(path, 0, 0, (const float[]){10, 20, 30, 50, 60, 70});
    check_row(path, 4, 0, (const float[]){10, 20, 30, 40, 50, 60, 70, 80});
    check_row(path, 2, 0, (const float[]){18, 40, 58, 80});
    write_png("alpha/1.png", PNG_FORMAT_RGB);
    check_row(path, 4, 1, (const float[]){10, 20, 30, 255, 40, 50, 60, 255});
    check_row(path, 2, 1, (const float[]){18, 255, 48, 255});
    write_png("alpha/2.png", PNG_FORMAT_GA);
    check_row(path, 4, 2, (const float[]){10, 10, 10, 20, 30, 30, 30, 40});
    check_row(path, 2, 2, (const float[]){10, 20, 30, 40});
    check_row(path, 3, 2, (const float[]){10, 10, 10, 30, 30, 30});
}

static void an_image_with_transparency_among_others_is_named(void **state) {
    (void)state;
    enum { MANY = 300, NOT_LOOKED_AT = 6 };
    char path[512], name[64];
    make_folder("some_alpha");
    snprintf(path, sizeof path, "%s/some_alpha", scratch);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "some_alpha/%03d.png", i);
        write_png(name, i == 1 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB);
    }
    td_dataset *data = open_data(TD_DATA(.train = path));
    assert_int_equal(td_dataset_info(data)->remarks.count, 1);
    assert_non_null(strstr(td_dataset_info(data)->remarks.items[0],
                           "001.png has transparency (1 of 256 images)"));
    td_dataset_close(data);
    check_row(path, 0, 1, (const float[]){10, 20, 30, 50, 60, 70});
    write_png("some_alpha/001.png", PNG_FORMAT_RGB);
    snprintf(name, sizeof name, "some_alpha/%03d.png", NOT_LOOKED_AT);
    write_png(name, PNG_FORMAT_RGBA);
    assert_refused(TD_DATA(.train = path), TD_BAD_SHAPE, "006.png has transparency",
                   "`input: [1, 2, 3]` leaves it out, 4 channels keep it");
    check_row(path, 3, NOT_LOOKED_AT, (const float[]){10, 20, 30, 50, 60, 70});
}

static void a_jpeg_image_is_opaque(void **state) {
    (void)state;
    char path[512];
    float input[SIDE * SIDE * 4];
    int64_t row = 0;
    td_error error = {0};
    make_folder("opaque");
    snprintf(path, sizeof path, "%s/opaque", scratch);
    write_jpeg("opaque/0.jpg", SIDE, 1);
    for (int channels = 2; channels <= 4; channels += 2) {
        td_dataset *data =
            open_data(TD_DATA(.train = path, .input = TD_SHAPE(SIDE, SIDE, channels)));
        assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, input, NULL, &error), error);
        for (int i = 0; i < SIDE * SIDE; i++) {
            assert_close(input[i * channels], pixel(i % SIDE, i / SIDE, 0), 0, 3);
            assert_true(input[(i + 1) * channels - 1] == 255);
        }
        td_dataset_close(data);
    }
}

static void images_that_cannot_be_read_are_counted(void **state) {
    (void)state;
    char path[512];
    make_folder("others");
    make_folder("others/a");
    make_folder("others/b");
    snprintf(path, sizeof path, "%s/others", scratch);
    write_jpeg("others/a/0.jpg", SIDE, 1);
    write_text("others/a/1.heic", "…");
    write_text("others/a/notes.txt", "…");
    write_text("others/b/1.heic", "…");
    write_text("others/b/2.GIF", "…");
    assert_refused(TD_DATA(.train = path), TD_UNSUPPORTED,
                   "others/b: no PNG, JPEG, BMP, WebP or TIFF",
                   "(1 .gif, 1 .heic) cannot be read: convert it to PNG");
    write_jpeg("others/b/0.jpg", SIDE, 1);
    td_dataset *data = open_data(TD_DATA(.train = path));
    assert_int_equal(td_dataset_info(data)->training, 2);
    assert_int_equal(td_dataset_info(data)->remarks.count, 1);
    assert_non_null(strstr(td_dataset_info(data)->remarks.items[0], "left out: 1 .gif, 2 .heic"));
    td_dataset_close(data);
}

static void images_beyond_memory_go_through_a_file(void **state) {
    (void)state;
    char path[512], cache[512];
    enum { PIXELS = SIDE * SIDE * 3 };
    float first[2 * PIXELS], second[2 * PIXELS];
    td_error error = {0};
    make_folder("many");
    make_folder("many/a");
    make_folder("many/b");
    snprintf(path, sizeof path, "%s/many", scratch);
    snprintf(cache, sizeof cache, "%s/images-cache", scratch);
    write_jpeg("many/a/0.jpg", SIDE, 3);
    write_jpeg("many/b/0.jpg", SIDE, 3);
    td_dataset *whole = open_data(TD_DATA(.train = path));
    td_dataset *spilled = open_data(TD_DATA(.train = path, .memory = 1000, .cache = cache));
    const int64_t rows[] = {0, 1};
    assert_ok(td_dataset_read(whole, TD_TRAINING, rows, 2, first, NULL, &error), error);
    assert_ok(td_dataset_read(spilled, TD_TRAINING, rows, 2, second, NULL, &error), error);
    assert_memory_equal(first, second, sizeof first);
    td_dataset_close(whole);
    td_dataset_close(spilled);
    assert_int_equal(rmdir(cache), 0); /* made, and empty */
    assert_refused(TD_DATA(.train = path, .memory = 1000, .cache = "/proc/nowhere"), TD_IO,
                   "cannot write to the cache folder /proc/nowhere");
}

static void images_without_classes_have_no_labels(void **state) {
    (void)state;
    char path[512];
    make_folder("flat");
    snprintf(path, sizeof path, "%s/flat", scratch);
    assert_refused(TD_DATA(.train = path), TD_NOT_FOUND, "neither images nor sub-folders");
    write_jpeg("flat/0.jpg", SIDE, 1);
    td_dataset *data = open_data(TD_DATA(.train = path));
    assert_int_equal(td_dataset_info(data)->label_kind, TD_LABEL_NONE);
    assert_int_equal(td_dataset_info(data)->training, 1);
    td_dataset_close(data);
}

static void damaged_images_are_named(void **state) {
    (void)state;
    char path[512];
    make_folder("damaged");
    make_folder("damaged/a");
    snprintf(path, sizeof path, "%s/damaged", scratch);
    const char *jpeg = write_jpeg("damaged/a/0.jpg", SIDE, 3);
    assert_int_equal(truncate(jpeg, 700), 0);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "damaged/a/0.jpg", "JPEG");
    write_text("damaged/a/0.jpg", "hello");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "0.jpg", "no PNG, JPEG");
    write_bytes("damaged/a/0.jpg",
                "\x89PNG\r\n\x1A\n\0\0\0\rIHDR\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF"
                "\x08\2\0\0\0\0\0\0\0",
                33);
    assert_refused(TD_DATA(.train = path), TD_RANGE, "0.jpg", "2147483647 x 2147483647");
    write_bytes("damaged/a/0.jpg",
                "\x89PNG\r\n\x1A\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\0\0\0\0", 33);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "0.jpg", "PNG");
}

static void folders_without_classes_or_images_are_refused(void **state) {
    (void)state;
    char path[512];
    make_folder("empty");
    snprintf(path, sizeof path, "%s/empty", scratch);
    assert_refused(TD_DATA(.train = path), TD_NOT_FOUND, "empty", "sub-folders");
    make_folder("empty/a");
    assert_refused(TD_DATA(.train = path), TD_NOT_FOUND, "empty/a", "no PNG, JPEG");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("x")), TD_INVALID, "`label`");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jpeg_images_are_decoded),
        cmocka_unit_test(images_of_another_size_or_kind_are_named),
        cmocka_unit_test(transparency_is_a_channel_where_it_is_asked_for),
        cmocka_unit_test(an_image_with_transparency_among_others_is_named),
        cmocka_unit_test(a_jpeg_image_is_opaque),
        cmocka_unit_test(images_that_cannot_be_read_are_counted),
        cmocka_unit_test(images_beyond_memory_go_through_a_file),
        cmocka_unit_test(images_without_classes_have_no_labels),
        cmocka_unit_test(damaged_images_are_named),
        cmocka_unit_test(folders_without_classes_or_images_are_refused),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
