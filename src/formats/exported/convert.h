/* What the conversion of a program's nodes shares. */
#ifndef TAPEDECK_EXPORTED_CONVERT_H
#define TAPEDECK_EXPORTED_CONVERT_H

#include "base/json.h"
#include "nn/operators.h"

typedef struct td__aten_operator td__aten_operator;

/* One node, while it is converted. */
typedef struct td__aten_call {
    td__operators *to;
    json_t *values;        /* by their names in the program: what they are called in the graph */
    const json_t *tensors; /* by name: types and sizes */
    const json_t *node;
    const td__aten_operator *row;
} td__aten_call;

struct td__aten_operator {
    const char *target; /* "aten.relu.default" */
    /* The name of the first output, or NULL after a refusal. */
    const char *(*convert)(td__aten_call *call);
    const char *word; /* for convert: which operator of ONNX it is */
};

/* NULL: not supported. */
const td__aten_operator *td__aten_find(const char *target);

/* An argument by its name; NULL: not given, or None. */
const json_t *td__aten_argument(const td__aten_call *call, const char *name);
/* The value of a tensor or a number; NULL after a refusal. */
const char *td__aten_value(td__aten_call *call, const char *name);
int64_t td__aten_int(const td__aten_call *call, const char *name, int64_t fallback);
double td__aten_real(const td__aten_call *call, const char *name, double fallback);
bool td__aten_bool(const td__aten_call *call, const char *name);
const char *td__aten_text(const td__aten_call *call, const char *name);
/* A list of numbers, or one; how many, 0 when it is not given. Those that are not in the file: SIZE_MAX
 * after a refusal. */
size_t td__aten_ints(td__aten_call *call, const char *name, int64_t out[TD_MAX_RANK]);
/* A list of sizes, numbers or computed, as a vector. */
const char *td__aten_sizes(td__aten_call *call, const char *name);
/* How many axes a tensor argument has, and its sizes (-1: open); -1 after a refusal. */
int32_t td__aten_shape(td__aten_call *call, const char *name, td_shape *shape);
/* Further outputs: the value of output i. */
void td__aten_give(td__aten_call *call, size_t i, const char *value);
size_t td__aten_outputs(const td__aten_call *call);

#endif
