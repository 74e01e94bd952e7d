/* Deck and Signal: a td_deck and its td_signal as Python objects. Shared by the files that implement
 * their methods.
 *
 * A call enters the deck (`users` counts the calls that are inside, some without the GIL) and leaves it. Closing takes the
 * handle away first, waits for those inside and then closes it; a call that is inside without the GIL uses a copy of the
 * handle. In a process that was forked from the deck's own, calls do nothing: threads and locks are the parent's. */
#ifndef TAPEDECK_PYTHON_DECK_OBJECT_H
#define TAPEDECK_PYTHON_DECK_OBJECT_H

#include "native.h"

#include <stdatomic.h>

typedef struct deck_object {
    PyObject_HEAD td_deck *deck; /* NULL once it is closed */
    int forks;
    int64_t last_step;   /* that was closed */
    bool channels_first; /* the layout of signals that have none of their own */
    atomic_int users;
    bool
        pending; /* a step is closed, but it is not known yet whether it is its epoch's last; with the GIL */
    long long pending_epoch, pending_step;
    td_error
        kept; /* an error of the library that was found while another one was raised; flush or close raise it */
} deck_object;

typedef struct signal_object {
    PyObject_HEAD deck_object *owner; /* referenced */
    td_signal *signal;
} signal_object;

/* ---- deck_access.c -------------------------------------------------------------------------- */

/* TDPY_ENTERED: the deck may be used, until other Python may run. TDPY_OTHER_PROCESS: it belongs to the process that this
 * one was forked from. TDPY_CLOSED: an exception is set. */
enum { TDPY_ENTERED = 1, TDPY_OTHER_PROCESS = 0, TDPY_CLOSED = -1 };

/* Closes the pending step. */
void tdpy_close_pending(deck_object *self, bool last);
/* Leaves a pending step as it is. */
int tdpy_check_pending(const deck_object *self);
/* Closes a pending step: what follows is about the step that is open then. */
int tdpy_check_open(deck_object *self);
/* Enters the deck, as the two functions above check it. tdpy_leave follows in the same thread, with no Python of others
 * between them; closing waits for it. */
int tdpy_enter_pending(deck_object *self);
int tdpy_enter(deck_object *self);
void tdpy_leave(deck_object *self);
/* What a call returns that has not entered. */
PyObject *tdpy_not_entered(int entered);
PyObject *tdpy_none_or_raise(td_status status, const td_error *error);
/* A wrong track is an error that flush and close would report again. It is raised now; one that came before it is kept.
 * Without the GIL. */
void tdpy_keep_earlier(deck_object *self, td_deck *deck, const td_error *raised);
/* The error that was kept, when there is no other. */
td_status tdpy_take_kept(deck_object *self, td_status status, td_error *error);

/* ---- signal.c ------------------------------------------------------------------------------- */

PyObject *tdpy_record(deck_object *self, td_signal *signal, PyObject *value, const char *dtype,
                      bool keep);
PyObject *tdpy_deck_signal(PyObject *object, PyObject *arguments, PyObject *names);
PyObject *tdpy_deck_record(PyObject *object, PyObject *arguments, PyObject *names);
PyObject *tdpy_deck_wants_any(PyObject *object, PyObject *list);
PyObject *tdpy_deck_put_all(PyObject *object, PyObject *arguments);
int tdpy_deck_set_layout(PyObject *object, PyObject *value, void *unused);
/* Adds the type Signal. False with an exception set. */
bool tdpy_signal_add(PyObject *module);

/* ---- deck_steps.c --------------------------------------------------------------------------- */

PyObject *tdpy_deck_scalar(PyObject *object, PyObject *arguments);
PyObject *tdpy_deck_scalar_of_epoch(PyObject *object, PyObject *arguments);
PyObject *tdpy_deck_text(PyObject *object, PyObject *arguments);
PyObject *tdpy_deck_picture(PyObject *object, PyObject *arguments);
PyObject *tdpy_deck_note(PyObject *object, PyObject *arguments);
PyObject *tdpy_deck_raise(PyObject *object, PyObject *arguments);
/* A sequence of texts, NULL at the end. The texts belong to *kept, a tuple that the caller releases; the caller frees
 * the words. NULL with an exception set. */
const char **tdpy_read_words(PyObject *sequence, PyObject **kept);
PyObject *tdpy_deck_batch(PyObject *object, PyObject *arguments);
PyObject *tdpy_deck_begin(PyObject *object, PyObject *arguments);
PyObject *tdpy_deck_step(PyObject *object, PyObject *arguments);
PyObject *tdpy_deck_step_later(PyObject *object, PyObject *arguments);
PyObject *tdpy_deck_end_epoch(PyObject *object, PyObject *unused);
PyObject *tdpy_deck_due(PyObject *object, PyObject *argument);
PyObject *tdpy_deck_wants(PyObject *object, PyObject *argument);

/* ---- deck_alert.c --------------------------------------------------------------------------- */

/* alert(when, run, webhook), each of which may be None. */
PyObject *tdpy_deck_alert(PyObject *object, PyObject *arguments);

#define TDPY_KEYWORDS(function) (PyCFunction)(void (*)(void))(function)

#endif
