/* The buffer protocol, which CPython's stable interface has from 3.11 on. CPython 3.10 exports the same functions
 * and has the same struct, so these declarations hold for every CPython from 3.10 on. */
#ifndef TAPEDECK_PYTHON_BUFFER_H
#define TAPEDECK_PYTHON_BUFFER_H

#if Py_LIMITED_API >= 0x030B0000
#error "Python.h declares the buffer protocol: remove this header"
#endif

typedef struct Py_buffer {
    void *buf;
    PyObject *obj; /* referenced */
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

#define PyBUF_FORMAT 0x0004
#define PyBUF_STRIDES (0x0010 | 0x0008) /* with the shape */
#define PyBUF_RECORDS_RO (PyBUF_STRIDES | PyBUF_FORMAT)

int PyObject_CheckBuffer(PyObject *object);
int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
void PyBuffer_Release(Py_buffer *view);

#endif
