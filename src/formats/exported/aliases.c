/* Tensors that share memory.
 *
 * Nodes of a program may write to their input, which then is seen by whoever reads it, or what it is a part
 * of. In the graph every node makes a value of its own: after such a node the tensor's name stands for that
 * value, and the tensors of which it is a part are put together again. Other parts that were taken before
 * are not: to read them is refused.
 */
#include "exported/convert.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 32 }; /* parts of parts */

/* How an output shares its first argument's memory. */
typedef enum sharing {
    ALONE,
    SAME,   /* it is that tensor */
    SHAPED, /* the same elements in the same order */
    TURNED, /* two axes swapped: its own inverse */
    PART,   /* some places along an axis */
    UNKNOWN /* it may */
} sharing;

static const struct {
    const char *name;
    sharing kind;
} sharers[] = {{"_unsafe_view.", SHAPED},
               {"alias.", SAME},
               {"chunk.", UNKNOWN},
               {"contiguous.", UNKNOWN},
               {"detach.", SAME},
               {"detach_.", SAME},
               {"diagonal.", UNKNOWN},
               {"dropout.", SAME},
               {"dropout_.", SAME},
               {"expand.", UNKNOWN},
               {"expand_as.", UNKNOWN},
               {"feature_dropout.", SAME},
               {"flatten.", SHAPED},
               {"mT.", TURNED},
               {"movedim.", UNKNOWN},
               {"narrow.", UNKNOWN},
               {"numpy_T.", UNKNOWN},
               {"permute.", UNKNOWN},
               {"reshape.", SHAPED},
               {"select.", PART},
               {"slice.", PART},
               {"split.", UNKNOWN},
               {"split_with_sizes.", UNKNOWN},
               {"squeeze.", SHAPED},
               {"swapaxes.", TURNED},
               {"swapdims.", TURNED},
               {"t.", TURNED},
               {"to.", UNKNOWN},
               {"transpose.", TURNED},
               {"type_as.", UNKNOWN},
               {"unbind.", UNKNOWN},
               {"unflatten.", SHAPED},
               {"unfold.", UNKNOWN},
               {"unsqueeze.", SHAPED},
               {"view.", SHAPED},
               {"view_as.", SHAPED}};

static sharing sharing_of(const char *target) {
    for (size_t k = 0; k < sizeof sharers / sizeof *sharers; k++) {
        if (!strncmp(target, "aten.", 5) &&
            !strncmp(target + 5, sharers[k].name, strlen(sharers[k].name))) {
            return sharers[k].kind;
        }
    }
    return ALONE;
}

const char *td__aten_same(const td__aten_aliases *aliases, const char *name) {
    const char *same = name ? json_string_value(json_object_get(aliases->same, name)) : NULL;
    return same ? same : name; /* which is no alias itself: see note */
}

static const char *subject_name(const td__aten_call *call) {
    const char *name = td__aten_tensor_name(call, "self");
    return td__aten_same(call->aliases, name ? name : td__aten_tensor_name(call, "input"));
}

static const char *view_of(const td__aten_aliases *a, const char *name) {
    return json_string_value(json_object_get(json_object_get(a->views, name), "of"));
}

/* The tensor that has the memory. */
static const char *owner_of(const td__aten_aliases *a, const char *name) {
    const char *parent = view_of(a, name);
    for (int depth = 0; parent && depth < MAX_DEPTH; depth++) {
        name = parent;
        parent = view_of(a, name);
    }
    return name;
}

static json_int_t age_of(const td__aten_aliases *a, const char *owner) {
    return json_integer_value(json_object_get(a->ages, owner));
}

bool td__aten_is_fresh(const td__aten_aliases *a, const char *name) {
    name = td__aten_same(a, name);
    const json_t *view = name ? json_object_get(a->views, name) : NULL;
    const json_t *written = name ? json_object_get(a->ages, owner_of(a, name)) : NULL;
    return !json_is_null(written) && (!view || json_integer_value(json_object_get(view, "age")) ==
                                                   json_integer_value(written));
}

static bool check_fresh(td__aten_call *call, const char *name) {
    bool fresh = td__aten_is_fresh(call->aliases, name);
    if (!fresh) {
        (void)td__operator_refuse(call->to,
                                  "it reads what was written to by way of another tensor");
    }
    return fresh;
}

bool td__aten_check_aliases(td__aten_call *call) {
    const json_t *inputs = json_object_get(call->node, "inputs");
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        const json_t *argument = json_object_get(json_array_get(inputs, i), "arg");
        const json_t *tensor = json_object_get(argument, "as_tensor");
        if (tensor && !check_fresh(call, json_string_value(json_object_get(tensor, "name")))) {
            return false;
        }
        const json_t *list = json_object_get(argument, "as_tensors");
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *name = json_object_get(json_array_get(list, k), "name");
            if (!check_fresh(call, json_string_value(name))) {
                return false;
            }
        }
    }
    return true;
}

/* --- writing ------------------------------------------------------------------------------ */

const char *td__aten_put_part(td__aten_call *view, const char *whole, const char *part) {
    td__operators *to = view->to;
    td_shape shape;
    int32_t rank = td__aten_shape(view, "self", &shape);
    int64_t axis = td__aten_axis(view, "self", td__aten_int(view, "dim", 0)), one = 1;
    bool selects = td__aten_argument(view, "index");
    if (rank < 1 || axis < 0) {
        return NULL;
    }
    const char *places = td__aten_places(view, whole, axis),
               *first = td__aten_size(view, "start", 0);
    const char *end = td__aten_size(view, "end", INT64_MAX), *step = td__aten_size(view, "step", 1);
    if (selects) {
        int64_t at = td__aten_int(view, "index", 0), after = at == -1 ? INT64_MAX : at + 1;
        first = td__operator_integers(to, 1, &at);
        end = td__operator_integers(to, 1, &after);
        step = td__operator_integers(to, 1, &one);
        part = TD__OPERATOR(to, "Unsqueeze", part, td__operator_integers(to, 1, &axis));
    }
    places = TD__OPERATOR(to, "Slice", places, first, end,
                          td__operator_integers(to, 1, (int64_t[]){0}), step);
    int64_t spread[TD_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) {
        spread[i] = i == axis ? -1 : 1;
    }
    places = td__operator_reshape(to, places, (size_t)rank, spread);
    places = TD__OPERATOR(to, "Expand", places, TD__OPERATOR(to, "Shape", part));
    const char *inputs[3] = {whole, places, part};
    return td__operator(to, "ScatterElements", 3, inputs, 1, &TD__NAMED_INT("axis", axis));
}

/* The tensor that a view is of, with the view's new value in it; NULL: unknown how. */
static const char *put_back(td__aten_call *call, const char *name, const char *parent,
                            const char *value) {
    const json_t *noted = json_object_get(call->aliases->views, name);
    td__aten_call view = *call;
    view.node =
        json_array_get(call->nodes, (size_t)json_integer_value(json_object_get(noted, "node")));
    view.row = td__aten_find(json_string_value(json_object_get(noted, "target")));
    const char *whole = json_string_value(json_object_get(call->values, parent));
    switch ((sharing)json_integer_value(json_object_get(noted, "kind"))) {
    case SHAPED:
        return TD__OPERATOR(call->to, "Reshape", value, TD__OPERATOR(call->to, "Shape", whole));
    case PART:
        return td__aten_put_part(&view, whole, value);
    case TURNED: {
        /* the same swap of the new value */
        char before[256];
        (void)snprintf(before, sizeof before, "%s", whole ? whole : "");
        (void)json_object_set_new(call->values, parent, json_string(value));
        const char *turned = view.row ? view.row->convert(&view) : NULL;
        (void)json_object_set_new(call->values, parent, json_string(before));
        return turned;
    }
    default:
        return NULL;
    }
}

static void set_age(td__aten_aliases *a, const char *name, json_int_t age) {
    json_t *view = json_object_get(a->views, name);
    if (view) {
        (void)json_object_set_new(view, "age", json_integer(age));
    }
}

/* The tensor of that name has a new value, and what it is a part of, too. */
static void write_value(td__aten_call *call, const char *name, const char *value) {
    td__aten_aliases *a = call->aliases;
    const char *owner = owner_of(a, name);
    json_int_t age = age_of(a, owner) + 1;
    if (!json_is_null(json_object_get(a->ages, owner))) {
        (void)json_object_set_new(a->ages, owner, json_integer(age));
    }
    for (int depth = 0; name && value && depth < MAX_DEPTH; depth++) {
        const char *parent = view_of(a, name);
        const char *whole = parent ? put_back(call, name, parent, value) : NULL;
        (void)json_object_set_new(call->values, name, json_string(value));
        set_age(a, name, age);
        if (parent && !whole) {
            (void)json_object_set_new(a->ages, owner, json_null()); /* to read it is refused */
        }
        name = parent;
        value = whole;
    }
}

/* --- noting ------------------------------------------------------------------------------- */

/* In order, without holes: a reshape of another is a copy. */
static bool lies_in_order(const td__aten_call *call, const char *name) {
    const json_t *info = json_object_get(call->tensors, name);
    const json_t *strides = json_object_get(info, "strides");
    td_shape shape;
    int64_t stride = 1;
    if (!td__aten_read_sizes(info, &shape)) {
        return false;
    }
    for (int32_t i = shape.rank - 1; i >= 0; i--) {
        const json_t *has = json_object_get(json_array_get(strides, (size_t)i), "as_int");
        if (stride > 0 && shape.dims[i] != 1 && json_integer_value(has) != stride) {
            return false;
        }
        stride = shape.dims[i] < 0 || stride < 0 ? -1 : stride * shape.dims[i]; /* -1: open */
    }
    return true;
}

/* What differs from node to node of one name. */
static sharing sharing_here(const td__aten_call *call, const char *target, const char *subject) {
    sharing kind = sharing_of(target);
    bool reshapes = kind == SHAPED && strncmp(target, "aten.view", 9) != 0 &&
                    strncmp(target, "aten.un", 7) != 0 && strncmp(target, "aten.sq", 7) != 0;
    bool keeps = !strncmp(target, "aten.contiguous", 15);
    return keeps && lies_in_order(call, subject)       ? SAME
           : reshapes && !lies_in_order(call, subject) ? UNKNOWN
                                                       : kind;
}

const char *td__aten_note_aliases(td__aten_call *call, const char *target, size_t place,
                                  const char *made) {
    td__aten_aliases *a = call->aliases;
    const char *subject = subject_name(call), *dot = strrchr(target, '.');
    sharing kind = subject ? sharing_here(call, target, subject) : ALONE;
    /* relu_ writes, __and__ does not */
    bool writes = kind == ALONE && dot && dot > target + 1 && dot[-1] == '_' && dot[-2] != '_' &&
                  !strncmp(target, "aten.", 5);
    if (writes && !subject) {
        return td__operator_refuse(call->to, "it writes to no tensor");
    }
    if (writes) {
        write_value(call, subject, made);
    }
    for (size_t i = 0; i < td__aten_outputs(call); i++) {
        const char *name = json_string_value(td__aten_output_at(call, i));
        if (!name) {
            continue;
        }
        if (writes || kind == SAME) {
            (void)json_object_set_new(a->same, name, json_string(subject));
        } else if (kind != ALONE) {
            (void)json_object_set_new(a->views, name,
                                      json_pack("{s:s, s:s, s:i, s:I, s:I}", "of", subject,
                                                "target", target, "kind", (int)kind, "node",
                                                (json_int_t)place, "age",
                                                age_of(a, owner_of(a, subject))));
        }
    }
    return made;
}
