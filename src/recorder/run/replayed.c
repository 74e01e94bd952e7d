#include "run/replayed.h"

#include "run/run.h"
#include "store/writer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct adding {
    td_run *run;        /* as it was */
    td__writer *writer; /* into it */
    const char *below;
    int64_t added, kept;
} adding;

static td_status is_of_step(void *user, const td_record *record, td_error *error) {
    (void)error;
    const int64_t *step = user;
    return record->step == *step ? TD_EXISTS : TD_OK;
}

/* Whether the run has a record of this form and step already. */
static bool is_there(adding *a, const td_record *record) {
    const td_run_signal *signal = td_run_signal_find(a->run, record->signal);
    int64_t step = record->step;
    return signal && signal->forms & (uint32_t)record->form &&
           td_run_at(a->run, signal, record->form, step, is_of_step, &step, NULL) == TD_EXISTS;
}

static td_status add_record(void *user, const td_record *record, td_error *error) {
    adding *a = user;
    td_record moved = *record;
    td_place place = {{0}, 0};
    if (is_there(a, record)) {
        a->kept++;
        return TD_OK;
    }
    if (record->place && *record->place->file) {
        int length =
            snprintf(place.file, sizeof place.file, "%s/%s", a->below, record->place->file);
        if (length < 0 || (size_t)length >= sizeof place.file) {
            return td_error_set(error, TD_RANGE, "%s/%s: the name is too long for run.db", a->below,
                                record->place->file);
        }
        place.record = record->place->record;
    }
    moved.place = &place;
    td_status status = td__writer_record(a->writer, &moved, error);
    status = status ? status : td__writer_replayed(a->writer, &moved, error);
    a->added += !status;
    return status;
}

td_status td__run_add_replayed(const char *folder, const char *below, int64_t *added, int64_t *kept,
                               td_error *error) {
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", folder, below);
    adding a = {.below = below, .run = td_run_open(folder, error)};
    td_run *replay = a.run ? td_run_open(path, error) : NULL;
    td__store *store = NULL;
    td__writer writer;
    td_status status = replay ? td__store_open(folder, &store, error)
                              : (error && error->status ? error->status : TD_IO);
    if (!status) {
        status = td__writer_append(&writer, store, error);
        a.writer = &writer;
        status = status ? status : td_run_read(replay, NULL, add_record, &a, error);
        status = status ? status : td__batch_sync(&writer.batch, error);
        td__writer_release(&writer);
    }
    td_run_close(replay);
    td_run_close(a.run);
    if (!status) {
        *added = a.added;
        *kept = a.kept;
    }
    return status;
}
