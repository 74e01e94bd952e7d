/* A table of operations, each tested in several ways.
 *
 * A file cases_NAME.c defines `const op_group cases_NAME`; it is found by its name and all of its
 * cases and mistakes are tested. A case says how its inputs look, how the operation is built on a
 * tape, and what it should give: a reference in float64, written independently with plain loops.
 *
 *     static td_tensor *build(td_tape *tape, td_tensor *const in[], const void *options) {
 *         return td_softmax(tape, in[0], *(const int32_t *)options);
 *     }
 *     static void reference(const op_array in[], op_array *out, const void *options) { … }
 *
 *     static const op_case cases[] = {
 *         {.name = "softmax, last axis", .inputs = {{TD_SHAPE(3, 5)}}, .output = TD_SHAPE(3, 5),
 *          .build = build, .reference = reference, .options = &(int32_t){-1}},
 *     };
 *     static const op_mistake mistakes[] = {
 *         {.name = "softmax, no such axis", .inputs = {{TD_SHAPE(3, 5)}}, .build = build,
 *          .options = &(int32_t){2}, .status = TD_RANGE,
 *          .text = "softmax: input (3, 5) has no axis 2"},
 *     };
 *     const op_group cases_softmax = {OP_LIST(cases), OP_LIST(mistakes)};
 *
 * What is tested, with one thread and with two:
 *   values     the operation against the reference
 *   gradients  the tape against central differences of the reference, contracted with random
 *              weights; every input alone and together, with the output as a target too, and with
 *              the operation used twice so that contributions add up
 *   bits       the same again after a reset, and without history
 *   memory     every allocation fails once: an error, no crash, no leak
 * `test_ops --speed [PART OF A NAME]` prints nanoseconds per element instead.
 */
#ifndef TAPEDECK_TESTS_OP_TABLE_H
#define TAPEDECK_TESTS_OP_TABLE_H

#include "test.h"

#include "tapedeck/ops.h"

#define OP_MAX_INPUTS 8
/* Random operations are built with this seed at step 0. */
#define OP_SEED 3

/* Random values, the same for every run. */
typedef struct op_input {
    td_shape shape;
    td_dtype dtype;   /* default: float32 */
    double low, high; /* values are in [low, high), integers too; both 0: -2 and 2 */
    double gap;       /* no value is nearer to 0 than this */
    bool distinct;    /* values are evenly spaced from low to high, in random order: no ties */
    bool constant;    /* no gradient is asked for (integers never have one) */
    bool optional;    /* with rank 0: the operation is given NULL, the reference an empty array */
    const double *values; /* these instead of random ones */
} op_input;

/* What the reference sees: row-major float64, integers converted. */
typedef struct op_array {
    td_shape shape;
    int64_t count;
    double *values;
} op_array;

typedef td_tensor *op_build(td_tape *tape, td_tensor *const in[], const void *options);
/* Fills out->values; out->shape is the case's. */
typedef void op_reference(const op_array in[], op_array *out, const void *options);

typedef struct op_case {
    const char *name;
    op_input inputs[OP_MAX_INPUTS];
    int input_count; /* 0: 1 */
    td_shape output;
    op_build *build;
    op_reference *reference;
    const void *options;       /* passed on */
    double value_tolerance;    /* relative; 0: 1e-5 */
    double gradient_tolerance; /* relative; 0: 1e-4 */
} op_case;

typedef struct op_mistake {
    const char *name;
    op_input inputs[OP_MAX_INPUTS];
    int input_count; /* 0: 1 */
    op_build *build;
    const void *options;
    td_status status;
    const char *text; /* the whole error */
} op_mistake;

typedef struct op_group {
    const op_case *cases;
    size_t case_count;
    const op_mistake *mistakes;
    size_t mistake_count;
} op_group;

#define OP_LIST(array) (array), sizeof(array) / sizeof((array)[0])

/* Each fails the running cmocka test. */
void op_test_values(const op_case *c);
void op_test_gradients(const op_case *c);
void op_test_bits(const op_case *c);
void op_test_memory(const op_case *c);
void op_test_mistake(const op_mistake *m);
/* Prints one line. */
void op_print_speed(const op_case *c);

/* TD_SET for tables: a literal within a literal is not constant. */
#define SET(number)                                                                                \
    { (const struct td__set *)"", (number) }

#endif
