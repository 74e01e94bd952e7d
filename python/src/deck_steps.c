/* What a step of a deck consists of: numbers, texts, batches; its beginning and its end. */
#include "deck_object.h"

#include <string.h>

PyObject *tdpy_deck_scalar(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    const char *name;
    PyObject *value;
    double number;
    if (!PyArg_ParseTuple(arguments, "sO", &name, &value) || !tdpy_number(value, &number)) {
        return NULL;
    }
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    td_status status = td_deck_scalar(self->deck, name, number);
    tdpy_leave(self);
    return tdpy_none_or_raise(status, NULL);
}

PyObject *tdpy_deck_scalar_of_epoch(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    const char *name;
    PyObject *value;
    double number;
    if (!PyArg_ParseTuple(arguments, "sO", &name, &value) || !tdpy_number(value, &number)) {
        return NULL;
    }
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    td_signal *signal = td_deck_signal(self->deck, name);
    td_status status = signal ? td_signal_scalar_epoch(signal, number) : TD_MEMORY;
    tdpy_leave(self);
    return tdpy_none_or_raise(status, NULL);
}

static PyObject *pass_two_texts(PyObject *object, PyObject *arguments,
                                td_status (*function)(td_deck *, const char *, const char *)) {
    deck_object *self = (deck_object *)object;
    const char *name, *text;
    if (!PyArg_ParseTuple(arguments, "ss", &name, &text)) {
        return NULL;
    }
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    td_deck *deck = self->deck;
    td_status status;
    Py_BEGIN_ALLOW_THREADS status = function(deck, name, text);
    Py_END_ALLOW_THREADS tdpy_leave(self);
    return tdpy_none_or_raise(status, NULL);
}

PyObject *tdpy_deck_text(PyObject *object, PyObject *arguments) {
    return pass_two_texts(object, arguments, td_deck_text);
}

PyObject *tdpy_deck_picture(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    const char *name, *png;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "sy#", &name, &png, &size)) {
        return NULL;
    }
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    td_deck *deck = self->deck;
    td_status status;
    Py_BEGIN_ALLOW_THREADS status = td_deck_picture(deck, name, png, (size_t)size);
    Py_END_ALLOW_THREADS tdpy_leave(self);
    return tdpy_none_or_raise(status, NULL);
}

PyObject *tdpy_deck_note(PyObject *object, PyObject *arguments) {
    return pass_two_texts(object, arguments, td_deck_note);
}

PyObject *tdpy_deck_raise(PyObject *object, PyObject *arguments) {
    return pass_two_texts(object, arguments, td_deck_raise);
}

PyObject *tdpy_deck_batch(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    PyObject *rows, *labels = Py_None;
    tdpy_array row_array, label_array;
    td_view packed = {0}, packed_labels = {0};
    if (!PyArg_ParseTuple(arguments, "O|O", &rows, &labels) || !tdpy_array_open(&row_array, rows)) {
        return NULL;
    }
    if (labels != Py_None && !tdpy_array_open(&label_array, labels)) {
        tdpy_array_close(&row_array);
        return NULL;
    }
    td_error error = {0};
    td_status status = TD_OK;
    int entered = TDPY_CLOSED;
    if (row_array.view.dtype != TD_INT64 || row_array.view.shape.rank != 1) {
        PyErr_SetString(PyExc_TypeError, "rows is a one-dimensional array of int64");
    } else {
        entered = tdpy_enter(self);
    }
    if (entered == TDPY_ENTERED) {
        status = td_view_pack(&row_array.view, row_array.strides, &packed, &error);
        if (status == TD_OK && labels != Py_None) {
            status = td_view_pack(&label_array.view, label_array.strides, &packed_labels, &error);
        }
        if (status == TD_OK) {
            status = td_deck_batch_labels(self->deck, packed.data, packed.shape.dims[0],
                                          labels != Py_None ? &packed_labels : NULL);
        }
        tdpy_leave(self);
    }
    if (packed.release) {
        packed.release(packed.owner);
    }
    if (packed_labels.release) {
        packed_labels.release(packed_labels.owner);
    }
    tdpy_array_close(&row_array);
    if (labels != Py_None) {
        tdpy_array_close(&label_array);
    }
    return entered == TDPY_ENTERED ? tdpy_none_or_raise(status, &error) : tdpy_not_entered(entered);
}

/* Whether a step may follow the last one; sets an exception where not. */
static bool check_grows(const deck_object *self, long long step) {
    if (step <= self->last_step) {
        PyErr_Format(PyExc_ValueError,
                     "step %lld comes after step %lld: the numbers of steps only grow", step,
                     (long long)self->last_step);
        return false;
    }
    return true;
}

static PyObject *move_step(PyObject *object, PyObject *arguments,
                           td_status (*function)(td_deck *, int64_t, int64_t, bool)) {
    deck_object *self = (deck_object *)object;
    long long epoch, step;
    int last = 0;
    if (!PyArg_ParseTuple(arguments, "LL|p", &epoch, &step, &last)) {
        return NULL;
    }
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    if (!check_grows(self, step)) {
        tdpy_leave(self);
        return NULL;
    }
    td_deck *deck = self->deck;
    td_status status;
    Py_BEGIN_ALLOW_THREADS status = function(deck, epoch, step, last);
    Py_END_ALLOW_THREADS if (function == td_deck_step_with) {
        self->last_step = step;
    }
    tdpy_leave(self);
    tdpy_array_sweep();
    return tdpy_none_or_raise(status, NULL);
}

PyObject *tdpy_deck_begin(PyObject *object, PyObject *arguments) {
    return move_step(object, arguments, td_deck_begin);
}

PyObject *tdpy_deck_step(PyObject *object, PyObject *arguments) {
    return move_step(object, arguments, td_deck_step_with);
}

/* step_later(epoch, step): closes the step, but for the word whether it is its epoch's last: end_epoch()
 * says that it is, any other call but due() that it is not. */
PyObject *tdpy_deck_step_later(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    long long epoch, step;
    if (!PyArg_ParseTuple(arguments, "LL", &epoch, &step)) {
        return NULL;
    }
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    bool grows = check_grows(self, step);
    if (grows) {
        self->pending = true;
        self->pending_epoch = epoch;
        self->pending_step = self->last_step = step;
    }
    tdpy_leave(self);
    return grows ? Py_NewRef(Py_None) : NULL;
}

PyObject *tdpy_deck_end_epoch(PyObject *object, PyObject *unused) {
    (void)unused;
    deck_object *self = (deck_object *)object;
    int entered = tdpy_enter_pending(self);
    if (entered != TDPY_ENTERED) {
        return entered == TDPY_CLOSED ? NULL : Py_NewRef(Py_False);
    }
    bool pending = self->pending;
    if (pending) {
        tdpy_close_pending(self, true);
    }
    tdpy_leave(self);
    return PyBool_FromLong(pending);
}

PyObject *tdpy_deck_due(PyObject *object, PyObject *argument) {
    deck_object *self = (deck_object *)object;
    long long step = PyLong_AsLongLong(argument);
    if (step == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int entered = tdpy_enter_pending(self);
    if (entered != TDPY_ENTERED) {
        return entered == TDPY_CLOSED ? NULL : Py_NewRef(Py_False);
    }
    bool due = td_deck_due(self->deck, step);
    tdpy_leave(self);
    return PyBool_FromLong(due);
}

PyObject *tdpy_deck_wants(PyObject *object, PyObject *argument) {
    deck_object *self = (deck_object *)object;
    PyObject *bytes = PyUnicode_AsUTF8String(argument);
    if (!bytes) {
        return NULL;
    }
    int entered = tdpy_enter(self);
    bool wants = false;
    if (entered == TDPY_ENTERED) {
        wants = td_deck_wants(self->deck, PyBytes_AsString(bytes));
        tdpy_leave(self);
    }
    Py_DECREF(bytes);
    return entered == TDPY_CLOSED ? NULL : PyBool_FromLong(wants);
}
