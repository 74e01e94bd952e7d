/* Data that is in use while it is still being read. */
#include "support.h"

#include "data/supply.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <turbojpeg.h>

enum { ROWS = 3000, COLUMNS = 5, SIDE = 8, IMAGES = 60 };

/* Rows of every kind that a CSV file may have; row bad (from 0; -1: none) has instead of them. */
static const char *write_rows(const char *name, bool text_labels, int bad, const char *instead) {
    static char text[ROWS * 120];
    static const char *const classes[] = {"cat", "\"a \"\"b\"\", c\"", "dog", " eel "};
    size_t n = (size_t)snprintf(text, sizeof text, "a,b,c,d,y,e\n");
    for (int i = 0; i < ROWS; i++) {
        if (i == bad) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", instead);
            continue;
        }
        char label[32];
        snprintf(label, sizeof label, "%d", i % 3);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d,%s%.3f%s, %d.5 ,%de-2,%s,%d%s",
                              i % 97 == 5 ? "\n\r\n" : "", i, i % 11 ? "" : "\"", i / 7.0,
                              i % 11 ? "" : "\"", i % 10, i,
                              text_labels ? classes[i * 7 % 4] : label, i % 100,
                              i == ROWS - 1 ? ""
                              : i % 5       ? "\n"
                                            : "\r\n");
    }
    return write_bytes(name, text, n);
}

static size_t bytes_of(const td_view *view) {
    int64_t count = 0;
    assert_int_equal(td_shape_check(&view->shape, view->dtype, &count, NULL), TD_OK);
    return (size_t)count * td_dtype_size(view->dtype);
}

static void assert_same_part(const td_dataset *a, const td_dataset *b, td_part part) {
    td_batches *of[2] = {td_batches_create(a, part, 0, NULL), td_batches_create(b, part, 0, NULL)};
    td_error error = {0};
    for (uint64_t epoch = 1; epoch <= 2; epoch++) {
        td_batch one, other;
        td_batches_start(of[0], epoch);
        td_batches_start(of[1], epoch);
        while (td_batches_next(of[0], &one)) {
            assert_true(td_batches_next(of[1], &other));
            assert_int_equal(one.count, other.count);
            size_t inputs = bytes_of(&one.input), labels = bytes_of(&one.label);
            assert_memory_equal(one.input.data, other.input.data, inputs);
            assert_memory_equal(one.label.data, other.label.data, labels);
            assert_memory_equal(one.rows, other.rows, (size_t)one.count * sizeof *one.rows);
        }
        assert_false(td_batches_next(of[1], &other));
        assert_ok(td_batches_status(of[1], &error), error);
    }
    td_batches_destroy(of[0]);
    td_batches_destroy(of[1]);
}

/* The same options, with and without; a small memory makes any file a large one. */
static void assert_same(td_data_options options) {
    char cache[2][128];
    td_dataset *data[2];
    for (int i = 0; i < 2; i++) {
        static int number;
        snprintf(cache[i], sizeof cache[i], "%s/cache-%d", scratch, number++);
        options.cache = cache[i];
        options.memory = 4096;
        options.while_reading = i == 1;
        data[i] = open_data(&options);
    }
    const td_data_info *a = td_dataset_info(data[0]), *b = td_dataset_info(data[1]);
    assert_true(a->training == b->training && a->classes == b->classes);
    for (int64_t i = 0; a->class_names && i < a->classes; i++) {
        assert_string_equal(a->class_names[i], b->class_names[i]);
    }
    assert_same_part(data[0], data[1], TD_TRAINING);
    if (a->validation) {
        assert_same_part(data[0], data[1], TD_VALIDATION);
    }
    td_dataset_close(data[0]);
    td_dataset_close(data[1]);
}

static void a_csv_file_has_the_same_numbers_while_it_is_read(void **state) {
    (void)state;
    for (int text = 0; text < 2; text++) {
        const char *path = write_rows(text ? "text.csv" : "numbers.csv", text, -1, "");
        const td_names label = TD_NAMES("y");
        assert_same(*TD_DATA(.train = path, .label = label, .seed = 3));
        assert_same(*TD_DATA(.train = path, .label = label, .in_order = true, .scale = 0.1));
        assert_same(*TD_DATA(.train = path, .label = label, .validation_share = 0.2));
        assert_same(*TD_DATA(.train = path, .label = label, .standardize = true));
        assert_same(*TD_DATA(.train = path, .label = label, .weight = "e", .validation = path));
        assert_same(*TD_DATA(.train = path, .label = label, .ignore = TD_NAMES("a", "c")));
    }
    const char *path = write_rows("missing.csv", true, 2900, "1,,3,4,dog,6");
    assert_same(*TD_DATA(.train = path, .label = TD_NAMES("y"), .missing = TD_MISSING_DROP));
    assert_same(*TD_DATA(.train = path, .label = TD_NAMES("y"), .missing = TD_MISSING_MEAN));
}

static void a_file_that_was_read_to_its_end_is_in_the_cache(void **state) {
    (void)state;
    const char *path = write_rows("kept.csv", true, -1, "");
    char cache[128];
    snprintf(cache, sizeof cache, "%s/kept", scratch);
    td_dataset *data = open_data(TD_DATA(.train = path, .label = TD_NAMES("y"), .cache = cache,
                                         .memory = 4096, .while_reading = true));
    int64_t rows[ROWS];
    float *input = calloc(ROWS * COLUMNS, sizeof *input), *again = calloc(ROWS * COLUMNS, 4);
    td_error error = {0};
    assert_int_equal(td_dataset_rows(data, TD_TRAINING, 0, ROWS, rows), ROWS);
    assert_ok(td_dataset_read(data, TD_TRAINING, rows, ROWS, input, NULL, &error), error);
    td_dataset_close(data);
    /* The same size and time: the cache is used, whatever stands in the file now. */
    struct stat was;
    assert_int_equal(stat(path, &was), 0);
    FILE *file = fopen(path, "r+");
    fputs("x,x", file);
    fclose(file);
    const struct timespec times[2] = {was.st_atim, was.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    data = open_data(TD_DATA(.train = path, .label = TD_NAMES("y"), .cache = cache));
    assert_ok(td_dataset_read(data, TD_TRAINING, rows, ROWS, again, NULL, &error), error);
    assert_memory_equal(input, again, sizeof *input * ROWS * COLUMNS);
    assert_string_equal(td_dataset_info(data)->class_names[0], "a \"b\", c");
    td_dataset_close(data);
    free(input);
    free(again);
}

/* What is wrong is reported in the same words, when it is found. */
static void assert_told_later(const char *path, td_data_options options) {
    td_error at_once = {0}, later = {0};
    options.train = path;
    options.label = TD_NAMES("y");
    options.memory = 4096;
    assert_null(td_dataset_open(&options, &at_once));
    options.while_reading = true;
    td_dataset *data = open_data(&options);
    td_batches *batches = td_batches_create(data, TD_TRAINING, 32, NULL);
    int64_t count = 0;
    for (td_batch batch; td_batches_next(batches, &batch);) {
        count++;
    }
    assert_true(count < td_batches_count(batches));
    assert_int_equal(td_batches_status(batches, &later), at_once.status);
    assert_string_equal(later.text, at_once.text);
    td_batch batch;
    td_batches_start(batches, 2);
    assert_false(td_batches_next(batches, &batch));
    td_batches_destroy(batches);
    td_dataset_close(data);
}

static void a_wrong_row_is_told_of_later_in_the_same_words(void **state) {
    (void)state;
    static const char *const rows[] = {"1,2,x,4,1,6", "1,2,,4,1,6", "1,2,1e99,4,1,6"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = write_rows("wrong.csv", false, ROWS - 2, rows[i]);
        assert_told_later(path, *TD_DATA(.in_order = true));
        assert_told_later(path, *TD_DATA(.seed = 5));
    }
}

static void wrong_labels_and_widths_are_told_of_at_once(void **state) {
    (void)state;
    static const char *const rows[] = {"1,2,3,4,x,6", "1,2,3,4,,6", "1,2,3,4,1", "1,2,3,4,1,6,7",
                                       "1,2,3,4,1,\"6"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        td_error expected = {0}, error = {0};
        td_data_options options =
            *TD_DATA(.train = write_rows("wide.csv", false, ROWS - 2, rows[i]),
                     .label = TD_NAMES("y"));
        options.memory = 4096;
        assert_null(td_dataset_open(&options, &expected));
        options.while_reading = true;
        assert_null(td_dataset_open(&options, &error));
        assert_string_equal(error.text, expected.text);
    }
}

static void write_images(const char *folder, int damaged) {
    char name[64];
    snprintf(name, sizeof name, "%s/%s", scratch, folder);
    mkdir(name, 0777);
    for (int i = 0; i < IMAGES; i++) {
        snprintf(name, sizeof name, "%s/%s/%c", scratch, folder, 'a' + i % 3);
        mkdir(name, 0777);
        uint8_t pixels[SIDE * SIDE * 3];
        for (size_t k = 0; k < sizeof pixels; k++) {
            pixels[k] = (uint8_t)(k + (size_t)i * 3);
        }
        unsigned char *packed = NULL;
        unsigned long size = 0;
        tjhandle handle = tjInitCompress();
        assert_int_equal(
            tjCompress2(handle, pixels, SIDE, 0, SIDE, TJPF_RGB, &packed, &size, TJSAMP_444, 90, 0),
            0);
        snprintf(name, sizeof name, "%s/%c/%02d.jpg", folder, 'a' + i % 3, i);
        write_bytes(name, packed, i == damaged ? size / 2 : size);
        tjFree(packed);
        tjDestroy(handle);
    }
}

static void a_folder_of_images_has_the_same_numbers_while_it_is_read(void **state) {
    (void)state;
    char path[128];
    write_images("images", -1);
    snprintf(path, sizeof path, "%s/images", scratch);
    assert_same(*TD_DATA(.train = path, .batch = 7, .seed = 2));
    assert_same(*TD_DATA(.train = path, .in_order = true, .validation_share = 0.3));
    assert_same(*TD_DATA(.train = path, .standardize = true));
}

static void a_damaged_image_is_named_later(void **state) {
    (void)state;
    char path[128];
    write_images("broken", IMAGES - 1);
    snprintf(path, sizeof path, "%s/broken", scratch);
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "/c/59.jpg: damaged JPEG");
    td_dataset *data = open_data(TD_DATA(.train = path, .memory = 4096, .while_reading = true));
    td_batches *batches = td_batches_create(data, TD_TRAINING, 4, NULL);
    td_error error = {0};
    for (td_batch batch; td_batches_next(batches, &batch);) {
    }
    assert_int_equal(td_batches_status(batches, &error), TD_FORMAT);
    assert_non_null(strstr(error.text, "/c/59.jpg: damaged JPEG"));
    td_batches_destroy(batches);
    td_dataset_close(data);
}

static void closing_ends_reading(void **state) {
    (void)state;
    const char *path = write_rows("closed.csv", false, -1, "");
    for (int i = 0; i < 20; i++) {
        td_dataset_close(open_data(
            TD_DATA(.train = path, .label = TD_NAMES("y"), .memory = 4096, .while_reading = true)));
    }
}

/* ---- The supply itself ----------------------------------------------------------------------- */

enum { NUMBERS = 5000, IN_BLOCK = 3, ASKING = 4 };

typedef struct counting {
    int64_t numbers[NUMBERS];
    int made[NUMBERS / IN_BLOCK + 1]; /* of each block, by its maker alone */
    int finished, released;
} counting;

static td_status count_up(void *user, int maker, int64_t block, uint8_t *to, td_error *error) {
    counting *c = user;
    (void)maker;
    (void)error;
    c->made[block]++;
    for (int64_t i = block * IN_BLOCK; i < (block + 1) * IN_BLOCK && i < NUMBERS; i++) {
        memcpy(to, &i, sizeof i);
        to += sizeof i;
    }
    return TD_OK;
}

static td_status finish_counting(void *user, td_error *error) {
    (void)error;
    ((counting *)user)->finished++;
    return TD_OK;
}

static void release_counting(void *user) {
    ((counting *)user)->released++;
}

typedef struct asking {
    td__supply *supply;
    const counting *counting;
    int64_t stride;
    bool wrong;
} asking;

static void *ask(void *argument) {
    asking *a = argument;
    for (int64_t i = 0; i < NUMBERS; i++) {
        int64_t row = i * a->stride % NUMBERS;
        a->wrong = a->wrong || td__supply_need(a->supply, &row, 1, NULL) ||
                   a->counting->numbers[row] != row;
    }
    return NULL;
}

static void every_block_is_made_once_whoever_asks(void **state) {
    (void)state;
    static const td__supply_class class = {
        .make = count_up, .finish = finish_counting, .release = release_counting};
    static counting c;
    td_error error = {0};
    td__supply *supply = td__supply_create(&(td__supply_options){.class = &class,
                                                                 .user = &c,
                                                                 .rows = NUMBERS,
                                                                 .rows_in_block = IN_BLOCK,
                                                                 .row_size = sizeof(int64_t),
                                                                 .memory = (uint8_t *)c.numbers},
                                           &error);
    assert_non_null(supply);
    assert_ok(td__supply_start(supply, &error), error);
    pthread_t threads[ASKING];
    asking all[ASKING];
    for (int i = 0; i < ASKING; i++) {
        all[i] = (asking){supply, &c, 1 + 66 * i, false};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &all[i]), 0);
    }
    for (int i = 0; i < ASKING; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(all[i].wrong);
    }
    td__supply_destroy(supply);
    for (int i = 0; i < (NUMBERS + IN_BLOCK - 1) / IN_BLOCK; i++) {
        assert_int_equal(c.made[i], 1);
    }
    assert_int_equal(c.finished, 1);
    assert_int_equal(c.released, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_csv_file_has_the_same_numbers_while_it_is_read),
        cmocka_unit_test(a_file_that_was_read_to_its_end_is_in_the_cache),
        cmocka_unit_test(a_wrong_row_is_told_of_later_in_the_same_words),
        cmocka_unit_test(wrong_labels_and_widths_are_told_of_at_once),
        cmocka_unit_test(a_folder_of_images_has_the_same_numbers_while_it_is_read),
        cmocka_unit_test(a_damaged_image_is_named_later),
        cmocka_unit_test(closing_ends_reading),
        cmocka_unit_test(every_block_is_made_once_whoever_asks),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
