/* How a case of the table is tested; see op_table.h. */
#include "gradient/op_data.h"

#include "base/memory.h"
#include "base/random.h"
#include "tape/op.h"

#include <time.h>

enum {
    CHECKED_ELEMENTS = 200, /* of one input, differentiated one by one; all when there are fewer */
    LARGE = 4000,           /* from this many on, */
    CHECKED_OF_LARGE = 8,   /* each costs two runs of the reference */
    DIRECTIONS = 3,         /* in which all elements move together: nothing escapes */
    MAXIMUM_TARGETS = OP_MAX_INPUTS + 1
};

/* --- comparing ---------------------------------------------------------------------------- */

static double typical(const double *values, int64_t count) {
    double square = 0;
    for (int64_t i = 0; i < count; i++) {
        square += values[i] * values[i];
    }
    return count ? sqrt(square / (double)count) : 0;
}

/* Relative to the expected value and to what is usual in its tensor: sums may cancel. */
static void expect_near(const char *name, const char *what, int64_t at, double value,
                        double expected, double tolerance, double usual) {
    bool both_nan = isnan(value) && isnan(expected);
    if (!both_nan && value != expected &&
        !(fabs(value - expected) <= tolerance * (fabs(expected) + usual))) {
        fail_msg("%s: %s[%lld] is %.9g, expected %.9g", name, what, (long long)at, value, expected);
    }
}

static void expect_same_bits(const char *name, const char *what, const float *a, const float *b,
                             int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0) {
            fail_msg("%s: %s: element %lld is %.9g, was %.9g", name, what, (long long)i,
                     (double)a[i], (double)b[i]);
        }
    }
}

/* values = factor * expected, up to the rounding of sums in another order */
static void expect_all_near(const char *name, const char *what, const float *values,
                            const float *expected, double factor, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        double size = factor * fabs((double)expected[i]);
        most = size > most ? size : most;
    }
    for (int64_t i = 0; i < count; i++) {
        expect_near(name, what, i, (double)values[i], factor * (double)expected[i], 1e-5, most);
    }
}

static float *copy_of(const td_tensor *tensor) {
    int64_t count = td_tensor_count(tensor);
    float *copy = op_allocate(count, sizeof *copy);
    return memcpy(copy, td_tensor_data(tensor), (size_t)count * sizeof *copy);
}

/* --- values ------------------------------------------------------------------------------- */

static void expect_values(const op_case *c, const td_tensor *y, const op_array *expected) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    td_shape shape = td_tensor_shape(y);
    if (!td_shape_equal(&shape, &c->output)) {
        fail_msg("%s: the shape is %s, expected %s", c->name, td_shape_text(&shape, a),
                 td_shape_text(&c->output, b));
    }
    const float *values = td_tensor_data(y);
    double usual = typical(expected->values, expected->count);
    for (int64_t i = 0; i < expected->count; i++) {
        expect_near(c->name, "value", i, (double)values[i], expected->values[i],
                    c->value_tolerance > 0 ? c->value_tolerance : 1e-5, usual);
    }
}

void op_test_values(const op_case *c) {
    op_data data;
    op_make_data(c->inputs, c->input_count, &data);
    op_array expected = op_make_array(&c->output);
    c->reference(data.arrays, &expected, c->options);
    td_tape *tape = op_make_tape();
    for (int threads = 1; threads <= 2; threads++) {
        td_threads_set(threads);
        td_tape_reset(tape);
        expect_values(c, op_build_or_fail(tape, c, &data), &expected);
    }
    td_tape_destroy(tape);
    free(expected.values);
    op_release_data(&data);
}

/* --- gradients ---------------------------------------------------------------------------- */

/* loss = sum of all y * weights; the gradient of y is the weights. */
typedef struct weigh_saved {
    const float *weights;
} weigh_saved;

static td_status weigh_backward(td_tape *tape, td__node *node) {
    const weigh_saved *saved = node->saved;
    float g = td__output_gradient(tape, node)[0];
    for (int32_t i = 0; i < node->input_count; i++) {
        if (!td__wants(tape, node, i)) {
            continue;
        }
        bool add;
        float *dy = td__gradient(tape, node, i, &add);
        for (int64_t k = 0; dy && k < node->inputs[i].tensor->count; k++) {
            dy[k] = (add ? dy[k] : 0.0f) + g * saved->weights[k];
        }
        if (!dy) {
            return TD_MEMORY;
        }
    }
    return TD_OK;
}

static const td__op weigh_op = {.name = "weigh", .backward = weigh_backward};

static td_tensor *weigh(td_tape *tape, int count, td_tensor *const ys[], const float *weights) {
    td_tensor *loss = td__output(tape, TD_FLOAT32, &(td_shape){0});
    weigh_saved *saved = td__scratch(tape, sizeof *saved);
    if (!loss || !saved) {
        return NULL;
    }
    saved->weights = weights;
    td__floats(loss)[0] = 0; /* only its gradient is of interest */
    return td__record(tape, &weigh_op, loss, count, ys, saved);
}

static float *random_weights(int64_t count) {
    td__random random;
    td__random_seed(&random, 11, 1);
    float *weights = op_allocate(count, sizeof *weights);
    for (int64_t i = 0; i < count; i++) {
        weights[i] = (float)op_random_between(&random, -1, 1);
    }
    return weights;
}

static double weighed_reference(const op_case *c, const op_array in[], op_array *out,
                                const float *weights) {
    c->reference(in, out, c->options);
    double sum = 0;
    for (int64_t i = 0; i < out->count; i++) {
        sum += out->values[i] * (double)weights[i];
    }
    return sum;
}

/* Moves input i by step along direction (NULL: element `at` alone) and back. */
static double moved_reference(const op_case *c, op_array in[], op_array *out, const float *weights,
                              int i, int64_t at, const double *direction, double step) {
    op_array original = in[i];
    in[i].values = op_allocate(original.count, sizeof(double));
    for (int64_t k = 0; k < original.count; k++) {
        double change = direction ? direction[k] : (double)(k == at);
        in[i].values[k] = original.values[k] + step * change;
    }
    double sum = weighed_reference(c, in, out, weights);
    free(in[i].values);
    in[i] = original;
    return sum;
}

static double difference(const op_case *c, op_array in[], op_array *out, const float *weights,
                         int i, int64_t at, const double *direction) {
    const double step = 1e-6;
    double ahead = moved_reference(c, in, out, weights, i, at, direction, step);
    double behind = moved_reference(c, in, out, weights, i, at, direction, -step);
    return (ahead - behind) / (2 * step);
}

static void expect_derivative(const op_case *c, op_data *data, const float *weights, int i,
                              const float *gradient) {
    double tolerance = c->gradient_tolerance > 0 ? c->gradient_tolerance : 1e-4;
    int64_t count = data->arrays[i].count;
    op_array out = op_make_array(&c->output);
    double *exact = op_allocate(count, sizeof *exact);
    for (int64_t k = 0; k < count; k++) {
        exact[k] = (double)gradient[k];
    }
    double usual = typical(exact, count);
    char what[32];
    snprintf(what, sizeof what, "gradient of in%d", i);
    int64_t stride = count / (count < LARGE ? CHECKED_ELEMENTS : CHECKED_OF_LARGE) + 1;
    for (int64_t k = 0; k < count; k += stride) {
        double expected = difference(c, data->arrays, &out, weights, i, k, NULL);
        expect_near(c->name, what, k, exact[k], expected, tolerance, usual);
    }
    td__random random;
    td__random_seed(&random, 13, (uint64_t)i);
    snprintf(what, sizeof what, "direction in in%d", i);
    for (int d = 0; d < DIRECTIONS; d++) {
        double along = 0, size = 0;
        double *direction = op_allocate(count, sizeof *direction);
        for (int64_t k = 0; k < count; k++) {
            direction[k] = op_random_between(&random, -1, 1);
            along += direction[k] * exact[k];
            size += direction[k] * direction[k] * exact[k] * exact[k];
        }
        double expected = difference(c, data->arrays, &out, weights, i, 0, direction);
        expect_near(c->name, what, d, along, expected, tolerance, sqrt(size));
        free(direction);
    }
    free(exact);
    free(out.values);
}

static void gradients_of(const op_case *c, td_tape *tape, td_tensor *loss, size_t count,
                         td_tensor *const targets[], td_tensor *gradients[]) {
    td_error error = {0};
    if (td_tape_gradient(tape, loss, count, targets, gradients, &error)) {
        fail_msg("%s: %s", c->name, error.text);
    }
}

/* The gradient of an input may not depend on what else is asked for. */
static void expect_gradient_alone(const op_case *c, td_tape *tape, td_tensor *loss, td_tensor *x,
                                  td_tensor *y, const float *expected) {
    td_tensor *targets[] = {x, y}, *gradients[2];
    gradients_of(c, tape, loss, 1, targets, gradients);
    expect_same_bits(c->name, "gradient asked for alone", td_tensor_data(gradients[0]), expected,
                     td_tensor_count(x));
    gradients_of(c, tape, loss, 2, targets, gradients);
    expect_same_bits(c->name, "gradient with the output's", td_tensor_data(gradients[0]), expected,
                     td_tensor_count(x));
}

/* An operation used twice gives twice the gradient. */
static void expect_gradients_add(const op_case *c, td_tape *tape, op_data *data,
                                 const float *weights, size_t count, td_tensor *const targets[],
                                 float *const expected[]) {
    td_tape_reset(tape);
    td_tensor *first = op_build_or_fail(tape, c, data);
    td_tensor *second = op_build_or_fail(tape, c, data), *gradients[MAXIMUM_TARGETS];
    td_tensor *loss = weigh(tape, 2, (td_tensor *[]){first, second}, weights);
    gradients_of(c, tape, loss, count, targets, gradients);
    for (size_t t = 0; t < count; t++) {
        expect_all_near(c->name, "gradient of two uses", td_tensor_data(gradients[t]), expected[t],
                        2, td_tensor_count(targets[t]));
    }
}

/* The gradients of all inputs into kept (allocated; NULL for those without), checked in every way
 * but against the reference. */
static void run_gradients(const op_case *c, op_data *data, td_tape *tape, const float *weights,
                          float *kept[OP_MAX_INPUTS]) {
    td_tape_reset(tape);
    td_tensor *y = op_build_or_fail(tape, c, data), *loss = weigh(tape, 1, &y, weights);
    td_tensor *targets[OP_MAX_INPUTS], *gradients[OP_MAX_INPUTS];
    float *copies[OP_MAX_INPUTS];
    size_t count = 0;
    for (int i = 0; i < data->count; i++) {
        if (data->differentiated[i]) {
            targets[count++] = data->tensors[i];
        }
    }
    gradients_of(c, tape, loss, count, targets, gradients);
    for (size_t t = 0; t < count; t++) {
        copies[t] = copy_of(gradients[t]);
    }
    for (size_t t = 0; t < count; t++) {
        expect_gradient_alone(c, tape, loss, targets[t], y, copies[t]);
    }
    expect_gradients_add(c, tape, data, weights, count, targets, copies);
    for (int i = data->count - 1; i >= 0; i--) {
        kept[i] = data->differentiated[i] ? copies[--count] : NULL;
    }
}

void op_test_gradients(const op_case *c) {
    op_data data;
    op_make_data(c->inputs, c->input_count, &data);
    op_array out = op_make_array(&c->output);
    float *weights = random_weights(out.count);
    td_tape *tape = op_make_tape();
    float *one[OP_MAX_INPUTS], *two[OP_MAX_INPUTS];
    td_threads_set(1);
    run_gradients(c, &data, tape, weights, one);
    td_threads_set(2);
    run_gradients(c, &data, tape, weights, two);
    for (int i = 0; i < data.count; i++) {
        if (one[i]) {
            expect_derivative(c, &data, weights, i, one[i]);
            expect_all_near(c->name, "gradient of two threads", two[i], one[i], 1,
                            data.arrays[i].count);
        }
        free(one[i]);
        free(two[i]);
    }
    td_tape_destroy(tape);
    free(weights);
    free(out.values);
    op_release_data(&data);
}

/* --- bits --------------------------------------------------------------------------------- */

/* One step from reset; the caller frees the copies of the output and of the gradients. */
static void run_once(const op_case *c, op_data *data, td_tape *tape, const float *weights,
                     float *copies[MAXIMUM_TARGETS]) {
    td_tape_reset(tape);
    td_tensor *y = op_build_or_fail(tape, c, data), *loss = weigh(tape, 1, &y, weights);
    for (int i = 0; i < data->count; i++) {
        td_tensor *gradient;
        copies[i] = NULL;
        if (data->differentiated[i]) {
            gradients_of(c, tape, loss, 1, &data->tensors[i], &gradient);
            copies[i] = copy_of(gradient);
        }
    }
    copies[data->count] = copy_of(y);
}

void op_test_bits(const op_case *c) {
    op_data data;
    op_make_data(c->inputs, c->input_count, &data);
    op_array out = op_make_array(&c->output);
    float *weights = random_weights(out.count);
    td_tape *tape = op_make_tape();
    for (int threads = 1; threads <= 2; threads++) {
        td_threads_set(threads);
        float *first[MAXIMUM_TARGETS], *again[MAXIMUM_TARGETS];
        run_once(c, &data, tape, weights, first);
        run_once(c, &data, tape, weights, again);
        for (int i = 0; i <= data.count; i++) {
            int64_t count = i < data.count ? data.arrays[i].count : out.count;
            if (first[i]) {
                expect_same_bits(c->name, "after a reset", again[i], first[i], count);
            }
            free(again[i]);
        }
        td_tape_reset(tape);
        td_tape_set_no_history(tape, true);
        const float *bare = td_tensor_data(op_build_or_fail(tape, c, &data));
        expect_same_bits(c->name, "without history", bare, first[data.count], out.count);
        td_tape_set_no_history(tape, false);
        for (int i = 0; i <= data.count; i++) {
            free(first[i]);
        }
    }
    td_tape_destroy(tape);
    free(weights);
    free(out.values);
    op_release_data(&data);
}

/* --- memory ------------------------------------------------------------------------------- */

static td_status try_step(const op_case *c, op_data *data, const float *weights, td_error *error) {
    td_tape *tape = td_tape_create(NULL, error);
    if (!tape) {
        return error->status;
    }
    td_tensor *y = op_build_case(tape, c, data), *loss = y ? weigh(tape, 1, &y, weights) : NULL;
    td_tensor *targets[MAXIMUM_TARGETS], *gradients[MAXIMUM_TARGETS];
    size_t count = 0;
    for (int i = 0; i < data->count; i++) {
        if (data->differentiated[i]) {
            targets[count++] = data->tensors[i];
        }
    }
    td_status status = td_tape_status(tape, error);
    if (!status) {
        status = td_tape_gradient(tape, loss, count, targets, gradients, error);
    }
    td_tape_destroy(tape);
    return status;
}

void op_test_memory(const op_case *c) {
    op_data data;
    op_make_data(c->inputs, c->input_count, &data);
    op_array out = op_make_array(&c->output);
    float *weights = random_weights(out.count);
    td_threads_set(2);
    td_status status;
    uint64_t failing = 0;
    do {
        td_error error = {0};
        td__allocation_fail_at(++failing);
        status = try_step(c, &data, weights, &error);
        td__allocation_fail_at(0);
        if (status && status != TD_MEMORY) {
            fail_msg("%s: allocation %d failed: %s", c->name, (int)failing, error.text);
        }
    } while (status && failing < 1000);
    assert_int_equal(status, TD_OK);
    free(weights);
    free(out.values);
    op_release_data(&data);
}

/* --- mistakes ----------------------------------------------------------------------------- */

void op_test_mistake(const op_mistake *m) {
    op_data data;
    op_make_data(m->inputs, m->input_count, &data);
    td_tape *tape = op_make_tape();
    td_error error = {0};
    assert_null(m->build(tape, data.tensors, m->options));
    assert_int_equal(td_tape_status(tape, &error), m->status);
    assert_string_equal(error.text, m->text);
    td_tape_destroy(tape);
    op_release_data(&data);
}

/* --- speed -------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The best of several rounds, in seconds a step. */
static double time_step(const op_case *c, op_data *data, td_tape *tape, const float *weights,
                        bool backward) {
    td_tensor *targets[MAXIMUM_TARGETS], *gradients[MAXIMUM_TARGETS];
    size_t count = 0;
    for (int i = 0; i < data->count; i++) {
        if (data->differentiated[i]) {
            targets[count++] = data->tensors[i];
        }
    }
    double best = INFINITY, end = now() + 0.05;
    while (now() < end) {
        double start = now();
        int steps = 0;
        do {
            td_tape_reset(tape);
            td_tensor *y = c->build(tape, data->tensors, c->options);
            if (backward) {
                gradients_of(c, tape, weigh(tape, 1, &y, weights), count, targets, gradients);
            }
            steps++;
        } while (now() < start + 1e-3);
        best = fmin(best, (now() - start) / steps);
    }
    return best;
}

void op_print_speed(const op_case *c) {
    op_data data;
    op_make_data(c->inputs, c->input_count, &data);
    op_array out = op_make_array(&c->output);
    float *weights = random_weights(out.count);
    td_tape *tape = op_make_tape();
    int64_t elements = out.count;
    for (int i = 0; i < data.count; i++) {
        elements = elements > data.arrays[i].count ? elements : data.arrays[i].count;
    }
    printf("%-56s %8lld", c->name, (long long)elements);
    for (int threads = 1; threads <= 2; threads++) {
        td_threads_set(threads);
        double forward = time_step(c, &data, tape, weights, false);
        double both = time_step(c, &data, tape, weights, true);
        printf(" %9.2f %9.2f", 1e9 * forward / (double)(elements + !elements),
               1e9 * both / (double)(elements + !elements));
    }
    printf("\n");
    td_tape_destroy(tape);
    free(weights);
    free(out.values);
    op_release_data(&data);
}
