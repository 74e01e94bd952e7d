/* What the conversion of a file's operators shares. */
#ifndef TAPEDECK_TFLITE_CONVERT_H
#define TAPEDECK_TFLITE_CONVERT_H

#include "nn/operators.h"
#include "tflite/flat.h"

/* TensorType. */
enum {
    TD__LITE_FLOAT32 = 0,
    TD__LITE_FLOAT16 = 1,
    TD__LITE_INT32 = 2,
    TD__LITE_UINT8 = 3,
    TD__LITE_INT64 = 4,
    TD__LITE_BOOL = 6,
    TD__LITE_INT16 = 7,
    TD__LITE_INT8 = 9,
    TD__LITE_FLOAT64 = 10,
    TD__LITE_UINT32 = 15,
    TD__LITE_UINT16 = 16,
    TD__LITE_INT4 = 17
};

typedef struct td__lite_tensor {
    td_shape shape; /* -1: open */
    int type;
    const uint8_t *data; /* of a constant; NULL: it is none */
    size_t data_size;
    uint8_t *whole;                                /* of a sparse constant: all elements; owned */
    size_t scales, scale_count, zeros, zero_count; /* positions in the file */
    int32_t scale_axis;
    const char *name;   /* of its own in the file */
    const char *value;  /* what it is called in the graph; NULL: not made yet */
    const char *turned; /* the same with its axes in another order */
    uint32_t turned_by;
    bool put_out; /* is an output of the graph already */
} td__lite_tensor;

typedef struct td__lite {
    td__flat flat;
    td__lite_tensor *tensors;
    size_t tensor_count;
    td__operators *to;
    size_t left;   /* bytes that weights may still take */
    size_t visits; /* of the places of sparse constants */
} td__lite;

/* One operator of the file, while it is converted. */
typedef struct td__lite_call {
    td__lite *lite;
    td__operators *to;
    const struct td__lite_operator *row;
    size_t options;         /* table */
    size_t inputs, outputs; /* vectors of int32 */
    size_t input_count, output_count;
} td__lite_call;

/* Input or output i; NULL: left out. */
td__lite_tensor *td__lite_input(td__lite_call *call, size_t i);
td__lite_tensor *td__lite_output(td__lite_call *call, size_t i);
/* The value of input i; NULL after a refusal. */
const char *td__lite_value(td__lite_call *call, size_t i);
/* Of a constant, with its axes in another order (weights). */
const char *td__lite_turned(td__lite_call *call, size_t i, const int *order);
/* Whole numbers of a constant input; false after a refusal. */
bool td__lite_integers(td__lite_call *call, size_t i, int64_t *out, size_t room, size_t *count);

typedef struct td__lite_operator {
    const char *name;
    /* The name of output 0 ("": it is a constant now), or NULL after a refusal; of further ones it sets the tensors' values. NULL:
     * not supported. */
    const char *(*convert)(td__lite_call *call);
    const char *word; /* for convert: which operator of ONNX it is */
} td__lite_operator;

/* By its number in the file; NULL: no such. */
const td__lite_operator *td__lite_operator_of(int32_t code);

#endif
