#include "fixture.h"

#include "base/memory.h"
#include "sink/picture.h"

#include <png.h>

/* The picture's pixels, three bytes each; static. */
static const uint8_t *draw(td_view view, bool kernel, int *width, int *height) {
    static uint8_t pixels[4 << 20];
    td_error error = {0};
    td__picture picture;
    assert_ok(
        td__picture_make(&view, kernel ? TD__PICTURE_KERNEL : TD__PICTURE_TENSOR, &picture, &error),
        error);
    png_image image = {.version = PNG_IMAGE_VERSION};
    assert_true(png_image_begin_read_from_memory(&image, picture.png, picture.size));
    image.format = PNG_FORMAT_RGB;
    assert_true(PNG_IMAGE_SIZE(image) <= sizeof pixels);
    assert_true(png_image_finish_read(&image, NULL, pixels, 0, NULL));
    assert_int_equal(image.width, picture.width);
    assert_int_equal(image.height, picture.height);
    *width = picture.width;
    *height = picture.height;
    td__free(picture.png);
    return pixels;
}

#define assert_pixel(pixels, width, x, y, r, g, b)                                                 \
    assert_memory_equal((pixels) + 3 * ((y) * (width) + (x)), ((uint8_t[]){r, g, b}), 3)

static void one_channel_is_grey(void **state) {
    (void)state;
    static const float values[] = {0, 5, 10, NAN, INFINITY, 2.5f};
    int w, h;
    const uint8_t *p =
        draw((td_view){TD_FLOAT32, TD_SHAPE(2, 3), values, NULL, NULL}, false, &w, &h);
    assert_int_equal(w, 48);
    assert_int_equal(h, 32);
    assert_pixel(p, w, 0, 0, 0, 0, 0);
    assert_pixel(p, w, 16, 15, 128, 128, 128);
    assert_pixel(p, w, 47, 0, 255, 255, 255);
    assert_pixel(p, w, 0, 16, 0, 255, 0);
    assert_pixel(p, w, 20, 20, 255, 255, 255);
}

static void signed_values_diverge_from_white(void **state) {
    (void)state;
    static const float values[] = {-2, 0, 1, -INFINITY};
    int w, h;
    const uint8_t *p =
        draw((td_view){TD_FLOAT32, TD_SHAPE(1, 4), values, NULL, NULL}, false, &w, &h);
    assert_pixel(p, w, 0, 0, 0, 0, 255);
    assert_pixel(p, w, 16, 0, 255, 255, 255);
    assert_pixel(p, w, 32, 0, 255, 128, 128);
    assert_pixel(p, w, 48, 0, 0, 0, 255);
}

static void three_channels_are_colours_and_others_are_tiles(void **state) {
    (void)state;
    static const uint8_t rgb[] = {255, 0, 128, 10, 20, 30};
    int w, h;
    const uint8_t *p = draw((td_view){TD_UINT8, TD_SHAPE(1, 2, 3), rgb, NULL, NULL}, false, &w, &h);
    assert_pixel(p, w, 0, 0, 255, 0, 128);
    assert_pixel(p, w, 16, 0, 10, 20, 30);
    /* two examples of 100 x 60 with 2 channels: a grid of 2 x 2 tiles, a pixel between them */
    static float many[2 * 100 * 60 * 2];
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        many[i] = i % 2 ? 1.0f : 0.0f;
    }
    p = draw((td_view){TD_FLOAT32, TD_SHAPE(2, 100, 60, 2), many, NULL, NULL}, false, &w, &h);
    assert_int_equal(w, 121);
    assert_int_equal(h, 201);
    assert_pixel(p, w, 0, 0, 0, 0, 0);
    assert_pixel(p, w, 60, 0, 64, 64, 64);
    assert_pixel(p, w, 61, 0, 255, 255, 255);
    assert_pixel(p, w, 0, 100, 64, 64, 64);
    assert_pixel(p, w, 120, 200, 255, 255, 255);
}

static void kernels_have_inputs_downwards_and_outputs_across(void **state) {
    (void)state;
    float kernel[3 * 3 * 2 * 5] = {0}; /* [h, w, in, out] */
    kernel[((2 * 3 + 1) * 2 + 1) * 5 + 4] = 1;
    int w, h;
    const uint8_t *p =
        draw((td_view){TD_FLOAT32, TD_SHAPE(3, 3, 2, 5), kernel, NULL, NULL}, true, &w, &h);
    int tile = 3 * 16 + 1;
    assert_int_equal(w, 5 * tile - 1);
    assert_int_equal(h, 2 * tile - 1);
    assert_pixel(p, w, 4 * tile + 16, tile + 32, 255, 255, 255);
    assert_pixel(p, w, 4 * tile + 15, tile + 32, 0, 0, 0);
    assert_true(td__picture_is_kernel("conv1.kernel"));
    assert_true(td__picture_is_kernel("kernel.gradient"));
    assert_true(td__picture_is_kernel("lstm.recurrent_kernel"));
    assert_false(td__picture_is_kernel("conv1.output"));
    assert_false(td__picture_is_kernel("kernels.output"));
}

static void huge_tensors_are_cut_and_empty_ones_refused(void **state) {
    (void)state;
    static uint8_t wide[3 * 5000];
    int w, h;
    draw((td_view){TD_UINT8, TD_SHAPE(3, 5000), wide, NULL, NULL}, false, &w, &h);
    assert_int_equal(w, TD__PICTURE_SIDE);
    assert_int_equal(h, 3);
    static uint8_t batch[128 * 28 * 28];
    draw((td_view){TD_UINT8, TD_SHAPE(128, 28, 28, 1), batch, NULL, NULL}, false, &w, &h);
    assert_int_equal(w, 28);
    assert_int_equal(h, 128 * 29 - 1); /* all of them, if smaller */
    draw((td_view){TD_UINT8, TD_SHAPE(7), wide, NULL, NULL}, false, &w, &h);
    draw((td_view){TD_UINT8, {0}, wide, NULL, NULL}, false, &w, &h);
    td_error error = {0};
    td__picture picture;
    td_view empty = {TD_UINT8, TD_SHAPE(0, 4), wide, NULL, NULL};
    assert_int_equal(td__picture_make(&empty, TD__PICTURE_TENSOR, &picture, &error), TD_BAD_SHAPE);
}

static void files_lie_in_a_folder_for_each_signal(void **state) {
    (void)state;
    static const float values[] = {1, 2};
    td_view view = {TD_FLOAT32, TD_SHAPE(1, 2), values, NULL, NULL};
    fixture f;
    fixture_open(&f, &td__sink_png, NULL);
    fixture_view(&f, "a/../b", 0, TD_IMAGE, 120, view, NULL);
    assert_string_equal(f.place.file, "images/a%2F..%2Fb/step-000120.png");
    assert_true(fixture_has(&f, f.place.file));
    fixture_view(&f, "a/../b", 0, TD_IMAGE, 12345678, view, NULL);
    assert_true(fixture_has(&f, "images/a%2F..%2Fb/step-12345678.png"));
    assert_ok(f.class->flush(f.sink, &f.error), f.error);
    fixture_close(&f);
    fixture_remove(&f);
}

static void on_network_file_systems_a_signal_has_one_archive(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3};
    td_view view = {TD_FLOAT32, TD_SHAPE(1, 3), values, NULL, NULL};
    fixture f;
    assert_int_equal(setenv("TAPEDECK_FILES", "network", 1), 0);
    fixture_open(&f, &td__sink_png, NULL);
    for (int64_t step = 1; step <= 3; step++) {
        fixture_view(&f, "a/../b", 0, TD_IMAGE, step, view, NULL);
        assert_string_equal(f.place.file, "images/a%2F..%2Fb.tar");
    }
    fixture_view(&f, "other", 1, TD_IMAGE, 3, view, NULL);
    assert_int_equal(f.place.record, 2); /* behind the comment */
    assert_ok(f.class->flush(f.sink, &f.error), f.error);
    fixture_close(&f);
    fixture_python(&f, "import tarfile\n"
                       "assert sorted(os.listdir('images')) == ['a%2F..%2Fb.tar', 'other.tar']\n"
                       "archive = tarfile.open('images/a%2F..%2Fb.tar')\n"
                       "assert archive.getnames() == ['step-00000%d.png' % i for i in (1, 2, 3)]\n"
                       "assert archive.pax_headers == {'comment': 'a/../b'}\n"
                       "data = archive.extractfile('step-000003.png').read()\n"
                       "assert data[:4] == b'\\x89PNG' and data[-8:-4] == b'IEND'\n"
                       "assert os.system('tar tf images/other.tar') == 0");
    unsetenv("TAPEDECK_FILES");
    fixture_remove(&f);
}

static void running_out_of_memory_is_reported(void **state) {
    (void)state;
    static float values[64 * 64];
    td_view view = {TD_FLOAT32, TD_SHAPE(64, 64), values, NULL, NULL};
    td_status status = TD_MEMORY;
    for (uint64_t n = 1; status == TD_MEMORY; n++) {
        td_error error = {0};
        td__picture picture;
        td__allocation_fail_at(n);
        status = td__picture_make(&view, TD__PICTURE_TENSOR, &picture, &error);
        td__allocation_fail_at(0);
        assert_true(status == TD_OK || status == TD_MEMORY);
        if (status == TD_OK) {
            td__free(picture.png);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_channel_is_grey),
        cmocka_unit_test(signed_values_diverge_from_white),
        cmocka_unit_test(three_channels_are_colours_and_others_are_tiles),
        cmocka_unit_test(kernels_have_inputs_downwards_and_outputs_across),
        cmocka_unit_test(huge_tensors_are_cut_and_empty_ones_refused),
        cmocka_unit_test(files_lie_in_a_folder_for_each_signal),
        cmocka_unit_test(on_network_file_systems_a_signal_has_one_archive),
        cmocka_unit_test(running_out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
