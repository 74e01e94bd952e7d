/* Finding an operator in the families' tables. */
#include "graph/plugin.h"

#include <string.h>

static const td__graph_family families[] = {
#define FAMILY(name) {"", td__graph_##name},
    TD__GRAPH_FAMILIES(FAMILY)
#undef FAMILY
};

/* Opsets are counted for ONNX's own operators. */
static bool operator_fits(const td__graph_operator *known, const char *name, int64_t opset) {
    return known->since <= opset && (!known->until || opset <= known->until) &&
           strcmp(known->name, name) == 0;
}

static const td__graph_operator *find_in(size_t count, const td__graph_family *tables,
                                         const char *domain, const char *name, int64_t opset) {
    for (size_t i = 0; i < count; i++) {
        const td__graph_operator *each = tables[i].operators;
        for (bool here = !strcmp(tables[i].domain, domain); here && each->name; each++) {
            if (operator_fits(each, name, opset)) {
                return each;
            }
        }
    }
    return NULL;
}

const td__graph_operator *td__graph_find_operator(const char *domain, const char *name,
                                                  int64_t opset) {
    const td__graph_operator *found =
        find_in(sizeof families / sizeof *families, families, domain, name, opset);
    const td__operator_plugin *plugin = found ? NULL : td__operator_plugin_load(NULL);
    return plugin ? find_in(plugin->count, plugin->families, domain, name, opset) : found;
}

static bool is_listed(const td__graph_node *node, const char *const *names) {
    bool listed = false;
    for (; !listed && *names; names++) {
        listed = !strcmp(*names, node->op_type);
    }
    return listed;
}

/* These move elements, or know what they are. */
bool td__graph_takes_text(const td__graph_node *node) {
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
    return td__graph_takes_lists(node) || is_listed(node, names);
}

bool td__graph_takes_lists(const td__graph_node *node) {
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

bool td__graph_is_random(const td__graph_node *node) {
    bool random = false;
    for (const td__graph_operator *each = td__graph_random; each->name && !*node->domain; each++) {
        random = random || !strcmp(each->name, node->op_type);
    }
    for (size_t i = 0; !random && i < node->attribute_count; i++) {
        const td__graph *graph = node->attributes[i].graph;
        for (size_t n = 0; graph && n < graph->node_count; n++) {
            random = random || td__graph_is_random(&graph->nodes[n]);
        }
    }
    return random;
}
