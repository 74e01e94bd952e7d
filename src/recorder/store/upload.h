/* Sending a run while it is written. A thread of its own reads what has been committed to run.db and sends it; while the
 * server is slow or away, run.db has everything, and the thread tries again. Nobody waits for it before the end. */
#ifndef TAPEDECK_STORE_UPLOAD_H
#define TAPEDECK_STORE_UPLOAD_H

#include "store/store.h"

typedef struct td__upload td__upload;

/* Notes an id in the store, where it has none, and starts. folder: the run's, which stays readable under this path until
 * the end; name: the run's. TD_UNSUPPORTED without the plugin, TD_INVALID for a URL that is none: a server that cannot be
 * reached is no error. */
TD_NODISCARD td_status td__upload_start(td__store *store, const char *url, const char *folder,
                                        const char *name, td__upload **upload, td_error *error);
/* Why nothing can be sent, where that does not pass by itself (a password, a permission), once for each time that it
 * begins; false otherwise. */
bool td__upload_problem(td__upload *upload, td_error *problem);
/* Before the store is closed: reads no more for now. */
void td__upload_pause(td__upload *upload);
/* After it was closed: sends the rest, for as long as seconds, and ends. False with what keeps it from being sent; run.db
 * has everything. Accepts NULL. */
bool td__upload_finish(td__upload *upload, double seconds, td_error *problem);

#endif
