/* Entering and leaving a deck, and the errors that it keeps. */
#include "deck_object.h"

#include <string.h>

void tdpy_close_pending(deck_object *self, bool last) {
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

int tdpy_check_pending(const deck_object *self) {
    if (self->forks != tdpy_forks()) {
        return TDPY_OTHER_PROCESS;
    }
    if (!self->deck) {
        PyErr_SetString(PyExc_ValueError, "the deck is finished");
        return TDPY_CLOSED;
    }
    return TDPY_ENTERED;
}

int tdpy_check_open(deck_object *self) {
    int there = tdpy_check_pending(self);
    if (there == TDPY_ENTERED && self->pending) {
        tdpy_close_pending(self, false);
        there = tdpy_check_pending(self); /* settling releases the GIL */
    }
    return there;
}

int tdpy_enter_pending(deck_object *self) {
    int there = tdpy_check_pending(self);
    if (there == TDPY_ENTERED) {
        atomic_fetch_add(&self->users, 1);
    }
    return there;
}

int tdpy_enter(deck_object *self) {
    int there = tdpy_check_open(self);
    if (there == TDPY_ENTERED) {
        atomic_fetch_add(&self->users, 1);
    }
    return there;
}

void tdpy_leave(deck_object *self) {
    atomic_fetch_sub(&self->users, 1);
}

PyObject *tdpy_not_entered(int entered) {
    return entered == TDPY_CLOSED ? NULL : Py_NewRef(Py_None);
}

PyObject *tdpy_none_or_raise(td_status status, const td_error *error) {
    if (status == TD_OK) {
        return Py_NewRef(Py_None);
    }
    return error && *error->text ? tdpy_raise(error)
                                 : tdpy_raise_status(status, td_status_text(status));
}

void tdpy_keep_earlier(deck_object *self, td_deck *deck, const td_error *raised) {
    td_error first = {0};
    if (td_deck_flush(deck, &first) != TD_OK && strcmp(first.text, raised->text) != 0) {
        self->kept = first;
    }
}

td_status tdpy_take_kept(deck_object *self, td_status status, td_error *error) {
    if (status == TD_OK && self->kept.status != TD_OK) {
        *error = self->kept;
        self->kept = (td_error){0};
        return error->status;
    }
    return status;
}

/* ---- Recording ------------------------------------------------------------------------------ */
