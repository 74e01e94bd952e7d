/* Which sinks a track goes to, and whether they can write what it asks for: used by the deck and
 * by checks of a track before a deck exists. */
#ifndef TAPEDECK_DECK_ROUTE_H
#define TAPEDECK_DECK_ROUTE_H

#include "deck/snapshot.h"

/* Chooses among classes (NULL at the end, at most TD__SINKS) those that `to` names, separated by
 * commas, or without one the default sinks that can write a requested form. TD_NOT_FOUND for a name
 * that is no sink's; TD_INVALID for a sink that can write none of the forms, or a form that none of
 * the sinks can write: the error text lists what they can write. */
TD_NODISCARD td_status td__route(const td_sink_class *const *classes, uint32_t form, const char *to,
                                 bool chosen[TD__SINKS], td_error *error);
/* What a sink that was chosen gets of tensors. */
static inline uint32_t td__route_forms(const td_sink_class *class, uint32_t form) {
    return (form ? form : class->default_forms) & class->forms;
}

#endif
