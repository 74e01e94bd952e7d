/* Every record of a run, by step: one cursor for each signal and table, the earliest of them next.
 * Nothing is sorted and nothing but a row of each cursor is in memory; damage ends one cursor. */
#include "base/memory.h"
#include "base/options.h"
#include "run/run.h"

#include <stdio.h>
#include <string.h>

typedef struct cursor {
    td__rows *rows; /* on a row; column 0 is its step */
    size_t signal;
    td_form form;
    int64_t step;
} cursor;

/* Epoch and time of steps, which come in order. */
typedef struct calendar {
    td__rows *rows;
    int64_t step, epoch;
    double wall_time;
    bool ended;
} calendar;

typedef struct reading {
    td_run *run;
    cursor *heap; /* the earliest first */
    size_t count;
    calendar calendar;
    bool places;
    td_record_function *each;
    void *user;
} reading;

/* ---- Rows ----------------------------------------------------------------------------------- */

/* What a record points to. */
typedef struct parts {
    bool places; /* tensors: where they are, and nothing else */
    td_stats stats;
    td_histogram histogram;
    td_view view;
    td_place place;
} parts;

/* Loads the tensor or picture that a row of `tensor` describes. */
static td_status load_tensor_row(td_run *run, td__rows *row, td_record *record, parts *p,
                                 td_error *error) {
    const char *file = td__run_text(row, 2);
    int64_t index = td__rows_integer(row, 3);
    if (!*file) {
        return td_error_set(error, TD_IO, "%s: its tensors are in no file beside run.db",
                            record->signal);
    }
    p->place.record = index;
    (void)snprintf(p->place.file, sizeof p->place.file, "%s", file);
    if (p->places) {
        return TD_OK;
    }
    if (record->form == TD_IMAGE) {
        td_status status = td__run_load_picture(run, file, index, &record->png_size, error);
        record->png = run->bytes;
        return status;
    }
    td_status status = td__run_load_tensor(run, file, index, &p->view, error);
    record->view = &p->view;
    if (!status && p->view.shape.rank > 0) {
        record->samples = td__run_load_samples(run, file, index, p->view.shape.dims[0]);
    }
    return status;
}

/* Fills in the record of a row. On failure the row is damaged, or its file is. */
static td_status fill_record(td_run *run, td__rows *row, td_record *record, parts *p,
                             td_error *error) {
    const char *packed;
    size_t size = 0;
    record->place = &p->place;
    switch (record->form) {
    case TD_SCALAR:
        record->value = td__rows_real(row, 1);
        return TD_OK;
    case TD_STATS:
        p->stats = td__rows_stats(row);
        record->stats = &p->stats;
        return TD_OK;
    case TD_HISTOGRAM:
        packed = td__rows_text(row, 1, &size);
        if (!packed || !td__bins_unpack(&run->bins, packed, size, &p->histogram)) {
            return td_error_set(error, TD_FORMAT, "run.db: %s: a histogram is damaged",
                                record->signal);
        }
        record->histogram = &p->histogram;
        return TD_OK;
    case TD_HASH:
        (void)sscanf(td__run_text(row, 1), "%16lx", &record->hash);
        return TD_OK;
    case TD_TEXT:
        record->text = td__rows_text(row, 1, &record->text_length);
        record->text = record->text ? record->text : "";
        return TD_OK;
    default:
        record->form = (td_form)td_form_find(td__run_text(row, 1));
        return record->form & (TD_TENSOR | TD_IMAGE)
                   ? load_tensor_row(run, row, record, p, error)
                   : td_error_set(error, TD_FORMAT, "run.db: %s: a tensor has no form",
                                  record->signal);
    }
}

/* ---- Cursors -------------------------------------------------------------------------------- */

static const struct source {
    uint32_t forms;
    td_form form;
    td__source rows;
} sources[] = {
    {TD_SCALAR, TD_SCALAR, TD__SCALARS},
    {TD_STATS, TD_STATS, TD__STATISTICS},
    {TD_HISTOGRAM, TD_HISTOGRAM, TD__HISTOGRAMS},
    {TD_TENSOR | TD_IMAGE, TD_TENSOR, TD__TENSORS},
    {TD_HASH, TD_HASH, TD__HASHES},
    {TD_TEXT, TD_TEXT, TD__TEXTS},
};
enum { SOURCES = sizeof sources / sizeof *sources };

static bool is_before(const cursor *a, const cursor *b) {
    if (a->step != b->step) {
        return a->step < b->step;
    }
    return a->signal != b->signal ? a->signal < b->signal : a->form < b->form;
}

static void sink_down(reading *r, size_t i) {
    for (;;) {
        size_t smallest = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < r->count; child++) {
            smallest = is_before(&r->heap[child], &r->heap[smallest]) ? child : smallest;
        }
        if (smallest == i) {
            return;
        }
        cursor kept = r->heap[i];
        r->heap[i] = r->heap[smallest];
        r->heap[smallest] = kept;
        i = smallest;
    }
}

/* The first cursor's next row, or its end. */
static void advance_cursor(reading *r) {
    cursor *c = &r->heap[0];
    if (td__run_next(r->run, c->rows)) {
        c->step = td__rows_integer(c->rows, 0);
    } else {
        td__rows_end(c->rows);
        *c = r->heap[--r->count];
    }
    sink_down(r, 0);
}

static void add_cursor(reading *r, size_t signal, const struct source *source,
                       const td_run_query *query) {
    td__rows *rows = td__run_select(r->run, &(td__query){.source = source->rows});
    if (rows) {
        td__rows_bind(rows, r->run->signals[signal].id, query->first_step, query->last_step, -1);
    }
    if (td__run_next(r->run, rows)) {
        r->heap[r->count++] = (cursor){rows, signal, source->form, td__rows_integer(rows, 0)};
    } else {
        td__rows_end(rows);
    }
}

static void look_up_step(reading *r, td_record *record) {
    calendar *c = &r->calendar;
    while (!c->ended && c->step < record->step) {
        c->ended = !td__run_next(r->run, c->rows);
        if (!c->ended) {
            c->step = td__rows_integer(c->rows, 0);
            c->epoch = td__rows_integer(c->rows, 1);
            c->wall_time = td__rows_real(c->rows, 2);
        }
    }
    if (!c->ended && c->step == record->step) {
        record->epoch = c->epoch;
        record->wall_time = c->wall_time;
    }
}

static td_status read_all(reading *r, uint32_t forms, td_error *error) {
    td_status status = TD_OK;
    while (!status && r->count > 0) {
        const cursor *c = &r->heap[0];
        td_record record = {.signal = r->run->signals[c->signal].name,
                            .signal_index = (int32_t)c->signal,
                            .form = c->form,
                            .step = c->step,
                            .info = r->run->signals[c->signal].info};
        look_up_step(r, &record);
        bool wanted = c->form != TD_TENSOR || (td_form_find(td__run_text(c->rows, 1)) & forms) != 0;
        if (wanted) {
            parts p = {.places = r->places};
            td_error damage = {0};
            if (fill_record(r->run, c->rows, &record, &p, &damage)) {
                td__run_problem(&r->run->problems, "%s", damage.text);
            } else {
                status = r->each(r->user, &record, error);
            }
        }
        advance_cursor(r);
    }
    return status;
}

td_status td_run_read(td_run *run, const td_run_query *query, td_record_function *each, void *user,
                      td_error *error) {
    td_run_query full;
    (void)td__options(&full, sizeof full, query);
    full.forms = full.forms ? full.forms : UINT32_MAX;
    if (full.first_step == 0 && full.last_step == 0) {
        full.first_step = INT64_MIN;
        full.last_step = INT64_MAX;
    }
    if (run->foreign && !run->store) {
        td_status status = td_run_refresh(run, error);
        if (status) {
            return status;
        }
    }
    if (run->events && !run->foreign) {
        return td__run_read_events(run, &full, each, user, error);
    }
    reading r = {.run = run,
                 .each = each,
                 .user = user,
                 .places = full.places,
                 .calendar = {.step = INT64_MIN}};
    r.heap = td__calloc(run->signal_count * SOURCES + 1, sizeof *r.heap);
    if (!r.heap) {
        return td_error_set(error, TD_MEMORY, "out of memory for reading a run");
    }
    for (size_t i = 0; i < run->signal_count; i++) {
        bool wanted = td_run_matches(full.what, run->signals[i].name);
        for (size_t k = 0; wanted && k < SOURCES; k++) {
            if (sources[k].forms & full.forms & run->signals[i].forms) {
                add_cursor(&r, i, &sources[k], &full);
            }
        }
    }
    for (size_t i = r.count; i-- > 0;) {
        sink_down(&r, i);
    }
    r.calendar.rows = td__run_select_all(run, TD__STEPS);
    td_status status = read_all(&r, full.forms, error);
    td__rows_end(r.calendar.rows);
    for (size_t i = 0; i < r.count; i++) {
        td__rows_end(r.heap[i].rows);
    }
    td__free(r.heap);
    return status;
}

td_status td_run_at(td_run *run, const td_run_signal *signal, td_form form, int64_t step,
                    td_record_function *each, void *user, td_error *error) {
    size_t k = 0;
    while (k < SOURCES && !(sources[k].forms & form)) {
        k++;
    }
    if (k == SOURCES) {
        return td_error_set(error, TD_UNSUPPORTED, "a run keeps no records of this form");
    }
    bool stored = (form & (TD_TENSOR | TD_IMAGE)) != 0;
    td__rows *rows = td__run_select(run, &(td__query){.source = sources[k].rows,
                                                      .backwards = true,
                                                      .form = stored ? td_form_name(form) : NULL});
    td_status status = TD_NOT_FOUND;
    if (rows) {
        td__rows_bind(rows, signal->id, INT64_MIN, step, 1);
    }
    if (td__run_next(run, rows)) {
        td_record record = {.signal = signal->name,
                            .signal_index = (int32_t)(signal - run->signals),
                            .form = sources[k].form,
                            .step = td__rows_integer(rows, 0),
                            .info = signal->info};
        parts p = {0};
        td_error damage = {0};
        status = fill_record(run, rows, &record, &p, &damage);
        if (status) {
            td__run_problem(&run->problems, "%s", damage.text);
            status = status == TD_NOT_FOUND ? TD_IO : status; /* its file, not the record */
            td_error_set(error, status, "%s", damage.text);
        } else {
            status = each(user, &record, error);
        }
    } else {
        td_error_set(error, status, "%s has no %s at or before step %lld", signal->name,
                     td_form_name(form), (long long)step);
    }
    td__rows_end(rows);
    return status;
}
