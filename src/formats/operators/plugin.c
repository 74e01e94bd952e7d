/* The plugin's tables of operators, and the library's functions that they call; see graph/plugin.h. */
#include "graph/plugin.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- functions of the library ------------------------------------------------------------- */

static const td__operator_host *library;

#define FUNCTION(type, name, parameters, arguments)                                                \
    type name parameters {                                                                         \
        return library->name arguments;                                                            \
    }
TD__OPERATOR_HOST(FUNCTION)
#undef FUNCTION

#define FUNCTION(name, parameters, arguments)                                                      \
    void name parameters {                                                                         \
        library->name arguments;                                                                   \
    }
TD__OPERATOR_HOST_VOID(FUNCTION)
#undef FUNCTION

#define FUNCTION(name)                                                                             \
    bool td__graph_infer_##name(td__graph_inference *node) {                                       \
        return library->infer_##name(node);                                                        \
    }
TD__OPERATOR_HOST_INFER(FUNCTION)
#undef FUNCTION

bool td__graph_fail(td__graph_call *call, td_status status, const char *format, ...) {
    char text[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return library->fail(call, status, "%s", text);
}

/* --- tables ------------------------------------------------------------------------------- */

#define FAMILIES(X)                                                                                \
    X("", language_models)                                                                         \
    X("", linear_attentions)                                                                       \
    X("", losses)                                                                                  \
    X("", simplified)                                                                              \
    X("", strings)                                                                                 \
    X("ai.onnx.ml", ml)                                                                            \
    X("ai.onnx.ml", ml_svms)                                                                       \
    X("ai.onnx.ml", ml_trees)                                                                      \
    X("ai.onnx.preview.training", training)                                                        \
    X("com.microsoft", microsoft)                                                                  \
    X("com.microsoft", ms_attentions)                                                              \
    X("com.microsoft", ms_quantized)

#define FAMILY(domain, name) extern const td__graph_operator td__graph_##name[];
FAMILIES(FAMILY)
#undef FAMILY

static const td__graph_family families[] = {
#define FAMILY(domain, name) {domain, td__graph_##name},
    FAMILIES(FAMILY)
#undef FAMILY
};

td__operator_plugin_start td_operator_plugin;
__attribute__((visibility("default"))) const td__operator_plugin *
td_operator_plugin(const td__operator_host *host) {
    static const td__operator_plugin own = {sizeof families / sizeof *families, families};
    if (host->size != sizeof *host || strcmp(host->version, TD_VERSION_STRING) != 0) {
        return NULL;
    }
    library = host;
    return &own;
}
