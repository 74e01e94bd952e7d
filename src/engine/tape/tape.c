/* Recording: lifecycle, memory of a step, slots and nodes. */
#include "tape/tape.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "base/options.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

enum {
    MAXIMUM_NODES = INT32_MAX / 2,
    MAXIMUM_ARENAS = 4096,
    FIRST_LEAVES = 64,
    WORTH_KEEPING =
        64 * 1024 /* bytes: a smaller tensor is copied sooner than another arena warms up */
};

static const size_t default_spare_bytes = (size_t)512 << 20;

static uint64_t next_recording(void) {
    static atomic_uint_fast64_t last; /* relaxed: only uniqueness matters */
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static bool add_arena(td_tape *tape) {
    td__arena *arena = td__arena_create();
    if (!arena || !td__grow(&tape->arenas, &tape->arena_capacity, tape->arena_count + 1,
                            MAXIMUM_ARENAS, sizeof *tape->arenas)) {
        td__arena_unref(arena);
        return false;
    }
    tape->arenas[tape->arena_count++] = arena;
    tape->arena = arena;
    return true;
}

td_tape *td_tape_create(const td_tape_options *options, td_error *error) {
    if (td__cpu_check(error)) {
        return NULL;
    }
    td_tape *tape = td__calloc(1, sizeof *tape);
    if (!tape || !add_arena(tape)) {
        td_tape_destroy(tape);
        td_error_set(error, TD_MEMORY, "no memory for a tape");
        return NULL;
    }
    tape->recording = next_recording();
    tape->spare_bytes = default_spare_bytes;
    td_tape_options given;
    (void)td__options(&given, sizeof given, options);
    tape->seed = given.seed;
    tape->no_history = given.no_history || given.inference;
    tape->inference = given.inference;
    if (given.inference) {
        tape->prepared.memory = td__arena_create(); /* without it weights are packed each time */
    }
    return tape;
}

void td_tape_destroy(td_tape *tape) {
    if (!tape) {
        return;
    }
    for (size_t i = 0; i < tape->arena_count; i++) {
        td__arena_unref(tape->arenas[i]);
    }
    td__free(tape->arenas);
    td__free(tape->nodes);
    td__free(tape->slots);
    td__free(tape->leaves);
    td__free(tape->free_buffers);
    td__prepared_release(&tape->prepared);
    td__free(tape);
}

/* An arena that nobody else holds; a new one when views keep all of them alive. When none can be
 * had, allocation in this recording fails and says so. */
static void choose_arena(td_tape *tape) {
    if (tape->arena && td__arena_is_sole(tape->arena)) {
        td__arena_reset(tape->arena);
        return;
    }
    size_t needed = tape->arena ? td__arena_used(tape->arena) : 0;
    tape->arena = NULL;
    for (size_t i = 0; i < tape->arena_count && !tape->arena; i++) {
        if (td__arena_is_sole(tape->arenas[i])) {
            tape->arena = tape->arenas[i];
            td__arena_reset(tape->arena);
        }
    }
    if (!tape->arena && add_arena(tape)) {
        td__arena_reserve(tape->arena, needed); /* for a step like the last one */
    }
}

void td_tape_reset(td_tape *tape) {
    choose_arena(tape);
    tape->recording = next_recording();
    tape->node_count = 0;
    tape->slot_count = 0;
    tape->leaf_count = 0;
    tape->free_count = 0;
    tape->error.status = TD_OK;
    tape->error.text[0] = 0;
    tape->label = NULL;
    tape->keeps_entropy = false;
    tape->step++;
    tape->random_count = 0;
}

td_status td_tape_status(const td_tape *tape, td_error *error) {
    if (tape->error.status && error) {
        *error = tape->error;
    }
    return tape->error.status;
}

void td_tape_seed(td_tape *tape, uint64_t seed, uint64_t step) {
    tape->seed = seed;
    tape->step = step;
    tape->random_count = 0;
}

void td_tape_set_no_history(td_tape *tape, bool no_history) {
    tape->no_history = no_history;
}
void td_tape_set_training(td_tape *tape, bool training) {
    tape->training = training;
}
bool td_tape_is_training(const td_tape *tape) {
    return tape->training;
}
bool td__is_recording(const td_tape *tape) {
    return !tape->no_history;
}
void td__label(td_tape *tape, const char *label) {
    tape->label = label;
}

uint64_t td__random_key(td_tape *tape) {
    uint64_t mixed = tape->seed ^ (tape->step * 0x9E3779B97F4A7C15u);
    mixed ^= ++tape->random_count * 0xC2B2AE3D27D4EB4Fu;
    mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9u;
    return mixed ^ (mixed >> 32);
}

td_tensor *td__fail(td_tape *tape, td_status status, const char *format, ...) {
    if (tape->error.status == TD_OK) {
        char text[TD_ERROR_TEXT_SIZE];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        td_error_set(&tape->error, status, "%s%s%s", tape->label ? tape->label : "",
                     tape->label ? ": " : "", text);
    }
    return NULL;
}

td_tensor *td__fail_memory(td_tape *tape) {
    return td__fail(tape, TD_MEMORY, "no memory left for this step; try a smaller batch");
}

bool td__check_usable(td_tape *tape, const char *op, const char *role, const td_tensor *tensor) {
    if (tape->error.status) {
        return false;
    }
    if (!tensor) {
        td__fail(tape, TD_INVALID, "%s: no %s given", op, role);
        return false;
    }
    if (tensor->recording && tensor->recording != tape->recording) {
        td__fail(tape, TD_STATE,
                 "%s: %s '%s' was made on another tape or before its last reset; it is gone", op,
                 role, tensor->name);
        return false;
    }
    return true;
}

bool td__check_float(td_tape *tape, const char *op, const char *role, const td_tensor *tensor) {
    if (!td__check_usable(tape, op, role, tensor)) {
        return false;
    }
    if (tensor->dtype != TD_FLOAT32) {
        td__fail(tape, TD_DTYPE, "%s: %s '%s' is %s; operations compute in float32", op, role,
                 tensor->name, td_dtype_name(tensor->dtype));
        return false;
    }
    return true;
}

/* A free buffer of just that size; where memory goes round, the smallest that is large enough and not
 * more than twice as large. The last of them that was given back is likely in the cache. */
static td__buffer *find_free(td_tape *tape, size_t bytes) {
    size_t max = tape->together ? 2 * bytes : bytes, best = SIZE_MAX, at = 0;
    for (size_t i = tape->free_count; i-- > 0 && best != bytes;) {
        size_t size = tape->free_buffers[i]->bytes;
        if (size >= bytes && size <= max && size < best) {
            best = size;
            at = i;
        }
    }
    if (best == SIZE_MAX) {
        return NULL;
    }
    td__buffer *found = tape->free_buffers[at];
    tape->free_buffers[at] = tape->free_buffers[--tape->free_count];
    found->references = 1;
    return found;
}

void td__recycle(td_tape *tape, td_tensor *tensor) {
    if (tensor && tensor->memory && tensor->recording == tape->recording) {
        td__buffer_drop(tape, tensor->memory);
        tensor->memory = NULL;
    }
}

void td__share_memory(td_tensor *from, td_tensor *view) {
    if (from->memory) {
        from->memory->references++;
        view->memory = from->memory;
    }
}

td__buffer *td__buffer_take(td_tape *tape, size_t bytes) {
    td__buffer *free_one = find_free(tape, bytes);
    if (free_one) {
        return free_one;
    }
    if (!tape->arena) {
        return NULL;
    }
    td__buffer *buffer = td__arena_alloc(tape->arena, sizeof *buffer);
    float *data = buffer ? td__arena_alloc(tape->arena, bytes) : NULL;
    if (!data) {
        return NULL;
    }
    *buffer = (td__buffer){.data = data, .bytes = bytes, .references = 1, .arena = tape->arena};
    return buffer;
}

void td__buffer_drop(td_tape *tape, td__buffer *buffer) {
    if (--buffer->references > 0) {
        return;
    }
    /* Without room on the list the memory just waits for the reset. */
    if (td__grow(&tape->free_buffers, &tape->free_capacity, tape->free_count + 1, MAXIMUM_NODES,
                 sizeof *tape->free_buffers)) {
        tape->free_buffers[tape->free_count++] = buffer;
    }
}

td__buffer *td__temporary(td_tape *tape, size_t bytes) {
    td__buffer *buffer = td__buffer_take(tape, bytes);
    if (!buffer) {
        td__fail_memory(tape);
    }
    return buffer;
}

/* A quarter is enough for the weights of whatever runs within the rest. */
void td__tape_limit(td_tape *tape, size_t bytes) {
    size_t kept = tape->prepared.memory ? bytes / 4 : 0;
    if (tape->prepared.memory) {
        td__arena_limit(tape->prepared.memory, kept);
    }
    if (tape->arena) {
        td__arena_limit(tape->arena, bytes - kept);
    }
}

void *td__scratch(td_tape *tape, size_t bytes) {
    void *memory = tape->arena ? td__arena_alloc(tape->arena, bytes) : NULL;
    if (!memory) {
        td__fail_memory(tape);
    }
    return memory;
}

td_tensor *td__output_over(td_tape *tape, td_dtype dtype, const td_shape *shape, void *data) {
    td_error error = {0};
    int64_t count;
    if (td_shape_check(shape, dtype, &count, &error)) {
        return td__fail(tape, error.status, "%s", error.text);
    }
    td_tensor *tensor = td__scratch(tape, sizeof *tensor);
    if (!tensor) {
        return NULL;
    }
    *tensor = (td_tensor){.dtype = dtype,
                          .shape = *shape,
                          .count = count,
                          .data = data,
                          .name = "",
                          .recording = tape->recording,
                          .slot = -1};
    return tensor;
}

td_tensor *td__output(td_tape *tape, td_dtype dtype, const td_shape *shape) {
    td_tensor *tensor = td__output_over(tape, dtype, shape, NULL);
    if (tensor) {
        size_t bytes = (size_t)tensor->count * td_dtype_size(dtype);
        if (tape->together) {
            tensor->memory = td__temporary(tape, bytes);
            tensor->data = tensor->memory ? tensor->memory->data : NULL;
        } else {
            tensor->data = td__scratch(tape, bytes);
        }
    }
    return tensor && tensor->data ? tensor : NULL;
}

void td_tape_name(td_tape *tape, td_tensor *tensor, const char *name) {
    if (!tensor || tensor->recording != tape->recording) {
        return;
    }
    size_t size = strlen(name) + 1;
    char *copy = tape->arena ? td__arena_alloc(tape->arena, size) : NULL;
    if (copy) {
        tensor->name = memcpy(copy, name, size);
    }
}

/* --- slots -------------------------------------------------------------------------------- */

static size_t leaf_place(const td_tape *tape, const td_tensor *tensor) {
    uint64_t hash = (uint64_t)(uintptr_t)tensor * 0x9E3779B97F4A7C15u;
    size_t mask = tape->leaf_capacity - 1;
    size_t place = (size_t)(hash >> 32) & mask;
    while (tape->leaves[place].recording == tape->recording &&
           tape->leaves[place].tensor != tensor) {
        place = (place + 1) & mask;
    }
    return place;
}

int32_t td__slot_of(const td_tape *tape, const td_tensor *tensor) {
    if (tensor->recording) {
        return tensor->recording == tape->recording ? tensor->slot : -1;
    }
    if (tape->leaf_capacity == 0) {
        return -1;
    }
    const td__leaf *leaf = &tape->leaves[leaf_place(tape, tensor)];
    return leaf->recording == tape->recording ? leaf->slot : -1;
}

static int32_t add_slot(td_tape *tape, td_tensor *tensor, int32_t producer) {
    if (!td__grow(&tape->slots, &tape->slot_capacity, tape->slot_count + 1, MAXIMUM_NODES,
                  sizeof *tape->slots)) {
        return -1;
    }
    tape->slots[tape->slot_count] =
        (td__slot){.tensor = tensor, .producer = producer, .first_user = -1};
    return (int32_t)tape->slot_count++;
}

static bool grow_leaves(td_tape *tape) {
    size_t capacity = tape->leaf_capacity ? tape->leaf_capacity * 2 : FIRST_LEAVES;
    td__leaf *old = tape->leaves, *grown = td__calloc(capacity, sizeof *grown);
    if (!grown) {
        return false;
    }
    size_t old_capacity = tape->leaf_capacity;
    tape->leaves = grown;
    tape->leaf_capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].recording == tape->recording) {
            grown[leaf_place(tape, old[i].tensor)] = old[i];
        }
    }
    td__free(old);
    return true;
}

/* The slot of an operation's input; heap tensors get theirs at first use. */
static int32_t input_slot(td_tape *tape, td_tensor *tensor) {
    if (tensor->recording) {
        return tensor->slot >= 0 ? tensor->slot : (tensor->slot = add_slot(tape, tensor, -1));
    }
    if (2 * (tape->leaf_count + 1) > tape->leaf_capacity && !grow_leaves(tape)) {
        return -1;
    }
    td__leaf *leaf = &tape->leaves[leaf_place(tape, tensor)];
    if (leaf->recording != tape->recording) {
        int32_t slot = add_slot(tape, tensor, -1);
        if (slot < 0) {
            return -1;
        }
        *leaf = (td__leaf){.tensor = tensor, .recording = tape->recording, .slot = slot};
        tape->leaf_count++;
    }
    return leaf->slot;
}

td_tensor *td__record(td_tape *tape, const td__op *op, td_tensor *output, int32_t input_count,
                      td_tensor *const inputs[], void *saved) {
    if (tape->no_history) {
        return output;
    }
    td__edge *edges = td__scratch(tape, (size_t)input_count * sizeof *edges);
    if (!edges || !td__grow(&tape->nodes, &tape->node_capacity, tape->node_count + 1, MAXIMUM_NODES,
                            sizeof *tape->nodes)) {
        return td__fail_memory(tape);
    }
    int32_t index = (int32_t)tape->node_count;
    for (int32_t i = 0; i < input_count; i++) {
        edges[i] = (td__edge){.tensor = inputs[i], .slot = -1};
        if (inputs[i] && inputs[i]->dtype == TD_FLOAT32) {
            edges[i].slot = input_slot(tape, inputs[i]);
            if (edges[i].slot < 0) {
                return td__fail_memory(tape);
            }
            td__slot *slot = &tape->slots[edges[i].slot];
            slot->first_user = slot->first_user < 0 ? index : slot->first_user;
        }
    }
    int32_t slot = add_slot(tape, output, index);
    if (slot < 0) {
        return td__fail_memory(tape);
    }
    output->slot = slot;
    tape->nodes[tape->node_count++] = (td__node){.op = op,
                                                 .output = output,
                                                 .inputs = edges,
                                                 .input_count = input_count,
                                                 .saved = saved,
                                                 .label = tape->label};
    return output;
}

/* --- memory that outlives a step ---------------------------------------------------------- */

static void release_arena(void *owner) {
    td__arena_unref(owner);
}

static void release_gradient(void *owner) {
    td__buffer *memory = owner;
    td__arena *arena = memory->arena;
    atomic_fetch_sub_explicit(&memory->views, 1,
                              memory_order_release); /* what was read has been read */
    td__arena_unref(arena);
}

static size_t held_bytes(const td_tape *tape) {
    size_t bytes = 0;
    for (size_t i = 0; i < tape->arena_count; i++) {
        bytes += td__arena_is_sole(tape->arenas[i]) ? 0 : td__arena_capacity(tape->arenas[i]);
    }
    return bytes;
}

td_view td_tape_view(td_tape *tape, const td_tensor *tensor) {
    td_view
        view; /* set member by member: cleared as a whole, its parts would be read back before they are stored */
    view.dtype = tensor->dtype;
    view.shape = tensor->shape;
    view.data = tensor->data;
    view.release = NULL;
    view.owner = NULL;
    size_t bytes = (size_t)tensor->count * td_dtype_size(tensor->dtype);
    /* A tensor of this recording may still describe memory of others: the batch, a parameter. */
    if (bytes >= WORTH_KEEPING && tape->arena && td__arena_holds(tape->arena, view.data, bytes) &&
        (!td__arena_is_sole(tape->arena) ||
         held_bytes(tape) + td__arena_capacity(tape->arena) <= tape->spare_bytes)) {
        td__arena_ref(tape->arena);
        view.release = release_arena;
        view.owner = tape->arena;
        if (tensor->gradient && tensor->memory) {
            /* Relaxed: the thread that counts here is the one that asks whether any is left. */
            atomic_fetch_add_explicit(&tensor->memory->views, 1, memory_order_relaxed);
            view.release = release_gradient;
            view.owner = tensor->memory;
        }
    }
    return view;
}

size_t td_tape_memory(const td_tape *tape) {
    size_t bytes = 0;
    for (size_t i = 0; i < tape->arena_count; i++) {
        bytes += td__arena_capacity(tape->arenas[i]);
    }
    return bytes;
}
