/* The module tapedeck._native. */
#include "deck_object.h"
#include "native.h"

#include "tapedeck/view.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static PyObject *error_class;

static volatile int forks;

static void count_fork(void) {
    forks++;
}

int tdpy_forks(void) {
    return forks;
}

PyObject *tdpy_raise_status(td_status status, const char *text) {
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *error = message ? PyObject_CallFunctionObjArgs(error_class, message, NULL) : NULL;
    PyObject *word = error ? PyUnicode_FromString(td_status_text(status)) : NULL;
    if (word && PyObject_SetAttrString(error, "status", word) == 0) {
        PyErr_SetObject(error_class, error);
    }
    Py_XDECREF(message);
    Py_XDECREF(error);
    Py_XDECREF(word);
    return NULL;
}

PyObject *tdpy_raise(const td_error *error) {
    return tdpy_raise_status(error->status,
                             *error->text ? error->text : td_status_text(error->status));
}

static PyObject *version(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyUnicode_FromString(td_version());
}

static bool add_forms(PyObject *module) {
    PyObject *forms = PyDict_New();
    bool good = forms != NULL;
#define ADD_FORM(name, text, bit)                                                                  \
    if (good) {                                                                                    \
        PyObject *value = PyLong_FromLong(TD_##name);                                              \
        good = value && PyDict_SetItemString(forms, text, value) == 0;                             \
        Py_XDECREF(value);                                                                         \
    }
    TD_FORM_LIST(ADD_FORM)
#undef ADD_FORM
    good = good && PyModule_AddObjectRef(module, "FORMS", forms) == 0;
    Py_XDECREF(forms);
    return good;
}

static PyObject *report(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *folder = NULL, *path = NULL;
    if (!PyArg_ParseTuple(arguments, "O&O&", PyUnicode_FSConverter, &folder, PyUnicode_FSConverter,
                          &path)) {
        Py_XDECREF(folder);
        return NULL;
    }
    const char *runs[] = {PyBytes_AsString(folder)}, *to = PyBytes_AsString(path);
    td_error error = {0};
    td_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = td_report(runs, 1, to, &error);
    Py_END_ALLOW_THREADS;
    Py_DECREF(folder);
    Py_DECREF(path);
    if (status) {
        return tdpy_raise(&error);
    }
    Py_RETURN_NONE;
}

static PyObject *sink_for(PyObject *module, PyObject *form) {
    (void)module;
    long bit = PyLong_AsLong(form);
    return bit == -1 && PyErr_Occurred() ? NULL
                                         : PyUnicode_FromString(td_sink_for((uint32_t)bit)->name);
}

static PyObject *change_tracks(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *folder = NULL;
    PyObject *lists[2], *kept[2] = {NULL, NULL};
    const char **words[2] = {NULL, NULL};
    double seconds = 0;
    if (!PyArg_ParseTuple(arguments, "sOOd", &folder, &lists[0], &lists[1], &seconds)) {
        return NULL;
    }
    bool good = true;
    size_t counts[2] = {0, 0};
    for (int i = 0; i < 2 && good; i++) {
        words[i] = tdpy_read_words(lists[i], &kept[i]);
        good = words[i] != NULL;
        counts[i] = good ? (size_t)PyTuple_Size(kept[i]) : 0;
    }
    td_error error = {0};
    td_status status = TD_INVALID;
    int64_t step = 0;
    if (good) {
        Py_BEGIN_ALLOW_THREADS status = td_run_change_tracks(folder, words[0], counts[0], words[1],
                                                             counts[1], seconds, &step, &error);
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < 2; i++) {
        free(words[i]);
        Py_XDECREF(kept[i]);
    }
    return !good ? NULL : status ? tdpy_raise(&error) : PyLong_FromLongLong(step);
}

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void) {
    static PyMethodDef functions[] = {
        {"version", version, METH_NOARGS, "version() -> the library's version"},
        {"report", report, METH_VARARGS, "report(folder, path): a run's pages as one file"},
        {"change_tracks", change_tracks, METH_VARARGS,
         "change_tracks(folder, add, remove, seconds) -> the step after which they count"},
        {"sink_for", sink_for, METH_O, "sink_for(form) -> the name of the sink that suits it"},
        {NULL, NULL, 0, NULL},
    };
    static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,
        .m_name = "tapedeck._native",
        .m_doc = "The recorder half of libtapedeck.",
        .m_size = -1,
        .m_methods = functions,
    };
    static bool watched;
    if (!watched && pthread_atfork(NULL, NULL, count_fork) != 0) {
        return PyErr_NoMemory();
    }
    watched = true;
    PyObject *module = PyModule_Create(&definition);
    if (!module) {
        return NULL;
    }
    error_class = PyErr_NewExceptionWithDoc(
        "tapedeck.Error", "What libtapedeck says went wrong; .status is it in a few words.",
        PyExc_RuntimeError, NULL);
    if (!error_class || PyModule_AddObjectRef(module, "Error", error_class) != 0 ||
        !add_forms(module) || !tdpy_deck_add(module) || !tdpy_run_add(module)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
