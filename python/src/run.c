/* Run: a td_run as a Python object. Numbers over time come as columns of bytes, for NumPy to look at
 * without a copy. */
#include "arrow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run_object {
    PyObject_HEAD td_run *run; /* NULL once it is closed */
} run_object;

td_run *tdpy_run_opened(PyObject *object) {
    td_run *run = ((run_object *)object)->run;
    if (!run) {
        PyErr_SetString(PyExc_ValueError, "the run is closed");
    }
    return run;
}

static PyObject *text_of(const char *text, size_t length) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "surrogateescape");
}

static PyObject *run_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {"path", NULL};
    PyObject *path;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&", keywords, PyUnicode_FSConverter,
                                     &path)) {
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    run_object *self = (run_object *)allocate(type, 0);
    if (self) {
        td_error error = {0};
        self->run = td_run_open(PyBytes_AsString(path), &error);
        td_run_info info = {.size = sizeof info};
        td_status status = self->run ? TD_OK : error.status;
        if (self->run) {
            td_run_about(self->run, &info);
            status = info.events ? td_run_refresh(self->run, &error) : TD_OK;
        }
        if (status != TD_OK) {
            Py_DECREF(self);
            self = NULL;
            tdpy_raise(&error);
        }
    }
    Py_DECREF(path);
    return (PyObject *)self;
}

static PyObject *run_files(PyObject *object, PyObject *unused) {
    (void)unused;
    char folder[4096];
    td_error error = {0};
    td_run *run = tdpy_run_opened(object);
    if (!run) {
        return NULL;
    }
    return td_run_files(run, folder, sizeof folder, &error) == TD_OK
               ? PyUnicode_DecodeFSDefault(folder)
               : tdpy_raise(&error);
}

static PyObject *run_close(PyObject *object, PyObject *unused) {
    (void)unused;
    td_run_close(((run_object *)object)->run);
    ((run_object *)object)->run = NULL;
    return Py_NewRef(Py_None);
}

static void run_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    td_run_close(((run_object *)object)->run);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *run_refresh(PyObject *object, PyObject *unused) {
    (void)unused;
    td_run *run = tdpy_run_opened(object);
    td_error error = {0};
    if (!run) {
        return NULL;
    }
    return td_run_refresh(run, &error) == TD_OK ? Py_NewRef(Py_None) : tdpy_raise(&error);
}

static PyObject *run_about(PyObject *object, PyObject *unused) {
    (void)unused;
    td_run *run = tdpy_run_opened(object);
    if (!run) {
        return NULL;
    }
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    PyObject *folder = PyUnicode_DecodeFSDefault(info.folder);
    return folder ? Py_BuildValue("{sssNsssdsdsLsLsLsO}", "name", info.name, "folder", folder,
                                  "state", td_run_state_name(info.state), "started", info.started,
                                  "last_record", info.last_record, "last_step",
                                  (long long)info.last_step, "last_epoch",
                                  (long long)info.last_epoch, "bytes", (long long)info.bytes,
                                  "events", info.events ? Py_True : Py_False)
                  : NULL;
}

/* (the last step that was recorded at or before this one, its epoch, how many come after); 0: none. */
static PyObject *run_when(PyObject *object, PyObject *argument) {
    td_run *run = tdpy_run_opened(object);
    long long step = run ? PyLong_AsLongLong(argument) : -1;
    if (!run || (step == -1 && PyErr_Occurred())) {
        return NULL;
    }
    td_run_step when = {0};
    if (!td_run_when(run, step, &when) || when.step > step) {
        when = (td_run_step){0};
    }
    int64_t later = step < INT64_MAX ? td_run_count_steps(run, step + 1, INT64_MAX) : 0;
    return Py_BuildValue("LLL", (long long)when.step, (long long)when.epoch, (long long)later);
}

static PyObject *run_problems(PyObject *object, PyObject *unused) {
    (void)unused;
    td_run *run = tdpy_run_opened(object);
    PyObject *list = run ? PyList_New(0) : NULL;
    if (!list) {
        return NULL;
    }
    const char *const *texts;
    size_t count = td_run_problems(run, &texts);
    for (size_t i = 0; i < count; i++) {
        PyObject *text = text_of(texts[i], strlen(texts[i]));
        if (!text || PyList_Append(list, text) != 0) {
            Py_XDECREF(text);
            Py_DECREF(list);
            return NULL;
        }
        Py_DECREF(text);
    }
    return list;
}

static PyObject *run_signals(PyObject *object, PyObject *unused) {
    (void)unused;
    td_run *run = tdpy_run_opened(object);
    PyObject *list = run ? PyList_New(0) : NULL;
    if (!list) {
        return NULL;
    }
    size_t count = td_run_signal_count(run);
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        PyObject *name = text_of(signal->name, strlen(signal->name));
        PyObject *item =
            name ? Py_BuildValue("NILL", name, (unsigned)signal->forms,
                                 (long long)signal->first_step, (long long)signal->last_step)
                 : NULL;
        if (!item || PyList_Append(list, item) != 0) {
            Py_XDECREF(item);
            Py_DECREF(list);
            return NULL;
        }
        Py_DECREF(item);
    }
    return list;
}

static void add_note(void *user, const char *key, const char *value) {
    PyObject *text = text_of(value, strlen(value)), *name = text_of(key, strlen(key));
    if (text && name) {
        (void)PyDict_SetItem(user, name, text);
    }
    Py_XDECREF(text);
    Py_XDECREF(name);
}

static PyObject *run_notes(PyObject *object, PyObject *arguments) {
    const char *table = "run";
    td_run *run = tdpy_run_opened(object);
    if (!run || !PyArg_ParseTuple(arguments, "|s", &table)) {
        return NULL;
    }
    PyObject *notes = PyDict_New();
    td_error error = {0};
    if (notes && td_run_notes(run, table, add_note, notes, &error) != TD_OK) {
        Py_DECREF(notes);
        return tdpy_raise(&error);
    }
    if (PyErr_Occurred()) {
        Py_XDECREF(notes);
        return NULL;
    }
    return notes;
}

/* ---- Events and findings -------------------------------------------------------------------- */

static td_status add_item(PyObject *list, PyObject *item, td_error *error) {
    bool good = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory for a run's lists");
}

static td_status add_event(void *list, const td_event *event, td_error *error) {
    const char *kind = td_event_name(event->kind);
    return add_item(list,
                    Py_BuildValue("{szsLsLsdsLszsz}", "kind", kind ? kind : "unknown", "epoch",
                                  (long long)event->epoch, "step", (long long)event->step,
                                  "wall_time", event->wall_time, "count", (long long)event->count,
                                  "signal", event->signal, "text", event->text),
                    error);
}

static td_status add_finding(void *list, const td_run_finding *f, td_error *error) {
    return add_item(list,
                    Py_BuildValue("{szszsLsLszszszszszsz}", "cause", f->cause, "layer", f->layer,
                                  "unit", (long long)f->unit, "since_step",
                                  (long long)f->since_step, "confidence", f->confidence, "severity",
                                  f->severity, "symptoms", f->symptoms, "evidence", f->evidence,
                                  "remedy", f->remedy, "origin", f->origin),
                    error);
}

static PyObject *listed(PyObject *list, td_status status, const td_error *error) {
    if (list && status == TD_OK) {
        return list;
    }
    Py_XDECREF(list);
    return PyErr_Occurred() ? NULL : tdpy_raise(error);
}

static PyObject *run_events(PyObject *object, PyObject *unused) {
    (void)unused;
    td_run *run = tdpy_run_opened(object);
    PyObject *list = run ? PyList_New(0) : NULL;
    td_error error = {0};
    return listed(list, list ? td_run_events(run, add_event, list, &error) : TD_MEMORY, &error);
}

static PyObject *run_findings(PyObject *object, PyObject *unused) {
    (void)unused;
    td_run *run = tdpy_run_opened(object);
    PyObject *list = run ? PyList_New(0) : NULL;
    td_error error = {0};
    return listed(list, list ? td_run_findings(run, add_finding, list, &error) : TD_MEMORY, &error);
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

static PyObject *run_ranks(PyObject *object, PyObject *unused) {
    (void)unused;
    td_run *run = tdpy_run_opened(object);
    PyObject *list = run ? PyList_New(0) : NULL;
    td_error error = {0};
    td_status status = list ? TD_OK : TD_MEMORY;
    const td_run_rank *rank;
    for (size_t i = 0; !status && (rank = td_run_rank_at(run, i)); i++) {
        status = add_item(
            list,
            Py_BuildValue("{sLsLsLsLsLssssss}", "rank", (long long)rank->rank, "attempt",
                          (long long)rank->attempt, "node", (long long)rank->node, "local_rank",
                          (long long)rank->local_rank, "last_step", (long long)rank->last_step,
                          "state", td_run_state_name(rank->state), "mesh", rank->mesh, "folder",
                          rank->folder),
            &error);
    }
    return listed(list, status, &error);
}

/* All steps as the bytes of td_spread, whose members have 8 bytes each. */
static PyObject *run_spread(PyObject *object, PyObject *arguments) {
    enum { AT_ONCE = 4096 };
    td_run *run = tdpy_run_opened(object);
    const char *name, *statistic;
    if (!run || !PyArg_ParseTuple(arguments, "sz", &name, &statistic)) {
        return NULL;
    }
    const td_run_signal *signal = td_run_signal_find(run, name);
    td_spread *all = NULL;
    size_t used = 0, count = 0;
    int64_t first = INT64_MIN;
    do {
        td_spread *grown = realloc(all, (used + AT_ONCE) * sizeof *all);
        if (!grown) {
            free(all);
            return PyErr_NoMemory();
        }
        all = grown;
        count = signal
                    ? td_run_spread(run, signal, statistic, first, INT64_MAX, all + used, AT_ONCE)
                    : 0;
        used += count;
        first = used ? all[used - 1].step + 1 : 0;
    } while (count == AT_ONCE);
    PyObject *bytes =
        PyBytes_FromStringAndSize((const char *)all, (Py_ssize_t)(used * sizeof *all));
    free(all);
    return bytes;
}

/* ---- Columns -------------------------------------------------------------------------------- */

/* Every record is a row of doubles and integers of 8 bytes: epoch, step, wall time, then the value,
 * or the statistics. Bytes of a row-major table. */
enum { COLUMNS_OF_VALUE = 4, COLUMNS_OF_STATS = 12 };

typedef union cell {
    int64_t integer;
    double number;
} cell;

typedef struct table {
    cell *cells;
    size_t used, room;
} table;

static td_status add_row(void *user, const td_record *record, td_error *error) {
    table *t = user;
    if (t->used + COLUMNS_OF_STATS > t->room) {
        size_t room = t->room ? 2 * t->room : 4096;
        cell *cells = realloc(t->cells, room * sizeof *cells);
        if (!cells) {
            return td_error_set(error, TD_MEMORY, "out of memory for a signal's values");
        }
        t->cells = cells;
        t->room = room;
    }
    cell *row = t->cells + t->used;
    row[0].integer = record->epoch;
    row[1].integer = record->step;
    row[2].number = record->wall_time;
    t->used += 3;
    if (record->form == TD_SCALAR) {
        row[3].number = record->value;
        t->used += 1;
        return TD_OK;
    }
    const td_stats *s = record->stats;
    const cell stats[] = {{.integer = s->count}, {.number = s->mean}, {.number = s->std},
                          {.number = s->min},    {.number = s->max},  {.number = s->norm},
                          {.integer = s->zeros}, {.integer = s->nan}, {.integer = s->inf}};
    memcpy(row + 3, stats, sizeof stats);
    t->used += sizeof stats / sizeof *stats;
    return TD_OK;
}

/* A glob that matches this name and no other. */
static char *exactly(const char *name) {
    char *glob = malloc(2 * strlen(name) + 1), *out = glob;
    for (; glob && *name; name++) {
        if (strchr("*?[]\\,!", *name)) {
            *out++ = '\\';
        }
        *out++ = *name;
    }
    if (out) {
        *out = 0;
    }
    return glob;
}

static PyObject *run_table(PyObject *object, PyObject *arguments) {
    td_run *run = tdpy_run_opened(object);
    const char *name;
    unsigned form;
    if (!run || !PyArg_ParseTuple(arguments, "sI", &name, &form)) {
        return NULL;
    }
    if (form != TD_SCALAR && form != TD_STATS) {
        PyErr_SetString(PyExc_ValueError, "only scalars and statistics are tables");
        return NULL;
    }
    char *glob = exactly(name);
    if (!glob) {
        return PyErr_NoMemory();
    }
    table t = {0};
    td_error error = {0};
    td_run_query query = {.size = sizeof query, .what = glob, .forms = form};
    td_status status = td_run_read(run, &query, add_row, &t, &error);
    free(glob);
    PyObject *result = status == TD_OK
                           ? PyBytes_FromStringAndSize((const char *)t.cells,
                                                       (Py_ssize_t)(t.used * sizeof *t.cells))
                           : tdpy_raise(&error);
    free(t.cells);
    return result;
}

static td_status add_tensor_place(void *list, const td_record *record, td_error *error) {
    return add_item(list,
                    Py_BuildValue("LsL", (long long)record->step,
                                  record->place ? record->place->file : "",
                                  (long long)(record->place ? record->place->record : 0)),
                    error);
}

static PyObject *run_places(PyObject *object, PyObject *argument) {
    td_run *run = tdpy_run_opened(object);
    PyObject *name = run ? PyUnicode_AsUTF8String(argument) : NULL;
    char *glob = name ? exactly(PyBytes_AsString(name)) : NULL;
    PyObject *list = glob ? PyList_New(0) : NULL;
    td_error error = {0};
    td_run_query query = {.size = sizeof query, .what = glob, .forms = TD_TENSOR, .places = true};
    td_status status = list ? td_run_read(run, &query, add_tensor_place, list, &error) : TD_MEMORY;
    free(glob);
    Py_XDECREF(name);
    return listed(list, status, &error);
}

/* ---- One record ----------------------------------------------------------------------------- */

static PyObject *shape_of(const td_shape *shape) {
    PyObject *tuple = PyTuple_New(shape->rank);
    for (int32_t i = 0; tuple && i < shape->rank; i++) {
        PyObject *side = PyLong_FromLongLong(shape->dims[i]);
        if (!side || PyTuple_SetItem(tuple, i, side) != 0) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

/* (dtype, shape, bytes, file, record, samples) */
static PyObject *tensor_of(const td_record *record) {
    const td_view *view = record->view;
    int64_t count = 0;
    if (td_shape_check(&view->shape, view->dtype, &count, NULL) != TD_OK) {
        return Py_NewRef(Py_None);
    }
    PyObject *shape = shape_of(&view->shape);
    int64_t rows = view->shape.rank > 0 ? view->shape.dims[0] : 0;
    const td_place *place = record->place;
    return shape ? Py_BuildValue("sNy#sLy#", td_dtype_name(view->dtype), shape, view->data,
                                 (Py_ssize_t)(count * (int64_t)td_dtype_size(view->dtype)),
                                 place ? place->file : "", (long long)(place ? place->record : 0),
                                 (const char *)record->samples,
                                 (Py_ssize_t)(record->samples ? rows * 8 : 0))
                 : NULL;
}

static PyObject *histogram_of(const td_histogram *histogram) {
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && i < histogram->bin_count; i++) {
        td_range range = td_histogram_range(histogram, i);
        PyObject *item = Py_BuildValue("ddd", range.left, range.right, range.count);
        if (!item || PyList_Append(list, item) != 0) {
            Py_XDECREF(item);
            Py_DECREF(list);
            return NULL;
        }
        Py_DECREF(item);
    }
    return list;
}

static PyObject *stats_of(const td_stats *s) {
    return Py_BuildValue("{sLsdsdsdsdsdsLsLsL}", "count", (long long)s->count, "mean", s->mean,
                         "std", s->std, "min", s->min, "max", s->max, "norm", s->norm, "zeros",
                         (long long)s->zeros, "nan", (long long)s->nan, "inf", (long long)s->inf);
}

static PyObject *content_of(const td_record *record) {
    char hash[20];
    switch (record->form) {
    case TD_SCALAR:
        return PyFloat_FromDouble(record->value);
    case TD_STATS:
        return stats_of(record->stats);
    case TD_HISTOGRAM:
        return histogram_of(record->histogram);
    case TD_TEXT:
        return text_of(record->text, record->text_length);
    case TD_HASH:
        (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)record->hash);
        return PyUnicode_FromString(hash);
    case TD_IMAGE:
        if (record->png) {
            return PyBytes_FromStringAndSize(record->png, (Py_ssize_t)record->png_size);
        }
        return record->view ? tensor_of(record) : Py_NewRef(Py_None);
    default:
        return record->view ? tensor_of(record) : Py_NewRef(Py_None);
    }
}

/* Makes (epoch, step, content) of the record and puts it into *user. */
static td_status take_record(void *user, const td_record *record, td_error *error) {
    PyObject **result = user;
    PyObject *content = content_of(record);
    Py_XDECREF(*result);
    *result = content
                  ? Py_BuildValue("LLN", (long long)record->epoch, (long long)record->step, content)
                  : NULL;
    return *result ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory for a record");
}

static PyObject *run_at(PyObject *object, PyObject *arguments) {
    td_run *run = tdpy_run_opened(object);
    const char *name;
    unsigned form;
    long long step;
    if (!run || !PyArg_ParseTuple(arguments, "sIL", &name, &form, &step)) {
        return NULL;
    }
    const td_run_signal *signal = td_run_signal_find(run, name);
    if (!signal) {
        return PyErr_Format(PyExc_KeyError, "there is no signal %s", name);
    }
    PyObject *result = NULL;
    td_error error = {0};
    td_status status = td_run_at(run, signal, (td_form)form, step, take_record, &result, &error);
    if (status == TD_OK && !result) { /* there is one, but it could not be read: a problem */
        const char *const *problems;
        size_t count = td_run_problems(run, &problems);
        status = td_error_set(&error, TD_FORMAT, "%s: %s", name,
                              count ? problems[count - 1] : "the record cannot be read");
    }
    if (status == TD_OK) {
        return result ? result : Py_NewRef(Py_None);
    }
    Py_XDECREF(result);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (status == TD_NOT_FOUND) {
        return Py_NewRef(Py_None);
    }
    return tdpy_raise(&error);
}

bool tdpy_run_add(PyObject *module) {
    static PyMethodDef methods[] = {
        {"about", run_about, METH_NOARGS, "td_run_about"},
        {"files", run_files, METH_NOARGS, "td_run_files"},
        {"when", run_when, METH_O, "td_run_when: (step, epoch, later steps)"},
        {"refresh", run_refresh, METH_NOARGS, "td_run_refresh"},
        {"problems", run_problems, METH_NOARGS, "td_run_problems"},
        {"signals", run_signals, METH_NOARGS, "td_run_signals: (name, forms, first, last)"},
        {"notes", run_notes, METH_VARARGS, "td_run_notes"},
        {"events", run_events, METH_NOARGS, "td_run_events"},
        {"findings", run_findings, METH_NOARGS, "td_run_findings"},
        {"ranks", run_ranks, METH_NOARGS, "td_run_rank_at, of each"},
        {"spread", run_spread, METH_VARARGS, "spread(name, statistic): td_run_spread as bytes"},
        {"table", run_table, METH_VARARGS, "Scalars or statistics as bytes of a table."},
        {"places", run_places, METH_O, "(step, file, record) of every tensor of a signal"},
        {"arrow", tdpy_run_arrow, METH_VARARGS, "arrow(what, form, values=None): an Arrow stream"},
        {"at", run_at, METH_VARARGS, "td_run_at: (epoch, step, content)"},
        {"close", run_close, METH_NOARGS, "td_run_close"},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_new, run_new},
        {Py_tp_dealloc, run_dealloc},
        {Py_tp_methods, methods},
        {0, NULL},
    };
    static PyType_Spec spec = {"tapedeck._native.Run", sizeof(run_object), 0, Py_TPFLAGS_DEFAULT,
                               slots};
    PyObject *type = PyType_FromSpec(&spec);
    bool good = type && PyModule_AddObjectRef(module, "Run", type) == 0;
    Py_XDECREF(type);
    return good;
}
