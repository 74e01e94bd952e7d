/* Signal: recording arrays, one at a time or many in one call. */
#include "deck_object.h"

#include <string.h>

/* Memory beyond this is read without the GIL. */
enum { WORTH_RELEASING = 64 << 10 };

static PyTypeObject *signal_type;

static td_status record_view(td_signal *signal, tdpy_array *array, td_view view, td_error *error) {
    td_view packed;
    td_status status = td_view_pack(&view, array->strides, &packed, error);
    return status == TD_OK ? td_signal_record(signal, packed) : status;
}

static td_status record_array(td_signal *signal, tdpy_array *array, td_view view, td_error *error) {
    td_status status;
    int64_t count = 0;
    if (td_shape_check(&view.shape, view.dtype, &count, NULL) == TD_OK &&
        count * (int64_t)td_dtype_size(view.dtype) > WORTH_RELEASING) {
        Py_BEGIN_ALLOW_THREADS status = record_view(signal, array, view, error);
        Py_END_ALLOW_THREADS
    } else {
        status = record_view(signal, array, view, error);
    }
    return status;
}

/* The array that value is, as a view that is kept or not. False with an exception set. */
static bool open_array(tdpy_array *array, PyObject *value, const char *dtype, bool keep,
                       td_view *view) {
    if (!tdpy_array_open(array, value)) {
        return false;
    }
    if (dtype && !tdpy_array_as(array, dtype)) {
        tdpy_array_close(array);
        return false;
    }
    *view = array->view;
    if (keep && !tdpy_array_keep(array, view)) {
        tdpy_array_close(array);
        return false;
    }
    return true;
}

/* Arrays are opened and closed outside of the deck: they may run anybody's Python, and that may close
 * it. */
PyObject *tdpy_record(deck_object *self, td_signal *signal, PyObject *value, const char *dtype,
                      bool keep) {
    tdpy_array array;
    td_view view;
    td_error error = {0};
    td_status status = TD_OK;
    if (!td_signal_wants(signal)) {
        return Py_NewRef(Py_None);
    }
    if (!open_array(&array, value, dtype, keep, &view)) {
        return NULL;
    }
    int entered = tdpy_enter(self);
    if (entered == TDPY_ENTERED) {
        status = record_array(signal, &array, view, &error);
        tdpy_leave(self);
    } else if (keep) {
        view.release(view.owner);
    }
    if (!keep) {
        tdpy_array_close(&array);
    }
    return entered == TDPY_ENTERED ? tdpy_none_or_raise(status, &error) : tdpy_not_entered(entered);
}

/* ---- Signals -------------------------------------------------------------------------------- */

static PyObject *signal_record(PyObject *object, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {"value", "dtype", "keep", NULL};
    signal_object *self = (signal_object *)object;
    PyObject *value;
    const char *dtype = NULL;
    int keep = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|zp", keywords, &value, &dtype, &keep)) {
        return NULL;
    }
    int there = tdpy_check_open(self->owner);
    return there == TDPY_ENTERED ? tdpy_record(self->owner, self->signal, value, dtype, keep)
                                 : tdpy_not_entered(there);
}

/* tdpy_record(value) without keywords: the way of hooks. */
static PyObject *signal_call(PyObject *object, PyObject *value) {
    signal_object *self = (signal_object *)object;
    int there = tdpy_check_open(self->owner);
    return there == TDPY_ENTERED ? tdpy_record(self->owner, self->signal, value, NULL, false)
                                 : tdpy_not_entered(there);
}

static PyObject *signal_wants(PyObject *object, PyObject *unused) {
    (void)unused;
    signal_object *self = (signal_object *)object;
    bool alive = self->owner->deck && self->owner->forks == tdpy_forks();
    if (alive && self->owner->pending) {
        tdpy_close_pending(self->owner, false);
        alive = self->owner->deck != NULL;
    }
    return PyBool_FromLong(alive && td_signal_wants(self->signal));
}

/* forms(): bits, see td_signal_forms; 0: nothing is wanted. */
static PyObject *signal_forms(PyObject *object, PyObject *unused) {
    (void)unused;
    signal_object *self = (signal_object *)object;
    int entered = tdpy_enter(self->owner);
    uint32_t forms = 0;
    if (entered == TDPY_ENTERED) {
        forms = td_signal_forms(self->signal);
        tdpy_leave(self->owner);
    }
    return entered == TDPY_CLOSED ? NULL : PyLong_FromUnsignedLong(forms);
}

/* Records a summary; without the GIL where the deck may wait. */
static PyObject *record_summary(signal_object *self, const td_summary *summary) {
    td_status status = TD_OK;
    int entered = tdpy_enter(self->owner);
    if (entered == TDPY_ENTERED) {
        td_signal *signal = self->signal;
        Py_BEGIN_ALLOW_THREADS status = td_signal_record_summary(signal, summary);
        Py_END_ALLOW_THREADS tdpy_leave(self->owner);
    }
    return entered == TDPY_ENTERED ? tdpy_none_or_raise(status, NULL) : tdpy_not_entered(entered);
}

/* add(value): the statistics and histogram of another part of what the open step has of the signal. */
static PyObject *signal_add(PyObject *object, PyObject *value) {
    signal_object *self = (signal_object *)object;
    tdpy_array array;
    td_view packed = {0};
    td_error error = {0};
    td_bin bins[TD_HISTOGRAM_BINS];
    int entered = tdpy_enter(self->owner);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    uint32_t forms = td_signal_forms(self->signal);
    tdpy_leave(self->owner);
    if (!(forms & (TD_STATS | TD_HISTOGRAM | TD_SCALAR))) {
        return Py_NewRef(Py_None);
    }
    if (!tdpy_array_open(&array, value)) {
        return NULL;
    }
    td_summary summary = {
        .size = sizeof summary, .dtype = array.view.dtype, .shape = array.view.shape, .more = true};
    td_status status;
    Py_BEGIN_ALLOW_THREADS status = td_view_pack(&array.view, array.strides, &packed, &error);
    if (status == TD_OK) {
        status = forms & TD_HISTOGRAM
                     ? td_histogram_of(&packed, &summary.stats, bins, &summary.histogram, &error)
                     : td_stats_of(&packed, &summary.stats, &error);
    }
    if (packed.release) {
        packed.release(packed.owner);
    }
    Py_END_ALLOW_THREADS tdpy_array_close(&array);
    return status == TD_OK ? record_summary(self, &summary) : tdpy_none_or_raise(status, &error);
}

/* Counts by the upper twelve bits of a float32, as bins in the order of values; entries of NaN and infinities do not
 * count. */
static int32_t bins_of_table(const int32_t *table, td_bin bins[TD_HISTOGRAM_BINS]) {
    enum { HALF = TD_HISTOGRAM_BINS / 2, INFINITE = 255 << 3 };
    int32_t used = 0;
    for (int32_t i = HALF - INFINITE; i < HALF + INFINITE; i++) {
        int32_t entry = i < HALF ? TD_HISTOGRAM_BINS - 1 - i : i - HALF;
        if (table[entry]) {
            bins[used++] = (td_bin){.index = i, .count = table[entry]};
        }
    }
    return used;
}

/* put_summary(dtype, shape, integers, floats, table, more): integers are count, zeros, nan, inf, first_nonfinite; floats
 * are mean, std, min, max, norm; table: the bytes of 4096 int32, or None. */
static PyObject *signal_put_summary(PyObject *object, PyObject *arguments) {
    const char *dtype, *table;
    PyObject *shape;
    Py_ssize_t table_size;
    long long n[5];
    int more;
    td_summary summary = {.size = sizeof summary};
    td_stats *s = &summary.stats;
    td_bin bins[TD_HISTOGRAM_BINS];
    if (!PyArg_ParseTuple(arguments, "sO!(LLLLL)(ddddd)z#p", &dtype, &PyTuple_Type, &shape, &n[0],
                          &n[1], &n[2], &n[3], &n[4], &s->mean, &s->std, &s->min, &s->max, &s->norm,
                          &table, &table_size, &more)) {
        return NULL;
    }
    Py_ssize_t rank = PyTuple_Size(shape);
    int found = 0;
    while (found < TD_DTYPE_COUNT && strcmp(td_dtype_name((td_dtype)found), dtype) != 0) {
        found++;
    }
    summary.dtype = (td_dtype)found;
    if (found == TD_DTYPE_COUNT || rank > TD_MAX_RANK ||
        (table && table_size != TD_HISTOGRAM_BINS * (Py_ssize_t)sizeof(int32_t))) {
        PyErr_SetString(PyExc_ValueError, "no summary: its type, its shape or its table");
        return NULL;
    }
    summary.shape.rank = (int32_t)rank;
    for (Py_ssize_t i = 0; i < rank; i++) {
        summary.shape.dims[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    s->count = n[0];
    s->zeros = n[1];
    s->nan = n[2];
    s->inf = n[3];
    s->first_nonfinite = n[4];
    if (table) {
        int32_t counts[TD_HISTOGRAM_BINS];
        memcpy(counts, table, sizeof counts);
        summary.histogram = (td_histogram){.bins = bins, .bin_count = bins_of_table(counts, bins)};
    }
    summary.more = more;
    return record_summary((signal_object *)object, &summary);
}

static void signal_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    Py_DECREF(((signal_object *)object)->owner);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- Deck: making and ending ---------------------------------------------------------------- */

static bool find_kind(const char *name, td_signal_kind *kind) {
    *kind = td_signal_kind_find(name);
    if (*kind == TD_SIGNAL_UNKNOWN) {
        PyErr_Format(PyExc_ValueError, "there is no kind of signal '%s'", name);
    }
    return *kind != TD_SIGNAL_UNKNOWN;
}

static bool find_better(const char *name, td_better *better) {
    bool smaller = strcmp(name, "smaller") == 0;
    if (!smaller && strcmp(name, "larger") != 0) {
        PyErr_Format(PyExc_ValueError, "better is smaller or larger, not '%s'", name);
        return false;
    }
    *better = smaller ? TD_BETTER_SMALLER : TD_BETTER_LARGER;
    return true;
}

/* Layouts by the words that frameworks have for them. */
static bool find_layout(const char *name, bool *channels_first, bool *batched) {
    static const struct {
        const char *name;
        bool channels_first;
        bool one; /* picture, not a batch of them */
    } layouts[] = {
        {"channels_last", false, false},
        {"channels_first", true, false},
        {"NHWC", false, false},
        {"NCHW", true, false},
        {"HWC", false, true},
        {"CHW", true, true},
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (strcmp(name, layouts[i].name) == 0) {
            *channels_first = layouts[i].channels_first;
            *batched = *batched && !layouts[i].one;
            return true;
        }
    }
    PyErr_Format(PyExc_ValueError,
                 "layout is channels_first, channels_last, NCHW, NHWC, CHW or HWC, not '%s'", name);
    return false;
}

int tdpy_deck_set_layout(PyObject *object, PyObject *value, void *unused) {
    (void)unused;
    bool batched = true;
    PyObject *bytes = value && PyUnicode_Check(value) ? PyUnicode_AsUTF8String(value) : NULL;
    if (!bytes) {
        PyErr_SetString(PyExc_TypeError, "layout is a text");
        return -1;
    }
    bool good =
        find_layout(PyBytes_AsString(bytes), &((deck_object *)object)->channels_first, &batched);
    Py_DECREF(bytes);
    return good ? 0 : -1;
}

PyObject *tdpy_deck_signal(PyObject *object, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {"name",   "kind", "layer",  "parameter", "order", "batched",
                               "better", "rank", "layout", "placement", NULL};
    deck_object *self = (deck_object *)object;
    td_signal_info info = {.size = sizeof info};
    const char *name, *kind = NULL, *better = NULL, *layout = NULL, *placement = NULL;
    long long order = 0;
    int batched = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "s|zzzLpzizz", keywords, &name, &kind,
                                     &info.layer, &info.parameter, &order, &batched, &better,
                                     &info.rank, &layout, &placement)) {
        return NULL;
    }
    char text[TD_SIGNAL_TEXT_SIZE];
    if (kind) {
        info.order = order;
        info.batched = batched;
    } else {
        int32_t rank = info.rank;
        td_signal_guess(name, &info, text);
        info.rank = rank;
    }
    info.channels_first = self->channels_first;
    info.placement = placement;
    if ((kind && !find_kind(kind, &info.kind)) || (better && !find_better(better, &info.better)) ||
        (layout && !find_layout(layout, &info.channels_first, &info.batched))) {
        return NULL;
    }
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    bool says = kind || info.channels_first || layout || placement;
    td_signal *signal =
        says ? td_deck_signal_with(self->deck, name, &info) : td_deck_signal(self->deck, name);
    tdpy_leave(self);
    if (!signal) {
        return PyErr_NoMemory();
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(signal_type, Py_tp_alloc);
    signal_object *made = (signal_object *)allocate(signal_type, 0);
    if (made) {
        made->owner = (deck_object *)Py_NewRef(object);
        made->signal = signal;
    }
    return (PyObject *)made;
}

PyObject *tdpy_deck_record(PyObject *object, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {"name", "value", "dtype", "keep", NULL};
    deck_object *self = (deck_object *)object;
    PyObject *value;
    const char *name, *dtype = NULL;
    int keep = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "sO|zp", keywords, &name, &value, &dtype,
                                     &keep)) {
        return NULL;
    }
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    td_signal *signal = td_deck_signal(self->deck, name);
    tdpy_leave(self);
    return signal ? tdpy_record(self, signal, value, dtype, keep) : PyErr_NoMemory();
}

PyObject *tdpy_deck_wants_any(PyObject *object, PyObject *list) {
    deck_object *self = (deck_object *)object;
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "a list is needed");
        return NULL;
    }
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return entered == TDPY_CLOSED ? NULL : Py_NewRef(Py_False);
    }
    bool wants = false;
    Py_ssize_t size = PyList_Size(list);
    for (Py_ssize_t i = 0; i < size && !wants; i++) {
        PyObject *item = PyList_GetItem(list, i);
        wants = Py_IS_TYPE(item, signal_type) && td_signal_wants(((signal_object *)item)->signal);
    }
    tdpy_leave(self);
    return PyBool_FromLong(wants);
}

/* put_all(signals, values): each signal's put(value), in one call. Returns a list of the indexes of values that could
 * not be recorded; values that are None are skipped. */
PyObject *tdpy_deck_put_all(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    PyObject *signals, *values;
    if (!PyArg_ParseTuple(arguments, "OO", &signals, &values)) {
        return NULL;
    }
    if (!PyList_Check(signals) || !PyList_Check(values) ||
        PyList_Size(signals) != PyList_Size(values)) {
        PyErr_SetString(PyExc_TypeError, "two lists of the same length are needed");
        return NULL;
    }
    PyObject *failed = PyList_New(0);
    int there = failed ? tdpy_check_open(self) : TDPY_CLOSED;
    bool good = there != TDPY_CLOSED;
    for (Py_ssize_t i = 0; good && i < PyList_Size(signals) && i < PyList_Size(values); i++) {
        if (tdpy_check_pending(self) !=
            TDPY_ENTERED) { /* closed by another thread while recording */
            PyErr_Clear();
            break;
        }
        PyObject *signal = PyList_GetItem(signals, i);
        PyObject *value = PyList_GetItem(values, i);
        if (value == Py_None) {
            continue;
        }
        PyObject *result = NULL;
        if (Py_IS_TYPE(signal, signal_type)) {
            Py_INCREF(value); /* recording may release the GIL */
            result = tdpy_record(self, ((signal_object *)signal)->signal, value, NULL, false);
            Py_DECREF(value);
        }
        if (!result) {
            PyErr_Clear();
            PyObject *index = PyLong_FromSsize_t(i);
            good = index && PyList_Append(failed, index) == 0;
            Py_XDECREF(index);
        }
        Py_XDECREF(result);
    }
    if (!good) {
        Py_XDECREF(failed);
        return NULL;
    }
    return failed;
}

bool tdpy_signal_add(PyObject *module) {
    static PyMethodDef signal_methods[] = {
        {"record", TDPY_KEYWORDS(signal_record), METH_VARARGS | METH_KEYWORDS, "td_signal_record"},
        {"put", signal_call, METH_O, "record(value)"},
        {"wants", signal_wants, METH_NOARGS, "td_signal_wants"},
        {"forms", signal_forms, METH_NOARGS, "td_signal_forms"},
        {"add", signal_add, METH_O, "td_signal_record_summary of another part"},
        {"put_summary", signal_put_summary, METH_VARARGS, "td_signal_record_summary"},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot signal_slots[] = {
        {Py_tp_dealloc, signal_dealloc},
        {Py_tp_methods, signal_methods},
        {0, NULL},
    };
    static PyType_Spec signal_spec = {"tapedeck._native.Signal", sizeof(signal_object), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                      signal_slots};
    PyObject *signal = PyType_FromSpec(&signal_spec);
    signal_type = (PyTypeObject *)signal; /* kept for as long as the module is loaded */
    return signal && PyModule_AddObjectRef(module, "Signal", signal) == 0;
}
