/* Masks as expressions; see masks.h.
 *
 * A mask is a number: that of its expression among all that were met, so that two masks are the same
 * when their numbers are. Expressions are kept in one form: what Keras does to fit a mask to a tensor's
 * shape (ExpandDims, LogicalOr with zeros, Any over what was expanded) leaves only WIDE around it.
 */
#include "keras/masks.h"

#include "base/memory.h"
#include "keras/class.h"
#include "nn/layer.h"

#include <string.h>

typedef enum mask_form {
    NONE,      /* no mask; expression 0 */
    DIFFERS,   /* element by element: tensor a is not `number` */
    STEPS,     /* a step of tensor a has a feature that is not `number` */
    OR,        /* a or b */
    ALL,       /* every step of tensor a */
    ZEROS,     /* nothing */
    WIDE,      /* a for each feature */
    JOINED,    /* the beginning of masks joined along axis `number` … */
    JOINED_BY, /* … joined expression a, then b */
} mask_form;

typedef struct expression {
    mask_form form;
    int32_t a, b;
    double number;
} expression;

enum { NOT_MASK = -1, UNKNOWN = -2, MAX_EXPRESSIONS = 1 << 20 };

typedef struct finder {
    td__keras_masked *calls;
    size_t count;
    int32_t *found; /* of each call: its expression, NOT_MASK, or UNKNOWN */
    expression *expressions;
    size_t expression_count, capacity;
    bool failed; /* memory is exhausted */
} finder;

static int32_t express(finder *f, mask_form form, int32_t a, int32_t b, double number) {
    for (size_t i = 0; i < f->expression_count; i++) {
        const expression *e = &f->expressions[i];
        if (e->form == form && e->a == a && e->b == b && e->number == number) {
            return (int32_t)i;
        }
    }
    if (!td__grow(&f->expressions, &f->capacity, f->expression_count + 1, MAX_EXPRESSIONS,
                  sizeof *f->expressions)) {
        f->failed = true;
        return NOT_MASK;
    }
    f->expressions[f->expression_count] = (expression){form, a, b, number};
    return (int32_t)f->expression_count++;
}

static mask_form form_of(const finder *f, int32_t mask) {
    return mask < 0 ? NONE : f->expressions[mask].form;
}

static int32_t wide(finder *f, int32_t mask) {
    return mask > 0 ? express(f, WIDE, mask, 0, 0) : NOT_MASK;
}

static int32_t either(finder *f, int32_t a, int32_t b) {
    if (a <= 0 || b <= 0) {
        return NOT_MASK;
    }
    if (form_of(f, a) == ZEROS || form_of(f, b) == ZEROS) {
        return form_of(f, a) == ZEROS ? b : a;
    }
    if (form_of(f, a) == WIDE && form_of(f, b) == WIDE) {
        return wide(f, either(f, f->expressions[a].a, f->expressions[b].a));
    }
    return a == b ? a : express(f, OR, a < b ? a : b, a < b ? b : a, 0);
}

/* The tensor that a call reads, as a number. */
static int32_t tensor_read(const td__keras_call *call, size_t k) {
    return call->inputs[k] * TD_MAX_OUTPUTS + (int32_t)call->outputs[k] % TD_MAX_OUTPUTS;
}

static double config_number(const json_t *config, const char *key, double fallback) {
    const json_t *value = json_object_get(config, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static int32_t not_equal(finder *f, const td__keras_masked *c) {
    return c->call->count == 1 && c->call->with_number
               ? express(f, DIFFERS, tensor_read(c->call, 0), 0, c->call->number)
               : NOT_MASK;
}

static int32_t any(finder *f, const td__keras_masked *c) {
    int32_t source = f->found[c->call->inputs[0]];
    bool last = config_number(c->entry->config, "axis", 0) == -1 &&
                !json_is_true(json_object_get(c->entry->config, "keepdims"));
    if (!last) {
        return NOT_MASK;
    }
    return form_of(f, source) == WIDE ? f->expressions[source].a
           : form_of(f, source) == DIFFERS
               ? express(f, STEPS, f->expressions[source].a, 0, f->expressions[source].number)
               : NOT_MASK;
}

static int32_t expand_dims(finder *f, const td__keras_masked *c) {
    return config_number(c->entry->config, "axis", 0) == -1 ? wide(f, f->found[c->call->inputs[0]])
                                                            : NOT_MASK;
}

/* What Attention does with the mask that it passes on. */
static int32_t convert_to_tensor(finder *f, const td__keras_masked *c) {
    return f->found[c->call->inputs[0]];
}

static int32_t zeros_like(finder *f, const td__keras_masked *c) {
    (void)c;
    return express(f, ZEROS, 0, 0, 0);
}

static int32_t ones_like(finder *f, const td__keras_masked *c) {
    return wide(f, express(f, ALL, tensor_read(c->call, 0), 0, 0));
}

static int32_t logical_or(finder *f, const td__keras_masked *c) {
    return c->call->count == 2
               ? either(f, f->found[c->call->inputs[0]], f->found[c->call->inputs[1]])
               : NOT_MASK;
}

/* masks: those of each input. */
static int32_t join_masks(finder *f, size_t count, const int32_t *masks, double axis) {
    int32_t joined = express(f, JOINED, 0, 0, axis);
    for (size_t k = 0; k < count && joined >= 0; k++) {
        joined = masks[k] > 0 ? express(f, JOINED_BY, joined, masks[k], 0) : NOT_MASK;
    }
    return joined;
}

static int32_t concatenate(finder *f, const td__keras_masked *c) {
    int32_t masks[TD_MAX_FROM];
    for (size_t k = 0; k < c->call->count; k++) {
        int32_t source = f->found[c->call->inputs[k]];
        masks[k] = form_of(f, source) == WIDE ? f->expressions[source].a : NOT_MASK;
    }
    return wide(f,
                join_masks(f, c->call->count, masks, config_number(c->entry->config, "axis", -1)));
}

static const struct {
    const char *class_name;
    bool of_tensors; /* it reads a layer's output; others read masks */
    int32_t (*mask)(finder *f, const td__keras_masked *c);
} operations[] = {
    {"NotEqual", true, not_equal},       {"Any", false, any},
    {"ExpandDims", false, expand_dims},  {"ZerosLike", true, zeros_like},
    {"OnesLike", true, ones_like},       {"LogicalOr", false, logical_or},
    {"Concatenate", false, concatenate}, {"ConvertToTensor", false, convert_to_tensor},
};

bool td__keras_is_mask_operation(const char *class_name) {
    bool found = false;
    for (size_t i = 0; i < TD__COUNT(operations); i++) {
        found = found || !strcmp(operations[i].class_name, class_name);
    }
    return found;
}

static int32_t operation_mask(finder *f, const td__keras_masked *c) {
    for (size_t i = 0; i < TD__COUNT(operations); i++) {
        if (strcmp(operations[i].class_name, c->entry->class_name) != 0) {
            continue;
        }
        for (size_t k = 0; k < c->call->count; k++) {
            if (f->calls[c->call->inputs[k]].entry->mask_operation == operations[i].of_tensors) {
                return NOT_MASK;
            }
        }
        return operations[i].mask(f, c);
    }
    return NOT_MASK;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static bool returns_sequences(const td__keras_entry *entry) {
    const json_t *config = entry->config, *inner = json_object_get(config, "layer");
    config = inner ? json_object_get(inner, "config") : config;
    return json_is_true(json_object_get(config, "return_sequences"));
}

/* The mask of what a layer puts out, as layers here and in Keras have it. masks: of its inputs. */
static int32_t layer_mask(finder *f, const td__keras_masked *c, const int32_t *masks) {
    const td__keras_entry *entry = c->entry;
    const td__keras_call *call = c->call;
    if (!entry->class || call->count == 0 || entry->operation) {
        return NONE; /* an input or a model: its inside is on its own; an operation ends a mask */
    }
    const td__layer_kind *kind = entry->class->kind;
    bool all = true, some = false;
    for (size_t k = 0; k < call->count; k++) {
        all = all && masks[k] > 0;
        some = some || masks[k] > 0;
    }
    switch (kind->mask_from) {
    case TD__MASK_OF_INDICES:
        return json_is_true(json_object_get(entry->config, "mask_zero"))
                   ? express(f, DIFFERS, tensor_read(call, 0), 0, 0)
                   : NONE;
    case TD__MASK_OF_STEPS:
        return express(f, STEPS, tensor_read(call, 0), 0,
                       config_number(entry->config, "mask_value", 0));
    case TD__MASK_JOINED: {
        int32_t each[TD_MAX_FROM];
        for (size_t k = 0; k < call->count; k++) {
            each[k] = masks[k] > 0 ? masks[k] : express(f, ALL, tensor_read(call, k), 0, 0);
        }
        return some ? join_masks(f, call->count, each, config_number(entry->config, "axis", -1))
                    : NONE;
    }
    case TD__MASK_OF_ALL: {
        int32_t merged = all ? masks[0] : NONE;
        for (size_t k = 1; k < call->count && all; k++) {
            merged = either(f, merged, masks[k]);
        }
        return merged;
    }
    case TD__MASK_OF_FIRST:
    case TD__MASK_OF_QUERY:
        break;
    }
    bool recurrent = kind->has_mask != NULL;
    return kind->mask && (!recurrent || returns_sequences(entry)) ? masks[0] : NONE;
}

/* ---- All calls ------------------------------------------------------------------------------- */

static bool is_ready(const finder *f, const td__keras_call *call) {
    for (size_t k = 0; k < call->count; k++) {
        if (f->found[call->inputs[k]] == UNKNOWN) {
            return false;
        }
    }
    return true;
}

static int32_t mask_of(finder *f, const td__keras_masked *c) {
    int32_t masks[TD_MAX_FROM] = {0};
    if (c->entry->mask_operation) {
        return c->call->count ? operation_mask(f, c) : NOT_MASK;
    }
    for (size_t k = 0; k < c->call->count; k++) {
        masks[k] = f->found[c->call->inputs[k]];
    }
    return layer_mask(f, c, masks);
}

/* Each after those it reads; calls in a circle stay unknown. */
static void find_all(finder *f) {
    for (bool progress = true; progress && !f->failed;) {
        progress = false;
        for (size_t i = 0; i < f->count && !f->failed; i++) {
            if (f->found[i] == UNKNOWN && is_ready(f, f->calls[i].call)) {
                f->found[i] = mask_of(f, &f->calls[i]);
                progress = true;
            }
        }
    }
}

/* Whether a layer that is given the mask of its input does here what it does in Keras: one inside a
 * TimeDistributed is given a step's mask there. */
static bool takes_mask(const td__keras_entry *entry) {
    if (!entry->class) {
        return true; /* a model */
    }
    const json_t *inner = json_object_get(entry->config, "layer");
    const char *name = json_string_value(json_object_get(inner, "class_name"));
    const td__keras_class *wrapped = name ? td__keras_class_find(name) : NULL;
    const td__layer_kind *kind = entry->class->kind;
    bool steps = kind->keras.storage == TD__KERAS_WRAPPED;
    return steps ? wrapped && !wrapped->kind->reads_mask : kind->reads_mask;
}

/* An operation is left out when masks are all that it is for; no layer here is like it otherwise. */
static void refuse_operations(finder *f) {
    for (size_t i = 0; i < f->count; i++) {
        f->calls[i].reason =
            f->calls[i].entry->mask_operation ? "there is no such layer here" : NULL;
    }
    for (size_t i = 0; i < f->count; i++) { /* what is read as a mask, or by what may be one */
        const td__keras_call *call = f->calls[i].call;
        for (size_t k = 0; k < call->count && f->calls[i].entry->mask_operation; k++) {
            f->calls[call->inputs[k]].reason = NULL;
        }
        for (size_t k = 0; k < call->mask_count; k++) {
            if (call->mask_inputs[k] >= 0) {
                f->calls[call->mask_inputs[k]].reason = NULL;
            }
        }
    }
    for (size_t i = 0; i < f->count; i++) { /* but not what a layer reads */
        const td__keras_call *call = f->calls[i].call;
        for (size_t k = 0; k < call->count && !f->calls[i].entry->mask_operation; k++) {
            td__keras_masked *from = &f->calls[call->inputs[k]];
            from->reason = from->entry->mask_operation ? "there is no such layer here" : NULL;
        }
    }
}

static const char *reason_against(const finder *f, const td__keras_masked *c) {
    const td__keras_call *call = c->call;
    bool all = call->count > 0;
    for (size_t k = 0; k < call->count; k++) {
        all = all && f->found[call->inputs[k]] > 0;
    }
    if (c->entry->operation && !c->entry->mask_operation && all) {
        return "an operation ends the mask of what it reads, which no layer here does; use the "
               "layer of this name, or read it before Masking";
    }
    for (size_t k = 0; k < call->mask_count; k++) {
        int32_t given = call->mask_inputs[k] < 0 ? NONE : f->found[call->mask_inputs[k]];
        int32_t own = k < call->count ? f->found[call->inputs[k]] : NOT_MASK;
        if (given != own || given < 0 || (given > 0 && !takes_mask(c->entry))) {
            return "it is called with a mask that is not its input's own";
        }
    }
    return NULL;
}

td_status td__keras_masks_check(td__keras_masked *calls, size_t count, const char *origin,
                                td_error *error) {
    finder f = {.calls = calls, .count = count, .found = td__calloc(count + 1, sizeof *f.found)};
    f.failed = !f.found || express(&f, NONE, 0, 0, 0) != NONE;
    for (size_t i = 0; i < count && !f.failed; i++) {
        f.found[i] = UNKNOWN;
    }
    find_all(&f);
    if (!f.failed) {
        refuse_operations(&f);
    }
    for (size_t i = 0; i < count && !f.failed; i++) {
        calls[i].reason = calls[i].reason ? calls[i].reason : reason_against(&f, &calls[i]);
    }
    td__free(f.found);
    td__free(f.expressions);
    return f.failed ? td_error_set(error, TD_MEMORY, "%s: out of memory", origin) : TD_OK;
}
