/* Arrays of other libraries as views, without a copy and without linking any of them.
 *
 * In this order: DLPack's C interface (PyTorch; no Python object is made), the buffer protocol (NumPy,
 * JAX, TensorFlow, array, memoryview), __dlpack__, __array__. */
#include "native.h"

#include "dlpack.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- Element types -------------------------------------------------------------------------- */

static const struct {
    uint8_t code, bits;
    td_dtype dtype;
} dlpack_types[] = {
    {DLPACK_FLOAT, 32, TD_FLOAT32}, {DLPACK_FLOAT, 64, TD_FLOAT64},
    {DLPACK_FLOAT, 16, TD_FLOAT16}, {DLPACK_BFLOAT, 16, TD_BFLOAT16},
    {DLPACK_BOOL, 8, TD_BOOL},      {DLPACK_INT, 8, TD_INT8},
    {DLPACK_INT, 16, TD_INT16},     {DLPACK_INT, 32, TD_INT32},
    {DLPACK_INT, 64, TD_INT64},     {DLPACK_UINT, 8, TD_UINT8},
    {DLPACK_UINT, 16, TD_UINT16},   {DLPACK_UINT, 32, TD_UINT32},
    {DLPACK_UINT, 64, TD_UINT64},
};

/* A format of the struct module: one letter, native byte order. */
static bool dtype_of_format(const char *format, Py_ssize_t size, td_dtype *dtype) {
    static const char native[] =
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        "@=<";
#else
        "@=>!";
#endif
    const char *letter = format ? format : "B";
    if (*letter && strchr(native, *letter)) {
        letter++;
    }
    uint8_t bits = size > 0 && size <= 8 ? (uint8_t)(8 * size) : 0, code;
    if (!*letter || letter[1]) {
        return false;
    }
    if (strchr("efd", *letter)) {
        code = DLPACK_FLOAT;
    } else if (strchr("bhilqn", *letter)) {
        code = DLPACK_INT;
    } else if (strchr("BHILQN", *letter)) {
        code = DLPACK_UINT;
    } else if (*letter == '?') {
        code = DLPACK_BOOL;
    } else {
        return false;
    }
    for (size_t i = 0; i < sizeof dlpack_types / sizeof *dlpack_types; i++) {
        if (dlpack_types[i].code == code && dlpack_types[i].bits == bits) {
            *dtype = dlpack_types[i].dtype;
            return true;
        }
    }
    return false;
}

bool tdpy_array_as(tdpy_array *array, const char *name) {
    for (int dtype = 0; dtype < TD_DTYPE_COUNT; dtype++) {
        if (strcmp(td_dtype_name((td_dtype)dtype), name) == 0 &&
            td_dtype_size((td_dtype)dtype) == td_dtype_size(array->view.dtype)) {
            array->view.dtype = (td_dtype)dtype;
            return true;
        }
    }
    PyErr_Format(PyExc_TypeError, "the array's elements cannot be read as %s", name);
    return false;
}

static bool check_rank(int rank) {
    if (rank < 0 || rank > TD_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "an array has 0 to %d dimensions, not %d", TD_MAX_RANK,
                     rank);
        return false;
    }
    return true;
}

/* ---- DLPack --------------------------------------------------------------------------------- */

/* Sets an exception that names the type. */
static void refuse_dlpack(const dlpack_tensor *t) {
    static const char *const names[] = {[DLPACK_INT] = "int",
                                        [DLPACK_UINT] = "uint",
                                        [DLPACK_FLOAT] = "float",
                                        [DLPACK_HANDLE] = "handle",
                                        [DLPACK_BFLOAT] = "bfloat",
                                        [DLPACK_COMPLEX] = "complex",
                                        [DLPACK_BOOL] = "bool",
                                        [7] = "float8_e3m4",
                                        "float8_e4m3",
                                        "float8_e4m3b11fnuz",
                                        "float8_e4m3fn",
                                        "float8_e4m3fnuz",
                                        "float8_e5m2",
                                        "float8_e5m2fnuz",
                                        "float8_e8m0fnu",
                                        "float6_e2m3fn",
                                        "float6_e3m2fn",
                                        "float4_e2m1fn"};
    int code = t->dtype.code;
    if (code >= (int)(sizeof names / sizeof *names)) {
        PyErr_Format(PyExc_TypeError, "elements of DLPack's type %d with %d bits are not recorded",
                     code, t->dtype.bits);
    } else if (t->dtype.lanes != 1) {
        PyErr_Format(PyExc_TypeError, "vectors of %d elements of %s%d are not recorded",
                     t->dtype.lanes, names[code], t->dtype.bits);
    } else if (code > DLPACK_BOOL) {
        PyErr_Format(PyExc_TypeError, "elements of %s are not recorded", names[code]);
    } else {
        PyErr_Format(PyExc_TypeError, "elements of %s%d are not recorded", names[code],
                     t->dtype.bits);
    }
}

/* Checks the view's shape, and gives it strides of a row-major array where there are none. False with
 * an exception set. */
static bool take_strides(tdpy_array *array, const int64_t *strides) {
    int64_t count, stride = 1;
    td_error error = {0};
    td_view *view = &array->view;
    if (td_shape_check(&view->shape, view->dtype, &count, &error) != TD_OK) {
        PyErr_SetString(PyExc_ValueError, error.text);
        return false;
    }
    if (count > 0 && !view->data) {
        PyErr_SetString(PyExc_BufferError, "the array has no memory");
        return false;
    }
    for (int32_t k = view->shape.rank - 1; k >= 0; k--) {
        array->strides[k] = strides ? strides[k] : stride;
        stride *= count ? view->shape.dims[k] : 1; /* of an empty array they say nothing */
    }
    return true;
}

static bool take_dlpack(tdpy_array *array, const dlpack_tensor *t) {
    if (t->device.type != DLPACK_CPU && t->device.type != DLPACK_CUDA_HOST &&
        t->device.type != DLPACK_ROCM_HOST && t->device.type != DLPACK_CUDA_MANAGED) {
        PyErr_SetString(PyExc_BufferError, "the array is in a device's memory: copy it to the CPU");
        return false;
    }
    if (!check_rank(t->rank)) {
        return false;
    }
    size_t i = 0, types = sizeof dlpack_types / sizeof *dlpack_types;
    while (i < types && (dlpack_types[i].code != t->dtype.code ||
                         dlpack_types[i].bits != t->dtype.bits || t->dtype.lanes != 1)) {
        i++;
    }
    if (i == types) {
        refuse_dlpack(t);
        return false;
    }
    array->view = (td_view){.dtype = dlpack_types[i].dtype,
                            .shape.rank = t->rank,
                            .data = t->data ? (const char *)t->data + t->byte_offset : NULL};
    if (t->rank > 0) {
        memcpy(array->view.shape.dims, t->shape, (size_t)t->rank * sizeof *t->shape);
    }
    return take_strides(array, t->strides);
}

/* PyTorch exports its integers of 1 to 7 bits as if they had 8: refuses one by the name of its type. False with an
 * exception set. */
static bool check_whole_bytes(PyObject *object, const tdpy_array *array) {
    if (array->view.dtype != TD_INT8 && array->view.dtype != TD_UINT8) {
        return true;
    }
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    PyObject *name = dtype ? PyObject_Str(dtype) : NULL;
    PyErr_Clear(); /* it has no type to ask for */
    Py_ssize_t size = 0;
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, &size) : NULL;
    bool whole = !text || size == 0 || text[size - 1] == '8';
    if (!whole) {
        PyErr_Format(PyExc_TypeError, "elements of %s are not recorded", text);
    }
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    return whole;
}

/* The interface of a type; NULL when it has none. Types are remembered, and kept: there are few. */
static const dlpack_exchange *exchange_of(PyObject *type) {
    enum { SLOTS = 8 };
    static struct {
        PyObject *type;
        const dlpack_exchange *exchange;
    } known[SLOTS];
    static unsigned next;
    for (int i = 0; i < SLOTS; i++) {
        if (known[i].type == type) {
            return known[i].exchange;
        }
    }
    const dlpack_exchange *exchange = NULL;
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    if (capsule) {
        exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
        Py_DECREF(capsule);
    }
    PyErr_Clear();
    if (exchange && (exchange->version.major != 1 || !exchange->tensor_from_object)) {
        exchange = NULL;
    }
    Py_INCREF(type);
    Py_XDECREF(known[next].type);
    known[next].type = type;
    known[next].exchange = exchange;
    next = (next + 1) % SLOTS;
    return exchange;
}

/* Takes the capsule over. */
static bool open_capsule(tdpy_array *array, PyObject *capsule) {
    bool good = false;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dlpack_managed_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        (void)PyCapsule_SetName(capsule, "used_dltensor_versioned");
        array->managed = managed;
        array->versioned = true;
        good = managed->version.major == 1 && take_dlpack(array, &managed->tensor);
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        dlpack_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
        (void)PyCapsule_SetName(capsule, "used_dltensor");
        array->managed = managed;
        good = take_dlpack(array, &managed->tensor);
    }
    if (!good && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__ gave what is no DLPack tensor");
    }
    Py_DECREF(capsule);
    return good;
}

/* ---- The buffer protocol -------------------------------------------------------------------- */

/* Who fills in less than was asked for, as ctypes does, means an array in one piece. */
static bool take_buffer(tdpy_array *array) {
    const Py_buffer *b = &array->buffer;
    td_dtype dtype;
    int64_t strides[TD_MAX_RANK];
    if (!check_rank(b->ndim)) {
        return false;
    }
    if (!dtype_of_format(b->format, b->itemsize, &dtype)) {
        PyErr_Format(PyExc_TypeError, "elements of the format '%s' are not recorded",
                     b->format ? b->format : "B");
        return false;
    }
    if (b->suboffsets || (b->ndim > 1 && !b->shape)) {
        PyErr_SetString(PyExc_BufferError, "the array is in several pieces: copy it into one");
        return false;
    }
    array->view = (td_view){.dtype = dtype, .shape.rank = b->ndim, .data = b->buf};
    bool aligned = (uintptr_t)b->buf % (uintptr_t)b->itemsize == 0;
    for (int i = 0; i < b->ndim; i++) {
        array->view.shape.dims[i] = b->shape ? b->shape[i] : b->len / b->itemsize;
        strides[i] = b->strides ? b->strides[i] / b->itemsize : 0;
        aligned = aligned && (!b->strides || b->strides[i] % b->itemsize == 0);
    }
    if (!aligned) {
        PyErr_SetString(PyExc_BufferError, "elements that are not aligned are not recorded");
        return false;
    }
    return take_strides(array, b->strides ? strides : NULL);
}

static bool has(PyObject *object, const char *name) {
    PyObject *found = PyObject_GetAttrString((PyObject *)Py_TYPE(object), name);
    PyErr_Clear();
    Py_XDECREF(found);
    return found != NULL;
}

/* As the array that object says it is; numpy.ndarray, usually. */
static bool open_converted(tdpy_array *array, PyObject *object) {
    PyObject *converted = PyObject_CallMethod(object, "__array__", NULL);
    if (!converted) {
        return false;
    }
    bool good = converted != object && PyObject_CheckBuffer(converted) &&
                PyObject_GetBuffer(converted, &array->buffer, PyBUF_RECORDS_RO) == 0;
    if (good) {
        array->has_buffer = true;
        good = take_buffer(array);
    } else {
        PyErr_Clear(); /* NumPy's ValueError for a type that buffers have not */
        PyErr_SetString(PyExc_TypeError, "__array__ gave what is no array of numbers");
    }
    Py_DECREF(converted);
    return good;
}

/* A tensor of PyTorch may be the negative of what its memory says, which DLPack does not say: then
 * the tensor that has it in memory, else itself. A new reference; NULL with an exception set. */
static PyObject *resolved(PyObject *object) {
    static PyObject *is_neg;
    is_neg = is_neg ? is_neg : PyUnicode_InternFromString("is_neg");
    PyObject *negative = is_neg ? PyObject_CallMethodObjArgs(object, is_neg, NULL) : NULL;
    bool lazily = negative == Py_True;
    Py_XDECREF(negative);
    PyErr_Clear(); /* it has no such thing */
    return lazily ? PyObject_CallMethod(object, "resolve_neg", NULL) : Py_NewRef(object);
}

static bool open_exchanged(tdpy_array *array, PyObject *object, const dlpack_exchange *exchange) {
    dlpack_tensor tensor = {0};
    array->object = resolved(object);
    if (array->object && exchange->tensor_from_object(array->object, &tensor) == 0) {
        return take_dlpack(array, &tensor) && check_whole_bytes(array->object, array);
    }
    Py_CLEAR(array->object);
    PyErr_Clear();
    return false;
}

static bool open_some_way(tdpy_array *array, PyObject *object) {
    const dlpack_exchange *exchange = exchange_of((PyObject *)Py_TYPE(object));
    if (exchange && (open_exchanged(array, object, exchange) || PyErr_Occurred())) {
        return array->object && !PyErr_Occurred();
    }
    if (PyObject_CheckBuffer(object)) {
        if (PyObject_GetBuffer(object, &array->buffer, PyBUF_RECORDS_RO) == 0) {
            array->has_buffer = true;
            return take_buffer(array);
        }
        PyErr_Clear();
    }
    bool converts = has(object, "__array__");
    if (has(object, "__dlpack__")) {
        PyObject *capsule = PyObject_CallMethod(object, "__dlpack__", NULL);
        if (capsule || !converts) {
            return capsule && open_capsule(array, capsule) && check_whole_bytes(object, array);
        }
        PyErr_Clear(); /* of a type that DLPack has not */
    }
    if (converts) {
        return open_converted(array, object);
    }
    PyErr_Format(PyExc_TypeError, "an array is needed, not %R", (PyObject *)Py_TYPE(object));
    return false;
}

bool tdpy_array_open(tdpy_array *array, PyObject *object) {
    memset(array, 0, sizeof *array);
    if (open_some_way(array, object)) {
        return true;
    }
    tdpy_array_close(array);
    return false;
}

void tdpy_array_close(tdpy_array *array) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback); /* deleters may call Python */
    if (array->has_buffer) {
        PyBuffer_Release(&array->buffer);
    }
    if (array->managed && array->versioned) {
        dlpack_managed_versioned *managed = array->managed;
        if (managed->deleter) {
            managed->deleter(managed);
        }
    } else if (array->managed) {
        dlpack_managed *managed = array->managed;
        if (managed->deleter) {
            managed->deleter(managed);
        }
    }
    Py_XDECREF(array->object);
    PyErr_Restore(type, value, traceback);
}

/* ---- Kept ----------------------------------------------------------------------------------- */

/* Pushed by any thread (release: its node is complete before it is seen), taken as a whole by one
 * that holds the GIL (acquire). */
static _Atomic(tdpy_array *) released;

static void release_array(void *owner) {
    tdpy_array *array = owner;
    tdpy_array *first = atomic_load_explicit(&released, memory_order_relaxed);
    do {
        array->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&released, &first, array, memory_order_release,
                                                    memory_order_relaxed));
}

tdpy_array *tdpy_array_keep(const tdpy_array *array, td_view *view) {
    tdpy_array *kept = malloc(sizeof *kept);
    if (!kept) {
        PyErr_NoMemory();
        return NULL;
    }
    *kept = *array;
    *view = array->view;
    view->release = release_array;
    view->owner = kept;
    return kept;
}

void tdpy_array_sweep(void) {
    if (!atomic_load_explicit(&released, memory_order_relaxed)) {
        return;
    }
    tdpy_array *array = atomic_exchange_explicit(&released, NULL, memory_order_acquire);
    while (array) {
        tdpy_array *next = array->next;
        tdpy_array_close(array);
        free(array);
        array = next;
    }
}

/* ---- Numbers -------------------------------------------------------------------------------- */

bool tdpy_number(PyObject *object, double *value) {
    if (!PyFloat_Check(object) && !PyLong_Check(object)) {
        tdpy_array array;
        if (tdpy_array_open(&array, object)) {
            int64_t count;
            td_error error = {0};
            bool one =
                td_shape_check(&array.view.shape, array.view.dtype, &count, &error) == TD_OK &&
                count == 1 && array.view.data;
            if (one) {
                *value = td_view_element(&array.view, 0);
            } else {
                char text[TD_SHAPE_TEXT_SIZE];
                PyErr_Format(PyExc_ValueError, "a number is needed, not an array of shape %s",
                             td_shape_text(&array.view.shape, text));
            }
            tdpy_array_close(&array);
            return one;
        }
        PyErr_Clear();
    }
    *value = PyFloat_AsDouble(object);
    return !(*value == -1.0 && PyErr_Occurred());
}
