/* Files beside run.db that hold a run's tensors and pictures, kept in a database in pieces where its URL asks for that
 * (tensors=database). */
#ifndef TAPEDECK_STORE_PG_FILES_H
#define TAPEDECK_STORE_PG_FILES_H

#include "store/send.h"

/* Makes the server's pieces those of the files in folder. whole: all are compared with what the server has; otherwise only
 * files that have changed since the last call are looked into. */
TD_NODISCARD td_status td__send_files(td__sender *sender, td__store *from, const char *folder,
                                      bool whole, td_error *error);
void td__sent_files_release(td__sender *sender);

#endif
