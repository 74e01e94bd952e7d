/* Where tensors are; see tensors.h. */
#include "store/tensors.h"

#include "base/memory.h"
#include "deck/reach.h"

#include <stdio.h>
#include <string.h>

enum { KINDS = 2 }; /* tensors and pictures */

static size_t format_shape(char out[TD_SHAPE_TEXT_SIZE], const td_shape *shape) {
    size_t length = 0;
    out[length++] = '[';
    for (int32_t i = 0; i < shape->rank; i++) {
        length += (size_t)snprintf(out + length, TD_SHAPE_TEXT_SIZE - length, "%s%lld",
                                   i ? "," : "", (long long)shape->dims[i]);
    }
    out[length++] = ']';
    return length;
}

static td_status write_stretch(td__stretch *stretch, td_form form, td__batch *batch,
                               td_error *error) {
    const char *name = td_form_name(form), *dtype = td_dtype_name(stretch->dtype);
    char shape[TD_SHAPE_TEXT_SIZE];
    td__batch_begin(batch, TD__TENSOR_SERIES_ROW);
    td__batch_int(batch, stretch->signal);
    td__batch_int(batch, stretch->step);
    td__batch_int(batch, stretch->last);
    td__batch_int(batch, stretch->every);
    td__batch_text(batch, name, strlen(name));
    td__batch_text(batch, dtype, strlen(dtype));
    td__batch_text(batch, shape, format_shape(shape, &stretch->shape));
    td__batch_text(batch, stretch->file, strlen(stretch->file));
    td__batch_int(batch, stretch->record);
    td_status status = td__batch_end(batch, error);
    stretch->unwritten = status != TD_OK;
    return status;
}

static bool continues_stretch(const td__stretch *stretch, const td_record *record,
                              const td_view *view, const td_place *place) {
    int64_t distance = record->step - stretch->last;
    return stretch->count && place->record == stretch->record + stretch->count && distance > 0 &&
           (stretch->count == 1 || distance == stretch->every) && stretch->dtype == view->dtype &&
           td_shape_equal(&stretch->shape, &view->shape) && strcmp(stretch->file, place->file) == 0;
}

td_status td__tensors_put(td__tensors *tensors, td__batch *batch, int64_t signal,
                          const td_record *record, td_error *error) {
    static const td_view picture = {.dtype = TD_UINT8};
    static const td_place nowhere;
    const td_view *view = record->view ? record->view : &picture;
    const td_place *place = record->place ? record->place : &nowhere;
    int32_t index = record->signal_index * KINDS + (record->form == TD_IMAGE);
    if (!td__signals_reach(&tensors->stretches, &tensors->count, index,
                           sizeof *tensors->stretches)) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory");
    }
    td__stretch *stretch = &tensors->stretches[index];
    if (continues_stretch(stretch, record, view, place)) {
        stretch->every = record->step - stretch->last;
        stretch->last = record->step;
        stretch->count++;
    } else {
        td_status status =
            stretch->unwritten ? write_stretch(stretch, record->form, batch, error) : TD_OK;
        if (status) {
            return status;
        }
        stretch->signal = signal;
        stretch->step = stretch->last = record->step;
        stretch->every = 0;
        stretch->record = place->record;
        stretch->count = 1;
        stretch->dtype = view->dtype;
        stretch->shape = view->shape;
        memcpy(stretch->file, place->file, strlen(place->file) + 1);
    }
    stretch->unwritten = batch->more = true;
    return TD_OK;
}

td_status td__tensors_gather(void *owner, td__batch *batch, td_error *error) {
    td__tensors *tensors = owner;
    td_status status = TD_OK;
    for (size_t i = 0; i < tensors->count && !status; i++) {
        td__stretch *stretch = &tensors->stretches[i];
        if (stretch->unwritten) {
            status = write_stretch(stretch, i % KINDS ? TD_IMAGE : TD_TENSOR, batch, error);
        }
    }
    batch->more = status != TD_OK;
    return status;
}

void td__tensors_release(td__tensors *tensors) {
    td__free(tensors->stretches);
}
