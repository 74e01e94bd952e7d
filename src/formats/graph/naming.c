/* Names for layers and parameters, from what exporters write.
 *
 *   PyTorch   value "layer1.0.conv1.weight", node "/layer1/layer1.0/conv1/Conv"
 *   tf2onnx   value "sequential/dense/MatMul/ReadVariableOp:0", node "sequential/dense/MatMul"
 *
 * Names that were made up by an exporter ("onnx::MatMul_12", "Relu_3", "17") are none.
 */
#include "graph/source.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct part {
    const char *text;
    size_t size;
} part;

enum { MAX_PARTS = 32 };

static bool all_digits(const char *text, size_t size) {
    bool digits = true;
    for (size_t i = 0; i < size; i++) {
        digits = digits && isdigit((unsigned char)text[i]);
    }
    return digits;
}

/* "MatMul", "Relu_3", "ReadVariableOp", "const_fold_opt__12": a machine's word. */
static bool is_made_up(part p) {
    if (p.size == 0 || all_digits(p.text, p.size) || isupper((unsigned char)p.text[0])) {
        return true;
    }
    return strncmp(p.text, "onnx", 4) == 0 || strncmp(p.text, "const_", 6) == 0 ||
           strncmp(p.text, "new_shape", 9) == 0;
}

/* Without tf2onnx's ":0" and "__12". */
static size_t useful_length(const char *from) {
    size_t size = strlen(from);
    const char *colon = memchr(from, ':', size);
    if (colon && all_digits(colon + 1, strlen(colon + 1))) {
        size = (size_t)(colon - from);
    }
    for (size_t i = size; i > 2; i--) {
        if (from[i - 1] == '_' && from[i - 2] == '_' && all_digits(from + i, size - i)) {
            return i - 2;
        }
    }
    return size;
}

/* Splits at '/'; a part that repeats the one before it ("layer1", "layer1.0") replaces it. */
static size_t split_name(const char *from, size_t size, part parts[MAX_PARTS]) {
    size_t count = 0;
    for (size_t begin = 0, end; begin <= size && count < MAX_PARTS; begin = end + 1) {
        const char *slash = memchr(from + begin, '/', size - begin);
        end = slash ? (size_t)(slash - from) : size;
        part next = {from + begin, end - begin};
        const part *before = count ? &parts[count - 1] : NULL;
        if (before && next.size > before->size && next.text[before->size] == '.' &&
            memcmp(next.text, before->text, before->size) == 0) {
            count--;
        }
        if (next.size > 0) {
            parts[count++] = next;
        }
    }
    return count;
}

static void append_part(char name[TD__GRAPH_NAME_SIZE], part p) {
    size_t used = strlen(name);
    if (used && used < TD__GRAPH_NAME_SIZE - 1) {
        name[used++] = '.';
    }
    for (size_t i = 0; i < p.size && used < TD__GRAPH_NAME_SIZE - 8; i++) {
        unsigned char c = (unsigned char)p.text[i];
        name[used++] = isalnum(c) || c == '.' || c == '-' ? (char)c : '_';
    }
    name[used] = 0;
}

void td__graph_layer_name(const char *from, bool of_value, char name[TD__GRAPH_NAME_SIZE]) {
    part parts[MAX_PARTS];
    size_t size = useful_length(from), count = split_name(from, size, parts), first = 0;
    bool path = memchr(from, '/', size);
    *name = 0;
    if (of_value && !path && count == 1) { /* "conv1.weight" */
        size_t dot = parts[0].size;
        while (dot > 0 && parts[0].text[dot - 1] != '.') {
            dot--;
        }
        parts[0].size = dot ? dot - 1 : 0;
    }
    while (count > 0 && is_made_up(parts[count - 1])) {
        count--;
    }
    if (path && from[0] != '/') { /* TensorFlow: the model's own name comes first */
        while (first < count && is_made_up(parts[first])) {
            first++;
        }
        first += first + 1 < count;
    }
    for (size_t i = first; i < count; i++) {
        append_part(name, parts[i]);
    }
}

void td__graph_parameter_name(const char *from, const char *op_type,
                              char name[TD__GRAPH_NAME_SIZE]) {
    part parts[MAX_PARTS];
    size_t count = split_name(from, useful_length(from), parts);
    *name = 0;
    if (count > 0) {
        part last = parts[count - 1];
        for (size_t i = last.size; i-- > 0;) {
            if (last.text[i] == '.') {
                last = (part){last.text + i + 1, last.size - i - 1};
                break;
            }
        }
        if (!is_made_up(last)) {
            append_part(name, last);
        }
    }
    if (!*name) {
        const char *word = strcmp(op_type, "Add") == 0   ? "bias"
                           : strcmp(op_type, "Mul") == 0 ? "scale"
                                                         : "weight";
        (void)snprintf(name, TD__GRAPH_NAME_SIZE, "%s", word);
    }
}

/* "GlobalAveragePool" is "global_average_pool", "LSTM" is "lstm". */
void td__graph_operator_name(const char *op_type, char name[TD__GRAPH_NAME_SIZE]) {
    size_t used = 0;
    for (size_t i = 0; op_type[i] && used < TD__GRAPH_NAME_SIZE - 8; i++) {
        unsigned char c = (unsigned char)op_type[i];
        bool begins = isupper(c) && i > 0 &&
                      (islower((unsigned char)op_type[i - 1]) ||
                       (islower((unsigned char)op_type[i + 1]) && op_type[i + 1]));
        if (begins) {
            name[used++] = '_';
        }
        name[used++] = isalnum(c) ? (char)tolower(c) : '_';
    }
    name[used] = 0;
}
