/* The folder of a run: created, never taken over. */
#ifndef TAPEDECK_DECK_FOLDER_H
#define TAPEDECK_DECK_FOLDER_H

#include "tapedeck/base.h"

/* Creates folder, or folder-2, folder-3, … when that exists (TD_EXISTS instead when exact), and
 * missing folders above it. Creating is what claims it: of two processes, one creates and the
 * other goes on to the next name. *claimed is the caller's (td__free). */
td_status td__folder_claim(const char *folder, bool exact, char **claimed, td_error *error);
/* Removes a claimed folder in which nothing was written. */
void td__folder_disclaim(const char *folder);

#endif
