/* Deck: opening, tracks, closing, and the type with all its methods. */
#include "deck_object.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Names the launch of processes that a program started itself: by the port that they meet at, and on one machine by
 * their process group, so that an earlier launch on that port is another one. */
static void name_launch(char launch[TD_RANK_TEXT_SIZE], long long world) {
    const char *given = getenv("TAPEDECK_RUN"), *port = getenv("MASTER_PORT");
    const char *address = getenv("MASTER_ADDR");
    bool local = !address || strcmp(address, "localhost") == 0 || strcmp(address, "::1") == 0 ||
                 strncmp(address, "127.", 4) == 0;
    if ((given && *given) || !port) {
        (void)snprintf(launch, TD_RANK_TEXT_SIZE, "%s", given ? given : "");
    } else {
        (void)snprintf(launch, TD_RANK_TEXT_SIZE, "%.100s-%.20s-%lld-%ld", address ? address : "",
                       port, world, local ? (long)getpgrp() : 0L);
    }
}

static int64_t number_in(const char *variable) {
    const char *text = getenv(variable);
    return text ? strtoll(text, NULL, 10) : 0;
}

/* The environment says where the process runs and names the launch; the program knows its rank. */
static void choose_rank(td_rank *identity, char launch[TD_RANK_TEXT_SIZE], long long rank,
                        long long world) {
    if (!td_rank_detect(identity, launch)) {
        name_launch(launch, world);
        *identity = (td_rank){.size = sizeof *identity,
                              .launch = launch,
                              .local_rank = number_in("LOCAL_RANK"),
                              .node = number_in("NODE_RANK")}; /* Lightning's */
    }
    identity->rank = rank;
    identity->world = world;
}

static PyObject *deck_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    static char *keywords[] = {"folder",     "policy",     "queue_bytes",   "history_bytes",
                               "overhead",   "seed",       "stop_on_error", "exact_folder",
                               "resume",     "busy_cores", "environment",   "system_seconds",
                               "diff_bytes", "rank",       "world",         "mesh",
                               "store",      NULL};
    td_deck_options options = {.size = sizeof options};
    PyObject *path;
    const char *policy = "block";
    long long queue = 0, history = 0, resume = 0, cores = 0;
    unsigned long long seed = 0;
    int stop = 0, exact = 0, environment = 1;
    td_rank identity = {.size = sizeof identity};
    char launch[TD_RANK_TEXT_SIZE];
    long long diff = 0, rank = 0, world = 0;
    const char *mesh = NULL;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, names, "O&|sLLdKppLLpdLLLzz", keywords, PyUnicode_FSConverter, &path,
            &policy, &queue, &history, &options.overhead, &seed, &stop, &exact, &resume, &cores,
            &environment, &options.system_seconds, &diff, &rank, &world, &mesh, &options.store)) {
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
        options.no_environment = !environment;
        options.diff_bytes = diff;
        if (world > 1) {
            choose_rank(&identity, launch, rank, world);
            identity.mesh = mesh;
            options.rank = &identity;
        }
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
        tdpy_close_pending(self, false);
    }
    td_deck *deck = self->deck;
    td_error error = {0};
    td_status status = TD_OK;
    self->deck = NULL;
    if (deck && self->forks == tdpy_forks()) {
        Py_BEGIN_ALLOW_THREADS status = close_deck(self, deck, &error);
        Py_END_ALLOW_THREADS tdpy_array_sweep();
        status = tdpy_take_kept(self, status, &error);
    }
    return tdpy_none_or_raise(status, &error);
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
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    PyObject *folder = PyUnicode_DecodeFSDefault(td_deck_folder(self->deck));
    tdpy_leave(self);
    return folder;
}

static PyObject *deck_flush(PyObject *object, PyObject *unused) {
    (void)unused;
    deck_object *self = (deck_object *)object;
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    td_deck *deck = self->deck;
    td_error error = {0};
    td_status status;
    Py_BEGIN_ALLOW_THREADS status = td_deck_flush(deck, &error);
    Py_END_ALLOW_THREADS tdpy_leave(self);
    status = tdpy_take_kept(self, status, &error);
    return tdpy_none_or_raise(status, &error);
}

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
    int entered = tdpy_enter(self);
    td_error error = {0};
    td_status status = TD_OK;
    td_deck *deck = self->deck;
    if (entered == TDPY_ENTERED) {
        Py_BEGIN_ALLOW_THREADS status = td_deck_track_with(deck, &track, &error);
        if (status != TD_OK) {
            tdpy_keep_earlier(self, deck, &error);
        }
        Py_END_ALLOW_THREADS tdpy_leave(self);
    }
    free(steps);
    return entered == TDPY_ENTERED ? tdpy_none_or_raise(status, &error) : tdpy_not_entered(entered);
}

static void add_text(void *list, const char *text) {
    PyObject *item = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (!item || PyList_Append(list, item) != 0) {
        PyErr_Clear();
    }
    Py_XDECREF(item);
}

static PyObject *deck_tracks(PyObject *object, PyObject *unused) {
    (void)unused;
    deck_object *self = (deck_object *)object;
    PyObject *list = PyList_New(0);
    int entered = list ? tdpy_enter(self) : TDPY_CLOSED;
    if (entered == TDPY_ENTERED) {
        td_deck_tracks(self->deck, add_text, list);
        tdpy_leave(self);
    } else if (entered == TDPY_CLOSED) {
        Py_XDECREF(list);
        return NULL;
    }
    return list;
}

static PyObject *deck_warnings(PyObject *object, PyObject *ending) {
    deck_object *self = (deck_object *)object;
    PyObject *list = PyList_New(0);
    int entered = list ? tdpy_enter(self) : TDPY_CLOSED;
    if (entered == TDPY_ENTERED) {
        td_deck_warnings(self->deck, PyObject_IsTrue(ending) == 1, add_text, list);
        tdpy_leave(self);
    } else if (entered == TDPY_CLOSED) {
        Py_XDECREF(list);
        return NULL;
    }
    return list;
}

static PyObject *deck_counters(PyObject *object, PyObject *unused) {
    (void)unused;
    deck_object *self = (deck_object *)object;
    int entered = tdpy_enter(self);
    if (entered != TDPY_ENTERED) {
        return tdpy_not_entered(entered);
    }
    td_deck_counters c = {.size = sizeof c};
    td_deck_count(self->deck, &c);
    tdpy_leave(self);
    return Py_BuildValue("{sLsLsLsLsLsLsLsLsLsLsdsdsdsd}", "submitted", (long long)c.submitted,
                         "written", (long long)c.written, "dropped", (long long)c.dropped,
                         "pending", (long long)c.pending, "failed", (long long)c.failed, "degraded",
                         (long long)c.degraded, "triggers", (long long)c.triggers, "history_lost",
                         (long long)c.history_lost, "steps", (long long)c.steps, "queue_bytes_peak",
                         (long long)c.queue_bytes_peak, "cost_seconds", c.cost_seconds,
                         "wait_seconds", c.wait_seconds, "step_seconds", c.step_seconds,
                         "writer_seconds", c.writer_seconds);
}

bool tdpy_deck_add(PyObject *module) {
    static PyMethodDef deck_methods[] = {
        {"track", TDPY_KEYWORDS(deck_track), METH_VARARGS | METH_KEYWORDS, "td_deck_track_with"},
        {"alert", tdpy_deck_alert, METH_VARARGS, "td_deck_alert"},
        {"tracks", deck_tracks, METH_NOARGS, "td_deck_tracks"},
        {"raise_alert", tdpy_deck_raise, METH_VARARGS, "td_deck_raise"},
        {"signal", TDPY_KEYWORDS(tdpy_deck_signal), METH_VARARGS | METH_KEYWORDS, "td_deck_signal"},
        {"record", TDPY_KEYWORDS(tdpy_deck_record), METH_VARARGS | METH_KEYWORDS, "td_deck_record"},
        {"scalar", tdpy_deck_scalar, METH_VARARGS, "td_deck_scalar"},
        {"scalar_of_epoch", tdpy_deck_scalar_of_epoch, METH_VARARGS, "td_signal_scalar_epoch"},
        {"text", tdpy_deck_text, METH_VARARGS, "td_deck_text"},
        {"picture", tdpy_deck_picture, METH_VARARGS, "td_deck_picture"},
        {"note", tdpy_deck_note, METH_VARARGS, "td_deck_note"},
        {"batch", tdpy_deck_batch, METH_VARARGS, "td_deck_batch_labels"},
        {"begin", tdpy_deck_begin, METH_VARARGS, "td_deck_begin"},
        {"step", tdpy_deck_step, METH_VARARGS, "td_deck_step_with"},
        {"step_later", tdpy_deck_step_later, METH_VARARGS, "step() that end_epoch() may follow"},
        {"end_epoch", tdpy_deck_end_epoch, METH_NOARGS, "Whether a step of step_later() was open."},
        {"due", tdpy_deck_due, METH_O, "td_deck_due"},
        {"wants", tdpy_deck_wants, METH_O, "td_deck_wants"},
        {"wants_any", tdpy_deck_wants_any, METH_O, "Whether one of a list of signals is wanted."},
        {"put_all", tdpy_deck_put_all, METH_VARARGS, "record() of a list of signals"},
        {"flush", deck_flush, METH_NOARGS, "td_deck_flush"},
        {"close", deck_close, METH_NOARGS, "td_deck_close"},
        {"counters", deck_counters, METH_NOARGS, "td_deck_count"},
        {"warnings", deck_warnings, METH_O, "td_deck_warnings: warnings(ending)"},
        {NULL, NULL, 0, NULL},
    };
    static PyGetSetDef deck_values[] = {
        {"folder", deck_folder, NULL, "The folder that was created.", NULL},
        {"layout", NULL, tdpy_deck_set_layout, "Of signals that are declared without one.", NULL},
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
    PyObject *deck = PyType_FromSpec(&deck_spec);
    bool good = deck && PyModule_AddObjectRef(module, "Deck", deck) == 0 && tdpy_signal_add(module);
    Py_XDECREF(deck);
    return good;
}
