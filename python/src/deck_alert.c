/* Deck: alerts. */
#include "deck_object.h"

#include <stdlib.h>

const char **tdpy_read_words(PyObject *sequence, PyObject **kept) {
    *kept = PySequence_Tuple(sequence);
    Py_ssize_t count = *kept ? PyTuple_Size(*kept) : -1;
    const char **words = count < 0 ? NULL : calloc((size_t)count + 1, sizeof *words);
    if (!words) {
        return count < 0 ? NULL : (const char **)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t size = 0;
        words[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(*kept, i), &size);
        if (words[i] && strlen(words[i]) != (size_t)size) {
            PyErr_SetString(PyExc_ValueError, "a text of the list has a zero byte in it");
            words[i] = NULL;
        }
        if (!words[i]) {
            free(words);
            return NULL;
        }
    }
    return words;
}

PyObject *tdpy_deck_alert(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    td_alert alert = {.size = sizeof alert};
    PyObject *run, *kept = NULL, *result = NULL;
    if (!PyArg_ParseTuple(arguments, "zOz", &alert.when, &run, &alert.webhook)) {
        return NULL;
    }
    const char **words = run == Py_None ? NULL : tdpy_read_words(run, &kept);
    if (run == Py_None || words) {
        alert.run = words;
        td_error error = {0};
        td_status status = TD_OK;
        int entered = tdpy_enter(self);
        td_deck *deck = self->deck;
        if (entered == TDPY_ENTERED) {
            Py_BEGIN_ALLOW_THREADS status = td_deck_alert(deck, &alert, &error);
            if (status != TD_OK) {
                tdpy_keep_earlier(self, deck, &error);
            }
            Py_END_ALLOW_THREADS tdpy_leave(self);
        }
        result = entered == TDPY_ENTERED ? tdpy_none_or_raise(status, &error)
                                         : tdpy_not_entered(entered);
    }
    free(words);
    Py_XDECREF(kept);
    return result;
}
