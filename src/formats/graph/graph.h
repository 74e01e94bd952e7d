/* A graph of operators: values by number, nodes in an order that can be run.
 *
 * A codec makes it from a file (src/formats/onnx), or td__graph_build from a list of operators
 * (nn/operators.h): our own layers, TensorFlow Lite, torch.export. Both check what can be checked without running
 * anything: names are resolved to numbers, every value is made exactly once and before it is used, types and
 * shapes are in range. Operators are those of ONNX, which other formats' are converted to: names, inputs,
 * attributes and element types mean what its specification says.
 */
#ifndef TAPEDECK_GRAPH_GRAPH_H
#define TAPEDECK_GRAPH_GRAPH_H

#include "base/chunks.h"
#include "tapedeck/tensor.h"

/* Element types, numbered as the attribute `to` of Cast and ONNX's files number them. */
typedef enum td__graph_type {
    TD__GRAPH_UNDEFINED = 0,
    TD__GRAPH_FLOAT = 1,
    TD__GRAPH_UINT8 = 2,
    TD__GRAPH_INT8 = 3,
    TD__GRAPH_UINT16 = 4,
    TD__GRAPH_INT16 = 5,
    TD__GRAPH_INT32 = 6,
    TD__GRAPH_INT64 = 7,
    TD__GRAPH_STRING = 8,
    TD__GRAPH_BOOL = 9,
    TD__GRAPH_FLOAT16 = 10,
    TD__GRAPH_DOUBLE = 11,
    TD__GRAPH_UINT32 = 12,
    TD__GRAPH_UINT64 = 13,
    TD__GRAPH_BFLOAT16 = 16,
    TD__GRAPH_FLOAT8E4M3FN = 17,
    TD__GRAPH_FLOAT8E4M3FNUZ = 18,
    TD__GRAPH_FLOAT8E5M2 = 19,
    TD__GRAPH_FLOAT8E5M2FNUZ = 20,
    TD__GRAPH_UINT4 = 21,
    TD__GRAPH_INT4 = 22,
    TD__GRAPH_FLOAT4E2M1 = 23,
    TD__GRAPH_FLOAT8E8M0 = 24,
    TD__GRAPH_UINT2 = 25,
    TD__GRAPH_INT2 = 26,
    TD__GRAPH_FLOAT6E2M3 = 27,
    TD__GRAPH_FLOAT6E3M2 = 28,
} td__graph_type;

/* Values are kept in one of three element types, whatever type they have in ONNX: float and those
 * that are smaller in float32, double in float64, all integers and bool (0, 1) in int64. Of text, int64 has the
 * addresses (td__graph_text_at). What does not fit (complex numbers, uint64 above int64) is not
 * supported. */
td_dtype td__graph_storage(td__graph_type type);
/* Two's complement: the number that a type of integers has for these bits. */
int64_t td__graph_wrap(td__graph_type type, uint64_t bits);
/* Whether it is a type of numbers that can be kept. */
bool td__graph_is_stored(td__graph_type type);
/* Element i of a tensor of text. It lives as long as the file's graph or the recording. */
const char *td__graph_text_at(const td_tensor *text, int64_t i);
void td__graph_put_text(td_tensor *text, int64_t i, const char *value);
/* "float", "int64", …; "an unknown type" for what is none. */
const char *td__graph_type_name(td__graph_type type);
/* Wraps integers and rounds halves to what the ONNX type can hold, in place. */
void td__graph_settle(td__graph_type type, int64_t count, void *values);

/* Floats of 8 bits and less (small.c). One from its bits, of which there are `width`. */
bool td__graph_is_small(td__graph_type type);
float td__graph_small_decode(td__graph_type type, unsigned bits, unsigned width);
/* To the nearest that the type has, ties to even; what is too large becomes the largest or, without
 * saturate, what the type has beyond. mode counts for FLOAT8E8M0 alone: 'u'p, 'd'own, 'n'earest. */
float td__graph_small_round(td__graph_type type, float value, bool saturate, char mode);

/* A constant: initialiser or attribute. */
typedef struct td__graph_constant {
    td__graph_type type;
    td_tensor *tensor; /* owned, in the storage of its type */
} td__graph_constant;

typedef enum td__graph_attribute_kind {
    TD__GRAPH_ATTRIBUTE_FLOAT = 1,
    TD__GRAPH_ATTRIBUTE_INT = 2,
    TD__GRAPH_ATTRIBUTE_TEXT = 3,
    TD__GRAPH_ATTRIBUTE_TENSOR = 4,
    TD__GRAPH_ATTRIBUTE_GRAPH = 5,
    TD__GRAPH_ATTRIBUTE_FLOATS = 6,
    TD__GRAPH_ATTRIBUTE_INTS = 7,
    TD__GRAPH_ATTRIBUTE_TEXTS = 8,
    TD__GRAPH_ATTRIBUTE_OTHER = 9,
} td__graph_attribute_kind;

typedef struct td__graph td__graph;

typedef struct td__graph_attribute {
    const char *name;
    td__graph_attribute_kind kind;
    float number;                /* FLOAT */
    int64_t integer;             /* INT */
    const char *text;            /* TEXT */
    td__graph_constant constant; /* TENSOR */
    td__graph *graph;            /* GRAPH; owned */
    size_t first_capture;        /* GRAPH: where what it captures begins among the node's inputs */
    size_t inner;                /* GRAPH: its number among those of all nodes */
    size_t count;                /* of the lists */
    const float *numbers;
    const int64_t *integers;
    const char *const *texts;
} td__graph_attribute;

typedef struct td__graph_node {
    const char *op_type;    /* "Conv" */
    const char *domain;     /* "" is ONNX's own */
    const char *name;       /* may be empty */
    const int32_t *inputs;  /* values; -1: left out. Last come those that its graphs capture */
    const int32_t *outputs; /* values; -1: left out */
    size_t input_count, output_count;
    size_t capture_count; /* among the inputs */
    const td__graph_attribute *attributes;
    size_t attribute_count;
} td__graph_node;

/* What a value is, numbered as ONNX's files number it. */
typedef enum td__graph_kind {
    TD__GRAPH_KIND_TENSOR = 1,
    TD__GRAPH_KIND_SEQUENCE = 4,
    TD__GRAPH_KIND_MAP = 5,
    TD__GRAPH_KIND_SPARSE = 8,
    TD__GRAPH_KIND_OPTIONAL = 9,
} td__graph_kind;

typedef struct td__graph_info {
    const char *name;
    td__graph_kind kind; /* 0: not said */
    td__graph_type type; /* of a tensor; UNDEFINED: not said */
    bool has_shape;
    td_shape shape;              /* -1: not said */
    td__graph_constant constant; /* of an initialiser; tensor NULL: none */
} td__graph_info;

/* A graph inside a node (the body of a loop) has values of the graph around it among its own: they
 * are captured when it runs. */
struct td__graph {
    const char *name;
    int64_t opset; /* of ONNX's own domain */
    td__graph_info *values;
    size_t value_count;
    td__graph_node *nodes;
    size_t node_count;
    int32_t *inputs; /* without those that have an initialiser */
    size_t input_count;
    int32_t *outputs;
    size_t output_count;
    int32_t *captures; /* of a graph inside a node: values that the graph around it has */
    size_t capture_count;
    size_t inner_count; /* of the graphs in its nodes, without those within them */
    td__chunk *memory;  /* everything above that is no tensor and no graph; NULL within a node */
};

/* Accepts NULL. */
void td__graph_destroy(td__graph *graph);

/* An attribute by name; NULL when the node has none of it. */
const td__graph_attribute *td__graph_attribute_of(const td__graph_node *node, const char *name);
/* With defaults; of the wrong kind is as if it were not there. */
int64_t td__graph_int(const td__graph_node *node, const char *name, int64_t fallback);
float td__graph_float(const td__graph_node *node, const char *name, float fallback);
const char *td__graph_text(const td__graph_node *node, const char *name, const char *fallback);
/* The number of integers and where they are, which is somewhere even when there are none. */
size_t td__graph_ints(const td__graph_node *node, const char *name, const int64_t **integers);
/* Number i of such a list; fallback where it has fewer. */
int64_t td__graph_listed(const td__graph_node *node, const char *name, size_t i, int64_t fallback);

#endif
