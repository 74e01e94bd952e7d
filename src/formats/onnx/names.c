/* Definitions, sorted. */
#include "onnx/names.h"

#include <stdio.h>
#include <stdlib.h>

static int compare_definitions(const void *left, const void *right) {
    const td__onnx_definition *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : (a->order > b->order) - (a->order < b->order);
}

static int by_order(const void *left, const void *right) {
    const td__onnx_definition *a = left, *b = right;
    return (a->order > b->order) - (a->order < b->order);
}

/* As strcmp, of a text and bytes without an end. */
static int compare_field(const char *text, const td__proto_field *name) {
    size_t length = strlen(text);
    size_t common = length < name->size ? length : name->size;
    int order = common ? memcmp(text, name->data, common) : 0;
    return order ? order : (length > name->size) - (length < name->size);
}

const td__onnx_definition *td__onnx_find_value(const td__onnx_names *names,
                                               const td__proto_field *name) {
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_field(names->items[middle].name, name);
        if (!order) {
            const td__onnx_definition *found = &names->items[middle];
            return found->from == TD__FROM_NOWHERE ? NULL : found;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

const char *td__onnx_origin_text(char text[64], const td__graph *graph, int64_t from) {
    if (from < 0) {
        return from == TD__FROM_INPUT    ? "an input"
               : from == TD__FROM_AROUND ? "the graph around it"
                                         : "an initialiser";
    }
    snprintf(text, 64, "node %lld (%.30s)", (long long)from, graph->nodes[from].op_type);
    return text;
}

void td__onnx_define(td__onnx_names *names, const char *name, int64_t from) {
    size_t order = names->count++;
    names->items[order] = (td__onnx_definition){.name = name, .order = order, .from = from};
}

/* Joins an input with its initialiser; refuses everything else that is there twice. */
static td_status merge(td__onnx_parser *parser, td__onnx_names *names, const td__graph *graph) {
    td__onnx_definition *all = names->items, *last = NULL;
    for (size_t i = 0; i < names->count; i++) {
        if (!last || strcmp(last->name, all[i].name) != 0) {
            last = last ? last + 1 : all;
            *last = all[i];
        } else if (last->from == TD__FROM_INPUT && all[i].from == TD__FROM_INITIALISER) {
            last->from = TD__FROM_INITIALISER;
        } else if (all[i].from != TD__FROM_AROUND) {
            char first[64], second[64];
            return td__onnx_malformed(parser, "value '%.200s' is made by %s and by %s", last->name,
                                      td__onnx_origin_text(first, graph, last->from),
                                      td__onnx_origin_text(second, graph, all[i].from));
        }
    }
    names->count = last ? (size_t)(last - all) + 1 : 0;
    return TD_OK;
}

td_status td__onnx_number(td__onnx_parser *parser, td__onnx_names *names, td__graph *graph) {
    td__onnx_definition *all = names->items;
    qsort(all, names->count, sizeof *all, compare_definitions);
    td_status status = merge(parser, names, graph);
    if (status) {
        return status;
    }
    if (names->count > INT32_MAX) {
        return td__onnx_unsupported(parser, "%zu values", names->count);
    }
    graph->values = td__onnx_alloc(parser, names->count, sizeof *graph->values);
    if (!graph->values) {
        return TD_RANGE;
    }
    qsort(all, names->count, sizeof *all, by_order);
    for (size_t i = 0; i < names->count; i++) {
        all[i].value = (int32_t)i;
        graph->values[i].name = all[i].name;
    }
    graph->value_count = names->count;
    qsort(all, names->count, sizeof *all, compare_definitions);
    return TD_OK;
}

td_status td__onnx_capture(td__onnx_parser *parser, td__onnx_names *names,
                           const td__onnx_scope *scope, td__graph *graph, int32_t **outer) {
    graph->captures = td__onnx_alloc(parser, names->count, sizeof *graph->captures);
    *outer = td__onnx_alloc(parser, names->count, sizeof **outer);
    if (!graph->captures || !*outer) {
        return TD_RANGE;
    }
    for (size_t i = 0; i < names->count; i++) {
        td__onnx_definition *each = &names->items[i];
        if (each->from != TD__FROM_AROUND) {
            continue;
        }
        td__proto_field name = {
            .wire = TD__BYTES, .data = (const uint8_t *)each->name, .size = strlen(each->name)};
        const td__onnx_definition *found = td__onnx_find_value(scope->names, &name);
        if (!found || found->from >= (int64_t)scope->index) {
            each->from = TD__FROM_NOWHERE;
            continue;
        }
        (*outer)[graph->capture_count] = found->value;
        graph->captures[graph->capture_count++] = each->value;
    }
    return TD_OK;
}
