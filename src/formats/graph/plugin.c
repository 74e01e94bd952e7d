/* Loading the plugin of operators; see plugin.h. */
#include "graph/plugin.h"

#include "base/plugin.h"

#include <pthread.h>
#include <string.h>

static const td__operator_plugin *loaded;
static td_error reason;

static void load_operators(void) {
    static td__operator_host host = {.size = sizeof host,
                                     .fail = td__graph_fail,
#define FUNCTION(type, name, parameters, arguments) .name = name,
                                     TD__OPERATOR_HOST(FUNCTION)
#undef FUNCTION
#define FUNCTION(name, parameters, arguments) .name = name,
                                         TD__OPERATOR_HOST_VOID(FUNCTION)
#undef FUNCTION
#define FUNCTION(name) .infer_##name = td__graph_infer_##name,
                                             TD__OPERATOR_HOST_INFER(FUNCTION)
#undef FUNCTION
    };
    void *found = td__plugin_symbol("operators", "td_operator_plugin", NULL, &reason);
    if (!found) {
        return;
    }
    td__operator_plugin_start *start;
    memcpy(&start, &found, sizeof start); /* ISO C has no cast from data to functions */
    host.version = td_version();
    loaded = start(&host);
    if (!loaded) {
        (void)td_error_set(&reason, TD_UNSUPPORTED,
                           "libtapedeck-operators.so is of another version of tapedeck");
    }
}

const td__operator_plugin *td__operator_plugin_load(td_error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load_operators);
    if (!loaded) {
        (void)td_error_set(error, reason.status, "%s", reason.text);
    }
    return loaded;
}
