#include "operation.h"

#include "json.h"
#include "terminal.h"

#include <stdio.h>
#include <string.h>

const char *element_text(const td_shape *shape, int64_t element, char out[ELEMENT_TEXT]) {
    int64_t index[TD_MAX_RANK];
    size_t used = 0;
    *out = 0;
    for (int32_t i = shape->rank; i-- > 0;) {
        int64_t size = shape->dims[i] > 0 ? shape->dims[i] : 1;
        index[i] = element % size;
        element /= size;
    }
    for (int32_t i = 0; i < shape->rank; i++) {
        used += (size_t)snprintf(out + used, ELEMENT_TEXT - used, "%s%lld", i ? ", " : "[",
                                 (long long)index[i]);
    }
    if (shape->rank) {
        (void)snprintf(out + used, ELEMENT_TEXT - used, "]");
    }
    return out;
}

void print_operation(const td_operation *o) {
    if (!*o->kind) {
        printf("  %s: %s\n", o->phase, o->tensor);
        return;
    }
    printf("  %s of %s%s, %s (operation %lld of step %lld)\n", o->kind, *o->layer ? "layer " : "",
           *o->layer ? o->layer : "the loss", o->phase, (long long)o->sequence, (long long)o->step);
}

void print_operands(const td_operation *o) {
    for (size_t i = 0; i < o->operand_count; i++) {
        const td_operand *read = &o->operands[i];
        char shape[TD_SHAPE_TEXT_SIZE];
        printf("  reads %s %s: %.6g to %.6g, mean %.6g, norm %.6g", read->name,
               td_shape_text(&read->shape, shape), read->stats.min, read->stats.max,
               read->stats.mean, read->stats.norm);
        if (read->stats.nan || read->stats.inf) {
            printf(", %lld NaN, %lld infinite", (long long)read->stats.nan,
                   (long long)read->stats.inf);
        }
        putchar('\n');
    }
}

static void print_shape(const td_shape *shape) {
    putchar('[');
    for (int32_t i = 0; i < shape->rank; i++) {
        printf("%s%lld", i ? "," : "", (long long)shape->dims[i]);
    }
    putchar(']');
}

void print_json_operation(const td_operation *o) {
    if (!o) {
        (void)fputs("null", stdout);
        return;
    }
    printf("{\"step\":%lld,\"sequence\":%lld", (long long)o->step, (long long)o->sequence);
    const struct {
        const char *key, *text;
    } texts[] = {{"phase", o->phase},
                 {"layer", o->layer},
                 {"kind", o->kind},
                 {"tensor", o->tensor},
                 {"place", o->place}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        printf(",\"%s\":", texts[i].key);
        print_json_text(texts[i].text);
    }
    (void)fputs(",\"shape\":", stdout);
    print_shape(&o->shape);
    printf(",\"element\":%lld,\"value\":", (long long)o->element);
    print_json_number(o->value);
    printf(",\"row\":%lld,\"inputs\":[", (long long)o->row);
    for (size_t i = 0; i < o->operand_count; i++) {
        (void)fputs(i ? ",{\"name\":" : "{\"name\":", stdout);
        print_json_text(o->operands[i].name);
        putchar(',');
        print_json_stats(&o->operands[i].shape, &o->operands[i].stats);
        putchar('}');
    }
    (void)fputs("]}", stdout);
}
