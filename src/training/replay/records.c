#include "replay/records.h"

#include "replay/operation.h"
#include "tensor/element.h"

#include <math.h>
#include <string.h>

/* ---- Elements -------------------------------------------------------------------------------- */

/* Floats in their order, as whole numbers: neighbours are 1 apart. */
static int64_t rank_of(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

static uint64_t distance(double a, double b, bool floats) {
    if (!isfinite(a) || !isfinite(b)) {
        return UINT64_MAX;
    }
    if (!floats) {
        return a == b ? 0 : 1;
    }
    int64_t x = rank_of((float)a), y = rank_of((float)b);
    return (uint64_t)(x > y ? x - y : y - x);
}

void td__diff_elements(td_diff *found, td_operation *const operations[2], const td_view views[2]) {
    int64_t counts[2] = {td__elements_from(&views[0].shape, 0),
                         td__elements_from(&views[1].shape, 0)};
    found->elements = counts[0];
    found->differing = found->elements;
    if (counts[0] != counts[1] || views[0].dtype != views[1].dtype) {
        found->ulps = found->max_ulps = UINT64_MAX;
        return;
    }
    size_t size = td_dtype_size(views[0].dtype);
    found->differing = 0;
    for (int64_t i = 0; i < counts[0]; i++) {
        if (!memcmp((const char *)views[0].data + (size_t)i * size,
                    (const char *)views[1].data + (size_t)i * size, size)) {
            continue;
        }
        double a = td_view_element(&views[0], i), b = td_view_element(&views[1], i);
        uint64_t apart = distance(a, b, views[0].dtype == TD_FLOAT32);
        if (found->differing++ == 0) {
            operations[0]->element = operations[1]->element = i;
            operations[0]->value = a;
            operations[1]->value = b;
            found->ulps = apart;
        }
        found->max_ulps = apart > found->max_ulps ? apart : found->max_ulps;
    }
}

/* ---- Records --------------------------------------------------------------------------------- */

typedef struct taking {
    td__arena *arena;
    int64_t step;
    td_view view; /* in the arena; data NULL: none */
} taking;

static td_status take_tensor(void *user, const td_record *record, td_error *error) {
    taking *t = user;
    if (record->step != t->step || !record->view) {
        return TD_OK;
    }
    size_t bytes =
        (size_t)td__elements_from(&record->view->shape, 0) * td_dtype_size(record->view->dtype);
    void *copy = td__arena_alloc(t->arena, bytes + 1);
    if (!copy) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    memcpy(copy, record->view->data, bytes);
    t->view = (td_view){.dtype = record->view->dtype, .shape = record->view->shape, .data = copy};
    return TD_OK;
}

/* The tensor of a step, where the run has it. */
static td_view find_tensor(td_run *run, const char *name, int64_t step, td__arena *arena) {
    taking t = {.arena = arena, .step = step};
    const td_run_signal *signal = td_run_signal_find(run, name);
    if (!signal || !(signal->forms & TD_TENSOR) ||
        td_run_at(run, signal, TD_TENSOR, step, take_tensor, &t, NULL)) {
        return (td_view){0};
    }
    return t.view;
}

static const char *phase_of(td_signal_kind kind) {
    switch (kind) {
    case TD_SIGNAL_INPUT:
    case TD_SIGNAL_LABEL:
        return "data";
    case TD_SIGNAL_ERROR:
    case TD_SIGNAL_GRADIENT:
        return "backward";
    case TD_SIGNAL_PARAMETER:
    case TD_SIGNAL_UPDATE:
        return "update";
    default:
        return "forward";
    }
}

static td_operation *describe_operation(td_run *run, const td_parting *first, const td_view *view,
                                        double value, td__arena *arena) {
    const td_run_signal *signal = td_run_signal_find(run, first->signal);
    td_operation *operation = td__arena_alloc(arena, sizeof *operation);
    if (operation && signal) {
        *operation = (td_operation){.step = first->step,
                                    .sequence = signal->info->sequence,
                                    .phase = phase_of(signal->info->kind),
                                    .layer = signal->info->layer,
                                    .kind = "",
                                    .tensor = signal->name,
                                    .shape = view->shape,
                                    .value = value,
                                    .row = -1,
                                    .place = ""};
    }
    return signal ? operation : NULL;
}

td_status td__diff_records(td_diff *found, td_run *runs[2], td__arena *arena, td_error *error) {
    const td_comparison *compared = found->settings;
    td_run_info about[2] = {{.size = sizeof about[0]}, {.size = sizeof about[1]}};
    td_run_about(runs[0], &about[0]);
    td_run_about(runs[1], &about[1]);
    if (!compared->compared) {
        return td_error_set(
            error, TD_NOT_FOUND,
            "%s and %s have no signal that both recorded as numbers or hashes: record with "
            "form: hash",
            about[0].folder, about[1].folder);
    }
    if (!compared->parting_count) {
        found->same_to =
            about[0].last_step < about[1].last_step ? about[0].last_step : about[1].last_step;
        return TD_OK;
    }
    const td_parting *first = &compared->partings[0];
    td_run_step before;
    td_view views[2];
    td_operation *operations[2];
    found->step = first->step;
    found->signal = first->signal;
    found->after = td_run_when(runs[0], first->step - 1, &before) && before.step < first->step
                       ? before.step
                       : 0;
    found->same_to = found->after;
    for (int i = 0; i < 2; i++) {
        views[i] = find_tensor(runs[i], first->signal, first->step, arena);
        operations[i] =
            describe_operation(runs[i], first, &views[i], i ? first->b : first->a, arena);
        if (!operations[i]) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
    }
    found->a = operations[0];
    found->b = operations[1];
    found->reason = "not executed again: they are not runs of tapedeck train";
    if (views[0].data && views[1].data) {
        td__diff_elements(found, operations, views);
    }
    return TD_OK;
}
