/* Deck and Signal: a td_deck and its td_signal as Python objects.
 *
 * A call enters the deck (users counts those that are inside, some without the GIL) and leaves it.
 * Closing takes the handle away first, waits for those inside and then closes it; who is inside
 * without the GIL uses a handle of its own. In a process that
 * was forked from the deck's own its calls do nothing: threads and locks are the parent's. */
#include "native.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct deck_object {
    PyObject_HEAD td_deck *deck; /* NULL once it is closed */
    int forks;
    int64_t last_step;   /* that was closed */
    bool channels_first; /* of signals that say nothing of it */
    atomic_int users;
    bool
        pending; /* a step is closed but for the word whether it is its epoch's last; with the GIL */
    long long pending_epoch, pending_step;
    td_error kept; /* of the library's, met while another was looked for; flush or close raise it */
} deck_object;

typedef struct signal_object {
    PyObject_HEAD deck_object *owner; /* referenced */
    td_signal *signal;
} signal_object;

static PyTypeObject *signal_type;

/* Memory beyond this is read without the GIL. */
enum { WORTH_RELEASING = 64 << 10 };

enum { ENTERED = 1, ELSEWHERE = 0, CLOSED = -1 };

/* Closes the pending step. */
static void settle(deck_object *self, bool last) {
    td_deck *deck = self->deck;
    long long epoch = self->pending_epoch, step = self->pending_step;
    td_status status;
    self->pending = false;
    atomic_fetch_add(&self->users, 1);
    Py_BEGIN_ALLOW_THREADS status = td_deck_step_with(deck, epoch, step, last);
    Py_END_ALLOW_THREADS atomic_fetch_sub(&self->users, 1);
    if (status != TD_OK && self->kept.status == TD_OK) {
        (void)td_error_set(&self->kept, status, "step %lld: %s", step, td_status_text(status));
    }
}

/* ENTERED: the deck may be used, until other Python may run. ELSEWHERE: another process's deck. CLOSED:
 * an exception is set. Leaves a pending step as it is. */
static int check_pending(const deck_object *self) {
    if (self->forks != tdpy_forks()) {
        return ELSEWHERE;
    }
    if (!self->deck) {
        PyErr_SetString(PyExc_ValueError, "the deck is finished");
        return CLOSED;
    }
    return ENTERED;
}

/* The same; what follows is about the step that is open then. */
static int check_open(deck_object *self) {
    int there = check_pending(self);
    if (there == ENTERED && self->pending) {
        settle(self, false);
        there = check_pending(self); /* settling releases the GIL */
    }
    return there;
}

/* Enters the deck: leave() follows, in the same thread without any Python that is not ours between them;
 * closing waits for it. */
static int enter_pending(deck_object *self) {
    int there = check_pending(self);
    if (there == ENTERED) {
        atomic_fetch_add(&self->users, 1);
    }
    return there;
}

static int enter(deck_object *self) {
    int there = check_open(self);
    if (there == ENTERED) {
        atomic_fetch_add(&self->users, 1);
    }
    return there;
}

static void leave(deck_object *self) {
    atomic_fetch_sub(&self->users, 1);
}

/* What a call returns that has not entered. */
static PyObject *outside(int entered) {
    return entered == CLOSED ? NULL : Py_NewRef(Py_None);
}

static PyObject *none_or_raise(td_status status, const td_error *error) {
    if (status == TD_OK) {
        return Py_NewRef(Py_None);
    }
    return error && *error->text ? tdpy_raise(error)
                                 : tdpy_raise_status(status, td_status_text(status));
}

/* A wrong track is an error that flush and close would tell of again. It is raised now; one that
 * came before it is kept. Without the GIL. */
static void forget(deck_object *self, td_deck *deck, const td_error *raised) {
    td_error first = {0};
    if (td_deck_flush(deck, &first) != TD_OK && strcmp(first.text, raised->text) != 0) {
        self->kept = first;
    }
}

/* What was kept, when there is nothing else. */
static td_status recall(deck_object *self, td_status status, td_error *error) {
    if (status == TD_OK && self->kept.status != TD_OK) {
        *error = self->kept;
        self->kept = (td_error){0};
        return error->status;
    }
    return status;
}

/* ---- Recording ------------------------------------------------------------------------------ */

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
static PyObject *record(deck_object *self, td_signal *signal, PyObject *value, const char *dtype,
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
    int entered = enter(self);
    if (entered == ENTERED) {
        status = record_array(signal, &array, view, &error);
        leave(self);
    } else if (keep) {
        view.release(view.owner);
    }
    if (!keep) {
        tdpy_array_close(&array);
    }
    return entered == ENTERED ? none_or_raise(status, &error) : outside(entered);
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
    int there = check_open(self->owner);
    return there == ENTERED ? record(self->owner, self->signal, value, dtype, keep)
                            : outside(there);
}

/* record(value) without keywords: the way of hooks. */
static PyObject *signal_call(PyObject *object, PyObject *value) {
    signal_object *self = (signal_object *)object;
    int there = check_open(self->owner);
    return there == ENTERED ? record(self->owner, self->signal, value, NULL, false)
                            : outside(there);
}

static PyObject *signal_wants(PyObject *object, PyObject *unused) {
    (void)unused;
    signal_object *self = (signal_object *)object;
    bool alive = self->owner->deck && self->owner->forks == tdpy_forks();
    if (alive && self->owner->pending) {
        settle(self->owner, false);
        alive = self->owner->deck != NULL;
    }
    return PyBool_FromLong(alive && td_signal_wants(self->signal));
}

static void signal_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    Py_DECREF(((signal_object *)object)->owner);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- Deck: making and ending ---------------------------------------------------------------- */

static bool find_policy(const char *name, td_policy *policy) {
    static const char *const names[] = {"block", "drop", "degrade"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            *policy = (td_policy)i;
            return true;
        }
    }
    PyErr_Format(PyExc_ValueError, "policy is block, drop or degrade, not '%s'", name);
    return false;
}

static PyObject *deck_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {
        "folder",        "policy",       "queue_bytes", "history_bytes", "overhead", "seed",
        "stop_on_error", "exact_folder", "resume",      "busy_cores",    NULL};
    td_deck_options options = {.size = sizeof options};
    PyObject *path;
    const char *policy = "block";
    long long queue = 0, history = 0, resume = 0, cores = 0;
    unsigned long long seed = 0;
    int stop = 0, exact = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|sLLdKppLL", keywords,
                                     PyUnicode_FSConverter, &path, &policy, &queue, &history,
                                     &options.overhead, &seed, &stop, &exact, &resume, &cores)) {
        return NULL;
    }
    deck_object *self = NULL;
    if (find_policy(policy, &options.policy)) {
        options.queue_bytes = queue;
        options.history_bytes = history;
        options.seed = seed;
        options.stop_on_error = stop;
        options.exact_folder = exact;
        options.resume = resume;
        options.busy_cores = cores;
        allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
        self = (deck_object *)allocate(type, 0);
    }
    if (self) {
        td_error error = {0};
        const char *folder = PyBytes_AsString(path);
        atomic_init(&self->users, 0);
        self->forks = tdpy_forks();
        self->last_step = resume > 0 ? resume : 0;
        Py_BEGIN_ALLOW_THREADS self->deck = td_deck_open_with(folder, &options, &error);
        Py_END_ALLOW_THREADS if (!self->deck) {
            Py_DECREF(self);
            self = NULL;
            tdpy_raise(&error);
        }
    }
    Py_DECREF(path);
    return (PyObject *)self;
}

/* Without the GIL: those inside may need it to leave. */
static td_status close_deck(deck_object *self, td_deck *deck, td_error *error) {
    while (atomic_load(&self->users) > 0) {
        usleep(100);
    }
    return td_deck_close(deck, error);
}

static PyObject *deck_close(PyObject *object, PyObject *unused) {
    (void)unused;
    deck_object *self = (deck_object *)object;
    if (self->pending && self->deck && self->forks == tdpy_forks()) {
        settle(self, false);
    }
    td_deck *deck = self->deck;
    td_error error = {0};
    td_status status = TD_OK;
    self->deck = NULL;
    if (deck && self->forks == tdpy_forks()) {
        Py_BEGIN_ALLOW_THREADS status = close_deck(self, deck, &error);
        Py_END_ALLOW_THREADS tdpy_array_sweep();
        status = recall(self, status, &error);
    }
    return none_or_raise(status, &error);
}

static void deck_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    Py_XDECREF(deck_close(object, NULL));
    PyErr_Clear(); /* whoever wants to know of errors closes it */
    PyErr_Restore(kind, value, traceback);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *deck_folder(PyObject *object, void *unused) {
    (void)unused;
    deck_object *self = (deck_object *)object;
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    PyObject *folder = PyUnicode_DecodeFSDefault(td_deck_folder(self->deck));
    leave(self);
    return folder;
}

static PyObject *deck_flush(PyObject *object, PyObject *unused) {
    (void)unused;
    deck_object *self = (deck_object *)object;
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    td_deck *deck = self->deck;
    td_error error = {0};
    td_status status;
    Py_BEGIN_ALLOW_THREADS status = td_deck_flush(deck, &error);
    Py_END_ALLOW_THREADS leave(self);
    status = recall(self, status, &error);
    return none_or_raise(status, &error);
}

/* ---- Deck: tracks and signals --------------------------------------------------------------- */

/* A sequence of ints; the caller frees *steps. */
static bool read_steps(PyObject *sequence, int64_t **steps, size_t *count) {
    Py_ssize_t size = PySequence_Size(sequence);
    if (size < 0) {
        return false;
    }
    *steps = calloc((size_t)size + 1, sizeof **steps);
    if (!*steps) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        (*steps)[i] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) {
            return false;
        }
    }
    *count = (size_t)size;
    return true;
}

static PyObject *deck_track(PyObject *object, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {"what", "every",   "every_epochs", "at", "start",   "end", "sample",
                               "when", "history", "form",         "to", "metrics", NULL};
    deck_object *self = (deck_object *)object;
    td_track track = {.size = sizeof track};
    long long every = 0, epochs = 0, start = 0, end = 0, sample = 0, history = 0;
    PyObject *at = Py_None;
    unsigned form = 0;
    int metrics = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "z|LLOLLLzLIzp", keywords, &track.what,
                                     &every, &epochs, &at, &start, &end, &sample, &track.when,
                                     &history, &form, &track.to, &metrics)) {
        return NULL;
    }
    int64_t *steps = NULL;
    if (at != Py_None && !read_steps(at, &steps, &track.at.count)) {
        free(steps);
        return NULL;
    }
    track.at.steps = steps;
    track.every = every;
    track.every_epochs = epochs;
    track.start = start;
    track.end = end;
    track.sample = sample;
    track.history = history;
    track.form = form;
    track.metrics = metrics;
    int entered = enter(self);
    td_error error = {0};
    td_status status = TD_OK;
    td_deck *deck = self->deck;
    if (entered == ENTERED) {
        Py_BEGIN_ALLOW_THREADS status = td_deck_track_with(deck, &track, &error);
        if (status != TD_OK) {
            forget(self, deck, &error);
        }
        Py_END_ALLOW_THREADS leave(self);
    }
    free(steps);
    return entered == ENTERED ? none_or_raise(status, &error) : outside(entered);
}

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

static int deck_set_layout(PyObject *object, PyObject *value, void *unused) {
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

static PyObject *deck_signal(PyObject *object, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {"name",    "kind",   "layer", "parameter", "order",
                               "batched", "better", "rank",  "layout",    NULL};
    deck_object *self = (deck_object *)object;
    td_signal_info info = {.size = sizeof info};
    const char *name, *kind = NULL, *better = NULL, *layout = NULL;
    long long order = 0;
    int batched = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "s|zzzLpziz", keywords, &name, &kind,
                                     &info.layer, &info.parameter, &order, &batched, &better,
                                     &info.rank, &layout)) {
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
    if ((kind && !find_kind(kind, &info.kind)) || (better && !find_better(better, &info.better)) ||
        (layout && !find_layout(layout, &info.channels_first, &info.batched))) {
        return NULL;
    }
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    bool says = kind || info.channels_first || layout;
    td_signal *signal =
        says ? td_deck_signal_with(self->deck, name, &info) : td_deck_signal(self->deck, name);
    leave(self);
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

/* ---- Deck: steps ---------------------------------------------------------------------------- */

static PyObject *deck_record(PyObject *object, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {"name", "value", "dtype", "keep", NULL};
    deck_object *self = (deck_object *)object;
    PyObject *value;
    const char *name, *dtype = NULL;
    int keep = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "sO|zp", keywords, &name, &value, &dtype,
                                     &keep)) {
        return NULL;
    }
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    td_signal *signal = td_deck_signal(self->deck, name);
    leave(self);
    return signal ? record(self, signal, value, dtype, keep) : PyErr_NoMemory();
}

static PyObject *deck_scalar(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    const char *name;
    PyObject *value;
    double number;
    if (!PyArg_ParseTuple(arguments, "sO", &name, &value) || !tdpy_number(value, &number)) {
        return NULL;
    }
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    td_status status = td_deck_scalar(self->deck, name, number);
    leave(self);
    return none_or_raise(status, NULL);
}

static PyObject *deck_scalar_of_epoch(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    const char *name;
    PyObject *value;
    double number;
    if (!PyArg_ParseTuple(arguments, "sO", &name, &value) || !tdpy_number(value, &number)) {
        return NULL;
    }
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    td_signal *signal = td_deck_signal(self->deck, name);
    td_status status = signal ? td_signal_scalar_epoch(signal, number) : TD_MEMORY;
    leave(self);
    return none_or_raise(status, NULL);
}

static PyObject *two_texts(PyObject *object, PyObject *arguments,
                           td_status (*function)(td_deck *, const char *, const char *)) {
    deck_object *self = (deck_object *)object;
    const char *name, *text;
    if (!PyArg_ParseTuple(arguments, "ss", &name, &text)) {
        return NULL;
    }
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    td_deck *deck = self->deck;
    td_status status;
    Py_BEGIN_ALLOW_THREADS status = function(deck, name, text);
    Py_END_ALLOW_THREADS leave(self);
    return none_or_raise(status, NULL);
}

static PyObject *deck_text(PyObject *object, PyObject *arguments) {
    return two_texts(object, arguments, td_deck_text);
}

static PyObject *deck_picture(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    const char *name, *png;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "sy#", &name, &png, &size)) {
        return NULL;
    }
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    td_deck *deck = self->deck;
    td_status status;
    Py_BEGIN_ALLOW_THREADS status = td_deck_picture(deck, name, png, (size_t)size);
    Py_END_ALLOW_THREADS leave(self);
    return none_or_raise(status, NULL);
}

static void add_warning(void *list, const char *text) {
    PyObject *item = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (!item || PyList_Append(list, item) != 0) {
        PyErr_Clear();
    }
    Py_XDECREF(item);
}

static PyObject *deck_warnings(PyObject *object, PyObject *ending) {
    deck_object *self = (deck_object *)object;
    PyObject *list = PyList_New(0);
    int entered = list ? enter(self) : CLOSED;
    if (entered == ENTERED) {
        td_deck_warnings(self->deck, PyObject_IsTrue(ending) == 1, add_warning, list);
        leave(self);
    } else if (entered == CLOSED) {
        Py_XDECREF(list);
        return NULL;
    }
    return list;
}

static PyObject *deck_note(PyObject *object, PyObject *arguments) {
    return two_texts(object, arguments, td_deck_note);
}

static PyObject *deck_batch(PyObject *object, PyObject *arguments) {
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
    int entered = CLOSED;
    if (row_array.view.dtype != TD_INT64 || row_array.view.shape.rank != 1) {
        PyErr_SetString(PyExc_TypeError, "rows is a one-dimensional array of int64");
    } else {
        entered = enter(self);
    }
    if (entered == ENTERED) {
        status = td_view_pack(&row_array.view, row_array.strides, &packed, &error);
        if (status == TD_OK && labels != Py_None) {
            status = td_view_pack(&label_array.view, label_array.strides, &packed_labels, &error);
        }
        if (status == TD_OK) {
            status = td_deck_batch_labels(self->deck, packed.data, packed.shape.dims[0],
                                          labels != Py_None ? &packed_labels : NULL);
        }
        leave(self);
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
    return entered == ENTERED ? none_or_raise(status, &error) : outside(entered);
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

static PyObject *moment(PyObject *object, PyObject *arguments,
                        td_status (*function)(td_deck *, int64_t, int64_t, bool)) {
    deck_object *self = (deck_object *)object;
    long long epoch, step;
    int last = 0;
    if (!PyArg_ParseTuple(arguments, "LL|p", &epoch, &step, &last)) {
        return NULL;
    }
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    if (!check_grows(self, step)) {
        leave(self);
        return NULL;
    }
    td_deck *deck = self->deck;
    td_status status;
    Py_BEGIN_ALLOW_THREADS status = function(deck, epoch, step, last);
    Py_END_ALLOW_THREADS if (function == td_deck_step_with) {
        self->last_step = step;
    }
    leave(self);
    tdpy_array_sweep();
    return none_or_raise(status, NULL);
}

static PyObject *deck_begin(PyObject *object, PyObject *arguments) {
    return moment(object, arguments, td_deck_begin);
}

static PyObject *deck_step(PyObject *object, PyObject *arguments) {
    return moment(object, arguments, td_deck_step_with);
}

/* step_later(epoch, step): closes the step, but for the word whether it is its epoch's last: end_epoch()
 * says that it is, any other call but due() that it is not. */
static PyObject *deck_step_later(PyObject *object, PyObject *arguments) {
    deck_object *self = (deck_object *)object;
    long long epoch, step;
    if (!PyArg_ParseTuple(arguments, "LL", &epoch, &step)) {
        return NULL;
    }
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    bool grows = check_grows(self, step);
    if (grows) {
        self->pending = true;
        self->pending_epoch = epoch;
        self->pending_step = self->last_step = step;
    }
    leave(self);
    return grows ? Py_NewRef(Py_None) : NULL;
}

static PyObject *deck_end_epoch(PyObject *object, PyObject *unused) {
    (void)unused;
    deck_object *self = (deck_object *)object;
    int entered = enter_pending(self);
    if (entered != ENTERED) {
        return entered == CLOSED ? NULL : Py_NewRef(Py_False);
    }
    bool pending = self->pending;
    if (pending) {
        settle(self, true);
    }
    leave(self);
    return PyBool_FromLong(pending);
}

static PyObject *deck_due(PyObject *object, PyObject *argument) {
    deck_object *self = (deck_object *)object;
    long long step = PyLong_AsLongLong(argument);
    if (step == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int entered = enter_pending(self);
    if (entered != ENTERED) {
        return entered == CLOSED ? NULL : Py_NewRef(Py_False);
    }
    bool due = td_deck_due(self->deck, step);
    leave(self);
    return PyBool_FromLong(due);
}

static PyObject *deck_wants(PyObject *object, PyObject *argument) {
    deck_object *self = (deck_object *)object;
    PyObject *bytes = PyUnicode_AsUTF8String(argument);
    if (!bytes) {
        return NULL;
    }
    int entered = enter(self);
    bool wants = false;
    if (entered == ENTERED) {
        wants = td_deck_wants(self->deck, PyBytes_AsString(bytes));
        leave(self);
    }
    Py_DECREF(bytes);
    return entered == CLOSED ? NULL : PyBool_FromLong(wants);
}

static PyObject *deck_wants_any(PyObject *object, PyObject *list) {
    deck_object *self = (deck_object *)object;
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "a list is needed");
        return NULL;
    }
    int entered = enter(self);
    if (entered != ENTERED) {
        return entered == CLOSED ? NULL : Py_NewRef(Py_False);
    }
    bool wants = false;
    Py_ssize_t size = PyList_Size(list);
    for (Py_ssize_t i = 0; i < size && !wants; i++) {
        PyObject *item = PyList_GetItem(list, i);
        wants = Py_IS_TYPE(item, signal_type) && td_signal_wants(((signal_object *)item)->signal);
    }
    leave(self);
    return PyBool_FromLong(wants);
}

/* put_all(signals, values): each signal's put(value), in one call. Returns a list of the indexes of values that could
 * not be recorded; values that are None are skipped. */
static PyObject *deck_put_all(PyObject *object, PyObject *arguments) {
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
    int there = failed ? check_open(self) : CLOSED;
    bool good = there != CLOSED;
    for (Py_ssize_t i = 0; good && i < PyList_Size(signals) && i < PyList_Size(values); i++) {
        if (check_pending(self) != ENTERED) { /* closed by another thread while recording */
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
            result = record(self, ((signal_object *)signal)->signal, value, NULL, false);
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

static PyObject *deck_counters(PyObject *object, PyObject *unused) {
    (void)unused;
    deck_object *self = (deck_object *)object;
    int entered = enter(self);
    if (entered != ENTERED) {
        return outside(entered);
    }
    td_deck_counters c = {.size = sizeof c};
    td_deck_count(self->deck, &c);
    leave(self);
    return Py_BuildValue("{sLsLsLsLsLsLsLsLsLsLsdsdsdsd}", "submitted", (long long)c.submitted,
                         "written", (long long)c.written, "dropped", (long long)c.dropped,
                         "pending", (long long)c.pending, "failed", (long long)c.failed, "degraded",
                         (long long)c.degraded, "triggers", (long long)c.triggers, "history_lost",
                         (long long)c.history_lost, "steps", (long long)c.steps, "queue_bytes_peak",
                         (long long)c.queue_bytes_peak, "cost_seconds", c.cost_seconds,
                         "wait_seconds", c.wait_seconds, "step_seconds", c.step_seconds,
                         "writer_seconds", c.writer_seconds);
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function)

bool tdpy_deck_add(PyObject *module) {
    static PyMethodDef deck_methods[] = {
        {"track", KEYWORDS(deck_track), METH_VARARGS | METH_KEYWORDS, "td_deck_track_with"},
        {"signal", KEYWORDS(deck_signal), METH_VARARGS | METH_KEYWORDS, "td_deck_signal"},
        {"record", KEYWORDS(deck_record), METH_VARARGS | METH_KEYWORDS, "td_deck_record"},
        {"scalar", deck_scalar, METH_VARARGS, "td_deck_scalar"},
        {"scalar_of_epoch", deck_scalar_of_epoch, METH_VARARGS, "td_signal_scalar_epoch"},
        {"text", deck_text, METH_VARARGS, "td_deck_text"},
        {"picture", deck_picture, METH_VARARGS, "td_deck_picture"},
        {"note", deck_note, METH_VARARGS, "td_deck_note"},
        {"batch", deck_batch, METH_VARARGS, "td_deck_batch_labels"},
        {"begin", deck_begin, METH_VARARGS, "td_deck_begin"},
        {"step", deck_step, METH_VARARGS, "td_deck_step_with"},
        {"step_later", deck_step_later, METH_VARARGS, "step() that end_epoch() may follow"},
        {"end_epoch", deck_end_epoch, METH_NOARGS, "Whether a step of step_later() was open."},
        {"due", deck_due, METH_O, "td_deck_due"},
        {"wants", deck_wants, METH_O, "td_deck_wants"},
        {"wants_any", deck_wants_any, METH_O, "Whether one of a list of signals is wanted."},
        {"put_all", deck_put_all, METH_VARARGS, "record() of a list of signals"},
        {"flush", deck_flush, METH_NOARGS, "td_deck_flush"},
        {"close", deck_close, METH_NOARGS, "td_deck_close"},
        {"counters", deck_counters, METH_NOARGS, "td_deck_count"},
        {"warnings", deck_warnings, METH_O, "td_deck_warnings: warnings(ending)"},
        {NULL, NULL, 0, NULL},
    };
    static PyGetSetDef deck_values[] = {
        {"folder", deck_folder, NULL, "The folder that was created.", NULL},
        {"layout", NULL, deck_set_layout, "Of signals that are declared without one.", NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    static PyType_Slot deck_slots[] = {
        {Py_tp_new, deck_new},
        {Py_tp_dealloc, deck_dealloc},
        {Py_tp_methods, deck_methods},
        {Py_tp_getset, deck_values},
        {0, NULL},
    };
    static PyType_Spec deck_spec = {"tapedeck._native.Deck", sizeof(deck_object), 0,
                                    Py_TPFLAGS_DEFAULT, deck_slots};
    static PyMethodDef signal_methods[] = {
        {"record", KEYWORDS(signal_record), METH_VARARGS | METH_KEYWORDS, "td_signal_record"},
        {"put", signal_call, METH_O, "record(value)"},
        {"wants", signal_wants, METH_NOARGS, "td_signal_wants"},
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
    PyObject *deck = PyType_FromSpec(&deck_spec);
    PyObject *signal = PyType_FromSpec(&signal_spec);
    bool good = deck && signal && PyModule_AddObjectRef(module, "Deck", deck) == 0 &&
                PyModule_AddObjectRef(module, "Signal", signal) == 0;
    signal_type = (PyTypeObject *)signal;
    Py_XDECREF(deck);
    return good;
}
