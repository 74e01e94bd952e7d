/* Running a graph once on zeros, to learn the shape and type of every value.
 *
 * Node by node, each on an empty tape. What it makes is copied aside until its last user; of large
 * floats only the shape, because their values say nothing about shapes. Like parameters they are
 * zeros in one stretch of memory that all share, which is only ever read and so never takes any.
 * Memory is thus that of one node.
 */
#include "base/memory.h"
#include "graph/source.h"
#include "tape/tape.h"

#include <string.h>
#include <sys/mman.h>

enum { BATCH = 2 };
#define LARGE ((size_t)64 << 10)     /* bytes of a value */
#define MAX_ZEROS ((size_t)64 << 30) /* of address space; less where there is less */

/* Of the input's elements: zeros take no memory, but running over them takes time. */
#define MAX_ELEMENTS ((int64_t)1 << 27)

typedef struct probing {
    td__graph_source *source;
    td_tape *tape;
    td__graph_value *kept; /* of each value, between nodes */
    size_t bytes, limit;   /* of what is kept; the tape may take three times as much */
    void *zeros;           /* zero_bytes of them */
    size_t zero_bytes;
    int64_t batch, any; /* sizes of the batch and of dimensions that may have any */
    bool again;         /* another run has gone before */
    td_error *error;
} probing;

static bool is_ours(const probing *p, int32_t value) {
    const td__graph_fact *fact = &p->source->facts[value];
    return !fact->constant;
}

static size_t tensor_bytes(const td_tensor *tensor) {
    return (size_t)tensor->count * td_dtype_size(tensor->dtype);
}

static void drop_value(probing *p, td__graph_value *kept) {
    td_tensor *tensor = kept->plain ? kept->plain : kept->channels_last;
    if (tensor) {
        p->bytes -= tensor->owns_data ? tensor_bytes(tensor) : 0;
        td_tensor_destroy(tensor);
    }
    td__graph_list *list = (td__graph_list *)kept->list; /* copied here */
    for (int64_t i = 0; list && i < list->count; i++) {
        drop_value(p, &list->items[i]);
    }
    td__free(list);
}

static void release_value(probing *p, int32_t value) {
    td__graph_value *kept = &p->kept[value];
    if (is_ours(p, value)) {
        drop_value(p, kept);
        *kept = (td__graph_value){0};
        *td__graph_run_value(p->source->run, value) = *kept;
    }
}

/* The second time only says what changes with the sizes of the input. */
static void note(td__graph_fact *fact, const td_tensor *made, bool last, const probing *p) {
    bool real = made->dtype == TD_FLOAT32;
    bool batch = real && made->shape.rank > 0 && made->shape.dims[0] == p->batch;
    bool second = real && !last && made->shape.rank > 1 && made->shape.dims[1] == p->batch;
    if (!p->again) {
        fact->shape = made->shape;
        fact->last = last;
        fact->batch = batch;
        fact->batch_second = second;
    } else if (fact->shape.rank == made->shape.rank) {
        fact->batch = fact->batch && batch;
        fact->batch_second = fact->batch_second && second;
        for (int32_t i = fact->batch; i < made->shape.rank; i++) {
            bool same = fact->shape.dims[i] == made->shape.dims[i];
            fact->shape.dims[i] = same ? fact->shape.dims[i] : -1;
        }
    }
}

/* The tensor's values, or zeros; NULL on failure. */
static td_tensor *copy_aside(probing *p, const td_tensor *tensor) {
    size_t bytes = tensor_bytes(tensor);
    if (tensor->dtype == TD_FLOAT32 && bytes >= LARGE && bytes <= p->zero_bytes) {
        return td_tensor_borrow(NULL, TD_FLOAT32, tensor->shape, p->zeros, p->error);
    }
    if (bytes > p->limit - p->bytes) {
        (void)td_error_set(p->error, TD_MEMORY, "its values take more than %zu MiB",
                           p->limit >> 20);
        return NULL;
    }
    td_tensor *copy = td_tensor_from(NULL, tensor->dtype, tensor->shape, tensor->data, p->error);
    p->bytes += copy ? bytes : 0;
    return copy;
}

/* A value of any kind, so that it outlives the recording. Text is empty from here on. */
static td_status copy_value(probing *p, const td__graph_value *made, td__graph_value *copy) {
    td_tensor *tensor = made->plain ? made->plain : made->channels_last;
    *copy = (td__graph_value){.type = made->type, .none = made->none};
    if (made->list) {
        size_t bytes = sizeof *made->list + (size_t)made->list->count * sizeof *made->list->items;
        td__graph_list *list = td__calloc(1, bytes);
        td_status status = list ? TD_OK : td_error_set(p->error, TD_MEMORY, "out of memory");
        copy->list = list;
        for (int64_t i = 0; !status && i < made->list->count; i++) {
            status = copy_value(p, &made->list->items[i], &list->items[list->count]);
            list->count += !status;
        }
        return status;
    }
    td_tensor *own = tensor ? copy_aside(p, tensor) : NULL;
    if (own && made->type == TD__GRAPH_STRING) {
        memset(own->data, 0, tensor_bytes(own));
    }
    *(made->plain ? &copy->plain : &copy->channels_last) = own;
    return own || !tensor ? TD_OK : TD_MEMORY;
}

static td_status keep_value(probing *p, int32_t value) {
    td__graph_value *made = td__graph_run_value(p->source->run, value);
    td_status status = copy_value(p, made, &p->kept[value]);
    *made = p->kept[value];
    const td_tensor *copy = made->plain ? made->plain : made->channels_last;
    if (copy && !status) {
        note(&p->source->facts[value], copy, !made->plain, p);
        p->source->facts[value].type = made->type;
    }
    return status;
}

static bool is_one_of(const char *word, const char *const *words, size_t count) {
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        found = found || strcmp(word, words[i]) == 0;
    }
    return found;
}

/* Element-wise operators on large floats need not run: what they make is as what they read. Of two
 * operands, one is a single number or both are of one shape and form. */
static bool pass_shape(probing *p, const td__graph_node *node) {
    static const char *const unary[] = {"Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish",
                                        "Tanh", "Elu",       "Selu",    "Softplus",    "Softsign",
                                        "Gelu", "Mish",      "Erf",     "Exp",         "Log",
                                        "Sqrt", "Abs",       "Neg",     "Clip"};
    static const char *const binary[] = {"Add", "Sub", "Mul", "Div", "Max", "Min"};
    size_t operands = is_one_of(node->op_type, unary, sizeof unary / sizeof *unary)      ? 1
                      : is_one_of(node->op_type, binary, sizeof binary / sizeof *binary) ? 2
                                                                                         : 0;
    if (!operands || node->input_count < operands || *node->domain || node->output_count != 1 ||
        node->outputs[0] < 0 || (operands == 2 && node->input_count != 2)) {
        return false;
    }
    const td__graph_value *made = NULL;
    const td_tensor *kept = NULL;
    for (size_t i = 0; i < operands; i++) {
        const td__graph_value *value =
            node->inputs[i] < 0 ? NULL : td__graph_run_value(p->source->run, node->inputs[i]);
        const td_tensor *tensor = !value         ? NULL
                                  : value->plain ? value->plain
                                                 : value->channels_last;
        if (!tensor || value->type != TD__GRAPH_FLOAT) {
            return false;
        }
        bool one = tensor->count == 1 && tensor->shape.rank <= 1;
        if (kept && !one &&
            (!value->plain != !made->plain || !td_shape_equal(&kept->shape, &tensor->shape))) {
            return false;
        }
        made = kept && one ? made : value;
        kept = kept && one ? kept : tensor;
    }
    if (tensor_bytes(kept) < LARGE || tensor_bytes(kept) > p->zero_bytes) {
        return false;
    }
    *td__graph_run_value(p->source->run, node->outputs[0]) = *made;
    return true;
}

static td_status probe_node(probing *p, size_t index) {
    td__graph_source *source = p->source;
    const td__graph_node *node = &source->graph->nodes[index];
    if (!pass_shape(p, node) && !td__graph_run_nodes(source->run, p->tape, index, index + 1)) {
        return td_tape_status(p->tape, p->error);
    }
    td_status status = TD_OK;
    for (size_t i = 0; i < node->output_count && !status; i++) {
        status = node->outputs[i] < 0 ? TD_OK : keep_value(p, node->outputs[i]);
    }
    for (size_t i = 0; i < node->input_count; i++) {
        int32_t v = node->inputs[i];
        if (v >= 0) { /* forms of it that the operator asked for are the tape's */
            *td__graph_run_value(source->run, v) = p->kept[v];
            if (source->facts[v].user == (int32_t)index) {
                release_value(p, v);
            }
        }
    }
    td_tape_reset(p->tape);
    return status;
}

/* Zeros for the graph's input, with every size that may be any set to p->any. */
static td_status give_input(probing *p) {
    td__graph_source *source = p->source;
    int32_t value = source->graph->inputs[0];
    const td__graph_info *info = &source->graph->values[value];
    td_shape shape = {.rank = source->input.rank + 1, .dims = {p->batch}};
    for (int32_t i = 1; i < shape.rank; i++) {
        int64_t size = source->input.dims[i - 1];
        bool known = source->example.rank == source->input.rank;
        shape.dims[i] = size >= 0 ? size : known ? source->example.dims[i - 1] : p->any;
    }
    int64_t count;
    td_dtype dtype = td__graph_storage(info->type);
    td_status status = td_shape_check(&shape, dtype, &count, p->error);
    if (status) {
        return status;
    }
    size_t bytes = (size_t)count * td_dtype_size(dtype);
    if (count > MAX_ELEMENTS) {
        return td_error_set(p->error, TD_RANGE,
                            "its input has %lld elements, at most %lld are tried", (long long)count,
                            (long long)MAX_ELEMENTS);
    }
    if (bytes > p->zero_bytes) {
        return td_error_set(p->error, TD_MEMORY, "its input takes more than %zu MiB",
                            p->zero_bytes >> 20);
    }
    td_tensor *zeros = td_tensor_borrow(NULL, dtype, shape, p->zeros, p->error);
    if (!zeros) {
        return TD_MEMORY;
    }
    bool last = source->input_last;
    p->kept[value] = (td__graph_value){
        .type = info->type, .plain = last ? NULL : zeros, .channels_last = last ? zeros : NULL};
    *td__graph_run_value(source->run, value) = p->kept[value];
    source->facts[value].shape = info->shape;
    return TD_OK;
}

static td_status give_parameters(probing *p) {
    const td__graph *graph = p->source->graph;
    for (size_t v = 0; v < graph->value_count; v++) {
        const td__graph_fact *fact = &p->source->facts[v];
        if (!fact->parameter) {
            continue;
        }
        td_shape shape = td__graph_layout_shape(fact->reader, fact->form,
                                                graph->values[v].constant.tensor->shape);
        td_tensor *tensor = td_tensor_borrow(NULL, TD_FLOAT32, shape, p->zeros, p->error);
        if (!tensor) {
            return TD_MEMORY;
        }
        p->kept[v] = td__graph_value_of(tensor, fact->form);
        *td__graph_run_value(p->source->run, (int32_t)v) = p->kept[v];
    }
    return TD_OK;
}

static void take_parameters(const probing *p) {
    for (size_t v = 0; v < p->source->graph->value_count; v++) {
        const td__graph_value *kept = &p->kept[v];
        if (p->source->facts[v].parameter) {
            td_tensor *tensor = kept->plain ? kept->plain : kept->kernel;
            td_tensor_destroy(tensor ? tensor : kept->gates);
        }
    }
}

static size_t largest_parameter(const td__graph_source *source) {
    int64_t max = 1;
    for (size_t v = 0; v < source->graph->value_count; v++) {
        const td_tensor *tensor = source->graph->values[v].constant.tensor;
        max = source->facts[v].parameter && tensor->count > max ? tensor->count : max;
    }
    return (size_t)max * sizeof(float);
}

static td_status probe_with(td__graph_source *source, int64_t batch, int64_t any, bool again,
                            size_t limit, td_error *error) {
    const td__graph *graph = source->graph;
    probing p = {.source = source,
                 .limit = limit / 4,
                 .batch = batch,
                 .any = any,
                 .again = again,
                 .error = error};
    p.tape = td_tape_create(&(td_tape_options){.size = sizeof(td_tape_options), .no_history = true},
                            error);
    p.kept = td__calloc(graph->value_count + 1, sizeof *p.kept);
    size_t parameter = largest_parameter(source);
    p.zero_bytes = MAX_ZEROS;
    do {
        p.zeros =
            mmap(NULL, p.zero_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    } while (p.zeros == MAP_FAILED && (p.zero_bytes /= 4) > parameter + limit);
    td_status status = TD_OK;
    if (!p.tape || !p.kept || p.zeros == MAP_FAILED) {
        status = td_error_set(error, TD_MEMORY, "out of memory");
    } else if (parameter > p.zero_bytes) {
        status = td_error_set(error, TD_MEMORY, "a parameter takes more than %zu MiB",
                              p.zero_bytes >> 20);
    } else {
        td__tape_limit(p.tape, limit / 4 * 3);
        td__graph_run_set_probing(source->run, p.zeros, p.zero_bytes);
        td__graph_run_begin(source->run);
        for (size_t v = 0; v < graph->value_count; v++) {
            p.kept[v] = source->facts[v].parameter ? (td__graph_value){0}
                                                   : *td__graph_run_value(source->run, (int32_t)v);
        }
        td__graph_run_set_batch(source->run, graph->values[graph->inputs[0]].shape.dims[0], batch);
        status = give_parameters(&p);
        status = status ? status : give_input(&p);
    }
    for (size_t n = 0; n < graph->node_count && !status; n++) {
        status = source->skip[n] ? TD_OK : probe_node(&p, n);
    }
    for (size_t v = 0; p.kept && v < graph->value_count; v++) {
        release_value(&p, (int32_t)v);
    }
    if (p.kept) {
        take_parameters(&p);
    }
    if (p.zeros != MAP_FAILED) {
        (void)munmap(p.zeros, p.zero_bytes);
    }
    td__graph_run_set_probing(source->run, NULL, 0);
    td__free(p.kept);
    td_tape_destroy(p.tape);
    return status;
}

static bool has_open_sizes(const td_shape *shape) {
    bool open = false;
    for (int32_t i = 1; i < shape->rank; i++) {
        open = open || shape->dims[i] < 0;
    }
    return open;
}

static bool puts_out_batches(const td__graph_source *source) {
    const td__graph_fact *result = &source->facts[source->graph->outputs[0]];
    return result->batch || result->batch_second;
}

/* Dimensions that may have any size get the first that all windows and strides fit. The reason is that
 * of the first size. */
static td_status probe_sizes(td__graph_source *source, int64_t batch, bool open, size_t limit,
                             int64_t *size, td_error *reason) {
    static const int64_t sizes[] = {32,   64,   224,  8,    512,   1600,  16000, 1,     3,
                                    16,   48,   128,  256,  299,   320,   400,   640,   1024,
                                    2048, 4096, 8000, 8192, 16384, 22050, 32768, 48000, 65536};
    td_status status = TD_INVALID;
    for (size_t i = 0; status && i < (open ? sizeof sizes / sizeof *sizes : 1); i++) {
        *size = sizes[i];
        status = probe_with(source, batch, *size, false, limit, i == 0 ? reason : NULL);
    }
    return status;
}

/* Twice, with different batches, neither of which is the file's own, so that an axis which only
 * happens to have that size is not taken for one. A graph that does not run so, or puts out something
 * else, may still run on the batch that the file says. */
static td_status probe_batches(td__graph_source *source, bool open, size_t limit, td_error *error) {
    int64_t declared = source->graph->values[source->graph->inputs[0]].shape.dims[0], size = 0;
    int64_t batch = declared == BATCH ? BATCH + 1 : BATCH;
    td_error reason = {0};
    td_status status = probe_sizes(source, batch, open, limit, &size, &reason);
    if (!status && puts_out_batches(source)) {
        status = probe_with(source, 1, 2 * size, true, limit, &reason);
        if (!status || declared <= 0 || open) { /* of open sizes, not all may fit */
            return TD_OK;
        }
    }
    if (reason.status == TD_MEMORY) { /* half as much, though any first axis of 1 is then a batch */
        return !probe_with(source, 1, size, false, limit, NULL)
                   ? TD_OK
                   : td_error_set(error, TD_MEMORY,
                                  "one run to learn its shapes takes more than %zu MiB (%s)",
                                  limit >> 20, reason.text);
    }
    if (declared > 0 && !probe_sizes(source, declared, open, limit, &size, NULL)) {
        source->fixed_batch = declared;
        return TD_OK;
    }
    return !status ? TD_OK
           : open  ? td_error_set(error, reason.status,
                                  "none of the sizes that were tried for its open axes fits (at 32: "
                                   "%s); `tapedeck predict` and `gradients` take them from the data",
                                  reason.text)
                   : td_error_set(error, reason.status, "%s", reason.text);
}

td_status td__graph_probe(td__graph_source *source, size_t limit, td_error *error) {
    const td_shape *input = &source->graph->values[source->graph->inputs[0]].shape;
    bool open = has_open_sizes(input) && source->example.rank != source->input.rank;
    bool inferred = false;
    td_error reason = {0};
    td_status status = open ? td__graph_infer(source, false, &inferred, error) : TD_OK;
    if (status || inferred) {
        return status;
    }
    status = probe_batches(source, open, limit, &reason);
    if (status && status != TD_MEMORY && open && td__graph_infer(source, true, &inferred, error)) {
        return TD_MEMORY;
    }
    return status && !inferred ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}
