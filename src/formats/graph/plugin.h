/* Operators that no trainable network uses are in libtapedeck-operators.so (src/formats/operators), which is
 * loaded when a graph first names an operator that the library does not have.
 *
 * The plugin does not link the library, which may be a shared library, part of a program (a Python wheel) or
 * a static library: it calls the library's functions through the table that it is given when it is loaded.
 * Its operators call them by their usual names; src/formats/operators/plugin.c defines these.
 */
#ifndef TAPEDECK_GRAPH_PLUGIN_H
#define TAPEDECK_GRAPH_PLUGIN_H

#include "graph/classes.h"
#include "graph/host.h"
#include "graph/ops/attention.h"
#include "graph/ops/quantized.h"
#include "tape/broadcast.h"

/* What the plugin's operators call: X(type, name, parameters, arguments). */
#define TD__OPERATOR_HOST(X)                                                                       \
    X(bool, td__broadcast_next_row, (td__broadcast_rows * rows), (rows))                           \
    X(bool, td__broadcast_rows_init,                                                               \
      (td_tape * tape, const char *op, size_t count, td_tensor *const *operands,                   \
       td__broadcast_rows *rows),                                                                  \
      (tape, op, count, operands, rows))                                                           \
    X(td_tensor *, td__move,                                                                       \
      (td_tape * tape, td_tensor * x, const td__move_map *map, const void *fill),                  \
      (tape, x, map, fill))                                                                        \
    X(bool, td__move_map_init,                                                                     \
      (td_tape * tape, const char *op, td_shape shape, td__move_map *map), (tape, op, shape, map)) \
    X(td_tensor *, td__graph_after, (td__graph_call * call, td_tensor * past, td_tensor * x),      \
      (call, past, x))                                                                             \
    X(td_tensor *, td__graph_as_float, (td__graph_call * call, size_t i), (call, i))               \
    X(const td__graph_attribute *, td__graph_attribute_of,                                         \
      (const td__graph_node *node, const char *name), (node, name))                                \
    X(bool, td__graph_axis, (td__graph_call * call, int64_t axis, int32_t rank, int32_t * out),    \
      (call, axis, rank, out))                                                                     \
    X(td_tensor *, td__graph_centred,                                                              \
      (td__graph_call * call, size_t input, size_t zero, int64_t axis), (call, input, zero, axis)) \
    X(td_tensor *, td__graph_cut,                                                                  \
      (td__graph_call * call, td_tensor * x, int32_t axis, int64_t begin, int64_t step,            \
       int64_t count),                                                                             \
      (call, x, axis, begin, step, count))                                                         \
    X(td_tensor *, td__graph_dequantized,                                                          \
      (td__graph_call * call, size_t input, size_t scale, size_t zero, int64_t axis),              \
      (call, input, scale, zero, axis))                                                            \
    X(td_tensor *, td__graph_filled, (td_tape * tape, td_shape shape, float value),                \
      (tape, shape, value))                                                                        \
    X(const td__graph_operator *, td__graph_find_operator,                                         \
      (const char *domain, const char *name, int64_t opset), (domain, name, opset))                \
    X(float, td__graph_float, (const td__graph_node *node, const char *name, float fallback),      \
      (node, name, fallback))                                                                      \
    X(td__graph_value *, td__graph_input, (td__graph_call * call, size_t i), (call, i))            \
    X(int64_t, td__graph_int, (const td__graph_node *node, const char *name, int64_t fallback),    \
      (node, name, fallback))                                                                      \
    X(int64_t, td__graph_integer, (const td_tensor *x, int64_t i), (x, i))                         \
    X(td_tensor *, td__graph_integer_product,                                                      \
      (td__graph_call * call, const td_tensor *a, const td_tensor *b), (call, a, b))               \
    X(size_t, td__graph_ints,                                                                      \
      (const td__graph_node *node, const char *name, const int64_t **integers),                    \
      (node, name, integers))                                                                      \
    X(bool, td__graph_is_float, (td__graph_call * call, size_t i), (call, i))                      \
    X(bool, td__graph_is_integer, (const td_tensor *x), (x))                                       \
    X(td_tensor *, td__graph_join,                                                                 \
      (td__graph_call * call, size_t count, td_tensor *const *parts, int32_t axis),                \
      (call, count, parts, axis))                                                                  \
    X(td_tensor *, td__graph_join_heads, (td__graph_call * call, td_tensor * x), (call, x))        \
    X(td__graph_labels, td__graph_labels_of, (const td__graph_node *node, const char *prefix),     \
      (node, prefix))                                                                              \
    X(td__graph_value *, td__graph_made, (td__graph_call * call, size_t i), (call, i))             \
    X(bool, td__graph_measure, (td__graph_call * call, attention * a), (call, a))                  \
    X(td_tensor *, td__graph_new, (td__graph_call * call, td__graph_type type, td_shape shape),    \
      (call, type, shape))                                                                         \
    X(bool, td__graph_output,                                                                      \
      (td__graph_call * call, size_t i, td__graph_type type, td_tensor * tensor),                  \
      (call, i, type, tensor))                                                                     \
    X(bool, td__graph_output_either,                                                               \
      (td__graph_call * call, size_t i, td__graph_type type, td_tensor * tensor, bool last),       \
      (call, i, type, tensor, last))                                                               \
    X(bool, td__graph_output_quantized,                                                            \
      (td__graph_call * call, const td_tensor *x, size_t scale, size_t zero),                      \
      (call, x, scale, zero))                                                                      \
    X(bool, td__graph_pass, (td__graph_call * call, size_t i, size_t j), (call, i, j))             \
    X(td_tensor *, td__graph_plain, (td__graph_call * call, size_t i), (call, i))                  \
    X(bool, td__graph_plains,                                                                      \
      (td__graph_call * call, size_t count, bool same, td_tensor **inputs),                        \
      (call, count, same, inputs))                                                                 \
    X(td_tensor *, td__graph_quantize_range,                                                       \
      (td__graph_call * call, const td_tensor *x, float *scale, int64_t *zero),                    \
      (call, x, scale, zero))                                                                      \
    X(double, td__graph_real, (const td_tensor *x, int64_t i), (x, i))                             \
    X(td_tensor *, td__graph_repeat_heads, (td__graph_call * call, td_tensor * x, int64_t heads),  \
      (call, x, heads))                                                                            \
    X(td_tensor *, td__graph_rms,                                                                  \
      (td_tape * tape, td_tensor * x, int32_t axis, td_tensor * scale, float epsilon),             \
      (tape, x, axis, scale, epsilon))                                                             \
    X(bool, td__graph_rotate,                                                                      \
      (td__graph_call * call, size_t cosines, size_t sines, size_t positions, int64_t heads),      \
      (call, cosines, sines, positions, heads))                                                    \
    X(td_tensor *, td__graph_split_heads, (td__graph_call * call, td_tensor * x, int64_t heads),   \
      (call, x, heads))                                                                            \
    X(td_dtype, td__graph_storage, (td__graph_type type), (type))                                  \
    X(const char *, td__graph_text,                                                                \
      (const td__graph_node *node, const char *name, const char *fallback),                        \
      (node, name, fallback))                                                                      \
    X(const char *, td__graph_text_at, (const td_tensor *text, int64_t i), (text, i))              \
    X(const char *, td__graph_type_name, (td__graph_type type), (type))                            \
    X(td_tensor *, td__graph_value_plain, (td__graph_call * call, td__graph_value * value),        \
      (call, value))                                                                               \
    X(td_tensor *, td__graph_view, (td_tape * tape, td_tensor * x, td_shape shape),                \
      (tape, x, shape))                                                                            \
    X(bool, td__graph_wants, (const td__graph_call *call, size_t i), (call, i))                    \
    X(td_tensor *, td__output, (td_tape * tape, td_dtype dtype, const td_shape *shape),            \
      (tape, dtype, shape))                                                                        \
    X(td_tensor *, td__pick, (td_tape * tape, td_tensor * x, td_shape shape, const int64_t *from), \
      (tape, x, shape, from))                                                                      \
    X(void *, td__scratch, (td_tape * tape, size_t bytes), (tape, bytes))                          \
    X(td_tensor *, td_activate,                                                                    \
      (td_tape * tape, td_tensor * x, td_activation activation, td_number alpha),                  \
      (tape, x, activation, alpha))                                                                \
    X(td_tensor *, td_add, (td_tape * tape, td_tensor * a, td_tensor * b), (tape, a, b))           \
    X(td_tensor *, td_affine, (td_tape * tape, td_tensor * x, float scale, float offset),          \
      (tape, x, scale, offset))                                                                    \
    X(td_tensor *, td_attention,                                                                   \
      (td_tape * tape, td_tensor * q, td_tensor * k, td_tensor * v,                                \
       const td_attention_options *options),                                                       \
      (tape, q, k, v, options))                                                                    \
    X(td_tensor *, td_clip, (td_tape * tape, td_tensor * x, float minimum, float maximum),         \
      (tape, x, minimum, maximum))                                                                 \
    X(td_tensor *, td_concatenate,                                                                 \
      (td_tape * tape, size_t count, td_tensor *const parts[], int32_t axis),                      \
      (tape, count, parts, axis))                                                                  \
    X(td_tensor *, td_dense,                                                                       \
      (td_tape * tape, td_tensor * x, td_tensor * kernel, td_tensor * bias,                        \
       td_activation activation),                                                                  \
      (tape, x, kernel, bias, activation))                                                         \
    X(td_tensor *, td_divide, (td_tape * tape, td_tensor * a, td_tensor * b), (tape, a, b))        \
    X(size_t, td_dtype_size, (td_dtype dtype), (dtype))                                            \
    X(td_tensor *, td_embedding, (td_tape * tape, td_tensor * table, td_tensor * indices),         \
      (tape, table, indices))                                                                      \
    X(td_tensor *, td_exp, (td_tape * tape, td_tensor * x), (tape, x))                             \
    X(td_tensor *, td_layer_normalization,                                                         \
      (td_tape * tape, td_tensor * x, td_tensor * gamma, td_tensor * beta, float epsilon),         \
      (tape, x, gamma, beta, epsilon))                                                             \
    X(td_tensor *, td_log_softmax, (td_tape * tape, td_tensor * x, int32_t axis), (tape, x, axis)) \
    X(td_tensor *, td_matmul,                                                                      \
      (td_tape * tape, td_tensor * a, td_tensor * b, const td_matmul_options *options),            \
      (tape, a, b, options))                                                                       \
    X(td_tensor *, td_multiply, (td_tape * tape, td_tensor * a, td_tensor * b), (tape, a, b))      \
    X(td_tensor *, td_relu, (td_tape * tape, td_tensor * x), (tape, x))                            \
    X(td_tensor *, td_reshape, (td_tape * tape, td_tensor * x, td_shape shape), (tape, x, shape))  \
    X(bool, td_shape_equal, (const td_shape *a, const td_shape *b), (a, b))                        \
    X(const char *, td_shape_text, (const td_shape *shape, char text[TD_SHAPE_TEXT_SIZE]),         \
      (shape, text))                                                                               \
    X(td_tensor *, td_sigmoid, (td_tape * tape, td_tensor * x), (tape, x))                         \
    X(td_tensor *, td_slice,                                                                       \
      (td_tape * tape, td_tensor * x, const int64_t *begin, const int64_t *size),                  \
      (tape, x, begin, size))                                                                      \
    X(td_tensor *, td_subtract, (td_tape * tape, td_tensor * a, td_tensor * b), (tape, a, b))      \
    X(td_tensor *, td_sum, (td_tape * tape, td_tensor * x, const td_reduce_options *options),      \
      (tape, x, options))                                                                          \
    X(td_tensor *, td_tanh, (td_tape * tape, td_tensor * x), (tape, x))                            \
    X(td_status, td_tape_status, (const td_tape *tape, td_error *error), (tape, error))
/* Those that return nothing: X(name, parameters, arguments). */
#define TD__OPERATOR_HOST_VOID(X)                                                                  \
    X(td__graph_put_integer, (td_tensor * y, int64_t i, int64_t value), (y, i, value))             \
    X(td__graph_put_real, (td_tensor * y, int64_t i, double value), (y, i, value))                 \
    X(td__graph_put_text, (td_tensor * text, int64_t i, const char *value), (text, i, value))
/* Functions of inference that rows of the plugin's tables name: X(name). */
#define TD__OPERATOR_HOST_INFER(X)                                                                 \
    X(broadcast)                                                                                   \
    X(conv)                                                                                        \
    X(float_matmul)                                                                                \
    X(gemm)                                                                                        \
    X(same)

typedef struct td__operator_host {
    size_t size;         /* sizeof(td__operator_host) and */
    const char *version; /* td_version(): a plugin of another version is refused */
    bool (*fail)(td__graph_call *call, td_status status, const char *format, ...) TD_PRINTF(3, 4);
#define TD__HOST_FUNCTION(type, name, parameters, arguments) type(*name) parameters;
    TD__OPERATOR_HOST(TD__HOST_FUNCTION)
#undef TD__HOST_FUNCTION
#define TD__HOST_FUNCTION(name, parameters, arguments) void(*name) parameters;
    TD__OPERATOR_HOST_VOID(TD__HOST_FUNCTION)
#undef TD__HOST_FUNCTION
#define TD__HOST_FUNCTION(name) td__graph_infer_function *infer_##name;
    TD__OPERATOR_HOST_INFER(TD__HOST_FUNCTION)
#undef TD__HOST_FUNCTION
} td__operator_host;

typedef struct td__operator_plugin {
    size_t count;
    const td__graph_family *families;
} td__operator_plugin;

/* What the plugin exports, as td_operator_plugin: its tables, or NULL where the host is of another version. The
 * host must live as long as the process. */
typedef const td__operator_plugin *td__operator_plugin_start(const td__operator_host *host);

/* Loads it at the first call; NULL: it is not installed, or not of this version. Thread-safe. */
const td__operator_plugin *td__operator_plugin_load(td_error *error);

#endif
