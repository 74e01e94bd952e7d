/* Sending what is kept in chunks; see send.h. */
#ifndef TAPEDECK_STORE_SEND_SERIES_H
#define TAPEDECK_STORE_SEND_SERIES_H

#include "store/send.h"

/* Makes the server's chunks of a series those of the store: of the signals that changed, from the step on where they
 * did; with changes NULL wherever a chunk differs. signals: all that the store has. */
TD_NODISCARD td_status td__send_series(td__sender *sender, td__store *from,
                                       const td__pg_series *series, const td__changes *changes,
                                       const int64_t *signals, size_t count, td_error *error);

#endif
