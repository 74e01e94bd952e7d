/* Images changed at random: what may happen to one, and that it depends on seed, epoch and row alone. */
#include "support.h"

#include "data/augment.h"

enum { H = 6, W = 5, C = 2, SIZE = H * W * C };
static const td_shape shape = {.rank = 3, .dims = {H, W, C}};

static void make_image(float *image) {
    for (int i = 0; i < SIZE; i++) {
        image[i] = (float)(i * i % 97);
    }
}

static float at(const float *image, int64_t y, int64_t x, int64_t c) {
    return image[(y * W + x) * C + c];
}

static void flips_are_mirror_images(void **state) {
    (void)state;
    float image[SIZE], changed[SIZE];
    make_image(image);
    td_augment both = {.flip = TD_FLIP_BOTH};
    int seen[2][2] = {{0}};
    for (int64_t row = 0; row < 100; row++) {
        td__augment_image(&both, 7, 1, row, &shape, image, changed);
        int matches = 0;
        for (int flip = 0; flip < 4; flip++) {
            bool same = true;
            for (int64_t i = 0; i < SIZE; i++) {
                int64_t y = i / C / W, x = i / C % W;
                same &= changed[i] ==
                        at(image, flip & 1 ? H - 1 - y : y, flip & 2 ? W - 1 - x : x, i % C);
            }
            matches += same;
            seen[flip & 1][flip >> 1] += same;
        }
        assert_int_equal(matches, 1);
    }
    for (int i = 0; i < 4; i++) {
        assert_in_range(seen[i / 2][i % 2], 12, 40); /* a quarter each */
    }
    td_augment horizontal = {.flip = TD_FLIP_HORIZONTAL};
    for (int64_t row = 0; row < 20; row++) {
        td__augment_image(&horizontal, 7, 1, row, &shape, image, changed);
        float first = changed[0];
        assert_true(first == at(image, 0, 0, 0) || first == at(image, 0, W - 1, 0));
    }
}

/* Beyond the border, as numpy.pad has it: symmetric, edge, constant, wrap. */
static void crops_are_exact_and_borders_are_filled(void **state) {
    (void)state;
    float image[SIZE], changed[SIZE];
    make_image(image);
    static const int64_t left_of[][4] = {
        /* columns -1 and -2, W and W + 1 */
        [TD_FILL_REFLECT] = {0, 1, W - 1, W - 2},
        [TD_FILL_NEAREST] = {0, 0, W - 1, W - 1},
        [TD_FILL_CONSTANT] = {-1, -1, -1, -1},
        [TD_FILL_WRAP] = {W - 1, W - 2, 0, 1},
    };
    for (int fill = TD_FILL_REFLECT; fill <= TD_FILL_WRAP; fill++) {
        td_augment crop = {.crop = 2, .fill = (td_fill)fill};
        int shifts[5] = {0};
        for (int64_t row = 0; row < 200; row++) {
            td__augment_image(&crop, 3, 9, row, &shape, image, changed);
            int found = 0;
            for (int64_t dy = -2; dy <= 2; dy++) {
                for (int64_t dx = -2; dx <= 2; dx++) {
                    bool same = true;
                    for (int64_t y = 2; y < H - 2; y++) { /* rows that come from inside */
                        for (int64_t x = 0; x < W; x++) {
                            int64_t from = x - dx;
                            from = from < 0    ? left_of[fill][-from - 1]
                                   : from >= W ? left_of[fill][2 + from - W]
                                               : from;
                            float expected = from < 0 ? 0 : at(image, y - dy, from, 1);
                            same &= at(changed, y, x, 1) == expected;
                        }
                    }
                    found += same;
                    shifts[dx + 2] += same;
                }
            }
            assert_int_equal(found, 1);
        }
        for (int i = 0; i < 5; i++) {
            assert_in_range(shifts[i], 20, 65); /* a fifth each */
        }
    }
}

static void shifts_turns_and_zooms_keep_within_their_bounds(void **state) {
    (void)state;
    enum { N = 31 };
    static float image[N * N], changed[N * N];
    td_shape square = {.rank = 2, .dims = {N, N}};
    image[15 * N + 25] = 100; /* ten to the right of the middle */
    double farthest = 0, widest = 0;
    for (int64_t row = 0; row < 100; row++) {
        td_augment turn = {.rotate = 0.25, .fill = TD_FILL_CONSTANT};
        td__augment_image(&turn, 5, 1, row, &square, image, changed);
        double mass = 0, x = 0, y = 0;
        for (int i = 0; i < N * N; i++) {
            mass += (double)changed[i];
            y += (double)changed[i] * (i / N - 15);
            x += (double)changed[i] * (i % N - 15);
        }
        assert_close(hypot(x, y) / mass, 10, 0.02, 0);
        double angle = atan2(y, x) / (2 * acos(-1));
        assert_true(fabs(angle) < 0.26);
        widest = fmax(widest, fabs(angle));
        td_augment shift = {.shift = 0.1, .fill = TD_FILL_CONSTANT};
        td__augment_image(&shift, 5, 1, row, &square, image, changed);
        mass = x = 0;
        for (int i = 0; i < N * N; i++) {
            mass += (double)changed[i];
            x += (double)changed[i] * (i % N - 25);
        }
        assert_close(mass, 100, 1e-4, 0);
        assert_true(fabs(x / mass) <= 3.1001);
        farthest = fmax(farthest, fabs(x / mass));
        td_augment zoom = {.zoom = 0.2, .fill = TD_FILL_CONSTANT};
        td__augment_image(&zoom, 5, 1, row, &square, image, changed);
        mass = x = 0;
        for (int i = 0; i < N * N; i++) {
            mass += (double)changed[i];
            x += (double)changed[i] * (i % N - 15);
        }
        assert_true(x / mass > 7.8 && x / mass < 12.2);
    }
    assert_true(widest > 0.2 && farthest > 2.5);
}

static void light_changes_alike_everywhere(void **state) {
    (void)state;
    float image[SIZE], changed[SIZE];
    make_image(image);
    for (int64_t row = 0; row < 30; row++) {
        td_augment bright = {.brightness = 3};
        td__augment_image(&bright, 5, 1, row, &shape, image, changed);
        float step = changed[0] - image[0];
        assert_true(fabsf(step) <= 3 && step != 0);
        for (int i = 0; i < SIZE; i++) {
            assert_close(changed[i], image[i] + step, 0, 1e-4);
        }
        td_augment contrast = {.contrast = 0.5};
        td__augment_image(&contrast, 5, 1, row, &shape, image, changed);
        for (int c = 0; c < C; c++) {
            double before = 0, after = 0;
            for (int i = c; i < SIZE; i += C) {
                before += (double)image[i];
                after += (double)changed[i];
            }
            assert_close(before, after, 1e-5, 0);
        }
        double factor = (double)(changed[0] - changed[C]) / (double)(image[0] - image[C]);
        assert_true(factor >= 0.4999 && factor <= 1.5001);
    }
}

/* What the batches hand out for each row, in one epoch. */
static void read_rows(td_dataset *data, int64_t batch, uint64_t epoch, float *rows, int64_t width) {
    td_error error = {0};
    td_batches *batches = td_batches_create(data, TD_TRAINING, batch, &error);
    assert_non_null(batches);
    td_batches_start(batches, epoch);
    for (td_batch b; td_batches_next(batches, &b);) {
        for (int64_t i = 0; i < b.count; i++) {
            memcpy(rows + b.rows[i] * width, (const float *)b.input.data + i * width,
                   (size_t)width * sizeof *rows);
        }
    }
    td_batches_destroy(batches);
}

static const char *write_images(void) {
    static char text[1 << 16];
    char *p = text + sprintf(text, "y");
    for (int i = 0; i < 12; i++) {
        p += sprintf(p, ",p%d", i);
    }
    for (int row = 0; row < 25; row++) {
        p += sprintf(p, "\n%d", row % 2);
        for (int i = 0; i < 12; i++) {
            p += sprintf(p, ",%d", (row * 31 + i * i) % 23);
        }
    }
    (void)sprintf(p, "\n");
    return write_text("images.csv", text);
}

#define IMAGES(...)                                                                                \
    TD_DATA(.train = write_images(), .label = TD_NAMES("y"), .input = TD_SHAPE(4, 3, 1),           \
            .seed = 5, __VA_ARGS__)

static void batches_do_not_matter_and_epochs_do(void **state) {
    (void)state;
    static float one[25 * 12], two[25 * 12], plain[25 * 12];
    td_augment all = {.flip = TD_FLIP_BOTH,
                      .shift = 0.2,
                      .rotate = 0.1,
                      .zoom = 0.1,
                      .crop = 1,
                      .brightness = 1,
                      .contrast = 0.3};
    td_dataset *data = open_data(IMAGES(.augment = all));
    td_dataset *ordered = open_data(IMAGES(.augment = all, .in_order = true));
    td_dataset *without = open_data(IMAGES(.in_order = true));
    read_rows(data, 7, 3, one, 12);
    read_rows(ordered, 25, 3, two, 12);
    assert_memory_equal(one, two, sizeof one);
    read_rows(data, 7, 4, two, 12);
    assert_memory_not_equal(one, two, sizeof one);
    read_rows(without, 7, 3, plain, 12);
    for (int row = 0; row < 25; row++) {
        assert_memory_not_equal(one + 12 * row, plain + 12 * row, 12 * sizeof(float));
    }
    td_dataset_close(data);
    td_dataset_close(ordered);
    td_dataset_close(without);
}

static void the_validation_part_stays_as_it_is(void **state) {
    (void)state;
    td_error error = {0};
    td_dataset *data = open_data(IMAGES(.augment = {.brightness = 5}, .validation_share = 0.4));
    td_batches *batches = td_batches_create(data, TD_VALIDATION, 0, &error);
    td_batches_start(batches, 1);
    for (td_batch b; td_batches_next(batches, &b);) {
        for (int64_t i = 0; i < b.count; i++) {
            assert_true(((const float *)b.input.data)[i * 12] == (float)(b.rows[i] * 31 % 23));
        }
    }
    td_batches_destroy(batches);
    td_dataset_close(data);
}

static void what_is_no_image_is_refused(void **state) {
    (void)state;
    td_error error = {0};
    assert_null(td_dataset_open(
        TD_DATA(.train = write_images(), .label = TD_NAMES("y"), .augment = {.flip = TD_FLIP_BOTH}),
        &error));
    assert_non_null(strstr(error.text, "examples of shape (12,) are no images"));
    assert_null(td_dataset_open(IMAGES(.augment = {.zoom = 1.5}), &error));
    assert_int_equal(error.status, TD_RANGE);
    assert_null(td_dataset_open(IMAGES(.augment = {.crop = 9}), &error));
    assert_non_null(strstr(error.text, "crop of 9"));
    td_augment moves = {.flip = TD_FLIP_BOTH}, light = {.contrast = 0.1};
    assert_int_equal(td__augment_check(&moves, &shape, &shape, &error), TD_INVALID);
    assert_int_equal(td__augment_check(&light, &shape, &shape, &error), TD_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flips_are_mirror_images),
        cmocka_unit_test(crops_are_exact_and_borders_are_filled),
        cmocka_unit_test(shifts_turns_and_zooms_keep_within_their_bounds),
        cmocka_unit_test(light_changes_alike_everywhere),
        cmocka_unit_test(batches_do_not_matter_and_epochs_do),
        cmocka_unit_test(the_validation_part_stays_as_it_is),
        cmocka_unit_test(what_is_no_image_is_refused),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
