/* Finding an operator in the families' tables. */
#include "onnx/operator.h"

#include <string.h>

static const td__onnx_operator *const families[] = {
#define FAMILY(name) td__onnx_##name,
    TD__ONNX_FAMILIES(FAMILY)
#undef FAMILY
};

static bool fits(const td__onnx_operator *known, const char *name, int64_t opset) {
    return known->since <= opset && (!known->until || opset <= known->until) &&
           strcmp(known->name, name) == 0;
}

const td__onnx_operator *td__onnx_find(const char *domain, const char *name, int64_t opset) {
    if (*domain && strcmp(domain, "ai.onnx") != 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        for (const td__onnx_operator *each = families[i]; each->name; each++) {
            if (fits(each, name, opset)) {
                return each;
            }
        }
    }
    return NULL;
}
