/* Finding an operator in the families' tables. */
#include "onnx/operator.h"

#include <string.h>

typedef struct family {
    const char *domain;
    const td__onnx_operator *operators;
} family;

static const family families[] = {
#define FAMILY(name) {"", td__onnx_##name},
    TD__ONNX_FAMILIES(FAMILY)
#undef FAMILY
#define FAMILY(domain, name) {domain, td__onnx_##name},
        TD__ONNX_FOREIGN(FAMILY)
#undef FAMILY
};

/* Opsets are counted for ONNX's own operators. */
static bool fits(const td__onnx_operator *known, const char *name, int64_t opset) {
    return known->since <= opset && (!known->until || opset <= known->until) &&
           strcmp(known->name, name) == 0;
}

const td__onnx_operator *td__onnx_find(const char *domain, const char *name, int64_t opset) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const td__onnx_operator *each = families[i].operators;
        for (bool here = !strcmp(families[i].domain, domain); here && each->name; each++) {
            if (fits(each, name, opset)) {
                return each;
            }
        }
    }
    return NULL;
}

static bool is_listed(const td__onnx_node *node, const char *const *names) {
    bool listed = false;
    for (; !listed && *names; names++) {
        listed = !strcmp(*names, node->op_type);
    }
    return listed;
}

/* These move elements, or know what they are. */
bool td__onnx_takes_text(const td__onnx_node *node) {
    static const char *const names[] = {"ArrayFeatureExtractor",
                                        "Cast",
                                        "CastLike",
                                        "Compress",
                                        "Concat",
                                        "ConcatFromSequence",
                                        "Constant",
                                        "Equal",
                                        "Expand",
                                        "Flatten",
                                        "Gather",
                                        "GatherElements",
                                        "GatherND",
                                        "Identity",
                                        "Reshape",
                                        "Shape",
                                        "Size",
                                        "Slice",
                                        "Split",
                                        "SplitToSequence",
                                        "Squeeze",
                                        "StringConcat",
                                        "StringNormalizer",
                                        "StringSplit",
                                        "RegexFullMatch",
                                        "TfIdfVectorizer",
                                        "Tile",
                                        "Transpose",
                                        "Unsqueeze",
                                        "LabelEncoder",
                                        "OneHotEncoder",
                                        NULL};
    return td__onnx_takes_lists(node) || is_listed(node, names);
}

bool td__onnx_takes_lists(const td__onnx_node *node) {
    static const char *const names[] = {"ConcatFromSequence",
                                        "Identity",
                                        "If",
                                        "Loop",
                                        "Optional",
                                        "OptionalGetElement",
                                        "OptionalHasElement",
                                        "Scan",
                                        "SequenceAt",
                                        "SequenceConstruct",
                                        "SequenceErase",
                                        "SequenceInsert",
                                        "SequenceLength",
                                        "SequenceMap",
                                        "ZipMap",
                                        NULL};
    return is_listed(node, names);
}

bool td__onnx_is_random(const td__onnx_node *node) {
    bool random = false;
    for (const td__onnx_operator *each = td__onnx_random; each->name && !*node->domain; each++) {
        random = random || !strcmp(each->name, node->op_type);
    }
    for (size_t i = 0; !random && i < node->attribute_count; i++) {
        const td__onnx_graph *graph = node->attributes[i].graph;
        for (size_t n = 0; graph && n < graph->node_count; n++) {
            random = random || td__onnx_is_random(&graph->nodes[n]);
        }
    }
    return random;
}
