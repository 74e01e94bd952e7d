/* What the files of the extension share. It translates: what is recorded, when and how, is the
 * library's. The GIL is held in every function unless its comment says otherwise. */
#ifndef TAPEDECK_PYTHON_NATIVE_H
#define TAPEDECK_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include "buffer.h"

#include "tapedeck/run.h"

/* ---- module.c ------------------------------------------------------------------------------- */

/* tapedeck.Error, whose .status is the short text of the td_status. Both return NULL. */
PyObject *tdpy_raise(const td_error *error);
PyObject *tdpy_raise_status(td_status status, const char *text);

/* How many times this process has been forked since it started: a deck that was opened before the
 * last one belongs to another process. */
int tdpy_forks(void);

/* ---- array.c -------------------------------------------------------------------------------- */

/* An array of somebody's, described; what must be kept while that is used. */
typedef struct tdpy_array {
    struct tdpy_array *next;
    td_view view; /* no release */
    int64_t strides[TD_MAX_RANK];
    PyObject *object; /* referenced, or NULL */
    bool has_buffer;
    Py_buffer buffer;
    void *managed; /* a DLManagedTensor or DLManagedTensorVersioned */
    bool versioned;
} tdpy_array;

/* Describes object: by DLPack, the buffer protocol or __array__. False with an exception set:
 * TypeError when it is no array, BufferError when its memory cannot be read from here. */
bool tdpy_array_open(tdpy_array *array, PyObject *object);
void tdpy_array_close(tdpy_array *array);

/* Gives it a type of the same size: bfloat16 travels as uint16 where nothing else is known. False
 * with an exception set. */
bool tdpy_array_as(tdpy_array *array, const char *dtype);

/* A copy of array on the heap whose view may be kept: its release may be called by any thread, and
 * what it holds is released by tdpy_array_sweep. NULL with an exception set. */
tdpy_array *tdpy_array_keep(const tdpy_array *array, td_view *view);
/* Frees what threads without the GIL have released. */
void tdpy_array_sweep(void);

/* One number: of a float, an int, an array of one element, anything with __float__. False with an
 * exception set. */
bool tdpy_number(PyObject *object, double *value);

/* ---- deck.c, run.c -------------------------------------------------------------------------- */

/* Adds the types to the module. False with an exception set. */
bool tdpy_deck_add(PyObject *module);
bool tdpy_run_add(PyObject *module);
/* The run of a Run; NULL with an exception set when it is closed. */
td_run *tdpy_run_opened(PyObject *object);

#endif
