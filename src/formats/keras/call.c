/* Reading inbound_nodes; see call.h. */
#include "keras/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 8 };

TD_PRINTF(2, 3) static void refuse(td__keras_call *call, const char *format, ...) {
    if (!*call->reason) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(call->reason, sizeof call->reason, format, arguments);
        va_end(arguments);
    }
}

/* ["a", 0, 0], perhaps with more behind it. */
static const char *reference(const json_t *value) {
    bool numbers =
        json_is_integer(json_array_get(value, 1)) && json_is_integer(json_array_get(value, 2));
    return numbers ? json_string_value(json_array_get(value, 0)) : NULL;
}

/* The layer and which of its outputs a value names, in either form; NULL when it is no tensor. */
static const json_t *tensor_of(const json_t *value) {
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    if (class_name && !strcmp(class_name, "__keras_tensor__")) {
        value = json_object_get(json_object_get(value, "config"), "keras_history");
    }
    return reference(value) ? value : NULL;
}

static void add_tensor(td__keras_call *call, const json_t *tensor, size_t place) {
    if (place >= TD_MAX_FROM) {
        refuse(call, "it reads more than %d layers", TD_MAX_FROM);
    } else {
        call->from[place] = reference(tensor);
        call->uses[place] = json_integer_value(json_array_get(tensor, 1));
        call->outputs[place] = json_integer_value(json_array_get(tensor, 2));
        call->count = place >= call->count ? place + 1 : call->count;
    }
}

/* `mask`: a tensor, or a list of tensors and nulls. False when it is something else. */
static bool read_masks(td__keras_call *call, const json_t *value) {
    bool list = json_is_array(value) && !tensor_of(value);
    size_t count = list ? json_array_size(value) : 1;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = list ? json_array_get(value, i) : value, *tensor = tensor_of(item);
        if (i >= TD_MAX_FROM || (!tensor && !json_is_null(item))) {
            return false;
        }
        call->masks[i] = tensor ? reference(tensor) : NULL;
        call->mask_uses[i] = tensor ? json_integer_value(json_array_get(tensor, 1)) : 0;
    }
    call->mask_count = count;
    return true;
}

static void add_number(td__keras_call *call, const json_t *value) {
    if (call->with_number) {
        refuse(call, "it is called with several numbers");
    }
    call->with_number = true;
    call->number = json_number_value(value);
}

/* Positional arguments: tensors, and lists of them; a number. */
static void read_arguments(td__keras_call *call, const json_t *value, int depth) {
    const json_t *tensor = tensor_of(value);
    if (tensor) {
        add_tensor(call, tensor, call->count);
    } else if (json_is_array(value) && depth < MAX_DEPTH) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            read_arguments(call, json_array_get(value, i), depth + 1);
        }
    } else if (json_is_number(value)) {
        add_number(call, value);
    } else if (!json_is_null(value)) {
        refuse(call, "it is called with something that is no layer's output");
    }
}

/* Arguments by name that are tensors, with their positions. */
static const struct {
    const char *class_name, *key;
    size_t place;
} named[] = {{"MultiHeadAttention", "query", 0},
             {"MultiHeadAttention", "value", 1},
             {"MultiHeadAttention", "key", 2},
             {"TFOpLambda", "y", 1}};

/* Nothing, or lists of it: the masks of several inputs that have none. */
static bool is_nothing(const json_t *value) {
    bool nothing = json_is_null(value) || json_is_false(value) || json_is_array(value);
    for (size_t i = 0; nothing && i < json_array_size(value); i++) {
        nothing = json_is_null(json_array_get(value, i));
    }
    return nothing;
}

static void read_named(td__keras_call *call, const json_t *arguments, const char *class_name) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)arguments, key, value) {
        const json_t *tensor = tensor_of(value);
        bool known = !strcmp(key, "inputs") && call->count == 0;
        if (known) {
            read_arguments(call, value, 0);
        }
        for (size_t i = 0; tensor && i < sizeof named / sizeof *named; i++) {
            if (!strcmp(named[i].class_name, class_name) && !strcmp(named[i].key, key)) {
                add_tensor(call, tensor, named[i].place);
                known = true;
            }
        }
        if (!strcmp(key, "y") && !strcmp(class_name, "TFOpLambda") && json_is_number(value)) {
            add_number(call, value);
        } else if (!strcmp(key, "use_causal_mask")) {
            call->causal = json_is_true(value);
        } else if (!known && !is_nothing(value) &&
                   (strcmp(key, "mask") != 0 || !read_masks(call, value))) {
            refuse(call, "it is called with %.60s", key);
        }
    }
}

/* Whether two inputs are one and the same. */
static bool is_same(const td__keras_call *call, size_t a, size_t b) {
    return !strcmp(call->from[a], call->from[b]) && call->uses[a] == call->uses[b] &&
           call->outputs[a] == call->outputs[b];
}

/* Self-attention names its input up to three times. */
static void settle_inputs(td__keras_call *call, const char *class_name) {
    for (size_t i = 0; i < call->count; i++) {
        if (!call->from[i]) {
            refuse(call, "it is called without one of its inputs");
            return;
        }
    }
    bool takes_number = !strcmp(class_name, "Add") || !strcmp(class_name, "Multiply") ||
                        !strcmp(class_name, "TFOpLambda") || !strcmp(class_name, "NotEqual");
    if (call->with_number && (!takes_number || call->count != 1)) {
        refuse(call, "it is called with something that is no layer's output");
    }
    if (!strcmp(class_name, "MultiHeadAttention") && !*call->reason) {
        if (call->count > 2 && is_same(call, 2, 1)) {
            call->count = 2;
        }
        if (call->count == 1) {
            refuse(call, "it is called without a value");
        } else if (call->count == 2 && is_same(call, 1, 0)) {
            call->count = 1;
        }
    }
}

void td__keras_call_read(const json_t *node, const char *class_name, td__keras_call *call) {
    *call = (td__keras_call){0};
    if (json_is_object(node)) {
        read_arguments(call, json_object_get(node, "args"), 0);
        read_named(call, json_object_get(node, "kwargs"), class_name);
    } else if (reference(node)) {
        add_tensor(call, node, 0);
        read_named(call, json_array_get(node, 3), class_name);
    } else {
        for (size_t i = 0; i < json_array_size(node); i++) {
            const json_t *each = json_array_get(node, i);
            if (reference(each)) {
                add_tensor(call, each, i);
            } else {
                refuse(call, "it is called with something that is no layer's output");
            }
        }
        read_named(call, json_array_get(json_array_get(node, 0), 3), class_name);
    }
    settle_inputs(call, class_name);
}
