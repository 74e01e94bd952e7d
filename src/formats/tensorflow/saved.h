/* What reading and converting a SavedModel's functions share. */
#ifndef TAPEDECK_TENSORFLOW_SAVED_H
#define TAPEDECK_TENSORFLOW_SAVED_H

#include "base/chunks.h"
#include "base/proto.h"
#include "nn/operators.h"
#include "tensorflow/bundle.h"

#include <jansson.h>

enum {
    TD__SAVED_INPUTS = 256, /* of a node */
    TD__SAVED_KNOWN = 32    /* numbers of a value that are followed */
};

typedef struct td__saved_node {
    const char *name, *op;
    td__proto message;
} td__saved_node;

/* A function, or the graph around all of them, which has no arguments. */
typedef struct td__saved_function {
    const char *name;
    td__saved_node *nodes;
    size_t count, capacity;
    json_t *places;                    /* by name: which of the nodes; ours */
    json_t *results;                   /* by name: the output of a node that it is; ours */
    const char **arguments, **outputs; /* names */
    size_t argument_count, output_count;
} td__saved_function;

typedef struct td__saved_port {
    const char *name, *tensor; /* the signature's, and the graph's "node:0" */
    int64_t type;
    td_shape shape;
    bool known; /* its shape */
} td__saved_port;

typedef struct td__saved_file {
    const char *path;
    td__operators *to;
    td__saved_function *functions; /* the first is the graph */
    size_t function_count, function_capacity;
    json_t *by_name;  /* of functions: which; ours */
    json_t *captured; /* of functions: the objects that stand for its last arguments; ours */
    json_t *keys;     /* of objects that are variables: [key, name]; ours */
    td__saved_port *inputs, *outputs;
    size_t input_count, output_count;
} td__saved_file;

/* Names are copied to `to`. The caller releases it, also after a failure. */
TD_NODISCARD td_status td__saved_file_read(td__saved_file *file, const void *bytes, size_t size,
                                           const td__bundle *bundle, td_error *error);
void td__saved_file_release(td__saved_file *file);

/* An attribute of a node; false when it has none. */
bool td__saved_attribute(const td__saved_node *node, const char *name, td__proto *value);
int64_t td__saved_int(const td__saved_node *node, const char *name, int64_t fallback);
double td__saved_real(const td__saved_node *node, const char *name, double fallback);
/* A text, copied; NULL: none. */
const char *td__saved_text(td__operators *to, const td__saved_node *node, const char *name);
/* A list of numbers; how many there are, at most room. */
size_t td__saved_ints(const td__saved_node *node, const char *name, size_t room, int64_t *out);
/* The declared shape of an output; false: unknown. */
bool td__saved_shape(const td__saved_node *node, size_t output, td_shape *shape);
bool td__saved_read_shape(td__proto message, td_shape *shape);

/* --- converting --------------------------------------------------------------------------- */

/* A value of a function while it is converted. */
typedef struct td__saved_value {
    const char *name; /* in the list of operators; NULL: it is a variable, a list or nothing */
    bool turned;      /* a kernel, as ONNX has it */
    int64_t variable; /* the object; -1 */
    int64_t list;     /* its number; -1 */
    bool ranked;      /* its shape is declared */
    td_shape shape;   /* -1: open */
    bool known;       /* all of its elements are: */
    size_t count;
    int64_t numbers[TD__SAVED_KNOWN];
    bool unsure[TD__SAVED_KNOWN]; /* of a shape: the size is open; known is false then */
    bool partly;                  /* numbers are there, some of them unsure */
    int64_t type;                 /* TensorFlow's; 0: unknown */
} td__saved_value;

typedef struct td__saved_call {
    td__operators *to;
    const td__saved_node *node;
    const char *word; /* of the row */
    td__saved_value *in;
    size_t count;
    td__saved_value *out; /* output 0, which is NULL and unknown before; more of them: */
    const char *more[TD__SAVED_INPUTS];
    size_t more_count;
} td__saved_call;

/* The name of input i; NULL: no such. */
#define IN(call, i) ((i) < (call)->count ? (call)->in[i].name : NULL)

/* The name of output 0, or NULL after a refusal. */
typedef const char *td__saved_convert(td__saved_call *call);
typedef struct td__saved_operator {
    const char *op;
    td__saved_convert *convert;
    const char *word;
} td__saved_operator;
const td__saved_operator *td__saved_find(const char *op);
/* Those with windows (saved_windows.c). */
td__saved_convert td__saved_convolve, td__saved_convolve_transposed, td__saved_pool,
    td__saved_batch_norm, td__saved_resize;
/* Follows numbers that are known: sizes and counters. */
void td__saved_follow(td__saved_call *call);

#endif
