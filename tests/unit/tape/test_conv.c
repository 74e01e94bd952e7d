/* The three convolution products against sums written out, over random geometries. */
#include "test.h"

#include "base/random.h"
#include "tape/conv.h"
#include "tape/kernels.h"

#include <math.h>

typedef struct arrays {
    float *x, *kernel, *bias, *y, *dx, *dw;
    double *y_sum, *dx_sum, *dw_sum;
    int64_t x_count, kernel_count, y_count;
} arrays;

static float *random_floats(td__random *random, int64_t count) {
    float *values = malloc((size_t)(count + 1) * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)(td__random_uniform(random) * 2 - 1);
    }
    return values;
}

static arrays make_arrays(td__random *random, const td__conv *c) {
    arrays a = {.x_count = c->batch * c->height * c->width * c->channels,
                .kernel_count = c->kernel[0] * c->kernel[1] * c->channels / c->groups * c->filters,
                .y_count = c->batch * c->out[0] * c->out[1] * c->filters};
    a.x = random_floats(random, a.x_count);
    a.kernel = random_floats(random, a.kernel_count);
    a.bias = random_floats(random, c->filters);
    a.y = random_floats(random, a.y_count);
    a.dx = random_floats(random, a.x_count);
    a.dw = random_floats(random, a.kernel_count);
    a.y_sum = calloc((size_t)a.y_count + 1, sizeof(double));
    a.dx_sum = calloc((size_t)a.x_count + 1, sizeof(double));
    a.dw_sum = calloc((size_t)a.kernel_count + 1, sizeof(double));
    return a;
}

static void free_arrays(arrays *a) {
    void *all[] = {a->x, a->kernel, a->bias, a->y, a->dx, a->dw, a->y_sum, a->dx_sum, a->dw_sum};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

/* Calls visit for every product x[i] * kernel[k] that is a part of y[o]. */
static void each_product(const td__conv *c, void (*visit)(arrays *, int64_t, int64_t, int64_t),
                         arrays *a) {
    int64_t depth = c->channels / c->groups, per_group = c->filters / c->groups;
    for (int64_t o = 0; o < a->y_count; o++) {
        int64_t n = o % c->filters, j = o / c->filters % c->out[1];
        int64_t i = o / c->filters / c->out[1] % c->out[0];
        int64_t b = o / c->filters / c->out[1] / c->out[0];
        for (int64_t k = 0; k < c->kernel[0] * c->kernel[1] * depth; k++) {
            int64_t d = k % depth, v = k / depth % c->kernel[1], u = k / depth / c->kernel[1];
            int64_t row = i * c->stride[0] + u * c->dilation[0] - c->before[0];
            int64_t column = j * c->stride[1] + v * c->dilation[1] - c->before[1];
            if (row >= 0 && row < c->height && column >= 0 && column < c->width) {
                int64_t channel = n / per_group * depth + d;
                visit(a, ((b * c->height + row) * c->width + column) * c->channels + channel,
                      k * c->filters + n, o);
            }
        }
    }
}

static void sum_products(arrays *a, int64_t x, int64_t kernel, int64_t y) {
    a->y_sum[y] += (double)a->x[x] * (double)a->kernel[kernel];
}

/* y holds the gradient here. */
static void sum_gradients(arrays *a, int64_t x, int64_t kernel, int64_t y) {
    a->dx_sum[x] += (double)a->y[y] * (double)a->kernel[kernel];
    a->dw_sum[kernel] += (double)a->y[y] * (double)a->x[x];
}

static void check(td_tape *tape, td__random *random, const td__conv *c) {
    arrays a = make_arrays(random, c);
    assert_int_equal(td__conv_forward(tape, c, a.x, a.kernel, a.bias, a.y, TD__TILE_RELU), TD_OK);
    each_product(c, sum_products, &a);
    /* About the size of a sum of products of numbers between -1 and 1. */
    double size =
        fmax(1, sqrt((double)(c->kernel[0] * c->kernel[1] * c->channels / c->groups)) / 3);
    for (int64_t i = 0; i < a.y_count; i++) {
        double expected = a.y_sum[i] + (double)a.bias[i % c->filters];
        assert_close(a.y[i], expected > 0 ? expected : 0, 1e-5, 1e-5 * size);
    }
    int flags = TD__TILE_ADD | TD__TILE_RELU6; /* onto the result before */
    assert_int_equal(td__conv_forward(tape, c, a.x, a.kernel, a.bias, a.y, flags), TD_OK);
    for (int64_t i = 0; i < a.y_count; i++) {
        double twice = 2 * (a.y_sum[i] + (double)a.bias[i % c->filters]);
        assert_close(a.y[i], twice < 0 ? 0 : twice > 6 ? 6 : twice, 1e-5, 2e-5 * size);
    }
    each_product(c, sum_gradients, &a);
    assert_int_equal(td__conv_to_input(tape, c, a.y, a.kernel, NULL, a.dx, 0), TD_OK);
    assert_int_equal(td__conv_to_input(tape, c, a.y, a.kernel, NULL, a.dx, TD__TILE_ADD), TD_OK);
    for (int64_t i = 0; i < a.x_count; i++) {
        assert_close(a.dx[i], 2 * a.dx_sum[i], 1e-4, 2e-4 * size);
    }
    assert_int_equal(td__conv_to_kernel(tape, c, a.x, a.y, false, a.dw), TD_OK);
    assert_int_equal(td__conv_to_kernel(tape, c, a.x, a.y, true, a.dw), TD_OK);
    for (int64_t i = 0; i < a.kernel_count; i++) {
        assert_close(a.dw[i], 2 * a.dw_sum[i], 1e-4, 1e-3);
    }
    free_arrays(&a);
    td_tape_reset(tape);
}

static int64_t between(td__random *random, int64_t low, int64_t high) {
    return low + (int64_t)td__random_below(random, (uint64_t)(high - low + 1));
}

static td__conv random_geometry(td__random *random) {
    return (td__conv){.batch = between(random, 1, 4),
                      .height = between(random, 1, 12),
                      .width = between(random, 1, 12),
                      .groups = 1,
                      .kernel = {between(random, 1, 4), between(random, 1, 4)},
                      .stride = {between(random, 1, 3), between(random, 1, 3)},
                      .dilation = {between(random, 1, 2), between(random, 1, 2)}};
}

/* The output's size and the padding; false when the kernel does not fit. */
static bool set_output(td__random *random, td__conv *c) {
    td_padding padding = td__random_below(random, 2) ? TD_PADDING_SAME : TD_PADDING_VALID;
    return td__conv_axis(c->height, c->kernel[0], c->stride[0], c->dilation[0], padding, &c->out[0],
                         &c->before[0]) &&
           td__conv_axis(c->width, c->kernel[1], c->stride[1], c->dilation[1], padding, &c->out[1],
                         &c->before[1]);
}

static void products_agree_with_sums_written_out(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td__random random;
    td__random_seed(&random, 1, 0);
    int tried = 0;
    while (tried < 300) {
        td__conv c = random_geometry(&random);
        c.groups = td__random_below(&random, 2) ? 1 : between(&random, 1, 3);
        c.channels = c.groups * between(&random, 1, 18);
        c.filters = c.groups * between(&random, 1, 40);
        if (!set_output(&random, &c)) {
            continue;
        }
        td_threads_set(1 + tried % 2);
        check(tape, &random, &c);
        tried++;
    }
    td_tape_destroy(tape);
}

static void many_small_groups_agree_with_sums_written_out(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td__random random;
    td__random_seed(&random, 3, 0);
    int tried = 0;
    while (tried < 300) {
        static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 8};
        td__conv c = random_geometry(&random);
        c.groups = between(&random, 2, 40);
        c.channels = c.groups * sizes[td__random_below(&random, 7)];
        c.filters = c.groups * sizes[td__random_below(&random, 7)];
        if (!set_output(&random, &c)) {
            continue;
        }
        td_threads_set(1 + tried % 2);
        check(tape, &random, &c);
        tried++;
    }
    td_tape_destroy(tape);
}

/* The three products of one convolution, by each number of threads. */
static void check_same_bits(const td__conv *c) {
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td__random random;
    td__random_seed(&random, 4, 0);
    arrays a = make_arrays(&random, c);
    float *first[3] = {malloc((size_t)a.y_count * sizeof(float)),
                       malloc((size_t)a.x_count * sizeof(float)),
                       malloc((size_t)a.kernel_count * sizeof(float))};
    for (int threads = 1; threads <= 4; threads++) {
        td_threads_set(threads);
        assert_int_equal(td__conv_forward(tape, c, a.x, a.kernel, a.bias, a.y, 0), TD_OK);
        assert_int_equal(td__conv_to_input(tape, c, a.y, a.kernel, NULL, a.dx, 0), TD_OK);
        assert_int_equal(td__conv_to_kernel(tape, c, a.x, a.y, false, a.dw), TD_OK);
        const float *results[] = {a.y, a.dx, a.dw};
        const int64_t counts[] = {a.y_count, a.x_count, a.kernel_count};
        for (int i = 0; i < 3; i++) {
            size_t bytes = (size_t)counts[i] * sizeof(float);
            if (threads == 1) {
                memcpy(first[i], results[i], bytes);
            }
            assert_memory_equal(first[i], results[i], bytes);
        }
        td_tape_reset(tape);
    }
    for (int i = 0; i < 3; i++) {
        free(first[i]);
    }
    free_arrays(&a);
    td_tape_destroy(tape);
}

static void small_groups_have_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    td__conv c = {.batch = 5,
                  .height = 19,
                  .width = 23,
                  .channels = 72,
                  .kernel = {3, 3},
                  .filters = 72,
                  .groups = 72,
                  .stride = {1, 1},
                  .dilation = {1, 1},
                  .before = {1, 1},
                  .out = {19, 23}};
    check_same_bits(&c);
    c.groups = 18;
    check_same_bits(&c);
    c.stride[0] = c.stride[1] = 2;
    c.out[0] = 10;
    c.out[1] = 12;
    check_same_bits(&c);
}

/* Threads share the pixels of a row where there are hardly any rows. */
static void a_sequence_has_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    check_same_bits(&(td__conv){.batch = 1,
                                .height = 1,
                                .width = 211,
                                .channels = 64,
                                .kernel = {1, 5},
                                .filters = 80,
                                .groups = 1,
                                .stride = {1, 1},
                                .dilation = {1, 1},
                                .before = {0, 2},
                                .out = {1, 211}});
}

/* A 3x3 convolution of stride 1, whose results are as large as its images. */
static td__conv square_3x3(int64_t batch, int64_t size, int64_t channels, int64_t filters) {
    return (td__conv){.batch = batch,
                      .height = size,
                      .width = size,
                      .channels = channels,
                      .kernel = {3, 3},
                      .filters = filters,
                      .groups = 1,
                      .stride = {1, 1},
                      .dilation = {1, 1},
                      .before = {1, 1},
                      .out = {size, size}};
}

/* Sizes that Winograd's tiles of either side cover and overlap, with every padding. */
static void tiles_of_3x3_agree_with_sums_written_out(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td__random random;
    td__random_seed(&random, 5, 0);
    for (int tried = 0; tried < 24; tried++) {
        td__conv c = square_3x3(between(&random, 3, 5), 0, 16 * between(&random, 1, 2),
                                16 * between(&random, 1, 3));
        int64_t least = tried < 12 ? 12 : 10; /* smaller images have tiles of 2x2 results */
        c.height = between(&random, least, tried < 12 ? 22 : 10);
        c.width = between(&random, least, tried < 12 ? 22 : 11);
        c.before[0] = tried % 3;
        c.before[1] = tried / 3 % 3;
        /* What follows the image: nothing, or as much as a kernel reaches. */
        c.out[0] = c.height - 2 + c.before[0] + between(&random, 0, 2);
        c.out[1] = c.width - 2 + c.before[1] + between(&random, 0, 2);
        assert_true(td__winograd.fits(&c, TD__CONV_FORWARD));
        assert_true(td__winograd.fits(&c, TD__CONV_TO_KERNEL));
        td_threads_set(1 + tried % 2);
        check(tape, &random, &c);
    }
    td_tape_destroy(tape);
}

/* The largest error of results and of a kernel's gradients, as shares of the largest of them, beside
 * double precision. */
static void measure_errors(const td__conv *c, double *of_results, double *of_gradients) {
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td__random random;
    td__random_seed(&random, 6, 0);
    assert_true(td__winograd.fits(c, TD__CONV_TO_KERNEL));
    arrays a = make_arrays(&random, c);
    each_product(c, sum_gradients, &a);
    assert_int_equal(td__conv_to_kernel(tape, c, a.x, a.y, false, a.dw), TD_OK);
    assert_int_equal(td__conv_forward(tape, c, a.x, a.kernel, NULL, a.y, 0), TD_OK);
    each_product(c, sum_products, &a);
    struct {
        const float *found;
        const double *exact;
        int64_t count;
        double *share;
    } both[] = {{a.y, a.y_sum, a.y_count, of_results},
                {a.dw, a.dw_sum, a.kernel_count, of_gradients}};
    for (int i = 0; i < 2; i++) {
        double largest = 0, worst = 0;
        for (int64_t j = 0; j < both[i].count; j++) {
            double size = fabs(both[i].exact[j]);
            double off = fabs((double)both[i].found[j] - both[i].exact[j]);
            largest = size > largest ? size : largest;
            worst = off <= worst ? worst : off; /* NaN is the worst */
        }
        *both[i].share = worst / largest;
    }
    free_arrays(&a);
    td_tape_destroy(tape);
}

static void winograd_is_nearly_as_exact_as_sums_written_out(void **state) {
    (void)state;
    double of_results, of_gradients;
    td__conv tiles_of_4 = square_3x3(4, 16, 128, 16), tiles_of_2 = square_3x3(4, 8, 128, 16);
    measure_errors(&tiles_of_4, &of_results, &of_gradients);
    assert_true(of_results < 3e-6);
    assert_true(of_gradients < 3e-6);
    measure_errors(&tiles_of_2, &of_results, &of_gradients);
    assert_true(of_results < 1e-6);
    assert_true(of_gradients < 1e-6);
}

static void tiles_of_3x3_have_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    td__conv tiles_of_4 = square_3x3(6, 18, 32, 48), tiles_of_2 = square_3x3(9, 9, 32, 48);
    check_same_bits(&tiles_of_4);
    check_same_bits(&tiles_of_2);
}

static void a_batch_that_keeps_two_threads_busy_agrees_too(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td__random random;
    td__random_seed(&random, 2, 0);
    td_threads_set(2);
    check(tape, &random,
          &(td__conv){.batch = 8,
                      .height = 28,
                      .width = 28,
                      .channels = 1,
                      .kernel = {3, 3},
                      .filters = 32,
                      .groups = 1,
                      .stride = {1, 1},
                      .dilation = {1, 1},
                      .out = {26, 26}});
    check(tape, &random,
          &(td__conv){.batch = 4,
                      .height = 13,
                      .width = 13,
                      .channels = 32,
                      .kernel = {3, 3},
                      .filters = 64,
                      .groups = 1,
                      .stride = {1, 1},
                      .dilation = {1, 1},
                      .out = {11, 11}});
    td_tape_destroy(tape);
}

/* One result of all-alike products: rounding to one side adds up, and not in what the sums are made of. */
static void check_long_sum(td_tape *tape, int64_t channels, int64_t kernel, int64_t dilation) {
    int64_t size = (kernel - 1) * dilation + 1, count = size * size * channels;
    td__conv c = {.batch = 1,
                  .height = size,
                  .width = size,
                  .channels = channels,
                  .groups = 1,
                  .kernel = {kernel, kernel},
                  .filters = 1,
                  .stride = {1, 1},
                  .dilation = {dilation, dilation},
                  .out = {1, 1}};
    float *x = malloc((size_t)count * sizeof *x), *w = malloc((size_t)count * sizeof *w), y[1];
    for (int64_t i = 0; i < count; i++) {
        x[i] = 1.0001f;
        w[i] = 1;
    }
    assert_int_equal(td__conv_forward(tape, &c, x, w, (float[]){1}, y, 0), TD_OK);
    double products = (double)(kernel * kernel * channels) * (double)1.0001f;
    assert_close(y[0], 1 + products, 8e-6, 0);
    /* Negative on the way, not in the end: a relu looks at the whole sum. */
    for (int64_t i = 0; i < channels / 3; i++) {
        w[i] = -1;
    }
    assert_int_equal(td__conv_forward(tape, &c, x, w, (float[]){-1}, y, TD__TILE_RELU), TD_OK);
    assert_close(y[0], products - 1 - 2 * (double)(channels / 3) * (double)1.0001f, 1e-5, 0);
    free(x);
    free(w);
    td_tape_reset(tape);
}

static void long_sums_keep_their_digits(void **state) {
    (void)state;
    td_tape *tape = td_tape_create(NULL, NULL);
    assert_non_null(tape);
    check_long_sum(tape, 8192, 1, 1); /* a product */
    check_long_sum(tape, 4096, 3, 1); /* rows of taps longer than a block */
    check_long_sum(tape, 4096, 3, 2); /* taps longer than one */
    check_long_sum(tape, 150, 6, 1);  /* blocks of two rows */
    td__random random;
    td__random_seed(&random, 5, 5);
    td__conv c = {.batch = 2, .height = 5, .width = 4, .channels = 150, .groups = 1};
    c.kernel[0] = c.kernel[1] = 3;
    c.filters = 37;
    c.stride[0] = c.stride[1] = c.dilation[0] = c.dilation[1] = c.before[0] = c.before[1] = 1;
    c.out[0] = 5;
    c.out[1] = 4;
    check(tape, &random, &c);
    td_tape_destroy(tape);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree_with_sums_written_out),
        cmocka_unit_test(many_small_groups_agree_with_sums_written_out),
        cmocka_unit_test(a_sequence_has_the_same_bits_for_any_number_of_threads),
        cmocka_unit_test(small_groups_have_the_same_bits_for_any_number_of_threads),
        cmocka_unit_test(tiles_of_3x3_agree_with_sums_written_out),
        cmocka_unit_test(winograd_is_nearly_as_exact_as_sums_written_out),
        cmocka_unit_test(tiles_of_3x3_have_the_same_bits_for_any_number_of_threads),
        cmocka_unit_test(a_batch_that_keeps_two_threads_busy_agrees_too),
        cmocka_unit_test(long_sums_keep_their_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
