/* A program of torch.export: the archive's graph read, its weights found, its nodes converted one after
 * another, and all made a graph. Weights take at most 64 MiB and 4 times
 * the archive: several may share a member. */
#include "exported/exported.h"

#include "base/half.h"
#include "base/memory.h"
#include "base/proto.h"
#include "exported/convert.h"
#include "graph/build.h"
#include "zip/zip.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NODES = 20000, MAX_MISSING = 400, MAX_PATH = 512 };
#define WEIGHTS_BASE ((size_t)64 << 20)

/* torch's ScalarType as the format numbers it: bytes of an element, and what it becomes. */
static const struct {
    uint8_t size;
    td_dtype dtype;
} types[] = {
    [1] = {1, TD_INT64}, [2] = {1, TD_INT64},   [3] = {2, TD_INT64},   [4] = {4, TD_INT64},
    [5] = {8, TD_INT64}, [6] = {2, TD_FLOAT32}, [7] = {4, TD_FLOAT32}, [8] = {8, TD_FLOAT32},
    [12] = {1, TD_BOOL}, [13] = {2, TD_FLOAT32}};

typedef struct program {
    const char *path;
    td__zip zip;
    char root[MAX_PATH]; /* of the archive, with a slash */
    json_t *model, *weights, *constants;
    const json_t *graph;
    td__operators *to;
    json_t *values;
    td__aten_aliases aliases;
    json_t *taken; /* names of inputs and outputs of the graph */
    size_t left;   /* bytes that weights may still take */
} program;

static td_status program_malformed(const program *p, const char *what, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: not a sound program of torch.export: %s", p->path,
                        what);
}

/* --- weights ------------------------------------------------------------------------------ */

/* Elements in the order of the file's memory, as float or int64. */
static void widen(int dtype, const unsigned char *data, int64_t count, void *values) {
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *at = data + (size_t)i * types[dtype].size;
        unsigned both = types[dtype].size == 2 ? at[0] | (unsigned)at[1] << 8 : 0;
        uint16_t two = (uint16_t)both;
        switch (dtype) {
        case 6:
            ((float *)values)[i] = td__from_float16(two);
            break;
        case 13:
            ((float *)values)[i] = td__from_bfloat16(two);
            break;
        case 7:
            ((float *)values)[i] = td__float_of(td__load32(at));
            break;
        case 8:
            ((float *)values)[i] = (float)td__double_of(td__load64(at));
            break;
        case 12:
            ((int64_t *)values)[i] = *at != 0;
            break;
        default:
            ((int64_t *)values)[i] = dtype == 1   ? *at
                                     : dtype == 2 ? (int8_t)*at
                                     : dtype == 3 ? (int16_t)two
                                     : dtype == 4 ? (int32_t)td__load32(at)
                                                  : (int64_t)td__load64(at);
        }
    }
}

/* first: where it begins in the file's memory, of which it may be a part. */
static bool is_contiguous(const json_t *info, const td_shape *shape, int64_t *first) {
    const json_t *strides = json_object_get(info, "strides");
    int64_t stride = 1;
    *first = json_integer_value(json_object_get(json_object_get(info, "storage_offset"), "as_int"));
    bool good = json_array_size(strides) == (size_t)shape->rank && *first >= 0;
    for (int32_t i = shape->rank - 1; good && i >= 0; i--) {
        int64_t has =
            json_integer_value(json_object_get(json_array_get(strides, (size_t)i), "as_int"));
        good = has == stride || shape->dims[i] == 1;
        stride *= shape->dims[i];
    }
    return good;
}

/* A parameter, buffer or constant under the name that the module has for it. */
static td_status put_weight(program *p, const char *called, td_error *error) {
    const json_t *entry = json_object_get(json_object_get(p->weights, "config"), called);
    const char *folder = "data/weights/";
    if (!entry) {
        entry = json_object_get(json_object_get(p->constants, "config"), called);
        folder = "data/constants/";
    }
    const json_t *info = json_object_get(entry, "tensor_meta");
    const char *member = json_string_value(json_object_get(entry, "path_name"));
    int64_t dtype = json_integer_value(json_object_get(info, "dtype")), count, first;
    td_shape shape;
    bool known = dtype > 0 && (size_t)dtype < sizeof types / sizeof *types && types[dtype].size;
    if (!member || !known || !td__aten_read_sizes(info, &shape) ||
        td_shape_check(&shape, TD_INT64, &count, NULL) || !is_contiguous(info, &shape, &first) ||
        json_is_true(json_object_get(entry, "use_pickle"))) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: tensor '%.100s' is not there, pickled, of another type or not in "
                            "one piece",
                            p->path, called);
    }
    char name[2 * MAX_PATH];
    td__zip_member data = {0};
    size_t bytes = (size_t)count * types[dtype].size, room = (size_t)count * sizeof(int64_t);
    (void)snprintf(name, sizeof name, "%s%s%.200s", p->root, folder, member);
    td_status status = room > p->left ? td_error_set(error, TD_RANGE,
                                                     "%s: its weights take more memory than the "
                                                     "file has bytes for",
                                                     p->path)
                                      : td__zip_read(&p->zip, name, p->left, true, &data, error);
    if (status) {
        return status;
    }
    p->left -= room;
    td_dtype kept = types[dtype].dtype == TD_FLOAT32 ? TD_FLOAT32 : TD_INT64;
    size_t before = (size_t)first, size = types[dtype].size;
    bool fits = bytes <= data.size && before <= (data.size - bytes) / size;
    td_tensor *tensor = fits ? td_tensor_create(called, kept, shape, error) : NULL;
    if (tensor) {
        widen((int)dtype, (const unsigned char *)data.data + before * size, count,
              td_tensor_data(tensor));
        (void)td__operators_tensor(p->to, called, types[dtype].dtype, tensor);
    } else {
        status = fits ? TD_MEMORY
                      : program_malformed(p, "a tensor has another size than its shape", error);
    }
    td__zip_member_release(&data);
    return status;
}

/* --- the program -------------------------------------------------------------------------- */

static td_status read_json(program *p, const char *member, json_t **made, td_error *error) {
    char name[2 * MAX_PATH];
    td__zip_member text = {0};
    (void)snprintf(name, sizeof name, "%s%s", p->root, member);
    td_status status = td__zip_read(&p->zip, name, (size_t)256 << 20, true, &text, error);
    if (!status) {
        *made = td__json_read(p->path, (const char *)text.data, text.size,
                              td__json_budget(p->zip.size), error);
        status = *made ? TD_OK : TD_FORMAT;
    }
    td__zip_member_release(&text);
    return status;
}

static td_status open_program(program *p, const void *bytes, size_t size, td_error *error) {
    static const char tail[] = "models/model.json";
    td_status status = td__zip_open(&p->zip, bytes, size, p->path, error);
    bool found = false;
    for (size_t i = 0; !status && !found && i < p->zip.count; i++) {
        const td__zip_entry *entry = &p->zip.entries[i];
        size_t root = entry->name_size - (sizeof tail - 1);
        found = entry->name_size >= sizeof tail - 1 && root < MAX_PATH &&
                !memcmp(entry->name + root, tail, sizeof tail - 1);
        (void)snprintf(p->root, sizeof p->root, "%.*s", found ? (int)root : 0, entry->name);
    }
    if (!status && !found) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: a program of torch.export as PyTorch before 2.9 wrote it, or of "
                            "several models; convert it: torch.onnx.export(torch.export.load("
                            "\"%s\"), dynamo=True).save(\"model.onnx\")",
                            p->path, p->path);
    }
    status = status ? status : read_json(p, tail, &p->model, error);
    status = status ? status
                    : read_json(p, "data/weights/model_weights_config.json", &p->weights, error);
    status = status
                 ? status
                 : read_json(p, "data/constants/model_constants_config.json", &p->constants, error);
    p->graph = json_object_get(json_object_get(p->model, "graph_module"), "graph");
    if (!status && !p->graph) {
        status = program_malformed(p, "it has no graph", error);
    }
    return status;
}

/* What an input or output of that name in the program is called in the graph: the same, unless a
 * weight or another one is; ending tells them apart then. NULL when memory is exhausted. */
static const char *call_value(program *p, const char *name, const char *ending) {
    char called[300];
    bool weight = json_object_get(json_object_get(p->weights, "config"), name) ||
                  json_object_get(json_object_get(p->constants, "config"), name);
    (void)snprintf(called, sizeof called, "%.200s%s", name,
                   weight || json_object_get(p->taken, name) ? ending : "");
    (void)json_object_set_new(p->taken, called, json_true());
    return td__operators_name(p->to, called);
}

static td_status convert_inputs(program *p, td_error *error) {
    static const struct {
        const char *kind, *key;
    } kinds[] = {{"parameter", "parameter_name"},
                 {"buffer", "buffer_name"},
                 {"tensor_constant", "tensor_constant_name"}};
    const json_t *signature =
        json_object_get(json_object_get(p->model, "graph_module"), "signature");
    const json_t *specs = json_object_get(signature, "input_specs");
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < json_array_size(specs); i++) {
        const json_t *spec = json_array_get(specs, i), *user = json_object_get(spec, "user_input");
        const char *name = json_string_value(
            json_object_get(json_object_get(json_object_get(user, "arg"), "as_tensor"), "name"));
        const char *called = name ? call_value(p, name, "/input") : NULL;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const json_t *held = json_object_get(spec, kinds[k].kind);
            if (held) {
                name = json_string_value(json_object_get(json_object_get(held, "arg"), "name"));
                called = json_string_value(json_object_get(held, kinds[k].key));
            }
        }
        if (!name || !called) {
            return program_malformed(p, "an input that is no tensor", error);
        }
        td_shape shape;
        const json_t *info = json_object_get(json_object_get(p->graph, "tensor_values"), name);
        int64_t dtype = json_integer_value(json_object_get(info, "dtype"));
        bool known = dtype > 0 && (size_t)dtype < sizeof types / sizeof *types &&
                     types[dtype].size && td__aten_read_sizes(info, &shape);
        if (!user) {
            status = put_weight(p, called, error);
        } else if (known) {
            td__operators_port(p->to, false, called, types[dtype].dtype, &shape);
        } else {
            status = program_malformed(p, "an input has no type or shape", error);
        }
        (void)json_object_set_new(p->values, name, json_string(called));
    }
    return status;
}

static void convert_node(program *p, const json_t *nodes, size_t place, char missing[MAX_MISSING],
                         size_t *refused) {
    const json_t *node = json_array_get(nodes, place);
    const char *target = json_string_value(json_object_get(node, "target"));
    const char *name = json_string_value(json_object_get(node, "name"));
    const char *plain = target ? target : "nothing";
    plain = strncmp(plain, "torch.ops.", 10) ? plain : plain + 10;
    td__aten_call call = {.to = p->to,
                          .values = p->values,
                          .tensors = json_object_get(p->graph, "tensor_values"),
                          .nodes = nodes,
                          .node = node,
                          .aliases = &p->aliases,
                          .row = td__aten_find(plain)};
    td__operators_begin(p->to, name ? name : "node");
    const char *made = NULL;
    if (call.row && td__aten_check_aliases(&call)) {
        made = call.row->convert(&call);
        made = made ? td__aten_note_aliases(&call, plain, place, made) : NULL;
    }
    for (size_t i = made ? 0 : 1; made ? i < 1 : i <= td__aten_outputs(&call); i++) {
        td__aten_give(&call, made ? i : i - 1, made ? made : "refused"); /* to go on */
    }
    const char *reason = td__operators_reason(p->to);
    size_t length = strlen(missing);
    if (!made && !strstr(missing, plain) && length + strlen(plain) + 60 < MAX_MISSING) {
        (void)snprintf(missing + length, MAX_MISSING - length, "%s%s%s%.100s%s", length ? ", " : "",
                       plain, *reason ? " (" : "", reason, *reason ? ")" : "");
    }
    *refused += !made;
}

static td_status convert_outputs(program *p, td_error *error) {
    const json_t *outputs = json_object_get(p->graph, "outputs");
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const json_t *tensor = json_object_get(json_array_get(outputs, i), "as_tensor");
        const char *name = json_string_value(json_object_get(tensor, "name"));
        const char *same = td__aten_same(&p->aliases, name);
        const char *value = same ? json_string_value(json_object_get(p->values, same)) : NULL;
        const json_t *info =
            name ? json_object_get(json_object_get(p->graph, "tensor_values"), name) : NULL;
        td_shape shape;
        int64_t dtype = json_integer_value(json_object_get(info, "dtype"));
        char ending[40];
        if (!value || !td__aten_read_sizes(info, &shape) || dtype < 1 ||
            (size_t)dtype >= sizeof types / sizeof *types) {
            return program_malformed(p, "an output that nothing makes", error);
        }
        if (!td__aten_is_fresh(&p->aliases, name)) {
            return td_error_set(
                error, TD_UNSUPPORTED,
                "%s: its output '%.100s' was written to by way of another tensor; "
                "torch.export.save(torch.export.load(\"%s\").run_decompositions({}), "
                "\"model.pt2\") makes a program that writes to nothing",
                p->path, name, p->path);
        }
        (void)snprintf(ending, sizeof ending, "/output_%zu", i);
        const char *kept = call_value(p, name, ending);
        td__operators_rename(p->to, value, kept ? kept : "");
        td__operators_port(p->to, true, kept ? kept : "", types[dtype].dtype, &shape);
    }
    return TD_OK;
}

static td_status convert_program(program *p, td_error *error) {
    const json_t *nodes = json_object_get(p->graph, "nodes");
    char missing[MAX_MISSING] = "";
    size_t refused = 0;
    td_status status = convert_inputs(p, error);
    if (!status && json_array_size(nodes) > MAX_NODES) {
        status = program_malformed(p, "it has too many nodes", error);
    }
    for (size_t i = 0; !status && i < json_array_size(nodes) && !td__operators_exhausted(p->to);
         i++) {
        convert_node(p, nodes, i, missing, &refused);
    }
    if (!status && refused) {
        status = td_error_set(error, TD_UNSUPPORTED,
                              "%s: operators of torch.export that are not supported: %s; "
                              "torch.onnx.export(torch.export.load(\"%s\"), dynamo=True)"
                              ".save(\"model.onnx\") may know them",
                              p->path, missing, p->path);
    }
    return status ? status : convert_outputs(p, error);
}

td__graph *td__exported_graph(const void *bytes, size_t size, const char *path, td_error *error) {
    program p = {.path = path,
                 .to = td__operators_create(),
                 .values = json_object(),
                 .aliases = {json_object(), json_object(), json_object()},
                 .taken = json_object()};
    p.left = size > (SIZE_MAX - WEIGHTS_BASE) / 4 ? SIZE_MAX : WEIGHTS_BASE + 4 * size;
    td_status status =
        p.to && p.values && p.aliases.same && p.aliases.views && p.aliases.ages && p.taken
            ? open_program(&p, bytes, size, error)
            : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    status = status ? status : convert_program(&p, error);
    td_error reason = {0};
    td__graph *graph = status ? NULL : td__graph_build(p.to, "exported", &reason);
    if (!status && !graph) {
        (void)td_error_set(error, reason.status, "%s: %s", path, reason.text);
    }
    td__operators_destroy(p.to);
    json_decref(p.values);
    json_decref(p.aliases.same);
    json_decref(p.aliases.views);
    json_decref(p.aliases.ages);
    json_decref(p.taken);
    json_decref(p.model);
    json_decref(p.weights);
    json_decref(p.constants);
    td__zip_release(&p.zip);
    return graph;
}

td_model *td__exported_model(const void *bytes, size_t size, const char *path, td_error *error) {
    td__graph *graph = td__exported_graph(bytes, size, path, error);
    return graph ? td__graph_model_built(graph, path, error) : NULL;
}
