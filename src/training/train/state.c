/* All that a step changes, copied and put back: what a checkpoint has, in memory. */
#include "train/trainer.h"

#include "base/memory.h"
#include "tensor/element.h"

#include <string.h>

static size_t bytes_of(const td_view *view) {
    return (size_t)td__elements_from(&view->shape, 0) * td_dtype_size(view->dtype);
}

static size_t align(size_t bytes) {
    return (bytes + 15) & ~(size_t)15;
}

/* One block: the tensors' values, then their names. */
static td_status make_state_room(td__state *state, const td__parts *parts, td_error *error) {
    size_t bytes = 0;
    for (size_t i = 0; i < parts->count; i++) {
        bytes += align(bytes_of(&parts->tensors[i].view)) + strlen(parts->tensors[i].name) + 1;
    }
    state->tensors = td__calloc(parts->count + 1, sizeof *state->tensors);
    state->memory = td__calloc(bytes + 1, 1);
    state->bytes = bytes;
    if (!state->tensors || !state->memory) {
        td__state_release(state);
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    char *values = state->memory;
    for (size_t i = 0; i < parts->count; i++) {
        state->tensors[i] = parts->tensors[i];
        state->tensors[i].view.data = values;
        values += align(bytes_of(&parts->tensors[i].view));
    }
    for (size_t i = 0; i < parts->count; i++) {
        size_t size = strlen(parts->tensors[i].name) + 1;
        state->tensors[i].name = memcpy(values, parts->tensors[i].name, size);
        values += size;
    }
    state->count = parts->count;
    return TD_OK;
}

td_status td__state_save(td_trainer *trainer, td__state *state, td_error *error) {
    td__parts parts = {0};
    td_status status = td__parts_gather(trainer, NULL, &parts, error);
    if (!status && !state->memory) {
        status = make_state_room(state, &parts, error);
    }
    for (size_t i = 0; !status && i < parts.count; i++) {
        memcpy((void *)(uintptr_t)state->tensors[i].view.data, parts.tensors[i].view.data,
               bytes_of(&parts.tensors[i].view));
    }
    td__parts_release(&parts);
    return status;
}

static const td__named_view *find_in_state(const void *context, const char *name) {
    const td__state *state = context;
    for (size_t i = 0; i < state->count; i++) {
        if (!strcmp(state->tensors[i].name, name)) {
            return &state->tensors[i];
        }
    }
    return NULL;
}

td_status td__state_restore(td_trainer *trainer, const td__state *state, const td_trainer *past,
                            td_error *error) {
    td__parts_source source = {
        .find = find_in_state, .context = state, .path = "the step", .past = past};
    return td__parts_read(trainer, &source, error);
}

void td__state_release(td__state *state) {
    td__free(state->tensors);
    td__free(state->memory);
    *state = (td__state){0};
}
