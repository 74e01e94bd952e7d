/* Which sinks a track goes to, and whether they can write what it asks for: worked out here for the
 * deck, and for whoever checks a track before there is one. */
#ifndef TAPEDECK_DECK_ROUTE_H
#define TAPEDECK_DECK_ROUTE_H

#include "deck/snapshot.h"

/* Chooses among classes (NULL at the end, at most TD__SINKS) those that `to` names, separated by
 * commas, or without one the standard ones that can write a form asked for. TD_NOT_FOUND for a name
 * that is no sink's; TD_INVALID for a sink that can write none of the forms, or a form that none of
 * the sinks can write: the text says what they can. */
TD_NODISCARD td_status td__route(const td_sink_class *const *classes, uint32_t form, const char *to,
                                 bool chosen[TD__SINKS], td_error *error);
/* What a sink that was chosen gets of tensors. */
static inline uint32_t td__route_forms(const td_sink_class *class, uint32_t form) {
    return (form ? form : class->default_forms) & class->forms;
}

#endif
