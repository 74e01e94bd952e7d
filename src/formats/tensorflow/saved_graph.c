/* Converting what a SavedModel's signature calls: functions are inlined, loops unrolled. */
#include "tensorflow/saved_graph.h"

#include "base/memory.h"
#include "graph/build.h"
#include "tensorflow/saved_values.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_DEPTH = 16, /* of calls */
    MAX_INPUTS = 4096,
    MAX_MADE = 60000, /* nodes, those of loops each time */
    TABLE_SHARE = 256 /* nodes of a table that cost as much to clear and walk as one to make */
};

typedef struct frame {
    td__saved_converter *c;
    const td__saved_function *f;
    td__saved_value **made; /* of each node: its outputs */
    size_t *made_count;
    const td__saved_value *arguments;
    size_t argument_count;
    int depth;
} frame;

/* Counts what is made, and what is walked for it; false: too much. */
static bool spend(td__saved_converter *c, size_t made) {
    c->made += made;
    if (c->made > MAX_MADE) {
        td__saved_fail(c, TD_UNSUPPORTED, "it has too many nodes, with its loops unrolled");
    }
    return !c->status;
}

/* --- references --------------------------------------------------------------------------- */

/* "node:output:1", "node:1", "node" or "argument", cut into its parts. */
typedef struct reference {
    char name[512], output[64];
    size_t index;
} reference;

static bool parse_reference(const char *text, reference *r) {
    const char *first = strchr(text, ':'), *last = strrchr(text, ':');
    size_t length = first ? (size_t)(first - text) : strlen(text);
    *r = (reference){.index = 0};
    if (*text == '^' || length >= sizeof r->name) {
        return false;
    }
    memcpy(r->name, text, length);
    r->index = last ? strtoul(last + 1, NULL, 10) : 0;
    if (first && last > first) {
        (void)snprintf(r->output, sizeof r->output, "%.*s", (int)(last - first - 1), first + 1);
    }
    return true;
}

static int64_t node_place(const frame *in, const char *name) {
    const json_t *place = json_object_get(in->f->places, name);
    return place ? (int64_t)json_integer_value(place) : -1;
}

static td__saved_value value_of(const frame *in, const char *text) {
    reference r;
    if (!text || !parse_reference(text, &r)) {
        return td__saved_nothing;
    }
    for (size_t i = 0; i < in->argument_count && i < in->f->argument_count; i++) {
        if (!strcmp(in->f->arguments[i], r.name)) {
            return in->arguments[i];
        }
    }
    int64_t place = node_place(in, r.name);
    size_t output = !strcmp(r.output, "indices") ? 1 : r.index;
    return place >= 0 && in->made[place] && output < in->made_count[place] ? in->made[place][output]
                                                                           : td__saved_nothing;
}

/* Input number i of a node, without those that only order; false: no such. */
static bool input_text(const td__saved_node *node, size_t i, char text[640]) {
    enum { INPUT = 3 };
    td__proto message = node->message;
    td__proto_field field;
    while (td__proto_next(&message, &field)) {
        bool data =
            field.number == INPUT && field.wire == TD__BYTES && field.size && field.data[0] != '^';
        if (data && i-- == 0) {
            (void)snprintf(text, 640, "%.*s", (int)(field.size < 600 ? field.size : 600),
                           (const char *)field.data);
            return true;
        }
    }
    return false;
}

static size_t input_count(const td__saved_node *node) {
    enum { INPUT = 3 };
    td__proto message = node->message;
    td__proto_field field;
    size_t count = 0;
    while (td__proto_next(&message, &field)) {
        count +=
            field.number == INPUT && field.wire == TD__BYTES && field.size && field.data[0] != '^';
    }
    return count;
}

/* --- nodes -------------------------------------------------------------------------------- */

static bool run_function(td__saved_converter *c, const char *name, const td__saved_value *arguments,
                         size_t count, int depth, td__saved_value *results, size_t room,
                         size_t *result_count);

static const char *function_name(td__saved_converter *c, const td__saved_node *node,
                                 const char *attribute) {
    td__proto value;
    td__proto_field field, name;
    if (!td__saved_attribute(node, attribute, &value)) {
        return NULL;
    }
    while (td__proto_next(&value, &field)) {
        td__proto inner = field.wire == TD__BYTES ? td__proto_in(&field) : td__proto_of(NULL, 0);
        if (field.number == 10 && td__proto_next(&inner, &name) && name.number == 1 &&
            name.wire == TD__BYTES && name.size < 500) {
            char text[512];
            (void)snprintf(text, sizeof text, "%.*s", (int)name.size, (const char *)name.data);
            return td__operators_name(c->to, text);
        }
    }
    return NULL;
}

/* Of the graph around all functions, the last arguments are what the function captures. */
static void name_captured(td__saved_converter *c, const char *function, td__saved_value *in,
                          size_t count) {
    const json_t *list = json_object_get(c->file.captured, function ? function : "");
    size_t captured = json_array_size(list);
    for (size_t i = 0; captured <= count && i < captured; i++) {
        td__saved_value *value = &in[count - captured + i];
        if (!value->name && value->list < 0) {
            value->variable = json_integer_value(json_array_get(list, i));
        }
    }
}

static bool run_loop(td__saved_converter *c, const td__saved_node *node, td__saved_value *values,
                     size_t count, int depth) {
    const char *condition = function_name(c, node, "cond"), *body = function_name(c, node, "body");
    if (c->refused) { /* none of it would be used */
        return false;
    }
    for (int step = 0; condition && body && step < TD__SAVED_STEPS && !c->status; step++) {
        td__saved_value go = td__saved_nothing;
        size_t got = 0;
        if (!run_function(c, condition, values, count, depth + 1, &go, 1, &got) || !got ||
            !go.known || !go.count) {
            td__operators_begin(c->to, node->name);
            (void)td__operator_refuse(c->to, "whose number of steps depends on the data");
            td__saved_refuse(c, node->op);
            return false;
        }
        if (!go.numbers[0]) {
            return true;
        }
        td__saved_value *next = td__calloc(count + 1, sizeof *next);
        bool good = next && run_function(c, body, values, count, depth + 1, next, count, &got) &&
                    got == count;
        if (good) {
            memcpy(values, next, count * sizeof *values);
        }
        td__free(next);
        if (!good) {
            return false;
        }
    }
    td__operators_begin(c->to, node->name);
    (void)td__operator_refuse(c->to, "of too many steps");
    td__saved_refuse(c, node->op);
    return false;
}

/* Inputs that are variables get their values; false after a refusal. */
static bool read_inputs(td__saved_converter *c, const td__saved_node *node, td__saved_value *in,
                        size_t count) {
    bool convolves = !strncmp(node->op, "Conv2D", 6) || !strncmp(node->op, "Conv3D", 6);
    bool by_channels = !strncmp(node->op, "Depthwise", 9);
    for (size_t i = 0; i < count && strcmp(node->op, "Identity") != 0; i++) {
        if (!in[i].name && in[i].variable >= 0) {
            bool kernel = i == 1 && (convolves || by_channels) && in[1].ranked;
            in[i].name = td__saved_variable(c, in[i].variable,
                                            !kernel       ? 'v'
                                            : by_channels ? 'd'
                                                          : 'k');
            in[i].turned = kernel;
            if (!in[i].name) {
                return false;
            }
        }
    }
    return true;
}

/* Makes the outputs of a node; in is changed. */
static void convert_inside(frame *f, const td__saved_node *node, td__saved_value *in, size_t count,
                           td__saved_value *out, size_t room, size_t *made) {
    td__saved_converter *c = f->c;
    const td__saved_operator *row = td__saved_find(node->op);
    *made = 1;
    out[0] = td__saved_nothing;
    out[0].ranked = td__saved_shape(node, 0, &out[0].shape);
    if (!strcmp(node->op, "VarHandleOp") || !strcmp(node->op, "NoOp")) {
        return;
    }
    if (!strcmp(node->op, "Const")) {
        td__saved_constant(c, node, out);
    } else if (!strcmp(node->op, "ReadVariableOp") && count == 1) {
        out[0].variable = in[0].variable; /* in which form is known where it is used */
        if (in[0].variable < 0) {
            (void)td__operator_refuse(c->to, "of no variable");
            td__saved_refuse(c, node->op);
        }
    } else if (strstr(node->op, "PartitionedCall")) {
        const char *name = function_name(c, node, "f");
        if (f->depth == 0) {
            name_captured(c, name, in, count);
        }
        if (!run_function(c, name, in, count, f->depth + 1, out, room, made) && !c->refused) {
            td__saved_refuse(c, node->op);
        }
    } else if (!strcmp(node->op, "While") || !strcmp(node->op, "StatelessWhile")) {
        if (run_loop(c, node, in, count, f->depth)) {
            *made = count < room ? count : room;
            memcpy(out, in, *made * sizeof *out);
        }
    } else if (!read_inputs(c, node, in, count)) {
        td__saved_refuse(c, node->op);
        out[0].name = "refused";
    } else if (!td__saved_list_node(c, node, in, count, out)) {
        bool handle = count == 1 && !in[0].name && (in[0].list >= 0 || in[0].variable >= 0);
        if (handle && !strcmp(node->op, "Identity")) {
            out[0] = in[0];
            return;
        }
        td__saved_call call = {.to = c->to, .node = node, .in = in, .count = count, .out = out};
        call.word = row ? row->word : NULL;
        bool whole = true;
        for (size_t i = 0; i < count; i++) {
            whole = whole && in[i].name;
        }
        out[0].name = row && whole ? row->convert(&call) : NULL;
        if (!out[0].name) {
            td__saved_refuse(c, node->op);
            out[0].name = "refused";
        }
        td__saved_follow(&call);
        for (size_t i = 0; i < call.more_count && i + 1 < room; i++) {
            out[i + 1] = td__saved_nothing;
            out[i + 1].name = call.more[i];
            out[i + 1].ranked = td__saved_shape(node, i + 1, &out[i + 1].shape);
            *made = i + 2;
        }
    }
}

static bool convert_node(frame *f, size_t place) {
    td__saved_converter *c = f->c;
    const td__saved_node *node = &f->f->nodes[place];
    if (f->made[place]) {
        return true; /* an input of the model */
    }
    size_t count = input_count(node), made = 0, room = count + TD__SAVED_INPUTS;
    if (count > MAX_INPUTS) {
        td__saved_fail(c, TD_UNSUPPORTED, "it has a node of too many inputs");
        return false;
    }
    if (!spend(c, 1 + count * count / MAX_INPUTS)) { /* each is looked for from the first on */
        return false;
    }
    td__saved_value *in = td__calloc(count + 1, sizeof *in), *out = td__calloc(room, sizeof *out);
    if (!in || !out) {
        td__free(in);
        td__free(out);
        td__saved_fail(c, TD_MEMORY, "out of memory");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        char text[640];
        in[i] = input_text(node, i, text) ? value_of(f, text) : td__saved_nothing;
    }
    td__operators_begin(c->to, node->name);
    convert_inside(f, node, in, count, out, room, &made);
    f->made[place] = td__calloc(made + 1, sizeof **f->made);
    if (f->made[place]) {
        memcpy(f->made[place], out, made * sizeof *out);
        f->made_count[place] = made;
    } else {
        td__saved_fail(c, TD_MEMORY, "out of memory");
    }
    td__free(in);
    td__free(out);
    return !c->status;
}

/* --- functions ---------------------------------------------------------------------------- */

/* Converts a node after what it reads. */
static bool convert_from(frame *f, const char *root) {
    size_t room = f->f->count + 1, depth = 0;
    reference r;
    int64_t place = parse_reference(root, &r) ? node_place(f, r.name) : -1;
    if (place < 0 || f->made[place]) {
        return true;
    }
    if (!spend(f->c, f->f->count / TABLE_SHARE)) {
        return false;
    }
    struct step {
        size_t place, next;
    } *stack = td__calloc(room, sizeof *stack);
    bool *open = td__calloc(room, sizeof *open);
    bool good = stack && open;
    if (good) {
        stack[depth++] = (struct step){(size_t)place, 0};
        open[place] = true;
    }
    while (good && depth) {
        struct step *top = &stack[depth - 1];
        char text[640];
        if (!input_text(&f->f->nodes[top->place], top->next++, text)) {
            good = convert_node(f, top->place);
            open[top->place] = false;
            depth--;
            continue;
        }
        int64_t from = parse_reference(text, &r) ? node_place(f, r.name) : -1;
        if (from >= 0 && !f->made[from]) {
            if (open[from] || depth == room) {
                td__saved_fail(f->c, TD_FORMAT, "a function whose nodes form a circle");
                good = false;
            } else {
                stack[depth++] = (struct step){(size_t)from, 0};
                open[from] = true;
            }
        }
    }
    td__free(stack);
    td__free(open);
    return good;
}

static bool frame_init(frame *f) {
    f->made = td__calloc(f->f->count + 1, sizeof *f->made);
    f->made_count = td__calloc(f->f->count + 1, sizeof *f->made_count);
    return f->made && f->made_count;
}

static void frame_release(frame *f) {
    for (size_t i = 0; f->made && i < f->f->count; i++) {
        td__free(f->made[i]);
    }
    td__free(f->made);
    td__free(f->made_count);
}

static bool run_function(td__saved_converter *c, const char *name, const td__saved_value *arguments,
                         size_t count, int depth, td__saved_value *results, size_t room,
                         size_t *result_count) {
    const json_t *place = name ? json_object_get(c->file.by_name, name) : NULL;
    *result_count = 0;
    if (!place || depth > MAX_DEPTH) {
        td__saved_fail(c, TD_FORMAT,
                       place ? "functions that call each other too deep"
                             : "a call of a function that is not there");
        return false;
    }
    frame f = {.c = c,
               .f = &c->file.functions[json_integer_value(place)],
               .arguments = arguments,
               .argument_count = count,
               .depth = depth};
    bool good = spend(c, 1 + f.f->count / TABLE_SHARE) && frame_init(&f);
    for (size_t i = 0; good && i < f.f->output_count && i < room; i++) {
        const char *from = json_string_value(json_object_get(f.f->results, f.f->outputs[i]));
        good = from && convert_from(&f, from);
        results[i] = good ? value_of(&f, from) : td__saved_nothing;
        *result_count = i + 1;
    }
    frame_release(&f);
    return good;
}

/* --- the signature ------------------------------------------------------------------------ */

static td_dtype port_type(int64_t type) {
    return type == 1 || type == 2 || type == 14 || type == 19 ? TD_FLOAT32
           : type == 10                                       ? TD_BOOL
                                                              : TD_INT64;
}

static bool put_input(frame *f, const td__saved_port *port) {
    td__saved_converter *c = f->c;
    reference r;
    int64_t place = parse_reference(port->tensor, &r) ? node_place(f, r.name) : -1;
    if (place < 0 || f->made[place] || !port->known) {
        td__saved_fail(c, TD_UNSUPPORTED, "an input of any number of axes");
        return false;
    }
    f->made[place] = td__calloc(1, sizeof **f->made);
    if (!f->made[place]) {
        td__saved_fail(c, TD_MEMORY, "out of memory");
        return false;
    }
    f->made_count[place] = 1;
    td__saved_value value = td__saved_nothing;
    value.ranked = true;
    value.shape = port->shape;
    value.type = port->type;
    value.name = td__operators_name(c->to, port->name);
    f->made[place][0] = value;
    if (port->type == 7) {
        td__saved_fail(c, TD_UNSUPPORTED, "an input of texts");
        return false;
    }
    td__operators_port(c->to, false, value.name, port_type(port->type), &port->shape);
    return true;
}

static bool convert_all(td__saved_converter *c) {
    const td__saved_file *file = &c->file;
    frame f = {.c = c, .f = &file->functions[0]};
    bool good = frame_init(&f);
    for (size_t i = 0; good && i < file->input_count; i++) {
        good = put_input(&f, &file->inputs[i]);
    }
    for (size_t i = 0; good && i < file->output_count; i++) {
        const td__saved_port *port = &file->outputs[i];
        good = convert_from(&f, port->tensor);
        td__saved_value value = good ? value_of(&f, port->tensor) : td__saved_nothing;
        if (value.variable >= 0 && !value.name) {
            value.name = td__saved_variable(c, value.variable, 'v');
        }
        if (good && !value.name && !c->refused) {
            td__saved_fail(c, TD_UNSUPPORTED, "an output that is no tensor");
            good = false;
        } else if (good && value.name) {
            char called[600]; /* an input may have the name, too */
            bool taken = false;
            for (size_t k = 0; k < file->input_count; k++) {
                taken = taken || !strcmp(file->inputs[k].name, port->name);
            }
            (void)snprintf(called, sizeof called, "%.500s%s", port->name, taken ? "/output" : "");
            const char *name = td__operators_name(c->to, called);
            td__operators_rename(c->to, value.name, name);
            td_shape shape = port->known ? port->shape : value.shape;
            td__operators_port(c->to, true, name, port_type(port->type), &shape);
        }
    }
    frame_release(&f);
    return good && !c->refused;
}

td__graph *td__saved_graph_open(const char *path, const void *bytes, size_t size, td_error *error) {
    static const char variables[] = "variables/variables";
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0, room = folder + sizeof variables;
    char *name = td__calloc(room, 1);
    td__bundle bundle = {0};
    if (!name) {
        (void)td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        return NULL;
    }
    (void)snprintf(name, room, "%.*s%s", (int)folder, path, variables);
    td_error reason = {0};
    td_status status = td__bundle_open(&bundle, name, &reason);
    bool none = status == TD_NOT_FOUND; /* a graph without variables */
    if (status && !none) {
        (void)td_error_set(error, status, "%s", reason.text);
    }
    td__graph *graph = status && !none ? NULL : td__saved_graph(path, bytes, size, &bundle, error);
    td__bundle_release(&bundle);
    td__free(name);
    return graph;
}

td__graph *td__saved_graph(const char *path, const void *bytes, size_t size,
                           const td__bundle *bundle, td_error *error) {
    td__saved_converter c = {.file = {.path = path, .to = td__operators_create()},
                             .bundle = bundle,
                             .read = json_object(),
                             .error = error};
    c.to = c.file.to;
    size_t all = size;
    for (uint32_t i = 0; i < bundle->shard_count; i++) {
        all += bundle->shards[i].size;
    }
    c.left = ((size_t)64 << 20) + 4 * (all < SIZE_MAX / 8 ? all : SIZE_MAX / 8);
    c.status = c.to && c.read ? td__saved_file_read(&c.file, bytes, size, bundle, error)
                              : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    bool good = !c.status && convert_all(&c);
    if (!good && !c.status) {
        td_error_set(
            error, TD_UNSUPPORTED,
            "%s: operators of TensorFlow that are not supported: %s; python -m tf2onnx.convert "
            "--saved-model FOLDER --output model.onnx may know them",
            path, *c.missing ? c.missing : "none of its outputs can be made");
    }
    td_error reason = {0};
    td__graph *graph = good ? td__graph_build(c.to, "saved_model", &reason) : NULL;
    if (good && !graph) {
        (void)td_error_set(error, reason.status, "%s: %s", path, reason.text);
    }
    for (size_t i = 0; i < c.list_count; i++) {
        td__free(c.lists[i].items);
    }
    td__free(c.lists);
    td__saved_file_release(&c.file);
    json_decref(c.read);
    td__operators_destroy(c.to);
    return graph;
}
