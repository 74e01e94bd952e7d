/* An ONNX model as its file has it: values by number, nodes in an order that can be run.
 *
 * td__onnx_parse checks what can be checked without running anything: names are resolved to
 * numbers, every value is made exactly once and before it is used, types and shapes are in range.
 */
#ifndef TAPEDECK_ONNX_GRAPH_H
#define TAPEDECK_ONNX_GRAPH_H

#include "tapedeck/tensor.h"

/* TensorProto.DataType. */
typedef enum td__onnx_type {
    TD__ONNX_UNDEFINED = 0,
    TD__ONNX_FLOAT = 1,
    TD__ONNX_UINT8 = 2,
    TD__ONNX_INT8 = 3,
    TD__ONNX_UINT16 = 4,
    TD__ONNX_INT16 = 5,
    TD__ONNX_INT32 = 6,
    TD__ONNX_INT64 = 7,
    TD__ONNX_STRING = 8,
    TD__ONNX_BOOL = 9,
    TD__ONNX_FLOAT16 = 10,
    TD__ONNX_DOUBLE = 11,
    TD__ONNX_UINT32 = 12,
    TD__ONNX_UINT64 = 13,
    TD__ONNX_BFLOAT16 = 16,
    TD__ONNX_FLOAT8E4M3FN = 17,
    TD__ONNX_FLOAT8E4M3FNUZ = 18,
    TD__ONNX_FLOAT8E5M2 = 19,
    TD__ONNX_FLOAT8E5M2FNUZ = 20,
    TD__ONNX_UINT4 = 21,
    TD__ONNX_INT4 = 22,
    TD__ONNX_FLOAT4E2M1 = 23,
    TD__ONNX_FLOAT8E8M0 = 24,
    TD__ONNX_UINT2 = 25,
    TD__ONNX_INT2 = 26,
    TD__ONNX_FLOAT6E2M3 = 27,
    TD__ONNX_FLOAT6E3M2 = 28,
} td__onnx_type;

/* Values are kept in one of three element types, whatever type they have in ONNX: float and those
 * that are smaller in float32, double in float64, all integers and bool (0, 1) in int64. Of text, int64 has the
 * addresses (td__onnx_text_at). What does not fit (complex numbers, uint64 above int64) is not
 * supported. */
td_dtype td__onnx_storage(td__onnx_type type);
/* Whether it is a type of numbers that can be kept. */
bool td__onnx_is_stored(td__onnx_type type);
/* Element i of a tensor of text. It lives as long as the file's graph or the recording. */
const char *td__onnx_text_at(const td_tensor *text, int64_t i);
void td__onnx_put_text(td_tensor *text, int64_t i, const char *value);
/* "float", "int64", …; "an unknown type" for what is none. */
const char *td__onnx_type_name(td__onnx_type type);
/* Wraps integers and rounds halves to what the ONNX type can hold, in place. */
void td__onnx_settle(td__onnx_type type, int64_t count, void *values);

/* Floats of 8 bits and less (small.c). One from its bits, of which there are `width`. */
bool td__onnx_is_small(td__onnx_type type);
float td__onnx_small_decode(td__onnx_type type, unsigned bits, unsigned width);
/* To the nearest that the type has, ties to even; what is too large becomes the largest or, without
 * saturate, what the type has beyond. mode counts for FLOAT8E8M0 alone: 'u'p, 'd'own, 'n'earest. */
float td__onnx_small_round(td__onnx_type type, float value, bool saturate, char mode);

/* A constant: initialiser or attribute. */
typedef struct td__onnx_constant {
    td__onnx_type type;
    td_tensor *tensor; /* owned, in the storage of its type */
} td__onnx_constant;

typedef enum td__onnx_attribute_kind {
    TD__ONNX_ATTRIBUTE_FLOAT = 1,
    TD__ONNX_ATTRIBUTE_INT = 2,
    TD__ONNX_ATTRIBUTE_TEXT = 3,
    TD__ONNX_ATTRIBUTE_TENSOR = 4,
    TD__ONNX_ATTRIBUTE_GRAPH = 5,
    TD__ONNX_ATTRIBUTE_FLOATS = 6,
    TD__ONNX_ATTRIBUTE_INTS = 7,
    TD__ONNX_ATTRIBUTE_TEXTS = 8,
    TD__ONNX_ATTRIBUTE_OTHER = 9,
} td__onnx_attribute_kind;

typedef struct td__onnx_graph td__onnx_graph;

typedef struct td__onnx_attribute {
    const char *name;
    td__onnx_attribute_kind kind;
    float number;               /* FLOAT */
    int64_t integer;            /* INT */
    const char *text;           /* TEXT */
    td__onnx_constant constant; /* TENSOR */
    td__onnx_graph *graph;      /* GRAPH; owned */
    size_t first_capture;       /* GRAPH: where what it captures begins among the node's inputs */
    size_t inner;               /* GRAPH: its number among those of all nodes */
    size_t count;               /* of the lists */
    const float *numbers;
    const int64_t *integers;
    const char *const *texts;
} td__onnx_attribute;

typedef struct td__onnx_node {
    const char *op_type;    /* "Conv" */
    const char *domain;     /* "" is ONNX's own */
    const char *name;       /* may be empty */
    const int32_t *inputs;  /* values; -1: left out. Last come those that its graphs capture */
    const int32_t *outputs; /* values; -1: left out */
    size_t input_count, output_count;
    size_t capture_count; /* among the inputs */
    const td__onnx_attribute *attributes;
    size_t attribute_count;
} td__onnx_node;

/* TypeProto's kinds. */
typedef enum td__onnx_kind {
    TD__ONNX_KIND_TENSOR = 1,
    TD__ONNX_KIND_SEQUENCE = 4,
    TD__ONNX_KIND_MAP = 5,
    TD__ONNX_KIND_SPARSE = 8,
    TD__ONNX_KIND_OPTIONAL = 9,
} td__onnx_kind;

typedef struct td__onnx_info {
    const char *name;
    td__onnx_kind kind; /* 0: not said */
    td__onnx_type type; /* of a tensor; UNDEFINED: not said */
    bool has_shape;
    td_shape shape;             /* -1: not said */
    td__onnx_constant constant; /* of an initialiser; tensor NULL: none */
} td__onnx_info;

/* A graph inside a node (the body of a loop) has values of the graph around it among its own: they
 * are captured when it runs. */
struct td__onnx_graph {
    const char *name;
    int64_t opset; /* of ONNX's own domain */
    td__onnx_info *values;
    size_t value_count;
    td__onnx_node *nodes;
    size_t node_count;
    int32_t *inputs; /* without those that have an initialiser */
    size_t input_count;
    int32_t *outputs;
    size_t output_count;
    int32_t *captures; /* of a graph inside a node: values that the graph around it has */
    size_t capture_count;
    size_t inner_count; /* of the graphs in its nodes, without those within them */
    void *memory;       /* everything above that is no tensor and no graph; NULL within a node */
};

/* bytes may be let go of afterwards. path is for messages and says where external data may lie:
 * in the folder of the file or beneath it; NULL: nowhere. NULL on failure. */
td__onnx_graph *td__onnx_parse(const void *bytes, size_t size, const char *path, td_error *error);
/* The same, but large float initialisers are not copied: their tensors lie in bytes, which must stay
 * as long as they do, at any address. */
td__onnx_graph *td__onnx_parse_lent(const void *bytes, size_t size, const char *path,
                                    td_error *error);
/* The same of a file whose float initialisers may have a shape and no values: the data of their
 * tensors is NULL. They may have at most so many bytes. */
td__onnx_graph *td__onnx_parse_stripped(const void *bytes, size_t size, size_t weights,
                                        const char *path, td_error *error);
/* Accepts NULL. */
void td__onnx_graph_destroy(td__onnx_graph *graph);

/* A TensorProto by itself, as in the files of ONNX's test data. *memory has its text, if it is such:
 * td__onnx_chunks_free lets go of it. */
TD_NODISCARD td_status td__onnx_parse_tensor(const void *bytes, size_t size,
                                             td__onnx_constant *constant, void **memory,
                                             td_error *error);
/* Accepts NULL. */
void td__onnx_chunks_free(void *chunks);

/* An attribute by name; NULL when the node has none of it. */
const td__onnx_attribute *td__onnx_attribute_of(const td__onnx_node *node, const char *name);
/* With defaults; of the wrong kind is as if it were not there. */
int64_t td__onnx_int(const td__onnx_node *node, const char *name, int64_t otherwise);
float td__onnx_float(const td__onnx_node *node, const char *name, float otherwise);
const char *td__onnx_text(const td__onnx_node *node, const char *name, const char *otherwise);
/* The number of integers and where they are, which is somewhere even when there are none. */
size_t td__onnx_ints(const td__onnx_node *node, const char *name, const int64_t **integers);

#endif
