/* Reading saved_model.pb: its functions, its signature, and which variable is which in the checkpoint. */
#include "tensorflow/saved.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FUNCTIONS = 4096, MAX_NODES = 200000, MAX_OBJECTS = 1 << 18, MAX_TEXT = 1024 };

static const char *copy_text(td__operators *to, const td__proto_field *field) {
    char text[MAX_TEXT];
    size_t size = field->size < MAX_TEXT - 1 ? field->size : MAX_TEXT - 1;
    memcpy(text, field->size ? field->data : (const uint8_t *)"", size);
    text[size] = 0;
    const char *copy = td__operators_name(to, text);
    return copy ? copy : "";
}

static bool is_text(const td__proto_field *field, const char *text) {
    return field->wire == TD__BYTES && field->size == strlen(text) &&
           !memcmp(field->size ? field->data : (const uint8_t *)"", text, field->size);
}

/* The first field of that number; false: none. */
static bool find_field(td__proto message, uint32_t number, td__proto_field *field) {
    while (td__proto_next(&message, field)) {
        if (field->number == number) {
            return true;
        }
    }
    return false;
}

static bool find_message(td__proto message, uint32_t number, td__proto *found) {
    td__proto_field field;
    while (td__proto_next(&message, &field)) {
        if (field.number == number && field.wire == TD__BYTES) {
            *found = td__proto_in(&field);
            return true;
        }
    }
    return false;
}

/* --- attributes --------------------------------------------------------------------------- */

bool td__saved_attribute(const td__saved_node *node, const char *name, td__proto *value) {
    enum { ATTRIBUTE = 5, KEY = 1, VALUE = 2 };
    td__proto message = node->message;
    td__proto_field field, key;
    while (td__proto_next(&message, &field)) {
        if (field.number == ATTRIBUTE && field.wire == TD__BYTES &&
            find_field(td__proto_in(&field), KEY, &key) && is_text(&key, name)) {
            return find_message(td__proto_in(&field), VALUE, value);
        }
    }
    return false;
}

int64_t td__saved_int(const td__saved_node *node, const char *name, int64_t fallback) {
    enum { INTEGER = 3, TRUTH = 5, TYPE = 6 };
    td__proto value;
    td__proto_field field;
    if (!td__saved_attribute(node, name, &value)) {
        return fallback;
    }
    while (td__proto_next(&value, &field)) {
        if (field.wire == TD__VARINT &&
            (field.number == INTEGER || field.number == TRUTH || field.number == TYPE)) {
            return (int64_t)field.bits;
        }
    }
    return 0; /* which is not written */
}

double td__saved_real(const td__saved_node *node, const char *name, double fallback) {
    td__proto value;
    td__proto_field field;
    if (!td__saved_attribute(node, name, &value)) {
        return fallback;
    }
    return find_field(value, 4, &field) && field.wire == TD__FIXED32
               ? (double)td__float_of((uint32_t)field.bits)
               : 0;
}

const char *td__saved_text(td__operators *to, const td__saved_node *node, const char *name) {
    td__proto value;
    td__proto_field field;
    bool found = td__saved_attribute(node, name, &value) && find_field(value, 2, &field) &&
                 field.wire == TD__BYTES;
    return found ? copy_text(to, &field) : NULL;
}

size_t td__saved_ints(const td__saved_node *node, const char *name, size_t room, int64_t *out) {
    td__proto value, list;
    td__proto_field field;
    size_t count = 0;
    if (!td__saved_attribute(node, name, &value) || !find_message(value, 1, &list)) {
        return 0;
    }
    while (td__proto_next(&list, &field)) {
        if (field.number == 3 && field.wire == TD__VARINT && count < room) {
            out[count++] = (int64_t)field.bits;
        }
        td__proto packed = field.wire == TD__BYTES ? td__proto_in(&field) : td__proto_of(NULL, 0);
        uint64_t bits;
        while (field.number == 3 && packed.p < packed.end && count < room &&
               td__proto_varint(&packed, &bits)) {
            out[count++] = (int64_t)bits;
        }
    }
    return count;
}

bool td__saved_read_shape(td__proto message, td_shape *shape) {
    enum { AXIS = 2, UNKNOWN = 3, SIZE = 1 };
    td__proto_field field, size;
    *shape = (td_shape){0};
    while (td__proto_next(&message, &field)) {
        if (field.number == UNKNOWN && field.wire == TD__VARINT && field.bits) {
            return false;
        }
        if (field.number == AXIS && field.wire == TD__BYTES) {
            if (shape->rank == TD_MAX_RANK) {
                return false;
            }
            bool has = find_field(td__proto_in(&field), SIZE, &size) && size.wire == TD__VARINT;
            int64_t n = has ? (int64_t)size.bits : 0;
            shape->dims[shape->rank++] = n < 0 ? -1 : n;
        }
    }
    return !message.bad;
}

bool td__saved_shape(const td__saved_node *node, size_t output, td_shape *shape) {
    enum { LIST = 1, SHAPE = 7 };
    td__proto value, list;
    td__proto_field field;
    size_t at = 0;
    if (!td__saved_attribute(node, "_output_shapes", &value) || !find_message(value, LIST, &list)) {
        return false;
    }
    while (td__proto_next(&list, &field)) {
        if (field.number == SHAPE && field.wire == TD__BYTES && at++ == output) {
            return td__saved_read_shape(td__proto_in(&field), shape);
        }
    }
    return false;
}

/* --- functions ---------------------------------------------------------------------------- */

static td_status saved_exhausted(const td__saved_file *file, td_error *error) {
    return td_error_set(error, TD_MEMORY, "%s: out of memory, or too many functions or nodes",
                        file->path);
}

static td_status add_node(td__saved_file *file, td__saved_function *f, const td__proto_field *in,
                          td_error *error) {
    enum { NAME = 1, OP = 2 };
    td__proto_field name = {0}, op = {0};
    if (!td__grow(&f->nodes, &f->capacity, f->count + 1, MAX_NODES, sizeof *f->nodes) ||
        !find_field(td__proto_in(in), NAME, &name) || !find_field(td__proto_in(in), OP, &op) ||
        name.wire != TD__BYTES || op.wire != TD__BYTES) {
        return saved_exhausted(file, error);
    }
    td__saved_node *node = &f->nodes[f->count];
    *node = (td__saved_node){.name = copy_text(file->to, &name),
                             .op = copy_text(file->to, &op),
                             .message = td__proto_in(in)};
    (void)json_object_set_new(f->places, node->name, json_integer((json_int_t)f->count++));
    return TD_OK;
}

static td__saved_function *add_function(td__saved_file *file) {
    if (!td__grow(&file->functions, &file->function_capacity, file->function_count + 1,
                  MAX_FUNCTIONS, sizeof *file->functions)) {
        return NULL;
    }
    td__saved_function *f = &file->functions[file->function_count++];
    *f = (td__saved_function){.name = "", .places = json_object(), .results = json_object()};
    return f;
}

/* Names of the arguments (2) or outputs (3) of a signature; td__free. */
static const char **read_names(td__saved_file *file, td__proto signature, uint32_t number,
                               size_t *count) {
    td__proto again = signature;
    td__proto_field field, name;
    size_t all = 0;
    while (td__proto_next(&again, &field)) {
        all += field.number == number;
    }
    const char **names = td__calloc(all + 1, sizeof *names);
    *count = 0;
    while (names && td__proto_next(&signature, &field)) {
        if (field.number == number && field.wire == TD__BYTES) {
            bool named = find_field(td__proto_in(&field), 1, &name) && name.wire == TD__BYTES;
            names[(*count)++] = named ? copy_text(file->to, &name) : "";
        }
    }
    return names;
}

static td_status read_function(td__saved_file *file, td__proto message, td_error *error) {
    enum { SIGNATURE = 1, NODE = 3, RESULT = 4, ARGUMENTS = 2, OUTPUTS = 3 };
    td__saved_function *f = add_function(file);
    td__proto signature;
    td__proto_field field, name, value;
    if (!f || !find_message(message, SIGNATURE, &signature) || !find_field(signature, 1, &name) ||
        name.wire != TD__BYTES) {
        return saved_exhausted(file, error);
    }
    f->name = copy_text(file->to, &name);
    f->arguments = read_names(file, signature, ARGUMENTS, &f->argument_count);
    f->outputs = read_names(file, signature, OUTPUTS, &f->output_count);
    (void)json_object_set_new(file->by_name, f->name,
                              json_integer((json_int_t)file->function_count - 1));
    td_status status = f->arguments && f->outputs ? TD_OK : saved_exhausted(file, error);
    while (!status && td__proto_next(&message, &field)) {
        if (field.number == NODE && field.wire == TD__BYTES) {
            status = add_node(file, f, &field, error);
        } else if (field.number == RESULT && field.wire == TD__BYTES &&
                   find_field(td__proto_in(&field), 1, &name) && name.wire == TD__BYTES &&
                   find_field(td__proto_in(&field), 2, &value) && value.wire == TD__BYTES) {
            (void)json_object_set_new(f->results, copy_text(file->to, &name),
                                      json_string(copy_text(file->to, &value)));
        }
    }
    return status;
}

static td_status read_functions(td__saved_file *file, td__proto graph, td_error *error) {
    enum { NODE = 1, LIBRARY = 2, FUNCTION = 1 };
    td__proto again = graph, library;
    td__proto_field field;
    td__saved_function *main = add_function(file);
    td_status status = main ? TD_OK : saved_exhausted(file, error);
    while (!status && td__proto_next(&graph, &field)) {
        if (field.number == NODE && field.wire == TD__BYTES) {
            status = add_node(file, main, &field, error);
        }
    }
    if (!status && find_message(again, LIBRARY, &library)) {
        while (!status && td__proto_next(&library, &field)) {
            if (field.number == FUNCTION && field.wire == TD__BYTES) {
                status = read_function(file, td__proto_in(&field), error);
            }
        }
    }
    return status;
}

/* --- the signature ------------------------------------------------------------------------ */

static int by_port_name(const void *left, const void *right) {
    return strcmp(((const td__saved_port *)left)->name, ((const td__saved_port *)right)->name);
}

/* Inputs (1) or outputs (2), by their names: the order in the file is any. */
static td_status read_ports(td__saved_file *file, td__proto signature, uint32_t number,
                            td__saved_port **ports, size_t *count, td_error *error) {
    enum { KEY = 1, VALUE = 2, NAME = 1, TYPE = 2, SHAPE = 3, MOST = 256 };
    td__proto_field field, part;
    *ports = td__calloc(MOST, sizeof **ports);
    if (!*ports) {
        return saved_exhausted(file, error);
    }
    while (td__proto_next(&signature, &field)) {
        td__proto info, shape;
        if (field.number != number || field.wire != TD__BYTES || *count == MOST) {
            continue;
        }
        td__saved_port *port = &(*ports)[*count];
        bool good = find_field(td__proto_in(&field), KEY, &part) && part.wire == TD__BYTES;
        port->name = good ? copy_text(file->to, &part) : "";
        good = good && find_message(td__proto_in(&field), VALUE, &info) &&
               find_field(info, NAME, &part) && part.wire == TD__BYTES;
        if (!good) {
            continue;
        }
        port->tensor = copy_text(file->to, &part);
        port->type =
            find_field(info, TYPE, &part) && part.wire == TD__VARINT ? (int64_t)part.bits : 0;
        port->known =
            find_message(info, SHAPE, &shape) && td__saved_read_shape(shape, &port->shape);
        ++*count;
    }
    qsort(*ports, *count, sizeof **ports, by_port_name);
    return TD_OK;
}

static td_status read_signature(td__saved_file *file, td__proto graph, td_error *error) {
    enum { SIGNATURE = 5, KEY = 1, VALUE = 2 };
    td__proto_field field, key;
    td__proto signature;
    while (td__proto_next(&graph, &field)) {
        if (field.number == SIGNATURE && field.wire == TD__BYTES &&
            find_field(td__proto_in(&field), KEY, &key) && is_text(&key, "serving_default") &&
            find_message(td__proto_in(&field), VALUE, &signature)) {
            td_status status =
                read_ports(file, signature, 1, &file->inputs, &file->input_count, error);
            return status
                       ? status
                       : read_ports(file, signature, 2, &file->outputs, &file->output_count, error);
        }
    }
    return td_error_set(error, TD_NO_MODEL,
                        "%s: a SavedModel without the signature "
                        "serving_default",
                        file->path);
}

/* --- objects ------------------------------------------------------------------------------ */

typedef struct objects {
    td__proto *items;
    size_t count, capacity;
} objects;

static td_status list_objects(td__saved_file *file, td__proto graph, objects *list,
                              td_error *error) {
    td__proto_field field;
    while (td__proto_next(&graph, &field)) {
        if (field.number != 1 || field.wire != TD__BYTES) {
            continue;
        }
        if (!td__grow(&list->items, &list->capacity, list->count + 1, MAX_OBJECTS,
                      sizeof *list->items)) {
            return saved_exhausted(file, error);
        }
        list->items[list->count++] = td__proto_in(&field);
    }
    return TD_OK;
}

/* The next child of an object; false: no more. */
static bool next_child(td__proto *message, uint64_t *id, td__proto_field *name) {
    td__proto_field field, part;
    while (td__proto_next(message, &field)) {
        if (field.number == 1 && field.wire == TD__BYTES) {
            *id = find_field(td__proto_in(&field), 1, &part) && part.wire == TD__VARINT ? part.bits
                                                                                        : 0;
            return find_field(td__proto_in(&field), 2, name) && name->wire == TD__BYTES;
        }
    }
    return false;
}

static bool child_of(td__proto message, const td__proto_field *name, uint64_t *id) {
    td__proto_field own;
    while (next_child(&message, id, &own)) {
        if (own.size == name->size &&
            !memcmp(own.size ? own.data : (const uint8_t *)"",
                    name->size ? name->data : (const uint8_t *)"", own.size)) {
            return true;
        }
    }
    return false;
}

/* The variable's name, and the checkpoint's key of the same object there. */
static void note_variable(td__saved_file *file, size_t id, td__proto saved, td__proto kept) {
    enum { VARIABLE = 7, VARIABLE_NAME = 6, ATTRIBUTE = 2, KEY = 3 };
    td__proto variable;
    td__proto_field field, key, name;
    char number[24];
    if (!find_message(saved, VARIABLE, &variable)) {
        return;
    }
    while (td__proto_next(&kept, &field)) {
        if (field.number == ATTRIBUTE && field.wire == TD__BYTES &&
            find_field(td__proto_in(&field), KEY, &key) && key.wire == TD__BYTES) {
            bool named = find_field(variable, VARIABLE_NAME, &name) && name.wire == TD__BYTES;
            (void)snprintf(number, sizeof number, "%zu", id);
            const char *text = copy_text(file->to, &key);
            (void)json_object_set_new(
                file->keys, number,
                json_pack("[s, s]", text, named ? copy_text(file->to, &name) : text));
            return;
        }
    }
}

/* Both graphs of objects from their roots on, by the names of children: which object is which. */
static td_status match_objects(td__saved_file *file, const objects *saved, const objects *kept,
                               td_error *error) {
    enum { MAX_STEPS = 1 << 22 };
    size_t *match = td__calloc(saved->count + 1, sizeof *match), steps = 0; /* plus 1; 0: unknown */
    size_t *queue = td__calloc(saved->count + 1, sizeof *queue), first = 0, last = 0;
    if (!match || !queue || !saved->count || !kept->count) {
        td__free(match);
        td__free(queue);
        return match && queue ? TD_OK : saved_exhausted(file, error);
    }
    match[0] = 1;
    queue[last++] = 0;
    while (first < last && steps < MAX_STEPS) {
        size_t id = queue[first++];
        td__proto mine = saved->items[id], theirs = kept->items[match[id] - 1];
        uint64_t child, other;
        td__proto_field name;
        note_variable(file, id, mine, theirs);
        while (next_child(&mine, &child, &name) && steps++ < MAX_STEPS) {
            if (child < saved->count && !match[child] && child_of(theirs, &name, &other) &&
                other < kept->count) {
                match[child] = (size_t)other + 1;
                queue[last++] = (size_t)child;
            }
        }
    }
    td__free(match);
    td__free(queue);
    return TD_OK;
}

/* What each function captures: SavedConcreteFunction.bound_inputs. */
static void read_captures(td__saved_file *file, td__proto graph) {
    enum { FUNCTION = 2, KEY = 1, VALUE = 2, BOUND = 2 };
    td__proto_field field, key, bound;
    td__proto value;
    while (td__proto_next(&graph, &field)) {
        if (field.number != FUNCTION || field.wire != TD__BYTES ||
            !find_field(td__proto_in(&field), KEY, &key) || key.wire != TD__BYTES ||
            !find_message(td__proto_in(&field), VALUE, &value)) {
            continue;
        }
        json_t *list = json_array();
        while (td__proto_next(&value, &bound)) {
            td__proto packed =
                bound.wire == TD__BYTES ? td__proto_in(&bound) : td__proto_of(NULL, 0);
            uint64_t bits;
            if (bound.number == BOUND && bound.wire == TD__VARINT) {
                (void)json_array_append_new(list, json_integer((json_int_t)bound.bits));
            }
            while (bound.number == BOUND && packed.p < packed.end &&
                   td__proto_varint(&packed, &bits)) {
                (void)json_array_append_new(list, json_integer((json_int_t)bits));
            }
        }
        (void)json_object_set_new(file->captured, copy_text(file->to, &key), list);
    }
}

static td_status read_objects(td__saved_file *file, td__proto graph, const td__bundle *bundle,
                              td_error *error) {
    const td__bundle_entry *entry = td__bundle_find(bundle, "_CHECKPOINTABLE_OBJECT_GRAPH");
    const unsigned char *text = NULL;
    size_t size = 0;
    objects saved = {0}, kept = {0};
    td_status status = entry ? td__bundle_text(bundle, entry, &text, &size, error) : TD_OK;
    status = status ? status : list_objects(file, graph, &saved, error);
    status = status ? status : list_objects(file, td__proto_of(text, size), &kept, error);
    status = status ? status : match_objects(file, &saved, &kept, error);
    td__free(saved.items);
    td__free(kept.items);
    read_captures(file, graph);
    return status;
}

td_status td__saved_file_read(td__saved_file *file, const void *bytes, size_t size,
                              const td__bundle *bundle, td_error *error) {
    enum { META = 2, GRAPH = 2, OBJECTS = 7 };
    td__proto meta, graph, list;
    file->by_name = json_object();
    file->captured = json_object();
    file->keys = json_object();
    if (!find_message(td__proto_of(bytes, size), META, &meta) ||
        !find_message(meta, GRAPH, &graph)) {
        return td_error_set(error, TD_FORMAT, "%s: not a sound SavedModel: it has no graph",
                            file->path);
    }
    td_status status = read_functions(file, graph, error);
    status = status ? status : read_signature(file, meta, error);
    return !status && find_message(meta, OBJECTS, &list) ? read_objects(file, list, bundle, error)
                                                         : status;
}

void td__saved_file_release(td__saved_file *file) {
    for (size_t i = 0; i < file->function_count; i++) {
        td__saved_function *f = &file->functions[i];
        td__free(f->nodes);
        td__free(f->arguments);
        td__free(f->outputs);
        json_decref(f->places);
        json_decref(f->results);
    }
    td__free(file->functions);
    td__free(file->inputs);
    td__free(file->outputs);
    json_decref(file->by_name);
    json_decref(file->captured);
    json_decref(file->keys);
}
