/* The inputs of a case: random values, stored in tensors; and building the operation on them. */
#include "gradient/op_data.h"

void *op_allocate(int64_t count, size_t size) {
    void *memory = calloc((size_t)count + 1, size);
    assert_non_null(memory);
    return memory;
}

double op_random_between(td__random *random, double low, double high) {
    return low + (high - low) * td__random_uniform(random);
}

static double random_value(td__random *random, const op_input *input, double low, double high) {
    double value;
    do {
        value = op_random_between(random, low, high);
    } while (fabs(value) < input->gap);
    return input->dtype == TD_FLOAT32 ? value : floor(value);
}

static void fill(td__random *random, const op_input *input, op_array *array) {
    bool standard = input->low == 0 && input->high == 0;
    double low = standard ? -2 : input->low, high = standard ? 2 : input->high;
    double spacing = (high - low) / (double)(array->count + 1);
    for (int64_t i = 0; i < array->count; i++) {
        array->values[i] = input->values     ? input->values[i]
                           : input->distinct ? low + spacing * ((double)i + 0.5)
                                             : random_value(random, input, low, high);
    }
    for (int64_t i = array->count - 1; input->distinct && i > 0; i--) {
        int64_t other = (int64_t)td__random_below(random, (uint64_t)i + 1);
        double swapped = array->values[i];
        array->values[i] = array->values[other];
        array->values[other] = swapped;
    }
}

/* Writes the float64 values into the tensor and rounds them to what the tensor can hold. */
static void store(const op_array *array, td_tensor *tensor) {
    void *data = td_tensor_data(tensor);
    for (int64_t i = 0; i < array->count; i++) {
        double value = array->values[i];
        switch (td_tensor_dtype(tensor)) {
        case TD_FLOAT32:
            ((float *)data)[i] = (float)value;
            array->values[i] = (double)(float)value;
            break;
        case TD_INT32:
            ((int32_t *)data)[i] = (int32_t)value;
            break;
        case TD_INT64:
            ((int64_t *)data)[i] = (int64_t)value;
            break;
        case TD_UINT8:
            ((uint8_t *)data)[i] = (uint8_t)value;
            break;
        default:
            ((double *)data)[i] = value;
            break;
        }
    }
}

op_array op_make_array(const td_shape *shape) {
    op_array array = {.shape = *shape};
    td_error error = {0};
    assert_ok(td_shape_check(shape, TD_FLOAT64, &array.count, &error), error);
    array.values = op_allocate(array.count, sizeof *array.values);
    return array;
}

void op_make_data(const op_input *inputs, int count, op_data *data) {
    td__random random;
    td__random_seed(&random, 7, 0);
    *data = (op_data){.count = count ? count : 1};
    for (int i = 0; i < data->count; i++) {
        td_error error = {0};
        if (inputs[i].optional && inputs[i].shape.rank == 0) {
            continue;
        }
        data->arrays[i] = op_make_array(&inputs[i].shape);
        char name[16];
        snprintf(name, sizeof name, "in%d", i);
        data->tensors[i] = td_tensor_create(name, inputs[i].dtype, inputs[i].shape, &error);
        assert_non_null(data->tensors[i]);
        data->differentiated[i] = inputs[i].dtype == TD_FLOAT32 && !inputs[i].constant;
        fill(&random, &inputs[i], &data->arrays[i]);
        store(&data->arrays[i], data->tensors[i]);
    }
}

void op_release_data(op_data *data) {
    for (int i = 0; i < data->count; i++) {
        free(data->arrays[i].values);
        td_tensor_destroy(data->tensors[i]);
    }
}

td_tape *op_make_tape(void) {
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    assert_non_null(tape);
    return tape;
}

td_tensor *op_build_case(td_tape *tape, const op_case *c, op_data *data) {
    td_tape_seed(tape, OP_SEED, 0);
    for (int i = 0; i < data->count; i++) {
        if (data->tensors[i]) {
            store(&data->arrays[i], data->tensors[i]);
        }
    }
    return c->build(tape, data->tensors, c->options);
}

td_tensor *op_build_or_fail(td_tape *tape, const op_case *c, op_data *data) {
    td_tensor *y = op_build_case(tape, c, data);
    if (!y) {
        td_error error = {0};
        td_status status = td_tape_status(tape, &error);
        fail_msg("%s: status %d, %s", c->name, (int)status, error.text);
    }
    return y;
}
