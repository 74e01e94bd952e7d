/* What the conversion of a program's nodes shares. */
#ifndef TAPEDECK_EXPORTED_CONVERT_H
#define TAPEDECK_EXPORTED_CONVERT_H

#include "base/json.h"
#include "nn/operators.h"

typedef struct td__aten_operator td__aten_operator;

/* Tensors that share memory (aliases.c). */
typedef struct td__aten_aliases {
    json_t *same; /* by name: the tensor that it is by another name */
    json_t
        *views; /* by name: of which tensor, by which node, and how old that tensor's values were */
    json_t *ages; /* by name: how often the memory of a tensor that is no view was written to */
} td__aten_aliases;

/* One node, while it is converted. */
typedef struct td__aten_call {
    td__operators *to;
    json_t *values;        /* by their names in the program: what they are called in the graph */
    const json_t *tensors; /* by name: types and sizes */
    const json_t *nodes, *node;
    td__aten_aliases *aliases;
    const td__aten_operator *row;
} td__aten_call;

struct td__aten_operator {
    const char *target; /* "aten.relu.default" */
    /* The name of the first output, or NULL after a refusal. */
    const char *(*convert)(td__aten_call *call);
    const char *word; /* for convert: which operator of ONNX it is */
};

/* The tables, each of which ends with a row of zeros. */
extern const td__aten_operator td__aten_elements[], td__aten_shapes[], td__aten_layers[],
    td__aten_parts[], td__aten_reductions[];
/* "aten.relu_.default" is found as aten.relu.default, unless it has a row of its own. NULL: not
 * supported. */
const td__aten_operator *td__aten_find(const char *target);

enum { TD__ATEN_PARTS = 256 }; /* of a list of tensors */

/* What elements are: the types of a program differ in width, those of the graph do not. */
typedef enum td__aten_kind {
    TD__ATEN_NONE,
    TD__ATEN_TRUTH,
    TD__ATEN_WHOLE,
    TD__ATEN_REAL
} td__aten_kind;

td__aten_kind td__aten_kind_of(int64_t type);
/* Of an argument, a tensor or a number, and of the first output. */
td__aten_kind td__aten_argument_kind(const td__aten_call *call, const char *name);
td__aten_kind td__aten_made_kind(const td__aten_call *call);

/* An argument by its name; NULL: not given, or None. */
const json_t *td__aten_argument(const td__aten_call *call, const char *name);
/* The name of a tensor argument, NULL when it is none; and of the tensor that it is an alias of. */
const char *td__aten_tensor_name(const td__aten_call *call, const char *name);
const char *td__aten_same(const td__aten_aliases *aliases, const char *name);
/* The value of a tensor or a number; NULL after a refusal. */
const char *td__aten_value(td__aten_call *call, const char *name);
/* The same as elements of that kind. */
const char *td__aten_as(td__aten_call *call, const char *name, td__aten_kind kind);
const char *td__aten_cast(td__aten_call *call, const char *value, td__aten_kind kind);
/* The tensors of a list, NULL where there is none; SIZE_MAX after a refusal. */
size_t td__aten_list(td__aten_call *call, const char *name, const char *values[TD__ATEN_PARTS]);
int64_t td__aten_int(const td__aten_call *call, const char *name, int64_t fallback);
double td__aten_real(const td__aten_call *call, const char *name, double fallback);
bool td__aten_bool(const td__aten_call *call, const char *name);
const char *td__aten_text(const td__aten_call *call, const char *name);
/* A list of numbers, or one; how many, 0 when it is not given. Those that are not in the file: SIZE_MAX
 * after a refusal. */
size_t td__aten_ints(td__aten_call *call, const char *name, int64_t out[TD_MAX_RANK]);
/* A list of sizes, numbers or computed, as a vector. */
const char *td__aten_sizes(td__aten_call *call, const char *name);
/* One of them as a vector; fallback: when it is not given. */
const char *td__aten_size(td__aten_call *call, const char *name, int64_t fallback);
/* How many axes a tensor argument has, and its sizes (-1: open); -1 after a refusal. */
int32_t td__aten_shape(td__aten_call *call, const char *name, td_shape *shape);
bool td__aten_read_sizes(const json_t *info, td_shape *shape);
/* An axis of that tensor, counted from the first; -1 after a refusal. */
int64_t td__aten_axis(td__aten_call *call, const char *tensor, int64_t axis);
/* Further outputs: the value of output i. */
void td__aten_give(td__aten_call *call, size_t i, const char *value);
size_t td__aten_outputs(const td__aten_call *call);
/* The name of an output in the program. */
const json_t *td__aten_output_at(const td__aten_call *call, size_t i);

/* A number of that kind in every element of a tensor of this shape, a vector of sizes. */
const char *td__aten_filled(td__aten_call *call, double number, td__aten_kind kind,
                            const char *shape);
/* The same of known sizes, of reals. */
const char *td__aten_constant(td__aten_call *call, double number, const td_shape *shape);
/* The whole with another value of the part that a slice or a selection with the call's arguments takes of it. */
const char *td__aten_put_part(td__aten_call *view, const char *whole, const char *part);
/* 0, 1, …, as many as the tensor has along the axis. */
const char *td__aten_places(td__aten_call *call, const char *x, int64_t axis);

/* Refuses (returns false) when an argument shares memory that was written to since, in a way that is
 * not followed. */
bool td__aten_check_aliases(td__aten_call *call);
/* Whether the value that a tensor's name stands for is the one that it has by now. */
bool td__aten_is_fresh(const td__aten_aliases *aliases, const char *name);
/* The node was converted, at this place in the list: notes what its outputs share, and what it wrote. NULL
 * after a refusal, otherwise made. */
const char *td__aten_note_aliases(td__aten_call *call, const char *target, size_t place,
                                  const char *made);

#endif
