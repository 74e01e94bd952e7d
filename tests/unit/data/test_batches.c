#include "support.h"

#include "base/memory.h"

enum { ROWS = 103 };

/* ROWS rows: the row's number, ten times that, and a label. */
static const char *write_rows(void) {
    char text[8192], *p = text + sprintf(text, "a,b,y\n");
    for (int i = 0; i < ROWS; i++) {
        p += sprintf(p, "%d,%d,%d\n", i, 10 * i, i % 3);
    }
    return write_text("rows.csv", text);
}

#define ROWS_DATA(...) TD_DATA(.train = write_rows(), .label = TD_NAMES("y"), __VA_ARGS__)

/* Reads an epoch; checks each example against its row; returns the rows in order. */
static int64_t read_epoch(td_batches *batches, uint64_t epoch, int64_t *rows) {
    int64_t count = 0, number = 0;
    td_batches_start(batches, epoch);
    for (td_batch batch; td_batches_next(batches, &batch); number++) {
        const float *input = batch.input.data;
        const int32_t *label = batch.label.data;
        assert_int_equal(batch.index, number);
        assert_int_equal(batch.input.shape.dims[0], batch.count);
        assert_int_equal(batch.label.shape.rank, 1);
        assert_int_equal(batch.label.shape.dims[0], batch.count);
        for (int64_t i = 0; i < batch.count; i++) {
            assert_true(input[2 * i] == (float)batch.rows[i]);
            assert_true(input[2 * i + 1] == (float)(10 * batch.rows[i]));
            assert_int_equal(label[i], batch.rows[i] % 3);
            rows[count++] = batch.rows[i];
        }
    }
    assert_int_equal(number, td_batches_count(batches));
    return count;
}

static td_batches *make_batches(const td_dataset *data, td_part part, int64_t batch) {
    td_error error = {0};
    td_batches *batches = td_batches_create(data, part, batch, &error);
    if (!batches) {
        fail_msg("%s", error.text);
    }
    return batches;
}

static void every_example_comes_once_an_epoch_and_the_last_batch_is_short(void **state) {
    (void)state;
    td_dataset *data = open_data(ROWS_DATA(.batch = 10, .seed = 5));
    td_batches *batches = make_batches(data, TD_TRAINING, 0);
    assert_int_equal(td_batches_count(batches), 11);
    int64_t rows[ROWS];
    bool seen[ROWS] = {0};
    assert_int_equal(read_epoch(batches, 1, rows), ROWS);
    int moved = 0;
    for (int i = 0; i < ROWS; i++) {
        assert_false(seen[rows[i]]);
        seen[rows[i]] = true;
        moved += rows[i] != i;
    }
    assert_true(moved > ROWS / 2);
    td_batches_seek(batches, 10);
    td_batch batch;
    assert_true(td_batches_next(batches, &batch));
    assert_int_equal(batch.count, 3);
    assert_false(td_batches_next(batches, &batch));
    td_batches_destroy(batches);
    td_dataset_close(data);
}

static void an_epochs_order_depends_on_seed_and_epoch_alone(void **state) {
    (void)state;
    int64_t first[ROWS], second[ROWS], again[ROWS], other[ROWS];
    td_dataset *data = open_data(ROWS_DATA(.seed = 5));
    td_batches *batches = make_batches(data, TD_TRAINING, 7);
    read_epoch(batches, 1, first);
    read_epoch(batches, 2, second);
    assert_memory_not_equal(first, second, sizeof first);
    td_batches_destroy(batches);
    td_dataset_close(data);

    data = open_data(ROWS_DATA(.seed = 5));
    batches = make_batches(data, TD_TRAINING, 32);
    read_epoch(batches, 2, again);
    assert_memory_equal(second, again, sizeof second);
    td_batches_destroy(batches);
    td_dataset_close(data);

    data = open_data(ROWS_DATA(.seed = 6));
    batches = make_batches(data, TD_TRAINING, 32);
    read_epoch(batches, 1, other);
    assert_memory_not_equal(first, other, sizeof first);
    td_batches_destroy(batches);
    td_dataset_close(data);
}

static void seeking_goes_on_in_the_middle_of_an_epoch(void **state) {
    (void)state;
    td_dataset *data = open_data(ROWS_DATA(.seed = 5, .batch = 8));
    td_batches *batches = make_batches(data, TD_TRAINING, 0);
    int64_t rows[ROWS];
    read_epoch(batches, 3, rows);
    td_batches_start(batches, 3);
    td_batches_seek(batches, 4);
    td_batch batch;
    assert_true(td_batches_next(batches, &batch));
    assert_memory_equal(batch.rows, rows + 32, 8 * sizeof *rows);
    td_batches_destroy(batches);
    td_dataset_close(data);
}

static void parts_are_disjoint_in_order_and_complete(void **state) {
    (void)state;
    td_dataset *data = open_data(ROWS_DATA(.seed = 1, .validation_share = 0.2));
    const td_data_info *info = td_dataset_info(data);
    assert_int_equal(info->training, 82);
    assert_int_equal(info->validation, 21);
    bool seen[ROWS] = {0};
    for (int part = 0; part < 2; part++) {
        int64_t rows[ROWS];
        int64_t count = td_dataset_rows(data, (td_part)part, 0, ROWS, rows);
        assert_int_equal(count, part ? 21 : 82);
        for (int64_t i = 0; i < count; i++) {
            assert_false(seen[rows[i]]);
            seen[rows[i]] = true;
            assert_true(i == 0 || rows[i] > rows[i - 1]);
        }
    }
    int64_t rows[ROWS], validation[ROWS];
    td_batches *batches = make_batches(data, TD_VALIDATION, 4);
    assert_int_equal(read_epoch(batches, 1, validation), 21);
    td_dataset_rows(data, TD_VALIDATION, 0, ROWS, rows);
    assert_memory_equal(rows, validation, 21 * sizeof *rows);
    td_batches_destroy(batches);
    td_dataset_close(data);

    data = open_data(ROWS_DATA(.seed = 2, .validation_share = 0.2));
    td_dataset_rows(data, TD_VALIDATION, 0, ROWS, validation);
    assert_memory_not_equal(rows, validation, 21 * sizeof *rows);
    td_dataset_close(data);
}

static void in_order_means_the_files_own_order(void **state) {
    (void)state;
    td_dataset *data = open_data(ROWS_DATA(.seed = 1, .in_order = true));
    td_batches *batches = make_batches(data, TD_TRAINING, 0);
    int64_t rows[ROWS];
    for (uint64_t epoch = 1; epoch <= 2; epoch++) {
        assert_int_equal(read_epoch(batches, epoch, rows), ROWS);
        for (int i = 0; i < ROWS; i++) {
            assert_int_equal(rows[i], i);
        }
    }
    td_batches_destroy(batches);
    td_dataset_close(data);
}

static void batches_in_order_are_not_copied(void **state) {
    (void)state;
    td_dataset *data = open_data(ROWS_DATA(.in_order = true, .scale = 0.5, .batch = 10));
    td_batches *batches = make_batches(data, TD_TRAINING, 0);
    td_batch a, b;
    assert_true(td_batches_next(batches, &a));
    assert_true(td_batches_next(batches, &b));
    assert_ptr_equal((const float *)a.input.data + 20, b.input.data);
    assert_true(((const float *)b.input.data)[0] == 5);
    td_batches_destroy(batches);
    td_dataset_close(data);
}

static void batches_allocate_nothing(void **state) {
    (void)state;
    td_dataset *data = open_data(ROWS_DATA(.batch = 10, .validation_share = 0.3));
    td_batches *batches = make_batches(data, TD_TRAINING, 0);
    uint64_t before = td__allocation_count();
    int64_t rows[ROWS];
    read_epoch(batches, 1, rows);
    read_epoch(batches, 2, rows);
    assert_int_equal(td__allocation_count(), before);
    td_batches_destroy(batches);
    td_dataset_close(data);
}

static void inputs_are_standardised_over_the_training_part(void **state) {
    (void)state;
    const char *path = write_text("standard.csv", "a,b,y\n1,7,0\n2,7,0\n3,7,1\n6,7,0\n");
    const char *other = write_text("other.csv", "a,b,y\n13,9,0\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .validation = other, .label = TD_NAMES("y"),
                                         .standardize = true, .in_order = true));
    const td_data_info *info = td_dataset_info(data);
    assert_close(info->mean[0], 3, 0, 0);
    assert_close(info->deviation[0], sqrt(3.5), 1e-7, 0);
    assert_close(info->deviation[1], 1, 0, 0); /* never changes */
    int64_t rows[] = {0, 1, 2, 3};
    float input[8];
    td_error error = {0};
    assert_ok(td_dataset_read(data, TD_TRAINING, rows, 4, input, NULL, &error), error);
    for (int i = 0; i < 4; i++) {
        static const double values[] = {1, 2, 3, 6};
        assert_close(input[2 * i], (values[i] - 3) / sqrt(3.5), 1e-6, 1e-7);
        assert_true(input[2 * i + 1] == 0);
    }
    assert_ok(td_dataset_read(data, TD_VALIDATION, rows, 1, input, NULL, &error), error);
    assert_close(input[0], 10 / sqrt(3.5), 1e-6, 0);
    assert_close(input[1], 2, 1e-6, 0);

    td_dataset *later =
        open_data(TD_DATA(.train = other, .label = TD_NAMES("y"), .mean = info->mean,
                          .deviation = info->deviation, .normal_count = info->normal_count));
    float again[2];
    assert_ok(td_dataset_read(later, TD_TRAINING, rows, 1, again, NULL, &error), error);
    assert_memory_equal(input, again, sizeof again);
    td_dataset_close(later);
    td_dataset_close(data);
}

static void a_validation_file_keeps_the_classes_of_training(void **state) {
    (void)state;
    const char *train = write_text("train.csv", "a,y\n1,cat\n2,dog\n3,ant\n");
    const char *other = write_text("validation.csv", "a,y\n1,dog\n");
    td_dataset *data =
        open_data(TD_DATA(.train = train, .validation = other, .label = TD_NAMES("y")));
    int64_t row = 0;
    float input;
    int32_t class;
    td_error error = {0};
    assert_ok(td_dataset_read(data, TD_VALIDATION, &row, 1, &input, &class, &error), error);
    assert_int_equal(class, 2);
    td_dataset_close(data);
    other = write_text("validation.csv", "a,y\n1,dgo\n");
    assert_refused(TD_DATA(.train = train, .validation = other, .label = TD_NAMES("y")), TD_FORMAT,
                   "'dgo'", "3 classes");
    other = write_text("validation.csv", "a,b,y\n1,2,dog\n");
    assert_refused(TD_DATA(.train = train, .validation = other, .label = TD_NAMES("y")), TD_FORMAT,
                   "validation.csv", "unknown 'b'");
}

static void the_digits_have_the_shape_that_was_asked_for(void **state) {
    (void)state;
    const char *path = TD_TEST_FOLDER "/../examples/data/digits.csv.gz";
    td_dataset *data =
        open_data(TD_DATA(.train = path, .label = TD_NAMES("last"), .input = TD_SHAPE(8, 8, 1),
                          .scale = 0.0625, .validation_share = 0.2, .seed = 7));
    const td_data_info *info = td_dataset_info(data);
    assert_int_equal(info->training + info->validation, 1797);
    assert_int_equal(info->validation, 359);
    assert_int_equal(info->classes, 10);
    td_batches *batches = make_batches(data, TD_TRAINING, 0);
    td_batch batch;
    assert_true(td_batches_next(batches, &batch));
    char text[TD_SHAPE_TEXT_SIZE];
    assert_string_equal(td_shape_text(&batch.input.shape, text), "(32, 8, 8, 1)");
    float most = 0;
    for (int i = 0; i < 32 * 64; i++) {
        most = fmaxf(most, ((const float *)batch.input.data)[i]);
    }
    assert_true(most == 1);
    td_batches_destroy(batches);
    td_dataset_close(data);
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("last"), .input = TD_SHAPE(8, 9)),
                   TD_BAD_SHAPE, "(8, 9)", "72 elements", "digits.csv.gz", "64");
}

static void options_that_make_no_sense_are_refused(void **state) {
    (void)state;
    const char *path = write_rows();
    assert_refused(TD_DATA(.batch = 1), TD_INVALID, "`train`", "`generate`");
    assert_refused(TD_DATA(.train = path, .generate = {.name = "xor"}), TD_INVALID, "`generate`");
    assert_refused(TD_DATA(.train = path, .validation_share = 1), TD_RANGE, "share of 1");
    assert_refused(TD_DATA(.train = path, .validation_share = NAN), TD_RANGE, "nan");
    assert_refused(TD_DATA(.train = path, .validation_share = 0.001), TD_RANGE, "empty");
    assert_refused(TD_DATA(.train = path, .validation = path, .validation_share = 0.5), TD_INVALID,
                   "share");
    assert_refused(TD_DATA(.train = path, .scale = INFINITY), TD_INVALID, "scale");
    assert_refused(TD_DATA(.train = path, .scale = 2, .standardize = true), TD_INVALID, "scale");
    assert_refused(TD_DATA(.train = path, .batch = -1), TD_RANGE, "batch");
}

static void a_row_outside_the_file_is_refused(void **state) {
    (void)state;
    td_dataset *data = open_data(ROWS_DATA(.seed = 1));
    int64_t rows[] = {0, ROWS};
    float input[4];
    td_error error = {0};
    assert_int_equal(td_dataset_read(data, TD_TRAINING, rows, 2, input, NULL, &error), TD_RANGE);
    assert_int_equal(td_dataset_read(data, TD_VALIDATION, rows, 1, input, NULL, &error), TD_RANGE);
    assert_null(td_batches_create(data, TD_VALIDATION, 0, &error));
    assert_int_equal(error.status, TD_NOT_FOUND);
    td_dataset_close(data);
}

/* Every allocation fails once; nothing leaks (address sanitizer) and the status says why. */
static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    const char *paths[] = {write_text("memory.csv", "a,b,y\n1,2,x\n3,4,y\n5,6,x\n"),
                           TD_TEST_FOLDER "/fixtures/data/npy/table_F.npy",
                           TD_TEST_FOLDER "/fixtures/data/npz/packed.npz",
                           TD_TEST_FOLDER "/fixtures/data/idx/train-images-idx3-ubyte.gz",
                           TD_TEST_FOLDER "/fixtures/data/images_colour"};
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
        uint64_t n = 1;
        for (bool opened = false; !opened; n++) {
            td_error error = {0};
            td__allocation_fail_at(n);
            td_dataset *data = td_dataset_open(
                TD_DATA(.train = paths[p], .label = {(const char *const[]){"last"}, p < 2},
                        .standardize = true, .validation_share = 0.3),
                &error);
            td_batches *batches = data ? td_batches_create(data, TD_TRAINING, 0, &error) : NULL;
            td__allocation_fail_at(0);
            opened = batches != NULL;
            if (!opened && error.status != TD_MEMORY) {
                fail_msg("allocation %d of %s: %s", (int)n, paths[p], error.text);
            }
            td_batches_destroy(batches);
            td_dataset_close(data);
        }
        assert_true(n > 10);
    }
}

static void a_mapped_file_beyond_memory_has_the_same_batches(void **state) {
    (void)state;
    const char *path = TD_TEST_FOLDER "/fixtures/data/npy/table_F.npy";
    td_dataset *data[2] = {open_data(TD_DATA(.train = path, .batch = 3, .seed = 4)),
                           open_data(TD_DATA(.train = path, .batch = 3, .seed = 4, .memory = 1))};
    td_batches *of[2] = {make_batches(data[0], TD_TRAINING, 0),
                         make_batches(data[1], TD_TRAINING, 0)};
    int64_t width = td_dataset_info(data[0])->input.dims[0];
    for (td_batch one, other; td_batches_next(of[0], &one);) {
        assert_true(td_batches_next(of[1], &other));
        assert_memory_equal(one.rows, other.rows, (size_t)one.count * sizeof *one.rows);
        assert_memory_equal(one.input.data, other.input.data,
                            (size_t)(one.count * width) * sizeof(float));
    }
    for (int i = 0; i < 2; i++) {
        td_batches_destroy(of[i]);
        td_dataset_close(data[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_comes_once_an_epoch_and_the_last_batch_is_short),
        cmocka_unit_test(an_epochs_order_depends_on_seed_and_epoch_alone),
        cmocka_unit_test(seeking_goes_on_in_the_middle_of_an_epoch),
        cmocka_unit_test(parts_are_disjoint_in_order_and_complete),
        cmocka_unit_test(in_order_means_the_files_own_order),
        cmocka_unit_test(batches_in_order_are_not_copied),
        cmocka_unit_test(batches_allocate_nothing),
        cmocka_unit_test(inputs_are_standardised_over_the_training_part),
        cmocka_unit_test(a_validation_file_keeps_the_classes_of_training),
        cmocka_unit_test(the_digits_have_the_shape_that_was_asked_for),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(a_row_outside_the_file_is_refused),
        cmocka_unit_test(a_mapped_file_beyond_memory_has_the_same_batches),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
