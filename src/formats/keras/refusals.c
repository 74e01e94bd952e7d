/* Layers that cannot be loaded, gathered by class and reason, so that one error names them all. */
#include "keras/graph.h"

#include <stdio.h>
#include <string.h>

void td__keras_refuse(td__keras_graph *graph, const td__keras_entry *entry, const char *reason) {
    graph->refused_layers++;
    for (size_t i = 0; i < graph->refused_count; i++) {
        td__keras_refusal *each = &graph->refused[i];
        if (!strcmp(each->class_name, entry->class_name) && !strcmp(each->reason, reason)) {
            each->count++;
            return;
        }
    }
    if (graph->refused_count < TD__KERAS_MAX_REFUSALS) {
        td__keras_refusal *added = &graph->refused[graph->refused_count++];
        (void)snprintf(added->class_name, sizeof added->class_name, "%s", entry->class_name);
        (void)snprintf(added->name, sizeof added->name, "%s", entry->name);
        (void)snprintf(added->reason, sizeof added->reason, "%s", reason);
        added->count = 1;
    }
}

td_status td__keras_graph_refused(const td__keras_graph *graph, td_error *error) {
    if (graph->refused_layers == 0) {
        return TD_OK;
    }
    char text[TD_ERROR_TEXT_SIZE] = "";
    for (size_t i = 0, used = 0; i < graph->refused_count && used < sizeof text; i++) {
        const td__keras_refusal *each = &graph->refused[i];
        char more[32] = "";
        if (each->count > 1) {
            (void)snprintf(more, sizeof more, " and %zu more", each->count - 1);
        }
        int length = snprintf(text + used, sizeof text - used, "%s%s '%s'%s (%s)", i ? "; " : "",
                              each->class_name, each->name, more, each->reason);
        used += length > 0 ? (size_t)length : 0;
    }
    return td_error_set(error, TD_UNSUPPORTED, "%s: %zu layer%s cannot be loaded: %s",
                        graph->origin, graph->refused_layers, graph->refused_layers == 1 ? "" : "s",
                        text);
}
